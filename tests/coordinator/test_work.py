"""coordinator.routes.work: leases, receipts, uploads, downloads (A2, A5, A31, A37)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx
import pytest
from sqlalchemy import func, select

from coordinator.tables import LeaseRow, StepRow, SubmissionRow
from stannary.errors import Refused, Unavailable
from stannary.rollout import MAX_SUBMISSION_BYTES, content_hash
from stannary.seeds import StepSeeds
from stannary.types import Hash, Phase, Role, to_hex
from stannary.wire import LeasesIn
from tests.coordinator.office import DOMAIN, POOL, TERMS, TOKENS, Office, address_of


def beacon_order(office: Office, step: int = 0, slots: int = 8) -> list[int]:
    row = office.store.read(lambda session: session.get(StepRow, step))
    assert row is not None
    return StepSeeds(DOMAIN, POOL, step, row.seed_beacon).slot_order(slots)


def deliver(office: Office, name: str = "wendy", data: bytes = b"bytes of a group") -> bytes:
    lease = office.client(name).lease(1).leases[0]
    office.client(name).submit(office.submit(name, lease, data))
    office.client(name).upload_submission(data)
    return data


# Leases


def test_leases_are_signed_complete_and_in_the_beacons_order(office: Office) -> None:
    leases = office.client("wendy").lease(3).leases
    assert [message.slot for message in leases] == beacon_order(office)[:3]
    lease = leases[0].lease()
    assert (lease.pool, lease.step, lease.policy_step) == (POOL, 0, 0)
    assert (lease.provider, lease.node) == (address_of("wendy"), address_of("wendy"))
    assert (lease.valid_from, lease.valid_until) == (office.pool_time, office.pool_time + TERMS.lease_seconds)
    assert (lease.max_units, lease.card_hash, lease.protocol_version) == (TERMS.max_units, TERMS.card_hash, 1)


def test_lease_asked_for_again_is_the_same_lease(office: Office) -> None:
    first = office.client("wendy").lease(2).leases
    assert office.client("wendy").lease(2).leases == first
    more = office.client("wendy").lease(3).leases
    assert more[:2] == first
    assert len({message.slot for message in more}) == 3


def test_leases_of_two_nodes_are_of_different_slots(office: Office) -> None:
    office.stake("walter")
    slots = [m.slot for name in ("wendy", "walter") for m in office.client(name).lease(4).leases]
    assert sorted(slots) == list(range(8))


def test_lease_without_a_free_slot_says_what_is_awaited(office: Office) -> None:
    office.stake("walter")
    office.client("wendy").lease(8)
    answer = office.client("walter").lease(1)
    assert answer.leases == []
    assert answer.waiting == "a free slot of the open steps"


def test_lease_before_the_seed_beacon_says_so(office: Office) -> None:
    office.step(phase=Phase.OPEN)
    assert office.client("wendy").lease(1).waiting == "the seed beacon of step 0"


def test_lease_is_capped_a_node(office: Office) -> None:
    office.step(0, slots=40)
    assert len(office.client("wendy").lease(64).leases) == 16
    assert len(office.client("wendy").lease(64).leases) == 16


@pytest.mark.parametrize(("role", "tokens"), [(Role.WORKER, 99), (Role.VALIDATOR, 1000)])
def test_lease_without_worker_stake_is_not_given(office: Office, role: Role, tokens: int) -> None:
    office.stake("walter", role, tokens)
    answer = office.client("walter").lease(1)
    assert answer.leases == []
    assert "worker stake" in (answer.waiting or "")


def test_lease_in_a_closed_pool_is_not_given(office: Office) -> None:
    office.see(is_open=False)
    assert office.client("wendy").lease(1).waiting == "the pool to be open"


def test_lease_while_the_pools_clock_stands_is_not_given(office: Office) -> None:
    office.see(is_paused=True)
    assert office.client("wendy").lease(1).waiting == "the pool's clock to run again"
    office.see()
    assert office.client("wendy").lease(1).leases


def test_lease_that_was_given_lasts_as_long_as_the_pools_clock_stands(office: Office) -> None:
    lease = office.client("wendy").lease(1).leases[0]
    office.server_offset_s += 10_000
    office.see()
    receipt = office.client("wendy").submit(office.submit("wendy", lease, b"group"))
    assert receipt.received_at == office.pool_time


def test_lease_of_a_suspended_provider_is_not_given(office: Office) -> None:
    office.stake("wendy", tokens=0)
    assert "active now: 0" in (office.client("wendy").lease(1).waiting or "")


def test_step_is_not_leased_to_more_providers_than_a_pay_table_holds(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator.routes.work.MAX_PROVIDERS", 2)
    lease = office.client("wendy").lease(1).leases[0]
    office.stake("walter")
    office.stake("wilma")
    assert len(office.client("walter").lease(1).leases) == 1
    waiting = office.client("wilma").lease(1).waiting
    assert waiting == "a step with room for one more provider: step 0 has 2"
    assert len(office.client("wendy").lease(2).leases) == 2  # who is in it goes on
    # A provider whose leases have run out makes room, one with a leaf does not.
    office.client("wendy").submit(office.submit("wendy", lease, b"group"))
    office.client("wendy").upload_submission(b"group")
    office.pass_seconds(TERMS.lease_seconds)
    assert len(office.client("wilma").lease(1).leases) == 1
    assert "room for one more provider" in (office.client("walter").lease(1).waiting or "")


def test_lease_to_who_had_no_stake_when_the_step_was_opened_is_not_given(office: Office) -> None:
    office.stake("walter", is_late=True)
    assert office.client("walter").lease(1).waiting == "a step opened after more stake: step 0 can pay no more"
    office.step(1)
    assert office.client("walter").lease(1).leases[0].step == 1


def test_leases_end_where_one_step_can_pay_a_provider_no_more(office: Office) -> None:
    dear = replace(
        TERMS, price_per_group=200 * TOKENS, price_per_token=TOKENS
    )  # a slot costs up to 328, the cap is 1000
    office.step(terms=dear)
    client = office.client("wendy")
    leases = client.lease(8).leases
    assert len(leases) == 3
    client.submit(office.submit("wendy", leases[0], b"short", units=28))  # 228 in place of 328
    assert len(client.lease(8).leases) == 2
    client.submit(office.submit("wendy", leases[1], b"shorter", units=1))  # 201, and 328 are still open: 243 are left
    assert [lease.slot for lease in client.lease(8).leases] == [leases[2].slot]
    client.submit(office.submit("wendy", leases[2], b"shortest", units=1))  # 630 in all: one more fits
    assert len(client.lease(8).leases) == 1


def test_lease_that_lapsed_makes_room_for_another(office: Office) -> None:
    office.step(slots=4, terms=replace(TERMS, price_per_group=900 * TOKENS))
    client = office.client("wendy")
    assert len(client.lease(8).leases) == 1
    office.pass_seconds(TERMS.lease_seconds)
    assert len(client.lease(8).leases) == 1


def test_slot_taken_on_chain_counts_towards_what_a_step_can_pay(office: Office) -> None:
    office.step(terms=replace(TERMS, price_per_group=400 * TOKENS))
    office.take("wendy", slot=8)
    assert len(office.client("wendy").lease(8).leases) == 1


def test_leases_carry_the_card_of_the_steps_own_offer_and_none_is_given_for_anothers(office: Office) -> None:
    office.step(0, terms=replace(TERMS, coordinator=address_of("next coordinator")))
    office.step(1, terms=replace(TERMS, card_hash=Hash(b"c" * 32)))
    leases = office.client("wendy").lease(8).leases
    assert {(lease.step, lease.card_hash) for lease in leases} == {(1, to_hex(b"c" * 32))}


def test_lease_while_the_chain_is_out_of_sight_is_refused(office: Office) -> None:
    office.server_offset_s += 61
    answer = office.send("wendy", "POST", "/v1/leases", LeasesIn(count=1).model_dump_json().encode())
    assert answer.status_code == 503


def test_lease_that_expired_goes_to_another_node_with_the_same_slot(office: Office) -> None:
    office.stake("walter")
    office.step(0, slots=1)
    first = office.client("wendy").lease(1).leases[0].lease()
    office.pass_seconds(TERMS.lease_seconds - 1)
    assert office.client("walter").lease(1).leases == []
    office.pass_seconds(1)
    second = office.client("walter").lease(1).leases[0].lease()
    assert second.slot == first.slot
    assert second.valid_from >= first.valid_until


def test_lease_is_not_reissued_by_the_servers_clock_alone(office: Office) -> None:
    office.stake("walter")
    office.step(0, slots=1)
    office.client("wendy").lease(1)
    office.server_offset_s += 10_000
    office.see()
    assert office.client("walter").lease(1).leases == []


def test_lease_is_not_reissued_by_pool_time_alone(office: Office) -> None:
    office.stake("walter")
    office.step(0, slots=1)
    office.client("wendy").lease(1)
    office.see(office.pool_time + TERMS.lease_seconds)
    assert office.client("walter").lease(1).leases == []


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"count":0}', b'{"count":65}', b'{"count":"1"}', b'{"n":1}'])
def test_lease_request_of_wrong_form_is_unprocessable(office: Office, body: bytes) -> None:
    answer = office.send("wendy", "POST", "/v1/leases", body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"


def test_lease_of_one_slot_by_fifty_at_once_goes_to_exactly_one(office: Office) -> None:
    """A2: no slot is leased twice, nobody sees an error."""
    office.step(0, slots=1)
    names = [f"racer {index}" for index in range(50)]
    for name in names:
        office.stake(name)
    barrier = threading.Barrier(len(names))
    body = LeasesIn(count=1).model_dump_json().encode()
    requests = {name: office.headers(name, "POST", "/v1/leases", body) for name in names}

    def ask(name: str) -> httpx.Response:
        barrier.wait()
        return httpx.post(f"{office.url}/v1/leases", content=body, headers=requests[name], timeout=60)

    with ThreadPoolExecutor(len(names)) as pool:
        answers = list(pool.map(ask, names))
    assert {answer.status_code for answer in answers} == {200}
    assert sum(len(answer.json()["leases"]) for answer in answers) == 1
    assert office.store.read(lambda session: session.scalar(select(func.count()).select_from(LeaseRow))) == 1


def test_leases_of_many_slots_by_two_processes_at_once_are_each_given_once(office: Office) -> None:
    """A2 with two servers on one database."""
    office.step(0, slots=24)
    second = Office(office.folder)
    second.open()
    try:
        names = [f"racer {index}" for index in range(12)]
        for name in names:
            office.stake(name)
        barrier = threading.Barrier(len(names))

        def loop(index: int) -> list[int]:
            server, found = (office, second)[index % 2], []
            barrier.wait()
            for count in (1, 2, 3):
                body = LeasesIn(count=count).model_dump_json().encode()
                answer = server.send(names[index], "POST", "/v1/leases", body)
                assert answer.status_code == 200, answer.text
                found = [lease["slot"] for lease in answer.json()["leases"]]
            return found

        with ThreadPoolExecutor(len(names)) as pool:
            slots = [slot for found in pool.map(loop, range(len(names))) for slot in found]
    finally:
        second.close()
    assert len(slots) == len(set(slots)) == 24


# Leaves


def test_submission_gets_a_receipt_and_the_same_again_the_same_receipt(office: Office) -> None:
    lease = office.client("wendy").lease(1).leases[0]
    submission = office.submit("wendy", lease, b"group")
    receipt = office.client("wendy").submit(submission)
    assert receipt.received_at == office.pool_time
    office.pass_seconds(5)
    assert office.client("wendy").submit(submission) == receipt


def test_submission_of_another_leaf_for_the_same_lease_is_refused(office: Office) -> None:
    lease = office.client("wendy").lease(1).leases[0]
    office.client("wendy").submit(office.submit("wendy", lease, b"group"))
    with pytest.raises(Refused) as refused:
        office.client("wendy").submit(office.submit("wendy", lease, b"a nicer group"))
    assert refused.value.status == 409


def test_submission_frees_the_nodes_allowance(office: Office) -> None:
    first = office.client("wendy").lease(1).leases[0]
    office.client("wendy").submit(office.submit("wendy", first, b"group"))
    assert office.client("wendy").lease(1).leases[0].slot != first.slot


def test_submission_after_the_lease_ended_is_refused(office: Office) -> None:
    """A5: the frozen worker wakes up too late; what the second one sent stands."""
    office.stake("walter")
    office.step(0, slots=1)
    late = office.client("wendy").lease(1).leases[0]
    office.pass_seconds(TERMS.lease_seconds)
    deliver(office, "walter")
    with pytest.raises(Refused) as refused:
        office.client("wendy").submit(office.submit("wendy", late, b"late group"))
    assert refused.value.status == 409
    assert "leased anew" in refused.value.reason
    nodes = office.store.read(lambda session: session.scalars(select(SubmissionRow.node)).all())
    assert list(nodes) == [address_of("walter")]


def test_submission_after_the_lease_ended_is_refused_though_nobody_else_took_the_slot(office: Office) -> None:
    late = office.client("wendy").lease(1).leases[0]
    office.pass_seconds(TERMS.lease_seconds)
    with pytest.raises(Refused, match="lease ended") as refused:
        office.client("wendy").submit(office.submit("wendy", late, b"late group"))
    assert refused.value.status == 409


def test_submission_to_a_step_that_no_longer_collects_is_refused(office: Office) -> None:
    lease = office.client("wendy").lease(1).leases[0]
    office.step(phase=Phase.COMMITTED)
    with pytest.raises(Refused, match="takes no more leaves"):
        office.client("wendy").submit(office.submit("wendy", lease, b"group"))


def test_submission_for_anothers_lease_is_refused(office: Office) -> None:
    office.stake("walter")
    lease = office.client("wendy").lease(1).leases[0]
    with pytest.raises(Refused) as refused:
        office.client("walter").submit(office.submit("walter", lease, b"stolen"))
    assert refused.value.status == 403


def test_submission_for_a_forged_lease_is_refused(office: Office) -> None:
    lease = office.client("wendy").lease(1).leases[0]
    forged = lease.model_copy(update={"slot": (lease.slot + 1) % 8})
    with pytest.raises(Refused, match="no lease"):
        office.client("wendy").submit(office.submit("wendy", forged, b"group"))


@pytest.mark.parametrize("units", [0, TERMS.max_units + 1])
def test_submission_with_impossible_units_is_unprocessable(office: Office, units: int) -> None:
    lease = office.client("wendy").lease(1).leases[0]
    with pytest.raises(Refused) as refused:
        office.client("wendy").submit(office.submit("wendy", lease, b"group", units))
    assert refused.value.status == 422


@pytest.mark.parametrize(
    "changes",
    [
        {"slot": 99},
        {"step": 5},
        {"pool": 8},
        {"provider": address_of("walter")},
        {"lease_hash": "0x" + "11" * 32},
        {"signature": "0x" + "11" * 64 + "1b"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_submission_that_does_not_fit_its_lease_is_unprocessable(office: Office, changes: dict[str, object]) -> None:
    lease = office.client("wendy").lease(1).leases[0]
    honest = office.submit("wendy", lease, b"group")
    bent = honest.model_copy(update={"submission": honest.submission.model_copy(update=changes)})
    with pytest.raises(Refused) as refused:
        office.client("wendy").submit(bent)
    assert refused.value.status == 422


def test_submission_with_a_wrong_checksum_is_unprocessable(office: Office) -> None:
    lease = office.client("wendy").lease(1).leases[0]
    text = office.submit("wendy", lease, b"group").model_dump_json()
    bent = text.replace(address_of("wendy"), "0x" + address_of("wendy")[2:].swapcase()).encode()
    assert office.send("wendy", "POST", "/v1/submissions", bent).status_code == 422


# Files


def test_submission_file_makes_the_round_trip(office: Office) -> None:
    data = deliver(office, data=bytes(range(256)) * 1000)
    assert office.client().submission_file(content_hash(data)) == data
    step = office.client().step(0)
    assert (step.leased, step.received, step.uploaded) == (1, 1, 1)


def test_submission_file_can_be_read_in_ranges(office: Office) -> None:
    data = deliver(office, data=bytes(range(256)) * 10)
    url = f"{office.url}/v1/submissions/{to_hex(content_hash(data))}"
    part = httpx.get(url, headers={"range": "bytes=100-199"})
    assert (part.status_code, part.content) == (206, data[100:200])
    assert part.headers["content-range"] == f"bytes 100-199/{len(data)}"
    assert httpx.get(url, headers={"range": f"bytes={len(data)}-"}).status_code == 416
    rest = httpx.get(url, headers={"range": "bytes=100-", "if-range": part.headers["etag"]})
    assert (rest.status_code, rest.content) == (206, data[100:])


def test_upload_twice_is_harmless(office: Office) -> None:
    data = deliver(office)
    office.client("wendy").upload_submission(data)
    assert office.client().step(0).uploaded == 1


def test_upload_without_a_receipt_is_refused(office: Office) -> None:
    with pytest.raises(Refused) as refused:
        office.client("wendy").upload_submission(b"unasked")
    assert refused.value.status == 403


def test_upload_of_anothers_leaf_is_refused(office: Office) -> None:
    office.stake("walter")
    lease = office.client("wendy").lease(1).leases[0]
    office.client("wendy").submit(office.submit("wendy", lease, b"group"))
    with pytest.raises(Refused) as refused:
        office.client("walter").upload_submission(b"group")
    assert refused.value.status == 403


def test_upload_to_the_name_of_other_bytes_is_unprocessable(office: Office) -> None:
    lease = office.client("wendy").lease(1).leases[0]
    office.client("wendy").submit(office.submit("wendy", lease, b"promised"))
    path = f"/v1/submissions/{to_hex(content_hash(b'promised'))}"
    assert office.send("wendy", "PUT", path, b"other").status_code == 422
    with pytest.raises(Unavailable):
        office.client().submission_file(content_hash(b"promised"))
    assert list((office.folder / "files" / "incoming").iterdir()) == []


def test_upload_after_its_time_is_refused_and_the_slot_is_leased_anew(office: Office) -> None:
    office.step(0, slots=1)
    lease = office.client("wendy").lease(1).leases[0]
    office.client("wendy").submit(office.submit("wendy", lease, b"group"))
    office.pass_seconds(TERMS.lease_seconds)
    with pytest.raises(Refused) as refused:
        office.client("wendy").upload_submission(b"group")
    assert refused.value.status == 409
    assert office.client("wendy").lease(1).leases[0].valid_from == office.pool_time


def test_late_bytes_and_leaves_stay_refused_when_pool_time_goes_back(office: Office) -> None:
    """A re-organisation sets chain time back; a slot that was leased anew is not two workers' for that."""
    office.stake("walter")
    office.step(0, slots=2)
    receipted, silent = office.client("wendy").lease(2).leases
    office.client("wendy").submit(office.submit("wendy", receipted, b"group"))
    office.pass_seconds(TERMS.lease_seconds)
    assert len(office.client("walter").lease(2).leases) == 2
    office.see(office.pool_time - TERMS.lease_seconds)
    with pytest.raises(Refused) as late_bytes:
        office.client("wendy").upload_submission(b"group")
    with pytest.raises(Refused) as late_leaf:
        office.client("wendy").submit(office.submit("wendy", silent, b"other group"))
    assert (late_bytes.value.status, late_leaf.value.status) == (409, 409)


