"""demo.progress: what a person reads."""

from __future__ import annotations

import io
from typing import cast

from rich.console import Console

from demo.progress import QUIET_S, Progress, awaited, closing_lines, step_line
from demo.report import History
from stannary.chain import Chain, Event, events
from stannary.slots import PayTable
from stannary.types import Address, Hash, PoolId
from tests.demo.sample_record import sample_record

POOL = PoolId(1)
ROOT = Hash(bytes(32))
PLACE = events.Place(1, ROOT, 0, ROOT)
PANEL = (Address("0x" + "11" * 20), Address("0x" + "22" * 20))


def history(*found: Event) -> History:
    return History(cast(Chain, None), list(found))


def test_step_line_names_who_was_rejected_and_why() -> None:
    line = step_line(sample_record().steps[3])
    assert "step   3 by policy   2" in line
    assert "4 cheat activations" in line
    assert "4 liar sampling_bound" in line
    assert "1 undecided" in line


def test_awaited_follows_the_oldest_unfinished_step() -> None:
    found: list[Event] = []
    expected = ["the trainer to open step 0"]
    said = [awaited(history(), POOL, 1)]
    table = PayTable((), (), ())
    for event, text in (
        (events.StepOpened(PLACE, POOL, 0, 0, 4, 0, 9), "the seed beacon of step 0"),
        (events.SeedBeaconSealed(PLACE, POOL, 0, ROOT, PANEL[0]), "the workers' groups of step 0"),
        (events.RootCommitted(PLACE, POOL, 0, ROOT, ROOT, table, 12), "the panel of step 0 to be drawn"),
        (events.AuditBeaconSealed(PLACE, POOL, 0, ROOT, PANEL, PANEL[0]), "the commitments of step 0: 0 of 2"),
        (events.VoteCommitted(PLACE, POOL, 0, PANEL[0], PANEL[0], ROOT), "the commitments of step 0: 1 of 2"),
        (events.VoteCommitted(PLACE, POOL, 0, PANEL[1], PANEL[1], ROOT), "the votes on step 0: 0 of 2"),
        (events.VoteRevealed(PLACE, POOL, 0, PANEL[0], b"", ROOT, ROOT), "the votes on step 0: 1 of 2"),
        (events.VoteRevealed(PLACE, POOL, 0, PANEL[1], b"", ROOT, ROOT), "the end of the challenge time of step 0"),
        (events.StepFinalized(PLACE, POOL, 0, b"", 4, 0, 0, 0), "the last policy"),
    ):
        found.append(event)
        said.append(awaited(history(*found), POOL, 1))
        expected.append(text)
    assert said == expected


def test_progress_names_a_wait_only_after_a_silence() -> None:
    now = [0.0]
    out = io.StringIO()
    progress = Progress(Console(file=out, width=200), clock=lambda: now[0])
    progress.waiting("the votes")
    assert out.getvalue() == ""
    now[0] = QUIET_S
    progress.waiting("the votes")
    progress.waiting("the votes")
    assert out.getvalue() == "0:10  waiting for the votes\n"


def test_closing_lines_tell_every_party_and_the_books() -> None:
    text = "\n".join(closing_lines(sample_record()))
    for name in ("honest_vllm", "honest_transformers", "cheat", "liar", "validator-0", "StakeManager", "PayoutVault"):
        assert name in text
    assert text.count("conserved") == 2
    assert "case 1: honest_vllm was accused for step 0, slot 0" in text
    assert "the accuser lost 4, the worker was paid 3 and lost 0" in text
    assert "32 of liar by the check `sampling_bound`" in text
