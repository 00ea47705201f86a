"""The panel draw: n validators by stake, without replacement, from the audit beacon. Pure; equal to the contract's."""

from __future__ import annotations

from collections.abc import Sequence

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from stannary.errors import Malformed
from stannary.types import Address, Hash

_PANEL = keccak(text="stannary.panel.v1")


def draw_panel(candidates: Sequence[tuple[Address, int]], audit_beacon: Hash, size: int) -> list[Address]:
    """Return `size` distinct validators, each draw weighted by the stake that is left.

    Units: stake in wei of the stake token; 0 for who is not eligible.
    Raises: Malformed if fewer than `size` candidates have stake.
    """
    weights = [stake for _, stake in candidates]
    eligible = sum(1 for stake in weights if stake)
    if eligible < size:
        raise Malformed("candidates", expected=f"at least {size} with stake", got=eligible)
    panel = []
    for draw in range(size):
        ticket = int.from_bytes(keccak(encode(["bytes32", "bytes32", "uint256"], [_PANEL, audit_beacon, draw])))
        ticket %= sum(weights)
        for index, weight in enumerate(weights):
            if ticket < weight:
                panel.append(candidates[index][0])
                weights[index] = 0
                break
            ticket -= weight
    return panel
