"""stannary.client: what a coordinator's answers may not do to a role."""

from __future__ import annotations

import gzip
import time

import httpx
import pytest
from eth_account import Account

from stannary.client import CoordinatorClient
from stannary.errors import Malformed, Refused, Unreachable
from stannary.rollout import MAX_SUBMISSION_BYTES, content_hash
from stannary.structs import Domain
from stannary.types import parse_address
from tests.dripping import WAYS, dripping, every_way

ADDRESS = parse_address("0x" + "11" * 20)


def client_of(answer: httpx.Response) -> CoordinatorClient:
    client = CoordinatorClient("http://coordinator", Domain(31337, ADDRESS), ADDRESS)
    client._http = httpx.Client(base_url=client.base_url, transport=httpx.MockTransport(lambda _request: answer))
    return client


def test_answer_that_was_compressed_is_not_expanded() -> None:
    data = bytes(MAX_SUBMISSION_BYTES)
    answer = httpx.Response(200, headers={"content-encoding": "gzip"}, stream=httpx.ByteStream(gzip.compress(data)))
    with pytest.raises(Malformed, match="submission file"):
        client_of(answer).submission_file(content_hash(data))


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirect_is_no_success(status: int) -> None:
    answer = httpx.Response(status, headers={"location": "https://elsewhere/"}, stream=httpx.ByteStream(b""))
    with pytest.raises(Refused):
        client_of(answer).evidence(content_hash(b""))


@every_way
def test_answer_without_an_end_is_cut_off_at_the_deadline(way: str) -> None:
    with dripping(*WAYS[way]) as host:
        client = CoordinatorClient(f"http://{host}", Domain(31337, ADDRESS), ADDRESS, timeout_s=0.6)
        begun = time.monotonic()
        with client, pytest.raises(Unreachable):
            client.submission_file(content_hash(b""))
        assert time.monotonic() - begun < 2.5


def test_upload_that_nobody_takes_is_cut_off_at_the_deadline() -> None:
    account = Account.from_key("0x" + "01" * 32)
    with dripping(*WAYS["early hints"]) as host:
        client = CoordinatorClient(f"http://{host}", Domain(31337, ADDRESS), ADDRESS, account, timeout_s=0.6)
        begun = time.monotonic()
        with client, pytest.raises(Unreachable):
            client.upload_submission(b"bytes")
        assert time.monotonic() - begun < 2.5
