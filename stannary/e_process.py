"""The evidence against a provider, accumulated over its submissions: an anytime-valid e-process. Pure.

Every judged submission has a *score* in each part of the checks, its largest ratio of a measured number to its limit
(above 1 it is rejected). A card bounds how often an honest submission of the worst admitted hardware reaches each of a
few levels. Between the levels a bet is placed whose expected factor is at most 1 for every honest provider, whatever
its hardware and whatever came before, so the product is a supermartingale, and by Ville's inequality it ever reaches
10^x with probability at most 10^-x, however often one looks. How much is staked is a mixture, so that cheats of one
submission in a hundred and of all are both found; so is the part of the checks that is bet on, because a cheat shows in
the same one again and again, where honest work goes beyond a level more rarely than anywhere.

Only counts enter: the order of the submissions does not matter, and the whole state of a provider is a handful of
integers that anybody can recount. It must not know of chain, card files or how a score is measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from stannary.errors import Malformed

FAMILIES = {"activations": 5, "pairing": 1, "sampling": 3}
"""Families of numbers in each part of the checks. Each has an equal part of every probability of a card."""
PARTS = tuple(FAMILIES)
PART_SHARES = np.array(list(FAMILIES.values())) / sum(FAMILIES.values())
"""What each part has of every probability of a card. Shapes: [parts]."""
MILDEST_PART = max(FAMILIES, key=FAMILIES.__getitem__)
"""The part in which going beyond a level is the weakest evidence."""
NOTHING = (0.0,) * len(PARTS)
"""The scores of a submission that shows nothing at all."""
STAKES = (0.1, 0.02, 0.004, 0.001)
"""Shares of the evidence that a bet puts at stake; each, on each part, has the same weight in the mixture."""
ROUNDING = 1e-12
"""Relative difference that counts as none: 0.3 − 0.2 is not quite 0.2 − 0.1."""
LEAST_STEP = 1e-12
"""Least probability of a bracket: what it pays stays a finite number."""

Scores = tuple[float, ...]
"""Of a submission, one for each part of the checks."""
Counts = tuple[tuple[int, ...], ...]
"""Submissions by part and bracket, the lowest first."""


@dataclass(frozen=True, slots=True)
class Level:
    """A score, and how often an honest submission reaches it in any part at most."""

    score: float
    honest_at_most: float


@dataclass(frozen=True, slots=True)
class EvidenceRules:
    """How scores become evidence, and what follows from it."""

    levels: tuple[Level, ...]
    """By rising score and falling probability."""
    stop_log10: float
    """A worker stops by itself when the evidence against its provider reaches 10 to this power."""
    slash_log10: float
    """A provider whose evidence reaches 10 to this power may be slashed."""

    def __post_init__(self) -> None:
        """Refuse levels on which no fair bet can be placed. Raises: Malformed."""
        scores = [level.score for level in self.levels]
        shares = [1.0, *(level.honest_at_most for level in self.levels), 0.0]
        if not scores or any(not low < high for low, high in pairwise(scores)):
            raise Malformed("levels", expected="rising scores", got=scores)
        if any(not low < high for high, low in pairwise(shares)):
            raise Malformed("levels", expected="falling probabilities within 0 … 1", got=shares[1:-1])
        steps = [high - low for high, low in pairwise(shares[1:])]
        if any(later > earlier * (1 + ROUNDING) for earlier, later in pairwise(steps)):
            # Or a higher score would pay less than a lower one, and a bound on how often it is reached prove nothing.
            raise Malformed("levels", expected="probabilities that fall less and less", got=shares[1:-1])
        if min(steps) < LEAST_STEP:
            raise Malformed("levels", expected=f"probabilities at least {LEAST_STEP:g} apart", got=shares[1:-1])
        if not 0 < self.stop_log10 < self.slash_log10:
            raise Malformed("stop_log10", expected=f"between 0 and {self.slash_log10:g}", got=self.stop_log10)

    @property
    def payoffs(self) -> npt.NDArray[np.float64]:
        """What a bet on a part pays for each bracket, from below the first level to above the last.

        The brackets above the first level share the bet evenly, so the payoff rises with the score, and its mean is 1
        for a provider that reaches each level in this part exactly as often as the card allows and less for every other
        honest one. Shapes: [parts, levels + 1].
        """
        shares = np.array([level.honest_at_most for level in self.levels] + [0.0])
        steps = np.outer(PART_SHARES, shares[:-1] - shares[1:])
        return np.concatenate([np.zeros((len(PARTS), 1)), 1.0 / (len(self.levels) * steps)], axis=1)

    def bracket(self, score: float) -> int:
        """Return how many levels a score goes beyond; a score that is no number goes beyond none.

        A number that equals its limit is within it: counts and shares of short submissions often do.
        """
        return sum(score > level.score for level in self.levels)

    def reached(self, scores: Scores) -> int:
        """Return how many levels a submission goes beyond in the part where these are most."""
        return max(map(self.bracket, scores))

    def log10(self, counts: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the evidence as a power of ten. Shapes: counts [..., parts, levels + 1] by bracket; result [...]."""
        counted = np.asarray(counts, dtype=np.float64)
        shape = (len(PARTS), len(self.levels) + 1)
        if counted.shape[-2:] != shape:
            raise Malformed("counts", expected=f"[…, {shape[0]}, {shape[1]}]", got=list(counted.shape))
        if not (np.isfinite(counted).all() and (counted >= 0).all()):
            raise Malformed("counts", expected="numbers of submissions", got=counted.tolist())
        factors_PJS = np.log1p((self.payoffs - 1.0)[..., None] * np.array(STAKES))
        logs = np.einsum("...pj,pjs->...ps", counted, factors_PJS).reshape(*counted.shape[:-2], -1)
        top = logs.max(axis=-1, keepdims=True)
        total = np.log(np.exp(logs - top).mean(axis=-1)) + top[..., 0]
        return np.asarray(total / math.log(10))

    def count(self, submissions: Sequence[Scores]) -> Counts:
        """Return the number of submissions in each bracket, by part."""
        counts = [[0] * (len(self.levels) + 1) for _ in PARTS]
        for scores in submissions:
            for part, score in zip(counts, scores, strict=True):
                part[self.bracket(score)] += 1
        return tuple(map(tuple, counts))
