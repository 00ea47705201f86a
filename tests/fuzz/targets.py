"""The parsers that a stranger's bytes reach, each with samples of our own writers and the errors it documents.

Where what was parsed is read on at once (a signature of a message, a proof of a file), that is part of the target.
"""

from __future__ import annotations

import json
import socket
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import numpy as np
from eth_abi.abi import encode
from eth_account import Account
from eth_utils.crypto import keccak
from tokenizers import Tokenizer, models

from coordinator.auth import Caller, SignedCall
from coordinator.routes.weights import ChunkCheck
from coordinator.routes.work import check_leaf
from stannary import wire
from stannary.accusation import Accusation
from stannary.cards import Card
from stannary.chain import events
from stannary.chain.names import SUBMISSION_LEDGER
from stannary.chain.reverts import decode_revert
from stannary.client import MAX_ANSWER_BYTES, CoordinatorClient, _reason
from stannary.commands.provider import _deadline, _read_consent, _signature
from stannary.documents import canonical, parse_document
from stannary.e_process import PARTS
from stannary.environments import describe_environment, load_environment
from stannary.environments.sieve import CLASSES, SYMBOLS, Sieve
from stannary.errors import (
    BadSignature,
    Malformed,
    OperatorError,
    PeerError,
    PolicyError,
    ProofError,
    SettingsError,
    Unavailable,
    Unreachable,
)
from stannary.evidence import EvidenceFile, LeafEvidence, Measure
from stannary.rollout import MAX_SUBMISSION_BYTES, Rollout, decode_group, encode_group
from stannary.shardcast.fetch import fetch as fetch_policy
from stannary.shardcast.folder import describe_config
from stannary.shardcast.manifest import CHUNK_BYTES, File, Manifest, describe_folder, parse_manifest
from stannary.shardcast.safetensors import MAX_HEADER_BYTES, require_bf16_finite
from stannary.signing import (
    ADDRESS_HEADER,
    BODY_HEADER,
    NONCE_HEADER,
    SIGNATURE_HEADER,
    TIME_HEADER,
    body_hash,
    verify_request,
)
from stannary.slots import PayTable, submission_root
from stannary.standing import ScoredLeaf
from stannary.structs import Domain, Lease, NodeConsent, Receipt, Request, Submission, Verdict, recover
from stannary.toploc.proof import PRIME, TOP_K, Proof, parse
from stannary.types import Hash, Outcome, Reason, parse_address, parse_hash, to_hex
from stannary.verdict import pack_outcomes, unpack_outcomes
from tests.fuzz.engine import GROWTH_BYTES, Target
from tests.fuzz.parquet import bombs as parquet_bombs
from tests.fuzz.parquet import variants as parquet_variants
from validator.fetching import fetch as fetch_url

SOURCE = "tests.fuzz.targets:all_targets"
BOMBS_SOURCE = "tests.fuzz.targets:small_bombs"
GROUP_SIZE = 4
_ACCOUNT = Account.from_key(b"\x11" * 32)
_OTHER = Account.from_key(b"\x22" * 32)
_NODE, _PROVIDER = parse_address(_ACCOUNT.address), parse_address(_OTHER.address)
_DOMAIN = Domain(31337, parse_address("0x" + "ab" * 20))
_NOW_S = 1_800_000_000
_STEP_SLOTS = 4
_LARGE_JSON_BYTES = 960 << 20
"""What JSON of some 32 MiB may take as Python's values: empty lists and objects take the most, some 60 bytes for 3."""
_CARDS = Path(__file__).resolve().parents[2] / "validator" / "cards"


@cache
def all_targets() -> Mapping[str, Target]:
    """Return every target by its name."""
    return {target.name: target for target in (*_files(), *_messages(), *_signatures(), *_policies(), *_chain())}


def small_bombs() -> Mapping[str, Target]:
    """Return the submission alone with bombs of a quarter of its limit, and a limit of memory to match."""
    target = all_targets()["submission"]
    limit_bytes = MAX_SUBMISSION_BYTES // 4
    return {target.name: replace(target, bombs=lambda: parquet_bombs(GROUP_SIZE, limit_bytes), growth_bytes=64 << 20)}


