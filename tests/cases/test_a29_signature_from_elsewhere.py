"""A29: whatever was signed or committed to for one chain, deployment or pool is worth nothing in another.

The same people with the same keys play the same step at home and elsewhere: on another chain where all contracts have
the same addresses, in another deployment on the same chain, in another pool of the same contracts. What they made at
home is brought there, as it is and bent to fit, before they make it anew for the place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from eth_utils.crypto import keccak

from stannary.chain import Chain, LeafOpening, StepHistory, deploy
from stannary.chain import devnet as local
from stannary.commitments import plant_commitment, ruling_commitment, vote_commitment
from stannary.errors import BadSignature, Malformed, Reverted
from stannary.signing import sign_request, verify_request
from stannary.slots import taken_lease_hash
from stannary.structs import Domain, Lease, NodeConsent, Receipt, SignedStruct, Submission, Verdict
from stannary.types import Address, Hash, Outcome, PoolId, Role, Ruling, to_hex
from stannary.verdict import pack_outcomes
from tests.chains import ROOT, Devnet

HEAVY = 10**9
"""Tokens: who stakes so much sits on every panel; the lighter fourth validator is every jury."""
PANEL = ("judge-0", "judge-1", "judge-2")
JUROR = "judge-3"
SLOTS = 2
TAKEN = SLOTS
A, F = Outcome.ACCEPT, Outcome.FAULT
OUTCOMES = pack_outcomes([A, F, A])


def word(name: str) -> Hash:
    return Hash(keccak(text=name))


@dataclass(slots=True)
class Place:
    """One chain, deployment and pool."""

    devnet: Devnet
    pool: PoolId
    node_deadline: int = 0

    @property
    def chain(self) -> Chain:
        """Its contracts."""
        return self.devnet.chain


@dataclass(slots=True)
class Made:
    """What was signed and committed to in a place."""

    place: Place
    consent: bytes = b""
    leases: list[tuple[Lease, bytes]] = field(default_factory=list)
    taken: tuple[Submission, bytes] | None = None
    commitments: dict[str, Hash] = field(default_factory=dict)


def found(folder: Path, chain: Chain) -> Place:
    """Return a new pool on a chain, with a worker, a rival and validators at work."""
    devnet = Devnet(chain, lock_folder=folder / "locks")
    for name in ("owner", "worker", "rival", *PANEL, JUROR, "anyone"):
        devnet.account(name, ether=100, tokens=3 * HEAVY)
    place = Place(devnet, devnet.pool(reserved_slots=1, take_seconds=20))
    for name in ("worker", "rival"):
        devnet.stake(name, place.pool, Role.WORKER)
    for name in PANEL:
        devnet.stake(name, place.pool, Role.VALIDATOR, HEAVY)
    devnet.stake(JUROR, place.pool, Role.VALIDATOR)
    return place


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the chains of this file live."""
    return tmp_path_factory.mktemp("a29")


@pytest.fixture(scope="module")
def home_chain(folder: Path) -> Iterator[Chain]:
    """Chain 31337 with the contracts."""
    yield from _chain(folder / "home", 31337)


@pytest.fixture(scope="module")
def other_chain(folder: Path) -> Iterator[Chain]:
    """Chain 31338 with the contracts at the same addresses."""
    yield from _chain(folder / "other", 31338)


def _chain(folder: Path, chain_id: int) -> Iterator[Chain]:
    folder.mkdir()
    node = local.start(folder, local.free_port(), 0, chain_id=chain_id)
    try:
        yield Chain(node.rpc_url, deploy(local.Connection(node.rpc_url), local.faucet_account()))
    finally:
        node.end()


@pytest.fixture(scope="module")
def home(folder: Path, home_chain: Chain) -> Made:
    """What was made in the first pool, all of it good there."""
    return play(found(folder / "home", home_chain), None)


@pytest.fixture(params=["another chain", "another deployment", "another pool"])
def elsewhere(request: pytest.FixtureRequest, folder: Path, home: Made, home_chain: Chain) -> Place:
    """A place that differs from home in one thing."""
    chain = home_chain
    if request.param == "another chain":
        chain = request.getfixturevalue("other_chain")
        assert chain.deployment.addresses == home_chain.deployment.addresses
    elif request.param == "another deployment":
        chain = Chain(home_chain.rpc_url, deploy(home_chain, local.faucet_account()))
    place = found(folder / str(request.param), chain)
    is_same_number = place.pool == home.place.pool
    assert is_same_number == (request.param != "another pool")
    return place


