// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice Every rule of a pool. Frozen when the pool is created; `termsHash` is keccak256(abi.encode(terms)).
/// @dev The order of the members is part of the protocol. Money in wei of its token; times in seconds.
struct PoolTerms {
    address payoutToken;
    address coordinator; // signs leases and receipts, commits the submission root
    address trainer; // publishes policies, opens steps
    uint128 pricePerGroup;
    uint128 pricePerToken;
    uint128 panelFee; // for one panel member and step
    uint128 minWorkerStake;
    uint128 minValidatorStake;
    uint32 groupSize; // rollouts of one prompt
    uint32 maxCompletionTokens;
    uint32 maxSlots;
    uint32 maxLag; // step minus policy step
    uint32 panelSize; // n
    uint32 quorum; // k, more than half of n
    uint32 beaconDelayBlocks;
    uint32 leaseSeconds;
    uint32 collectSeconds;
    uint32 voteSeconds;
    uint32 challengeSeconds;
    uint32 unbondingSeconds;
    uint32 faultSlashBps;
    uint32 temperatureMilli;
    uint32 protocolVersion;
    bytes32 cardHash;
    bytes32 environmentHash;
}
