"""A40: every wallet failure is one line that says what to do, with an exit code, and shows no key."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from stannary import wallet
from stannary.errors import FundsError, WalletError
from stannary.types import Address
from tests.chains import Devnet

KEY = "11" * 32
PASSWORD = "correct horse"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the command said."""

    code: int
    line: str


@pytest.fixture
def keystore(tmp_path: Path) -> Path:
    wallet.import_key(tmp_path / "node.json", KEY, PASSWORD, kdf_cost=4)
    return tmp_path / "node.json"


def _stannary(folder: Path, *words: str, **variables: str) -> Answer:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("STANNARY_")}
    done = subprocess.run(
        [sys.executable, "-c", "from stannary.cli import main; main()", *words],
        cwd=folder,
        env={**clean, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert KEY not in done.stdout + done.stderr
    assert PASSWORD not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == (1 if done.returncode else 0), done.stderr
    return Answer(done.returncode, done.stderr.strip())


def _open(folder: Path, password: str | None) -> Answer:
    if password is None:
        return _stannary(folder, "wallet", "show", "node.json", "--check")
    (folder / "password").write_text(password)
    return _stannary(folder, "wallet", "show", "node.json", "--password-file", "password")


@pytest.mark.usefixtures("keystore")
@pytest.mark.parametrize(
    ("password", "hint"),
    [
        ("wrong", "wrong password"),
        ("", "is empty: write the password"),
        (None, "STANNARY_PASSWORD_FILE"),
    ],
)
def test_a40_password_failures_say_what_to_do(tmp_path: Path, password: str | None, hint: str) -> None:
    answer = _open(tmp_path, password)
    assert answer.code == 3
    assert hint in answer.line


@pytest.mark.usefixtures("keystore")
def test_a40_password_file_with_a_line_end_opens(tmp_path: Path) -> None:
    assert _open(tmp_path, PASSWORD + "\n").code == 0


def test_a40_truncated_keystore_is_told_from_a_wrong_password(tmp_path: Path, keystore: Path) -> None:
    keystore.write_bytes(keystore.read_bytes()[:200])
    answer = _open(tmp_path, PASSWORD)
    assert answer.code == 3
    assert "damaged" in answer.line
    assert "restore it from a backup" in answer.line
    assert "wrong password" not in answer.line


def test_a40_keystore_of_another_address_names_both(keystore: Path) -> None:
    other = Address("0x" + "00" * 19 + "01")
    with pytest.raises(WalletError, match="expected") as caught:
        wallet.load(keystore, PASSWORD, other)
    assert wallet.address_of(keystore) in str(caught.value)
    assert other in str(caught.value)


def test_a40_keystore_that_names_an_address_it_does_not_hold_is_damaged(keystore: Path) -> None:
    document = json.loads(keystore.read_text())
    document["address"] = "00" * 19 + "01"
    keystore.write_text(json.dumps(document))
    with pytest.raises(WalletError, match="damaged"):
        wallet.load(keystore, PASSWORD)


@pytest.mark.parametrize("missing_wei", ["all", "one"])
def test_a40_balance_under_the_fee_says_needed_and_present(devnet: Devnet, tmp_path: Path, missing_wei: str) -> None:
    pool = devnet.pool()
    node = devnet.sender("node")
    wallet.import_key(tmp_path / "w.json", devnet.account("node").key.hex(), PASSWORD, kdf_cost=4)
    (tmp_path / "password").write_text(PASSWORD)
    devnet.chain.rpc("anvil_setBalance", node.address, hex(0))
    if missing_wei == "one":
        with pytest.raises(FundsError) as caught:
            node.require_fees(20_000)
        devnet.chain.rpc("anvil_setBalance", node.address, hex(caught.value.needed_wei - 1))
    answer = _stannary(
        tmp_path,
        *("provider", "stake", "200", "--pool", str(pool), "--keystore", "w.json", "--password-file", "password"),
        *("--rpc-url", devnet.chain.rpc_url, "--deployment", "deployment.json"),
    )
    assert answer.code == 3
    assert "needed" in answer.line
    assert node.address in answer.line
    assert "send it at least" in answer.line
