"""Simulates what the rules of evidence do to honest providers and to cheats, over whole histories of submissions.

python -m benchmarks.simulate_evidence [--card validator/cards/toy.json] [--scores benchmarks/scores/toy.json]
    [--providers 100000]

Honest providers draw their scores at worst as the card allows, as much worse than that as a card may be wrong, and,
from a file {class: [[score of each part]]}, as measured. A provider's scores hang together: some of it is the
provider's own, some lasts for a while. Each class keeps its own distribution. Cheats' other submissions count as the
best that there are, as a jury counts leaves that nobody names. Writes benchmarks/results/evidence.json.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from benchmarks.figures import figure, missed, write_results
from stannary.cards import Card
from stannary.e_process import MILDEST_PART, PART_SHARES, PARTS, STAKES, EvidenceRules
from validator.tails import lower_rate, upper_rate

F64 = npt.NDArray[np.float64]

BLOCK = 10_000
"""Providers that are simulated at once."""
LEAST, MOST = 1e-250, 1e250
"""What a part of the evidence counts as at least and at most: far beyond any level, and a number that is finite."""
MISTAKES = (1.0, 2.0, 5.0)
"""How many times more often than the card allows a class may go beyond its levels."""
CHEATS = (0.01, 0.05, 0.2, 1.0)
"""Shares of the submissions that are cheated in."""
CHEATS_SIMULATED, CHEATS_LONGEST = 2000, 10_000
BANKED = 10_000
"""Honest submissions before the first cheated one."""
ALLOWED = 1e-4
"""Honest histories that may reach the level of slashing at most."""


@dataclass(frozen=True, slots=True)
class Bond:
    """How the scores of a provider hang together: parts of the variance of a normal deviate behind each."""

    provider: float
    """Its own, for good."""
    hours: float
    """What lasts for a while."""
    memory: float
    """How much of that is left at the next submission."""


BONDS = {
    "apart": Bond(0.0, 0.0, 0.0),
    "in bad hours": Bond(0.0, 0.3, 0.9),
    "by provider and in bad hours": Bond(0.02, 0.3, 0.9),
}


@dataclass(frozen=True, slots=True)
class Cheat:
    """What cheated submissions score: how many levels they go beyond, and how often; else they go beyond none."""

    levels: int
    power: float
    part: str = MILDEST_PART
    """Of the checks; in the others they go beyond no level. By default that in which it is the weakest evidence."""


def main() -> int:
    """Simulate all; return 1 if a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--card", type=Path, default=Path("validator/cards/toy.json"))
    parser.add_argument("--scores", type=Path, default=Path("benchmarks/scores/toy.json"))
    parser.add_argument("--providers", type=int, default=100_000)
    parser.add_argument("--submissions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    card = Card.parse(args.card.read_bytes())
    rules, generator, started = card.evidence, np.random.default_rng(args.seed), time.monotonic()
    figures: dict[str, dict[str, object]] = {}
    for name, (beyond, bond, target) in histories(card, args.scores).items():
        largest = honest(rules, beyond, bond, args.providers, args.submissions, generator)
        figures[name] = of_honest(rules, largest, target)
        say(name, figures[name])
    for name, (share, cheat, banked) in cheats(rules).items():
        times = slashed_at(rules, share, cheat, CHEATS_SIMULATED, CHEATS_LONGEST, generator, banked)
        figures[name] = of_cheats(times)
        say(name, figures[name])
    body = {
        "about": "Honest: the share of histories that ever reach the level of slashing, as the upper end of its 95 % "
        "interval. Cheats: submissions until that level is reached, -1 where most never reach it. The card promises "
        "its probabilities for each submission given what came before; where submissions hang together, or a class is "
        "worse than its card, that is broken on purpose, to see what it costs.",
        "card": "0x" + card.hash().hex(),
        "levels": [[level.score, level.honest_at_most] for level in rules.levels],
        "providers": args.providers,
        "submissions": args.submissions,
        "seed": args.seed,
        "seconds": round(time.monotonic() - started, 1),
        "figures": figures,
    }
    command = f"python -m benchmarks.simulate_evidence --card {args.card} --scores {args.scores}"
    path = write_results("evidence", command, body, {"numpy": version("numpy")})
    failed = missed(figures)
    print(f"{path}: missed: {', '.join(failed) or 'none'}")
    return bool(failed)


def histories(card: Card, scores: Path) -> dict[str, tuple[F64, Bond, str]]:
    """Return what is simulated of honest providers: how often each class goes beyond each level, bond and target."""
    rules = card.evidence
    allowed = by_part([level.honest_at_most for level in rules.levels])
    target = f"<= {ALLOWED:g}"
    found = {}
    for name, bond in BONDS.items():
        for factor in MISTAKES:
            worse = "" if factor == 1 else f", {factor:g} times as often as the card says"
            found[f"honest at worst, {name}{worse}"] = (
                np.minimum(1.0, factor * allowed),
                bond,
                target if factor == 1 else "",
            )
    excluded = not_excluded(card)
    if excluded is not None:
        for name, bond in BONDS.items():
            found[f"honest as often as others do not exclude, {name}"] = (excluded, bond, target)
    measured = beyond_of(rules, json.loads(scores.read_text()))
    for name, bond in BONDS.items():
        found[f"honest as measured, {name}"] = (measured, bond, target)
    return found


def by_part(levels: Sequence[float]) -> F64:
    """Return how often a class goes beyond each level in each part, by how often it may in any.

    Shapes: [1, parts, levels].
    """
    return np.asarray(np.outer(PART_SHARES, levels)[None])


def cheats(rules: EvidenceRules) -> dict[str, tuple[float, Cheat, int]]:
    """Return what is simulated of cheats: the share of submissions, what these score, honest ones before."""
    top, middle = len(rules.levels), (len(rules.levels) + 1) // 2
    kinds = {
        "always found": Cheat(top, 1.0),
        "found half the time": Cheat(top, 0.5),
        f"never beyond level {middle} of {top}": Cheat(middle, 1.0),
        "never beyond level 1, in the pairing": Cheat(1, 1.0, "pairing"),
    }
    found = {f"cheat in {share:.0%}, {kind}": (share, cheat, 0) for kind, cheat in kinds.items() for share in CHEATS}
    found |= {
        f"cheat in {share:.0%}, {kind}, after {BANKED} honest": (share, cheat, BANKED)
        for kind, cheat in kinds.items()
        for share in (0.2, 1.0)
    }
    return found


def beyond_of(rules: EvidenceRules, scores: Mapping[str, Sequence[Sequence[float]]]) -> F64:
    """Return how often each class goes beyond each level in each part. Shapes: result [classes, parts, levels]."""
    levels = np.array([level.score for level in rules.levels])
    return np.array([(np.array(own)[..., None] > levels).mean(axis=0) for own in scores.values() if own])


def not_excluded(card: Card) -> F64 | None:
    """Return the upper ends of how often other recordings went beyond the levels, None if the card has none."""
    checked = card.measured.get("checked")
    if not isinstance(checked, Mapping) or "levels" not in checked:
        return None
    uppers = [float(level["rate_upper_95"]) for level in checked["levels"]]
    allowed = [level.honest_at_most for level in card.evidence.levels]
    return by_part([min(upper, share) for upper, share in zip(uppers, allowed, strict=True)])


def gains(rules: EvidenceRules) -> F64:
    """Return what a submission multiplies the evidence of a part by. Shapes: [parts, brackets, stakes]."""
    return np.asarray(1 + (rules.payoffs - 1)[..., None] * np.array(STAKES))


def honest(
    rules: EvidenceRules, beyond: F64, bond: Bond, providers: int, submissions: int, generator: np.random.Generator
) -> F64:
    """Return the largest evidence (log 10) in the history of each provider.

    Shapes: beyond [classes, parts, levels]; each provider is of one class by chance. Result [providers].
    """
    cuts = np.array([[[_deviate(share) for share in row] for row in part] for part in beyond])
    found = [
        _block(gains(rules), cuts, bond, min(BLOCK, providers - start), submissions, generator)
        for start in range(0, providers, BLOCK)
    ]
    return np.concatenate(found)


def _block(gain: F64, cuts: F64, bond: Bond, providers: int, submissions: int, generator: np.random.Generator) -> F64:
    own_cuts = np.moveaxis(cuts[generator.integers(len(cuts), size=providers)], 2, 0)  # [levels, providers, parts]
    steady = math.sqrt(bond.provider) * generator.standard_normal(providers)
    hours = generator.standard_normal(providers)
    fresh = math.sqrt(1 - bond.memory**2)
    rest = math.sqrt(1 - bond.provider - bond.hours)
    evidence = np.ones((providers, len(PARTS), len(STAKES)))
    largest = np.ones(providers)
    for _ in range(submissions):
        common = steady
        if bond.hours:
            common = steady + math.sqrt(bond.hours) * hours
            hours = bond.memory * hours + fresh * generator.standard_normal(providers)
        deviate = common[:, None] + rest * generator.standard_normal((providers, len(PARTS)))
        bracket = sum((deviate > cut).astype(np.intp) for cut in own_cuts)
        evidence *= gain[np.arange(len(PARTS)), bracket]
        np.clip(evidence, LEAST, MOST, out=evidence)
        np.maximum(largest, evidence.mean(axis=(1, 2)), out=largest)
    return np.asarray(np.log10(largest))


def slashed_at(
    rules: EvidenceRules,
    share: float,
    cheat: Cheat,
    providers: int,
    longest: int,
    generator: np.random.Generator,
    banked: int = 0,
) -> F64:
    """Return after how many submissions each cheat is slashed, infinite where it never is. Shapes: [providers].

    `banked` honest submissions came before and are not counted.
    """
    gain = gains(rules)
    evidence = np.tile(np.maximum(gain[:, 0] ** banked, LEAST), (providers, 1, 1))
    brackets = np.array([[0, cheat.levels * (part == cheat.part)] for part in PARTS]).T
    times = np.full(providers, math.inf)
    bound = 10.0**rules.slash_log10
    for number in range(1, longest + 1):
        is_seen = generator.random(len(evidence)) < share * cheat.power
        evidence *= gain[np.arange(len(PARTS)), brackets[is_seen.astype(np.intp)]]
        np.clip(evidence, LEAST, MOST, out=evidence)
        is_slashed = evidence.mean(axis=(1, 2)) >= bound
        if is_slashed.any():
            open_ones = np.flatnonzero(np.isinf(times))
            times[open_ones[is_slashed]] = number
            evidence = evidence[~is_slashed]
        if not len(evidence):
            break
    return times


def of_honest(rules: EvidenceRules, largest: F64, target: str) -> dict[str, object]:
    """Return the figure of honest histories."""
    slashed, stopped = (int((largest >= level).sum()) for level in (rules.slash_log10, rules.stop_log10))
    return figure(
        round(_upper(slashed, largest.size), 7), "share of histories", target,
        slashed=slashed, stopped=stopped, histories=largest.size,
        stopped_upper_95=round(_upper(stopped, largest.size), 7), largest_log10=round(float(largest.max()), 3),
    )  # fmt: skip


def of_cheats(times: F64) -> dict[str, object]:
    """Return the figure of cheats: the median time, the time of 95 in 100, and who is slashed by when."""
    slashed = {str(count): int((times <= count).sum()) for count in (100, 1000, CHEATS_LONGEST)}
    middle, late = (float(np.quantile(times, share, method="higher")) for share in (0.5, 0.95))
    return figure(
        middle if math.isfinite(middle) else -1.0, "submissions",
        late_95=late if math.isfinite(late) else None, histories=times.size, slashed_within=slashed,
        rate_lower_95={count: round(lower_rate(hits, times.size), 4) for count, hits in slashed.items()},
    )  # fmt: skip


def say(name: str, entry: Mapping[str, object]) -> None:
    """Print a figure."""
    print(f"{name}: " + ", ".join(f"{key} {value}" for key, value in entry.items()), flush=True)


def _upper(events: int, trials: int) -> float:
    """Return the upper end of a rate's 95 % interval: exact where events are few or many, else by a normal one."""
    if events <= 1000 or trials - events <= 1000:
        return upper_rate(events, trials)
    share = events / trials
    return share + 1.645 * math.sqrt(share * (1 - share) / trials)


def _deviate(share: float) -> float:
    """Return the normal deviate that is exceeded so often."""
    return math.inf if share <= 0 else -math.inf if share >= 1 else NormalDist().inv_cdf(1 - share)


if __name__ == "__main__":
    raise SystemExit(main())
