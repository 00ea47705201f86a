// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IPoolRegistry} from "./interfaces/IPoolRegistry.sol";
import {Outcomes} from "./libraries/Outcomes.sol";
import {PoolId} from "./types/Ids.sol";
import {PoolTerms} from "./types/PoolTerms.sol";

/// @title Pools and their frozen terms.
contract PoolRegistry is IPoolRegistry {
    struct Pool {
        address owner;
        bool closed;
        bytes32 termsHash;
        PoolTerms terms;
    }

    /// @notice Highest number of slots of a step.
    uint32 public constant MAX_SLOTS = 4096;

    /// @notice Longest window of a pool, in seconds.
    uint32 public constant MAX_WINDOW_SECONDS = 30 days;

    /// @notice Longest unbonding of a pool, in seconds.
    uint32 public constant MAX_UNBONDING_SECONDS = 365 days;

    /// @notice Longest wait for a beacon, in blocks.
    uint32 public constant MAX_BEACON_DELAY_BLOCKS = 128;

    uint64 public override poolCount;
    mapping(PoolId pool => Pool) private _pools;

    /// @inheritdoc IPoolRegistry
    function createPool(PoolTerms calldata terms) external override returns (PoolId pool) {
        _checkAddresses(terms);
        _checkWork(terms);
        _checkPanel(terms);
        _checkWindows(terms);

        pool = PoolId.wrap(++poolCount);
        bytes32 termsHash = keccak256(abi.encode(terms));
        Pool storage entry = _pools[pool];
        entry.owner = msg.sender;
        entry.termsHash = termsHash;
        entry.terms = terms;
        emit PoolCreated(pool, msg.sender, termsHash, terms);
    }

    /// @inheritdoc IPoolRegistry
    function closePool(PoolId pool) external override {
        Pool storage entry = _existing(pool);
        if (msg.sender != entry.owner) revert NotPoolOwner(pool, msg.sender, entry.owner);
        if (entry.closed) revert PoolAlreadyClosed(pool);
        entry.closed = true;
        emit PoolClosed(pool);
    }

    /// @inheritdoc IPoolRegistry
    function termsOf(PoolId pool) external view override returns (PoolTerms memory) {
        return _existing(pool).terms;
    }

    /// @inheritdoc IPoolRegistry
    function termsHashOf(PoolId pool) external view override returns (bytes32) {
        return _existing(pool).termsHash;
    }

    /// @inheritdoc IPoolRegistry
    function ownerOf(PoolId pool) external view override returns (address) {
        return _existing(pool).owner;
    }

    /// @inheritdoc IPoolRegistry
    function isOpen(PoolId pool) external view override returns (bool) {
        Pool storage entry = _pools[pool];
        return entry.owner != address(0) && !entry.closed;
    }

    function _existing(PoolId pool) private view returns (Pool storage entry) {
        entry = _pools[pool];
        if (entry.owner == address(0)) revert UnknownPool(pool);
    }

    function _checkAddresses(PoolTerms calldata terms) private pure {
        if (terms.payoutToken == address(0)) revert TermAddressZero("payoutToken");
        if (terms.coordinator == address(0)) revert TermAddressZero("coordinator");
        if (terms.trainer == address(0)) revert TermAddressZero("trainer");
    }

    function _checkWork(PoolTerms calldata terms) private pure {
        _checkRange("groupSize", terms.groupSize, 1, type(uint32).max);
        // The units of a group are a uint32 everywhere.
        _checkRange("maxCompletionTokens", terms.maxCompletionTokens, 1, type(uint32).max / terms.groupSize);
        _checkRange("maxSlots", terms.maxSlots, 1, MAX_SLOTS);
        _checkRange("temperatureMilli", terms.temperatureMilli, 1, type(uint32).max);
        _checkRange("protocolVersion", terms.protocolVersion, 1, type(uint32).max);
        _checkRange("minWorkerStake", terms.minWorkerStake, 1, type(uint128).max);
        _checkRange("faultSlashBps", terms.faultSlashBps, 0, 10_000);
    }

    function _checkPanel(PoolTerms calldata terms) private pure {
        _checkRange("panelSize", terms.panelSize, 1, Outcomes.MAX_VOTES);
        _checkRange("quorum", terms.quorum, terms.panelSize / 2 + 1, terms.panelSize);
        _checkRange("minValidatorStake", terms.minValidatorStake, 1, type(uint128).max);
    }

    function _checkWindows(PoolTerms calldata terms) private pure {
        _checkRange("beaconDelayBlocks", terms.beaconDelayBlocks, 1, MAX_BEACON_DELAY_BLOCKS);
        _checkRange("leaseSeconds", terms.leaseSeconds, 1, MAX_WINDOW_SECONDS);
        _checkRange("collectSeconds", terms.collectSeconds, 1, MAX_WINDOW_SECONDS);
        _checkRange("voteSeconds", terms.voteSeconds, 1, MAX_WINDOW_SECONDS);
        _checkRange("challengeSeconds", terms.challengeSeconds, 1, MAX_WINDOW_SECONDS);
        _checkRange("unbondingSeconds", terms.unbondingSeconds, 1, MAX_UNBONDING_SECONDS);
        uint256 lowest = uint256(terms.leaseSeconds) + terms.collectSeconds + terms.voteSeconds + terms.challengeSeconds;
        if (terms.unbondingSeconds < lowest) revert UnbondingTooShort(terms.unbondingSeconds, lowest);
    }

    function _checkRange(bytes32 term, uint256 value, uint256 lowest, uint256 highest) private pure {
        if (value < lowest || value > highest) revert TermOutOfRange(term, value, lowest, highest);
    }
}
