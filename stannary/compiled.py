"""Compiling a function to machine code when it is first called, and keeping the code for later processes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from blake3 import blake3

F = TypeVar("F", bound=Callable[..., Any])
_HERE = Path(__file__).parent
SOURCES = ("compiled.py", "sampling", "toploc")
"""Where compiled functions and the constants compiled into them come from."""


def compiled(function: F) -> F:
    """Compile a function of arrays and numbers; the code is kept where the first of some folders can be written."""
    with _folder_of_code() as is_kept:
        return cast(F, numba.njit(function, cache=is_kept, nogil=True))


@contextlib.contextmanager
def _folder_of_code() -> Iterator[bool]:
    """Let numba keep code in a folder of these very sources, and say whether there is one.

    By itself it would take up code again while the function's own file is unchanged, whatever became of a constant that
    the function takes from another file: a node would go by the rules of an older version.
    """
    folder, others = _kept_in(), numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder or "")
    try:
        yield folder is not None
    finally:
        numba.config.CACHE_DIR = others


@cache
def _kept_in() -> Path | None:
    name = f"stannary-{_digest()}"
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for parent in (_HERE / "__pycache__", user):
        with contextlib.suppress(OSError):
            (parent / name).mkdir(parents=True, exist_ok=True)
            if os.access(parent / name, os.W_OK):
                return parent / name
    return None


def _digest() -> str:
    """Return a name of everything that may be compiled in."""
    digest = blake3()
    for source in SOURCES:
        path = _HERE / source
        for file in sorted(path.glob("*.py")) if path.is_dir() else [path]:
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
