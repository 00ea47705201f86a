"""A worker whose proofs are all of another model: the panel's scores add up, a jury measures again, stake is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch
from eth_account.signers.local import LocalAccount

from stannary import wallet, wire
from stannary.accusation import Accusation
from stannary.audit import audit_pool
from stannary.cards import (
    Allowance,
    Card,
    DriftLimits,
    MeanDriftLimits,
    PairingLimits,
    SamplingLimits,
    Thresholds,
    evidence_rules,
)
from stannary.client import CoordinatorClient
from stannary.commitments import vote_commitment
from stannary.disputes import open_accusation
from stannary.environments import Environment
from stannary.errors import Unavailable
from stannary.provider_record import PublicSources
from stannary.rollout import content_hash, decode_group, encode_group
from stannary.seeds import StepSeeds
from stannary.structs import Lease, Submission
from stannary.types import Address, CasePhase, Hash, Outcome, Phase, PoolId, Role, Ruling, to_hex
from tests.chains import ROOT, TOKENS, Devnet
from tests.validator.conftest import bf16, environment, fp32, generate, prove, toy
from validator.accuser import Accuser
from validator.assembly import ChainCases, ChainCourt, ChainLedger, rules_of
from validator.budget import Budget
from validator.inspection import Inspector
from validator.judgement import Computes
from validator.loop import Validator
from validator.parts import Parts
from validator.prefill import Prefill
from validator.records import Records
from validator.votes import RulingStore, Vote, VoteStore

__all__ = ["bf16", "environment", "fp32", "toy"]

STAKE = 1_000 * TOKENS
CHEAT_SLOTS = (0, 2)
SLOTS, GROUP_SIZE, CAP = 3, 2, 32


def loose(factor: float) -> Thresholds:
    """Limits that no honest submission of the toy policy comes near."""
    return Thresholds(
        drift=(DriftLimits(1, int(60 * factor), 40.0 * factor, 40.0 * factor),),
        mean_drift=(MeanDriftLimits(1, 40.0 * factor, 24.0 * factor),),
        gap_bound=4.0,
        gap_margin=0.5,
        beyond_margin=Allowance(8.0, 0.02),
        gap_cap=1.0,
        sampling=(SamplingLimits(4, 0.5 * factor, 0.5 * factor),),
        pairing=PairingLimits(0.001, 50.0),
    )


class Folder(SimpleHTTPRequestHandler):
    """Serves a folder without a word."""

    def log_message(self, format: str, *args: object) -> None:
        del format, args


@dataclass(slots=True)
class FolderCoordinator:
    """A coordinator whose answers lie in a folder: where a client looks for them."""

    folder: Path

    def put(self, path: str, data: bytes) -> None:
        place = self.folder / "v1" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)

    def leaves(self, step: int) -> wire.LeavesOut:
        return wire.LeavesOut.read((self.folder / "v1" / "steps" / str(step) / "leaves").read_bytes())

    def submission_file(self, expected: Hash) -> bytes:
        return (self.folder / "v1" / "submissions" / to_hex(expected)).read_bytes()

    def put_evidence(self, evidence_root: Hash, data: bytes) -> None:
        self.put(f"evidence/{to_hex(evidence_root)}", data)

    def post_verdicts(self, verdicts: wire.VerdictsIn) -> None:
        del verdicts


@dataclass(slots=True)
class Policy:
    """The toy policy, for whatever step."""

    folder: Path
    computes: Computes

    def fetch(self, policy_step: int, policy_root: Hash) -> Path:
        return self.folder

    def load(self, policy_step: int, policy_root: Hash, before_root: Hash | None) -> tuple[Path, Computes]:
        return self.folder, self.computes


@dataclass(slots=True)
class Hall:
    """A pool whose panel has just decided its step 0, and what answers for its coordinator."""

    devnet: Devnet
    pool: PoolId
    coordinator: FolderCoordinator
    url: str
    validators: list[Validator]

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            for validator in self.validators:
                validator.tick()
            self.devnet.mine()

    def command(self, name: str, *words: str, expect: int = 0) -> str:
        """Run `stannary dispute` as the account of a name."""
        folder = self.coordinator.folder
        if not (keystore := folder / f"{name}.key").exists():
            wallet.import_key(keystore, self.devnet.account(name).key.hex(), "correct horse", kdf_cost=4)
            (folder / "password").write_text("correct horse")
        self.devnet.chain.deployment.write(folder / "deployment.json")
        options = [
            *("--rpc-url", self.devnet.chain.rpc_url, "--deployment", str(folder / "deployment.json")),
            *("--pool", str(self.pool), "--coordinator-url", self.url),
            *("--keystore", str(keystore), "--password-file", str(folder / "password")),
        ]
        clean = {name: value for name, value in os.environ.items() if not name.startswith("STANNARY_")}
        done = subprocess.run(
            [sys.executable, "-c", "from stannary.cli import main; main()", "dispute", *words, *options],
            cwd=folder,
            capture_output=True,
            text=True,
            env={**clean, "NO_COLOR": "1", "XDG_STATE_HOME": str(folder / "state")},
            timeout=120,
            check=False,
        )
        assert done.returncode == expect, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def hall(
    devnet: Devnet, tmp_path: Path, toy: Path, fp32: Prefill, bf16: Prefill, environment: Environment
) -> Iterator[Hall]:
    rules = evidence_rules((0.05, 0.005, 0.0005), stop_log10=1.5, slash_log10=3.0)
    limits = Thresholds(**{**vars_of(loose(1.0)), "ladder": (loose(0.7), loose(0.8), loose(0.9))})
    card = Card(1000, fp32.hidden_size, fp32.vocabulary, 10_000, limits, rules, {})
    folder = tmp_path / "served"
    coordinator = FolderCoordinator(folder)
    coordinator.put(f"documents/{to_hex(card.hash())}", card.to_bytes())

    pool = devnet.pool(
        card_hash=card.hash(), group_size=GROUP_SIZE, max_completion_tokens=CAP, jury_size=3, challenge_seconds=120
    )
    judges = [devnet.name_of(sender.address) for sender in devnet.judges(pool, 6)]
    nodes = {}
    for name in ("cheat", "ada"):
        devnet.stake(name, pool, Role.WORKER)
        nodes[name] = devnet.add_node(name, f"rig of {name}")
    devnet.mine()
    devnet.open_step(pool, slots=SLOTS)
    state = devnet.chain.submission_ledger.step_of(pool, 0)
    seeds = StepSeeds(devnet.chain.ledger_domain, pool, 0, state.seed_beacon)

    leaves, messages = [], []
    for slot in range(SLOTS):
        name = "cheat" if slot in CHEAT_SLOTS else "ada"
        provider, node = devnet.sender(name).address, nodes[name]
        prompt = environment.problem(seeds.slot_seed(slot)).prompt
        tokens, states = generate(bf16, prompt, [seeds.rollout_seed(slot, index) for index in range(GROUP_SIZE)], CAP)
        data = encode_group(prove(prompt, tokens, quantized(states) if name == "cheat" else states))
        coordinator.put(f"submissions/{to_hex(content_hash(data))}", data)
        lease = Lease(
            *(pool, 0, 0, slot, provider, devnet.address(node)),
            *(state.seeded_at + 1, state.seeded_at + 60, GROUP_SIZE * CAP, card.hash(), 1),
        )
        units = sum(len(own) for own in tokens)
        leaf = Submission(pool, 0, slot, provider, devnet.address(node), units, content_hash(data), lease.struct_hash())
        leaves.append(leaf)
        messages.append(message_of(leaf, lease, node, devnet))
    served = wire.LeavesOut(step=0, submission_root=to_hex(ROOT), leaves=messages)
    coordinator.put("steps/0/leaves", served.model_dump_json().encode())
    devnet.commit(pool, leaves)

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Folder, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    policy = Policy(toy, Computes(fp32, lambda: bf16))
    validators = [
        open_validator(devnet, pool, name, tmp_path, coordinator, policy, card, environment) for name in judges
    ]
    hall = Hall(devnet, pool, coordinator, url, validators)
    try:
        devnet.draw(pool)
        hall.tick(5)
        assert len(devnet.chain.step_history(pool, 0).votes) == 3
        devnet.finalize(pool)
        yield hall
    finally:
        server.shutdown()
        server.server_close()


def vars_of(limits: Thresholds) -> dict[str, object]:
    return {name: getattr(limits, name) for name in limits.__dataclass_fields__}


def quantized(states: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """States as far off as those of a coarse quantization."""
    draw = torch.Generator().manual_seed(7)
    return [(own.float() * (1 + 0.2 * torch.randn(own.shape, generator=draw))).bfloat16() for own in states]


def message_of(leaf: Submission, lease: Lease, node: LocalAccount, devnet: Devnet) -> wire.LeafOut:
    domain = devnet.chain.ledger_domain
    return wire.LeafOut(
        submission=wire.SubmissionMessage.of(leaf, leaf.sign(node, domain)),
        lease=wire.LeaseMessage.of(lease, lease.sign(devnet.account("coordinator"), domain)),
    )


def open_validator(
    devnet: Devnet,
    pool: PoolId,
    name: str,
    folder: Path,
    coordinator: FolderCoordinator,
    policy: Policy,
    card: Card,
    environment: Environment,
) -> Validator:
    chain, sender, records = devnet.chain, devnet.sender(name), Records(folder / "votes" / name)
    terms = chain.pool_registry.terms_of(pool)

    def seal(step: int, vote: Vote) -> Hash:
        rest = (vote.outcomes, vote.verdict_root, vote.evidence_root, vote.salt)
        return vote_commitment(chain.panel_domain, pool, step, sender.address, *rest)

    def fetch(url: str) -> bytes:
        place = coordinator.folder / url.split("/", 3)[3]
        if not place.exists():
            raise Unavailable(f"{url} is not there")
        return place.read_bytes()

    parts = Parts(
        rules=rules_of(terms, chain, pool),
        court_domain=chain.court_domain,
        vote_seconds=terms.vote_seconds,
        provider=sender.address,
        account=devnet.account(name),
        card_of=lambda _: card,
        ledger=ChainLedger(chain, pool, sender.address, sender),
        court=ChainCourt(chain, pool, sender.address, sender),
        coordinator=coordinator,
        fetch=fetch,
        read_submission=decode_group,
        weights=policy,
        open_environment=lambda _: environment,
        compute="test",
        votes=VoteStore(records, seal),
        rulings=RulingStore(records),
    )
    return Validator(parts, clock=lambda: float(chain.frozen().timestamp))


def test_watcher_accuses_the_worker_of_another_model_by_itself_and_nobody_else(hall: Hall) -> None:
    """What it measured itself is what the jury will find; the document is what the command would send."""
    devnet, pool, chain = hall.devnet, hall.pool, hall.devnet.chain
    name, url = "watched.json", f"{hall.url}/watched.json"
    stop = threading.Event()

    def accuse(accusation: Accusation) -> int:
        (hall.coordinator.folder / name).write_bytes(accusation.to_bytes())
        return open_accusation(chain, devnet.sender("watcher"), accusation, url)

    bond = 2 * chain.dispute_court.bond_of(pool)
    budget = Budget(bond)
    with CoordinatorClient(hall.url, chain.ledger_domain, devnet.address(devnet.account("coordinator"))) as client:
        parts = hall.validators[0].parts
        terms = chain.pool_registry.terms_of(pool)
        accuser = Accuser(
            parts,
            Inspector(parts, time.monotonic, stop),
            PublicSources(chain, client, pool),
            accuse,
            budget,
            cases=ChainCases(chain, pool),
            quorum=terms.quorum,
            bond_wei=bond,
            challenge_seconds=terms.challenge_seconds,
            clock=time.monotonic,
        )
        while accuser.tick(chain.frozen()):
            pass
        accuser.tick(chain.frozen())
    cheat = devnet.sender("cheat").address
    assert chain.dispute_court.case_count() == 1
    case = chain.dispute_court.case_of(1)
    assert case is not None
    assert (case.provider, case.first_step, case.step, budget.spent) == (cheat, 0, 0, bond)
    hall.command("watcher", "accuse", "--provider", cheat)
    served = [(hall.coordinator.folder / file).read_bytes() for file in (name, "accusation.json")]
    assert served[0] == served[1]
    until(hall, CasePhase.RULED)
    case = chain.dispute_court.case_of(1)
    assert case is not None
    assert case.ruling is Ruling.FAULT


def test_worker_of_another_model_is_accused_convicted_and_slashed_once(hall: Hall) -> None:
    devnet, pool, chain = hall.devnet, hall.pool, hall.devnet.chain
    assert chain.submission_ledger.step_of(pool, 0).phase is Phase.FINALIZED
    outcomes = chain.step_history(pool, 0).outcomes()
    assert outcomes == [Outcome.REJECT if slot in CHEAT_SLOTS else Outcome.ACCEPT for slot in range(SLOTS)]
    cheat, ada = (devnet.sender(name).address for name in ("cheat", "ada"))

    said = hall.command("watcher", "accuse", "--provider", ada, "--send", expect=3)
    assert "leaves: 1, with scores from their panel: 1" in said
    assert "no leaf reaches a level" in said
    assert "would not convict" in said
    elsewhere = ("--send", "--location", f"{hall.url}/gone.json")
    assert "does not serve" in hall.command("watcher", "accuse", "--provider", cheat, *elsewhere, expect=3)
    said = hall.command("watcher", "accuse", "--provider", cheat, "--send", "--location", f"{hall.url}/accusation.json")
    assert "leaves: 2, with scores from their panel: 2" in said
    accusation = Accusation.parse((hall.coordinator.folder / "accusation.json").read_bytes())
    assert tuple(leaf.slot for leaf in accusation.leaves) == CHEAT_SLOTS
    bond = 2 * chain.dispute_court.bond_of(pool)
    assert f"case 1: bond {bond // TOKENS}" in said

    court, terms = chain.dispute_court, chain.pool_registry.terms_of(pool)
    until(hall, CasePhase.RULED)
    assert court.judged_up_to(pool, cheat) == 0
    devnet.advance(terms.challenge_seconds)
    until(hall, CasePhase.RESOLVED)
    case = court.case_of(1)
    assert case is not None
    assert (case.ruling, case.outcome) == (Ruling.FAULT, Outcome.FAULT)
    assert court.judged_up_to(pool, cheat) == 1

    slashed = STAKE * terms.statistics_slash_bps // 10_000
    assert tokens_of(hall, cheat) == STAKE - slashed
    assert tokens_of(hall, ada) == STAKE
    watcher = devnet.sender("watcher").address
    assert chain.stake_manager.idle_of(watcher) == slashed * terms.reward_bps // 10_000
    assert chain.payout_vault.earnings_of(pool, watcher).earned == bond - 3 * terms.juror_fee
    found = audit_pool(pool, chain.read_events(0, chain.frozen().number))
    assert [str(difference) for difference in found.differences] == []
    assert found.slashed[cheat] == slashed
    assert "expected a run within 1 … 0" in hall.command("watcher", "accuse", "--provider", cheat, expect=3)


def tokens_of(hall: Hall, worker: Address) -> int:
    return hall.devnet.chain.stake_manager.position_of(hall.pool, Role.WORKER, worker).tokens


def until(hall: Hall, phase: CasePhase) -> None:
    """Let validators act, and time pass, until the case is so far."""
    for _ in range(60):
        case = hall.devnet.chain.dispute_court.case_of(1)
        assert case is not None
        if case.phase is phase:
            return
        hall.tick()
        hall.devnet.advance(2)
    raise AssertionError(f"the case is {case.phase.name.lower()}, ruling {case.ruling.name.lower()}")
