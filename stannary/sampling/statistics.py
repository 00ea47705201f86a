"""What the replay of a submission's tokens adds up to. Pure and vectorised; it knows no limits of its own.

One number would not do. A bound alone leaves free choices wherever the runner-up is near; a sum alone hides one edited
token among thousands; a rate over all positions is diluted by those where every sampler takes the same token.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stannary.sampling.choice import Replay

INFORMATIVE = 0.9
"""A position is informative where the likeliest token has at most this probability."""


@dataclass(frozen=True, slots=True)
class SamplingStatistics:
    """Counts and sums over the tokens of a submission. Gaps are in natural log, as `Replay.gap`."""

    tokens: int
    informative: int
    """Positions at which the policy left a choice."""
    not_chosen: int
    """Informative positions whose token is not the one that the rule picks."""
    beyond_margin: int
    """Tokens further below the best than the margin, wherever they are."""
    capped_sum: float
    """Sum of the gaps, each counting at most the cap."""
    largest: float
    largest_at: int
    """Where the largest gap lies."""

    @property
    def not_chosen_rate(self) -> float:
        """Share of the informative positions that do not follow the rule, 0 where there are none."""
        return self.not_chosen / self.informative if self.informative else 0.0

    @property
    def mean_gap(self) -> float:
        """Capped gaps of all tokens, divided by the informative ones: the others add next to nothing."""
        return self.capped_sum / max(self.informative, 1)


def summarise(replayed: Replay, *, margin: float, cap: float) -> SamplingStatistics:
    """Return the statistics of all tokens of a submission.

    Raises: ValueError if there is no token.
    """
    gap = replayed.gap
    if not gap.size:
        raise ValueError("replay: expected at least one token")
    is_informative = replayed.top_probability <= INFORMATIVE
    largest_at = int(gap.argmax())
    return SamplingStatistics(
        tokens=gap.size,
        informative=int(is_informative.sum()),
        not_chosen=int((gap[is_informative] > 0).sum()),
        beyond_margin=int((gap > margin).sum()),
        capped_sum=float(np.minimum(gap, cap).sum()),
        largest=float(gap[largest_at]),
        largest_at=largest_at,
    )


def joined(parts: list[Replay]) -> Replay:
    """Return replays one after another as one."""
    return Replay(
        gap=np.concatenate([part.gap for part in parts]),
        margin=np.concatenate([part.margin for part in parts]),
        choice=np.concatenate([part.choice for part in parts]),
        logprob=np.concatenate([part.logprob for part in parts]),
        top_probability=np.concatenate([part.top_probability for part in parts]),
    )
