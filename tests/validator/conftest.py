"""A step of the toy policy as a validator meets it: leases, leaves and files made by an honest worker, for real."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from eth_account import Account
from eth_account.signers.local import LocalAccount

from stannary import toploc
from stannary.cards import Card
from stannary.environments import Environment, describe_environment, load_environment
from stannary.rollout import Rollout, content_hash, encode_group
from stannary.sampling import gumbel_batch
from stannary.seeds import StepSeeds
from stannary.structs import Domain, Lease, Submission
from stannary.token_rules import TokenRules
from stannary.types import Address, Hash, parse_address
from validator.checks import Leaf, Rules, StepFacts
from validator.finding import Finding
from validator.judgement import Computes, Judge, Judgement
from validator.prefill import Prefill

REPOSITORY = Path(__file__).parents[2]
CARDS = REPOSITORY / "validator" / "cards"
DOMAIN = Domain(31337, parse_address("0x" + "11" * 20))
COORDINATOR: LocalAccount = Account.from_key(b"\x01" * 32)
NODE: LocalAccount = Account.from_key(b"\x02" * 32)
STRANGER: LocalAccount = Account.from_key(b"\x03" * 32)
PROVIDER = parse_address("0x" + "22" * 20)
CARD_HASH = Hash(b"\x07" * 32)
RULES = Rules(
    domain=DOMAIN,
    pool=1,
    coordinator=parse_address(COORDINATOR.address),
    group_size=4,
    max_completion_tokens=48,
    collect_seconds=120,
    temperature_milli=1000,
    protocol_version=1,
    card_hash=CARD_HASH,
)
FACTS = StepFacts(
    step=2,
    policy_step=1,
    slots=8,
    seeded_at=1000,
    seeds=StepSeeds(DOMAIN, 1, 2, Hash(b"\x05" * 32)),
    audit_beacon=Hash(b"\x06" * 32),
)


@dataclass(frozen=True, slots=True)
class Made:
    """A leaf and its file."""

    leaf: Leaf
    data: bytes


def address(account: LocalAccount) -> Address:
    return parse_address(account.address)


def generate(
    policy: Prefill, prompt: Sequence[int], seeds: Sequence[bytes], cap: int, temperature: float = 1.0
) -> tuple[list[tuple[int, ...]], list[torch.Tensor]]:
    """Sample by the protocol's rule, a whole prefix at a time, and return tokens and the states that predicted them."""
    rows: list[list[int]] = [[] for _ in seeds]
    for position in range(cap):
        open_rows = [index for index, row in enumerate(rows) if not row or row[-1] not in policy.tokens.end_ids]
        if not open_rows:
            break
        # A token more than there is: its state is the one that predicts the token to come.
        states = policy.states(prompt, [[*rows[index], 0] for index in open_rows])
        logits = torch.cat([policy.logits(own[-1:]) for own in states]).numpy()
        noise = gumbel_batch([seeds[index] for index in open_rows], [position] * len(open_rows), policy.vocabulary)
        for index, token in zip(open_rows, (logits / temperature + noise).argmax(axis=1).tolist(), strict=True):
            rows[index].append(token)
    return [tuple(row) for row in rows], policy.states(prompt, rows)


def prove(prompt: Sequence[int], tokens: Sequence[Sequence[int]], states: Sequence[torch.Tensor]) -> list[Rollout]:
    return [
        Rollout(tuple(prompt), tuple(own), tuple(toploc.build(state)))
        for own, state in zip(tokens, states, strict=True)
    ]


def lease_of(slot: int, /, **changes: object) -> Lease:
    lease = Lease(
        RULES.pool, FACTS.step, FACTS.policy_step, slot, PROVIDER, address(NODE), 1010, 1070, 192, CARD_HASH, 1
    )
    return replace(lease, **changes)  # type: ignore[arg-type]


