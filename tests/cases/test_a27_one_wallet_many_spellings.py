"""A27: one account has one spelling inside; every other right spelling leads to it, and wrong ones are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stannary.commands.options import parse_account
from stannary.errors import Malformed
from stannary.types import parse_address
from tests.chains import Devnet

CHECKSUM = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
"""Source: EIP-55, test cases."""
WRONG = [
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD",
    "0X5AAEB6053F3E94C9B9A09F33669435E7EF1BEAED",
    " " + CHECKSUM,
    CHECKSUM + " ",
    CHECKSUM + "\n",
    CHECKSUM[:-1],
    CHECKSUM + "0",
    CHECKSUM[2:],
    "0x" + "g" * 40,
    "0x" + "٠" * 40,
    "",
    None,
    0x5AAEB6053F3E94C9B9A09F33669435E7EF1BEAED,
]


@pytest.mark.parametrize("text", [CHECKSUM, CHECKSUM.lower(), "0x" + CHECKSUM[2:].upper()])
def test_a27_every_right_spelling_is_one_account(text: str) -> None:
    assert parse_address(text) == CHECKSUM
    assert parse_account(text) == CHECKSUM


@pytest.mark.parametrize("value", WRONG)
def test_a27_wrong_spellings_are_refused_by_name(value: object) -> None:
    with pytest.raises(Malformed) as caught:
        parse_address(value, "provider")
    assert caught.value.field == "provider"


@given(st.text(max_size=50) | st.from_regex(r"0[xX][0-9a-fA-F]{38,42}", fullmatch=True))
def test_a27_any_text_is_an_account_or_malformed(text: str) -> None:
    try:
        found = parse_address(text)
    except Malformed:
        return
    assert parse_address(found) == found == parse_address(text.lower())


def test_a27_chain_counts_the_spellings_as_one_account(devnet: Devnet) -> None:
    provider = devnet.sender("provider").address
    spellings = [provider, provider.lower(), "0x" + provider[2:].upper()]
    balances = {devnet.chain.token.balance_of(parse_address(text)) for text in spellings}
    assert balances == {devnet.chain.token.balance_of(provider)}
