"""Identifiers and small enumerations of the protocol. Knows nothing of the chain, files or HTTP."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import NewType

from eth_utils.address import is_checksum_address, to_checksum_address

from stannary.errors import Malformed

Address = NewType("Address", str)
"""A 20-byte account, always in its EIP-55 checksum form."""
Hash = NewType("Hash", bytes)
"""32 bytes."""
PoolId = NewType("PoolId", int)
StepIndex = NewType("StepIndex", int)
"""A round of slots on chain, from 0."""
PolicyStep = NewType("PolicyStep", int)
"""A version of the policy's weights, 0 = base."""
Slot = NewType("Slot", int)
Wei = NewType("Wei", int)

ZERO_HASH = Hash(bytes(32))

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_HASH = re.compile(r"0x[0-9a-f]{64}")


class Role(IntEnum):
    """What a stake position is for."""

    WORKER = 0
    VALIDATOR = 1


class Outcome(IntEnum):
    """A validator's two bits on one leaf."""

    ABSTAIN = 0
    ACCEPT = 1
    REJECT = 2
    FAULT = 3


class Phase(IntEnum):
    """Where a step stands on chain."""

    NONE = 0
    OPEN = 1
    SEEDED = 2
    COMMITTED = 3
    AUDITED = 4
    FINALIZED = 5
    CANCELLED = 6


class Ruling(IntEnum):
    """What a juror says, and what a jury rules; NONE is a juror that could not decide, or a jury without quorum."""

    NONE = 0
    ACCEPT = 1
    REJECT = 2
    FAULT = 3
    GREY = 4
    """Inside the grey band of the card: settles for the worker and punishes nobody."""
    UNAVAILABLE = 5
    """The disputant did not serve the bytes."""


class CasePhase(IntEnum):
    """Where a case stands on chain."""

    NONE = 0
    OPENED = 1
    VOTING = 2
    RULED = 3
    RESOLVED = 4


class CaseKind(IntEnum):
    """Why a case is before a jury."""

    CHALLENGE = 0
    APPEAL = 1
    STATISTICS = 2


class Reason(IntEnum):
    """Why a leaf got its outcome; the number is signed, the name is for people."""

    NONE = 0
    UNAVAILABLE = 1
    SIGNATURE = 10
    LEASE = 11
    SLOT = 12
    SIZE = 20
    SCHEMA = 21
    GROUP = 22
    PROMPT = 30
    LENGTH = 31
    TERMINATION = 32
    TOKEN = 33
    UNITS = 34
    PROOF_COUNT = 40
    PROOF_FORMAT = 41
    ACTIVATIONS = 42
    PAIRING = 43
    SAMPLING = 50
    SAMPLING_BOUND = 51


def parse_address(value: object, field: str = "address") -> Address:
    """Return the checksum form of an address written in lower case, upper case or with a right checksum.

    Raises: Malformed for anything else, a wrong checksum included.
    """
    if not isinstance(value, str) or not _ADDRESS.fullmatch(value):
        raise Malformed(field, expected="0x and 40 hexadecimal digits", got=value)
    digits = value[2:]
    if digits not in (digits.lower(), digits.upper()) and not is_checksum_address(value):
        raise Malformed(field, expected="an EIP-55 checksum that fits", got=value)
    return Address(to_checksum_address("0x" + digits.lower()))


def parse_hash(value: object, field: str = "hash") -> Hash:
    """Return the 32 bytes of 0x and 64 lower-case hexadecimal digits. Raises: Malformed."""
    if not isinstance(value, str) or not _HASH.fullmatch(value):
        raise Malformed(field, expected="0x and 64 lower-case hexadecimal digits", got=value)
    return Hash(bytes.fromhex(value[2:]))


def to_hex(value: bytes) -> str:
    """Return 0x and lower-case hexadecimal digits."""
    return "0x" + value.hex()
