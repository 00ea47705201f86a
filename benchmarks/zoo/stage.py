"""A step of a pool as a validator meets it: whatever is handed in goes through `screen` and `Judge.judge`.

Seeds are those of recordings, so that recorded rollouts replay; every leaf and lease is signed for real.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from eth_account import Account
from eth_account.signers.local import LocalAccount

from stannary import PROTOCOL_VERSION, toploc
from stannary.cards import Card
from stannary.corpus import recording_seeds
from stannary.environments import Environment
from stannary.rollout import Rollout, content_hash, encode_group
from stannary.structs import Domain, Lease, Submission
from stannary.types import Address, Hash, parse_address
from validator.calibrate import PUBLISHED
from validator.checks import Leaf, Read, Rules, StepFacts
from validator.finding import unavailable
from validator.judgement import Computes, Judge, Judgement, screen
from validator.pairing import Way, pair
from validator.prefill import Prefill
from validator.weights import FIRST, SECOND

COORDINATOR: LocalAccount = Account.from_key(b"\x01" * 32)
NODE: LocalAccount = Account.from_key(b"\x02" * 32)
STRANGER: LocalAccount = Account.from_key(b"\x03" * 32)
PROVIDER = parse_address("0x" + "22" * 20)
OPENED, COLLECT_SECONDS = 1000, 120


class Remembered:
    """A loaded policy that keeps its last states: proving and judging the same tokens cost one pass."""

    def __init__(self, policy: Prefill) -> None:
        self._policy = policy
        self._last: tuple[object, list[torch.Tensor]] | None = None
        self.vocabulary, self.hidden_size, self.tokens = policy.vocabulary, policy.hidden_size, policy.tokens
        self.compute, self.is_exact = policy.compute, policy.is_exact

    @property
    def head_rows(self) -> int:
        """Positions whose logits may be asked for at once."""
        return self._policy.head_rows

    def states(self, prompt: Sequence[int], completions: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        """Return the states [T, H] bfloat16 that predicted each completion."""
        return [own.to(torch.bfloat16) for own in self.unrounded_states(prompt, completions)]

    def unrounded_states(self, prompt: Sequence[int], completions: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        """Return the same in the compute's own type."""
        key = (tuple(prompt), tuple(map(tuple, completions)))
        if self._last is None or self._last[0] != key:
            self._last = key, self._policy.unrounded_states(prompt, completions)
        return self._last[1]

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Return the logits [T, V] float32 of states."""
        return self._policy.logits(states)


class Models:
    """Loaded policies by folder and compute; the ones not used for longest are dropped."""

    def __init__(self, most: int = 5) -> None:
        self._most = most
        self._opened: dict[tuple[Path, str], Remembered] = {}

    def open(self, folder: Path, dtype: str) -> Remembered:
        """Return a policy."""
        key = (folder, dtype)
        found = self._opened.pop(key, None) or Remembered(Prefill(folder, dtype))
        self._opened[key] = found
        while len(self._opened) > self._most:
            del self._opened[next(iter(self._opened))]
        return found


@dataclass(frozen=True, slots=True)
class Claim:
    """The policy step that a pool leased, which every leaf pretends to be of."""

    folder: Path
    before: Path | None = None


@dataclass(frozen=True, slots=True)
class Pool:
    """What holds for all steps of the zoo."""

    card: Card
    models: Models
    environment: Environment
    read: Read
    """Reads a stranger's file where it can do no harm."""


@dataclass(frozen=True, slots=True)
class Forgery:
    """What an attacker hands in other than an honest worker would."""

    data: bytes | None = None
    """The file, in place of the group's."""
    served: bytes | None = None
    """What is served in place of the file that the leaf names."""
    submission: Mapping[str, object] = field(default_factory=dict)
    """Fields of the leaf, changed before it is signed."""
    lease: Mapping[str, object] = field(default_factory=dict)
    """Fields of the lease, changed before the coordinator signs it."""
    node: LocalAccount = NODE
    signer: LocalAccount | None = None
    """Who signs the leaf in place of the node."""
    lessor: LocalAccount = COORDINATOR
    """Who signs the lease."""
    domain: Domain | None = None
    """The deployment that the signatures are for."""
    has_lease: bool = True


