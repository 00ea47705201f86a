"""Why a leaf got its verdict: each check with its numbers, the offending place with its context, the panel beside it.

Pure: what chain, coordinator and disk gave is handed in, None where it could not be had. The verdict is the judge's
own; what is told beside it comes from the same checks and the same measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from stannary.cards import Thresholds
from stannary.chain import StepHistory
from stannary.disputes import panel_outcome
from stannary.e_process import Scores
from stannary.environments.tokenizer import read_tokenizer
from stannary.errors import BadSignature, Malformed, NetworkError, PeerError
from stannary.evidence import LeafEvidence, Measure
from stannary.published import Published, evidence_file, panel_of
from stannary.rollout import MAX_SUBMISSION_BYTES, Rollout, content_hash
from stannary.sampling.statistics import INFORMATIVE
from stannary.slots import taken_lease_hash
from stannary.standing import scores_of
from stannary.structs import Domain, Lease, SignedStruct
from stannary.toploc import CHUNK_TOKENS, chunk_count
from stannary.types import Address, Hash, Outcome, Reason, to_hex
from stannary.verdict import REWARD_QUANTUM
from validator import checks, statistics
from validator.calibrate import PUBLISHED
from validator.checks import Leaf, PolicyFacts, Read, Rules, StepFacts
from validator.finding import Finding
from validator.judgement import Judge, Judgement, agreed_by_part
from validator.statistics import ChunkMeasure, Measured

SHOWN_TOKENS = 5
"""Tokens furthest from what the seed picks that are shown of a submission."""
BEFORE, AFTER = 8, 4
"""Tokens shown around one."""
CHUNK_FIELDS = ("exponent_mismatches", "mantissa_mean", "mantissa_median")
STATISTICAL = ("activations", "pairing", "sampling")
"""The checks that need a forward pass."""

Words = Callable[[Sequence[int]], str]
"""Return the text of token ids."""


def as_numbers(tokens: Sequence[int]) -> str:
    """Return token ids as they are, for want of the policy's tokenizer."""
    return " ".join(map(str, tokens))


def words_of(folder: Path) -> Words:
    """Return how a policy spells tokens. Raises: PolicyError if its tokenizer cannot be read."""
    tokenizer = read_tokenizer(folder, lambda: Tokenizer.from_file(str(folder / "tokenizer.json")))

    def words(tokens: Sequence[int]) -> str:
        try:
            return str(tokenizer.decode(list(tokens), skip_special_tokens=False))
        except (OverflowError, TypeError):  # no ids of any tokenizer
            return as_numbers(tokens)

    return words


@dataclass(frozen=True, slots=True)
class Place:
    """What is to be explained: a leaf by its hash, or by where it stands."""

    leaf_hash: Hash | None = None
    step: int = 0
    slot: int = 0

    def __str__(self) -> str:
        return f"step {self.step}, slot {self.slot}" if self.leaf_hash is None else f"leaf {to_hex(self.leaf_hash)}"


class State(Enum):
    """What became of a check."""

    PASSED = "passed"
    FAILED = "FAILED"
    SKIPPED = "skipped"
    """Not looked at: an earlier check failed, or the beacon did not choose the leaf."""
    UNKNOWN = "unknown"
    """What it needs could not be had."""


@dataclass(frozen=True, slots=True)
class Field:
    """One thing that a check compares."""

    name: str
    expected: str
    got: str
    is_right: bool

    @classmethod
    def of(cls, name: str, expected: object, got: object) -> Field:
        """Return the field of two things that must be equal."""
        return cls(name, str(expected), str(got), expected == got)


