"""Counts what the contracts cost on a real chain: whole steps, each call by itself, and deployment.

python -m benchmarks.bench_gas
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_utils.crypto import keccak

import contracts
from benchmarks.figures import figure, missed, node_version, write_results
from stannary.chain import Call, Chain, LeafOpening, Mined, PoolTerms, Sender, devnet
from stannary.commitments import plant_commitment, ruling_commitment, vote_commitment
from stannary.slots import PayTable, submission_root, taken_lease_hash
from stannary.structs import Lease, NodeConsent, Submission
from stannary.types import ZERO_HASH, Address, Hash, Outcome, PoolId, Role, Ruling, parse_address
from stannary.verdict import pack_outcomes

WORKERS = 16
PANEL = 3
QUORUM = 2
JURY = 3
VALIDATORS = PANEL + JURY
STEADY_STEP = 2
"""The first step finds empty storage; from the third on, a step whose earners were all paid before is as later ones."""
TOUR_SLOTS = 64
STAKE = 10**21
FUNDS = 10**24
UNITS = 3000
GROUP_SIZE = 8
COMPLETION_TOKENS = 512
MAX_UNITS = GROUP_SIZE * COMPLETION_TOKENS
BLOCK_GAS = 10**9
"""Of the development chain: a call that no chain would take shall be counted, not refused."""
RECEIPT_POLL_S = 0.005
TRANSACTION_GAS = 1 << 24
"""The most that one transaction may use. Source: EIP-7825."""
CODE_BYTES = 24_576
"""The longest code of a contract. Source: EIP-170."""

TARGETS = {256: "<= 10000", 4096: "<= 1000"}
"""Of all transactions of a step in its steady state, in gas a submission."""


@dataclass(slots=True)
class Meter:
    """Counts the gas of calls by name; `note` tells kinds of one call apart."""

    spent: dict[str, list[int]] = field(default_factory=dict)
    note: str = ""
    largest: tuple[str, int] = ("", 0)

    def count(self, name: str, gas: int) -> None:
        """Count one transaction."""
        name = f"{name} ({self.note})" if self.note else name
        self.spent.setdefault(name, []).append(gas)
        self.largest = max(self.largest, (name, gas), key=lambda found: found[1])

    @contextmanager
    def noted(self, note: str) -> Iterator[None]:
        """Give all calls inside a note."""
        before, self.note = self.note, note
        try:
            yield
        finally:
            self.note = before

    def take(self) -> dict[str, list[int]]:
        """Return what was counted since the last time."""
        taken, self.spent = self.spent, {}
        return taken


class MeteredSender(Sender):
    """A sender whose calls are counted."""

    def __init__(self, chain: Chain, account: LocalAccount, lock_folder: Path, meter: Meter) -> None:
        super().__init__(chain, account, lock_folder=lock_folder)
        self._chain = chain
        self._meter = meter

    def send(self, call: Call) -> Mined:
        """Send and count."""
        submitted = self.submit(call)
        # The node spends the nonce a moment before it has the receipt.
        while self._chain.mined(submitted.transaction) is None:
            time.sleep(RECEIPT_POLL_S)
        mined = self.wait(submitted)
        self._meter.count(call.name, mined.gas_used)
        return mined


@dataclass(slots=True)
class Stage:
    """A chain of one measurement, and everybody on it by name."""

    chain: Chain
    lock_folder: Path
    meter: Meter = field(default_factory=Meter)
    senders: dict[str, MeteredSender] = field(default_factory=dict)

    def key(self, name: str) -> LocalAccount:
        """Return the key of a name."""
        account: LocalAccount = Account.from_key(keccak(text=f"stannary.gas.{name}"))
        return account

    def address(self, name: str) -> Address:
        """Return the address of a name."""
        return parse_address(str(self.key(name).address))

    def sender(self, name: str) -> MeteredSender:
        """Return the sender of a name, with money."""
        if name not in self.senders:
            devnet.fund(self.chain, self.address(name), 10**20, FUNDS)
            self.senders[name] = MeteredSender(self.chain, self.key(name), self.lock_folder, self.meter)
        return self.senders[name]

    def name_of(self, address: Address) -> str:
        """Return whose address it is."""
        return next(name for name, sender in self.senders.items() if sender.address == address)

    def terms(self, slots: int) -> PoolTerms:
        """Return the terms that everything is measured under."""
        owner = self.sender("owner").address
        return PoolTerms(
            payout_token=self.chain.deployment.token,
            pauser=self.sender("pauser").address,
            unpauser=self.sender("unpauser").address,
            coordinator=owner,
            trainer=owner,
            price_per_group=10**15,
            price_per_token=10**12,
            card_hash=word("card"),
            panel_fee=10**16,
            juror_fee=10**16,
            seal_fee=10**15,
            lease_bond=10**17,
            min_worker_stake=STAKE // 10,
            pay_cap_bps=10_000,
            max_open_steps=4,
            group_size=GROUP_SIZE,
            max_completion_tokens=COMPLETION_TOKENS,
            max_slots=slots,
            reserved_slots=0,
            max_lag=2,
            temperature_milli=1000,
            protocol_version=1,
            min_validator_stake=STAKE // 10,
            panel_size=PANEL,
            quorum=QUORUM,
            jury_size=JURY,
            max_absences=3,
            beacon_delay_blocks=1,
            lease_seconds=600,
            collect_seconds=600,
            take_seconds=0,
            vote_seconds=600,
            reveal_seconds=600,
            challenge_seconds=600,
            unbonding_seconds=20_000,
            notice_seconds=600,
            fault_slash_bps=1000,
            statistics_slash_bps=2000,
            silence_slash_bps=100,
            wrong_vote_slash_bps=300,
            plant_slash_bps=500,
            max_slash_bps=2000,
            slash_window_seconds=20_000,
            reward_bps=2000,
            environment_hash=word("environment"),
        )

    def found(self, terms: PoolTerms, validators: int = VALIDATORS) -> PoolId:
        """Create and fund a pool, and stake its workers and validators."""
        owner = self.sender("owner")
        pool = self.chain.pool_registry.create_pool(owner, terms)
        self.allow(owner)
        self.chain.payout_vault.fund(owner, pool, FUNDS // 8)
        for place in range(WORKERS):
            with self.meter.noted("worker"):
                self.stake(f"worker {place}", pool, Role.WORKER)
        for place in range(validators):
            with self.meter.noted("validator"):
                self.stake(f"validator {place}", pool, Role.VALIDATOR)
                self.add_node(f"validator {place}")
        devnet.mine(self.chain)
        return pool

    def allow(self, sender: Sender) -> None:
        """Let stake manager and vault take whatever the sender has."""
        for spender in (self.chain.deployment.stake_manager, self.chain.deployment.payout_vault):
            self.chain.token.require_allowance(sender, spender, FUNDS)

    def stake(self, name: str, pool: PoolId, role: Role) -> None:
        """Deposit and allocate stake of a name."""
        sender, stakes = self.sender(name), self.chain.stake_manager
        self.allow(sender)
        stakes.deposit(sender, STAKE)
        stakes.allocate(sender, pool, role, STAKE, self.chain.pool_registry.terms_hash_of(pool))

    def add_node(self, name: str) -> None:
        """Bind a node to the provider of a name, once: it then votes and rules."""
        node, provider, stakes = self.key(node_of(name)), self.sender(name), self.chain.stake_manager
        if stakes.provider_of(self.address(node_of(name))) == provider.address:
            return
        deadline = self.chain.frozen().timestamp + 3600
        consent = NodeConsent(self.address(node_of(name)), provider.address, deadline)
        stakes.add_node(provider, consent.node, deadline, consent.sign(node, self.chain.stake_domain))

    def node(self, provider: Address) -> MeteredSender:
        """Return the sender of a provider's node."""
        return self.sender(node_of(self.name_of(provider)))

    def wait_until(self, pool: PoolId, pool_time: int) -> None:
        """Let the pool's clock reach a time."""
        missing = pool_time - self.chain.pool_registry.clock_of(pool, self.chain.frozen())
        if missing > 0:
            devnet.advance(self.chain, missing)

    def leaves(self, pool: PoolId, step: int, slots: int) -> list[Submission]:
        """Return a leaf for each slot: all workers in turn, each group of another length."""
        workers = [self.address(f"worker {place}") for place in range(WORKERS)]
        return [
            Submission(
                pool,
                step,
                slot,
                workers[slot % WORKERS],
                workers[slot % WORKERS],
                UNITS + slot % 1000,
                word(f"content {pool} {step} {slot}"),
                word(f"lease {pool} {step} {slot}"),
            )
            for slot in range(slots)
        ]

    def open(self, pool: PoolId, step: int, slots: int) -> None:
        """Publish a policy, open a step under it and seal the seed beacon."""
        owner, ledger = self.sender("owner"), self.chain.submission_ledger
        ledger.publish_policy(
            owner, pool, step, word(f"policy {step}"), word(f"consumed {step}") if step else ZERO_HASH
        )
        ledger.open_step(owner, pool, step, step, slots)
        devnet.mine(self.chain, 2)
        ledger.seal_seed_beacon(owner, pool, step)

    def commit(self, pool: PoolId, step: int, leaves: Sequence[Submission]) -> PayTable:
        """Commit the leaves of a step, one a slot."""
        table = PayTable.of(leaves, len(leaves), self.chain.pool_registry.terms_of(pool).max_units)
        root = submission_root(leaves, len(leaves))
        self.chain.submission_ledger.commit_root(self.sender("owner"), pool, step, root, word("slots"), table)
        return table

    def draw(self, pool: PoolId, step: int) -> list[Address]:
        """Seal the audit beacon and return the panel."""
        devnet.mine(self.chain, 2)
        self.chain.voting_panel.seal_audit_beacon(self.sender("owner"), pool, step)
        return self.chain.voting_panel.panel_of(pool, step)

    def vote(self, pool: PoolId, step: int, votes: Mapping[Address, bytes]) -> None:
        """Commit all votes, and reveal them as soon as they may be."""
        panel = self.chain.voting_panel
        roots = (word("verdicts"), word("evidence"), word("salt"))
        for member, outcomes in votes.items():
            commitment = vote_commitment(self.chain.panel_domain, pool, step, member, outcomes, *roots)
            panel.commit_vote(self.node(member), pool, step, commitment)
        self.wait_until(pool, panel.panel_times_of(pool, step).reveal_from)
        for member, outcomes in votes.items():
            panel.reveal_vote(self.node(member), pool, step, member, outcomes, *roots)

    def finalize(self, pool: PoolId, step: int, votes: Sequence[bytes], table: PayTable) -> None:
        """Finalize a step after its challenge window."""
        closed = self.chain.voting_panel.panel_times_of(pool, step).reveal_until
        self.wait_until(pool, closed + self.chain.pool_registry.terms_of(pool).challenge_seconds)
        self.chain.voting_panel.finalize(self.sender("owner"), pool, step, votes, table)


