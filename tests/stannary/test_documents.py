"""Canonical JSON: one content, one spelling, one hash."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stannary.documents import MAX_DOCUMENT_BYTES, canonical, document_hash, parse_document
from stannary.errors import Malformed

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",))),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=("Cs",))), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=("Cs",))), values, max_size=5))
def test_document_survives_its_encoding(document: dict[str, object]) -> None:
    assert parse_document(canonical(document)) == document


def test_hash_does_not_depend_on_the_order_of_keys() -> None:
    assert document_hash({"a": 1, "b": 2}) == document_hash({"b": 2, "a": 1})


@pytest.mark.parametrize(
    "data", [b'{"a": 1}', b'{"b":1,"a":2}', b'{"a":1,"a":1}', b"[1]", b"{", b"[" * 100_000, b'{"a":NaN}']
)
def test_other_spelling_is_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse_document(data)


def test_large_document_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(Malformed, match="bytes"):
        parse_document(b"{" + b" " * MAX_DOCUMENT_BYTES + b"}")


@pytest.mark.parametrize("document", [{"a": math.nan}, {1: 2}, {"a": (1,)}, {"a": b""}])
def test_document_that_json_cannot_hold_is_refused(document: object) -> None:
    with pytest.raises(Malformed):
        canonical(document)
