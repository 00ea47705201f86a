"""Each check by itself: what it lets pass and what it stops."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stannary.rollout import Rollout, encode_group
from stannary.slots import PayTable, submission_root, taken_lease_hash
from stannary.token_rules import TokenRules
from stannary.types import ZERO_HASH, Hash, Outcome, Reason, parse_address
from tests.validator.conftest import (
    FACTS,
    NODE,
    PROVIDER,
    RULES,
    STRANGER,
    address,
    leaf_of,
    lease_of,
)
from validator import checks
from validator.checks import Leaf, PolicyFacts

POLICY = PolicyFacts(vocabulary=64, tokens=TokenRules(frozenset({1}), suppressed_ids=(50, 51)))
PROOF = (65497).to_bytes(2, "big") + bytes(256)
ROLLOUT = Rollout((0, 4, 12, 13, 3), (12, 13, 14), (PROOF,))
GROUP = [ROLLOUT] * RULES.group_size


def rollout(completion: tuple[int, ...], proofs: int = 1) -> Rollout:
    return Rollout((0, 4, 12, 13, 3), completion, (PROOF,) * proofs)


SLOTS = FACTS.slots
MAX_UNITS = RULES.max_units


def commitment(leaves: list[Leaf]) -> tuple[Hash, Hash]:
    submissions = [leaf.submission for leaf in leaves]
    return submission_root(submissions, SLOTS), PayTable.of(submissions, SLOTS, MAX_UNITS).hash()


def test_commitment_to_these_leaves_is_fine() -> None:
    leaves = [leaf_of(GROUP, slot).leaf for slot in (1, 2, 5)]
    assert checks.check_commitment(leaves, SLOTS, MAX_UNITS, *commitment(leaves)).is_fine
    assert checks.check_commitment(list(reversed(leaves)), SLOTS, MAX_UNITS, *commitment(leaves)).is_fine


def test_commitment_to_other_leaves_is_no_verdict() -> None:
    leaves = [leaf_of(GROUP, slot).leaf for slot in (1, 2, 5)]
    twice = [leaves[0], replace(leaves[0], signature=b"")]
    beyond = [*leaves, leaf_of(GROUP, SLOTS).leaf]
    for served in (leaves[:2], [*leaves, leaf_of(GROUP, 6).leaf], twice, beyond, []):
        found = checks.check_commitment(served, SLOTS, MAX_UNITS, *commitment(leaves))
        assert (found.outcome, found.reason) == (Outcome.ABSTAIN, Reason.UNAVAILABLE)
        assert found.explanation.startswith("leaves: ")


def test_pay_table_of_other_leaves_is_no_verdict() -> None:
    leaves = [leaf_of(GROUP, slot).leaf for slot in (1, 2, 5)]
    dearer = [leaf_of(GROUP, slot, units=99).leaf for slot in (1, 2, 5)]
    found = checks.check_commitment(leaves, SLOTS, MAX_UNITS, commitment(leaves)[0], commitment(dearer)[1])
    assert (found.outcome, found.reason) == (Outcome.ABSTAIN, Reason.UNAVAILABLE)
    assert found.explanation.startswith("pay table: ")


def test_signature_of_the_node_is_fine() -> None:
    assert checks.check_signature(leaf_of(GROUP).leaf, RULES, PROVIDER).is_fine


def test_signature_of_a_stranger_is_rejected() -> None:
    found = checks.check_signature(leaf_of(GROUP, signer=STRANGER).leaf, RULES, PROVIDER)
    assert (found.outcome, found.reason) == (Outcome.REJECT, Reason.SIGNATURE)


@pytest.mark.parametrize("signature", [b"", bytes(65), b"\xff" * 65, b"\x01" * 64 + b"\x1b"])
def test_signature_that_is_none_is_rejected(signature: bytes) -> None:
    leaf = replace(leaf_of(GROUP).leaf, signature=signature)
    assert checks.check_signature(leaf, RULES, PROVIDER).reason is Reason.SIGNATURE


def test_signature_of_a_node_of_another_provider_is_rejected() -> None:
    found = checks.check_signature(leaf_of(GROUP).leaf, RULES, parse_address("0x" + "33" * 20))
    assert (found.outcome, found.reason) == (Outcome.REJECT, Reason.SIGNATURE)


def test_signature_for_another_deployment_is_rejected() -> None:
    elsewhere = replace(RULES, domain=replace(RULES.domain, chain_id=1))
    assert checks.check_signature(leaf_of(GROUP).leaf, elsewhere, PROVIDER).reason is Reason.SIGNATURE


def test_place_inside_the_step_is_fine() -> None:
    assert checks.check_place(leaf_of(GROUP, FACTS.slots - 1).leaf, RULES, FACTS).is_fine


@pytest.mark.parametrize("changes", [{"pool": 2}, {"step": 1}, {"slot": FACTS.slots}])
def test_place_outside_the_step_is_rejected_unslashed(changes: dict[str, object]) -> None:
    found = checks.check_place(leaf_of(GROUP, **changes).leaf, RULES, FACTS)  # type: ignore[arg-type]
    assert (found.outcome, found.reason) == (Outcome.REJECT, Reason.SLOT)


def test_lease_of_the_leaf_is_fine() -> None:
    assert checks.check_lease(leaf_of(GROUP).leaf, RULES, FACTS).is_fine


def test_lease_that_the_leaf_does_not_name_is_no_verdict() -> None:
    leaf = leaf_of(GROUP, lease_hash=Hash(b"\x09" * 32)).leaf
    found = checks.check_lease(leaf, RULES, FACTS)
    assert (found.outcome, found.reason) == (Outcome.ABSTAIN, Reason.UNAVAILABLE)


@pytest.mark.parametrize(
    "changes", [{"slot": 4}, {"step": 1}, {"pool": 2}, {"node": address(STRANGER)}, {"provider": address(STRANGER)}]
)
def test_lease_of_something_else_is_a_fault_of_the_node_that_signed_both(changes: dict[str, object]) -> None:
    found = checks.check_lease(leaf_of(GROUP, lease=lease_of(3, **changes)).leaf, RULES, FACTS)
    assert (found.outcome, found.reason) == (Outcome.FAULT, Reason.LEASE)


def test_lease_signed_by_another_than_the_coordinator_is_rejected() -> None:
    found = checks.check_lease(leaf_of(GROUP, coordinator=NODE).leaf, RULES, FACTS)
    assert (found.outcome, found.reason) == (Outcome.REJECT, Reason.LEASE)


@pytest.mark.parametrize(
    "changes",
    [
        {"policy_step": 0},
        {"card_hash": ZERO_HASH},
        {"protocol_version": 2},
        {"valid_from": 999},
        {"valid_until": 1010},
        {"valid_until": 1121},
    ],
)
def test_lease_on_other_terms_is_rejected_unslashed(changes: dict[str, object]) -> None:
    found = checks.check_lease(leaf_of(GROUP, lease=lease_of(3, **changes)).leaf, RULES, FACTS)
    assert (found.outcome, found.reason) == (Outcome.REJECT, Reason.LEASE)


def test_units_above_the_lease_are_a_fault() -> None:
    found = checks.check_lease(leaf_of(GROUP, units=193).leaf, RULES, FACTS)
    assert (found.outcome, found.reason) == (Outcome.FAULT, Reason.UNITS)


TAKEN = replace(FACTS, taken=2)


def taken_leaf(slot: int = SLOTS, **changes: object) -> Leaf:
    lease_hash = taken_lease_hash(RULES.domain, RULES.pool, FACTS.step, slot, PROVIDER)
    made = leaf_of(GROUP, slot, **({"lease_hash": lease_hash} | changes))  # type: ignore[arg-type]
    return replace(made.leaf, lease=None, lease_signature=b"")


def test_leaf_of_a_slot_taken_on_chain_needs_no_lease() -> None:
    leaf = taken_leaf()
    assert checks.check_place(leaf, RULES, TAKEN).is_fine
    assert checks.check_signature(leaf, RULES, PROVIDER).is_fine
    assert checks.check_lease(leaf, RULES, TAKEN).is_fine


@pytest.mark.parametrize("slot", [0, SLOTS - 1, SLOTS + 2])
def test_leaf_of_a_slot_that_was_not_taken_is_rejected(slot: int) -> None:
    found = checks.check_place(taken_leaf(slot), RULES, TAKEN)
    assert (found.outcome, found.reason) == (Outcome.REJECT, Reason.SLOT)


def test_leaf_of_a_taken_slot_under_another_lease_is_rejected() -> None:
    found = checks.check_lease(taken_leaf(lease_hash=lease_of(SLOTS).struct_hash()), RULES, TAKEN)
    assert (found.outcome, found.reason) == (Outcome.REJECT, Reason.LEASE)


def test_leaf_of_a_taken_slot_with_more_units_than_a_group_has_is_a_fault() -> None:
    found = checks.check_lease(taken_leaf(units=193), RULES, TAKEN)
    assert (found.outcome, found.reason) == (Outcome.FAULT, Reason.UNITS)


def test_file_of_the_leaf_is_read() -> None:
    made = leaf_of(GROUP)
    finding, rollouts = checks.check_file(made.data, made.leaf, RULES)
    assert finding.is_fine
    assert rollouts == GROUP


def test_file_that_is_another_is_no_verdict() -> None:
    made = leaf_of(GROUP)
    assert checks.check_file(made.data + b"\0", made.leaf, RULES)[0].reason is Reason.UNAVAILABLE


def test_file_with_another_number_of_rollouts_is_rejected() -> None:
    made = leaf_of(GROUP[:3])
    found = checks.check_file(made.data, made.leaf, RULES)[0]
    assert (found.outcome, found.reason) == (Outcome.REJECT, Reason.GROUP)


def test_file_beyond_the_size_limit_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    made = leaf_of(GROUP)
    monkeypatch.setattr(checks, "MAX_SUBMISSION_BYTES", len(made.data) - 1)
    found = checks.check_file(made.data, made.leaf, RULES)[0]
    assert (found.outcome, found.reason) == (Outcome.REJECT, Reason.SIZE)


@pytest.mark.parametrize("cut", [0, 4, 11, 100, -8, -1])
def test_file_that_is_cut_is_rejected(cut: int) -> None:
    made = leaf_of(GROUP, data=encode_group(GROUP)[:cut])
    found = checks.check_file(made.data, made.leaf, RULES)[0]
    assert (found.outcome, found.reason) == (Outcome.REJECT, Reason.SCHEMA)


def test_file_with_half_a_proof_is_a_fault() -> None:
    made = leaf_of([replace(ROLLOUT, proofs=(PROOF[:100],))] * 4)
    found = checks.check_file(made.data, made.leaf, RULES)[0]
    assert (found.outcome, found.reason) == (Outcome.FAULT, Reason.PROOF_FORMAT)


def test_prompt_of_the_slot_is_fine() -> None:
    assert checks.check_prompt(GROUP, ROLLOUT.prompt).is_fine


@pytest.mark.parametrize("prompt", [(), (0, 4, 12, 13), (0, 4, 12, 13, 3, 3), (0, 5, 12, 13, 3)])
def test_prompt_of_one_rollout_that_differs_is_a_fault(prompt: tuple[int, ...]) -> None:
    found = checks.check_prompt([*GROUP[1:], replace(ROLLOUT, prompt=prompt)], ROLLOUT.prompt)
    assert (found.outcome, found.reason) == (Outcome.FAULT, Reason.PROMPT)
    assert "rollout 3" in found.explanation


@pytest.mark.parametrize(("length", "outcome"), [(0, "REJECT"), (1, "ACCEPT"), (48, "ACCEPT"), (49, "REJECT")])
def test_lengths_are_between_one_and_the_cap(length: int, outcome: str) -> None:
    found = checks.check_lengths([rollout((12,) * length)], RULES)
    assert found.outcome.name == outcome


@pytest.mark.parametrize(
    ("token", "outcome"), [(-1, "REJECT"), (0, "ACCEPT"), (63, "ACCEPT"), (64, "REJECT"), (50, "REJECT")]
)
def test_tokens_are_those_that_the_policy_may_sample(token: int, outcome: str) -> None:
    assert checks.check_tokens([rollout((12, token))], POLICY).outcome.name == outcome


@pytest.mark.parametrize(
    ("completion", "outcome"),
    [
        ((1,), "ACCEPT"),
        ((12, 13, 1), "ACCEPT"),
        ((12,) * 48, "ACCEPT"),
        ((12,) * 47 + (1,), "ACCEPT"),
        ((12,), "REJECT"),
        ((12,) * 47, "REJECT"),
        ((1, 1), "REJECT"),
        ((1,) + (12,) * 47, "REJECT"),
    ],
)
def test_completion_ends_with_its_first_end_token_or_at_the_cap(completion: tuple[int, ...], outcome: str) -> None:
    found = checks.check_termination([rollout(completion)], RULES, POLICY)
    assert found.outcome.name == outcome
    assert found.is_fine or found.reason is Reason.TERMINATION


@pytest.mark.parametrize(("units", "outcome"), [(11, "FAULT"), (12, "ACCEPT"), (13, "FAULT"), (0, "FAULT")])
def test_units_are_the_tokens_of_the_file(units: int, outcome: str) -> None:
    assert checks.check_units(GROUP, leaf_of(GROUP, units=units).leaf).outcome.name == outcome


@pytest.mark.parametrize(
    ("length", "proofs", "outcome"),
    [(32, 1, "ACCEPT"), (33, 2, "ACCEPT"), (33, 1, "FAULT"), (32, 2, "FAULT"), (32, 0, "FAULT")],
)
def test_proofs_are_one_a_chunk(length: int, proofs: int, outcome: str) -> None:
    found = checks.check_proofs([rollout((12,) * length, proofs)])
    assert found.outcome.name == outcome
    if not found.is_fine:
        assert found.reason is Reason.PROOF_COUNT
        assert f"got {proofs}" in found.explanation
