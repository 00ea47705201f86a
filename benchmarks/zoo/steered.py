"""Attacks by someone who has read every check and the card, and stays below the limits: what they leave is measured.

A *fork* takes the runner-up in place of the token that the rule picks, where it is nearly as good, and goes on by the
rule. After it everything is drawn anew, so a worker that may fork once may choose among as many completions as it has
near ties. It computes as the validator's first compute does, so honest drift uses up none of its budget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.zoo.decoding import Decoder, Wish, decode
from benchmarks.zoo.generated import Scene
from benchmarks.zoo.material import Group, Recording, digest_of, with_states
from benchmarks.zoo.stage import Remembered
from stannary.cards import Thresholds
from stannary.corpus import Recorded, recording_seeds
from stannary.environments import Problem
from stannary.sampling import Replay, gumbel_batch, joined, summarise
from validator.judgement import GREY_FACTOR
from validator.statistics import replay_group
from validator.weights import FIRST

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

NEAR = 0.9
"""Part of each limit that a careful attacker uses."""
WIDTH = 6
"""Forks of a rollout that are tried in one round."""
FORKS = (1, 2, 4)
LEAST_GAP = 1e-3
"""Added to gaps when gains are weighed by them: the nearest ties are as good as free."""
CONCENTRATED = 8
"""Forks of the one rollout that gets them all."""


@dataclass(frozen=True, slots=True)
class Walked:
    """A completion, and where it could have gone otherwise. Shapes: all [T]."""

    tokens: tuple[int, ...]
    replay: Replay
    runner_up: I64
    """The second best id, or the best where the token is another."""
    end_gap: F64
    """How far the best end id lies below the best."""
    forked_to: int = 0
    """The position after the last fork: what lies before it stays."""


@dataclass(frozen=True, slots=True)
class Aim:
    """What a worker wants of a completion: the larger the better."""

    name: str
    value: Callable[[Scene, Problem, Sequence[int]], float]
    wants_end: bool = False


AIMS = (
    Aim("reward", lambda scene, problem, tokens: scene.environment.reward(problem, tokens)),
    Aim("length", lambda _scene, _problem, tokens: float(len(tokens))),
    Aim("an early end", lambda _scene, _problem, tokens: -float(len(tokens)), wants_end=True),
)


@dataclass(frozen=True, slots=True)
class Budget:
    """What the numbers of a group may come to."""

    limits: Thresholds
    share: float
    """Of the limits."""

    def allows(self, parts: Sequence[Replay]) -> bool:
        """Say whether a group stays within the budget."""
        found = summarise(joined(list(parts)), margin=self.limits.gap_margin, cap=self.limits.gap_cap)
        band = self.limits.sampling_limits(found.informative)
        is_within = found.largest <= min(
            NEAR, self.share
        ) * self.limits.gap_bound and found.beyond_margin <= self.share * self.limits.beyond_margin.of(found.tokens)
        return is_within and (
            band is None
            or (
                found.not_chosen_rate <= self.share * band.not_chosen_rate
                and found.mean_gap <= self.share * band.mean_gap
            )
        )

    def left(self, parts: Sequence[Replay]) -> float:
        """Return how large the gap of one more fork may be."""
        found = summarise(joined(list(parts)), margin=self.limits.gap_margin, cap=self.limits.gap_cap)
        band = self.limits.sampling_limits(found.informative)
        bound = min(NEAR, self.share) * self.limits.gap_bound
        if band is None:
            return bound
        return min(bound, self.share * band.mean_gap * found.informative - found.capped_sum)


@dataclass(frozen=True, slots=True)
class Fork:
    """One way on."""

    place: int
    """Of the rollout in its group."""
    position: int
    token: int
    gap: float


class Search:
    """Walks the groups of a step, and forks them towards an aim."""

    def __init__(self, scene: Scene, budget: Budget, aim: Aim, seed: int) -> None:
        """`seed` is that of the recording whose slots are walked."""
        self._scene, self._budget, self._aim, self._cap = scene, budget, aim, scene.kind.task.max_tokens
        self._seeds = recording_seeds(seed)
        self._right: Remembered = scene.models.open(scene.claim.folder, FIRST)
        self._decoder = Decoder(scene.claim.folder, torch.float32)

    def honest(self, groups: Sequence[Group]) -> list[list[Walked]]:
        """Return what the rule gives, as the validator computes it."""
        wishes = [Wish(each.prompt, each.seed) for group in groups for each in group]
        made = iter(decode([self._decoder], wishes, self._cap))
        return [[self.walked(each, next(made).tokens, 0) for each in group] for group in groups]

    def forked(
        self, groups: Sequence[Group], walked: Sequence[list[Walked]], places: Sequence[int]
    ) -> list[list[Walked]]:
        """Fork each rollout at these places of a group once at most, where that brings it nearer to the aim."""
        forks = [self._forks(own, places) for own in walked]
        wishes = [
            Wish(
                group[fork.place].prompt, group[fork.place].seed, (*own[fork.place].tokens[: fork.position], fork.token)
            )
            for group, own, tries in zip(groups, walked, forks, strict=True)
            for fork in tries
        ]
        made = iter(decode([self._decoder], wishes, self._cap, report=self._report))
        ends = [[(fork, next(made).tokens) for fork in tries] for tries in forks]
        return [
            self._improved(group, own, self._scene.environment.problem(self._seeds.slot_seed(slot)), tried)
            for slot, (group, own, tried) in enumerate(zip(groups, walked, ends, strict=True))
        ]

    def walked(self, each: Recorded, tokens: tuple[int, ...], forked_to: int) -> Walked:
        """Look at a completion as the validator's first compute does."""
        (states,) = self._right.states(each.prompt, [tokens])
        replay = replay_group([tokens], [states], [each.seed], 1.0, self._right)
        return Walked(tokens, replay, *self._others(states, tokens, each.seed), forked_to)

    def _others(self, states: torch.Tensor, tokens: Sequence[int], seed: bytes) -> tuple[I64, F64]:
        """Return the best id that is not the token, and the gap of the best end id. Shapes: states [T, H]."""
        ends = torch.tensor(sorted(self._right.tokens.end_ids))
        others, gaps = [], []
        for start in range(0, len(tokens), self._right.head_rows):
            part = range(start, min(start + self._right.head_rows, len(tokens)))
            noise = gumbel_batch([seed] * len(part), list(part), self._right.vocabulary)
            scores = self._right.logits(states[part.start : part.stop]) + torch.from_numpy(noise)
            first = scores.topk(2, dim=-1)
            own = torch.tensor(tokens[part.start : part.stop])
            others.append(torch.where(first.indices[:, 0] == own, first.indices[:, 1], first.indices[:, 0]))
            gaps.append(first.values[:, 0] - scores[:, ends].max(dim=-1).values)
        return torch.cat(others).numpy(), torch.cat(gaps).double().numpy()

    def _forks(self, own: Sequence[Walked], places: Sequence[int]) -> list[Fork]:
        """Return the nearest ties of a group after its last forks, and the nearest end if that is wanted."""
        left = self._budget.left([each.replay for each in own])
        found = []
        for place in places:
            walked = own[place]
            margin = np.where(walked.replay.gap > 0, np.inf, walked.replay.margin)
            margin[: walked.forked_to] = np.inf
            for position in np.argsort(margin, kind="stable")[:WIDTH].tolist():
                if margin[position] <= left:
                    found.append(Fork(place, position, int(walked.runner_up[position]), float(margin[position])))
            near = np.flatnonzero((walked.end_gap <= left) & (walked.end_gap > 0))
            for position in near[near >= walked.forked_to].tolist()[: int(self._aim.wants_end)]:
                end = min(self._right.tokens.end_ids)
                found.append(Fork(place, position, end, float(walked.end_gap[position])))
        return found

    def _improved(
        self, group: Group, own: list[Walked], problem: Problem, tried: Sequence[tuple[Fork, tuple[int, ...]]]
    ) -> list[Walked]:
        """Take the forks that gain most for their gap first, as long as the budget allows them."""

        def value(tokens: Sequence[int]) -> float:
            return self._aim.value(self._scene, problem, tokens)

        before = [value(each.tokens) for each in own]
        gains = [(value(tokens) - before[fork.place], fork, tokens) for fork, tokens in tried]
        now, taken = list(own), set[int]()
        for gain, fork, tokens in sorted(gains, key=lambda each: -each[0] / (each[1].gap + LEAST_GAP)):
            left = self._budget.left([each.replay for each in now])
            if gain <= 0 or fork.place in taken or fork.gap > left:
                continue
            after = list(now)
            after[fork.place] = self.walked(group[fork.place], tokens, fork.position + 1)
            if self._budget.allows([each.replay for each in after]):
                now = after
                taken.add(fork.place)
        return now

    def _report(self, done: int) -> None:
        self._scene.workshop.report(f"forks towards {self._aim.name}: {done} completions tried")


