"""One step's life on a real chain, a slot taken on chain included, and where every token of it goes."""

from __future__ import annotations

from dataclasses import replace

from eth_utils.crypto import keccak

from stannary.chain import Chain, LeafOpening, events
from stannary.panel import draw_panel
from stannary.seeds import audit_beacon, seed_beacon, taken_beacon
from stannary.slots import PayTable, submission_root, taken_lease_hash
from stannary.structs import Submission
from stannary.types import Address, Hash, Outcome, Phase, PoolId, Role
from stannary.verdict import pack_outcomes
from tests.chains import ROOT, TOKENS, Devnet

SLOTS = 4
UNITS = 50
MAX_UNITS = 128
A, R, F, X = Outcome.ACCEPT, Outcome.REJECT, Outcome.FAULT, Outcome.ABSTAIN


def test_step_from_stake_to_payout_conserves_every_token(devnet: Devnet) -> None:
    chain, ledger, vault = devnet.chain, devnet.chain.submission_ledger, devnet.chain.payout_vault
    voting = chain.voting_panel
    pool = devnet.pool(reserved_slots=1, take_seconds=30)
    worker, cheat = (devnet.stake(name, pool, Role.WORKER) for name in ("worker", "cheat"))
    devnet.judges(pool)
    node = devnet.add_node("worker", "worker-node")
    assert chain.stake_manager.provider_of(devnet.address(node)) == worker.address

    terms = chain.pool_registry.terms_of(pool)
    assert terms == devnet.terms(reserved_slots=1, take_seconds=30)
    assert chain.pool_registry.terms_hash_of(pool) == terms.hash()
    devnet.open_step(pool, slots=SLOTS)
    assert chain.terms_at(pool, 0) == terms
    assert vault.reservation_of(pool, 0) == terms.step_price(SLOTS) - terms.seal_fee
    state = ledger.step_of(pool, 0)
    assert state.phase == Phase.SEEDED
    assert state.seed_beacon == seed_beacon(chain.ledger_domain, pool, 0, chain.block(state.seed_block).hash)

    taken = _take_and_deliver(devnet, pool)
    leaves = _leaves(pool, worker.address, devnet.address(node), cheat.address)
    assert ledger.leaf_hash(leaves[0]) == leaves[0].struct_hash()
    devnet.commit(pool, leaves)
    state = ledger.step_of(pool, 0)
    assert (state.submission_root, state.positions) == (submission_root(leaves, SLOTS), SLOTS + 1)
    assert state.phase is Phase.COMMITTED
    assert state.settlement_hash == PayTable.of(leaves, SLOTS, MAX_UNITS).hash()
    for leaf in leaves:
        assert ledger.check_leaf(pool, 0, LeafOpening.of(leaves, SLOTS, leaf.slot)) == leaf.struct_hash()
    assert ledger.check_leaf(pool, 0, LeafOpening(taken, ())) == taken.struct_hash()

    devnet.advance(terms.take_seconds)
    panel = devnet.draw(pool)
    state = ledger.step_of(pool, 0)
    assert state.audit_beacon == audit_beacon(chain.ledger_domain, pool, 0, chain.block(state.audit_block).hash)
    stakes = chain.stake_manager.validator_stakes_at(pool, state.opened_block - 1)
    assert voting.panel_of(pool, 0) == draw_panel(stakes, state.audit_beacon, terms.panel_size)

    votes = [A, X, R, F, A]
    devnet.vote(pool, dict.fromkeys(panel, votes))
    history = devnet.finalize(pool)
    assert history.outcomes() == votes
    assert history.votes_by_seat() == [pack_outcomes(votes)] * 3
    assert history.finalized is not None
    assert (history.finalized.accepted, history.finalized.rejected, history.finalized.faulted) == (2, 1, 1)
    assert ledger.step_of(pool, 0).settlement_hash == keccak(history.finalized.outcomes)
    assert voting.outcome_at(pool, 0, 3, history.finalized.outcomes) is F

    due = 2 * terms.payout(UNITS) + terms.slot_price  # the bond of the slot that was taken comes back with the pay
    assert vault.earnings_of(pool, worker.address).unclaimed == due
    before = chain.token.balance_of(worker.address)
    vault.claim(devnet.sender("anyone"), pool, worker.address)
    assert chain.token.balance_of(worker.address) - before == due
    assert vault.earnings_of(pool, worker.address).unclaimed == 0
    assert vault.earnings_of(pool, devnet.sender(panel[0]).address).unclaimed == terms.panel_fee
    assert vault.earnings_of(pool, devnet.sender("trainer").address).unclaimed == 2 * terms.seal_fee
    opening = LeafOpening.of(leaves, SLOTS, 3)
    voting.slash_leaf(devnet.sender("anyone"), pool, 0, opening, history.finalized.outcomes)
    assert chain.stake_manager.position_of(pool, Role.WORKER, cheat.address).tokens == 900 * TOKENS
    _assert_conserved(chain, pool)

    devnet.advance(terms.slash_window_seconds)
    exit_id = chain.stake_manager.start_exit(worker, pool, Role.WORKER, 1_000 * TOKENS)
    leaving = chain.stake_manager.exit_of(exit_id)
    assert leaving is not None
    assert leaving.provider == worker.address
    devnet.advance(terms.unbonding_seconds + 1)
    chain.stake_manager.finish_exit(worker, exit_id)
    assert chain.stake_manager.exit_of(exit_id) is None
    chain.stake_manager.withdraw(worker, 1_000 * TOKENS)
    assert chain.stake_manager.idle_of(worker.address) == 0
    chain.stake_manager.burn_slashed(worker)
    assert chain.stake_manager.burnable() == 0
    _assert_conserved(chain, pool)
    _check_events(chain, pool)


