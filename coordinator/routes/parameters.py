"""Path parameters, and the declaration of bodies that the routes read themselves (signature first, parser after)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path

from stannary import wire

HashPath = Annotated[str, Path(pattern="^0x[0-9a-f]{64}$", description="0x and 64 lower-case hexadecimal digits")]
IndexPath = Annotated[int, Path(ge=0, lt=1 << 32)]


def json_body(kind: type[wire.Message]) -> dict[str, Any]:
    """Return the OpenAPI declaration of a JSON body."""
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


FILE_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
"""The OpenAPI declaration of a body that is a file."""
BODIES: tuple[type[wire.Message], ...] = (wire.HeartbeatIn, wire.LeasesIn, wire.SubmissionIn, wire.VerdictsIn)
"""Messages that only bodies use; the schema must name them."""
