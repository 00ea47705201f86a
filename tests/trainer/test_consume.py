"""What is taken from a step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stannary.chain import StepState
from stannary.environments import Environment
from stannary.errors import Malformed
from stannary.rollout import PROOF_BYTES, Rollout, content_hash, encode_group
from stannary.slots import submission_root
from stannary.structs import Lease, Submission
from stannary.types import Address, Hash, Outcome, Phase
from stannary.wire import LeafOut, LeaseMessage, LeavesOut, SubmissionMessage
from trainer.consume import GroupRules, consumable, consumed_root, leaves_of, score_group

ZERO = Hash(bytes(32))
SLOTS = 4
SIGNATURE = b"\x11" * 65
NODE = Address("0x70997970C51812dc3A010C7d01b50e0d17dc79C8")
RULES = GroupRules(group_size=4, max_completion_tokens=8, vocabulary=64)
A, R, X = Outcome.ACCEPT, Outcome.REJECT, Outcome.ABSTAIN


def leaf(slot: int, content: Hash = ZERO) -> Submission:
    return Submission(1, 0, slot, NODE, NODE, 10, content, Hash(b"\x01" * 32))


def answer(leaves: list[Submission]) -> LeavesOut:
    lease = LeaseMessage.of(Lease(1, 0, 0, 0, NODE, NODE, 0, 9, 10, ZERO, 1), SIGNATURE)
    return LeavesOut(
        step=0,
        submission_root="0x" + "00" * 32,
        leaves=[LeafOut(submission=SubmissionMessage.of(each, SIGNATURE), lease=lease) for each in leaves],
    )


def committed(leaves: list[Submission]) -> StepState:
    root = submission_root(leaves, SLOTS)
    return StepState(0, SLOTS, 0, 0, 0, 1, 2, Phase.AUDITED, 3, 4, 5, 0, ZERO, ZERO, root, ZERO)


def test_leaves_that_match_the_root_are_taken() -> None:
    leaves = [leaf(1), leaf(3)]
    assert leaves_of(answer(leaves), committed(leaves)) == leaves


@pytest.mark.parametrize(
    "told",
    [
        [leaf(3)],
        [leaf(1), leaf(2)],
        [leaf(3), replace(leaf(1), units=11)],
        [leaf(3), leaf(1), leaf(0)],
        [leaf(1), leaf(1)],
        [leaf(1), leaf(4)],
        [],
    ],
)
def test_leaves_that_differ_from_the_root_are_refused(told: list[Submission]) -> None:
    with pytest.raises(Malformed, match=r"leaves|slot"):
        leaves_of(answer(told), committed([leaf(3), leaf(1)]))


def test_accepted_leaves_come_in_slot_order() -> None:
    leaves = [leaf(3), leaf(1), leaf(0)]
    assert consumable(leaves, [R, A, X, A, X], frozenset(range(5))) == [leaf(1), leaf(3)]
    assert consumable(leaves, [R, A, X, A, X], frozenset({0, 3})) == [leaf(3)]
    assert consumable(leaves, [X, X, A, X], frozenset(range(4))) == []


def group(
    environment: Environment, size: int = 4, length: int = 5, prompt: tuple[int, ...] | None = None, first: int = 12
) -> bytes:
    problem = environment.problem(b"seed")
    rollouts = [
        Rollout(prompt or problem.prompt, tuple(first + index for _ in range(length)), (bytes(PROOF_BYTES),))
        for index in range(size)
    ]
    return encode_group(rollouts)


def test_group_is_scored_by_the_environment_and_not_by_the_file(sieve: Environment) -> None:
    problem, data = sieve.problem(b"seed"), group(sieve)
    found = score_group(leaf(2, content_hash(data)), data, problem, sieve, RULES)
    assert found.rewards == tuple(sieve.reward(problem, sample.completion) for sample in found.samples)
    assert sum(sample.advantage for sample in found.samples) == pytest.approx(0, abs=1e-6)
    assert found.samples[1].completion == (13,) * 5
    assert consumed_root([found]) == found.leaf_hash
    assert consumed_root([]) == ZERO


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 3}, "rows"),
        ({"length": 9}, "completion"),
        ({"prompt": (0, 4, 12, 12, 3)}, "prompt"),
        ({"length": 0}, "completion"),
        ({"first": 61}, "token"),
        ({"first": -1}, "token"),
    ],
)
def test_group_that_no_validator_may_accept_is_refused(
    sieve: Environment, arguments: dict[str, object], message: str
) -> None:
    data = group(sieve, **arguments)  # type: ignore[arg-type]
    with pytest.raises(Malformed, match=message):
        score_group(leaf(2), data, sieve.problem(b"seed"), sieve, RULES)
