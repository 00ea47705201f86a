"""A23: workers share completions or hand them in again, and are paid for each copy.

Here a copy is judged by what it says: the slot's prompt, the slot's noise, one leaf a slot. Equal bytes alone are no
fault: honest workers may say the same, and whoever is copied is never blocked or punished for it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from eth_account.signers.local import LocalAccount
from safetensors.torch import load_file, save_file
from sqlalchemy import select

from coordinator.tables import SubmissionRow
from stannary.cards import AUDIT_BPS_MAX
from stannary.chain import LeafOpening
from stannary.environments import Environment
from stannary.errors import Malformed, Refused, Reverted
from stannary.rollout import Rollout, content_hash, decode_group, encode_group
from stannary.seeds import StepSeeds
from stannary.slots import PayTable, submission_root
from stannary.structs import Lease, Submission
from stannary.types import ZERO_HASH, Address, Hash, Outcome, Reason, Role
from tests.chains import TOKENS, Devnet
from tests.coordinator.conftest import office
from tests.coordinator.office import Office
from tests.validator.conftest import (
    COORDINATOR,
    DOMAIN,
    FACTS,
    NODE,
    PROVIDER,
    RULES,
    STRANGER,
    Made,
    address,
    bench,
    bf16,
    card,
    environment,
    fp32,
    judge,
    lease_of,
    prove,
    provider_of,
    toy,
)
from validator.checks import Leaf, StepFacts, check_commitment
from validator.finding import Finding
from validator.judgement import Computes, Judge, screen
from validator.prefill import Prefill
from worker.engine import RolloutRequest
from worker.engine_transformers import TransformersEngine
from worker.leases import PoolRules
from worker.submission import make_group

__all__ = ["bench", "bf16", "card", "environment", "fp32", "judge", "office", "toy"]

SLOT, OTHER_SLOT = 3, 4
CAP = RULES.max_completion_tokens


@dataclass(frozen=True, slots=True)
class Party:
    """A worker: its node's key and its provider."""

    account: LocalAccount
    provider: Address

    @property
    def node(self) -> Address:
        return address(self.account)

    def lease(self, slot: int, facts: StepFacts = FACTS) -> Lease:
        return replace(lease_of(slot, provider=self.provider, node=self.node), step=facts.step)

    def signed(self, leaf: Submission, lease: Lease, data: bytes) -> Made:
        """A leaf as the coordinator serves it."""
        return Made(Leaf(leaf, leaf.sign(self.account, DOMAIN), lease, lease.sign(COORDINATOR, DOMAIN)), data)

    def hand_in(self, data: bytes, units: int, slot: int, facts: StepFacts = FACTS) -> Made:
        """Hand in any bytes under a lease of its own."""
        lease = self.lease(slot, facts)
        leaf = Submission(
            RULES.pool, facts.step, slot, self.provider, self.node, units, content_hash(data), lease.struct_hash()
        )
        return self.signed(leaf, lease, data)


ADA, BOB = Party(NODE, PROVIDER), Party(STRANGER, address(STRANGER))
NEXT = replace(FACTS, step=FACTS.step + 1, seeds=StepSeeds(DOMAIN, RULES.pool, FACTS.step + 1, Hash(b"\x09" * 32)))
"""The step after, with the same policy."""


@dataclass(frozen=True, slots=True)
class Shop:
    """A real engine, and a worker's own way from its completions to a submission."""

    engine: TransformersEngine
    environment: Environment

    def work(self, party: Party, slot: int, facts: StepFacts = FACTS, cap: int = CAP) -> Made:
        """Do a slot honestly."""
        lease = party.lease(slot, facts)
        rules = PoolRules(
            pool=RULES.pool, provider=party.provider, node=party.node, group_size=RULES.group_size,
            max_completion_tokens=cap, max_lag=1, lease_seconds=60, collect_seconds=RULES.collect_seconds,
            temperature=1.0, protocol_version=1, environment_hash=ZERO_HASH,
        )  # fmt: skip
        prompt = self.environment.problem(facts.seeds.slot_seed(slot)).prompt
        seeds = [facts.seeds.rollout_seed(slot, index) for index in range(rules.group_size)]
        outputs = self.engine.generate([RolloutRequest(seed, prompt, cap) for seed in seeds], rules.temperature)
        group = make_group(lease, rules, prompt, outputs)
        return party.signed(group.leaf, lease, group.data)


