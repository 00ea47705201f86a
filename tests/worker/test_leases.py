"""worker.leases: what is refused, and in what words."""

from __future__ import annotations

import pytest

from stannary.errors import Malformed, Unavailable
from stannary.types import Address, Hash, Phase
from tests.worker.scripted import NOW, RULES, make_lease, step_facts
from worker.leases import check_lease


def test_check_lease_of_an_honest_coordinator_passes() -> None:
    check_lease(make_lease(), RULES, step_facts())


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("lease.pool", {"pool": 2}),
        ("lease.provider", {"provider": Address("0x" + "33" * 20)}),
        ("lease.node", {"node": Address("0x" + "33" * 20)}),
        ("lease.protocolVersion", {"protocol_version": 2}),
        ("lease.cardHash", {"card_hash": Hash(b"x" * 32)}),
        ("lease.maxUnits", {"max_units": RULES.max_units + 1}),
        ("lease.step", {"step": 2}),
        ("lease.policyStep", {"policy_step": 1}),
        ("lease.slot", {"slot": 8}),
        ("lease.validFrom", {"valid_from": NOW - 11, "valid_until": NOW + 1}),
        ("lease.validFrom", {"valid_from": NOW + 60, "valid_until": NOW + 111}),
        ("lease.validUntil", {"valid_until": NOW}),
        ("lease.validUntil", {"valid_from": NOW - 10, "valid_until": NOW}),
        ("lease.validUntil", {"valid_until": NOW + RULES.lease_seconds + 1}),
    ],
)
def test_check_lease_with_a_wrong_field_names_it(field: str, changes: dict[str, object]) -> None:
    with pytest.raises(Malformed) as error:
        check_lease(make_lease(**changes), RULES, step_facts())
    assert error.value.field == field
    assert field in str(error.value)


@pytest.mark.parametrize("phase", [Phase.COMMITTED, Phase.AUDITED, Phase.FINALIZED, Phase.CANCELLED])
def test_check_lease_of_a_step_that_no_longer_collects_is_refused(phase: Phase) -> None:
    with pytest.raises(Malformed, match=f"1 {phase.name.lower()}"):
        check_lease(make_lease(), RULES, step_facts(phase=phase))


@pytest.mark.parametrize("phase", [Phase.NONE, Phase.OPEN])
def test_check_lease_before_the_beacon_is_seen_is_to_be_tried_again(phase: Phase) -> None:
    with pytest.raises(Unavailable, match="seed beacon of step 1"):
        check_lease(make_lease(), RULES, step_facts(phase=phase))


def test_check_lease_with_a_lag_beyond_the_pools_is_refused() -> None:
    lease = make_lease(step=3, policy_step=0)
    with pytest.raises(Malformed, match="lag of at most 2"):
        check_lease(lease, RULES, step_facts(3, policy_step=0))
