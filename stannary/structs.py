"""Everything that is signed: EIP-712 structs, their hashes, signing and recovery.

A struct's fields are its canonical encoding; its struct hash is its name on chain. docs/protocol.md gives the same
definitions as normative text, and tests/vectors/chain.json holds values that Solidity and Python both reproduce.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar, Self

from eth_abi.abi import encode
from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_typing import Hash32
from eth_utils.crypto import keccak

from stannary.errors import BadSignature, Malformed
from stannary.types import Address, Hash, parse_address

_DOMAIN_TYPE = keccak(text="EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)")


@dataclass(frozen=True, slots=True)
class Domain:
    """The deployment that a signature is for: a chain and a contract on it."""

    chain_id: int
    contract: Address

    @property
    def separator(self) -> bytes:
        """The EIP-712 domain separator."""
        return keccak(
            encode(
                ["bytes32", "bytes32", "bytes32", "uint256", "address"],
                [_DOMAIN_TYPE, keccak(text="Stannary"), keccak(text="1"), self.chain_id, self.contract],
            )
        )


@dataclass(frozen=True, slots=True)
class SignedStruct:
    """Base of the EIP-712 structs; a subclass declares `TYPE`, its EIP-712 type, and its fields in that order."""

    TYPE: ClassVar[str]

    def struct_hash(self) -> Hash:
        """keccak256(abi.encode(typehash, fields …)), strings hashed as EIP-712 says.

        Raises: Malformed if a field does not fit its type.
        """
        kinds, values = ["bytes32"], [keccak(text=self.TYPE)]
        for member, spec in zip(self.TYPE[self.TYPE.index("(") + 1 : -1].split(","), fields(self), strict=True):
            kind, value = member.split(" ")[0], getattr(self, spec.name)
            if kind == "string":
                kind, value = "bytes32", keccak(text=value)
            if kind == "bytes32" and len(value) != 32:  # eth_abi would pad a short one
                raise Malformed(f"{type(self).__name__}.{spec.name}", expected="32 bytes", got=value)
            kinds.append(kind)
            values.append(value)
        try:
            return Hash(keccak(encode(kinds, values)))
        except Exception as error:  # eth_abi raises several unrelated classes
            raise Malformed(type(self).__name__, expected=self.TYPE, got=str(error)) from error

    def digest(self, domain: Domain) -> Hash:
        """The 32 bytes that are signed."""
        return Hash(keccak(b"\x19\x01" + domain.separator + self.struct_hash()))

    def sign(self, account: LocalAccount, domain: Domain) -> bytes:
        """Return the 65-byte signature."""
        return bytes(account.unsafe_sign_hash(Hash32(self.digest(domain))).signature)

    def signer(self, signature: bytes, domain: Domain) -> Address:
        """Return who signed. Raises: Malformed if the bytes are no canonical signature."""
        return recover(self.digest(domain), signature)

    def require_signer(self, signature: bytes, domain: Domain, expected: Address) -> Self:
        """Return self if `expected` signed it. Raises: Malformed, BadSignature."""
        found = self.signer(signature, domain)
        if found != expected:
            raise BadSignature(type(self).__name__, expected=expected, got=found)
        return self


@dataclass(frozen=True, slots=True)
class NodeConsent(SignedStruct):
    """A node's consent to act for a provider; its domain is StakeManager's."""

    TYPE: ClassVar = "NodeConsent(address node,address provider,uint256 deadline)"
    node: Address
    provider: Address
    deadline: int


@dataclass(frozen=True, slots=True)
class Lease(SignedStruct):
    """Right and duty to generate the group of one slot, signed by the pool's coordinator."""

    TYPE: ClassVar = (
        "Lease(uint64 pool,uint32 step,uint32 policyStep,uint32 slot,address provider,"
        "address node,uint64 validFrom,uint64 validUntil,uint32 maxUnits,bytes32 cardHash,uint32 protocolVersion)"
    )
    pool: int
    step: int
    policy_step: int
    slot: int
    provider: Address
    node: Address
    valid_from: int
    """Chain time in unix seconds, as is `valid_until`."""
    valid_until: int
    max_units: int
    card_hash: Hash
    protocol_version: int


@dataclass(frozen=True, slots=True)
class Submission(SignedStruct):
    """The leaf of one submission, signed by the node that generated it; its struct hash is the leaf hash."""

    TYPE: ClassVar = (
        "Submission(uint64 pool,uint32 step,uint32 slot,address provider,"
        "address node,uint32 units,bytes32 contentHash,bytes32 leaseHash)"
    )
    pool: int
    step: int
    slot: int
    provider: Address
    node: Address
    units: int
    """Generated tokens of the group."""
    content_hash: Hash
    """BLAKE3 of the submission file."""
    lease_hash: Hash
    """Struct hash of the lease."""


@dataclass(frozen=True, slots=True)
class Receipt(SignedStruct):
    """The coordinator's signed word that it has taken a leaf hash, before it sees the bytes."""

    TYPE: ClassVar = "Receipt(bytes32 leafHash,uint64 receivedAt)"
    leaf_hash: Hash
    received_at: int


@dataclass(frozen=True, slots=True)
class Verdict(SignedStruct):
    """One validator's verdict on one leaf; honest validators sign identical bytes."""

    TYPE: ClassVar = "Verdict(uint64 pool,uint32 step,bytes32 leafHash,uint8 outcome,uint16 reason,bytes32 rewardsHash)"
    pool: int
    step: int
    leaf_hash: Hash
    outcome: int
    reason: int
    rewards_hash: Hash


@dataclass(frozen=True, slots=True)
class Request(SignedStruct):
    """One HTTP request to one audience, at one time, once."""

    TYPE: ClassVar = (
        "Request(string method,string path,string query,bytes32 bodyHash,uint64 time,string nonce,address audience)"
    )
    method: str
    path: str
    query: str
    body_hash: Hash
    time: int
    nonce: str
    audience: Address


def recover(digest: bytes, signature: bytes) -> Address:
    """Return the signer of a digest; a malleable or misshapen signature is refused. Raises: Malformed."""
    if len(signature) != 65:
        raise Malformed("signature", expected="65 bytes", got=len(signature))
    if signature[64] not in (27, 28) or int.from_bytes(signature[32:64]) > _HALF_ORDER:
        raise Malformed("signature", expected="v 27 or 28 and the lower s", got="0x" + signature.hex())
    try:
        return parse_address(Account._recover_hash(digest, signature=signature))
    except Malformed:
        raise
    except Exception as error:  # eth_keys raises several unrelated classes
        raise Malformed("signature", expected="a point of secp256k1", got="0x" + signature.hex()) from error


_HALF_ORDER = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0
