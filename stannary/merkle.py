"""Positional Merkle trees over 32-byte leaves: inner = keccak256(left ‖ right), padded with zeros to a power of two.

The index is bound by the direction taken at each level, so a proof shows not only that a leaf is in the tree but where.
"""

from __future__ import annotations

from collections.abc import Sequence

from eth_utils.crypto import keccak

from stannary.errors import Malformed
from stannary.types import ZERO_HASH, Hash


def depth(leaf_count: int) -> int:
    """Return ceil(log2(leaf_count)), the length of every proof."""
    if leaf_count < 1:
        raise Malformed("leaf_count", expected="at least 1", got=leaf_count)
    return (leaf_count - 1).bit_length()


def merkle_root(leaves: Sequence[Hash]) -> Hash:
    """Return the root. Raises: Malformed for no leaves or a leaf of zeros or wrong length."""
    return _levels(leaves)[-1][0]


def merkle_proof(leaves: Sequence[Hash], index: int) -> list[Hash]:
    """Return the siblings from the leaf upwards. Raises: Malformed if the index is outside."""
    if not 0 <= index < len(leaves):
        raise Malformed("index", expected=f"0 … {len(leaves) - 1}", got=index)
    return [level[(index >> height) ^ 1] for height, level in enumerate(_levels(leaves)[:-1])]


def verify_proof(root: Hash, leaf: Hash, index: int, leaf_count: int, proof: Sequence[Hash]) -> bool:
    """Say whether `leaf` stands at `index` of the tree of `leaf_count` leaves under `root`."""
    if not 0 <= index < leaf_count or len(proof) != depth(leaf_count):
        return False
    node = leaf
    for height, sibling in enumerate(proof):
        pair = sibling + node if index >> height & 1 else node + sibling
        node = Hash(keccak(pair))
    return node == root


def _levels(leaves: Sequence[Hash]) -> list[list[Hash]]:
    for leaf in leaves:
        if len(leaf) != 32 or leaf == ZERO_HASH:
            raise Malformed("leaf", expected="32 bytes that are not all zero", got=leaf)
    level = [*leaves, *[ZERO_HASH] * ((1 << depth(len(leaves))) - len(leaves))]
    levels = [level]
    while len(level) > 1:
        level = [Hash(keccak(level[i] + level[i + 1])) for i in range(0, len(level), 2)]
        levels.append(level)
    return levels
