"""stannary.compiled: code of an older version is never taken up again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import stannary

SOURCE = Path(stannary.__file__).parent


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The part of the package that compiles, alone."""
    package = tmp_path / "stannary"
    package.mkdir()
    for name in ("__init__.py", "compiled.py", "errors.py", "types.py"):
        shutil.copy(SOURCE / name, package / name)
    for name in ("sampling", "toploc"):
        shutil.copytree(SOURCE / name, package / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def run(folder: Path, code: str, cache: Path | None = None) -> str:
    environment = os.environ | {"PYTHONPATH": str(folder), "XDG_CACHE_HOME": str(cache or folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout.strip()


LAST = "from stannary.sampling import gumbel; print(gumbel(bytes(32), 0, 5)[4])"


def test_changed_constant_of_another_file_changes_the_compiled_code(copy: Path) -> None:
    before = run(copy, LAST)
    assert run(copy, LAST) == before
    philox = copy / "stannary" / "sampling" / "philox.py"
    text = philox.read_text()
    assert text.count("ROUNDS = 10") == 1
    philox.write_text(text.replace("ROUNDS = 10", "ROUNDS = 9"))
    assert run(copy, LAST) != before
    philox.write_text(text)
    assert run(copy, LAST) == before
    assert len(list((copy / "stannary" / "__pycache__").glob("stannary-*"))) == 2


def test_code_is_kept_for_later_processes(copy: Path) -> None:
    run(copy, LAST)
    (folder,) = (copy / "stannary" / "__pycache__").glob("stannary-*")
    kept = {file: file.stat().st_mtime_ns for file in folder.rglob("*.nb?")}
    assert kept
    run(copy, LAST)
    assert {file: file.stat().st_mtime_ns for file in folder.rglob("*.nb?")} == kept


def test_package_that_cannot_be_written_keeps_its_code_with_the_user(copy: Path, tmp_path: Path) -> None:
    (copy / "stannary" / "__pycache__").write_text("a file where a folder should be")
    assert run(copy, LAST, tmp_path / "user")
    assert len(list((tmp_path / "user").glob("stannary-*/**/*.nbc"))) > 0


def test_without_any_folder_the_code_is_compiled_anew(copy: Path, tmp_path: Path) -> None:
    (copy / "stannary" / "__pycache__").write_text("")
    (tmp_path / "user").write_text("")
    assert run(copy, LAST, tmp_path / "user")
