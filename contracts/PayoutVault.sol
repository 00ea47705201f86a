// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {BitMaps} from "@openzeppelin/contracts/utils/structs/BitMaps.sol";

import {IPayoutVault} from "./interfaces/IPayoutVault.sol";
import {IPoolRegistry} from "./interfaces/IPoolRegistry.sol";
import {ISubmissionLedger} from "./interfaces/ISubmissionLedger.sol";
import {MerkleIndex} from "./libraries/MerkleIndex.sol";
import {Outcomes} from "./libraries/Outcomes.sol";
import {Pricing} from "./libraries/Pricing.sol";
import {SubmissionHash} from "./libraries/SubmissionHash.sol";
import {Outcome, Phase} from "./types/Enums.sol";
import {PoolId} from "./types/Ids.sol";
import {PoolTerms} from "./types/PoolTerms.sol";
import {StepState} from "./types/StepState.sol";
import {LeafOpening, Submission} from "./types/Submission.sol";

/// @title Custody of pool money: escrow, reservations, payouts.
/// @dev A pool's money is in exactly one of three places: free, reserved for a step, locked. Tokens whose balances
/// change by themselves are not supported.
contract PayoutVault is IPayoutVault, ReentrancyGuardTransient {
    using BitMaps for BitMaps.BitMap;
    using SafeERC20 for IERC20;
    using SubmissionHash for Submission;

    struct Escrow {
        uint256 free;
        uint256 reserved;
        uint256 locked;
    }

    struct Reservation {
        uint256 remaining;
        uint256 returnable; // the most that may still go back to free: locked money never becomes free
    }

    /// @dev What a claim needs to know of its step, read once.
    struct StepContext {
        StepState state;
        PoolTerms terms;
        uint256[] outcomes;
        uint256 cap;
    }

    IPoolRegistry public immutable registry;
    ISubmissionLedger public immutable ledger;
    address public immutable sink;

    mapping(address token => uint256) public override tokenLiabilityOf;
    mapping(PoolId pool => mapping(uint32 step => mapping(address provider => bool))) public override isFeePaid;
    mapping(PoolId pool => Escrow) private _escrows;
    mapping(PoolId pool => mapping(uint32 step => Reservation)) private _reservations;
    mapping(PoolId pool => mapping(uint32 step => BitMaps.BitMap)) private _paidSlots;
    mapping(PoolId pool => mapping(uint32 step => BitMaps.BitMap)) private _settledLeaves;

    modifier onlyLedger() {
        if (msg.sender != address(ledger)) revert NotLedger(msg.sender);
        _;
    }

    constructor(IPoolRegistry registry_, ISubmissionLedger ledger_, address sink_) {
        if (address(registry_) == address(0) || address(ledger_) == address(0) || sink_ == address(0)) {
            revert AddressZero();
        }
        registry = registry_;
        ledger = ledger_;
        sink = sink_;
    }

    /// @inheritdoc IPayoutVault
    function fund(PoolId pool, uint256 amount) external override nonReentrant {
        if (amount == 0) revert AmountZero();
        IERC20 token = IERC20(registry.termsOf(pool).payoutToken);
        if (!registry.isOpen(pool)) revert PoolIsClosed(pool);
        _escrows[pool].free += amount;
        tokenLiabilityOf[address(token)] += amount;
        emit Funded(pool, msg.sender, amount);

        uint256 before = token.balanceOf(address(this));
        token.safeTransferFrom(msg.sender, address(this), amount);
        uint256 received = token.balanceOf(address(this)) - before;
        if (received != amount) revert TransferMismatch(received, amount);
    }

    /// @inheritdoc IPayoutVault
    function drain(PoolId pool, uint256 amount, address to) external override nonReentrant {
        address owner = registry.ownerOf(pool);
        if (msg.sender != owner) revert NotPoolOwner(pool, msg.sender, owner);
        if (to == address(0)) revert AddressZero();
        IERC20 token = IERC20(registry.termsOf(pool).payoutToken);
        Escrow storage escrow = _escrows[pool];
        if (amount > escrow.free) revert EscrowTooLow(pool, escrow.free, amount);
        uint256 burned = registry.isOpen(pool) ? 0 : escrow.locked;
        if (amount == 0 && burned == 0) revert AmountZero();

        escrow.free -= amount;
        escrow.locked -= burned;
        tokenLiabilityOf[address(token)] -= amount + burned;
        if (amount != 0) {
            emit Drained(pool, to, amount);
            token.safeTransfer(to, amount);
        }
        if (burned != 0) {
            emit Burned(pool, burned);
            token.safeTransfer(sink, burned);
        }
    }

    /// @inheritdoc IPayoutVault
    function reserve(PoolId pool, uint32 step, uint256 amount) external override onlyLedger {
        Escrow storage escrow = _escrows[pool];
        if (amount > escrow.free + escrow.locked) revert EscrowTooLow(pool, escrow.free + escrow.locked, amount);
        uint256 fromLocked = Math.min(amount, escrow.locked);
        uint256 fromFree = amount - fromLocked;
        escrow.locked -= fromLocked;
        escrow.free -= fromFree;
        escrow.reserved += amount;
        _reservations[pool][step] = Reservation({remaining: amount, returnable: fromFree});
        emit Reserved(pool, step, fromFree, fromLocked);
    }

    /// @inheritdoc IPayoutVault
    function settle(PoolId pool, uint32 step, uint256 lockAmount, uint256 releaseAmount) external override onlyLedger {
        _free(pool, step, lockAmount, releaseAmount);
    }

    /// @inheritdoc IPayoutVault
    function claim(PoolId pool, uint32 step, LeafOpening[] calldata openings) external override nonReentrant {
        StepContext memory context = _finalized(pool, step);
        uint256[] memory amounts = new uint256[](openings.length);
        uint256 total = 0;
        for (uint256 i = 0; i < openings.length; ++i) {
            amounts[i] = _payable(pool, step, openings[i], context);
            total += amounts[i];
        }
        _pay(pool, step, context.terms.payoutToken, total);
        _free(pool, step, 0, openings.length * context.cap - total);

        // Leaves are in order of provider, so one transfer mostly serves many.
        IERC20 token = IERC20(context.terms.payoutToken);
        uint256 due = 0;
        for (uint256 i = 0; i < openings.length; ++i) {
            address provider = openings[i].leaf.provider;
            due += amounts[i];
            if (i + 1 == openings.length || openings[i + 1].leaf.provider != provider) {
                token.safeTransfer(provider, due);
                due = 0;
            }
        }
    }

    /// @inheritdoc IPayoutVault
    function forfeit(PoolId pool, uint32 step, LeafOpening calldata opening) external override {
        StepContext memory context = _finalized(pool, step);
        Submission calldata leaf = opening.leaf;
        _checkAccepted(opening, context);
        if (
            leaf.pool == pool && leaf.step == step && leaf.slot < context.state.slots && leaf.provider != address(0)
                && !_paidSlots[pool][step].get(leaf.slot)
        ) revert LeafPayable(opening.index);
        _settleLeaf(pool, step, opening.index);
        _free(pool, step, context.cap, 0);
    }

    /// @inheritdoc IPayoutVault
    function claimFee(PoolId pool, uint32 step, address provider) external override nonReentrant {
        Phase phase = ledger.stepOf(pool, step).phase;
        if (phase != Phase.Finalized) revert StepNotFinalized(pool, step, phase);
        if (!ledger.hasVoted(pool, step, provider)) revert NotVoted(pool, step, provider);
        if (isFeePaid[pool][step][provider]) revert FeeAlreadyPaid(pool, step, provider);
        isFeePaid[pool][step][provider] = true;

        PoolTerms memory terms = registry.termsOf(pool);
        _pay(pool, step, terms.payoutToken, terms.panelFee);
        emit FeeClaimed(pool, step, provider, terms.panelFee);
        IERC20(terms.payoutToken).safeTransfer(provider, terms.panelFee);
    }

    /// @inheritdoc IPayoutVault
    function escrowOf(PoolId pool) external view override returns (uint256 free, uint256 reserved, uint256 locked) {
        Escrow storage escrow = _escrows[pool];
        return (escrow.free, escrow.reserved, escrow.locked);
    }

    /// @inheritdoc IPayoutVault
    function reservationOf(PoolId pool, uint32 step) external view override returns (uint256) {
        return _reservations[pool][step].remaining;
    }

    /// @inheritdoc IPayoutVault
    function isSlotPaid(PoolId pool, uint32 step, uint32 slot) external view override returns (bool) {
        return _paidSlots[pool][step].get(slot);
    }

    /// @dev Marks a leaf and its slot as paid, and says how much.
    function _payable(PoolId pool, uint32 step, LeafOpening calldata opening, StepContext memory context)
        private
        returns (uint256 amount)
    {
        Submission calldata leaf = opening.leaf;
        if (leaf.pool != pool || leaf.step != step) revert LeafOfOtherStep(pool, step, leaf.pool, leaf.step);
        if (leaf.slot >= context.state.slots) revert SlotOutOfRange(leaf.slot, context.state.slots);
        _checkAccepted(opening, context);
        BitMaps.BitMap storage paid = _paidSlots[pool][step];
        if (paid.get(leaf.slot)) revert SlotAlreadyPaid(pool, step, leaf.slot);
        paid.set(leaf.slot);
        _settleLeaf(pool, step, opening.index);
        amount = Pricing.payout(context.terms, leaf.units);
        emit Claimed(pool, step, leaf.slot, leaf.provider, leaf.units, amount);
    }

    function _settleLeaf(PoolId pool, uint32 step, uint32 index) private {
        BitMaps.BitMap storage settled = _settledLeaves[pool][step];
        if (settled.get(index)) revert LeafSettled(pool, step, index);
        settled.set(index);
    }

    /// @dev Takes money out of a step's reservation and of the vault's books.
    function _pay(PoolId pool, uint32 step, address token, uint256 amount) private {
        Reservation storage reservation = _reservations[pool][step];
        reservation.remaining -= amount;
        reservation.returnable = Math.min(reservation.returnable, reservation.remaining);
        _escrows[pool].reserved -= amount;
        tokenLiabilityOf[token] -= amount;
    }

    /// @dev Takes money out of a step's reservation and keeps it in the pool.
    function _free(PoolId pool, uint32 step, uint256 lockAmount, uint256 releaseAmount) private {
        if (lockAmount + releaseAmount == 0) return;
        Reservation storage reservation = _reservations[pool][step];
        uint256 remaining = reservation.remaining - lockAmount;
        uint256 returnable = Math.min(reservation.returnable, remaining);
        uint256 toFree = Math.min(releaseAmount, returnable);
        uint256 toLocked = lockAmount + releaseAmount - toFree;
        reservation.remaining = remaining - releaseAmount;
        reservation.returnable = Math.min(returnable - toFree, reservation.remaining);
        Escrow storage escrow = _escrows[pool];
        escrow.reserved -= lockAmount + releaseAmount;
        escrow.free += toFree;
        escrow.locked += toLocked;
        emit Released(pool, step, toFree, toLocked);
    }

    function _finalized(PoolId pool, uint32 step) private view returns (StepContext memory context) {
        context.state = ledger.stepOf(pool, step);
        if (context.state.phase != Phase.Finalized) revert StepNotFinalized(pool, step, context.state.phase);
        context.terms = registry.termsOf(pool);
        context.outcomes = ledger.outcomesOf(pool, step);
        context.cap = Pricing.slotCap(context.terms);
    }

    function _checkAccepted(LeafOpening calldata opening, StepContext memory context) private pure {
        bytes32 hashOfLeaf = opening.leaf.hash();
        StepState memory state = context.state;
        if (!MerkleIndex.verify(state.submissionRoot, hashOfLeaf, opening.index, state.leafCount, opening.proof)) {
            revert LeafNotCommitted(hashOfLeaf, opening.index);
        }
        Outcome outcome = Outcomes.outcomeAt(context.outcomes, opening.index);
        if (outcome != Outcome.Accept) revert LeafNotAccepted(opening.index, outcome);
    }
}
