"""coordinator.mirror on a real chain: what it copies, in chunks, over re-organisations and faults of the node (A35)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy import select
from sqlalchemy.orm import DeclarativeBase

from coordinator import queries
from coordinator.event_rows import history_of
from coordinator.mirror import Mirror, Reorganised, check_identity
from coordinator.store import Store
from coordinator.tables import (
    SINGLE_ROW,
    BlockRow,
    CaseRow,
    CursorRow,
    EventRow,
    LeaseRow,
    NodeRow,
    PanelRow,
    PolicyRow,
    PositionRow,
    StakeRow,
    StaleRow,
    StepRow,
    TakenRow,
    VoteRow,
)
from stannary.chain import Chain, LeafOpening, NodeRefused
from stannary.errors import SettingsError, Unreachable
from stannary.slots import taken_lease_hash
from stannary.structs import Submission
from stannary.types import Address, CaseKind, CasePhase, Hash, Outcome, Phase, PoolId, Role
from stannary.verdict import pack_outcomes
from tests.chains import ROOT, TOKENS, Devnet

R = TypeVar("R", bound=DeclarativeBase)
NOW = 5_000.0
VALIDATORS = ("vera", "victor", "vince", "zoe")
EVENTS = sorted([*["Allocated"] * 5, "PolicyPublished", "StepOpened"])


@dataclass(slots=True)
class World:
    """A pool with a worker and four validators, and the mirror of it."""

    devnet: Devnet
    store: Store
    pool: PoolId

    def mirror(self, chain: Chain | None = None, blocks_per_read: int = 1000) -> Mirror:
        """Return a new mirror on the database, as a restarted process has."""
        return Mirror(
            chain or self.devnet.chain, self.store, self.pool, blocks_per_read=blocks_per_read, clock=lambda: NOW
        )

    def rows(self, kind: type[R]) -> Sequence[R]:
        """Return all rows of a table."""
        return self.store.read(lambda session: session.scalars(select(kind)).all())

    def row(self, kind: type[R], key: Any) -> R:
        """Return one row."""
        found = self.store.read(lambda session: session.get(kind, key))
        assert found is not None
        return found

    def publish_and_open(self, slots: int = 4) -> None:
        """Publish policy step 0 and open step 0."""
        trainer, ledger = self.devnet.sender("trainer"), self.devnet.chain.submission_ledger
        ledger.publish_policy(trainer, self.pool, 0, Hash(b"p" * 32), Hash(bytes(32)))
        ledger.open_step(trainer, self.pool, 0, 0, slots)

    def seal_seed(self) -> None:
        """Seal the seed beacon of step 0."""
        self.devnet.mine(2)
        self.devnet.chain.submission_ledger.seal_seed_beacon(self.devnet.sender("trainer"), self.pool, 0)

    def leaf(self, slot: int) -> Submission:
        """Return a leaf of the worker in step 0."""
        wendy = self.devnet.sender("wendy").address
        return Submission(self.pool, 0, slot, wendy, wendy, 9, Hash(bytes([slot + 1]) * 32), Hash(b"l" * 32))


@pytest.fixture
def world(devnet: Devnet, tmp_path: Path) -> Iterator[World]:
    """A world whose mirror has not run yet."""
    pool = devnet.pool()
    devnet.stake("wendy", pool, Role.WORKER, 1000)
    for name in VALIDATORS:
        devnet.stake(name, pool, Role.VALIDATOR, 500)
    store = Store(f"sqlite:///{tmp_path / 'mirror.sqlite'}")
    store.upgrade()
    yield World(devnet, store, pool)
    store.close()


def test_mirror_copies_positions_nodes_policies_and_steps(world: World) -> None:
    nora = world.devnet.add_node("wendy", "nora")
    world.publish_and_open()
    head = world.mirror().advance()
    cursor = world.row(CursorRow, SINGLE_ROW)
    assert (cursor.block_number, cursor.block_hash, cursor.chain_time) == (head.number, head.hash, head.timestamp)
    assert (cursor.is_open, cursor.is_paused, cursor.pool_time) == (True, False, head.timestamp)
    assert (cursor.seen_at, cursor.trainer) == (NOW, world.devnet.sender("trainer").address)
    wendy = world.devnet.sender("wendy").address
    assert world.row(PositionRow, (wendy, int(Role.WORKER))).active == 1000 * TOKENS
    assert sum(row.role == Role.VALIDATOR for row in world.rows(PositionRow)) == 4
    assert world.row(NodeRow, nora.address).provider == wendy
    assert world.row(PolicyRow, 0).policy_root == b"p" * 32
    step = world.row(StepRow, 0)
    assert (step.phase, step.slots, step.policy_step) == (Phase.OPEN, 4, 0)
    terms = world.devnet.terms()
    assert (step.coordinator, step.card_hash) == (terms.coordinator, terms.card_hash)
    assert (step.price_per_group, step.price_per_token) == (terms.price_per_group, terms.price_per_token)
    assert world.row(StakeRow, (0, wendy)).active == 1000 * TOKENS
    assert world.rows(StaleRow) == []


def test_mirror_follows_a_step_to_its_outcomes(world: World) -> None:
    devnet, ledger, pool = world.devnet, world.devnet.chain.submission_ledger, world.pool
    mirror = world.mirror()
    world.publish_and_open()
    mirror.advance()
    world.seal_seed()
    mirror.advance()
    assert world.row(StepRow, 0).seed_beacon == ledger.step_of(pool, 0).seed_beacon
    leaves = [world.leaf(slot) for slot in (0, 2, 3)]
    devnet.commit(pool, leaves)
    panel = devnet.draw(pool)
    mirror.advance()
    assert world.row(StepRow, 0).leaf_count == 3
    assert [row.provider for row in world.rows(PanelRow)] == devnet.chain.voting_panel.panel_of(pool, 0)
    votes = [Outcome.ACCEPT, Outcome.ABSTAIN, Outcome.FAULT, Outcome.REJECT]
    devnet.vote(pool, {panel[0]: votes, panel[1]: votes})
    mirror.advance()
    vote = world.row(VoteRow, (0, devnet.sender(panel[0]).address))
    assert (vote.outcomes, vote.verdict_root, vote.evidence_root) == (pack_outcomes(votes), ROOT, ROOT)
    assert len(world.rows(VoteRow)) == 2
    step = world.row(StepRow, 0)
    assert step.reveal_until == devnet.chain.voting_panel.panel_times_of(pool, 0).reveal_until
    assert step.outcomes is None
    history = devnet.finalize(pool)
    mirror.advance()
    assert world.store.read(lambda session: history_of(session, pool, 0)) == history
    assert history.finalized is not None
    opening = LeafOpening.of(leaves, 4, 2)
    devnet.chain.voting_panel.slash_leaf(devnet.sender("trainer"), pool, 0, opening, history.finalized.outcomes)
    mirror.advance()
    step = world.row(StepRow, 0)
    assert (step.phase, step.outcomes) == (Phase.FINALIZED, pack_outcomes(votes))
    assert world.store.read(lambda session: queries.slots_of_events(session, 0, "LeafSlashed")) == {2}


def test_mirror_follows_a_redrawn_panel(world: World) -> None:
    devnet, pool, voting = world.devnet, world.pool, world.devnet.chain.voting_panel
    mirror = world.mirror()
    for name in ("max", "mia"):
        devnet.stake(name, pool, Role.VALIDATOR, 500)
    world.publish_and_open(1)
    world.seal_seed()
    devnet.commit(pool, [world.leaf(0)])
    panel = devnet.draw(pool)
    devnet.vote(pool, {panel[0]: [Outcome.ACCEPT]})
    devnet.wait_until(pool, voting.panel_times_of(pool, 0).reveal_until)
    mirror.advance()
    assert not world.row(StepRow, 0).was_redrawn
    voting.redraw_panel(devnet.sender("trainer"), pool, 0)
    mirror.advance()
    assert world.row(StepRow, 0).was_redrawn
    assert [row.provider for row in world.rows(PanelRow)] == voting.panel_of(pool, 0)
    assert [row.provider for row in world.rows(VoteRow)] == [devnet.sender(panel[0]).address]


def test_mirror_sees_a_slot_taken_on_chain_and_its_delivery(devnet: Devnet, tmp_path: Path) -> None:
    pool = devnet.pool(reserved_slots=2, take_seconds=30)
    wendy = devnet.stake("wendy", pool, Role.WORKER, 1000)
    devnet.judges(pool)
    devnet.open_step(pool, slots=1)
    chain, ledger = devnet.chain, devnet.chain.submission_ledger
    store = Store(f"sqlite:///{tmp_path / 'mirror.sqlite'}")
    store.upgrade()
    world = World(devnet, store, pool)
    try:
        chain.token.require_allowance(wendy, chain.deployment.payout_vault, devnet.terms().slot_price)
        slot = ledger.take_slot(wendy, pool, 0)
        world.mirror().advance()
        assert (world.row(TakenRow, (0, 1)).provider, world.row(TakenRow, (0, 1)).leaf_hash) == (wendy.address, None)
        taken = ledger.taken_slot_of(pool, 0, slot)
        assert taken is not None
        assert world.row(StepRow, 0).audit_from == taken.taken_at + devnet.terms().lease_seconds
        devnet.mine(2)
        ledger.seal_taken_slot(wendy, pool, 0, slot)
        lease = taken_lease_hash(chain.ledger_domain, pool, 0, slot, wendy.address)
        leaf = Submission(pool, 0, slot, wendy.address, wendy.address, 9, ROOT, lease)
        signature = leaf.sign(devnet.account("wendy"), chain.ledger_domain)
        ledger.deliver_taken(wendy, pool, 0, leaf, signature, "http://wendy.example")
        world.mirror().advance()
        assert world.row(TakenRow, (0, 1)).leaf_hash == leaf.struct_hash()
        step = world.row(StepRow, 0)
        assert (step.taken, step.audit_from) == (1, step.seeded_at + 30)
    finally:
        store.close()


def _play_a_dispute(devnet: Devnet, pool: PoolId) -> int:
    """Let an accepted leaf of step 0 be challenged, and return the case's number."""
    chain, court = devnet.chain, devnet.chain.dispute_court
    devnet.open_step(pool, slots=1)
    worker = devnet.sender("wendy").address
    leaves = [Submission(pool, 0, 0, worker, worker, 9, ROOT, ROOT)]
    devnet.commit(pool, leaves)
    devnet.vote(pool, {name: [Outcome.ACCEPT] for name in devnet.draw(pool)})
    challenger, history = devnet.sender("challenger"), chain.step_history(pool, 0)
    chain.token.require_allowance(challenger, chain.deployment.payout_vault, court.bond_of(pool))
    opening = LeafOpening.of(leaves, 1, 0)
    return court.challenge(challenger, pool, 0, opening, history.votes_by_seat(), ROOT, "http://challenger.example")


