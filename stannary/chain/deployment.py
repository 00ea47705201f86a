"""Which eight contracts on which chain: written once by `deploy`, read by every role, checked against the chain."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from eth_abi.abi import encode
from eth_account.signers.local import LocalAccount
from eth_utils.crypto import keccak

import contracts
from contracts import CONTRACT_NAMES, ContractName
from stannary.chain.abi import selector, signature, type_of
from stannary.chain.connection import Call, Connection
from stannary.chain.names import (
    DISPUTE_COURT,
    PAYOUT_VAULT,
    PLANTED_FAULTS,
    POOL_REGISTRY,
    STAKE_MANAGER,
    SUBMISSION_LEDGER,
    TOKEN,
    VOTING_PANEL,
)
from stannary.chain.sender import Sender
from stannary.errors import ChainError, Malformed, SettingsError
from stannary.structs import Domain
from stannary.types import Address, parse_address

SINK = Address("0x000000000000000000000000000000000000dEaD")
"""Where slashed and burned tokens go; nobody has its key."""
TOKEN_NAME = "Stannary Test Token"  # noqa: S105  a name
TOKEN_SYMBOL = "tSTN"  # noqa: S105  a name


@dataclass(frozen=True, slots=True)
class Deployment:
    """The addresses of the eight contracts on one chain."""

    chain_id: int
    token: Address
    stake_manager: Address
    pool_registry: Address
    submission_ledger: Address
    payout_vault: Address
    dispute_court: Address
    voting_panel: Address
    planted_faults: Address
    deployed_block: int
    """No event of these contracts is older."""

    @property
    def addresses(self) -> dict[ContractName, Address]:
        """The address of each contract by the name of its source."""
        return {
            TOKEN: self.token,
            STAKE_MANAGER: self.stake_manager,
            POOL_REGISTRY: self.pool_registry,
            SUBMISSION_LEDGER: self.submission_ledger,
            PAYOUT_VAULT: self.payout_vault,
            DISPUTE_COURT: self.dispute_court,
            VOTING_PANEL: self.voting_panel,
            PLANTED_FAULTS: self.planted_faults,
        }

    def place_of(self, pool: int) -> Path:
        """Return a relative folder for what belongs to one pool, shared with no other chain, ledger or pool."""
        return Path(f"{self.chain_id}-{self.submission_ledger}") / str(pool)

    @property
    def ledger_domain(self) -> Domain:
        """What leases, receipts, submissions, verdicts and requests are signed for."""
        return Domain(self.chain_id, self.submission_ledger)

    @property
    def stake_domain(self) -> Domain:
        """What a node's consent is signed for."""
        return Domain(self.chain_id, self.stake_manager)

    @property
    def court_domain(self) -> Domain:
        """What jurors' rulings are committed to for."""
        return Domain(self.chain_id, self.dispute_court)

    @property
    def panel_domain(self) -> Domain:
        """What votes are committed to for."""
        return Domain(self.chain_id, self.voting_panel)

    @property
    def plants_domain(self) -> Domain:
        """What planted faults are committed to for."""
        return Domain(self.chain_id, self.planted_faults)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a deployment file. Raises: SettingsError if it is missing or not one."""
        try:
            found = json.loads(path.read_text())
        except OSError as error:
            raise SettingsError(f"deployment file {path}: {error.strerror or error}") from None
        except ValueError:
            raise SettingsError(f"deployment file {path}: not JSON") from None
        try:
            return cls._parse(found)
        except Malformed as error:
            raise SettingsError(f"deployment file {path}: {error}") from None

    @classmethod
    def _parse(cls, found: object) -> Self:
        if not isinstance(found, dict) or set(found) != {"chainId", "deployedBlock", "contracts"}:
            raise Malformed("deployment", expected="chainId, deployedBlock and contracts", got=found)
        for field in ("chainId", "deployedBlock"):
            if type(found[field]) is not int or found[field] < 0:
                raise Malformed(field, expected="a number that is not negative", got=found[field])
        listed = found["contracts"]
        if not isinstance(listed, dict) or set(listed) != set(CONTRACT_NAMES):
            raise Malformed("contracts", expected=", ".join(CONTRACT_NAMES), got=listed)
        addresses = {name: parse_address(listed[name], f"contracts.{name}") for name in CONTRACT_NAMES}
        return cls.of(found["chainId"], addresses, found["deployedBlock"])

    @classmethod
    def of(cls, chain_id: int, addresses: Mapping[ContractName, Address], deployed_block: int) -> Self:
        """Return a deployment from the addresses by contract name."""
        return cls(
            chain_id=chain_id,
            token=addresses[TOKEN],
            stake_manager=addresses[STAKE_MANAGER],
            pool_registry=addresses[POOL_REGISTRY],
            submission_ledger=addresses[SUBMISSION_LEDGER],
            payout_vault=addresses[PAYOUT_VAULT],
            dispute_court=addresses[DISPUTE_COURT],
            voting_panel=addresses[VOTING_PANEL],
            planted_faults=addresses[PLANTED_FAULTS],
            deployed_block=deployed_block,
        )

    def write(self, path: Path) -> None:
        """Write the deployment file, whole or not at all."""
        document = {"chainId": self.chain_id, "deployedBlock": self.deployed_block, "contracts": self.addresses}
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(path.name + ".draft")
        draft.write_text(json.dumps(document, indent=2) + "\n")
        os.replace(draft, path)

    def verify(self, connection: Connection) -> None:
        """Check that this chain is the one and holds this code.

        Raises: SettingsError for another chain id, an address without code, or code that is not the contract's.
        """
        if connection.chain_id != self.chain_id:
            raise SettingsError(
                f"{connection.shown_url} is chain {connection.chain_id}, "
                f"the deployment file is for chain {self.chain_id}"
            )
        for name, address in self.addresses.items():
            code = connection.code_of(address)
            if not code:
                raise SettingsError(f"{connection.shown_url} has no contract at {address} ({name}): another chain?")
            for item in contracts.abi(name):
                # The compiler drops leading zero bytes of a selector, so such ones cannot be looked for.
                if item["type"] == "function" and selector(item)[0] and selector(item) not in code:
                    raise SettingsError(f"{address} is no {name} of this version: it lacks {signature(item)}")


def deploy(connection: Connection, account: LocalAccount) -> Deployment:
    """Create the eight contracts, each told the addresses that the others will have.

    Raises: ChainError if an address is not the predicted one; FundsError; Reverted; Unreachable.
    """
    sender = Sender(connection, account)
    first = sender.next_nonce()
    predicted = {name: created_address(sender.address, first + place) for place, name in enumerate(CONTRACT_NAMES)}
    before = connection.frozen().number
    done = sender.send_all([_creation(name, predicted) for name in CONTRACT_NAMES])
    for name, mined in zip(CONTRACT_NAMES, done, strict=True):
        if mined.created != predicted[name]:
            raise ChainError(f"{name} was created at {mined.created}, not at {predicted[name]}: deploy again")
    deployment = Deployment.of(connection.chain_id, predicted, before + 1)
    deployment.verify(connection)
    return deployment


def created_address(creator: Address, nonce: int) -> Address:
    """Return the address of the contract that an account creates with a nonce.

    Source: keccak256(rlp([creator, nonce])), Ethereum Yellow Paper, section 7.
    """
    number = nonce.to_bytes((nonce.bit_length() + 7) // 8)
    item = number if len(number) == 1 and number[0] < 0x80 else bytes([0x80 + len(number)]) + number
    body = b"\x94" + bytes.fromhex(creator[2:]) + item
    return parse_address("0x" + keccak(bytes([0xC0 + len(body)]) + body)[12:].hex())


def _creation(name: ContractName, predicted: Mapping[ContractName, Address]) -> Call:
    inputs: list[dict[str, Any]] = next((i["inputs"] for i in contracts.abi(name) if i["type"] == "constructor"), [])
    told: dict[str, object] = {
        "name_": TOKEN_NAME,
        "symbol_": TOKEN_SYMBOL,
        "stakeToken": predicted[TOKEN],
        "stakes": predicted[STAKE_MANAGER],
        "registry": predicted[POOL_REGISTRY],
        "ledger": predicted[SUBMISSION_LEDGER],
        "vault": predicted[PAYOUT_VAULT],
        "court": predicted[DISPUTE_COURT],
        "panel": predicted[VOTING_PANEL],
        "plants": predicted[PLANTED_FAULTS],
        "sink": SINK,
    }
    encoded = encode([type_of(item) for item in inputs], [_told(item, told) for item in inputs])
    return Call(f"new {name}", None, bytes.fromhex(contracts.bytecode(name).removeprefix("0x")) + encoded)


def _told(item: Mapping[str, Any], told: Mapping[str, object]) -> object:
    if "components" in item:
        return tuple(_told(part, told) for part in item["components"])
    return told[item["name"]]