def node_of(name: str) -> str:
    """Return the name of the node of a name."""
    return f"node of {name}"


def word(name: str) -> Hash:
    """Return 32 bytes that look like any hash."""
    return Hash(keccak(text=name))


# -- whole steps


def run_step(
    stage: Stage, pool: PoolId, step: int, slots: int, outcomes: Sequence[Outcome], *, is_claimed_together: bool = False
) -> tuple[dict[str, list[int]], set[Address]]:
    """Run one step from its policy to the claims. Returns the gas of its transactions by name, and who was paid."""
    stage.meter.take()
    packed = pack_outcomes(outcomes)
    stage.open(pool, step, slots)
    table = stage.commit(pool, step, stage.leaves(pool, step, slots))
    panel = stage.draw(pool, step)
    stage.vote(pool, step, dict.fromkeys(panel, packed))
    stage.finalize(pool, step, [packed] * len(panel), table)
    vault, owner, earners = stage.chain.payout_vault, stage.sender("owner"), [*table.providers, *panel]
    if is_claimed_together:
        owner.send(vault.encode("claimMany", pool, earners))
    else:
        for who in earners:
            vault.claim(owner, pool, who)
    return stage.meter.take(), set(earners)


def run_steps(stage: Stage, slots: int, reject_every: int = 0) -> dict[str, dict[str, list[int]]]:
    """Found a pool, run its first steps, and return what the first one and a steady one used.

    `reject_every`: of so many leaves, one is rejected; 0 for none.
    """
    pool = stage.found(stage.terms(slots))
    outcomes = [
        Outcome.REJECT if reject_every and slot % reject_every == reject_every - 1 else Outcome.ACCEPT
        for slot in range(slots)
    ]
    first, paid_before = run_step(stage, pool, 0, slots, outcomes)
    steady = {}
    for name, is_together in (("steady", False), ("steady, claimed together", True)):
        while name not in steady:
            step = stage.chain.submission_ledger.step_count_of(pool)
            spent, paid = run_step(stage, pool, step, slots, outcomes, is_claimed_together=is_together)
            if step >= STEADY_STEP and paid <= paid_before:
                steady[name] = spent
            paid_before |= paid
    return {"first": first, **steady}


