// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";

import {IPayoutVault} from "./interfaces/IPayoutVault.sol";
import {IPoolRegistry} from "./interfaces/IPoolRegistry.sol";
import {IStakeManager} from "./interfaces/IStakeManager.sol";
import {PoolId} from "./types/Ids.sol";
import {Parts} from "./types/Parts.sol";

/// @title Custody of pool money: escrow, reservations, bonds, earnings.
/// @dev A pool's money is in exactly one of five places: free, locked, reserved for a step, bonded, earned and not
/// claimed. All that ever comes into one pool and is not drained fits 128 bits, so no sum of its money overflows. What
/// was earned and not claimed is kept for each account alone: a sum of it would make each claim dearer. Tokens whose
/// balances change by themselves are not supported.
contract PayoutVault is IPayoutVault, ReentrancyGuardTransient {
    using SafeCast for uint256;
    using SafeERC20 for IERC20;

    struct Escrow {
        uint128 free;
        uint128 locked;
        uint128 reserved;
        uint128 received; // and not drained; beside what often is zero, so that the word never is
        uint128 bonded;
        address token; // that of the terms, kept here from the first funding on
    }

    struct Reservation {
        uint128 remaining;
        uint128 returnable; // the most that may still go back to free: locked money never becomes free
    }

    /// @dev Both only grow, so a provider's word is never cleared and costs little to change.
    struct Earnings {
        uint128 earned;
        uint128 claimed;
    }

    IPoolRegistry public immutable registry;
    IStakeManager public immutable stakes;
    address public immutable ledger;
    address public immutable panel;
    address public immutable court;
    address public immutable plants;
    address public immutable sink;

    mapping(PoolId pool => Escrow) private _escrows;
    mapping(PoolId pool => mapping(uint32 step => Reservation)) private _reservations;
    mapping(PoolId pool => mapping(address provider => Earnings)) private _earnings;

    modifier onlyJudge() {
        if (msg.sender != ledger && msg.sender != panel && msg.sender != court && msg.sender != plants) {
            revert NotJudge(msg.sender);
        }
        _;
    }

    constructor(Parts memory parts) {
        parts.checkParts();
        registry = IPoolRegistry(parts.registry);
        stakes = IStakeManager(parts.stakes);
        ledger = parts.ledger;
        panel = parts.panel;
        court = parts.court;
        plants = parts.plants;
        sink = parts.sink;
    }

    /// @inheritdoc IPayoutVault
    function fund(PoolId pool, uint256 amount) external override nonReentrant {
        if (amount == 0) revert AmountZero();
        if (!registry.isOpen(pool)) revert PoolIsClosed(pool);
        _escrows[pool].free += amount.toUint128();
        emit Funded(pool, msg.sender, amount);
        _pull(pool, msg.sender, amount);
    }

    /// @inheritdoc IPayoutVault
    function drain(PoolId pool, uint256 amount, address to) external override nonReentrant {
        address owner = registry.ownerOf(pool);
        if (msg.sender != owner) revert NotPoolOwner(pool, msg.sender, owner);
        if (to == address(0)) revert AddressZero();
        Escrow storage escrow = _escrows[pool];
        if (amount > escrow.free) revert EscrowTooLow(pool, escrow.free, amount);
        uint128 burned = registry.isOpen(pool) ? 0 : escrow.locked;
        if (amount == 0 && burned == 0) revert AmountZero();

        escrow.free -= uint128(amount);
        escrow.locked -= burned;
        escrow.received -= uint128(amount) + burned;
        if (amount != 0) {
            emit Drained(pool, to, amount);
            _push(pool, to, amount);
        }
        if (burned != 0) {
            emit Burned(pool, burned);
            _push(pool, sink, burned);
        }
    }

    /// @inheritdoc IPayoutVault
    function claim(PoolId pool, address provider) external override nonReentrant returns (uint256 amount) {
        amount = _claim(pool, provider);
        if (amount == 0) revert AmountZero();
    }

    /// @inheritdoc IPayoutVault
    function claimMany(PoolId pool, address[] calldata providers)
        external
        override
        nonReentrant
        returns (uint256 total)
    {
        for (uint256 i = 0; i < providers.length; ++i) total += _claim(pool, providers[i]);
    }

    /// @inheritdoc IPayoutVault
    function reserve(PoolId pool, uint32 step, uint256 amount, uint256 freeAmount) external override onlyJudge {
        Escrow storage escrow = _escrows[pool];
        uint256 fromLockedAtMost = Math.min(amount - freeAmount, escrow.locked);
        uint256 available = escrow.free + fromLockedAtMost;
        if (amount > available) revert EscrowTooLow(pool, available, amount);
        uint128 amount128 = amount.toUint128();
        uint128 fromLocked = uint128(fromLockedAtMost);
        uint128 fromFree = amount128 - fromLocked;
        escrow.locked -= fromLocked;
        escrow.free -= fromFree;
        escrow.reserved += amount128;
        _reservations[pool][step] = Reservation({remaining: amount128, returnable: fromFree});
        emit Reserved(pool, step, fromFree, fromLocked);
    }

    /// @inheritdoc IPayoutVault
    function settle(
        PoolId pool,
        uint32 step,
        address[] calldata providers,
        uint256[] calldata amounts,
        uint256 lockAmount,
        uint256 keepAmount
    ) external override onlyJudge {
        mapping(address provider => Earnings) storage earnings = _earnings[pool];
        uint256 total = 0;
        for (uint256 i = 0; i < providers.length; ++i) {
            uint256 amount = amounts[i];
            if (amount == 0) continue;
            total += amount;
            earnings[providers[i]].earned += uint128(amount); // fits, or _spend refuses the total
        }
        if (total != 0) {
            _spend(pool, step, total);
            emit Settled(pool, step, providers, amounts);
        }
        uint256 rest = _reservations[pool][step].remaining - lockAmount - keepAmount;
        _free(pool, step, lockAmount, rest);
    }

    /// @inheritdoc IPayoutVault
    function pay(PoolId pool, uint32 step, address provider, uint256 amount) external override onlyJudge {
        _pay(pool, step, provider, amount);
    }

    /// @inheritdoc IPayoutVault
    function giveAway(PoolId pool, uint32 step, address account, uint256 amount) external override onlyJudge {
        Reservation storage reservation = _reservations[pool][step];
        reservation.returnable = uint128(Math.saturatingSub(reservation.returnable, amount));
        _pay(pool, step, account, amount);
    }

    /// @inheritdoc IPayoutVault
    function release(PoolId pool, uint32 step, uint256 lockAmount, uint256 releaseAmount)
        external
        override
        onlyJudge
    {
        _free(pool, step, lockAmount, releaseAmount);
    }

    /// @inheritdoc IPayoutVault
    function fine(PoolId pool, uint256 amount) external override onlyJudge {
        Escrow storage escrow = _escrows[pool];
        uint128 fined = uint128(Math.min(amount, escrow.free));
        escrow.free -= fined;
        escrow.locked += fined;
        emit Fined(pool, fined);
    }

    /// @inheritdoc IPayoutVault
    function takeBond(PoolId pool, address from, uint256 amount) external override onlyJudge nonReentrant {
        _escrows[pool].bonded += amount.toUint128();
        emit BondTaken(pool, from, amount);
        _pull(pool, from, amount);
    }

    /// @inheritdoc IPayoutVault
    function spendBond(PoolId pool, address provider, uint256 amount) external override onlyJudge {
        Escrow storage escrow = _escrows[pool];
        escrow.bonded -= amount.toUint128();
        _earnings[pool][provider].earned += uint128(amount);
        emit BondSpent(pool, provider, amount);
    }

    /// @inheritdoc IPayoutVault
    function lockBond(PoolId pool, uint256 amount) external override onlyJudge {
        Escrow storage escrow = _escrows[pool];
        escrow.bonded -= amount.toUint128();
        escrow.locked += uint128(amount);
        emit BondLocked(pool, amount);
    }

    /// @inheritdoc IPayoutVault
    function escrowOf(PoolId pool) external view override returns (uint256 free, uint256 reserved, uint256 locked) {
        Escrow storage escrow = _escrows[pool];
        return (escrow.free, escrow.reserved, escrow.locked);
    }

    /// @inheritdoc IPayoutVault
    function bondedOf(PoolId pool) external view override returns (uint256) {
        return _escrows[pool].bonded;
    }

    /// @inheritdoc IPayoutVault
    function receivedOf(PoolId pool) external view override returns (uint256) {
        return _escrows[pool].received;
    }

    /// @inheritdoc IPayoutVault
    function earningsOf(PoolId pool, address provider)
        external
        view
        override
        returns (uint256 earned, uint256 claimed)
    {
        Earnings storage earnings = _earnings[pool][provider];
        return (earnings.earned, earnings.claimed);
    }

    /// @inheritdoc IPayoutVault
    function reservationOf(PoolId pool, uint32 step) external view override returns (uint256) {
        return _reservations[pool][step].remaining;
    }

    function _pay(PoolId pool, uint32 step, address provider, uint256 amount) private {
        if (amount == 0) return;
        _earnings[pool][provider].earned += uint128(amount); // fits, or _spend refuses it
        _spend(pool, step, amount);
        emit Earned(pool, step, provider, amount);
    }

    /// @dev Takes money that was earned out of a step's reservation.
    function _spend(PoolId pool, uint32 step, uint256 amount) private {
        Reservation storage reservation = _reservations[pool][step];
        uint128 remaining = reservation.remaining - amount.toUint128();
        reservation.remaining = remaining;
        reservation.returnable = uint128(Math.min(reservation.returnable, remaining));
        _escrows[pool].reserved -= uint128(amount);
    }

    function _claim(PoolId pool, address provider) private returns (uint256 amount) {
        Earnings storage earnings = _earnings[pool][provider];
        amount = earnings.earned - earnings.claimed;
        if (amount == 0) return 0;
        address payee = stakes.payeeOf(pool, provider);

        earnings.claimed = earnings.earned;
        emit Claimed(pool, provider, payee, amount);
        _push(pool, payee, amount);
    }

    /// @dev Takes money out of a step's reservation and keeps it in the pool.
    function _free(PoolId pool, uint32 step, uint256 lockAmount, uint256 releaseAmount) private {
        if (lockAmount + releaseAmount == 0) return;
        Reservation storage reservation = _reservations[pool][step];
        uint256 remaining = reservation.remaining - lockAmount;
        uint256 returnable = Math.min(reservation.returnable, remaining);
        uint256 toFree = Math.min(releaseAmount, returnable);
        uint256 toLocked = lockAmount + releaseAmount - toFree;
        remaining -= releaseAmount;
        reservation.remaining = uint128(remaining);
        reservation.returnable = uint128(Math.min(returnable - toFree, remaining));
        Escrow storage escrow = _escrows[pool];
        escrow.reserved -= uint128(lockAmount + releaseAmount);
        escrow.free += uint128(toFree);
        escrow.locked += uint128(toLocked);
        emit Released(pool, step, toFree, toLocked);
    }

    /// @dev The token must move exactly what is asked, or the books would not be covered.
    function _pull(PoolId pool, address from, uint256 amount) private {
        Escrow storage escrow = _escrows[pool];
        escrow.received = (escrow.received + amount).toUint128();
        if (escrow.token == address(0)) escrow.token = registry.partiesOf(pool).payoutToken;
        IERC20 token = IERC20(escrow.token);
        uint256 before = token.balanceOf(address(this));
        token.safeTransferFrom(from, address(this), amount);
        uint256 received = token.balanceOf(address(this)) - before;
        if (received != amount) revert TransferMismatch(received, amount);
    }

    function _push(PoolId pool, address to, uint256 amount) private {
        IERC20(_escrows[pool].token).safeTransfer(to, amount);
    }
}