def leaf_of(
    rollouts: Sequence[Rollout],
    slot: int = 3,
    *,
    lease: Lease | None = None,
    node: LocalAccount = NODE,
    signer: LocalAccount = NODE,
    coordinator: LocalAccount = COORDINATOR,
    data: bytes | None = None,
    **changes: object,
) -> Made:
    """Make a signed leaf of a file; `changes` go into the submission before it is signed."""
    data = encode_group(rollouts) if data is None else data
    lease = lease or lease_of(slot, node=address(node))
    submission = Submission(
        RULES.pool,
        FACTS.step,
        slot,
        PROVIDER,
        address(node),
        sum(len(rollout.completion) for rollout in rollouts),
        content_hash(data),
        lease.struct_hash(),
    )
    submission = replace(submission, **changes)  # type: ignore[arg-type]
    leaf = Leaf(submission, submission.sign(signer, DOMAIN), lease, lease.sign(coordinator, DOMAIN))
    return Made(leaf, data)


def provider_of(node: Address) -> Address:
    return PROVIDER if node == address(NODE) else node


@pytest.fixture(scope="session")
def toy() -> Path:
    """The toy policy that the card was measured on, made unless it is there."""
    from trainer.base import make_toy

    torch.set_num_threads(1)
    return make_toy(REPOSITORY / "policies" / "toy")


@pytest.fixture(scope="session")
def neighbour(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy policy after one policy step of training."""
    from trainer.generate import sample
    from trainer.policy import Policy, Recipe
    from trainer.rehearsal import learnable

    policy = Policy(toy, Recipe(learning_rate=2e-3))
    environment = load_environment(describe_environment("sieve", {}, toy), toy)
    problems = [environment.problem(bytes([slot]) * 32) for slot in range(8)]
    prompts = [problem.prompt for problem in problems for _ in range(8)]
    completions = sample(
        policy.model, prompts, rules=TokenRules(frozenset({1})), max_tokens=48, temperature=1.0, seed=1
    )
    groups = [[(problem, completions[8 * slot + row]) for row in range(8)] for slot, problem in enumerate(problems)]
    policy.train(learnable(environment, groups)[0])
    return policy.export(tmp_path_factory.mktemp("neighbour") / "policy")


@pytest.fixture(scope="session")
def environment(toy: Path) -> Environment:
    return load_environment(describe_environment("sieve", {}, toy), toy)


@pytest.fixture(scope="session")
def card() -> Card:
    return Card.parse((CARDS / "toy.json").read_bytes())


@pytest.fixture(scope="session")
def fp32(toy: Path) -> Prefill:
    return Prefill(toy, "fp32")


@pytest.fixture(scope="session")
def bf16(toy: Path) -> Prefill:
    return Prefill(toy, "bf16")


@pytest.fixture(scope="session")
def judge(card: Card, environment: Environment, fp32: Prefill, bf16: Prefill) -> Judge:
    return Judge(RULES, FACTS, card, environment, Computes(fp32, lambda: bf16))


@dataclass(frozen=True, slots=True)
class Bench:
    """Honest material of one slot, and a way to judge what was made of it."""

    judge: Judge
    prompt: tuple[int, ...]
    seeds: tuple[bytes, ...]
    tokens: tuple[tuple[int, ...], ...]
    states: tuple[torch.Tensor, ...]

    @property
    def rollouts(self) -> list[Rollout]:
        return prove(self.prompt, self.tokens, self.states)

    def verdict(self, rollouts: Sequence[Rollout], **changes: object) -> Judgement:
        made = leaf_of(rollouts, **changes)  # type: ignore[arg-type]
        return self.judge.judge(made.leaf, made.data)

    def finding(self, rollouts: Sequence[Rollout], **changes: object) -> Finding:
        return self.verdict(rollouts, **changes).finding


@pytest.fixture(scope="session")
def bench(judge: Judge, bf16: Prefill, environment: Environment) -> Bench:
    """Slot 3, generated in bf16 and judged in fp32."""
    prompt = environment.problem(FACTS.seeds.slot_seed(3)).prompt
    seeds = tuple(FACTS.seeds.rollout_seed(3, rollout) for rollout in range(RULES.group_size))
    tokens, states = generate(bf16, prompt, seeds, RULES.max_completion_tokens)
    return Bench(judge, prompt, seeds, tuple(tokens), tuple(states))
