"""One step's life on a real chain, and where every token of it goes."""

from __future__ import annotations

from stannary.chain import Chain, LeafOpening, events
from stannary.merkle import merkle_proof, merkle_root
from stannary.panel import draw_panel
from stannary.seeds import audit_beacon, seed_beacon
from stannary.structs import Submission
from stannary.types import Hash, Outcome, Phase, PoolId, Role
from stannary.verdict import pack_outcomes
from tests.chains import TOKENS, Devnet

ROOT = Hash(b"\x11" * 32)
SLOTS = 4


def test_step_from_stake_to_payout_conserves_every_token(devnet: Devnet) -> None:
    chain = devnet.chain
    pool = devnet.pool()
    worker = devnet.stake("worker", pool, Role.WORKER)
    cheat = devnet.stake("cheat", pool, Role.WORKER)
    panel_keys = {}
    for name in ("judge-a", "judge-b", "judge-c", "judge-d"):
        panel_keys[devnet.stake(name, pool, Role.VALIDATOR).address] = name
        devnet.add_node(name, f"{name}-node")
    node = devnet.add_node("worker", "worker-node")
    assert chain.stake_manager.provider_of(devnet.address(node)) == worker.address
    trainer, coordinator = devnet.sender("trainer"), devnet.sender("coordinator")

    chain.submission_ledger.publish_policy(trainer, pool, 0, ROOT, Hash(bytes(32)))
    chain.submission_ledger.open_step(trainer, pool, 0, 0, SLOTS)
    terms = chain.pool_registry.terms_of(pool)
    assert terms == devnet.terms()
    assert chain.payout_vault.escrow_of(pool).reserved == terms.step_price(SLOTS)

    devnet.mine(2)
    chain.submission_ledger.seal_seed_beacon(devnet.sender("anyone"), pool, 0)
    state = chain.submission_ledger.step_of(pool, 0)
    block = chain.block(state.seed_block)
    assert state.phase == Phase.SEEDED
    assert state.seed_beacon == seed_beacon(chain.ledger_domain, pool, 0, block.hash)

    leaves = _leaves(pool, worker.address, devnet.address(node), cheat.address)
    hashes = [leaf.struct_hash() for leaf in leaves]
    assert chain.submission_ledger.leaf_hash(leaves[0]) == hashes[0]
    chain.submission_ledger.commit_root(coordinator, pool, 0, merkle_root(hashes), len(hashes), ROOT)
    devnet.mine(2)
    chain.submission_ledger.seal_audit_beacon(devnet.sender("anyone"), pool, 0)
    state = chain.submission_ledger.step_of(pool, 0)
    assert state.audit_beacon == audit_beacon(chain.ledger_domain, pool, 0, chain.block(state.audit_block).hash)
    panel = chain.submission_ledger.panel_of(pool, 0)
    stakes = chain.stake_manager.validator_stakes_at(pool, state.opened_block - 1)
    assert panel == draw_panel(stakes, state.audit_beacon, terms.panel_size)

    outcomes = pack_outcomes([Outcome.ACCEPT, Outcome.REJECT, Outcome.FAULT])
    for member in panel:
        judge = devnet.sender(f"{panel_keys[member]}-node")
        chain.submission_ledger.vote(judge, pool, 0, outcomes, ROOT, ROOT)
    assert chain.submission_ledger.vote_of(pool, 0, panel[0]).outcomes == outcomes
    devnet.advance(terms.challenge_seconds + 1)
    chain.submission_ledger.finalize(devnet.sender("anyone"), pool, 0)
    assert [chain.submission_ledger.outcome_of(pool, 0, i) for i in range(3)] == [
        Outcome.ACCEPT,
        Outcome.REJECT,
        Outcome.FAULT,
    ]

    before = chain.token.balance_of(worker.address)
    chain.payout_vault.claim(devnet.sender("anyone"), pool, 0, [_opening(leaves, 0)])
    assert chain.token.balance_of(worker.address) - before == terms.price_per_group + 50 * terms.price_per_token
    assert chain.payout_vault.is_slot_paid(pool, 0, leaves[0].slot)
    chain.payout_vault.claim_fee(devnet.sender("anyone"), pool, 0, panel[0])
    chain.submission_ledger.slash_leaf(devnet.sender("anyone"), pool, 0, _opening(leaves, 2))
    position = chain.stake_manager.position_of(pool, Role.WORKER, cheat.address)
    assert position.tokens == 900 * TOKENS
    _assert_conserved(chain, pool)

    exit_id = chain.stake_manager.start_exit(worker, pool, Role.WORKER, 1_000 * TOKENS)
    leaving = chain.stake_manager.exit_of(exit_id)
    assert leaving is not None
    assert leaving.provider == worker.address
    devnet.advance(terms.unbonding_seconds + 1)
    chain.stake_manager.finish_exit(worker, exit_id)
    assert chain.stake_manager.exit_of(exit_id) is None
    chain.stake_manager.withdraw(worker, 1_000 * TOKENS)
    assert chain.stake_manager.idle_of(worker.address) == 0
    _assert_conserved(chain, pool)

    found = chain.read_events(chain.deployment.deployed_block, chain.frozen().number)
    mine = [event for event in found if getattr(event, "pool", pool) == pool]
    kinds = {type(event) for event in mine}
    assert {events.StepOpened, events.Voted, events.StepFinalized, events.Claimed, events.Slashed} <= kinds
    places = [(event.place.block_number, event.place.log_index) for event in found]
    assert places == sorted(places)
    created = next(event for event in mine if isinstance(event, events.PoolCreated))
    assert created.terms == terms
    assert created.terms_hash == chain.pool_registry.terms_hash_of(pool)
    drawn = next(event for event in mine if isinstance(event, events.AuditBeaconSealed))
    assert list(drawn.panel) == panel
    final = next(event for event in mine if isinstance(event, events.StepFinalized))
    assert (final.accepted, final.rejected, final.faulted, final.undecided) == (1, 1, 1, 0)


def _leaves(pool: PoolId, worker: str, node: str, cheat: str) -> list[Submission]:
    return [
        Submission(pool, 0, slot, provider, via, 50, Hash(bytes([slot + 1]) * 32), Hash(b"\x33" * 32))  # type: ignore[arg-type]
        for slot, provider, via in ((0, worker, node), (1, worker, node), (2, cheat, cheat))
    ]


def _opening(leaves: list[Submission], index: int) -> LeafOpening:
    return LeafOpening(leaves[index], index, tuple(merkle_proof([leaf.struct_hash() for leaf in leaves], index)))


def _assert_conserved(chain: Chain, pool: int) -> None:
    vault, stakes, token = chain.deployment.payout_vault, chain.deployment.stake_manager, chain.deployment.token
    escrow = chain.payout_vault.escrow_of(pool)
    assert chain.payout_vault.token_liability_of(token) == escrow.free + escrow.reserved + escrow.locked
    assert chain.token.balance_of(vault) == chain.payout_vault.token_liability_of(token)
    assert chain.token.balance_of(stakes) == chain.stake_manager.total_held()