def test_mirror_sees_a_dispute_and_leaves_those_of_other_pools_alone(world: World) -> None:
    devnet, court = world.devnet, world.devnet.chain.dispute_court
    other = devnet.pool()
    devnet.stake("wendy", other, Role.WORKER)
    devnet.judges(other)
    foreign, own = _play_a_dispute(devnet, other), _play_a_dispute(devnet, world.pool)
    devnet.mine(2)
    court.draw_jury(devnet.sender("challenger"), foreign)
    world.mirror().advance()
    [case] = world.rows(CaseRow)
    assert (case.case_id, case.step, case.slot) == (own, 0, 0)
    assert (case.kind, case.phase) == (CaseKind.CHALLENGE, CasePhase.OPENED)
    court.draw_jury(devnet.sender("challenger"), own)
    world.mirror().advance()
    assert world.row(CaseRow, own).phase == CasePhase.VOTING
    assert world.store.read(lambda session: queries.slots_of_events(session, 0, "SlotHeld")) == {0}


def test_mirror_goes_by_the_pools_clock_and_its_offer_in_force(devnet: Devnet, tmp_path: Path) -> None:
    guards = {name: devnet.sender(name).address for name in ("pauser", "unpauser")}
    pool, registry = devnet.pool(**guards), devnet.chain.pool_registry
    store = Store(f"sqlite:///{tmp_path / 'mirror.sqlite'}")
    store.upgrade()
    world = World(devnet, store, pool)
    mirror = world.mirror()
    try:
        registry.pause(devnet.sender("pauser"), pool)
        devnet.advance(300)
        mirror.advance()
        stood = world.row(CursorRow, SINGLE_ROW)
        assert (stood.is_paused, stood.pool_time) == (True, registry.clock_of(pool, devnet.chain.frozen()))
        registry.unpause(devnet.sender("unpauser"), pool)
        trainer = devnet.sender("next trainer").address
        registry.announce_offer(devnet.sender("owner"), pool, replace(devnet.terms().offer, trainer=trainer))
        head = mirror.advance()
        cursor = world.row(CursorRow, SINGLE_ROW)
        assert (cursor.is_paused, cursor.trainer) == (False, devnet.sender("trainer").address)
        assert head.timestamp - cursor.pool_time >= 300
        devnet.advance(devnet.terms().notice_seconds)
        mirror.advance()
        assert world.row(CursorRow, SINGLE_ROW).trainer == trainer
    finally:
        store.close()


