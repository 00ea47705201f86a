"""Each check stands for something: without it an attack of the zoo is paid, or only the validator's failure is left."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.zoo.forged import FORGED, Material, attempt, proved
from benchmarks.zoo.stage import Claim, Models, Pool
from stannary.cards import Card
from stannary.confined import ConfinedReader
from stannary.environments import Environment
from stannary.slots import PayTable, submission_root
from stannary.types import Outcome, Reason
from tests.validator.conftest import FACTS, RULES, Bench, leaf_of, provider_of
from tests.validator.test_zoo import material_of
from validator import checks, statistics
from validator.checks import Leaf, Read, Rules
from validator.finding import FINE, Finding
from validator.judgement import screen

ALMOST_NOTHING = 2.5e-4
"""A learning rate at which one policy step moves the toy less than honest numerics may."""

PAID = (Outcome.ACCEPT, Reason.NONE)
FAILED = (Outcome.ABSTAIN, Reason.UNAVAILABLE)
"""The validator itself fails on it: no verdict, but nobody is slashed for it."""
NEEDED = {
    "check_signature": ("leaf signed by a stranger", PAID),
    "check_place": ("slot beyond the step", PAID),
    "check_lease": ("lease signed by the worker itself", PAID),
    "check_file": ("file other than the committed one", PAID),
    "check_prompt": ("another prompt, generated under it", PAID),
    "check_units": ("units over-claimed", PAID),
    "check_lengths": ("a completion beyond the cap", PAID),
    "check_tokens": ("an id beyond the vocabulary", FAILED),
    "check_termination": ("completions cut in half", PAID),
    "check_proofs": ("a proof missing", FAILED),
    "judge_activations": ("proofs by chance", PAID),
    "judge_sampling": ("the answer edited, proved anew", PAID),
}
"""By check: the attack that it is for, and what becomes of that without it."""
BY_OTHER_TESTS = {"check_commitment", "judge_pairings"}
"""What no single leaf of one policy step shows: the tests below."""


@pytest.fixture(scope="module")
def pool(card: Card, environment: Environment) -> Iterator[Pool]:
    with ConfinedReader() as reader:
        yield Pool(card, Models(), environment, reader.decode_group)


@pytest.fixture(scope="module")
def material(toy: Path, pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> Material:
    return material_of(toy, pool, Claim(toy), tmp_path_factory.mktemp("needed"))


def read_only(data: bytes, _leaf: Leaf, rules: Rules, read: Read) -> tuple[Finding, object]:
    return FINE, read(data, rules.group_size)


def switch_off(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a check find nothing; what measures goes on measuring."""
    module: ModuleType = checks if name.startswith("check_") else statistics
    seeing: Callable[..., Finding] = getattr(module, name)

    def blind(*given: object) -> Finding:
        return Finding(measures=seeing(*given).measures)

    monkeypatch.setattr(module, name, read_only if name == "check_file" else blind)


def found(name: str, material: Material) -> Finding:
    stage, made = attempt(FORGED[name], material, 0)
    return stage.submit(made.rollouts, made.slot, made.forgery).finding


@pytest.mark.parametrize("check", NEEDED)
def test_without_the_check_its_attack_is_not_found(
    check: str, material: Material, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, left = NEEDED[check]
    before = found(name, material)
    assert before.reason in FORGED[name].expected, before.explanation
    switch_off(check, monkeypatch)
    after = found(name, material)
    assert (after.outcome, after.reason) == left, after.explanation


def test_without_the_pairing_an_older_policy_step_is_paid(
    toy: Path, pool: Pool, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainer.batch import Sample
    from trainer.policy import Policy, Recipe

    stale = material_of(toy, pool, Claim(toy), tmp_path_factory.mktemp("stale"))
    policy = Policy(toy, Recipe(learning_rate=ALMOST_NOTHING))
    policy.train([Sample(each.prompt, each.completion, 1.0 - place) for place, each in enumerate(stale.group(0))])
    newer = policy.export(tmp_path_factory.mktemp("newer") / "policy")
    stage = stale.workshop.stage(pool, Claim(newer, before=toy), stale.recording)
    before = stage.submit(proved(stale.group(1)), 1).finding
    assert (before.outcome, before.reason) == (Outcome.REJECT, Reason.PAIRING), before
    switch_off("judge_pairings", monkeypatch)
    assert stage.submit(proved(stale.group(1)), 1).finding.is_fine


def test_without_the_commitment_other_leaves_are_judged(bench: Bench) -> None:
    """A leaf that the coordinator slipped in is as good as any: only the root on chain tells."""
    committed = [leaf_of(bench.rollouts, slot).leaf for slot in (1, 2)]
    slipped_in = leaf_of(bench.rollouts, 3)
    submissions = [leaf.submission for leaf in committed]
    root = submission_root(submissions, FACTS.slots)
    table = PayTable.of(submissions, FACTS.slots, RULES.max_units).hash()
    served = [*committed, slipped_in.leaf]
    assert not checks.check_commitment(served, FACTS.slots, RULES.max_units, root, table).is_fine
    assert screen([slipped_in.leaf], RULES, FACTS, provider_of) == [FINE]
    assert bench.judge.judge(slipped_in.leaf, slipped_in.data).finding.is_fine


def test_every_check_has_an_attack() -> None:
    every = {
        name
        for module, start in ((checks, "check_"), (statistics, "judge_"))
        for name, member in inspect.getmembers(module, inspect.isfunction)
        if name.startswith(start) and member.__module__ == module.__name__
    }
    assert every == NEEDED.keys() | BY_OTHER_TESTS