def _take_and_deliver(devnet: Devnet, pool: PoolId) -> Submission:
    """Let the worker take a slot on chain and deliver it."""
    chain, ledger = devnet.chain, devnet.chain.submission_ledger
    worker, node = devnet.sender("worker"), devnet.account("worker-node")
    bond = chain.pool_registry.terms_of(pool).slot_price
    chain.token.require_allowance(worker, chain.deployment.payout_vault, bond)
    assert ledger.take_slot(worker, pool, 0) == SLOTS
    assert chain.payout_vault.bonded_of(pool) == bond
    devnet.mine(2)
    ledger.seal_taken_slot(worker, pool, 0, SLOTS)
    record = ledger.taken_slot_of(pool, 0, SLOTS)
    assert record is not None
    block_hash = chain.block(record.beacon_block).hash
    assert record.beacon == taken_beacon(chain.ledger_domain, pool, 0, SLOTS, block_hash)
    lease_hash = taken_lease_hash(chain.ledger_domain, pool, 0, SLOTS, worker.address)
    leaf = Submission(
        pool, 0, SLOTS, worker.address, devnet.address(node), UNITS, Hash(keccak(text="taken")), lease_hash
    )
    signature = leaf.sign(node, chain.ledger_domain)
    ledger.deliver_taken(worker, pool, 0, leaf, signature, "http://worker.example")
    history = chain.step_history(pool, 0)
    assert history.delivered[SLOTS].leaf == leaf
    assert (history.positions, history.taken_beacons) == (SLOTS + 1, {SLOTS: record.beacon})
    assert chain.payout_vault.bonded_of(pool) == 0
    return leaf


def _leaves(pool: PoolId, worker: Address, node: Address, cheat: Address) -> list[Submission]:
    return [
        Submission(pool, 0, slot, provider, via, UNITS, Hash(bytes([slot + 1]) * 32), Hash(b"\x33" * 32))
        for slot, provider, via in ((0, worker, node), (2, worker, node), (3, cheat, cheat))
    ]


def _check_events(chain: Chain, pool: PoolId) -> None:
    found = chain.read_events(chain.deployment.deployed_block, chain.frozen().number)
    mine = [event for event in found if getattr(event, "pool", pool) == pool]
    kinds = {type(event) for event in mine}
    expected = {events.StepOpened, events.VoteRevealed, events.StepFinalized, events.Claimed, events.Slashed}
    assert expected | {events.Earned, events.Settled, events.TakenSlotDelivered, events.StakeBurned} <= kinds
    places = [(event.place.block_number, event.place.log_index) for event in found]
    assert places == sorted(places)
    created = next(event for event in mine if isinstance(event, events.PoolCreated))
    assert created.terms == chain.pool_registry.terms_of(pool)
    assert created.terms_hash == chain.pool_registry.terms_hash_of(pool)
    unclaimed = events.credited(mine)
    for event in mine:
        if isinstance(event, events.Claimed):
            unclaimed[event.provider] -= event.amount
    for provider, amount in unclaimed.items():
        assert chain.payout_vault.earnings_of(pool, provider).unclaimed == amount


