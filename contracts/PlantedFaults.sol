// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";

import {IDisputeCourt} from "./interfaces/IDisputeCourt.sol";
import {IPayoutVault} from "./interfaces/IPayoutVault.sol";
import {IPlantedFaults} from "./interfaces/IPlantedFaults.sol";
import {IPoolRegistry} from "./interfaces/IPoolRegistry.sol";
import {IStakeManager} from "./interfaces/IStakeManager.sol";
import {ISubmissionLedger} from "./interfaces/ISubmissionLedger.sol";
import {IVotingPanel} from "./interfaces/IVotingPanel.sol";
import {CasePhase, Outcome, Phase, Role, Ruling} from "./types/Enums.sol";
import {CaseId, PoolId} from "./types/Ids.sol";
import {Parts} from "./types/Parts.sol";
import {FaultTable} from "./types/PoolTerms.sol";
import {LeafOpening} from "./types/Submission.sol";

/// @title Planted faults: leaves that are bad on purpose, to see who accepts without looking.
contract PlantedFaults is IPlantedFaults, ReentrancyGuardTransient {
    using SafeCast for uint256;

    struct Plant {
        PoolId pool;
        uint32 step;
        address planter;
        uint32 slot;
        bool isRevealed;
        bool isSettled;
        uint128 bond;
    }

    bytes32 private constant PLANT_TAG = keccak256("stannary.plant.v1");
    bytes32 private constant LAZY_VOTE_TAG = keccak256("stannary.offence.plant.v1");

    IPoolRegistry public immutable registry;
    IStakeManager public immutable stakes;
    ISubmissionLedger public immutable ledger;
    IVotingPanel public immutable panel;
    IPayoutVault public immutable vault;
    IDisputeCourt public immutable court;

    mapping(bytes32 leafHash => bool) public override isPlant;
    mapping(bytes32 commitment => Plant) private _plants;

    constructor(Parts memory parts) {
        parts.checkParts();
        registry = IPoolRegistry(parts.registry);
        stakes = IStakeManager(parts.stakes);
        ledger = ISubmissionLedger(parts.ledger);
        panel = IVotingPanel(parts.panel);
        vault = IPayoutVault(parts.vault);
        court = IDisputeCourt(parts.court);
    }

    /// @inheritdoc IPlantedFaults
    function plant(PoolId pool, uint32 step, bytes32 commitment) external override nonReentrant {
        Phase phase = ledger.briefOf(pool, step).phase;
        if (phase != Phase.Open && phase != Phase.Seeded) revert WrongStepPhase(pool, step, phase);
        address planter = stakes.providerOf(msg.sender);
        if (planter == address(0)) revert NotProvider(msg.sender);
        if (_plants[commitment].planter != address(0)) revert PlantKnown(commitment);
        uint256 bond = ledger.ratesOf(pool, step).slotCap;
        Plant storage planted = _plants[commitment];
        planted.pool = pool;
        planted.step = step;
        planted.planter = planter;
        planted.bond = bond.toUint128();
        emit Planted(commitment, pool, step, planter, bond);
        if (bond != 0) vault.takeBond(pool, msg.sender, bond);
    }

    /// @inheritdoc IPlantedFaults
    function revealPlant(PoolId pool, uint32 step, LeafOpening calldata opening, bytes32 salt) external override {
        bytes32 leafHash = ledger.checkLeaf(pool, step, opening);
        bytes32 commitment = plantCommitment(opening.leaf.provider, leafHash, salt);
        Plant storage planted = _plants[commitment];
        if (
            planted.planter != opening.leaf.provider || planted.isSettled || planted.pool != pool
                || planted.step != step
        ) revert UnknownPlant(commitment);
        // What a leaf claims beyond its cap may be paid from the room of the planter's others: no bond covers it.
        if (opening.leaf.units > ledger.ratesOf(pool, step).unitCap) revert UnknownPlant(commitment);
        // Whatever commitments name a leaf, who accepted it is fined once.
        if (isPlant[leafHash]) revert PlantRevealedBefore(commitment);
        (,, uint64 votesUntil,) = panel.panelTimesOf(pool, step);
        uint64 time = registry.clockOf(pool);
        if (votesUntil == 0 || time < votesUntil) revert TooEarly(votesUntil, time);
        planted.isRevealed = true;
        planted.slot = opening.leaf.slot;
        isPlant[leafHash] = true;
        emit PlantRevealed(commitment, pool, step, opening.leaf.slot, leafHash);
    }

    /// @inheritdoc IPlantedFaults
    function settlePlant(bytes32 commitment, bytes[] calldata votes, bytes calldata outcomes)
        external
        override
    {
        Plant storage planted = _plants[commitment];
        if (planted.planter == address(0) || planted.isSettled) revert UnknownPlant(commitment);
        (PoolId pool, uint32 step) = (planted.pool, planted.step);
        Phase phase = ledger.briefOf(pool, step).phase;
        if (phase != Phase.Finalized && phase != Phase.Cancelled) revert WrongStepPhase(pool, step, phase);
        planted.isSettled = true;
        (Outcome outcome, bool isFined) = _finalOutcome(planted, outcomes);
        bool isFault = outcome == Outcome.Fault;
        uint256 fined = isFault && !isFined ? _fineLazy(commitment, planted, votes) : 0;
        emit PlantSettled(commitment, isFault, fined);
        if (isFault || phase == Phase.Cancelled) vault.spendBond(pool, planted.planter, planted.bond);
        else vault.lockBond(pool, planted.bond);
    }

    /// @inheritdoc IPlantedFaults
    function plantCommitment(address planter, bytes32 leafHash, bytes32 salt) public view override returns (bytes32) {
        return keccak256(abi.encode(PLANT_TAG, block.chainid, address(this), planter, leafHash, salt));
    }

    /// @dev What holds of a revealed plant, and whether a jury has fined who accepted it. A jury that was not served
    /// the bytes lets a fault stand and fines nobody.
    function _finalOutcome(Plant storage planted, bytes calldata outcomes)
        private
        view
        returns (Outcome outcome, bool isFined)
    {
        if (!planted.isRevealed) return (Outcome.Abstain, false);
        (PoolId pool, uint32 step, uint32 slot) = (planted.pool, planted.step, planted.slot);
        if (!panel.isHeld(pool, step, slot)) return (panel.outcomeAt(pool, step, slot, outcomes), false);
        CaseId caseId = court.caseOfSlot(pool, step, slot);
        IDisputeCourt.Case memory c = court.caseOf(caseId);
        if (c.phase != CasePhase.Resolved) revert CaseUnresolved(caseId);
        return (c.outcome, c.ruling != Ruling.Unavailable);
    }

    /// @dev Slashes each seat that accepted the leaf.
    function _fineLazy(bytes32 commitment, Plant storage planted, bytes[] calldata votes)
        private
        returns (uint256 fined)
    {
        uint32 ballots = panel.ballotsAt(planted.pool, planted.step, planted.slot, votes);
        address[] memory members = panel.panelOf(planted.pool, planted.step);
        for (uint256 seat = 0; seat < members.length; ++seat) {
            if (Outcome((ballots >> (2 * seat)) & 3) == Outcome.Accept) fined += _fine(commitment, planted, members[seat]);
        }
    }

    function _fine(bytes32 commitment, Plant storage planted, address member) private returns (uint256) {
        FaultTable memory faults = registry.faultTableOf(planted.pool);
        bytes32 offence = keccak256(abi.encode(LAZY_VOTE_TAG, address(this), commitment, member));
        return stakes.slash(
            planted.pool, Role.Validator, member, faults.plantSlashBps, offence, planted.planter, faults.rewardBps
        );
    }
}
