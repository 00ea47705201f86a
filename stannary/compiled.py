"""Compiling a function to machine code when it is first called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile a function of arrays and numbers; the code is kept beside the source where that can be written."""
    try:
        return cast(F, numba.njit(function, cache=True, nogil=True))
    except RuntimeError:  # nowhere to keep it: it is compiled anew in each process
        return cast(F, numba.njit(function, nogil=True))