def steer(
    scene: Scene, budget: Budget, aim: Aim, rounds: int, places: Sequence[int] = ()
) -> tuple[Recording, Recording]:
    """Return what the rule gives, and what is left of it after some rounds of forks, in these places or in all."""
    honest = scene.honest()
    places = places or range(len(honest.groups[0]))
    made: list[list[list[Walked]]] = []

    def walk() -> Sequence[Sequence[Sequence[Walked]]]:
        if not made:
            search = Search(scene, budget, aim, honest.seed)
            now = search.honest(honest.groups)
            made.append(now)
            for _ in range(rounds):
                now = search.forked(honest.groups, now, places)
            made.append(now)
        return made

    def write(number: int) -> list[Group]:
        exact = scene.models.open(scene.claim.folder, FIRST)
        written = []
        for group, own in zip(honest.groups, walk()[number], strict=True):
            rows = [each.tokens for each in own]
            written.append(with_states(group, rows, exact.states(group[0].prompt, rows)))
        return written

    key = (aim.name, repr(budget), rounds, tuple(places), digest_of(scene.claim.folder), honest.digest)
    rule, forked = (
        scene.workshop.made(honest.seed, partial(write, number), "steered", number, *key) for number in (0, 1)
    )
    return rule, forked


@dataclass(frozen=True, slots=True)
class Steered:
    """An attack by forks."""

    name: str
    aim: Aim
    forks: int
    share: float
    """Of each limit that is used."""
    places: tuple[int, ...] = ()
    is_short: bool = False
    """Whether it is made where answers are short."""
    is_quiet: bool = False
    """Whether it keeps to the tightest limits, below which nothing is evidence."""

    def budget(self, limits: Thresholds) -> Budget:
        """Return what may be used up."""
        return Budget(limits.ladder[0] if self.is_quiet else limits, self.share)

    def make(self, scene: Scene, limits: Thresholds) -> tuple[Recording, Recording]:
        """Return what the rule gives, and what is handed in instead."""
        return steer(scene, self.budget(limits), self.aim, self.forks, self.places)


def steered() -> Mapping[str, Steered]:
    """Return the attacks by forks, by name."""
    reward = AIMS[0]
    every = [
        Steered(f"steered towards {aim.name}, {forks} fork{'s' * (forks > 1)} a rollout", aim, forks, NEAR)
        for aim in AIMS
        for forks in FORKS
    ]
    every += [
        Steered("steered towards reward, all forks in one rollout", reward, CONCENTRATED, NEAR, places=(0,)),
        Steered("steered towards reward, below the first level of evidence", reward, FORKS[-1], NEAR, is_quiet=True),
        Steered("steered towards reward, within the grey band", reward, FORKS[-1], NEAR * GREY_FACTOR),
        Steered("steered towards reward, where answers are short", reward, FORKS[-1], 1.0, is_short=True),
        Steered("steered towards length, where answers are short", AIMS[1], FORKS[-1], 1.0, is_short=True),
    ]
    return {attack.name: attack for attack in every}
