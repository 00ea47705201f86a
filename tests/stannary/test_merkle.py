"""Positional Merkle trees: a proof shows what and where, and nothing else passes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stannary.errors import Malformed
from stannary.merkle import depth, merkle_proof, merkle_root, verify_proof
from stannary.types import ZERO_HASH, Hash

leaves_strategy = st.lists(
    st.binary(min_size=32, max_size=32).filter(any).map(Hash), min_size=1, max_size=40, unique=True
)


@given(leaves_strategy, st.data())
def test_proof_of_any_leaf_verifies_only_at_its_index(leaves: list[Hash], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(leaves) - 1))
    root, proof = merkle_root(leaves), merkle_proof(leaves, index)
    assert len(proof) == depth(len(leaves))
    for other in range(len(leaves)):
        assert verify_proof(root, leaves[index], other, len(leaves), proof) == (other == index)


@given(leaves_strategy)
def test_padding_is_no_leaf(leaves: list[Hash]) -> None:
    assert not verify_proof(merkle_root(leaves), ZERO_HASH, len(leaves), len(leaves), [ZERO_HASH] * depth(len(leaves)))


def test_inner_node_is_no_leaf() -> None:
    leaves = [Hash(bytes([i]) * 32) for i in range(1, 5)]
    proof = merkle_proof(leaves, 0)
    assert not verify_proof(merkle_root(leaves), proof[1], 1, 4, proof[1:])


@given(leaves_strategy, st.data())
def test_empty_place_changes_no_other_proof_and_proves_nothing(leaves: list[Hash], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(leaves) - 1))
    words = [ZERO_HASH if place == index else leaf for place, leaf in enumerate(leaves)]
    root = merkle_root(words)
    assert not verify_proof(root, ZERO_HASH, index, len(words), merkle_proof(words, index))
    for place, word in enumerate(words):
        if place != index:
            assert verify_proof(root, word, place, len(words), merkle_proof(words, place))


@pytest.mark.parametrize("words", [[], [Hash(b"short")]])
def test_tree_of_no_words_or_short_ones_is_refused(words: list[Hash]) -> None:
    with pytest.raises(Malformed):
        merkle_root(words)


def test_index_outside_the_tree_is_refused() -> None:
    with pytest.raises(Malformed, match="index"):
        merkle_proof([Hash(b"\x01" * 32)], 1)
