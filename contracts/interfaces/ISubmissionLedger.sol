// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Phase} from "../types/Enums.sol";
import {PoolId} from "../types/Ids.sol";
import {Rates} from "../types/PoolTerms.sol";
import {StepBrief, StepState} from "../types/StepState.sol";
import {Lease, LeafOpening, PayTable, Submission, TakenSlot} from "../types/Submission.sol";

/// @title The record of each step: policy, seed beacon, slots, submissions.
interface ISubmissionLedger {
    event PolicyPublished(PoolId indexed pool, uint32 indexed policyStep, bytes32 policyRoot, bytes32 consumedRoot);
    event StepOpened(
        PoolId indexed pool, uint32 indexed step, uint32 policyStep, uint32 slots, uint32 offer, uint64 seedBlock
    );
    event SeedBeaconSealed(PoolId indexed pool, uint32 indexed step, bytes32 beacon, address sealer);
    event SlotTaken(PoolId indexed pool, uint32 indexed step, uint32 slot, address indexed provider, uint64 beaconBlock);
    event TakenSlotSealed(PoolId indexed pool, uint32 indexed step, uint32 slot, bytes32 beacon);
    event TakenSlotDelivered(
        PoolId indexed pool, uint32 indexed step, address indexed provider, Submission leaf, bytes signature, string location
    );
    event RootCommitted(
        PoolId indexed pool,
        uint32 indexed step,
        bytes32 submissionRoot,
        bytes32 slotTableRoot,
        PayTable payTable,
        uint64 auditBlock
    );
    event BeaconRedrawn(PoolId indexed pool, uint32 indexed step, bool isAudit, uint64 beaconBlock);
    event AuditBlockDrawn(PoolId indexed pool, uint32 indexed step, uint64 auditBlock);
    event OverlapProved(
        PoolId indexed pool, uint32 indexed step, uint32 slot, address indexed provider, uint256 amount
    );
    event StepCancelled(PoolId indexed pool, uint32 indexed step);

    /// @notice Only the pool's trainer may do this.
    error NotTrainer(PoolId pool, address caller, address trainer);

    /// @notice Only the coordinator of the step's offer may do this.
    error NotCoordinator(PoolId pool, address caller, address coordinator);

    /// @notice Only the voting panel may do this.
    error NotPanel(address caller);

    /// @notice The pool is closed.
    error PoolIsClosed(PoolId pool);

    /// @notice The pool's clock stands.
    error PoolIsPaused(PoolId pool);

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

    /// @notice As many steps are unsettled as the pool allows.
    error StepsTooMany(PoolId pool, uint256 unsettled, uint256 highest);

    /// @notice The two leases are not of one slot, of two providers, and overlapping.
    error LeasesDoNotOverlap();

    /// @notice The lease bond of the step is spent.
    error LeaseBondSpent(PoolId pool, uint32 step);

    /// @notice An overlap of this slot was proved before.
    error OverlapKnown(PoolId pool, uint32 step, uint32 slot);

    /// @notice A number of slots, providers or words is zero or above its limit.
    error CountOutOfRange(uint256 count, uint256 highest);

    /// @notice The pool lacks validators with enough stake to draw a panel and a jury.
    error ValidatorsTooFew(PoolId pool, uint256 eligible, uint256 needed);

    /// @notice The step is in another phase.
    error WrongPhase(PoolId pool, uint32 step, Phase phase, Phase expected);

    /// @notice The block that the beacon comes from is not past.
    error BeaconNotReady(uint64 beaconBlock, uint256 current);

    /// @notice The chain has forgotten the hash of that block.
    error BeaconLapsed(uint64 beaconBlock, uint256 current);

    /// @notice The time for this is over.
    error DeadlinePassed(uint256 deadline, uint256 time);

    /// @notice The time for this has not come.
    error TooEarly(uint256 earliest, uint256 time);

    /// @notice Steps settle in order: an earlier one is unsettled.
    error EarlierStepUnsettled(PoolId pool, uint32 step, uint32 unsettled);

    /// @notice The caller acts for no provider with stake at work in this pool and role.
    error NotEligible(PoolId pool, address caller);

    /// @notice The provider has taken a slot of this step.
    error SlotTakenBefore(PoolId pool, uint32 step, address provider);

    /// @notice All slots that may be taken on chain are.
    error SlotsAllTaken(PoolId pool, uint32 step, uint32 highest);

    /// @notice The slot is none that was taken on chain, or not by this provider, or its work was delivered.
    error NotTakenSlot(PoolId pool, uint32 step, uint32 slot, address provider);

    /// @notice The submission is not that of this slot and its taker.
    error LeafNotOfSlot(PoolId pool, uint32 step, uint32 slot, address provider);

    /// @notice The signature is not that of the account that had to sign.
    error SignatureInvalid(address signer);

    /// @notice The opened leaf belongs to another pool or step.
    error LeafOfOtherStep(PoolId pool, uint32 step, PoolId leafPool, uint32 leafStep);

    /// @notice The leaf does not stand at its slot of the committed tree, nor was it delivered for a slot taken on chain.
    error LeafNotCommitted(bytes32 leafHash, uint32 slot);

