"""Computes `tests/vectors/chain.json`, from the libraries alone and not from the project's own code.

`python tests/contracts/chain_vectors.py` writes the file. Solidity (Vectors.t.sol) and Python (test_chain_vectors.py)
both compare with it, so that a change of an encoding breaks both.

Keys, all flat:
    chainId, ledger, stakeManager, court, panel, plants   what everything below is bound to
    submission, lease, receipt, verdict, request, nodeConsent
                    value (the struct), structHash, digest
    policyRoot      its parts, root
    merkle          [leaves, root, proofs]: trees of words; a word may be zero, where a proof proves nothing
    steps           [slots, leaves (submissions), words, root, providers, payTotals, payWords, payHash]:
                    tree and pay table by slot
    commitments     pool, step, provider, outcomes, verdictRoot, evidenceRoot, salt, vote; caseId, round, ruling, juror;
                    planter, leafHash, plant (the juror is juryMember)
    taken           pool, step, slot, provider, lease, blockHash, beacon, slotSeed: a slot taken on chain
    beacons         pool, step, blockHash, seedBeacon, auditBeacon, redrawBeacon, slots [slot, slotSeed, rolloutSeeds]
    panels          [candidates, weights, auditBeacon, size, panel]
    outcomes        [outcomes, packed]
    tallies         [slots, quorum, votes, result, accepted, rejected, faulted]
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eth_abi.abi import encode
from eth_account.messages import _hash_eip191_message, encode_typed_data
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

PATH = Path(__file__).parents[1] / "vectors" / "chain.json"

CHAIN_ID = 31337
LEDGER = "0xCf7Ed3AccA5a467e9e704C703E8D87F634fB0Fc9"
STAKE_MANAGER = "0x9fE46736679d2D9a65F0992F2272dE9f3c7fa6e0"
COURT = "0x5FC8d32690cc91D4c39d9d3abcBD16989F875707"
PANEL = "0x0165878A594ca255338adfa4d48449f69242Eb8F"
PLANTS = "0xa513E6E4b8f2a923D98304ec87F64353C4D5C853"
SUBMISSION_MEMBERS = (
    "uint64 pool,uint32 step,uint32 slot,address provider,address node,uint32 units,"
    "bytes32 contentHash,bytes32 leaseHash"
)


def document() -> dict[str, Any]:
    """Return the whole file as a value."""
    submission = {
        "pool": 7,
        "step": 3,
        "slot": 11,
        "provider": address("provider"),
        "node": address("node"),
        "units": 1234,
        "contentHash": word("content"),
        "leaseHash": word("lease"),
    }
    lease = {
        "pool": 7,
        "step": 3,
        "policyStep": 2,
        "slot": 11,
        "provider": address("provider"),
        "node": address("node"),
        "validFrom": 1_800_000_000,
        "validUntil": 1_800_000_120,
        "maxUnits": 4096,
        "cardHash": word("card"),
        "protocolVersion": 1,
    }
    request = {
        "method": "POST",
        "path": "/v1/leases",
        "query": "a=1&b=2",
        "bodyHash": word("body"),
        "time": 1_800_000_001,
        "nonce": "0f3c",
        "audience": address("coordinator"),
    }
    verdict = {
        "pool": 7,
        "step": 3,
        "leafHash": word("leaf"),
        "outcome": 2,
        "reason": 17,
        "rewardsHash": word("rewards"),
    }
    consent = {"node": address("node"), "provider": address("provider"), "deadline": 1_900_000_000}
    return {
        "chainId": CHAIN_ID,
        "ledger": LEDGER,
        "stakeManager": STAKE_MANAGER,
        "court": COURT,
        "panel": PANEL,
        "plants": PLANTS,
        "submission": signed("Submission", SUBMISSION_MEMBERS, submission),
        "lease": signed(
            "Lease",
            "uint64 pool,uint32 step,uint32 policyStep,uint32 slot,address provider,address node,uint64 validFrom,"
            "uint64 validUntil,uint32 maxUnits,bytes32 cardHash,uint32 protocolVersion",
            lease,
        ),
        "receipt": signed(
            "Receipt", "bytes32 leafHash,uint64 receivedAt", {"leafHash": word("leaf"), "receivedAt": 1_800_000_100}
        ),
        "verdict": signed(
            "Verdict",
            "uint64 pool,uint32 step,bytes32 leafHash,uint8 outcome,uint16 reason,bytes32 rewardsHash",
            verdict,
        ),
        "request": signed(
            "Request",
            "string method,string path,string query,bytes32 bodyHash,uint64 time,string nonce,address audience",
            request,
        ),
        "nodeConsent": signed(
            "NodeConsent", "address node,address provider,uint256 deadline", consent, contract=STAKE_MANAGER
        ),
        "policyRoot": policy_root(),
        "merkle": [*(merkle(count) for count in (1, 2, 3, 5, 16)), merkle(6, empty=(0, 3)), merkle(2, empty=(1,))],
        "steps": [step_of(1, [0]), step_of(4, [0, 2, 3]), step_of(11, [10, 4, 0, 5]), step_of(5, [0, 1, 2, 3, 4])],
        "commitments": commitments(),
        "taken": taken(),
        "beacons": beacons(),
        "panels": [
            panel([5, 0, 40, 7, 100, 0, 1], 3, "audit-a"),
            panel([10**24, 10**24, 10**24, 1], 4, "audit-b"),
            panel([3, 0, 9], 1, "audit-c"),
        ],
        "outcomes": [outcomes(count) for count in (1, 4, 5, 128, 130, 257)],
        "tallies": [tally(9, 3, 2), tally(130, 5, 3), tally(300, 15, 8), tally(4, 1, 1)],
    }


def word(name: str) -> str:
    """Return 32 bytes that stand for something, as hex."""
    return "0x" + keccak(text=f"stannary.vector.{name}").hex()


def address(name: str) -> str:
    """Return an address that stands for someone."""
    return to_checksum_address(keccak(text=f"stannary.vector.{name}")[12:])


def signed(name: str, members: str, value: dict[str, Any], contract: str = LEDGER) -> dict[str, Any]:
    """Return a struct with its EIP-712 hashes, as eth_account computes them."""
    pairs = [member.split(" ") for member in members.split(",")]
    message = encode_typed_data(
        full_message={
            "domain": {"name": "Stannary", "version": "1", "chainId": CHAIN_ID, "verifyingContract": contract},
            "types": {
                "EIP712Domain": [
                    {"name": "name", "type": "string"},
                    {"name": "version", "type": "string"},
                    {"name": "chainId", "type": "uint256"},
                    {"name": "verifyingContract", "type": "address"},
                ],
                name: [{"type": kind, "name": field} for kind, field in pairs],
            },
            "primaryType": name,
            "message": value,
        }
    )
    return {
        "value": value,
        "structHash": "0x" + bytes(message.body).hex(),
        "digest": "0x" + bytes(_hash_eip191_message(message)).hex(),
    }


def policy_root() -> dict[str, str]:
    """Return a policy root with what it is made of."""
    parts = {"stateRoot": word("state"), "fullManifestHash": word("full"), "deltaManifestsHash": "0x" + "00" * 32}
    packed = encode(["bytes32"] * 4, [keccak(text="stannary.policy.v1"), *map(bytes.fromhex, _bare(parts.values()))])
    return {**parts, "root": "0x" + keccak(packed).hex()}


def merkle(count: int, empty: Sequence[int] = ()) -> dict[str, Any]:
    """Return a tree of words, some of them zero, with all proofs."""
    words = [bytes(32) if i in empty else keccak(text=f"stannary.vector.leaf.{count}.{i}") for i in range(count)]
    return tree(words)


def tree(leaves: list[bytes]) -> dict[str, Any]:
    """Return a tree by recursion over halves, with all proofs."""
    count = len(leaves)
    width = 1
    while width < count:
        width *= 2
    padded = leaves + [bytes(32)] * (width - count)

    def build(nodes: list[bytes]) -> bytes:
        if len(nodes) == 1:
            return nodes[0]
        half = len(nodes) // 2
        return keccak(build(nodes[:half]) + build(nodes[half:]))

    def prove(nodes: list[bytes], index: int) -> list[bytes]:
        if len(nodes) == 1:
            return []
        half = len(nodes) // 2
        if index < half:
            return [*prove(nodes[:half], index), build(nodes[half:])]
        return [*prove(nodes[half:], index - half), build(nodes[:half])]

    return {
        "leaves": _hexes(leaves),
        "root": "0x" + build(padded).hex(),
        "proofs": [_hexes(prove(padded, index)) for index in range(count)],
    }


def step_of(slots: int, filled: list[int]) -> dict[str, Any]:
    """Return the leaves of a step, the words of its tree, and its pay table as one large number cut into words."""
    leaves: list[dict[str, Any]] = []
    words = [bytes(32)] * slots
    for slot in filled:
        leaf = {
            "pool": 7,
            "step": 3,
            "slot": slot,
            "provider": address(f"worker.{slot % 3}"),
            "node": address(f"worker.{slot % 3}.node"),
            "units": (2**32 - 1) >> slot,
            "contentHash": word(f"content.{slot}"),
            "leaseHash": word(f"lease.{slot}"),
        }
        words[slot] = bytes.fromhex(signed("Submission", SUBMISSION_MEMBERS, leaf)["structHash"][2:])
        leaves.append(leaf)
    providers = sorted({leaf["provider"] for leaf in leaves}, key=str.lower)
    pay_words = [0] * ((slots + 4) // 5)
    for leaf in leaves:
        entry = 1 + providers.index(leaf["provider"]) + (leaf["units"] << 16)
        pay_words[leaf["slot"] // 5] += entry << (48 * (leaf["slot"] % 5))
    totals = [sum(2**128 + leaf["units"] for leaf in leaves if leaf["provider"] == provider) for provider in providers]
    packed = encode(["(address[],uint256[],uint256[])"], [(providers, totals, pay_words)])
    return {
        "slots": slots,
        "leaves": leaves,
        "words": _hexes(words),
        "root": tree(words)["root"],
        "providers": providers,
        "payTotals": [f"0x{one:064x}" for one in totals],
        "payWords": [f"0x{one:064x}" for one in pay_words],
        "payHash": "0x" + keccak(packed).hex(),
    }


def commitments() -> dict[str, Any]:
    """Return a vote, a juror's ruling and a planted fault with what each commits to."""
    pool, step, case_id, round_number, ruling = 7, 3, 5, 1, 4
    packed = "0x1b01"
    salt, verdict_root, evidence_root = (bytes.fromhex(word(name)[2:]) for name in ("salt", "verdicts", "evidence"))
    leaf_hash = bytes.fromhex(word("leaf")[2:])
    vote = encode(
        ["bytes32", "uint256", "address", "uint64", "uint32", "address", "bytes32", "bytes32", "bytes32", "bytes32"],
        [
            keccak(text="stannary.vote.v1"),
            CHAIN_ID,
            PANEL,
            pool,
            step,
            address("provider"),
            keccak(hexstr=packed),
            verdict_root,
            evidence_root,
            salt,
        ],
    )
    juror = encode(
        ["bytes32", "uint256", "address", "uint64", "uint8", "address", "uint8", "bytes32"],
        [keccak(text="stannary.ruling.v1"), CHAIN_ID, COURT, case_id, round_number, address("juror"), ruling, salt],
    )
    plant = encode(
        ["bytes32", "uint256", "address", "address", "bytes32", "bytes32"],
        [keccak(text="stannary.plant.v1"), CHAIN_ID, PLANTS, address("planter"), leaf_hash, salt],
    )
    return {
        "pool": pool,
        "step": step,
        "provider": address("provider"),
        "outcomes": packed,
        "verdictRoot": word("verdicts"),
        "evidenceRoot": word("evidence"),
        "salt": word("salt"),
        "vote": "0x" + keccak(vote).hex(),
        "caseId": case_id,
        "round": round_number,
        "juryMember": address("juror"),
        "ruling": ruling,
        "juror": "0x" + keccak(juror).hex(),
        "planter": address("planter"),
        "leafHash": word("leaf"),
        "plant": "0x" + keccak(plant).hex(),
    }


