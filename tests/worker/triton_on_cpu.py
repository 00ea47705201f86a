"""Lets vLLM take Triton's interpreter for a Triton that compiles for CPUs: its model runner V2 then runs without a GPU.

To be imported before vLLM, in every process that imports it.
"""

from __future__ import annotations

import os

os.environ["TRITON_INTERPRET"] = "1"
os.environ["TORCHDYNAMO_DISABLE"] = "1"

from triton.backends import backends


class _Active:
    """A driver that says it is there."""

    @staticmethod
    def is_active() -> bool:
        """Return that it is there."""
        return True


class _Backend:
    """A backend of the interpreter."""

    driver = _Active
    compiler = None


backends.setdefault("cpu", _Backend)
