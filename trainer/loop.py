"""The trainer's daemon: looks at the chain, does what `trainer.plan` says, writes down what happened.

view of the chain ─→ plan.actions ─→ publish │ open │ learn ─→ checkpoint, policy folder, metrics
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from pathlib import Path

from stannary.audit_choice import audited_slots
from stannary.cards import Card
from stannary.chain import Chain, PoolTerms, Sender, StepState
from stannary.client import CoordinatorClient
from stannary.confined import ConfinedReader
from stannary.environments import Environment
from stannary.errors import ChainError, Confinement, NetworkError, OperatorError, PeerError, PolicyError, Reverted
from stannary.seeds import StepSeeds
from stannary.shardcast import check_policy_folder, publish
from stannary.shardcast.folder import clear_partial
from stannary.structs import Submission
from stannary.types import Hash, Outcome, Phase, parse_hash, to_hex
from stannary.waiting import Waiting
from trainer import plan
from trainer.consume import Group, GroupRules, consumable, consumed_root, leaves_of, score_group
from trainer.metrics import Metrics
from trainer.policy import Policy, checkpoint_name, latest_checkpoint
from trainer.rehearsal import evaluate

KEPT = 2
"""Checkpoints and policy folders that stay on disk."""
EVALUATION_SEED = 0
"""Fixed, so that unchanged weights give the same number."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Run:
    """What a trainer is given: its pool, its peers and how long it works."""

    pool: int
    terms: PoolTerms
    goal: plan.Goal
    slots: int
    heldout: int
    poll_s: float
    file_wait_s: float


class Pace(Enum):
    """What a tick leaves to do."""

    AGAIN = "again"
    REST = "rest"
    OVER = "over"