def test_file_that_nobody_sent_is_not_there(office: Office) -> None:
    with pytest.raises(Unavailable):
        office.client().submission_file(Hash(b"x" * 32))


@pytest.mark.parametrize(
    "name", ["..%2f..%2fetc%2fpasswd", "%2e%2e/", "/etc/passwd", "0x..", "x" * 4096, "a%00b", "0x" + "AB" * 32]
)
def test_file_of_a_name_that_is_no_hash_is_refused(office: Office, name: str) -> None:
    """A37."""
    assert httpx.get(f"{office.url}/v1/submissions/{name}").status_code in (400, 404, 422)


# Bodies


@pytest.mark.parametrize("path", ["/v1/heartbeats", "/v1/leases", "/v1/submissions", "/v1/verdicts"])
def test_body_that_says_it_is_too_large_is_refused_before_it_is_read(office: Office, path: str) -> None:
    """A31: an unsigned giant costs one answer."""
    assert raw_status(office, f"POST {path} HTTP/1.1", "content-length: 2147483648") == 413


def raw_status(office: Office, *lines: str) -> int:
    """Send a request's head as it is and return the answer's status."""
    host, port = office.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        raw.sendall("\r\n".join([*lines, "host: x", "", ""]).encode())
        return int(raw.recv(64).split()[1])


