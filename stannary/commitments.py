"""What is committed to before it is shown: votes, rulings and planted faults. Pure; equal to the contracts'.

Each commitment names its chain, contract and maker, so that a copy of it serves nobody else and nowhere else; the salt
keeps others from guessing what it hides.
"""

from __future__ import annotations

import secrets

from eth_abi.abi import encode
from eth_abi.exceptions import EncodingError
from eth_utils.crypto import keccak

from stannary.errors import Malformed
from stannary.structs import Domain
from stannary.types import Address, Hash, Ruling

_VOTE = keccak(text="stannary.vote.v1")
_RULING = keccak(text="stannary.ruling.v1")
_PLANT = keccak(text="stannary.plant.v1")


def new_salt() -> Hash:
    """Return 32 random bytes. Whoever loses them can no longer show what was committed to."""
    return Hash(secrets.token_bytes(32))


def vote_commitment(
    panel: Domain,
    pool: int,
    step: int,
    provider: Address,
    outcomes: bytes,
    verdict_root: Hash,
    evidence_root: Hash,
    salt: Hash,
) -> Hash:
    """Return what a panel member commits to. Raises: Malformed for a value that does not fit its type."""
    return _commitment(
        _VOTE,
        panel,
        ["uint64", "uint32", "address", "bytes32", "bytes32", "bytes32", "bytes32"],
        [pool, step, provider, keccak(outcomes), verdict_root, evidence_root, salt],
    )


def ruling_commitment(
    court: Domain, case_id: int, round_number: int, provider: Address, ruling: Ruling, salt: Hash
) -> Hash:
    """Return what a juror commits to. Raises: Malformed for a value that does not fit its type."""
    return _commitment(
        _RULING,
        court,
        ["uint64", "uint8", "address", "uint8", "bytes32"],
        [case_id, round_number, provider, int(ruling), salt],
    )


def plant_commitment(plants: Domain, planter: Address, leaf_hash: Hash, salt: Hash) -> Hash:
    """Return what a planter commits to before the root. Raises: Malformed for a value that does not fit its type."""
    return _commitment(_PLANT, plants, ["address", "bytes32", "bytes32"], [planter, leaf_hash, salt])


def _commitment(tag: bytes, domain: Domain, kinds: list[str], values: list[object]) -> Hash:
    for kind, value in zip(kinds, values, strict=True):
        if kind == "bytes32" and (not isinstance(value, bytes) or len(value) != 32):  # eth_abi would pad a short one
            raise Malformed("commitment", expected="32 bytes", got=value)
    try:
        packed = encode(["bytes32", "uint256", "address", *kinds], [tag, domain.chain_id, domain.contract, *values])
    except (EncodingError, TypeError, ValueError) as error:
        raise Malformed("commitment", expected=", ".join(kinds), got=str(error)) from error
    return Hash(keccak(packed))
