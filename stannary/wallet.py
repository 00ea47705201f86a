"""Keystores: an account's key in a file under a password (Web3 Secret Storage, version 3).

Every failure is a one-line `WalletError` that says what to do; no message and no log holds a key or a password.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from eth_account import Account
from eth_account.signers.local import LocalAccount

from stannary.errors import Malformed, WalletError
from stannary.types import Address, parse_address

MAX_KEYSTORE_BYTES = 64 << 10
MAX_SCRYPT_N = 1 << 20
"""Memory is 128·r·n bytes: 1 GiB at r = 8. A file that asks for more is refused before it is tried."""
MAX_SCRYPT_R = 8
MAX_SCRYPT_P = 16
MAX_PBKDF2_ROUNDS = 10_000_000

_HEX = re.compile(r"[0-9a-fA-F]*")


def create(path: Path, password: str, *, kdf_cost: int | None = None) -> LocalAccount:
    """Make a new key and keep it in a new file. Raises: WalletError if the file exists or the password is empty."""
    account: LocalAccount = Account.create()
    _write(path, account, password, kdf_cost)
    return account


def import_key(path: Path, key: str, password: str, *, kdf_cost: int | None = None) -> LocalAccount:
    """Keep a key, given as 64 hexadecimal digits, in a new file. Raises: WalletError."""
    digits = key.strip().removeprefix("0x")
    if len(digits) != 64 or not _HEX.fullmatch(digits):
        raise WalletError("that is no private key: expected 64 hexadecimal digits, with or without 0x before them")
    try:
        account: LocalAccount = Account.from_key(bytes.fromhex(digits))
    except Exception:  # noqa: BLE001  eth_keys raises several classes, and their messages may show the key
        raise WalletError("that is no private key: the number is zero or beyond the order of secp256k1") from None
    _write(path, account, password, kdf_cost)
    return account


def load(path: Path, password: str, expected: Address | None = None) -> LocalAccount:
    """Open a keystore.

    Raises: WalletError for a file that is missing or damaged, a wrong password, another address than `expected`.
    """
    keystore = _read(path)
    if not password:
        raise WalletError(f"the password of {path} is empty: give the one that the keystore was made with")
    named = _named_address(keystore, path)
    if named is not None and expected is not None and named != expected:
        raise _other_address(path, named, expected)
    try:
        key = Account.decrypt(keystore, password)
    except (ValueError, MemoryError) as error:
        if "mac mismatch" not in str(error).lower():
            raise _damaged(path, "its key cannot be derived") from None
        raise WalletError(f"wrong password for {path}: try again, or restore the file if you are sure of it") from None
    account: LocalAccount = Account.from_key(key)
    found = parse_address(account.address)
    if named is not None and named != found:
        raise _damaged(path, f"it says {named} and holds the key of {found}")
    if expected is not None and found != expected:
        raise _other_address(path, found, expected)
    return account


def address_of(path: Path) -> Address:
    """Return the address that a keystore says it is of, without its password. Raises: WalletError."""
    named = _named_address(_read(path), path)
    if named is None:
        raise WalletError(f"{path} does not say its address: open it with its password to see it")
    return named


def read_password(file: Path | None, what: str, *, is_new: bool = False) -> str:
    """Return a password from a file, less one line end, or from the terminal, asked twice if it is new.

    Raises: WalletError if it is empty, the file cannot be read, or there is neither file nor terminal.
    """
    if file is not None:
        try:
            password = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise WalletError(f"password file {file}: {reason}") from None
        password = password.removesuffix("\n").removesuffix("\r")
        if not password:
            raise WalletError(f"password file {file} is empty: write the password of {what} into it")
        return password
    return _ask(f"password of {what}", is_new=is_new)


def read_key(file: Path | None) -> str:
    """Return a private key from a file or, unseen, from the terminal. Raises: WalletError."""
    if file is None:
        return _ask("private key", is_new=False)
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise WalletError(f"key file {file}: {reason}") from None


def _ask(what: str, *, is_new: bool) -> str:
    if not sys.stdin.isatty():
        raise WalletError(
            f"no terminal to ask for the {what}: put it into a file and name it with --password-file "
            "or STANNARY_PASSWORD_FILE"
            if "password" in what
            else f"no terminal to ask for the {what}: put it into a file and name it with --key-file"
        )
    answer = getpass.getpass(f"{what}: ")
    if not answer:
        raise WalletError(f"the {what} is empty: nothing was done")
    if is_new and getpass.getpass(f"{what}, again: ") != answer:
        raise WalletError("the two passwords differ: nothing was done")
    return answer


def _write(path: Path, account: LocalAccount, password: str, kdf_cost: int | None) -> None:
    if not password:
        raise WalletError(f"an empty password would leave {path} open: choose one")
    keystore = Account.encrypt(account.key, password, iterations=kdf_cost)
    data = json.dumps(keystore).encode() + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise WalletError(
            f"{path} exists already: choose another file, or move it away if you no longer need it"
        ) from None
    except OSError as error:
        raise WalletError(f"keystore {path}: {error.strerror}") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_KEYSTORE_BYTES + 1)
    except FileNotFoundError:
        raise WalletError(f"no keystore at {path}: make one with `stannary wallet new {path}`") from None
    except OSError as error:
        raise WalletError(f"keystore {path}: {error.strerror}") from None
    if len(data) > MAX_KEYSTORE_BYTES:
        raise _damaged(path, "it is too large to be one")
    try:
        keystore = json.loads(data)
    except (ValueError, RecursionError):
        raise _damaged(path, "it is not JSON, perhaps cut short") from None
    _check_form(keystore, path)
    checked: dict[str, Any] = keystore
    return checked


def _check_form(keystore: object, path: Path) -> None:
    """Tell a damaged file from a wrong password: every part that the password does not reach must be whole."""
    if not isinstance(keystore, dict) or keystore.get("version") != 3:
        raise _damaged(path, "it is no keystore of version 3")
    crypto = keystore.get("crypto")
    if not isinstance(crypto, dict):
        raise _damaged(path, "crypto is missing")
    parameters, cipher = crypto.get("kdfparams"), crypto.get("cipherparams")
    if not isinstance(parameters, dict) or not isinstance(cipher, dict):
        raise _damaged(path, "kdfparams or cipherparams is missing")
    if crypto.get("cipher") != "aes-128-ctr":
        raise _damaged(path, "the cipher is not aes-128-ctr")
    for name, value, digits in (
        ("ciphertext", crypto.get("ciphertext"), 64),
        ("mac", crypto.get("mac"), 64),
        ("iv", cipher.get("iv"), 32),
    ):
        if not isinstance(value, str) or len(value) != digits or not _HEX.fullmatch(value):
            raise _damaged(path, f"{name} is not {digits} hexadecimal digits")
    salt = parameters.get("salt")
    if not isinstance(salt, str) or len(salt) % 2 or not _HEX.fullmatch(salt):
        raise _damaged(path, "the salt is not hexadecimal")
    limits = {
        "scrypt": {"n": (2, MAX_SCRYPT_N), "r": (1, MAX_SCRYPT_R), "p": (1, MAX_SCRYPT_P), "dklen": (32, 32)},
        "pbkdf2": {"c": (1, MAX_PBKDF2_ROUNDS), "dklen": (32, 32)},
    }.get(str(crypto.get("kdf")))
    if limits is None:
        raise _damaged(path, "the key derivation is neither scrypt nor pbkdf2")
    for name, (lowest, highest) in limits.items():
        value = parameters.get(name)
        if type(value) is not int or not lowest <= value <= highest:
            raise _damaged(path, f"{name} of the key derivation is not a number from {lowest} to {highest}")


def _named_address(keystore: dict[str, Any], path: Path) -> Address | None:
    named = keystore.get("address")
    if named is None:
        return None
    try:
        return parse_address("0x" + str(named).removeprefix("0x").lower())
    except Malformed:
        raise _damaged(path, "its address is not one") from None


def _damaged(path: Path, what: str) -> WalletError:
    return WalletError(f"keystore {path} is damaged ({what}): restore it from a backup; no password opens it")


def _other_address(path: Path, found: Address, expected: Address) -> WalletError:
    return WalletError(f"keystore {path} is of {found}, expected {expected}: name the right file or the right address")
