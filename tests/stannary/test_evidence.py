"""Evidence files: one spelling, bound to the vote by their root, refused when they are anything else."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stannary.documents import canonical
from stannary.errors import Malformed
from stannary.evidence import MAX_MEASURES, MAX_REWARDS, EvidenceFile, LeafEvidence, Measure, evidence_root
from stannary.merkle import merkle_root
from stannary.types import Hash, Outcome, Reason, parse_address
from stannary.wire import MAX_LEAVES

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


BLANK = LeafEvidence(Hash(b"\x02" * 32), Outcome.ACCEPT, Reason.NONE, "", {}, ())


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
    data = file_of([BLANK]).to_bytes()
    with pytest.raises(Malformed, match="canonical"):
        EvidenceFile.parse(data.replace(b",", b", ", 1))


def test_evidence_of_more_than_a_step_can_have_is_refused() -> None:
    """Before anything is made of it: each entry costs its reader far more than its bytes."""
    full = replace(
        BLANK,
        measures={f"m{place}": Measure.of(0.5) for place in range(MAX_MEASURES)},
        rewards=(0.5,) * MAX_REWARDS,
    )
    most = file_of([BLANK] * (MAX_LEAVES - 1) + [full])
    assert EvidenceFile.parse(most.to_bytes()) == most
    long = [
        ("leaves", [BLANK] * (MAX_LEAVES + 1)),
        ("measures", [replace(full, measures={**full.measures, "more": Measure.of(0.5)})]),
        ("rewards", [replace(full, rewards=(*full.rewards, 0.5))]),
    ]
    for field, leaves in long:
        with pytest.raises(Malformed, match=f"{field}: expected at most"):
            EvidenceFile.parse(file_of(leaves).to_bytes())


def test_evidence_of_more_leaves_than_its_reader_allows_is_refused() -> None:
    file = file_of([BLANK] * 3)
    assert EvidenceFile.parse(file.to_bytes(), 3) == file
    with pytest.raises(Malformed, match="at most 2"):
        EvidenceFile.parse(file.to_bytes(), 2)