@dataclass(frozen=True, slots=True)
class Check:
    """One check as it went."""

    name: str
    state: State
    explanation: str = ""
    fields: tuple[Field, ...] = ()


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """One chunk against its limits."""

    rollout: int
    chunk: int
    tokens: int
    measures: Mapping[str, Measure]
    is_beyond_published: bool
    """Whether the limits of the published library would reject it."""
    text: str

    @property
    def share(self) -> float:
        """The largest part of a limit that it reached."""
        return statistics.largest_share(self.measures.values())


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One claimed token against what the seed picks."""

    rollout: int
    token: int
    """Its position in the completion."""
    claimed: int
    claimed_text: str
    picked: int
    picked_text: str
    gap: float
    limit: float
    """Beyond it the token is a fault."""
    probability: float
    """Of the claimed token, without noise."""
    is_informative: bool
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class View:
    """A submission as one compute measured it."""

    compute: str
    activations: Finding
    pairing: Finding
    sampling: Finding
    chunks: tuple[ChunkRow, ...]
    tokens: tuple[TokenRow, ...]
    """Those furthest from what the seed picks, the furthest first; those that it picks are left out."""
    scores: Scores | None
    """None for a submission that is too short to be evidence."""

    @property
    def worst(self) -> ChunkRow:
        """The chunk nearest to a limit, or furthest beyond it."""
        return max(self.chunks, key=lambda row: row.share)

    @property
    def beyond_published(self) -> tuple[ChunkRow, ...]:
        """Chunks that the limits of the published library would reject."""
        return tuple(row for row in self.chunks if row.is_beyond_published)


@dataclass(frozen=True, slots=True)
class Recomputed:
    """What this machine finds."""

    checks: tuple[Check, ...]
    views: tuple[View, ...] = ()
    """Of one compute, or of two where the first has something against the leaf."""
    judgement: Judgement | None = None
    """None where something that the verdict needs could not be had."""
    is_audited: bool | None = None
    """Whether the audit beacon chose the leaf for the checks that need a forward pass; None without the card."""


@dataclass(frozen=True, slots=True)
class Member:
    """What one member of the panel voted and published about the leaf."""

    provider: Address
    vote: Outcome | None
    """None while nothing is revealed."""
    compute: str = ""
    evidence: LeafEvidence | None = None
    missing: str = ""
    """Why there is no evidence."""
    differences: tuple[str, ...] = ()
    """Where it differs from what is found here."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that can be told about one leaf."""

    leaf: Leaf
    policy_step: int
    card_hash: Hash
    recomputed: Recomputed
    panel: Outcome | None
    """What the revealed votes decide, None while they decide nothing for good."""
    members: tuple[Member, ...]
    notes: tuple[str, ...] = ()
    """What became of it since."""

    @property
    def is_reproduced(self) -> bool | None:
        """Whether the panel decided what is found here; None if either is not known."""
        own = self.recomputed.judgement
        return None if own is None or self.panel is None else self.panel is own.finding.outcome


@dataclass(frozen=True, slots=True)
class Material:
    """What there is to explain a leaf with; None for what could not be had."""

    leaf: Leaf
    rules: Rules
    facts: StepFacts
    commitment: Finding
    """Whether the served leaves stand under the root on chain."""
    provider_of_node: Address | None
    """Whom the node acted for."""
    data: bytes | None
    """The submission file."""
    judge: Judge | None
    """Policy, card and environment."""
    words: Words
    read: Read


def recompute(material: Material) -> Recomputed:
    """Run the checks in their order, and measure. Raises: only for failures of this machine itself."""
    leaf, rules, facts, judge, words = material.leaf, material.rules, material.facts, material.judge, material.words
    table = _Table(leaf)
    provider, data = material.provider_of_node, material.data
    table.run("commitment", lambda: (material.commitment, ()))
    table.run("place", lambda: (checks.check_place(leaf, rules, facts), _place_fields(leaf, rules, facts)))
    if provider is None:
        table.unknown("signature", "the chain does not tell whom the node acts for")
    else:
        table.run(
            "signature",
            lambda: (checks.check_signature(leaf, rules, provider), _signature_fields(leaf, rules, provider)),
        )
    table.run("lease", lambda: (checks.check_lease(leaf, rules, facts), lease_fields(leaf, rules, facts)))
    if data is None:
        table.unknown("file", "it could not be had")
        return Recomputed(table.rows, judgement=table.judgement)
    rollouts: list[Rollout] = []

    def read() -> tuple[Finding, tuple[Field, ...]]:
        found, read = checks.check_file(data, leaf, rules, material.read)
        rollouts.extend(read)
        return found, _file_fields(leaf, data)

    table.run("file", read)
    if not rollouts and not table.is_over:
        return Recomputed(table.rows)
    if judge is None:
        table.unknown("prompt", "the policy's tokenizer makes it")
    else:
        table.run("prompt", lambda: _prompt(judge, facts, leaf, rollouts, words))
    table.run("units", lambda: (checks.check_units(rollouts, leaf), _units_fields(rollouts, leaf)))
    table.run("length", lambda: (checks.check_lengths(rollouts, rules), _length_fields(rollouts, rules)))
    if judge is None:
        table.unknown("token", "the policy's folder tells which may be sampled")
        table.unknown("termination", "the policy's folder tells what ends a completion")
    else:
        policy = PolicyFacts(judge.computes.first.vocabulary, judge.computes.first.tokens)
        table.run("token", lambda: (checks.check_tokens(rollouts, policy), ()))
        table.run("termination", lambda: (checks.check_termination(rollouts, rules, policy), ()))
    table.run("proofs", lambda: (checks.check_proofs(rollouts), _proof_fields(rollouts)))
    if judge is None or table.is_over:
        for name in STATISTICAL:
            table.unknown(name, "they need policy, card and environment")
        return Recomputed(table.rows, judgement=table.judgement)
    return _measured(table, judge, leaf, data, rollouts, words)