def total(spent: Mapping[str, Sequence[int]]) -> int:
    """Return the gas of all transactions."""
    return sum(sum(gas) for gas in spent.values())


# -- every call by itself


def tour(stage: Stage) -> dict[str, list[int]]:
    """Make every call that changes something at least once and return the gas of each, by name and note."""
    stage.meter.take()
    terms = replace(stage.terms(TOUR_SLOTS), reserved_slots=2, take_seconds=60)
    pool = stage.found(terms, validators=3 * PANEL + 1)
    staking(stage, pool)
    governing(stage, pool)
    disputed_step(stage, pool, 0)
    redrawn_step(stage, pool, 1)
    accused_run(stage, pool, "worker 3", 0, 1)
    cancelled_step(stage, pool, 2)
    leaving(stage, pool)
    return stage.meter.take()


def staking(stage: Stage, pool: PoolId) -> None:
    """Nodes, controllers and payees."""
    stakes, worker, second = stage.chain.stake_manager, stage.sender("worker 0"), stage.sender("worker 1")
    stage.add_node("worker 0")
    stakes.remove_node(worker, stage.address(node_of("worker 0")))
    controller = stage.sender("controller")
    stakes.offer_controller(second, controller.address)
    stakes.accept_controller(controller, second.address)
    stakes.set_payee(controller, pool, stage.address("payee"))