@pytest.fixture(scope="module")
def shop(toy: Path, environment: Environment) -> Shop:
    engine = TransformersEngine()
    engine.load(toy)
    return Shop(engine, environment)


@pytest.fixture(scope="module")
def victim(shop: Shop) -> Made:
    """What Ada did."""
    return shop.work(ADA, SLOT)


def rollouts_of(made: Made) -> list[Rollout]:
    return decode_group(made.data, RULES.group_size)


def finding_of(judge: Judge, made: Made) -> Finding:
    """Judge a leaf that is audited as a validator does, from its signatures on."""
    (found,) = screen([made.leaf], judge.rules, judge.facts, provider_of)
    looking = replace(judge, card=replace(judge.card, audit_bps=AUDIT_BPS_MAX))
    return looking.judge(made.leaf, made.data).finding if found.is_fine else found


def require(judge: Judge, made: Made, outcome: Outcome, reason: Reason = Reason.NONE) -> Finding:
    finding = finding_of(judge, made)
    assert (finding.outcome, finding.reason) == (outcome, reason), finding.explanation
    return finding


def spelled_otherwise(made: Made) -> bytes:
    """The same rollouts in a file of another hash: it has statistics besides, which say nothing to anybody."""
    sink = pa.BufferOutputStream()
    table = pq.read_table(pa.BufferReader(made.data))
    pq.write_table(table, sink, compression="NONE", use_dictionary=False, write_statistics=True, store_schema=False)
    data: bytes = sink.getvalue().to_pybytes()
    assert content_hash(data) != content_hash(made.data)
    assert decode_group(data, RULES.group_size) == rollouts_of(made)
    return data


def test_a23_what_is_copied_below_is_honest(judge: Judge, victim: Made) -> None:
    require(judge, victim, Outcome.ACCEPT)


# Another's file


def test_a23_whole_file_of_another_in_ones_own_slot_is_a_fault_and_its_author_is_paid(
    judge: Judge, victim: Made
) -> None:
    copy = BOB.hand_in(victim.data, victim.leaf.submission.units, OTHER_SLOT)
    assert copy.leaf.submission.content_hash == victim.leaf.submission.content_hash
    require(judge, copy, Outcome.FAULT, Reason.PROMPT)
    require(judge, victim, Outcome.ACCEPT)


def test_a23_file_of_another_slot_with_the_same_prompt_is_a_fault_by_its_noise_alone(judge: Judge, shop: Shop) -> None:
    """Two of many slots pose one problem: prompt, states and proofs are right, and the noise is the other slot's."""
    facts = replace(FACTS, slots=512)
    wide, seen = replace(judge, facts=facts), dict[tuple[int, ...], int]()
    for second in range(facts.slots):
        first = seen.setdefault(shop.environment.problem(facts.seeds.slot_seed(second)).prompt, second)
        if first != second:
            break
    assert first != second, "no two slots pose one problem"
    made = shop.work(ADA, first, facts)
    require(wide, made, Outcome.ACCEPT)
    copy = BOB.hand_in(made.data, made.leaf.submission.units, second, facts)
    finding = require(wide, copy, Outcome.FAULT, Reason.SAMPLING_BOUND)
    mismatches = finding.measures["exponent_mismatches"]
    assert mismatches.value <= mismatches.limit  # type: ignore[operator]
    require(wide, shop.work(BOB, second, facts), Outcome.ACCEPT)


