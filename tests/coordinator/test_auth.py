"""coordinator.auth: a signed request is taken once, from an account of the pool in any spelling (A6, A27)."""

from __future__ import annotations

import time

import httpx
import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from coordinator import queries
from coordinator.tables import HeartbeatRow, NonceRow
from stannary.signing import ADDRESS_HEADER, BODY_HEADER, MAX_CLOCK_SKEW_S, NONCE_HEADER, SIGNATURE_HEADER, TIME_HEADER
from stannary.structs import Domain
from stannary.wire import HeartbeatIn, ProblemOut
from tests.coordinator.office import DOMAIN, Office, address_of

PATH = "/v1/heartbeats"
BODY = HeartbeatIn(engine="toy", state="waiting").model_dump_json().encode()


def post(office: Office, headers: dict[str, str], body: bytes = BODY, path: str = PATH) -> httpx.Response:
    return httpx.post(office.url + path, content=body, headers=headers)


def signed(office: Office, name: str = "wendy", **changes: object) -> dict[str, str]:
    return office.headers(name, "POST", PATH, BODY, **changes)  # type: ignore[arg-type]


def test_request_from_a_node_is_taken(office: Office) -> None:
    assert post(office, signed(office)).status_code == 204


def test_request_sent_twice_is_refused_the_second_time(office: Office) -> None:
    headers = signed(office)
    assert post(office, headers).status_code == 204
    again = post(office, headers)
    assert again.status_code == 409
    assert again.headers["content-type"] == "application/problem+json"
    assert "nonce" in ProblemOut.model_validate_json(again.content).detail


def test_request_of_a_fast_clock_sent_again_in_its_last_second_is_refused(office: Office) -> None:
    start = int(time.time()) + 10
    office.server_offset_s = start - time.time()
    headers = signed(office, time_s=start + MAX_CLOCK_SKEW_S)
    assert post(office, headers).status_code == 204
    office.server_offset_s = start + 2 * MAX_CLOCK_SKEW_S + 0.7 - time.time()
    assert post(office, headers).status_code == 409


def test_request_sent_again_after_a_restart_is_refused(office: Office) -> None:
    headers = signed(office)
    assert post(office, headers).status_code == 204
    office.close()
    office.open()
    assert post(office, headers).status_code == 409


def test_request_sent_to_a_second_process_on_the_same_database_is_refused(office: Office) -> None:
    second = Office(office.folder)
    second.open()
    try:
        headers = signed(office)
        assert post(office, headers).status_code == 204
        assert post(second, headers).status_code == 409
    finally:
        second.close()


def test_request_with_another_body_is_refused(office: Office) -> None:
    assert post(office, signed(office), BODY.replace(b"waiting", b"loading")).status_code == 401


def test_request_on_another_path_is_refused(office: Office) -> None:
    assert post(office, signed(office), path="/v1/leases").status_code == 401


def test_request_with_another_query_is_refused(office: Office) -> None:
    assert post(office, signed(office), path=PATH + "?x=1").status_code == 401


def test_request_for_another_audience_is_refused(office: Office) -> None:
    assert post(office, signed(office, audience=address_of("another coordinator"))).status_code == 401


@pytest.mark.parametrize("domain", [Domain(31338, DOMAIN.contract), Domain(31337, address_of("another ledger"))])
def test_request_for_another_deployment_is_refused(office: Office, domain: Domain) -> None:
    assert post(office, signed(office, domain=domain)).status_code == 401


@pytest.mark.parametrize("offset_s", [-MAX_CLOCK_SKEW_S - 5, MAX_CLOCK_SKEW_S + 5])
def test_request_of_another_time_is_refused(office: Office, offset_s: int) -> None:
    assert post(office, signed(office, time_s=int(office.now()) + offset_s)).status_code == 401


@pytest.mark.parametrize("header", [ADDRESS_HEADER, TIME_HEADER, NONCE_HEADER, SIGNATURE_HEADER])
def test_request_without_a_header_is_refused(office: Office, header: str) -> None:
    headers = signed(office)
    del headers[header]
    assert post(office, headers).status_code == 401


