"""Taking a leaf or a provider's run before a jury: what a dispute needs from chain and files, gathered and sent."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import httpx

from stannary.accusation import Accusation
from stannary.audit import decide
from stannary.chain import Chain, LeafOpening, Sender, StepHistory
from stannary.errors import Malformed, OperatorError, SettingsError
from stannary.structs import Submission
from stannary.types import ZERO_HASH, CaseKind, Hash, Outcome, to_hex
from stannary.verdict import unpack_outcomes

log = logging.getLogger(__name__)

SERVED_TIMEOUT_S = 10.0
"""How long is waited for what is said to be served."""


class Showcase:
    """What a disputant shows to jurors: a folder that is served at an address.

    The file of a leaf is kept from when it is judged until it is known whether a jury will ask for it: a coordinator
    that is in league with the worker serves it until the case is open, and then no more.
    """

    def __init__(self, folder: Path, kept: Path, url: str) -> None:
        """`url` is where `folder` is served; what is kept, but not shown, lies in `kept`, emptied now."""
        self._folder, self._kept, self._url = folder, kept, url.rstrip("/")
        for path in kept.glob("*"):
            with suppress(OSError):
                path.unlink()

    def keep(self, leaf: Submission, data: bytes) -> None:
        """Keep the file of a leaf; a disk that is full costs the file, not the judgement."""
        path = self._kept_file(leaf.struct_hash())
        if path.exists():
            return
        try:
            _write_whole(path, leaf.content_hash + data)
        except OperatorError as error:
            log.error("step %d, slot %d: its file is not kept: %s", leaf.step, leaf.slot, error)

    def forget(self, leaf_hash: Hash) -> None:
        """Keep the file of a leaf no more; what is shown stays."""
        with suppress(OSError):
            self._kept_file(leaf_hash).unlink(missing_ok=True)

    def show_leaf(self, leaf_hash: Hash) -> tuple[str, bytes] | None:
        """Serve the file of a leaf under its content hash; return where and what, None if it was not kept.

        Raises: OperatorError when the disk refuses.
        """
        try:
            kept = self._kept_file(leaf_hash).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise OperatorError(f"cannot read {self._kept_file(leaf_hash)}: {error.strerror or error}") from error
        content_hash, data = kept[:32], kept[32:]
        return self.show(to_hex(content_hash), data), data

    def show(self, name: str, data: bytes) -> str:
        """Serve bytes under a name; return where. Raises: OperatorError when the disk refuses."""
        _write_whole(self._folder / name, data)
        return f"{self._url}/{name}"

    def _kept_file(self, leaf_hash: Hash) -> Path:
        return self._kept / to_hex(leaf_hash)


def _write_whole(path: Path, data: bytes) -> None:
    """Write a file that others may read, whole or not at all. Raises: OperatorError when the disk refuses."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.draft")
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise OperatorError(f"cannot write {path}: {error.strerror or error}") from error


def open_dispute(
    chain: Chain,
    sender: Sender,
    pool: int,
    step: int,
    slot: int,
    leaves: Sequence[Submission],
    *,
    kind: CaseKind,
    location: str,
    evidence_hash: Hash = ZERO_HASH,
    served: bytes | None = None,
) -> int:
    """Challenge or appeal a leaf and return the case's number; approves the bond and pays it.

    `leaves` are those under the step's root; `location` is where the bytes of the leaf are served until the case is
    resolved, and `served` those bytes if they must be there now. Raises: SettingsError if they are not, if the panel
    decided otherwise than the dispute supposes, or the bond is not there; Malformed if the slot has no leaf; Reverted,
    such as after the challenge window.
    """
    history = chain.step_history(pool, step)
    opening = open_leaf(history, leaves, slot)
    votes = history.votes_by_seat()
    decided = panel_outcome(history, slot, chain.pool_registry.terms_of(pool).quorum)
    if (kind is CaseKind.CHALLENGE) != (decided is Outcome.ACCEPT):
        right = "appeal it" if kind is CaseKind.CHALLENGE else "challenge it"
        raise SettingsError(f"the panel of step {step} says {decided.name.lower()} of slot {slot}: {right} instead")
    if served is not None:
        _require_served(location, served)
    require_bond(chain, sender, chain.dispute_court.bond_of(pool))
    send = chain.dispute_court.challenge if kind is CaseKind.CHALLENGE else chain.dispute_court.appeal
    return send(sender, pool, step, opening, votes, evidence_hash, location)


def open_accusation(chain: Chain, sender: Sender, accusation: Accusation, location: str) -> int:
    """Accuse a provider of a run of leaves and return the case's number; approves two bonds and pays them.

    `location` is where the accusation is served until the case is resolved. Raises: SettingsError if it is not served
    there now, or the bonds are not there; Reverted, such as after the challenge window of the last step.
    """
    _require_served(location, accusation.to_bytes())
    require_bond(chain, sender, 2 * chain.dispute_court.bond_of(accusation.pool))
    return chain.dispute_court.accuse(
        sender,
        accusation.pool,
        accusation.provider,
        accusation.first_step,
        accusation.last_step,
        accusation.list_hash(),
        accusation.evidence_hash(),
        location,
    )


def _require_served(location: str, data: bytes) -> None:
    try:
        answer = httpx.get(location, timeout=SERVED_TIMEOUT_S, headers={"accept-encoding": "identity"})
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise SettingsError(f"{location} does not answer: {type(error).__name__}: {error}") from error
    if answer.status_code != 200 or answer.content != data:
        raise SettingsError(f"{location} does not serve what is disputed there: put it there, then send")


def require_bond(chain: Chain, sender: Sender, bond: int) -> None:
    """Approve a bond. Units: wei of the payout token. Raises: FundsError if it is not there."""
    if bond:
        chain.token.require_funds(sender.address, bond)
        chain.token.require_allowance(sender, chain.deployment.payout_vault, bond)


def open_leaf(history: StepHistory, leaves: Sequence[Submission], slot: int) -> LeafOpening:
    """Return the opening of a slot's leaf. Raises: Malformed if it has none."""
    if slot in history.delivered:
        return LeafOpening(history.delivered[slot].leaf, ())
    if history.opened is None or all(leaf.slot != slot for leaf in leaves):
        raise Malformed("slot", expected="one with a leaf", got=slot)
    return LeafOpening.of(leaves, history.opened.slots, slot)


def panel_outcome(history: StepHistory, slot: int, quorum: int) -> Outcome:
    """Return what the revealed votes decide about a slot. Raises: Malformed if there is no such slot."""
    if not 0 <= slot < history.positions:
        raise Malformed("slot", expected=f"0 … {history.positions - 1}", got=slot)
    ballots = [unpack_outcomes(vote, history.positions) for vote in history.votes_by_seat() if vote]
    return decide((ballot[slot] for ballot in ballots), quorum)