@cache
def _folder() -> Path:
    """Return a folder in memory where there is one, for parsers that read files; it goes with this process."""
    shm = Path("/dev/shm")
    kept = tempfile.TemporaryDirectory(prefix="stannary-fuzz-", dir=shm if shm.is_dir() else None)
    _KEPT.append(kept)
    return Path(kept.name)


_KEPT: list[tempfile.TemporaryDirectory[str]] = []
"""Removed when the process ends."""


# -- files


def _files() -> Iterator[Target]:
    rng = np.random.default_rng(1)
    proofs = tuple(
        Proof(modulus, rng.integers(0, PRIME, TOP_K, dtype=np.uint32)).to_bytes() for modulus in (32769, 40000, PRIME)
    )
    yield Target("proof", parse, (ProofError,), proofs, weight=8)
    group = [Rollout((1, 2, 3), tuple(range(40 + n)), proofs[:2]) for n in range(GROUP_SIZE)]
    yield Target(
        "submission",
        _submission,
        (Malformed, ProofError),
        (
            encode_group(group),
            encode_group([Rollout((), (), ())] * GROUP_SIZE),
            encode_group([Rollout((2**31 - 1, -(2**31)), (0,) * 700, proofs[:1] * 22)] * GROUP_SIZE),
            encode_group(group[:2]),
            *parquet_variants(group, GROUP_SIZE),
        ),
        kind="parquet",
        weight=6,
        bombs=lambda: parquet_bombs(GROUP_SIZE, MAX_SUBMISSION_BYTES),
        growth_bytes=256 << 20,
    )
    yield Target(
        "document",
        parse_document,
        (Malformed,),
        (canonical({"a": [1, 2.5, None, True, "é"], "b": {"c": {}}}), b"{}", *_cards()),
        kind="json",
        weight=3,
        bombs=lambda: _json_bombs(1 << 20, b"", b""),
    )
    yield Target("card", _card, (Malformed,), _cards(), kind="json", weight=3, bombs=lambda: _card_bombs())
    yield Target(
        "evidence",
        lambda data: EvidenceFile.parse(data).root(),
        (Malformed,),
        tuple(_evidence(count) for count in (1, 3, 0)),
        kind="json",
        weight=3,
        bombs=lambda: [*_json_bombs(16 << 20, b"", b""), *_inside(_evidence(1), "leaves", 16 << 20), _evidence(20_000)],
    )
    yield Target(
        "accusation",
        lambda data: Accusation.parse(data).evidence_hash(),
        (Malformed,),
        tuple(_accusation(count) for count in (1, 3)),
        kind="json",
        weight=2,
        bombs=lambda: [*_json_bombs(1 << 20, b"", b""), *_inside(_accusation(1), "leaves", 1 << 20)],
    )
    manifests = (_manifest(1), _manifest(3))
    yield Target(
        "manifest",
        lambda data: parse_manifest(data).policy_root,
        (Malformed,),
        manifests,
        kind="json",
        weight=3,
        bombs=lambda: [*_json_bombs(16 << 20, b"", b""), *_inside(manifests[0], "files", 16 << 20), _manifest(200_000)],
    )
    yield Target("chunks", _chunks, (Malformed,), (bytes(CHUNK_BYTES // 1024), bytes(100)))
    documents = _environments()
    yield Target(
        "environment",
        lambda data: load_environment(parse_document(data), _words()),
        (Malformed, OperatorError, PolicyError),
        documents,
        kind="json",
        weight=2,
    )


def _submission(data: bytes) -> None:
    for rollout in decode_group(data, GROUP_SIZE):
        for proof in rollout.proofs:
            parse(proof)


def _cards() -> tuple[bytes, ...]:
    return tuple(path.read_bytes().strip() for path in sorted(_CARDS.glob("*.json")))


def _card(data: bytes) -> None:
    card = Card.parse(data)
    for tokens in (1, 16, 32):
        card.thresholds.drift_limits(tokens)
        card.thresholds.mean_drift_limits(tokens)
        card.thresholds.sampling_limits(tokens)
    card.evidence.log10(card.evidence.count([(score,) * len(PARTS) for score in (0.0, 1.0, 2.0)]))
    card.hash()


def _card_bombs() -> list[bytes]:
    card = json.loads(_cards()[0])
    return [
        canonical(card | {"measured": {"k" * 500_000: [0] * 200_000}}),
        canonical(card | {"measured": {f"k{n}": [] for n in range(80_000)}}),
    ]


def _evidence(leaves: int) -> bytes:
    found = tuple(
        LeafEvidence(
            Hash(keccak(n.to_bytes(4, "big"))),
            Outcome.ACCEPT,
            Reason.NONE,
            "it is as it should be",
            {"gap": Measure.of(0.25, 3.0), "drift": Measure(None, None)},
            (0.5, 1.0, 0.0),
        )
        for n in range(leaves)
    )
    return EvidenceFile(1, 2, 1, _NODE, Hash(b"\x01" * 32), "transformers fp32 on cpu", found).to_bytes()


def _accusation(leaves: int) -> bytes:
    found = tuple(ScoredLeaf(2, slot, Hash(bytes([slot + 1]) * 32), (1.5, 0.0, 0.25)) for slot in range(leaves))
    return Accusation(1, _PROVIDER, 1, 3, Hash(b"\x01" * 32), found).to_bytes()


def _manifest(chunks: int) -> bytes:
    def file(name: str, size: int) -> File:
        return File(name, size, Hash(keccak(text=name)), tuple(Hash(bytes(32)) for _ in range(-(-size // CHUNK_BYTES))))

    names = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json")
    return Manifest(tuple(file(name, chunks * CHUNK_BYTES if "model" in name else 40) for name in names)).encode()


def _chunks(data: bytes) -> None:
    """Let an upload be checked against the manifest of another, or of itself where it begins with a zero byte."""
    from blake3 import blake3

    own = tuple(Hash(blake3(data[at : at + CHUNK_BYTES]).digest()) for at in range(0, len(data), CHUNK_BYTES))
    chunks = own if data[:1] == b"\0" else (Hash(bytes(32)),)
    check = ChunkCheck(File("x.json", len(data), Hash(bytes(32)), chunks))
    for at in range(0, len(data), 1000):
        check(data[at : at + 1000])
    check.end()


@cache
def _words() -> Path:
    folder = _folder() / "words"
    folder.mkdir(exist_ok=True)
    words = ["<bos>", "<eos>", "<unk>", ":", *CLASSES, *SYMBOLS]
    vocabulary = {word: index for index, word in enumerate(words)}
    Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>")).save(str(folder / "tokenizer.json"))
    return folder


def _environments() -> tuple[bytes, ...]:
    sieve = describe_environment("sieve", {}, _words())
    short = {**sieve, "golden": [], "packages": {}}
    return canonical(sieve), canonical(short)


# -- messages


def _messages() -> Iterator[Target]:
    lease = Lease(1, 2, 2, 0, _PROVIDER, _NODE, _NOW_S, _NOW_S + 60, 4096, Hash(b"\x05" * 32), 1)
    lease_message = wire.LeaseMessage.of(lease, lease.sign(_ACCOUNT, _DOMAIN))
    leaf = Submission(1, 2, 0, _PROVIDER, _NODE, 100, Hash(b"\x06" * 32), lease.struct_hash())
    leaf_message = wire.SubmissionMessage.of(leaf, leaf.sign(_ACCOUNT, _DOMAIN))
    receipt = Receipt(leaf.struct_hash(), _NOW_S)
    verdict = Verdict(1, 2, leaf.struct_hash(), 1, 0, Hash(b"\x07" * 32))
    verdict_message = wire.VerdictMessage.of(verdict, _NODE, verdict.sign(_ACCOUNT, _DOMAIN))
    step = wire.StepOut(
        step=2,
        policy_step=2,
        phase=3,
        slots=4,
        leased=4,
        received=3,
        uploaded=3,
        taken=0,
        leaf_count=3,
        submission_root=to_hex(b"\x08" * 32),
        disputes=[wire.DisputeOut(case_id=1, slot=0, provider=_PROVIDER, kind=0, phase=1, ruling=0)],
    )
    node = wire.NodeOut(
        node=_NODE,
        provider=_PROVIDER,
        engine="vllm",
        state="waiting",
        policy_step=None,
        tokens_per_s=3.5,
        last_seen_at=1.5,
        leased=1,
        received=1,
    )
    health = wire.HealthOut(
        status="ok",
        protocol_version=1,
        chain_id=31337,
        ledger=_PROVIDER,
        pool=1,
        coordinator=_NODE,
        block=7,
        waiting=["the chain"],
    )
    receipt_message = wire.ReceiptOut(
        leaf_hash=to_hex(receipt.leaf_hash),
        received_at=receipt.received_at,
        signature=to_hex(receipt.sign(_ACCOUNT, _DOMAIN)),
    )
    root = to_hex(b"\x09" * 32)
    answers: list[tuple[wire.Message, Callable[[Any], object]]] = [
        (health, lambda _: None),
        (wire.LeasesOut(leases=[lease_message], waiting=None), _signed_leases),
        (receipt_message, _signed_receipt),
        (
            wire.LeavesOut(
                step=2, submission_root=root, leaves=[wire.LeafOut(submission=leaf_message, lease=lease_message)]
            ),
            _read_leaves,
        ),
        (step, lambda _: None),
        (wire.StepsOut(steps=[step, step]), lambda _: None),
        (wire.VerdictsOut(step=2, verdicts=[verdict_message]), _signed_verdicts),
        (wire.NodesOut(nodes=[node]), lambda _: None),
        (wire.ProblemOut(title="Conflict", detail="no more leaves", status=409), lambda _: None),
    ]
    for sample, use in answers:
        yield _answer(sample, use)
    yield Target("refusal", _reason, (), (_json(answers[-1][0]), b"<html>"), kind="json")
    bodies: list[tuple[wire.Message, Callable[[Any], object], int]] = [
        (wire.HeartbeatIn(engine="vllm", state="waiting", policy_step=1, tokens_per_s=2.0), lambda _: None, 4 << 10),
        (wire.LeasesIn(count=4), lambda _: None, 4 << 10),
        (wire.SubmissionIn(submission=leaf_message, lease=lease_message), _signed_submission, 16 << 10),
        (wire.VerdictsIn(verdicts=[verdict_message] * 2), _signed_verdicts, 4 << 20),
    ]
    for sample, use, limit_bytes in bodies:
        yield _body(sample, use, limit_bytes)


def _json(message: wire.Message) -> bytes:
    return message.model_dump_json().encode()


def _answer(sample: wire.Message, use: Callable[[Any], object]) -> Target:
    kind = type(sample)

    def run(data: bytes) -> None:
        use(_client()._parse(kind, data))

    return Target(
        f"answer-{kind.__name__}",
        run,
        (Malformed, BadSignature),
        (_json(sample),),
        kind="json",
        bombs=lambda: _message_bombs(sample, MAX_ANSWER_BYTES) if kind is wire.LeavesOut else (),
        growth_bytes=_LARGE_JSON_BYTES if kind is wire.LeavesOut else GROWTH_BYTES,
    )


def _body(sample: wire.Message, use: Callable[[Any], object], limit_bytes: int) -> Target:
    kind = type(sample)

    def run(data: bytes) -> None:
        use(SignedCall(Caller(_NODE, _PROVIDER), data).parse(kind))

    return Target(
        f"body-{kind.__name__}",
        run,
        (Malformed, BadSignature),
        (_json(sample),),
        kind="json",
        bombs=lambda: _message_bombs(sample, limit_bytes),
    )


@cache
def _client() -> CoordinatorClient:
    return CoordinatorClient("http://127.0.0.1:9", _DOMAIN, _NODE)


def _signed_leases(answer: wire.LeasesOut) -> None:
    for message in answer.leases:
        message.lease().require_signer(bytes.fromhex(message.signature[2:]), _DOMAIN, _NODE)


def _signed_receipt(answer: wire.ReceiptOut) -> None:
    answer.receipt().require_signer(bytes.fromhex(answer.signature[2:]), _DOMAIN, _NODE)


def _read_leaves(answer: wire.LeavesOut) -> None:
    leaves = [message.submission.submission() for message in answer.leaves]
    for message in answer.leaves:
        message.lease.lease().struct_hash()
    submission_root(leaves, _STEP_SLOTS)
    PayTable.of(leaves, _STEP_SLOTS, 4096).entries(_STEP_SLOTS)


def _signed_verdicts(message: wire.VerdictsIn | wire.VerdictsOut) -> None:
    for one in message.verdicts[:2]:
        one.verdict().require_signer(bytes.fromhex(one.signature[2:]), _DOMAIN, _NODE)


def _signed_submission(message: wire.SubmissionIn) -> None:
    leaf, lease = message.submission.submission(), message.lease.lease()
    check_leaf(leaf, lease)
    leaf.require_signer(bytes.fromhex(message.submission.signature[2:]), _DOMAIN, lease.node)


# -- signatures


def _signatures() -> Iterator[Target]:
    digest = bytes(range(32))
    signature = bytes(_ACCOUNT.unsafe_sign_hash(digest).signature)
    yield Target(
        "signature",
        lambda data: recover(digest, data),
        (Malformed,),
        (signature, bytes(64) + b"\x1b", b"\xff" * 32 + bytes(31) + b"\x01\x1c"),
        weight=2,
    )
    yield Target("request", _request, (Malformed, BadSignature), (_headers("/v1/leases"), _headers("/v1/evidence")))
    consent = NodeConsent(_NODE, _PROVIDER, _NOW_S)
    document = {
        "node": _NODE,
        "provider": _PROVIDER,
        "deadline": _NOW_S,
        "signature": to_hex(consent.sign(_ACCOUNT, _DOMAIN)),
    }
    yield Target("consent", _consent, (SettingsError, Malformed), (json.dumps(document).encode(),), kind="json")
    yield Target(
        "outcomes",
        lambda data: unpack_outcomes(data[2:], int.from_bytes(data[:2], "big")),
        (Malformed,),
        tuple(n.to_bytes(2, "big") + pack_outcomes([Outcome(i % 4) for i in range(n)]) for n in (0, 1, 5, 64)),
    )


def _headers(path: str) -> bytes:
    nonce = "0123456789abcdef" * 2
    signature = Request("POST", path, "", body_hash(b""), _NOW_S, nonce, _NODE).sign(_ACCOUNT, _DOMAIN)
    headers = {
        ADDRESS_HEADER: _NODE,
        TIME_HEADER: str(_NOW_S),
        NONCE_HEADER: nonce,
        BODY_HEADER: to_hex(body_hash(b"")),
        SIGNATURE_HEADER: to_hex(signature),
    }
    return "\n".join(f"{name}: {value}" for name, value in headers.items()).encode()


def _request(data: bytes) -> None:
    """Read a request as a coordinator does: headers come as Latin-1 text, the body's hash first."""
    lines = [line.partition(": ") for line in data.decode("latin-1").split("\n")]
    headers = {name.lower(): value for name, _, value in lines}
    body = parse_hash(headers.get("stannary-body"), "stannary-body")
    verify_request(headers, _DOMAIN, _NODE, method="POST", path="/v1/leases", query="", body=body, now_s=_NOW_S)


def _consent(data: bytes) -> None:
    path = _folder() / "consent.json"
    path.write_bytes(data)
    signed = _read_consent(path)
    node, deadline = parse_address(signed["node"], "node"), _deadline(signed["deadline"])
    NodeConsent(node, _PROVIDER, deadline).signer(_signature(signed["signature"]), _DOMAIN)


# -- policy folders


def _policies() -> Iterator[Target]:
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "vocab_size": 512,
        "max_position_embeddings": 256,
        "rope_scaling": {"factor": 2.0},
        "architectures": ["LlamaForCausalLM"],
    }
    configs = (json.dumps(config).encode(), b"{}")
    ends = (b'{"eos_token_id": 1}', b'{"eos_token_id": [1, 2], "suppress_tokens": [3, 5], "temperature": 0.7}')
    tensors = (
        _safetensors({"a": [2, 3], "b": [5], "c": []}),
        _safetensors({}),
        _safetensors({f"layer.{n}.weight": [4, 4] for n in range(30)}),
    )
    yield Target(
        "safetensors",
        _in_file("model.safetensors", require_bf16_finite),
        (PolicyError,),
        tensors,
        kind="safetensors",
        weight=3,
        bombs=_header_bombs,
        growth_bytes=_LARGE_JSON_BYTES,
    )
    yield Target(
        "config",
        _in_file("config.json", lambda path: describe_config(path.parent)),
        (PolicyError,),
        configs,
        kind="json",
        bombs=lambda: _json_bombs(64 << 20, b"", b""),
    )
    yield Target(
        "shape-config",
        lambda data: _read_shape(data, ends[0]),
        (PolicyError,),
        configs,
        kind="json",
        bombs=lambda: _json_bombs(64 << 20, b'{"vocab_size":', b"}"),
    )
    yield Target(
        "shape-generation",
        lambda data: _read_shape(configs[0], data),
        (PolicyError,),
        ends,
        kind="json",
        bombs=lambda: _json_bombs(64 << 20, b'{"eos_token_id":', b"}"),
    )
    yield Target(
        "tokenizer",
        _in_file("tokenizer.json", lambda path: Sieve({}, path.parent)),
        (PolicyError,),
        (_words().joinpath("tokenizer.json").read_bytes(), _byte_tokenizer()),
        kind="json",
    )
    yield Target(
        "weights",
        _download,
        (PeerError, PolicyError, Unreachable, Unavailable),
        (_published()[0], b"{}"),
        kind="json",
    )


def _in_file(name: str, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    def run(data: bytes) -> object:
        path = _folder() / "policy" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        return read(path)

    return run


def _read_shape(config: bytes, generation: bytes) -> None:
    """Read what a worker and a validator read of a policy folder before they load it."""
    from stannary.token_rules import read_token_rules
    from worker.engine import read_shape

    folder = _folder() / "shape"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_bytes(config)
    (folder / "generation_config.json").write_bytes(generation)
    read_token_rules(folder)
    read_shape(folder)


def _safetensors(shapes: Mapping[str, Sequence[int]]) -> bytes:
    header, at = {}, 0
    for name, shape in shapes.items():
        size = 2 * int(np.prod(shape, dtype=np.int64))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(at)


def _byte_tokenizer() -> bytes:
    return Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")])).to_str().encode()


@cache
def _published() -> tuple[bytes, dict[str, bytes]]:
    """Return the manifest and the files of a small policy."""
    folder = _folder() / "published"
    folder.mkdir(exist_ok=True)
    files = {
        "config.json": b'{"model_type":"llama"}',
        "generation_config.json": b'{"eos_token_id":1}',
        "tokenizer.json": b"{}",
        "model.safetensors": _safetensors({"a": [2, 3]}),
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return describe_folder(folder).encode(), files


def _download(data: bytes) -> None:
    """Fetch a policy step from a source that serves this as its manifest, under the root that it has, if it has one."""
    try:
        root = parse_manifest(data).policy_root
    except Malformed:
        root = parse_manifest(_published()[0]).policy_root

    def answer(request: httpx.Request) -> httpx.Response:
        name = request.url.path.rsplit("/", 1)[-1]
        if name == "manifest.json":
            return httpx.Response(200, content=iter([data]))
        content = _published()[1].get(name, data[:256])
        window = request.headers.get("range", "bytes=0-0")
        headers = {"content-range": f"{window.replace('=', ' ')}/{len(content) if len(data) % 2 else '*'}"}
        return httpx.Response(206 if len(data) % 3 else 200, content=iter([content]), headers=headers)

    folder = _folder() / "fetched" / "policy"
    with httpx.Client(transport=httpx.MockTransport(answer)) as client:
        fetch_policy(["http://source"], root, folder, client=client, max_bytes=1 << 24)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


# -- what strangers write on chain


def _chain() -> Iterator[Target]:
    places = (b"https://example.org/files/1", "http://bücher.example/é?q=1#x".encode(), b"", b"http://[::1]:80/a b")
    yield Target("location", _location, (), places, weight=2)
    yield Target("address", _fetch_url, (Malformed, Unavailable, Unreachable), places)
    reverts = (
        keccak(text="Error(string)")[:4] + encode(["string"], ["not enough"]),
        keccak(text="Panic(uint256)")[:4] + encode(["uint256"], [17]),
        keccak(text="StepNotOpen()")[:4],
        b"",
    )
    yield Target("revert", lambda data: decode_revert("0x" + data.hex(), "reverted"), (), (*reverts, *_declared()))


def _declared() -> list[bytes]:
    import contracts
    from stannary.chain.abi import selector

    items = [item for name in contracts.CONTRACT_NAMES for item in contracts.abi(name) if item["type"] == "error"]
    return [selector(item) + bytes(32 * len(item["inputs"])) for item in items[:12]]


def _location(data: bytes) -> str:
    """Read the event of a delivery whose location is these bytes; the contract takes any."""
    leaf = (1, 2, 0, _PROVIDER, _NODE, 100, bytes(32), bytes(32))
    item = next(item for item in events.event_items(SUBMISSION_LEDGER) if item["name"] == "TakenSlotDelivered")
    values = {"leaf": leaf, "location": data, "signature": b"\x01" * 65}
    stored = [part for part in item["inputs"] if not part["indexed"]]
    indexed = [part for part in item["inputs"] if part["indexed"]]
    body = encode([_as_bytes(part) for part in stored], [values.get(part["name"], 0) for part in stored])
    from stannary.chain.abi import topic

    topics = [topic(item), *[bytes(31) + b"\x01" for _ in indexed]]
    log = {"blockNumber": 1, "blockHash": bytes(32), "logIndex": 0, "transactionHash": bytes(32), "data": body}
    decoder = events._decoders()[SUBMISSION_LEDGER, topics[0]]
    event = decoder.decode(log, topics)
    assert isinstance(event, events.TakenSlotDelivered)
    json.dumps(event.location).encode()
    return event.location


def _as_bytes(part: Mapping[str, Any]) -> str:
    from stannary.chain.abi import type_of

    return "bytes" if part["type"] == "string" else type_of(part)


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def _fetch_url(data: bytes) -> bytes:
    """Ask an address from the chain on a machine that resolves no name."""
    with (
        mock.patch.object(socket, "getaddrinfo", side_effect=socket.gaierror("no network here")),
        mock.patch("httpx._transports.default.create_ssl_context", return_value=_tls()),
    ):
        return fetch_url(data.decode(errors="replace"))


# -- large inputs


def _json_bombs(limit_bytes: int, before: bytes, after: bytes) -> list[bytes]:
    """Return texts at the limit that grow when they are read, or take long."""
    room = limit_bytes - 64 - len(before) - len(after)
    start, end = (before, after) if before else (b'{"a":', b"}")
    return [
        start + middle + end
        for middle in (
            b"[" + b"[]," * (room // 3 - 2) + b"0]",
            b"[" + b"{}," * (room // 3 - 2) + b"0]",
            b"[" + b"0," * (room // 2 - 2) + b"0]",
            b"[" + b"0.5," * (room // 4 - 2) + b"0]",
            b'"' + b"\\u0001" * (room // 6 - 2) + b'"',
            b"[" * (room // 2),
            b"{" + b'"k":' * (room // 4),
            b'{"' + b"k" * (room // 2) + b'":[' + b"0," * (room // 4 - 4) + b"0]}",
            b"[" + b"9" * 4300 + (b"," + b"9" * 4300) * (room // 4301 - 2) + b"]",
        )
    ]


def _inside(sample: bytes, field: str, limit_bytes: int) -> list[bytes]:
    """Return a document with a list that is filled up to the limit with what does not belong there."""
    found = []
    for item in (b"0", b"[]", b"{}", b'""', json.dumps(json.loads(sample)[field][0]).encode()):
        document = json.loads(sample) | {field: "@"}
        text = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
        room = limit_bytes - len(text) - 16
        found.append(text.replace(b'"@"', b"[" + (item + b",") * (room // (len(item) + 1) - 1) + item + b"]"))
    return found


def _message_bombs(sample: wire.Message, limit_bytes: int) -> list[bytes]:
    found = _json_bombs(limit_bytes, b"", b"")
    found.append(b"{" + b",".join(b'"%x":0' % n for n in range(limit_bytes // 12)) + b"}")
    for name, value in json.loads(_json(sample)).items():
        if isinstance(value, list):
            found += _inside(_json(sample), name, limit_bytes)
    return found


def _header_bombs() -> list[bytes]:
    found = list(_json_bombs(MAX_HEADER_BYTES, b"", b""))
    names = b",".join(b'"%x":{"dtype":"BF16","shape":[],"data_offsets":[0,0]}' % n for n in range(250_000))
    found.append(b"{" + names + b"}")
    return [len(header).to_bytes(8, "little") + header for header in found]
