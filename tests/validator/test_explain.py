"""Explaining a leaf: the offending place is named, distances are shown, and the panel stands beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import typer

from stannary import toploc
from stannary.chain import Block, StepHistory, events
from stannary.errors import OperatorError, PolicyError, Unavailable
from stannary.rollout import Rollout, decode_group
from stannary.slots import PayTable, submission_root
from stannary.standing import scores_of
from stannary.types import ZERO_HASH, Address, Hash, Outcome, Reason, to_hex
from stannary.verdict import pack_outcomes
from tests.validator.conftest import (
    CARD_HASH,
    DOMAIN,
    FACTS,
    NODE,
    PROVIDER,
    RULES,
    STRANGER,
    Bench,
    Made,
    address,
    leaf_of,
    lease_of,
    prove,
    provider_of,
)
from tests.validator.scripted import ScriptedCoordinator, ScriptedLedger, ScriptedWeights
from tests.validator.test_loop import make_world
from validator.explain import (
    Check,
    Explanation,
    Material,
    Place,
    Recomputed,
    State,
    as_numbers,
    members_of,
    panel_decision,
    recompute,
    words_of,
)
from validator.explain_cli import EXIT_DIFFERS, EXIT_MISSING, exit_code, parse_place
from validator.explain_report import document, report
from validator.explain_sources import Missing, explain_leaf, find
from validator.finding import FINE, unavailable
from validator.judgement import Judge, Judgement, screen
from validator.parts import Parts
from validator.prefill import Prefill
from validator.votes import Vote

SLOT = 3
PANEL = tuple(Address("0x" + digit * 40) for digit in "4567")
PLACE = events.Place(1, Hash(b"\x04" * 32), 0, Hash(b"\x05" * 32))


def material_of(made: Made, judge: Judge | None, toy: Path, **changes: object) -> Material:
    material = Material(
        leaf=made.leaf,
        rules=RULES,
        facts=FACTS,
        commitment=FINE,
        provider_of_node=provider_of(made.leaf.submission.node),
        data=made.data,
        judge=judge,
        words=words_of(toy),
        read=decode_group,
    )
    return replace(material, **changes)  # type: ignore[arg-type]


def explained(made: Made, recomputed: Recomputed, **changes: object) -> Explanation:
    found = Explanation(made.leaf, FACTS.policy_step, CARD_HASH, recomputed, Outcome.ACCEPT, ())
    return replace(found, **changes)  # type: ignore[arg-type]


def text_of(made: Made, recomputed: Recomputed) -> str:
    return "\n".join(report(explained(made, recomputed), []))


def check_of(recomputed: Recomputed, name: str) -> Check:
    return next(check for check in recomputed.checks if check.name == name)


def wrong_fields(check: Check) -> dict[str, tuple[str, str]]:
    return {field.name: (field.expected, field.got) for field in check.fields if not field.is_right}


def states_of(recomputed: Recomputed) -> list[State]:
    return [check.state for check in recomputed.checks]


def edit(bench: Bench, rollout: int, place: int) -> tuple[list[Rollout], int]:
    """Replace a token by the one that the policy likes least there, and prove it honestly; returns that token."""
    policy = bench.judge.computes.first
    (states,) = policy.states(bench.prompt, [bench.tokens[rollout]])
    logits = policy.logits(states[place : place + 1])[0].clone()
    logits[[*policy.tokens.end_ids]] = torch.inf
    least = int(logits.argmin())
    tokens = [list(own) for own in bench.tokens]
    tokens[rollout][place] = least
    return prove(bench.prompt, tokens, policy.states(bench.prompt, tokens)), least


def foreign(bench: Bench, rollout: int, chunk: int) -> list[Rollout]:
    """Prove one chunk by states of nothing."""
    states = [own.clone() for own in bench.states]
    part = slice(chunk * toploc.CHUNK_TOKENS, (chunk + 1) * toploc.CHUNK_TOKENS)
    torch.manual_seed(1)
    states[rollout][part] = torch.randn_like(states[rollout][part].float()).to(torch.bfloat16)
    return prove(bench.prompt, bench.tokens, states)


def test_edited_token_is_named_by_rollout_and_position(bench: Bench, toy: Path) -> None:
    rollouts, least = edit(bench, rollout=1, place=7)
    made = leaf_of(rollouts)
    found = recompute(material_of(made, bench.judge, toy))
    assert found.judgement == bench.judge.judge(made.leaf, made.data)
    assert check_of(found, "activations").state is State.PASSED
    sampling = check_of(found, "sampling")
    assert sampling.state is State.FAILED
    assert "rollout 1, token 7" in sampling.explanation
    assert "largest_gap" in wrong_fields(sampling)
    worst = found.views[0].tokens[0]
    assert (worst.rollout, worst.token, worst.claimed, worst.picked) == (1, 7, least, bench.tokens[1][7])
    words = words_of(toy)
    assert (worst.claimed_text, worst.picked_text) == (words([least]), words([bench.tokens[1][7]]))
    assert worst.before.endswith(words(bench.tokens[1][4:7]))
    assert worst.after == words(bench.tokens[1][8:12])
    assert worst.gap > worst.limit == bench.judge.card.thresholds.gap_bound
    assert 0 < worst.probability < 1 / 64
    assert f"[{worst.claimed_text}]" in text_of(made, found)
    assert len(found.views) == 2, "another compute was asked before anything was held against it"


def test_foreign_chunk_is_named_and_marked(bench: Bench, toy: Path) -> None:
    made = leaf_of(foreign(bench, rollout=2, chunk=1))
    found = recompute(material_of(made, bench.judge, toy))
    assert found.judgement == bench.judge.judge(made.leaf, made.data)
    activations = check_of(found, "activations")
    assert activations.state is State.FAILED
    assert activations.explanation.startswith("rollout 2, chunk 1 of 16 tokens")
    view = found.views[0]
    assert (view.worst.rollout, view.worst.chunk, view.worst.tokens) == (2, 1, 16)
    assert view.worst.text == words_of(toy)(bench.tokens[2][32:48])
    assert [(row.rollout, row.chunk) for row in view.beyond_published] == [(2, 1)]
    told = text_of(made, found)
    marked = [line.split()[1:4] for line in told.splitlines() if line.startswith("  *     ")]
    assert marked == [["2", "1", "16"]] * 2, "by each of the two computes"
    assert "the published limits, 38 / 10 / 8 a chunk, would reject it: 1 of 7 chunks are beyond" in told
    assert "verdict here: reject (activations); the panel's: accept; NOT reproduced" in told


def test_wrong_prompt_is_named_by_its_token(bench: Bench, toy: Path) -> None:
    words = words_of(toy)
    other = (*bench.prompt[:3], bench.prompt[3] ^ 1, *bench.prompt[4:])
    made = leaf_of([*bench.rollouts[:2], *prove(other, bench.tokens[2:], bench.states[2:])])
    found = recompute(material_of(made, bench.judge, toy))
    assert found.judgement == bench.judge.judge(made.leaf, made.data)
    wrong = wrong_fields(check_of(found, "prompt"))
    assert wrong["rollout 2, token 3 of the prompt"] == (
        f"{bench.prompt[3]} {words([bench.prompt[3]])!r}",
        f"{other[3]} {words([other[3]])!r}",
    )
    assert states_of(found)[-8:] == [State.SKIPPED] * 8
    assert not found.views


def test_prompt_that_is_too_short_differs_where_it_ends(bench: Bench, toy: Path) -> None:
    made = leaf_of(prove(bench.prompt[:-1], bench.tokens, bench.states))
    wrong = wrong_fields(check_of(recompute(material_of(made, bench.judge, toy)), "prompt"))
    assert wrong["rollout 0, tokens of the prompt"] == ("5", "4")
    assert wrong["rollout 0, token 4 of the prompt"][1] == "nothing"


def test_passing_leaf_shows_its_distances(bench: Bench, toy: Path) -> None:
    made = leaf_of(bench.rollouts)
    found = recompute(material_of(made, bench.judge, toy))
    assert found.judgement == bench.judge.judge(made.leaf, made.data)
    assert set(states_of(found)) == {State.PASSED}
    assert found.is_audited
    (view,) = found.views
    assert [(row.rollout, row.chunk) for row in view.chunks] == [
        (rollout, chunk) for rollout, own in enumerate(bench.tokens) for chunk in range(toploc.chunk_count(len(own)))
    ]
    assert 0 < view.worst.share < 1
    assert all(own.limit is not None for row in view.chunks for own in row.measures.values())
    assert view.scores == scores_of(found.judgement.finding.measures) is not None
    assert not view.beyond_published
    told = text_of(made, found)
    assert "accept; the panel's: accept; reproduced" in told
    assert "would not reject it" in told
    assert "nearest to its limit: " in told


def test_pairing_shows_share_errors_and_limit(bench: Bench, neighbour: Path, toy: Path) -> None:
    """The leased policy is the toy; its own next step stands in for the step before."""
    before = Prefill(neighbour, "fp32")
    judge = replace(bench.judge, computes=replace(bench.judge.computes, before=lambda: before))
    honest = leaf_of(bench.rollouts)
    found = recompute(material_of(honest, judge, toy))
    assert check_of(found, "pairing").state is State.PASSED
    measures = found.views[0].pairing.measures
    errors = measures["towards the policy step before"]
    assert errors.value is not None
    assert errors.limit == judge.card.thresholds.pairing.deviation > errors.value
    told = text_of(honest, found)
    assert f"pairing towards the policy step before {errors.value:.4g} of {errors.limit:.4g}" in told
    assert "pairing share of the policy step before" in told
    stale = leaf_of(prove(bench.prompt, bench.tokens, before.states(bench.prompt, bench.tokens)))
    found = recompute(material_of(stale, judge, toy))
    towards = found.views[0].pairing.measures["towards the policy step before"].value
    assert towards is not None
    assert towards > errors.value
    share = found.views[0].pairing.measures["share of the policy step before"].value
    assert share == pytest.approx(1.0, abs=0.2)
    assert check_of(found, "pairing").state is State.FAILED
    assert found.judgement == judge.judge(stale.leaf, stale.data)


TOTAL = "as many as the file holds"


@pytest.mark.parametrize(
    ("name", "changes", "wrong"),
    [
        ("units", {"units": 7}, {"units": (TOTAL, "7")}),
        ("place", {"step": 9}, {"step": ("2", "9")}),
        ("lease", {"lease": lease_of(SLOT, policy_step=0)}, {"policy step": ("1", "0")}),
        ("lease", {"lease": lease_of(SLOT, slot=4)}, {"slot": ("3", "4")}),
        ("lease", {"lease": lease_of(SLOT, valid_until=2000)}, {"validity": ("within 1000 … 1120", "1010 … 2000")}),
        ("lease", {"lease": lease_of(SLOT, max_units=8)}, {"units": ("at most 8", TOTAL)}),
        ("lease", {"coordinator": STRANGER}, {"signed by the coordinator": (RULES.coordinator, address(STRANGER))}),
        ("signature", {"signer": STRANGER}, {"signed by the node": (address(NODE), address(STRANGER))}),
        ("signature", {"node": STRANGER, "signer": STRANGER}, {"provider of the node": (address(STRANGER), PROVIDER)}),
    ],
)
def test_failing_check_shows_the_fields_expected_and_got(
    name: str, changes: dict[str, object], wrong: dict[str, tuple[str, str]], bench: Bench, toy: Path
) -> None:
    made = leaf_of(bench.rollouts, **changes)  # type: ignore[arg-type]
    found = recompute(material_of(made, bench.judge, toy))
    (failed,) = [check for check in found.checks if check.state is State.FAILED]
    total = str(sum(map(len, bench.tokens)))
    expected = {field: tuple(total if side == TOTAL else side for side in sides) for field, sides in wrong.items()}
    assert (failed.name, wrong_fields(failed)) == (name, expected)
    (screened,) = screen([made.leaf], RULES, FACTS, provider_of)
    assert found.judgement is not None
    assert found.judgement.finding == (
        screened if not screened.is_fine else bench.judge.judge(made.leaf, made.data).finding
    )
    after = found.checks[found.checks.index(failed) + 1 :]
    assert {check.state for check in after} == {State.SKIPPED}
    assert f"FAILED   {name}" in text_of(made, found)


def test_completion_beyond_the_cap_is_named(bench: Bench, toy: Path) -> None:
    made = leaf_of(bench.rollouts)
    rules = replace(RULES, max_completion_tokens=30)
    judge = replace(bench.judge, rules=rules)
    found = recompute(material_of(made, judge, toy, rules=rules))
    long = {index: str(len(own)) for index, own in enumerate(bench.tokens) if len(own) > 30}
    assert wrong_fields(check_of(found, "length")) == {
        f"tokens of rollout {index}": ("1 … 30", length) for index, length in long.items()
    }
    assert found.judgement == judge.judge(made.leaf, made.data)


def test_leaf_that_the_beacon_did_not_choose_is_measured_for_information(bench: Bench, toy: Path) -> None:
    judge = replace(bench.judge, card=replace(bench.judge.card, audit_bps=1))
    rollouts, _ = edit(bench, rollout=1, place=7)
    made = leaf_of(rollouts)
    found = recompute(material_of(made, judge, toy))
    assert found.is_audited is False
    assert found.judgement == judge.judge(made.leaf, made.data)
    assert found.judgement is not None
    assert found.judgement.finding.is_fine
    sampling = check_of(found, "sampling")
    assert (sampling.state, "measured all the same: failed" in sampling.explanation) == (State.SKIPPED, True)
    assert (found.views[0].tokens[0].rollout, found.views[0].tokens[0].token) == (1, 7)


def test_without_the_policy_what_needs_none_is_told_and_nothing_is_decided(bench: Bench, toy: Path) -> None:
    found = recompute(material_of(leaf_of(bench.rollouts), None, toy))
    assert found.judgement is None
    unknown = [check.name for check in found.checks if check.state is State.UNKNOWN]
    assert unknown == ["prompt", "token", "termination", "activations", "pairing", "sampling"]
    # A prompt that cannot be checked comes before the units: what fails later is shown, and is no verdict.
    found = recompute(material_of(leaf_of(bench.rollouts, units=7), None, toy))
    assert check_of(found, "units").state is State.FAILED
    assert found.judgement is None


def test_without_the_file_a_wrong_lease_is_still_a_verdict(bench: Bench, toy: Path) -> None:
    honest, wrong = leaf_of(bench.rollouts), leaf_of(bench.rollouts, lease=lease_of(SLOT, policy_step=0))
    assert recompute(material_of(honest, bench.judge, toy, data=None)).judgement is None
    found = recompute(material_of(wrong, bench.judge, toy, data=None)).judgement
    assert found is not None
    assert found.finding.reason is Reason.LEASE


@pytest.mark.parametrize(
    "changes",
    [
        {"provider_of_node": None},
        {"commitment": unavailable("another root is served")},
        {"data": b"another file"},
    ],
)
def test_what_this_machine_cannot_check_leaves_no_verdict(changes: dict[str, object], bench: Bench, toy: Path) -> None:
    made = leaf_of(bench.rollouts)
    found = recompute(material_of(made, bench.judge, toy, **changes))
    assert State.UNKNOWN in states_of(found)
    assert State.FAILED not in states_of(found)
    assert found.judgement is None


def evidence_of(judgement: Judgement) -> Vote:
    return Vote.of(
        {SLOT: judgement},
        positions=FACTS.slots,
        submission_root=ZERO_HASH,
        pool=RULES.pool,
        step=FACTS.step,
        policy_step=FACTS.policy_step,
        card_hash=CARD_HASH,
        compute="a test",
        account=NODE,
        domain=DOMAIN,
    )


def history_of(votes: Mapping[Address, Vote], **changes: bytes) -> StepHistory:
    """A step whose panel has revealed these; `changes` of outcomes by the last digit of the member."""
    found: list[events.Event] = [
        events.StepOpened(PLACE, RULES.pool, FACTS.step, FACTS.policy_step, FACTS.slots, 0, 7),
        events.AuditBeaconSealed(PLACE, RULES.pool, FACTS.step, ZERO_HASH, PANEL, PROVIDER),
    ]
    for member, vote in votes.items():
        outcomes = changes.get("of" + member[-1], vote.outcomes)
        found.append(
            events.VoteRevealed(PLACE, RULES.pool, FACTS.step, member, outcomes, vote.verdict_root, vote.evidence_root)
        )
    return StepHistory.of(found, RULES.pool, FACTS.step)


def served(*votes: Vote) -> Callable[[Hash], bytes]:
    files = {vote.evidence_root: vote.evidence.to_bytes() for vote in votes if vote.evidence is not None}

    def evidence(root: Hash) -> bytes:
        if root not in files:
            raise Unavailable("no evidence here")
        return files[root]

    return evidence


def test_panel_stands_beside_the_recomputation(bench: Bench, toy: Path) -> None:
    made, (rollouts, _) = leaf_of(bench.rollouts), edit(bench, rollout=1, place=7)
    own = recompute(material_of(made, bench.judge, toy))
    assert own.judgement is not None
    bad = bench.judge.judge(made.leaf, leaf_of(rollouts).data)
    assert not bad.is_decided, "another file than the leaf's"
    lie = replace(bench.verdict(rollouts), leaf_hash=own.judgement.leaf_hash)
    agreeing, differing, blank = evidence_of(own.judgement), evidence_of(lie), Vote.blank(FACTS.slots, ZERO_HASH)
    history = history_of({PANEL[0]: agreeing, PANEL[1]: differing, PANEL[2]: blank})
    first, second, third, fourth = members_of(history, made.leaf, own.judgement, served(agreeing, differing))
    assert (first.vote, first.differences, first.compute) == (Outcome.ACCEPT, (), "a test")
    assert second.vote is lie.finding.outcome
    assert second.differences[0] == f"outcome: {lie.finding.outcome.name.lower()} there, accept here"
    assert any(each.startswith("largest_gap: ") for each in second.differences)
    assert (third.vote, third.evidence) == (Outcome.ABSTAIN, None)
    assert "abstained on the whole step" in third.missing
    assert (fourth.vote, fourth.missing) == (None, "it has revealed no vote")
    found = explained(made, own, members=(first, second, third, fourth))
    told = "\n".join(report(found, ["one thing"]))
    assert f"{PANEL[0]} voted accept; published accept by a test\n    agrees with what is found here" in told
    assert f"    differs: {second.differences[0]}" in told
    assert told.endswith("could not be had\n  one thing")
    written = json.loads(json.dumps(document(found, []), allow_nan=False))
    assert written["members"][1]["vote"] == lie.finding.outcome.name.lower()
    assert written["measured"][0]["worst_chunk"]["share"] < 1


def test_evidence_that_is_missing_or_not_what_was_voted_is_named(bench: Bench, toy: Path) -> None:
    made = leaf_of(bench.rollouts)
    own = recompute(material_of(made, bench.judge, toy)).judgement
    assert own is not None
    vote, other = evidence_of(own), evidence_of(replace(own, rewards=(0.5,) * 4))
    faults = pack_outcomes([Outcome.FAULT] * FACTS.slots)
    history = history_of({PANEL[0]: vote, PANEL[1]: other, PANEL[2]: vote}, of6=faults)
    swapped = {vote.evidence_root: vote.evidence, other.evidence_root: vote.evidence}

    def lying(root: Hash) -> bytes:
        file = swapped[root]
        assert file is not None
        return file.to_bytes()

    first, second, third, _ = members_of(history, made.leaf, own, lying)
    assert not first.missing
    assert to_hex(other.evidence_root) in second.missing
    assert third.differences == ("it voted fault, its evidence says accept",)
    absent = members_of(history, made.leaf, own, served())
    assert absent[0].missing == "no evidence here"
    honest = members_of(history, made.leaf, own, served(vote, other))
    assert honest[1].differences[0].startswith("rewards: [0.5, 0.5, 0.5, 0.5] there")
    foreign_leaf = leaf_of(bench.rollouts, SLOT, units=7).leaf
    assert members_of(history, foreign_leaf, None, served(vote))[0].missing == "its evidence says nothing of this leaf"


def test_panels_decision_waits_for_votes_that_may_still_decide(bench: Bench) -> None:
    accept = evidence_of(bench.verdict(bench.rollouts))
    blank = Vote.blank(FACTS.slots, ZERO_HASH)
    assert panel_decision(history_of({}), SLOT, quorum=2) is None
    assert panel_decision(history_of({PANEL[0]: accept}), SLOT, quorum=2) is None
    assert panel_decision(history_of(dict.fromkeys(PANEL[:2], accept)), SLOT, quorum=2) is Outcome.ACCEPT
    undecided = {PANEL[0]: accept, PANEL[1]: blank, PANEL[2]: blank, PANEL[3]: blank}
    assert panel_decision(history_of(undecided), SLOT, quorum=2) is Outcome.ABSTAIN


def test_exit_code_says_whether_the_panel_is_reproduced(bench: Bench, toy: Path) -> None:
    made = leaf_of(bench.rollouts)
    own = recompute(material_of(made, bench.judge, toy))
    assert exit_code(explained(made, own), is_missing=False) == 0
    assert exit_code(explained(made, own), is_missing=True) == EXIT_MISSING
    assert exit_code(explained(made, own, panel=Outcome.FAULT), is_missing=True) == EXIT_DIFFERS
    assert exit_code(explained(made, own, panel=Outcome.ABSTAIN), is_missing=False) == EXIT_DIFFERS
    assert exit_code(explained(made, own, panel=None), is_missing=False) == EXIT_MISSING
    assert exit_code(explained(made, Recomputed(())), is_missing=False) == EXIT_MISSING
    assert exit_code(None, is_missing=True) == EXIT_MISSING


def test_submission_is_named_by_its_hash_or_its_place() -> None:
    assert parse_place("12:3") == Place(step=12, slot=3)
    assert parse_place("0x" + "AB" * 32) == Place(leaf_hash=Hash(b"\xab" * 32))
    for wrong in ("12", "12:", ":3", "-1:3", "0x12", "12:3:4"):
        with pytest.raises(typer.BadParameter):
            parse_place(wrong)


def test_whatever_a_source_does_is_named_and_the_next_is_asked() -> None:
    missing = Missing()

    def fail(error: Exception) -> Callable[[], int]:
        def act() -> int:
            raise error

        return act

    assert missing.ask("the file", fail(Unavailable("it is not here"))) is None
    assert missing.ask("the policy", fail(RuntimeError("no memory"))) is None
    assert missing.ask("the card", lambda: 7) == 7
    assert missing.said == ["the file: it is not here", "the policy: RuntimeError: no memory"]
    with pytest.raises(OperatorError):
        missing.ask("the settings", fail(OperatorError("another pool's coordinator")))


def test_tokens_are_spelled_even_if_no_tokenizer_knows_them(toy: Path) -> None:
    assert words_of(toy)([-1, 5]) == as_numbers([-1, 5]) == "-1 5"
    assert words_of(toy)([0]) == "<bos>"


@dataclass(slots=True)
class TellingLedger(ScriptedLedger):
    """A ledger on which the whole panel has revealed these votes."""

    revealed: Sequence[Vote] = ()
    root: Hash | None = None
    """Another than that of the served leaves."""

    def history(self, step: int, at: Block) -> StepHistory:
        leaves = [made.leaf.submission for made in self.made]
        table = PayTable.of(leaves, FACTS.slots, RULES.max_units)
        root = self.root or submission_root(leaves, FACTS.slots)
        told: list[events.Event] = [
            events.StepOpened(PLACE, RULES.pool, step, FACTS.policy_step, FACTS.slots, 0, 7),
            events.RootCommitted(PLACE, RULES.pool, step, root, ZERO_HASH, table, 9),
            events.AuditBeaconSealed(PLACE, RULES.pool, step, ZERO_HASH, PANEL[: len(self.revealed)], PROVIDER),
        ]
        for member, vote in zip(PANEL, self.revealed, strict=False):
            told.append(
                events.VoteRevealed(
                    PLACE, RULES.pool, step, member, vote.outcomes, vote.verdict_root, vote.evidence_root
                )
            )
        return StepHistory.of(told, RULES.pool, step)


@dataclass
class Sources:
    """A validator's parts over scripts, and what the coordinator serves beside them."""

    parts: Parts
    ledger: TellingLedger
    coordinator: ScriptedCoordinator
    weights: ScriptedWeights
    missing: Missing = field(default_factory=Missing)

    def evidence(self, evidence_root: Hash) -> bytes:
        if evidence_root not in self.coordinator.evidence:
            raise Unavailable("no evidence here")
        return self.coordinator.evidence[evidence_root]

    def explain(self, made: Made) -> Explanation | None:
        at = self.ledger.frozen()
        return explain_leaf(self.parts, self, made.leaf, at, self.missing, quorum=2, seated_at=lambda _: at)


