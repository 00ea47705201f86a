"""The policies that a validator has loaded, from folders fetched against the roots on chain."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stannary.shardcast import PolicyFolders
from stannary.types import Hash
from validator.judgement import Computes

if TYPE_CHECKING:
    from validator.prefill import Prefill

log = logging.getLogger(__name__)

KEPT = 3
FIRST: Final = "fp32"
"""What judges, and what the step before is computed in: only more than bf16 shows in which direction a policy moved."""
SECOND: Final = "bf16"
"""What a rejection by numbers is checked with."""


class Policies:
    """Fetches policy steps into folders of its own and keeps one loaded, with what is needed beside it."""

    def __init__(self, parent: Path, sources: Sequence[str], open_policy: Callable[[Path, str], Prefill]) -> None:
        """Use `parent` for the folders and `sources` (base addresses of coordinators or relays) to fetch from.

        `open_policy` loads a folder for a compute.
        """
        self._folders = PolicyFolders(parent, sources, KEPT)
        self._open = open_policy
        self._loaded: tuple[tuple[Hash, Hash | None], Path, Computes] | None = None

    def fetch(self, policy_step: int, policy_root: Hash) -> Path:
        """Return a policy step's folder, without loading it. Raises: as `load`, but for what loading raises."""
        return self._folders.folder_of(policy_step, policy_root)

    def load(self, policy_step: int, policy_root: Hash, before_root: Hash | None) -> tuple[Path, Computes]:
        """Return a policy step's folder and what recomputes it.

        Raises: Unreachable, Unavailable, PeerError, PolicyError, OperatorError when the disk refuses.
        """
        roots = (policy_root, before_root)
        if self._loaded is not None and self._loaded[0] == roots:
            return self._loaded[1:]
        folder = self._folders.folder_of(policy_step, policy_root)
        before = None if before_root is None else self._folders.folder_of(policy_step - 1, before_root)
        self._loaded = None  # freed before the next is opened: two may not fit
        computes = Computes(
            first=self._open(folder, FIRST),
            second=_once(lambda: self._open(folder, SECOND)),
            before=None if before is None else _once(lambda: self._open(before, FIRST)),
        )
        self._loaded = (roots, folder, computes)
        log.info("policy step %d loaded", policy_step)
        return self._loaded[1:]


def _once(make: Callable[[], Prefill]) -> Callable[[], Prefill]:
    made: list[Prefill] = []

    def get() -> Prefill:
        if not made:
            made.append(make())
        return made[0]

    return get