def taken() -> dict[str, Any]:
    """Return what stands for the lease of a slot taken on chain, its beacon, and the seed that follows."""
    pool, step, slot, block_hash = 7, 3, 64, keccak(text="stannary.vector.block.taken")
    lease = encode(
        ["bytes32", "uint256", "address", "uint64", "uint32", "uint32", "address"],
        [keccak(text="stannary.taken.v1"), CHAIN_ID, LEDGER, pool, step, slot, address("provider")],
    )
    beacon = keccak(
        encode(
            ["bytes32", "uint256", "address", "uint64", "uint32", "uint32", "bytes32"],
            [keccak(text="stannary.beacon.taken.v1"), CHAIN_ID, LEDGER, pool, step, slot, block_hash],
        )
    )
    seed = encode(
        ["bytes32", "uint256", "address", "uint64", "uint32", "bytes32", "uint32"],
        [keccak(text="stannary.seed.slot.v1"), CHAIN_ID, LEDGER, pool, step, beacon, slot],
    )
    return {
        "pool": pool,
        "step": step,
        "slot": slot,
        "provider": address("provider"),
        "lease": "0x" + keccak(lease).hex(),
        "blockHash": "0x" + block_hash.hex(),
        "beacon": "0x" + beacon.hex(),
        "slotSeed": "0x" + keccak(seed).hex(),
    }


