"""The checks, cheap to dear: each looks at one thing and says what it found. Pure: no chain, files, HTTP or clock.

A check never raises on a stranger's bytes. What raises here is our own failure, and the caller abstains on it.

Who is to blame decides between reject and fault. A fault is slashed, so it must follow from what the node itself
signed: the leaf, the lease it names by hash, and the file it names by hash. Signatures and lists reach a validator
through the coordinator, which could spoil them to harm a worker: what is wrong with those is a reject at most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stannary import toploc
from stannary.errors import BadSignature, Malformed, ProofError
from stannary.rollout import MAX_SUBMISSION_BYTES, Rollout, content_hash, decode_group
from stannary.seeds import StepSeeds
from stannary.slots import PayTable, submission_root, taken_lease_hash
from stannary.structs import Domain, Lease, Submission
from stannary.token_rules import TokenRules
from stannary.types import Address, Hash, Reason, to_hex
from validator.finding import FINE, Finding, fault, reject, unavailable

Read = Callable[[bytes, int], list[Rollout]]
"""Reads a submission file: its bytes and the group's size. Raises: Malformed."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What the pool's terms on chain say, as far as a check needs it."""

    domain: Domain
    pool: int
    coordinator: Address
    group_size: int
    max_completion_tokens: int
    collect_seconds: int
    temperature_milli: int
    protocol_version: int
    card_hash: Hash

    @property
    def max_units(self) -> int:
        """Completion tokens of a group that are paid at most."""
        return self.group_size * self.max_completion_tokens


@dataclass(frozen=True, slots=True)
class StepFacts:
    """What the chain says of the step."""

    step: int
    policy_step: int
    slots: int
    seeded_at: int
    """On the pool's clock; no lease is older."""
    seeds: StepSeeds
    audit_beacon: Hash
    """What chooses the leaves that get the dear checks."""
    taken: int = 0
    """Slots taken on chain, numbered after the others."""


@dataclass(frozen=True, slots=True)
class PolicyFacts:
    """What the policy's folder says."""

    vocabulary: int
    tokens: TokenRules


@dataclass(frozen=True, slots=True)
class Leaf:
    """One leaf with the signatures that came with it."""

    submission: Submission
    signature: bytes
    lease: Lease | None
    """None for a slot that was taken on chain: its record there is its lease."""
    lease_signature: bytes = b""
    location: str = ""
    """Where its file is served if the coordinator does not; empty if nobody named a place."""


def check_commitment(leaves: Sequence[Leaf], slots: int, max_units: int, root: Hash, pay_table_hash: Hash) -> Finding:
    """Whether these are the committed leaves, and those who are paid theirs.

    If not, the coordinator serves or pays others, which is no leaf's fault: nothing of the step can be judged.
    """
    submissions = [leaf.submission for leaf in leaves]
    try:
        found, table_hash = submission_root(submissions, slots), PayTable.of(submissions, slots, max_units).hash()
    except Malformed as error:
        return unavailable(f"leaves: {error}")
    if found != root:
        return unavailable(f"leaves: root {to_hex(root)} was committed, {to_hex(found)} is served")
    if table_hash != pay_table_hash:
        return unavailable(f"pay table: {to_hex(pay_table_hash)} was committed, the leaves make {to_hex(table_hash)}")
    return FINE


def check_signature(leaf: Leaf, rules: Rules, provider_of_node: Address) -> Finding:
    """The leaf is signed by its node, and the node acts for the leaf's provider on chain."""
    submission = leaf.submission
    try:
        submission.require_signer(leaf.signature, rules.domain, submission.node)
    except (Malformed, BadSignature) as error:
        return reject(Reason.SIGNATURE, str(error))
    if provider_of_node != submission.provider:
        return reject(
            Reason.SIGNATURE, f"node {submission.node} acts for {provider_of_node}, not for {submission.provider}"
        )
    return FINE


