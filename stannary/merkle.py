"""Positional Merkle trees over 32-byte words: inner = keccak256(left ‖ right), padded with zeros to a power of two.

The index is bound by the direction taken at each level, so a proof shows not only that a leaf is in the tree but where.
A zero word is an empty place; nothing can be proved to stand there.
"""

from __future__ import annotations

from collections.abc import Sequence

from eth_utils.crypto import keccak

from stannary.errors import Malformed
from stannary.types import ZERO_HASH, Hash


def depth(places: int) -> int:
    """Return ceil(log2(places)), the length of every proof."""
    if places < 1:
        raise Malformed("places", expected="at least 1", got=places)
    return (places - 1).bit_length()


def merkle_root(words: Sequence[Hash]) -> Hash:
    """Return the root. Raises: Malformed for no words or one of a wrong length."""
    return _levels(words)[-1][0]


def merkle_proof(words: Sequence[Hash], index: int) -> list[Hash]:
    """Return the siblings from the word upwards. Raises: Malformed if the index is outside."""
    if not 0 <= index < len(words):
        raise Malformed("index", expected=f"0 … {len(words) - 1}", got=index)
    return [level[(index >> height) ^ 1] for height, level in enumerate(_levels(words)[:-1])]


def verify_proof(root: Hash, leaf: Hash, index: int, places: int, proof: Sequence[Hash]) -> bool:
    """Say whether `leaf` stands at `index` of the tree of `places` words under `root`; never for a leaf of zeros."""
    if leaf == ZERO_HASH or not 0 <= index < places or len(proof) != depth(places):
        return False
    node = leaf
    for height, sibling in enumerate(proof):
        pair = sibling + node if index >> height & 1 else node + sibling
        node = Hash(keccak(pair))
    return node == root


def _levels(words: Sequence[Hash]) -> list[list[Hash]]:
    for word in words:
        if len(word) != 32:
            raise Malformed("word", expected="32 bytes", got=word)
    level = [*words, *[ZERO_HASH] * ((1 << depth(len(words))) - len(words))]
    levels = [level]
    while len(level) > 1:
        level = [Hash(keccak(level[i] + level[i + 1])) for i in range(0, len(level), 2)]
        levels.append(level)
    return levels
