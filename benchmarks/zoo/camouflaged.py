"""Attacks on what the proofs cannot tell: what is proved is not what was computed, or not what chose the tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from benchmarks.zoo.decoding import Decoder
from benchmarks.zoo.generated import PREFILL_SHARE, Generated, Scene, newest, stale
from benchmarks.zoo.kinds import Kind
from benchmarks.zoo.material import FOREIGN_SEED, Group, Recording, digest_of, with_states
from benchmarks.zoo.stage import Claim
from stannary import toploc
from stannary.cards import Card, Thresholds
from stannary.toploc import CHUNK_TOKENS
from stannary.toploc.states import top_points
from validator.statistics import ChunkMeasure, judge_activations
from validator.weights import FIRST, SECOND

NUDGE = 0.5
"""Part of the way that proved values are moved."""
TAUGHT, HALVINGS = 8, 8
"""Groups on which camouflage is fitted, and steps of the fit."""


def _nudged(scene: Scene) -> Recording:
    """Move the proved values of int8 states towards the right ones, where the attacker's own 128 largest lie."""

    def make() -> list[Group]:
        right = scene.models.open(scene.claim.folder, SECOND)
        found = []
        for group in cheap.groups:
            rows = [each.completion for each in group]
            states = [
                _moved(own.states, other) for own, other in zip(group, right.states(group[0].prompt, rows), strict=True)
            ]
            found.append(with_states(group, rows, states))
        return found

    cheap = scene.altered("int8")
    return scene.workshop.made(cheap.seed, make, "camouflaged", "nudged", cheap.digest, digest_of(scene.claim.folder))


