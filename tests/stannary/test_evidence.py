"""Evidence files: one spelling, bound to the vote by their root, refused when they are anything else."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stannary.documents import canonical
from stannary.errors import Malformed
from stannary.evidence import EvidenceFile, LeafEvidence, Measure, evidence_root
from stannary.merkle import merkle_root
from stannary.types import Hash, Outcome, Reason, parse_address

LEAVES = st.lists(
    st.builds(
        LeafEvidence,
        leaf_hash=st.binary(min_size=32, max_size=32).map(Hash),
        outcome=st.sampled_from(Outcome),
        reason=st.sampled_from(Reason),
        explanation=st.text(max_size=40),
        measures=st.dictionaries(
            st.text(max_size=8), st.builds(Measure.of, st.floats(), st.none() | st.floats(-1e9, 1e9)), max_size=3
        ),
        rewards=st.lists(st.floats(0, 1), max_size=4).map(tuple),
    ),
    min_size=1,
    max_size=4,
)


def file_of(leaves: list[LeafEvidence]) -> EvidenceFile:
    return EvidenceFile(1, 2, 1, parse_address("0x" + "11" * 20), Hash(b"\x01" * 32), "test", tuple(leaves))


@given(LEAVES)
def test_evidence_reads_what_it_wrote(leaves: list[LeafEvidence]) -> None:
    file = file_of(leaves)
    assert EvidenceFile.parse(file.to_bytes()) == file
    assert file.root() == evidence_root(leaves) == merkle_root([leaf.hash() for leaf in leaves])


def test_measure_that_is_not_finite_has_no_number() -> None:
    assert Measure.of(math.inf, 3) == Measure(None, 3.0)
    assert Measure.of(math.nan) == Measure(None, None)


@given(st.binary(max_size=200))
def test_evidence_of_any_bytes_is_refused_not_crashed(data: bytes) -> None:
    with pytest.raises(Malformed):
        EvidenceFile.parse(data)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("pool", -1),
        ("pool", 1 << 63),
        ("step", 1 << 64),
        ("policy_step", 1 << 32),
        ("pool", "1"),
        ("node", "0x00"),
        ("card_hash", "0x"),
        ("leaves", [{}]),
        ("leaves", 5),
        ("extra", 1),
        ("format", "stannary.evidence.v2"),
    ],
)
def test_evidence_with_a_wrong_field_is_refused(field: str, value: object) -> None:
    leaf = LeafEvidence(Hash(b"\x02" * 32), Outcome.ACCEPT, Reason.NONE, "", {}, (0.5,))
    document: dict[str, Any] = json.loads(file_of([leaf]).to_bytes())
    document[field] = value
    with pytest.raises(Malformed):
        EvidenceFile.parse(canonical(document))


def test_evidence_in_another_spelling_is_refused() -> None:
    leaf = LeafEvidence(Hash(b"\x02" * 32), Outcome.ACCEPT, Reason.NONE, "", {}, ())
    data = file_of([leaf]).to_bytes()
    with pytest.raises(Malformed, match="canonical"):
        EvidenceFile.parse(data.replace(b",", b", ", 1))
