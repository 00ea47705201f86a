// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";

import {Role} from "../types/Enums.sol";
import {ExitId, PoolId} from "../types/Ids.sol";

/// @title Custody of stake: idle balances, positions in pools, exits, nodes.
interface IStakeManager {
    /// @notice A part of a position that is leaving. Slashable until finished.
    struct Exit {
        address provider;
        PoolId pool;
        Role role;
        uint64 releaseAt; // on the pool's clock, fixed when the exit starts
        uint64 epoch; // of the position; a position slashed to nothing starts a new one
        uint32 barrier; // steps of the pool that had been opened: all must settle first
        uint256 shares;
        uint64 startBlock; // a step opened in it had this stake at work
    }

    event Deposited(address indexed provider, uint256 amount);
    event Withdrawn(address indexed provider, address to, uint256 amount);
    event Allocated(
        PoolId indexed pool, Role indexed role, address indexed provider, uint256 amount, uint256 shares
    );
    event ExitStarted(
        ExitId indexed exitId, PoolId indexed pool, Role role, address indexed provider, uint256 shares, uint64 releaseAt
    );
    event ExitFinished(ExitId indexed exitId, address indexed provider, uint256 amount);
    event NodeAdded(address indexed node, address indexed provider);
    event NodeRemoved(address indexed node, address indexed provider);
    event ControllerOffered(address indexed provider, address indexed to);
    event ControllerChanged(address indexed provider, address indexed controller);
    event PayeeChanged(PoolId indexed pool, address indexed provider, address payee);
    /// @dev `bps` is what the offence carried after the cap of the window; `reward` is the part that was not burned.
    event Slashed(
        PoolId indexed pool,
        Role role,
        address indexed provider,
        bytes32 indexed offence,
        uint256 bps,
        uint256 amount,
        address beneficiary,
        uint256 reward
    );
    event Suspended(PoolId indexed pool, Role role, address indexed provider, uint64 until);
    event Reinstated(PoolId indexed pool, Role role, address indexed provider);
    event AbsenceRecorded(PoolId indexed pool, address indexed provider, uint32 absences);
    event HoldChanged(PoolId indexed pool, Role role, address indexed provider, uint32 holds);
    event Burned(uint256 amount);

    /// @notice An amount or a number of shares is zero.
    error AmountZero();

    /// @notice An address is zero.
    error AddressZero();

    /// @notice The token did not move what was asked (it takes a fee, for instance).
    error TransferMismatch(uint256 received, uint256 expected);

    /// @notice The caller has less idle stake than that.
    error IdleTooLow(address provider, uint256 idle, uint256 wanted);

    /// @notice The pool takes no new stake.
    error PoolIsClosed(PoolId pool);

    /// @notice The caller agreed to other terms than the pool's.
    error TermsMismatch(PoolId pool, bytes32 given, bytes32 expected);

    /// @notice The provider holds the other role in this pool.
    error OtherRoleHeld(PoolId pool, address provider, Role held);

    /// @notice The position would stay below the pool's minimum.
    error StakeBelowMinimum(PoolId pool, Role role, uint256 active, uint256 minimum);

    /// @notice The pool has as many validators as it can hold.
    error ValidatorsFull(PoolId pool, uint256 limit);

    /// @notice The position has fewer shares that are not leaving yet.
    error SharesTooLow(uint256 available, uint256 wanted);

    /// @notice No exit has this number, or it is finished.
    error UnknownExit(ExitId exitId);

    /// @notice The exit is not due.
    error ExitNotReleased(ExitId exitId, uint256 releaseAt, uint256 time);

    /// @notice A step opened before the exit began has not settled: the stake may still be slashed for it.
    error StepsUnsettled(PoolId pool, uint32 settled, uint32 barrier);

    /// @notice The last step that the exit waited for settled too recently: its faults may still be slashed.
    error SlashWindowOpen(ExitId exitId, uint256 until, uint256 time);

    /// @notice A dispute about the position is open: it may still be slashed.
    error PositionHeld(PoolId pool, Role role, address provider, uint32 holds);

    /// @notice The position is not held.
    error PositionNotHeld(PoolId pool, Role role, address provider);

