"""The policy folders on a role's disk: fetched against the root on chain, the few that were used last kept."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from stannary.shardcast.fetch import fetch, weights_url
from stannary.shardcast.folder import clear_partial
from stannary.types import Hash

log = logging.getLogger(__name__)


class PolicyFolders:
    """Fetches policy steps into one folder and deletes old ones. Nothing else may write there."""

    def __init__(self, parent: Path, sources: Sequence[str], kept: int = 2) -> None:
        """Keep `kept` folders in `parent`, which must be one pool's: a policy has the tensors of the one before.

        `sources` are the base addresses of coordinators or relays to fetch from.
        """
        self._parent = parent
        self._kept = kept
        self._sources = tuple(sources)

    def folder_of(self, policy_step: int, policy_root: Hash) -> Path:
        """Return the folder of a policy step; what is on disk already is checked again, not fetched again.

        Raises: Unreachable, Unavailable, PeerError, PolicyError, OperatorError when the disk refuses.
        """
        # The root is part of the name, so that a policy step published anew after a fork is another folder.
        folder = self._parent / f"policy-{policy_step:08d}-{policy_root.hex()[:16]}"
        urls = [weights_url(source, policy_step) for source in self._sources]
        others = [path for path in self._folders() if path != folder]
        fetch(urls, policy_root, folder, like=others[-1] if others else None)
        for old in others[: max(0, len(others) - (self._kept - 1))]:
            log.info("deleting %s", old.name)
            shutil.rmtree(old, ignore_errors=True)
        clear_partial(self._parent)
        os.utime(folder)
        return folder

    def _folders(self) -> list[Path]:
        """Return the whole folders, the one that was asked for longest ago first: a juror's step may be an old one."""
        return sorted(self._parent.glob("policy-*"), key=lambda path: (path.stat().st_mtime_ns, path.name))