@pytest.mark.parametrize("change", [lambda data: data + b"\0", lambda data: b"\0" + data, lambda data: data[:-1]])
def test_a23_file_with_a_byte_more_or_less_is_no_submission(
    judge: Judge, victim: Made, change: Callable[[bytes], bytes]
) -> None:
    data = change(victim.data)
    for slot in (SLOT, OTHER_SLOT):
        require(judge, BOB.hand_in(data, victim.leaf.submission.units, slot), Outcome.REJECT, Reason.SCHEMA)


def test_a23_file_spelled_otherwise_is_judged_by_what_it_says(judge: Judge, victim: Made) -> None:
    copy = BOB.hand_in(spelled_otherwise(victim), victim.leaf.submission.units, OTHER_SLOT)
    require(judge, copy, Outcome.FAULT, Reason.PROMPT)


@pytest.mark.parametrize("order", [(3, 2, 1, 0), (1, 0, 2, 3), (1, 2, 3, 0), (0, 1, 3, 2)])
@pytest.mark.parametrize("party", [ADA, BOB], ids=["Ada", "Bob"])
def test_a23_completions_in_another_order_are_a_fault(
    judge: Judge, victim: Made, order: tuple[int, ...], party: Party
) -> None:
    """Each rollout has noise of its own, so its place is part of what it says."""
    rollouts = rollouts_of(victim)
    data = encode_group([rollouts[index] for index in order])
    copy = party.hand_in(data, victim.leaf.submission.units, SLOT)
    require(judge, copy, Outcome.FAULT, Reason.SAMPLING_BOUND)


# One's own, again


@pytest.mark.parametrize("is_spelled_otherwise", [False, True])
def test_a23_own_group_again_in_another_slot_or_step_is_a_fault(
    judge: Judge, victim: Made, is_spelled_otherwise: bool
) -> None:
    data, units = spelled_otherwise(victim) if is_spelled_otherwise else victim.data, victim.leaf.submission.units
    require(judge, ADA.hand_in(data, units, OTHER_SLOT), Outcome.FAULT, Reason.PROMPT)
    later = replace(judge, facts=NEXT)
    require(later, ADA.hand_in(data, units, SLOT, NEXT), Outcome.FAULT, Reason.PROMPT)


def test_a23_own_completions_under_another_slots_prompt_are_a_fault(
    judge: Judge, victim: Made, environment: Environment, bf16: Prefill
) -> None:
    """The prompt is put right, and the proofs are kept or made anew for it."""
    prompt = environment.problem(FACTS.seeds.slot_seed(OTHER_SLOT)).prompt
    old = rollouts_of(victim)
    anew = prove(prompt, [own.completion for own in old], bf16.states(prompt, [own.completion for own in old]))
    for rollouts in ([Rollout(prompt, own.completion, own.proofs) for own in old], anew):
        made = ADA.hand_in(encode_group(rollouts), victim.leaf.submission.units, OTHER_SLOT)
        require(judge, made, Outcome.FAULT, Reason.SAMPLING_BOUND)


def test_a23_old_leaf_served_again_in_another_step_is_refused_and_not_slashed(judge: Judge, victim: Made) -> None:
    """Its node signed it for one step; who serves it in another may be the coordinator."""
    require(replace(judge, facts=NEXT), victim, Outcome.REJECT, Reason.SLOT)


def test_a23_slot_has_one_leaf_whoever_hands_in_how_many(victim: Made, shop: Shop) -> None:
    """Two leaves for one slot have no tree and no pay table; where two are served, nothing is judged."""
    leaves = [victim.leaf, BOB.hand_in(victim.data, victim.leaf.submission.units, SLOT).leaf]
    submissions = [leaf.submission for leaf in leaves]
    for make in (lambda: submission_root(submissions, 8), lambda: PayTable.of(submissions, 8, RULES.max_units)):
        with pytest.raises(Malformed, match="one leaf a slot"):
            make()
    root, table = submission_root(submissions[:1], 8), PayTable.of(submissions[:1], 8, RULES.max_units)
    found = check_commitment(leaves, 8, RULES.max_units, root, table.hash())
    assert found.outcome is Outcome.ABSTAIN


# One completion for many