def governing(stage: Stage, pool: PoolId) -> None:
    """Offers, cards and the clock."""
    registry, owner = stage.chain.pool_registry, stage.sender("owner")
    offer = replace(registry.terms_of(pool).offer, price_per_group=2 * 10**15)
    registry.announce_offer(owner, pool, offer)
    registry.withdraw_offer(owner, pool)
    registry.attest_card(stage.sender("validator 0"), pool, word("another card"))
    registry.pause(stage.sender("pauser"), pool)
    registry.unpause(stage.sender("unpauser"), pool)


def disputed_step(stage: Stage, pool: PoolId, step: int) -> None:
    """A step with everything: a taken slot, a plant, an overlap, a challenge, an appeal and a slash."""
    chain, owner = stage.chain, stage.sender("owner")
    leaves = stage.leaves(pool, step, TOUR_SLOTS)
    plant, fault, unfairly_rejected, unfairly_accepted = leaves[5], leaves[6], leaves[9], leaves[10]
    stage.open(pool, step, TOUR_SLOTS)
    take_and_deliver(stage, pool, step, "worker 2")
    commitment = plant_commitment(chain.plants_domain, plant.provider, plant.struct_hash(), word("salt"))
    chain.planted_faults.plant(stage.sender("worker 5"), pool, step, commitment)
    prove_overlap(stage, pool, step, 7)
    table = stage.commit(pool, step, leaves)
    panel = draw_late(stage, pool, step)

    outcomes = [Outcome.ACCEPT] * (TOUR_SLOTS + 1)
    outcomes[plant.slot] = outcomes[fault.slot] = Outcome.FAULT
    outcomes[unfairly_rejected.slot] = Outcome.REJECT
    careless = outcomes.copy()
    careless[plant.slot] = Outcome.ACCEPT
    votes = [pack_outcomes(outcomes)] * (PANEL - 1) + [pack_outcomes(careless)]
    stage.vote(pool, step, dict(zip(panel, votes, strict=True)))
    stage.wait_until(pool, chain.voting_panel.panel_times_of(pool, step).reveal_until)

    opening = LeafOpening.of(leaves, TOUR_SLOTS, plant.slot)
    chain.planted_faults.reveal_plant(stage.sender("worker 5"), pool, step, opening, word("salt"))
    disputant = stage.sender("disputant")
    stage.allow(disputant)
    opening = LeafOpening.of(leaves, TOUR_SLOTS, unfairly_accepted.slot)
    challenged = chain.dispute_court.challenge(disputant, pool, step, opening, votes, word("evidence"), "https://a.b/c")
    opening = LeafOpening.of(leaves, TOUR_SLOTS, unfairly_rejected.slot)
    appealed = chain.dispute_court.appeal(disputant, pool, step, opening, votes, word("evidence"), "https://a.b/c")
    with stage.meter.noted(f"{TOUR_SLOTS} slots, two disputes"):
        stage.finalize(pool, step, votes, table)
    with stage.meter.noted("challenge"):
        judge(stage, challenged, Ruling.FAULT)
    with stage.meter.noted("appeal"):
        judge(stage, appealed, Ruling.ACCEPT)

    opening, decided = LeafOpening.of(leaves, TOUR_SLOTS, fault.slot), pack_outcomes(outcomes)
    chain.voting_panel.slash_leaf(owner, pool, step, opening, finalized(stage, pool, step, decided))
    chain.planted_faults.settle_plant(owner, commitment, votes, finalized(stage, pool, step, decided))
    for who in table.providers:
        with stage.meter.noted("first" if who != stage.address("worker 1") else "first, to a payee"):
            chain.payout_vault.claim(owner, pool, who)


