"""What a validator holds of a policy: one copy at once, a second format and the step before only when asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from stannary.types import Hash
from validator.weights import Policies

ROOTS = [Hash(bytes([step]) * 32) for step in range(3)]


class Folders:
    """Policy folders that are there already."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def folder_of(self, policy_step: int, policy_root: Hash) -> Path:
        assert policy_root == ROOTS[policy_step]
        self.asked.append(policy_step)
        return Path(f"policy-{policy_step}")


@pytest.fixture
def opened() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def policies(opened: list[tuple[str, str]], tmp_path: Path) -> Policies:
    def open_policy(folder: Path, dtype: str) -> tuple[str, str]:
        opened.append((folder.name, dtype))
        return opened[-1]

    made = Policies(tmp_path, [], open_policy)  # type: ignore[arg-type]
    made._folders = Folders()  # type: ignore[assignment]
    return made


def test_second_format_and_the_step_before_are_opened_when_asked_for_and_once(
    policies: Policies, opened: list[tuple[str, str]]
) -> None:
    folder, computes = policies.load(2, ROOTS[2], ROOTS[1])
    assert (folder, opened) == (Path("policy-2"), [("policy-2", "fp32")])
    assert computes.before is not None
    for _ in range(2):
        assert computes.second() == ("policy-2", "bf16")
        assert computes.before() == ("policy-1", "fp32")
    assert opened == [("policy-2", "fp32"), ("policy-2", "bf16"), ("policy-1", "fp32")]
    assert policies.load(2, ROOTS[2], ROOTS[1])[1] is computes


def test_step_that_changed_nothing_is_paired_with_its_own_step_before(
    policies: Policies, opened: list[tuple[str, str]]
) -> None:
    """Two policy steps may have one root: what was loaded for the first is not what the second is paired with."""
    _, first = policies.load(1, ROOTS[1], None)
    _, other = policies.load(1, ROOTS[1], ROOTS[0])
    assert (first.before, opened) == (None, [("policy-1", "fp32")] * 2)
    assert other.before is not None
    assert other.before() == ("policy-0", "fp32")


def test_first_policy_step_has_none_before(policies: Policies) -> None:
    assert policies.load(0, ROOTS[0], None)[1].before is None
