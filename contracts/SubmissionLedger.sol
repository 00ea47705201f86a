// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {SignatureChecker} from "@openzeppelin/contracts/utils/cryptography/SignatureChecker.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {BitMaps} from "@openzeppelin/contracts/utils/structs/BitMaps.sol";

import {IPayoutVault} from "./interfaces/IPayoutVault.sol";
import {IPoolRegistry} from "./interfaces/IPoolRegistry.sol";
import {IStakeManager} from "./interfaces/IStakeManager.sol";
import {ISubmissionLedger} from "./interfaces/ISubmissionLedger.sol";
import {LeaseHash} from "./libraries/LeaseHash.sol";
import {MerkleIndex} from "./libraries/MerkleIndex.sol";
import {Pricing} from "./libraries/Pricing.sol";
import {Seeds} from "./libraries/Seeds.sol";
import {SubmissionHash} from "./libraries/SubmissionHash.sol";
import {Phase, Role} from "./types/Enums.sol";
import {PoolId} from "./types/Ids.sol";
import {Parts} from "./types/Parts.sol";
import {Opening, Rates, Windows, WorkRules} from "./types/PoolTerms.sol";
import {StepBrief, StepState} from "./types/StepState.sol";
import {Lease, LeafOpening, PayTable, Submission, TakenSlot} from "./types/Submission.sol";

