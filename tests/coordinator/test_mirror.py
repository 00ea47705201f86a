"""coordinator.mirror on a real chain: what it copies, in chunks, over re-organisations and faults of the node (A35)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy import select
from sqlalchemy.orm import DeclarativeBase

from coordinator import queries
from coordinator.mirror import Mirror, Reorganised, check_identity
from coordinator.store import Store
from coordinator.tables import (
    SINGLE_ROW,
    BlockRow,
    CursorRow,
    EventRow,
    LeaseRow,
    NodeRow,
    PanelRow,
    PolicyRow,
    PositionRow,
    StaleRow,
    StepRow,
    VoteRow,
)
from stannary.chain import Chain, NodeRefused
from stannary.errors import SettingsError, Unreachable
from stannary.types import Hash, Outcome, Phase, PoolId, Role
from stannary.verdict import pack_outcomes
from tests.chains import TOKENS, Devnet

R = TypeVar("R", bound=DeclarativeBase)
NOW = 5_000.0


@dataclass(slots=True)
class World:
    """A pool with a worker and three validators, and the mirror of it."""

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


@pytest.fixture
def world(devnet: Devnet, tmp_path: Path) -> Iterator[World]:
    """A world whose mirror has not run yet."""
    pool = devnet.pool()
    devnet.stake("wendy", pool, Role.WORKER, 1000)
    for name in ("vera", "victor", "vince"):
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
    assert cursor.is_open
    assert cursor.seen_at == NOW
    wendy = world.devnet.sender("wendy").address
    assert world.row(PositionRow, (wendy, int(Role.WORKER))).active == 1000 * TOKENS
    assert sum(row.role == Role.VALIDATOR for row in world.rows(PositionRow)) == 3
    assert world.row(NodeRow, nora.address).provider == wendy
    assert world.row(PolicyRow, 0).policy_root == b"p" * 32
    step = world.row(StepRow, 0)
    assert (step.phase, step.slots, step.policy_step) == (Phase.OPEN, 4, 0)
    assert world.rows(StaleRow) == []


def test_mirror_follows_a_step_to_its_votes(world: World) -> None:
    devnet, ledger, pool = world.devnet, world.devnet.chain.submission_ledger, world.pool
    mirror = world.mirror()
    world.publish_and_open()
    mirror.advance()
    world.seal_seed()
    mirror.advance()
    assert world.row(StepRow, 0).seed_beacon == ledger.step_of(pool, 0).seed_beacon
    ledger.commit_root(devnet.sender("coordinator"), pool, 0, Hash(b"r" * 32), 3, Hash(b"t" * 32))
    devnet.mine(2)
    ledger.seal_audit_beacon(devnet.sender("trainer"), pool, 0)
    mirror.advance()
    assert [row.provider for row in world.rows(PanelRow)] == ledger.panel_of(pool, 0)
    packed = pack_outcomes([Outcome.ACCEPT, Outcome.FAULT, Outcome.REJECT])
    ledger.vote(devnet.sender("vera"), pool, 0, packed, Hash(b"v" * 32), Hash(b"e" * 32))
    mirror.advance()
    vote = world.row(VoteRow, (0, devnet.sender("vera").address))
    assert (vote.outcomes, vote.verdict_root, vote.evidence_root) == (packed, b"v" * 32, b"e" * 32)
    assert len(world.rows(VoteRow)) == 1


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
    names = [row.name for row in world.rows(EventRow)]
    expected = ["PoolCreated", *["Allocated"] * 4, "PolicyPublished", "StepOpened"]
    assert sorted(names) == sorted(expected)
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

    def logs(self, addresses: Any, from_block: int, to_block: int) -> list[Any]:
        """Answer, or refuse."""
        self.asked += 1
        if to_block - from_block >= 4:
            raise NodeRefused("eth_getLogs: range too large")
        if self.asked % 4 == 0:
            raise Unreachable("429")
        return super().logs(addresses, from_block, to_block)


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
    names = sorted(row.name for row in world.rows(EventRow))
    assert names == sorted(["PoolCreated", *["Allocated"] * 4, "PolicyPublished", "StepOpened"])
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