@pytest.mark.parametrize("is_signed", [True, False])
def test_body_that_turns_out_too_large_is_refused(office: Office, is_signed: bool) -> None:
    """A31: a body without a length ends at the limit, or at once if nobody of the pool signed it."""
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 64 << 20:
            sent += 1 << 16
            yield b" " * (1 << 16)

    expected = 413 if is_signed else 401
    headers = office.headers("wendy", "POST", "/v1/heartbeats", b"x") if is_signed else {}
    try:
        status = httpx.post(f"{office.url}/v1/heartbeats", content=endless(), headers=headers).status_code
    except httpx.TransportError:
        status = expected  # the server hung up while we were still sending
    assert status == expected
    assert sent < 32 << 20


def test_upload_beyond_the_limit_is_refused(office: Office) -> None:
    lease = office.client("wendy").lease(1).leases[0]
    data = bytes(MAX_SUBMISSION_BYTES + 1)
    office.client("wendy").submit(office.submit("wendy", lease, data))
    path = f"/v1/submissions/{to_hex(content_hash(data))}"
    assert office.send("wendy", "PUT", path, data).status_code == 413
    assert list((office.folder / "files" / "incoming").iterdir()) == []


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "gzip, gzip", "deflate"])
def test_body_with_an_encoding_is_refused(office: Office, encoding: str) -> None:
    headers = office.headers("wendy", "POST", "/v1/heartbeats", b"x") | {"content-encoding": encoding}
    assert httpx.post(f"{office.url}/v1/heartbeats", content=b"x", headers=headers).status_code == 415


