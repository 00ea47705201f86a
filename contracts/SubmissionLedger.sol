// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";

import {IPayoutVault} from "./interfaces/IPayoutVault.sol";
import {IPoolRegistry} from "./interfaces/IPoolRegistry.sol";
import {IStakeManager} from "./interfaces/IStakeManager.sol";
import {ISubmissionLedger} from "./interfaces/ISubmissionLedger.sol";
import {MerkleIndex} from "./libraries/MerkleIndex.sol";
import {Outcomes} from "./libraries/Outcomes.sol";
import {PanelDraw} from "./libraries/PanelDraw.sol";
import {Pricing} from "./libraries/Pricing.sol";
import {Seeds} from "./libraries/Seeds.sol";
import {SubmissionHash} from "./libraries/SubmissionHash.sol";
import {Outcome, Phase, Role} from "./types/Enums.sol";
import {PoolId} from "./types/Ids.sol";
import {PoolTerms} from "./types/PoolTerms.sol";
import {StepState} from "./types/StepState.sol";
import {LeafOpening, Submission} from "./types/Submission.sol";

/// @title The record of each step: policy, beacons, submissions, votes, outcomes.
/// @dev Holds no money. The only contract that may slash and that may reserve or settle escrow.
contract SubmissionLedger is ISubmissionLedger, EIP712, ReentrancyGuardTransient {
    using SubmissionHash for Submission;

    struct Progress {
        uint32 policyCount;
        uint32 stepCount;
        uint32 settledCount;
    }

    struct Ballot {
        bool cast;
        bytes32 verdictRoot;
        bytes32 evidenceRoot;
        uint256[] words;
    }

    struct Panel {
        uint32 votes;
        address[] members;
    }

    IPoolRegistry public immutable registry;
    IStakeManager public immutable stakes;
    IPayoutVault public immutable vault;

    mapping(PoolId pool => Progress) private _progress;
    mapping(PoolId pool => mapping(uint32 policyStep => bytes32)) private _policyRoots;
    mapping(PoolId pool => mapping(uint32 step => StepState)) private _steps;
    mapping(PoolId pool => mapping(uint32 step => Panel)) private _panels;
    mapping(PoolId pool => mapping(uint32 step => mapping(address provider => Ballot))) private _ballots;
    mapping(PoolId pool => mapping(uint32 step => uint256[])) private _outcomes;

    /// @notice An address is zero.
    error AddressZero();

    constructor(IPoolRegistry registry_, IStakeManager stakes_, IPayoutVault vault_) EIP712("Stannary", "1") {
        if (address(registry_) == address(0) || address(stakes_) == address(0) || address(vault_) == address(0)) {
            revert AddressZero();
        }
        registry = registry_;
        stakes = stakes_;
        vault = vault_;
    }

    /// @inheritdoc ISubmissionLedger
    function publishPolicy(PoolId pool, uint32 policyStep, bytes32 policyRoot, bytes32 consumedRoot)
        external
        override
    {
        _checkTrainer(pool, registry.termsOf(pool).trainer);
        Progress storage progress = _progress[pool];
        if (policyStep != progress.policyCount) revert NotNext(policyStep, progress.policyCount);
        if (policyRoot == bytes32(0)) revert RootZero();
        ++progress.policyCount;
        _policyRoots[pool][policyStep] = policyRoot;
        emit PolicyPublished(pool, policyStep, policyRoot, consumedRoot);
    }

    /// @inheritdoc ISubmissionLedger
    function openStep(PoolId pool, uint32 step, uint32 policyStep, uint32 slots) external override nonReentrant {
        PoolTerms memory terms = registry.termsOf(pool);
        _checkTrainer(pool, terms.trainer);
        Progress storage progress = _progress[pool];
        if (step != progress.stepCount) revert NotNext(step, progress.stepCount);
        if (policyStep >= progress.policyCount) revert UnknownPolicy(pool, policyStep);
        if (policyStep > step) revert PolicyAhead(policyStep, step);
        if (step - policyStep > terms.maxLag) revert LagTooHigh(step - policyStep, terms.maxLag);
        if (slots == 0 || slots > terms.maxSlots) revert CountOutOfRange(slots, terms.maxSlots);
        _checkEligible(pool, terms);

        ++progress.stepCount;
        StepState storage state = _steps[pool][step];
        state.phase = Phase.Open;
        state.policyStep = policyStep;
        state.slots = slots;
        state.openedBlock = uint64(block.number);
        state.openedAt = uint64(block.timestamp);
        state.seedBlock = uint64(block.number) + terms.beaconDelayBlocks;
        emit StepOpened(pool, step, policyStep, slots, state.seedBlock);
        vault.reserve(pool, step, slots * Pricing.slotCap(terms) + terms.panelSize * uint256(terms.panelFee));
    }

    /// @inheritdoc ISubmissionLedger
    function sealSeedBeacon(PoolId pool, uint32 step) external override {
        StepState storage state = _inPhase(pool, step, Phase.Open);
        bytes32 blockHash = _beaconHash(state.seedBlock);
        if (blockHash == bytes32(0)) {
            state.seedBlock = uint64(block.number) + registry.termsOf(pool).beaconDelayBlocks;
            emit BeaconRedrawn(pool, step, false, state.seedBlock);
            return;
        }
        state.phase = Phase.Seeded;
        state.seededAt = uint64(block.timestamp);
        state.seedBeacon = Seeds.beacon(Seeds.SEED_BEACON_TAG, address(this), pool, step, blockHash);
        emit SeedBeaconSealed(pool, step, state.seedBeacon);
    }

    /// @inheritdoc ISubmissionLedger
    function commitRoot(PoolId pool, uint32 step, bytes32 submissionRoot, uint32 leafCount, bytes32 slotTableRoot)
        external
        override
    {
        StepState storage state = _inPhase(pool, step, Phase.Seeded);
        PoolTerms memory terms = registry.termsOf(pool);
        if (msg.sender != terms.coordinator) revert NotCoordinator(pool, msg.sender, terms.coordinator);
        uint256 deadline = _commitDeadline(state, terms);
        if (block.timestamp > deadline) revert DeadlinePassed(deadline, block.timestamp);
        if (submissionRoot == bytes32(0)) revert RootZero();
        if (leafCount == 0 || leafCount > state.slots) revert CountOutOfRange(leafCount, state.slots);

        state.phase = Phase.Committed;
        state.leafCount = leafCount;
        state.auditBlock = uint64(block.number) + terms.beaconDelayBlocks;
        state.committedAt = uint64(block.timestamp);
        state.submissionRoot = submissionRoot;
        state.slotTableRoot = slotTableRoot;
        emit RootCommitted(pool, step, submissionRoot, leafCount, slotTableRoot, state.auditBlock);
    }

    /// @inheritdoc ISubmissionLedger
    function sealAuditBeacon(PoolId pool, uint32 step) external override {
        StepState storage state = _inPhase(pool, step, Phase.Committed);
        bytes32 blockHash = _beaconHash(state.auditBlock);
        PoolTerms memory terms = registry.termsOf(pool);
        if (blockHash == bytes32(0)) {
            state.auditBlock = uint64(block.number) + terms.beaconDelayBlocks;
            emit BeaconRedrawn(pool, step, true, state.auditBlock);
            return;
        }
        bytes32 beacon = Seeds.beacon(Seeds.AUDIT_BEACON_TAG, address(this), pool, step, blockHash);
        (address[] memory candidates, uint256[] memory weights,) = _candidates(pool, terms, state.openedBlock - 1);
        address[] memory members = PanelDraw.draw(candidates, weights, beacon, terms.panelSize);

        state.phase = Phase.Audited;
        state.auditedAt = uint64(block.timestamp);
        state.auditBeacon = beacon;
        _panels[pool][step].members = members;
        emit AuditBeaconSealed(pool, step, beacon, members);
    }

    /// @inheritdoc ISubmissionLedger
    function vote(PoolId pool, uint32 step, bytes calldata outcomes, bytes32 verdictRoot, bytes32 evidenceRoot)
        external
        override
    {
        StepState storage state = _inPhase(pool, step, Phase.Audited);
        uint256 deadline = uint256(state.auditedAt) + registry.termsOf(pool).voteSeconds;
        if (block.timestamp > deadline) revert DeadlinePassed(deadline, block.timestamp);
        address provider = stakes.providerOf(msg.sender);
        Panel storage panel = _panels[pool][step];
        if (!_isMember(panel.members, provider)) revert NotPanelMember(pool, step, msg.sender, provider);
        Ballot storage ballot = _ballots[pool][step][provider];
        if (ballot.cast) revert AlreadyVoted(pool, step, provider);

        ballot.cast = true;
        ballot.verdictRoot = verdictRoot;
        ballot.evidenceRoot = evidenceRoot;
        ballot.words = Outcomes.toWords(outcomes, state.leafCount);
        if (++panel.votes == panel.members.length) state.votedAt = uint64(block.timestamp);
        emit Voted(pool, step, provider, msg.sender, outcomes, verdictRoot, evidenceRoot);
    }

    /// @inheritdoc ISubmissionLedger
    function finalize(PoolId pool, uint32 step) external override nonReentrant {
        StepState storage state = _inPhase(pool, step, Phase.Audited);
        PoolTerms memory terms = registry.termsOf(pool);
        uint256 decidedAt = state.votedAt != 0 ? state.votedAt : uint256(state.auditedAt) + terms.voteSeconds;
        if (block.timestamp < decidedAt + terms.challengeSeconds) {
            revert TooEarly(decidedAt + terms.challengeSeconds, block.timestamp);
        }
        Outcomes.Result memory result = _count(pool, step, state.leafCount, terms.quorum);

        state.phase = Phase.Finalized;
        _markSettled(pool, step, state);
        _outcomes[pool][step] = result.words;
        emit StepFinalized(
            pool,
            step,
            result.accepted,
            result.rejected,
            result.faulted,
            state.leafCount - result.accepted - result.rejected - result.faulted
        );
        uint256 cap = Pricing.slotCap(terms);
        uint256 unvoted = terms.panelSize - _panels[pool][step].votes;
        vault.settle(
            pool,
            step,
            (state.leafCount - result.accepted) * cap,
            (state.slots - state.leafCount) * cap + unvoted * terms.panelFee
        );
    }

    /// @inheritdoc ISubmissionLedger
    function cancelStep(PoolId pool, uint32 step) external override nonReentrant {
        StepState storage state = _inPhase(pool, step, Phase.Seeded);
        uint256 deadline = _commitDeadline(state, registry.termsOf(pool));
        if (block.timestamp <= deadline) revert TooEarly(deadline + 1, block.timestamp);

        state.phase = Phase.Cancelled;
        _markSettled(pool, step, state);
        emit StepCancelled(pool, step);
        vault.settle(pool, step, 0, vault.reservationOf(pool, step));
    }

    /// @inheritdoc ISubmissionLedger
    function slashLeaf(PoolId pool, uint32 step, LeafOpening calldata opening) external override nonReentrant {
        StepState storage state = _inPhase(pool, step, Phase.Finalized);
        Submission calldata leaf = opening.leaf;
        if (leaf.pool != pool || leaf.step != step) revert LeafOfOtherStep(pool, step, leaf.pool, leaf.step);
        bytes32 hashOfLeaf = leaf.hash();
        if (!MerkleIndex.verify(state.submissionRoot, hashOfLeaf, opening.index, state.leafCount, opening.proof)) {
            revert LeafNotCommitted(hashOfLeaf, opening.index);
        }
        Outcome outcome = Outcomes.inWord(_outcomes[pool][step][opening.index / 128], opening.index);
        if (outcome != Outcome.Fault) revert LeafNotFaulted(opening.index, outcome);
        uint256 amount = stakes.slash(
            pool, Role.Worker, leaf.provider, registry.termsOf(pool).faultSlashBps, _offence(hashOfLeaf)
        );
        emit LeafSlashed(pool, step, opening.index, leaf.provider, hashOfLeaf, amount);
    }

    /// @inheritdoc ISubmissionLedger
    function stepOf(PoolId pool, uint32 step) external view override returns (StepState memory) {
        return _steps[pool][step];
    }

    /// @inheritdoc ISubmissionLedger
    function panelOf(PoolId pool, uint32 step) external view override returns (address[] memory) {
        return _panels[pool][step].members;
    }

    /// @inheritdoc ISubmissionLedger
    function voteOf(PoolId pool, uint32 step, address provider)
        external
        view
        override
        returns (bytes memory outcomes, bytes32 verdictRoot, bytes32 evidenceRoot)
    {
        Ballot storage ballot = _ballots[pool][step][provider];
        if (!ballot.cast) return (outcomes, bytes32(0), bytes32(0));
        outcomes = Outcomes.toBytes(ballot.words, _steps[pool][step].leafCount);
        return (outcomes, ballot.verdictRoot, ballot.evidenceRoot);
    }

    /// @inheritdoc ISubmissionLedger
    function hasVoted(PoolId pool, uint32 step, address provider) external view override returns (bool) {
        return _ballots[pool][step][provider].cast;
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
    function outcomeOf(PoolId pool, uint32 step, uint32 index) external view override returns (Outcome) {
        StepState storage state = _inPhase(pool, step, Phase.Finalized);
        if (index >= state.leafCount) revert IndexOutOfRange(index, state.leafCount);
        return Outcomes.inWord(_outcomes[pool][step][index / 128], index);
    }

    /// @inheritdoc ISubmissionLedger
    function outcomesOf(PoolId pool, uint32 step) external view override returns (uint256[] memory) {
        return _outcomes[pool][step];
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
    function isSlashed(bytes32 hashOfLeaf) external view override returns (bool) {
        return stakes.isSlashed(_offence(hashOfLeaf));
    }

    /// @dev Settling in order lets an exit wait for one number instead of a list of steps.
    function _markSettled(PoolId pool, uint32 step, StepState storage state) private {
        Progress storage progress = _progress[pool];
        if (step != progress.settledCount) revert EarlierStepUnsettled(pool, step, progress.settledCount);
        ++progress.settledCount;
        state.finalizedAt = uint64(block.timestamp);
    }

    function _checkTrainer(PoolId pool, address trainer) private view {
        if (msg.sender != trainer) revert NotTrainer(pool, msg.sender, trainer);
        if (!registry.isOpen(pool)) revert PoolIsClosed(pool);
    }

    function _checkEligible(PoolId pool, PoolTerms memory terms) private view {
        (,, uint256 eligible) = _candidates(pool, terms, block.number - 1);
        if (eligible < terms.panelSize) revert ValidatorsTooFew(pool, eligible, terms.panelSize);
    }

    function _candidates(PoolId pool, PoolTerms memory terms, uint256 blockNumber)
        private
        view
        returns (address[] memory candidates, uint256[] memory weights, uint256 eligible)
    {
        (candidates, weights) = stakes.validatorStakesAt(pool, blockNumber);
        for (uint256 i = 0; i < weights.length; ++i) {
            if (weights[i] < terms.minValidatorStake) weights[i] = 0;
            else ++eligible;
        }
    }

    function _count(PoolId pool, uint32 step, uint32 leafCount, uint32 quorum)
        private
        view
        returns (Outcomes.Result memory)
    {
        Panel storage panel = _panels[pool][step];
        uint256[][] memory votes = new uint256[][](panel.votes);
        uint256 filled = 0;
        for (uint256 i = 0; i < panel.members.length; ++i) {
            Ballot storage ballot = _ballots[pool][step][panel.members[i]];
            if (ballot.cast) votes[filled++] = ballot.words;
        }
        return Outcomes.tally(votes, (leafCount + 127) / 128, quorum);
    }

    function _inPhase(PoolId pool, uint32 step, Phase expected) private view returns (StepState storage state) {
        state = _steps[pool][step];
        if (state.phase != expected) revert WrongPhase(pool, step, state.phase, expected);
    }

    /// @dev Zero when the chain has forgotten the hash (256 blocks on).
    function _beaconHash(uint64 beaconBlock) private view returns (bytes32) {
        if (block.number <= beaconBlock) revert BeaconNotReady(beaconBlock, block.number);
        return blockhash(beaconBlock);
    }

    function _commitDeadline(StepState storage state, PoolTerms memory terms) private view returns (uint256) {
        return uint256(state.seededAt) + terms.collectSeconds + terms.leaseSeconds;
    }

    function _isMember(address[] storage members, address provider) private view returns (bool) {
        uint256 size = members.length;
        for (uint256 i = 0; i < size; ++i) {
            if (members[i] == provider) return true;
        }
        return false;
    }

    function _offence(bytes32 hashOfLeaf) private pure returns (bytes32) {
        return keccak256(abi.encode(hashOfLeaf));
    }
}
