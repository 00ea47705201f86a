// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Phase} from "./Enums.sol";

/// @notice One step of a pool. `…At` in seconds of the pool's clock, `…Block` a block number; 0 is not yet.
/// @dev Stored as it is returned. One word holds what is known at the opening, one what moves on, each hash its own.
struct StepState {
    uint32 policyStep;
    uint32 slots;
    uint32 taken; // slots taken on chain: numbers slots … slots + taken − 1
    uint32 reserved; // slots that workers may take on chain
    uint32 offer; // which offer of the pool it was opened under
    uint48 openedBlock;
    uint48 seedBlock;
    Phase phase;
    uint48 seededAt;
    uint48 auditBlock;
    uint48 committedAt;
    uint48 finalizedAt; // when the step was finalized or cancelled
    bytes32 seedBeacon;
    bytes32 auditBeacon;
    bytes32 submissionRoot;
    bytes32 settlementHash; // keccak256 of the pay table; once finalized, of the packed outcomes
}

/// @notice What judges need of a step.
struct StepBrief {
    Phase phase;
    uint32 slots;
    uint32 taken;
    uint48 openedBlock;
    uint48 auditBlock;
    bytes32 auditBeacon;
    bytes32 settlementHash;
}
