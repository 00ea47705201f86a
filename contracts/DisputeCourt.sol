// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";

import {IDisputeCourt} from "./interfaces/IDisputeCourt.sol";
import {IPayoutVault} from "./interfaces/IPayoutVault.sol";
import {IPlantedFaults} from "./interfaces/IPlantedFaults.sol";
import {IPoolRegistry} from "./interfaces/IPoolRegistry.sol";
import {IStakeManager} from "./interfaces/IStakeManager.sol";
import {ISubmissionLedger} from "./interfaces/ISubmissionLedger.sol";
import {IVotingPanel} from "./interfaces/IVotingPanel.sol";
import {Ballots} from "./libraries/Ballots.sol";
import {Pricing} from "./libraries/Pricing.sol";
import {Seeds} from "./libraries/Seeds.sol";
import {CaseKind, CasePhase, Outcome, Role, Ruling} from "./types/Enums.sol";
import {CaseId, PoolId} from "./types/Ids.sol";
import {Parts} from "./types/Parts.sol";
import {FaultTable, Fees, PanelRules, Rates, Windows} from "./types/PoolTerms.sol";
import {LeafOpening} from "./types/Submission.sol";

/// @title Disputes before a jury.
/// @dev A case about a leaf: opened → jury → ruling → resolved. A case about a run of leaves can be appealed once before
/// its ruling is carried out. A jury without quorum is replaced once by a larger one; without quorum again, nobody is
/// slashed and the worker is paid. All that can be slashed by a case is held in the stake manager while it is open. Only
/// taking a bond calls a token, and it is the last act of whatever does it.
contract DisputeCourt is IDisputeCourt {
    using Ballots for Ballots.Box;
    using Pricing for Rates;
    using SafeCast for uint256;

    bytes32 private constant RULING_TAG = keccak256("stannary.ruling.v1");
    bytes32 private constant FAULT_TAG = keccak256("stannary.offence.fault.v1");
    bytes32 private constant STATISTICS_TAG = keccak256("stannary.offence.statistics.v1");
    bytes32 private constant WRONG_VOTE_TAG = keccak256("stannary.offence.vote.v1");
    bytes32 private constant SILENT_JUROR_TAG = keccak256("stannary.offence.juror.v1");
    uint8 private constant APPEAL_ROUND = 2; // the first round of an appealed ruling

    IPoolRegistry public immutable registry;
    IStakeManager public immutable stakes;
    ISubmissionLedger public immutable ledger;
    IVotingPanel public immutable panel;
    IPayoutVault public immutable vault;
    IPlantedFaults public immutable plants;

    uint64 public override caseCount;
    mapping(PoolId pool => mapping(address provider => uint32)) public override judgedUpTo;
    mapping(PoolId pool => mapping(uint32 step => mapping(uint32 slot => CaseId))) public override caseOfSlot;
    mapping(CaseId caseId => Case) private _cases;
    mapping(CaseId caseId => mapping(uint8 round => Ballots.Box)) private _juries;
    mapping(PoolId pool => mapping(uint32 step => mapping(address worker => uint256))) private _wages; // paid by cases

    constructor(Parts memory parts) {
        parts.checkParts();
        registry = IPoolRegistry(parts.registry);
        stakes = IStakeManager(parts.stakes);
        ledger = ISubmissionLedger(parts.ledger);
        panel = IVotingPanel(parts.panel);
        vault = IPayoutVault(parts.vault);
        plants = IPlantedFaults(parts.plants);
    }

    // -- opening a case

    /// @inheritdoc IDisputeCourt
    function challenge(
        PoolId pool,
        uint32 step,
        LeafOpening calldata opening,
        bytes[] calldata votes,
        bytes32 evidenceHash,
        string calldata location
    ) external override returns (CaseId caseId) {
        caseId = _newLeafCase(CaseKind.Challenge, pool, step, opening, votes);
        _open(caseId, bondOf(pool), evidenceHash, location);
    }

    /// @inheritdoc IDisputeCourt
    function appeal(
        PoolId pool,
        uint32 step,
        LeafOpening calldata opening,
        bytes[] calldata votes,
        bytes32 evidenceHash,
        string calldata location
    ) external override returns (CaseId caseId) {
        caseId = _newLeafCase(CaseKind.Appeal, pool, step, opening, votes);
        _open(caseId, bondOf(pool), evidenceHash, location);
    }

    /// @inheritdoc IDisputeCourt
    function accuse(
        PoolId pool,
        address provider,
        uint32 firstStep,
        uint32 lastStep,
        bytes32 listHash,
        bytes32 evidenceHash,
        string calldata location
    ) external override returns (CaseId caseId) {
        _checkRun(pool, provider, firstStep, lastStep);
        caseId = _nextCase();
        Case storage c = _cases[caseId];
        c.kind = CaseKind.Statistics;
        c.pool = pool;
        c.step = lastStep;
        c.firstStep = firstStep;
        c.provider = provider;
        c.snapshotBlock = uint64(block.number) - 1;
        c.leafHash = listHash;
        _open(caseId, 2 * bondOf(pool), evidenceHash, location);
    }

    /// @inheritdoc IDisputeCourt
    function appealRuling(CaseId caseId) external override {
        Case storage c = _inPhase(caseId, CasePhase.Ruled);
        uint48 time = _clock(c.pool);
        if (time >= c.appealUntil) revert DeadlinePassed(c.appealUntil, time);
        uint256 bond = bondOf(c.pool);
        c.phase = CasePhase.Opened;
        c.round = APPEAL_ROUND;
        c.appellant = msg.sender;
        c.appealBond = bond.toUint128();
        _callJury(caseId, c);
        emit CaseAppealed(caseId, msg.sender, bond, c.juryBlock);
        vault.takeBond(c.pool, msg.sender, bond);
    }

    // -- the jury

    /// @inheritdoc IDisputeCourt
    function drawJury(CaseId caseId) external override {
        Case storage c = _inPhase(caseId, CasePhase.Opened);
        if (block.number <= c.juryBlock) revert BeaconNotReady(c.juryBlock, block.number);
        bytes32 blockHash = blockhash(c.juryBlock);
        if (blockHash == bytes32(0)) {
            _callJury(caseId, c);
            emit JuryRedrawn(caseId, c.juryBlock);
            return;
        }
        bytes32 beacon = Seeds.juryBeacon(address(this), caseId, c.round, blockHash);
        address[] memory members = stakes.drawValidators(c.pool, c.snapshotBlock, beacon, _jurySize(c), c.barred);

        c.phase = CasePhase.Voting;
        _juries[caseId][c.round].open(members, 1, _clock(c.pool));
        emit JuryDrawn(caseId, c.round, members, beacon);
        for (uint256 i = 0; i < members.length; ++i) stakes.hold(c.pool, Role.Validator, members[i]);
    }

    /// @inheritdoc IDisputeCourt
    function commitRuling(CaseId caseId, bytes32 commitment) external override {
        Case storage c = _inPhase(caseId, CasePhase.Voting);
        address provider = _providerOf(msg.sender);
        _juries[caseId][c.round].commit(
            provider, commitment, _clock(c.pool), _windows(c.pool).voteSeconds
        );
        emit JurorCommitted(caseId, provider, commitment);
    }

    /// @inheritdoc IDisputeCourt
    function revealRuling(CaseId caseId, address provider, Ruling ruling, bytes32 salt) external override {
        Case storage c = _inPhase(caseId, CasePhase.Voting);
        Windows memory windows = _windows(c.pool);
        _juries[caseId][c.round].reveal(
            provider,
            jurorCommitment(caseId, provider, ruling, salt),
            bytes32(uint256(ruling)),
            _clock(c.pool),
            windows.voteSeconds,
            windows.revealSeconds
        );
        emit JurorRevealed(caseId, provider, ruling);
    }

    /// @inheritdoc IDisputeCourt
    function resolve(CaseId caseId) external override {
        Case storage c = _cases[caseId];
        if (c.phase == CasePhase.Ruled) return _carryOutConviction(caseId, c);
        _inPhase(caseId, CasePhase.Voting);
        Ballots.Box storage jury = _juries[caseId][c.round];
        Windows memory windows = _windows(c.pool);
        uint48 time = _clock(c.pool);
        uint64 until = jury.closesAt(windows.voteSeconds, windows.revealSeconds);
        if (time < until) revert JuryNotDone(caseId, until, time);

        Ruling ruling = _count(c, jury);
        _fineSilentJurors(caseId, c, jury);
        if (ruling == Ruling.None && c.round % 2 == 0) {
            ++c.round;
            c.phase = CasePhase.Opened;
            _callJury(caseId, c);
            emit JuryRedrawn(caseId, c.juryBlock);
            return;
        }
        c.ruling = ruling;
        if (c.kind != CaseKind.Statistics) return _settleLeafCase(caseId, c);
        if (ruling != Ruling.Fault) return _acquit(caseId, c);
        if (c.round >= APPEAL_ROUND) return _convict(caseId, c);
        c.phase = CasePhase.Ruled;
        c.appealUntil = time + windows.challengeSeconds;
        emit CaseRuled(caseId, ruling, c.appealUntil);
    }

    // -- views

    /// @inheritdoc IDisputeCourt
    function caseOf(CaseId caseId) external view override returns (Case memory) {
        return _cases[caseId];
    }

    /// @inheritdoc IDisputeCourt
    function juryOf(CaseId caseId) external view override returns (address[] memory) {
        return _juries[caseId][_cases[caseId].round].members();
    }

    /// @inheritdoc IDisputeCourt
    function juryTimesOf(CaseId caseId)
        external
        view
        override
        returns (uint64 commitUntil, uint64 revealFrom, uint64 revealUntil)
    {
        Case storage c = _cases[caseId];
        Ballots.Box storage jury = _juries[caseId][c.round];
        if (jury.openedAt == 0) return (0, 0, 0);
        Windows memory windows = _windows(c.pool);
        return (
            jury.commitUntil(windows.voteSeconds),
            jury.revealFrom(windows.voteSeconds),
            jury.closesAt(windows.voteSeconds, windows.revealSeconds)
        );
    }

    /// @inheritdoc IDisputeCourt
    function rulingOf(CaseId caseId, address provider)
        external
        view
        override
        returns (bool isCommitted, bool isRevealed, Ruling ruling)
    {
        bytes32 word;
        (isCommitted, isRevealed, word) = _juries[caseId][_cases[caseId].round].ballotOf(provider);
        if (isRevealed) ruling = Ruling(uint256(word));
    }

    /// @inheritdoc IDisputeCourt
    function bondOf(PoolId pool) public view override returns (uint256) {
        return 2 * _juryCost(pool);
    }

    /// @inheritdoc IDisputeCourt
    function jurorCommitment(CaseId caseId, address provider, Ruling ruling, bytes32 salt)
        public
        view
        override
        returns (bytes32)
    {
        return keccak256(
            abi.encode(
                RULING_TAG, block.chainid, address(this), caseId, _cases[caseId].round, provider, ruling, salt
            )
        );
    }

    // -- inside: opening

    /// @dev Holds all that the case can slash, so that no exit beats it.
    function _newLeafCase(
        CaseKind kind,
        PoolId pool,
        uint32 step,
        LeafOpening calldata opening,
        bytes[] calldata votes
    ) private returns (CaseId caseId) {
        (Outcome outcome, uint32 ballots, uint64 snapshotBlock) = panel.holdSlot(pool, step, opening, votes);
        if ((kind == CaseKind.Challenge) != (outcome == Outcome.Accept)) revert WrongOutcome(kind, outcome);
        caseId = _nextCase();
        Case storage c = _cases[caseId];
        c.kind = kind;
        c.pool = pool;
        c.step = step;
        c.slot = opening.leaf.slot;
        c.provider = opening.leaf.provider;
        c.snapshotBlock = snapshotBlock;
        c.units = opening.leaf.units;
        c.ballots = ballots;
        c.outcome = outcome;
        c.leafHash = ledger.leafHash(opening.leaf);
        caseOfSlot[pool][step][c.slot] = caseId;
        address[] memory members = _panelOf(pool, step);
        for (uint256 i = 0; i < members.length; ++i) stakes.hold(pool, Role.Validator, members[i]);
    }

    function _checkRun(PoolId pool, address provider, uint32 firstStep, uint32 lastStep) private view {
        uint32 settled = ledger.settledCountOf(pool);
        uint32 judged = judgedUpTo[pool][provider];
        if (firstStep < judged || firstStep > lastStep || lastStep >= settled) {
            revert RunOutOfRange(firstStep, lastStep, judged, settled);
        }
        uint64 until = ledger.finalizedAtOf(pool, lastStep) + _windows(pool).challengeSeconds;
        uint48 time = _clock(pool);
        if (time >= until) revert DeadlinePassed(until, time);
        (uint256 tokens,,) = stakes.positionOf(pool, Role.Worker, provider);
        if (tokens == 0) revert NotAccountable(pool, provider);
    }

    function _open(CaseId caseId, uint256 bond, bytes32 evidenceHash, string calldata location) private {
        Case storage c = _cases[caseId];
        c.phase = CasePhase.Opened;
        c.disputant = msg.sender;
        _callJury(caseId, c);
        c.bond = bond.toUint128();
        c.evidenceHash = evidenceHash;
        emit CaseOpened(caseId, c.pool, c.provider, c, location);
        stakes.hold(c.pool, Role.Worker, c.provider);
        vault.takeBond(c.pool, msg.sender, bond);
    }

    function _nextCase() private returns (CaseId) {
        return CaseId.wrap(++caseCount);
    }

    /// @dev Who is barred is settled before the beacon can be known: payees and nodes may change later.
    function _callJury(CaseId caseId, Case storage c) private {
        c.juryBlock = uint64(block.number) + _windows(c.pool).beaconDelayBlocks;
        c.barred = stakes.barredOf(c.pool, c.snapshotBlock, _barred(caseId, c), _parties(c));
    }

    function _inPhase(CaseId caseId, CasePhase expected) private view returns (Case storage c) {
        c = _cases[caseId];
        if (c.phase != expected) revert WrongCasePhase(caseId, c.phase, expected);
    }

    // -- inside: the jury

    /// @dev A redrawn jury is larger.
    function _jurySize(Case storage c) private view returns (uint256) {
        uint256 size = _panelRules(c.pool).jurySize;
        return c.round % 2 == 0 ? size : size + 2;
    }

    /// @dev No juror sat on the panel or an earlier jury.
    function _barred(CaseId caseId, Case storage c) private view returns (address[][] memory lists) {
        lists = new address[][](c.round + 2);
        for (uint8 round = 0; round < c.round; ++round) lists[round] = _juries[caseId][round].members();
        if (c.kind == CaseKind.Statistics) return lists;
        lists[c.round] = _panelOf(c.pool, c.step);
        lists[c.round + 1] = panel.dismissedOf(c.pool, c.step);
    }

    /// @dev No juror is a party or shares a payee with one.
    function _parties(Case storage c) private view returns (address[] memory parties) {
        parties = new address[](3);
        parties[0] = c.provider;
        parties[1] = _accountOf(c.disputant);
        parties[2] = _accountOf(c.appellant);
    }

    function _accountOf(address account) private view returns (address) {
        address provider = _providerOf(account);
        return provider == address(0) ? account : provider;
    }

    /// @dev What more than half of the seats say, of a whole jury at least. Grey votes settle for the worker where accepts
    /// alone do not reach that; a fault is a rejection where faults alone do not.
    function _count(Case storage c, Ballots.Box storage jury) private view returns (Ruling) {
        uint256[6] memory counts;
        for (uint256 seat = 0; seat < jury.seats; ++seat) {
            if (jury.hasRevealed(seat)) ++counts[uint256(jury.words[jury.memberAt[seat]])];
        }
        uint256 whole = _panelRules(c.pool).jurySize;
        uint256 quorum = Math.max(whole, jury.seats) / 2 + 1;
        uint256 accepts = counts[uint256(Ruling.Accept)];
        uint256 faults = counts[uint256(Ruling.Fault)];
        if (accepts >= quorum) return Ruling.Accept;
        if (accepts + counts[uint256(Ruling.Grey)] >= quorum) return Ruling.Grey;
        if (faults >= quorum) return Ruling.Fault;
        if (faults + counts[uint256(Ruling.Reject)] >= quorum) return Ruling.Reject;
        if (counts[uint256(Ruling.Unavailable)] >= quorum) return Ruling.Unavailable;
        return Ruling.None;
    }

    function _fineSilentJurors(CaseId caseId, Case storage c, Ballots.Box storage jury) private {
        address[] memory silent = jury.silent();
        uint256 bps = _faults(c.pool).silenceSlashBps;
        for (uint256 i = 0; i < silent.length; ++i) {
            bytes32 offence = keccak256(abi.encode(SILENT_JUROR_TAG, address(this), caseId, silent[i]));
            _slash(c.pool, Role.Validator, silent[i], bps, offence, address(0), 0);
        }
    }

    /// @dev Pays all jurors of some rounds that revealed: from the bond, or from the step's reservation.
    function _payJurors(CaseId caseId, Case storage c, uint8 fromRound, uint8 toRound, bool isFromBond)
        private
        returns (uint256 total)
    {
        uint256 fee = _fees(c.pool).jurorFee;
        for (uint8 round = fromRound; round <= toRound; ++round) {
            Ballots.Box storage jury = _juries[caseId][round];
            for (uint256 seat = 0; seat < jury.seats; ++seat) {
                if (!jury.hasRevealed(seat)) continue;
                total += fee;
                if (isFromBond) _spendBond(c.pool, jury.memberAt[seat], fee);
                else vault.pay(c.pool, c.step, jury.memberAt[seat], fee);
            }
        }
    }

    // -- inside: a leaf

    /// @dev What holds of the leaf, whether the disputant loses its bond, and whether the ruling is so clear that whoever
    /// voted the contrary answers for it.
    function _verdict(Case storage c) private view returns (Outcome outcome, bool isBondLost, bool isClear) {
        Ruling ruling = c.ruling;
        outcome = c.outcome;
        if (ruling == Ruling.Unavailable) return (outcome, true, false);
        if (ruling == Ruling.Accept) return (Outcome.Accept, outcome == Outcome.Accept, true);
        if (ruling == Ruling.Reject || ruling == Ruling.Fault) {
            Outcome found = ruling == Ruling.Fault ? Outcome.Fault : Outcome.Reject;
            if (outcome == Outcome.Accept) return (found, false, true);
            // An appeal cannot make things worse for the worker, and may make a fault a rejection.
            if (outcome == Outcome.Fault && found == Outcome.Reject) return (found, false, false);
            return (outcome, true, true);
        }
        return (Outcome.Accept, false, false); // grey, or undecided by two juries
    }

    function _settleLeafCase(CaseId caseId, Case storage c) private {
        (Outcome outcome, bool isBondLost, bool isClear) = _verdict(c);
        c.outcome = outcome;
        c.phase = CasePhase.Resolved;
        uint256 fees = _payJurors(caseId, c, 0, c.round, isBondLost);
        uint256 paid = _settleSlot(c, isBondLost ? 0 : fees);
        if (!isBondLost) {
            _spendBond(c.pool, c.disputant, c.bond);
        } else if (c.kind == CaseKind.Challenge) {
            _spendBond(c.pool, c.provider, c.bond - fees); // for the wait
        } else {
            _lockBond(c.pool, c.bond - fees);
        }
        uint256 slashed = 0;
        if (outcome == Outcome.Fault && !plants.isPlant(c.leafHash)) slashed = _slashFault(c, isBondLost);
        if (isClear) slashed += _slashWrongVotes(caseId, c, isBondLost ? address(0) : c.disputant);
        emit CaseResolved(caseId, c.ruling, outcome, isBondLost, paid, slashed);
        panel.unholdSlot(c.pool, c.step);
        address[] memory members = _panelOf(c.pool, c.step);
        for (uint256 i = 0; i < members.length; ++i) stakes.unhold(c.pool, Role.Validator, members[i]);
        _unhold(caseId, c);
    }

    /// @dev Uses up what was reserved for the slot and its juries.
    function _settleSlot(Case storage c, uint256 feesFromReservation) private returns (uint256 paid) {
        Rates memory rates = ledger.ratesOf(c.pool, c.step);
        uint256 locked = rates.slotCap;
        if (c.outcome == Outcome.Accept) {
            uint256 price = rates.payout(c.units);
            uint256 cap = rates.payCap(stakes.activeStakeAt(c.pool, Role.Worker, c.provider, c.snapshotBlock));
            mapping(address worker => uint256) storage wages = _wages[c.pool][c.step];
            paid = Math.min(price, cap - wages[c.provider]);
            wages[c.provider] += paid;
            locked = price - paid;
            vault.pay(c.pool, c.step, c.provider, paid);
        }
        uint256 rest = rates.slotCap + _juryCost(c.pool) - paid - locked - feesFromReservation;
        vault.release(c.pool, c.step, locked, rest);
    }

    function _slashFault(Case storage c, bool isBondLost) private returns (uint256) {
        FaultTable memory faults = _faults(c.pool);
        bool isWonChallenge = c.kind == CaseKind.Challenge && !isBondLost;
        return _slash(
            c.pool,
            Role.Worker,
            c.provider,
            faults.faultSlashBps,
            keccak256(abi.encode(FAULT_TAG, c.leafHash)),
            isWonChallenge ? c.disputant : address(0),
            faults.rewardBps
        );
    }

    function _slashWrongVotes(CaseId caseId, Case storage c, address beneficiary) private returns (uint256) {
        return _slashVoters(
            c.pool,
            _panelOf(c.pool, c.step),
            _contrary(c.ballots, c.ruling == Ruling.Accept),
            _faults(c.pool).wrongVoteSlashBps,
            keccak256(abi.encode(WRONG_VOTE_TAG, address(this), caseId)),
            beneficiary
        );
    }

    /// @dev A bit for each seat that voted the contrary of what a leaf is.
    function _contrary(uint32 ballots, bool isGood) private pure returns (uint256 seats) {
        for (uint256 seat = 0; ballots != 0; ++seat) {
            Outcome vote = Outcome(ballots & 3);
            if (vote != Outcome.Abstain && (vote == Outcome.Accept) != isGood) seats |= 1 << seat;
            ballots >>= 2;
        }
    }

    function _slashVoters(
        PoolId pool,
        address[] memory members,
        uint256 seats,
        uint256 bps,
        bytes32 subject,
        address beneficiary
    ) private returns (uint256 slashed) {
        uint256 rewardBps = _faults(pool).rewardBps;
        for (uint256 seat = 0; seat < members.length; ++seat) {
            if ((seats >> seat) & 1 == 0) continue;
            bytes32 offence = keccak256(abi.encode(subject, members[seat]));
            slashed += _slash(pool, Role.Validator, members[seat], bps, offence, beneficiary, rewardBps);
        }
    }

    // -- inside: a run of leaves

    /// @dev The accuser pays the juries; without a ruling it gets the rest back, else the accused does.
    function _acquit(CaseId caseId, Case storage c) private {
        c.phase = CasePhase.Resolved;
        bool isUnproven = c.ruling == Ruling.None || c.ruling == Ruling.Grey;
        uint256 rest = c.bond - _payJurors(caseId, c, 0, c.round, true);
        _spendBond(c.pool, isUnproven ? c.disputant : c.provider, rest);
        if (c.appellant != address(0)) _spendBond(c.pool, c.appellant, c.appealBond);
        emit CaseResolved(caseId, c.ruling, Outcome.Accept, !isUnproven, 0, 0);
        _unhold(caseId, c);
    }

    /// @dev After the time for an appeal.
    function _carryOutConviction(CaseId caseId, Case storage c) private {
        uint48 time = _clock(c.pool);
        if (time < c.appealUntil) revert TooEarly(c.appealUntil, time);
        _convict(caseId, c);
    }

    /// @dev Each jury is paid by who asked for it; the accuser's own part comes back in the reward.
    function _convict(CaseId caseId, Case storage c) private {
        c.phase = CasePhase.Resolved;
        c.outcome = Outcome.Fault;
        bool isAppealed = c.appellant != address(0);
        uint256 rest = c.bond - _payJurors(caseId, c, 0, isAppealed ? APPEAL_ROUND - 1 : c.round, true);
        _spendBond(c.pool, c.disputant, rest);
        if (isAppealed) {
            _lockBond(c.pool, c.appealBond - _payJurors(caseId, c, APPEAL_ROUND, c.round, true));
        }
        uint256 slashed = 0;
        // Another case may have judged a part of this run meanwhile: no leaf counts twice.
        if (c.firstStep >= judgedUpTo[c.pool][c.provider]) {
            judgedUpTo[c.pool][c.provider] = c.step + 1;
            FaultTable memory faults = _faults(c.pool);
            slashed = _slash(
                c.pool,
                Role.Worker,
                c.provider,
                faults.statisticsSlashBps,
                keccak256(abi.encode(STATISTICS_TAG, address(this), caseId)),
                c.disputant,
                faults.rewardBps
            );
        }
        emit CaseResolved(caseId, c.ruling, Outcome.Fault, false, 0, slashed);
        _unhold(caseId, c);
    }

    function _unhold(CaseId caseId, Case storage c) private {
        stakes.unhold(c.pool, Role.Worker, c.provider);
        for (uint8 round = 0; round <= c.round; ++round) {
            address[] memory members = _juries[caseId][round].members();
            for (uint256 i = 0; i < members.length; ++i) stakes.unhold(c.pool, Role.Validator, members[i]);
        }
    }

    function _juryCost(PoolId pool) private view returns (uint256) {
        return Pricing.juryCost(_fees(pool), _panelRules(pool));
    }

    // -- inside: the other contracts, each call in one place

    function _windows(PoolId pool) private view returns (Windows memory) {
        return registry.windowsOf(pool);
    }

    function _clock(PoolId pool) private view returns (uint48) {
        return uint48(registry.clockOf(pool));
    }

    function _panelRules(PoolId pool) private view returns (PanelRules memory) {
        return registry.panelRulesOf(pool);
    }

    function _fees(PoolId pool) private view returns (Fees memory) {
        return registry.feesOf(pool);
    }

    function _faults(PoolId pool) private view returns (FaultTable memory) {
        return registry.faultTableOf(pool);
    }

    function _providerOf(address account) private view returns (address) {
        return stakes.providerOf(account);
    }

    function _panelOf(PoolId pool, uint32 step) private view returns (address[] memory) {
        return panel.panelOf(pool, step);
    }

    function _spendBond(PoolId pool, address to, uint256 amount) private {
        vault.spendBond(pool, to, amount);
    }

    function _lockBond(PoolId pool, uint256 amount) private {
        vault.lockBond(pool, amount);
    }

    function _slash(
        PoolId pool,
        Role role,
        address provider,
        uint256 bps,
        bytes32 offence,
        address beneficiary,
        uint256 rewardBps
    ) private returns (uint256) {
        return stakes.slash(pool, role, provider, bps, offence, beneficiary, rewardBps);
    }
}
