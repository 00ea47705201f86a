"""The web application: routes on a desk, errors in one shape, and the background work that lives as long as it does."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema
from starlette.concurrency import run_in_threadpool

from coordinator import problems
from coordinator.desk import Desk
from coordinator.routes import health, judgement, steps, weights, work
from coordinator.routes.parameters import BODIES
from coordinator.tick import Background
from stannary import wire

PREFIX = "/v1"
RECURSION_LIMIT = 1000
"""Python's default."""


def create_app(desk: Desk, background: Background | None = None) -> FastAPI:
    """Return the application; `background` is started and stopped with it."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        if background is not None:
            background.start()
        try:
            yield
        finally:
            if background is not None:
                await run_in_threadpool(background.stop)

    _bound_recursion()
    app = FastAPI(
        title="Stannary coordinator",
        version="1",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.desk = desk
    problems.install(app)
    for router in (health.router, work.router, steps.router, judgement.router, weights.router):
        app.include_router(router, prefix=PREFIX)
    _complete_schema(app)
    return app


def _bound_recursion() -> None:
    """Set Python's own limit again: py_ecc, which eth_account imports, raises it a hundredfold.

    With that, 100 kB of opening brackets in a stranger's JSON overflow the C stack and end the process.
    """
    sys.setrecursionlimit(RECURSION_LIMIT)


def _complete_schema(app: FastAPI) -> None:
    """Add the messages that routes read by themselves; FastAPI sees only what it parses."""
    build = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = build()
            models = [(model, "validation") for model in (*BODIES, wire.ProblemOut)]
            _, found = models_json_schema(models, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
            known = schema.setdefault("components", {}).setdefault("schemas", {})
            for name, definition in found.get("$defs", {}).items():
                known.setdefault(name, definition)
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
