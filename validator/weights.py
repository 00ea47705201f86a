"""The policy folders on a validator's disk, fetched against the root on chain, and the one that is loaded."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from stannary.shardcast import fetch, weights_url
from stannary.shardcast.folder import clear_partial
from stannary.types import Hash
from validator.prefill import Prefill

log = logging.getLogger(__name__)

KEPT = 3


class Policies:
    """Fetches policy steps into one folder, deletes old ones, keeps one loaded. Nothing else may write there."""

    def __init__(self, parent: Path, sources: Sequence[str], open_policy: Callable[[Path], Prefill]) -> None:
        """Use `parent` for the folders and `sources` (base addresses of coordinators or relays) to fetch from."""
        self._parent = parent
        self._sources = tuple(sources)
        self._open = open_policy
        self._loaded: tuple[Hash, Path, Prefill] | None = None

    def load(self, policy_step: int, policy_root: Hash) -> tuple[Path, Prefill]:
        """Return a policy step's folder and model.

        Raises: Unreachable, Unavailable, PeerError, PolicyError, OperatorError when the disk refuses.
        """
        if self._loaded is not None and self._loaded[0] == policy_root:
            return self._loaded[1:]
        # The root is part of the name, so that another chain's policy of the same step is another folder.
        folder = self._parent / f"policy-{policy_step:08d}-{policy_root.hex()[:16]}"
        others = [path for path in sorted(self._parent.glob("policy-*")) if path != folder]
        urls = [weights_url(source, policy_step) for source in self._sources]
        fetch(urls, policy_root, folder, like=others[-1] if others else None)
        self._loaded = None
        self._loaded = (policy_root, folder, self._open(folder))
        for old in others[: max(0, len(others) - (KEPT - 1))]:
            shutil.rmtree(old, ignore_errors=True)
        clear_partial(self._parent)
        log.info("policy step %d loaded", policy_step)
        return self._loaded[1:]
