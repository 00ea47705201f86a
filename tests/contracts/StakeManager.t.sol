// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";

import {StakeManager} from "../../contracts/StakeManager.sol";
import {IPoolRegistry} from "../../contracts/interfaces/IPoolRegistry.sol";
import {IStakeManager} from "../../contracts/interfaces/IStakeManager.sol";
import {ISubmissionLedger} from "../../contracts/interfaces/ISubmissionLedger.sol";
import {Outcome, Role} from "../../contracts/types/Enums.sol";
import {ExitId, PoolId} from "../../contracts/types/Ids.sol";
import {PoolTerms} from "../../contracts/types/PoolTerms.sol";
import {Submission} from "../../contracts/types/Submission.sol";
import {ChainTest} from "./support/ChainTest.sol";
import {FeeToken, ReentrantToken} from "./support/Tokens.sol";
import {vm} from "./support/Vm.sol";

contract StakeManagerTest is ChainTest {
    address internal worker;

    function setUp() public override {
        super.setUp();
        worker = workers[0];
    }

    function slash(address provider, uint256 bps, bytes32 offence) internal returns (uint256) {
        vm.prank(address(ledger));
        return stakes.slash(pool, Role.Worker, provider, bps, offence);
    }

    function position(address provider) internal view returns (uint256 tokens, uint256 shares, uint256 exiting) {
        return stakes.positionOf(pool, Role.Worker, provider);
    }

    // -- deposit and withdraw

    function test_deposit_then_withdraw_returns_all() external {
        token.mint(STRANGER, 500);
        vm.startPrank(STRANGER);
        token.approve(address(stakes), 500);
        vm.expectEmit();
        emit IStakeManager.Deposited(STRANGER, 500);
        stakes.deposit(500);
        eq(stakes.idleOf(STRANGER), 500);
        vm.expectEmit();
        emit IStakeManager.Withdrawn(STRANGER, 500);
        stakes.withdraw(500);
        eq(token.balanceOf(STRANGER), 500);
        eq(stakes.idleOf(STRANGER), 0);
        eq(stakes.providerOf(STRANGER), address(0));
    }

    function test_withdraw_above_idle_is_refused() external {
        deposit(STRANGER, 500);
        vm.startPrank(STRANGER);
        vm.expectRevert(
            abi.encodeWithSelector(IStakeManager.IdleTooLow.selector, STRANGER, uint256(500), uint256(501))
        );
        stakes.withdraw(501);
    }

    function test_withdraw_of_allocated_stake_is_refused() external {
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.IdleTooLow.selector, worker, uint256(0), uint256(1)));
        vm.prank(worker);
        stakes.withdraw(1);
    }

    function test_amount_zero_is_refused_everywhere() external {
        bytes memory zero = abi.encodeWithSelector(IStakeManager.AmountZero.selector);
        bytes32 agreed = registry.termsHashOf(pool);
        vm.startPrank(worker);
        vm.expectRevert(zero);
        stakes.deposit(0);
        vm.expectRevert(zero);
        stakes.withdraw(0);
        vm.expectRevert(zero);
        stakes.allocate(pool, Role.Worker, 0, agreed);
        vm.expectRevert(zero);
        stakes.startExit(pool, Role.Worker, 0);
    }

    function test_deposit_of_a_fee_token_is_refused() external {
        FeeToken fee = new FeeToken();
        StakeManager manager = new StakeManager(fee, ledger, registry, SINK);
        fee.mint(STRANGER, 1_000);
        vm.startPrank(STRANGER);
        fee.approve(address(manager), 1_000);
        vm.expectRevert(
            abi.encodeWithSelector(IStakeManager.TransferMismatch.selector, uint256(990), uint256(1_000))
        );
        manager.deposit(1_000);
        eq(fee.balanceOf(STRANGER), 1_000);
    }

    function test_withdraw_reentered_pays_once() external {
        ReentrantToken hostile = new ReentrantToken();
        StakeManager manager = new StakeManager(hostile, ledger, registry, SINK);
        hostile.mint(STRANGER, 1_000);
        vm.startPrank(STRANGER);
        hostile.approve(address(manager), 1_000);
        manager.deposit(1_000);
        hostile.arm(address(manager), abi.encodeCall(manager.withdraw, (500)));
        manager.withdraw(500);
        require(hostile.failed(), "inner call must fail");
        eq(keccak256(hostile.failure()), keccak256(abi.encodeWithSelector(ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector)));
        eq(hostile.balanceOf(STRANGER), 500);
    }

    function test_constructor_zero_address_is_refused() external {
        bytes memory zero = abi.encodeWithSelector(IStakeManager.AddressZero.selector);
        vm.expectRevert(zero);
        new StakeManager(IERC20(address(0)), ledger, registry, SINK);
        vm.expectRevert(zero);
        new StakeManager(token, ISubmissionLedger(address(0)), registry, SINK);
        vm.expectRevert(zero);
        new StakeManager(token, ledger, IPoolRegistry(address(0)), SINK);
        vm.expectRevert(zero);
        new StakeManager(token, ledger, registry, address(0));
    }

    // -- allocate

    function test_S9_allocate_under_other_terms_is_refused() external {
        deposit(STRANGER, 500);
        bytes32 agreed = registry.termsHashOf(pool);
        vm.startPrank(STRANGER);
        vm.expectRevert(
            abi.encodeWithSelector(IStakeManager.TermsMismatch.selector, pool, keccak256("other"), agreed)
        );
        stakes.allocate(pool, Role.Worker, 500, keccak256("other"));
    }

    function test_S9_allocate_with_the_hash_of_another_pool_is_refused() external {
        PoolTerms memory t = terms();
        t.faultSlashBps = 1;
        bytes32 other = registry.termsHashOf(createPool(t));
        deposit(STRANGER, 500);
        vm.startPrank(STRANGER);
        vm.expectPartialRevert(IStakeManager.TermsMismatch.selector);
        stakes.allocate(pool, Role.Worker, 500, other);
    }

    function test_allocate_to_a_closed_pool_is_refused() external {
        deposit(STRANGER, 500);
        bytes32 agreed = registry.termsHashOf(pool);
        vm.prank(OWNER);
        registry.closePool(pool);
        vm.startPrank(STRANGER);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.PoolIsClosed.selector, pool));
        stakes.allocate(pool, Role.Worker, 500, agreed);
    }

    function test_allocate_to_an_unknown_pool_is_refused() external {
        deposit(STRANGER, 500);
        vm.startPrank(STRANGER);
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.UnknownPool.selector, PoolId.wrap(77)));
        stakes.allocate(PoolId.wrap(77), Role.Worker, 500, bytes32(0));
    }

    function test_allocate_above_idle_is_refused() external {
        deposit(STRANGER, 500);
        bytes32 agreed = registry.termsHashOf(pool);
        vm.startPrank(STRANGER);
        vm.expectPartialRevert(IStakeManager.IdleTooLow.selector);
        stakes.allocate(pool, Role.Worker, 501, agreed);
    }

    function test_allocate_below_the_minimum_is_refused() external {
        deposit(STRANGER, 500);
        bytes32 agreed = registry.termsHashOf(pool);
        vm.startPrank(STRANGER);
        vm.expectRevert(
            abi.encodeWithSelector(
                IStakeManager.StakeBelowMinimum.selector, pool, Role.Worker, uint256(99), uint256(100)
            )
        );
        stakes.allocate(pool, Role.Worker, 99, agreed);
        vm.expectRevert(
            abi.encodeWithSelector(
                IStakeManager.StakeBelowMinimum.selector, pool, Role.Validator, uint256(199), uint256(200)
            )
        );
        stakes.allocate(pool, Role.Validator, 199, agreed);
        stakes.allocate(pool, Role.Worker, 100, agreed);
    }

    function test_S5_second_role_in_one_pool_is_refused() external {
        bytes32 agreed = registry.termsHashOf(pool);
        deposit(worker, 500);
        deposit(validators[0], 500);
        vm.expectRevert(
            abi.encodeWithSelector(IStakeManager.OtherRoleHeld.selector, pool, worker, Role.Worker)
        );
        vm.prank(worker);
        stakes.allocate(pool, Role.Validator, 500, agreed);
        vm.expectRevert(
            abi.encodeWithSelector(IStakeManager.OtherRoleHeld.selector, pool, validators[0], Role.Validator)
        );
        vm.prank(validators[0]);
        stakes.allocate(pool, Role.Worker, 500, agreed);
    }

    function test_S5_second_role_while_the_first_is_leaving_is_refused() external {
        startExit(worker, Role.Worker, STAKE);
        deposit(worker, 500);
        bytes32 agreed = registry.termsHashOf(pool);
        vm.prank(worker);
        vm.expectPartialRevert(IStakeManager.OtherRoleHeld.selector);
        stakes.allocate(pool, Role.Validator, 500, agreed);
    }

    // -- exits

    function test_exit_due_returns_stake_to_idle() external {
        ExitId id = startExit(worker, Role.Worker, 400);
        eq(stakes.exitOf(id).shares, 400);
        eq(stakes.activeStakeOf(pool, Role.Worker, worker), 600);
        eq(tokensOf(worker), STAKE);
        skip(200);
        vm.expectEmit();
        emit IStakeManager.ExitFinished(id, worker, 400);
        vm.prank(STRANGER);
        stakes.finishExit(id);
        eq(stakes.idleOf(worker), 400);
        eq(tokensOf(worker), 600);
        eq(stakes.activeStakeOf(pool, Role.Worker, worker), 600);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.UnknownExit.selector, id));
        stakes.finishExit(id);
    }

    function test_S7_exit_before_its_release_is_refused() external {
        ExitId id = startExit(worker, Role.Worker, STAKE);
        uint256 releaseAt = clock + 200;
        eq(stakes.exitOf(id).releaseAt, releaseAt);
        skip(199);
        vm.expectRevert(
            abi.encodeWithSelector(IStakeManager.ExitNotReleased.selector, id, releaseAt, releaseAt - 1)
        );
        stakes.finishExit(id);
        skip(1);
        stakes.finishExit(id);
    }

    function test_exit_of_more_shares_than_held_is_refused() external {
        startExit(worker, Role.Worker, 700);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.SharesTooLow.selector, uint256(300), uint256(301)));
        vm.prank(worker);
        stakes.startExit(pool, Role.Worker, 301);
    }

    function test_exit_unknown_is_refused() external {
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.UnknownExit.selector, ExitId.wrap(1)));
        stakes.finishExit(ExitId.wrap(1));
    }

    function test_S2_exiting_stake_is_slashed_alike() external {
        ExitId id = startExit(worker, Role.Worker, STAKE);
        eq(slash(worker, 4_000, keccak256("bad batch")), 400);
        skip(200);
        stakes.finishExit(id);
        eq(stakes.idleOf(worker), 600);
        eq(token.balanceOf(SINK), 400);
    }

    function test_S2_exit_waits_for_steps_opened_before_it() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        open(0, 3);
        ExitId id = startExit(worker, Role.Worker, STAKE);
        mine(3);
        skip(10_000); // nobody seals for long
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.StepsUnsettled.selector, pool, uint32(0), uint32(1)));
        stakes.finishExit(id);

        ledger.sealSeedBeacon(pool, 0);
        commit(0, leaves);
        mine(3);
        ledger.sealAuditBeacon(pool, 0);
        address[] memory panel = ledger.panelOf(pool, 0);
        for (uint256 i = 0; i < 3; ++i) cast(0, panel[i], all(Outcome.Fault, 3));
        skip(30);
        ledger.finalize(pool, 0);
        // Settled in this very block: whoever saw it first must still be able to slash.
        vm.expectRevert(
            abi.encodeWithSelector(IStakeManager.SlashWindowOpen.selector, id, clock + 30, clock)
        );
        stakes.finishExit(id);
        skip(29);
        vm.expectPartialRevert(IStakeManager.SlashWindowOpen.selector);
        stakes.finishExit(id);
        ledger.slashLeaf(pool, 0, opening(leaves, 0));
        skip(1);
        stakes.finishExit(id);
        eq(stakes.idleOf(worker), 750);
    }

    function test_S2_exit_does_not_wait_for_steps_opened_after_it() external {
        ExitId id = startExit(worker, Role.Worker, STAKE);
        open(0, 3);
        skip(200);
        stakes.finishExit(id);
        eq(stakes.idleOf(worker), STAKE);
    }

    function test_S2_exit_waits_for_a_step_that_is_cancelled_too() external {
        seed(0, 3);
        ExitId id = startExit(worker, Role.Worker, STAKE);
        skip(200);
        vm.expectPartialRevert(IStakeManager.StepsUnsettled.selector);
        stakes.finishExit(id);
        ledger.cancelStep(pool, 0);
        skip(30);
        stakes.finishExit(id);
    }

    // -- slash

    function test_slash_by_a_stranger_is_refused() external {
        address[3] memory callers = [STRANGER, OWNER, worker];
        for (uint256 i = 0; i < 3; ++i) {
            vm.expectRevert(abi.encodeWithSelector(IStakeManager.NotLedger.selector, callers[i]));
            vm.prank(callers[i]);
            stakes.slash(pool, Role.Worker, worker, 1, keccak256("x"));
        }
    }

    function test_S3_slash_of_one_offence_twice_is_refused() external {
        slash(worker, 1_000, keccak256("once"));
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.OffenceSlashed.selector, keccak256("once")));
        slash(worker, 1_000, keccak256("once"));
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.OffenceSlashed.selector, keccak256("once")));
        slash(workers[1], 1_000, keccak256("once"));
        eq(tokensOf(worker), 900);
        eq(tokensOf(workers[1]), STAKE);
        require(stakes.isSlashed(keccak256("once")));
    }

    function test_slash_above_all_is_refused() external {
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.BpsTooHigh.selector, uint256(10_001)));
        slash(worker, 10_001, keccak256("x"));
    }

    function test_slash_rounds_up() external {
        eq(slash(worker, 1, keccak256("x")), 1);
        eq(tokensOf(worker), 999);
    }

    function test_slash_of_nothing_spends_the_offence() external {
        eq(slash(STRANGER, 5_000, keccak256("x")), 0);
        require(stakes.isSlashed(keccak256("x")));
    }

    function test_slash_to_nothing_voids_exits_and_lets_the_provider_begin_anew() external {
        ExitId id = startExit(worker, Role.Worker, 300);
        eq(slash(worker, 10_000, keccak256("x")), STAKE);
        (uint256 tokens, uint256 shares, uint256 exiting) = position(worker);
        eq(tokens + shares + exiting, 0);
        eq(stakes.providerOf(worker), address(0));
        enter(worker, Role.Worker, 800);
        skip(200);
        stakes.finishExit(id);
        eq(stakes.idleOf(worker), 0);
        (tokens, shares, exiting) = position(worker);
        eq(tokens, 800);
        eq(shares, 800);
        eq(exiting, 0);
    }

    function testFuzz_S4_share_price_never_rises_above_one(uint16[8] calldata moves) external {
        for (uint256 i = 0; i < 8; ++i) {
            (uint256 tokens, uint256 shares, uint256 exiting) = position(worker);
            uint256 kind = moves[i] % 3;
            if (kind == 0) {
                enter(worker, Role.Worker, 1_000 + uint256(moves[i]));
            } else if (kind == 1) {
                slash(worker, moves[i] % 10_001, keccak256(abi.encode(i)));
            } else if (shares > exiting) {
                ExitId id = startExit(worker, Role.Worker, 1 + moves[i] % (shares - exiting));
                skip(200);
                stakes.finishExit(id);
            }
            (tokens, shares, exiting) = position(worker);
            require(tokens <= shares && exiting <= shares);
            require((tokens == 0) == (shares == 0));
            require(token.balanceOf(address(stakes)) == stakes.totalHeld());
        }
    }

    // -- nodes

    function test_node_with_consent_acts_for_its_provider() external {
        address node = vm.addr(11);
        eq(stakes.providerOf(node), address(0));
        bytes memory signature = consent(11, worker, clock);
        vm.expectEmit();
        emit IStakeManager.NodeAdded(node, worker);
        vm.prank(worker);
        stakes.addNode(node, clock, signature);
        eq(stakes.providerOf(node), worker);
        eq(stakes.providerOf(worker), worker);
        vm.expectEmit();
        emit IStakeManager.NodeRemoved(node, worker);
        vm.prank(worker);
        stakes.removeNode(node);
        eq(stakes.providerOf(node), address(0));
    }

    function test_S6_consent_is_used_once() external {
        address node = vm.addr(11);
        bytes memory signature = consent(11, worker, clock);
        vm.prank(worker);
        stakes.addNode(node, clock, signature);
        vm.prank(node);
        stakes.removeNode(node);
        bytes32 digest = stakes.consentDigest(node, worker, clock);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.ConsentUsed.selector, digest));
        vm.prank(worker);
        stakes.addNode(node, clock, signature);
        bytes memory again = consent(11, worker, clock + 1);
        vm.prank(worker);
        stakes.addNode(node, clock + 1, again);
    }

    function test_S6_consent_for_another_provider_or_deadline_is_refused() external {
        bytes memory signature = consent(11, worker, clock);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.ConsentInvalid.selector, vm.addr(11), workers[1]));
        vm.prank(workers[1]);
        stakes.addNode(vm.addr(11), clock, signature);
        vm.expectPartialRevert(IStakeManager.ConsentInvalid.selector);
        vm.prank(worker);
        stakes.addNode(vm.addr(11), clock + 1, signature);
        vm.expectPartialRevert(IStakeManager.ConsentInvalid.selector);
        vm.prank(worker);
        stakes.addNode(vm.addr(12), clock, signature);
    }

    function test_S6_consent_past_its_deadline_is_refused() external {
        bytes memory signature = consent(11, worker, clock - 1);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.ConsentExpired.selector, clock - 1, clock));
        vm.prank(worker);
        stakes.addNode(vm.addr(11), clock - 1, signature);
    }

    function test_S6_consent_for_another_deployment_or_chain_is_refused() external {
        StakeManager other = new StakeManager(token, ledger, registry, SINK);
        bytes memory signature = consent(11, worker, clock);
        vm.expectPartialRevert(IStakeManager.ConsentInvalid.selector);
        vm.prank(worker);
        other.addNode(vm.addr(11), clock, signature);
        vm.chainId(31_338);
        vm.expectPartialRevert(IStakeManager.ConsentInvalid.selector);
        vm.prank(worker);
        stakes.addNode(vm.addr(11), clock, signature);
    }

    function test_S6_node_of_two_providers_is_refused() external {
        bytes memory first = consent(11, worker, clock);
        bytes memory second = consent(11, workers[1], clock);
        vm.prank(worker);
        stakes.addNode(vm.addr(11), clock, first);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.NodeTaken.selector, vm.addr(11), worker));
        vm.prank(workers[1]);
        stakes.addNode(vm.addr(11), clock, second);
    }

    function test_S6_node_that_holds_stake_is_refused() external {
        address node = vm.addr(11);
        deposit(node, 500);
        bytes memory signature = consent(11, worker, clock);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.NodeIsProvider.selector, node));
        vm.prank(worker);
        stakes.addNode(node, clock, signature);
    }

    function test_S6_node_cannot_stake_nor_have_nodes() external {
        address node = vm.addr(11);
        bytes memory signature = consent(11, worker, clock);
        vm.prank(worker);
        stakes.addNode(node, clock, signature);
        token.mint(node, 500);
        bytes memory chained = consent(12, node, clock);
        vm.startPrank(node);
        token.approve(address(stakes), 500);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.NodeIsProvider.selector, node));
        stakes.deposit(500);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.NodeIsProvider.selector, node));
        stakes.addNode(vm.addr(12), clock, chained);
    }

    function test_S6_provider_as_its_own_node_is_refused() external {
        address self = vm.addr(13);
        bytes memory signature = consent(13, self, clock);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.NodeIsProvider.selector, self));
        vm.prank(self);
        stakes.addNode(self, clock, signature);
    }

    function test_node_removed_by_a_stranger_is_refused() external {
        bytes memory signature = consent(11, worker, clock);
        vm.prank(worker);
        stakes.addNode(vm.addr(11), clock, signature);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.NotNodeOwner.selector, vm.addr(11), STRANGER));
        vm.prank(STRANGER);
        stakes.removeNode(vm.addr(11));
        vm.expectPartialRevert(IStakeManager.NotNodeOwner.selector);
        vm.prank(worker);
        stakes.removeNode(vm.addr(12));
    }

    // -- snapshots and the validator list

    function test_active_stake_at_a_past_block_does_not_change() external {
        uint256 before = height;
        mine(1);
        startExit(validators[0], Role.Validator, 400);
        uint256 after_ = height;
        mine(1);
        eq(stakes.activeStakeAt(pool, Role.Validator, validators[0], before), STAKE);
        eq(stakes.activeStakeAt(pool, Role.Validator, validators[0], after_), 600);
        eq(stakes.activeStakeAt(pool, Role.Validator, validators[0], 1), 0);
    }

    function test_active_stake_at_this_block_is_refused() external {
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.BlockNotPast.selector, height, height));
        stakes.activeStakeAt(pool, Role.Validator, validators[0], height);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.BlockNotPast.selector, height, height));
        stakes.validatorStakesAt(pool, height);
    }

    function test_validators_stay_in_order_of_first_allocation() external {
        enter(validators[1], Role.Validator, 500);
        startExit(validators[0], Role.Validator, STAKE);
        address[] memory listed = stakes.validatorsOf(pool);
        eq(listed.length, 4);
        for (uint256 i = 0; i < 4; ++i) eq(listed[i], validators[i]);
    }

    function test_S8_validator_list_is_bounded_and_passes_places_of_the_departed() external {
        for (uint160 i = 0; i < 60; ++i) enter(address(0x1000 + i), Role.Validator, 200);
        eq(stakes.validatorsOf(pool).length, 64);
        deposit(STRANGER, 500);
        bytes32 agreed = registry.termsHashOf(pool);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.ValidatorsFull.selector, pool, uint256(64)));
        vm.prank(STRANGER);
        stakes.allocate(pool, Role.Validator, 500, agreed);
        // A member may still add; a leaving one keeps its place until it is gone.
        enter(validators[2], Role.Validator, 200);
        ExitId id = startExit(address(0x1005), Role.Validator, 200);
        vm.expectPartialRevert(IStakeManager.ValidatorsFull.selector);
        vm.prank(STRANGER);
        stakes.allocate(pool, Role.Validator, 500, agreed);
        skip(200);
        stakes.finishExit(id);
        vm.prank(STRANGER);
        stakes.allocate(pool, Role.Validator, 500, agreed);
        address[] memory listed = stakes.validatorsOf(pool);
        eq(listed.length, 64);
        eq(listed[9], STRANGER);
    }

    function test_S1_donation_changes_nothing() external {
        uint256 held = stakes.totalHeld();
        token.mint(address(stakes), 12_345);
        eq(stakes.totalHeld(), held);
        ExitId id = startExit(worker, Role.Worker, STAKE);
        skip(200);
        stakes.finishExit(id);
        eq(stakes.idleOf(worker), STAKE);
    }
}
