// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {CaseId, PoolId} from "../types/Ids.sol";

/// @notice Beacons and the seeds that follow from them. Nobody chooses one; none carries an identity.
library Seeds {
    bytes32 internal constant SEED_BEACON_TAG = keccak256("stannary.beacon.seed.v1");
    bytes32 internal constant AUDIT_BEACON_TAG = keccak256("stannary.beacon.audit.v1");
    bytes32 internal constant TAKEN_BEACON_TAG = keccak256("stannary.beacon.taken.v1");
    bytes32 internal constant REDRAW_BEACON_TAG = keccak256("stannary.beacon.redraw.v1");
    bytes32 internal constant JURY_BEACON_TAG = keccak256("stannary.beacon.jury.v1");
    bytes32 internal constant TAKEN_TAG = keccak256("stannary.taken.v1");
    bytes32 internal constant SLOT_TAG = keccak256("stannary.seed.slot.v1");
    bytes32 internal constant ROLLOUT_TAG = keccak256("stannary.seed.rollout.v1");

    /// @notice The beacon of a step from the hash of its block.
    function beacon(bytes32 tag, address ledger, PoolId pool, uint32 step, bytes32 blockHash)
        internal
        view
        returns (bytes32)
    {
        return keccak256(abi.encode(tag, block.chainid, ledger, pool, step, blockHash));
    }

    /// @notice The beacon of a slot that was taken on chain, from the hash of its own block.
    function takenBeacon(address ledger, PoolId pool, uint32 step, uint32 slot, bytes32 blockHash)
        internal
        view
        returns (bytes32)
    {
        return keccak256(abi.encode(TAKEN_BEACON_TAG, block.chainid, ledger, pool, step, slot, blockHash));
    }

    /// @notice What stands for the lease of a slot that was taken on chain.
    function takenLease(address ledger, PoolId pool, uint32 step, uint32 slot, address provider)
        internal
        view
        returns (bytes32)
    {
        return keccak256(abi.encode(TAKEN_TAG, block.chainid, ledger, pool, step, slot, provider));
    }

    /// @notice The beacon of a case's jury from the hash of its block.
    function juryBeacon(address court, CaseId caseId, uint8 round, bytes32 blockHash) internal view returns (bytes32) {
        return keccak256(abi.encode(JURY_BEACON_TAG, block.chainid, court, caseId, round, blockHash));
    }

    /// @notice The seed of a slot: which prompt, and the root of its sampling noise.
    function slotSeed(address ledger, PoolId pool, uint32 step, bytes32 seedBeacon, uint32 slot)
        internal
        view
        returns (bytes32)
    {
        return keccak256(abi.encode(SLOT_TAG, block.chainid, ledger, pool, step, seedBeacon, slot));
    }

    /// @notice The sampling seed of one rollout of a slot.
    function rolloutSeed(bytes32 seedOfSlot, uint32 rollout) internal pure returns (bytes32) {
        return keccak256(abi.encode(ROLLOUT_TAG, seedOfSlot, rollout));
    }
}
