// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {PoolId} from "./Ids.sol";

/// @notice One group of rollouts with its proofs: a leaf of the step's tree.
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

/// @notice A leaf with the proof that it stands at `index` of the committed tree.
struct LeafOpening {
    Submission leaf;
    uint32 index;
    bytes32[] proof;
}
