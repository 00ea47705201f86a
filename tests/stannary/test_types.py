"""Addresses and hashes have one form; whatever is not that is refused."""

from __future__ import annotations

import pytest

from stannary.errors import Malformed
from stannary.types import parse_address, parse_hash

CHECKSUM = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"


@pytest.mark.parametrize("form", [CHECKSUM, CHECKSUM.lower(), "0x" + CHECKSUM[2:].upper()])
def test_address_in_any_honest_form_is_one_account(form: str) -> None:
    assert parse_address(form) == CHECKSUM


@pytest.mark.parametrize(
    "form",
    [
        CHECKSUM.replace("d8dA", "D8dA"),
        CHECKSUM.replace("0x", "0X"),
        f" {CHECKSUM}",
        CHECKSUM + "0",
        CHECKSUM[:-1],
        CHECKSUM[2:],
        CHECKSUM[:-1] + "g",
        "",
        None,
        5,
    ],
)
def test_address_in_another_form_is_refused(form: object) -> None:
    with pytest.raises(Malformed, match="node: expected"):
        parse_address(form, "node")


@pytest.mark.parametrize("form", ["0x" + "AB" * 32, "0x" + "ab" * 31, "ab" * 32, None, b"\x01" * 32])
def test_hash_in_another_form_is_refused(form: object) -> None:
    with pytest.raises(Malformed):
        parse_hash(form)
