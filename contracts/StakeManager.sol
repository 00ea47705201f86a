// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {SignatureChecker} from "@openzeppelin/contracts/utils/cryptography/SignatureChecker.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Checkpoints} from "@openzeppelin/contracts/utils/structs/Checkpoints.sol";

import {IPoolRegistry} from "./interfaces/IPoolRegistry.sol";
import {IStakeManager} from "./interfaces/IStakeManager.sol";
import {ISubmissionLedger} from "./interfaces/ISubmissionLedger.sol";
import {PanelDraw} from "./libraries/PanelDraw.sol";
import {Role} from "./types/Enums.sol";
import {ExitId, PoolId} from "./types/Ids.sol";
import {Parts} from "./types/Parts.sol";

/// @title Custody of stake: idle balances, positions in pools, exits, nodes, controllers, payees.
/// @dev A position belongs to one provider and counts shares, so that a slash takes its part of what is leaving too.
/// The price of a share never rises above one token. An account is at most one of: a node, the controller of another
/// provider, a provider.
contract StakeManager is IStakeManager, EIP712, ReentrancyGuardTransient {
    using SafeERC20 for IERC20;
    using Checkpoints for Checkpoints.Trace208;

    /// @dev Times on the pool's clock.
    struct Position {
        uint208 tokens;
        uint48 epoch; // counts how often the position was slashed to nothing
        uint256 shares;
        uint256 exitingShares;
        uint64 windowEnd; // of the window that slashedBps and absences are counted in
        uint64 suspendedUntil; // 0 if not suspended; stays until the position is reinstated
        uint32 slashedBps;
        uint32 absences;
        uint32 holds; // open disputes
    }

    /// @dev What counts of a position now, and since which block: most questions about the past end here.
    struct Active {
        uint208 tokens;
        uint48 since;
    }

    /// @dev A place in a pool's list of validators: who holds it now, and since which block.
    struct Place {
        address holder;
        uint48 since;
    }

    /// @notice Most validators that a pool lists.
    uint256 public constant MAX_VALIDATORS = 64;

    bytes32 private constant NODE_CONSENT_TYPEHASH =
        keccak256("NodeConsent(address node,address provider,uint256 deadline)");
    uint256 private constant BPS = 10_000;

    IERC20 public immutable override stakeToken;
    IPoolRegistry public immutable registry;
    ISubmissionLedger public immutable ledger;
    address public immutable panel;
    address public immutable court;
    address public immutable plants;
    address public immutable sink;

    uint256 public override totalHeld;
    uint256 public override burnable;
    uint64 public override exitCount;
    mapping(address provider => uint256) public override idleOf;
    mapping(bytes32 offence => bool) public override isSlashed;
    mapping(PoolId pool => uint256) public override eligibleValidatorsOf;
    mapping(address provider => uint256) private _held; // idle and in positions
    mapping(address node => address) private _providerOfNode;
    mapping(bytes32 digest => bool) private _consentUsed;
    mapping(address provider => address) private _controllerOf; // zero: its own
    mapping(address controller => address) private _controlledBy; // only of another provider
    mapping(address provider => address) private _offeredController;
    mapping(PoolId pool => mapping(address provider => address)) private _payeeOf; // zero: the provider
    mapping(PoolId pool => mapping(Role role => mapping(address payee => uint256))) private _payeeUses;
    mapping(PoolId pool => mapping(Role role => mapping(address provider => Position))) private _positions;
    mapping(PoolId pool => mapping(Role role => mapping(address provider => Active))) private _active;
    mapping(PoolId pool => mapping(Role role => mapping(address provider => Checkpoints.Trace208))) private _history;
    mapping(PoolId pool => Place[]) private _validators;
    mapping(PoolId pool => mapping(uint256 place => Checkpoints.Trace208)) private _holders;
    mapping(PoolId pool => mapping(address provider => bool)) private _isListed;
    mapping(ExitId exitId => Exit) private _exits;

    constructor(Parts memory parts) EIP712("Stannary", "1") {
        parts.checkParts();
        stakeToken = IERC20(parts.stakeToken);
        registry = IPoolRegistry(parts.registry);
        ledger = ISubmissionLedger(parts.ledger);
        panel = parts.panel;
        court = parts.court;
        plants = parts.plants;
        sink = parts.sink;
    }

    modifier onlyPanel() {
        if (msg.sender != panel) revert NotJudge(msg.sender);
        _;
    }

    modifier onlyCourt() {
        if (msg.sender != court) revert NotJudge(msg.sender);
        _;
    }

    /// @inheritdoc IStakeManager
    function deposit(uint256 amount) external override nonReentrant {
        if (amount == 0) revert AmountZero();
        address provider = _callersProvider();
        idleOf[provider] += amount;
        _held[provider] += amount;
        totalHeld += amount;
        emit Deposited(provider, amount);

        uint256 before = stakeToken.balanceOf(address(this));
        stakeToken.safeTransferFrom(msg.sender, address(this), amount);
        uint256 received = stakeToken.balanceOf(address(this)) - before;
        if (received != amount) revert TransferMismatch(received, amount);
    }

    /// @inheritdoc IStakeManager
    function withdraw(uint256 amount) external override nonReentrant {
        if (amount == 0) revert AmountZero();
        address provider = _callersProvider();
        _takeIdle(provider, amount);
        _held[provider] -= amount;
        totalHeld -= amount;
        emit Withdrawn(provider, msg.sender, amount);
        stakeToken.safeTransfer(msg.sender, amount);
    }

    /// @inheritdoc IStakeManager
    function allocate(PoolId pool, Role role, uint256 amount, bytes32 termsHash) external override nonReentrant {
        if (amount == 0) revert AmountZero();
        address provider = _callersProvider();
        bytes32 expected = registry.termsHashOf(pool);
        if (!registry.isOpen(pool)) revert PoolIsClosed(pool);
        if (termsHash != expected) revert TermsMismatch(pool, termsHash, expected);
        Role other = _otherRole(role);
        if (_position(pool, other, provider).shares != 0) revert OtherRoleHeld(pool, provider, other);
        Position storage position = _position(pool, role, provider);
        if (position.suspendedUntil != 0) {
            revert PositionSuspended(pool, role, provider, position.suspendedUntil);
        }

        _takeIdle(provider, amount);
        uint256 shares = amount;
        if (position.shares == 0) {
            _bindPayee(pool, role, provider);
        } else {
            shares = Math.mulDiv(amount, position.shares, position.tokens);
        }
        // What was slashed of the old tokens is a smaller part of all: it must not shield the new ones.
        uint256 tokens = position.tokens;
        position.slashedBps = uint32(Math.mulDiv(position.slashedBps, tokens, tokens + amount));
        position.tokens += SafeCast.toUint208(amount);
        position.shares += shares;
        if (role == Role.Validator) _list(pool, provider);
        (uint256 staying, uint256 minimum) = _recordActive(pool, role, provider, position);
        if (staying < minimum) revert StakeBelowMinimum(pool, role, staying, minimum);
        emit Allocated(pool, role, provider, amount, shares);
    }

    /// @inheritdoc IStakeManager
    function startExit(PoolId pool, Role role, uint256 shares) external override nonReentrant returns (ExitId exitId) {
        if (shares == 0) revert AmountZero();
        address provider = _callersProvider();
        Position storage position = _position(pool, role, provider);
        uint256 available = position.shares - position.exitingShares;
        if (shares > available) revert SharesTooLow(available, shares);

        exitId = ExitId.wrap(++exitCount);
        uint64 releaseAt = _timeOf(pool) + registry.windowsOf(pool).unbondingSeconds;
        position.exitingShares += shares;
        _exits[exitId] = Exit({
            provider: provider,
            pool: pool,
            role: role,
            releaseAt: releaseAt,
            epoch: position.epoch,
            barrier: ledger.stepCountOf(pool),
            shares: shares,
            startBlock: uint64(block.number)
        });
        (uint256 staying, uint256 minimum) = _recordActive(pool, role, provider, position);
        // A rest that does not count would still hold a place in the list of validators, and a payee.
        if (shares != available && staying < minimum) revert StakeBelowMinimum(pool, role, staying, minimum);
        emit ExitStarted(exitId, pool, role, provider, shares, releaseAt);
    }

    /// @inheritdoc IStakeManager
    function finishExit(ExitId exitId) external override nonReentrant {
        Exit memory leaving = _exits[exitId];
        if (leaving.provider == address(0)) revert UnknownExit(exitId);
        uint64 time = _timeOf(leaving.pool);
        if (time < leaving.releaseAt) revert ExitNotReleased(exitId, leaving.releaseAt, time);
        _checkBarrier(exitId, leaving, time);
        Position storage position = _position(leaving.pool, leaving.role, leaving.provider);
        if (position.holds != 0) {
            revert PositionHeld(leaving.pool, leaving.role, leaving.provider, position.holds);
        }

        delete _exits[exitId];
        uint256 amount = 0;
        if (leaving.epoch == position.epoch) {
            amount = Math.mulDiv(leaving.shares, position.tokens, position.shares);
            position.tokens -= uint208(amount);
            position.shares -= leaving.shares;
            position.exitingShares -= leaving.shares;
            idleOf[leaving.provider] += amount;
            if (position.shares == 0) _unbindPayee(leaving.pool, leaving.role, leaving.provider);
            _recordActive(leaving.pool, leaving.role, leaving.provider, position);
        }
        emit ExitFinished(exitId, leaving.provider, amount);
    }

    /// @inheritdoc IStakeManager
    function addNode(address node, uint256 deadline, bytes calldata signature) external override nonReentrant {
        if (node == address(0)) revert AddressZero();
        if (block.timestamp > deadline) revert ConsentExpired(deadline, block.timestamp);
        address provider = _callersProvider();
        if (_providerOfNode[node] != address(0)) revert NodeTaken(node, _providerOfNode[node]);
        if (_controlledBy[node] != address(0)) revert ControllerTaken(node);
        if (node == provider || _isProvider(node)) revert NodeIsProvider(node);
        bytes32 digest = consentDigest(node, provider, deadline);
        if (_consentUsed[digest]) revert ConsentUsed(digest);
        if (!SignatureChecker.isValidSignatureNow(node, digest, signature)) revert ConsentInvalid(node, provider);

        _consentUsed[digest] = true;
        _providerOfNode[node] = provider;
        emit NodeAdded(node, provider);
    }

    /// @inheritdoc IStakeManager
    function removeNode(address node) external override {
        address provider = _providerOfNode[node];
        if (provider == address(0) || (msg.sender != node && msg.sender != controllerOf(provider))) {
            revert NotNodeOwner(node, msg.sender);
        }
        delete _providerOfNode[node];
        emit NodeRemoved(node, provider);
    }

    /// @inheritdoc IStakeManager
    function offerController(address to) external override {
        address provider = _callersProvider();
        _offeredController[provider] = to;
        emit ControllerOffered(provider, to);
    }

    /// @inheritdoc IStakeManager
    function acceptController(address provider) external override {
        address offered = _offeredController[provider];
        if (msg.sender != offered) revert NotOfferedController(provider, msg.sender, offered);
        // Since it made the offer, the provider may have become a node or the controller of another.
        if (_isBound(provider)) revert ControllerTaken(provider);
        if (msg.sender != provider && (_isBound(msg.sender) || _isProvider(msg.sender))) {
            revert ControllerTaken(msg.sender);
        }

        delete _offeredController[provider];
        delete _controlledBy[_controllerOf[provider]];
        if (msg.sender == provider) {
            delete _controllerOf[provider];
        } else {
            _controllerOf[provider] = msg.sender;
            _controlledBy[msg.sender] = provider;
        }
        emit ControllerChanged(provider, msg.sender);
    }

    /// @inheritdoc IStakeManager
    /// @dev Without a position, a provider can only return to itself: a payee that the other role has taken meanwhile
    /// must not bar its way back in.
    function setPayee(PoolId pool, address payee) external override {
        if (payee == address(0)) revert AddressZero();
        address provider = _callersProvider();
        Role role = _position(pool, Role.Worker, provider).shares != 0 ? Role.Worker : Role.Validator;
        bool isIn = _position(pool, role, provider).shares != 0;
        if (!isIn && payee != provider) revert NoPosition(pool, provider);

        if (isIn) _unbindPayee(pool, role, provider);
        _payeeOf[pool][provider] = payee == provider ? address(0) : payee;
        _bindPayee(pool, role, provider);
        emit PayeeChanged(pool, provider, payee);
    }

    /// @inheritdoc IStakeManager
    function reinstate(PoolId pool, Role role, address provider) external override {
        Position storage position = _position(pool, role, provider);
        uint64 until = position.suspendedUntil;
        if (until == 0) revert PositionNotSuspended(pool, role, provider);
        if (_timeOf(pool) < until) revert PositionSuspended(pool, role, provider, until);
        position.suspendedUntil = 0;
        _recordActive(pool, role, provider, position);
        emit Reinstated(pool, role, provider);
    }

    /// @inheritdoc IStakeManager
    function burnSlashed() external override nonReentrant returns (uint256 amount) {
        amount = burnable;
        if (amount == 0) revert AmountZero();
        burnable = 0;
        totalHeld -= amount;
        emit Burned(amount);
        stakeToken.safeTransfer(sink, amount);
    }

    /// @inheritdoc IStakeManager
    function slash(
        PoolId pool,
        Role role,
        address provider,
        uint256 bps,
        bytes32 offence,
        address beneficiary,
        uint256 rewardBps
    ) external override returns (uint256 amount) {
        if (msg.sender != panel && msg.sender != court && msg.sender != plants) revert NotJudge(msg.sender);
        if (bps > BPS) revert BpsTooHigh(bps);
        if (rewardBps > BPS) revert BpsTooHigh(rewardBps);
        if (isSlashed[offence]) revert OffenceSlashed(offence);
        isSlashed[offence] = true;

        uint64 until;
        (bps, until) = _countBps(pool, _position(pool, role, provider), bps);
        amount = _takeTokens(pool, role, provider, bps);
        uint256 reward;
        (beneficiary, reward) = _reward(beneficiary, amount, rewardBps);
        emit Slashed(pool, role, provider, offence, bps, amount, beneficiary, reward);
        _suspend(pool, role, provider, until);
        _recordActive(pool, role, provider, _position(pool, role, provider));
    }

    /// @inheritdoc IStakeManager
    function hold(PoolId pool, Role role, address provider) external override onlyCourt {
        uint32 holds = ++_position(pool, role, provider).holds;
        emit HoldChanged(pool, role, provider, holds);
    }

    /// @inheritdoc IStakeManager
    function unhold(PoolId pool, Role role, address provider) external override onlyCourt {
        Position storage position = _position(pool, role, provider);
        if (position.holds == 0) revert PositionNotHeld(pool, role, provider);
        uint32 holds = --position.holds;
        emit HoldChanged(pool, role, provider, holds);
    }

    /// @inheritdoc IStakeManager
    function recordAbsence(PoolId pool, address provider) external override onlyPanel {
        Position storage position = _position(pool, Role.Validator, provider);
        if (position.shares == 0) return;
        uint64 windowEnd = _openWindow(pool, position);
        uint32 absences = ++position.absences;
        emit AbsenceRecorded(pool, provider, absences);
        if (absences < registry.panelRulesOf(pool).maxAbsences) return;
        _suspend(pool, Role.Validator, provider, windowEnd);
        _recordActive(pool, Role.Validator, provider, position);
    }

    /// @inheritdoc IStakeManager
    function positionOf(PoolId pool, Role role, address provider)
        external
        view
        override
        returns (uint256 tokens, uint256 shares, uint256 exitingShares)
    {
        Position storage position = _position(pool, role, provider);
        return (position.tokens, position.shares, position.exitingShares);
    }

    /// @inheritdoc IStakeManager
    function standingOf(PoolId pool, Role role, address provider)
        external
        view
        override
        returns (uint64 suspendedUntil, uint32 slashedBps, uint32 absences, uint32 holds)
    {
        Position storage position = _position(pool, role, provider);
        suspendedUntil = position.suspendedUntil;
        holds = position.holds;
        if (_timeOf(pool) < position.windowEnd) {
            slashedBps = position.slashedBps;
            absences = position.absences;
        }
    }

    /// @inheritdoc IStakeManager
    function activeStakeOf(PoolId pool, Role role, address provider) external view override returns (uint256) {
        return _active[pool][role][provider].tokens;
    }

    /// @inheritdoc IStakeManager
    function activeStakeAt(PoolId pool, Role role, address provider, uint256 blockNumber)
        external
        view
        override
        returns (uint256)
    {
        return _activeAt(_active[pool][role][provider], pool, role, provider, _pastBlock(blockNumber));
    }

    /// @inheritdoc IStakeManager
    function activeStakesAt(PoolId pool, Role role, address[] memory providers, uint256 blockNumber)
        public
        view
        override
        returns (uint256[] memory stakes)
    {
        uint48 key = _pastBlock(blockNumber);
        stakes = new uint256[](providers.length);
        mapping(address provider => Active) storage active = _active[pool][role];
        for (uint256 i = 0; i < providers.length; ++i) {
            stakes[i] = _activeAt(active[providers[i]], pool, role, providers[i], key);
        }
    }

    /// @inheritdoc IStakeManager
    function validatorsOf(PoolId pool) external view override returns (address[] memory) {
        return _holdersAt(pool, uint48(block.number));
    }

    /// @inheritdoc IStakeManager
    function validatorStakesAt(PoolId pool, uint256 blockNumber)
        public
        view
        override
        returns (address[] memory validators, uint256[] memory stakes)
    {
        validators = _holdersAt(pool, _pastBlock(blockNumber));
        stakes = activeStakesAt(pool, Role.Validator, validators, blockNumber);
    }

    /// @inheritdoc IStakeManager
    function payeeOf(PoolId pool, address provider) public view override returns (address) {
        address payee = _payeeOf[pool][provider];
        return payee == address(0) ? provider : payee;
    }

    /// @inheritdoc IStakeManager
    function exitOf(ExitId exitId) external view override returns (Exit memory) {
        return _exits[exitId];
    }

    /// @inheritdoc IStakeManager
    function barredOf(PoolId pool, uint256 blockNumber, address[][] calldata lists, address[] calldata parties)
        external
        view
        override
        returns (uint64 barred)
    {
        address[] memory candidates = _holdersAt(pool, _pastBlock(blockNumber));
        for (uint256 i = 0; i < candidates.length; ++i) {
            bool hasLeft = _position(pool, Role.Validator, candidates[i]).shares == 0;
            if (hasLeft || _isBarred(pool, candidates[i], lists, parties)) barred |= uint64(1 << i);
        }
    }

    /// @inheritdoc IStakeManager
    function drawValidators(PoolId pool, uint256 blockNumber, bytes32 beacon, uint256 size, uint64 barred)
        external
        view
        override
        returns (address[] memory)
    {
        (address[] memory candidates, uint256[] memory weights) = validatorStakesAt(pool, blockNumber);
        for (uint256 i = 0; i < candidates.length; ++i) {
            if ((barred >> i) & 1 == 1) weights[i] = 0;
        }
        return PanelDraw.draw(candidates, weights, beacon, size);
    }

    /// @inheritdoc IStakeManager
    function providerOf(address account) public view override returns (address) {
        address provider = _providerOfNode[account];
        if (provider != address(0)) return provider;
        provider = _controlledBy[account];
        if (provider != address(0)) return provider;
        return _held[account] != 0 && _controllerOf[account] == address(0) ? account : address(0);
    }

    /// @inheritdoc IStakeManager
    function controllerOf(address provider) public view override returns (address) {
        address controller = _controllerOf[provider];
        return controller == address(0) ? provider : controller;
    }

    /// @inheritdoc IStakeManager
    function consentDigest(address node, address provider, uint256 deadline) public view override returns (bytes32) {
        return _hashTypedDataV4(keccak256(abi.encode(NODE_CONSENT_TYPEHASH, node, provider, deadline)));
    }

    /// @dev The provider that the caller is or controls.
    function _callersProvider() private view returns (address) {
        if (_providerOfNode[msg.sender] != address(0)) revert NodeIsProvider(msg.sender);
        address provider = _controlledBy[msg.sender];
        if (provider != address(0)) return provider;
        address controller = _controllerOf[msg.sender];
        if (controller != address(0)) revert NotController(msg.sender, msg.sender, controller);
        return msg.sender;
    }

    /// @dev Whether an account acts for another.
    function _isBound(address account) private view returns (bool) {
        return _providerOfNode[account] != address(0) || _controlledBy[account] != address(0);
    }

    /// @dev Whether an account is a provider with stake, or one that another account controls.
    function _isProvider(address account) private view returns (bool) {
        return _held[account] != 0 || _controllerOf[account] != address(0);
    }

    function _position(PoolId pool, Role role, address provider) private view returns (Position storage) {
        return _positions[pool][role][provider];
    }

    function _takeIdle(address provider, uint256 amount) private {
        uint256 idle = idleOf[provider];
        if (idle < amount) revert IdleTooLow(provider, idle, amount);
        idleOf[provider] = idle - amount;
    }

    /// @dev A place in a full list passes to a newcomer only from a provider that has left the pool entirely.
    function _list(PoolId pool, address provider) private {
        if (_isListed[pool][provider]) return;
        Place[] storage places = _validators[pool];
        uint256 place = places.length;
        if (place < MAX_VALIDATORS) {
            places.push();
        } else {
            place = 0;
            while (_position(pool, Role.Validator, places[place].holder).shares != 0) {
                if (++place == MAX_VALIDATORS) revert ValidatorsFull(pool, MAX_VALIDATORS);
            }
            _isListed[pool][places[place].holder] = false;
        }
        _isListed[pool][provider] = true;
        places[place] = Place({holder: provider, since: uint48(block.number)});
        _holders[pool][place].push(uint48(block.number), uint160(provider));
    }

    /// @dev The list at the end of a block; zero where nobody had a place then.
    function _holdersAt(PoolId pool, uint48 blockNumber) private view returns (address[] memory holders) {
        Place[] storage places = _validators[pool];
        holders = new address[](places.length);
        for (uint256 i = 0; i < holders.length; ++i) {
            Place storage place = places[i];
            holders[i] = place.since <= blockNumber
                ? place.holder
                : address(uint160(_holders[pool][i].upperLookupRecent(blockNumber)));
        }
    }

    /// @dev Counts the named payee of a provider that takes part. Its own address needs no count: its position tells.
    /// So nobody can bar a provider by naming its address first; who judges still compares the payees themselves.
    function _bindPayee(PoolId pool, Role role, address provider) private {
        address payee = _payeeOf[pool][provider];
        if (payee == address(0)) return;
        Role other = _otherRole(role);
        if (_payeeUses[pool][other][payee] != 0 || _position(pool, other, payee).shares != 0) {
            revert PayeeOfOtherRole(pool, payee);
        }
        ++_payeeUses[pool][role][payee];
    }

    function _unbindPayee(PoolId pool, Role role, address provider) private {
        address payee = _payeeOf[pool][provider];
        if (payee != address(0)) --_payeeUses[pool][role][payee];
    }

    /// @dev The end of the window that an offence of now counts in: a new window if the last is over.
    function _openWindow(PoolId pool, Position storage position) private returns (uint64 windowEnd) {
        uint64 time = _timeOf(pool);
        windowEnd = position.windowEnd;
        if (time < windowEnd) return windowEnd;
        windowEnd = time + registry.faultTableOf(pool).slashWindowSeconds;
        position.windowEnd = windowEnd;
        position.slashedBps = 0;
        position.absences = 0;
    }

    /// @dev Counts an offence in its window. Returns what of `bps` the cap leaves, and until when the position is suspended
    /// for reaching it (0 if it does not). An empty position counts nothing: what it had is gone.
    function _countBps(PoolId pool, Position storage position, uint256 bps) private returns (uint256, uint64) {
        if (position.shares == 0) return (0, 0);
        uint64 windowEnd = _openWindow(pool, position);
        uint256 highest = registry.faultTableOf(pool).maxSlashBps;
        uint256 counted = Math.min(bps, highest - position.slashedBps);
        position.slashedBps += uint32(counted);
        return (counted, position.slashedBps == highest ? windowEnd : 0);
    }

    function _takeTokens(PoolId pool, Role role, address provider, uint256 bps) private returns (uint256 amount) {
        Position storage position = _position(pool, role, provider);
        amount = Math.ceilDiv(uint256(position.tokens) * bps, BPS);
        position.tokens -= uint208(amount);
        _held[provider] -= amount;
        if (position.tokens == 0 && position.shares != 0) {
            // Worthless shares would dilute whatever the provider allocates next.
            position.shares = 0;
            position.exitingShares = 0;
            ++position.epoch;
            _unbindPayee(pool, role, provider);
        }
    }

    /// @dev Parts slashed tokens between a beneficiary and the sink. Returns whose idle stake the reward became.
    function _reward(address beneficiary, uint256 amount, uint256 rewardBps)
        private
        returns (address rewarded, uint256 reward)
    {
        if (beneficiary != address(0)) {
            address provider = providerOf(beneficiary);
            rewarded = provider == address(0) ? beneficiary : provider;
            reward = Math.mulDiv(amount, rewardBps, BPS);
            idleOf[rewarded] += reward;
            _held[rewarded] += reward;
        }
        burnable += amount - reward;
    }

    /// @dev Never shortens a suspension.
    function _suspend(PoolId pool, Role role, address provider, uint64 until) private {
        Position storage position = _position(pool, role, provider);
        if (until <= position.suspendedUntil) return;
        position.suspendedUntil = until;
        emit Suspended(pool, role, provider, until);
    }

    /// @dev Records what of a position counts. Returns its tokens that are not leaving, and the pool's minimum.
    function _recordActive(PoolId pool, Role role, address provider, Position storage position)
        private
        returns (uint256 staying, uint256 minimum)
    {
        uint256 shares = position.shares;
        staying = shares == 0 ? 0 : Math.mulDiv(position.tokens, shares - position.exitingShares, shares);
        minimum = role == Role.Worker
            ? registry.workRulesOf(pool).minWorkerStake
            : registry.panelRulesOf(pool).minValidatorStake;
        uint256 active = position.suspendedUntil != 0 || staying < minimum ? 0 : staying;
        Active storage latest = _active[pool][role][provider];
        uint256 before = latest.tokens;
        if (before == active) return (staying, minimum);
        (latest.tokens, latest.since) = (uint208(active), SafeCast.toUint48(block.number));
        _history[pool][role][provider].push(latest.since, uint208(active));
        if (role == Role.Validator && before == 0) ++eligibleValidatorsOf[pool];
        if (role == Role.Validator && active == 0) --eligibleValidatorsOf[pool];
    }

    /// @dev A step that was open when the exit began may still find a fault; after it settles, anyone has the
    /// challenge window to slash. Every phase of a step can be pushed on by anyone, so nobody can hold an exit up.
    function _checkBarrier(ExitId exitId, Exit memory leaving, uint64 time) private view {
        uint32 barrier = leaving.barrier;
        // Steps of the same block count the stake of the block before: it was at work in them.
        while (ledger.isOpenedBy(leaving.pool, barrier, leaving.startBlock)) ++barrier;
        if (barrier == 0) return;
        uint32 settled = ledger.settledCountOf(leaving.pool);
        if (settled < barrier) revert StepsUnsettled(leaving.pool, settled, barrier);
        uint256 until = uint256(ledger.finalizedAtOf(leaving.pool, barrier - 1))
            + registry.windowsOf(leaving.pool).challengeSeconds;
        if (time < until) revert SlashWindowOpen(exitId, until, time);
    }

    /// @dev `latest` is the provider's own: looked up once where many are asked about.
    function _activeAt(Active storage latest, PoolId pool, Role role, address provider, uint48 blockNumber)
        private
        view
        returns (uint256)
    {
        if (latest.since <= blockNumber) return latest.tokens;
        return _history[pool][role][provider].upperLookupRecent(blockNumber);
    }

    function _isBarred(
        PoolId pool,
        address candidate,
        address[][] calldata lists,
        address[] calldata parties
    ) private view returns (bool) {
        for (uint256 i = 0; i < lists.length; ++i) {
            for (uint256 j = 0; j < lists[i].length; ++j) {
                if (candidate == lists[i][j]) return true;
            }
        }
        for (uint256 i = 0; i < parties.length; ++i) {
            if (candidate == parties[i] || payeeOf(pool, candidate) == payeeOf(pool, parties[i])) return true;
        }
        return false;
    }

    function _pastBlock(uint256 blockNumber) private view returns (uint48) {
        if (blockNumber >= block.number) revert BlockNotPast(blockNumber, block.number);
        return SafeCast.toUint48(blockNumber);
    }

    function _timeOf(PoolId pool) private view returns (uint64) {
        return registry.clockOf(pool);
    }

    function _otherRole(Role role) private pure returns (Role) {
        return role == Role.Worker ? Role.Validator : Role.Worker;
    }
}
