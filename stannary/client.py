"""A coordinator seen from a role: typed calls over HTTP, signed where the coordinator wants to know who asks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import httpx
from blake3 import blake3
from eth_account.signers.local import LocalAccount

from stannary import wire
from stannary.deadline import bounded, within
from stannary.documents import document_hash, parse_document
from stannary.errors import Malformed, Refused, Unavailable, Unreachable
from stannary.rollout import MAX_SUBMISSION_BYTES, content_hash
from stannary.signing import body_hash, sign_request
from stannary.structs import Domain, Receipt
from stannary.types import Address, Hash, to_hex

MAX_ANSWER_BYTES = 32 << 20
"""Of what has no limit of its own. A full panel's verdicts on a full step, 15 on each of 4112 slots, are 27 MB at most.

A step on which more nodes than that have published has no list that fits here: it is Malformed, which judges nobody.
"""
_READ_BYTES = 1 << 20
M = TypeVar("M", bound=wire.Message)


class CoordinatorClient:
    """Calls to one coordinator; `coordinator` is the address that the pool names on chain, which signs its answers."""

    def __init__(
        self,
        base_url: str,
        domain: Domain,
        coordinator: Address,
        account: LocalAccount | None = None,
        *,
        timeout_s: float = 30.0,
    ) -> None:
        """Let each call end after `timeout_s`, and the time that the bytes it moves take on a slow line."""
        self.base_url = base_url.rstrip("/")
        self.domain = domain
        self.coordinator = coordinator
        self.account = account
        self._timeout_s = timeout_s
        self._http = bounded(httpx.Client(base_url=self.base_url, timeout=timeout_s))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def health(self) -> wire.HealthOut:
        """Ask what the coordinator is and waits for."""
        return self._parse(wire.HealthOut, self._get("/v1/health"))

    def document(self, expected: Hash) -> dict[str, object]:
        """Fetch a document and check it against its hash. Raises: Malformed if it is another one."""
        document = parse_document(self._get(f"/v1/documents/{to_hex(expected)}"))
        if document_hash(document) != expected:
            raise Malformed("document", expected=to_hex(expected), got=to_hex(document_hash(document)))
        return document

    def heartbeat(self, beat: wire.HeartbeatIn) -> None:
        """Give a sign of life."""
        self._send("POST", "/v1/heartbeats", beat)

    def lease(self, count: int) -> wire.LeasesOut:
        """Ask for up to `count` slots. Leases come back checked against the coordinator's signature."""
        answer = self._parse(wire.LeasesOut, self._send("POST", "/v1/leases", wire.LeasesIn(count=count)))
        for message in answer.leases:
            message.lease().require_signer(bytes.fromhex(message.signature[2:]), self.domain, self.coordinator)
        return answer

    def submit(self, submission: wire.SubmissionIn) -> Receipt:
        """Send a leaf; returns the receipt, checked against the coordinator's signature."""
        answer = self._parse(wire.ReceiptOut, self._send("POST", "/v1/submissions", submission))
        receipt = answer.receipt()
        receipt.require_signer(bytes.fromhex(answer.signature[2:]), self.domain, self.coordinator)
        if receipt.leaf_hash != submission.submission.submission().struct_hash():
            raise Malformed("receipt", expected="the leaf that was sent", got=answer.leaf_hash)
        return receipt

    def upload_submission(self, data: bytes) -> None:
        """Upload the bytes of a leaf for which there is a receipt."""
        self._put(f"/v1/submissions/{to_hex(content_hash(data))}", data)

    def submission_file(self, expected: Hash) -> bytes:
        """Download a submission file, checked against its hash. Raises: Malformed, Unavailable, Refused."""
        data = self._get(f"/v1/submissions/{to_hex(expected)}", limit_bytes=MAX_SUBMISSION_BYTES)
        if content_hash(data) != expected:
            raise Malformed("submission file", expected=to_hex(expected), got=to_hex(content_hash(data)))
        return data

    def steps(self) -> wire.StepsOut:
        """List the newest steps."""
        return self._parse(wire.StepsOut, self._get("/v1/steps"))

    def step(self, step: int) -> wire.StepOut:
        """Show one step."""
        return self._parse(wire.StepOut, self._get(f"/v1/steps/{step}"))

    def leaves(self, step: int) -> wire.LeavesOut:
        """List the leaves of a committed step, in slot order; the caller checks root and pay table on chain."""
        return self._parse(wire.LeavesOut, self._get(f"/v1/steps/{step}/leaves"))

    def post_verdicts(self, verdicts: wire.VerdictsIn) -> None:
        """Publish verdicts."""
        self._send("POST", "/v1/verdicts", verdicts)

    def verdicts(self, step: int) -> wire.VerdictsOut:
        """Read the verdicts on a step."""
        return self._parse(wire.VerdictsOut, self._get(f"/v1/steps/{step}/verdicts"))

    def put_evidence(self, evidence_root: Hash, data: bytes) -> None:
        """Publish a validator's evidence file for a step."""
        self._put(f"/v1/evidence/{to_hex(evidence_root)}", data)

    def evidence(self, evidence_root: Hash) -> bytes:
        """Read an evidence file; the caller checks it against the root that was voted."""
        return self._get(f"/v1/evidence/{to_hex(evidence_root)}")

    def put_weights(self, policy_step: int, name: str, path: Path) -> None:
        """Upload one file of a policy step (`manifest.json` or `files/…`), streamed."""
        hasher = blake3()
        for block in _blocks(path):
            hasher.update(block)
        self._request(
            "PUT",
            f"/v1/weights/{policy_step}/{name}",
            content=_blocks(path),
            body=Hash(hasher.digest()),
            content_length=path.stat().st_size,
        )

    def nodes(self) -> wire.NodesOut:
        """List the nodes that the coordinator has heard of."""
        return self._parse(wire.NodesOut, self._get("/v1/nodes"))

    def _get(self, path: str, limit_bytes: int = MAX_ANSWER_BYTES) -> bytes:
        return self._request("GET", path, limit_bytes=limit_bytes)

    def _send(self, method: str, path: str, message: wire.Message) -> bytes:
        data = message.model_dump_json().encode()
        return self._request(method, path, content=data, body=body_hash(data), content_type="application/json")

    def _put(self, path: str, data: bytes) -> None:
        self._request("PUT", path, content=data, body=body_hash(data))

    def _request(
        self,
        method: str,
        path: str,
        *,
        content: bytes | Iterator[bytes] | None = None,
        body: Hash | None = None,
        content_type: str = "application/octet-stream",
        content_length: int | None = None,
        limit_bytes: int = MAX_ANSWER_BYTES,
    ) -> bytes:
        headers = {"accept-encoding": "identity"}
        if body is not None:
            if self.account is None:
                raise Malformed("account", expected="a key to sign the request with", got=None)
            headers |= sign_request(
                self.account,
                self.domain,
                self.coordinator,
                method=method,
                path=path,
                query="",
                body=body,
                time_s=int(time.time()),
            )
            headers["content-type"] = content_type
        if content_length is not None:
            headers["content-length"] = str(content_length)
        sent = content_length or (len(content) if isinstance(content, bytes) else 0)
        try:
            with (
                within(self._timeout_s, sent + limit_bytes),
                self._http.stream(method, path, content=content, headers=headers) as response,
            ):
                answer = bytearray()
                # Raw bytes: a content encoding would let a small answer grow without bound.
                for block in response.iter_raw(_READ_BYTES):
                    answer += block
                    if len(answer) > limit_bytes:
                        raise Malformed(path, expected=f"at most {limit_bytes} bytes", got=f"more than {limit_bytes}")
        except httpx.HTTPError as error:
            raise Unreachable(f"coordinator {self.base_url}: {type(error).__name__}: {error}") from error
        if response.status_code >= 500:
            raise Unreachable(f"coordinator {self.base_url} answered {response.status_code} to {method} {path}")
        if response.status_code == 404:
            raise Unavailable(f"coordinator {self.base_url} does not hold {path}")
        if not response.is_success:  # a redirect too: what was sent there has arrived nowhere
            raise Refused(f"{method} {path}", status=response.status_code, reason=_reason(bytes(answer)))
        return bytes(answer)

    def _parse(self, kind: type[M], data: bytes) -> M:
        try:
            return kind.read(data)
        except ValueError as error:
            raise Malformed(kind.__name__, expected="the message of stannary.wire", got=str(error)) from error


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            yield block


def _reason(answer: bytes) -> str:
    try:
        return wire.ProblemOut.read(answer).detail
    except ValueError:
        return answer[:200].decode(errors="replace")
