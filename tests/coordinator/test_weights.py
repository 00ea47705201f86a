"""coordinator.routes.weights: put by the trainer alone, given out whole, in ranges, and no path escapes (A37)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from stannary.errors import Refused, Unreachable
from stannary.shardcast.manifest import Manifest, describe_folder
from stannary.types import Hash
from tests.coordinator.office import Office

BIG = bytes(range(256)) * 10_000  # more than two chunks of 1 MiB


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A folder in the form of a policy."""
    folder = tmp_path / "policy"
    folder.mkdir()
    for name in ("config.json", "generation_config.json", "tokenizer.json"):
        (folder / name).write_text(f'{{"name":"{name}"}}')
    (folder / "model.safetensors").write_bytes(BIG)
    return folder


def write_manifest(folder: Path, manifest: Manifest) -> Path:
    path = folder.parent / "manifest.json"
    path.write_bytes(manifest.encode())
    return path


def put_all(office: Office, folder: Path, *, manifest_first: bool = True, policy_step: int = 0) -> Manifest:
    manifest, client = describe_folder(folder), office.client("trainer")
    path = write_manifest(folder, manifest)
    if manifest_first:
        client.put_weights(policy_step, "manifest.json", path)
    for file in manifest.files:
        client.put_weights(policy_step, f"files/{file.name}", folder / file.name)
    if not manifest_first:
        client.put_weights(policy_step, "manifest.json", path)
    return manifest


@pytest.mark.parametrize("manifest_first", [True, False])
def test_weights_make_the_round_trip_in_either_order(office: Office, policy: Path, manifest_first: bool) -> None:
    manifest = put_all(office, policy, manifest_first=manifest_first)
    base = f"{office.url}/v1/weights/0"
    assert httpx.get(f"{base}/manifest.json").content == manifest.encode()
    for file in manifest.files:
        assert httpx.get(f"{base}/files/{file.name}").content == (policy / file.name).read_bytes()
    part = httpx.get(f"{base}/files/model.safetensors", headers={"range": "bytes=1048576-1048585"})
    assert (part.status_code, part.content) == (206, BIG[1048576:1048586])


def test_manifest_is_given_out_only_when_every_file_is_there(office: Office, policy: Path) -> None:
    manifest, client = describe_folder(policy), office.client("trainer")
    client.put_weights(0, "manifest.json", write_manifest(policy, manifest))
    for file in manifest.files:
        answer = httpx.get(f"{office.url}/v1/weights/0/manifest.json")
        assert answer.status_code == 404
        assert "still to come" in answer.json()["detail"]
        client.put_weights(0, f"files/{file.name}", policy / file.name)
    assert httpx.get(f"{office.url}/v1/weights/0/manifest.json").status_code == 200


@pytest.mark.parametrize("name", ["wendy", "coordinator"])
def test_weights_from_others_than_the_trainer_are_refused(office: Office, policy: Path, name: str) -> None:
    with pytest.raises(Refused) as refused:
        office.client(name).put_weights(0, "files/config.json", policy / "config.json")
    assert refused.value.status == (403 if name == "wendy" else 401)


def test_weights_of_another_content_than_the_manifests_are_refused(office: Office, policy: Path) -> None:
    client = office.client("trainer")
    client.put_weights(0, "manifest.json", write_manifest(policy, describe_folder(policy)))
    (policy / "config.json").write_text("{}")
    with pytest.raises(Refused) as refused:
        client.put_weights(0, "files/config.json", policy / "config.json")
    assert refused.value.status == 409


def test_weights_with_a_false_chunk_end_at_that_chunk(office: Office, policy: Path) -> None:
    manifest, client = describe_folder(policy), office.client("trainer")
    client.put_weights(0, "manifest.json", write_manifest(policy, manifest))
    path = "/v1/weights/0/files/model.safetensors"
    headers = office.headers("trainer", "PUT", path, BIG)  # signed for the right bytes, sent with others
    answer = httpx.put(office.url + path, content=b"\xff" + BIG[1:], headers=headers)
    assert answer.status_code == 422
    assert "chunk 0" in answer.json()["detail"]
    assert list((office.folder / "files" / "incoming").iterdir()) == []


