// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {MockToken} from "../../contracts/MockToken.sol";
import {PayoutVault} from "../../contracts/PayoutVault.sol";
import {StakeManager} from "../../contracts/StakeManager.sol";
import {SubmissionLedger} from "../../contracts/SubmissionLedger.sol";
import {Phase, Role} from "../../contracts/types/Enums.sol";
import {PoolId} from "../../contracts/types/Ids.sol";
import {StepState} from "../../contracts/types/StepState.sol";
import {Handler} from "./support/Handler.sol";

/// @dev What holds after any sequence of moves.
contract InvariantsTest {
    PoolId internal constant POOL = PoolId.wrap(1);
    uint256 internal constant CHALLENGE_SECONDS = 30;

    Handler internal handler;
    MockToken internal token;
    StakeManager internal stakes;
    SubmissionLedger internal ledger;
    PayoutVault internal vault;
    address[] internal workers;
    address[] internal validators;

    function setUp() external {
        handler = new Handler();
        handler.setUp();
        address t;
        address s;
        address l;
        address v;
        (t, s, l, v, workers, validators) = handler.chain();
        token = MockToken(t);
        stakes = StakeManager(s);
        ledger = SubmissionLedger(l);
        vault = PayoutVault(v);
    }

    function targetContracts() external view returns (address[] memory targets) {
        targets = new address[](1);
        targets[0] = address(handler);
    }

    function invariant_S1_stake_balance_covers_all_idle_stake_and_positions() external view {
        uint256 sum = 0;
        for (uint256 i = 0; i < workers.length; ++i) sum += held(workers[i], Role.Worker);
        for (uint256 i = 0; i < validators.length; ++i) sum += held(validators[i], Role.Validator);
        require(stakes.totalHeld() == sum, "books");
        require(token.balanceOf(address(stakes)) >= sum, "solvency");
    }

    function invariant_S2_exit_never_beats_a_slash() external view {
        uint32 settled = ledger.settledCountOf(POOL);
        uint32 opened = ledger.stepCountOf(POOL);
        for (uint32 step = settled > 3 ? settled - 3 : 0; step < opened; ++step) {
            uint256 end = ledger.stepOf(POOL, step).finalizedAt;
            if (step < settled && handler.now_() >= end + CHALLENGE_SECONDS) continue;
            for (uint256 i = 0; i < workers.length; ++i) {
                address worker = workers[i];
                (uint256 tokens,,) = stakes.positionOf(POOL, Role.Worker, worker);
                uint256 lostSince = handler.lost(worker) - handler.lostAtOpening(step, worker);
                // Each finished exit may take one wei of rounding along.
                require(
                    tokens + lostSince + handler.exitsFinished(worker) >= handler.activeAtOpening(step, worker),
                    "stake that was at work has left"
                );
            }
        }
    }

    function invariant_S3_no_offence_is_slashed_twice() external view {
        for (uint32 step = 0; step < ledger.stepCountOf(POOL); ++step) {
            for (uint32 i = 0; i < handler.leafCount(step); ++i) require(handler.punished(step, i) <= 1);
        }
    }

    function invariant_S4_shares_cover_tokens() external view {
        for (uint256 i = 0; i < workers.length; ++i) {
            (uint256 tokens, uint256 shares, uint256 exiting) = stakes.positionOf(POOL, Role.Worker, workers[i]);
            require(tokens <= shares && exiting <= shares);
        }
    }

    function invariant_V1_vault_balance_covers_all_pool_money() external view {
        (uint256 free, uint256 reserved, uint256 locked) = vault.escrowOf(POOL);
        require(vault.tokenLiabilityOf(address(token)) == free + reserved + locked, "books");
        require(token.balanceOf(address(vault)) >= free + reserved + locked, "solvency");
    }

    function invariant_V2_no_slot_is_paid_twice() external view {
        for (uint32 step = 0; step < ledger.stepCountOf(POOL); ++step) {
            for (uint32 slot = 0; slot < 6; ++slot) require(handler.paid(step, slot) <= 1);
        }
    }

    function invariant_V4_free_money_never_exceeds_what_was_funded() external view {
        (uint256 free,,) = vault.escrowOf(POOL);
        require(free + handler.drained() <= handler.funded());
    }

    function invariant_V5_reserved_money_is_the_sum_of_reservations() external view {
        (, uint256 reserved,) = vault.escrowOf(POOL);
        uint256 sum = 0;
        for (uint32 step = 0; step < ledger.stepCountOf(POOL); ++step) sum += vault.reservationOf(POOL, step);
        require(reserved == sum);
    }

    function invariant_L7_steps_below_the_mark_are_settled_and_none_above() external view {
        uint32 settled = ledger.settledCountOf(POOL);
        for (uint32 step = 0; step < ledger.stepCountOf(POOL); ++step) {
            StepState memory state = ledger.stepOf(POOL, step);
            bool isSettled = state.phase == Phase.Finalized || state.phase == Phase.Cancelled;
            require(isSettled == (step < settled) && isSettled == (state.finalizedAt != 0));
        }
    }

    /// The invariants mean little if the moves never get anywhere.
    function test_handler_reaches_every_ending() external {
        for (uint256 i = 0; i < 1_500; ++i) {
            uint256 random = uint256(keccak256(abi.encode("moves", i)));
            bytes memory move = moveOf(random % 24, random >> 8, random >> 64, random >> 128);
            (bool ok,) = address(handler).call(move);
            ok; // some moves are refused, as they should be
            if (i % 10 == 0) this.invariant_S2_exit_never_beats_a_slash();
        }
        require(handler.claims() > 5, "claims");
        require(handler.slashes() > 5, "slashes");
        require(handler.forfeits() > 0, "forfeits");
        require(handler.fees() > 5, "fees");
        require(handler.cancels() > 0, "cancels");
        require(handler.exits() > 5, "exits");
        this.invariant_S1_stake_balance_covers_all_idle_stake_and_positions();
        this.invariant_S2_exit_never_beats_a_slash();
        this.invariant_S3_no_offence_is_slashed_twice();
        this.invariant_V1_vault_balance_covers_all_pool_money();
        this.invariant_V2_no_slot_is_paid_twice();
        this.invariant_V5_reserved_money_is_the_sum_of_reservations();
        this.invariant_L7_steps_below_the_mark_are_settled_and_none_above();
    }

    function held(address provider, Role role) internal view returns (uint256) {
        (uint256 tokens,,) = stakes.positionOf(POOL, role, provider);
        return tokens + stakes.idleOf(provider);
    }

    function moveOf(uint256 kind, uint256 a, uint256 b, uint256 c) internal view returns (bytes memory) {
        if (kind == 0) return abi.encodeCall(handler.stake, (a, b));
        if (kind == 1) return abi.encodeCall(handler.depart, (a, b));
        if (kind <= 3) return abi.encodeCall(handler.finish, (a));
        if (kind == 4) return abi.encodeCall(handler.takeOut, (a, b));
        if (kind <= 6) return abi.encodeCall(handler.openNext, (a));
        if (kind <= 14) return abi.encodeCall(handler.push, (a, b));
        if (kind == 15) return abi.encodeCall(handler.wait, (a));
        if (kind <= 17) return abi.encodeCall(handler.claim, (a, b, c));
        if (kind == 18) return abi.encodeCall(handler.forfeit, (a, b));
        if (kind <= 20) return abi.encodeCall(handler.slashLeaf, (a, b));
        if (kind == 21) return abi.encodeCall(handler.claimFee, (a, b));
        if (kind == 22) return a % 2 == 0 ? abi.encodeCall(handler.drain, (b)) : abi.encodeCall(handler.addFunds, (b));
        return abi.encodeCall(handler.donate, (a));
    }
}
