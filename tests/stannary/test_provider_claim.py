"""`stannary provider claim`: takes exactly what is due, once, and believes no leaves that the chain does not."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from stannary import wallet, wire
from stannary.merkle import merkle_root
from stannary.structs import Lease, Submission
from stannary.types import Hash, Outcome, Role, to_hex
from stannary.verdict import pack_outcomes
from tests.chains import TOKENS, Devnet

ROOT = Hash(b"\x11" * 32)
UNITS = 50
JUDGES = ("judge-a", "judge-b", "judge-c")
OUTCOMES = [Outcome.ACCEPT, Outcome.REJECT, Outcome.ACCEPT]
"""The worker's two leaves, then one of somebody else."""


class Leaves:
    """An HTTP server that answers with one list of leaves, as a coordinator does."""

    def __init__(self) -> None:
        self.body = b""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("content-length", str(len(outer.body)))
                self.end_headers()
                self.wfile.write(outer.body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def leaves() -> Iterator[Leaves]:
    served = Leaves()
    thread = threading.Thread(target=served.server.serve_forever)
    thread.start()
    try:
        yield served
    finally:
        served.server.shutdown()
        thread.join()
        served.server.server_close()


def test_claim_takes_accepted_leaves_and_fees_once(devnet: Devnet, tmp_path: Path, leaves: Leaves) -> None:
    pool = devnet.pool()
    submissions = _finalized_step(devnet, pool)
    leaves.body = _message(devnet, submissions)
    terms, token = devnet.chain.pool_registry.terms_of(pool), devnet.chain.token
    worker, judge = devnet.sender("worker").address, devnet.sender("judge-a").address

    before = token.balance_of(worker)
    due = terms.price_per_group + UNITS * terms.price_per_token
    assert "2.5 went to" in _claim(devnet, tmp_path, "worker", pool, leaves.url)
    assert token.balance_of(worker) - before == due == 5 * TOKENS // 2
    assert not devnet.chain.payout_vault.is_slot_paid(pool, 0, 2)
    assert "0 went to" in _claim(devnet, tmp_path, "worker", pool, leaves.url)

    before = token.balance_of(judge)
    _claim(devnet, tmp_path, "judge-a", pool, None)
    assert token.balance_of(judge) - before == terms.panel_fee
    assert "0 went to" in _claim(devnet, tmp_path, "judge-a", pool, None)


def test_claim_refuses_leaves_that_are_not_those_on_chain(devnet: Devnet, tmp_path: Path, leaves: Leaves) -> None:
    pool = devnet.pool()
    submissions = _finalized_step(devnet, pool)
    leaves.body = _message(devnet, [submissions[0], submissions[2], submissions[1]])
    said = _claim(devnet, tmp_path, "worker", pool, leaves.url, expect=1)
    assert "leaves of step 0: expected those under 0x" in said
    leaves.body = b'{"step": 0}'
    assert "LeavesOut" in _claim(devnet, tmp_path, "worker", pool, leaves.url, expect=1)
    assert not devnet.chain.payout_vault.is_slot_paid(pool, 0, 0)


def test_claim_of_a_worker_without_a_coordinator_says_what_to_give(devnet: Devnet, tmp_path: Path) -> None:
    pool = devnet.pool()
    _finalized_step(devnet, pool)
    assert "STANNARY_COORDINATOR_URL" in _claim(devnet, tmp_path, "worker", pool, None, expect=3)
    assert "coordinator http" in _claim(devnet, tmp_path, "worker", pool, "http://127.0.0.1:1", expect=4)


def _claim(devnet: Devnet, folder: Path, name: str, pool: int, url: str | None, *, expect: int = 0) -> str:
    keystore = folder / f"{name}.json"
    if not keystore.exists():
        wallet.import_key(keystore, devnet.account(name).key.hex(), "p", kdf_cost=4)
        (folder / "password").write_text("p")
    clean = {key: value for key, value in os.environ.items() if not key.startswith("STANNARY_")}
    words = ["provider", "claim", "--pool", str(pool), "--keystore", str(keystore), "--password-file", "password"]
    words += ["--rpc-url", devnet.chain.rpc_url, "--deployment", "deployment.json"]
    words += ["--coordinator-url", url] if url else []
    done = subprocess.run(
        [sys.executable, "-c", "from stannary.cli import main; main()", *words],
        cwd=folder,
        env=clean,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stderr if expect else done.stdout


def _finalized_step(devnet: Devnet, pool: int) -> list[Submission]:
    ledger = devnet.chain.submission_ledger
    worker, other = devnet.stake("worker", pool, Role.WORKER), devnet.stake("other", pool, Role.WORKER)
    for name in JUDGES:
        devnet.stake(name, pool, Role.VALIDATOR)
    ledger.publish_policy(devnet.sender("trainer"), pool, 0, ROOT, ROOT)
    ledger.open_step(devnet.sender("trainer"), pool, 0, 0, 3)
    devnet.mine(2)
    ledger.seal_seed_beacon(devnet.sender("trainer"), pool, 0)
    submissions = [
        Submission(pool, 0, slot, owner, owner, UNITS, Hash(bytes([slot + 1]) * 32), ROOT)
        for slot, owner in ((0, worker.address), (1, worker.address), (2, other.address))
    ]
    root = merkle_root([leaf.struct_hash() for leaf in submissions])
    ledger.commit_root(devnet.sender("coordinator"), pool, 0, root, len(submissions), ROOT)
    devnet.mine(2)
    ledger.seal_audit_beacon(devnet.sender("trainer"), pool, 0)
    for name in JUDGES:
        ledger.vote(devnet.sender(name), pool, 0, pack_outcomes(OUTCOMES), ROOT, ROOT)
    devnet.advance(devnet.chain.pool_registry.terms_of(pool).challenge_seconds + 1)
    ledger.finalize(devnet.sender("trainer"), pool, 0)
    return submissions


def _message(devnet: Devnet, submissions: list[Submission]) -> bytes:
    domain, coordinator = devnet.chain.ledger_domain, devnet.account("coordinator")
    found = []
    for leaf in submissions:
        lease = Lease(leaf.pool, 0, 0, leaf.slot, leaf.provider, leaf.node, 0, 1, 128, ROOT, 1)
        signature = leaf.sign(coordinator, domain)  # who signed a leaf is not what `claim` looks at
        found.append(
            wire.LeafOut(
                submission=wire.SubmissionMessage.of(leaf, signature),
                lease=wire.LeaseMessage.of(lease, lease.sign(coordinator, domain)),
            )
        )
    root = to_hex(merkle_root([leaf.struct_hash() for leaf in submissions]))
    return wire.LeavesOut(step=0, submission_root=root, leaves=found).model_dump_json().encode()
