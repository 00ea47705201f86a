"""PlantedFaults: leaves that are bad on purpose, to see who accepts without looking."""

from __future__ import annotations

from collections.abc import Sequence

from stannary.chain.connection import Block, Mined
from stannary.chain.contract import Contract
from stannary.chain.names import PLANTED_FAULTS
from stannary.chain.sender import Sender
from stannary.chain.submission_ledger import LeafOpening
from stannary.types import Address, Hash


class PlantedFaults(Contract):
    """The record of planted faults."""

    NAME = PLANTED_FAULTS

    def plant_commitment(self, planter: Address, leaf_hash: Hash, salt: Hash, at: Block | None = None) -> Hash:
        """Return the contract's own commitment to a planted fault."""
        return Hash(bytes(self.read("plantCommitment", planter, leaf_hash, salt, at=at)))

    def is_plant(self, leaf_hash: Hash, at: Block | None = None) -> bool:
        """Say whether a leaf is a planted fault that was shown: it is not slashed."""
        return bool(self.read("isPlant", leaf_hash, at=at))

    def plant(self, sender: Sender, pool: int, step: int, commitment: Hash) -> Mined:
        """Commit to a planted fault before the root is committed, for an approved bond of the slot's price."""
        return sender.send(self.encode("plant", pool, step, commitment))

    def reveal_plant(self, sender: Sender, pool: int, step: int, opening: LeafOpening, salt: Hash) -> Mined:
        """Show that a leaf was planted, after the votes on it are revealed."""
        return sender.send(self.encode("revealPlant", pool, step, opening.as_struct(), salt))

    def settle_plant(self, sender: Sender, commitment: Hash, votes: Sequence[bytes], outcomes: bytes) -> Mined:
        """Settle a plant of a settled step; anyone may."""
        return sender.send(self.encode("settlePlant", commitment, list(votes), outcomes))
