"""The command line of every process of the demo. Nothing here starts anything."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from demo import plan as numbers
from demo.founding import Founded
from demo.plan import Plan
from demo.wallets import Wallet, Wallets

STANNARY = (sys.executable, "-m", "stannary.cli")
ADVERSARIES = (sys.executable, "-m", "demo.adversaries")


@dataclass(frozen=True, slots=True)
class Role:
    """One process to start."""

    name: str
    command: tuple[str, ...]
    may_finish: bool = False


@dataclass(frozen=True, slots=True)
class Commands:
    """What all commands share."""

    plan: Plan
    founded: Founded
    wallets: Wallets
    run_dir: Path
    base: Path
    coordinator_port: int

    @property
    def coordinator_url(self) -> str:
        """Where the coordinator listens."""
        return f"http://127.0.0.1:{self.coordinator_port}"

    def coordinator(self) -> Role:
        """Return the coordinator."""
        documents = [word for path in self.founded.documents for word in ("--document", str(path))]
        return Role(
            "coordinator",
            (
                *STANNARY,
                *("coordinator", "start"),
                *self._options("coordinator", self.wallets["coordinator"], has_coordinator=False),
                *("--port", str(self.coordinator_port)),
                *documents,
            ),
        )

    def trainer(self) -> Role:
        """Return the trainer, which ends by itself after the last policy step."""
        return Role(
            "trainer",
            (
                *STANNARY,
                *("trainer", "start"),
                *self._options("trainer", self.wallets["trainer"]),
                *("--base", str(self.base)),
                *("--steps", str(self.plan.steps)),
                *("--slots", str(self.plan.slots)),
                *("--lag", str(numbers.MAX_LAG)),
                *("--learning-rate", repr(self.plan.learning_rate)),
                *("--optimizer-steps", str(self.plan.optimizer_steps)),
                *("--heldout", str(self.plan.heldout)),
            ),
            may_finish=True,
        )

    def workers(self) -> Iterator[Role]:
        """Return the workers, the slowest to start first."""
        kinds = {
            "honest_vllm": (*STANNARY, "worker", "start"),
            "honest_transformers": (*STANNARY, "worker", "start"),
            "cheat": (*ADVERSARIES, {"stale": "cheat", "int4": "rounder"}[self.plan.cheat]),
            "liar": (*ADVERSARIES, "liar"),
        }
        for name in self.plan.workers:
            engine = "vllm" if name == "honest_vllm" else "transformers"
            options = self._options(name, self.wallets.hot(name))
            leases = ("--max-leases", str(self.plan.leases_at_once))
            yield Role(name, (*kinds[name], *options, "--engine", engine, *leases))

    def validators(self) -> Iterator[Role]:
        """Return the validators."""
        for name in numbers.VALIDATORS:
            yield Role(name, (*STANNARY, "validator", "start", *self._options(name, self.wallets.hot(name))))

    def _options(self, name: str, wallet: Wallet, *, has_coordinator: bool = True) -> tuple[str, ...]:
        return (
            *("--run-dir", str(self.run_dir / name)),
            *("--rpc-url", self.founded.chain.rpc_url),
            *("--deployment", str(self.founded.deployment)),
            *("--pool", str(self.founded.pool)),
            *("--keystore", str(wallet.keystore)),
            *("--password-file", str(self.wallets.password_file)),
            *(("--coordinator-url", self.coordinator_url) if has_coordinator else ()),
        )