def test_mirror_sees_a_provider_handed_to_another_key(world: World) -> None:
    manager, wendy, mirror = world.devnet.chain.stake_manager, world.devnet.sender("wendy"), world.mirror()

    def acts_for(address: Address) -> Address | None:
        return world.store.read(lambda session: queries.provider_of(session, address))

    keys = [world.devnet.sender(name) for name in ("second key", "third key")]
    mirror.advance()
    assert acts_for(wendy.address) == wendy.address
    manager.offer_controller(wendy, keys[0].address)
    manager.accept_controller(keys[0], wendy.address)
    mirror.advance()
    assert (acts_for(wendy.address), acts_for(keys[0].address)) == (None, wendy.address)
    manager.offer_controller(keys[0], keys[1].address)
    manager.accept_controller(keys[1], wendy.address)
    mirror.advance()
    assert (acts_for(keys[0].address), acts_for(keys[1].address)) == (None, wendy.address)


def test_mirror_sees_stake_leave_at_once(world: World) -> None:
    mirror = world.mirror()
    mirror.advance()
    manager, wendy = world.devnet.chain.stake_manager, world.devnet.sender("wendy")
    shares = manager.position_of(world.pool, Role.WORKER, wendy.address).shares
    manager.start_exit(wendy, world.pool, Role.WORKER, shares)
    mirror.advance()
    assert world.row(PositionRow, (wendy.address, int(Role.WORKER))).active == 0