@pytest.fixture
def honest(bench: Bench) -> Made:
    return leaf_of(bench.rollouts)


@pytest.fixture
def sources(bench: Bench, honest: Made, toy: Path, tmp_path: Path) -> Sources:
    """The honest leaf of a step that three members have accepted, with their evidence."""
    world = make_world([honest], bench, tmp_path)
    votes = [evidence_of(bench.verdict(bench.rollouts)) for _ in range(3)]
    ledger = TellingLedger([honest], revealed=votes)
    for vote in votes:
        assert vote.evidence is not None
        world.coordinator.evidence[vote.evidence_root] = vote.evidence.to_bytes()
    weights = replace(world.weights, folder=toy)
    parts = replace(world.parts, ledger=ledger, weights=weights)
    return Sources(parts, ledger, world.coordinator, weights)


def test_leaf_is_gathered_and_the_panel_reproduced(sources: Sources, honest: Made, bench: Bench) -> None:
    found = sources.explain(honest)
    assert found is not None
    assert sources.missing.said == []
    assert (found.panel, found.is_reproduced) == (Outcome.ACCEPT, True)
    assert found.recomputed.judgement == bench.judge.judge(honest.leaf, honest.data)
    assert [member.differences for member in found.members] == [(), (), ()]
    assert {check.state for check in found.recomputed.checks} == {State.PASSED}