def _measured(
    table: _Table, judge: Judge, leaf: Leaf, data: bytes, rollouts: Sequence[Rollout], words: Words
) -> Recomputed:
    """Let the judge judge, and tell what it measured; a leaf that was not chosen is measured all the same."""
    noting = _Noting(judge.rules, judge.facts, judge.card, judge.environment, judge.computes, judge.read)
    judgement = noting.judge(leaf, data)
    is_audited = judge.looks_at(leaf.submission.slot)
    measured = noting.noted[0] if noting.noted else judge.measure(leaf, rollouts)
    views = tuple(view(each, rollouts, judge.card.thresholds, words) for each in measured)
    by = "" if len(views) == 1 else "by all computes together"
    for name, finding in zip(STATISTICAL, agreed_by_part(measured, judge.card.thresholds), strict=True):
        table.measured(name, finding, by, is_audited)
    return Recomputed(table.rows, views, judgement if table.is_known else None, is_audited=is_audited)


def view(measured: Measured, rollouts: Sequence[Rollout], thresholds: Thresholds, words: Words) -> View:
    """Return what one compute measured, beside the limits."""
    activations, pairing, sampling = statistics.held_by_part(measured, thresholds)
    return View(
        compute=measured.compute,
        activations=activations,
        pairing=pairing,
        sampling=sampling,
        chunks=tuple(_chunk_row(found, rollouts, thresholds, words) for found in measured.chunks),
        tokens=tuple(_token_rows(measured, rollouts, thresholds, words)),
        scores=scores_of(statistics.judge(measured, thresholds).measures),
    )


def lease_fields(leaf: Leaf, rules: Rules, facts: StepFacts) -> tuple[Field, ...]:
    """Return what is compared of a lease: what the leaf and the chain ask for, and what the lease says."""
    submission, lease = leaf.submission, leaf.lease
    if lease is None:
        record = taken_lease_hash(rules.domain, submission.pool, submission.step, submission.slot, submission.provider)
        return (
            Field.of("record on chain", to_hex(record), to_hex(submission.lease_hash)),
            _most("units", rules.max_units, submission.units),
        )
    latest = facts.seeded_at + rules.collect_seconds
    is_in_time = facts.seeded_at <= lease.valid_from < lease.valid_until <= latest
    return (
        Field.of("hash", to_hex(submission.lease_hash), _hash_of(lease)),
        Field.of("pool", submission.pool, lease.pool),
        Field.of("step", submission.step, lease.step),
        Field.of("slot", submission.slot, lease.slot),
        Field.of("provider", submission.provider, lease.provider),
        Field.of("node", submission.node, lease.node),
        _most("units", lease.max_units, submission.units),
        _signer("signed by the coordinator", lease, leaf.lease_signature, rules.domain, rules.coordinator),
        Field.of("policy step", facts.policy_step, lease.policy_step),
        Field.of("card", to_hex(rules.card_hash), to_hex(lease.card_hash)),
        Field.of("protocol version", rules.protocol_version, lease.protocol_version),
        Field(
            "validity", f"within {facts.seeded_at} … {latest}", f"{lease.valid_from} … {lease.valid_until}", is_in_time
        ),
    )