def beacons() -> dict[str, Any]:
    """Return the beacons of a step and seeds that follow."""
    pool, step, block_hash = 7, 3, keccak(text="stannary.vector.block")
    kinds = ["bytes32", "uint256", "address", "uint64", "uint32", "bytes32"]
    found = {
        name: keccak(
            encode(kinds, [keccak(text=f"stannary.beacon.{name}.v1"), CHAIN_ID, LEDGER, pool, step, block_hash])
        )
        for name in ("seed", "audit")
    }
    seeds = []
    for slot in (0, 11, 4095):
        tag = keccak(text="stannary.seed.slot.v1")
        slot_seed = keccak(encode([*kinds, "uint32"], [tag, CHAIN_ID, LEDGER, pool, step, found["seed"], slot]))
        rollouts = [
            keccak(encode(["bytes32", "bytes32", "uint32"], [keccak(text="stannary.seed.rollout.v1"), slot_seed, i]))
            for i in range(3)
        ]
        seeds.append({"slot": slot, "slotSeed": "0x" + slot_seed.hex(), "rolloutSeeds": _hexes(rollouts)})
    return {
        "pool": pool,
        "step": step,
        "blockHash": "0x" + block_hash.hex(),
        "seedBeacon": "0x" + found["seed"].hex(),
        "auditBeacon": "0x" + found["audit"].hex(),
        "redrawBeacon": "0x"
        + keccak(encode(["bytes32", "bytes32"], [keccak(text="stannary.beacon.redraw.v1"), found["audit"]])).hex(),
        "slots": seeds,
    }


