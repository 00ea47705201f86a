"""Steps of a pool as chain and coordinator tell them, with what a panel published of leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from stannary.cards import (
    Allowance,
    Card,
    DriftLimits,
    MeanDriftLimits,
    PairingLimits,
    SamplingLimits,
    Thresholds,
    evidence_rules,
)
from stannary.chain import Event, events
from stannary.errors import Unavailable
from stannary.evidence import EvidenceFile, LeafEvidence, Measure
from stannary.provider_record import Reader, Record
from stannary.slots import PayTable, submission_root
from stannary.standing import SCORES
from stannary.structs import Submission
from stannary.types import ZERO_HASH, Address, Hash, Outcome, Reason
from stannary.verdict import pack_outcomes
from tests.worker.scripted import PROVIDER, RULES

LEVELS = evidence_rules((0.05, 0.005, 0.0005), 3.0, 6.0)
"""Reached by the scores 0.25, 0.5 and 0.75."""
LIMITS = Thresholds(
    drift=(DriftLimits(1, 10, 4.0, 4.0),),
    mean_drift=(MeanDriftLimits(1, 5.0, 2.0),),
    gap_bound=1.0,
    gap_margin=0.1,
    beyond_margin=Allowance(2.0, 0.002),
    gap_cap=1.0,
    sampling=(SamplingLimits(32, 0.1, 0.01),),
    pairing=PairingLimits(0.001, 5.0),
)
CARD = Card(
    temperature_milli=1000,
    hidden_size=128,
    vocabulary=64,
    audit_bps=10_000,
    thresholds=replace(LIMITS, ladder=(LIMITS,) * 3),
    evidence=LEVELS,
    measured={},
)
OTHER_CARD = replace(CARD, audit_bps=5000)
SLOTS, QUORUM = 4, 2
PANEL = tuple(Address("0x" + digit * 40) for digit in "456")
STRANGER = Address("0x" + "7" * 40)
BEACON = Hash(b"\x0b" * 32)
"""Chooses what is audited, of every step."""
BEYOND = 1.5


def leaf_at(step: int, slot: int, provider: Address = PROVIDER) -> Submission:
    return Submission(RULES.pool, step, slot, provider, RULES.node, 8, Hash(bytes([slot]) * 32), ZERO_HASH)


def entry(leaf: Submission, score: float | None, *, reason: Reason | None = None) -> LeafEvidence:
    """What a member publishes of a leaf whose largest share of a limit is this."""
    measures = {}
    if score is not None:
        measures = {
            "mantissa_mean": Measure.of(4.0 * score, 4.0),
            "mean_gap": Measure.of(0.001, 0.01),
            "tokens": Measure.of(8),
            **dict.fromkeys(SCORES, Measure.of(0.0, 1.0)),
            SCORES[0]: Measure.of(score, 1.0),
        }
    is_fine = score is None or score <= 1
    outcome = Outcome.ACCEPT if is_fine else Outcome.REJECT
    found = reason or (Reason.NONE if is_fine else Reason.ACTIVATIONS)
    said = "" if is_fine else f"mantissa_mean {4 * (score or 0):.4g}"
    return LeafEvidence(leaf.struct_hash(), outcome, found, said, measures, ())


@dataclass
class World:
    """Steps of a pool as chain and coordinator tell them."""

    found: list[Event] = field(default_factory=list)
    served: dict[int, list[Submission]] = field(default_factory=dict)
    files: dict[Hash, bytes] = field(default_factory=dict)
    cards: dict[int, Card] = field(default_factory=lambda: {0: CARD, 1: OTHER_CARD})
    """By offer."""
    judged: int = 0
    asked: list[object] = field(default_factory=list)
    away: set[Hash] = field(default_factory=set)
    fails: Exception | None = None

    def events(self) -> Sequence[Event]:
        if self.fails is not None:
            raise self.fails
        return self.found

    def judged_up_to(self, provider: Address) -> int:
        return self.judged

    def card_hash(self, offer: int) -> Hash:
        return self.cards[offer].hash()

    def card(self, card_hash: Hash) -> Card:
        return next(card for card in self.cards.values() if card.hash() == card_hash)

    def leaves(self, step: int) -> Sequence[Submission]:
        self.asked.append(step)
        return self.served[step]

    def evidence(self, evidence_root: Hash) -> bytes:
        self.asked.append(evidence_root)
        if evidence_root in self.away:
            raise Unavailable("no evidence here")
        return self.files[evidence_root]

    def place(self) -> events.Place:
        return events.Place(len(self.found), ZERO_HASH, 0, ZERO_HASH)

    def add(
        self,
        step: int,
        scores: Mapping[int, Sequence[float | None]],
        *,
        offer: int = 0,
        foreign: Sequence[int] = (),
        is_final: bool = False,
    ) -> None:
        """Add a step whose panel published these scores of our leaves, by slot and seat."""
        own = [leaf_at(step, slot) for slot in scores]
        leaves = sorted([*own, *(leaf_at(step, slot, STRANGER) for slot in foreign)], key=lambda leaf: leaf.slot)
        self.served[step] = leaves
        table = PayTable.of(leaves, SLOTS, RULES.max_units)
        pool = RULES.pool
        self.found += [
            events.StepOpened(self.place(), pool, step, step, SLOTS, offer, 7),
            events.RootCommitted(self.place(), pool, step, submission_root(leaves, SLOTS), ZERO_HASH, table, 9),
            events.AuditBeaconSealed(self.place(), pool, step, BEACON, PANEL, STRANGER),
        ]
        seats = max((len(each) for each in scores.values()), default=len(PANEL))
        packed = b""
        for seat in range(seats):
            entries = [
                entry(leaf, scores[leaf.slot][seat]) if leaf.provider == PROVIDER else entry(leaf, 0.1)
                for leaf in leaves
            ]
            file = EvidenceFile(pool, step, step, RULES.node, CARD.hash(), f"compute {seat}", tuple(entries))
            self.files[file.root()] = file.to_bytes()
            outcomes = [Outcome.ABSTAIN] * SLOTS
            for leaf, said in zip(leaves, entries, strict=True):
                outcomes[leaf.slot] = said.outcome
            packed = pack_outcomes(outcomes)
            self.found.append(
                events.VoteRevealed(self.place(), pool, step, PANEL[seat], packed, ZERO_HASH, file.root())
            )
        if is_final:
            self.found.append(events.StepFinalized(self.place(), pool, step, packed, 0, 0, 0, 0))

    def reader(self) -> Reader:
        return Reader(self, PROVIDER, QUORUM)

    def record(self) -> Record:
        found = self.reader().read()
        assert found is not None
        return found


def places(record: Record) -> list[tuple[int, int]]:
    return [(leaf.step, leaf.slot) for leaf in record.leaves]