def test_mirror_sees_a_node_removed_and_the_pool_closed(world: World) -> None:
    nora = world.devnet.add_node("wendy", "nora")
    mirror = world.mirror()
    mirror.advance()
    world.devnet.chain.stake_manager.remove_node(world.devnet.sender("wendy"), Devnet.address(nora))
    world.devnet.chain.pool_registry.close_pool(world.devnet.sender("owner"), world.pool)
    mirror.advance()
    assert world.row(NodeRow, nora.address).provider is None
    assert world.store.read(lambda session: queries.provider_of(session, Devnet.address(nora))) is None
    assert not world.row(CursorRow, SINGLE_ROW).is_open


def test_mirror_leaves_other_pools_alone(world: World) -> None:
    other = world.devnet.pool()
    world.devnet.stake("walter", other, Role.WORKER)
    world.publish_and_open()
    world.mirror().advance()
    walter = world.devnet.sender("walter").address
    assert all(row.provider != walter for row in world.rows(PositionRow))


@pytest.mark.parametrize("blocks_per_read", [1, 3, 1000])
def test_mirror_in_chunks_of_any_size_holds_each_event_once(world: World, blocks_per_read: int) -> None:
    world.publish_and_open()
    mirror = world.mirror(blocks_per_read=blocks_per_read)
    head = mirror.advance()
    mirror.advance()
    world.mirror(blocks_per_read=blocks_per_read).advance()
    assert sorted(row.name for row in world.rows(EventRow)) == EVENTS
    assert all(world.devnet.chain.block(row.block_number).hash == row.block_hash for row in world.rows(EventRow))
    assert world.row(CursorRow, SINGLE_ROW).block_hash == head.hash


def test_mirror_after_a_reorganisation_holds_only_the_new_branch(world: World) -> None:
    """A35: the same deed in another block is one row, at the right block."""
    chain, mirror = world.devnet.chain, world.mirror()
    mirror.advance()
    snapshot = chain.rpc("evm_snapshot")
    world.publish_and_open()
    world.devnet.stake("walter", world.pool, Role.WORKER)
    mirror.advance()
    before = {row.name: row.block_number for row in world.rows(EventRow)}
    assert chain.rpc("evm_revert", snapshot)
    world.devnet.mine(3)
    world.publish_and_open()
    mirror.advance()
    after = {row.name: row.block_number for row in world.rows(EventRow)}
    assert sum(row.name == "StepOpened" for row in world.rows(EventRow)) == 1
    assert after["StepOpened"] == before["StepOpened"] + 3
    assert world.row(PositionRow, (world.devnet.sender("walter").address, int(Role.WORKER))).active == 0
    assert world.row(StepRow, 0).opened_block == after["StepOpened"]
    assert all(chain.block(row.number).hash == row.hash for row in world.rows(BlockRow))


