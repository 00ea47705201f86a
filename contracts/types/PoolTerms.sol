// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice Every rule of a pool. `termsHash` is keccak256(abi.encode(terms)): what a provider agrees to.
/// @dev The order of the members is part of the protocol. Money in wei of its token; times in seconds of the pool's
/// clock. Each contract reads only the groups that it needs.
struct PoolTerms {
    Parties parties;
    Offer offer;
    Fees fees;
    WorkRules work;
    PanelRules panel;
    Windows windows;
    FaultTable faults;
    bytes32 environmentHash;
}

/// @notice Who has a say in the pool for good, and how long before a new offer holds.
struct Parties {
    address payoutToken;
    address pauser; // stops the pool's clock
    address unpauser; // lets it run again; never the pauser
    uint32 noticeSeconds; // from the announcement of an offer
}

/// @notice What the owner may change with notice, for steps opened afterwards.
struct Offer {
    address coordinator; // signs leases and receipts, commits the submission root
    address trainer; // publishes policies, opens steps
    uint128 pricePerGroup;
    uint128 pricePerToken;
    bytes32 cardHash;
}

/// @notice What the pool pays beside payouts, in its payout token.
struct Fees {
    uint128 panelFee; // for one panel member and step
    uint128 jurorFee; // for one juror and case
    uint128 sealFee; // for whoever seals a beacon
    uint128 leaseBond; // of each step, for workers whose lease the coordinator gave twice
}

/// @notice What is work.
struct WorkRules {
    uint128 minWorkerStake;
    uint32 payCapBps; // of a worker's stake: the most that one step pays it
    uint32 maxOpenSteps; // opened and not settled
    uint32 groupSize; // rollouts of one prompt
    uint32 maxCompletionTokens;
    uint32 maxSlots;
    uint32 reservedSlots; // that workers may take on chain, beyond those of the coordinator
    uint32 maxLag; // step minus policy step
    uint32 temperatureMilli;
    uint32 protocolVersion;
}

/// @notice Who judges.
struct PanelRules {
    uint128 minValidatorStake;
    uint32 panelSize; // n
    uint32 quorum; // k, more than half of n
    uint32 jurySize; // j
    uint32 maxAbsences; // within one slash window, at which a validator leaves the draw
}

/// @notice How long everything takes. One word of storage.
struct Windows {
    uint32 beaconDelayBlocks;
    uint32 leaseSeconds;
    uint32 collectSeconds;
    uint32 takeSeconds; // after the seed beacon, for taking slots on chain
    uint32 voteSeconds; // for commitments
    uint32 revealSeconds;
    uint32 challengeSeconds;
    uint32 unbondingSeconds;
}

/// @notice What is taken from a position for what, in hundredths of a percent.
struct FaultTable {
    uint32 faultSlashBps; // worker, for a leaf at fault
    uint32 statisticsSlashBps; // worker, for a run of leaves that honest numerics cannot explain
    uint32 silenceSlashBps; // validator, for a seat without a revealed vote
    uint32 wrongVoteSlashBps; // validator, for a vote that a jury overturned
    uint32 plantSlashBps; // validator, for accepting a planted fault
    uint32 maxSlashBps; // of all these together within one window
    uint32 slashWindowSeconds;
    uint32 rewardBps; // of a slash, to whoever brought it before a jury
}

/// @notice What a step pays, as the offer that it was opened under and the pool's rules say.
struct Rates {
    uint256 slotCap; // the most that one slot is paid
    uint256 unitCap; // generated tokens of a group that are paid at most
    uint256 pricePerGroup;
    uint256 pricePerToken;
    uint256 payCapBps; // of a worker's stake
}

/// @notice What a step is opened under.
struct Opening {
    uint32 offer; // its number
    address trainer;
    bool isOpen;
    bool isPaused;
    uint32 beaconDelayBlocks;
    Rates rates;
    Fees fees;
    WorkRules work;
    PanelRules panel;
}
