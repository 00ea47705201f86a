// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IPoolRegistry} from "./interfaces/IPoolRegistry.sol";
import {IStakeManager} from "./interfaces/IStakeManager.sol";
import {Outcomes} from "./libraries/Outcomes.sol";
import {Pricing} from "./libraries/Pricing.sol";
import {Role} from "./types/Enums.sol";
import {PoolId} from "./types/Ids.sol";
import {Parts} from "./types/Parts.sol";
import {
    FaultTable,
    Fees,
    Offer,
    Opening,
    PanelRules,
    Parties,
    PoolTerms,
    Rates,
    Windows,
    WorkRules
} from "./types/PoolTerms.sol";

/// @title Pools: their frozen terms, their offers, their clocks.
/// @dev What time alone changes is changed lazily: an offer comes into force, and a pause ends, without a transaction.
contract PoolRegistry is IPoolRegistry {
    /// @dev Times in seconds of the chain.
    struct Clock {
        uint64 stood; // in all pauses but the last one that `pausedAt` names
        uint64 pausedAt; // when the last pause began; 0 once it is settled
        uint64 endedAt; // when the last settled pause ended
        uint64 spent; // of the budget, by settled pauses
    }

    struct Pool {
        address owner;
        bool isClosed;
        uint32 offerNumber; // of the last offer that is final
        uint48 effectiveAt; // of the offer after it, on the pool's clock; 0 if none was announced
        address offeredOwner;
        bytes32 termsHash;
        Clock clock;
        PoolTerms terms;
        mapping(uint32 number => Offer) offers; // from number 1
        mapping(bytes32 cardHash => mapping(address provider => bool)) isAttestedBy;
    }

    /// @notice Highest number of slots of a step that the coordinator leases.
    uint32 public constant MAX_SLOTS = 4096;

    /// @notice Highest number of slots of a step that workers take on chain.
    uint32 public constant MAX_RESERVED_SLOTS = 16;

    /// @notice Temperatures for which sampling is defined: below, the division blows rounding up.
    uint32 public constant MIN_TEMPERATURE_MILLI = 300;
    uint32 public constant MAX_TEMPERATURE_MILLI = 1500;

    /// @notice Highest number of steps that are opened and not settled.
    uint32 public constant MAX_OPEN_STEPS = 64;

    /// @notice Highest number of jurors of a first jury.
    uint32 public constant MAX_JURY_SIZE = 13;

    /// @notice Longest window of a pool, in seconds.
    uint32 public constant MAX_WINDOW_SECONDS = 30 days;

    /// @notice Longest unbonding and longest slash window of a pool, in seconds.
    uint32 public constant MAX_UNBONDING_SECONDS = 365 days;

    /// @notice Longest wait for a beacon, in blocks.
    uint32 public constant MAX_BEACON_DELAY_BLOCKS = 128;

    /// @notice Highest part of a slash that is not burned, in hundredths of a percent.
    uint32 public constant MAX_REWARD_BPS = 5_000;

    /// @notice Longest time for which a pool's clock stands within one period, in seconds.
    uint64 public constant MAX_PAUSE_SECONDS = 3 days;

    /// @notice How long a pool's clock must have run before it may stand for the whole time again, in seconds.
    uint64 public constant PAUSE_PERIOD_SECONDS = 30 days;

    uint32 private constant BPS = 10_000;

    IStakeManager public immutable stakes;

    uint64 public override poolCount;
    mapping(PoolId pool => Pool) private _pools;

    constructor(Parts memory parts) {
        parts.checkParts();
        stakes = IStakeManager(parts.stakes);
    }

    /// @inheritdoc IPoolRegistry
    function createPool(PoolTerms calldata terms) external override returns (PoolId pool) {
        _checkParties(terms.parties);
        _checkOffer(terms.offer);
        // A free dispute would hold a worker's stake for nothing.
        _checkRange("jurorFee", terms.fees.jurorFee, 1, type(uint128).max);
        _checkWork(terms.work);
        _checkPanel(terms.panel);
        _checkWindows(terms.windows);
        _checkFaults(terms.faults);

        pool = PoolId.wrap(++poolCount);
        bytes32 termsHash = keccak256(abi.encode(terms));
        Pool storage entry = _pools[pool];
        entry.owner = msg.sender;
        entry.termsHash = termsHash;
        entry.terms = terms;
        emit PoolCreated(pool, msg.sender, termsHash, terms);
    }

    /// @inheritdoc IPoolRegistry
    function closePool(PoolId pool) external override {
        Pool storage entry = _owned(pool);
        if (entry.isClosed) revert PoolAlreadyClosed(pool);
        entry.isClosed = true;
        emit PoolClosed(pool);
    }

    /// @inheritdoc IPoolRegistry
    function offerOwnership(PoolId pool, address to) external override {
        _owned(pool).offeredOwner = to;
        emit OwnershipOffered(pool, to);
    }

    /// @inheritdoc IPoolRegistry
    function acceptOwnership(PoolId pool) external override {
        Pool storage entry = _existing(pool);
        if (msg.sender != entry.offeredOwner) revert NotOfferedOwner(pool, msg.sender, entry.offeredOwner);
        delete entry.offeredOwner;
        entry.owner = msg.sender;
        emit OwnershipAccepted(pool, msg.sender);
    }

    /// @inheritdoc IPoolRegistry
    function announceOffer(PoolId pool, Offer calldata offer) external override {
        Pool storage entry = _owned(pool);
        _checkOffer(offer);
        uint32 number = currentOffer(pool) + 1;
        uint48 effectiveAt = uint48(_timeOf(entry.clock)) + entry.terms.parties.noticeSeconds;
        entry.offers[number] = offer;
        entry.effectiveAt = effectiveAt;
        emit OfferAnnounced(pool, number, offer, effectiveAt);
    }

    /// @inheritdoc IPoolRegistry
    function withdrawOffer(PoolId pool) external override {
        Pool storage entry = _owned(pool);
        uint32 number = entry.offerNumber + 1;
        if (entry.effectiveAt == 0 || _isDue(pool, entry)) revert UnknownOffer(pool, number);
        entry.effectiveAt = 0;
        emit OfferWithdrawn(pool, number);
    }

    /// @inheritdoc IPoolRegistry
    function currentOffer(PoolId pool) public override returns (uint32 number) {
        Pool storage entry = _existing(pool);
        if (_isDue(pool, entry)) {
            ++entry.offerNumber;
            entry.effectiveAt = 0;
        }
        return entry.offerNumber;
    }

    /// @inheritdoc IPoolRegistry
    function opening(PoolId pool) external override returns (Opening memory) {
        uint32 number = currentOffer(pool);
        Pool storage entry = _pools[pool];
        return Opening({
            offer: number,
            trainer: _offer(entry, number).trainer,
            isOpen: !entry.isClosed,
            isPaused: _isStanding(entry.clock),
            beaconDelayBlocks: entry.terms.windows.beaconDelayBlocks,
            rates: _rates(entry, number),
            fees: entry.terms.fees,
            work: entry.terms.work,
            panel: entry.terms.panel
        });
    }

    /// @inheritdoc IPoolRegistry
    function attestCard(PoolId pool, bytes32 cardHash) external override {
        Pool storage entry = _existing(pool);
        address provider = stakes.providerOf(msg.sender);
        if (stakes.activeStakeOf(pool, Role.Validator, provider) == 0) revert NotValidator(pool, msg.sender);
        if (entry.isAttestedBy[cardHash][provider]) revert AlreadyAttested(pool, cardHash, provider);
        entry.isAttestedBy[cardHash][provider] = true;
        emit CardAttested(pool, cardHash, provider);
    }

    /// @inheritdoc IPoolRegistry
    /// @dev The budget is renewed only PAUSE_PERIOD_SECONDS after the end of the last pause. So pauses that draw on two
    /// budgets lie at least that far apart: no interval of that length holds time of both, nor more than one budget.
    function pause(PoolId pool) external override {
        Pool storage entry = _existing(pool);
        address pauser = entry.terms.parties.pauser;
        if (msg.sender != pauser) revert NotPauser(pool, msg.sender, pauser);
        Clock storage clock = entry.clock;
        if (_isStanding(clock)) revert PoolIsPaused(pool);
        _settlePause(clock);
        uint64 again = clock.endedAt + PAUSE_PERIOD_SECONDS;
        if (block.timestamp >= again) clock.spent = 0;
        if (clock.spent == MAX_PAUSE_SECONDS) revert PauseSpent(pool, again);
        clock.pausedAt = uint64(block.timestamp);
        emit Paused(pool, clock.pausedAt, _pauseEnd(clock));
    }

    /// @inheritdoc IPoolRegistry
    function unpause(PoolId pool) external override {
        Pool storage entry = _existing(pool);
        address unpauser = entry.terms.parties.unpauser;
        if (msg.sender != unpauser) revert NotPauser(pool, msg.sender, unpauser);
        Clock storage clock = entry.clock;
        if (!_isStanding(clock)) revert PoolNotPaused(pool);
        _settlePause(clock);
        emit Unpaused(pool, _timeOf(clock));
    }

    /// @inheritdoc IPoolRegistry
    function termsOf(PoolId pool) external view override returns (PoolTerms memory) {
        return _existing(pool).terms;
    }

    /// @inheritdoc IPoolRegistry
    function termsHashOf(PoolId pool) external view override returns (bytes32) {
        return _existing(pool).termsHash;
    }

    /// @inheritdoc IPoolRegistry
    function offerNumberOf(PoolId pool) external view override returns (uint32) {
        Pool storage entry = _existing(pool);
        return _numberInForce(pool, entry);
    }

    /// @inheritdoc IPoolRegistry
    function offerOf(PoolId pool, uint32 number) external view override returns (Offer memory) {
        Pool storage entry = _existing(pool);
        if (number > entry.offerNumber && number > _numberInForce(pool, entry)) revert UnknownOffer(pool, number);
        return _offer(entry, number);
    }

    /// @inheritdoc IPoolRegistry
    function trainerOf(PoolId pool, uint32 number) external view override returns (address) {
        return _offer(_pools[pool], number).trainer;
    }

    /// @inheritdoc IPoolRegistry
    function coordinatorOf(PoolId pool, uint32 number) external view override returns (address) {
        return _offer(_pools[pool], number).coordinator;
    }

    /// @inheritdoc IPoolRegistry
    function ratesOf(PoolId pool, uint32 number) external view override returns (Rates memory) {
        return _rates(_pools[pool], number);
    }

    /// @inheritdoc IPoolRegistry
    function pendingOfferOf(PoolId pool)
        external
        view
        override
        returns (Offer memory offer, uint64 effectiveAt, bool isAttested)
    {
        Pool storage entry = _existing(pool);
        if (entry.effectiveAt == 0 || _isDue(pool, entry)) return (offer, 0, false);
        return (entry.offers[entry.offerNumber + 1], entry.effectiveAt, _isCardKnown(pool, entry));
    }

    /// @inheritdoc IPoolRegistry
    function partiesOf(PoolId pool) external view override returns (Parties memory) {
        return _existing(pool).terms.parties;
    }

    /// @inheritdoc IPoolRegistry
    function feesOf(PoolId pool) external view override returns (Fees memory) {
        return _pools[pool].terms.fees;
    }

    /// @inheritdoc IPoolRegistry
    function workRulesOf(PoolId pool) external view override returns (WorkRules memory) {
        return _pools[pool].terms.work;
    }

    /// @inheritdoc IPoolRegistry
    function panelRulesOf(PoolId pool) external view override returns (PanelRules memory) {
        return _pools[pool].terms.panel;
    }

    /// @inheritdoc IPoolRegistry
    function windowsOf(PoolId pool) external view override returns (Windows memory) {
        return _pools[pool].terms.windows;
    }

    /// @inheritdoc IPoolRegistry
    function timesOf(PoolId pool) external view override returns (uint48 time, Windows memory windows) {
        Pool storage entry = _pools[pool];
        return (uint48(_timeOf(entry.clock)), entry.terms.windows);
    }

    /// @inheritdoc IPoolRegistry
    function faultTableOf(PoolId pool) external view override returns (FaultTable memory) {
        return _pools[pool].terms.faults;
    }

    /// @inheritdoc IPoolRegistry
    function ownerOf(PoolId pool) external view override returns (address) {
        return _existing(pool).owner;
    }

    /// @inheritdoc IPoolRegistry
    function isOpen(PoolId pool) external view override returns (bool) {
        Pool storage entry = _pools[pool];
        return entry.owner != address(0) && !entry.isClosed;
    }

    /// @inheritdoc IPoolRegistry
    function isPaused(PoolId pool) external view override returns (bool) {
        return _isStanding(_existing(pool).clock);
    }

    /// @inheritdoc IPoolRegistry
    function clockOf(PoolId pool) external view override returns (uint64) {
        return _timeOf(_pools[pool].clock);
    }

    /// @dev Books the last pause, up to now or to the end of the budget.
    function _settlePause(Clock storage clock) private {
        if (clock.pausedAt == 0) return;
        uint64 length = _unsettled(clock);
        clock.stood += length;
        clock.spent += length;
        clock.endedAt = clock.pausedAt + length;
        clock.pausedAt = 0;
    }

    function _existing(PoolId pool) private view returns (Pool storage entry) {
        entry = _pools[pool];
        if (entry.owner == address(0)) revert UnknownPool(pool);
    }

    function _owned(PoolId pool) private view returns (Pool storage entry) {
        entry = _existing(pool);
        if (msg.sender != entry.owner) revert NotPoolOwner(pool, msg.sender, entry.owner);
    }

    function _offer(Pool storage entry, uint32 number) private view returns (Offer storage) {
        return number == 0 ? entry.terms.offer : entry.offers[number];
    }

    function _rates(Pool storage entry, uint32 number) private view returns (Rates memory) {
        Offer storage offer = _offer(entry, number);
        WorkRules storage work = entry.terms.work;
        uint256 unitCap = uint256(work.groupSize) * work.maxCompletionTokens;
        return Pricing.rates(offer.pricePerGroup, offer.pricePerToken, unitCap, work.payCapBps);
    }

    function _numberInForce(PoolId pool, Pool storage entry) private view returns (uint32) {
        return _isDue(pool, entry) ? entry.offerNumber + 1 : entry.offerNumber;
    }

    /// @dev Whether the announced offer holds by now, but was not made final.
    function _isDue(PoolId pool, Pool storage entry) private view returns (bool) {
        uint64 effectiveAt = entry.effectiveAt;
        return effectiveAt != 0 && _timeOf(entry.clock) >= effectiveAt && _isCardKnown(pool, entry);
    }

    /// @dev Whether the announced offer keeps the card, or those who would judge by the new one have attested it. Their
    /// stakes are those of now; the pool lists few validators.
    function _isCardKnown(PoolId pool, Pool storage entry) private view returns (bool) {
        bytes32 cardHash = entry.offers[entry.offerNumber + 1].cardHash;
        if (cardHash == _offer(entry, entry.offerNumber).cardHash) return true;
        address[] memory validators = stakes.validatorsOf(pool);
        uint256 all = 0;
        uint256 attesting = 0;
        for (uint256 i = 0; i < validators.length; ++i) {
            uint256 stake = stakes.activeStakeOf(pool, Role.Validator, validators[i]);
            all += stake;
            if (entry.isAttestedBy[cardHash][validators[i]]) attesting += stake;
        }
        return 2 * attesting > all;
    }

    /// @dev When the last pause ends by itself.
    function _pauseEnd(Clock storage clock) private view returns (uint64) {
        return clock.pausedAt + MAX_PAUSE_SECONDS - clock.spent;
    }

    function _isStanding(Clock storage clock) private view returns (bool) {
        return clock.pausedAt != 0 && block.timestamp < _pauseEnd(clock);
    }

    /// @dev How long the last pause has lasted, if it is not settled.
    function _unsettled(Clock storage clock) private view returns (uint64) {
        if (clock.pausedAt == 0) return 0;
        return (_isStanding(clock) ? uint64(block.timestamp) : _pauseEnd(clock)) - clock.pausedAt;
    }

    function _timeOf(Clock storage clock) private view returns (uint64) {
        return uint64(block.timestamp) - clock.stood - _unsettled(clock);
    }

    function _checkParties(Parties calldata parties) private pure {
        if (parties.payoutToken == address(0)) revert TermAddressZero("payoutToken");
        _checkRange("noticeSeconds", parties.noticeSeconds, 0, MAX_WINDOW_SECONDS);
        address pauser = parties.pauser;
        address unpauser = parties.unpauser;
        // Without both, the clock never stands.
        if (pauser == address(0) && unpauser == address(0)) return;
        if (pauser == address(0)) revert TermAddressZero("pauser");
        if (unpauser == address(0)) revert TermAddressZero("unpauser");
        if (pauser == unpauser) revert PauserUnpauses(pauser);
    }

    function _checkOffer(Offer calldata offer) private pure {
        if (offer.coordinator == address(0)) revert TermAddressZero("coordinator");
        if (offer.trainer == address(0)) revert TermAddressZero("trainer");
    }

    function _checkWork(WorkRules calldata work) private pure {
        _checkRange("minWorkerStake", work.minWorkerStake, 1, type(uint128).max);
        _checkRange("payCapBps", work.payCapBps, 1, type(uint32).max);
        _checkRange("maxOpenSteps", work.maxOpenSteps, 1, MAX_OPEN_STEPS);
        _checkRange("groupSize", work.groupSize, 1, type(uint32).max);
        // The units of a group are a uint32 everywhere.
        _checkRange("maxCompletionTokens", work.maxCompletionTokens, 1, type(uint32).max / work.groupSize);
        _checkRange("maxSlots", work.maxSlots, 1, MAX_SLOTS);
        _checkRange("reservedSlots", work.reservedSlots, 0, MAX_RESERVED_SLOTS);
        _checkRange("temperatureMilli", work.temperatureMilli, MIN_TEMPERATURE_MILLI, MAX_TEMPERATURE_MILLI);
        _checkRange("protocolVersion", work.protocolVersion, 1, type(uint32).max);
    }

    function _checkPanel(PanelRules calldata panel) private pure {
        _checkRange("minValidatorStake", panel.minValidatorStake, 1, type(uint128).max);
        _checkRange("panelSize", panel.panelSize, 1, Outcomes.MAX_VOTES);
        _checkRange("quorum", panel.quorum, panel.panelSize / 2 + 1, panel.panelSize);
        // An even number is refused as below the next odd one.
        _checkRange("jurySize", panel.jurySize, panel.jurySize | 1, MAX_JURY_SIZE);
        _checkRange("maxAbsences", panel.maxAbsences, 1, type(uint32).max);
    }

    function _checkWindows(Windows calldata windows) private pure {
        _checkRange("beaconDelayBlocks", windows.beaconDelayBlocks, 1, MAX_BEACON_DELAY_BLOCKS);
        _checkRange("leaseSeconds", windows.leaseSeconds, 1, MAX_WINDOW_SECONDS);
        _checkRange("collectSeconds", windows.collectSeconds, 1, MAX_WINDOW_SECONDS);
        _checkRange("takeSeconds", windows.takeSeconds, 0, windows.collectSeconds);
        _checkRange("voteSeconds", windows.voteSeconds, 1, MAX_WINDOW_SECONDS);
        _checkRange("revealSeconds", windows.revealSeconds, 1, MAX_WINDOW_SECONDS);
        _checkRange("challengeSeconds", windows.challengeSeconds, 1, MAX_WINDOW_SECONDS);
        _checkRange("unbondingSeconds", windows.unbondingSeconds, 1, MAX_UNBONDING_SECONDS);
        // A slot taken on chain at the end of the collection has its lease; a panel may be redrawn once.
        uint256 lowest = 2 * uint256(windows.leaseSeconds) + windows.collectSeconds
            + 2 * (uint256(windows.voteSeconds) + windows.revealSeconds) + windows.challengeSeconds;
        if (windows.unbondingSeconds < lowest) revert UnbondingTooShort(windows.unbondingSeconds, lowest);
    }

    function _checkFaults(FaultTable calldata faults) private pure {
        _checkRange("faultSlashBps", faults.faultSlashBps, 0, BPS);
        _checkRange("statisticsSlashBps", faults.statisticsSlashBps, 0, BPS);
        _checkRange("silenceSlashBps", faults.silenceSlashBps, 0, BPS);
        _checkRange("wrongVoteSlashBps", faults.wrongVoteSlashBps, 0, BPS);
        _checkRange("plantSlashBps", faults.plantSlashBps, 0, BPS);
        _checkRange("maxSlashBps", faults.maxSlashBps, 1, BPS);
        _checkRange("slashWindowSeconds", faults.slashWindowSeconds, 1, MAX_UNBONDING_SECONDS);
        _checkRange("rewardBps", faults.rewardBps, 0, MAX_REWARD_BPS);
    }

    function _checkRange(bytes32 term, uint256 value, uint256 lowest, uint256 highest) private pure {
        if (value < lowest || value > highest) revert TermOutOfRange(term, value, lowest, highest);
    }
}
