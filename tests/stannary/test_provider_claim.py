"""`stannary provider claim`: pays all that is due to a provider, once, to its payee, whoever sends it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from stannary import wallet
from stannary.structs import Submission
from stannary.types import Hash, Outcome, Role
from tests.chains import ROOT, TOKENS, Devnet

UNITS = 50
OUTCOMES = [Outcome.ACCEPT, Outcome.REJECT, Outcome.ACCEPT]
"""The worker's two leaves, then one of somebody else."""


def test_claim_takes_the_pay_of_all_steps_and_the_fees_once(devnet: Devnet, tmp_path: Path) -> None:
    pool = devnet.pool()
    panels = [_finalized_step(devnet, pool, step) for step in (0, 1)]
    terms, token = devnet.chain.pool_registry.terms_of(pool), devnet.chain.token
    worker, judge = devnet.sender("worker").address, devnet.sender("judge-0").address

    before = token.balance_of(worker)
    assert f"5 went to {worker}" in _claim(devnet, tmp_path, "worker", pool)
    assert token.balance_of(worker) - before == 2 * terms.payout(UNITS) == 5 * TOKENS
    assert "0 went to" in _claim(devnet, tmp_path, "worker", pool)

    before, seats = token.balance_of(judge), sum("judge-0" in panel for panel in panels)
    _claim(devnet, tmp_path, "judge-0", pool)
    assert token.balance_of(judge) - before == seats * terms.panel_fee
    assert "0 went to" in _claim(devnet, tmp_path, "judge-0", pool)


def test_claim_by_a_stranger_pays_the_payee_that_the_provider_named(devnet: Devnet, tmp_path: Path) -> None:
    pool = devnet.pool()
    _finalized_step(devnet, pool, 0)
    worker, purse = devnet.sender("worker"), devnet.sender("purse", tokens=0).address
    said = _run(devnet, tmp_path, "worker", "provider", "payee", purse, "--pool", str(pool))
    assert f"in pool {pool} go to {purse}" in said
    assert f"2.5 went to {purse}" in _claim(devnet, tmp_path, "stranger", pool, "--provider", worker.address)
    assert devnet.chain.token.balance_of(purse) == 5 * TOKENS // 2


def test_controller_that_took_over_acts_for_the_provider(devnet: Devnet, tmp_path: Path) -> None:
    pool = devnet.pool()
    worker, vault_key = devnet.stake("worker", pool, Role.WORKER), devnet.sender("new-key")
    _run(devnet, tmp_path, "worker", "provider", "hand-over", vault_key.address)
    said = _run(devnet, tmp_path, "new-key", "provider", "take-over", worker.address)
    assert f"{vault_key.address} controls {worker.address}" in said
    assert "exit 1 began" in _run(devnet, tmp_path, "new-key", "provider", "unstake", "100", "--pool", str(pool))
    refused = _run(devnet, tmp_path, "worker", "provider", "unstake", "100", "--pool", str(pool), expect=1)
    assert "NotController" in refused


def _claim(devnet: Devnet, folder: Path, name: str, pool: int, *words: str) -> str:
    return _run(devnet, folder, name, "provider", "claim", "--pool", str(pool), *words)


def _run(devnet: Devnet, folder: Path, name: str, *words: str, expect: int = 0) -> str:
    keystore = folder / f"{name}.json"
    if not keystore.exists():
        wallet.import_key(keystore, devnet.account(name).key.hex(), "p", kdf_cost=4)
        (folder / "password").write_text("p")
    clean = {key: value for key, value in os.environ.items() if not key.startswith("STANNARY_")}
    options = ["--keystore", str(keystore), "--password-file", "password"]
    options += ["--rpc-url", devnet.chain.rpc_url, "--deployment", "deployment.json"]
    done = subprocess.run(
        [sys.executable, "-c", "from stannary.cli import main; main()", *words, *options],
        cwd=folder,
        env=clean | {"XDG_STATE_HOME": str(folder / "state")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stderr if expect else done.stdout


def _finalized_step(devnet: Devnet, pool: int, step: int) -> list[str]:
    """Play a step of three leaves to its end and return the names of its panel."""
    if step == 0:
        for name in ("worker", "other"):
            devnet.stake(name, pool, Role.WORKER)
        devnet.judges(pool)
    worker, other = devnet.sender("worker").address, devnet.sender("other").address
    devnet.open_step(pool, step, slots=3)
    owners = enumerate((worker, worker, other))
    devnet.commit(
        pool,
        [Submission(pool, step, slot, who, who, UNITS, Hash(bytes([slot + 1]) * 32), ROOT) for slot, who in owners],
        step,
    )
    panel = devnet.draw(pool, step)
    devnet.vote(pool, dict.fromkeys(panel, OUTCOMES), step)
    devnet.finalize(pool, step)
    return panel
