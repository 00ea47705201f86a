"""Commitments: each part of what is hidden, and where it belongs, changes them."""

from __future__ import annotations

import pytest

from stannary.commitments import new_salt, plant_commitment, ruling_commitment, vote_commitment
from stannary.errors import Malformed
from stannary.structs import Domain
from stannary.types import ZERO_HASH, Address, Hash, Ruling

HERE = Domain(31337, Address("0xCf7Ed3AccA5a467e9e704C703E8D87F634fB0Fc9"))
THERE = Domain(31338, HERE.contract)
ELSEWHERE = Domain(31337, Address("0x9fE46736679d2D9a65F0992F2272dE9f3c7fa6e0"))
SALT, OTHER = Hash(b"\x01" * 32), Hash(b"\x02" * 32)
WHO, ANOTHER = HERE.contract, ELSEWHERE.contract


def test_vote_commitment_binds_everything() -> None:
    base = (HERE, 7, 3, WHO, b"\x01", SALT, SALT, SALT)
    changes = [THERE, 8, 4, ANOTHER, b"\x02", OTHER, OTHER, OTHER]
    found = {vote_commitment(*base), vote_commitment(ELSEWHERE, *base[1:])}
    for place, change in enumerate(changes):
        found.add(vote_commitment(*base[:place], change, *base[place + 1 :]))  # type: ignore[arg-type]
    assert len(found) == 2 + len(changes)


def test_ruling_commitment_binds_everything() -> None:
    base = (HERE, 5, 0, WHO, Ruling.ACCEPT, SALT)
    changes = [THERE, 6, 1, ANOTHER, Ruling.FAULT, OTHER]
    found = {ruling_commitment(*base), ruling_commitment(ELSEWHERE, *base[1:])}
    for place, change in enumerate(changes):
        found.add(ruling_commitment(*base[:place], change, *base[place + 1 :]))  # type: ignore[arg-type]
    assert len(found) == 2 + len(changes)


def test_plant_commitment_binds_everything() -> None:
    found = {
        plant_commitment(HERE, WHO, SALT, SALT),
        plant_commitment(THERE, WHO, SALT, SALT),
        plant_commitment(ELSEWHERE, WHO, SALT, SALT),
        plant_commitment(HERE, ANOTHER, SALT, SALT),
        plant_commitment(HERE, WHO, OTHER, SALT),
        plant_commitment(HERE, WHO, SALT, OTHER),
    }
    assert len(found) == 6


def test_commitment_to_a_word_that_is_too_short_is_refused() -> None:
    with pytest.raises(Malformed, match="32 bytes"):
        plant_commitment(HERE, WHO, SALT, Hash(b"short"))
    with pytest.raises(Malformed):
        vote_commitment(HERE, 1 << 64, 3, WHO, b"", SALT, SALT, SALT)


def test_salts_are_not_repeated() -> None:
    assert len({new_salt() for _ in range(100)} | {ZERO_HASH}) == 101