    /// @notice The position is suspended: it takes no part until it is reinstated.
    error PositionSuspended(PoolId pool, Role role, address provider, uint64 until);

    /// @notice The position is not suspended.
    error PositionNotSuspended(PoolId pool, Role role, address provider);

    /// @notice The payee is paid for the other role in this pool: who judges must not share a purse with the judged.
    error PayeeOfOtherRole(PoolId pool, address payee);

    /// @notice The provider has no stake in this pool.
    error NoPosition(PoolId pool, address provider);

    /// @notice The provider's controller is another account.
    error NotController(address provider, address caller, address controller);

    /// @notice Control of the provider was offered to another account, or to none.
    error NotOfferedController(address provider, address caller, address offered);

    /// @notice The account controls a provider already, or is one, or is a node.
    error ControllerTaken(address account);

    /// @notice The node serves a provider already.
    error NodeTaken(address node, address provider);

    /// @notice A provider with stake of its own cannot be a node, nor a node hold stake or nodes.
    error NodeIsProvider(address account);

    /// @notice The node's consent is past its deadline.
    error ConsentExpired(uint256 deadline, uint256 time);

    /// @notice The signature is not the node's over this consent.
    error ConsentInvalid(address node, address provider);

    /// @notice The consent was used before. A new one needs another deadline.
    error ConsentUsed(bytes32 digest);

    /// @notice The caller is neither the node nor its provider.
    error NotNodeOwner(address node, address caller);

    /// @notice Only a judge may do this: the panel, the court, the planted faults; for some calls only one of them.
    error NotJudge(address caller);

    /// @notice More than all of a position.
    error BpsTooHigh(uint256 bps);

    /// @notice The offence was punished before.
    error OffenceSlashed(bytes32 offence);

    /// @notice Stakes of this block are not settled yet.
    error BlockNotPast(uint256 blockNumber, uint256 current);

    /// @notice Moves stake tokens of the caller in, as idle stake of the provider that the caller is or controls.
    function deposit(uint256 amount) external;

    /// @notice Moves idle stake of the caller's provider out, to the caller.
    function withdraw(uint256 amount) external;

    /// @notice Puts idle stake of the caller's provider to work in a pool, under the terms with that hash.
    function allocate(PoolId pool, Role role, uint256 amount, bytes32 termsHash) external;

    /// @notice Starts to take shares of a position out. They count for nothing from now on but stay slashable.
    function startExit(PoolId pool, Role role, uint256 shares) external returns (ExitId exitId);

    /// @notice Turns a due exit into idle stake of its provider. Anyone may call.
    function finishExit(ExitId exitId) external;

    /// @notice Makes `node` act for the caller's provider. `signature` is the node's EIP-712 NodeConsent for that provider.
    /// A provider may have several nodes at once, so that keys rotate with overlap.
    function addNode(address node, uint256 deadline, bytes calldata signature) external;

    /// @notice Ends a node's service. Its provider's controller or the node itself may call.
    function removeNode(address node) external;

    /// @notice Offers control of the caller's provider to another key; zero takes the offer back. The provider keeps its
    /// address, stake, nodes and payouts.
    function offerController(address to) external;

    /// @notice Takes control of a provider that was offered to the caller. The old key then has none.
    function acceptController(address provider) external;

    /// @notice Names the account that payouts of the caller's provider in a pool go to.
    function setPayee(PoolId pool, address payee) external;

    /// @notice Ends a suspension that is over. Anyone may call.
    function reinstate(PoolId pool, Role role, address provider) external;

    /// @notice Sends all slashed stake that was not rewarded to the sink. Anyone may call.
    function burnSlashed() external returns (uint256 amount);

    /// @notice Takes a part of a position, rounded up and within the pool's cap of the window; once for each offence.
    /// `rewardBps` of it becomes idle stake of `beneficiary` (none if zero), the rest is burned. Never fails for want of
    /// stake. Only a judge.
    function slash(
        PoolId pool,
        Role role,
        address provider,
        uint256 bps,
        bytes32 offence,
        address beneficiary,
        uint256 rewardBps
    ) external returns (uint256 amount);