def test_manifest_that_lies_about_chunks_of_files_put_before_is_refused(office: Office, policy: Path) -> None:
    manifest, client = describe_folder(policy), office.client("trainer")
    for file in manifest.files:
        client.put_weights(0, f"files/{file.name}", policy / file.name)
    from dataclasses import replace

    lie = Manifest(
        tuple(
            replace(file, chunks=(Hash(b"l" * 32), *file.chunks[1:])) if file.name == "model.safetensors" else file
            for file in manifest.files
        )
    )
    with pytest.raises(Refused, match="chunk 0"):
        client.put_weights(0, "manifest.json", write_manifest(policy, lie))


def test_manifest_of_another_root_than_the_chains_is_refused(office: Office, policy: Path) -> None:
    office.policy(0, Hash(b"r" * 32))
    with pytest.raises(Refused) as refused:
        office.client("trainer").put_weights(0, "manifest.json", write_manifest(policy, describe_folder(policy)))
    assert refused.value.status == 409
    office.policy(0, describe_folder(policy).policy_root)
    put_all(office, policy)


def test_manifest_can_be_replaced_until_the_chain_has_its_root(office: Office, policy: Path) -> None:
    put_all(office, policy)
    (policy / "config.json").write_text('{"name":"another"}')
    newer = put_all(office, policy)
    assert httpx.get(f"{office.url}/v1/weights/0/manifest.json").content == newer.encode()


@pytest.mark.parametrize("data", [b"", b"{}", b"[" * 1000, b'{"format":"stannary.manifest.v1","files":[]}'])
def test_manifest_that_is_none_is_refused(office: Office, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "m.json"
    path.write_bytes(data)
    with pytest.raises(Refused) as refused:
        office.client("trainer").put_weights(0, "manifest.json", path)
    assert refused.value.status == 422


ESCAPES = [
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e/secret",
    "%2e%2e",
    "/abs",
    "v1/../../v1_private/x",
    "..%5c..%5cx",
    "a%00b.json",
    "x" * 4096 + ".json",
    ".hidden.json",
    "coordinator.sqlite",
    "config.json%0a",
]


@pytest.mark.parametrize("name", ESCAPES)
def test_file_name_that_leads_elsewhere_is_refused(office: Office, policy: Path, name: str) -> None:
    """A37."""
    put_all(office, policy)
    before = sorted(path for path in office.folder.rglob("*"))
    assert httpx.get(f"{office.url}/v1/weights/0/files/{name}").status_code in (400, 404, 422)
    path = f"/v1/weights/0/files/{name}"
    with suppress(httpx.TransportError):
        assert office.send("trainer", "PUT", path, b"escaped").status_code in (400, 401, 404, 405, 409, 422)
    assert sorted(path for path in office.folder.rglob("*")) == before
    assert not any(path.is_file() and path.read_bytes() == b"escaped" for path in office.folder.rglob("*"))


@pytest.mark.parametrize("policy_step", ["-1", str(1 << 32), "x", "1.5"])
def test_policy_step_that_is_none_is_refused(office: Office, policy_step: str) -> None:
    assert httpx.get(f"{office.url}/v1/weights/{policy_step}/manifest.json").status_code == 422


def test_disk_that_is_full_is_said_and_nothing_is_half_written(
    office: Office, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno
    import os

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr("coordinator.files.os.replace", full)
        with pytest.raises(Unreachable, match="507"):
            office.client("trainer").put_weights(0, "files/config.json", policy / "config.json")
    assert list((office.folder / "files" / "incoming").iterdir()) == []
    put_all(office, policy)
