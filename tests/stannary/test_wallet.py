"""Keystores: made, opened, and every way in which that fails."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from stannary import wallet
from stannary.errors import WalletError
from stannary.types import Address

PASSWORD = "correct horse"
CHEAP = 4
KEY = "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
ADDRESS = Address("0x2c7536E3605D9C16a7a3D7b1898e529396a65c23")
"""Key and address of the example in web3.js's documentation of accounts."""


@pytest.fixture
def keystore(tmp_path: Path) -> Path:
    path = tmp_path / "node.json"
    wallet.import_key(path, KEY, PASSWORD, kdf_cost=CHEAP)
    return path


def test_wallet_imported_key_opens_with_its_password_only(keystore: Path) -> None:
    account = wallet.load(keystore, PASSWORD, ADDRESS)
    assert account.address == ADDRESS == wallet.address_of(keystore)
    assert account.key.hex() == KEY[2:]
    with pytest.raises(WalletError, match="wrong password"):
        wallet.load(keystore, PASSWORD + "\n")


def test_wallet_new_accounts_differ_and_only_the_owner_can_read_them(tmp_path: Path) -> None:
    first = wallet.create(tmp_path / "deep" / "a.json", PASSWORD, kdf_cost=CHEAP)
    second = wallet.create(tmp_path / "b.json", PASSWORD, kdf_cost=CHEAP)
    assert first.address != second.address
    assert stat.S_IMODE((tmp_path / "deep" / "a.json").stat().st_mode) == 0o600


def test_wallet_never_overwrites_a_file(keystore: Path) -> None:
    before = keystore.read_bytes()
    for attempt in (
        lambda: wallet.create(keystore, PASSWORD, kdf_cost=CHEAP),
        lambda: wallet.import_key(keystore, KEY, PASSWORD, kdf_cost=CHEAP),
    ):
        with pytest.raises(WalletError, match="exists already"):
            attempt()
    assert keystore.read_bytes() == before


def test_wallet_default_cost_is_high(tmp_path: Path) -> None:
    wallet.create(tmp_path / "a.json", PASSWORD)
    parameters = json.loads((tmp_path / "a.json").read_text())["crypto"]["kdfparams"]
    assert parameters["n"] >= 1 << 17
    assert wallet.load(tmp_path / "a.json", PASSWORD)


@pytest.mark.parametrize("key", ["", "0x12", "g" * 64, "0" * 64, "f" * 64, KEY + "00"])
def test_wallet_import_of_no_key_is_refused_without_showing_it(tmp_path: Path, key: str) -> None:
    with pytest.raises(WalletError) as caught:
        wallet.import_key(tmp_path / "a.json", key, PASSWORD, kdf_cost=CHEAP)
    assert not key or key not in str(caught.value)
    assert not (tmp_path / "a.json").exists()


def test_wallet_cut_at_any_byte_is_damaged_and_no_wrong_password(keystore: Path) -> None:
    whole = keystore.read_bytes().rstrip()
    for length in range(0, len(whole), 7):
        keystore.write_bytes(whole[:length])
        with pytest.raises(WalletError, match="damaged") as caught:
            wallet.load(keystore, PASSWORD)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("version",), 2),
        (("crypto",), []),
        (("crypto", "cipher"), "aes-256"),
        (("crypto", "ciphertext"), "00"),
        (("crypto", "mac"), "zz" * 32),
        (("crypto", "cipherparams"), None),
        (("crypto", "cipherparams", "iv"), 5),
        (("crypto", "kdf"), "md5"),
        (("crypto", "kdfparams", "salt"), "abc"),
        (("crypto", "kdfparams", "n"), 1 << 40),
        (("crypto", "kdfparams", "n"), 5),
        (("crypto", "kdfparams", "n"), "4"),
        (("crypto", "kdfparams", "dklen"), 0),
        (("crypto", "kdfparams", "dklen"), 16),
        (("crypto", "kdfparams", "p"), True),
        (("address",), "0x12"),
        (("address",), 7),
    ],
)
def test_wallet_with_a_broken_field_is_damaged(keystore: Path, path: tuple[str, ...], value: object) -> None:
    document = json.loads(keystore.read_text())
    place = document
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    keystore.write_text(json.dumps(document))
    with pytest.raises(WalletError, match="damaged"):
        wallet.load(keystore, PASSWORD)


def test_wallet_too_large_to_be_one_is_not_parsed(keystore: Path) -> None:
    keystore.write_bytes(b" " * (wallet.MAX_KEYSTORE_BYTES + 1))
    with pytest.raises(WalletError, match="too large"):
        wallet.load(keystore, PASSWORD)


def test_wallet_without_a_named_address_opens_and_is_checked(keystore: Path) -> None:
    document = json.loads(keystore.read_text())
    del document["address"]
    keystore.write_text(json.dumps(document))
    assert wallet.load(keystore, PASSWORD, ADDRESS).address == ADDRESS
    with pytest.raises(WalletError, match="expected 0x0000"):
        wallet.load(keystore, PASSWORD, Address("0x" + "00" * 20))


@pytest.mark.parametrize(("text", "expected"), [("p", "p"), ("p\n", "p"), ("p\r\n", "p"), ("p \n\n", "p \n")])
def test_password_file_loses_one_line_end_and_nothing_else(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "password"
    file.write_bytes(text.encode())
    assert wallet.read_password(file, "a.json") == expected


@pytest.mark.parametrize("data", [b"", b"\n", b"\xff\xfe"])
def test_password_file_that_is_empty_or_no_text_is_refused(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "password"
    file.write_bytes(data)
    with pytest.raises(WalletError, match="password file"):
        wallet.read_password(file, "a.json")
