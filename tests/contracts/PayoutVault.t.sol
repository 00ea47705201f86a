// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC20Errors} from "@openzeppelin/contracts/interfaces/draft-IERC6093.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";

import {PayoutVault} from "../../contracts/PayoutVault.sol";
import {IPayoutVault} from "../../contracts/interfaces/IPayoutVault.sol";
import {IPoolRegistry} from "../../contracts/interfaces/IPoolRegistry.sol";
import {Outcome, Role, Ruling} from "../../contracts/types/Enums.sol";
import {CaseId, ExitId, PoolId} from "../../contracts/types/Ids.sol";
import {PartMissing, Parts} from "../../contracts/types/Parts.sol";
import {PoolTerms} from "../../contracts/types/PoolTerms.sol";
import {LeafOpening, PayTable, Submission} from "../../contracts/types/Submission.sol";
import {ChainTest} from "./support/ChainTest.sol";
import {
    FalseToken, FeeToken, GreedyToken, PickyToken, RebaseToken, ReentrantToken, SilentToken
} from "./support/Tokens.sol";
import {vm} from "./support/Vm.sol";

/// @dev What all payout tokens of the tests can do, whatever else they do.
interface PayoutToken {
    function mint(address to, uint256 amount) external;
    function approve(address spender, uint256 amount) external;
    function balanceOf(address account) external view returns (uint256);
}