def test_each_piece_that_cannot_be_had_is_named(sources: Sources, honest: Made) -> None:
    def gone(*_: object) -> Any:
        raise Unavailable("it is gone")

    def said(changed: Sources) -> list[str]:
        changed.missing = Missing()
        found = changed.explain(honest)
        assert found is not None
        assert found.recomputed.judgement is None
        assert found.panel is Outcome.ACCEPT
        assert exit_code(found, bool(changed.missing.said)) == EXIT_MISSING
        return changed.missing.said

    assert said(replace(sources, parts=replace(sources.parts, card_of=gone))) == [
        f"card {to_hex(CARD_HASH)}: it is gone"
    ]
    assert said(replace(sources, parts=replace(sources.parts, open_environment=gone))) == [
        "the environment: it is gone"
    ]
    lost = replace(sources.weights, fails=PolicyError("it holds NaN"))
    assert said(replace(sources, parts=replace(sources.parts, weights=lost))) == ["policy step 1: it holds NaN"]
    sources.coordinator.away.add(honest.leaf.submission.content_hash)
    assert said(sources) == [f"submission file {to_hex(honest.leaf.submission.content_hash)}: the file is not here"]


def test_evidence_that_is_not_served_is_missing_and_the_verdict_stands(sources: Sources, honest: Made) -> None:
    sources.coordinator.evidence.clear()
    found = sources.explain(honest)
    assert found is not None
    assert found.is_reproduced
    assert sources.missing.said == [f"evidence of {member}: no evidence here" for member in PANEL[:3]]
    assert exit_code(found, is_missing=True) == EXIT_MISSING


def test_other_leaves_than_the_committed_ones_are_no_verdict(sources: Sources, honest: Made) -> None:
    sources.ledger.root = Hash(b"\x09" * 32)
    found = sources.explain(honest)
    assert found is not None
    assert found.recomputed.judgement is None
    (said,) = sources.missing.said
    assert said.startswith("check commitment: leaves: expected the root 0x0909")


def test_leaf_is_found_by_its_place_and_by_its_hash(sources: Sources, honest: Made) -> None:
    at, leaf_hash = sources.ledger.frozen(), honest.leaf.submission.struct_hash()
    by_place = find(sources.parts, Place(step=FACTS.step, slot=SLOT), FACTS.step + 1, at)
    by_hash = find(sources.parts, Place(leaf_hash=leaf_hash), FACTS.step + 1, at)
    assert by_place == by_hash == honest.leaf
    for place in (Place(step=FACTS.step, slot=SLOT + 1), Place(leaf_hash=CARD_HASH)):
        with pytest.raises(Unavailable):
            find(sources.parts, place, FACTS.step + 1, at)