class Trainer:
    """One pool's trainer; its state on disk is the newest checkpoint."""

    def __init__(
        self,
        run: Run,
        chain: Chain,
        sender: Sender,
        coordinator: CoordinatorClient,
        environment: Environment,
        policy: Policy,
        folder: Path,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take over `folder`: go on from its newest checkpoint, or start at policy step 0 with the policy as it is."""
        self._run = run
        self._chain = chain
        self._sender = sender
        self._coordinator = coordinator
        self._environment = environment
        self._policy = policy
        self._policies = folder / "policies"
        self._checkpoints = folder / "checkpoints"
        self._published = folder / "published"
        self._metrics = Metrics(folder / "metrics.jsonl")
        self._clock = clock
        self._reader = ConfinedReader()
        self._card: tuple[Hash, Card] | None = None
        """The card of the newest step, by its hash."""
        self._waiting = Waiting(_log)
        self._opening = Waiting(_log)
        self._since = clock()
        self._token_rules = policy.token_rules
        for parent in (self._policies, self._published):
            clear_partial(parent)
        checkpoint = latest_checkpoint(self._checkpoints)
        if checkpoint is None:
            self._policy_step, self._consumed_root = 0, Hash(bytes(32))
            self._save()
        else:
            state = policy.restore(checkpoint)
            self._policy_step, self._consumed_root = state["policy_step"], parse_hash(state["consumed_root"])
            _log.info("going on from policy step %d", self._policy_step)
        self._export()

    @property
    def policy_step(self) -> int:
        """The newest policy step."""
        return self._policy_step

    def close(self) -> None:
        """Close the connections to the coordinator, and end the process that reads files."""
        self._coordinator.close()
        self._reader.close()

    def run(self, stop: threading.Event) -> None:
        """Work until the last policy step is published or `stop` is set. Raises: OperatorError, FundsError."""
        while not stop.is_set():
            try:
                pace = self.tick()
                if pace is Pace.OVER:
                    return
                if pace is Pace.AGAIN:
                    continue
            except (NetworkError, PeerError) as error:
                self._waiting.on(str(error))
            except ChainError as error:
                self._waiting.on(f"the chain: {error}")
            stop.wait(self._run.poll_s)

    def tick(self) -> Pace:
        """Look once, act, and say what comes next. Raises: what the chain and the coordinator raise."""
        view = self._look()
        pace = Pace.AGAIN
        for action in plan.actions(view, self._run.goal, self._policy_step):
            match action:
                case plan.Publish(policy_step):
                    self._publish(policy_step)
                case plan.Open(step, policy_step):
                    self._open(step, policy_step)
                case plan.Learn(step, outcomes):
                    self._evaluate_once(0)
                    self._learn(step, outcomes)
                case plan.Wait(what):
                    self._evaluate_once(0)
                    self._waiting.on(what)
                    pace = Pace.REST
                case plan.Finish():
                    self._evaluate_once(self._policy_step)
                    pace = Pace.OVER
        return pace

    def _look(self) -> plan.View:
        ledger, pool, step = self._chain.submission_ledger, self._run.pool, self._policy_step
        at = self._chain.frozen()
        step_count = ledger.step_count_of(pool, at)
        view = plan.View(
            ledger.policy_count_of(pool, at), step_count, self._chain.pool_registry.clock_of(pool, at), state=None
        )
        if step >= step_count:
            return view
        view = replace(view, state=ledger.step_of(pool, step, at))
        if view.state is None or view.state.phase not in (Phase.AUDITED, Phase.FINALIZED):
            return view
        votes = tuple(self._chain.step_history(pool, step, at).votes_by_seat())
        return replace(view, times=self._chain.voting_panel.panel_times_of(pool, step, at), votes=votes)

    def _publish(self, policy_step: int) -> None:
        if policy_step != self._policy_step:
            raise OperatorError(f"policy step {policy_step} is not on chain, and this run folder no longer holds it")
        started = self._clock()
        out = self._published / checkpoint_name(policy_step)
        manifest = publish(self._policies / checkpoint_name(policy_step), out)
        # The manifest goes last: whoever finds it finds the files.
        for file in manifest.files:
            self._coordinator.put_weights(policy_step, f"files/{file.name}", out / "files" / file.name)
        self._coordinator.put_weights(policy_step, "manifest.json", out / "manifest.json")
        uploaded = self._clock()
        self._chain.submission_ledger.publish_policy(
            self._sender, self._run.pool, policy_step, manifest.policy_root, self._consumed_root
        )
        self._waiting.over()
        _log.info("policy step %d published, root %s", policy_step, to_hex(manifest.policy_root))
        self._metrics.write(
            "policy",
            policy_step=policy_step,
            policy_root=to_hex(manifest.policy_root),
            consumed_root=to_hex(self._consumed_root),
            bytes=manifest.size,
            upload_s=round(uploaded - started, 3),
            chain_s=round(self._clock() - uploaded, 3),
        )
        for parent in (self._policies, self._published, self._checkpoints):
            for old in sorted(parent.glob("policy-*"))[:-KEPT]:
                shutil.rmtree(old, ignore_errors=True)

    def _open(self, step: int, policy_step: int) -> None:
        try:
            self._chain.submission_ledger.open_step(self._sender, self._run.pool, step, policy_step, self._run.slots)
        except Reverted as error:
            # Not enough validators or escrow yet: others must act, and learning goes on meanwhile.
            self._opening.on(f"step {step} to be allowed: {error.reason}")
            return
        self._opening.over()
        _log.info("step %d opened: %d slots, policy step %d", step, self._run.slots, policy_step)

    def _learn(self, step: int, outcomes: tuple[Outcome, ...]) -> None:
        waited_s = self._clock() - self._since
        started = self._clock()
        state = self._chain.submission_ledger.step_of(self._run.pool, step)
        leaves = leaves_of(self._coordinator.leaves(step), state) if outcomes else []
        chosen = consumable(leaves, outcomes, self._audited(state)) if leaves else []
        # Work of slots taken on chain is not served by the coordinator; it is paid, and learnt from by nobody yet.
        unused = sum(outcome is Outcome.ACCEPT for outcome in outcomes[state.slots :])
        if unused:
            _log.warning("step %d: %d accepted groups of slots taken on chain are left out", step, unused)
        groups = self._fetch(step, state, chosen)
        fetched = self._clock()
        report = self._policy.train([sample for group in groups for sample in group.samples])
        trained = self._clock()
        rewards = [reward for group in groups for reward in group.rewards]
        if report.optimizer_steps == 0:
            _log.warning("step %d taught nothing: %d groups accepted, no signal among them", step, len(groups))
        self._policy_step = step + 1
        self._consumed_root = consumed_root(groups)
        self._save()
        self._export()
        self._waiting.over()
        reward = sum(rewards) / len(rewards) if rewards else None
        self._metrics.write(
            "step",
            step=step,
            policy_step=state.policy_step,
            lag=step - state.policy_step,
            slots=state.slots,
            leaves=len(leaves),
            accepted_groups=len(groups),
            rejected_leaves=sum(outcome in (Outcome.REJECT, Outcome.FAULT) for outcome in outcomes),
            undecided_leaves=sum(outcomes[leaf.slot] is Outcome.ABSTAIN for leaf in leaves),
            silent_groups=sum(len(set(group.rewards)) < 2 for group in groups),
            reward=reward,
            completion_tokens=_mean([len(sample.completion) for group in groups for sample in group.samples]),
            **asdict(report),
            waited_s=round(waited_s, 3),
            fetch_s=round(fetched - started, 3),
            train_s=round(trained - fetched, 3),
            save_s=round(self._clock() - trained, 3),
        )
        _log.info(
            "policy step %d learnt from step %d: %d of %d groups, reward %s, loss %.4f, %.1f s",
            self._policy_step,
            step,
            len(groups),
            state.slots,
            "-" if reward is None else f"{reward:.3f}",
            report.loss,
            trained - fetched,
        )
        self._since = self._clock()

    def _audited(self, state: StepState) -> frozenset[int]:
        """Return the slots of a step whose leaves got every check, by the card that the step was opened under."""
        card_hash = self._chain.pool_registry.offer_of(self._run.pool, state.offer).card_hash
        if self._card is None or self._card[0] != card_hash:
            self._card = card_hash, Card.from_document(self._coordinator.document(card_hash))
        return audited_slots(state.audit_beacon, range(state.slots), self._card[1].audit_bps)

    def _fetch(self, step: int, state: StepState, chosen: Sequence[Submission]) -> list[Group]:
        """Return the accepted groups that can be had; one that is withheld or no group is left out, and named."""
        seeds = StepSeeds(self._chain.ledger_domain, self._run.pool, step, state.seed_beacon)
        terms = self._run.terms
        rules = GroupRules(terms.group_size, terms.max_completion_tokens, self._policy.vocabulary)
        deadline = self._clock() + self._run.file_wait_s
        groups = []
        for leaf in chosen:
            data = self._file(leaf, deadline)
            if data is None:
                _log.warning("step %d slot %d: accepted, but its file cannot be had; left out", step, leaf.slot)
                continue
            problem = self._environment.problem(seeds.slot_seed(leaf.slot))
            try:
                groups.append(score_group(leaf, data, problem, self._environment, rules, self._reader.decode_group))
            except (PeerError, Confinement) as error:
                _log.error("step %d slot %d: accepted by the panel, yet %s; left out", step, leaf.slot, error)
        return groups

    def _file(self, leaf: Submission, deadline: float) -> bytes | None:
        while True:
            try:
                return self._coordinator.submission_file(leaf.content_hash)
            except (NetworkError, PeerError) as error:
                self._waiting.on(f"the file of step {leaf.step} slot {leaf.slot}: {error}")
                if self._clock() > deadline:
                    return None
                time.sleep(self._run.poll_s)

    def _save(self) -> None:
        self._policy.save(
            self._checkpoints / checkpoint_name(self._policy_step),
            {"policy_step": self._policy_step, "consumed_root": to_hex(self._consumed_root)},
        )

    def _export(self) -> None:
        """Write the newest policy folder; it must pass what every worker will check."""
        folder = self._policy.export(self._policies / checkpoint_name(self._policy_step))
        try:
            check_policy_folder(folder, like=self._policy.source)
        except PolicyError as error:
            raise OperatorError(f"policy step {self._policy_step} must not be published: {error}") from error

    def _evaluate_once(self, policy_step: int) -> None:
        if policy_step != self._policy_step or not self._run.heldout:
            return
        if any(entry["policy_step"] == policy_step for entry in self._metrics.read("heldout")):
            return
        started = self._clock()
        reward = evaluate(
            self._policy.model,
            self._environment,
            count=self._run.heldout,
            rules=self._token_rules,
            max_tokens=self._run.terms.max_completion_tokens,
            seed=EVALUATION_SEED,
        )
        self._metrics.write(
            "heldout",
            policy_step=policy_step,
            reward=reward,
            problems=self._run.heldout,
            seconds=round(self._clock() - started, 3),
        )
        _log.info("held-out reward of policy step %d: %.3f over %d problems", policy_step, reward, self._run.heldout)
        self._since = self._clock()


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