def prompt_fields(rollouts: Sequence[Rollout], prompt: Sequence[int], words: Words) -> tuple[Field, ...]:
    """Return the slot's prompt beside that of the first rollout which has another, and the first token that differs."""
    wrong = next((index for index, rollout in enumerate(rollouts) if rollout.prompt != tuple(prompt)), None)
    if wrong is None:
        return (Field.of("prompt", words(prompt), words(prompt)),)
    got = rollouts[wrong].prompt
    places = range(min(len(got), len(prompt)))
    place = next((at for at in places if got[at] != prompt[at]), len(places))
    return (
        Field.of(f"rollout {wrong}, tokens of the prompt", len(prompt), len(got)),
        Field.of(f"rollout {wrong}, token {place} of the prompt", _at(prompt, place, words), _at(got, place, words)),
        Field.of(f"rollout {wrong}, prompt", words(prompt), words(got)),
    )


def panel_decision(history: StepHistory, slot: int, quorum: int) -> Outcome | None:
    """Return what the panel decided about a slot, None while votes to come may still decide it."""
    decided = panel_outcome(history, slot, quorum)
    is_open = history.finalized is None and any(member not in history.votes for member in history.panel)
    return None if not history.votes or (decided is Outcome.ABSTAIN and is_open) else decided


def members_of(
    history: StepHistory, leaf: Leaf, own: Judgement | None, evidence: Callable[[Hash], bytes]
) -> tuple[Member, ...]:
    """Return what the panel voted and published about a leaf, seat by seat, held against what is found here."""
    panel = panel_of(history, partial(evidence_file, evidence, history), absent=(NetworkError, PeerError))
    return tuple(_member(seat, leaf, own) for seat in panel)


def differences(member: LeafEvidence, own: Judgement) -> tuple[str, ...]:
    """Say where a member's evidence leads to another verdict than what is found here, number by number."""
    finding = own.finding
    found = []
    if member.outcome is not finding.outcome:
        found.append(f"outcome: {member.outcome.name.lower()} there, {finding.outcome.name.lower()} here")
    if member.reason is not finding.reason:
        found.append(f"reason: {_reason(member.reason)} there, {_reason(finding.reason)} here")
    for name, here in finding.measures.items():
        there = member.measures.get(name)
        if there is None:
            continue
        if there.limit != here.limit:
            found.append(f"limit of {name}: {_number(there.limit)} there, {_number(here.limit)} here")
        if (there.share > 1) is not (here.share > 1):
            found.append(
                f"{name}: {_number(there.value)} of {_number(there.limit)} there, "
                f"{_number(here.value)} of {_number(here.limit)} here"
            )
    both_accept = member.outcome is finding.outcome is Outcome.ACCEPT
    if both_accept and _quanta(member.rewards) != _quanta(own.rewards):
        found.append(f"rewards: {list(member.rewards)} there, {list(own.rewards)} here")
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Noting(Judge):
    """A judge that keeps what it measured."""

    noted: list[Sequence[Measured]] = field(default_factory=list)

    def measure(self, leaf: Leaf, rollouts: Sequence[Rollout]) -> Sequence[Measured]:
        found = Judge.measure(self, leaf, rollouts)
        self.noted.append(found)
        return found