    /// @notice Keeps every exit of a position from finishing while a dispute about it is open. Only the court.
    function hold(PoolId pool, Role role, address provider) external;

    /// @notice Ends one hold. Only the court.
    function unhold(PoolId pool, Role role, address provider) external;

    /// @notice Notes that a validator abstained where the others decided. After the pool's number of absences within one
    /// slash window it is suspended until that window ends. Never fails for want of a position. Only the panel.
    function recordAbsence(PoolId pool, address provider) external;

    /// @notice Stake that is in no pool.
    function idleOf(address provider) external view returns (uint256);

    /// @notice A position: its tokens, all its shares, and those of them that are leaving.
    function positionOf(PoolId pool, Role role, address provider)
        external
        view
        returns (uint256 tokens, uint256 shares, uint256 exitingShares);

    /// @notice How a position stands: until when it is suspended (0 if it is not), the bps slashed and the
    /// absences in the current window, and open disputes about it.
    function standingOf(PoolId pool, Role role, address provider)
        external
        view
        returns (uint64 suspendedUntil, uint32 slashedBps, uint32 absences, uint32 holds);

    /// @notice Tokens of a position that count: not leaving, not suspended, and not below the pool's minimum.
    function activeStakeOf(PoolId pool, Role role, address provider) external view returns (uint256);

    /// @notice The same at the end of a past block.
    function activeStakeAt(PoolId pool, Role role, address provider, uint256 blockNumber)
        external
        view
        returns (uint256);

    /// @notice The same of many providers.
    function activeStakesAt(PoolId pool, Role role, address[] calldata providers, uint256 blockNumber)
        external
        view
        returns (uint256[] memory stakes);

    /// @notice Number of validators of a pool whose active stake is not zero.
    function eligibleValidatorsOf(PoolId pool) external view returns (uint256);

    /// @notice Providers with a validator position, in order of first allocation; in a full list a newcomer takes the
    /// place of one that has left.
    function validatorsOf(PoolId pool) external view returns (address[] memory);

    /// @notice The same at the end of a past block, with their active stakes then; zero for a place that nobody had.
    function validatorStakesAt(PoolId pool, uint256 blockNumber)
        external
        view
        returns (address[] memory validators, uint256[] memory stakes);

    /// @notice Who of the list of validators at the end of a past block, a bit a place, is in one of the `lists`, is one
    /// of the `parties`, shares a payee with one, or has no stake left to answer with.
    function barredOf(PoolId pool, uint256 blockNumber, address[][] calldata lists, address[] calldata parties)
        external
        view
        returns (uint64 barred);

    /// @notice Draws up to `size` validators by their active stakes at the end of a past block, none of the `barred`.
    /// Fewer only when fewer can be drawn.
    /// @dev List and stakes are those of that block, so only `barred` can change a draw: whoever bars must do it before
    /// the beacon is known.
    function drawValidators(PoolId pool, uint256 blockNumber, bytes32 beacon, uint256 size, uint64 barred)
        external
        view
        returns (address[] memory drawn);

    /// @notice The provider that an account acts for: a node's, a controller's, itself if it holds stake, else zero.
    function providerOf(address account) external view returns (address);

    /// @notice The key that controls a provider: its own until control was handed on.
    function controllerOf(address provider) external view returns (address);

    /// @notice Where payouts of a provider in a pool go: itself until it named another.
    function payeeOf(PoolId pool, address provider) external view returns (address);

    /// @notice A pending exit; all zero if there is none.
    function exitOf(ExitId exitId) external view returns (Exit memory);

    /// @notice Number of exits started; the highest exit number.
    function exitCount() external view returns (uint64);

    /// @notice Whether an offence was punished.
    function isSlashed(bytes32 offence) external view returns (bool);

    /// @notice What a node signs to serve a provider.
    function consentDigest(address node, address provider, uint256 deadline) external view returns (bytes32);

    /// @notice The token that is staked.
    function stakeToken() external view returns (IERC20);

    /// @notice Slashed stake that waits to be burned.
    function burnable() external view returns (uint256);

    /// @notice Sum of all idle stake, positions and slashed stake not burned yet. The token balance is never less.
    function totalHeld() external view returns (uint256);
}
