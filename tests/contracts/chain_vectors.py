"""Computes `tests/vectors/chain.json`, from the libraries alone and not from the project's own code.

`python tests/contracts/chain_vectors.py` writes the file. Solidity (Vectors.t.sol) and Python (test_chain_vectors.py)
both compare with it, so that a change of an encoding breaks both.
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
        "submission": signed(
            "Submission",
            "uint64 pool,uint32 step,uint32 slot,address provider,address node,uint32 units,"
            "bytes32 contentHash,bytes32 leaseHash",
            submission,
        ),
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
        "merkle": [merkle(count) for count in (1, 2, 3, 5, 16)],
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


def merkle(count: int) -> dict[str, Any]:
    """Return a tree by recursion over halves, with all proofs."""
    leaves = [keccak(text=f"stannary.vector.leaf.{count}.{i}") for i in range(count)]
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


def tally(leaf_count: int, panel_size: int, quorum: int) -> dict[str, Any]:
    """Return votes and what they come to."""
    votes = [outcomes(leaf_count, f"{panel_size}.{voter}") for voter in range(panel_size)]
    # One voter in a large panel follows the crowd, so that all four results occur.
    for voter in votes[1:]:
        merged = [own if i % 3 == 0 else first for i, (own, first) in enumerate(_pairs(voter, votes[0]))]
        voter.update(_packed(merged))
    results = []
    for index in range(leaf_count):
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
        "leafCount": leaf_count,
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
