"""Events: every one that the contracts declare has a class with the same arguments, and reading is whole."""

from __future__ import annotations

from dataclasses import fields

import pytest

import contracts
from stannary.chain import (
    Ballot,
    Case,
    Chain,
    DisputeCourt,
    Earnings,
    Escrow,
    Exit,
    JurorBallot,
    JuryTimes,
    NodeRefused,
    Offer,
    PanelTimes,
    PayoutVault,
    PlantedFaults,
    PoolRegistry,
    PoolTerms,
    Rates,
    StakeManager,
    Standing,
    StepState,
    SubmissionLedger,
    TakenSlot,
    VotingPanel,
    events,
)
from stannary.chain.contract import Contract
from stannary.types import Role
from tests.chains import TOKENS, Devnet

INHERITED = {"Approval", "Transfer", "EIP712DomainChanged"}
"""Of OpenZeppelin's parts; nothing of ours is rebuilt from them."""


@pytest.mark.parametrize("contract", contracts.CONTRACT_NAMES)
def test_events_of_a_contract_all_have_classes_with_the_same_arguments(contract: contracts.ContractName) -> None:
    declared = {
        item["name"]: [events.field_name(part["name"]) for part in item["inputs"]]
        for item in events.event_items(contract)
        if item["name"] not in INHERITED
    }
    classes = {
        kind.name(): [spec.name for spec in fields(kind) if spec.name != "place"]
        for kind in events.event_kinds().values()
        if contract == kind.CONTRACT
    }
    assert classes == declared


STRUCTS = [
    ("StakeManager", "standingOf", Standing),
    ("StakeManager", "exitOf", Exit),
    ("PoolRegistry", "offerOf", Offer),
    ("SubmissionLedger", "stepOf", StepState),
    ("SubmissionLedger", "takenSlotOf", TakenSlot),
    ("VotingPanel", "panelTimesOf", PanelTimes),
    ("VotingPanel", "ballotOf", Ballot),
    ("SubmissionLedger", "ratesOf", Rates),
    ("PayoutVault", "escrowOf", Escrow),
    ("PayoutVault", "earningsOf", Earnings),
    ("DisputeCourt", "caseOf", Case),
    ("DisputeCourt", "juryTimesOf", JuryTimes),
    ("DisputeCourt", "rulingOf", JurorBallot),
]


@pytest.mark.parametrize(("contract", "function", "kind"), STRUCTS, ids=lambda value: getattr(value, "__name__", value))
def test_what_a_view_returns_has_a_class_with_the_same_members(
    contract: contracts.ContractName, function: str, kind: type
) -> None:
    outputs = next(item for item in contracts.abi(contract) if item.get("name") == function)["outputs"]
    members = outputs[0]["components"] if len(outputs) == 1 else outputs
    assert [spec.name for spec in fields(kind)] == [events.field_name(member["name"]) for member in members]


def test_terms_have_the_members_of_the_contracts_groups_in_their_order(devnet: Devnet) -> None:
    create = next(item for item in contracts.abi("PoolRegistry") if item.get("name") == "createPool")
    groups = [
        [events.field_name(member["name"]) for member in group.get("components", [group])]
        for group in create["inputs"][0]["components"]
    ]
    assert [spec.name for spec in fields(PoolTerms)] == [member for group in groups for member in group]
    shape = [len(group) if isinstance(group, tuple) else 1 for group in devnet.terms().as_struct()]
    assert shape == [len(group) for group in groups]


BETWEEN_CONTRACTS = {
    "StakeManager": {"slash", "hold", "unhold", "recordAbsence"},
    "PoolRegistry": {"currentOffer", "opening"},
    "SubmissionLedger": {"markAudited", "drawAuditBlock", "markFinalized"},
    "VotingPanel": {"holdSlot", "unholdSlot"},
    "PayoutVault": {"reserve", "settle", "pay", "release", "fine", "takeBond", "spendBond", "lockBond", "giveAway"},
}
"""Functions that only contracts may call."""
NARROW_VIEWS = {
    "PoolRegistry": {
        *("partiesOf", "feesOf", "workRulesOf", "panelRulesOf", "windowsOf", "faultTableOf"),
        *("coordinatorOf", "trainerOf", "ratesOf", "timesOf"),
    },
    "SubmissionLedger": {"briefOf"},
}
"""Views of parts, which contracts read for less gas."""
PUBLIC_FIELDS = {"registry", "stakes", "ledger", "vault", "court", "panel", "plants", "sink", "eip712Domain"}


WRAPPERS = [StakeManager, PoolRegistry, SubmissionLedger, PayoutVault, DisputeCourt, VotingPanel, PlantedFaults]


@pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda kind: kind.__name__)
def test_every_function_that_an_account_can_call_has_a_wrapper(wrapper: type[Contract]) -> None:
    declared = {
        item["name"]
        for item in contracts.abi(wrapper.NAME)
        if item["type"] == "function" and not item["name"].isupper() and item["name"] not in PUBLIC_FIELDS
    }
    wrapped = {name for name in dir(wrapper) if not name.startswith("_")}
    expected = declared - BETWEEN_CONTRACTS.get(wrapper.NAME, set()) - NARROW_VIEWS.get(wrapper.NAME, set())
    assert {events.field_name(name) for name in expected} <= wrapped


def test_events_read_in_small_ranges_equal_one_read(devnet: Devnet, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = devnet.pool()
    devnet.stake("worker", pool, Role.WORKER)
    chain = devnet.chain
    last = chain.frozen().number
    whole = chain.read_events(0, last)
    monkeypatch.setattr(events, "BLOCKS_A_READ", 1)
    assert chain.read_events(0, last) == whole
    assert [type(event).__name__ for event in whole[-4:]] == ["PoolCreated", "Funded", "Deposited", "Allocated"]
    deposited = whole[-2]
    assert isinstance(deposited, events.Deposited)
    assert (deposited.provider, deposited.amount) == (devnet.sender("worker").address, 1_000 * TOKENS)
    assert deposited.place.block_hash == chain.block(deposited.place.block_number).hash


def test_events_range_that_the_node_refuses_is_halved(devnet: Devnet) -> None:
    class Stingy(Chain):
        """A node that answers for three blocks at most."""

        def logs(self, addresses: object, from_block: int, to_block: int, topics: object = ()) -> list[object]:
            if to_block - from_block >= 3:
                raise NodeRefused("eth_getLogs: range too large")
            return super().logs(addresses, from_block, to_block, topics)  # type: ignore[arg-type]

    devnet.pool()
    last = devnet.chain.frozen().number
    stingy = Stingy(devnet.chain.rpc_url, devnet.chain.deployment)
    assert stingy.read_events(0, last) == devnet.chain.read_events(0, last)
