"""Fetching a file from an address that a stranger wrote on chain: bounded in size and time, followed nowhere else."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx

from stannary.deadline import bounded, within
from stannary.errors import Malformed, StannaryError, Unavailable, Unreachable
from stannary.rollout import MAX_SUBMISSION_BYTES

TIMEOUT_S = 10.0
"""For the whole exchange, from the look-up of the name to the last byte, however slowly it drips."""
MAX_URL_CHARACTERS = 2048


def fetch(url: str, *, limit_bytes: int = MAX_SUBMISSION_BYTES, timeout_s: float = TIMEOUT_S) -> bytes:
    """Return what an address answers; the caller checks it against a hash.

    Raises: Malformed for an address that is no plain one of the web or an answer that is too large; Unavailable if it
    answers anything but the file; Unreachable if it does not answer, not in time or not as the protocols say.
    """
    shown = url[:MAX_URL_CHARACTERS]
    _require_plain(url)
    answer = bytearray()
    try:
        with (
            within(timeout_s),
            bounded(httpx.Client(timeout=timeout_s, follow_redirects=False, trust_env=False)) as client,
            client.stream("GET", url, headers={"accept-encoding": "identity"}) as response,
        ):
            if response.status_code != 200:
                raise Unavailable(f"{shown} answered {response.status_code}")
            # Raw bytes, as they come: a content encoding would let a small answer grow without bound, and waiting for a
            # block of some size would let a slow one go on for ever.
            for block in response.iter_raw():
                answer += block
                if len(answer) > limit_bytes:
                    raise Malformed(shown, expected=f"at most {limit_bytes} bytes", got=f"more than {limit_bytes}")
    except StannaryError:
        raise
    except httpx.TimeoutException as error:
        raise Unreachable(f"{shown} did not answer within {timeout_s:.0f} s") from error
    except Exception as error:  # a stranger wrote the address and the answer: neither may end this process
        raise Unreachable(f"{shown}: {type(error).__name__}: {error}") from error
    return bytes(answer)


def _require_plain(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_plain = (
            len(url) <= MAX_URL_CHARACTERS
            and url.isprintable()
            and parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.username is None
            and parts.password is None
            and parts.port != 0
        )
    except ValueError:
        is_plain = False
    if not is_plain:
        raise Malformed("location", expected="a plain http or https address", got=url)
