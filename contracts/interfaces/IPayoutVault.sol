// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Outcome, Phase} from "../types/Enums.sol";
import {PoolId} from "../types/Ids.sol";
import {LeafOpening} from "../types/Submission.sol";

/// @title Custody of pool money: escrow, reservations, payouts.
interface IPayoutVault {
    event Funded(PoolId indexed pool, address indexed from, uint256 amount);
    event Drained(PoolId indexed pool, address indexed to, uint256 amount);
    event Burned(PoolId indexed pool, uint256 amount);
    event Reserved(PoolId indexed pool, uint32 indexed step, uint256 fromFree, uint256 fromLocked);
    event Released(PoolId indexed pool, uint32 indexed step, uint256 toFree, uint256 toLocked);
    event Claimed(
        PoolId indexed pool, uint32 indexed step, uint32 slot, address indexed provider, uint32 units, uint256 amount
    );
    event FeeClaimed(PoolId indexed pool, uint32 indexed step, address indexed provider, uint256 amount);

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

    /// @notice Only the submission ledger may do this.
    error NotLedger(address caller);

    /// @notice The escrow that is free for this is less.
    error EscrowTooLow(PoolId pool, uint256 available, uint256 wanted);

    /// @notice The step is not finalized.
    error StepNotFinalized(PoolId pool, uint32 step, Phase phase);

    /// @notice The opened leaf belongs to another pool or step.
    error LeafOfOtherStep(PoolId pool, uint32 step, PoolId leafPool, uint32 leafStep);

    /// @notice The leaf is not in the committed tree at that index.
    error LeafNotCommitted(bytes32 leafHash, uint32 index);

    /// @notice The panel did not accept this leaf.
    error LeafNotAccepted(uint32 index, Outcome outcome);

    /// @notice The slot is none of the step's.
    error SlotOutOfRange(uint32 slot, uint32 slots);

    /// @notice The slot was paid already.
    error SlotAlreadyPaid(PoolId pool, uint32 step, uint32 slot);

    /// @notice The leaf can be claimed, so it cannot be forfeited.
    error LeafPayable(uint32 index);

    /// @notice The leaf was paid or forfeited already.
    error LeafSettled(PoolId pool, uint32 step, uint32 index);

    /// @notice The provider did not vote in this step.
    error NotVoted(PoolId pool, uint32 step, address provider);

    /// @notice The fee was paid already.
    error FeeAlreadyPaid(PoolId pool, uint32 step, address provider);

    /// @notice Adds money of the caller to a pool. Anyone.
    function fund(PoolId pool, uint256 amount) external;

    /// @notice Takes free money out of a pool. Owner only. Of a closed pool, burns what is locked.
    function drain(PoolId pool, uint256 amount, address to) external;

    /// @notice Sets money of a pool aside for a step, locked money first. Only the ledger.
    function reserve(PoolId pool, uint32 step, uint256 amount) external;

    /// @notice Of a step's reservation, locks one part and releases another. Only the ledger.
    function settle(PoolId pool, uint32 step, uint256 lockAmount, uint256 releaseAmount) external;

    /// @notice Pays accepted leaves of a finalized step to their providers. Anyone; all or nothing.
    function claim(PoolId pool, uint32 step, LeafOpening[] calldata openings) external;

    /// @notice Locks the money of an accepted leaf that can never be paid: a second one of its slot, or one that names
    /// a slot, step or provider that cannot be. Anyone.
    function forfeit(PoolId pool, uint32 step, LeafOpening calldata opening) external;

    /// @notice Pays a panel member that voted. Anyone.
    function claimFee(PoolId pool, uint32 step, address provider) external;

    /// @notice The money of a pool: free, reserved for steps, and locked (for later accepted work only).
    function escrowOf(PoolId pool) external view returns (uint256 free, uint256 reserved, uint256 locked);

    /// @notice What is left of the reservation of a step.
    function reservationOf(PoolId pool, uint32 step) external view returns (uint256);

    /// @notice Sum over all pools of a token. The token balance is never less.
    function tokenLiabilityOf(address token) external view returns (uint256);

    /// @notice Whether a slot was paid.
    function isSlotPaid(PoolId pool, uint32 step, uint32 slot) external view returns (bool);

    /// @notice Whether a panel member was paid.
    function isFeePaid(PoolId pool, uint32 step, address provider) external view returns (bool);
}
