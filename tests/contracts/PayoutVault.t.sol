// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";

import {PayoutVault} from "../../contracts/PayoutVault.sol";
import {IPayoutVault} from "../../contracts/interfaces/IPayoutVault.sol";
import {IPoolRegistry} from "../../contracts/interfaces/IPoolRegistry.sol";
import {ISubmissionLedger} from "../../contracts/interfaces/ISubmissionLedger.sol";
import {Outcome, Phase, Role} from "../../contracts/types/Enums.sol";
import {PoolId} from "../../contracts/types/Ids.sol";
import {PoolTerms} from "../../contracts/types/PoolTerms.sol";
import {LeafOpening, Submission} from "../../contracts/types/Submission.sol";
import {ChainTest} from "./support/ChainTest.sol";
import {FeeToken, ReentrantToken} from "./support/Tokens.sol";
import {vm} from "./support/Vm.sol";

contract PayoutVaultTest is ChainTest {
    // -- fund and drain

    function test_fund_by_anyone_is_free_money_of_the_pool() external {
        token.mint(STRANGER, 70);
        vm.startPrank(STRANGER);
        token.approve(address(vault), 70);
        vm.expectEmit();
        emit IPayoutVault.Funded(pool, STRANGER, 70);
        vault.fund(pool, 70);
        eqEscrow(FUNDS + 70, 0, 0);
        eq(vault.tokenLiabilityOf(address(token)), FUNDS + 70);
    }

    function test_fund_of_nothing_or_of_an_unknown_or_closed_pool_is_refused() external {
        vm.expectRevert(abi.encodeWithSelector(IPayoutVault.AmountZero.selector));
        vault.fund(pool, 0);
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.UnknownPool.selector, PoolId.wrap(9)));
        vault.fund(PoolId.wrap(9), 1);
        vm.prank(OWNER);
        registry.closePool(pool);
        vm.expectRevert(abi.encodeWithSelector(IPayoutVault.PoolIsClosed.selector, pool));
        vault.fund(pool, 1);
    }

    function test_fund_with_a_fee_token_is_refused() external {
        FeeToken fee = new FeeToken();
        PoolTerms memory t = terms();
        t.payoutToken = address(fee);
        PoolId other = createPool(t);
        fee.mint(STRANGER, 1_000);
        vm.startPrank(STRANGER);
        fee.approve(address(vault), 1_000);
        vm.expectRevert(abi.encodeWithSelector(IPayoutVault.TransferMismatch.selector, uint256(990), uint256(1_000)));
        vault.fund(other, 1_000);
    }

    function test_drain_by_the_owner_pays_free_money_only() external {
        open(0, 6);
        vm.startPrank(OWNER);
        vm.expectRevert(
            abi.encodeWithSelector(IPayoutVault.EscrowTooLow.selector, pool, FUNDS - 3_090, FUNDS - 3_089)
        );
        vault.drain(pool, FUNDS - 3_089, OWNER);
        vm.expectEmit();
        emit IPayoutVault.Drained(pool, STRANGER, FUNDS - 3_090);
        vault.drain(pool, FUNDS - 3_090, STRANGER);
        eq(token.balanceOf(STRANGER), FUNDS - 3_090);
        eqEscrow(0, 3_090, 0);
    }

    function test_drain_by_a_stranger_or_to_nobody_is_refused() external {
        vm.expectRevert(abi.encodeWithSelector(IPayoutVault.NotPoolOwner.selector, pool, TRAINER, OWNER));
        vm.prank(TRAINER);
        vault.drain(pool, 1, TRAINER);
        vm.startPrank(OWNER);
        vm.expectRevert(abi.encodeWithSelector(IPayoutVault.AddressZero.selector));
        vault.drain(pool, 1, address(0));
        vm.expectRevert(abi.encodeWithSelector(IPayoutVault.AmountZero.selector));
        vault.drain(pool, 0, OWNER);
    }

    function test_drain_of_one_pool_leaves_another_whole() external {
        PoolId other = createPool(terms());
        fund(other, 500);
        vm.startPrank(OWNER);
        vm.expectPartialRevert(IPayoutVault.EscrowTooLow.selector);
        vault.drain(other, 501, OWNER);
        vault.drain(other, 500, OWNER);
        eqEscrow(FUNDS, 0, 0);
    }

    function test_hooks_are_the_ledgers_alone() external {
        vm.expectRevert(abi.encodeWithSelector(IPayoutVault.NotLedger.selector, OWNER));
        vm.prank(OWNER);
        vault.reserve(pool, 0, 1);
        vm.expectRevert(abi.encodeWithSelector(IPayoutVault.NotLedger.selector, TRAINER));
        vm.prank(TRAINER);
        vault.settle(pool, 0, 0, 1);
    }

    // -- claims

    function test_claim_pays_the_price_and_releases_the_rest() external {
        Submission[] memory leaves = runMixed(0);
        // 6 slots of 500, 3 fees of 30: one accepted, three locked, two never committed.
        eqEscrow(FUNDS - 2_090, 590, 1_500);
        vm.expectEmit();
        emit IPayoutVault.Claimed(pool, 0, 0, workers[0], 150, 400);
        vm.prank(STRANGER);
        vault.claim(pool, 0, openings(leaves, 0, 1));
        eq(token.balanceOf(workers[0]), 400);
        eqEscrow(FUNDS - 1_990, 90, 1_500);
        eq(vault.reservationOf(pool, 0), 90);
        require(vault.isSlotPaid(pool, 0, 0) && !vault.isSlotPaid(pool, 0, 1));
        eq(vault.tokenLiabilityOf(address(token)), FUNDS - 400);
    }

    function test_claim_pays_units_only_up_to_the_cap() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        leaves[0].units = type(uint32).max;
        leaves[1].units = 0;
        run(0, 3, leaves, all(Outcome.Accept, 3));
        vault.claim(pool, 0, openings(leaves, 0, 3));
        eq(token.balanceOf(workers[0]), 500);
        eq(token.balanceOf(workers[1]), 100);
        eq(token.balanceOf(workers[2]), 400);
        eq(vault.reservationOf(pool, 0), 90);
    }

    function test_claim_of_many_leaves_pays_each_provider() external {
        Submission[] memory leaves = makeLeaves(0, 9);
        run(0, 9, leaves, all(Outcome.Accept, 9));
        vault.claim(pool, 0, openings(leaves, 2, 9));
        vault.claim(pool, 0, openings(leaves, 0, 2));
        for (uint256 i = 0; i < 3; ++i) eq(token.balanceOf(workers[i]), 1_200);
        eq(vault.reservationOf(pool, 0), 90);
    }

    function test_V2_slot_claimed_twice_is_refused() external {
        Submission[] memory leaves = runMixed(0);
        LeafOpening[] memory one = openings(leaves, 0, 1);
        LeafOpening[] memory twice = new LeafOpening[](2);
        twice[0] = one[0];
        twice[1] = one[0];
        bytes memory refused =
            abi.encodeWithSelector(IPayoutVault.SlotAlreadyPaid.selector, pool, uint32(0), uint32(0));
        vm.expectRevert(refused);
        vault.claim(pool, 0, twice);
        vault.claim(pool, 0, one);
        vm.expectRevert(refused);
        vault.claim(pool, 0, one);
        eq(token.balanceOf(workers[0]), 400);
    }

    function test_V2_two_leaves_of_one_slot_are_paid_once() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        leaves[1].slot = 0;
        run(0, 3, leaves, all(Outcome.Accept, 3));
        vault.claim(pool, 0, openings(leaves, 0, 1));
        LeafOpening[] memory second = openings(leaves, 1, 2);
        vm.expectRevert(abi.encodeWithSelector(IPayoutVault.SlotAlreadyPaid.selector, pool, uint32(0), uint32(0)));
        vault.claim(pool, 0, second);
    }

    function test_V3_leaf_rejected_faulted_or_undecided_is_not_paid() external {
        Submission[] memory leaves = runMixed(0);
        Outcome[4] memory outcomes = [Outcome.Accept, Outcome.Reject, Outcome.Fault, Outcome.Abstain];
        for (uint32 i = 1; i < 4; ++i) {
            LeafOpening[] memory one = openings(leaves, i, i + 1);
            vm.expectRevert(abi.encodeWithSelector(IPayoutVault.LeafNotAccepted.selector, i, outcomes[i]));
            vault.claim(pool, 0, one);
        }
    }

    function test_V3_leaf_forged_or_at_another_index_is_not_paid() external {
        Submission[] memory leaves = runMixed(0);
        LeafOpening[] memory one = openings(leaves, 0, 1);
        one[0].leaf.provider = STRANGER;
        vm.expectPartialRevert(IPayoutVault.LeafNotCommitted.selector);
        vault.claim(pool, 0, one);
        one = openings(leaves, 0, 1);
        one[0].leaf.units = 200;
        vm.expectPartialRevert(IPayoutVault.LeafNotCommitted.selector);
        vault.claim(pool, 0, one);
        one = openings(leaves, 1, 2);
        one[0].index = 0; // the index of an accepted leaf
        vm.expectPartialRevert(IPayoutVault.LeafNotCommitted.selector);
        vault.claim(pool, 0, one);
    }

    function test_V3_leaf_of_another_step_pool_or_slot_is_not_paid() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        leaves[0].step = 1;
        leaves[1].pool = PoolId.wrap(2);
        leaves[2].slot = 3;
        run(0, 3, leaves, all(Outcome.Accept, 3));
        LeafOpening[] memory one = openings(leaves, 0, 1);
        vm.expectRevert(
            abi.encodeWithSelector(IPayoutVault.LeafOfOtherStep.selector, pool, uint32(0), pool, uint32(1))
        );
        vault.claim(pool, 0, one);
        one = openings(leaves, 1, 2);
        vm.expectPartialRevert(IPayoutVault.LeafOfOtherStep.selector);
        vault.claim(pool, 0, one);
        one = openings(leaves, 2, 3);
        vm.expectRevert(abi.encodeWithSelector(IPayoutVault.SlotOutOfRange.selector, uint32(3), uint32(3)));
        vault.claim(pool, 0, one);
    }

    function test_claim_before_finalizing_is_refused() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        address[] memory panel = audit(0, 3, leaves);
        for (uint256 i = 0; i < 3; ++i) cast(0, panel[i], all(Outcome.Accept, 3));
        LeafOpening[] memory one = openings(leaves, 0, 1);
        vm.expectRevert(
            abi.encodeWithSelector(IPayoutVault.StepNotFinalized.selector, pool, uint32(0), Phase.Audited)
        );
        vault.claim(pool, 0, one);
        vm.expectRevert(
            abi.encodeWithSelector(IPayoutVault.StepNotFinalized.selector, pool, uint32(0), Phase.Audited)
        );
        vault.claimFee(pool, 0, panel[0]);
    }

    function test_claim_of_a_cancelled_step_is_refused() external {
        seed(0, 3);
        skip(81);
        ledger.cancelStep(pool, 0);
        LeafOpening[] memory one = openings(makeLeaves(0, 3), 0, 1);
        vm.expectRevert(
            abi.encodeWithSelector(IPayoutVault.StepNotFinalized.selector, pool, uint32(0), Phase.Cancelled)
        );
        vault.claim(pool, 0, one);
    }

    function test_claim_reentered_pays_once() external {
        ReentrantToken hostile = new ReentrantToken();
        PoolTerms memory t = terms();
        t.payoutToken = address(hostile);
        pool = createPool(t);
        hostile.mint(STRANGER, 10_000);
        vm.startPrank(STRANGER);
        hostile.approve(address(vault), 10_000);
        vault.fund(pool, 10_000);
        vm.stopPrank();
        for (uint256 i = 0; i < 3; ++i) enter(validators[i], Role.Validator, STAKE);
        mine(1);
        Submission[] memory leaves = makeLeaves(0, 3);
        run(0, 3, leaves, all(Outcome.Accept, 3));
        hostile.arm(address(vault), abi.encodeCall(vault.claim, (pool, 0, openings(leaves, 1, 2))));
        vault.claim(pool, 0, openings(leaves, 0, 1));
        require(hostile.failed(), "inner call must fail");
        eq(
            keccak256(hostile.failure()),
            keccak256(abi.encodeWithSelector(ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector))
        );
        eq(hostile.balanceOf(workers[0]), 400);
        eq(hostile.balanceOf(workers[1]), 0);
    }

    // -- fees

    function test_V6_fee_is_paid_once_to_who_voted() external {
        address[] memory panel = audit(0, 3, makeLeaves(0, 3));
        cast(0, panel[0], all(Outcome.Accept, 3));
        cast(0, panel[1], all(Outcome.Reject, 3));
        skip(70);
        ledger.finalize(pool, 0);
        vm.expectEmit();
        emit IPayoutVault.FeeClaimed(pool, 0, panel[0], 30);
        vault.claimFee(pool, 0, panel[0]);
        vault.claimFee(pool, 0, panel[1]);
        eq(token.balanceOf(panel[0]), 30);
        eq(token.balanceOf(panel[1]), 30); // whatever it voted
        vm.expectRevert(
            abi.encodeWithSelector(IPayoutVault.FeeAlreadyPaid.selector, pool, uint32(0), panel[0])
        );
        vault.claimFee(pool, 0, panel[0]);
        vm.expectRevert(abi.encodeWithSelector(IPayoutVault.NotVoted.selector, pool, uint32(0), panel[2]));
        vault.claimFee(pool, 0, panel[2]);
        vm.expectPartialRevert(IPayoutVault.NotVoted.selector);
        vault.claimFee(pool, 0, STRANGER);
    }

    // -- locked money

    function test_V4_money_of_rejected_work_is_not_drained() external {
        run(0, 6, makeLeaves(0, 6), all(Outcome.Reject, 6));
        eqEscrow(FUNDS - 3_090, 90, 3_000);
        vm.expectPartialRevert(IPayoutVault.EscrowTooLow.selector);
        vm.prank(OWNER);
        vault.drain(pool, FUNDS - 3_089, OWNER);
    }

    function test_V4_locked_money_pays_later_work_first() external {
        run(0, 6, makeLeaves(0, 6), all(Outcome.Reject, 6));
        Submission[] memory leaves = makeLeaves(1, 3);
        vm.expectEmit();
        emit IPayoutVault.Reserved(pool, 1, 0, 1_590);
        run(1, 3, leaves, all(Outcome.Accept, 3));
        eqEscrow(FUNDS - 3_090, 1_680, 1_410);
        vault.claim(pool, 1, openings(leaves, 0, 3));
        eq(token.balanceOf(workers[0]), 400);
        // What the claim did not use was locked money and stays so.
        eqEscrow(FUNDS - 3_090, 180, 1_710);
    }

    function test_V4_locked_money_is_not_freed_by_an_empty_step() external {
        run(0, 6, makeLeaves(0, 6), all(Outcome.Reject, 6));
        (uint256 free,,) = vault.escrowOf(pool);
        seed(1, 100); // draws all of the locked money, and 47,090 of the free
        skip(81);
        ledger.cancelStep(pool, 1);
        eqEscrow(free, 90, 3_000);
        run(2, 100, makeLeaves(2, 3), all(Outcome.Accept, 3));
        (uint256 after_,,) = vault.escrowOf(pool);
        require(after_ <= free);
    }

    function test_V4_locked_money_is_burned_when_a_closed_pool_is_drained() external {
        run(0, 6, makeLeaves(0, 6), all(Outcome.Reject, 6));
        vm.startPrank(OWNER);
        vault.drain(pool, 1, OWNER);
        eq(token.balanceOf(SINK), 0); // open: stays locked
        registry.closePool(pool);
        vm.expectEmit();
        emit IPayoutVault.Burned(pool, 3_000);
        vault.drain(pool, FUNDS - 3_091, OWNER);
        eq(token.balanceOf(SINK), 3_000);
        eq(token.balanceOf(OWNER), FUNDS - 3_090);
        eqEscrow(0, 90, 0);
        eq(vault.tokenLiabilityOf(address(token)), 90);
    }

    function test_V4_locked_money_of_a_closed_pool_is_burned_by_a_drain_of_nothing() external {
        run(0, 6, makeLeaves(0, 6), all(Outcome.Reject, 6));
        vm.startPrank(OWNER);
        vault.drain(pool, FUNDS - 3_090, OWNER);
        registry.closePool(pool);
        vault.drain(pool, 0, OWNER);
        eq(token.balanceOf(SINK), 3_000);
    }

    // -- forfeits

    function test_V5_leaf_of_a_paid_slot_is_forfeited_to_locked() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        leaves[1].slot = 0;
        run(0, 3, leaves, all(Outcome.Accept, 3));
        LeafOpening memory double = opening(leaves, 1);
        vm.expectRevert(abi.encodeWithSelector(IPayoutVault.LeafPayable.selector, uint32(1)));
        vault.forfeit(pool, 0, double);
        vault.claim(pool, 0, openings(leaves, 0, 1));
        vault.claim(pool, 0, openings(leaves, 2, 3));
        eq(vault.reservationOf(pool, 0), 590);
        vault.forfeit(pool, 0, double);
        eq(vault.reservationOf(pool, 0), 90);
        (,, uint256 locked) = vault.escrowOf(pool);
        eq(locked, 500);
        vm.expectRevert(
            abi.encodeWithSelector(IPayoutVault.LeafSettled.selector, pool, uint32(0), uint32(1))
        );
        vault.forfeit(pool, 0, double);
    }

    function test_V5_leaf_that_was_paid_is_not_forfeited() external {
        Submission[] memory leaves = runMixed(0);
        vault.claim(pool, 0, openings(leaves, 0, 1));
        LeafOpening memory paid = opening(leaves, 0);
        vm.expectRevert(
            abi.encodeWithSelector(IPayoutVault.LeafSettled.selector, pool, uint32(0), uint32(0))
        );
        vault.forfeit(pool, 0, paid);
        LeafOpening memory rejected = opening(leaves, 1);
        vm.expectPartialRevert(IPayoutVault.LeafNotAccepted.selector);
        vault.forfeit(pool, 0, rejected);
    }

    function test_V5_leaf_that_names_no_slot_step_pool_or_provider_is_forfeited() external {
        Submission[] memory leaves = makeLeaves(0, 4);
        leaves[0].slot = 4;
        leaves[1].step = 9;
        leaves[2].pool = PoolId.wrap(2);
        leaves[3].provider = address(0);
        run(0, 4, leaves, all(Outcome.Accept, 4));
        for (uint32 i = 0; i < 4; ++i) vault.forfeit(pool, 0, opening(leaves, i));
        eqEscrow(FUNDS - 2_090, 90, 2_000);
    }

    function test_V5_settled_step_keeps_nothing_reserved() external {
        Submission[] memory leaves = runMixed(0);
        vault.claim(pool, 0, openings(leaves, 0, 1));
        address[] memory panel = ledger.panelOf(pool, 0);
        for (uint256 i = 0; i < 3; ++i) vault.claimFee(pool, 0, panel[i]);
        eq(vault.reservationOf(pool, 0), 0);
        eqEscrow(FUNDS - 400 - 90 - 1_500, 0, 1_500);
    }

    function test_V1_donation_changes_nothing() external {
        token.mint(address(vault), 999);
        eq(vault.tokenLiabilityOf(address(token)), FUNDS);
        eqEscrow(FUNDS, 0, 0);
    }

    function test_constructor_zero_address_is_refused() external {
        bytes memory zero = abi.encodeWithSelector(IPayoutVault.AddressZero.selector);
        vm.expectRevert(zero);
        new PayoutVault(IPoolRegistry(address(0)), ledger, SINK);
        vm.expectRevert(zero);
        new PayoutVault(registry, ISubmissionLedger(address(0)), SINK);
        vm.expectRevert(zero);
        new PayoutVault(registry, ledger, address(0));
    }
}
