"""coordinator.app: the shape of errors, health, documents, and an OpenAPI schema that is complete."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from coordinator.app import create_app
from coordinator.settings import Settings
from stannary.documents import canonical, document_hash
from stannary.errors import Unavailable
from stannary.types import Hash, to_hex
from stannary.wire import ProblemOut
from tests.coordinator.office import POOL, Office

ROUTES = {
    ("GET", "/v1/health"),
    ("GET", "/v1/documents/{document_hash}"),
    ("POST", "/v1/heartbeats"),
    ("POST", "/v1/leases"),
    ("POST", "/v1/submissions"),
    ("PUT", "/v1/submissions/{content_hash}"),
    ("GET", "/v1/submissions/{content_hash}"),
    ("GET", "/v1/steps"),
    ("GET", "/v1/steps/{step}"),
    ("GET", "/v1/steps/{step}/leaves"),
    ("POST", "/v1/verdicts"),
    ("GET", "/v1/steps/{step}/verdicts"),
    ("PUT", "/v1/evidence/{evidence_root}"),
    ("GET", "/v1/evidence/{evidence_root}"),
    ("PUT", "/v1/weights/{policy_step}/manifest.json"),
    ("GET", "/v1/weights/{policy_step}/manifest.json"),
    ("PUT", "/v1/weights/{policy_step}/files/{name}"),
    ("GET", "/v1/weights/{policy_step}/files/{name}"),
    ("GET", "/v1/nodes"),
}


def schema_of(office: Office) -> dict[str, Any]:
    settings = Settings(run_dir=office.folder, pool=POOL, keystore=office.folder / "none.json")
    return create_app(office.desk(settings)).openapi()


def test_openapi_lists_exactly_the_routes_of_the_protocol(office: Office) -> None:
    paths = schema_of(office)["paths"]
    assert {(method.upper(), path) for path, methods in paths.items() for method in methods} == ROUTES


def test_openapi_documents_the_refusals_of_every_route(office: Office) -> None:
    for path, methods in schema_of(office)["paths"].items():
        for method, operation in methods.items():
            refusals = {status for status in operation["responses"] if status.startswith("4")}
            assert refusals, (method, path)
            for status in refusals:
                assert "application/problem+json" in operation["responses"][status]["content"], (method, path, status)
            if method in ("post", "put"):
                assert {"401", "409", "413", "415", "422"} <= refusals, (method, path)
                assert operation["requestBody"]["content"], (method, path)


def test_openapi_names_no_schema_that_it_does_not_define(office: Office) -> None:
    schema = schema_of(office)

    def references(node: object) -> set[str]:
        if isinstance(node, dict):
            own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
            return own.union(*(references(value) for value in node.values()))
        if isinstance(node, list):
            return set().union(*(references(value) for value in node))
        return set()

    defined = {f"#/components/schemas/{name}" for name in schema["components"]["schemas"]}
    assert references(schema) <= defined


def test_health_names_pool_block_and_state(office: Office) -> None:
    health = office.client().health()
    assert (health.status, health.pool, health.block) == ("ok", POOL, office.pool_time)
    office.server_offset_s += 100
    assert office.client().health().status == "behind the chain"


def test_health_of_a_new_database_is_behind_the_chain(tmp_path: Any) -> None:
    office = Office(tmp_path)
    office.open()
    try:
        assert office.client().health().status == "behind the chain"
    finally:
        office.close()


def test_document_is_served_by_its_hash(office: Office) -> None:
    document: dict[str, object] = {"format": "a card"}
    office.documents[document_hash(document)] = canonical(document)
    assert office.client().document(document_hash(document)) == document
    with pytest.raises(Unavailable):
        office.client().document(Hash(b"d" * 32))


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/v1/nothing", 404),
        ("DELETE", "/v1/steps", 405),
        ("GET", "/v1/steps/", 404),
        ("GET", "/v1/steps/-1", 422),
        ("GET", f"/v1/steps/{1 << 32}", 422),
        ("GET", "/v1/steps/one", 422),
        ("GET", "/v1/documents/0x12", 422),
        ("GET", f"/v1/documents/{to_hex(bytes(32)).upper()}", 422),
    ],
)
def test_error_has_one_shape(office: Office, method: str, path: str, status: int) -> None:
    answer = httpx.request(method, office.url + path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert ProblemOut.model_validate_json(answer.content).status == status


def test_fault_of_ours_shows_no_detail(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> object:
        raise RuntimeError("secret internals")

    monkeypatch.setattr("coordinator.queries.newest_steps", broken)
    answer = httpx.get(f"{office.url}/v1/steps")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert ProblemOut.model_validate_json(answer.content).status == 500
