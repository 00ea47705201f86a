"""Settings: which source counts, what is refused, and what is never shown."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from stannary.errors import SettingsError
from stannary.settings import RoleSettings


class WorkerLike(RoleSettings):
    """Settings of a role with fields of its own."""

    ROLE: ClassVar[str] = "worker"
    keystore: Path
    threads: int = 1


def test_settings_option_beats_role_variable_beats_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANNARY_KEYSTORE", "shared.json")
    monkeypatch.setenv("STANNARY_POOL", "1")
    monkeypatch.setenv("STANNARY_WORKER_POOL", "2")
    monkeypatch.setenv("STANNARY_WORKER_THREADS", "3")
    settings = WorkerLike.load(threads=4, pool=None)
    assert (settings.keystore, settings.pool, settings.threads) == (Path("shared.json"), 2, 4)


@pytest.mark.parametrize(
    "name", ["STANNARY_KEYSTOR", "STANNARY_WORKER_THREAD", "STANNARY_THREADS_", "stannary_kestore"]
)
def test_settings_unknown_variable_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "1")
    with pytest.raises(SettingsError, match=name):
        WorkerLike.load(keystore="k.json")


def test_settings_other_role_and_debug_variables_are_let_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANNARY_DEBUG", "1")
    monkeypatch.setenv("STANNARY_TRAINER_LEARNING_RATE", "1")
    assert WorkerLike.load(keystore="k.json").threads == 1


def test_settings_missing_field_says_which_variable_to_set() -> None:
    with pytest.raises(SettingsError, match=r"set STANNARY_WORKER_KEYSTORE or give --keystore") as caught:
        WorkerLike.load()
    assert "\n" not in str(caught.value)


def test_settings_malformed_value_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANNARY_WORKER_THREADS", "hunter2")
    with pytest.raises(SettingsError, match="threads") as caught:
        WorkerLike.load(keystore="k.json")
    assert "hunter2" not in str(caught.value)


def test_settings_shown_hide_the_rpc_address() -> None:
    shown = repr(WorkerLike.load(keystore="k.json", rpc_url="https://chain.example/v1/secret-key"))
    assert "secret-key" not in shown


def test_settings_say_what_a_sender_may_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANNARY_WORKER_MAX_FEE_GWEI", "2.5")
    monkeypatch.setenv("STANNARY_MAX_BUMPS", "3")
    rules = WorkerLike.load(keystore="k.json").fee_rules
    assert (rules.max_fee_wei, rules.max_bumps, rules.bump_after_s) == (2_500_000_000, 3, 30.0)
