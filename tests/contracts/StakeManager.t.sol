// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";

import {StakeManager} from "../../contracts/StakeManager.sol";
import {IPoolRegistry} from "../../contracts/interfaces/IPoolRegistry.sol";
import {IStakeManager} from "../../contracts/interfaces/IStakeManager.sol";
import {PanelDraw} from "../../contracts/libraries/PanelDraw.sol";
import {Outcome, Role} from "../../contracts/types/Enums.sol";
import {ExitId, PoolId} from "../../contracts/types/Ids.sol";
import {Parts, PartMissing} from "../../contracts/types/Parts.sol";
import {PoolTerms} from "../../contracts/types/PoolTerms.sol";
import {Submission} from "../../contracts/types/Submission.sol";
import {ChainTest} from "./support/ChainTest.sol";
import {FeeToken, ReentrantToken} from "./support/Tokens.sol";
import {Vm, vm} from "./support/Vm.sol";

contract StakeManagerTest is ChainTest {
    address internal constant KEY = address(0x2A); // takes control
    address internal constant OTHER_KEY = address(0x2B);
    uint256 internal constant WINDOW = 1_000; // of slashes
    uint32 internal constant MAX_BPS = 5_000; // of slashes in a window

    PoolId internal stepPool; // where steps can be played
    address internal worker = address(0x900);
    address internal peer = address(0x901);
    address internal validator = address(0x910);
    address internal umpire = address(0x911);
    uint256 internal unbonding;

    // The pool of these tests has two workers and two validators.
    function setUp() public override {
        super.setUp();
        stepPool = pool;
        pool = createPool(cappedTerms());
        unbonding = cappedTerms().windows.unbondingSeconds;
        enter(worker, Role.Worker, STAKE);
        enter(peer, Role.Worker, STAKE);
        enter(validator, Role.Validator, STAKE);
        enter(umpire, Role.Validator, STAKE);
        mine(1);
    }

    function cappedTerms() internal view returns (PoolTerms memory t) {
        t = terms();
        t.work.minWorkerStake = 100;
        t.panel.minValidatorStake = 200;
        t.panel.maxAbsences = 3;
        t.faults.maxSlashBps = MAX_BPS;
        t.faults.slashWindowSeconds = uint32(WINDOW);
    }

    // A pool in which a slash may take all.
    function useRuthlessPool() internal {
        PoolTerms memory t = cappedTerms();
        t.faults.maxSlashBps = 10_000;
        pool = createPool(t);
        enter(worker, Role.Worker, STAKE);
    }

    function slash(address provider, uint256 bps, bytes32 offence) internal returns (uint256) {
        return slash(Role.Worker, provider, bps, offence, address(0), 0);
    }

    function slash(Role role, address provider, uint256 bps, bytes32 offence, address beneficiary, uint256 rewardBps)
        internal
        returns (uint256)
    {
        vm.prank(address(court));
        return stakes.slash(pool, role, provider, bps, offence, beneficiary, rewardBps);
    }

    function miss(address provider) internal {
        vm.prank(address(panel));
        stakes.recordAbsence(pool, provider);
    }

    function hold(Role role, address provider) internal {
        vm.prank(address(court));
        stakes.hold(pool, role, provider);
    }

    function unhold(Role role, address provider) internal {
        vm.prank(address(court));
        stakes.unhold(pool, role, provider);
    }

    function handOver(address provider, address from, address to) internal {
        vm.prank(from);
        stakes.offerController(to);
        vm.prank(to);
        stakes.acceptController(provider);
    }

    function addNode(uint256 key, address provider) internal returns (address node) {
        node = vm.addr(key);
        address controller = stakes.controllerOf(provider);
        bytes memory signature = consent(key, provider, clock);
        vm.prank(controller);
        stakes.addNode(node, clock, signature);
    }

    function setPayee(address provider, address payee) internal {
        vm.prank(provider);
        stakes.setPayee(pool, payee);
    }

    function depart(address provider, Role role, uint256 shares) internal {
        ExitId id = startExit(provider, role, shares);
        skip(unbonding);
        stakes.finishExit(id);
    }

    function position(address provider) internal view returns (uint256 tokens, uint256 shares, uint256 exiting) {
        return stakes.positionOf(pool, Role.Worker, provider);
    }

    function active(address provider) internal view returns (uint256) {
        return stakes.activeStakeOf(pool, Role.Worker, provider);
    }

    function weight(address provider) internal view returns (uint256) {
        return stakes.activeStakeOf(pool, Role.Validator, provider);
    }

    function eqStanding(Role role, address provider, uint256 until, uint256 bps, uint256 absences, uint256 holds)
        internal
        view
    {
        (uint64 u, uint32 b, uint32 a, uint32 h) = stakes.standingOf(pool, role, provider);
        eq(u, until);
        eq(b, bps);
        eq(a, absences);
        eq(h, holds);
    }

    /// How often an event was emitted since recordLogs.
    function emitted(bytes32 topic) internal returns (uint256 count) {
        Vm.Log[] memory logs = vm.getRecordedLogs();
        for (uint256 i = 0; i < logs.length; ++i) if (logs[i].topics[0] == topic) ++count;
    }

    // -- construction

    function otherParts(address stakeToken) internal view returns (Parts memory) {
        return Parts({
            stakeToken: stakeToken,
            stakes: address(stakes),
            registry: address(registry),
            ledger: address(ledger),
            vault: address(vault),
            court: address(court),
            panel: address(panel),
            plants: address(plants),
            sink: SINK
        });
    }

    function test_constructor_keeps_what_it_needs() external {
        StakeManager manager = new StakeManager(
            Parts({
                stakeToken: address(1),
                stakes: address(2),
                registry: address(3),
                ledger: address(4),
                vault: address(5),
                court: address(6),
                panel: address(7),
                plants: address(8),
                sink: address(9)
            })
        );
        eq(address(manager.stakeToken()), address(1));
        eq(address(manager.registry()), address(3));
        eq(address(manager.ledger()), address(4));
        eq(manager.court(), address(6));
        eq(manager.panel(), address(7));
        eq(manager.plants(), address(8));
        eq(manager.sink(), address(9));
        eq(manager.MAX_VALIDATORS(), 64);
    }

    function test_constructor_with_a_missing_part_is_refused() external {
        for (uint256 i = 0; i < 9; ++i) {
            address[9] memory a;
            for (uint160 j = 0; j < 9; ++j) a[j] = j == i ? address(0) : address(j + 1);
            vm.expectRevert(abi.encodeWithSelector(PartMissing.selector));
            new StakeManager(Parts(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8]));
        }
    }

    // -- deposit and withdraw

    function test_deposit_then_withdraw_returns_all() external {
        uint256 held = stakes.totalHeld();
        token.mint(STRANGER, 500);
        vm.startPrank(STRANGER);
        token.approve(address(stakes), 500);
        vm.expectEmit();
        emit IStakeManager.Deposited(STRANGER, 500);
        stakes.deposit(500);
        eq(stakes.idleOf(STRANGER), 500);
        eq(stakes.totalHeld(), held + 500);
        eq(stakes.providerOf(STRANGER), STRANGER);
        vm.expectEmit();
        emit IStakeManager.Withdrawn(STRANGER, STRANGER, 499);
        stakes.withdraw(499);
        eq(stakes.providerOf(STRANGER), STRANGER);
        stakes.withdraw(1);
        eq(token.balanceOf(STRANGER), 500);
        eq(stakes.idleOf(STRANGER), 0);
        eq(stakes.totalHeld(), held);
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
        vm.expectRevert(zero);
        stakes.burnSlashed();
    }

    function test_deposit_of_a_fee_token_is_refused() external {
        FeeToken fee = new FeeToken();
        StakeManager manager = new StakeManager(otherParts(address(fee)));
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
        StakeManager manager = new StakeManager(otherParts(address(hostile)));
        hostile.mint(STRANGER, 1_000);
        vm.startPrank(STRANGER);
        hostile.approve(address(manager), 2_000);
        manager.deposit(1_000);
        bytes[7] memory calls = [
            abi.encodeCall(manager.withdraw, (500)),
            abi.encodeCall(manager.deposit, (500)),
            abi.encodeCall(manager.allocate, (pool, Role.Worker, 500, bytes32(0))),
            abi.encodeCall(manager.startExit, (pool, Role.Worker, 500)),
            abi.encodeCall(manager.finishExit, (ExitId.wrap(1))),
            abi.encodeCall(manager.addNode, (worker, 0, "")),
            abi.encodeCall(manager.burnSlashed, ())
        ];
        for (uint256 i = 0; i < calls.length; ++i) {
            hostile.arm(address(manager), calls[i]);
            manager.withdraw(1);
            refusedReentry(hostile);
            hostile.arm(address(manager), calls[i]);
            manager.deposit(1);
            refusedReentry(hostile);
        }
        eq(hostile.balanceOf(address(manager)), 1_000);
        eq(manager.idleOf(STRANGER), 1_000);
    }

    function test_burn_reentered_burns_once() external {
        ReentrantToken hostile = new ReentrantToken();
        StakeManager manager = new StakeManager(otherParts(address(hostile)));
        bytes32 agreed = registry.termsHashOf(pool);
        hostile.mint(STRANGER, 1_000);
        vm.startPrank(STRANGER);
        hostile.approve(address(manager), 1_000);
        manager.deposit(1_000);
        manager.allocate(pool, Role.Worker, 1_000, agreed);
        vm.stopPrank();
        vm.prank(manager.panel());
        manager.slash(pool, Role.Worker, STRANGER, 100, keccak256("x"), address(0), 0);
        hostile.arm(address(manager), abi.encodeCall(manager.burnSlashed, ()));
        eq(manager.burnSlashed(), 10);
        refusedReentry(hostile);
        eq(hostile.balanceOf(SINK), 10);
    }

    function refusedReentry(ReentrantToken hostile) internal view {
        require(hostile.failed(), "inner call must fail");
        eq(
            keccak256(hostile.failure()),
            keccak256(abi.encodeWithSelector(ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector))
        );
    }

    // -- allocate

    function test_allocation_is_recorded_and_announced() external {
        deposit(STRANGER, 500);
        bytes32 agreed = registry.termsHashOf(pool);
        vm.expectEmit();
        emit IStakeManager.Allocated(pool, Role.Worker, STRANGER, 300, 300);
        vm.prank(STRANGER);
        stakes.allocate(pool, Role.Worker, 300, agreed);
        (uint256 tokens, uint256 shares, uint256 exiting) = position(STRANGER);
        eq(tokens, 300);
        eq(shares, 300);
        eq(exiting, 0);
        eq(active(STRANGER), 300);
        eq(stakes.idleOf(STRANGER), 200);
    }

    function test_allocation_after_a_slash_buys_shares_at_their_price() external {
        slash(worker, 5_000, keccak256("half"));
        skip(WINDOW);
        stakes.reinstate(pool, Role.Worker, worker);
        deposit(worker, 100);
        bytes32 agreed = registry.termsHashOf(pool);
        vm.expectEmit();
        emit IStakeManager.Allocated(pool, Role.Worker, worker, 100, 200);
        vm.prank(worker);
        stakes.allocate(pool, Role.Worker, 100, agreed);
        (uint256 tokens, uint256 shares,) = position(worker);
        eq(tokens, 600);
        eq(shares, 1_200);
    }

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
        bytes32 other = registry.termsHashOf(stepPool);
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
        vm.expectRevert(
            abi.encodeWithSelector(IStakeManager.IdleTooLow.selector, STRANGER, uint256(500), uint256(501))
        );
        stakes.allocate(pool, Role.Worker, 501, agreed);
        stakes.allocate(pool, Role.Worker, 500, agreed);
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
        eq(active(STRANGER), 100);
    }

    function test_allocate_is_compared_with_the_minimum_without_what_is_leaving() external {
        startExit(worker, Role.Worker, STAKE);
        deposit(worker, 100);
        bytes32 agreed = registry.termsHashOf(pool);
        vm.startPrank(worker);
        vm.expectRevert(
            abi.encodeWithSelector(
                IStakeManager.StakeBelowMinimum.selector, pool, Role.Worker, uint256(99), uint256(100)
            )
        );
        stakes.allocate(pool, Role.Worker, 99, agreed);
        stakes.allocate(pool, Role.Worker, 100, agreed);
        eq(active(worker), 100);
    }

    function test_allocate_while_suspended_is_refused() external {
        slash(worker, MAX_BPS, keccak256("x"));
        deposit(worker, 500);
        bytes32 agreed = registry.termsHashOf(pool);
        uint256 until = clock + WINDOW;
        skip(WINDOW);
        vm.expectRevert(
            abi.encodeWithSelector(
                IStakeManager.PositionSuspended.selector, pool, Role.Worker, worker, uint64(until)
            )
        );
        vm.prank(worker);
        stakes.allocate(pool, Role.Worker, 500, agreed);
        stakes.reinstate(pool, Role.Worker, worker);
        vm.prank(worker);
        stakes.allocate(pool, Role.Worker, 500, agreed);
        eq(active(worker), 1_000);
    }

    function test_S5_second_role_in_one_pool_is_refused() external {
        bytes32 agreed = registry.termsHashOf(pool);
        deposit(worker, 500);
        deposit(validator, 500);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.OtherRoleHeld.selector, pool, worker, Role.Worker));
        vm.prank(worker);
        stakes.allocate(pool, Role.Validator, 500, agreed);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.OtherRoleHeld.selector, pool, validator, Role.Validator));
        vm.prank(validator);
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

    function test_S5_second_role_after_the_first_has_left_is_taken() external {
        depart(worker, Role.Worker, STAKE);
        enter(worker, Role.Validator, 200);
        eq(weight(worker), 200);
        eq(active(worker), 0);
    }

    // -- exits

    function test_exit_due_returns_stake_to_idle() external {
        uint64 number = stakes.exitCount() + 1;
        vm.expectEmit();
        emit IStakeManager.ExitStarted(
            ExitId.wrap(number), pool, Role.Worker, worker, 400, uint64(clock + unbonding)
        );
        ExitId id = startExit(worker, Role.Worker, 400);
        eq(ExitId.unwrap(id), number);
        eq(stakes.exitCount(), number);
        IStakeManager.Exit memory leaving = stakes.exitOf(id);
        eq(leaving.provider, worker);
        eq(PoolId.unwrap(leaving.pool), PoolId.unwrap(pool));
        eq(uint256(leaving.role), uint256(Role.Worker));
        eq(leaving.releaseAt, clock + unbonding);
        eq(leaving.barrier, 0);
        eq(leaving.shares, 400);
        eq(leaving.startBlock, height);
        (uint256 tokens, uint256 shares, uint256 exiting) = position(worker);
        eq(tokens, STAKE);
        eq(shares, STAKE);
        eq(exiting, 400);
        eq(active(worker), 600);

        skip(unbonding);
        vm.expectEmit();
        emit IStakeManager.ExitFinished(id, worker, 400);
        vm.prank(STRANGER);
        stakes.finishExit(id);
        eq(stakes.idleOf(worker), 400);
        (tokens, shares, exiting) = position(worker);
        eq(tokens, 600);
        eq(shares, 600);
        eq(exiting, 0);
        eq(active(worker), 600);
        eq(stakes.exitOf(id).provider, address(0));
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.UnknownExit.selector, id));
        stakes.finishExit(id);
    }

    function test_S7_exit_before_its_release_is_refused() external {
        ExitId id = startExit(worker, Role.Worker, STAKE);
        uint256 releaseAt = clock + unbonding;
        skip(unbonding - 1);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.ExitNotReleased.selector, id, releaseAt, releaseAt - 1));
        stakes.finishExit(id);
        skip(1);
        stakes.finishExit(id);
    }

    function test_exit_is_released_on_the_clock_of_the_pool() external {
        vm.prank(PAUSER);
        registry.pause(pool);
        skip(50);
        uint256 releaseAt = clock - 50 + unbonding;
        ExitId id = startExit(worker, Role.Worker, STAKE);
        eq(stakes.exitOf(id).releaseAt, releaseAt);
        skip(unbonding);
        vm.expectRevert(
            abi.encodeWithSelector(IStakeManager.ExitNotReleased.selector, id, releaseAt, releaseAt - unbonding)
        );
        stakes.finishExit(id);
        vm.prank(UNPAUSER);
        registry.unpause(pool);
        skip(unbonding - 1);
        vm.expectPartialRevert(IStakeManager.ExitNotReleased.selector);
        stakes.finishExit(id);
        skip(1);
        stakes.finishExit(id);
    }

    function test_exit_of_more_shares_than_held_is_refused() external {
        startExit(worker, Role.Worker, 700);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.SharesTooLow.selector, uint256(300), uint256(301)));
        vm.prank(worker);
        stakes.startExit(pool, Role.Worker, 301);
        startExit(worker, Role.Worker, 300);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.SharesTooLow.selector, uint256(0), uint256(1)));
        vm.prank(worker);
        stakes.startExit(pool, Role.Worker, 1);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.SharesTooLow.selector, uint256(0), uint256(1)));
        vm.prank(STRANGER);
        stakes.startExit(PoolId.wrap(77), Role.Worker, 1);
    }

    function test_exit_that_leaves_a_rest_below_the_minimum_is_refused() external {
        vm.expectRevert(
            abi.encodeWithSelector(
                IStakeManager.StakeBelowMinimum.selector, pool, Role.Worker, uint256(99), uint256(100)
            )
        );
        vm.prank(worker);
        stakes.startExit(pool, Role.Worker, STAKE - 99);
        startExit(worker, Role.Worker, STAKE - 100);
        eq(active(worker), 100);
        vm.expectRevert(
            abi.encodeWithSelector(
                IStakeManager.StakeBelowMinimum.selector, pool, Role.Validator, uint256(199), uint256(200)
            )
        );
        vm.prank(validator);
        stakes.startExit(pool, Role.Validator, STAKE - 199);
        startExit(validator, Role.Validator, STAKE);
        eq(weight(validator), 0);
    }

    function test_exit_unknown_is_refused() external {
        ExitId id = ExitId.wrap(stakes.exitCount() + 1);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.UnknownExit.selector, id));
        stakes.finishExit(id);
    }

    function test_S2_exiting_stake_is_slashed_alike() external {
        ExitId id = startExit(worker, Role.Worker, STAKE);
        eq(slash(worker, 4_000, keccak256("bad batch")), 400);
        skip(unbonding);
        stakes.finishExit(id);
        eq(stakes.idleOf(worker), 600);
        eq(stakes.burnable(), 400);
    }

    function test_exits_in_parts_return_all_tokens() external {
        slash(worker, 3_333, keccak256("x"));
        ExitId first = startExit(worker, Role.Worker, 333);
        ExitId second = startExit(worker, Role.Worker, 667);
        skip(unbonding);
        stakes.finishExit(first);
        (uint256 tokens, uint256 shares, uint256 exiting) = position(worker);
        eq(tokens, 666 - 221);
        eq(shares, 667);
        eq(exiting, 667);
        stakes.finishExit(second);
        eq(stakes.idleOf(worker), 666);
        (tokens, shares, exiting) = position(worker);
        eq(tokens + shares + exiting, 0);
    }

    function test_exit_finished_leaves_what_its_rounding_kept_to_the_rest() external {
        slash(worker, 3_333, keccak256("x"));
        ExitId id = startExit(worker, Role.Worker, 333);
        eq(active(worker), 444); // of 666, for 667 in 1000 shares
        skip(unbonding);
        stakes.finishExit(id);
        eq(stakes.idleOf(worker), 221);
        eq(active(worker), 445);
    }

    // -- exits and steps

    function test_S2_exit_waits_for_steps_opened_before_it() external {
        pool = stepPool;
        PoolTerms memory t = registry.termsOf(pool);
        seed(0, 3);
        ExitId id = startExit(workers[0], Role.Worker, STAKE);
        eq(stakes.exitOf(id).barrier, 1);
        skip(t.windows.unbondingSeconds);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.StepsUnsettled.selector, pool, uint32(0), uint32(1)));
        stakes.finishExit(id);
        // Settled in this very block: whoever saw it first must still be able to slash.
        ledger.cancelStep(pool, 0);
        uint256 until = clock + t.windows.challengeSeconds;
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.SlashWindowOpen.selector, id, until, clock));
        stakes.finishExit(id);
        skip(t.windows.challengeSeconds - 1);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.SlashWindowOpen.selector, id, until, clock));
        stakes.finishExit(id);
        skip(1);
        stakes.finishExit(id);
        eq(stakes.idleOf(workers[0]), STAKE);
    }

    function test_S2_exit_waits_until_a_fault_of_an_earlier_step_can_be_slashed() external {
        pool = stepPool;
        PoolTerms memory t = registry.termsOf(pool);
        Submission[] memory leaves = makeLeaves(0, 3);
        audit(0, 3, leaves);
        ExitId id = startExit(workers[0], Role.Worker, STAKE);
        bytes memory outcomes = all(Outcome.Fault, 3);
        voteAll(0, outcomes);
        skip(t.windows.unbondingSeconds);
        finalize(0);
        vm.expectPartialRevert(IStakeManager.SlashWindowOpen.selector);
        stakes.finishExit(id);
        panel.slashLeaf(pool, 0, opening(3, leaves, 0), outcomes);
        skip(t.windows.challengeSeconds);
        stakes.finishExit(id);
        eq(stakes.idleOf(workers[0]), 750);
    }

    function test_S2_exit_waits_for_the_last_of_the_steps_opened_before_it() external {
        pool = stepPool;
        PoolTerms memory t = registry.termsOf(pool);
        seed(0, 3);
        skip(t.windows.unbondingSeconds);
        ledger.cancelStep(pool, 0);
        seed(1, 3);
        ExitId id = startExit(workers[0], Role.Worker, STAKE);
        eq(stakes.exitOf(id).barrier, 2);
        skip(t.windows.unbondingSeconds);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.StepsUnsettled.selector, pool, uint32(1), uint32(2)));
        stakes.finishExit(id);
        ledger.cancelStep(pool, 1);
        vm.expectPartialRevert(IStakeManager.SlashWindowOpen.selector);
        stakes.finishExit(id);
        skip(t.windows.challengeSeconds);
        stakes.finishExit(id);
    }

    function test_S2_exit_waits_for_steps_opened_after_it_in_the_same_block() external {
        pool = stepPool;
        PoolTerms memory t = registry.termsOf(pool);
        seed(0, 3);
        ExitId id = startExit(workers[0], Role.Worker, STAKE);
        eq(stakes.exitOf(id).barrier, 1);
        open(1, 3);
        mine(1);
        open(2, 3);
        skip(t.windows.unbondingSeconds);
        ledger.cancelStep(pool, 0);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.StepsUnsettled.selector, pool, uint32(1), uint32(2)));
        stakes.finishExit(id);
        settleUnseeded(1);
        vm.expectRevert(
            abi.encodeWithSelector(
                IStakeManager.SlashWindowOpen.selector, id, clock + t.windows.challengeSeconds, clock
            )
        );
        stakes.finishExit(id);
        skip(t.windows.challengeSeconds);
        stakes.finishExit(id);
    }

    /// Cancels a step that was opened and forgotten.
    function settleUnseeded(uint32 step) internal {
        mine(3);
        ledger.sealSeedBeacon(pool, step);
        skip(registry.windowsOf(pool).unbondingSeconds);
        ledger.cancelStep(pool, step);
    }

    function test_S2_exit_does_not_wait_for_steps_opened_after_it() external {
        pool = stepPool;
        ExitId id = startExit(workers[0], Role.Worker, STAKE);
        mine(1);
        open(0, 3);
        skip(registry.windowsOf(pool).unbondingSeconds);
        stakes.finishExit(id);
        eq(stakes.idleOf(workers[0]), STAKE);
    }

    // -- holds

    function test_hold_keeps_exits_from_finishing() external {
        ExitId id = startExit(worker, Role.Worker, STAKE);
        ExitId other = startExit(peer, Role.Worker, STAKE);
        vm.expectEmit();
        emit IStakeManager.HoldChanged(pool, Role.Worker, worker, 1);
        hold(Role.Worker, worker);
        vm.expectEmit();
        emit IStakeManager.HoldChanged(pool, Role.Worker, worker, 2);
        hold(Role.Worker, worker);
        hold(Role.Validator, peer);
        eqStanding(Role.Worker, worker, 0, 0, 0, 2);
        skip(unbonding);
        stakes.finishExit(other);
        vm.expectRevert(
            abi.encodeWithSelector(IStakeManager.PositionHeld.selector, pool, Role.Worker, worker, uint32(2))
        );
        stakes.finishExit(id);
        vm.expectEmit();
        emit IStakeManager.HoldChanged(pool, Role.Worker, worker, 1);
        unhold(Role.Worker, worker);
        vm.expectRevert(
            abi.encodeWithSelector(IStakeManager.PositionHeld.selector, pool, Role.Worker, worker, uint32(1))
        );
        stakes.finishExit(id);
        unhold(Role.Worker, worker);
        stakes.finishExit(id);
        eqStanding(Role.Worker, worker, 0, 0, 0, 0);
    }

    function test_hold_is_the_courts() external {
        address[4] memory callers = [STRANGER, address(panel), address(plants), worker];
        for (uint256 i = 0; i < 4; ++i) {
            vm.expectRevert(abi.encodeWithSelector(IStakeManager.NotJudge.selector, callers[i]));
            vm.prank(callers[i]);
            stakes.hold(pool, Role.Worker, worker);
            vm.expectRevert(abi.encodeWithSelector(IStakeManager.NotJudge.selector, callers[i]));
            vm.prank(callers[i]);
            stakes.unhold(pool, Role.Worker, worker);
        }
    }

    function test_hold_ended_more_often_than_begun_is_refused() external {
        hold(Role.Worker, STRANGER);
        unhold(Role.Worker, STRANGER);
        vm.expectRevert(
            abi.encodeWithSelector(IStakeManager.PositionNotHeld.selector, pool, Role.Worker, STRANGER)
        );
        unhold(Role.Worker, STRANGER);
    }

    // -- slash

    function test_slash_by_anyone_but_a_judge_is_refused() external {
        address[4] memory callers = [STRANGER, OWNER, worker, address(ledger)];
        for (uint256 i = 0; i < 4; ++i) {
            vm.expectRevert(abi.encodeWithSelector(IStakeManager.NotJudge.selector, callers[i]));
            vm.prank(callers[i]);
            stakes.slash(pool, Role.Worker, worker, 1, keccak256("x"), address(0), 0);
        }
        address[3] memory judges = [address(panel), address(court), address(plants)];
        for (uint256 i = 0; i < 3; ++i) {
            vm.prank(judges[i]);
            eq(stakes.slash(pool, Role.Worker, worker, 1, keccak256(abi.encode(i)), address(0), 0), 1);
        }
    }

    function test_S3_slash_of_one_offence_twice_is_refused() external {
        require(!stakes.isSlashed(keccak256("once")));
        slash(worker, 1_000, keccak256("once"));
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.OffenceSlashed.selector, keccak256("once")));
        slash(worker, 1_000, keccak256("once"));
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.OffenceSlashed.selector, keccak256("once")));
        slash(peer, 1_000, keccak256("once"));
        eq(tokensOf(worker), 900);
        eq(tokensOf(peer), STAKE);
        require(stakes.isSlashed(keccak256("once")));
    }

    function test_slash_above_all_is_refused() external {
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.BpsTooHigh.selector, uint256(10_001)));
        slash(worker, 10_001, keccak256("x"));
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.BpsTooHigh.selector, uint256(10_001)));
        slash(Role.Worker, worker, 1_000, keccak256("x"), STRANGER, 10_001);
        slash(Role.Worker, worker, 10_000, keccak256("x"), STRANGER, 10_000);
    }

    function test_slash_rounds_up() external {
        eq(slash(worker, 1, keccak256("x")), 1);
        eq(tokensOf(worker), 999);
        eq(active(worker), 999);
        eq(slash(worker, 10, keccak256("y")), 1);
        eq(slash(worker, 11, keccak256("z")), 2);
    }

    function test_slash_is_announced_and_waits_to_be_burned() external {
        uint256 held = stakes.totalHeld();
        vm.expectEmit();
        emit IStakeManager.Slashed(pool, Role.Worker, worker, keccak256("x"), 1_000, 100, address(0), 0);
        slash(Role.Worker, worker, 1_000, keccak256("x"), address(0), 5_000);
        eq(stakes.burnable(), 100);
        slash(Role.Validator, validator, 2_000, keccak256("y"), address(0), 0);
        eq(stakes.burnable(), 300);
        eq(stakes.totalHeld(), held);
        eq(token.balanceOf(SINK), 0);
        vm.expectEmit();
        emit IStakeManager.Burned(300);
        vm.prank(STRANGER);
        eq(stakes.burnSlashed(), 300);
        eq(stakes.burnable(), 0);
        eq(stakes.totalHeld(), held - 300);
        eq(token.balanceOf(SINK), 300);
        eq(token.balanceOf(address(stakes)), held - 300);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.AmountZero.selector));
        stakes.burnSlashed();
    }

    function test_slash_of_nothing_spends_the_offence_and_counts_for_nothing() external {
        vm.expectEmit();
        emit IStakeManager.Slashed(pool, Role.Worker, STRANGER, keccak256("x"), 0, 0, peer, 0);
        eq(slash(Role.Worker, STRANGER, 10_000, keccak256("x"), peer, 5_000), 0);
        require(stakes.isSlashed(keccak256("x")));
        eqStanding(Role.Worker, STRANGER, 0, 0, 0, 0);
        enter(STRANGER, Role.Worker, 500);
        eq(active(STRANGER), 500);
    }

    function test_slash_to_nothing_voids_exits_and_lets_the_provider_begin_anew() external {
        useRuthlessPool();
        deposit(worker, 1);
        vm.prank(worker);
        stakes.withdraw(1);
        ExitId id = startExit(worker, Role.Worker, 300);
        eq(slash(worker, 10_000, keccak256("x")), STAKE);
        (uint256 tokens, uint256 shares, uint256 exiting) = position(worker);
        eq(tokens + shares + exiting, 0);
        skip(WINDOW);
        stakes.reinstate(pool, Role.Worker, worker);
        eq(active(worker), 0);
        enter(worker, Role.Worker, 800);
        ExitId next = startExit(worker, Role.Worker, 100);
        eq(stakes.exitOf(next).epoch, stakes.exitOf(id).epoch + 1);
        skip(unbonding);
        vm.expectEmit();
        emit IStakeManager.ExitFinished(id, worker, 0);
        stakes.finishExit(id);
        eq(stakes.idleOf(worker), 0);
        (tokens, shares, exiting) = position(worker);
        eq(tokens, 800);
        eq(shares, 800);
        eq(exiting, 100);
        stakes.finishExit(next);
        eq(stakes.idleOf(worker), 100);
    }

    function test_slash_of_the_least_position_to_nothing_leaves_nothing_at_work() external {
        PoolTerms memory t = cappedTerms();
        t.work.minWorkerStake = 1;
        pool = createPool(t);
        enter(worker, Role.Worker, 1);
        eq(slash(worker, 1, keccak256("x")), 1);
        eq(active(worker), 0);
        (uint256 tokens, uint256 shares,) = position(worker);
        eq(tokens + shares, 0);
        // Not at the cap, so not suspended: it may begin anew.
        enter(worker, Role.Worker, 5);
        (tokens, shares,) = position(worker);
        eq(tokens, 5);
        eq(shares, 5);
    }

    function test_slash_to_nothing_ends_being_a_provider() external {
        PoolTerms memory t = cappedTerms();
        t.faults.maxSlashBps = 10_000;
        pool = createPool(t);
        enter(STRANGER, Role.Worker, STAKE);
        slash(STRANGER, 9_990, keccak256("x"));
        eq(stakes.providerOf(STRANGER), STRANGER);
        slash(STRANGER, 10, keccak256("y"));
        eq(tokensOf(STRANGER), 0);
        eq(stakes.providerOf(STRANGER), address(0));
    }

    // -- the cap of a window

    function test_slashes_within_a_window_stop_at_the_cap() external {
        uint256 until = clock + WINDOW;
        eq(slash(worker, 3_000, keccak256("a")), 300);
        eqStanding(Role.Worker, worker, 0, 3_000, 0, 0);
        eq(active(worker), 700);
        skip(WINDOW - 1);
        vm.expectEmit();
        emit IStakeManager.Slashed(pool, Role.Worker, worker, keccak256("b"), 2_000, 140, address(0), 0);
        vm.expectEmit();
        emit IStakeManager.Suspended(pool, Role.Worker, worker, uint64(until));
        eq(slash(worker, 2_001, keccak256("b")), 140);
        eqStanding(Role.Worker, worker, until, 5_000, 0, 0);
        eq(tokensOf(worker), 560);
        eq(active(worker), 0);
        vm.recordLogs();
        eq(slash(worker, 2_000, keccak256("c")), 0);
        eq(emitted(IStakeManager.Suspended.selector), 0);
        require(stakes.isSlashed(keccak256("c")));
        eq(tokensOf(worker), 560);
        eqStanding(Role.Worker, worker, until, 5_000, 0, 0);
    }

    /// Small stake that was slashed first must not use up the cap of what comes after it.
    function test_S10_what_was_slashed_before_does_not_shield_new_stake() external {
        enter(STRANGER, Role.Worker, 100);
        slash(STRANGER, MAX_BPS - 1, keccak256("dust"));
        uint256 left = tokensOf(STRANGER);
        enter(STRANGER, Role.Worker, 10_000);
        (, uint32 counted,,) = stakes.standingOf(pool, Role.Worker, STRANGER);
        eq(counted, ((MAX_BPS - 1) * left) / (left + 10_000));
        slash(STRANGER, MAX_BPS, keccak256("more"));
        uint256 cap = MAX_BPS - counted;
        eq(tokensOf(STRANGER), left + 10_000 - ((left + 10_000) * cap + 9_999) / 10_000);
        require(cap > (MAX_BPS * 98) / 100, "shielded");
    }

    function test_S10_stake_that_has_left_does_not_shield_what_comes_back() external {
        enter(STRANGER, Role.Worker, 1_000);
        slash(STRANGER, MAX_BPS - 1, keccak256("before"));
        (, uint256 shares,) = stakes.positionOf(pool, Role.Worker, STRANGER);
        startExit(STRANGER, Role.Worker, shares);
        skip(unbonding);
        stakes.finishExit(ExitId.wrap(stakes.exitCount()));
        (, uint32 counted,,) = stakes.standingOf(pool, Role.Worker, STRANGER);
        eq(counted, MAX_BPS - 1); // the window is open yet
        enter(STRANGER, Role.Worker, 1_000);
        (, counted,,) = stakes.standingOf(pool, Role.Worker, STRANGER);
        eq(counted, 0);
        eq(slash(STRANGER, MAX_BPS, keccak256("after")), 500);
    }

    function test_slash_one_below_the_cap_does_not_suspend() external {
        slash(worker, MAX_BPS - 1, keccak256("a"));
        eqStanding(Role.Worker, worker, 0, MAX_BPS - 1, 0, 0);
        eq(active(worker), 500);
        slash(worker, 1, keccak256("b"));
        eqStanding(Role.Worker, worker, clock + WINDOW, MAX_BPS, 0, 0);
        eq(active(worker), 0);
    }

    function test_slash_after_the_window_begins_another() external {
        slash(worker, 3_000, keccak256("a"));
        skip(WINDOW);
        eqStanding(Role.Worker, worker, 0, 0, 0, 0);
        eq(slash(worker, 3_000, keccak256("b")), 210);
        eqStanding(Role.Worker, worker, 0, 3_000, 0, 0);
        skip(WINDOW - 1);
        eqStanding(Role.Worker, worker, 0, 3_000, 0, 0);
        eq(slash(worker, 3_000, keccak256("c")), 98);
        eqStanding(Role.Worker, worker, clock + 1, MAX_BPS, 0, 0);
    }

    function test_slash_window_runs_on_the_clock_of_the_pool() external {
        slash(worker, 3_000, keccak256("a"));
        vm.prank(PAUSER);
        registry.pause(pool);
        skip(WINDOW);
        eq(slash(worker, 3_000, keccak256("b")), 140);
        eqStanding(Role.Worker, worker, clock, MAX_BPS, 0, 0);
        vm.prank(UNPAUSER);
        registry.unpause(pool);
        skip(WINDOW);
        stakes.reinstate(pool, Role.Worker, worker);
    }

    function test_slash_in_another_role_or_pool_counts_on_its_own() external {
        slash(worker, MAX_BPS, keccak256("a"));
        eqStanding(Role.Worker, peer, 0, 0, 0, 0);
        eqStanding(Role.Validator, worker, 0, 0, 0, 0);
        pool = stepPool;
        eqStanding(Role.Worker, worker, 0, 0, 0, 0);
    }

    function test_slash_while_a_suspension_lasts_on_lengthens_it() external {
        slash(worker, MAX_BPS, keccak256("a"));
        skip(WINDOW);
        // Over, but nobody has reinstated it: it is slashed in a new window.
        vm.expectEmit();
        emit IStakeManager.Suspended(pool, Role.Worker, worker, uint64(clock + WINDOW));
        eq(slash(worker, MAX_BPS, keccak256("b")), 250);
        eqStanding(Role.Worker, worker, clock + WINDOW, MAX_BPS, 0, 0);
    }

    function testFuzz_slashes_within_a_window_never_take_more_than_the_cap(uint16[6] calldata moves) external {
        uint256 sum;
        for (uint256 i = 0; i < 6; ++i) {
            uint256 bps = moves[i] % 10_001;
            slash(worker, bps, keccak256(abi.encode(i)));
            sum = sum + bps < MAX_BPS ? sum + bps : MAX_BPS;
            eqStanding(Role.Worker, worker, sum == MAX_BPS ? clock + WINDOW : 0, sum, 0, 0);
            // Parts of what is left take less than their sum, but for the rounding up of each.
            require(tokensOf(worker) + 6 >= STAKE / 2, "above the cap");
        }
    }

    // -- rewards

    function test_reward_becomes_idle_stake_of_the_beneficiary() external {
        uint256 held = stakes.totalHeld();
        vm.expectEmit();
        emit IStakeManager.Slashed(pool, Role.Worker, worker, keccak256("x"), 1_110, 111, STRANGER, 33);
        slash(Role.Worker, worker, 1_110, keccak256("x"), STRANGER, 3_000);
        eq(stakes.idleOf(STRANGER), 33);
        eq(stakes.providerOf(STRANGER), STRANGER);
        eq(stakes.burnable(), 78);
        eq(stakes.totalHeld(), held);
        vm.prank(STRANGER);
        stakes.withdraw(33);
        eq(token.balanceOf(STRANGER), 33);
        eq(stakes.providerOf(STRANGER), address(0));
        stakes.burnSlashed();
        eq(stakes.totalHeld(), held - 111);
        eq(token.balanceOf(address(stakes)), held - 111);
    }

    function test_reward_adds_to_the_stake_of_a_provider() external {
        slash(Role.Worker, worker, 1_000, keccak256("x"), peer, 5_000);
        slash(Role.Worker, worker, 1_000, keccak256("y"), peer, 5_000);
        eq(stakes.idleOf(peer), 50 + 45);
        depart(peer, Role.Worker, STAKE);
        vm.prank(peer);
        stakes.withdraw(STAKE + 50 + 45);
        eq(stakes.providerOf(peer), address(0));
    }

    function test_reward_of_a_node_or_controller_is_its_providers() external {
        address node = addNode(11, validator);
        vm.expectEmit();
        emit IStakeManager.Slashed(pool, Role.Worker, worker, keccak256("x"), 1_000, 100, validator, 50);
        slash(Role.Worker, worker, 1_000, keccak256("x"), node, 5_000);
        eq(stakes.idleOf(validator), 50);
        handOver(umpire, umpire, KEY);
        slash(Role.Worker, worker, 1_000, keccak256("y"), KEY, 5_000);
        eq(stakes.idleOf(umpire), 45);
        // Its own address is still the provider's.
        slash(Role.Worker, worker, 1_000, keccak256("z"), umpire, 5_000);
        eq(stakes.idleOf(umpire), 45 + 40);
    }

    // -- absences and reinstatement

    function test_absences_suspend_a_validator_until_the_window_ends() external {
        uint256 until = clock + WINDOW;
        vm.expectEmit();
        emit IStakeManager.AbsenceRecorded(pool, validator, 1);
        miss(validator);
        skip(10);
        vm.expectEmit();
        emit IStakeManager.AbsenceRecorded(pool, validator, 2);
        miss(validator);
        eqStanding(Role.Validator, validator, 0, 0, 2, 0);
        eq(weight(validator), STAKE);
        skip(WINDOW - 11);
        vm.expectEmit();
        emit IStakeManager.AbsenceRecorded(pool, validator, 3);
        vm.expectEmit();
        emit IStakeManager.Suspended(pool, Role.Validator, validator, uint64(until));
        miss(validator);
        eqStanding(Role.Validator, validator, until, 0, 3, 0);
        eq(weight(validator), 0);
        (uint256 tokens,,) = stakes.positionOf(pool, Role.Validator, validator);
        eq(tokens, STAKE);
        vm.recordLogs();
        miss(validator);
        eq(emitted(IStakeManager.Suspended.selector), 0);
        eqStanding(Role.Validator, validator, until, 0, 4, 0);
    }

    function test_absences_of_different_windows_do_not_add_up() external {
        miss(validator);
        miss(validator);
        skip(WINDOW);
        eqStanding(Role.Validator, validator, 0, 0, 0, 0);
        vm.expectEmit();
        emit IStakeManager.AbsenceRecorded(pool, validator, 1);
        miss(validator);
        eq(weight(validator), STAKE);
    }

    function test_absences_and_slashes_share_a_window() external {
        miss(validator);
        skip(WINDOW - 1);
        slash(Role.Validator, validator, 1_000, keccak256("x"), address(0), 0);
        eqStanding(Role.Validator, validator, 0, 1_000, 1, 0);
        skip(1);
        eqStanding(Role.Validator, validator, 0, 0, 0, 0);
        slash(Role.Validator, validator, 1_000, keccak256("y"), address(0), 0);
        eqStanding(Role.Validator, validator, 0, 1_000, 0, 0);
        skip(WINDOW);
        miss(validator);
        eqStanding(Role.Validator, validator, 0, 0, 1, 0);
    }

    function test_absence_of_no_validator_is_ignored() external {
        vm.recordLogs();
        miss(STRANGER);
        miss(worker);
        eq(emitted(IStakeManager.AbsenceRecorded.selector), 0);
        eqStanding(Role.Validator, STRANGER, 0, 0, 0, 0);
    }

    function test_absence_is_the_panels_to_record() external {
        address[4] memory callers = [STRANGER, address(court), address(plants), address(ledger)];
        for (uint256 i = 0; i < 4; ++i) {
            vm.expectRevert(abi.encodeWithSelector(IStakeManager.NotJudge.selector, callers[i]));
            vm.prank(callers[i]);
            stakes.recordAbsence(pool, validator);
        }
    }

    function test_suspension_counts_until_it_is_reinstated() external {
        slash(Role.Validator, validator, MAX_BPS, keccak256("x"), address(0), 0);
        uint64 until = uint64(clock + WINDOW);
        skip(WINDOW - 1);
        vm.expectRevert(
            abi.encodeWithSelector(IStakeManager.PositionSuspended.selector, pool, Role.Validator, validator, until)
        );
        stakes.reinstate(pool, Role.Validator, validator);
        skip(1);
        eq(weight(validator), 0);
        vm.expectEmit();
        emit IStakeManager.Reinstated(pool, Role.Validator, validator);
        vm.prank(STRANGER);
        stakes.reinstate(pool, Role.Validator, validator);
        eq(weight(validator), STAKE / 2);
        eqStanding(Role.Validator, validator, 0, 0, 0, 0);
        vm.expectRevert(
            abi.encodeWithSelector(IStakeManager.PositionNotSuspended.selector, pool, Role.Validator, validator)
        );
        stakes.reinstate(pool, Role.Validator, validator);
    }

    function test_reinstated_below_the_minimum_counts_for_nothing() external {
        enter(STRANGER, Role.Validator, 200);
        slash(Role.Validator, STRANGER, MAX_BPS, keccak256("x"), address(0), 0);
        skip(WINDOW);
        stakes.reinstate(pool, Role.Validator, STRANGER);
        eq(weight(STRANGER), 0);
        enter(STRANGER, Role.Validator, 100);
        eq(weight(STRANGER), 200);
    }

    function test_exit_of_a_suspended_position_is_open() external {
        slash(worker, MAX_BPS, keccak256("x"));
        ExitId id = startExit(worker, Role.Worker, STAKE);
        skip(unbonding);
        stakes.finishExit(id);
        eq(stakes.idleOf(worker), STAKE / 2);
        eq(active(worker), 0);
    }

    function testFuzz_S4_share_price_never_rises_above_one(uint16[8] calldata moves) external {
        useRuthlessPool();
        for (uint256 i = 0; i < 8; ++i) {
            (uint64 until,,,) = stakes.standingOf(pool, Role.Worker, worker);
            if (until != 0) {
                skip(WINDOW);
                stakes.reinstate(pool, Role.Worker, worker);
            }
            (uint256 tokens, uint256 shares, uint256 exiting) = position(worker);
            uint256 kind = moves[i] % 3;
            if (kind == 0) {
                enter(worker, Role.Worker, 1_000 + uint256(moves[i]));
            } else if (kind == 1) {
                slash(Role.Worker, worker, moves[i] % 10_001, keccak256(abi.encode(i)), STRANGER, moves[i] % 5_001);
            } else if (shares > exiting) {
                uint256 part = 1 + moves[i] % (shares - exiting);
                bool leavesDust = part < shares && (tokens * (shares - part)) / shares < 100;
                ExitId id = startExit(worker, Role.Worker, leavesDust ? shares : part);
                skip(unbonding);
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

    function test_provider_has_several_nodes_at_once() external {
        address first = addNode(11, worker);
        address second = addNode(12, worker);
        vm.prank(first);
        stakes.removeNode(first);
        eq(stakes.providerOf(first), address(0));
        eq(stakes.providerOf(second), worker);
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
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.ConsentInvalid.selector, vm.addr(11), peer));
        vm.prank(peer);
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
        StakeManager other = new StakeManager(otherParts(address(token)));
        bytes memory signature = consent(11, worker, clock);
        vm.expectPartialRevert(IStakeManager.ConsentInvalid.selector);
        vm.prank(worker);
        other.addNode(vm.addr(11), clock, signature);
        vm.chainId(31_338);
        vm.expectPartialRevert(IStakeManager.ConsentInvalid.selector);
        vm.prank(worker);
        stakes.addNode(vm.addr(11), clock, signature);
    }

    function test_S6_consent_is_an_EIP712_struct() external view {
        bytes32 domain = keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak256("Stannary"),
                keccak256("1"),
                block.chainid,
                address(stakes)
            )
        );
        bytes32 body = keccak256(
            abi.encode(keccak256("NodeConsent(address node,address provider,uint256 deadline)"), STRANGER, worker, 7)
        );
        eq(stakes.consentDigest(STRANGER, worker, 7), keccak256(abi.encodePacked(hex"1901", domain, body)));
    }

    function test_S6_node_zero_is_refused() external {
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.AddressZero.selector));
        vm.prank(worker);
        stakes.addNode(address(0), clock, "");
    }

    function test_S6_node_of_two_providers_is_refused() external {
        bytes memory second = consent(11, peer, clock);
        address node = addNode(11, worker);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.NodeTaken.selector, node, worker));
        vm.prank(peer);
        stakes.addNode(node, clock, second);
    }

    function test_S6_node_that_holds_stake_is_refused() external {
        address node = vm.addr(11);
        deposit(node, 500);
        bytes memory signature = consent(11, worker, clock);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.NodeIsProvider.selector, node));
        vm.prank(worker);
        stakes.addNode(node, clock, signature);
    }

    function test_S6_node_that_controls_or_is_controlled_is_refused() external {
        address node = vm.addr(11);
        handOver(peer, peer, node);
        bytes memory signature = consent(11, worker, clock);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.ControllerTaken.selector, node));
        vm.prank(worker);
        stakes.addNode(node, clock, signature);

        address empty = vm.addr(12);
        handOver(empty, empty, KEY);
        signature = consent(12, worker, clock);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.NodeIsProvider.selector, empty));
        vm.prank(worker);
        stakes.addNode(empty, clock, signature);
    }

    function test_S6_node_acts_for_none_but_itself_on_stake() external {
        address node = addNode(11, worker);
        token.mint(node, 500);
        bytes memory chained = consent(12, node, clock);
        bytes32 agreed = registry.termsHashOf(pool);
        bytes memory refusal = abi.encodeWithSelector(IStakeManager.NodeIsProvider.selector, node);
        vm.startPrank(node);
        token.approve(address(stakes), 500);
        vm.expectRevert(refusal);
        stakes.deposit(500);
        vm.expectRevert(refusal);
        stakes.withdraw(500);
        vm.expectRevert(refusal);
        stakes.allocate(pool, Role.Worker, 500, agreed);
        vm.expectRevert(refusal);
        stakes.startExit(pool, Role.Worker, 500);
        vm.expectRevert(refusal);
        stakes.addNode(vm.addr(12), clock, chained);
        vm.expectRevert(refusal);
        stakes.offerController(KEY);
        vm.expectRevert(refusal);
        stakes.setPayee(pool, PURSE);
    }

    function test_S6_provider_as_its_own_node_is_refused() external {
        address self = vm.addr(13);
        bytes memory signature = consent(13, self, clock);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.NodeIsProvider.selector, self));
        vm.prank(self);
        stakes.addNode(self, clock, signature);
    }

    function test_node_removed_by_a_stranger_is_refused() external {
        address node = addNode(11, worker);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.NotNodeOwner.selector, node, STRANGER));
        vm.prank(STRANGER);
        stakes.removeNode(node);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.NotNodeOwner.selector, vm.addr(12), worker));
        vm.prank(worker);
        stakes.removeNode(vm.addr(12));
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.NotNodeOwner.selector, vm.addr(12), vm.addr(12)));
        vm.prank(vm.addr(12));
        stakes.removeNode(vm.addr(12));
    }

    // -- controllers

    function test_control_passes_in_two_steps() external {
        eq(stakes.controllerOf(worker), worker);
        vm.expectEmit();
        emit IStakeManager.ControllerOffered(worker, KEY);
        vm.prank(worker);
        stakes.offerController(KEY);
        eq(stakes.controllerOf(worker), worker);
        eq(stakes.providerOf(KEY), address(0));
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.NotOfferedController.selector, worker, STRANGER, KEY));
        vm.prank(STRANGER);
        stakes.acceptController(worker);
        vm.expectEmit();
        emit IStakeManager.ControllerChanged(worker, KEY);
        vm.prank(KEY);
        stakes.acceptController(worker);
        eq(stakes.controllerOf(worker), KEY);
        eq(stakes.providerOf(KEY), worker);
        eq(stakes.providerOf(worker), address(0));
        vm.expectRevert(
            abi.encodeWithSelector(IStakeManager.NotOfferedController.selector, worker, KEY, address(0))
        );
        vm.prank(KEY);
        stakes.acceptController(worker);
    }

    function test_control_offer_is_taken_back_with_zero() external {
        vm.startPrank(worker);
        stakes.offerController(KEY);
        stakes.offerController(address(0));
        vm.stopPrank();
        vm.expectRevert(
            abi.encodeWithSelector(IStakeManager.NotOfferedController.selector, worker, KEY, address(0))
        );
        vm.prank(KEY);
        stakes.acceptController(worker);
    }

    function test_controller_does_all_for_its_provider() external {
        handOver(worker, worker, KEY);
        token.mint(KEY, 500);
        bytes32 agreed = registry.termsHashOf(pool);
        bytes memory signature = consent(11, worker, clock);
        vm.startPrank(KEY);
        token.approve(address(stakes), 500);
        vm.expectEmit();
        emit IStakeManager.Deposited(worker, 500);
        stakes.deposit(500);
        eq(token.balanceOf(KEY), 0);
        eq(stakes.idleOf(worker), 500);
        eq(stakes.idleOf(KEY), 0);
        vm.expectEmit();
        emit IStakeManager.Allocated(pool, Role.Worker, worker, 300, 300);
        stakes.allocate(pool, Role.Worker, 300, agreed);
        eq(active(worker), 1_300);
        vm.expectEmit();
        emit IStakeManager.Withdrawn(worker, KEY, 200);
        stakes.withdraw(200);
        eq(token.balanceOf(KEY), 200);
        eq(stakes.idleOf(worker), 0);
        stakes.addNode(vm.addr(11), clock, signature);
        eq(stakes.providerOf(vm.addr(11)), worker);
        vm.expectEmit();
        emit IStakeManager.PayeeChanged(pool, worker, PURSE);
        stakes.setPayee(pool, PURSE);
        eq(stakes.payeeOf(pool, worker), PURSE);
        ExitId id = stakes.startExit(pool, Role.Worker, 1_300);
        eq(stakes.exitOf(id).provider, worker);
        stakes.removeNode(vm.addr(11));
        eq(stakes.providerOf(vm.addr(11)), address(0));
        skip(unbonding);
        stakes.finishExit(id);
        eq(stakes.idleOf(worker), 1_300);
        stakes.withdraw(1_300);
        eq(token.balanceOf(KEY), 1_500);
        eq(stakes.providerOf(KEY), worker);
    }

    function test_former_key_does_nothing_any_more() external {
        address node = addNode(11, worker);
        handOver(worker, worker, KEY);
        bytes32 agreed = registry.termsHashOf(pool);
        bytes memory signature = consent(12, worker, clock);
        bytes memory refusal = abi.encodeWithSelector(IStakeManager.NotController.selector, worker, worker, KEY);
        vm.startPrank(worker);
        vm.expectRevert(refusal);
        stakes.deposit(1);
        vm.expectRevert(refusal);
        stakes.withdraw(1);
        vm.expectRevert(refusal);
        stakes.allocate(pool, Role.Worker, 1, agreed);
        vm.expectRevert(refusal);
        stakes.startExit(pool, Role.Worker, 1);
        vm.expectRevert(refusal);
        stakes.addNode(vm.addr(12), clock, signature);
        vm.expectRevert(refusal);
        stakes.offerController(worker);
        vm.expectRevert(refusal);
        stakes.setPayee(pool, worker);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.NotNodeOwner.selector, node, worker));
        stakes.removeNode(node);
        vm.stopPrank();
        vm.prank(KEY);
        stakes.removeNode(node);
    }

    function test_control_is_handed_on_and_back() external {
        handOver(worker, worker, KEY);
        handOver(worker, KEY, OTHER_KEY);
        eq(stakes.controllerOf(worker), OTHER_KEY);
        eq(stakes.providerOf(OTHER_KEY), worker);
        eq(stakes.providerOf(KEY), address(0));
        vm.expectRevert(
            abi.encodeWithSelector(IStakeManager.IdleTooLow.selector, KEY, uint256(0), uint256(1))
        );
        vm.prank(KEY);
        stakes.withdraw(1);

        handOver(worker, OTHER_KEY, worker);
        eq(stakes.controllerOf(worker), worker);
        eq(stakes.providerOf(worker), worker);
        eq(stakes.providerOf(OTHER_KEY), address(0));
        startExit(worker, Role.Worker, STAKE);
        // Keys that control nothing any more are free again.
        handOver(peer, peer, KEY);
        deposit(OTHER_KEY, 1);
    }

    function test_control_by_a_bound_account_is_refused() external {
        address node = addNode(11, validator);
        address empty = address(0x2C);
        handOver(umpire, umpire, KEY);
        handOver(empty, empty, OTHER_KEY);
        // A node, a controller, a provider with stake, a provider that another controls.
        address[4] memory taken = [node, KEY, peer, empty];
        for (uint256 i = 0; i < 4; ++i) {
            vm.prank(worker);
            stakes.offerController(taken[i]);
            vm.expectRevert(abi.encodeWithSelector(IStakeManager.ControllerTaken.selector, taken[i]));
            vm.prank(taken[i]);
            stakes.acceptController(worker);
        }
        eq(stakes.controllerOf(worker), worker);
    }

    function test_control_of_an_account_bound_since_its_offer_is_refused() external {
        address turned = vm.addr(11);
        vm.prank(turned);
        stakes.offerController(KEY);
        addNode(11, worker);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.ControllerTaken.selector, turned));
        vm.prank(KEY);
        stakes.acceptController(turned);

        vm.prank(STRANGER);
        stakes.offerController(KEY);
        handOver(peer, peer, STRANGER);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.ControllerTaken.selector, STRANGER));
        vm.prank(KEY);
        stakes.acceptController(STRANGER);
    }

    function test_control_of_a_provider_without_stake_may_be_handed_on() external {
        handOver(STRANGER, STRANGER, KEY);
        eq(stakes.providerOf(KEY), STRANGER);
        vm.expectRevert(
            abi.encodeWithSelector(IStakeManager.NotController.selector, STRANGER, STRANGER, KEY)
        );
        vm.prank(STRANGER);
        stakes.deposit(1);
        deposit(KEY, 500);
        eq(stakes.idleOf(STRANGER), 500);
    }

    function test_control_accepted_by_its_own_key_changes_nothing() external {
        handOver(worker, worker, worker);
        eq(stakes.controllerOf(worker), worker);
        eq(stakes.providerOf(worker), worker);
        handOver(worker, worker, KEY);
        eq(stakes.providerOf(KEY), worker);
    }

    // -- payees

    function refusedPayee(address provider, address payee) internal {
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.PayeeOfOtherRole.selector, pool, payee));
        setPayee(provider, payee);
    }

    function test_payee_is_the_provider_until_it_names_another() external {
        eq(stakes.payeeOf(pool, worker), worker);
        eq(stakes.payeeOf(pool, STRANGER), STRANGER);
        vm.expectEmit();
        emit IStakeManager.PayeeChanged(pool, worker, PURSE);
        setPayee(worker, PURSE);
        eq(stakes.payeeOf(pool, worker), PURSE);
        eq(stakes.payeeOf(stepPool, worker), worker);
        vm.expectEmit();
        emit IStakeManager.PayeeChanged(pool, worker, worker);
        setPayee(worker, worker);
        eq(stakes.payeeOf(pool, worker), worker);
    }

    function test_payee_zero_is_refused() external {
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.AddressZero.selector));
        setPayee(worker, address(0));
    }

    function test_payee_without_a_position_is_refused() external {
        deposit(STRANGER, 500);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.NoPosition.selector, pool, STRANGER));
        setPayee(STRANGER, PURSE);
        depart(worker, Role.Worker, STAKE);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.NoPosition.selector, pool, worker));
        setPayee(worker, PURSE);
    }

    function test_payee_of_workers_is_none_of_validators() external {
        setPayee(worker, PURSE);
        setPayee(peer, PURSE);
        refusedPayee(validator, PURSE);
        setPayee(worker, worker);
        refusedPayee(validator, PURSE);
        setPayee(peer, STRANGER);
        setPayee(validator, PURSE);
        setPayee(umpire, PURSE);
        refusedPayee(worker, PURSE);
    }

    function test_payee_of_the_other_role_in_another_pool_is_taken() external {
        setPayee(worker, PURSE);
        pool = stepPool;
        setPayee(validators[0], PURSE);
    }

    function test_payee_that_holds_the_other_role_is_refused() external {
        refusedPayee(worker, validator);
        refusedPayee(validator, worker);
        setPayee(worker, peer);
        // Whom it pays itself does not matter.
        setPayee(validator, PURSE);
        refusedPayee(worker, validator);
    }

    function test_payee_is_free_when_the_position_is_gone() external {
        setPayee(worker, PURSE);
        refusedPayee(validator, PURSE);
        ExitId id = startExit(worker, Role.Worker, STAKE - 100);
        skip(unbonding);
        stakes.finishExit(id);
        refusedPayee(validator, PURSE);
        depart(worker, Role.Worker, 100);
        setPayee(validator, PURSE);
        eq(stakes.payeeOf(pool, worker), PURSE);
        refusedPayee(peer, PURSE);
    }

    function test_payee_is_free_when_the_position_is_slashed_to_nothing() external {
        useRuthlessPool();
        enter(validator, Role.Validator, STAKE);
        setPayee(worker, PURSE);
        slash(worker, 9_999, keccak256("x"));
        eq(tokensOf(worker), 0);
        setPayee(validator, PURSE);
    }

    function test_payee_of_one_that_left_is_not_given_up_twice() external {
        setPayee(worker, PURSE);
        depart(worker, Role.Worker, STAKE);
        eq(slash(worker, 1_000, keccak256("late")), 0);
        setPayee(peer, PURSE);
        eq(slash(worker, 1_000, keccak256("later")), 0);
        refusedPayee(validator, PURSE);
    }

    function test_payee_is_bound_again_with_the_next_position() external {
        setPayee(worker, PURSE);
        depart(worker, Role.Worker, STAKE);
        enter(worker, Role.Worker, 500);
        refusedPayee(validator, PURSE);
        enter(worker, Role.Worker, 500);
        depart(worker, Role.Worker, 1_000);
        enter(worker, Role.Validator, 500);
        refusedPayee(peer, PURSE);
        setPayee(validator, PURSE);
    }

    function test_payee_that_took_the_other_role_does_not_bar_the_way_back() external {
        setPayee(worker, PURSE);
        depart(worker, Role.Worker, STAKE);
        setPayee(validator, PURSE);
        deposit(worker, 500);
        bytes32 agreed = registry.termsHashOf(pool);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.PayeeOfOtherRole.selector, pool, PURSE));
        vm.prank(worker);
        stakes.allocate(pool, Role.Worker, 500, agreed);
        setPayee(worker, worker);
        vm.prank(worker);
        stakes.allocate(pool, Role.Worker, 500, agreed);
        eq(active(worker), 500);
        // Naming itself without a position took no use away.
        refusedPayee(peer, PURSE);
        setPayee(validator, validator);
        setPayee(peer, PURSE);
    }

    function test_payee_squatted_on_still_enters_with_its_own_address() external {
        setPayee(worker, STRANGER);
        enter(STRANGER, Role.Validator, 500);
        eq(weight(STRANGER), 500);
        eq(stakes.payeeOf(pool, STRANGER), STRANGER);
        // Nobody else gets it as a payee of either role, and its owner may name another.
        refusedPayee(peer, STRANGER);
        refusedPayee(validator, STRANGER);
        setPayee(STRANGER, PURSE);
        refusedPayee(peer, PURSE);
        setPayee(STRANGER, STRANGER);
        setPayee(peer, PURSE);
    }

    // -- snapshots and the validator list

    function test_active_stake_at_a_past_block_does_not_change() external {
        uint256 before = height;
        mine(1);
        startExit(validator, Role.Validator, 400);
        uint256 after_ = height;
        mine(1);
        eq(stakes.activeStakeAt(pool, Role.Validator, validator, before), STAKE);
        eq(stakes.activeStakeAt(pool, Role.Validator, validator, after_), 600);
        eq(stakes.activeStakeAt(pool, Role.Validator, validator, 1), 0);
        eq(stakes.activeStakeAt(pool, Role.Worker, validator, after_), 0);
    }

    function test_active_stake_of_every_past_block_is_kept() external {
        uint256 from = height;
        for (uint256 i = 0; i < 8; ++i) {
            startExit(worker, Role.Worker, 60);
            startExit(worker, Role.Worker, 40);
            // Within a block, the last counts.
            eq(active(worker), 900 - 100 * i);
            eq(stakes.activeStakeAt(pool, Role.Worker, worker, height - 1), 1_000 - 100 * i);
            mine(2);
        }
        for (uint256 i = 0; i < 8; ++i) {
            eq(stakes.activeStakeAt(pool, Role.Worker, worker, from + 2 * i), 900 - 100 * i);
            eq(stakes.activeStakeAt(pool, Role.Worker, worker, from + 2 * i + 1), 900 - 100 * i);
        }
    }

    function test_eligible_validators_are_those_that_count() external {
        eq(stakes.eligibleValidatorsOf(pool), 2);
        enter(STRANGER, Role.Validator, 200);
        eq(stakes.eligibleValidatorsOf(pool), 3);
        enter(STRANGER, Role.Validator, 1);
        eq(stakes.eligibleValidatorsOf(pool), 3);
        enter(address(0x920), Role.Worker, 500);
        startExit(worker, Role.Worker, STAKE);
        eq(stakes.eligibleValidatorsOf(pool), 3);

        slash(Role.Validator, STRANGER, 100, keccak256("below"), address(0), 0);
        eq(stakes.eligibleValidatorsOf(pool), 2);
        enter(STRANGER, Role.Validator, 2);
        eq(stakes.eligibleValidatorsOf(pool), 3);
        for (uint256 i = 0; i < 3; ++i) miss(validator);
        eq(stakes.eligibleValidatorsOf(pool), 2);
        skip(WINDOW);
        stakes.reinstate(pool, Role.Validator, validator);
        eq(stakes.eligibleValidatorsOf(pool), 3);
        ExitId id = startExit(umpire, Role.Validator, STAKE - 200);
        eq(stakes.eligibleValidatorsOf(pool), 3);
        startExit(umpire, Role.Validator, 200);
        eq(stakes.eligibleValidatorsOf(pool), 2);
        skip(unbonding);
        stakes.finishExit(id);
        eq(stakes.eligibleValidatorsOf(pool), 2);
        eq(stakes.eligibleValidatorsOf(stepPool), validators.length);
    }

    function test_active_stakes_of_many_at_a_past_block() external {
        startExit(peer, Role.Worker, 400);
        uint256 before = height;
        mine(1);
        startExit(peer, Role.Worker, 600);
        address[] memory asked = new address[](4);
        asked[0] = peer;
        asked[1] = STRANGER;
        asked[2] = worker;
        asked[3] = validator;
        uint256[] memory answer = stakes.activeStakesAt(pool, Role.Worker, asked, before);
        eq(answer.length, 4);
        eq(answer[0], 600);
        eq(answer[1], 0);
        eq(answer[2], STAKE);
        eq(answer[3], 0);
        eq(stakes.activeStakesAt(pool, Role.Worker, new address[](0), before).length, 0);
    }

    function test_active_stake_at_this_block_is_refused() external {
        bytes memory refusal = abi.encodeWithSelector(IStakeManager.BlockNotPast.selector, height, height);
        vm.expectRevert(refusal);
        stakes.activeStakeAt(pool, Role.Validator, validator, height);
        vm.expectRevert(refusal);
        stakes.activeStakesAt(pool, Role.Validator, new address[](0), height);
        vm.expectRevert(refusal);
        stakes.validatorStakesAt(pool, height);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.BlockNotPast.selector, height + 1, height));
        stakes.validatorStakesAt(pool, height + 1);
    }

    function test_validators_suspended_or_below_the_minimum_weigh_nothing() external {
        enter(STRANGER, Role.Validator, 200);
        slash(Role.Validator, STRANGER, 1, keccak256("below"), address(0), 0);
        for (uint256 i = 0; i < 3; ++i) miss(umpire);
        uint256 past = height;
        mine(1);
        (address[] memory listed, uint256[] memory weights) = stakes.validatorStakesAt(pool, past);
        eq(listed.length, 3);
        eq(weights.length, 3);
        eq(listed[0], validator);
        eq(weights[0], STAKE);
        eq(listed[1], umpire);
        eq(weights[1], 0);
        eq(listed[2], STRANGER);
        eq(weights[2], 0);
        (uint256 tokens,,) = stakes.positionOf(pool, Role.Validator, STRANGER);
        eq(tokens, 199);
    }

    function test_validators_stay_in_order_of_first_allocation() external {
        enter(umpire, Role.Validator, 500);
        startExit(validator, Role.Validator, STAKE);
        address[] memory listed = stakes.validatorsOf(pool);
        eq(listed.length, 2);
        eq(listed[0], validator);
        eq(listed[1], umpire);
        eq(stakes.validatorsOf(PoolId.wrap(77)).length, 0);
    }

    function test_S8_validator_list_is_bounded_and_passes_places_of_the_departed() external {
        for (uint160 i = 0; i < 62; ++i) enter(address(0x1000 + i), Role.Validator, 200);
        eq(stakes.validatorsOf(pool).length, 64);
        deposit(STRANGER, 500);
        bytes32 agreed = registry.termsHashOf(pool);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.ValidatorsFull.selector, pool, uint256(64)));
        vm.prank(STRANGER);
        stakes.allocate(pool, Role.Validator, 500, agreed);
        // A member may still add; a leaving one keeps its place until it is gone.
        enter(umpire, Role.Validator, 200);
        ExitId id = startExit(address(0x1005), Role.Validator, 200);
        vm.expectPartialRevert(IStakeManager.ValidatorsFull.selector);
        vm.prank(STRANGER);
        stakes.allocate(pool, Role.Validator, 500, agreed);
        skip(unbonding);
        stakes.finishExit(id);
        vm.prank(STRANGER);
        stakes.allocate(pool, Role.Validator, 500, agreed);
        address[] memory listed = stakes.validatorsOf(pool);
        eq(listed.length, 64);
        eq(listed[7], STRANGER);
        // Whoever lost its place may take another's, the last one too.
        depart(address(0x1000 + 61), Role.Validator, 200);
        enter(address(0x1005), Role.Validator, 200);
        listed = stakes.validatorsOf(pool);
        eq(listed[7], STRANGER);
        eq(listed[63], address(0x1005));
    }

    function test_validator_that_returns_to_its_place_is_listed_once() external {
        depart(validator, Role.Validator, STAKE);
        enter(validator, Role.Validator, 500);
        eq(stakes.validatorsOf(pool).length, 2);
        eq(weight(validator), 500);
    }

    // -- draws

    function drawn(uint256 size, address[][] memory barred, address[] memory parties)
        internal
        view
        returns (address[] memory)
    {
        uint64 mask = stakes.barredOf(pool, height - 1, barred, parties);
        return stakes.drawValidators(pool, height - 1, keccak256("beacon"), size, mask);
    }

    function list(address a) internal pure returns (address[] memory accounts) {
        accounts = new address[](1);
        accounts[0] = a;
    }

    function list(address a, address b) internal pure returns (address[] memory accounts) {
        accounts = new address[](2);
        accounts[0] = a;
        accounts[1] = b;
    }

    /// Two accounts, in either order.
    function eqPair(address[] memory got, address a, address b) internal pure {
        eq(got.length, 2);
        require((got[0] == a && got[1] == b) || (got[0] == b && got[1] == a), "another pair");
    }

    /// Two more validators: 0x912 and 0x913.
    function enterTwoMore() internal {
        enter(address(0x912), Role.Validator, 500);
        enter(address(0x913), Role.Validator, 700);
        mine(1);
    }

    function test_draw_is_by_the_stakes_of_a_past_block() external {
        enterTwoMore();
        startExit(validator, Role.Validator, STAKE);
        enter(address(0x914), Role.Validator, 5_000);
        (address[] memory listed, uint256[] memory weights) = stakes.validatorStakesAt(pool, height - 1);
        address[] memory expected = PanelDraw.draw(listed, weights, keccak256("beacon"), 3);
        eq(keccak256(abi.encode(drawn(3, new address[][](0), new address[](0)))), keccak256(abi.encode(expected)));
        eq(expected.length, 3);
        eq(drawn(9, new address[][](0), new address[](0)).length, 4);
        eq(drawn(0, new address[][](0), new address[](0)).length, 0);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.BlockNotPast.selector, height, height));
        stakes.drawValidators(pool, height, keccak256("beacon"), 3, 0);
    }

    function test_draw_leaves_out_the_barred() external {
        enterTwoMore();
        address[][] memory barred = new address[][](3);
        barred[0] = list(STRANGER, validator);
        barred[2] = list(address(0x913));
        eqPair(drawn(4, barred, new address[](0)), umpire, address(0x912));
    }

    function test_draw_leaves_out_the_barred_of_the_least_stake() external {
        PoolTerms memory t = cappedTerms();
        t.panel.minValidatorStake = 1;
        pool = createPool(t);
        enter(validator, Role.Validator, 1);
        enter(umpire, Role.Validator, 1);
        mine(1);
        address[][] memory barred = new address[][](1);
        barred[0] = list(validator);
        address[] memory got = drawn(2, barred, new address[](0));
        eq(got.length, 1);
        eq(got[0], umpire);
    }

    function test_draw_leaves_out_the_parties_and_who_shares_a_payee_with_them() external {
        enterTwoMore();
        setPayee(umpire, PURSE);
        setPayee(address(0x913), PURSE);
        setPayee(worker, STRANGER);
        // One that pays into the purse, and the purse itself.
        eqPair(drawn(4, new address[][](0), list(worker, umpire)), validator, address(0x912));
        eqPair(drawn(4, new address[][](0), list(PURSE, worker)), validator, address(0x912));
        // A party is left out whomever it pays.
        setPayee(address(0x913), address(0x913));
        setPayee(validator, address(0x3B));
        eqPair(drawn(4, new address[][](0), list(validator, address(0x912))), umpire, address(0x913));
        // The payee of a worker that took the other role after it was named.
        setPayee(worker, address(0x3C));
        enter(address(0x3C), Role.Validator, 900);
        mine(1);
        address[][] memory barred = new address[][](1);
        barred[0] = list(validator, umpire);
        eqPair(drawn(4, barred, list(worker)), address(0x912), address(0x913));
    }

    function test_S1_donation_changes_nothing() external {
        uint256 held = stakes.totalHeld();
        token.mint(address(stakes), 12_345);
        eq(stakes.totalHeld(), held);
        ExitId id = startExit(worker, Role.Worker, STAKE);
        skip(unbonding);
        stakes.finishExit(id);
        eq(stakes.idleOf(worker), STAKE);
        eq(stakes.totalHeld(), held);
    }
}