class _Table:
    """The checks in their order. The first that fails is the verdict, and those after it are not looked at."""

    def __init__(self, leaf: Leaf) -> None:
        self._leaf_hash = leaf.submission.struct_hash()
        self._rows: list[Check] = []
        self._failed: Finding | None = None

    @property
    def rows(self) -> tuple[Check, ...]:
        return tuple(self._rows)

    @property
    def is_over(self) -> bool:
        """Whether a check has failed."""
        return self._failed is not None

    @property
    def is_known(self) -> bool:
        """Whether no check before the one that failed was left out."""
        return all(row.state is not State.UNKNOWN for row in self._rows)

    @property
    def judgement(self) -> Judgement | None:
        """The verdict of the check that failed."""
        if self._failed is None or not self.is_known:
            return None
        return Judgement(self._leaf_hash, self._failed)

    def run(self, name: str, act: Callable[[], tuple[Finding, tuple[Field, ...]]]) -> None:
        """Run a check, unless an earlier one has failed."""
        if self.is_over:
            self._rows.append(Check(name, State.SKIPPED))
            return
        found, fields = act()
        if found.is_fine:
            self._rows.append(Check(name, State.PASSED, fields=fields))
        elif found.outcome is Outcome.ABSTAIN:
            self._rows.append(Check(name, State.UNKNOWN, found.explanation, fields))
        else:
            self._rows.append(Check(name, State.FAILED, found.explanation, fields))
            self._failed = found

    def unknown(self, name: str, why: str) -> None:
        """Note a check that cannot be run."""
        self._rows.append(Check(name, State.SKIPPED) if self.is_over else Check(name, State.UNKNOWN, why))

    def measured(self, name: str, found: Finding, by: str, is_audited: bool) -> None:
        """Note a check that was measured together with others: it may fail beside them."""
        state = State.PASSED if found.is_fine else State.FAILED
        explanation = "; ".join(part for part in (found.explanation or _nearest(found), by) if part)
        if not is_audited:
            explanation = f"the audit beacon did not choose this leaf; measured all the same: {state.value.lower()}"
            state = State.SKIPPED
        self._rows.append(Check(name, state, explanation, _measure_fields(found)))


def _member(seat: Published, leaf: Leaf, own: Judgement | None) -> Member:
    said = None if seat.outcomes is None else seat.outcomes[leaf.submission.slot]
    if seat.missing or said is None:
        return Member(seat.member, said, missing=seat.missing)
    published = seat.entry(leaf.submission)
    if published is None:
        return Member(seat.member, said, seat.compute, missing="its evidence says nothing of this leaf")
    found, is_voted = published
    differing = () if own is None else differences(found, own)
    if not is_voted:
        differing = (f"it voted {said.name.lower()}, its evidence says {found.outcome.name.lower()}", *differing)
    return Member(seat.member, said, seat.compute, found, differences=differing)


def _chunk_row(found: ChunkMeasure, rollouts: Sequence[Rollout], thresholds: Thresholds, words: Words) -> ChunkRow:
    limits, start = thresholds.drift_limits(found.tokens), found.chunk * CHUNK_TOKENS
    return ChunkRow(
        found.rollout,
        found.chunk,
        found.tokens,
        {name: Measure.of(getattr(found.drift, name), getattr(limits, name)) for name in CHUNK_FIELDS},
        any(getattr(found.drift, name) > limit for name, limit in zip(CHUNK_FIELDS, PUBLISHED, strict=True)),
        words(rollouts[found.rollout].completion[start : start + found.tokens]),
    )


def _token_rows(
    measured: Measured, rollouts: Sequence[Rollout], thresholds: Thresholds, words: Words
) -> list[TokenRow]:
    replay = measured.replay
    places = [(index, at) for index, length in enumerate(measured.lengths) for at in range(length)]
    furthest = sorted(range(len(places)), key=lambda flat: -replay.gap[flat])[:SHOWN_TOKENS]
    rows = []
    for flat in furthest:
        if replay.gap[flat] <= 0:
            continue
        index, at = places[flat]
        completion = rollouts[index].completion
        context = (*rollouts[index].prompt, *completion)
        place = len(rollouts[index].prompt) + at
        picked = int(replay.choice[flat])
        rows.append(
            TokenRow(
                rollout=index,
                token=at,
                claimed=completion[at],
                claimed_text=words([completion[at]]),
                picked=picked,
                picked_text=words([picked]),
                gap=float(replay.gap[flat]),
                limit=thresholds.gap_bound,
                probability=float(np.exp(replay.logprob[flat])),
                is_informative=bool(replay.top_probability[flat] <= INFORMATIVE),
                before=words(context[max(0, place - BEFORE) : place]),
                after=words(context[place + 1 : place + 1 + AFTER]),
            )
        )
    return rows


def _prompt(
    judge: Judge, facts: StepFacts, leaf: Leaf, rollouts: Sequence[Rollout], words: Words
) -> tuple[Finding, tuple[Field, ...]]:
    prompt = judge.environment.problem(facts.seeds.slot_seed(leaf.submission.slot)).prompt
    return checks.check_prompt(rollouts, prompt), prompt_fields(rollouts, prompt, words)


