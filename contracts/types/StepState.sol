// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Phase} from "./Enums.sol";

/// @notice One step of a pool. `…At` in unix seconds, `…Block` a block number; 0 is not yet.
/// @dev Stored as it is returned; the order packs the first thirteen members into three words.
struct StepState {
    Phase phase;
    uint32 policyStep;
    uint32 slots;
    uint32 leafCount;
    uint64 openedBlock;
    uint64 openedAt;
    uint64 seedBlock;
    uint64 seededAt;
    uint64 auditBlock;
    uint64 committedAt;
    uint64 auditedAt;
    uint64 votedAt; // when the last panel member voted
    uint64 finalizedAt; // when the step was finalized or cancelled
    bytes32 seedBeacon;
    bytes32 auditBeacon;
    bytes32 submissionRoot;
    bytes32 slotTableRoot;
}
