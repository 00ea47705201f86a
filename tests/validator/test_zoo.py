"""The attack zoo on the toy policy: every forgery is found by the check that is meant for it, honest work by none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks.zoo import tally
from benchmarks.zoo.decoding import Decoder, Wish, decode
from benchmarks.zoo.forged import FORGED, Material, attempt, identities_share_seeds, proved
from benchmarks.zoo.generated import Scene
from benchmarks.zoo.kinds import KINDS
from benchmarks.zoo.material import ALTERATIONS, FOREIGN_SEED, FORGED_SEED, Recording, Workshop
from benchmarks.zoo.stage import Claim, Models, Pool
from benchmarks.zoo.steered import AIMS, NEAR, Budget, Search
from stannary.cards import Card
from stannary.confined import ConfinedReader
from stannary.e_process import NOTHING
from stannary.environments import Environment
from stannary.standing import SCORES
from stannary.types import Outcome, Reason
from worker.engine_transformers import TransformersEngine, TransformersOptions
from worker.recording import Plan, record

GROUPS = 48


@pytest.fixture(scope="module")
def pool(card: Card, environment: Environment) -> Iterator[Pool]:
    with ConfinedReader() as reader:
        yield Pool(card, Models(), environment, reader.decode_group)


def recording(toy: Path, environment: Environment, seed: int, groups: int) -> Recording:
    engine = TransformersEngine(TransformersOptions(keeps_states=True))
    plan = Plan(groups, group_size=4, max_tokens=48, temperature_milli=1000, seed=seed)
    return Recording.of(record(engine, "a test", toy, environment, plan, lambda _: None).groups, seed)


def material_of(toy: Path, pool: Pool, claim: Claim, work: Path) -> Material:
    """Return what forgers edit: made by the base policy, claimed to be of any."""
    workshop = Workshop(KINDS["toy"], toy, work, work, "sdpa", lambda _: None)
    own = recording(toy, pool.environment, FORGED_SEED, GROUPS)
    return Material(workshop, pool, own, recording(toy, pool.environment, FOREIGN_SEED, 2), claim)


@pytest.fixture(scope="module")
def material(toy: Path, pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> Material:
    return material_of(toy, pool, Claim(toy), tmp_path_factory.mktemp("zoo"))


def test_honest_groups_are_accepted(material: Material) -> None:
    for slot in range(4):
        found = material.stage.examine(proved(material.group(slot)), slot)
        assert found.judgement.finding.is_fine, found.judgement.finding.explanation
        assert not found.by_published_limits


@pytest.mark.parametrize("name", FORGED)
def test_forgery_is_found_by_its_own_check(name: str, material: Material) -> None:
    attack = FORGED[name]
    stage, made = attempt(attack, material, 0)
    finding = stage.submit(made.rollouts, made.slot, made.forgery).finding
    assert finding.outcome is not Outcome.ACCEPT
    assert finding.reason in attack.expected, finding.explanation


def test_other_identities_are_asked_for_the_same(material: Material) -> None:
    assert identities_share_seeds(material, 20) == 20


def test_decoder_follows_the_rule(material: Material) -> None:
    """What the zoo's own engine makes is what an honest worker makes."""
    group = material.group(0)
    made = decode([Decoder(material.claim.folder)], [Wish(each.prompt, each.seed) for each in group], material.cap)
    rollouts = proved(
        tuple(replace(each, completion=own.tokens, states=own.states) for each, own in zip(group, made, strict=True))
    )
    assert material.stage.submit(rollouts, 0).finding.is_fine


def test_forced_beginning_stays_and_the_rule_goes_on(material: Material) -> None:
    policy = Decoder(material.claim.folder, torch.float32)
    each = material.group(0)[0]
    wishes = [
        Wish(each.prompt, each.seed),
        Wish(each.prompt, each.seed, (20, 21, 22)),
        Wish(each.prompt, each.seed, (20, 1)),
    ]
    free, forced, ended = decode([policy], wishes, 16)
    assert forced.tokens[:3] == (20, 21, 22)
    assert len(forced.tokens) > 3
    assert ended.tokens == (20, 1)
    (again,) = decode([policy], [Wish(each.prompt, each.seed, free.tokens[:5])], 16)
    assert again.tokens == free.tokens


@pytest.mark.parametrize("how", ALTERATIONS)
def test_altered_policy_is_another_that_loads(how: str, material: Material) -> None:
    folder = material.workshop.altered(material.claim.folder, how)
    each = material.group(0)[0]
    (made,) = decode([Decoder(folder)], [Wish(each.prompt, each.seed)], 8)
    (right,) = decode([Decoder(material.claim.folder)], [Wish(each.prompt, each.seed)], 8)
    assert not torch.equal(made.states[0], right.states[0])


def test_steering_gains_reward_and_stays_within_its_budget(material: Material, pool: Pool) -> None:
    """Known, and measured: who may take a runner-up chooses among completions, and one submission shows nothing."""
    scene = Scene(material.workshop, material.claim, pool.models, pool.environment, 4)
    search = Search(scene, Budget(pool.card.thresholds, NEAR), AIMS[0], FORGED_SEED)
    groups = material.recording.groups[:4]
    before = search.honest(groups)
    after = search.forked(groups, before, range(4))
    gained = 0.0
    for slot, (own, other) in enumerate(zip(before, after, strict=True)):
        gained += sum(material.stage.reward(slot, each.tokens) for each in other)
        gained -= sum(material.stage.reward(slot, each.tokens) for each in own)
        rows = [each.tokens for each in other]
        states = material.stage.exact.states(groups[slot][0].prompt, rows)
        forked = tuple(
            replace(each, completion=tokens, states=state)
            for each, tokens, state in zip(groups[slot], rows, states, strict=True)
        )
        assert material.stage.submit(proved(forked), slot).finding.is_fine
    assert gained > 0


def entry(outcome: str, score: float, share: float = 0.0, errors: float = 0.0) -> tally.Row:
    return {
        "outcome": outcome, "reason": "sampling", "explanation": "",
        "measures": {name: [score, 1.0] for name in SCORES},
        "rewards": [], "tokens": 100, "is_grey": False, "by_published_limits": False, "way": [share, errors],
    }  # fmt: skip


def test_forged_attack_found_by_another_check_misses_its_target() -> None:
    rows = [entry("REJECT", 2.0)] * 3
    assert tally.forged(rows, (Reason.SAMPLING,), 1.0)["met"] is True
    missed = tally.forged(rows, (Reason.PROMPT,), 1.0)
    assert (missed["detected"], missed["met"]) == (0, False)


def test_evidence_of_high_scores_convicts_and_of_low_ones_never(card: Card) -> None:
    high = [(9.0, 0.0, 0.0)]
    assert tally.until_slashed(card.evidence, high, [], 1.0) is not None
    assert tally.until_slashed(card.evidence, [NOTHING], [], 1.0) is None
    often, rare = (tally.until_slashed(card.evidence, high, [NOTHING], share) for share in (1.0, 0.2))
    assert often is not None
    assert rare is not None
    assert often < rare


def test_rejection_is_grey_where_no_number_lies_beyond_the_wider_limits() -> None:
    near = entry("REJECT", 1.2) | {"reason": "activations", "measures": {"mean": [1.2, 1.0], SCORES[0]: [9.0, 1.0]}}
    assert tally.is_grey(near)
    assert not tally.is_grey(near | {"measures": {"mean": [1.2, 1.0], "median": [1.3, 1.0]}})
    assert not tally.is_grey(near | {"reason": "prompt"})
    assert not tally.is_grey(near | {"outcome": "FAULT"})