def _assert_conserved(chain: Chain, pool: int) -> None:
    vault, stakes = chain.deployment.payout_vault, chain.deployment.stake_manager
    earners = events.credited(chain.read_events(chain.deployment.deployed_block, chain.frozen().number))
    assert chain.token.balance_of(vault) == chain.payout_vault.money_of(pool, earners)
    assert chain.token.balance_of(stakes) == chain.stake_manager.total_held()


def test_panel_below_its_quorum_is_redrawn_once_and_those_who_revealed_stay(devnet: Devnet) -> None:
    chain, voting = devnet.chain, devnet.chain.voting_panel
    pool = devnet.pool()
    worker = devnet.stake("worker", pool, Role.WORKER)
    devnet.judges(pool, 6)
    devnet.open_step(pool, slots=1)
    devnet.commit(pool, [Submission(pool, 0, 0, worker.address, worker.address, UNITS, ROOT, ROOT)])
    first = devnet.draw(pool)
    devnet.vote(pool, {first[1]: [A]})
    times = voting.panel_times_of(pool, 0)
    devnet.wait_until(pool, times.reveal_until)
    voting.redraw_panel(devnet.sender("anyone"), pool, 0)
    history = chain.step_history(pool, 0)
    second = [devnet.name_of(member) for member in voting.panel_of(pool, 0)]
    assert history.panel == tuple(voting.panel_of(pool, 0))
    assert first[1] in second
    assert set(first) & set(second) == {first[1]}
    assert {devnet.name_of(gone) for gone in voting.dismissed_of(pool, 0)} == {first[0], first[2]}
    assert voting.panel_times_of(pool, 0).was_redrawn
    assert (
        chain.stake_manager.position_of(pool, Role.VALIDATOR, devnet.sender(first[0]).address).tokens < 1_000 * TOKENS
    )
    devnet.vote(pool, {second[1]: [A], second[2]: [R]})
    history = devnet.finalize(pool)
    assert history.outcomes() == [A]
    assert sorted(history.votes_by_seat()) == sorted(pack_outcomes([vote]) for vote in (A, A, R))
    devnet.open_step(pool, 1, slots=1)
    assert list(chain.settled_histories(pool, range(1), chain.frozen())) == [history]
    settled, still_open = chain.settled_histories(pool, range(2), chain.frozen())
    assert settled == history
    assert (still_open.step, still_open.positions, still_open.outcomes()) == (1, 1, None)


def test_pool_clock_stands_while_the_pool_is_paused(devnet: Devnet) -> None:
    registry = devnet.chain.pool_registry
    guards = {name: devnet.sender(name) for name in ("pauser", "unpauser")}
    pool = devnet.pool(**{name: guard.address for name, guard in guards.items()})
    at = devnet.chain.frozen()
    assert registry.clock_of(pool, at) == at.timestamp
    registry.pause(guards["pauser"], pool)
    stands = registry.clock_of(pool, devnet.chain.frozen())
    devnet.advance(500)
    assert (registry.is_paused(pool), registry.clock_of(pool, devnet.chain.frozen())) == (True, stands)
    registry.unpause(guards["unpauser"], pool)
    at = devnet.chain.frozen()
    assert not registry.is_paused(pool)
    assert 500 <= at.timestamp - registry.clock_of(pool, at) < 520


def test_step_keeps_the_offer_that_it_was_opened_under(devnet: Devnet) -> None:
    chain, registry = devnet.chain, devnet.chain.pool_registry
    pool = devnet.pool(quorum=2)
    devnet.stake("worker", pool, Role.WORKER)
    devnet.judges(pool)
    devnet.open_step(pool)
    before = chain.terms_in_force(pool)
    assert registry.pending_offer_of(pool) is None
    later = replace(before.offer, price_per_group=3 * TOKENS)
    number = registry.announce_offer(devnet.sender("owner"), pool, later)
    pending = registry.pending_offer_of(pool)
    assert pending is not None
    assert (number, pending.offer, chain.terms_in_force(pool)) == (1, later, before)
    devnet.wait_until(pool, pending.effective_at)
    devnet.open_step(pool, 1)
    assert registry.offer_number_of(pool) == 1
    assert chain.terms_in_force(pool).price_per_group == 3 * TOKENS
    assert (chain.terms_at(pool, 0), chain.terms_at(pool, 1)) == (before, before.under(later))
