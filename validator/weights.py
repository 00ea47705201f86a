"""The policy that a validator has loaded, from folders fetched against the root on chain."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stannary.shardcast import PolicyFolders
from stannary.types import Hash

if TYPE_CHECKING:
    from validator.prefill import Prefill

log = logging.getLogger(__name__)

KEPT = 3


class Policies:
    """Fetches policy steps into folders of its own and keeps one loaded."""

    def __init__(self, parent: Path, sources: Sequence[str], open_policy: Callable[[Path], Prefill]) -> None:
        """Use `parent` for the folders and `sources` (base addresses of coordinators or relays) to fetch from."""
        self._folders = PolicyFolders(parent, sources, KEPT)
        self._open = open_policy
        self._loaded: tuple[Hash, Path, Prefill] | None = None

    def fetch(self, policy_step: int, policy_root: Hash) -> Path:
        """Return a policy step's folder, without loading it. Raises: as `load`, but for what loading raises."""
        return self._folders.folder_of(policy_step, policy_root)

    def load(self, policy_step: int, policy_root: Hash) -> tuple[Path, Prefill]:
        """Return a policy step's folder and model.

        Raises: Unreachable, Unavailable, PeerError, PolicyError, OperatorError when the disk refuses.
        """
        if self._loaded is not None and self._loaded[0] == policy_root:
            return self._loaded[1:]
        folder = self._folders.folder_of(policy_step, policy_root)
        self._loaded = None  # freed before the next is opened: two may not fit
        self._loaded = (policy_root, folder, self._open(folder))
        log.info("policy step %d loaded", policy_step)
        return self._loaded[1:]
