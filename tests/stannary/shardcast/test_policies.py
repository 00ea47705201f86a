"""Policy folders over real HTTP: the last few used are kept, what is on disk is not fetched again."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models

from stannary.errors import PeerError, PolicyError, Unavailable
from stannary.shardcast import PolicyFolders, publish
from stannary.types import Hash
from worker.tripwire import write_tiny_policy


@dataclass(slots=True)
class Origin:
    """A static server of policy steps, as `stannary.shardcast.publish` lays them out."""

    url: str
    folder: Path
    requests: list[str] = field(default_factory=list)

    def publish(self, policy_step: int, policy: Path) -> Hash:
        return publish(policy, self.folder / "v1" / "weights" / str(policy_step)).policy_root


@pytest.fixture
def origin(tmp_path: Path) -> Iterator[Origin]:
    requests: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            requests.append(self.path)

    (tmp_path / "origin").mkdir()
    handler = functools.partial(Handler, directory=str(tmp_path / "origin"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Origin(f"http://127.0.0.1:{server.server_port}", tmp_path / "origin", requests)
        server.shutdown()
        thread.join()


def write_policy(folder: Path, seed: int) -> Path:
    policy = write_tiny_policy(folder, seed, is_tied=False)
    Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>")).save(str(policy / "tokenizer.json"))
    return policy


def test_folders_keep_the_newest_two_policies(origin: Origin, tmp_path: Path) -> None:
    folders = PolicyFolders(tmp_path / "run", [origin.url])
    for step in range(4):
        root = origin.publish(step, write_policy(tmp_path / f"policy-{step}", step))
        folder = folders.folder_of(step, root)
        assert load_file(folder / "model.safetensors").keys()
    assert [path.name[:15] for path in sorted((tmp_path / "run").iterdir())] == ["policy-00000002", "policy-00000003"]


def test_older_policy_and_the_one_before_it_are_kept_while_they_are_used(origin: Origin, tmp_path: Path) -> None:
    """A juror's case may be about a step that is older than all that lies on disk."""
    folders = PolicyFolders(tmp_path / "run", [origin.url], kept=3)
    roots = [origin.publish(step, write_policy(tmp_path / f"policy-{step}", step)) for step in range(6)]
    for step in (3, 4, 5, 2, 1):
        folders.folder_of(step, roots[step])
    assert [path.name[:15] for path in sorted((tmp_path / "run").iterdir())] == [
        "policy-00000001",
        "policy-00000002",
        "policy-00000005",
    ]


def test_folder_on_disk_is_checked_and_not_fetched_again(origin: Origin, tmp_path: Path) -> None:
    root = origin.publish(0, write_policy(tmp_path / "policy", 0))
    folder = PolicyFolders(tmp_path / "run", [origin.url]).folder_of(0, root)
    asked = len(origin.requests)
    again = PolicyFolders(tmp_path / "run", [origin.url])
    assert again.folder_of(0, root) == folder
    assert len(origin.requests) == asked
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\xff")
    assert again.folder_of(0, root) == folder
    assert len(origin.requests) > asked


def test_folder_of_a_step_that_is_not_published_yet_is_unavailable(origin: Origin, tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        PolicyFolders(tmp_path / "run", [origin.url]).folder_of(3, Hash(b"r" * 32))


def test_relay_that_serves_another_policy_is_passed_over(origin: Origin, tmp_path: Path) -> None:
    root = origin.publish(0, write_policy(tmp_path / "policy", 0))
    with pytest.raises(PeerError, match="lied"):
        PolicyFolders(tmp_path / "run", [origin.url]).folder_of(0, Hash(b"r" * 32))
    assert PolicyFolders(tmp_path / "run", ["http://127.0.0.1:9", origin.url]).folder_of(0, root).is_dir()


def test_policy_of_another_shape_than_the_one_before_is_refused(origin: Origin, tmp_path: Path) -> None:
    folders = PolicyFolders(tmp_path / "run", [origin.url])
    first = folders.folder_of(0, origin.publish(0, write_policy(tmp_path / "policy-0", 0)))
    other = write_policy(tmp_path / "policy-1", 1)
    tensors = load_file(other / "model.safetensors")
    tensors.pop("lm_head.weight")
    save_file(tensors, other / "model.safetensors")
    with pytest.raises(PolicyError, match=r"lacks the tensor 'lm_head\.weight'"):
        folders.folder_of(1, origin.publish(1, other))
    assert first.is_dir()
