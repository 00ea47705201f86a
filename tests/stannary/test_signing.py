"""Signed requests serve only the one request that was signed."""

from __future__ import annotations

import pytest
from eth_account import Account

from stannary.errors import BadSignature, Malformed
from stannary.signing import (
    ADDRESS_HEADER,
    MAX_CLOCK_SKEW_S,
    NONCE_HEADER,
    SIGNATURE_HEADER,
    body_hash,
    sign_request,
    verify_request,
)
from stannary.structs import Domain
from stannary.types import Address, parse_address

NODE = Account.from_key(b"\x01" * 32)
OTHER = Account.from_key(b"\x02" * 32)
AUDIENCE = parse_address("0x" + "cd" * 20)
DOMAIN = Domain(31337, parse_address("0x" + "ab" * 20))
ASKED: dict[str, object] = {"method": "POST", "path": "/v1/leases", "query": "", "body": body_hash(b"{}")}


def headers() -> dict[str, str]:
    return sign_request(NODE, DOMAIN, AUDIENCE, time_s=1000, **ASKED)  # type: ignore[arg-type]


def verify(signed: dict[str, str], **changes: object) -> tuple[Address, str]:
    where = {"domain": DOMAIN, "audience": AUDIENCE, "now_s": 1000, **ASKED, **changes}
    return verify_request(signed, **where)  # type: ignore[arg-type]


def test_signed_request_names_its_signer_and_nonce() -> None:
    signed = headers()
    assert verify(signed) == (NODE.address, signed[NONCE_HEADER])
    assert headers()[NONCE_HEADER] != signed[NONCE_HEADER]


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "PUT"},
        {"path": "/v1/verdicts"},
        {"query": "all=1"},
        {"body": body_hash(b"[]")},
        {"audience": DOMAIN.contract},
        {"domain": Domain(31338, DOMAIN.contract)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_request_for_something_else_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(BadSignature):
        verify(headers(), **changes)


@pytest.mark.parametrize("offset_s", [-MAX_CLOCK_SKEW_S - 1, MAX_CLOCK_SKEW_S + 1])
def test_request_from_another_time_is_refused(offset_s: int) -> None:
    with pytest.raises(Malformed, match="stannary-time"):
        verify(headers(), now_s=1000 + offset_s)


@pytest.mark.parametrize("offset_s", [-MAX_CLOCK_SKEW_S, 1, MAX_CLOCK_SKEW_S])
def test_skewed_clock_within_the_limit_is_accepted(offset_s: int) -> None:
    assert verify(headers(), now_s=1000 + offset_s)[0] == NODE.address


def test_claimed_address_of_another_is_refused() -> None:
    with pytest.raises(BadSignature):
        verify({**headers(), ADDRESS_HEADER: OTHER.address})


@pytest.mark.parametrize("missing", [ADDRESS_HEADER, NONCE_HEADER, SIGNATURE_HEADER])
def test_unsigned_request_is_refused(missing: str) -> None:
    signed = headers()
    del signed[missing]
    with pytest.raises(Malformed, match=missing):
        verify(signed)