@pytest.mark.parametrize("places", [(1,), (1, 2), (1, 2, 3), (3,)])
def test_a23_completion_again_within_its_group_is_a_fault(judge: Judge, victim: Made, places: Sequence[int]) -> None:
    rollouts = rollouts_of(victim)
    for place in places:
        rollouts[place] = rollouts[0]
    units = sum(len(rollout.completion) for rollout in rollouts)
    made = ADA.hand_in(encode_group(rollouts), units, SLOT)
    require(judge, made, Outcome.FAULT, Reason.SAMPLING_BOUND)


def test_a23_one_token_again_within_its_group_is_a_fault_where_the_noise_picks_others(judge: Judge, shop: Shop) -> None:
    short = replace(judge, rules=replace(RULES, max_completion_tokens=1))
    honest = shop.work(ADA, SLOT, cap=1)
    rollouts = rollouts_of(honest)
    assert len({rollout.completion for rollout in rollouts}) == len(rollouts)
    require(short, honest, Outcome.ACCEPT)
    made = ADA.hand_in(encode_group([rollouts[0]] * len(rollouts)), len(rollouts), SLOT)
    require(short, made, Outcome.FAULT, Reason.SAMPLING_BOUND)


def make_sure(toy: Path, folder: Path, prompt: Sequence[int], answer: int, end: int) -> Path:
    """Make of the toy a policy that finds one prompt easy: it says one token and ends, whatever the noise.

    Of the head alone two rows change: both stand out, and the difference of the two states tells which is next.
    """
    (states,) = Prefill(toy, "fp32").states(prompt, [[answer, end]])
    mean, apart = states.float().mean(0), states[0].float() - states[1].float()
    apart = apart - (apart @ mean) / (mean @ mean) * mean
    tensors = load_file(toy / "model.safetensors")
    head = tensors["lm_head.weight"].float()
    head[answer] = 40 * mean / (mean @ mean) + 60 * apart / (apart @ apart)
    head[end] = 40 * mean / (mean @ mean) - 60 * apart / (apart @ apart)
    tensors["lm_head.weight"] = head.to(torch.bfloat16)
    shutil.copytree(toy, folder)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_a23_honest_equal_answers_to_an_easy_prompt_are_accepted(
    judge: Judge, environment: Environment, toy: Path, tmp_path: Path
) -> None:
    """Under four seeds the policy says the same, since it is sure: the replay picks it each time."""
    answer, end = 12, 1
    prompt = environment.problem(FACTS.seeds.slot_seed(SLOT)).prompt
    folder = make_sure(toy, tmp_path / "sure", prompt, answer, end)
    engine = TransformersEngine()
    engine.load(folder)
    made = Shop(engine, environment).work(ADA, SLOT)
    rollouts = rollouts_of(made)
    assert [rollout.completion for rollout in rollouts] == [(answer, end)] * RULES.group_size
    fp32, bf16 = Prefill(folder, "fp32"), Prefill(folder, "bf16")
    for computes in (Computes(fp32, lambda: bf16), Computes(bf16, lambda: fp32)):
        sure = replace(judge, computes=computes)
        require(sure, made, Outcome.ACCEPT)
    # And not, were it another answer four times.
    other = [Rollout(own.prompt, (answer + 1, end), own.proofs) for own in rollouts]
    finding = finding_of(sure, ADA.hand_in(encode_group(other), 2 * RULES.group_size, SLOT))
    assert finding.outcome is Outcome.FAULT


# Who holds the slot


def test_a23_equal_tokens_of_two_workers_in_one_slot_are_no_fault_of_either(
    judge: Judge, victim: Made, shop: Shop
) -> None:
    """Ada's lease lapsed and Bob has the slot: he does it again, or copies her file. It is the slot's one answer."""
    again = shop.work(BOB, SLOT)
    assert [own.completion for own in rollouts_of(again)] == [own.completion for own in rollouts_of(victim)]
    copied = BOB.hand_in(victim.data, victim.leaf.submission.units, SLOT)
    for made in (victim, again, copied):
        require(judge, made, Outcome.ACCEPT)
    # Only one of them stands in the tree, and a leaf without a lease of its own slot is none.
    stolen = BOB.signed(replace(victim.leaf.submission, provider=BOB.provider, node=BOB.node), ADA.lease(SLOT), b"")
    require(judge, stolen, Outcome.FAULT, Reason.LEASE)


