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
import {Role} from "./types/Enums.sol";
import {ExitId, PoolId} from "./types/Ids.sol";
import {PoolTerms} from "./types/PoolTerms.sol";

/// @title Custody of stake: idle balances, positions in pools, exits, nodes.
/// @dev A position belongs to one provider and counts shares, so that a slash takes its part of what is leaving too.
/// The price of a share never rises above one token.
contract StakeManager is IStakeManager, EIP712, ReentrancyGuardTransient {
    using SafeERC20 for IERC20;
    using Checkpoints for Checkpoints.Trace208;

    struct Position {
        uint208 tokens;
        uint48 epoch; // counts how often the position was slashed to nothing
        uint256 shares;
        uint256 exitingShares;
    }

    /// @notice Most validators that a pool lists.
    uint256 public constant MAX_VALIDATORS = 64;

    bytes32 private constant NODE_CONSENT_TYPEHASH =
        keccak256("NodeConsent(address node,address provider,uint256 deadline)");
    uint256 private constant BPS = 10_000;

    IERC20 public immutable override stakeToken;
    ISubmissionLedger public immutable ledger;
    IPoolRegistry public immutable registry;
    address public immutable sink;

    uint256 public override totalHeld;
    uint64 public override exitCount;
    mapping(address provider => uint256) public override idleOf;
    mapping(bytes32 offence => bool) public override isSlashed;
    mapping(address provider => uint256) private _held; // idle and in positions
    mapping(address node => address) private _providerOfNode;
    mapping(bytes32 digest => bool) private _consentUsed;
    mapping(PoolId pool => mapping(Role role => mapping(address provider => Position))) private _positions;
    mapping(PoolId pool => mapping(Role role => mapping(address provider => Checkpoints.Trace208))) private _active;
    mapping(PoolId pool => address[]) private _validators;
    mapping(PoolId pool => mapping(address provider => bool)) private _isListed;
    mapping(ExitId exitId => Exit) private _exits;

    constructor(IERC20 stakeToken_, ISubmissionLedger ledger_, IPoolRegistry registry_, address sink_)
        EIP712("Stannary", "1")
    {
        if (
            address(stakeToken_) == address(0) || address(ledger_) == address(0) || address(registry_) == address(0)
                || sink_ == address(0)
        ) revert AddressZero();
        stakeToken = stakeToken_;
        ledger = ledger_;
        registry = registry_;
        sink = sink_;
    }

    /// @inheritdoc IStakeManager
    function deposit(uint256 amount) external override nonReentrant {
        if (amount == 0) revert AmountZero();
        if (_providerOfNode[msg.sender] != address(0)) revert NodeIsProvider(msg.sender);
        idleOf[msg.sender] += amount;
        _held[msg.sender] += amount;
        totalHeld += amount;
        emit Deposited(msg.sender, amount);

        uint256 before = stakeToken.balanceOf(address(this));
        stakeToken.safeTransferFrom(msg.sender, address(this), amount);
        uint256 received = stakeToken.balanceOf(address(this)) - before;
        if (received != amount) revert TransferMismatch(received, amount);
    }

    /// @inheritdoc IStakeManager
    function withdraw(uint256 amount) external override nonReentrant {
        if (amount == 0) revert AmountZero();
        _takeIdle(msg.sender, amount);
        _held[msg.sender] -= amount;
        totalHeld -= amount;
        emit Withdrawn(msg.sender, amount);
        stakeToken.safeTransfer(msg.sender, amount);
    }

    /// @inheritdoc IStakeManager
    function allocate(PoolId pool, Role role, uint256 amount, bytes32 termsHash) external override nonReentrant {
        if (amount == 0) revert AmountZero();
        PoolTerms memory terms = registry.termsOf(pool);
        if (!registry.isOpen(pool)) revert PoolIsClosed(pool);
        bytes32 expected = registry.termsHashOf(pool);
        if (termsHash != expected) revert TermsMismatch(pool, termsHash, expected);
        Role other = role == Role.Worker ? Role.Validator : Role.Worker;
        if (_positions[pool][other][msg.sender].shares != 0) revert OtherRoleHeld(pool, msg.sender, other);

        _takeIdle(msg.sender, amount);
        Position storage position = _positions[pool][role][msg.sender];
        uint256 shares = position.shares == 0 ? amount : Math.mulDiv(amount, position.shares, position.tokens);
        position.tokens += SafeCast.toUint208(amount);
        position.shares += shares;
        if (role == Role.Validator) _list(pool, msg.sender);
        uint256 active = _recordActive(pool, role, msg.sender, position);
        uint256 minimum = role == Role.Worker ? terms.minWorkerStake : terms.minValidatorStake;
        if (active < minimum) revert StakeBelowMinimum(pool, role, active, minimum);
        emit Allocated(pool, role, msg.sender, amount, shares);
    }

    /// @inheritdoc IStakeManager
    function startExit(PoolId pool, Role role, uint256 shares) external override nonReentrant returns (ExitId exitId) {
        if (shares == 0) revert AmountZero();
        Position storage position = _positions[pool][role][msg.sender];
        uint256 available = position.shares - position.exitingShares;
        if (shares > available) revert SharesTooLow(available, shares);

        exitId = ExitId.wrap(++exitCount);
        uint64 releaseAt = uint64(block.timestamp) + registry.termsOf(pool).unbondingSeconds;
        position.exitingShares += shares;
        _exits[exitId] = Exit({
            provider: msg.sender,
            pool: pool,
            role: role,
            releaseAt: releaseAt,
            epoch: position.epoch,
            barrier: ledger.stepCountOf(pool),
            shares: shares
        });
        _recordActive(pool, role, msg.sender, position);
        emit ExitStarted(exitId, pool, role, msg.sender, shares, releaseAt);
    }

    /// @inheritdoc IStakeManager
    function finishExit(ExitId exitId) external override nonReentrant {
        Exit memory leaving = _exits[exitId];
        if (leaving.provider == address(0)) revert UnknownExit(exitId);
        if (block.timestamp < leaving.releaseAt) {
            revert ExitNotReleased(exitId, leaving.releaseAt, block.timestamp);
        }
        _checkBarrier(exitId, leaving);

        delete _exits[exitId];
        Position storage position = _positions[leaving.pool][leaving.role][leaving.provider];
        uint256 amount = 0;
        if (leaving.epoch == position.epoch) {
            amount = Math.mulDiv(leaving.shares, position.tokens, position.shares);
            position.tokens -= uint208(amount);
            position.shares -= leaving.shares;
            position.exitingShares -= leaving.shares;
            idleOf[leaving.provider] += amount;
            _recordActive(leaving.pool, leaving.role, leaving.provider, position);
        }
        emit ExitFinished(exitId, leaving.provider, amount);
    }

    /// @inheritdoc IStakeManager
    function addNode(address node, uint256 deadline, bytes calldata signature) external override nonReentrant {
        if (node == address(0)) revert AddressZero();
        if (block.timestamp > deadline) revert ConsentExpired(deadline, block.timestamp);
        if (_providerOfNode[node] != address(0)) revert NodeTaken(node, _providerOfNode[node]);
        if (node == msg.sender || _held[node] != 0) revert NodeIsProvider(node);
        if (_providerOfNode[msg.sender] != address(0)) revert NodeIsProvider(msg.sender);
        bytes32 digest = consentDigest(node, msg.sender, deadline);
        if (_consentUsed[digest]) revert ConsentUsed(digest);
        if (!SignatureChecker.isValidSignatureNow(node, digest, signature)) revert ConsentInvalid(node, msg.sender);

        _consentUsed[digest] = true;
        _providerOfNode[node] = msg.sender;
        emit NodeAdded(node, msg.sender);
    }

    /// @inheritdoc IStakeManager
    function removeNode(address node) external override {
        address provider = _providerOfNode[node];
        if (provider == address(0) || (msg.sender != provider && msg.sender != node)) {
            revert NotNodeOwner(node, msg.sender);
        }
        delete _providerOfNode[node];
        emit NodeRemoved(node, provider);
    }

    /// @inheritdoc IStakeManager
    function slash(PoolId pool, Role role, address provider, uint256 bps, bytes32 offence)
        external
        override
        nonReentrant
        returns (uint256 amount)
    {
        if (msg.sender != address(ledger)) revert NotLedger(msg.sender);
        if (bps > BPS) revert BpsTooHigh(bps);
        if (isSlashed[offence]) revert OffenceSlashed(offence);
        isSlashed[offence] = true;

        Position storage position = _positions[pool][role][provider];
        amount = Math.ceilDiv(uint256(position.tokens) * bps, BPS);
        position.tokens -= uint208(amount);
        if (position.tokens == 0 && position.shares != 0) {
            // Worthless shares would dilute whatever the provider allocates next.
            position.shares = 0;
            position.exitingShares = 0;
            ++position.epoch;
        }
        _held[provider] -= amount;
        totalHeld -= amount;
        _recordActive(pool, role, provider, position);
        emit Slashed(pool, role, provider, offence, bps, amount);
        if (amount != 0) stakeToken.safeTransfer(sink, amount);
    }

    /// @inheritdoc IStakeManager
    function positionOf(PoolId pool, Role role, address provider)
        external
        view
        override
        returns (uint256 tokens, uint256 shares, uint256 exitingShares)
    {
        Position storage position = _positions[pool][role][provider];
        return (position.tokens, position.shares, position.exitingShares);
    }

    /// @inheritdoc IStakeManager
    function activeStakeOf(PoolId pool, Role role, address provider) external view override returns (uint256) {
        return _active[pool][role][provider].latest();
    }

    /// @inheritdoc IStakeManager
    function activeStakeAt(PoolId pool, Role role, address provider, uint256 blockNumber)
        external
        view
        override
        returns (uint256)
    {
        return _activeAt(pool, role, provider, _pastBlock(blockNumber));
    }

    /// @inheritdoc IStakeManager
    function validatorsOf(PoolId pool) external view override returns (address[] memory) {
        return _validators[pool];
    }

    /// @inheritdoc IStakeManager
    function validatorStakesAt(PoolId pool, uint256 blockNumber)
        external
        view
        override
        returns (address[] memory validators, uint256[] memory stakes)
    {
        uint48 key = _pastBlock(blockNumber);
        validators = _validators[pool];
        stakes = new uint256[](validators.length);
        for (uint256 i = 0; i < validators.length; ++i) {
            stakes[i] = _activeAt(pool, Role.Validator, validators[i], key);
        }
    }

    /// @inheritdoc IStakeManager
    function providerOf(address node) external view override returns (address) {
        address provider = _providerOfNode[node];
        if (provider != address(0)) return provider;
        return _held[node] != 0 ? node : address(0);
    }

    /// @inheritdoc IStakeManager
    function exitOf(ExitId exitId) external view override returns (Exit memory) {
        return _exits[exitId];
    }

    /// @inheritdoc IStakeManager
    function consentDigest(address node, address provider, uint256 deadline) public view override returns (bytes32) {
        return _hashTypedDataV4(keccak256(abi.encode(NODE_CONSENT_TYPEHASH, node, provider, deadline)));
    }

    function _takeIdle(address provider, uint256 amount) private {
        uint256 idle = idleOf[provider];
        if (idle < amount) revert IdleTooLow(provider, idle, amount);
        idleOf[provider] = idle - amount;
    }

    /// @dev A place in a full list passes to a newcomer only from a provider that has left the pool entirely.
    function _list(PoolId pool, address provider) private {
        if (_isListed[pool][provider]) return;
        address[] storage validators = _validators[pool];
        _isListed[pool][provider] = true;
        if (validators.length < MAX_VALIDATORS) {
            validators.push(provider);
            return;
        }
        for (uint256 i = 0; i < MAX_VALIDATORS; ++i) {
            if (_positions[pool][Role.Validator][validators[i]].shares == 0) {
                _isListed[pool][validators[i]] = false;
                validators[i] = provider;
                return;
            }
        }
        revert ValidatorsFull(pool, MAX_VALIDATORS);
    }

    function _recordActive(PoolId pool, Role role, address provider, Position storage position)
        private
        returns (uint256 active)
    {
        uint256 shares = position.shares;
        active = shares == 0 ? 0 : Math.mulDiv(position.tokens, shares - position.exitingShares, shares);
        Checkpoints.Trace208 storage history = _active[pool][role][provider];
        if (history.latest() != active) history.push(SafeCast.toUint48(block.number), uint208(active));
    }

    /// @dev A step that was open when the exit began may still find a fault; after it settles, anyone has the
    /// challenge window to slash. Every phase of a step can be pushed on by anyone, so nobody can hold an exit up.
    function _checkBarrier(ExitId exitId, Exit memory leaving) private view {
        if (leaving.barrier == 0) return;
        uint32 settled = ledger.settledCountOf(leaving.pool);
        if (settled < leaving.barrier) revert StepsUnsettled(leaving.pool, settled, leaving.barrier);
        uint256 until = uint256(ledger.stepOf(leaving.pool, leaving.barrier - 1).finalizedAt)
            + registry.termsOf(leaving.pool).challengeSeconds;
        if (block.timestamp < until) revert SlashWindowOpen(exitId, until, block.timestamp);
    }

    function _activeAt(PoolId pool, Role role, address provider, uint48 blockNumber) private view returns (uint256) {
        return _active[pool][role][provider].upperLookupRecent(blockNumber);
    }

    function _pastBlock(uint256 blockNumber) private view returns (uint48) {
        if (blockNumber >= block.number) revert BlockNotPast(blockNumber, block.number);
        return SafeCast.toUint48(blockNumber);
    }
}