def check_place(leaf: Leaf, rules: Rules, facts: StepFacts) -> Finding:
    """The leaf is for this pool and step, and for a slot that the step has."""
    submission = leaf.submission
    if (submission.pool, submission.step) != (rules.pool, facts.step):
        return reject(Reason.SLOT, f"the leaf is for pool {submission.pool}, step {submission.step}")
    first, end = (0, facts.slots) if leaf.lease is not None else (facts.slots, facts.slots + facts.taken)
    if not first <= submission.slot < end:
        return reject(Reason.SLOT, f"slot {submission.slot}: expected {first} … {end - 1}")
    return FINE


def check_lease(leaf: Leaf, rules: Rules, facts: StepFacts) -> Finding:
    """The lease is the one that the leaf names, for this leaf, on the pool's terms, signed by the coordinator.

    A slot that was taken on chain has its record for a lease.
    """
    submission, lease = leaf.submission, leaf.lease
    if lease is None:
        return _check_taken(submission, rules)
    try:
        lease_hash = lease.struct_hash()
    except Malformed as error:
        return unavailable(f"lease: {error}")
    if lease_hash != submission.lease_hash:
        return unavailable(f"lease: the leaf names {to_hex(submission.lease_hash)}, {to_hex(lease_hash)} is served")
    # The node has signed both sides of these: it is its own contradiction.
    claimed = (lease.pool, lease.step, lease.slot, lease.provider, lease.node)
    own = (submission.pool, submission.step, submission.slot, submission.provider, submission.node)
    if claimed != own:
        return fault(Reason.LEASE, f"the lease is for {claimed}, the leaf for {own}")
    if submission.units > lease.max_units:
        return fault(Reason.UNITS, f"units: {submission.units} claimed, the lease allows {lease.max_units}")
    try:
        lease.require_signer(leaf.lease_signature, rules.domain, rules.coordinator)
    except (Malformed, BadSignature) as error:
        return reject(Reason.LEASE, str(error))
    expected = {
        "policy step": (facts.policy_step, lease.policy_step),
        "card": (to_hex(rules.card_hash), to_hex(lease.card_hash)),
        "protocol version": (rules.protocol_version, lease.protocol_version),
    }
    for name, (wanted, got) in expected.items():
        if wanted != got:
            return reject(Reason.LEASE, f"{name} of the lease: expected {wanted}, got {got}")
    latest = facts.seeded_at + rules.collect_seconds
    if not facts.seeded_at <= lease.valid_from < lease.valid_until <= latest:
        return reject(
            Reason.LEASE,
            f"validity of the lease: expected within {facts.seeded_at} … {latest}, "
            f"got {lease.valid_from} … {lease.valid_until}",
        )
    return FINE


def _check_taken(submission: Submission, rules: Rules) -> Finding:
    expected = taken_lease_hash(rules.domain, submission.pool, submission.step, submission.slot, submission.provider)
    if submission.lease_hash != expected:
        return reject(
            Reason.LEASE, f"lease: expected {to_hex(expected)}, the leaf names {to_hex(submission.lease_hash)}"
        )
    allowed = rules.group_size * rules.max_completion_tokens
    if submission.units > allowed:
        return fault(Reason.UNITS, f"units: {submission.units} claimed, the pool allows {allowed}")
    return FINE


def check_file(data: bytes, leaf: Leaf, rules: Rules, read: Read = decode_group) -> tuple[Finding, list[Rollout]]:
    """The file is the leaf's, within the size limit, of exactly the schema, and holds a whole group."""
    if content_hash(data) != leaf.submission.content_hash:
        return unavailable(f"file: {to_hex(leaf.submission.content_hash)} is committed, another is served"), []
    if len(data) > MAX_SUBMISSION_BYTES:
        return reject(Reason.SIZE, f"file: {len(data)} bytes, at most {MAX_SUBMISSION_BYTES} are taken"), []
    try:
        return FINE, read(data, rules.group_size)
    except Malformed as error:
        if error.field == "rows":
            return reject(Reason.GROUP, str(error)), []
        if error.field == "proof":
            return fault(Reason.PROOF_FORMAT, str(error)), []
        return reject(Reason.SCHEMA, str(error)), []