def refused(name: str, act: Callable[[], object]) -> None:
    """Check that a contract refuses with this error."""
    with pytest.raises(Reverted) as caught:
        act()
    assert caught.value.name == name, caught.value


def test_a29_what_was_made_at_home_is_refused_elsewhere_at_every_stage(home: Made, elsewhere: Place) -> None:
    made = play(elsewhere, home)
    assert set(made.commitments.values()).isdisjoint(home.commitments.values())


def play(place: Place, foreign: Made | None) -> Made:
    """Play a step of a place to a juror's ruling; at every stage, first try what was made in a foreign place."""
    made = Made(place)
    _add_node(place, made, foreign)
    place.devnet.open_step(place.pool, slots=SLOTS)
    _plant(place, made, foreign)
    _take_a_slot(place, made, foreign)
    leaves = _leaves(place)
    place.devnet.commit(place.pool, leaves)
    _prove_overlap(place, made, foreign)
    place.devnet.advance(20)
    assert set(place.devnet.draw(place.pool)) == set(PANEL)
    history = _vote(place, made, foreign)
    _reveal_plant(place, foreign, leaves)
    _rule(place, made, foreign, leaves, history)
    return made


def _add_node(place: Place, made: Made, foreign: Made | None) -> None:
    devnet, stakes = place.devnet, place.chain.stake_manager
    worker, node = devnet.sender("worker"), devnet.account("worker-node", tokens=0)
    address = devnet.address(node)
    if foreign is not None and place.chain.deployment != foreign.place.chain.deployment:
        deadline = foreign.place.node_deadline
        assert deadline > place.chain.frozen().timestamp
        refused("ConsentInvalid", lambda: stakes.add_node(worker, address, deadline, foreign.consent))
    if stakes.provider_of(address) == worker.address:
        return  # a consent is for a provider in all pools of one deployment
    place.node_deadline = place.chain.frozen().timestamp + 100_000
    consent = NodeConsent(address, worker.address, place.node_deadline)
    made.consent = consent.sign(node, place.chain.stake_domain)
    stakes.add_node(worker, address, place.node_deadline, made.consent)


def _plant(place: Place, made: Made, foreign: Made | None) -> None:
    devnet, plants = place.devnet, place.chain.planted_faults
    rival, bond = devnet.sender("rival"), place.chain.pool_registry.terms_of(place.pool).slot_price
    planted = _leaves(place)[1].struct_hash()
    made.commitments["plant"] = plant_commitment(place.chain.plants_domain, rival.address, planted, word("plant salt"))
    place.chain.token.require_allowance(rival, place.chain.deployment.payout_vault, 2 * bond)
    if foreign is not None:
        copied = foreign.commitments["plant"]
        if place.chain.deployment == foreign.place.chain.deployment:
            refused("PlantKnown", lambda: plants.plant(rival, place.pool, 0, copied))
        else:
            plants.plant(rival, place.pool, 0, copied)  # it is only a number as long as nobody shows what it hides
    if foreign is None:
        plants.plant(rival, place.pool, 0, made.commitments["plant"])


def _take_a_slot(place: Place, made: Made, foreign: Made | None) -> None:
    devnet, ledger, domain = place.devnet, place.chain.submission_ledger, place.chain.ledger_domain
    worker, node = devnet.sender("worker"), devnet.account("worker-node", tokens=0)
    bond = place.chain.pool_registry.terms_of(place.pool).slot_price
    place.chain.token.require_allowance(worker, place.chain.deployment.payout_vault, bond)
    assert ledger.take_slot(worker, place.pool, 0) == TAKEN
    devnet.mine(2)
    ledger.seal_taken_slot(worker, place.pool, 0, TAKEN)
    lease_hash = taken_lease_hash(domain, place.pool, 0, TAKEN, worker.address)
    leaf = Submission(
        place.pool, 0, TAKEN, worker.address, devnet.address(node), 9, word("content of the taken slot"), lease_hash
    )
    if foreign is not None and foreign.taken is not None:
        copied, signature = foreign.taken
        for bent in (copied, replace(copied, pool=place.pool), replace(copied, lease_hash=lease_hash)):
            if bent != leaf:
                refused(
                    "LeafNotOfSlot",
                    lambda bent=bent: ledger.deliver_taken(worker, place.pool, 0, bent, signature, ""),
                )
        refused("SignatureInvalid", lambda: ledger.deliver_taken(worker, place.pool, 0, leaf, signature, ""))
    made.taken = (leaf, leaf.sign(node, domain))
    ledger.deliver_taken(worker, place.pool, 0, *made.taken, "")