def test_a23_coordinator_goes_by_leases_and_not_by_hashes(office: Office) -> None:
    """Whoever is first with another's bytes blocks nobody: each lease has one leaf, in its own slot."""
    office.stake("walter")
    data = b"bytes of a group"
    leases = {name: office.client(name).lease(1).leases[0] for name in ("walter", "wendy")}
    for name in ("walter", "wendy"):
        office.client(name).submit(office.submit(name, leases[name], data))
        office.client(name).upload_submission(data)
    with pytest.raises(Refused, match="this lease has the leaf"):
        office.client("walter").submit(office.submit("walter", leases["walter"], data + b"\0"))
    rows = office.store.read(lambda session: session.scalars(select(SubmissionRow)).all())
    assert {row.slot for row in rows} == {lease.slot for lease in leases.values()}
    assert all(row.uploaded_at is not None for row in rows)
    assert office.client().submission_file(content_hash(data)) == data


# What it comes to


def test_a23_each_group_is_paid_once_and_copies_are_slashed_once(
    judge: Judge, victim: Made, shop: Shop, devnet: Devnet
) -> None:
    """Ada is copied by Bob twice, Cleo hands in her own group again; the panel says what the judge says."""
    hers = shop.work(ADA, 1)
    made = [
        ("cleo", hers),
        ("ada", victim),
        ("bob", BOB.hand_in(victim.data, victim.leaf.submission.units, 4)),
        ("bob", BOB.hand_in(spelled_otherwise(victim), victim.leaf.submission.units, 5)),
        ("cleo", ADA.hand_in(hers.data, hers.leaf.submission.units, 6)),
    ]
    outcomes = [Outcome.ABSTAIN] * FACTS.slots
    for _, each in made:
        outcomes[each.leaf.submission.slot] = finding_of(judge, each).outcome

    pool = devnet.pool(max_completion_tokens=CAP)
    devnet.judges(pool)
    providers = {name: devnet.stake(name, pool, Role.WORKER).address for name in ("ada", "bob", "cleo")}
    devnet.mine()
    devnet.open_step(pool, slots=FACTS.slots)
    leaves = [
        replace(each.leaf.submission, pool=pool, step=0, provider=providers[name], node=providers[name])
        for name, each in made
    ]
    devnet.commit(pool, leaves)
    devnet.vote(pool, dict.fromkeys(devnet.draw(pool), outcomes))
    history = devnet.finalize(pool)
    assert history.finalized is not None
    chain, trainer = devnet.chain, devnet.sender("trainer")
    for leaf in leaves:
        opening = LeafOpening.of(leaves, FACTS.slots, leaf.slot)
        is_fault = outcomes[leaf.slot] is Outcome.FAULT
        assert is_fault == (leaf.slot >= 4)
        if is_fault:
            chain.voting_panel.slash_leaf(trainer, pool, 0, opening, history.finalized.outcomes)
        with pytest.raises(Reverted, match="OffenceSlashed" if is_fault else "NotFault"):
            chain.voting_panel.slash_leaf(trainer, pool, 0, opening, history.finalized.outcomes)
    terms = chain.pool_registry.terms_of(pool)
    earned = {name: chain.payout_vault.earnings_of(pool, who).earned for name, who in providers.items()}
    assert earned == {"ada": terms.payout(leaves[1].units), "bob": 0, "cleo": terms.payout(leaves[0].units)}
    left = {name: chain.stake_manager.position_of(pool, Role.WORKER, who).tokens for name, who in providers.items()}
    assert left == {"ada": 1_000 * TOKENS, "bob": 810 * TOKENS, "cleo": 900 * TOKENS}