def take_and_deliver(stage: Stage, pool: PoolId, step: int, name: str) -> None:
    """Take a slot on chain and deliver its work."""
    chain, worker = stage.chain, stage.sender(name)
    slot = chain.submission_ledger.take_slot(worker, pool, step)
    devnet.mine(chain, 2)
    chain.submission_ledger.seal_taken_slot(worker, pool, step, slot)
    lease_hash = taken_lease_hash(chain.ledger_domain, pool, step, slot, worker.address)
    leaf = Submission(pool, step, slot, worker.address, worker.address, UNITS, word("taken"), lease_hash)
    signature = leaf.sign(stage.key(name), chain.ledger_domain)
    chain.submission_ledger.deliver_taken(worker, pool, step, leaf, signature, "https://a.b/c")


def prove_overlap(stage: Stage, pool: PoolId, step: int, slot: int) -> None:
    """Show that the coordinator leased a slot twice."""
    chain, begin, signer = stage.chain, stage.chain.frozen().timestamp, stage.key("owner")
    leases = []
    for place in (0, 1):
        worker = stage.address(f"worker {place}")
        times = (begin + 60 * place, begin + 600)
        leases.append(Lease(pool, step, step, slot, worker, worker, *times, 4096, word("card"), 1))
    signatures = [lease.sign(signer, chain.ledger_domain) for lease in leases]
    first, second = leases
    chain.submission_ledger.prove_overlap(stage.sender("owner"), first, signatures[0], second, signatures[1])


def draw_late(stage: Stage, pool: PoolId, step: int) -> list[Address]:
    """Draw a panel where slots can be taken on chain: a first call draws the block."""
    stage.wait_until(pool, stage.chain.submission_ledger.audit_from(pool, step))
    with stage.meter.noted("draws the block"):
        stage.chain.voting_panel.seal_audit_beacon(stage.sender("owner"), pool, step)
    return stage.draw(pool, step)


