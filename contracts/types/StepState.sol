// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Phase} from "./Enums.sol";

/// @notice One step of a pool. `…At` in seconds of the pool's clock, `…Block` a block number; 0 is not yet.
/// @dev Stored as it is returned; the order packs the first eleven members into two words.
struct StepState {
    Phase phase;
    uint32 policyStep;
    uint32 slots;
    uint32 taken; // slots taken on chain: numbers slots … slots + taken − 1
    uint32 offer; // which offer of the pool it was opened under
    uint48 openedBlock;
    uint48 finalizedAt; // when the step was finalized or cancelled
    uint48 seedBlock;
    uint48 seededAt;
    uint48 auditBlock;
    uint48 committedAt;
    bytes32 seedBeacon;
    bytes32 auditBeacon;
    bytes32 submissionRoot;
    bytes32 payTableHash;
    bytes32 outcomesHash; // keccak256 of the packed outcomes, once finalized
}
