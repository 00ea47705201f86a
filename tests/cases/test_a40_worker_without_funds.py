"""A40, last sentence: with too little for fees the worker says the needed and present amounts before any inference."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stannary import wallet
from stannary.types import Role
from tests.chains import Devnet
from worker.admission import FEE_GAS


@pytest.mark.parametrize("short_by_wei", [None, 1])
def test_a40_worker_without_money_for_fees_says_needed_and_present_before_inference(
    devnet: Devnet, tmp_path: Path, short_by_wei: int | None
) -> None:
    pool = devnet.pool()
    devnet.stake("miner", pool, Role.WORKER)
    node = devnet.add_node("miner", "rig")
    # The price of gas at the newest block is what the worker reads, so the block after must not change it.
    needed_wei = FEE_GAS * devnet.chain.fees()[0]
    present_wei = 0 if short_by_wei is None else needed_wei - short_by_wei
    devnet.chain.rpc("anvil_setBalance", node.address, hex(present_wei))
    wallet.import_key(tmp_path / "rig.json", node.key.hex(), "rig password", kdf_cost=2)
    (tmp_path / "password").write_text("rig password\n")
    # An engine that cannot be: had the worker come as far as inference, it would say so.
    command = [
        *(sys.executable, "-m", "demo.adversaries", "cheat"),
        *("--engine", "vllm", "--run-dir", str(tmp_path / "run"), "--rpc-url", devnet.chain.rpc_url),
        *("--deployment", str(tmp_path / "deployment.json"), "--pool", str(pool)),
        *("--coordinator-url", "http://127.0.0.1:9", "--keystore", str(tmp_path / "rig.json")),
        *("--password-file", str(tmp_path / "password")),
    ]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": "."}, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert f"{present_wei / 1e18:.6f} ether for fees, {needed_wei / 1e18:.6f} ether for fees needed" in done.stderr
    assert "rig password" not in done.stdout + done.stderr
    assert node.key.hex() not in done.stdout + done.stderr
