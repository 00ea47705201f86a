"""What measured: versions and the machine, for calibration cards."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import version
from pathlib import Path


def describe() -> dict[str, object]:
    """Return versions and the machine's kind; no host name, no path."""
    return {
        "versions": {
            "python": platform.python_version(),
            "torch": version("torch"),
            "transformers": version("transformers"),
            "numpy": version("numpy"),
        },
        "machine": {"system": platform.system(), "machine": platform.machine(), "processor": _processor()},
        "byte_order": sys.byteorder,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