contract PayoutVaultTest is ChainTest {
    uint256 internal constant MOST = type(uint128).max;
    uint256 internal constant GIVEAWAY = 2 * SEAL_FEE + LEASE_BOND;

    // -- helpers

    /// A pool that pays in another token, with the same people in it.
    function usePoolOf(address payout) internal {
        PoolTerms memory t = terms();
        t.parties.payoutToken = payout;
        pool = createPool(t);
        fundIn(payout, FUNDS);
        for (uint256 i = 0; i < validators.length; ++i) enter(validators[i], Role.Validator, STAKE);
        for (uint256 i = 0; i < workers.length; ++i) enter(workers[i], Role.Worker, STAKE);
        mine(1);
    }

    function fundIn(address payout, uint256 amount) internal {
        PayoutToken(payout).mint(OWNER, amount);
        vm.startPrank(OWNER);
        PayoutToken(payout).approve(address(vault), amount);
        vault.fund(pool, amount);
        vm.stopPrank();
    }

    /// A pool without money or people.
    function useEmptyPool() internal {
        pool = createPool(terms());
    }

    /// A step of three slots in which each worker earns 400.
    function runStep(uint32 step) internal {
        run(step, 3, makeLeaves(step, 3), all(Outcome.Accept, 3));
    }

    function closePool() internal {
        vm.prank(OWNER);
        registry.closePool(pool);
    }

    function drain(uint256 amount, address to) internal {
        vm.prank(OWNER);
        vault.drain(pool, amount, to);
    }

    function reserve(uint32 step, uint256 amount) internal {
        vm.prank(address(ledger));
        vault.reserve(pool, step, amount, 0);
    }

    function pay(uint32 step, address provider, uint256 amount) internal {
        vm.prank(address(panel));
        vault.pay(pool, step, provider, amount);
    }

    function release(uint32 step, uint256 lockAmount, uint256 releaseAmount) internal {
        vm.prank(address(court));
        vault.release(pool, step, lockAmount, releaseAmount);
    }

    function settle(uint32 step, address provider, uint256 amount, uint256 lockAmount, uint256 keepAmount) internal {
        address[] memory providers = new address[](1);
        uint256[] memory amounts = new uint256[](1);
        (providers[0], amounts[0]) = (provider, amount);
        vm.prank(address(panel));
        vault.settle(pool, step, providers, amounts, lockAmount, keepAmount);
    }

    function fine(uint256 amount) internal {
        vm.prank(address(ledger));
        vault.fine(pool, amount);
    }

    function takeBond(address from, uint256 amount) internal {
        vm.prank(address(plants));
        vault.takeBond(pool, from, amount);
    }

    function spendBond(address to, uint256 amount) internal {
        vm.prank(address(plants));
        vault.spendBond(pool, to, amount);
    }

    function eqEarnings(address provider, uint256 earned_, uint256 claimed_) internal view {
        (uint256 e, uint256 c) = vault.earningsOf(pool, provider);
        eq(e, earned_);
        eq(c, claimed_);
    }

    /// What the pool's places and the accounts hold.
    function liability() internal view returns (uint256) {
        (uint256 free, uint256 reserved, uint256 locked) = vault.escrowOf(pool);
        return free + reserved + locked + vault.bondedOf(pool) + unclaimed();
    }

    function reentered() internal pure returns (bytes32) {
        return keccak256(abi.encodeWithSelector(ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector));
    }

    function tooWide(uint256 value) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(SafeCast.SafeCastOverflowedUintDowncast.selector, uint8(128), value);
    }

    function underflow() internal pure returns (bytes memory) {
        return abi.encodeWithSignature("Panic(uint256)", 0x11);
    }

    function refuseClaim(address provider, bytes memory reason) internal {
        vm.expectRevert(reason);
        vault.claim(pool, provider);
    }

    function nothing() internal pure returns (bytes memory) {
        return abi.encodeWithSelector(IPayoutVault.AmountZero.selector);
    }

    // -- deployment

    function test_constructor_with_a_missing_part_is_refused() external {
        Parts memory parts = partsFrom(1);
        parts.sink = address(0);
        vm.expectRevert(abi.encodeWithSelector(PartMissing.selector));
        new PayoutVault(parts);
        parts = partsFrom(1);
        parts.ledger = address(0);
        vm.expectRevert(abi.encodeWithSelector(PartMissing.selector));
        new PayoutVault(parts);
    }

    function test_vault_keeps_the_contracts_of_its_deployment() external view {
        eq(address(vault.registry()), address(registry));
        eq(address(vault.stakes()), address(stakes));
        eq(vault.ledger(), address(ledger));
        eq(vault.panel(), address(panel));
        eq(vault.court(), address(court));
        eq(vault.plants(), address(plants));
        eq(vault.sink(), SINK);
    }

    // -- fund

    function test_fund_by_anyone_is_free_money_of_the_pool() external {
        allow(STRANGER, 70);
        vm.expectEmit();
        emit IPayoutVault.Funded(pool, STRANGER, 70);
        vm.prank(STRANGER);
        vault.fund(pool, 70);
        eqEscrow(FUNDS + 70, 0, 0);
        eqOwed(0, 0);
        eq(liability(), FUNDS + 70);
        eq(token.balanceOf(address(vault)), FUNDS + 70);
        eq(token.balanceOf(STRANGER), 0);
    }

    function test_fund_of_nothing_or_of_an_unknown_or_closed_pool_is_refused() external {
        vm.expectRevert(nothing());
        vault.fund(pool, 0);
        vm.expectRevert(abi.encodeWithSelector(IPayoutVault.PoolIsClosed.selector, PoolId.wrap(9)));
        vault.fund(PoolId.wrap(9), 1);
        closePool();
        vm.expectRevert(abi.encodeWithSelector(IPayoutVault.PoolIsClosed.selector, pool));
        vault.fund(pool, 1);
    }

    function test_fund_of_what_the_caller_lacks_or_did_not_allow_is_refused() external {
        token.mint(STRANGER, 10);
        vm.expectRevert(
            abi.encodeWithSelector(IERC20Errors.ERC20InsufficientAllowance.selector, address(vault), 0, 10)
        );
        vm.prank(STRANGER);
        vault.fund(pool, 10);
        vm.prank(STRANGER);
        token.approve(address(vault), 11);
        vm.expectRevert(abi.encodeWithSelector(IERC20Errors.ERC20InsufficientBalance.selector, STRANGER, 10, 11));
        vm.prank(STRANGER);
        vault.fund(pool, 11);
        eqEscrow(FUNDS, 0, 0);
        eq(liability(), FUNDS);
    }

    function test_V1_donation_changes_nothing() external {
        token.mint(address(vault), 999);
        eq(liability(), FUNDS);
        eqEscrow(FUNDS, 0, 0);
        vm.expectPartialRevert(IPayoutVault.EscrowTooLow.selector);
        drain(FUNDS + 1, OWNER);
    }

    /// All money that ever comes into a pool fits 128 bits together.
    function test_fund_beyond_128_bits_is_refused() external {
        useEmptyPool();
        allow(STRANGER, type(uint256).max / 2);
        vm.startPrank(STRANGER);
        vm.expectRevert(tooWide(MOST + 1));
        vault.fund(pool, MOST + 1);
        vault.fund(pool, MOST);
        vm.expectRevert(underflow());
        vault.fund(pool, 1);
        vm.stopPrank();
        eqEscrow(MOST, 0, 0);
        eq(vault.receivedOf(pool), MOST);
    }

    function test_fund_and_bonds_beyond_128_bits_over_time_are_refused() external {
        useEmptyPool();
        fund(pool, 4_000);
        allow(STRANGER, type(uint256).max / 2);
        takeBond(STRANGER, 500);
        reserve(0, 3_000);
        pay(0, PURSE, 700);
        fine(600);
        eqEscrow(400, 2_300, 600);
        eqOwed(500, 700);
        vm.startPrank(STRANGER);
        vm.expectRevert(tooWide(MOST + 1));
        vault.fund(pool, MOST - 4_499);
        vault.fund(pool, MOST - 4_500);
        vm.stopPrank();
        vm.expectRevert(tooWide(MOST + 1));
        takeBond(STRANGER, 1);
        vm.expectRevert(tooWide(MOST + 1));
        takeBond(STRANGER, MOST + 1);
        eq(vault.receivedOf(pool), MOST);
        // What has left does not make room: lifetime sums count.
        vault.claim(pool, PURSE);
        vm.expectRevert(tooWide(MOST + 1));
        takeBond(STRANGER, 1);
        eq(vault.receivedOf(pool), MOST);
    }

    /// Money that moves inside a pool is not received again.
    function test_received_counts_what_comes_in_once() external {
        eq(vault.receivedOf(pool), FUNDS);
        allow(STRANGER, 700);
        takeBond(STRANGER, 700);
        eq(vault.receivedOf(pool), FUNDS + 700);
        spendBond(PURSE, 300);
        reserve(0, 1_000);
        pay(0, PURSE, 40);
        vault.claim(pool, PURSE);
        vm.prank(address(court));
        vault.lockBond(pool, 400);
        eq(vault.receivedOf(pool), FUNDS + 700);
        drain(10, OWNER);
        eq(vault.receivedOf(pool), FUNDS + 690);
        (,, uint256 locked) = vault.escrowOf(pool);
        eq(locked, 400);
        vm.prank(OWNER);
        registry.closePool(pool);
        drain(0, OWNER); // and what is burned is gone as well
        eq(vault.receivedOf(pool), FUNDS + 290);
    }

    /// Or whoever can mint the token for a moment could bar all bonds for ever.
    function test_money_that_was_funded_and_drained_leaves_room_for_bonds() external {
        uint256 much = MOST - FUNDS;
        fund(pool, much);
        drain(much, OWNER);
        allow(STRANGER, 700);
        takeBond(STRANGER, 700);
        eq(vault.receivedOf(pool), FUNDS + 700);
    }

    // -- drain

    function test_drain_by_the_owner_pays_free_money_only() external {
        open(0, 6);
        uint256 free = FUNDS - stepCost(6);
        vm.expectRevert(abi.encodeWithSelector(IPayoutVault.EscrowTooLow.selector, pool, free, free + 1));
        drain(free + 1, OWNER);
        vm.expectEmit();
        emit IPayoutVault.Drained(pool, STRANGER, free - 1);
        drain(free - 1, STRANGER);
        eq(token.balanceOf(STRANGER), free - 1);
        eqEscrow(1, stepCost(6), 0);
        eq(liability(), stepCost(6) + 1);
        drain(1, STRANGER);
        eqEscrow(0, stepCost(6), 0);
    }

    function test_drain_by_a_stranger_or_to_nobody_is_refused() external {
        vm.expectRevert(abi.encodeWithSelector(IPayoutVault.NotPoolOwner.selector, pool, TRAINER, OWNER));
        vm.prank(TRAINER);
        vault.drain(pool, 1, TRAINER);
        vm.expectRevert(abi.encodeWithSelector(IPayoutVault.AddressZero.selector));
        drain(1, address(0));
        vm.expectRevert(nothing());
        drain(0, OWNER);
        closePool();
        vm.expectRevert(nothing());
        drain(0, OWNER);
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.UnknownPool.selector, PoolId.wrap(9)));
        vault.drain(PoolId.wrap(9), 1, OWNER);
    }

    function test_drain_is_the_new_owners_after_a_handover() external {
        vm.prank(OWNER);
        registry.offerOwnership(pool, STRANGER);
        vm.prank(STRANGER);
        registry.acceptOwnership(pool);
        vm.expectRevert(abi.encodeWithSelector(IPayoutVault.NotPoolOwner.selector, pool, OWNER, STRANGER));
        drain(1, OWNER);
        vm.prank(STRANGER);
        vault.drain(pool, 1, STRANGER);
        eqEscrow(FUNDS - 1, 0, 0);
    }

    function test_drain_of_one_pool_leaves_another_whole() external {
        PoolId first = pool;
        useEmptyPool();
        fund(pool, 500);
        vm.expectRevert(abi.encodeWithSelector(IPayoutVault.EscrowTooLow.selector, pool, 500, 501));
        drain(501, OWNER);
        drain(500, OWNER);
        eqEscrow(0, 0, 0);
        pool = first;
        eqEscrow(FUNDS, 0, 0);
        eq(liability(), FUNDS);
    }

    function test_V4_money_of_rejected_work_is_not_drained() external {
        run(0, 6, makeLeaves(0, 6), all(Outcome.Reject, 6));
        uint256 free = FUNDS - 6 * SLOT - 96;
        eqEscrow(free, 0, 6 * SLOT);
        vm.expectRevert(abi.encodeWithSelector(IPayoutVault.EscrowTooLow.selector, pool, free, free + 1));
        drain(free + 1, OWNER);
        drain(free, OWNER);
        vm.expectRevert(nothing());
        drain(0, OWNER); // locked money of an open pool stays
        eq(token.balanceOf(SINK), 0);
    }

    function test_V4_locked_money_is_burned_when_a_closed_pool_is_drained() external {
        run(0, 6, makeLeaves(0, 6), all(Outcome.Reject, 6));
        uint256 free = FUNDS - 6 * SLOT - 96;
        closePool();
        vm.expectEmit();
        emit IPayoutVault.Drained(pool, STRANGER, free - 1);
        vm.expectEmit();
        emit IPayoutVault.Burned(pool, 6 * SLOT);
        drain(free - 1, STRANGER);
        eq(token.balanceOf(SINK), 6 * SLOT);
        eq(token.balanceOf(STRANGER), free - 1);
        eqEscrow(1, 0, 0);
        eqOwed(0, 96);
        eq(liability(), 97);
    }

    function test_V4_locked_money_of_a_closed_pool_is_burned_by_a_drain_of_nothing() external {
        run(0, 6, makeLeaves(0, 6), all(Outcome.Reject, 6));
        closePool();
        drain(0, OWNER);
        eq(token.balanceOf(SINK), 6 * SLOT);
        eqEscrow(FUNDS - 6 * SLOT - 96, 0, 0);
        eq(liability(), FUNDS - 6 * SLOT);
        vm.expectRevert(nothing());
        drain(0, OWNER);
    }

    // -- judges

    function test_judges_alone_move_money_inside_a_pool() external {
        address[4] memory judges = [address(ledger), address(panel), address(court), address(plants)];
        for (uint32 i = 0; i < 4; ++i) {
            vm.startPrank(judges[i]);
            vault.reserve(pool, i, 100, 0);
            vault.pay(pool, i, STRANGER, 1);
            vault.giveAway(pool, i, STRANGER, 1);
            vault.release(pool, i, 1, 1);
            vault.settle(pool, i, new address[](0), new uint256[](0), 1, 0);
            vault.fine(pool, 1);
            vm.stopPrank();
            allow(STRANGER, 5);
            vm.startPrank(judges[i]);
            vault.takeBond(pool, STRANGER, 5);
            vault.spendBond(pool, STRANGER, 3);
            vault.lockBond(pool, 2);
            vm.stopPrank();
        }
        address[6] memory others =
            [OWNER, TRAINER, coordinator, address(stakes), address(registry), address(vault)];
        for (uint256 i = 0; i < 6; ++i) refuseAll(others[i]);
    }

    function refuseAll(address caller) internal {
        bytes memory reason = abi.encodeWithSelector(IPayoutVault.NotJudge.selector, caller);
        vm.startPrank(caller);
        vm.expectRevert(reason);
        vault.reserve(pool, 9, 1, 0);
        vm.expectRevert(reason);
        vault.settle(pool, 9, new address[](0), new uint256[](0), 0, 0);
        vm.expectRevert(reason);
        vault.pay(pool, 9, caller, 1);
        vm.expectRevert(reason);
        vault.giveAway(pool, 9, caller, 1);
        vm.expectRevert(reason);
        vault.release(pool, 9, 0, 1);
        vm.expectRevert(reason);
        vault.fine(pool, 1);
        vm.expectRevert(reason);
        vault.takeBond(pool, STRANGER, 1);
        vm.expectRevert(reason);
        vault.spendBond(pool, caller, 1);
        vm.expectRevert(reason);
        vault.lockBond(pool, 1);
        vm.stopPrank();
    }

    // -- reserve

    function test_reserve_takes_locked_money_first() external {
        fine(300);
        vm.expectEmit();
        emit IPayoutVault.Reserved(pool, 4, 0, 200);
        reserve(4, 200);
        eqEscrow(FUNDS - 300, 200, 100);
        eq(vault.reservationOf(pool, 4), 200);
        vm.expectEmit();
        emit IPayoutVault.Reserved(pool, 5, 70, 100);
        reserve(5, 170);
        eqEscrow(FUNDS - 370, 370, 0);
        vm.expectEmit();
        emit IPayoutVault.Reserved(pool, 6, 10, 0);
        reserve(6, 10);
        eqEscrow(FUNDS - 380, 380, 0);
        eq(vault.reservationOf(pool, 4), 200);
        eq(vault.reservationOf(pool, 5), 170);
        eq(vault.reservationOf(pool, 7), 0);
    }

    function test_reserve_takes_a_part_of_free_money_first() external {
        fine(300);
        vm.prank(address(ledger));
        vault.reserve(pool, 4, 200, 30);
        eqEscrow(FUNDS - 330, 200, 130);
        // All that is left and may be locked is locked.
        vm.prank(address(ledger));
        vault.reserve(pool, 5, 200, 50);
        eqEscrow(FUNDS - 400, 400, 0);
        drain(FUNDS - 410, OWNER);
        fine(10);
        vm.expectRevert(abi.encodeWithSelector(IPayoutVault.EscrowTooLow.selector, pool, 4, 5));
        vm.prank(address(ledger));
        vault.reserve(pool, 6, 5, 1);
        vm.prank(address(ledger));
        vault.reserve(pool, 6, 5, 0);
        eqEscrow(0, 405, 5);
    }

    // -- what is given away

    /// What is no pay for work comes out of what could have come back to the owner, never out of locked money.
    function test_V4_what_is_given_away_was_free_before() external {
        fine(300);
        vm.prank(address(ledger));
        vault.reserve(pool, 0, 500, 200); // 200 free, 300 locked
        vm.prank(address(ledger));
        vault.giveAway(pool, 0, STRANGER, 150);
        eqEarnings(STRANGER, 150, 0);
        eq(vault.reservationOf(pool, 0), 350);
        settle(0, workers[0], 20, 0, 0);
        // Work is paid from locked money first: of the rest, 50 are free and 280 are locked again.
        eqEscrow(FUNDS - 500 + 50, 0, 280);
        eqOwed(0, 170);
    }

    function test_V4_more_than_was_free_is_given_away_and_nothing_comes_back() external {
        fine(300);
        vm.prank(address(ledger));
        vault.reserve(pool, 0, 350, 50);
        vm.prank(address(ledger));
        vault.giveAway(pool, 0, STRANGER, 60);
        vm.prank(address(ledger));
        vault.giveAway(pool, 0, STRANGER, 0);
        settle(0, STRANGER, 0, 0, 0);
        eqEscrow(FUNDS - 350, 0, 290);
    }

    function test_reserve_beyond_free_and_locked_money_is_refused() external {
        fine(300);
        vm.expectRevert(abi.encodeWithSelector(IPayoutVault.EscrowTooLow.selector, pool, FUNDS, FUNDS + 1));
        reserve(0, FUNDS + 1);
        vm.expectRevert(abi.encodeWithSelector(IPayoutVault.EscrowTooLow.selector, pool, FUNDS, MOST + 2));
        reserve(0, MOST + 2);
        reserve(0, FUNDS);
        eqEscrow(0, FUNDS, 0);
    }

    function test_A34_pool_one_wei_short_of_a_step_cannot_open_it() external {
        publish(0);
        drain(FUNDS - stepCost(3) + 1, OWNER);
        vm.expectRevert(
            abi.encodeWithSelector(IPayoutVault.EscrowTooLow.selector, pool, stepCost(3) - 1, stepCost(3))
        );
        vm.prank(TRAINER);
        ledger.openStep(pool, 0, 0, 3);
        fund(pool, 1);
        runStep(0);
        for (uint256 i = 0; i < 3; ++i) vault.claim(pool, workers[i]);
        eqEscrow(stepCost(3) - 1_296, 0, 0);
    }

    // -- pay

    function test_pay_moves_money_of_the_reservation_to_a_provider() external {
        reserve(0, 100);
        vm.expectEmit();
        emit IPayoutVault.Earned(pool, 0, STRANGER, 40);
        pay(0, STRANGER, 40);
        pay(0, STRANGER, 0);
        eqEarnings(STRANGER, 40, 0);
        eq(vault.reservationOf(pool, 0), 60);
        eqEscrow(FUNDS - 100, 60, 0);
        eqOwed(0, 40);
        pay(0, PURSE, 60);
        eqEarnings(PURSE, 60, 0);
        eqOwed(0, 100);
        eq(vault.reservationOf(pool, 0), 0);
    }

    function test_pay_beyond_the_reservation_is_refused() external {
        reserve(0, 100);
        reserve(1, 50);
        vm.expectRevert(underflow());
        pay(0, STRANGER, 101);
        vm.expectRevert(tooWide(MOST + 1));
        pay(0, STRANGER, MOST + 1);
        eqEarnings(STRANGER, 0, 0);
    }

    // -- settle

    function test_settle_pays_locks_keeps_and_releases() external {
        reserve(0, 1_000);
        address[] memory providers = new address[](3);
        (providers[0], providers[1], providers[2]) = (workers[0], address(0), workers[1]);
        uint256[] memory amounts = new uint256[](3);
        (amounts[0], amounts[2]) = (100, 201);
        vm.expectEmit();
        emit IPayoutVault.Settled(pool, 0, providers, amounts);
        vm.expectEmit();
        emit IPayoutVault.Released(pool, 0, 579, 50);
        vm.prank(address(panel));
        vault.settle(pool, 0, providers, amounts, 50, 70);
        eqEscrow(FUNDS - 1_000 + 579, 70, 50);
        eqOwed(0, 301);
        eq(vault.reservationOf(pool, 0), 70);
        eqEarnings(workers[0], 100, 0);
        eqEarnings(workers[1], 201, 0);
        eqEarnings(address(0), 0, 0);
    }

    function test_settle_that_keeps_all_releases_nothing() external {
        reserve(0, 1_000);
        settle(0, workers[0], 400, 0, 600);
        eqEscrow(FUNDS - 1_000, 600, 0);
        eq(vault.reservationOf(pool, 0), 600);
    }

    function test_moves_of_nothing_change_and_say_nothing() external {
        reserve(0, 1_000);
        vm.recordLogs();
        pay(0, STRANGER, 0);
        release(0, 0, 0);
        settle(0, STRANGER, 0, 0, 1_000);
        eq(vault.claimMany(pool, new address[](2)), 0);
        eq(vm.getRecordedLogs().length, 0);
        eqEscrow(FUNDS - 1_000, 1_000, 0);
    }

    function test_settle_of_more_than_is_reserved_is_refused() external {
        reserve(0, 1_000);
        reserve(1, 1_000);
        vm.expectRevert(underflow());
        settle(0, workers[0], 400, 300, 301);
        vm.expectRevert(underflow());
        settle(0, workers[0], 1_001, 0, 0);
        settle(0, workers[0], 400, 300, 300);
        eqEscrow(FUNDS - 2_000, 1_300, 300);
    }

    function test_settle_with_fewer_amounts_than_providers_is_refused() external {
        reserve(0, 1_000);
        vm.expectRevert(abi.encodeWithSignature("Panic(uint256)", 0x32));
        vm.prank(address(panel));
        vault.settle(pool, 0, new address[](2), new uint256[](1), 0, 0);
    }

    function test_settle_of_one_provider_twice_adds_up() external {
        reserve(0, 1_000);
        address[] memory providers = new address[](2);
        (providers[0], providers[1]) = (workers[0], workers[0]);
        uint256[] memory amounts = new uint256[](2);
        (amounts[0], amounts[1]) = (100, 201);
        vm.prank(address(panel));
        vault.settle(pool, 0, providers, amounts, 0, 0);
        eqEarnings(workers[0], 301, 0);
        eqEscrow(FUNDS - 301, 0, 0);
    }

    // -- release: locked money never becomes free

    function test_V4_release_gives_back_what_came_from_free_money() external {
        fine(40);
        reserve(0, 100); // 40 locked and 60 free
        pay(0, STRANGER, 30); // of the locked part
        eqEscrow(FUNDS - 100, 70, 0);
        vm.expectEmit();
        emit IPayoutVault.Released(pool, 0, 55, 5);
        release(0, 5, 55);
        eqEscrow(FUNDS - 45, 10, 5);
        eq(vault.reservationOf(pool, 0), 10);
        vm.expectEmit();
        emit IPayoutVault.Released(pool, 0, 5, 5);
        release(0, 0, 10);
        eqEscrow(FUNDS - 40, 0, 10);
        eqOwed(0, 30);
    }

    function test_V4_release_of_reserved_locked_money_locks_it_again() external {
        fine(80);
        reserve(0, 100); // 80 locked and 20 free
        vm.expectEmit();
        emit IPayoutVault.Released(pool, 0, 20, 30);
        release(0, 0, 50);
        eqEscrow(FUNDS - 80, 50, 30);
        vm.expectEmit();
        emit IPayoutVault.Released(pool, 0, 0, 50);
        release(0, 0, 50);
        eqEscrow(FUNDS - 80, 0, 80);
    }

    function test_V4_pay_of_more_than_the_locked_part_lowers_what_comes_back() external {
        fine(40);
        reserve(0, 100); // 40 locked and 60 free
        pay(0, STRANGER, 75);
        release(0, 0, 25);
        eqEscrow(FUNDS - 75, 0, 0);
    }

    function test_V4_lock_of_more_than_the_locked_part_lowers_what_comes_back() external {
        fine(40);
        reserve(0, 100);
        release(0, 75, 0);
        eqEscrow(FUNDS - 100, 25, 75);
        release(0, 0, 25);
        eqEscrow(FUNDS - 75, 0, 75);
    }

    function test_V4_release_then_pay_uses_up_the_locked_part() external {
        fine(40);
        reserve(0, 100);
        release(0, 0, 60);
        eqEscrow(FUNDS - 40, 40, 0);
        pay(0, STRANGER, 39);
        release(0, 0, 1);
        eqEscrow(FUNDS - 40, 0, 1);
    }

    function test_release_of_more_than_is_reserved_is_refused() external {
        reserve(0, 100);
        reserve(1, 100);
        vm.expectRevert(underflow());
        release(0, 101, 0);
        vm.expectRevert(underflow());
        release(0, 0, 101);
        vm.expectRevert(underflow());
        release(0, 50, 51);
        release(0, 50, 50);
        eqEscrow(FUNDS - 150, 100, 50);
    }

    function testFuzz_V4_released_money_is_free_only_as_far_as_it_came_from_free(
        uint256 locked,
        uint256 reserved,
        uint256 paid,
        uint256 lockAmount
    ) external {
        locked %= FUNDS + 1;
        reserved = 1 + reserved % FUNDS;
        paid %= reserved + 1;
        lockAmount %= reserved - paid + 1;
        uint256 rest = reserved - paid - lockAmount;
        fine(locked);
        reserve(0, reserved);
        uint256 fromLocked = locked < reserved ? locked : reserved;
        settle(0, workers[0], paid, lockAmount, rest);
        release(0, 0, rest / 2);
        release(0, 0, rest - rest / 2);
        uint256 fromFree = reserved - fromLocked;
        uint256 toFree = rest < fromFree ? rest : fromFree;
        eqEscrow(FUNDS - locked - fromFree + toFree, 0, locked - fromLocked + reserved - paid - toFree);
        eqOwed(0, paid);
    }

    function test_V4_locked_money_pays_later_work_first() external {
        run(0, 6, makeLeaves(0, 6), all(Outcome.Reject, 6));
        uint256 free = FUNDS - 6 * SLOT - 96;
        Submission[] memory leaves = makeLeaves(1, 3);
        vm.expectEmit();
        emit IPayoutVault.Reserved(pool, 1, GIVEAWAY, stepCost(3) - GIVEAWAY);
        run(1, 3, leaves, all(Outcome.Accept, 3));
        // The step cost less than the locked money: what it did not use stays locked, and all free money came back.
        eqEscrow(free - 2 * SEAL_FEE, 0, 3_000 - 1_290);
    }

    function test_V4_locked_money_is_not_freed_by_an_empty_step() external {
        run(0, 6, makeLeaves(0, 6), all(Outcome.Reject, 6));
        uint256 free = FUNDS - 6 * SLOT - 96;
        seed(1, 100); // draws all of the locked money, and much of the free
        skip(81);
        ledger.cancelStep(pool, 1);
        eqEscrow(free - SEAL_FEE, 0, 6 * SLOT);
        run(2, 100, makeLeaves(2, 3), all(Outcome.Accept, 100));
        eqEscrow(free - 3 * SEAL_FEE, 0, 6 * SLOT - 1_290);
    }

    // -- fine

    function test_fine_locks_free_money_as_far_as_there_is() external {
        vm.expectEmit();
        emit IPayoutVault.Fined(pool, 100);
        fine(100);
        eqEscrow(FUNDS - 100, 0, 100);
        vm.expectEmit();
        emit IPayoutVault.Fined(pool, uint256(FUNDS - 100));
        fine(type(uint256).max);
        eqEscrow(0, 0, FUNDS);
        fine(1);
        eqEscrow(0, 0, FUNDS);
        eq(liability(), FUNDS);
    }

    // -- bonds

    function test_bond_is_taken_spent_and_locked() external {
        allow(STRANGER, 100);
        vm.expectEmit();
        emit IPayoutVault.BondTaken(pool, STRANGER, 100);
        takeBond(STRANGER, 100);
        eqOwed(100, 0);
        eq(liability(), FUNDS + 100);
        eq(token.balanceOf(address(vault)), FUNDS + 100);
        vm.expectEmit();
        emit IPayoutVault.BondSpent(pool, PURSE, 60);
        spendBond(PURSE, 60);
        eqOwed(40, 60);
        eqEarnings(PURSE, 60, 0);
        vm.expectEmit();
        emit IPayoutVault.BondLocked(pool, 30);
        vm.prank(address(court));
        vault.lockBond(pool, 30);
        eqOwed(10, 60);
        eqEscrow(FUNDS, 0, 30);
        vault.claim(pool, PURSE);
        eq(token.balanceOf(PURSE), 60);
    }

    function test_bond_beyond_what_is_bonded_is_refused() external {
        allow(STRANGER, 100);
        takeBond(STRANGER, 100);
        vm.expectRevert(underflow());
        spendBond(PURSE, 101);
        vm.expectRevert(underflow());
        vm.prank(address(court));
        vault.lockBond(pool, 101);
        vm.expectRevert(tooWide(MOST + 101));
        spendBond(PURSE, MOST + 101);
        vm.expectRevert(tooWide(MOST + 101));
        vm.prank(address(court));
        vault.lockBond(pool, MOST + 101);
        spendBond(PURSE, 100);
        eqOwed(0, 100);
    }

    function test_bond_of_a_pool_that_nobody_funded_is_taken() external {
        useEmptyPool();
        takeBond(STRANGER, 0); // of a pool whose work is not paid
        allow(STRANGER, 9);
        takeBond(STRANGER, 9);
        eqOwed(9, 0);
        eq(liability(), 9);
        eq(token.balanceOf(address(vault)), FUNDS + 9);
        spendBond(STRANGER, 9);
        vault.claim(pool, STRANGER);
        eq(token.balanceOf(STRANGER), 9);
    }

    function test_bond_that_was_not_allowed_is_not_taken() external {
        token.mint(STRANGER, 100);
        vm.expectRevert(
            abi.encodeWithSelector(IERC20Errors.ERC20InsufficientAllowance.selector, address(vault), 0, 100)
        );
        takeBond(STRANGER, 100);
        eqOwed(0, 0);
    }

    // -- claim

    function test_claim_pays_all_of_many_steps_to_the_payee() external {
        runStep(0);
        runStep(1);
        runStep(2);
        vm.prank(workers[0]);
        stakes.setPayee(pool, PURSE);
        vm.expectEmit();
        emit IPayoutVault.Claimed(pool, workers[0], PURSE, 1_200);
        vm.prank(STRANGER);
        uint256 amount = vault.claim(pool, workers[0]);
        eq(amount, 1_200);
        eq(token.balanceOf(PURSE), 1_200);
        eq(token.balanceOf(workers[0]), 0);
        eq(token.balanceOf(STRANGER), 0);
        eqEarnings(workers[0], 1_200, 1_200);
        eqOwed(0, 3 * 1_296 - 1_200);
        eq(liability(), FUNDS - 1_200);
        eq(token.balanceOf(address(vault)), FUNDS - 1_200);
    }

    function test_claim_goes_to_the_payee_of_then() external {
        runStep(0);
        vault.claim(pool, workers[0]);
        eq(token.balanceOf(workers[0]), 400);
        vm.prank(workers[0]);
        stakes.setPayee(pool, PURSE);
        runStep(1);
        vault.claim(pool, workers[0]);
        eq(token.balanceOf(PURSE), 400);
        eq(token.balanceOf(workers[0]), 400);
        eqEarnings(workers[0], 800, 800);
    }

    function test_claim_of_fees_pays_sealers_members_and_jurors() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        address[] memory members = audit(0, 3, leaves);
        voteAll(0, all(Outcome.Accept, 3));
        LeafOpening memory leaf = opening(3, leaves, 1);
        bytes[] memory votes = votesOf(0);
        allow(STRANGER, BOND);
        vm.prank(STRANGER);
        CaseId id = court.challenge(pool, 0, leaf, votes, bytes32(0), "here");
        address[] memory jury = judge(id, Ruling.Fault);
        skip(30);
        finalize(0);
        for (uint256 i = 0; i < 3; ++i) {
            vault.claim(pool, members[i]);
            eq(token.balanceOf(members[i]), PANEL_FEE);
            vault.claim(pool, jury[i]);
            eq(token.balanceOf(jury[i]), JUROR_FEE);
        }
        vault.claim(pool, address(this));
        eq(token.balanceOf(address(this)), 2 * SEAL_FEE);
        vault.claim(pool, STRANGER);
        eq(token.balanceOf(STRANGER), BOND);
        eqEscrow(FUNDS - 800 - 96 - 15 - SLOT, 0, SLOT);
        eqOwed(0, 800);
    }

    function test_A34_claim_twice_in_a_block_pays_once() external {
        runStep(0);
        vault.claim(pool, workers[0]);
        refuseClaim(workers[0], nothing());
        eq(token.balanceOf(workers[0]), 400);
        eqOwed(0, 896);
        runStep(1);
        vault.claim(pool, workers[0]);
        eq(token.balanceOf(workers[0]), 800);
        refuseClaim(workers[0], nothing());
    }

    function test_A34_claim_after_everything_is_still_paid() external {
        runStep(0);
        closePool();
        drain(FUNDS - 1_296, OWNER);
        ExitId id = startExit(workers[0], Role.Worker, STAKE);
        skip(300);
        stakes.finishExit(id);
        vm.prank(workers[0]);
        stakes.withdraw(STAKE);
        skip(365 days);
        for (uint256 i = 0; i < 3; ++i) vault.claim(pool, workers[i]);
        eq(token.balanceOf(workers[0]), STAKE + 400);
        address[] memory members = panel.panelOf(pool, 0);
        for (uint256 i = 0; i < 3; ++i) vault.claim(pool, members[i]);
        vault.claim(pool, address(this));
        eq(token.balanceOf(address(vault)), 0);
        eq(liability(), 0);
        eqEscrow(0, 0, 0);
        eqOwed(0, 0);
        refuseClaim(workers[0], nothing());
    }

    function test_A34_claim_with_the_vault_one_wei_short_waits_for_it() external {
        runStep(0);
        uint256 there = token.balanceOf(address(vault));
        vm.prank(address(vault));
        token.transfer(SINK, there - 399);
        refuseClaim(
            workers[0],
            abi.encodeWithSelector(IERC20Errors.ERC20InsufficientBalance.selector, address(vault), 399, 400)
        );
        eqEarnings(workers[0], 400, 0);
        eqOwed(0, 1_296);
        token.mint(address(vault), 1);
        vault.claim(pool, workers[0]);
        eq(token.balanceOf(workers[0]), 400);
    }

    function test_A34_step_without_accepted_work_pays_no_worker() external {
        run(0, 3, makeLeaves(0, 3), all(Outcome.Reject, 3));
        for (uint256 i = 0; i < 3; ++i) refuseClaim(workers[i], nothing());
        eqOwed(0, 96);
        seed(1, 3);
        skip(80);
        ledger.cancelStep(pool, 1);
        for (uint256 i = 0; i < 3; ++i) refuseClaim(workers[i], nothing());
        refuseClaim(STRANGER, nothing());
        refuseClaim(address(0), nothing());
    }

    function test_A34_three_workers_of_odd_amounts_leave_no_dust() external {
        Submission[] memory leaves = makeLeaves(0, 5); // two of worker 0, two of worker 1, one of worker 2
        (leaves[0].units, leaves[1].units, leaves[2].units) = (1, 33, 67);
        (leaves[3].units, leaves[4].units) = (199, 201);
        run(0, 5, leaves, all(Outcome.Accept, 5));
        uint256[3] memory expected = [uint256(102 + 166), 234 + 498, 500];
        for (uint256 i = 0; i < 3; ++i) {
            vault.claim(pool, workers[i]);
            eq(token.balanceOf(workers[i]), expected[i]);
        }
        eqEscrow(FUNDS - 1_500 - 96, 0, 0);
        eqOwed(0, 96);
        eq(liability(), FUNDS - 1_500);
    }

    function test_claim_in_one_pool_leaves_another_alone() external {
        runStep(0);
        PoolId first = pool;
        useEmptyPool();
        fund(pool, 1_000);
        refuseClaim(workers[0], nothing());
        reserve(0, 500);
        pay(0, workers[0], 500);
        vault.claim(pool, workers[0]);
        eq(token.balanceOf(workers[0]), 500);
        pool = first;
        eqEarnings(workers[0], 400, 0);
        vm.prank(workers[0]);
        stakes.setPayee(first, PURSE);
        vault.claim(first, workers[0]);
        eq(token.balanceOf(PURSE), 400);
    }

    function test_claim_while_the_pool_is_paused_is_paid() external {
        runStep(0);
        vm.prank(PAUSER);
        registry.pause(pool);
        vault.claim(pool, workers[0]);
        eq(token.balanceOf(workers[0]), 400);
    }

    function some(address a, address b, address c) internal pure returns (address[] memory list) {
        list = new address[](3);
        (list[0], list[1], list[2]) = (a, b, c);
    }

    function test_claim_of_many_providers_pays_each_and_passes_over_the_rest() external {
        runStep(0);
        runStep(1);
        vault.claim(pool, workers[1]);
        vm.prank(workers[2]);
        stakes.setPayee(pool, PURSE);
        vm.expectEmit();
        emit IPayoutVault.Claimed(pool, workers[0], workers[0], 800);
        vm.expectEmit();
        emit IPayoutVault.Claimed(pool, workers[2], PURSE, 800);
        vm.prank(STRANGER);
        eq(vault.claimMany(pool, some(workers[0], workers[1], workers[2])), 1_600);
        eq(token.balanceOf(workers[0]), 800);
        eq(token.balanceOf(workers[1]), 800);
        eq(token.balanceOf(PURSE), 800);
        eqEarnings(workers[2], 800, 800);
        eqOwed(0, 2 * 1_296 - 2_400);
        eq(liability(), FUNDS - 2_400);
        eq(vault.claimMany(pool, some(workers[0], workers[1], workers[2])), 0);
        eq(vault.claimMany(pool, new address[](0)), 0);
    }

    function test_A34_claim_of_one_provider_many_times_pays_once() external {
        runStep(0);
        eq(vault.claimMany(pool, some(workers[0], workers[0], workers[0])), 400);
        eq(token.balanceOf(workers[0]), 400);
        refuseClaim(workers[0], nothing());
    }

    // -- lifetime sums

    function test_earnings_of_all_that_a_pool_can_receive_are_claimed() external {
        useEmptyPool();
        fund(pool, MOST);
        reserve(0, MOST);
        pay(0, PURSE, MOST - 30);
        eq(vault.claim(pool, PURSE), MOST - 30);
        pay(0, PURSE, 20);
        settle(0, PURSE, 10, 0, 0);
        eqEarnings(PURSE, MOST, MOST - 30);
        eq(vault.claim(pool, PURSE), 30);
        eqEarnings(PURSE, MOST, MOST);
        eq(token.balanceOf(PURSE), MOST);
        eqOwed(0, 0);
    }

    // -- no wei appears or is stuck

    function testFuzz_V1_all_that_was_funded_leaves_and_no_wei_more(uint256 random, uint256 extra) external {
        extra = 1 + extra % FUNDS;
        fund(pool, extra);
        runRandom(0, random);
        runRandom(1, random >> 128);
        uint256 out = 0;
        for (uint256 i = 0; i < 3; ++i) out += claimIfAny(workers[i]);
        for (uint256 i = 0; i < 8; ++i) out += claimIfAny(validators[i]);
        out += claimIfAny(address(this));
        (uint256 free, uint256 reserved, uint256 locked) = vault.escrowOf(pool);
        eq(reserved, 0);
        eq(out + free + locked, FUNDS + extra);
        closePool();
        drain(free, OWNER);
        eq(token.balanceOf(OWNER), free);
        eq(token.balanceOf(SINK), locked);
        eq(token.balanceOf(address(vault)), 0);
        eq(liability(), 0);
    }

    function runRandom(uint32 step, uint256 random) internal {
        uint32 slots = uint32(1 + random % 9);
        Submission[] memory leaves = makeLeaves(step, slots);
        Outcome[] memory outcomes = new Outcome[](slots);
        for (uint256 i = 0; i < slots; ++i) {
            uint256 mix = uint256(keccak256(abi.encode(random, i)));
            leaves[i].units = uint32(mix % 300);
            outcomes[i] = Outcome((mix >> 32) % 4);
        }
        run(step, slots, leaves, pack(outcomes));
    }

    function claimIfAny(address provider) internal returns (uint256) {
        (uint256 earned_, uint256 claimed_) = vault.earningsOf(pool, provider);
        return earned_ == claimed_ ? 0 : vault.claim(pool, provider);
    }

    // -- hostile tokens: refused

    function test_token_that_takes_a_fee_is_refused() external {
        FeeToken fee = new FeeToken();
        PoolTerms memory t = terms();
        t.parties.payoutToken = address(fee);
        pool = createPool(t);
        fee.mint(STRANGER, 1_000);
        vm.prank(STRANGER);
        fee.approve(address(vault), 1_000);
        bytes memory reason = abi.encodeWithSelector(IPayoutVault.TransferMismatch.selector, 990, 1_000);
        vm.expectRevert(reason);
        vm.prank(STRANGER);
        vault.fund(pool, 1_000);
        vm.expectRevert(reason);
        takeBond(STRANGER, 1_000);
        eqEscrow(0, 0, 0);
        eq(fee.balanceOf(address(vault)), 0);
    }

    function test_token_that_takes_more_of_the_vault_is_refused() external {
        GreedyToken greedy = new GreedyToken();
        usePoolOf(address(greedy));
        greedy.tax(address(vault));
        greedy.mint(STRANGER, 10);
        vm.prank(STRANGER);
        greedy.approve(address(vault), 10);
        vm.expectRevert(abi.encodeWithSelector(IPayoutVault.TransferMismatch.selector, 0, 10));
        vm.prank(STRANGER);
        vault.fund(pool, 10);
    }

    function test_token_that_says_false_is_refused() external {
        FalseToken no = new FalseToken();
        usePoolOf(address(no));
        runStep(0);
        no.mint(STRANGER, 10);
        vm.prank(STRANGER);
        no.approve(address(vault), 10);
        no.refuse(true);
        bytes memory reason = abi.encodeWithSelector(SafeERC20.SafeERC20FailedOperation.selector, address(no));
        vm.expectRevert(reason);
        vm.prank(STRANGER);
        vault.fund(pool, 10);
        vm.expectRevert(reason);
        takeBond(STRANGER, 10);
        vm.expectRevert(reason);
        drain(10, OWNER);
        refuseClaim(workers[0], reason);
        eqEarnings(workers[0], 400, 0);
        no.refuse(false);
        vault.claim(pool, workers[0]);
        eq(no.balanceOf(workers[0]), 400);
    }

    // -- hostile tokens: harmless to others

    /// The pool of an honest token, beside one of a hostile token, is whole.
    function eqFirstPool() internal {
        PoolId hostile = pool;
        pool = PoolId.wrap(1);
        eqEscrow(FUNDS, 0, 0);
        eq(liability(), FUNDS);
        eq(token.balanceOf(address(vault)), FUNDS);
        runStep(0);
        vault.claim(pool, workers[0]);
        eq(token.balanceOf(workers[0]), 400);
        drain(FUNDS - 1_296, OWNER);
        pool = hostile;
    }

    function test_token_that_returns_nothing_works() external {
        SilentToken silent = new SilentToken();
        usePoolOf(address(silent));
        runStep(0);
        vault.claim(pool, workers[0]);
        eq(silent.balanceOf(workers[0]), 400);
        PayoutToken(address(silent)).mint(STRANGER, BOND);
        vm.prank(STRANGER);
        silent.approve(address(vault), BOND);
        takeBond(STRANGER, BOND);
        drain(7, PURSE);
        eq(silent.balanceOf(PURSE), 7);
        eqFirstPool();
    }

    function test_token_that_shrinks_pays_while_there_is_any_and_harms_no_other() external {
        RebaseToken rebase = new RebaseToken();
        usePoolOf(address(rebase));
        runStep(0);
        drain(FUNDS - 1_296, OWNER);
        rebase.rebase(50); // 648 are left of 1296
        vault.claim(pool, workers[0]);
        eq(rebase.balanceOf(workers[0]), 400);
        vm.expectRevert(abi.encodeWithSignature("Error(string)", "balance too low"));
        vault.claim(pool, workers[1]);
        eqEarnings(workers[1], 400, 0);
        rebase.rebase(100);
        vault.claim(pool, workers[1]);
        eq(rebase.balanceOf(workers[1]), 400);
        eqFirstPool();
    }

    function test_token_that_grows_gives_nobody_more() external {
        RebaseToken rebase = new RebaseToken();
        usePoolOf(address(rebase));
        runStep(0);
        rebase.rebase(200);
        vault.claim(pool, workers[0]);
        eq(rebase.balanceOf(workers[0]), 400);
        eqEscrow(FUNDS - 1_296, 0, 0);
        vm.expectRevert(
            abi.encodeWithSelector(IPayoutVault.EscrowTooLow.selector, pool, FUNDS - 1_296, FUNDS - 1_295)
        );
        drain(FUNDS - 1_295, OWNER);
        eqFirstPool();
    }

    function test_token_that_robs_the_vault_robs_its_own_pool_alone() external {
        GreedyToken greedy = new GreedyToken();
        usePoolOf(address(greedy));
        runStep(0);
        drain(FUNDS - 1_296, OWNER);
        greedy.tax(address(vault));
        vault.claim(pool, workers[0]); // takes 800
        vault.claim(pool, workers[1]); // too little is left to take twice
        refuseClaim(
            workers[2],
            abi.encodeWithSelector(
                IERC20Errors.ERC20InsufficientBalance.selector, address(vault), 1_296 - 3 * 400, 400
            )
        );
        eqFirstPool();
    }

    function test_token_that_shuns_one_receiver_pays_the_others() external {
        PickyToken picky = new PickyToken();
        usePoolOf(address(picky));
        picky.shun(workers[0]);
        runStep(0); // a settlement sends no tokens
        refuseClaim(workers[0], abi.encodeWithSelector(PickyToken.Unwanted.selector, workers[0]));
        eqEarnings(workers[0], 400, 0);
        vm.expectRevert(abi.encodeWithSelector(PickyToken.Unwanted.selector, workers[0]));
        vault.claimMany(pool, some(workers[1], workers[0], workers[2]));
        vault.claim(pool, workers[1]);
        vault.claim(pool, workers[2]);
        eq(picky.balanceOf(workers[1]), 400);
        runStep(1);
        vm.prank(workers[0]);
        stakes.setPayee(pool, PURSE);
        vault.claim(pool, workers[0]);
        eq(picky.balanceOf(PURSE), 800);
        eqFirstPool();
    }

    // -- hostile tokens: hooks

    function test_claim_reentered_pays_once() external {
        ReentrantToken hostile = new ReentrantToken();
        usePoolOf(address(hostile));
        runStep(0);
        for (uint256 i = 0; i < 2; ++i) {
            hostile.arm(address(vault), abi.encodeCall(vault.claim, (pool, workers[i])));
            vault.claim(pool, workers[0]);
            require(hostile.failed(), "inner call must fail");
            eq(keccak256(hostile.failure()), reentered());
            eq(hostile.balanceOf(workers[0]), 400 * (i + 1));
            eq(hostile.balanceOf(workers[1]), 0);
            if (i == 0) runStep(1);
        }
        eqEarnings(workers[1], 800, 0);
        eqFirstPool();
    }

    function test_claim_of_many_reentered_pays_once() external {
        ReentrantToken hostile = new ReentrantToken();
        usePoolOf(address(hostile));
        runStep(0);
        address[] memory all_ = some(workers[0], workers[1], workers[2]);
        hostile.arm(address(vault), abi.encodeCall(vault.claimMany, (pool, all_)));
        vault.claimMany(pool, all_);
        require(hostile.failed(), "inner call must fail");
        eq(keccak256(hostile.failure()), reentered());
        for (uint256 i = 0; i < 3; ++i) eq(hostile.balanceOf(workers[i]), 400);
    }

    function test_claim_reentered_by_a_drain_of_the_owner_is_refused() external {
        ReentrantToken hostile = new ReentrantToken();
        usePoolOf(address(hostile));
        runStep(0);
        // The token itself becomes the owner.
        vm.prank(OWNER);
        registry.offerOwnership(pool, address(hostile));
        hostile.mint(STRANGER, 1);
        hostile.arm(address(registry), abi.encodeCall(registry.acceptOwnership, (pool)));
        vm.prank(STRANGER);
        hostile.transfer(PURSE, 1);
        eq(registry.ownerOf(pool), address(hostile));
        hostile.arm(address(vault), abi.encodeCall(vault.drain, (pool, 1, address(hostile))));
        vault.claim(pool, workers[0]);
        require(hostile.failed(), "inner call must fail");
        eq(keccak256(hostile.failure()), reentered());
        hostile.arm(address(vault), abi.encodeCall(vault.claim, (pool, workers[1])));
        vm.prank(address(hostile));
        vault.drain(pool, 5, PURSE);
        require(hostile.failed(), "inner call must fail");
        eq(keccak256(hostile.failure()), reentered());
        eqEscrow(FUNDS - 1_296 - 5, 0, 0);
    }

    function test_fund_reentered_is_refused() external {
        ReentrantToken hostile = new ReentrantToken();
        usePoolOf(address(hostile));
        runStep(0);
        hostile.arm(address(vault), abi.encodeCall(vault.claim, (pool, workers[0])));
        fundIn(address(hostile), 10); // the hook of the mint to the owner does not fire
        require(hostile.failed(), "inner call must fail");
        eq(keccak256(hostile.failure()), reentered());
        hostile.arm(address(vault), abi.encodeCall(vault.fund, (pool, 1)));
        fundIn(address(hostile), 10);
        require(hostile.failed(), "inner call must fail");
        eq(keccak256(hostile.failure()), reentered());
        eqEscrow(FUNDS + 20 - 1_296, 0, 0);
    }

    function test_bond_reentered_by_a_claim_is_refused() external {
        ReentrantToken hostile = new ReentrantToken();
        usePoolOf(address(hostile));
        runStep(0);
        hostile.mint(STRANGER, 10);
        vm.prank(STRANGER);
        hostile.approve(address(vault), 10);
        hostile.arm(address(vault), abi.encodeCall(vault.claim, (pool, workers[0])));
        takeBond(STRANGER, 10);
        require(hostile.failed(), "inner call must fail");
        eq(keccak256(hostile.failure()), reentered());
        eqOwed(10, 1_296);
    }

    /// Others' contracts may be called from the hook: the books are right by then.
    function test_claim_reentered_by_a_settlement_counts_both() external {
        ReentrantToken hostile = new ReentrantToken();
        usePoolOf(address(hostile));
        runStep(0);
        audit(1, 3, makeLeaves(1, 3));
        voteAll(1, all(Outcome.Accept, 3));
        skip(30);
        PayTable memory table = tableOf(1);
        hostile.arm(address(panel), abi.encodeCall(panel.finalize, (pool, 1, votesOf(1), table)));
        vault.claim(pool, workers[0]);
        require(!hostile.failed(), "settles");
        eq(hostile.balanceOf(workers[0]), 400);
        eqEarnings(workers[0], 800, 400);
        eqOwed(0, 2 * 1_296 - 400);
        vault.claim(pool, workers[0]);
        eq(hostile.balanceOf(workers[0]), 800);
    }
}
