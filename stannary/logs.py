"""Log lines of a role's process: one format on standard error, and other people's libraries kept quiet."""

from __future__ import annotations

import logging

FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_QUIET = ("httpx", "httpcore", "urllib3", "web3", "transformers", "vllm")
"""Libraries whose lines repeat addresses, which may hold keys, or say nothing that an operator can act on."""


def start_logging(level: int = logging.INFO) -> None:
    """Send this process's log lines to standard error."""
    logging.basicConfig(level=level, format=FORMAT, datefmt="%H:%M:%S")
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