def _leaves(place: Place) -> list[Submission]:
    """Return an honest leaf of the worker and a planted one of the rival."""
    worker, rival = (place.devnet.sender(name).address for name in ("worker", "rival"))
    return [
        Submission(place.pool, 0, 0, worker, worker, 9, word("content 0"), ROOT),
        Submission(place.pool, 0, 1, rival, rival, 9, word("content 1"), ROOT),
    ]


def _prove_overlap(place: Place, made: Made, foreign: Made | None) -> None:
    devnet, ledger = place.devnet, place.chain.submission_ledger
    if foreign is not None:
        bent = [(replace(lease, pool=place.pool), signature) for lease, signature in foreign.leases]
        refused("SignatureInvalid", lambda: ledger.prove_overlap(devnet.sender("anyone"), *bent[0], *bent[1]))
    terms = place.chain.pool_registry.terms_of(place.pool)
    for name, begins in (("worker", 100), ("rival", 150)):
        who = devnet.sender(name).address
        lease = Lease(place.pool, 0, 0, 0, who, who, begins, begins + 60, 128, terms.card_hash, 1)
        assert ledger.lease_digest(lease) == lease.digest(place.chain.ledger_domain)
        made.leases.append((lease, lease.sign(devnet.account("coordinator"), place.chain.ledger_domain)))
    ledger.prove_overlap(devnet.sender("anyone"), *made.leases[0], *made.leases[1])


def _vote(place: Place, made: Made, foreign: Made | None) -> StepHistory:
    """Let the panel vote; its first member commits to what it committed to at home, if there is a home."""
    devnet, panel, domain = place.devnet, place.chain.voting_panel, place.chain.panel_domain
    anyone = devnet.sender("anyone")
    for name in PANEL:
        member = devnet.sender(name).address
        ballot = (place.pool, 0, member, OUTCOMES, ROOT, ROOT, word(f"salt of {name}"))
        own = vote_commitment(domain, *ballot)
        assert own == panel.vote_commitment(*ballot)
        made.commitments[name] = own
        is_copied = foreign is not None and name == PANEL[0]
        panel.commit_vote(devnet.sender(name), place.pool, 0, foreign.commitments[name] if is_copied else own)  # type: ignore[union-attr]
    for name in PANEL:
        member = devnet.sender(name).address
        ballot = (place.pool, 0, member, OUTCOMES, ROOT, ROOT, word(f"salt of {name}"))
        if foreign is not None and name == PANEL[0]:
            refused("CommitmentMismatch", lambda ballot=ballot: panel.reveal_vote(anyone, *ballot))
        else:
            panel.reveal_vote(anyone, *ballot)
    devnet.wait_until(place.pool, panel.panel_times_of(place.pool, 0).reveal_until)
    return place.chain.step_history(place.pool, 0)


def _reveal_plant(place: Place, foreign: Made | None, leaves: list[Submission]) -> None:
    plants, anyone = place.chain.planted_faults, place.devnet.sender("anyone")
    opening = LeafOpening.of(leaves, SLOTS, 1)
    if foreign is None:
        plants.reveal_plant(anyone, place.pool, 0, opening, word("plant salt"))
        assert plants.is_plant(leaves[1].struct_hash())
    else:
        refused("UnknownPlant", lambda: plants.reveal_plant(anyone, place.pool, 0, opening, word("plant salt")))


