"""Files that must survive a crash and must not be read by others: whole or not at all, on the disk before anything is
sent, mode 600. It must not know what is in them.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from stannary.errors import OperatorError

log = logging.getLogger(__name__)

_DRAFT = ".draft"


class Records:
    """One folder of small files by name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self, pattern: str) -> list[str]:
        """Return the names that fit a pattern such as `*.vote`, sorted."""
        return sorted(path.name for path in self._folder.glob(pattern))

    def read(self, name: str) -> bytes | None:
        """Return a file's bytes, None if there is none or the disk does not give it."""
        path = self._folder / name
        try:
            return path.read_bytes() if path.is_file() else None
        except OSError as error:
            log.error("%s cannot be read: %s", path, error)
            return None

    def write(self, name: str, data: bytes) -> None:
        """Write a file and wait until the disk holds it. Raises: OperatorError when the disk refuses."""
        path = self._folder / name
        draft = path.with_name(name + _DRAFT)
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            draft.unlink(missing_ok=True)
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
            self._sync_folder()
        except OSError as error:
            raise OperatorError(f"cannot write {path}: {error.strerror or error}") from error

    def remove(self, name: str) -> None:
        """Delete a file; one that is gone is no error. Raises: OperatorError when the disk refuses."""
        try:
            (self._folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise OperatorError(f"cannot delete {self._folder / name}: {error.strerror or error}") from error

    def rename(self, name: str, new_name: str) -> None:
        """Give a file another name; one that is gone is no error."""
        try:
            (self._folder / name).replace(self._folder / new_name)
        except FileNotFoundError:
            return
        except OSError as error:
            raise OperatorError(f"cannot rename {self._folder / name}: {error.strerror or error}") from error

    def _sync_folder(self) -> None:
        """Make a new name as lasting as the file's bytes."""
        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