def check_prompt(rollouts: Sequence[Rollout], prompt: Sequence[int]) -> Finding:
    """Every rollout starts from the prompt that the slot's seed gives."""
    for index, rollout in enumerate(rollouts):
        if rollout.prompt != tuple(prompt):
            place = next(
                (at for at, pair in enumerate(zip(rollout.prompt, prompt, strict=False)) if pair[0] != pair[1]),
                min(len(rollout.prompt), len(prompt)),
            )
            return fault(
                Reason.PROMPT,
                f"rollout {index}: the slot's prompt has {len(prompt)} tokens, this one {len(rollout.prompt)}; "
                f"they differ from token {place} on",
            )
    return FINE


def check_lengths(rollouts: Sequence[Rollout], rules: Rules) -> Finding:
    """Every completion has at least one token and at most the cap."""
    for index, rollout in enumerate(rollouts):
        if not 1 <= len(rollout.completion) <= rules.max_completion_tokens:
            return reject(
                Reason.LENGTH,
                f"rollout {index}: {len(rollout.completion)} tokens, expected 1 … {rules.max_completion_tokens}",
            )
    return FINE


def check_tokens(rollouts: Sequence[Rollout], policy: PolicyFacts) -> Finding:
    """Every token id is one that the policy may sample."""
    suppressed = frozenset(policy.tokens.suppressed_ids)
    for index, rollout in enumerate(rollouts):
        for place, token in enumerate(rollout.completion):
            if not 0 <= token < policy.vocabulary:
                return reject(
                    Reason.TOKEN,
                    f"rollout {index}, token {place}: id {token}, expected 0 … {policy.vocabulary - 1}",
                )
            if token in suppressed:
                return reject(
                    Reason.TOKEN, f"rollout {index}, token {place}: id {token} is suppressed by the policy's own rules"
                )
    return FINE


def check_termination(rollouts: Sequence[Rollout], rules: Rules, policy: PolicyFacts) -> Finding:
    """A completion ends with its first end token, or at the cap."""
    for index, rollout in enumerate(rollouts):
        ends = [place for place, token in enumerate(rollout.completion) if token in policy.tokens.end_ids]
        last = len(rollout.completion) - 1
        if ends and ends[0] != last:
            return reject(Reason.TERMINATION, f"rollout {index}: goes on after the end token at {ends[0]}")
        if not ends and last + 1 != rules.max_completion_tokens:
            return reject(
                Reason.TERMINATION,
                f"rollout {index}: stops after {last + 1} tokens, without an end token, below the cap",
            )
    return FINE


def check_units(rollouts: Sequence[Rollout], leaf: Leaf) -> Finding:
    """The units that are to be paid are the tokens that are there."""
    generated = sum(len(rollout.completion) for rollout in rollouts)
    if generated != leaf.submission.units:
        return fault(Reason.UNITS, f"units: {leaf.submission.units} claimed, the file holds {generated} tokens")
    return FINE


def check_proofs(rollouts: Sequence[Rollout]) -> Finding:
    """There is one well-formed proof for every chunk."""
    for index, rollout in enumerate(rollouts):
        expected = toploc.chunk_count(len(rollout.completion))
        if len(rollout.proofs) != expected:
            return fault(
                Reason.PROOF_COUNT,
                f"rollout {index}: expected {expected} proofs for {len(rollout.completion)} tokens, "
                f"got {len(rollout.proofs)}",
            )
        for chunk, proof in enumerate(rollout.proofs):
            try:
                toploc.parse(proof)
            except ProofError as error:
                return fault(Reason.PROOF_FORMAT, f"rollout {index}, chunk {chunk}: {error}")
    return FINE
