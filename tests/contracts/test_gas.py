"""What a step costs on a real chain: all transactions of a step of 256 submissions from 16 providers, counted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_utils.crypto import keccak

from stannary.chain import Chain, LeafOpening, Mined, PoolTerms, Sender, devnet
from stannary.merkle import merkle_proof, merkle_root
from stannary.structs import Submission
from stannary.types import ZERO_HASH, Hash, Outcome, Role, parse_address
from stannary.verdict import pack_outcomes

PROVIDERS = 16
SLOTS = 256
PANEL = 3
TOKENS = 10**24
STAKE = 10**21


def party(name: str) -> LocalAccount:
    account: LocalAccount = Account.from_key(keccak(text=f"stannary.gas.{name}"))
    return account


def word(name: str) -> Hash:
    return Hash(keccak(text=name))


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[Chain]:
    folder = tmp_path / "chain"
    try:
        yield devnet.up(folder, devnet.free_port(), 0)
    finally:
        devnet.down(folder)


def funded(chain: Chain, name: str, tokens: int = 0) -> Sender:
    sender = Sender(chain, party(name))
    devnet.fund(chain, sender.address, 10**20, tokens)
    return sender


def test_step_of_256_submissions_costs_at_most_40k_gas_each(chain: Chain, tmp_path: Path) -> None:
    owner = funded(chain, "owner", TOKENS)
    terms = PoolTerms(
        payout_token=chain.deployment.token,
        coordinator=owner.address,
        trainer=owner.address,
        price_per_group=10**15,
        price_per_token=10**12,
        panel_fee=10**16,
        min_worker_stake=STAKE,
        min_validator_stake=STAKE,
        group_size=8,
        max_completion_tokens=512,
        max_slots=SLOTS,
        max_lag=2,
        panel_size=PANEL,
        quorum=2,
        beacon_delay_blocks=1,
        lease_seconds=60,
        collect_seconds=600,
        vote_seconds=600,
        challenge_seconds=10,
        unbonding_seconds=2000,
        fault_slash_bps=1000,
        temperature_milli=1000,
        protocol_version=1,
        card_hash=word("card"),
        environment_hash=word("environment"),
    )
    pool = chain.pool_registry.create_pool(owner, terms)
    terms_hash = chain.pool_registry.terms_hash_of(pool)
    chain.token.approve(owner, chain.deployment.payout_vault, TOKENS)
    chain.payout_vault.fund(owner, pool, TOKENS)
    validators = [funded(chain, f"validator {i}", STAKE) for i in range(PANEL + 1)]
    for validator in validators:
        chain.token.approve(validator, chain.deployment.stake_manager, STAKE)
        chain.stake_manager.deposit(validator, STAKE)
        chain.stake_manager.allocate(validator, pool, Role.VALIDATOR, STAKE, terms_hash)
    providers = sorted(
        (parse_address(str(party(f"worker {i}").address)) for i in range(PROVIDERS)), key=lambda who: int(who, 16)
    )
    devnet.mine(chain)

    spent: dict[str, int] = {}

    def count(name: str, mined: Mined) -> None:
        spent[name] = spent.get(name, 0) + mined.gas_used

    ledger, vault = chain.submission_ledger, chain.payout_vault
    for step in (0, 1):  # the second finds storage as an ordinary step does
        spent.clear()
        leaves = [
            Submission(pool, step, slot, providers[slot // (SLOTS // PROVIDERS)], owner.address, 4000,
                       word(f"content {step} {slot}"), word(f"lease {step} {slot}"))
            for slot in range(SLOTS)
        ]  # fmt: skip
        hashes = [leaf.struct_hash() for leaf in leaves]
        count("publishPolicy", ledger.publish_policy(owner, pool, step, word(f"policy {step}"), ZERO_HASH))
        count("openStep", ledger.open_step(owner, pool, step, step, SLOTS))
        devnet.mine(chain, 2)
        count("sealSeedBeacon", ledger.seal_seed_beacon(owner, pool, step))
        count("commitRoot", ledger.commit_root(owner, pool, step, merkle_root(hashes), SLOTS, word("slots")))
        devnet.mine(chain, 2)
        count("sealAuditBeacon", ledger.seal_audit_beacon(owner, pool, step))
        panel = ledger.panel_of(pool, step)
        outcomes = pack_outcomes([Outcome.ACCEPT] * SLOTS)
        for validator in validators:
            if validator.address in panel:
                count("vote", ledger.vote(validator, pool, step, outcomes, word("verdicts"), word("evidence")))
        devnet.advance(chain, 10)
        count("finalize", ledger.finalize(owner, pool, step))
        share = SLOTS // PROVIDERS
        for first in range(0, SLOTS, share):
            openings = [
                LeafOpening(leaves[index], index, tuple(merkle_proof(hashes, index)))
                for index in range(first, first + share)
            ]
            count("claim", vault.claim(owner, pool, step, openings))
        for member in panel:
            count("claimFee", vault.claim_fee(owner, pool, step, member))

    total = sum(spent.values())
    report = {"submissions": SLOTS, "providers": PROVIDERS, "panel": PANEL, "gas": spent, "each": total / SLOTS}
    print(json.dumps(report, indent=1))
    assert chain.token.balance_of(providers[0]) == 2 * share * (10**15 + 4000 * 10**12)
    assert vault.reservation_of(pool, 1) == 0
    assert total / SLOTS <= 40_000  # four fifths of it are claims, 21k gas a leaf with its own proof
