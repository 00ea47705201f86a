"""The contracts as a Python package: committed ABI and bytecode, and that they belong to the committed sources."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

import contracts

FOLDER = Path(contracts.__file__).parent


@pytest.mark.parametrize("name", contracts.CONTRACT_NAMES)
def test_contract_committed_has_abi_and_deployable_bytecode(name: contracts.ContractName) -> None:
    code = bytes.fromhex(contracts.bytecode(name).removeprefix("0x"))
    assert 0 < len(code) <= 49_152
    assert {"function", "error"} <= {entry["type"] for entry in contracts.abi(name)}


def test_contract_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match="StakeManger"):
        contracts.abi("StakeManger")  # type: ignore[arg-type]


def test_abi_files_name_the_sources_they_came_from() -> None:
    digest = hashlib.sha256()
    for path in sorted(FOLDER.rglob("*.sol"), key=lambda path: path.relative_to(FOLDER).as_posix()):
        text = path.read_bytes()
        digest.update(f"{path.relative_to(FOLDER).as_posix()}\0{len(text)}\0".encode() + text)
    for name in contracts.CONTRACT_NAMES:
        document = json.loads((FOLDER / "abi" / f"{name}.json").read_text(encoding="utf-8"))
        assert document["sourcesSha256"] == digest.hexdigest(), "stale: run `npm run export`"


def test_every_test_that_the_readme_names_exists() -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:test|testFuzz|invariant)_\w+)`", readme))
    suite = "\n".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("*.t.sol"))
    assert len(named) > 50
    assert named <= set(re.findall(r"function (\w+)\(", suite)), "named but not there"