def panel(weights: list[int], size: int, beacon: str) -> dict[str, Any]:
    """Return a panel draw, by a list of ranges."""
    candidates = [address(f"candidate.{i}") for i in range(len(weights))]
    left = dict(zip(candidates, weights, strict=True))
    drawn = []
    for i in range(size):
        packed = encode(
            ["bytes32", "bytes32", "uint256"], [keccak(text="stannary.panel.v1"), bytes.fromhex(word(beacon)[2:]), i]
        )
        ticket = int.from_bytes(keccak(packed), "big") % sum(left.values())
        upper = 0
        for candidate, weight in left.items():
            upper += weight
            if ticket < upper:
                drawn.append(candidate)
                left[candidate] = 0
                break
    return {
        "candidates": candidates,
        "weights": [str(weight) for weight in weights],
        "auditBeacon": word(beacon),
        "size": size,
        "panel": drawn,
    }


def outcomes(count: int, salt: str = "") -> dict[str, Any]:
    """Return outcomes and their packed bytes, by one large integer."""
    values = [keccak(text=f"stannary.vector.outcome.{salt}.{i}")[0] % 4 for i in range(count)]
    number = sum(value << (2 * i) for i, value in enumerate(values))
    return {"outcomes": values, "packed": "0x" + number.to_bytes((count + 3) // 4, "little").hex()}


def tally(slots: int, panel_size: int, quorum: int) -> dict[str, Any]:
    """Return votes and what they come to."""
    votes = [outcomes(slots, f"{panel_size}.{voter}") for voter in range(panel_size)]
    # One voter in a large panel follows the crowd, so that all four results occur.
    for voter in votes[1:]:
        merged = [own if i % 3 == 0 else first for i, (own, first) in enumerate(_pairs(voter, votes[0]))]
        voter.update(_packed(merged))
    results = []
    for index in range(slots):
        column = [voter["outcomes"][index] for voter in votes]
        if column.count(1) >= quorum:
            results.append(1)
        elif column.count(3) >= quorum:
            results.append(3)
        elif column.count(2) + column.count(3) >= quorum:
            results.append(2)
        else:
            results.append(0)
    return {
        "slots": slots,
        "quorum": quorum,
        "votes": [voter["packed"] for voter in votes],
        "result": _packed(results)["packed"],
        "accepted": results.count(1),
        "rejected": results.count(2),
        "faulted": results.count(3),
    }


def _packed(values: list[int]) -> dict[str, Any]:
    number = sum(value << (2 * i) for i, value in enumerate(values))
    return {"outcomes": values, "packed": "0x" + number.to_bytes((len(values) + 3) // 4, "little").hex()}


def _pairs(one: dict[str, Any], two: dict[str, Any]) -> list[tuple[int, int]]:
    return list(zip(one["outcomes"], two["outcomes"], strict=True))


def _hexes(values: Sequence[bytes]) -> list[str]:
    return ["0x" + value.hex() for value in values]


def _bare(values: Any) -> list[str]:
    return [str(value)[2:] for value in values]


def text() -> str:
    """Return the file's exact content."""
    return json.dumps(document(), indent=1) + "\n"


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