def test_mirror_after_a_branch_without_the_step_forgets_the_step(world: World) -> None:
    chain, mirror = world.devnet.chain, world.mirror()
    mirror.advance()
    snapshot = chain.rpc("evm_snapshot")
    world.publish_and_open()
    mirror.advance()
    assert world.rows(StepRow)
    assert chain.rpc("evm_revert", snapshot)
    mirror.advance()
    assert world.rows(StepRow) == []
    assert world.rows(PolicyRow) == []
    assert world.row(CursorRow, SINGLE_ROW).block_number == chain.frozen().number


def test_work_on_a_beacon_that_is_gone_is_void(world: World) -> None:
    chain, mirror = world.devnet.chain, world.mirror()
    world.publish_and_open()
    snapshot = chain.rpc("evm_snapshot")
    world.seal_seed()
    mirror.advance()
    lease = LeaseRow(
        lease_hash=Hash(b"l" * 32),
        step=0,
        slot=0,
        issue=0,
        pool=world.pool,
        policy_step=0,
        provider=world.devnet.sender("wendy").address,
        node=world.devnet.sender("wendy").address,
        valid_from=1,
        valid_until=2,
        max_units=1,
        card_hash=Hash(bytes(32)),
        protocol_version=1,
        signature=b"",
        expires_at=0.0,
    )
    world.store.write(lambda session: session.add(lease))
    assert chain.rpc("evm_revert", snapshot)
    world.devnet.advance(100)
    world.seal_seed()
    mirror.advance()
    assert world.rows(LeaseRow) == []


class Moody(Chain):
    """A chain behind a node that refuses every fourth log query, and ranges over four blocks always."""

    asked = 0

    def logs(self, addresses: Any, from_block: int, to_block: int, topics: Any = ()) -> list[Any]:
        """Answer, or refuse."""
        self.asked += 1
        if to_block - from_block >= 4:
            raise NodeRefused("eth_getLogs: range too large")
        if self.asked % 4 == 0:
            raise Unreachable("429")
        return super().logs(addresses, from_block, to_block, topics)


def test_mirror_behind_a_moody_node_misses_nothing(world: World) -> None:
    world.publish_and_open()
    world.devnet.mine(9)
    chain = Moody(world.devnet.chain.rpc_url, world.devnet.chain.deployment)
    mirror = world.mirror(chain, blocks_per_read=6)
    failures = 0
    while world.rows(CursorRow) == [] or world.row(CursorRow, SINGLE_ROW).seen_at != NOW:
        try:
            mirror.advance()
        except Unreachable:
            failures += 1
    assert failures > 0
    assert sorted(row.name for row in world.rows(EventRow)) == EVENTS
    assert world.row(StepRow, 0).phase == Phase.OPEN


class Torn(Chain):
    """A chain that is re-organised once, just after its events were read."""

    tear: Callable[[], object] | None = None

    def read_events(self, from_block: int, to_block: int) -> Any:
        """Read, then tear."""
        found = super().read_events(from_block, to_block)
        if self.tear is not None:
            tear, self.tear = self.tear, None
            tear()
        return found


def test_mirror_of_a_chain_that_changes_while_it_is_read_takes_nothing_of_it(world: World) -> None:
    chain = Torn(world.devnet.chain.rpc_url, world.devnet.chain.deployment)
    mirror = world.mirror(chain)
    mirror.advance()
    snapshot = chain.rpc("evm_snapshot")
    world.publish_and_open()

    def tear() -> None:
        chain.rpc("evm_revert", snapshot)
        world.devnet.mine(5)

    chain.tear = tear
    with pytest.raises(Reorganised):
        mirror.advance()
    assert all(row.name != "StepOpened" for row in world.rows(EventRow))
    mirror.advance()
    assert world.rows(StepRow) == []


def test_mirror_run_by_two_processes_at_once_is_one_mirror(world: World) -> None:
    first, second = world.mirror(blocks_per_read=2), world.mirror(blocks_per_read=3)
    world.publish_and_open()
    first.advance()
    world.seal_seed()
    second.advance()
    first.advance()
    assert sum(row.name == "SeedBeaconSealed" for row in world.rows(EventRow)) == 1


def test_database_of_another_pool_is_refused(world: World) -> None:
    world.mirror().advance()
    deployment = world.devnet.chain.deployment
    check_identity(world.store, deployment.chain_id, deployment.submission_ledger, world.pool)
    with pytest.raises(SettingsError, match="another --run-dir"):
        check_identity(world.store, deployment.chain_id, deployment.submission_ledger, PoolId(world.pool + 1))