def _rule(place: Place, made: Made, foreign: Made | None, leaves: list[Submission], history: StepHistory) -> None:
    """Let the honest leaf be challenged, and the juror commit to what it committed to at home, if there is a home."""
    devnet, court = place.devnet, place.chain.dispute_court
    anyone, juror = devnet.sender("anyone"), devnet.sender(JUROR)
    place.chain.token.require_allowance(anyone, place.chain.deployment.payout_vault, court.bond_of(place.pool))
    opening = LeafOpening.of(leaves, SLOTS, 0)
    case_id = court.challenge(anyone, place.pool, 0, opening, history.votes_by_seat(), ROOT, "")
    devnet.mine(2)
    court.draw_jury(anyone, case_id)
    assert court.jury_of(case_id) == [juror.address]
    own = ruling_commitment(place.chain.court_domain, case_id, 0, juror.address, Ruling.ACCEPT, word("juror's salt"))
    assert own == court.juror_commitment(case_id, juror.address, Ruling.ACCEPT, word("juror's salt"))
    made.commitments["juror"] = own
    court.commit_ruling(juror, case_id, own if foreign is None else foreign.commitments["juror"])
    shown = (case_id, juror.address, Ruling.ACCEPT, word("juror's salt"))
    if foreign is None:
        court.reveal_ruling(anyone, *shown)
    else:
        refused("CommitmentMismatch", lambda: court.reveal_ruling(anyone, *shown))


# What no contract checks: receipts, verdicts and requests


HERE = Domain(31337, Address("0xCf7Ed3AccA5a467e9e704C703E8D87F634fB0Fc9"))
FOREIGN = [Domain(31338, HERE.contract), Domain(31337, Address("0x9fE46736679d2D9a65F0992F2272dE9f3c7fa6e0"))]
SIGNED: list[SignedStruct] = [
    Receipt(word("leaf"), 1_800_000_000),
    Verdict(7, 3, word("leaf"), int(A), 0, word("rewards")),
    Lease(7, 3, 2, 1, HERE.contract, HERE.contract, 1, 2, 9, word("card"), 1),
    Submission(7, 3, 1, HERE.contract, HERE.contract, 9, word("content"), word("lease")),
]


@pytest.mark.parametrize("struct", SIGNED, ids=lambda struct: type(struct).__name__)
@pytest.mark.parametrize("domain", FOREIGN, ids=["another chain", "another deployment"])
def test_a29_signed_struct_is_not_its_signers_in_another_domain(struct: SignedStruct, domain: Domain) -> None:
    account = local.faucet_account()
    signer, signature = Devnet.address(account), struct.sign(account, HERE)
    assert struct.require_signer(signature, HERE, signer) == struct
    with pytest.raises((BadSignature, Malformed)):
        struct.require_signer(signature, domain, signer)


@pytest.mark.parametrize("struct", [SIGNED[1], SIGNED[2], SIGNED[3]], ids=lambda struct: type(struct).__name__)
def test_a29_signed_struct_names_its_pool(struct: SignedStruct) -> None:
    account = local.faucet_account()
    bent = replace(struct, pool=8)  # type: ignore[call-arg]
    with pytest.raises((BadSignature, Malformed)):
        bent.require_signer(struct.sign(account, HERE), HERE, Devnet.address(account))
    receipt, other = Receipt(struct.struct_hash(), 1), Receipt(bent.struct_hash(), 1)
    with pytest.raises((BadSignature, Malformed)):
        other.require_signer(receipt.sign(account, HERE), HERE, Devnet.address(account))


@pytest.mark.parametrize(
    ("domain", "audience"),
    [(FOREIGN[0], ROOT), (FOREIGN[1], ROOT), (HERE, word("another pool's coordinator"))],
    ids=["another chain", "another deployment", "another pool"],
)
def test_a29_request_to_one_coordinator_is_refused_by_another(domain: Domain, audience: Hash) -> None:
    account, body, now = local.faucet_account(), word("body"), 1_800_000_000
    here, there = (Devnet.parse("0x" + name[:20].hex()) for name in (ROOT, audience))
    request = {"method": "POST", "path": "/v1/leases", "query": ""}
    headers = sign_request(account, HERE, here, body=body, time_s=now, **request)
    assert verify_request(headers, HERE, here, body=body, now_s=now, **request)[0] == Devnet.address(account)
    with pytest.raises((BadSignature, Malformed)):
        verify_request(headers, domain, there, body=body, now_s=now, **request)
    assert to_hex(body) in headers.values()
