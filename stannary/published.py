"""What the seats of a panel voted of a step and published of its leaves, as anyone can check it.

A file is believed only under the root that its member voted, and an entry of it only where it says what the vote says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from stannary.chain import StepHistory
from stannary.chain.events import VoteRevealed
from stannary.errors import Malformed, PeerError, StannaryError, Unavailable
from stannary.evidence import EvidenceFile, LeafEvidence
from stannary.slots import submission_root
from stannary.structs import Submission
from stannary.types import ZERO_HASH, Address, Hash, Outcome, to_hex
from stannary.verdict import unpack_outcomes

ABSENT: tuple[type[StannaryError], ...] = (Unavailable, PeerError)
"""What is raised where one file cannot be had, but others perhaps can."""


@dataclass(frozen=True, slots=True)
class Published:
    """What the member of one seat voted, and what it published beside its vote."""

    member: Address
    outcomes: Sequence[Outcome] | None
    """Its vote, slot by slot; None while none is revealed."""
    is_awaited: bool = False
    """Whether its vote may still come."""
    compute: str = ""
    """What recomputed the states, as its file says."""
    entries: Mapping[Hash, LeafEvidence] = field(default_factory=dict)
    """Of its file, by leaf hash."""
    missing: str = ""
    """Why there is no file."""
    is_lost: bool = False
    """Whether its vote names a file that cannot be had."""

    def entry(self, leaf: Submission) -> tuple[LeafEvidence, bool] | None:
        """Return what it published of a leaf, and whether that is what it voted; None for nothing."""
        found = self.entries.get(leaf.struct_hash())
        if found is None:
            return None
        return found, self.outcomes is not None and self.outcomes[leaf.slot] is found.outcome

    def judges(self, slot: int) -> bool:
        """Say whether the member judged a slot, or may still do so."""
        return self.is_awaited if self.outcomes is None else self.outcomes[slot] is not Outcome.ABSTAIN


def panel_of(
    history: StepHistory,
    file_of: Callable[[VoteRevealed], EvidenceFile | None],
    absent: tuple[type[StannaryError], ...] = ABSENT,
) -> list[Published]:
    """Return what a panel voted and published, seat by seat.

    `file_of` returns the file that a vote names, None for one that is not asked for any more. What it raises of
    `absent` is noted at the seat, anything else goes through. Raises: Malformed for a vote that no contract took.
    """
    return [_published(history, member, file_of, absent) for member in history.panel]


def said_of(panel: Sequence[Published], leaf: Submission) -> list[LeafEvidence]:
    """Return what the members that judged a leaf published of it, without what their votes contradict: a number that a
    member was not ready to vote by costs it nothing.
    """
    found = [entry for seat in panel if (entry := seat.entry(leaf)) is not None]
    return [entry for entry, is_voted in found if is_voted and entry.outcome is not Outcome.ABSTAIN]


def judges_of(panel: Sequence[Published], slot: int) -> int:
    """Return how many members judged a slot by their votes on chain, or may still do so."""
    return sum(seat.judges(slot) for seat in panel)


def evidence_file(read: Callable[[Hash], bytes], history: StepHistory, vote: VoteRevealed) -> EvidenceFile:
    """Return the evidence file that a vote on a step names; `read` returns the bytes that are served for its root.

    The root covers the leaves, not the header: who serves it under another step hides nothing that way.
    Raises: Malformed if it is another one or has more leaves than the step has slots, and what `read` raises.
    """
    file = EvidenceFile.parse(read(vote.evidence_root), history.positions)
    if file.root() != vote.evidence_root:
        raise Malformed("evidence", expected=to_hex(vote.evidence_root), got=to_hex(file.root()))
    return file


def by_leaf(file: EvidenceFile) -> dict[Hash, LeafEvidence]:
    """Return the entries of a file by their leaves. The first on a leaf counts, so that nobody speaks twice."""
    return {entry.leaf_hash: entry for entry in reversed(file.leaves)}


def committed_leaves(history: StepHistory, served: Callable[[int], Sequence[Submission]]) -> Sequence[Submission]:
    """Return the leaves under the root of a step, none if it has no root; `served` returns those that are served.

    Raises: Malformed if they have another root, and what `served` raises.
    """
    if history.committed is None or history.opened is None:
        return []
    leaves, root = served(history.step), history.committed.submission_root
    found = submission_root(leaves, history.opened.slots)
    if found != root:
        raise Malformed("leaves", expected=f"the root {to_hex(root)} on chain", got=to_hex(found))
    return leaves


def _published(
    history: StepHistory,
    member: Address,
    file_of: Callable[[VoteRevealed], EvidenceFile | None],
    absent: tuple[type[StannaryError], ...],
) -> Published:
    vote = history.votes.get(member)
    if vote is None:
        is_awaited = history.finalized is None
        return Published(member, None, is_awaited=is_awaited, missing="it has revealed no vote")
    outcomes = unpack_outcomes(vote.outcomes, history.positions)
    if vote.evidence_root == ZERO_HASH:
        why = "" if any(outcomes) else ": it abstained on the whole step"
        return Published(member, outcomes, missing=f"its vote names none{why}")
    try:
        file = file_of(vote)
    except absent as error:
        return Published(member, outcomes, missing=str(error), is_lost=True)
    if file is None:
        return Published(member, outcomes)
    return Published(member, outcomes, compute=file.compute, entries=by_leaf(file))
