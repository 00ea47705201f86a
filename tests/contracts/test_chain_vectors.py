"""The golden vectors of the chain: the file is what the libraries compute, and the protocol package agrees with it."""

from __future__ import annotations

import json
import runpy
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from stannary.commitments import plant_commitment, ruling_commitment, vote_commitment
from stannary.merkle import merkle_proof, merkle_root, verify_proof
from stannary.panel import draw_panel
from stannary.seeds import StepSeeds, audit_beacon, redraw_beacon, seed_beacon, taken_beacon
from stannary.slots import PayTable, slot_words, submission_root, taken_lease_hash
from stannary.structs import Domain, Lease, NodeConsent, Receipt, Request, SignedStruct, Submission, Verdict
from stannary.types import ZERO_HASH, Address, Hash, Outcome, Ruling
from stannary.verdict import pack_outcomes, tally, unpack_outcomes

# By path: the script is no package member, and how pytest imports is not its business.
SCRIPT = runpy.run_path(str(Path(__file__).with_name("chain_vectors.py")))
FILE_TEXT: str = SCRIPT["PATH"].read_text(encoding="utf-8")
VECTORS: dict[str, Any] = json.loads(FILE_TEXT)
LEDGER = Domain(VECTORS["chainId"], Address(VECTORS["ledger"]))
STAKE_MANAGER = Domain(VECTORS["chainId"], Address(VECTORS["stakeManager"]))
COURT, PANEL, PLANTS = (Domain(VECTORS["chainId"], Address(VECTORS[key])) for key in ("court", "panel", "plants"))


def as_hash(text: str) -> Hash:
    return Hash(bytes.fromhex(text.removeprefix("0x")))


def test_vectors_file_recomputed_is_identical() -> None:
    assert SCRIPT["text"]() == FILE_TEXT


@pytest.mark.parametrize(
    ("key", "kind", "domain"),
    [
        ("submission", Submission, LEDGER),
        ("lease", Lease, LEDGER),
        ("receipt", Receipt, LEDGER),
        ("verdict", Verdict, LEDGER),
        ("request", Request, LEDGER),
        ("nodeConsent", NodeConsent, STAKE_MANAGER),
    ],
)
def test_struct_digest_equals_vector(key: str, kind: type[SignedStruct], domain: Domain) -> None:
    vector = VECTORS[key]
    values = [
        as_hash(value) if isinstance(value, str) and len(value) == 66 else value for value in vector["value"].values()
    ]
    assert len(values) == len(fields(kind))
    struct = kind(*values)
    assert struct.struct_hash() == as_hash(vector["structHash"])
    assert struct.digest(domain) == as_hash(vector["digest"])


@pytest.mark.parametrize("vector", VECTORS["merkle"], ids=lambda vector: str(len(vector["leaves"])))
def test_merkle_tree_equals_vector(vector: dict[str, Any]) -> None:
    leaves = [as_hash(leaf) for leaf in vector["leaves"]]
    root = as_hash(vector["root"])
    assert merkle_root(leaves) == root
    for index, proof in enumerate(vector["proofs"]):
        hashes = [as_hash(sibling) for sibling in proof]
        assert merkle_proof(leaves, index) == hashes
        assert verify_proof(root, leaves[index], index, len(leaves), hashes) == (leaves[index] != ZERO_HASH)


@pytest.mark.parametrize("vector", VECTORS["steps"], ids=lambda vector: str(vector["slots"]))
def test_tree_and_pay_table_by_slot_equal_vector(vector: dict[str, Any]) -> None:
    leaves = [
        Submission(
            *(as_hash(value) if isinstance(value, str) and len(value) == 66 else value for value in leaf.values())
        )
        for leaf in vector["leaves"]
    ]
    slots = vector["slots"]
    assert slot_words(leaves, slots) == [as_hash(word) for word in vector["words"]]
    assert submission_root(leaves, slots) == as_hash(vector["root"])
    table = PayTable.of(leaves, slots, (1 << 32) - 1)
    assert list(table.providers) == vector["providers"]
    assert list(table.totals) == [int(word, 16) for word in vector["payTotals"]]
    assert list(table.words) == [int(word, 16) for word in vector["payWords"]]
    assert table.hash() == as_hash(vector["payHash"])


