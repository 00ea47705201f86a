// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {PoolId} from "../types/Ids.sol";

/// @title Custody of pool money: escrow, reservations, bonds, earnings.
/// @dev A pool's money is in exactly one of five places: free, locked (for later accepted work only), reserved for a
/// step, bonded by a disputant, taker or planter, or earned by a provider and not claimed.
interface IPayoutVault {
    event Funded(PoolId indexed pool, address indexed from, uint256 amount);
    event Drained(PoolId indexed pool, address indexed to, uint256 amount);
    event Burned(PoolId indexed pool, uint256 amount);
    event Reserved(PoolId indexed pool, uint32 indexed step, uint256 fromFree, uint256 fromLocked);
    event Released(PoolId indexed pool, uint32 indexed step, uint256 toFree, uint256 toLocked);
    event Earned(PoolId indexed pool, uint32 indexed step, address indexed provider, uint256 amount);
    event Settled(PoolId indexed pool, uint32 indexed step, address[] providers, uint256[] amounts);
    event Claimed(PoolId indexed pool, address indexed provider, address indexed payee, uint256 amount);
    event Fined(PoolId indexed pool, uint256 amount);
    event BondTaken(PoolId indexed pool, address indexed from, uint256 amount);
    event BondSpent(PoolId indexed pool, address indexed provider, uint256 amount);
    event BondLocked(PoolId indexed pool, uint256 amount);

    /// @notice An amount is zero.
    error AmountZero();

    /// @notice An address is zero.
    error AddressZero();

    /// @notice The token did not move what was asked (it takes a fee, for instance).
    error TransferMismatch(uint256 received, uint256 expected);

    /// @notice The pool takes no more money.
    error PoolIsClosed(PoolId pool);

    /// @notice Only the owner of the pool may do this.
    error NotPoolOwner(PoolId pool, address caller, address owner);

    /// @notice Only a judge may do this: ledger, panel, court, planted faults.
    error NotJudge(address caller);

    /// @notice The escrow that is free for this is less.
    error EscrowTooLow(PoolId pool, uint256 available, uint256 wanted);

    /// @notice Adds money of the caller to a pool. Anyone.
    function fund(PoolId pool, uint256 amount) external;

    /// @notice Takes free money out of a pool. Owner only. Of a closed pool, burns what is locked.
    function drain(PoolId pool, uint256 amount, address to) external;

    /// @notice Sends all that a provider has earned in a pool and not claimed to its payee. Anyone; many steps at once.
    function claim(PoolId pool, address provider) external returns (uint256 amount);

    /// @notice The same for several providers of a pool at once; who has nothing to claim is passed over. Anyone.
    function claimMany(PoolId pool, address[] calldata providers) external returns (uint256 total);

    /// @notice Sets money of a pool aside for a step: `freeAmount` of free money, for the rest locked money first. Only a
    /// judge.
    function reserve(PoolId pool, uint32 step, uint256 amount, uint256 freeAmount) external;

    /// @notice Of a step's reservation: gives each provider its amount, locks one part, keeps another, and releases the
    /// rest. Only a judge.
    function settle(
        PoolId pool,
        uint32 step,
        address[] calldata providers,
        uint256[] calldata amounts,
        uint256 lockAmount,
        uint256 keepAmount
    ) external;

    /// @notice Of a step's reservation, gives one provider an amount. Only a judge.
    function pay(PoolId pool, uint32 step, address provider, uint256 amount) external;

    /// @notice The same for what is no pay for work: it comes out of the money that was free, or locked money could be
    /// turned into an accomplice's. Only a judge.
    function giveAway(PoolId pool, uint32 step, address account, uint256 amount) external;

    /// @notice Of a step's reservation, locks one part and releases another. Only a judge.
    function release(PoolId pool, uint32 step, uint256 lockAmount, uint256 releaseAmount) external;

    /// @notice Locks free money of a pool, as much of `amount` as there is. Only a judge.
    function fine(PoolId pool, uint256 amount) external;

    /// @notice Takes money of `from`, who must have approved it, as a bond. Only a judge.
    function takeBond(PoolId pool, address from, uint256 amount) external;

    /// @notice Gives bonded money to a provider, or back to whoever is named. Only a judge.
    function spendBond(PoolId pool, address provider, uint256 amount) external;

    /// @notice Locks bonded money. Only a judge.
    function lockBond(PoolId pool, uint256 amount) external;

    /// @notice The money of a pool: free, reserved for steps, and locked.
    function escrowOf(PoolId pool) external view returns (uint256 free, uint256 reserved, uint256 locked);

    /// @notice The bonds in a pool, of open disputes, taken slots and plants.
    function bondedOf(PoolId pool) external view returns (uint256);

    /// @notice All that ever came into a pool and was not drained or burned. Less what was claimed, it is what the pool
    /// holds.
    function receivedOf(PoolId pool) external view returns (uint256);

    /// @notice What a provider has earned in a pool, and what of it was claimed.
    function earningsOf(PoolId pool, address provider) external view returns (uint256 earned, uint256 claimed);

    /// @notice What is left of the reservation of a step.
    function reservationOf(PoolId pool, uint32 step) external view returns (uint256);
}