    /// @notice Publishes the digest of the weights of a policy step, and the root of what it was trained on. Trainer only.
    function publishPolicy(PoolId pool, uint32 policyStep, bytes32 policyRoot, bytes32 consumedRoot) external;

    /// @notice Opens a step of `slots` slots for a published policy and reserves its money. Trainer only.
    function openStep(PoolId pool, uint32 step, uint32 policyStep, uint32 slots) external;

    /// @notice Fixes the seed beacon from the hash of its block, for the pool's fee; or, if the hash is gone, fines the
    /// pool and draws a new block. Anyone.
    function sealSeedBeacon(PoolId pool, uint32 step) external;

    /// @notice Takes a slot without the coordinator, for a bond of the slot's price that comes back with the delivery. For
    /// workers, once a step, within the take window. Returns the number of the slot.
    function takeSlot(PoolId pool, uint32 step) external returns (uint32 slot);

    /// @notice Fixes the beacon of a taken slot from the hash of its block. Anyone.
    function sealTakenSlot(PoolId pool, uint32 step, uint32 slot) external;

    /// @notice Delivers the work of a taken slot within its lease time. `location` is where the bytes are served until the
    /// step is finalized; `signature` is the node's over the submission. Anyone.
    function deliverTaken(
        PoolId pool,
        uint32 step,
        Submission calldata leaf,
        bytes calldata signature,
        string calldata location
    ) external;

    /// @notice Commits all submissions of the step: the root of the tree by slot, the slot table, and who is paid for how
    /// much. Coordinator only, within its time.
    function commitRoot(
        PoolId pool,
        uint32 step,
        bytes32 submissionRoot,
        bytes32 slotTableRoot,
        PayTable calldata payTable
    ) external;

    /// @notice Ends a step whose root was not committed in time and frees its money. Anyone, in order of steps.
    function cancelStep(PoolId pool, uint32 step) external;

    /// @notice Shows two leases that the coordinator signed for one slot with overlapping times, the earlier first: the step's
    /// lease bond pays the provider of the later one. Anyone, before the step is settled.
    function proveOverlap(
        Lease calldata first,
        bytes calldata firstSignature,
        Lease calldata second,
        bytes calldata secondSignature
    ) external;

    /// @notice Says that the panel of a step is drawn. Only the panel.
    function markAudited(PoolId pool, uint32 step, bytes32 auditBeacon) external;

    /// @notice Chooses the block of the audit beacon, once all slots taken on chain are delivered or out of time; another
    /// block than before fines the pool. Only the panel.
    function drawAuditBlock(PoolId pool, uint32 step) external;

    /// @notice Says that a step is finalized, in order of steps. Only the panel.
    function markFinalized(PoolId pool, uint32 step, bytes32 outcomesHash) external;

    /// @notice When the panel of a committed step may be drawn: slots taken on chain must be delivered or out of time.
    function auditFrom(PoolId pool, uint32 step) external view returns (uint64);

    /// @notice The state of a step; all zero (phase None) if it was never opened.
    function stepOf(PoolId pool, uint32 step) external view returns (StepState memory);

    /// @notice What judges need of it.
    function briefOf(PoolId pool, uint32 step) external view returns (StepBrief memory);

    /// @notice The published root of a policy step.
    function policyRootOf(PoolId pool, uint32 policyStep) external view returns (bytes32);

    /// @notice Number of steps opened; the next step.
    function stepCountOf(PoolId pool) external view returns (uint32);

    /// @notice Number of steps finalized or cancelled: all below this number are.
    function settledCountOf(PoolId pool) external view returns (uint32);

    /// @notice Number of policies published; the next policy step.
    function policyCountOf(PoolId pool) external view returns (uint32);

    /// @notice A slot that was taken on chain; all zero if there is none.
    function takenSlotOf(PoolId pool, uint32 step, uint32 slot) external view returns (TakenSlot memory);

    /// @notice What a step pays.
    function ratesOf(PoolId pool, uint32 step) external view returns (Rates memory);

    /// @notice Whether a step was opened in that block or before.
    function isOpenedBy(PoolId pool, uint32 step, uint256 blockNumber) external view returns (bool);

    /// @notice When a step was finalized or cancelled, on the pool's clock; 0 is not yet.
    function finalizedAtOf(PoolId pool, uint32 step) external view returns (uint64);

    /// @notice Refuses a leaf that does not stand at its slot of the committed tree (or was not delivered for a slot taken
    /// on chain). Returns its hash.
    function checkLeaf(PoolId pool, uint32 step, LeafOpening calldata opening) external view returns (bytes32);

    /// @notice The leaf hash of a submission.
    function leafHash(Submission calldata leaf) external pure returns (bytes32);

    /// @notice What the node signs: the EIP-712 digest of a submission in this contract's domain.
    function submissionDigest(Submission calldata leaf) external view returns (bytes32);

    /// @notice What the coordinator signs: the EIP-712 digest of a lease in this contract's domain.
    function leaseDigest(Lease calldata lease) external view returns (bytes32);
}