def _moved(own: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Move a part of the values by a part of the way. Shapes: [T, H]."""
    moved = own.clone()
    indices, _ = top_points(own)
    for chunk, index in enumerate(torch.from_numpy(indices)):
        part = slice(chunk * CHUNK_TOKENS, (chunk + 1) * CHUNK_TOKENS)
        flat, target = moved[part].reshape(-1), right[part].reshape(-1)
        flat[index] += (NUDGE * (target[index].float() - flat[index].float())).to(flat.dtype)
        moved[part] = flat.view_as(moved[part])
    return moved


def _corrected(scene: Scene) -> Recording:
    """Take what int8 states are wrong by on average, learnt once on other prompts, off every state."""

    def make() -> list[Group]:
        right, wrong = (scene.models.open(each, SECOND) for each in (scene.claim.folder, folder))
        errors = []
        for group in taught.groups:
            rows = [each.completion for each in group]
            both = (policy.states(group[0].prompt, rows) for policy in (right, wrong))
            errors += [own.float() - other.float() for own, other in zip(*both, strict=True)]
        bias_H = torch.cat(errors).mean(dim=0)
        return [
            with_states(group, [own.completion for own in group], [own.states.float() + bias_H for own in group])
            for group in cheap.groups
        ]

    folder = scene.workshop.altered(scene.claim.folder, "int8")
    cheap, taught = scene.altered("int8"), scene.workshop.recorded(scene.claim.folder, TAUGHT, FOREIGN_SEED)
    return scene.workshop.made(cheap.seed, make, "camouflaged", "corrected", cheap.digest, taught.digest)


def _turned(scene: Scene) -> Recording:
    """Turn the sign of every value that an older policy step computed: magnitudes and places stay."""
    older = stale(scene.kind.paired_rate, 1)(scene)
    groups = [
        with_states(group, [own.completion for own in group], [-own.states for own in group]) for group in older.groups
    ]
    return Recording.of(groups, older.seed)


def _normal(states: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(states.shape, generator=generator)


def _signs(states: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return noise of one size: with it every value is as far off as any may be."""
    return torch.randint(0, 2, states.shape, generator=generator) * 2.0 - 1.0


def _in_noise(
    limits: Thresholds, draw: Callable[[torch.Tensor, torch.Generator], torch.Tensor]
) -> Callable[[Scene], Recording]:
    """Add as much noise to an older policy step's states as the limits of drift leave room for."""

    def blurred(states: torch.Tensor, size: float, seed: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        return states.float() * (1 + size * draw(states, generator))

    def rejected(groups: Sequence[Group], right: Sequence[Sequence[torch.Tensor]], size: float) -> int:
        """Return how many groups drift beyond the limits with so much noise."""
        count = 0
        for slot, (group, states) in enumerate(zip(groups, right, strict=True)):
            chunks = tuple(
                ChunkMeasure(0, 0, min(CHUNK_TOKENS, len(exact) - chunk * CHUNK_TOKENS), drift)
                for own, exact in zip(group, states, strict=True)
                for chunk, drift in enumerate(
                    toploc.verify(exact, toploc.build(blurred(own.states, size, slot).bfloat16()))
                )
            )
            count += not judge_activations(chunks, limits).is_fine
        return count

    def make(scene: Scene) -> Recording:
        older = stale(scene.kind.paired_rate, 1)(scene)
        exact = scene.models.open(newest(scene.kind.paired_rate)(scene).folder, FIRST)
        tried = older.groups[:TAUGHT]
        right = [exact.states(group[0].prompt, [own.completion for own in group]) for group in tried]
        anyhow = rejected(tried, right, 0.0)
        low, high = 0.0, 0.1
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if rejected(tried, right, middle) <= anyhow else (low, middle)
        scene.workshop.report(f"noise of {low:.4f} of each value stays within the limits")
        groups = [
            with_states(group, [own.completion for own in group], [blurred(own.states, low, slot) for own in group])
            for slot, group in enumerate(older.groups)
        ]
        return Recording.of(groups, older.seed)

    return make


def _guessed(scene: Scene) -> Recording:
    """Serve what the next policy step would be if it moved as the one before did, and download none."""
    *_, earlier, before, _ = scene.workshop.steps(scene.kind.paired_rate)
    return scene.recorded(scene.workshop.guessed(before, earlier))


def _one_stale(scene: Scene) -> Recording:
    """Leave one rollout of each group to an older policy step."""
    steps = scene.workshop.steps(scene.kind.paired_rate)
    right, older = scene.recorded(steps[-1]), scene.recorded(steps[-2])
    groups = [(other[0], *own[1:]) for own, other in zip(right.groups, older.groups, strict=True)]
    return Recording.of(groups, right.seed)


def _ahead(scene: Scene) -> Recording:
    """Serve the leased policy step trained a step further by the worker: nobody else has that direction."""
    return scene.recorded(scene.workshop.steps(scene.kind.paired_rate)[-1])


def _last_but_one(scene: Scene) -> Claim:
    steps = scene.workshop.steps(scene.kind.paired_rate)
    return Claim(steps[-2], steps[-3])


def _end_moved(by: float) -> Callable[[Scene], Recording]:
    """Make the end more or less likely, and prove the right policy's states: proofs say nothing of the logits."""

    def make(scene: Scene) -> Recording:
        def alter(logits: torch.Tensor) -> torch.Tensor:
            logits[:, ends] += by
            return logits

        ends = sorted(scene.models.open(scene.claim.folder, FIRST).tokens.end_ids)
        return scene.decoded(f"end moved by {by:g}", lambda: [Decoder(scene.claim.folder, alter=alter)])

    return make


def camouflaged(kind: Kind, card: Card) -> Mapping[str, Generated]:
    """Return the attacks on what is proved, by name."""
    claim, rate, bound = newest(kind.paired_rate), kind.paired_rate, card.thresholds.gap_bound
    every = (
        *(
            Generated(f"the end's logit moved by {by:+.2g}", _end_moved(by), 1.0, None)
            for by in (-bound, -bound / 4, bound / 4, bound)
        ),
        Generated("int8 matrices, proofs nudged halfway to the right states", _nudged, 0.5 + PREFILL_SHARE, None),
        Generated("int8 matrices, proofs corrected by their mean error", _corrected, 0.5, None),
        Generated(f"stale by 1 at learning rate {rate}, signs turned", _turned, 0.9, None, claim),
        *(
            Generated(
                f"stale by 1 at learning rate {rate}, in noise{of}", _in_noise(card.thresholds, draw), 0.9, None, claim
            )
            for of, draw in (("", _normal), (" of one size", _signs))
        ),
        Generated(f"guessed from the two steps before at learning rate {rate}", _guessed, 0.9, None, claim),
        Generated(f"a step ahead, trained by the worker at learning rate {rate}", _ahead, 1.0, None, _last_but_one),
        Generated(f"one rollout of four stale by 1 at learning rate {rate}", _one_stale, 0.975, None, claim),
    )
    return {attack.name: attack for attack in every}
