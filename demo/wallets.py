"""The demo's wallets: a keystore for every account, all under one password beside them. For the demo's chain only."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from eth_account.signers.local import LocalAccount

from stannary import wallet
from stannary.types import Address, parse_address

KDF_COST = 1 << 12
"""Far below what a keystore worth stealing has: these keys hold test money, and a dozen processes open them at once."""


@dataclass(frozen=True, slots=True)
class Wallet:
    """One account of the demo."""

    name: str
    keystore: Path
    account: LocalAccount

    @property
    def address(self) -> Address:
        """The account's address."""
        return parse_address(self.account.address)


@dataclass(frozen=True, slots=True)
class Wallets:
    """All accounts of a run, by name."""

    password_file: Path
    by_name: dict[str, Wallet]

    def __getitem__(self, name: str) -> Wallet:
        return self.by_name[name]

    def cold(self, party: str) -> Wallet:
        """Return the wallet that stakes and is paid."""
        return self.by_name[f"{party}.provider"]

    def hot(self, party: str) -> Wallet:
        """Return the wallet whose key the process holds."""
        return self.by_name[f"{party}.node"]


def make_wallets(folder: Path, singles: Iterable[str], parties: Iterable[str]) -> Wallets:
    """Make new keystores: one for each single name, a provider's and a node's for each party."""
    folder.mkdir(parents=True, exist_ok=True)
    password = secrets.token_urlsafe(16)
    password_file = folder / "password"
    password_file.touch(mode=0o600)
    password_file.write_text(password + "\n", encoding="utf-8")
    names = [*singles, *(f"{party}.{kind}" for party in parties for kind in ("provider", "node"))]
    made = {}
    for name in names:
        path = folder / f"{name}.json"
        made[name] = Wallet(name, path, wallet.create(path, password, kdf_cost=KDF_COST))
    return Wallets(password_file, made)