@dataclass(frozen=True, slots=True)
class Found:
    """A judgement, and what else is known of it."""

    judgement: Judgement
    tokens: int
    by_published_limits: bool = False
    """Whether the limits of the published library find something in a chunk."""
    way: tuple[float, float] | None = None
    """How far the proofs lie towards the policy step before: their share of the way, and that in standard errors, each
    with its sign and without a discount for small shares."""


class Stage:
    """One step, and a validator that judges what is handed in for it."""

    def __init__(
        self,
        pool: Pool,
        claim: Claim,
        seed: int,
        *,
        slots: int,
        group_size: int,
        max_tokens: int,
        is_jury: bool = False,
    ) -> None:
        """`seed` is that of a recording, whose group i is what slot i asks for."""
        self.pool, self.claim = pool, claim
        seeds = recording_seeds(seed)
        self.rules = Rules(
            domain=seeds.ledger,
            pool=seeds.pool,
            coordinator=address(COORDINATOR),
            group_size=group_size,
            max_completion_tokens=max_tokens,
            collect_seconds=COLLECT_SECONDS,
            temperature_milli=pool.card.temperature_milli,
            protocol_version=PROTOCOL_VERSION,
            card_hash=pool.card.hash(),
        )
        self.facts = StepFacts(
            step=seeds.step,
            policy_step=0 if claim.before is None else 1,
            slots=slots,
            seeded_at=OPENED,
            seeds=seeds,
            audit_beacon=Hash(b"\x06" * 32),
        )
        self.judge = Judge(
            self.rules, self.facts, pool.card, pool.environment, self._computes(), pool.read, is_jury=is_jury
        )

    def _computes(self) -> Computes:
        models, claim = self.pool.models, self.claim
        before = claim.before
        return Computes(
            first=models.open(claim.folder, FIRST),
            second=lambda: models.open(claim.folder, SECOND),
            before=None if before is None else lambda: models.open(before, FIRST),
        )

    @property
    def exact(self) -> Remembered:
        """The claimed policy as the validator's first compute sees it; an attacker may run the same."""
        return self.pool.models.open(self.claim.folder, FIRST)

    @property
    def rounded(self) -> Remembered:
        """The claimed policy as honest workers run it."""
        return self.pool.models.open(self.claim.folder, SECOND)

    def prompt(self, slot: int) -> tuple[int, ...]:
        """Return the prompt that a slot asks for."""
        return self.pool.environment.problem(self.facts.seeds.slot_seed(slot)).prompt

    def seeds(self, slot: int) -> list[bytes]:
        """Return the sampling seeds of a slot's rollouts."""
        return [self.facts.seeds.rollout_seed(slot, index) for index in range(self.rules.group_size)]

    def reward(self, slot: int, completion: Sequence[int]) -> float:
        """Score a completion as everybody does."""
        environment = self.pool.environment
        return environment.reward(environment.problem(self.facts.seeds.slot_seed(slot)), completion)

    def lease(self, slot: int, node: LocalAccount = NODE) -> Lease:
        """Return the lease that an honest coordinator would sign."""
        rules, facts = self.rules, self.facts
        return Lease(
            *(rules.pool, facts.step, facts.policy_step, slot, provider_of(address(node)), address(node)),
            *(OPENED + 10, OPENED + 70, rules.max_units, rules.card_hash, rules.protocol_version),
        )

    def leaf(self, rollouts: Sequence[Rollout], slot: int, forgery: Forgery) -> tuple[Leaf, bytes]:
        """Return a signed leaf and what is served for it."""
        data = encode_group(rollouts) if forgery.data is None else forgery.data
        lease = replace(self.lease(slot, forgery.node), **forgery.lease)  # type: ignore[arg-type]
        submission = Submission(
            *(self.rules.pool, self.facts.step, slot, provider_of(address(forgery.node)), address(forgery.node)),
            *(sum(len(rollout.completion) for rollout in rollouts), content_hash(data), lease.struct_hash()),
        )
        submission = replace(submission, **forgery.submission)  # type: ignore[arg-type]
        domain = forgery.domain or self.rules.domain
        leaf = Leaf(
            submission,
            submission.sign(forgery.signer or forgery.node, domain),
            lease if forgery.has_lease else None,
            lease.sign(forgery.lessor, domain) if forgery.has_lease else b"",
        )
        return leaf, data if forgery.served is None else forgery.served

    def submit(self, rollouts: Sequence[Rollout], slot: int, forgery: Forgery | None = None) -> Judgement:
        """Hand in a group, and return what a validator makes of it."""
        leaf, data = self.leaf(rollouts, slot, forgery or Forgery())
        (screened,) = screen([leaf], self.rules, self.facts, provider_of)
        if not screened.is_fine:
            return Judgement(leaf.submission.struct_hash(), screened)
        try:
            return self.judge.judge(leaf, data)
        except Exception as error:  # noqa: BLE001  what `validator.inspection` abstains on as well
            failure = f"the validator failed: {type(error).__name__}: {error}"
            return Judgement(leaf.submission.struct_hash(), unavailable(failure))

    def examine(self, rollouts: Sequence[Rollout], slot: int) -> Found:
        """Hand in a group that is well-formed, and measure some more of it."""
        judgement = self.submit(rollouts, slot)
        prompt, completions = rollouts[0].prompt, [rollout.completion for rollout in rollouts]
        proofs = [rollout.proofs for rollout in rollouts]
        own = self.exact.unrounded_states(prompt, completions)
        return Found(
            judgement,
            sum(map(len, completions)),
            any(is_published_reject(states, each) for states, each in zip(own, proofs, strict=True)),
            self._way(own, proofs, prompt, completions),
        )

    def _way(
        self,
        own: Sequence[torch.Tensor],
        proofs: Sequence[Sequence[bytes]],
        prompt: Sequence[int],
        completions: Sequence[Sequence[int]],
    ) -> tuple[float, float] | None:
        """Return what `validator.pairing` finds, without its discount for less than half of the way."""
        if self.claim.before is None:
            return None
        before = self.pool.models.open(self.claim.before, FIRST).unrounded_states(prompt, completions)
        found = pair(own, proofs, Way("before", own, before))
        if not found.distance or math.isinf(found.error):
            return None
        error = math.hypot(found.error, self.pool.card.thresholds.pairing.floor / found.distance)
        return found.share, found.share / error


def is_published_reject(states: torch.Tensor, proofs: Sequence[bytes]) -> bool:
    """Say whether the published library's limits find something. Shapes: states [T, H]."""
    mismatches, mean, median = PUBLISHED
    return any(
        drift.exponent_mismatches > mismatches or drift.mantissa_mean > mean or drift.mantissa_median > median
        for drift in toploc.verify(states.to(torch.bfloat16), proofs)
    )


def prove(prompt: Sequence[int], completions: Sequence[Sequence[int]], states: Sequence[torch.Tensor]) -> list[Rollout]:
    """Return rollouts with proofs of the states given. Shapes: states one [T, H] for each completion."""
    return [
        Rollout(tuple(prompt), tuple(completion), tuple(toploc.build(own.to(torch.bfloat16))))
        for completion, own in zip(completions, states, strict=True)
    ]


def address(account: LocalAccount) -> Address:
    """Return an account's address."""
    return parse_address(str(account.address))


def provider_of(node: Address) -> Address:
    """Return whom a node acts for: the worker's node for its provider, any other for itself."""
    return PROVIDER if node == address(NODE) else node
