"""A pool's terms: flat here, in groups on chain; what they come to in money."""

from __future__ import annotations

from dataclasses import replace

from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

from stannary.chain import Offer, PoolTerms
from stannary.types import Address, Hash
from tests.chains import TOKENS, small_terms


def person(name: str) -> Address:
    return Address(to_checksum_address(keccak(text=name)[12:]))


TERMS = small_terms(person("token"), person("coordinator"), person("trainer"))


def test_terms_survive_the_struct_with_its_groups() -> None:
    assert PoolTerms.from_struct(TERMS.as_struct()) == TERMS
    assert TERMS.as_struct()[1] == TERMS.offer.as_struct()


def test_terms_change_their_hash_with_every_member() -> None:
    changed = [replace(TERMS, quorum=3), replace(TERMS, reward_bps=1), replace(TERMS, environment_hash=Hash(bytes(32)))]
    assert len({TERMS.hash(), *(terms.hash() for terms in changed)}) == 4


def test_terms_under_an_offer_differ_in_that_alone() -> None:
    offer = Offer(person("next"), person("trainer"), 5, 6, Hash(b"c" * 32))
    under = TERMS.under(offer)
    assert under.offer == offer
    assert under.under(TERMS.offer) == TERMS


def test_step_reserves_every_slot_at_its_dearest_both_panels_both_beacons_and_the_lease_bond() -> None:
    terms = replace(TERMS, reserved_slots=2, jury_size=3)
    assert terms.slot_price == 2 * TOKENS + 128 * (TOKENS // 100)
    assert terms.jury_cost == 8 * (TOKENS // 2)
    per_slot = 328 * (TOKENS // 100) + 4 * TOKENS
    assert terms.step_price(10) == 12 * per_slot + 2 * 3 * TOKENS + 2 * (TOKENS // 10) + TOKENS


def test_group_is_paid_by_its_tokens_up_to_the_longest_that_is_allowed() -> None:
    assert TERMS.payout(0) == 2 * TOKENS
    assert TERMS.payout(128) == TERMS.payout(10_000) == TERMS.slot_price


def test_step_pays_a_worker_no_more_than_a_part_of_its_stake() -> None:
    assert replace(TERMS, pay_cap_bps=2_500).pay_cap(400 * TOKENS + 3) == 100 * TOKENS