def finalized(stage: Stage, pool: PoolId, step: int, expected: bytes) -> bytes:
    """Return the outcomes that a step was finalized with, which must be these."""
    if Hash(keccak(expected)) != stage.chain.submission_ledger.step_of(pool, step).settlement_hash:
        raise RuntimeError(f"step {step} of pool {pool} has other outcomes")
    return expected


def judge(stage: Stage, case_id: int, ruling: Ruling) -> None:
    """Let a jury say one thing with one voice, and act on it."""
    court = stage.chain.dispute_court
    devnet.mine(stage.chain, 2)
    court.draw_jury(stage.sender("owner"), case_id)
    case = court.case_of(case_id)
    if case is None:
        raise RuntimeError(f"no case {case_id}")
    jury = court.jury_of(case_id)
    for juror in jury:
        words = (case_id, case.round, juror, ruling, word("salt"))
        court.commit_ruling(
            stage.sender(stage.name_of(juror)), case_id, ruling_commitment(stage.chain.court_domain, *words)
        )
    stage.wait_until(PoolId(case.pool), court.jury_times_of(case_id).reveal_from)
    for juror in jury:
        court.reveal_ruling(stage.sender("owner"), case_id, juror, ruling, word("salt"))
    stage.wait_until(PoolId(case.pool), court.jury_times_of(case_id).reveal_until)
    court.resolve(stage.sender("owner"), case_id)


def redrawn_step(stage: Stage, pool: PoolId, step: int) -> None:
    """A step whose panel misses its quorum at first."""
    panel = stage.chain.voting_panel
    stage.open(pool, step, TOUR_SLOTS)
    table = stage.commit(pool, step, stage.leaves(pool, step, TOUR_SLOTS))
    packed = pack_outcomes([Outcome.ACCEPT] * TOUR_SLOTS)
    first, *_ = draw_late(stage, pool, step)
    stage.vote(pool, step, {first: packed})
    stage.wait_until(pool, panel.panel_times_of(pool, step).reveal_until)
    panel.redraw_panel(stage.sender("owner"), pool, step)
    members = panel.panel_of(pool, step)
    stage.vote(pool, step, {member: packed for member in members if member != first})
    with stage.meter.noted(f"{TOUR_SLOTS} slots"):
        stage.finalize(pool, step, [packed] * len(members), table)


def accused_run(stage: Stage, pool: PoolId, name: str, first_step: int, last_step: int) -> None:
    """A worker is accused over several steps, takes the ruling to a second jury, and loses."""
    court, disputant = stage.chain.dispute_court, stage.sender("disputant")
    run = (stage.address(name), first_step, last_step, word("list"), word("evidence"), "https://a.b/c")
    case_id = court.accuse(disputant, pool, *run)
    with stage.meter.noted("run"):
        judge(stage, case_id, Ruling.FAULT)
    court.appeal_ruling(stage.sender(name), case_id)
    with stage.meter.noted("run, second jury"):
        judge(stage, case_id, Ruling.FAULT)


def cancelled_step(stage: Stage, pool: PoolId, step: int) -> None:
    """A step whose coordinator commits nothing."""
    stage.open(pool, step, TOUR_SLOTS)
    devnet.advance(stage.chain, 2 * 600)
    stage.chain.submission_ledger.cancel_step(stage.sender("owner"), pool, step)


def leaving(stage: Stage, pool: PoolId) -> None:
    """Exits, the end of a suspension, the burning of what was slashed, and the end of a pool."""
    chain, worker = stage.chain, stage.sender("worker 4")
    stakes, registry, owner, heir = (
        chain.stake_manager,
        chain.pool_registry,
        stage.sender("owner"),
        stage.sender("heir"),
    )
    exit_id = stakes.start_exit(worker, pool, Role.WORKER, STAKE)
    devnet.advance(chain, registry.terms_of(pool).unbonding_seconds)
    stakes.finish_exit(worker, exit_id)
    stakes.withdraw(worker, STAKE)
    stakes.reinstate(owner, pool, Role.WORKER, stage.address("worker 3"))
    stakes.burn_slashed(owner)
    registry.offer_ownership(owner, pool, heir.address)
    registry.accept_ownership(heir, pool)
    registry.close_pool(heir, pool)
    chain.payout_vault.drain(heir, pool, chain.payout_vault.escrow_of(pool).free, heir.address)


