// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {PoolId} from "../types/Ids.sol";
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
} from "../types/PoolTerms.sol";

/// @title Pools: their frozen terms, their offers, their clocks.
/// @dev Terms never change but for the offer. An offer is announced, waits for its notice, and holds for steps opened
/// afterwards; each step keeps the one under which it was opened, so keys rotate with overlap.
/// The views that a step asks again and again spare the question whether the pool exists: for one that does not, they
/// answer zero, and the chain's time as its clock.
interface IPoolRegistry {
    event PoolCreated(PoolId indexed pool, address indexed owner, bytes32 indexed termsHash, PoolTerms terms);
    event PoolClosed(PoolId indexed pool);
    event OwnershipOffered(PoolId indexed pool, address indexed to);
    event OwnershipAccepted(PoolId indexed pool, address indexed owner);
    event OfferAnnounced(PoolId indexed pool, uint32 indexed number, Offer offer, uint64 effectiveAt);
    event OfferWithdrawn(PoolId indexed pool, uint32 indexed number);
    event CardAttested(PoolId indexed pool, bytes32 indexed cardHash, address indexed provider);
    event Paused(PoolId indexed pool, uint64 since, uint64 until);
    event Unpaused(PoolId indexed pool, uint64 clock);

    /// @notice No pool has this number.
    error UnknownPool(PoolId pool);

    /// @notice The pool has no offer with this number in force.
    error UnknownOffer(PoolId pool, uint32 number);

    /// @notice Only the owner of the pool may do this.
    error NotPoolOwner(PoolId pool, address caller, address owner);

    /// @notice Ownership was offered to another account, or to none.
    error NotOfferedOwner(PoolId pool, address caller, address offered);

    /// @notice The pool is closed already.
    error PoolAlreadyClosed(PoolId pool);

    /// @notice An address of the terms is zero.
    error TermAddressZero(bytes32 term);

    /// @notice A number of the terms is out of its range. `term` is its name in ASCII.
    error TermOutOfRange(bytes32 term, uint256 value, uint256 lowest, uint256 highest);

    /// @notice A stake could leave before the work done under it is judged.
    error UnbondingTooShort(uint256 unbondingSeconds, uint256 lowest);

    /// @notice Whoever pauses must not be able to unpause.
    error PauserUnpauses(address account);

    /// @notice The caller may not do this to the pool's clock.
    error NotPauser(PoolId pool, address caller, address expected);

    /// @notice The pool's clock stands already.
    error PoolIsPaused(PoolId pool);

    /// @notice The pool's clock runs.
    error PoolNotPaused(PoolId pool);

    /// @notice The pool stood for as long as it may.
    error PauseSpent(PoolId pool, uint256 again);

    /// @notice The caller acts for no validator with stake in the draw.
    error NotValidator(PoolId pool, address caller);

    /// @notice The validator attested this card before.
    error AlreadyAttested(PoolId pool, bytes32 cardHash, address provider);

    /// @notice Opens a pool owned by the caller.
    function createPool(PoolTerms calldata terms) external returns (PoolId pool);

    /// @notice Ends a pool: no new step, stake, policy or money. Steps in flight finish under its terms.
    function closePool(PoolId pool) external;

    /// @notice Offers a pool to another owner; zero takes the offer back. Owner only.
    function offerOwnership(PoolId pool, address to) external;

    /// @notice Takes a pool that was offered to the caller.
    function acceptOwnership(PoolId pool) external;

    /// @notice Announces the next offer; one that has not come into force is replaced and its notice starts anew.
    /// Owner only. An offer with another card comes into force only once validators with more than half of the stake
    /// in the draw have attested that card.
    function announceOffer(PoolId pool, Offer calldata offer) external;

    /// @notice Takes back an offer that has not come into force. Owner only.
    function withdrawOffer(PoolId pool) external;

    /// @notice Puts an offer that is due into force, and returns the number of the one in force. Anyone.
    function currentOffer(PoolId pool) external returns (uint32 number);

    /// @notice The same, with all that a step is opened under. Anyone.
    function opening(PoolId pool) external returns (Opening memory);

    /// @notice Says that the caller, a validator of the pool or its node, measured the honest drift that a card states.
    function attestCard(PoolId pool, bytes32 cardHash) external;

    /// @notice Stops the pool's clock: no new step and no new lease; every window and release waits. Pauser only; at most
    /// `MAX_PAUSE_SECONDS` in any `PAUSE_PERIOD_SECONDS`, after which the clock runs by itself.
    function pause(PoolId pool) external;

    /// @notice Lets the pool's clock run again. Unpauser only.
    function unpause(PoolId pool) external;

    /// @notice The terms of a pool as it was created.
    function termsOf(PoolId pool) external view returns (PoolTerms memory);

    /// @notice keccak256(abi.encode(terms)) as it was created: what a provider agrees to when it allocates stake.
    function termsHashOf(PoolId pool) external view returns (bytes32);

    /// @notice The number of the offer in force for a step opened now.
    function offerNumberOf(PoolId pool) external view returns (uint32);

    /// @notice An offer that is or was in force. Number 0 is that of the terms.
    function offerOf(PoolId pool, uint32 number) external view returns (Offer memory);

    /// @notice Who publishes policies and opens steps under an offer; of one that never was in force, what it says.
    function trainerOf(PoolId pool, uint32 number) external view returns (address);

    /// @notice Who signs leases and commits roots under an offer, likewise.
    function coordinatorOf(PoolId pool, uint32 number) external view returns (address);

    /// @notice What a step pays that is opened under an offer, likewise.
    function ratesOf(PoolId pool, uint32 number) external view returns (Rates memory);

    /// @notice The offer that waits for its notice or its attestations; all zero if none does.
    function pendingOfferOf(PoolId pool) external view returns (Offer memory offer, uint64 effectiveAt, bool isAttested);

    /// @notice Token, pauser, unpauser and notice.
    function partiesOf(PoolId pool) external view returns (Parties memory);

    /// @notice What the pool pays beside payouts.
    function feesOf(PoolId pool) external view returns (Fees memory);

    /// @notice What is work.
    function workRulesOf(PoolId pool) external view returns (WorkRules memory);

    /// @notice Who judges.
    function panelRulesOf(PoolId pool) external view returns (PanelRules memory);

    /// @notice How long everything takes.
    function windowsOf(PoolId pool) external view returns (Windows memory);

    /// @notice The pool's clock, and how long everything takes on it.
    function timesOf(PoolId pool) external view returns (uint48 time, Windows memory windows);

    /// @notice What is slashed for what.
    function faultTableOf(PoolId pool) external view returns (FaultTable memory);

    /// @notice Who may drain and close a pool.
    function ownerOf(PoolId pool) external view returns (address);

    /// @notice Whether the pool exists and is not closed.
    function isOpen(PoolId pool) external view returns (bool);

    /// @notice Whether the pool's clock stands.
    function isPaused(PoolId pool) external view returns (bool);

    /// @notice The pool's clock: unix seconds less all the time for which it stood.
    function clockOf(PoolId pool) external view returns (uint64);

    /// @notice Number of pools created; the highest pool number.
    function poolCount() external view returns (uint64);
}
