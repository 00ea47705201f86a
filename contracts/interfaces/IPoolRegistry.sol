// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {PoolId} from "../types/Ids.sol";
import {PoolTerms} from "../types/PoolTerms.sol";

/// @title Pools and their frozen terms.
interface IPoolRegistry {
    event PoolCreated(PoolId indexed pool, address indexed owner, bytes32 indexed termsHash, PoolTerms terms);
    event PoolClosed(PoolId indexed pool);

    /// @notice No pool has this number.
    error UnknownPool(PoolId pool);

    /// @notice Only the owner of the pool may do this.
    error NotPoolOwner(PoolId pool, address caller, address owner);

    /// @notice The pool is closed already.
    error PoolAlreadyClosed(PoolId pool);

    /// @notice An address of the terms is zero.
    error TermAddressZero(bytes32 term);

    /// @notice A number of the terms is out of its range. `term` is its name in ASCII.
    error TermOutOfRange(bytes32 term, uint256 value, uint256 lowest, uint256 highest);

    /// @notice A stake could leave before the work done under it is judged.
    error UnbondingTooShort(uint256 unbondingSeconds, uint256 lowest);

    /// @notice Opens a pool owned by the caller.
    function createPool(PoolTerms calldata terms) external returns (PoolId pool);

    /// @notice Ends a pool: no new step, stake, policy or money. Steps in flight finish under its terms.
    function closePool(PoolId pool) external;

    /// @notice The terms of a pool.
    function termsOf(PoolId pool) external view returns (PoolTerms memory);

    /// @notice keccak256(abi.encode(terms)): what a provider agrees to when it allocates stake.
    function termsHashOf(PoolId pool) external view returns (bytes32);

    /// @notice Who may drain and close a pool.
    function ownerOf(PoolId pool) external view returns (address);

    /// @notice Whether the pool exists and is not closed.
    function isOpen(PoolId pool) external view returns (bool);

    /// @notice Number of pools created; the highest pool number.
    function poolCount() external view returns (uint64);
}
