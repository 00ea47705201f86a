"""Which leaves of a step get the dear checks: drawn by the audit beacon, so known to nobody before the root. Pure.

All validators of a step check the same leaves, and anyone can say afterwards which. It owns the draw; it must not know
what the checks are, or where beacon and rate come from.
"""

from __future__ import annotations

from collections.abc import Iterable

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from stannary.errors import Malformed
from stannary.types import ZERO_HASH, Hash

_CHOICE = keccak(text="stannary.audit.choice.v1")
_KINDS = ["bytes32", "bytes32", "uint32"]

BPS = 10_000


def is_audited(audit_beacon: Hash, slot: int, rate_bps: int) -> bool:
    """Say whether a slot's leaf gets the checks of activations and sampling.

    Units: the rate in hundredths of a percent of the slots, 1 … 10000.
    Raises: Malformed for a step without audit beacon, or a slot or rate out of range.
    """
    _check(audit_beacon, rate_bps)
    return _ticket(audit_beacon, slot) < rate_bps


def audited_slots(audit_beacon: Hash, slots: Iterable[int], rate_bps: int) -> frozenset[int]:
    """Return those of `slots` that are audited. Units and raises: as `is_audited`."""
    _check(audit_beacon, rate_bps)
    return frozenset(slot for slot in slots if _ticket(audit_beacon, slot) < rate_bps)


def _ticket(audit_beacon: Hash, slot: int) -> int:
    if type(slot) is not int or not 0 <= slot < 1 << 32:
        raise Malformed("slot", expected="a number of 32 bits", got=slot)
    return int.from_bytes(keccak(encode(_KINDS, [_CHOICE, audit_beacon, slot]))) % BPS


def _check(audit_beacon: Hash, rate_bps: int) -> None:
    if not isinstance(audit_beacon, bytes) or len(audit_beacon) != len(ZERO_HASH):
        raise Malformed("audit_beacon", expected=f"{len(ZERO_HASH)} bytes", got=audit_beacon)
    if audit_beacon == ZERO_HASH:
        raise Malformed("audit_beacon", expected="a beacon that was sealed", got=audit_beacon)
    if type(rate_bps) is not int or not 1 <= rate_bps <= BPS:
        raise Malformed("rate_bps", expected=f"a whole number, 1 … {BPS}", got=rate_bps)
