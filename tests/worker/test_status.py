"""How far a provider is from every threshold, and when its worker stops by itself."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from stannary import wallet
from stannary.e_process import EvidenceRules, Level
from stannary.errors import SettingsError, Unavailable, Unreachable
from stannary.evidence import Measure
from stannary.provider_record import Judged, Record
from stannary.standing import ScoredLeaf, Standing
from stannary.types import ZERO_HASH, Outcome, Reason, Role
from tests.chains import Devnet
from tests.published import BEYOND, LEVELS, World, entry, leaf_at
from tests.worker.scripted import PROVIDER, make_lease, make_scene, play, sign_lease
from worker import plan
from worker.loop import TooMuchEvidence
from worker.status import distances, feared, must_stop, rejections_to, why_stop
from worker.status_cli import document, report, status


def judged(score: float, step: int = 0, slot: int = 0) -> Judged:
    return Judged(
        step,
        slot,
        Outcome.ACCEPT if score <= 1 else Outcome.REJECT,
        Reason.NONE if score <= 1 else Reason.ACTIVATIONS,
        "",
        (score, 0.0, 0.0),
        entry(leaf_at(step, slot), score).measures,
    )


def test_distances_are_the_least_margin_and_the_median_of_each_measure() -> None:
    leaves = [judged(score, slot=slot) for slot, score in enumerate((0.2, 0.9, 0.4))]
    nearest, other = distances(leaves)
    assert (nearest.name, nearest.slot, nearest.leaves) == ("mantissa_mean", 1, 3)
    assert nearest.margin == pytest.approx(0.1)
    assert nearest.median_share == pytest.approx(0.4)
    assert (other.name, other.margin) == ("mean_gap", pytest.approx(0.9))
    (beyond, *_) = distances([*leaves, judged(1.25)])
    assert beyond.margin == pytest.approx(-0.25)
    assert distances([]) == []


def test_number_that_is_not_finite_is_infinitely_far_beyond() -> None:
    leaf = replace(judged(0.1), measures={"mantissa_mean": Measure(None, 4.0)})
    assert distances([leaf])[0].margin == -math.inf


@pytest.mark.parametrize("counts", [(0, 0, 0, 0), (30, 0, 0, 0), (200, 2, 1, 0), (3000, 0, 0, 0), (5, 0, 0, 4)])
def test_rejections_in_a_row_are_as_many_as_counting_one_by_one_gives(counts: tuple[int, ...]) -> None:
    for level in (LEVELS.stop_log10, LEVELS.slash_log10):
        rest = (sum(counts), 0, 0, 0)
        more, added = 0, [list(counts), list(rest), list(rest)]
        while LEVELS.log10(added) < level:
            added[0][-1] += 1
            added[1][0] += 1
            added[2][0] += 1
            more += 1
        assert rejections_to(LEVELS, (counts, rest, rest), level) == more


def test_level_that_no_number_of_leaves_reaches_is_none() -> None:
    assert rejections_to(LEVELS, ((0, 0, 0, 0),) * 3, 3.0, (0.1, 0.1, 0.1)) is None
    weak = EvidenceRules((Level(0.5, 0.5), Level(0.8, 0.25), Level(1.5, 0.05)), 3.0, 6.0)
    assert rejections_to(weak, ((0, 0, 0, 0),) * 3, 3.0, (0.6, 0.0, 0.0)) is not None
    assert rejections_to(EvidenceRules((Level(0.5, 0.5),), 3.0, 6.0), ((0, 0),) * 3, 3.0) is not None


def after(*scores: float, good: int = 0) -> Standing:
    found = [*[0.1] * good, *scores]
    return Standing.of(LEVELS, [ScoredLeaf(0, slot, ZERO_HASH, (score, 0.0, 0.0)) for slot, score in enumerate(found)])


@pytest.mark.parametrize("good", [0, 1, 3, 6, 20, 100])
def test_one_rejection_never_stops_a_worker(good: int) -> None:
    assert not must_stop(LEVELS, after(BEYOND, good=good))
    assert not must_stop(LEVELS, after(math.inf, good=good))


@pytest.mark.parametrize("good", [0, 6])
def test_two_rejections_never_stop_a_worker_unless_a_third_would_reach_the_slash_level(good: int) -> None:
    two = after(BEYOND, BEYOND, good=good)
    assert after(BEYOND, BEYOND, BEYOND, good=good).log10 < LEVELS.slash_log10
    assert not must_stop(LEVELS, two)
    assert not must_stop(LEVELS, two, stop_log10=1.0), "two are few, whatever the level"
    assert must_stop(replace(LEVELS, slash_log10=4.5), after(BEYOND, BEYOND))


def test_two_rejections_stop_a_worker_whose_leaves_under_way_would_reach_the_slash_level() -> None:
    two = after(BEYOND, BEYOND)
    more = rejections_to(LEVELS, two.counts, LEVELS.slash_log10)
    assert more is not None
    assert must_stop(LEVELS, two, under_way=more - 1)
    assert not must_stop(LEVELS, two, under_way=more - 2)
    assert not must_stop(LEVELS, after(BEYOND, good=6), under_way=100), "below the level it goes on"


def test_rejections_whose_reasons_are_withheld_stop_a_worker() -> None:
    world = World()
    for step in range(3):
        world.add(step, {slot: [BEYOND] * 3 for slot in (0, 1)}, is_final=True)
    world.away |= set(world.files)
    reader = world.reader()
    for _ in range(5):
        record = reader.read()
        assert record is not None
        assert record.standing.log10 <= 0
        assert must_stop(LEVELS, feared(record))
        assert not record.missing or "no evidence here" in "\n".join(why_stop(record, "vllm"))


def test_leaves_without_votes_are_under_way() -> None:
    world = World()
    world.add(0, {0: [0.1] * 3, 1: [0.1] * 3}, is_final=True)
    world.add(1, {0: [], 1: []}, foreign=[2])
    assert world.record().under_way == 2


@pytest.mark.parametrize("good", range(0, 200, 7))
def test_worker_stops_before_the_slash_level(good: int) -> None:
    scores: list[float] = []
    while not must_stop(LEVELS, found := after(*scores, good=good)):
        scores.append(BEYOND)
    assert found.log10 < LEVELS.slash_log10


def test_drift_that_never_rejects_stops_a_worker_too() -> None:
    near = [0.3] * 30
    found = after(*near)
    assert found.log10 >= LEVELS.stop_log10
    assert must_stop(LEVELS, found)
    assert not must_stop(LEVELS, found, stop_log10=found.log10 + 0.1)


def test_honest_worker_goes_on() -> None:
    assert not must_stop(LEVELS, after(*[0.3] * 45, *[0.6] * 5, good=950))


def over_the_level() -> Record:
    world = World()
    for step in range(3):
        world.add(step, {slot: [0.1] * 3 for slot in (0, 1)} | {2: [BEYOND] * 3})
    return world.record()


def test_reason_to_stop_names_measure_limit_level_and_what_to_look_at() -> None:
    record = over_the_level()
    told = "\n".join(why_stop(record, "vllm"))
    assert f"the evidence against {PROVIDER} is 10^" in told
    assert "a worker stops at 10^3, slashing begins at 10^6" in told
    assert "3 of 9 measured leaves reach the score 0.25" in told
    assert "honest ones at most 5 % of the time" in told
    assert "step 2, slot 2: score 1.5, mantissa_mean 6, at most 4" in told
    for thing in ("engine (vllm)", "dtype", "hardware", "weights"):
        assert thing in told


def scene_with(standing: Callable[[], Record | None], *, holds: bool = True, stop_log10: float | None = None):  # type: ignore[no-untyped-def]
    scene = make_scene(*([[sign_lease(make_lease(0)), sign_lease(make_lease(1))]] if holds else []))
    scene.worker.parts = replace(scene.worker.parts, standing=standing)
    scene.worker.pace = replace(scene.worker.pace, stop_log10=stop_log10)
    return scene


def test_worker_over_the_level_asks_for_nothing_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    record = over_the_level()
    scene = scene_with(lambda: record)
    with pytest.raises(TooMuchEvidence, match=r"the evidence against 0x2{40} is 10\^.*stopped by itself"):
        scene.worker.run()
    assert scene.coordinator.asked == 0
    assert "mantissa_mean 6, at most 4" in caplog.text


def test_worker_that_goes_over_the_level_gives_up_what_it_holds() -> None:
    record = over_the_level()
    now: list[Record | None] = [None]
    scene = scene_with(lambda: now[0])
    begun = scene.clock.now

    def generated(request: object) -> tuple[int, ...]:
        scene.clock.now = begun + scene.worker.pace.standing_s
        now[0] = record
        return (7, 1)

    scene.engine.completions = generated
    scene.coordinator.failures["submit"] = [Unreachable("away")] * 100
    actions = list(play(scene, ticks=60))
    kinds = [type(action).__name__ for action in actions if not isinstance(action, plan.Rest)]
    assert kinds[-3:] == ["Look", "Drop", "Stop"]
    dropped = actions[[type(action) for action in actions].index(plan.Drop)]
    assert isinstance(dropped, plan.Drop)
    assert {held.stage for held in dropped.slots} == {plan.Stage.MADE}
    assert scene.coordinator.leaves == []


def test_worker_below_the_level_and_with_few_rejections_goes_on() -> None:
    world = World()
    world.add(0, {slot: [0.1] * 3 for slot in (0, 1, 2)} | {3: [BEYOND] * 3})
    world.add(1, {slot: [0.1] * 3 for slot in (0, 1, 2)} | {3: [BEYOND] * 3})
    record = world.record()
    scene = scene_with(lambda: record)
    list(play(scene, ticks=40))
    assert len(scene.coordinator.leaves) == 2


def test_own_stop_level_stands_in_for_the_cards() -> None:
    record = over_the_level()
    scene = scene_with(lambda: record, stop_log10=record.standing.log10 + 0.5)
    list(play(scene, ticks=40))
    assert len(scene.coordinator.leaves) == 2


@pytest.mark.parametrize("error", [Unreachable("no answer"), Unavailable("no card"), ValueError("a fault of ours")])
def test_evidence_that_cannot_be_read_is_only_logged(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    def fail() -> Record | None:
        raise error

    scene = scene_with(fail)
    list(play(scene, ticks=60))
    assert len(scene.coordinator.leaves) == 2
    assert "what panels say of this provider" in caplog.text


def test_standing_is_looked_at_as_often_as_asked_for() -> None:
    looks: list[float] = []
    scene = scene_with(lambda: looks.append(scene.clock.now), holds=False)
    begun = scene.clock.now
    for _ in play(scene, ticks=2000):
        if scene.clock.now > begun + 200:
            break
    pauses = [later - earlier for earlier, later in pairwise(looks)]
    assert pauses == pytest.approx([scene.worker.pace.standing_s] * len(pauses), abs=1.0)
    assert len(looks) >= 6


def test_report_shows_levels_leaves_and_distances() -> None:
    record = replace(over_the_level(), missing=("the evidence of 0x44: no evidence here",))
    told = "\n".join(report(record, recent=4))
    assert f"provider {PROVIDER}: 9 leaves judged, 9 of them with scores" in told
    assert "its worker stops by itself at 10^3, slashing begins at 10^6" in told
    to_slash = rejections_to(LEVELS, record.standing.counts, LEVELS.slash_log10)
    assert "rejections in a row until the stop level: none, it is reached" in told
    assert f"rejections in a row until the slash level: {to_slash}" in told
    assert "3 of 9 leaves (33.3 %) reach the score 0.75 (above 1 is rejected), honest ones at most 0.05 %" in told
    rows = [line.split() for line in told.splitlines()]
    assert ["2", "2", "reject", "(activations)", "1.500", "mantissa_mean", "6", "4"] in rows
    assert ["mantissa_mean", "6", "4", "1.500", "-0.500", "0.800", "1:2", "4"] in rows
    assert "the newest 4 leaves" in told
    assert "could not be had\n  the evidence of 0x44" in told
    written = json.loads(json.dumps(document(record, recent=4), allow_nan=False))
    assert (written["log10"], written["rejections_to_slash"]) == (record.standing.log10, to_slash)
    assert written["distances"][0]["margin"] == pytest.approx(-0.5)
    assert len(written["recent"]) == 4


@pytest.fixture
def run(devnet: Devnet, tmp_path: Path) -> Callable[..., object]:
    app = typer.Typer()
    app.command()(status)

    def call(*words: str, **variables: str) -> object:
        shared = {
            "STANNARY_RPC_URL": devnet.chain.rpc_url,
            "STANNARY_DEPLOYMENT": str(tmp_path / "deployment.json"),
            "STANNARY_COORDINATOR_URL": "http://127.0.0.1:1",
        }
        return CliRunner().invoke(app, words, env={**shared, **variables})

    return call


def test_status_needs_no_password_and_finds_the_provider_of_a_node(
    devnet: Devnet, tmp_path: Path, run: Callable[..., object]
) -> None:
    pool = devnet.pool()
    devnet.stake("miner", pool, Role.WORKER)
    node = devnet.add_node("miner", "rig")
    wallet.import_key(tmp_path / "rig.json", node.key.hex(), "correct horse", kdf_cost=4)
    for words in (("--keystore", str(tmp_path / "rig.json")), ("--provider", node.address)):
        found = run("--pool", str(pool), *words, STANNARY_WORKER_PASSWORD_FILE="absent", STANNARY_WORKER_POLL_S="1")
        assert (found.exit_code, found.output) == (0, f"pool {pool} has opened no step yet\n")  # type: ignore[attr-defined]
    found = run("--pool", str(pool))
    assert isinstance(found.exception, SettingsError)  # type: ignore[attr-defined]
    assert "whose standing? give --provider" in str(found.exception)  # type: ignore[attr-defined]
