"""Attacks by someone who has read every check and the card, and stays below the limits: what they leave is measured.

A *fork* takes the runner-up in place of the token that the rule picks, where it is nearly as good, and goes on by the
rule. After it everything is drawn anew, so a worker that may fork once may choose among as many completions as it has
near ties. It computes as the validator's first compute does, so honest drift uses up none of its budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.zoo.decoding import Decoder, Wish, decode
from benchmarks.zoo.generated import Scene
from benchmarks.zoo.material import Group, Recording, digest_of, with_states
from benchmarks.zoo.stage import FIRST, Remembered
from stannary.cards import Thresholds
from stannary.corpus import recording_seeds
from stannary.environments import Problem
from stannary.sampling import Replay, gumbel_batch, joined, summarise
from validator.judgement import GREY_FACTOR
from validator.statistics import replay_group

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

NEAR = 0.9
"""Part of each limit that a careful attacker uses."""
WIDTH = 6
"""Forks of a rollout that are tried in one round."""
FORKS = (1, 2, 4)
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

    def furthest(self, parts: Sequence[Replay], forks: int) -> float:
        """Return how large the gap of each of some more forks may be."""
        found = summarise(joined(list(parts)), margin=self.limits.gap_margin, cap=self.limits.gap_cap)
        band = self.limits.sampling_limits(found.informative)
        bound = min(NEAR, self.share) * self.limits.gap_bound
        if band is None:
            return bound
        left = self.share * band.mean_gap * found.informative - found.capped_sum
        return min(bound, max(0.0, left) / forks)


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
        made = decode([self._decoder], wishes, self._cap)
        found, start = [], 0
        for group in groups:
            rows = [own.tokens for own in made[start : start + len(group)]]
            found.append(self.walked(group, rows, [0] * len(group)))
            start += len(group)
        return found

    def forked(
        self, groups: Sequence[Group], walked: Sequence[list[Walked]], rounds: int, places: Sequence[int]
    ) -> list[list[Walked]]:
        """Fork each rollout at these places of a group once, if that brings it nearer to the aim.

        `rounds` are those that are left, this one among them: the budget is to last for them.
        """
        tries: list[tuple[int, int, int]] = []
        wishes: list[Wish] = []
        for number, (group, own) in enumerate(zip(groups, walked, strict=True)):
            furthest = self._budget.furthest([each.replay for each in own], rounds * len(places))
            for place in places:
                for position, token in self._forks(own[place], furthest):
                    tries.append((number, place, position))
                    forced = (*own[place].tokens[:position], token)
                    wishes.append(Wish(group[place].prompt, group[place].seed, forced))
        made = decode([self._decoder], wishes, self._cap, report=self._report)
        problems = self._problems(len(groups))
        best: dict[tuple[int, int], tuple[float, int, tuple[int, ...]]] = {}
        for (number, place, position), own_made in zip(tries, made, strict=True):
            tokens = own_made.tokens
            value = self._aim.value(self._scene, problems[number], tokens)
            if value > best.get((number, place), (-np.inf,))[0]:
                best[number, place] = (value, position, tokens)
        return [
            self._improved(
                group,
                own,
                problems[number],
                {place: best[number, place] for place in places if (number, place) in best},
            )
            for number, (group, own) in enumerate(zip(groups, walked, strict=True))
        ]

    def walked(self, group: Group, rows: Sequence[tuple[int, ...]], forked_to: Sequence[int]) -> list[Walked]:
        """Look at completions as the validator's first compute does."""
        policy, prompt = self._right, group[0].prompt
        states = policy.states(prompt, rows)
        found = []
        for each, tokens, own, start in zip(group, rows, states, forked_to, strict=True):
            replay = replay_group([tokens], [own], [each.seed], 1.0, policy)
            runner_up, end_gap = self._others(own, tokens, each.seed)
            found.append(Walked(tuple(tokens), replay, runner_up, end_gap, start))
        return found

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

    def _forks(self, own: Walked, furthest: float) -> Iterable[tuple[int, int]]:
        """Return positions and tokens of the nearest ties after the last fork."""
        end = min(self._right.tokens.end_ids)
        if self._aim.wants_end:
            near = np.flatnonzero((own.end_gap <= furthest) & (own.end_gap > 0))
            fitting = near[near >= own.forked_to][:1]
            yield from ((int(position), end) for position in fitting)
        margin = np.where(own.replay.gap > 0, np.inf, own.replay.margin)
        margin[: own.forked_to] = np.inf
        for position in np.argsort(margin, kind="stable")[:WIDTH]:
            if margin[position] <= furthest:
                yield int(position), int(own.runner_up[position])

    def _improved(
        self,
        group: Group,
        own: list[Walked],
        problem: Problem,
        best: Mapping[int, tuple[float, int, tuple[int, ...]]],
    ) -> list[Walked]:
        """Take the forks that gain most first, as long as the budget allows them."""
        value = {place: self._aim.value(self._scene, problem, own[place].tokens) for place in best}
        now = list(own)
        for place in sorted(best, key=lambda place: value[place] - best[place][0]):
            gained, position, tokens = best[place]
            if gained <= value[place]:
                continue
            rows = [each.tokens for each in now]
            starts = [each.forked_to for each in now]
            rows[place], starts[place] = tokens, position + 1
            tried = self.walked(group, rows, starts)
            if self._budget.allows([each.replay for each in tried]):
                now = tried
        return now

    def _problems(self, count: int) -> list[Problem]:
        return [self._scene.environment.problem(self._seeds.slot_seed(slot)) for slot in range(count)]

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
            for left in range(rounds, 0, -1):
                now = search.forked(honest.groups, now, left, places)
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