def _place_fields(leaf: Leaf, rules: Rules, facts: StepFacts) -> tuple[Field, ...]:
    submission = leaf.submission
    first, end = (0, facts.slots) if leaf.lease is not None else (facts.slots, facts.slots + facts.taken)
    return (
        Field.of("pool", rules.pool, submission.pool),
        Field.of("step", facts.step, submission.step),
        Field("slot", f"{first} … {end - 1}", str(submission.slot), first <= submission.slot < end),
    )


def _signature_fields(leaf: Leaf, rules: Rules, provider: Address) -> tuple[Field, ...]:
    submission = leaf.submission
    return (
        _signer("signed by the node", submission, leaf.signature, rules.domain, submission.node),
        Field.of("provider of the node", provider, submission.provider),
    )


def _file_fields(leaf: Leaf, data: bytes) -> tuple[Field, ...]:
    return (
        Field.of("content hash", to_hex(leaf.submission.content_hash), to_hex(content_hash(data))),
        _most("bytes", MAX_SUBMISSION_BYTES, len(data)),
    )


def _units_fields(rollouts: Sequence[Rollout], leaf: Leaf) -> tuple[Field, ...]:
    return (Field.of("units", sum(len(rollout.completion) for rollout in rollouts), leaf.submission.units),)


def _length_fields(rollouts: Sequence[Rollout], rules: Rules) -> tuple[Field, ...]:
    """Return the lengths that are wrong, or how far the right ones reach."""
    most, lengths = rules.max_completion_tokens, [len(rollout.completion) for rollout in rollouts]
    wrong = tuple(
        Field(f"tokens of rollout {index}", f"1 … {most}", str(length), is_right=False)
        for index, length in enumerate(lengths)
        if not 1 <= length <= most
    )
    return wrong or (Field("tokens of a rollout", f"1 … {most}", f"{min(lengths)} … {max(lengths)}", is_right=True),)


def _proof_fields(rollouts: Sequence[Rollout]) -> tuple[Field, ...]:
    """Return the numbers of proofs that are wrong, or how many there are."""
    counts = [(chunk_count(len(rollout.completion)), len(rollout.proofs)) for rollout in rollouts]
    wrong = tuple(
        Field.of(f"proofs of rollout {index}", *count) for index, count in enumerate(counts) if count[0] != count[1]
    )
    return wrong or (Field.of("proofs", sum(expected for expected, _ in counts), sum(got for _, got in counts)),)


def _nearest(found: Finding) -> str:
    """Say which number lies nearest to its limit."""
    limited = [(name, own) for name, own in found.measures.items() if own.limit is not None]
    if not limited:
        return "nothing to measure"
    name, own = max(limited, key=lambda each: each[1].share)
    return f"nearest to its limit: {name}, {_number(own.value)} of {_number(own.limit)}"


def _measure_fields(found: Finding) -> tuple[Field, ...]:
    return tuple(
        Field(name, "" if own.limit is None else f"at most {_number(own.limit)}", _number(own.value), own.share <= 1)
        for name, own in found.measures.items()
    )


def _most(name: str, most: int, got: int) -> Field:
    return Field(name, f"at most {most}", str(got), got <= most)


def _signer(name: str, struct: SignedStruct, signature: bytes, domain: Domain, expected: Address) -> Field:
    try:
        return Field.of(name, expected, struct.signer(signature, domain))
    except (Malformed, BadSignature) as error:
        return Field(name, expected, str(error), is_right=False)


def _hash_of(lease: Lease) -> str:
    try:
        return to_hex(lease.struct_hash())
    except Malformed as error:
        return str(error)


def _at(tokens: Sequence[int], place: int, words: Words) -> str:
    return f"{tokens[place]} {words([tokens[place]])!r}" if place < len(tokens) else "nothing"


def _reason(reason: Reason) -> str:
    return reason.name.lower().replace("_", " ")


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"


def _quanta(rewards: Sequence[float]) -> list[int]:
    return [round(reward * REWARD_QUANTUM) for reward in rewards]
