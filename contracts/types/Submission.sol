// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {PoolId} from "./Ids.sol";

/// @notice One group of rollouts with its proofs: the leaf at its slot of the step's tree.
struct Submission {
    PoolId pool;
    uint32 step;
    uint32 slot;
    address provider;
    address node;
    uint32 units; // generated tokens of the group
    bytes32 contentHash; // BLAKE3-256 of the submission file
    bytes32 leaseHash;
}

/// @notice A leaf with the proof that it stands at its slot of the committed tree; no proof for a slot taken on chain.
struct LeafOpening {
    Submission leaf;
    bytes32[] proof;
}

/// @notice Who is paid for how much in a step: the leaves of the tree, as a settlement needs them.
/// @dev `totals[i]` is what all leaves of `providers[i]` come to: their number above bit 128, their units below. Entry s,
/// of slot s, is bits 48·(s % 5) … of word s / 5: 16 bits for one plus the place of the provider in `providers` (0 is an
/// empty slot), above them 32 bits for its units, up to the most that a slot is paid. A
/// settlement starts from the totals and takes off what was not accepted.
struct PayTable {
    address[] providers;
    uint256[] totals;
    uint256[] words;
}

/// @notice A slot taken on chain: its record is its lease.
struct TakenSlot {
    address provider;
    uint64 takenAt; // pool clock
    uint32 beaconBlock;
    uint32 units;
    bytes32 beacon;
    bytes32 leafHash;
}

/// @notice The lease that a coordinator signs: one slot of one step for one node. Times in unix seconds.
struct Lease {
    PoolId pool;
    uint32 step;
    uint32 policyStep;
    uint32 slot;
    address provider;
    address node;
    uint64 validFrom;
    uint64 validUntil;
    uint32 maxUnits;
    bytes32 cardHash;
    uint32 protocolVersion;
}
