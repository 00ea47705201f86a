// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice A pool: one training run. Numbered from 1; 0 is no pool.
type PoolId is uint64;

/// @notice A pending exit of a stake position. Numbered from 1; 0 is no exit.
type ExitId is uint64;

/// @notice A dispute before a jury. Numbered from 1; 0 is no case.
type CaseId is uint64;

using {samePool as ==, otherPool as !=} for PoolId global;

/// @dev Equality of pools, as an operator.
function samePool(PoolId a, PoolId b) pure returns (bool) {
    return PoolId.unwrap(a) == PoolId.unwrap(b);
}

/// @dev Inequality of pools, as an operator.
function otherPool(PoolId a, PoolId b) pure returns (bool) {
    return PoolId.unwrap(a) != PoolId.unwrap(b);
}