def not_measured(stage: Stage, calls: Collection[str]) -> list[str]:
    """Return the functions that change something and that nobody called: the contracts' own, for each other."""
    names = [name for name in stage.chain.deployment.addresses if name != "MockToken"]
    functions = [
        f"{name}.{item['name']}"
        for name in names
        for item in contracts.abi(name)
        if item["type"] == "function" and item["stateMutability"] not in ("view", "pure")
    ]
    called = {name.split(" ")[0] for name in calls}
    return sorted(set(functions) - called)


def deployment(stage: Stage) -> dict[str, dict[str, int]]:
    """Return the gas of each contract's creation and the bytes of its code."""
    chain, names = stage.chain, {address: name for name, address in stage.chain.deployment.addresses.items()}
    found: dict[str, dict[str, int]] = {}
    number = chain.deployment.deployed_block
    while len(found) < len(names):
        for transaction in chain.rpc("eth_getBlockByNumber", hex(number), False)["transactions"]:
            mined = chain.mined(Hash(bytes.fromhex(transaction[2:])))
            if mined is not None and mined.created in names:
                code = len(chain.code_of(mined.created))
                found[names[mined.created]] = {"gas": mined.gas_used, "code_bytes": code}
        number += 1
    return found


# -- the report


def main() -> None:
    """Measure all of it and write benchmarks/results/gas.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slots", type=int, nargs="+", default=[16, 256, 4096])
    args = parser.parse_args()
    figures: dict[str, dict[str, object]] = {}
    steps: dict[str, dict[str, object]] = {}
    with stage_on_anvil() as stage:
        created = deployment(stage)
        for slots, reject_every in [(slots, 0) for slots in args.slots] + [(256, 10)]:
            kind = f"{slots}, one in {reject_every} rejected" if reject_every else str(slots)
            runs = run_steps(stage, slots, reject_every)
            for age, run in runs.items():
                target = "" if age == "first" or reject_every else TARGETS.get(slots, "")
                each = round(total(run) / slots, 1)
                figures[f"per_submission_all_in ({kind}, {age})"] = figure(each, "gas", target, total=total(run))
                steps[f"{kind}, {age}"] = {name: {"gas": sum(gas), "calls": len(gas)} for name, gas in run.items()}
                print(f"{kind} submissions, {age} step: {each} gas each {target}", flush=True)
        calls = tour(stage)
        unmeasured = not_measured(stage, {*calls, *(name for step in steps.values() for name in step)})
        name, gas = stage.meter.largest
        figures["largest_transaction"] = figure(gas, "gas", f"<= {TRANSACTION_GAS}", call=name)
    for name, entry in created.items():
        figures[f"code ({name})"] = figure(entry["code_bytes"], "bytes", f"<= {CODE_BYTES}", creation_gas=entry["gas"])
    body = {
        "setting": {"providers": WORKERS, "panel": PANEL, "quorum": QUORUM, "jury": JURY, "validators": VALIDATORS},
        "figures": figures,
        "steps": steps,
        "calls": {name: {"median": statistics.median(gas), "samples": gas} for name, gas in sorted(calls.items())},
        "not_measured": unmeasured,
    }
    packages = {"anvil": "@foundry-rs/anvil", "solc": "solc", "openzeppelin": "@openzeppelin/contracts"}
    versions = {name: node_version(package) for name, package in packages.items()}
    path = write_results("gas", "python -m benchmarks.bench_gas", body, versions)
    print(f"{path}: {len(missed(figures))} of {len(figures)} figures miss their target: {missed(figures)}")


@contextmanager
def stage_on_anvil() -> Iterator[Stage]:
    """Start a chain with our contracts in a folder of its own, and end it."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        try:
            chain = devnet.up(place / "chain", devnet.free_port(), 0)
            chain.rpc("evm_setBlockGasLimit", hex(BLOCK_GAS))
            yield Stage(chain, place / "locks")
        finally:
            devnet.down(place / "chain")


if __name__ == "__main__":
    main()