def test_commitments_equal_vector() -> None:
    vector = VECTORS["commitments"]
    salt = as_hash(vector["salt"])
    vote = vote_commitment(
        PANEL,
        vector["pool"],
        vector["step"],
        vector["provider"],
        bytes.fromhex(vector["outcomes"][2:]),
        as_hash(vector["verdictRoot"]),
        as_hash(vector["evidenceRoot"]),
        salt,
    )
    assert vote == as_hash(vector["vote"])
    ruling = (vector["caseId"], vector["round"], vector["juryMember"], Ruling(vector["ruling"]), salt)
    assert ruling_commitment(COURT, *ruling) == as_hash(vector["juror"])
    plant = plant_commitment(PLANTS, vector["planter"], as_hash(vector["leafHash"]), salt)
    assert plant == as_hash(vector["plant"])


def test_slot_taken_on_chain_equals_vector() -> None:
    vector = VECTORS["taken"]
    place = (vector["pool"], vector["step"], vector["slot"])
    assert taken_lease_hash(LEDGER, *place, vector["provider"]) == as_hash(vector["lease"])
    beacon = taken_beacon(LEDGER, *place, as_hash(vector["blockHash"]))
    assert beacon == as_hash(vector["beacon"])
    seeds = StepSeeds(LEDGER, vector["pool"], vector["step"], ZERO_HASH, {vector["slot"]: beacon})
    assert seeds.slot_seed(vector["slot"]) == as_hash(vector["slotSeed"])


def test_beacons_and_seeds_equal_vector() -> None:
    vector = VECTORS["beacons"]
    pool, step, block_hash = vector["pool"], vector["step"], as_hash(vector["blockHash"])
    assert seed_beacon(LEDGER, pool, step, block_hash) == as_hash(vector["seedBeacon"])
    assert audit_beacon(LEDGER, pool, step, block_hash) == as_hash(vector["auditBeacon"])
    assert redraw_beacon(as_hash(vector["auditBeacon"])) == as_hash(vector["redrawBeacon"])
    seeds = StepSeeds(LEDGER, pool, step, as_hash(vector["seedBeacon"]))
    for slot in vector["slots"]:
        assert seeds.slot_seed(slot["slot"]) == as_hash(slot["slotSeed"])
        for rollout, seed in enumerate(slot["rolloutSeeds"]):
            assert seeds.rollout_seed(slot["slot"], rollout) == as_hash(seed)


@pytest.mark.parametrize("vector", VECTORS["panels"])
def test_panel_draw_equals_vector(vector: dict[str, Any]) -> None:
    weights = map(int, vector["weights"])
    candidates = [(Address(who), weight) for who, weight in zip(vector["candidates"], weights, strict=True)]
    assert draw_panel(candidates, as_hash(vector["auditBeacon"]), vector["size"]) == vector["panel"]


@pytest.mark.parametrize("vector", VECTORS["outcomes"], ids=lambda vector: str(len(vector["outcomes"])))
def test_outcomes_packed_equal_vector(vector: dict[str, Any]) -> None:
    outcomes = [Outcome(value) for value in vector["outcomes"]]
    packed = bytes.fromhex(vector["packed"][2:])
    assert pack_outcomes(outcomes) == packed
    assert unpack_outcomes(packed, len(outcomes)) == outcomes


@pytest.mark.parametrize("vector", VECTORS["tallies"], ids=lambda vector: str(len(vector["votes"])))
def test_tally_equals_vector(vector: dict[str, Any]) -> None:
    count = vector["slots"]
    votes = [unpack_outcomes(bytes.fromhex(vote[2:]), count) for vote in vector["votes"]]
    result = [tally([vote[index] for vote in votes], vector["quorum"]) for index in range(count)]
    assert pack_outcomes(result) == bytes.fromhex(vector["result"][2:])
    assert [result.count(Outcome(kind)) for kind in (1, 2, 3)] == [
        vector["accepted"],
        vector["rejected"],
        vector["faulted"],
    ]


def test_tally_vectors_cover_every_result() -> None:
    large = VECTORS["tallies"][1]
    undecided = large["slots"] - large["accepted"] - large["rejected"] - large["faulted"]
    assert min(large["accepted"], large["rejected"], large["faulted"], undecided) > 0