@pytest.mark.parametrize("length", ["-1", "1e3", "0x10", "9" * 40])
def test_body_of_senseless_length_is_refused(office: Office, length: str) -> None:
    assert raw_status(office, "POST /v1/heartbeats HTTP/1.1", f"content-length: {length}") in (400, 413)


def test_connections_are_all_returned_after_refusals_and_dropped_uploads(office: Office) -> None:
    """A30."""
    lease = office.client("wendy").lease(1).leases[0]
    data = bytes(1 << 20)
    office.client("wendy").submit(office.submit("wendy", lease, data))
    path = f"/v1/submissions/{to_hex(content_hash(data))}"

    def broken() -> Iterator[bytes]:
        yield data[: 1 << 18]
        raise RuntimeError("unplugged")

    for _ in range(60):
        headers = office.headers("wendy", "PUT", path, data)
        with pytest.raises(RuntimeError):
            httpx.put(office.url + path, content=broken(), headers=headers)
    office.client("wendy").upload_submission(data)
    assert office.store.engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    assert list((office.folder / "files" / "incoming").iterdir()) == []


def test_answer_to_a_broken_message_names_the_field(office: Office) -> None:
    answer = office.send("wendy", "POST", "/v1/leases", b'{"count": 1, "colour": "red"}')
    assert answer.status_code == 422
    assert "colour" in answer.json()["detail"]
