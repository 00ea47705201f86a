"""Who asks: signed requests, each taken once. A body is read only after its signature and size, and parsed after that.

A request is taken from an account that the pool knows (a node or provider with a position, or the trainer) and from no
other, so that strangers cannot fill the table of nonces. The table outlives the process: a restart forgets no replay.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request
from pydantic import ValidationError
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from coordinator import queries
from coordinator.desk import Desk, desk_of
from stannary import signing, wire
from stannary.errors import BadSignature, Malformed, Refused
from stannary.types import Address, Hash, parse_hash, to_hex

PATIENCE_S = 30.0
"""How long the next bytes of a body are waited for."""
_UNPROCESSABLE = {signing.ADDRESS_HEADER, signing.NONCE_HEADER}
M = TypeVar("M", bound=wire.Message)


@dataclass(frozen=True, slots=True)
class Caller:
    """A proven account."""

    address: Address
    provider: Address | None
    """Whom it acts for in this pool; None for the trainer."""

    def acting_for(self) -> Address:
        """Return the provider. Raises: Refused with 401 if the account acts for none."""
        if self.provider is None:
            raise Refused("request", status=401, reason=f"{self.address} is no node of a provider with stake here")
        return self.provider


@dataclass(frozen=True, slots=True)
class SignedCall:
    """A signed request whose body has been read."""

    caller: Caller
    data: bytes

    def parse(self, kind: type[M]) -> M:
        """Return the body as a message. Raises: Malformed."""
        try:
            return kind.read(self.data)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            field = ".".join(map(str, first["loc"])) or "body"
            raise Malformed(field, expected=f"a {kind.__name__}", got=first["msg"]) from None
        except ValueError as error:
            raise Malformed("body", expected=f"a {kind.__name__}", got=str(error)) from None


@dataclass(frozen=True, slots=True)
class SignedUpload:
    """A signed request whose body is still to be read; it must have the hash that was signed."""

    caller: Caller
    body: Hash
    request: Request

    async def blocks(self, limit_bytes: int) -> AsyncIterator[bytes]:
        """Return the body as it comes. Raises: Refused with 413 beyond the limit, with 408 when it stops coming."""
        async for block in _blocks(self.request, limit_bytes):
            yield block

    def require_hash(self, data: bytes) -> None:
        """Check a body that was read whole. Raises: Malformed if its hash is not the one that was signed."""
        if signing.body_hash(data) != self.body:
            raise Malformed("body", expected="the bytes that were signed", got=to_hex(signing.body_hash(data)))


def signed(limit_bytes: int) -> Callable[[Request], Coroutine[Any, Any, SignedCall]]:
    """Return a dependency that checks who signed a request and reads its body of at most `limit_bytes`."""

    async def dependency(request: Request) -> SignedCall:
        _check_length(request, limit_bytes)
        upload = await signed_upload(request)
        data = b"".join([block async for block in upload.blocks(limit_bytes)])
        if signing.body_hash(data) != upload.body:
            raise Refused("request", status=401, reason="the body is not the one that was signed")
        return SignedCall(upload.caller, data)

    return dependency


async def signed_upload(request: Request) -> SignedUpload:
    """Check who signed a request for the body hash in its header, before a byte of the body is read."""
    _check_encoding(request)
    text = request.headers.get(signing.BODY_HEADER)
    if not text:
        raise Refused("request", status=401, reason=f"{signing.BODY_HEADER}: expected a header, got None")
    body = parse_hash(text, signing.BODY_HEADER)
    caller = await run_in_threadpool(_verify, desk_of(request), request, body)
    return SignedUpload(caller, body, request)


def _verify(desk: Desk, request: Request, body: Hash) -> Caller:
    now = desk.clock()
    raw_path: bytes = request.scope.get("raw_path") or request.url.path.encode()
    try:
        address, nonce = signing.verify_request(
            request.headers,
            desk.domain,
            desk.coordinator,
            method=request.method,
            path=raw_path.split(b"?")[0].decode("ascii", "replace"),
            query=request.scope["query_string"].decode("ascii", "replace"),
            body=body,
            now_s=int(now),
        )
    except BadSignature as error:
        raise Refused("request", status=401, reason=str(error)) from None
    except Malformed as error:
        is_misshapen = error.field in _UNPROCESSABLE and error.got is not None
        raise Refused("request", status=422 if is_misshapen else 401, reason=str(error)) from None

    def admit(session: Session) -> Caller | None:
        provider = queries.provider_of(session, address)
        if provider is None and address != queries.trainer(session):
            raise Refused("request", status=401, reason=f"{address} is no node of a provider with stake here")
        expires_at = int(now) + 2 * signing.MAX_CLOCK_SKEW_S + 1  # times are compared in whole seconds
        is_new = queries.take_nonce(session, address, nonce, now, expires_at)
        return Caller(address, provider) if is_new else None

    caller = desk.store.write(admit)
    if caller is None:
        raise Refused("request", status=409, reason=f"the nonce {nonce} was used before: sign each request anew")
    return caller


async def _blocks(request: Request, limit_bytes: int) -> AsyncIterator[bytes]:
    _check_encoding(request)
    _check_length(request, limit_bytes)
    stream, size = request.stream(), 0
    while True:
        try:
            async with asyncio.timeout(PATIENCE_S):
                block = await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Refused("body", status=408, reason=f"no more bytes came for {PATIENCE_S:.0f} s") from None
        except ClientDisconnect:
            raise Refused("body", status=400, reason="the connection ended before the body did") from None
        size += len(block)
        if size > limit_bytes:
            raise _too_large(limit_bytes)
        yield block


def _check_encoding(request: Request) -> None:
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise Refused("body", status=415, reason="bodies are taken as they are: send no content-encoding")


def _check_length(request: Request, limit_bytes: int) -> None:
    text = request.headers.get("content-length")
    if text is None:
        return
    if not (text.isascii() and text.isdigit()):
        raise Refused("content-length", status=400, reason="content-length: expected a whole number")
    if len(text) > 18 or int(text) > limit_bytes:
        raise _too_large(limit_bytes)


def _too_large(limit_bytes: int) -> Refused:
    return Refused("body", status=413, reason=f"at most {limit_bytes} bytes are taken here")
