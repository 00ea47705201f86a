"""Signed HTTP requests: who asks for what, when, once, and of whom.

The signature covers method, path, query, body hash, time, a nonce and the audience, so a captured request serves
nobody: not later, not elsewhere, not with another body.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from blake3 import blake3
from eth_account.signers.local import LocalAccount

from stannary.errors import BadSignature, Malformed
from stannary.structs import Domain, Request
from stannary.types import Address, Hash, parse_address, to_hex

MAX_CLOCK_SKEW_S = 60
"""A request is refused when its time is further than this from the server's; nonces are kept for twice as long."""

ADDRESS_HEADER = "stannary-address"
TIME_HEADER = "stannary-time"
NONCE_HEADER = "stannary-nonce"
SIGNATURE_HEADER = "stannary-signature"
BODY_HEADER = "stannary-body"


def body_hash(body: bytes) -> Hash:
    """Return the BLAKE3 hash of a body."""
    return Hash(blake3(body).digest())


def sign_request(
    account: LocalAccount,
    domain: Domain,
    audience: Address,
    *,
    method: str,
    path: str,
    query: str,
    body: Hash,
    time_s: int,
) -> dict[str, str]:
    """Return the headers that sign a request. `body` is its hash, `time_s` unix seconds."""
    nonce = secrets.token_hex(16)
    request = Request(method, path, query, body, time_s, nonce, audience)
    return {
        ADDRESS_HEADER: account.address,
        TIME_HEADER: str(time_s),
        NONCE_HEADER: nonce,
        BODY_HEADER: to_hex(body),
        SIGNATURE_HEADER: to_hex(request.sign(account, domain)),
    }


def verify_request(
    headers: Mapping[str, str],
    domain: Domain,
    audience: Address,
    *,
    method: str,
    path: str,
    query: str,
    body: Hash,
    now_s: int,
) -> tuple[Address, str]:
    """Return the signer and the nonce of a request; the caller must refuse a nonce seen before.

    Raises: Malformed for a missing or misshapen header or a time too far off, BadSignature for another signer.
    """
    address = parse_address(_header(headers, ADDRESS_HEADER), ADDRESS_HEADER)
    time_text, nonce = _header(headers, TIME_HEADER), _header(headers, NONCE_HEADER)
    if not (time_text.isascii() and time_text.isdigit() and len(time_text) <= 12):
        raise Malformed(TIME_HEADER, expected="unix seconds", got=time_text)
    if abs(int(time_text) - now_s) > MAX_CLOCK_SKEW_S:
        raise Malformed(TIME_HEADER, expected=f"within {MAX_CLOCK_SKEW_S} s of {now_s}", got=time_text)
    if not 16 <= len(nonce) <= 64 or not nonce.isalnum():
        raise Malformed(NONCE_HEADER, expected="16 to 64 letters and digits", got=nonce)
    signature_text = _header(headers, SIGNATURE_HEADER)
    try:
        signature = bytes.fromhex(signature_text.removeprefix("0x"))
    except ValueError as error:
        raise Malformed(SIGNATURE_HEADER, expected="hexadecimal", got=signature_text) from error
    request = Request(method, path, query, body, int(time_text), nonce, audience)
    found = request.signer(signature, domain)
    if found != address:
        raise BadSignature("request", expected=address, got=found)
    return address, nonce


def _header(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name)
    if not value:
        raise Malformed(name, expected="a header", got=None)
    return value