def test_request_signed_by_another_account_is_refused(office: Office) -> None:
    office.stake("walter")
    assert post(office, {**signed(office, "walter"), ADDRESS_HEADER: address_of("wendy")}).status_code == 401


def test_request_of_a_stranger_is_refused_and_leaves_no_trace(office: Office) -> None:
    assert post(office, signed(office, "mallory")).status_code == 401
    assert office.store.read(lambda session: session.scalar(select(func.count()).select_from(NonceRow))) == 0


@pytest.mark.parametrize("form", [str.lower, lambda text: "0x" + text[2:].upper()])
def test_address_in_any_right_form_is_the_same_account(office: Office, form: object) -> None:
    assert callable(form)
    assert post(office, {**signed(office), ADDRESS_HEADER: form(address_of("wendy"))}).status_code == 204
    assert post(office, signed(office)).status_code == 204
    rows = office.store.read(lambda session: session.scalars(select(HeartbeatRow.node)).all())
    assert list(rows) == [address_of("wendy")]


def swapped_checksum(text: str) -> str:
    return "0x" + text[2:].swapcase()


@pytest.mark.parametrize(
    "form",
    [
        swapped_checksum,
        lambda text: "0X" + text[2:],
        lambda text: text + "0",
        lambda text: text[:-1],
        lambda text: text[2:],
        lambda text: text[:20] + " " + text[20:],
        lambda text: "0x" + "g" * 40,
    ],
)
def test_address_in_a_wrong_form_is_unprocessable(office: Office, form: object) -> None:
    assert callable(form)
    answer = post(office, {**signed(office), ADDRESS_HEADER: form(address_of("wendy"))})
    assert answer.status_code == 422
    assert ADDRESS_HEADER in answer.json()["detail"]


@pytest.mark.parametrize("signature", ["0x", "zz", "0x" + "00" * 65, "0x" + "ff" * 65, "0x" + "11" * 64])
def test_signature_that_is_none_is_refused(office: Office, signature: str) -> None:
    assert post(office, {**signed(office), SIGNATURE_HEADER: signature}).status_code == 401


def test_nonce_of_wrong_form_is_unprocessable(office: Office) -> None:
    assert post(office, {**signed(office), NONCE_HEADER: "short"}).status_code == 422


def test_node_of_a_provider_acts_for_it(office: Office) -> None:
    office.node("nora", "wendy")
    assert post(office, signed(office, "nora")).status_code == 204
    row = office.store.read(lambda session: session.get(HeartbeatRow, address_of("nora")))
    assert row is not None
    assert row.provider == address_of("wendy")


def test_node_of_a_provider_without_position_is_refused(office: Office) -> None:
    office.node("nora", "penniless")
    assert post(office, signed(office, "nora")).status_code == 401


def test_nonces_expire_and_their_number_stays_bounded(office: Office) -> None:
    wendy = address_of("wendy")

    def flood(session: Session) -> None:
        for index in range(20_000):
            session.add(NonceRow(address=wendy, nonce=f"flood{index:011d}", expires_at=float(index % 100)))

    office.store.write(flood)
    assert office.store.write(lambda session: queries.take_nonce(session, wendy, "a" * 16, 1000.0, 1120.0))
    count = office.store.read(lambda session: session.scalar(select(func.count()).select_from(NonceRow)))
    assert count == 1


def test_upload_without_body_hash_is_refused(office: Office) -> None:
    path = "/v1/submissions/0x" + "ab" * 32
    headers = office.headers("wendy", "PUT", path, b"x")
    del headers[BODY_HEADER]
    assert httpx.put(office.url + path, content=b"x", headers=headers).status_code == 401


def test_upload_with_another_body_than_signed_is_unprocessable(office: Office) -> None:
    lease = office.client("wendy").lease(1).leases[0]
    data = b"the real bytes"
    office.client("wendy").submit(office.submit("wendy", lease, data))
    path = office.submit("wendy", lease, data).submission.content_hash
    headers = office.headers("wendy", "PUT", f"/v1/submissions/{path}", data)
    assert httpx.put(f"{office.url}/v1/submissions/{path}", content=b"other bytes", headers=headers).status_code == 422
