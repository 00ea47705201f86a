// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Outcome, Phase} from "../types/Enums.sol";
import {PoolId} from "../types/Ids.sol";
import {StepState} from "../types/StepState.sol";
import {LeafOpening, Submission} from "../types/Submission.sol";

/// @title The record of each step: policy, beacons, submissions, votes, outcomes.
interface ISubmissionLedger {
    event PolicyPublished(PoolId indexed pool, uint32 indexed policyStep, bytes32 policyRoot, bytes32 consumedRoot);
    event StepOpened(
        PoolId indexed pool, uint32 indexed step, uint32 policyStep, uint32 slots, uint64 seedBlock
    );
    event SeedBeaconSealed(PoolId indexed pool, uint32 indexed step, bytes32 beacon);
    event RootCommitted(
        PoolId indexed pool,
        uint32 indexed step,
        bytes32 root,
        uint32 leafCount,
        bytes32 slotTableRoot,
        uint64 auditBlock
    );
    event AuditBeaconSealed(PoolId indexed pool, uint32 indexed step, bytes32 beacon, address[] panel);
    event BeaconRedrawn(PoolId indexed pool, uint32 indexed step, bool isAudit, uint64 beaconBlock);
    event Voted(
        PoolId indexed pool,
        uint32 indexed step,
        address indexed provider,
        address node,
        bytes outcomes,
        bytes32 verdictRoot,
        bytes32 evidenceRoot
    );
    event StepFinalized(
        PoolId indexed pool,
        uint32 indexed step,
        uint32 accepted,
        uint32 rejected,
        uint32 faulted,
        uint32 undecided
    );
    event StepCancelled(PoolId indexed pool, uint32 indexed step);
    event LeafSlashed(
        PoolId indexed pool,
        uint32 indexed step,
        uint32 index,
        address indexed provider,
        bytes32 leafHash,
        uint256 amount
    );

    /// @notice Only the pool's trainer may do this.
    error NotTrainer(PoolId pool, address caller, address trainer);

    /// @notice Only the pool's coordinator may do this.
    error NotCoordinator(PoolId pool, address caller, address coordinator);

    /// @notice The pool is closed.
    error PoolIsClosed(PoolId pool);

    /// @notice Steps and policies are numbered without a gap.
    error NotNext(uint32 given, uint32 expected);

    /// @notice A root is zero.
    error RootZero();

    /// @notice The policy was not published.
    error UnknownPolicy(PoolId pool, uint32 policyStep);

    /// @notice The policy is newer than the step.
    error PolicyAhead(uint32 policyStep, uint32 step);

    /// @notice The policy is older than the pool allows.
    error LagTooHigh(uint32 lag, uint32 maxLag);

    /// @notice A number of slots or leaves is zero or above its limit.
    error CountOutOfRange(uint256 count, uint256 highest);

    /// @notice The pool lacks validators with enough stake to draw a panel.
    error ValidatorsTooFew(PoolId pool, uint256 eligible, uint256 panelSize);

    /// @notice The step is in another phase.
    error WrongPhase(PoolId pool, uint32 step, Phase phase, Phase expected);

    /// @notice The block that the beacon comes from is not past.
    error BeaconNotReady(uint64 beaconBlock, uint256 current);

    /// @notice The time for this is over.
    error DeadlinePassed(uint256 deadline, uint256 time);

    /// @notice The time for this has not come.
    error TooEarly(uint256 earliest, uint256 time);

    /// @notice Steps settle in order: an earlier one is unsettled.
    error EarlierStepUnsettled(PoolId pool, uint32 step, uint32 unsettled);

    /// @notice The caller acts for no member of the panel.
    error NotPanelMember(PoolId pool, uint32 step, address caller, address provider);

    /// @notice The provider voted already.
    error AlreadyVoted(PoolId pool, uint32 step, address provider);

    /// @notice The opened leaf belongs to another pool or step.
    error LeafOfOtherStep(PoolId pool, uint32 step, PoolId leafPool, uint32 leafStep);

