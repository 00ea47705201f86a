"""Downloads from honest and dishonest sources."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stannary.errors import PolicyError, StannaryError, Unavailable, Unreachable
from stannary.shardcast import SourceLied, describe_folder, fetch, publish, weights_url
from stannary.shardcast.manifest import CHUNK_BYTES
from stannary.types import Hash
from tests.dripping import WAYS, dripping, every_way
from tests.stannary.shardcast.conftest import Answer, Source, honest

WEIGHTS = "/v1/weights/0/files/model.safetensors"


@pytest.fixture
def published(policy: Path, tmp_path: Path) -> tuple[Path, Hash]:
    """A published policy and its root."""
    return tmp_path / "out", publish(policy, tmp_path / "out").policy_root


def test_fetch_from_honest_source_gives_same_root_and_leaves_no_partial(
    published: tuple[Path, Hash], tmp_path: Path, serve: Callable[..., Source]
) -> None:
    out, root = published
    got = fetch([serve(out).url], root, tmp_path / "got" / "policy")
    assert describe_folder(got).policy_root == root
    assert [path.name for path in got.parent.iterdir()] == ["policy"]


def test_fetch_of_held_folder_asks_nobody(
    published: tuple[Path, Hash], tmp_path: Path, serve: Callable[..., Source]
) -> None:
    out, root = published
    source = serve(out)
    fetch([source.url], root, tmp_path / "got")
    asked = len(source.requests)
    fetch([source.url], root, tmp_path / "got")
    assert len(source.requests) == asked


def test_fetch_replaces_folder_with_other_content(
    published: tuple[Path, Hash], tmp_path: Path, serve: Callable[..., Source]
) -> None:
    out, root = published
    (tmp_path / "got").mkdir()
    (tmp_path / "got" / "stale.json").write_text("{}")
    got = fetch([serve(out).url], root, tmp_path / "got")
    assert describe_folder(got).policy_root == root


def test_fetch_interrupted_resumes_without_repeating_chunks(
    published: tuple[Path, Hash], tmp_path: Path, serve: Callable[..., Source]
) -> None:
    out, root = published

    def two_chunks(path: str, window: str | None) -> Answer | None:
        if path != WEIGHTS:
            return None
        return cut(out, path, window, 2 * CHUNK_BYTES) if window == f"bytes=0-{FILE_BYTES - 1}" else (503, {}, b"")

    partly = serve(out, two_chunks)
    with pytest.raises(Unreachable):
        fetch([partly.url], root, tmp_path / "got")
    assert not (tmp_path / "got").exists()
    source = serve(out)
    fetch([source.url], root, tmp_path / "got")
    windows = [window for path, window in source.requests if path == WEIGHTS]
    assert [int(window.removeprefix("bytes=").split("-")[0]) for window in windows if window] == [2 * CHUNK_BYTES]


@pytest.mark.parametrize("kind", ["whole", "from_zero", "short", "unsatisfiable"])
def test_a18_resume_against_odd_range_answers_gives_right_bytes(
    kind: str, published: tuple[Path, Hash], tmp_path: Path, serve: Callable[..., Source]
) -> None:
    out, root = published
    partial = tmp_path / f".partial-{root.hex()[:32]}"
    partial.mkdir()
    data = (out / "files" / "model.safetensors").read_bytes()
    (partial / "model.safetensors").write_bytes(data[: CHUNK_BYTES + 99])

    def rule(path: str, window: str | None) -> Answer | None:
        if path != WEIGHTS or window is None:
            return None
        if kind == "whole":
            return 200, {}, data
        if kind == "from_zero":
            return 206, {"content-range": f"bytes 0-{len(data) - 1}/{len(data)}"}, data
        if kind == "short":
            return cut(out, path, window, -1)
        return 416, {}, b""

    got = fetch([serve(out, rule).url], root, tmp_path / "got")
    assert describe_folder(got).policy_root == root


def test_fetch_names_source_that_lied_and_goes_on_with_another(
    published: tuple[Path, Hash], tmp_path: Path, serve: Callable[..., Source], caplog: pytest.LogCaptureFixture
) -> None:
    out, root = published

    def corrupt(path: str, window: str | None) -> Answer | None:
        if path != WEIGHTS:
            return None
        status, headers, body = honest(out, path, window)
        return status, headers, body[:-1] + bytes([body[-1] ^ 1])

    liar, good = serve(out, corrupt), serve(out)
    got = fetch([liar.url, good.url], root, tmp_path / "got")
    assert describe_folder(got).policy_root == root
    assert f"{liar.url} lied: chunk 3 of model.safetensors" in caplog.text
    with pytest.raises(SourceLied, match="lied") as caught:
        fetch([liar.url], root, tmp_path / "again")
    assert caught.value.source == liar.url
    assert not (tmp_path / "again").exists()


def test_fetch_of_manifest_with_other_root_is_refused(
    published: tuple[Path, Hash], tmp_path: Path, serve: Callable[..., Source]
) -> None:
    out, _ = published
    with pytest.raises(SourceLied, match="is on chain"):
        fetch([serve(out).url], Hash(b"\x07" * 32), tmp_path / "got")


@pytest.mark.parametrize(
    "name", ["../escape.json", "..%2f..%2fetc%2fpasswd", "/abs.json", "v1/../../x.json", "a\\u0000.json", "x" * 4096]
)
def test_a37_manifest_with_escaping_name_writes_nothing(
    name: str, published: tuple[Path, Hash], tmp_path: Path, serve: Callable[..., Source]
) -> None:
    out, root = published
    manifest = (out / "manifest.json").read_bytes().replace(b'"config.json"', f'"{name}"'.encode())
    source = serve(out, lambda path, window: (200, {}, manifest) if path.endswith("manifest.json") else None)
    before = sorted(path for path in tmp_path.rglob("*"))
    with pytest.raises(SourceLied):
        fetch([source.url], root, tmp_path / "got" / "policy")
    assert sorted(path for path in tmp_path.rglob("*")) == before


def test_a37_redirect_is_not_followed(
    published: tuple[Path, Hash], tmp_path: Path, serve: Callable[..., Source]
) -> None:
    out, root = published
    target = serve(out)
    source = serve(out, lambda path, window: (302, {"location": target.url + "/manifest.json"}, b""))
    with pytest.raises(Unreachable, match="302"):
        fetch([source.url], root, tmp_path / "got")
    assert target.requests == []


def test_fetch_of_absent_step_is_unavailable_and_of_dead_source_unreachable(
    published: tuple[Path, Hash], tmp_path: Path, serve: Callable[..., Source]
) -> None:
    _, root = published
    with pytest.raises(Unavailable):
        fetch([serve(tmp_path / "nothing").url], root, tmp_path / "got")
    with pytest.raises(Unreachable):
        fetch([weights_url("http://127.0.0.1:9/", 0)], root, tmp_path / "got")
    with pytest.raises(Unavailable):
        fetch([], root, tmp_path / "got")


def test_fetch_of_endless_manifest_stops_at_limit(
    published: tuple[Path, Hash], tmp_path: Path, serve: Callable[..., Source]
) -> None:
    out, root = published
    source = serve(out, lambda path, window: (200, {}, b" " * (17 << 20)))
    with pytest.raises(SourceLied, match="longer than"):
        fetch([source.url], root, tmp_path / "got")


def test_fetch_of_root_with_bad_weights_is_refused_before_it_appears(
    policy: Path, tmp_path: Path, serve: Callable[..., Source]
) -> None:
    weights = bytearray((policy / "model.safetensors").read_bytes())
    weights[-2:] = (0x7FC0).to_bytes(2, "little")
    (policy / "model.safetensors").write_bytes(weights)
    root = publish(policy, tmp_path / "out").policy_root
    with pytest.raises(PolicyError, match="not finite"):
        fetch([serve(tmp_path / "out").url], root, tmp_path / "got")
    assert not (tmp_path / "got").exists()


def test_fetch_stops_when_every_source_fails_slowly(
    published: tuple[Path, Hash], tmp_path: Path, serve: Callable[..., Source]
) -> None:
    out, root = published
    source = serve(out, lambda path, window: (500, {}, b"") if path == WEIGHTS else None)
    with pytest.raises(StannaryError):
        fetch([source.url], root, tmp_path / "got")
    assert len([path for path, _ in source.requests if path == WEIGHTS]) == 3


@every_way
def test_fetch_gives_up_a_source_whose_manifest_never_ends(
    way: str, published: tuple[Path, Hash], tmp_path: Path, serve: Callable[..., Source]
) -> None:
    out, root = published
    with dripping(*WAYS[way]) as host:
        begun = time.monotonic()
        got = fetch([weights_url(f"http://{host}", 0), serve(out).url], root, tmp_path / "got", timeout_s=0.6)
        assert time.monotonic() - begun < 4
    assert describe_folder(got).policy_root == root


def test_fetch_gives_up_a_source_whose_shard_never_ends(
    published: tuple[Path, Hash], tmp_path: Path, serve: Callable[..., Source]
) -> None:
    out, root = published
    over = threading.Event()

    def hold(path: str, window: str | None) -> Answer | None:
        if path == WEIGHTS:
            over.wait(20)
        return None

    try:
        begun = time.monotonic()
        got = fetch([serve(out, hold).url, serve(out).url], root, tmp_path / "got", timeout_s=0.6)
        assert time.monotonic() - begun < 8
    finally:
        over.set()
    assert describe_folder(got).policy_root == root


def cut(out: Path, path: str, window: str | None, length: int) -> Answer:
    """An honest answer that ends early although it announces more."""
    status, headers, body = honest(out, path, window)
    return status, headers, body[:length]


FILE_BYTES = 8 + len('{"a.weight": {"dtype": "BF16", "shape": [1835008], "data_offsets": [0, 3670016]}}') + (7 << 19)
