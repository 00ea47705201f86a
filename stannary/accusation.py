"""An accusation of a run of leaves: the document that names them, and how a juror counts. Pure.

An accuser names suspicious leaves of a provider; a juror measures those again and takes for every other leaf of the
provider the lowest bracket there is. *Every* leaf that was audited under the card counts from the provider's first in
the pool, or from the end of its last convicted run, to the last step of the accusation, so that nobody can choose a
lucky start or leave out what was fine. Which leaves are under the card, and which the audit beacon chose, nobody knew
what they would be like.

Why this is valid however often and whenever somebody accuses: the evidence over all leaves in their order is a product
of factors whose expectation is at most 1 for an honest provider, whatever came before, so by Ville's inequality it ever
reaches 10^x with probability at most 10^-x. The factor of the lowest bracket is the smallest there is. Hence a
juror's number, which has it for all leaves that were not measured, is at no time above that product, and reaches 10^x
only if the product does. Choosing which leaves to name, and when, can only lower it. What follows a conviction is a new
product, begun at a time that depends on the past alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self

from eth_utils.crypto import keccak

from stannary.audit_choice import audited_slots
from stannary.chain import StepHistory
from stannary.documents import canonical, document_hash, parse_document
from stannary.e_process import PARTS, EvidenceRules, Scores
from stannary.errors import Malformed
from stannary.standing import ScoredLeaf
from stannary.types import ZERO_HASH, Address, Hash, parse_address, parse_hash, to_hex

ACCUSATION_FORMAT = "stannary.accusation.v1"
MAX_NAMED = 4096
"""Leaves that an accusation may name: what a jury measures again has an end."""
MAX_SCORE = 1e9
"""What is written for a score above it, such as one that is not finite."""
_FIELDS = "format pool provider first_step last_step card_hash leaves"


@dataclass(frozen=True, slots=True)
class Accusation:
    """What an accuser says of a provider's leaves over a run of steps, both ends included."""

    pool: int
    provider: Address
    first_step: int
    last_step: int
    card_hash: Hash
    """Of the card that the last step was opened under. Leaves of steps under another card add nothing."""
    leaves: tuple[ScoredLeaf, ...]
    """The suspicious ones, by step and slot, with the scores that the accuser claims; a juror believes none of them."""

    def __post_init__(self) -> None:
        """Refuse what no accusation can say. Raises: Malformed."""
        if not self.first_step <= self.last_step:
            raise Malformed("first_step", expected=f"at most {self.last_step}", got=self.first_step)
        if not 1 <= len(self.leaves) <= MAX_NAMED:
            raise Malformed("leaves", expected=f"1 … {MAX_NAMED} of them", got=len(self.leaves))
        places = [(leaf.step, leaf.slot) for leaf in self.leaves]
        for before, after in pairwise(places):
            if not before < after:
                raise Malformed("leaves", expected="each slot once, by step and slot", got=[before, after])
        if not self.first_step <= places[0][0] <= places[-1][0] <= self.last_step:
            expected = f"steps {self.first_step} … {self.last_step}"
            raise Malformed("leaves", expected=expected, got=[places[0][0], places[-1][0]])
        for leaf in self.leaves:
            if leaf.leaf_hash == ZERO_HASH:
                raise Malformed("leaf_hash", expected="the hash of a leaf", got=to_hex(leaf.leaf_hash))
            if len(leaf.scores) != len(PARTS):
                raise Malformed("scores", expected=f"{len(PARTS)}, one a part of the checks", got=list(leaf.scores))
            for score in leaf.scores:
                if not 0 <= score <= MAX_SCORE:
                    raise Malformed("score", expected=f"0 … {MAX_SCORE:g}", got=score)

    @classmethod
    def of(
        cls,
        pool: int,
        provider: Address,
        first_step: int,
        last_step: int,
        card_hash: Hash,
        rules: EvidenceRules,
        leaves: Iterable[ScoredLeaf],
    ) -> Self:
        """Return the accusation that names all of these leaves that reach a level, the highest if there are too many.

        Raises: Malformed if none does.
        """
        reaching = [leaf for leaf in leaves if rules.reached(leaf.scores)]
        highest = sorted(reaching, key=lambda leaf: -max(leaf.scores))[:MAX_NAMED]
        named = [
            replace(leaf, scores=tuple(float(min(score, MAX_SCORE)) for score in leaf.scores))
            for leaf in sorted(highest, key=lambda leaf: (leaf.step, leaf.slot))
        ]
        return cls(pool, provider, first_step, last_step, card_hash, tuple(named))

    def document(self) -> dict[str, object]:
        """Return the document whose hash is the evidence hash of the case."""
        return {
            "format": ACCUSATION_FORMAT,
            "pool": self.pool,
            "provider": self.provider,
            "first_step": self.first_step,
            "last_step": self.last_step,
            "card_hash": to_hex(self.card_hash),
            "leaves": [[leaf.step, leaf.slot, to_hex(leaf.leaf_hash), *leaf.scores] for leaf in self.leaves],
        }

    def to_bytes(self) -> bytes:
        """Return the canonical JSON."""
        return canonical(self.document())

    def evidence_hash(self) -> Hash:
        """Return keccak256 of the canonical JSON: the case's `evidenceHash`."""
        return document_hash(self.document())

    def list_hash(self) -> Hash:
        """Return keccak256 over the hashes of the named leaves, one after the other: the case's `listHash`.

        Each is 32 bytes, so this binds which leaves are named, how many, and their order.
        """
        return Hash(keccak(b"".join(leaf.leaf_hash for leaf in self.leaves)))

    def by_step(self) -> dict[int, list[ScoredLeaf]]:
        """Return the named leaves by step, the first step first."""
        found: dict[int, list[ScoredLeaf]] = {}
        for leaf in self.leaves:
            found.setdefault(leaf.step, []).append(leaf)
        return found

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read the canonical JSON; any other spelling of the same content is refused. Raises: Malformed."""
        found = parse_document(data, "accusation")
        if set(found) != set(_FIELDS.split()):
            raise Malformed("accusation", expected=_FIELDS, got=sorted(found))
        if found["format"] != ACCUSATION_FORMAT:
            raise Malformed("accusation.format", expected=ACCUSATION_FORMAT, got=found["format"])
        leaves = found["leaves"]
        if not isinstance(leaves, list) or len(leaves) > MAX_NAMED:
            raise Malformed("leaves", expected=f"a list of 1 … {MAX_NAMED}", got=leaves)
        accusation = cls(
            pool=_whole(found, "pool", bits=63),
            provider=parse_address(found["provider"], "provider"),
            first_step=_whole(found, "first_step", bits=32),
            last_step=_whole(found, "last_step", bits=32),
            card_hash=parse_hash(found["card_hash"], "card_hash"),
            leaves=tuple(_leaf(entry) for entry in leaves),
        )
        if accusation.to_bytes() != data:
            raise Malformed("accusation", expected="addresses in their checksum form", got=found["provider"])
        return accusation


def slots_of(history: StepHistory, provider: Address) -> frozenset[int]:
    """Return the slots in which a provider has a leaf, as the chain knows them: its pay table and what was delivered.

    Nobody is judged for a step that was cancelled.
    """
    if history.is_cancelled:
        return frozenset()
    own = {slot for slot, delivered in history.delivered.items() if delivered.leaf.provider == provider}
    if history.opened is not None and history.committed is not None:
        entries = history.pay_table.entries(history.opened.slots)
        own |= {slot for slot, entry in enumerate(entries) if entry is not None and entry[0] == provider}
    return frozenset(own)


def counted_slots(history: StepHistory, provider: Address, audit_bps: int) -> frozenset[int]:
    """Return the slots whose leaves count in a run: those of the provider that the audit beacon chose.

    What was not chosen could speak neither for nor against it. Units: `audit_bps` in hundredths of a percent.
    """
    if history.drawn is None:
        return frozenset()
    return audited_slots(history.drawn.beacon, slots_of(history, provider), audit_bps)


def evidence_log10(rules: EvidenceRules, total: int, measured: Sequence[Scores]) -> float:
    """Return the evidence, as a power of ten, of `total` leaves of which those measured have these scores.

    All others count in the lowest bracket. Raises: Malformed for more scores than leaves.
    """
    if len(measured) > total:
        raise Malformed("scores", expected=f"at most {total}", got=len(measured))
    rest = total - len(measured)
    return float(rules.log10([(lowest + rest, *others) for lowest, *others in rules.count(measured)]))


def is_convicted(rules: EvidenceRules, total: int, measured: Sequence[Scores], unmeasured: int = 0) -> bool | None:
    """Say whether leaves suffice for a conviction; None while it hangs on `unmeasured` of the others.

    Measuring one more leaf can only raise the evidence. So what suffices is known before all are measured, and so is
    what would not suffice if all that are left were as bad as can be.
    """
    if evidence_log10(rules, total, measured) >= rules.slash_log10:
        return True
    at_worst = [*measured, *[(math.inf,) * len(PARTS)] * unmeasured]
    return None if evidence_log10(rules, total, at_worst) >= rules.slash_log10 else False


def _leaf(entry: object) -> ScoredLeaf:
    if not isinstance(entry, list) or len(entry) != 3 + len(PARTS):
        raise Malformed("leaves", expected="step, slot, leaf hash and a score for each part of the checks", got=entry)
    fields: Mapping[str, object] = dict(zip(("step", "slot", "leaf_hash"), entry[:3], strict=True))
    scores = tuple(entry[3:])
    for score in scores:
        if type(score) is not float:
            raise Malformed("score", expected="a number with a decimal point", got=score)
    return ScoredLeaf(
        _whole(fields, "step", bits=32),
        _whole(fields, "slot", bits=32),
        parse_hash(fields["leaf_hash"], "leaf_hash"),
        scores,
    )


def _whole(found: Mapping[str, object], field: str, *, bits: int) -> int:
    value = found[field]
    if type(value) is not int or not 0 <= value < 1 << bits:
        raise Malformed(field, expected=f"a whole number of at most {bits} bits", got=value)
    return value