    /// @notice The leaf is not in the committed tree at that index.
    error LeafNotCommitted(bytes32 leafHash, uint32 index);

    /// @notice The panel did not find this leaf at fault.
    error LeafNotFaulted(uint32 index, Outcome outcome);

    /// @notice An index at or beyond the number of leaves.
    error IndexOutOfRange(uint32 index, uint32 leafCount);

    /// @notice Publishes the digest of the weights of a policy step, and the root of what it was trained on. Trainer only.
    function publishPolicy(PoolId pool, uint32 policyStep, bytes32 policyRoot, bytes32 consumedRoot) external;

    /// @notice Opens a step of `slots` slots for a published policy and reserves its money. Trainer only.
    function openStep(PoolId pool, uint32 step, uint32 policyStep, uint32 slots) external;

    /// @notice Fixes the seed beacon from the hash of its block, or draws a new block if the hash is gone. Anyone.
    function sealSeedBeacon(PoolId pool, uint32 step) external;

    /// @notice Commits the tree of all submissions of the step. Coordinator only, within its time.
    function commitRoot(PoolId pool, uint32 step, bytes32 submissionRoot, uint32 leafCount, bytes32 slotTableRoot)
        external;

    /// @notice Fixes the audit beacon and draws the panel, or draws a new block if the hash is gone. Anyone.
    function sealAuditBeacon(PoolId pool, uint32 step) external;

    /// @notice One vote for a panel member, sent by its node (or itself): two bits a leaf.
    function vote(PoolId pool, uint32 step, bytes calldata outcomes, bytes32 verdictRoot, bytes32 evidenceRoot) external;

    /// @notice Counts the votes and settles the step's money. Anyone, in order of steps, after the challenge window.
    function finalize(PoolId pool, uint32 step) external;

    /// @notice Ends a step whose root was not committed in time and frees its money. Anyone, in order of steps.
    function cancelStep(PoolId pool, uint32 step) external;

    /// @notice Slashes the worker of a leaf that the panel found at fault. Anyone, once a leaf.
    function slashLeaf(PoolId pool, uint32 step, LeafOpening calldata opening) external;

    /// @notice The state of a step; all zero (phase None) if it was never opened.
    function stepOf(PoolId pool, uint32 step) external view returns (StepState memory);

    /// @notice The providers drawn to judge a step; empty before the audit beacon.
    function panelOf(PoolId pool, uint32 step) external view returns (address[] memory);

    /// @notice The vote of a panel member; all empty if it has not voted.
    function voteOf(PoolId pool, uint32 step, address provider)
        external
        view
        returns (bytes memory outcomes, bytes32 verdictRoot, bytes32 evidenceRoot);

    /// @notice Whether a panel member voted.
    function hasVoted(PoolId pool, uint32 step, address provider) external view returns (bool);

    /// @notice The published root of a policy step.
    function policyRootOf(PoolId pool, uint32 policyStep) external view returns (bytes32);

    /// @notice Number of steps opened; the next step.
    function stepCountOf(PoolId pool) external view returns (uint32);

    /// @notice Number of steps finalized or cancelled: all below this number are.
    function settledCountOf(PoolId pool) external view returns (uint32);

    /// @notice Number of policies published; the next policy step.
    function policyCountOf(PoolId pool) external view returns (uint32);

    /// @notice The outcome of one leaf of a finalized step.
    function outcomeOf(PoolId pool, uint32 step, uint32 index) external view returns (Outcome);

    /// @notice All outcomes of a finalized step, 128 leaves a word; empty before.
    function outcomesOf(PoolId pool, uint32 step) external view returns (uint256[] memory words);

    /// @notice The leaf hash of a submission.
    function leafHash(Submission calldata leaf) external pure returns (bytes32);

    /// @notice What the node signs: the EIP-712 digest of a submission in this contract's domain.
    function submissionDigest(Submission calldata leaf) external view returns (bytes32);

    /// @notice Whether a leaf was slashed.
    function isSlashed(bytes32 hashOfLeaf) external view returns (bool);
}
