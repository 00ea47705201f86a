"""Reading a stranger's tokenizer: whatever its reader does with the files comes out as one error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from stannary.errors import PolicyError

T = TypeVar("T")
PANIC = "PanicException"
"""What the tokenizers package raises where its Rust code gives up; no subclass of Exception, and importable nowhere."""


def read_tokenizer(folder: Path, read: Callable[[], T]) -> T:
    """Return what `read` makes of a policy folder's tokenizer. Raises: PolicyError if it makes nothing."""
    try:
        return read()
    except BaseException as error:
        is_of_the_file = isinstance(error, Exception) or type(error).__name__ == PANIC
        if isinstance(error, MemoryError) or not is_of_the_file:
            raise
        raise PolicyError(f"the tokenizer of {folder} cannot be read: {error}") from error
