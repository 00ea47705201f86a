// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice What a provider's stake in a pool is for. One provider holds one role in one pool.
enum Role {
    Worker,
    Validator
}

/// @notice What was decided about one leaf. A panel member's vote uses the same two bits.
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

/// @notice What a juror says, and what a jury rules. None is a juror that could not decide, or a jury without quorum.
/// @dev Grey: inside the grey band of the card; settles for the worker and punishes nobody. Unavailable: the bytes that
/// the disputant had to serve were not served; settles against the disputant.
enum Ruling {
    None,
    Accept,
    Reject,
    Fault,
    Grey,
    Unavailable
}

/// @notice Where a case stands. None is a case that was never opened.
enum CasePhase {
    None,
    Opened, // waits for the block of its jury
    Voting, // the jury commits and reveals
    Ruled, // a statistical case that can still be appealed
    Resolved
}

/// @notice Why a case is before a jury.
/// @dev Challenge: an accepted leaf is said to be bad. Appeal: a leaf that was not accepted is said to be good.
/// Statistics: a run of leaves of one worker is said to be bad as a whole.
enum CaseKind {
    Challenge,
    Appeal,
    Statistics
}