/// @title The record of each step: policy, seed beacon, slots, submissions.
/// @dev Holds no money. The panel moves a step on from its committed root.
contract SubmissionLedger is ISubmissionLedger, EIP712, ReentrancyGuardTransient {
    using BitMaps for BitMaps.BitMap;
    using LeaseHash for Lease;
    using SubmissionHash for Submission;

    struct Progress {
        uint32 policyCount;
        uint32 stepCount;
        uint32 settledCount;
    }

    /// @notice Most providers of a step: what a settlement costs must stay below what a transaction can.
    uint256 public constant MAX_PROVIDERS = 128;

    uint256 private constant ENTRIES_PER_WORD = 5; // of a pay table

    IPoolRegistry public immutable registry;
    IStakeManager public immutable stakes;
    IPayoutVault public immutable vault;
    address public immutable panel;

    mapping(PoolId pool => Progress) private _progress;
    mapping(PoolId pool => mapping(uint32 policyStep => bytes32)) private _policyRoots;
    mapping(PoolId pool => mapping(uint32 step => StepState)) private _steps;
    mapping(PoolId pool => mapping(uint32 step => mapping(uint32 slot => TakenSlot))) private _taken;
    mapping(PoolId pool => mapping(uint32 step => mapping(address provider => bool))) private _hasTaken;
    mapping(PoolId pool => mapping(uint32 step => uint256)) private _overlapsPaid;
    mapping(PoolId pool => mapping(uint32 step => BitMaps.BitMap)) private _overlaps;

    modifier onlyPanel() {
        if (msg.sender != panel) revert NotPanel(msg.sender);
        _;
    }

    constructor(Parts memory parts) EIP712("Stannary", "1") {
        parts.checkParts();
        registry = IPoolRegistry(parts.registry);
        stakes = IStakeManager(parts.stakes);
        vault = IPayoutVault(parts.vault);
        panel = parts.panel;
    }

    // -- policies and steps

    /// @inheritdoc ISubmissionLedger
    function publishPolicy(PoolId pool, uint32 policyStep, bytes32 policyRoot, bytes32 consumedRoot)
        external
        override
    {
        _checkTrainer(pool, registry.trainerOf(pool, registry.currentOffer(pool)), registry.isOpen(pool));
        Progress storage progress = _progress[pool];
        if (policyStep != progress.policyCount) revert NotNext(policyStep, progress.policyCount);
        if (policyRoot == bytes32(0)) revert RootZero();
        ++progress.policyCount;
        _policyRoots[pool][policyStep] = policyRoot;
        emit PolicyPublished(pool, policyStep, policyRoot, consumedRoot);
    }

    /// @inheritdoc ISubmissionLedger
    function openStep(PoolId pool, uint32 step, uint32 policyStep, uint32 slots) external override nonReentrant {
        Opening memory opening = registry.opening(pool);
        _checkTrainer(pool, opening.trainer, opening.isOpen);
        if (opening.isPaused) revert PoolIsPaused(pool);
        _checkOpening(pool, step, policyStep, slots, opening.work);
        _checkEligible(pool, uint256(opening.panel.panelSize) + opening.panel.jurySize);

        _startStep(pool, step, policyStep, slots, opening);
        uint256 highest = uint256(slots) + opening.work.reservedSlots;
        uint256 cost = Pricing.stepCost(opening.rates, opening.fees, opening.panel, highest);
        vault.reserve(pool, step, cost, Pricing.giveaway(opening.fees));
    }

    /// @inheritdoc ISubmissionLedger
    function sealSeedBeacon(PoolId pool, uint32 step) external override {
        StepState storage state = _inPhase(pool, step, Phase.Open);
        bytes32 blockHash = _beaconHash(state.seedBlock);
        if (blockHash == bytes32(0)) {
            state.seedBlock = _redrawBeacon(pool, step, false);
            return;
        }
        state.phase = Phase.Seeded;
        state.seededAt = _clock(pool);
        state.seedBeacon = Seeds.beacon(Seeds.SEED_BEACON_TAG, address(this), pool, step, blockHash);
        emit SeedBeaconSealed(pool, step, state.seedBeacon, msg.sender);
        vault.giveAway(pool, step, msg.sender, registry.feesOf(pool).sealFee);
    }

    // -- slots taken on chain

    /// @inheritdoc ISubmissionLedger
    function takeSlot(PoolId pool, uint32 step) external override nonReentrant returns (uint32 slot) {
        StepState storage state = _collecting(pool, step);
        if (registry.isPaused(pool)) revert PoolIsPaused(pool);
        (uint48 time, Windows memory windows) = registry.timesOf(pool);
        if (time >= state.seededAt + windows.takeSeconds) {
            revert DeadlinePassed(state.seededAt + windows.takeSeconds, time);
        }
        if (state.taken >= state.reserved) revert SlotsAllTaken(pool, step, state.reserved);
        address provider = _providerOf(msg.sender);
        if (!_isAtWork(pool, provider, state.openedBlock)) revert NotEligible(pool, msg.sender);
        if (_hasTaken[pool][step][provider]) revert SlotTakenBefore(pool, step, provider);

        slot = state.slots + state.taken++;
        uint64 beaconBlock = uint64(block.number) + windows.beaconDelayBlocks;
        _hasTaken[pool][step][provider] = true;
        TakenSlot storage taken = _taken[pool][step][slot];
        taken.provider = provider;
        taken.takenAt = time;
        taken.beaconBlock = uint32(beaconBlock);
        emit SlotTaken(pool, step, slot, provider, beaconBlock);
        vault.takeBond(pool, msg.sender, ratesOf(pool, step).slotCap);
    }

    /// @inheritdoc ISubmissionLedger
    function sealTakenSlot(PoolId pool, uint32 step, uint32 slot) external override {
        _collecting(pool, step);
        TakenSlot storage taken = _taken[pool][step][slot];
        if (taken.provider == address(0) || taken.beacon != bytes32(0)) {
            revert NotTakenSlot(pool, step, slot, taken.provider);
        }
        bytes32 blockHash = _beaconHash(taken.beaconBlock);
        if (blockHash == bytes32(0)) revert BeaconLapsed(taken.beaconBlock, block.number);
        taken.beacon = Seeds.takenBeacon(address(this), pool, step, slot, blockHash);
        emit TakenSlotSealed(pool, step, slot, taken.beacon);
    }

    /// @inheritdoc ISubmissionLedger
    function deliverTaken(
        PoolId pool,
        uint32 step,
        Submission calldata leaf,
        bytes calldata signature,
        string calldata location
    ) external override {
        _collecting(pool, step);
        bytes32 hashOfLeaf = _checkTakenLeaf(pool, step, leaf);
        _checkSignature(leaf.node, hashOfLeaf, signature);
        TakenSlot storage taken = _taken[pool][step][leaf.slot];
        taken.leafHash = hashOfLeaf;
        taken.units = leaf.units;
        emit TakenSlotDelivered(pool, step, leaf.provider, leaf, signature, location);
        vault.spendBond(pool, leaf.provider, ratesOf(pool, step).slotCap);
    }

    // -- submissions

    /// @inheritdoc ISubmissionLedger
    function commitRoot(
        PoolId pool,
        uint32 step,
        bytes32 submissionRoot,
        bytes32 slotTableRoot,
        PayTable calldata payTable
    ) external override {
        StepState storage state = _inPhase(pool, step, Phase.Seeded);
        address coordinator = registry.coordinatorOf(pool, state.offer);
        if (msg.sender != coordinator) revert NotCoordinator(pool, msg.sender, coordinator);
        (uint48 time, Windows memory windows) = registry.timesOf(pool);
        uint64 deadline = _commitDeadline(state, windows);
        if (time >= deadline) revert DeadlinePassed(deadline, time);
        if (submissionRoot == bytes32(0)) revert RootZero();
        uint256 slots = state.slots;
        uint256 providers = payTable.providers.length;
        if (providers == 0 || providers > MAX_PROVIDERS) revert CountOutOfRange(providers, MAX_PROVIDERS);
        if (payTable.totals.length != providers) revert CountOutOfRange(payTable.totals.length, providers);
        uint256 words = (slots + ENTRIES_PER_WORD - 1) / ENTRIES_PER_WORD;
        if (payTable.words.length != words) revert CountOutOfRange(payTable.words.length, words);

        state.phase = Phase.Committed;
        // While a slot can still be taken or delivered, nobody must know the panel.
        if (state.reserved == 0) state.auditBlock = uint48(block.number) + windows.beaconDelayBlocks;
        state.committedAt = time;
        state.submissionRoot = submissionRoot;
        state.settlementHash = keccak256(abi.encode(payTable));
        emit RootCommitted(pool, step, submissionRoot, slotTableRoot, payTable, state.auditBlock);
    }

    /// @inheritdoc ISubmissionLedger
    function cancelStep(PoolId pool, uint32 step) external override nonReentrant {
        StepState storage state = _inPhase(pool, step, Phase.Seeded);
        (uint48 time, Windows memory windows) = registry.timesOf(pool);
        uint64 deadline = _commitDeadline(state, windows);
        if (time < deadline) revert TooEarly(deadline, time);

        state.phase = Phase.Cancelled;
        _markSettled(pool, step, state, time);
        emit StepCancelled(pool, step);
        vault.settle(pool, step, new address[](0), new uint256[](0), 0, 0);
        // It was the coordinator that failed: bonds of undelivered slots go back.
        uint256 bond = ratesOf(pool, step).slotCap;
        for (uint32 slot = state.slots; slot < state.slots + state.taken; ++slot) {
            TakenSlot storage taken = _taken[pool][step][slot];
            if (taken.leafHash == bytes32(0)) vault.spendBond(pool, taken.provider, bond);
        }
    }

    // -- leases given twice

    /// @inheritdoc ISubmissionLedger
    function proveOverlap(
        Lease calldata first,
        bytes calldata firstSignature,
        Lease calldata second,
        bytes calldata secondSignature
    ) external override {
        (PoolId pool, uint32 step, uint32 slot) = (first.pool, first.step, first.slot);
        if (
            second.pool != pool || second.step != step || second.slot != slot || second.provider == first.provider
                || first.validFrom > second.validFrom || second.validFrom >= first.validUntil
        ) revert LeasesDoNotOverlap();
        StepState storage state = _steps[pool][step];
        if (state.phase < Phase.Seeded || state.phase >= Phase.Finalized) {
            revert WrongPhase(pool, step, state.phase, Phase.Seeded);
        }
        address coordinator = registry.coordinatorOf(pool, state.offer);
        _checkSignature(coordinator, first.hash(), firstSignature);
        _checkSignature(coordinator, second.hash(), secondSignature);
        if (_overlaps[pool][step].get(slot)) revert OverlapKnown(pool, step, slot);
        uint256 left = registry.feesOf(pool).leaseBond - _overlapsPaid[pool][step];
        uint256 amount = Math.min(ratesOf(pool, step).slotCap, left);
        if (amount == 0) revert LeaseBondSpent(pool, step);

        _overlaps[pool][step].set(slot);
        _overlapsPaid[pool][step] += amount;
        emit OverlapProved(pool, step, slot, second.provider, amount);
        vault.giveAway(pool, step, second.provider, amount);
    }

    // -- for the panel

    /// @inheritdoc ISubmissionLedger
    function markAudited(PoolId pool, uint32 step, bytes32 auditBeacon) external override onlyPanel {
        StepState storage state = _inPhase(pool, step, Phase.Committed);
        state.phase = Phase.Audited;
        state.auditBeacon = auditBeacon;
    }

    /// @inheritdoc ISubmissionLedger
    function drawAuditBlock(PoolId pool, uint32 step) external override onlyPanel {
        StepState storage state = _inPhase(pool, step, Phase.Committed);
        if (state.auditBlock != 0) {
            state.auditBlock = _redrawBeacon(pool, step, true);
            return;
        }
        uint64 earliest = auditFrom(pool, step);
        uint48 time = _clock(pool);
        if (time < earliest) revert TooEarly(earliest, time);
        state.auditBlock = uint48(block.number) + _windows(pool).beaconDelayBlocks;
        emit AuditBlockDrawn(pool, step, state.auditBlock);
    }

    /// @inheritdoc ISubmissionLedger
    function markFinalized(PoolId pool, uint32 step, bytes32 outcomesHash) external override onlyPanel {
        StepState storage state = _inPhase(pool, step, Phase.Audited);
        state.phase = Phase.Finalized;
        state.settlementHash = outcomesHash;
        _markSettled(pool, step, state, _clock(pool));
    }

    // -- views

    /// @inheritdoc ISubmissionLedger
    function stepOf(PoolId pool, uint32 step) external view override returns (StepState memory) {
        return _steps[pool][step];
    }

    /// @inheritdoc ISubmissionLedger
    function briefOf(PoolId pool, uint32 step) external view override returns (StepBrief memory) {
        StepState storage state = _steps[pool][step];
        return StepBrief({
            phase: state.phase,
            slots: state.slots,
            taken: state.taken,
            openedBlock: state.openedBlock,
            auditBlock: state.auditBlock,
            auditBeacon: state.auditBeacon,
            settlementHash: state.settlementHash
        });
    }

    /// @inheritdoc ISubmissionLedger
    function policyRootOf(PoolId pool, uint32 policyStep) external view override returns (bytes32) {
        if (policyStep >= _progress[pool].policyCount) revert UnknownPolicy(pool, policyStep);
        return _policyRoots[pool][policyStep];
    }

    /// @inheritdoc ISubmissionLedger
    function stepCountOf(PoolId pool) external view override returns (uint32) {
        return _progress[pool].stepCount;
    }

    /// @inheritdoc ISubmissionLedger
    function settledCountOf(PoolId pool) external view override returns (uint32) {
        return _progress[pool].settledCount;
    }

    /// @inheritdoc ISubmissionLedger
    function policyCountOf(PoolId pool) external view override returns (uint32) {
        return _progress[pool].policyCount;
    }

    /// @inheritdoc ISubmissionLedger
    function takenSlotOf(PoolId pool, uint32 step, uint32 slot) external view override returns (TakenSlot memory) {
        return _taken[pool][step][slot];
    }

    /// @inheritdoc ISubmissionLedger
    function auditFrom(PoolId pool, uint32 step) public view override returns (uint64 earliest) {
        StepState storage state = _steps[pool][step];
        if (state.reserved == 0) return state.committedAt;
        Windows memory windows = _windows(pool);
        earliest = state.seededAt + windows.takeSeconds;
        if (earliest < state.committedAt) earliest = state.committedAt;
        for (uint32 slot = state.slots; slot < state.slots + state.taken; ++slot) {
            TakenSlot storage taken = _taken[pool][step][slot];
            uint64 deadline = taken.takenAt + windows.leaseSeconds;
            if (taken.leafHash == bytes32(0) && deadline > earliest) earliest = deadline;
        }
    }

    /// @inheritdoc ISubmissionLedger
    function ratesOf(PoolId pool, uint32 step) public view override returns (Rates memory) {
        return registry.ratesOf(pool, _steps[pool][step].offer);
    }

    /// @inheritdoc ISubmissionLedger
    function isOpenedBy(PoolId pool, uint32 step, uint256 blockNumber) external view override returns (bool) {
        uint256 openedBlock = _steps[pool][step].openedBlock;
        return openedBlock != 0 && openedBlock <= blockNumber;
    }

    /// @inheritdoc ISubmissionLedger
    function finalizedAtOf(PoolId pool, uint32 step) external view override returns (uint64) {
        return _steps[pool][step].finalizedAt;
    }

    /// @inheritdoc ISubmissionLedger
    function leafHash(Submission calldata leaf) external pure override returns (bytes32) {
        return leaf.hash();
    }

    /// @inheritdoc ISubmissionLedger
    function submissionDigest(Submission calldata leaf) external view override returns (bytes32) {
        return _hashTypedDataV4(leaf.hash());
    }

    /// @inheritdoc ISubmissionLedger
    function leaseDigest(Lease calldata lease) external view override returns (bytes32) {
        return _hashTypedDataV4(lease.hash());
    }

    /// @inheritdoc ISubmissionLedger
    function checkLeaf(PoolId pool, uint32 step, LeafOpening calldata opening) public view override returns (bytes32) {
        Submission calldata leaf = opening.leaf;
        StepState storage state = _steps[pool][step];
        if (leaf.pool != pool || leaf.step != step) revert LeafOfOtherStep(pool, step, leaf.pool, leaf.step);
        bytes32 hashOfLeaf = leaf.hash();
        bool isCommitted = leaf.slot < state.slots
            ? MerkleIndex.verify(state.submissionRoot, hashOfLeaf, leaf.slot, state.slots, opening.proof)
            : _taken[pool][step][leaf.slot].leafHash == hashOfLeaf;
        if (!isCommitted) revert LeafNotCommitted(hashOfLeaf, leaf.slot);
        return hashOfLeaf;
    }

    // -- inside: opening

    function _checkTrainer(PoolId pool, address trainer, bool isOpen) private view {
        if (msg.sender != trainer) revert NotTrainer(pool, msg.sender, trainer);
        if (!isOpen) revert PoolIsClosed(pool);
    }

    function _checkOpening(PoolId pool, uint32 step, uint32 policyStep, uint32 slots, WorkRules memory work)
        private
        view
    {
        Progress memory progress = _progress[pool];
        if (step != progress.stepCount) revert NotNext(step, progress.stepCount);
        if (policyStep >= progress.policyCount) revert UnknownPolicy(pool, policyStep);
        if (policyStep > step) revert PolicyAhead(policyStep, step);
        if (step - policyStep > work.maxLag) revert LagTooHigh(step - policyStep, work.maxLag);
        if (slots == 0 || slots > work.maxSlots) revert CountOutOfRange(slots, work.maxSlots);
        uint256 unsettled = progress.stepCount - progress.settledCount;
        if (unsettled >= work.maxOpenSteps) revert StepsTooMany(pool, unsettled, work.maxOpenSteps);
    }

    function _startStep(PoolId pool, uint32 step, uint32 policyStep, uint32 slots, Opening memory opening) private {
        ++_progress[pool].stepCount;
        StepState storage state = _steps[pool][step];
        state.phase = Phase.Open;
        state.policyStep = policyStep;
        state.slots = slots;
        state.reserved = opening.work.reservedSlots;
        state.offer = opening.offer;
        state.openedBlock = uint48(block.number);
        state.seedBlock = uint48(block.number) + opening.beaconDelayBlocks;
        emit StepOpened(pool, step, policyStep, slots, opening.offer, state.seedBlock);
    }

    /// @dev Counted now; the draw itself weighs by the block before.
    function _checkEligible(PoolId pool, uint256 needed) private view {
        uint256 eligible = stakes.eligibleValidatorsOf(pool);
        if (eligible < needed) revert ValidatorsTooFew(pool, eligible, needed);
    }

    /// @dev A beacon that nobody sealed costs the pool a slot's price: letting it lapse must not be a free second draw.
    function _redrawBeacon(PoolId pool, uint32 step, bool isAudit) private returns (uint48 beaconBlock) {
        beaconBlock = uint48(block.number) + _windows(pool).beaconDelayBlocks;
        emit BeaconRedrawn(pool, step, isAudit, beaconBlock);
        vault.fine(pool, ratesOf(pool, step).slotCap);
    }

    // -- inside: slots taken on chain

    /// @dev Whether a worker's stake counted before the step and counts now.
    function _isAtWork(PoolId pool, address provider, uint64 openedBlock) private view returns (bool) {
        return stakes.activeStakeAt(pool, Role.Worker, provider, openedBlock - 1) != 0
            && stakes.activeStakeOf(pool, Role.Worker, provider) != 0;
    }

    function _checkTakenLeaf(PoolId pool, uint32 step, Submission calldata leaf) private view returns (bytes32) {
        TakenSlot storage taken = _taken[pool][step][leaf.slot];
        if (taken.beacon == bytes32(0) || taken.leafHash != bytes32(0) || leaf.provider != taken.provider) {
            revert NotTakenSlot(pool, step, leaf.slot, leaf.provider);
        }
        (uint48 time, Windows memory windows) = registry.timesOf(pool);
        uint64 deadline = taken.takenAt + windows.leaseSeconds;
        if (time >= deadline) revert DeadlinePassed(deadline, time);
        if (
            leaf.pool != pool || leaf.step != step
                || leaf.leaseHash != Seeds.takenLease(address(this), pool, step, leaf.slot, leaf.provider)
                || _providerOf(leaf.node) != leaf.provider
        ) revert LeafNotOfSlot(pool, step, leaf.slot, leaf.provider);
        return leaf.hash();
    }

    /// @dev Of an EIP-712 struct in this contract's domain.
    function _checkSignature(address signer, bytes32 structHash, bytes calldata signature) private view {
        if (!SignatureChecker.isValidSignatureNow(signer, _hashTypedDataV4(structHash), signature)) {
            revert SignatureInvalid(signer);
        }
    }

    // -- inside: settlement

    /// @dev Settling in order lets an exit wait for one number instead of a list of steps.
    function _markSettled(PoolId pool, uint32 step, StepState storage state, uint48 time) private {
        Progress storage progress = _progress[pool];
        if (step != progress.settledCount) revert EarlierStepUnsettled(pool, step, progress.settledCount);
        ++progress.settledCount;
        state.finalizedAt = time;
    }

    // -- inside: the other contracts, each call in one place

    function _windows(PoolId pool) private view returns (Windows memory) {
        return registry.windowsOf(pool);
    }

    function _clock(PoolId pool) private view returns (uint48) {
        return uint48(registry.clockOf(pool));
    }

    function _providerOf(address account) private view returns (address) {
        return stakes.providerOf(account);
    }

    // -- inside: phases and time

    function _inPhase(PoolId pool, uint32 step, Phase expected) private view returns (StepState storage state) {
        state = _steps[pool][step];
        if (state.phase != expected) revert WrongPhase(pool, step, state.phase, expected);
    }

    /// @dev Seeded, or committed: the coordinator's haste must not cut off who takes a slot.
    function _collecting(PoolId pool, uint32 step) private view returns (StepState storage state) {
        state = _steps[pool][step];
        if (state.phase != Phase.Seeded && state.phase != Phase.Committed) {
            revert WrongPhase(pool, step, state.phase, Phase.Seeded);
        }
    }

    function _commitDeadline(StepState storage state, Windows memory windows) private view returns (uint64) {
        return state.seededAt + windows.collectSeconds + windows.leaseSeconds;
    }

    /// @dev Zero when the chain has forgotten the hash (256 blocks on).
    function _beaconHash(uint64 beaconBlock) private view returns (bytes32) {
        if (block.number <= beaconBlock) revert BeaconNotReady(beaconBlock, block.number);
        return blockhash(beaconBlock);
    }
}
