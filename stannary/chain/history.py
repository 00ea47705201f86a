"""One step as its events tell it: what the contracts keep only a hash of, and what finalizing therefore needs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self, TypeVar

from stannary.chain import events
from stannary.errors import Unavailable
from stannary.slots import PayTable
from stannary.types import Address, Hash, Outcome
from stannary.verdict import unpack_outcomes

E = TypeVar("E", bound=events.Event)


@dataclass(frozen=True, slots=True)
class StepHistory:
    """What happened to a step, the last word on each thing."""

    step: int
    opened: events.StepOpened | None
    seeded: events.SeedBeaconSealed | None
    committed: events.RootCommitted | None
    drawn: events.AuditBeaconSealed | None
    redrawn: events.PanelRedrawn | None
    finalized: events.StepFinalized | None
    is_cancelled: bool
    taken: Mapping[int, events.SlotTaken]
    """Slots taken on chain, by number."""
    taken_beacons: Mapping[int, Hash]
    """Of those whose beacon is sealed."""
    delivered: Mapping[int, events.TakenSlotDelivered]
    commitments: Mapping[Address, events.VoteCommitted]
    votes: Mapping[Address, events.VoteRevealed]
    held: frozenset[int]
    """Slots that a dispute keeps, or kept, out of the settlement."""
    slashed: Mapping[int, events.LeafSlashed]

    @classmethod
    def of(cls, found: Iterable[events.Event], pool: int, step: int) -> Self:
        """Return the history of a step from events in the order of the chain; those of other steps are passed over."""
        own = [
            event for event in found if getattr(event, "pool", None) == pool and getattr(event, "step", None) == step
        ]
        return cls(
            step=step,
            opened=_last(own, events.StepOpened),
            seeded=_last(own, events.SeedBeaconSealed),
            committed=_last(own, events.RootCommitted),
            drawn=_last(own, events.AuditBeaconSealed),
            redrawn=_last(own, events.PanelRedrawn),
            finalized=_last(own, events.StepFinalized),
            is_cancelled=_last(own, events.StepCancelled) is not None,
            taken={event.slot: event for event in _all(own, events.SlotTaken)},
            taken_beacons={event.slot: event.beacon for event in _all(own, events.TakenSlotSealed)},
            delivered={event.leaf.slot: event for event in _all(own, events.TakenSlotDelivered)},
            commitments={event.provider: event for event in _all(own, events.VoteCommitted)},
            votes={event.provider: event for event in _all(own, events.VoteRevealed)},
            held=frozenset(event.slot for event in _all(own, events.SlotHeld)),
            slashed={event.slot: event for event in _all(own, events.LeafSlashed)},
        )

    @property
    def panel(self) -> tuple[Address, ...]:
        """The members that sit, seat by seat; empty before the draw."""
        if self.redrawn is not None:
            return self.redrawn.panel
        return () if self.drawn is None else self.drawn.panel

    @property
    def positions(self) -> int:
        """How many slots are voted on, those taken on chain included. Raises: Unavailable before the step is open."""
        if self.opened is None:
            raise Unavailable(f"step {self.step} is not open on chain yet")
        return self.opened.slots + len(self.taken)

    @property
    def pay_table(self) -> PayTable:
        """The committed pay table, as `finalize` takes it. Raises: Unavailable before the root is committed."""
        if self.committed is None:
            raise Unavailable(f"the root of step {self.step} is not on chain yet")
        return self.committed.pay_table

    def votes_by_seat(self) -> list[bytes]:
        """Return the revealed votes as `finalize` and disputes take them: seat by seat, empty for a silent seat."""
        return [self.votes[member].outcomes if member in self.votes else b"" for member in self.panel]

    def outcomes(self) -> list[Outcome] | None:
        """Return what was decided, slot by slot; None before the step is finalized."""
        return None if self.finalized is None else unpack_outcomes(self.finalized.outcomes, self.positions)


def _all(found: Iterable[events.Event], kind: type[E]) -> list[E]:
    return [event for event in found if isinstance(event, kind)]


def _last(found: Iterable[events.Event], kind: type[E]) -> E | None:
    matching = _all(found, kind)
    return matching[-1] if matching else None
