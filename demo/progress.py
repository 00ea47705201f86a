"""What the demo says on the terminal: one line a step, and in between what is waited for and since when."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from rich.console import Console

from demo.page import tokens
from demo.record import Record, StepRecord
from demo.report import History
from stannary.chain import StepHistory, events
from stannary.types import Outcome, PoolId

QUIET_S = 10.0
"""A wait is named once it has lasted for so long, and again after as long."""


@dataclass(slots=True)
class Progress:
    """Prints to a console; `clock` is monotonic."""

    console: Console
    clock: Callable[[], float] = time.monotonic
    _began: float = field(init=False)
    _said: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self._said = self.clock()

    def say(self, text: str) -> None:
        """Print a line after the time since the start."""
        elapsed = self.clock() - self._began
        self.console.print(f"{int(elapsed) // 60}:{int(elapsed) % 60:02d}  {text}", highlight=False, markup=False)
        self._said = self.clock()

    def step(self, step: StepRecord) -> None:
        """Print a finished step."""
        self.say(step_line(step))

    def waiting(self, what: str) -> None:
        """Say what is waited for if nothing else has been said for a while."""
        if self.clock() - self._said >= QUIET_S:
            self.say(f"waiting for {what}")


def step_line(step: StepRecord) -> str:
    """Return one line on a step."""
    counts = Counter(leaf.outcome for leaf in step.leaves)
    rejected = [leaf for leaf in step.leaves if leaf.outcome in (Outcome.REJECT, Outcome.FAULT)]
    reasons = Counter(f"{leaf.role} {leaf.reason}" for leaf in rejected)
    shown = ", ".join(f"{count} {name}" for name, count in sorted(reasons.items()))
    reward = "  none " if step.reward is None else f"{step.reward:7.3f}"
    undecided = f", {counts[Outcome.ABSTAIN]} undecided" if counts[Outcome.ABSTAIN] else ""
    why = f"   ({shown})" if shown else ""
    return (
        f"step {step.step:>3} by policy {step.policy_step:>3}   reward {reward}   "
        f"accepted {counts[Outcome.ACCEPT]:>3}   rejected {len(rejected):>3}{undecided}{why}"
    )


def awaited(history: History, pool: PoolId, steps: int) -> str:
    """Say what the oldest unfinished step waits for."""
    settled = {event.step for event in history.of(events.StepFinalized, pool=pool)}
    settled |= {event.step for event in history.of(events.StepCancelled, pool=pool)}
    step = min((number for number in range(steps) if number not in settled), default=None)
    if step is None:
        if len(history.of(events.PolicyPublished, pool=pool)) <= steps:
            return "the last policy"
        is_open = len(history.of(events.CaseResolved)) < len(history.of(events.CaseOpened, pool=pool))
        return "the jury" if is_open else "the slashes"
    if not history.of(events.StepOpened, pool=pool, step=step):
        return f"the trainer to open step {step}"
    if not history.of(events.SeedBeaconSealed, pool=pool, step=step):
        return f"the seed beacon of step {step}"
    if not history.of(events.RootCommitted, pool=pool, step=step):
        return f"the workers' groups of step {step}"
    drawn = history.of(events.AuditBeaconSealed, pool=pool, step=step)
    if not drawn:
        return f"the panel of step {step} to be drawn"
    chain, seats = StepHistory.of(history.events, pool, step), len(drawn[0].panel)
    if len(chain.commitments) < seats:
        return f"the commitments of step {step}: {len(chain.commitments)} of {seats}"
    if len(chain.votes) < seats:
        return f"the votes on step {step}: {len(chain.votes)} of {seats}"
    return f"the end of the challenge time of step {step}"


def closing_lines(record: Record) -> list[str]:
    """Return the summary that ends the demo's output."""
    bar = "▁▂▃▄▅▆▇█"
    rewards = [step.reward for step in record.steps]
    highest = max((reward for reward in rewards if reward), default=1.0)
    curve = "".join(" " if reward is None else bar[min(7, int(8 * reward / highest))] for reward in rewards)
    shown = " ".join("-" if reward is None else f"{reward:.2f}" for reward in rewards)
    outcomes = Counter(leaf.outcome for leaf in record.leaves)
    checks = Counter(
        (leaf.reason, leaf.role) for leaf in record.leaves if leaf.outcome in (Outcome.REJECT, Outcome.FAULT)
    )
    lines = [
        f"reward    {curve}   {shown}",
        f"held-out  {record.heldout_before:.3f} before, {record.heldout_after:.3f} after",
        f"accepted  {outcomes[Outcome.ACCEPT]} groups, "
        f"rejected {outcomes[Outcome.REJECT] + outcomes[Outcome.FAULT]}, undecided {outcomes[Outcome.ABSTAIN]}",
    ]
    lines += [
        f"          {count:>3} of {role} by the check `{reason}`" for (reason, role), count in sorted(checks.items())
    ]
    lines += [
        f"{provider.role:<20} {provider.engine:<13} staked {tokens(provider.allocated_wei):>7}   "
        f"slashed {tokens(provider.slashed_wei):>8}   left {tokens(provider.stake_wei):>8}   "
        f"claimed {tokens(provider.payout_wei):>9}"
        for provider in record.providers
    ]
    lines += [
        f"{validator.name:<20} {validator.votes:>3} votes, {validator.rulings:>2} rulings   "
        f"staked {tokens(validator.allocated_wei):>7}   "
        f"slashed {tokens(validator.slashed_wei):>8}   left {tokens(validator.stake_wei):>8}   "
        f"claimed {tokens(validator.fees_wei):>9}"
        for validator in record.validators
    ]
    lines += [
        f"case {case.case_id}: {case.role} was accused for step {case.step}, slot {case.slot}; "
        f"the jury ({', '.join(juror.validator for juror in case.jurors)}) ruled "
        f"{'nothing' if case.ruling is None else case.ruling.name.lower()}: the accuser lost "
        f"{tokens(case.bond_lost_wei)}, the worker was paid {tokens(case.paid_wei + case.compensation_wei)} and lost "
        f"{tokens(case.slashed_wei)}"
        for case in record.accusations
    ]
    total = sum(record.transactions.values())
    lines.append(f"transactions {total}, {record.gas_used:,} gas; largest lag {record.lag_max}")
    lines += [
        f"{account.contract} holds {tokens(account.balance_wei)} and owes {tokens(account.owed_wei)} tokens: "
        + ("conserved" if account.is_conserved else "NOT CONSERVED")
        for account in record.accounts
    ]
    return lines
