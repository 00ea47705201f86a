"""Refusals as HTTP answers: one body shape (problem+json), one mapping from our errors to statuses, no stack traces."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from stannary.errors import BadSignature, Malformed, NetworkError, OperatorError, Refused, StannaryError, Unavailable
from stannary.wire import ProblemOut

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
_DETAIL_CHARS = 500
_HANGS_UP = {401, 408, 413, 415}
"""Refusals after which the rest of a body, however long, is not waited for."""


def problem(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    """Return an error answer."""
    if status in _HANGS_UP:
        headers = {**(headers or {}), "connection": "close"}
    body = ProblemOut(title=HTTPStatus(status).phrase, detail=detail[:_DETAIL_CHARS], status=status)
    return Response(body.model_dump_json(), status, headers, MEDIA_TYPE)


def describe(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI entries of the refusals that a route can give."""
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemOut"}}},
        }
        for status in sorted({400, *statuses})
    }


SIGNED = (401, 409, 413, 415, 422)
"""What any signed request with a body can be refused with."""


def status_of(error: StannaryError) -> int:
    """Return the HTTP status of one of our errors."""
    match error:
        case Refused():
            return error.status
        case Malformed():
            return 422
        case BadSignature():
            return 401
        case Unavailable():
            return 404
        case NetworkError() | OperatorError():
            return 503
        case _:
            return 500


def install(app: FastAPI) -> None:
    """Answer every error of the application in the one shape."""

    async def on_stannary(_request: Request, error: Exception) -> Response:
        assert isinstance(error, StannaryError)
        status = status_of(error)
        if status >= 500:
            log.warning("answered %d: %s: %s", status, type(error).__name__, error)
            if not isinstance(error, Refused):
                return problem(status, "the coordinator cannot do this now; its operator finds more in the log")
        return problem(status, error.reason if isinstance(error, Refused) else str(error))

    async def on_http(_request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return problem(error.status_code, str(error.detail), dict(error.headers or {}))

    async def on_validation(_request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return problem(422, "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()))

    async def on_fault(request: Request, error: Exception) -> Response:
        log.error("fault in %s %s", request.method, request.url.path, exc_info=error)
        return problem(500, "a fault of the coordinator; its operator finds more in the log")

    app.add_exception_handler(StannaryError, on_stannary)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(RequestValidationError, on_validation)
    app.add_exception_handler(Exception, on_fault)
