"""What the trainer takes from a step: accepted leaves only, each checked against the chain. It knows of no HTTP.

The list is frozen: slot order, one leaf a slot. Prompts and rewards are derived again, never taken on a worker's word.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stannary.chain import StepState
from stannary.environments import Environment, Problem
from stannary.errors import Confinement, Malformed
from stannary.merkle import merkle_root
from stannary.rollout import Rollout, decode_group
from stannary.slots import submission_root
from stannary.structs import Submission
from stannary.types import ZERO_HASH, Hash, Outcome, to_hex
from stannary.wire import LeavesOut
from trainer.batch import Sample
from trainer.grpo import group_advantages

Read = Callable[[bytes, int], list[Rollout]]
"""Reads a submission file: its bytes and the group's size. Raises: Malformed, Confinement."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GroupRules:
    """The pool's rules for a group, and the policy's vocabulary."""

    group_size: int
    max_completion_tokens: int
    vocabulary: int


@dataclass(frozen=True, slots=True)
class Group:
    """An accepted group, scored."""

    slot: int
    leaf_hash: Hash
    samples: tuple[Sample, ...]
    rewards: tuple[float, ...]


def leaves_of(message: LeavesOut, state: StepState) -> list[Submission]:
    """Return a step's leaves as committed on chain. Raises: Malformed if the coordinator answered with others."""
    leaves = [leaf.submission.submission() for leaf in message.leaves]
    root = submission_root(leaves, state.slots)
    if root != state.submission_root:
        raise Malformed("leaves", expected=f"the root {to_hex(state.submission_root)} on chain", got=to_hex(root))
    return leaves


def consumable(leaves: Sequence[Submission], outcomes: Sequence[Outcome], audited: frozenset[int]) -> list[Submission]:
    """Return the accepted leaves that got every check, in slot order; `outcomes` are by slot.

    A leaf that the audit beacon did not choose may be paid on the cheap checks alone. It is never learnt from.
    """
    found = [leaf for leaf in leaves if outcomes[leaf.slot] is Outcome.ACCEPT and leaf.slot in audited]
    return sorted(found, key=lambda leaf: leaf.slot)


def score_group(
    leaf: Submission,
    data: bytes,
    problem: Problem,
    environment: Environment,
    rules: GroupRules,
    read: Read = decode_group,
) -> Group:
    """Read an accepted submission file and score it. A reading that fails on this side is tried once more.

    Raises: Malformed if it is not what a validator may accept; Confinement if both readings fail.
    """
    rollouts = _rollouts(leaf, data, rules.group_size, read)
    for rollout in rollouts:
        if rollout.prompt != problem.prompt:
            raise Malformed("prompt", expected="the prompt of the slot", got=rollout.prompt[:16])
        if not 1 <= len(rollout.completion) <= rules.max_completion_tokens:
            raise Malformed(
                "completion", expected=f"1 … {rules.max_completion_tokens} tokens", got=len(rollout.completion)
            )
        for token in rollout.completion:
            if not 0 <= token < rules.vocabulary:
                raise Malformed("token", expected=f"0 … {rules.vocabulary - 1}", got=token)
    rewards = tuple(environment.reward(problem, rollout.completion) for rollout in rollouts)
    samples = tuple(
        Sample(rollout.prompt, rollout.completion, advantage)
        for rollout, advantage in zip(rollouts, group_advantages(rewards), strict=True)
    )
    return Group(leaf.slot, leaf.struct_hash(), samples, rewards)


def consumed_root(groups: Sequence[Group]) -> Hash:
    """Return the Merkle root over the consumed leaves in slot order, zero when there are none."""
    return merkle_root([group.leaf_hash for group in groups]) if groups else ZERO_HASH


def _rollouts(leaf: Submission, data: bytes, group_size: int, read: Read) -> list[Rollout]:
    try:
        return read(data, group_size)
    except Confinement as error:
        _log.warning("step %d slot %d: %s; reading it once more", leaf.step, leaf.slot, error)
        return read(data, group_size)
