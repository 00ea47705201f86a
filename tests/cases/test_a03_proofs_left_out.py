"""A3: fewer proofs, no proofs, too many, or another's: each is refused and says how many were expected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stannary.environments import Environment
from stannary.types import Outcome, Reason
from tests.validator.conftest import FACTS, Bench, bench, bf16, card, environment, fp32, judge, prove, toy
from validator.prefill import Prefill

__all__ = ["bench", "bf16", "card", "environment", "fp32", "judge", "toy"]


@pytest.mark.parametrize("kept", [0, 1])
def test_a03_missing_proofs_are_a_fault(bench: Bench, kept: int) -> None:
    index = next(index for index, rollout in enumerate(bench.rollouts) if len(rollout.proofs) == 2)
    rollouts = bench.rollouts
    rollouts[index] = replace(rollouts[index], proofs=rollouts[index].proofs[:kept])
    finding = bench.finding(rollouts)
    assert (finding.outcome, finding.reason) == (Outcome.FAULT, Reason.PROOF_COUNT)
    assert "expected 2 proofs" in finding.explanation
    assert f"got {kept}" in finding.explanation


def test_a03_no_proofs_at_all_are_a_fault(bench: Bench) -> None:
    finding = bench.finding([replace(rollout, proofs=()) for rollout in bench.rollouts])
    assert (finding.outcome, finding.reason) == (Outcome.FAULT, Reason.PROOF_COUNT)


def test_a03_one_proof_too_many_is_a_fault(bench: Bench) -> None:
    rollouts = bench.rollouts
    rollouts[0] = replace(rollouts[0], proofs=(*rollouts[0].proofs, rollouts[0].proofs[0]))
    finding = bench.finding(rollouts)
    assert (finding.outcome, finding.reason) == (Outcome.FAULT, Reason.PROOF_COUNT)


def test_a03_proofs_of_two_sequences_swapped_are_rejected(
    bench: Bench, bf16: Prefill, environment: Environment
) -> None:
    """Of two problems: within one problem the toy's states hardly depend on the symbols, so a swap changes nothing."""
    slot = next(
        slot
        for slot in range(FACTS.slots)
        if environment.problem(FACTS.seeds.slot_seed(slot)).prompt[1] != bench.prompt[1]
    )
    prompt = environment.problem(FACTS.seeds.slot_seed(slot)).prompt
    others = prove(prompt, bench.tokens, bf16.states(prompt, bench.tokens))
    swapped = [replace(own, proofs=other.proofs) for own, other in zip(bench.rollouts, others, strict=True)]
    finding = bench.finding(swapped)
    assert (finding.outcome, finding.reason) == (Outcome.REJECT, Reason.ACTIVATIONS)
