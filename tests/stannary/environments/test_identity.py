"""The identity of an environment: what differs is named."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from stannary.documents import canonical, document_hash, parse_document
from stannary.environments import describe_environment, load_environment
from stannary.errors import Malformed, OperatorError
from tests.stannary.environments.test_reasoning import CHAIN_SUM


@pytest.mark.parametrize(("name", "parameters"), [("sieve", {}), ("reasoning_gym", CHAIN_SUM)])
def test_identity_loads_what_it_describes(name: str, parameters: dict[str, Any], words: Path, chat: Path) -> None:
    folder = words if name == "sieve" else chat
    document = describe_environment(name, parameters, folder)
    environment = load_environment(parse_document(canonical(document)), folder)
    assert document_hash(environment.document) == document_hash(document)
    assert len({tuple(slot["prompt"]) for slot in document["golden"]}) >= 14  # type: ignore[attr-defined]
    assert environment.problem(b"x" * 32).prompt == environment.task.problem(b"x" * 32).prompt
    assert environment.heldout(0) == environment.task.heldout(0)
    assert environment.reward(environment.heldout(0), ()) == 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(python="2.7"), "Python: the pool's document says 2.7"),
        (lambda d: d["packages"].update(blake3="0.0.1"), "packages: .*0.0.1"),
        (lambda d: d["golden"][3]["prompt"].append(7), "golden slot 3"),
        (lambda d: d["golden"][15].update(seed="00"), "golden slot 15"),
    ],
)
def test_identity_of_another_machine_is_refused(words: Path, change: Any, message: str) -> None:
    document = copy.deepcopy(describe_environment("sieve", {}, words))
    change(document)
    with pytest.raises(OperatorError, match=message):
        load_environment(document, words)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("golden"),
        lambda d: d.update(extra=1),
        lambda d: d.update(name="no_such"),
        lambda d: d.update(name=["sieve"]),
        lambda d: d.update(parameters=[]),
        lambda d: d.update(golden=[]),
        lambda d: d.update(golden={"a": 1}),
    ],
)
def test_document_that_is_no_identity_is_refused(words: Path, change: Any) -> None:
    document = copy.deepcopy(describe_environment("sieve", {}, words))
    change(document)
    with pytest.raises(Malformed, match="environment"):
        load_environment(document, words)
