"""Signed structs: canonical fields, signatures bound to a deployment, nothing malleable."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from eth_account import Account
from hypothesis import given
from hypothesis import strategies as st

from stannary.errors import BadSignature, Malformed
from stannary.structs import Domain, Lease, NodeConsent, Receipt, Request, SignedStruct, Submission, Verdict, recover
from stannary.types import Address, Hash, parse_address

ACCOUNT = Account.from_key(b"\x01" * 32)
OTHER = Account.from_key(b"\x02" * 32)
CONTRACT = parse_address("0x" + "ab" * 20)
DOMAIN = Domain(31337, CONTRACT)
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def submission(**changes: object) -> Submission:
    values: dict[str, object] = {
        "pool": 1,
        "step": 2,
        "slot": 3,
        "provider": Address(OTHER.address),
        "node": Address(ACCOUNT.address),
        "units": 77,
        "content_hash": Hash(b"\x05" * 32),
        "lease_hash": Hash(b"\x06" * 32),
    }
    return Submission(**{**values, **changes})  # type: ignore[arg-type]


def test_signature_recovers_its_signer() -> None:
    receipt = Receipt(Hash(b"\x03" * 32), 1_700_000_000)
    assert receipt.signer(receipt.sign(ACCOUNT, DOMAIN), DOMAIN) == ACCOUNT.address


@pytest.mark.parametrize(
    "domain",
    [Domain(31338, CONTRACT), Domain(31337, parse_address("0x" + "cd" * 20))],
    ids=["other chain", "other contract"],
)
def test_signature_for_another_deployment_is_refused(domain: Domain) -> None:
    receipt = Receipt(Hash(b"\x03" * 32), 5)
    signature = receipt.sign(ACCOUNT, DOMAIN)
    with pytest.raises(BadSignature):
        receipt.require_signer(signature, domain, Address(ACCOUNT.address))


@pytest.mark.parametrize("field", ["pool", "step", "slot", "units"])
def test_every_number_of_a_leaf_changes_its_hash(field: str) -> None:
    assert submission().struct_hash() != submission(**{field: 99}).struct_hash()


@pytest.mark.parametrize("field", ["provider", "node"])
def test_every_account_of_a_leaf_changes_its_hash(field: str) -> None:
    assert submission().struct_hash() != submission(**{field: CONTRACT}).struct_hash()


@pytest.mark.parametrize(
    "changes", [{"pool": 1 << 64}, {"slot": -1}, {"content_hash": Hash(b"\x05" * 33)}, {"lease_hash": Hash(b"")}]
)
def test_field_that_does_not_fit_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(Malformed, match="Submission"):
        submission(**changes).struct_hash()


def test_malleated_signature_is_refused() -> None:
    receipt = Receipt(Hash(b"\x03" * 32), 5)
    signature = receipt.sign(ACCOUNT, DOMAIN)
    flipped = signature[:32] + (ORDER - int.from_bytes(signature[32:64])).to_bytes(32) + bytes([55 - signature[64]])
    with pytest.raises(Malformed, match="lower s"):
        receipt.signer(flipped, DOMAIN)


@given(st.binary(max_size=80))
def test_recover_of_any_bytes_never_crashes(signature: bytes) -> None:
    try:
        address = recover(b"\x07" * 32, signature)
    except Malformed:
        return
    assert parse_address(address) == address


@pytest.mark.parametrize("kind", [NodeConsent, Lease, Submission, Receipt, Verdict, Request])
def test_type_names_the_class_and_every_field(kind: type[SignedStruct]) -> None:
    name, members = kind.TYPE.rstrip(")").split("(")
    assert name == kind.__name__
    snake = [re.sub("([A-Z])", r"_\1", member.split(" ")[1]).lower() for member in members.split(",")]
    assert snake == [field.name for field in fields(kind)]
