// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice What a provider's stake in a pool is for. One provider holds one role in one pool.
enum Role {
    Worker,
    Validator
}

/// @notice What was decided about one leaf. A vote uses the same two bits.
/// @dev As a result, Abstain means that no quorum formed: unpaid and unslashed. Fault is a rejection that slashes.
enum Outcome {
    Abstain,
    Accept,
    Reject,
    Fault
}

/// @notice Where a step stands. None is a step that was never opened.
enum Phase {
    None,
    Open,
    Seeded,
    Committed,
    Audited,
    Finalized,
    Cancelled
}
