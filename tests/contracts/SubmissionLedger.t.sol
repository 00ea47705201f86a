// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";

import {SubmissionLedger} from "../../contracts/SubmissionLedger.sol";
import {IPayoutVault} from "../../contracts/interfaces/IPayoutVault.sol";
import {IPoolRegistry} from "../../contracts/interfaces/IPoolRegistry.sol";
import {ISubmissionLedger} from "../../contracts/interfaces/ISubmissionLedger.sol";
import {IVotingPanel} from "../../contracts/interfaces/IVotingPanel.sol";
import {Seeds} from "../../contracts/libraries/Seeds.sol";
import {Outcome, Phase, Role} from "../../contracts/types/Enums.sol";
import {PoolId} from "../../contracts/types/Ids.sol";
import {Parts, PartMissing} from "../../contracts/types/Parts.sol";
import {Offer, PoolTerms, Rates} from "../../contracts/types/PoolTerms.sol";
import {StepState} from "../../contracts/types/StepState.sol";
import {Lease, LeafOpening, PayTable, Submission, TakenSlot} from "../../contracts/types/Submission.sol";
import {ChainTest} from "./support/ChainTest.sol";
import {ReentrantToken} from "./support/Tokens.sol";
import {Trees} from "./support/Trees.sol";
import {vm} from "./support/Vm.sol";

contract SubmissionLedgerTest is ChainTest {
    uint256 internal constant NODE_KEY = 0x51; // of worker 0; those of the others follow
    uint256 internal constant STRANGER_KEY = 0x5F;
    uint256 internal constant COMMIT_SECONDS = 80; // to collect, and the last lease

    function setUp() public override {
        super.setUp();
        for (uint256 i = 0; i < workers.length; ++i) {
            bytes memory signature = consent(NODE_KEY + i, workers[i], clock);
            vm.prank(workers[i]);
            stakes.addNode(vm.addr(NODE_KEY + i), clock, signature);
        }
    }

    function wrongPhase(uint32 step, Phase phase, Phase expected) internal {
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.WrongPhase.selector, pool, step, phase, expected));
    }

    // Another pool, with the same validators and workers.
    function usePool(PoolTerms memory t) internal {
        pool = createPool(t);
        fund(pool, FUNDS);
        for (uint256 i = 0; i < validators.length; ++i) enter(validators[i], Role.Validator, STAKE);
        for (uint256 i = 0; i < workers.length; ++i) enter(workers[i], Role.Worker, STAKE);
        mine(1);
    }

    // In which no slot can be taken on chain.
    function useNarrowPool() internal {
        PoolTerms memory t = terms();
        t.work.reservedSlots = 0;
        usePool(t);
    }

    function pausePool() internal {
        vm.prank(PAUSER);
        registry.pause(pool);
    }

    function unpausePool() internal {
        vm.prank(UNPAUSER);
        registry.unpause(pool);
    }

    // -- policies

    function test_policy_published_by_trainer_is_recorded() external {
        vm.expectEmit();
        emit ISubmissionLedger.PolicyPublished(pool, 0, keccak256("root"), keccak256("consumed"));
        vm.prank(TRAINER);
        ledger.publishPolicy(pool, 0, keccak256("root"), keccak256("consumed"));
        eq(ledger.policyRootOf(pool, 0), keccak256("root"));
        eq(ledger.policyCountOf(pool), 1);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.UnknownPolicy.selector, pool, uint32(1)));
        ledger.policyRootOf(pool, 1);
    }

    function test_policies_of_two_pools_are_told_apart() external {
        publish(0);
        PoolId second = createPool(terms());
        eq(ledger.policyCountOf(second), 0);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.UnknownPolicy.selector, second, uint32(0)));
        ledger.policyRootOf(second, 0);
    }

    function test_policy_of_a_stranger_is_refused() external {
        address[3] memory callers = [STRANGER, coordinator, OWNER];
        for (uint256 i = 0; i < 3; ++i) {
            vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.NotTrainer.selector, pool, callers[i], TRAINER));
            vm.prank(callers[i]);
            ledger.publishPolicy(pool, 0, keccak256("root"), bytes32(0));
        }
    }

    function test_policy_of_an_unknown_pool_is_refused() external {
        PoolId unknown = PoolId.wrap(9);
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.UnknownPool.selector, unknown));
        vm.prank(TRAINER);
        ledger.publishPolicy(unknown, 0, keccak256("root"), bytes32(0));
    }

    function test_policy_makes_an_offer_that_is_due_final() external {
        Offer memory next = terms().offer;
        next.trainer = STRANGER;
        vm.prank(OWNER);
        registry.announceOffer(pool, next);
        skip(terms().parties.noticeSeconds);
        vm.prank(STRANGER);
        ledger.publishPolicy(pool, 0, keccak256("root"), bytes32(0));
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.UnknownOffer.selector, pool, uint32(2)));
        vm.prank(OWNER);
        registry.withdrawOffer(pool);
    }

    function test_L2_policy_out_of_order_or_twice_is_refused() external {
        vm.startPrank(TRAINER);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.NotNext.selector, uint32(1), uint32(0)));
        ledger.publishPolicy(pool, 1, keccak256("root"), bytes32(0));
        ledger.publishPolicy(pool, 0, keccak256("root"), bytes32(0));
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.NotNext.selector, uint32(0), uint32(1)));
        ledger.publishPolicy(pool, 0, keccak256("other"), bytes32(0));
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.RootZero.selector));
        ledger.publishPolicy(pool, 1, bytes32(0), bytes32(0));
        eq(ledger.policyRootOf(pool, 0), keccak256("root"));
        eq(ledger.policyCountOf(pool), 1);
    }

    // -- opening

    function test_step_opened_reserves_the_most_it_can_cost() external {
        publish(0);
        vm.expectEmit();
        emit ISubmissionLedger.StepOpened(pool, 0, 0, 6, 0, uint64(height + 2));
        vm.prank(TRAINER);
        ledger.openStep(pool, 0, 0, 6);
        // Eight slots of 500 with juries of 40, six seats of 30, two beacons of 3, and the lease bond of 700.
        eqEscrow(FUNDS - 5_206, 5_206, 0);
        eq(vault.reservationOf(pool, 0), 5_206);
        StepState memory state = ledger.stepOf(pool, 0);
        eq(state.phase, Phase.Open);
        eq(state.policyStep, 0);
        eq(state.slots, 6);
        eq(state.taken, 0);
        eq(state.offer, 0);
        eq(state.openedBlock, height);
        eq(state.seedBlock, height + 2);
        eq(state.seededAt + state.auditBlock + state.committedAt + state.finalizedAt, 0);
        eq(ledger.stepCountOf(pool), 1);
        eq(ledger.settledCountOf(pool), 0);
    }

    function testFuzz_step_reserves_by_the_terms_of_its_pool(uint32 salt) external {
        PoolTerms memory t = terms();
        t.offer.pricePerGroup = 1 + salt % 97;
        t.offer.pricePerToken = salt % 7;
        t.fees.panelFee = salt % 89;
        t.fees.jurorFee = 1 + salt % 53;
        t.fees.sealFee = salt % 11;
        t.fees.leaseBond = salt % 1_009;
        t.work.reservedSlots = salt % 13;
        t.panel.panelSize = 1 + 2 * (salt % 3);
        t.panel.quorum = t.panel.panelSize;
        t.panel.jurySize = 1 + 2 * ((salt >> 4) % 2);
        usePool(t);
        uint32 slots = 1 + salt % 200;
        open(0, slots);
        uint256 price = uint256(t.offer.pricePerGroup) + 200 * uint256(t.offer.pricePerToken);
        uint256 expected = (slots + t.work.reservedSlots)
            * (price + (2 * uint256(t.panel.jurySize) + 2) * t.fees.jurorFee) + 2 * t.panel.panelSize
            * uint256(t.fees.panelFee) + 2 * uint256(t.fees.sealFee) + t.fees.leaseBond;
        eq(vault.reservationOf(pool, 0), expected);
    }

    function test_step_records_the_policy_it_is_opened_for() external {
        publish(0);
        publish(1);
        open(0, 1);
        vm.prank(TRAINER);
        ledger.openStep(pool, 1, 1, 7);
        eq(ledger.stepOf(pool, 1).policyStep, 1);
        eq(ledger.stepOf(pool, 1).slots, 7);
        eq(ledger.stepOf(pool, 2).phase, Phase.None);
        eq(ledger.stepCountOf(pool), 2);
    }

    function test_step_of_a_stranger_is_refused() external {
        publish(0);
        address[3] memory callers = [coordinator, OWNER, STRANGER];
        for (uint256 i = 0; i < 3; ++i) {
            vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.NotTrainer.selector, pool, callers[i], TRAINER));
            vm.prank(callers[i]);
            ledger.openStep(pool, 0, 0, 6);
        }
    }

    function test_step_or_policy_of_a_closed_pool_is_refused() external {
        publish(0);
        vm.prank(OWNER);
        registry.closePool(pool);
        vm.startPrank(TRAINER);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.PoolIsClosed.selector, pool));
        ledger.openStep(pool, 0, 0, 6);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.PoolIsClosed.selector, pool));
        ledger.publishPolicy(pool, 1, keccak256("root"), bytes32(0));
    }

    function test_step_in_flight_of_a_closed_pool_finishes() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        open(0, 3);
        vm.prank(OWNER);
        registry.closePool(pool);
        mine(3);
        ledger.sealSeedBeacon(pool, 0);
        commit(0, 3, leaves);
        draw(0);
        voteAll(0, all(Outcome.Accept, 3));
        skip(30);
        finalize(0);
        vault.claim(pool, workers[0]);
        eq(token.balanceOf(workers[0]), 400);
    }

    function test_step_of_a_paused_pool_waits() external {
        publish(0);
        pausePool();
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.PoolIsPaused.selector, pool));
        vm.prank(TRAINER);
        ledger.openStep(pool, 0, 0, 6);
        unpausePool();
        vm.prank(TRAINER);
        ledger.openStep(pool, 0, 0, 6);
    }

    function test_policy_of_a_paused_pool_is_published() external {
        pausePool();
        publish(0);
        eq(ledger.policyCountOf(pool), 1);
    }

    function test_L2_step_out_of_order_is_refused() external {
        publish(0);
        vm.startPrank(TRAINER);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.NotNext.selector, uint32(1), uint32(0)));
        ledger.openStep(pool, 1, 0, 6);
        ledger.openStep(pool, 0, 0, 6);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.NotNext.selector, uint32(0), uint32(1)));
        ledger.openStep(pool, 0, 0, 6);
    }

    function test_L3_step_beyond_max_lag_is_refused() external {
        publish(0);
        vm.startPrank(TRAINER);
        for (uint32 step = 0; step < 3; ++step) ledger.openStep(pool, step, 0, 1);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.LagTooHigh.selector, uint32(3), uint32(2)));
        ledger.openStep(pool, 3, 0, 1);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.UnknownPolicy.selector, pool, uint32(1)));
        ledger.openStep(pool, 3, 1, 1);
    }

    function test_L3_step_with_a_policy_ahead_of_it_is_refused() external {
        publish(0);
        publish(1);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.PolicyAhead.selector, uint32(1), uint32(0)));
        vm.prank(TRAINER);
        ledger.openStep(pool, 0, 1, 1);
    }

    function test_step_with_no_or_too_many_slots_is_refused() external {
        publish(0);
        vm.startPrank(TRAINER);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.CountOutOfRange.selector, uint256(0), uint256(256)));
        ledger.openStep(pool, 0, 0, 0);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.CountOutOfRange.selector, uint256(257), uint256(256)));
        ledger.openStep(pool, 0, 0, 257);
        ledger.openStep(pool, 0, 0, 256);
    }

    function test_step_beyond_those_that_may_be_unsettled_is_refused() external {
        publish(0);
        publish(1);
        for (uint32 step = 0; step < 3; ++step) open(step, 1);
        vm.expectRevert(
            abi.encodeWithSelector(ISubmissionLedger.StepsTooMany.selector, pool, uint256(3), uint256(3))
        );
        vm.prank(TRAINER);
        ledger.openStep(pool, 3, 1, 1);
        mine(3);
        ledger.sealSeedBeacon(pool, 0);
        skip(COMMIT_SECONDS);
        ledger.cancelStep(pool, 0);
        vm.prank(TRAINER);
        ledger.openStep(pool, 3, 1, 1);
        eq(ledger.stepCountOf(pool), 4);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.LagTooHigh.selector, uint32(3), uint32(2)));
        vm.prank(TRAINER);
        ledger.openStep(pool, 4, 1, 1);
    }

    function test_step_without_enough_escrow_is_refused() external {
        publish(0);
        vm.prank(OWNER);
        vault.drain(pool, FUNDS - 5_205, OWNER);
        vm.expectRevert(
            abi.encodeWithSelector(IPayoutVault.EscrowTooLow.selector, pool, uint256(5_205), uint256(5_206))
        );
        vm.prank(TRAINER);
        ledger.openStep(pool, 0, 0, 6);
        eq(ledger.stepCountOf(pool), 0);
        fund(pool, 1);
        open(0, 6);
        eqEscrow(0, 5_206, 0);
    }

    function test_step_without_validators_for_a_panel_and_a_jury_is_refused() external {
        publish(0);
        startExit(validators[0], Role.Validator, STAKE);
        startExit(validators[1], Role.Validator, STAKE);
        startExit(validators[2], Role.Validator, STAKE - 200); // 200 still counts
        open(0, 1); // six are left: a panel and a jury of three each
        startExit(validators[2], Role.Validator, 200);
        vm.expectRevert(
            abi.encodeWithSelector(ISubmissionLedger.ValidatorsTooFew.selector, pool, uint256(5), uint256(6))
        );
        vm.prank(TRAINER);
        ledger.openStep(pool, 1, 0, 1);
        enter(validators[0], Role.Validator, STAKE); // counts at once, but is drawn for later steps only
        open(1, 1);
    }

    function test_step_needs_more_validators_in_a_pool_of_larger_panels_or_juries() external {
        PoolTerms memory t = terms();
        (t.panel.panelSize, t.panel.quorum) = (5, 3);
        usePool(t);
        open(0, 1); // eight of eight
        startExit(validators[0], Role.Validator, STAKE);
        vm.expectRevert(
            abi.encodeWithSelector(ISubmissionLedger.ValidatorsTooFew.selector, pool, uint256(7), uint256(8))
        );
        vm.prank(TRAINER);
        ledger.openStep(pool, 1, 0, 1);
        t = terms();
        t.panel.jurySize = 7;
        usePool(t);
        publish(0);
        vm.expectRevert(
            abi.encodeWithSelector(ISubmissionLedger.ValidatorsTooFew.selector, pool, uint256(8), uint256(10))
        );
        vm.prank(TRAINER);
        ledger.openStep(pool, 0, 0, 1);
    }

    function test_L5_panel_is_drawn_by_the_stakes_of_the_block_before_the_step() external {
        publish(0);
        for (uint256 i = 0; i < 4; ++i) startExit(validators[i], Role.Validator, STAKE);
        mine(1);
        for (uint256 i = 0; i < 2; ++i) enter(validators[i], Role.Validator, 1_000 * STAKE);
        address[] memory members = audit(0, 3, makeLeaves(0, 3));
        eq(members.length, 3);
        for (uint256 i = 0; i < 3; ++i) {
            for (uint256 j = 0; j < 4; ++j) require(members[i] != validators[j]);
        }
    }

    // -- offers

    function nextOffer(uint256 coordinatorKey, address trainer) internal view returns (Offer memory offer) {
        offer = terms().offer;
        offer.coordinator = vm.addr(coordinatorKey);
        offer.trainer = trainer;
        offer.pricePerGroup = 70;
        offer.pricePerToken = 3;
    }

    function announce(uint256 coordinatorKey, address trainer) internal {
        Offer memory offer = nextOffer(coordinatorKey, trainer);
        vm.prank(OWNER);
        registry.announceOffer(pool, offer);
    }

    function test_step_is_opened_under_the_offer_in_force_and_keeps_it() external {
        address trainer = address(0x70B);
        publish(0);
        announce(STRANGER_KEY, trainer);
        skip(99);
        vm.prank(TRAINER);
        ledger.openStep(pool, 0, 0, 2);
        skip(1);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.NotTrainer.selector, pool, TRAINER, trainer));
        vm.prank(TRAINER);
        ledger.openStep(pool, 1, 0, 2);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.NotTrainer.selector, pool, TRAINER, trainer));
        vm.prank(TRAINER);
        ledger.publishPolicy(pool, 1, keccak256("root"), bytes32(0));
        vm.startPrank(trainer);
        ledger.publishPolicy(pool, 1, keccak256("root"), bytes32(0));
        vm.expectEmit();
        emit ISubmissionLedger.StepOpened(pool, 1, 0, 2, 1, uint64(height + 2));
        ledger.openStep(pool, 1, 0, 2);
        vm.stopPrank();
        eq(ledger.stepOf(pool, 0).offer, 0);
        eq(ledger.stepOf(pool, 1).offer, 1);
        eq(vault.reservationOf(pool, 0), stepCost(2));
        eq(vault.reservationOf(pool, 1), stepCost(2) + 4 * (670 - SLOT));
        eq(ledger.ratesOf(pool, 0).slotCap, 500);
        eq(ledger.ratesOf(pool, 1).slotCap, 670);
        eq(ledger.ratesOf(pool, 1).pricePerGroup, 70);
        eq(ledger.ratesOf(pool, 1).pricePerToken, 3);
    }

    function test_root_is_committed_by_the_coordinator_of_the_offer_of_its_step() external {
        open(0, 3);
        announce(STRANGER_KEY, TRAINER);
        skip(100);
        open(1, 3);
        mine(3);
        ledger.sealSeedBeacon(pool, 0);
        ledger.sealSeedBeacon(pool, 1);
        address next = vm.addr(STRANGER_KEY);
        PayTable memory table = tableFor(3, makeLeaves(0, 3));
        vm.expectRevert(
            abi.encodeWithSelector(ISubmissionLedger.NotCoordinator.selector, pool, next, coordinator)
        );
        vm.prank(next);
        ledger.commitRoot(pool, 0, keccak256("root"), bytes32(0), table);
        vm.expectRevert(
            abi.encodeWithSelector(ISubmissionLedger.NotCoordinator.selector, pool, coordinator, next)
        );
        vm.prank(coordinator);
        ledger.commitRoot(pool, 1, keccak256("root"), bytes32(0), table);
        vm.prank(coordinator);
        ledger.commitRoot(pool, 0, keccak256("root"), bytes32(0), table);
        vm.prank(next);
        ledger.commitRoot(pool, 1, keccak256("root"), bytes32(0), table);
    }

    function test_rates_are_those_of_the_offer_and_the_rules() external {
        open(0, 2);
        Rates memory rates = ledger.ratesOf(pool, 0);
        eq(rates.slotCap, 500);
        eq(rates.unitCap, 200);
        eq(rates.pricePerGroup, 100);
        eq(rates.pricePerToken, 2);
        eq(rates.payCapBps, 100_000);
    }

    // -- the seed beacon

    function test_L4_seed_beacon_before_its_block_is_past_is_refused() external {
        open(0, 6);
        uint64 seedBlock = uint64(height + 2);
        for (uint256 i = 0; i < 3; ++i) {
            vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.BeaconNotReady.selector, seedBlock, height));
            ledger.sealSeedBeacon(pool, 0);
            mine(1);
        }
        bytes32 beacon =
            Seeds.beacon(Seeds.SEED_BEACON_TAG, address(ledger), pool, 0, keccak256(abi.encode("block", seedBlock)));
        vm.expectEmit();
        emit ISubmissionLedger.SeedBeaconSealed(pool, 0, beacon, STRANGER);
        vm.prank(STRANGER);
        ledger.sealSeedBeacon(pool, 0);
        eq(ledger.stepOf(pool, 0).seedBeacon, beacon);
        eq(ledger.stepOf(pool, 0).seededAt, clock);
        eq(ledger.stepOf(pool, 0).phase, Phase.Seeded);
        wrongPhase(0, Phase.Seeded, Phase.Open);
        ledger.sealSeedBeacon(pool, 0);
        wrongPhase(1, Phase.None, Phase.Open);
        ledger.sealSeedBeacon(pool, 1);
    }

    function test_seed_beacon_pays_its_sealer_from_the_reservation() external {
        open(0, 6);
        mine(3);
        vm.expectEmit();
        emit IPayoutVault.Earned(pool, 0, STRANGER, SEAL_FEE);
        vm.prank(STRANGER);
        ledger.sealSeedBeacon(pool, 0);
        eq(earned(STRANGER), SEAL_FEE);
        eqEscrow(FUNDS - stepCost(6), stepCost(6) - SEAL_FEE, 0);
    }

    function test_seed_beacon_is_dated_by_the_clock_of_the_pool() external {
        open(0, 6);
        uint256 before = clock;
        pausePool();
        skip(1_000);
        unpausePool();
        mine(3);
        ledger.sealSeedBeacon(pool, 0);
        eq(ledger.stepOf(pool, 0).seededAt, before + 3);
    }

    function test_L4_beacon_is_sealed_up_to_256_blocks_after_its_own() external {
        open(0, 6);
        mine(3);
        height += 255;
        vm.roll(height);
        ledger.sealSeedBeacon(pool, 0);
        eq(ledger.stepOf(pool, 0).phase, Phase.Seeded);
    }

    function test_L4_lapsed_beacon_is_redrawn_from_a_later_block_and_fines_the_pool() external {
        open(0, 6);
        mine(3);
        height += 256;
        vm.roll(height);
        vm.expectEmit();
        emit ISubmissionLedger.BeaconRedrawn(pool, 0, false, uint64(height + 2));
        vm.expectEmit();
        emit IPayoutVault.Fined(pool, SLOT);
        vm.prank(STRANGER);
        ledger.sealSeedBeacon(pool, 0);
        StepState memory state = ledger.stepOf(pool, 0);
        eq(state.phase, Phase.Open);
        eq(state.seedBlock, height + 2);
        eq(state.seedBeacon, bytes32(0));
        eqEscrow(FUNDS - stepCost(6) - SLOT, stepCost(6), SLOT);
        eq(earned(STRANGER), 0); // no beacon, no fee
        vm.expectPartialRevert(ISubmissionLedger.BeaconNotReady.selector);
        ledger.sealSeedBeacon(pool, 0);
        mine(3);
        ledger.sealSeedBeacon(pool, 0);
        eq(ledger.stepOf(pool, 0).phase, Phase.Seeded);
        bytes32 blockHash = keccak256(abi.encode("block", uint256(state.seedBlock)));
        bytes32 beacon = Seeds.beacon(Seeds.SEED_BEACON_TAG, address(ledger), pool, 0, blockHash);
        eq(ledger.stepOf(pool, 0).seedBeacon, beacon);
    }

    function test_L4_lapsed_audit_beacon_is_redrawn_and_fines_the_pool() external {
        useNarrowPool();
        seed(0, 3);
        commit(0, 3, makeLeaves(0, 3));
        uint256 reserved = vault.reservationOf(pool, 0);
        mine(3);
        height += 256;
        vm.roll(height);
        vm.expectEmit();
        emit ISubmissionLedger.BeaconRedrawn(pool, 0, true, uint64(height + 2));
        vm.expectEmit();
        emit IPayoutVault.Fined(pool, SLOT);
        panel.sealAuditBeacon(pool, 0);
        eq(ledger.stepOf(pool, 0).auditBlock, height + 2);
        eq(ledger.stepOf(pool, 0).phase, Phase.Committed);
        eqEscrow(FUNDS - reserved - SEAL_FEE - SLOT, reserved, SLOT);
        eq(panel.panelOf(pool, 0).length, 0);
        mine(3);
        panel.sealAuditBeacon(pool, 0);
        eq(panel.panelOf(pool, 0).length, 3);
    }

    function test_L4_block_of_the_audit_beacon_is_chosen_for_nothing_and_again_for_a_fine() external {
        seed(0, 3);
        commit(0, 3, makeLeaves(0, 3));
        skip(10);
        eq(ledger.stepOf(pool, 0).auditBlock, 0);
        vm.expectEmit();
        emit ISubmissionLedger.AuditBlockDrawn(pool, 0, uint64(height + 2));
        panel.sealAuditBeacon(pool, 0);
        eq(ledger.stepOf(pool, 0).auditBlock, height + 2);
        eqEscrow(FUNDS - stepCost(3), stepCost(3) - SEAL_FEE, 0);
        mine(3);
        height += 256;
        vm.roll(height);
        vm.expectEmit();
        emit ISubmissionLedger.BeaconRedrawn(pool, 0, true, uint64(height + 2));
        panel.sealAuditBeacon(pool, 0);
        eqEscrow(FUNDS - stepCost(3) - SLOT, stepCost(3) - SEAL_FEE, SLOT);
        mine(3);
        panel.sealAuditBeacon(pool, 0);
        eq(ledger.stepOf(pool, 0).phase, Phase.Audited);
    }

    function test_L4_beacons_of_two_pools_and_of_two_steps_differ() external {
        PoolId first = pool;
        usePool(terms());
        PoolId second = pool;
        open(0, 1);
        open(1, 1);
        pool = first;
        open(0, 1);
        mine(3);
        ledger.sealSeedBeacon(first, 0);
        ledger.sealSeedBeacon(second, 0);
        ledger.sealSeedBeacon(second, 1);
        eq(ledger.stepOf(first, 0).seedBlock, ledger.stepOf(second, 0).seedBlock);
        eq(ledger.stepOf(second, 1).seedBlock, ledger.stepOf(second, 0).seedBlock);
        require(ledger.stepOf(first, 0).seedBeacon != ledger.stepOf(second, 0).seedBeacon);
        require(ledger.stepOf(second, 1).seedBeacon != ledger.stepOf(second, 0).seedBeacon);
    }

    // -- taking a slot

    function take(address account, uint32 step) internal returns (uint32) {
        allow(account, SLOT);
        vm.prank(account);
        return ledger.takeSlot(pool, step);
    }

    function refuseTake(address account, uint32 step, bytes memory reason) internal {
        allow(account, SLOT);
        vm.expectRevert(reason);
        vm.prank(account);
        ledger.takeSlot(pool, step);
    }

    function notEligible(address account) internal view returns (bytes memory) {
        return abi.encodeWithSelector(ISubmissionLedger.NotEligible.selector, pool, account);
    }

    function test_slot_taken_for_a_bond_is_recorded() external {
        seed(0, 6);
        allow(workers[1], SLOT);
        vm.expectEmit();
        emit ISubmissionLedger.SlotTaken(pool, 0, 6, workers[1], uint64(height + 2));
        vm.expectEmit();
        emit IPayoutVault.BondTaken(pool, workers[1], SLOT);
        vm.prank(workers[1]);
        eq(ledger.takeSlot(pool, 0), 6);
        TakenSlot memory taken = ledger.takenSlotOf(pool, 0, 6);
        eq(taken.provider, workers[1]);
        eq(taken.takenAt, clock);
        eq(taken.beaconBlock, height + 2);
        eq(taken.units, 0);
        eq(taken.beacon, bytes32(0));
        eq(taken.leafHash, bytes32(0));
        eq(ledger.stepOf(pool, 0).taken, 1);
        eq(token.balanceOf(workers[1]), 0);
        eq(vault.bondedOf(pool), SLOT);
    }

    function test_slots_are_taken_in_turn_up_to_those_reserved() external {
        seed(0, 6);
        eq(take(workers[0], 0), 6);
        eq(take(workers[1], 0), 7);
        eq(ledger.stepOf(pool, 0).taken, 2);
        eq(ledger.takenSlotOf(pool, 0, 7).provider, workers[1]);
        bytes memory full =
            abi.encodeWithSelector(ISubmissionLedger.SlotsAllTaken.selector, pool, uint32(0), uint32(2));
        refuseTake(workers[2], 0, full);
    }

    function test_slot_of_a_pool_that_reserves_none_is_refused() external {
        useNarrowPool();
        seed(0, 6);
        refuseTake(
            workers[0], 0, abi.encodeWithSelector(ISubmissionLedger.SlotsAllTaken.selector, pool, uint32(0), uint32(0))
        );
    }

    function test_slot_is_taken_once_a_step_by_a_provider_and_its_nodes() external {
        open(0, 6);
        seed(1, 6);
        ledger.sealSeedBeacon(pool, 0);
        address node = vm.addr(NODE_KEY);
        eq(take(node, 0), 6);
        eq(ledger.takenSlotOf(pool, 0, 6).provider, workers[0]);
        eq(token.balanceOf(node), 0); // whoever takes brings the bond
        bytes memory again =
            abi.encodeWithSelector(ISubmissionLedger.SlotTakenBefore.selector, pool, uint32(0), workers[0]);
        refuseTake(workers[0], 0, again);
        refuseTake(node, 0, again);
        eq(take(workers[0], 1), 6);
        eq(take(workers[1], 0), 7);
    }

    function test_slot_is_taken_by_workers_only() external {
        seed(0, 6);
        refuseTake(STRANGER, 0, notEligible(STRANGER));
        refuseTake(validators[0], 0, notEligible(validators[0]));
        refuseTake(coordinator, 0, notEligible(coordinator));
    }

    function test_L5_slot_is_not_taken_with_stake_that_came_with_or_after_the_step() external {
        publish(0);
        address newcomer = address(0x900);
        enter(newcomer, Role.Worker, STAKE);
        open(0, 6); // in the same block
        address late = address(0x901);
        mine(1);
        enter(late, Role.Worker, STAKE);
        mine(2);
        ledger.sealSeedBeacon(pool, 0);
        refuseTake(newcomer, 0, notEligible(newcomer));
        refuseTake(late, 0, notEligible(late));
        open(1, 6);
        mine(3);
        ledger.sealSeedBeacon(pool, 1);
        eq(take(newcomer, 1), 6);
        eq(take(late, 1), 7);
    }

    function test_slot_is_not_taken_with_stake_that_has_left_since() external {
        seed(0, 6);
        startExit(workers[0], Role.Worker, STAKE);
        refuseTake(workers[0], 0, notEligible(workers[0]));
        startExit(workers[1], Role.Worker, STAKE - 100); // 100 still counts
        eq(take(workers[1], 0), 6);
    }

    function test_slot_is_not_taken_by_a_suspended_worker() external {
        seed(0, 6);
        vm.prank(address(court));
        stakes.slash(pool, Role.Worker, workers[0], 8_000, keccak256("offence"), address(0), 0);
        refuseTake(workers[0], 0, notEligible(workers[0]));
    }

    function test_slot_is_taken_within_its_time() external {
        seed(0, 6);
        uint256 until = clock + 10;
        skip(9);
        take(workers[0], 0);
        skip(1);
        refuseTake(
            workers[1], 0, abi.encodeWithSelector(ISubmissionLedger.DeadlinePassed.selector, until, until)
        );
        skip(1);
        refuseTake(
            workers[1], 0, abi.encodeWithSelector(ISubmissionLedger.DeadlinePassed.selector, until, until + 1)
        );
    }

    function test_slot_is_not_taken_while_the_pool_is_paused_and_its_time_waits() external {
        seed(0, 6);
        skip(9);
        pausePool();
        refuseTake(workers[0], 0, abi.encodeWithSelector(ISubmissionLedger.PoolIsPaused.selector, pool));
        skip(5_000);
        unpausePool();
        uint256 onClock = clock - 5_000;
        take(workers[0], 0);
        eq(ledger.takenSlotOf(pool, 0, 6).takenAt, onClock);
    }

    function test_slot_is_taken_after_a_hasty_root() external {
        seed(0, 6);
        commit(0, 6, makeLeaves(0, 4));
        eq(take(workers[0], 0), 6);
        deliverAfterSeal(0, 6, 0);
        require(ledger.takenSlotOf(pool, 0, 6).leafHash != bytes32(0));
    }

    function test_L1_slot_before_the_seed_beacon_or_after_the_audit_beacon_is_refused() external {
        allow(workers[0], SLOT);
        wrongPhase(0, Phase.None, Phase.Seeded);
        vm.prank(workers[0]);
        ledger.takeSlot(pool, 0);
        open(0, 6);
        wrongPhase(0, Phase.Open, Phase.Seeded);
        vm.prank(workers[0]);
        ledger.takeSlot(pool, 0);
        mine(3);
        ledger.sealSeedBeacon(pool, 0);
        commit(0, 6, makeLeaves(0, 4));
        draw(0);
        wrongPhase(0, Phase.Audited, Phase.Seeded);
        vm.prank(workers[0]);
        ledger.takeSlot(pool, 0);
    }

    function test_slot_without_its_bond_is_not_taken() external {
        seed(0, 6);
        allow(workers[0], SLOT - 1);
        vm.expectPartialRevert(bytes4(keccak256("ERC20InsufficientAllowance(address,uint256,uint256)")));
        vm.prank(workers[0]);
        ledger.takeSlot(pool, 0);
        eq(ledger.stepOf(pool, 0).taken, 0);
    }

    function test_bond_of_a_slot_is_the_price_of_its_step() external {
        announce(COORDINATOR_KEY, TRAINER);
        skip(100);
        seed(0, 6);
        allow(workers[0], 670);
        vm.prank(workers[0]);
        ledger.takeSlot(pool, 0);
        eq(vault.bondedOf(pool), 670);
        mine(3);
        ledger.sealTakenSlot(pool, 0, 6);
        deliver(takenLeaf(0, 6, 0), NODE_KEY);
        eq(earned(workers[0]), 670);
    }

    // -- the beacon of a taken slot

    function test_L4_beacon_of_a_taken_slot_follows_its_own_block() external {
        seed(0, 6);
        take(workers[0], 0);
        uint64 beaconBlock = uint64(height + 2);
        for (uint256 i = 0; i < 3; ++i) {
            vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.BeaconNotReady.selector, beaconBlock, height));
            ledger.sealTakenSlot(pool, 0, 6);
            mine(1);
        }
        bytes32 beacon =
            Seeds.takenBeacon(address(ledger), pool, 0, 6, keccak256(abi.encode("block", uint256(beaconBlock))));
        vm.expectEmit();
        emit ISubmissionLedger.TakenSlotSealed(pool, 0, 6, beacon);
        vm.prank(STRANGER);
        ledger.sealTakenSlot(pool, 0, 6);
        eq(ledger.takenSlotOf(pool, 0, 6).beacon, beacon);
        vm.expectRevert(
            abi.encodeWithSelector(
                ISubmissionLedger.NotTakenSlot.selector, pool, uint32(0), uint32(6), workers[0]
            )
        );
        ledger.sealTakenSlot(pool, 0, 6);
    }

    function test_beacon_of_a_slot_that_nobody_took_is_refused() external {
        seed(0, 6);
        take(workers[0], 0);
        mine(3);
        uint32[3] memory slots = [uint32(5), 7, 0];
        for (uint256 i = 0; i < 3; ++i) {
            vm.expectRevert(
                abi.encodeWithSelector(
                    ISubmissionLedger.NotTakenSlot.selector, pool, uint32(0), slots[i], address(0)
                )
            );
            ledger.sealTakenSlot(pool, 0, slots[i]);
        }
    }

    function test_L4_beacon_of_a_taken_slot_lapses_for_good() external {
        seed(0, 6);
        take(workers[0], 0);
        take(workers[1], 0);
        mine(3);
        height += 255;
        vm.roll(height);
        ledger.sealTakenSlot(pool, 0, 6);
        ++height;
        vm.roll(height);
        uint64 beaconBlock = ledger.takenSlotOf(pool, 0, 7).beaconBlock;
        eq(height, beaconBlock + 257);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.BeaconLapsed.selector, beaconBlock, height));
        ledger.sealTakenSlot(pool, 0, 7);
        eq(ledger.takenSlotOf(pool, 0, 7).beacon, bytes32(0));
    }

    function test_L1_taken_slot_is_not_sealed_or_delivered_once_the_panel_is_drawn() external {
        auditWithTaken();
        wrongPhase(0, Phase.Audited, Phase.Seeded);
        ledger.sealTakenSlot(pool, 0, 6);
        Submission memory leaf = takenLeaf(0, 6, 0);
        bytes memory signature = sign(NODE_KEY, ledger.submissionDigest(leaf));
        wrongPhase(0, Phase.Audited, Phase.Seeded);
        ledger.deliverTaken(pool, 0, leaf, signature, "here");
    }

    // -- the delivery of a taken slot

    function takenLeaf(uint32 step, uint32 slot, uint256 who) internal view returns (Submission memory) {
        return Submission({
            pool: pool,
            step: step,
            slot: slot,
            provider: workers[who],
            node: vm.addr(NODE_KEY + who),
            units: 150,
            contentHash: keccak256(abi.encode("taken", step, slot)),
            leaseHash: Seeds.takenLease(address(ledger), pool, step, slot, workers[who])
        });
    }

    function deliver(Submission memory leaf, uint256 key) internal {
        bytes memory signature = sign(key, ledger.submissionDigest(leaf));
        ledger.deliverTaken(leaf.pool, leaf.step, leaf, signature, "here");
    }

    function refuseDelivery(Submission memory leaf, uint256 key, bytes memory reason) internal {
        bytes memory signature = sign(key, ledger.submissionDigest(leaf));
        vm.expectRevert(reason);
        ledger.deliverTaken(pool, 0, leaf, signature, "here");
    }

    function deliverAfterSeal(uint32 step, uint32 slot, uint256 who) internal {
        mine(3);
        ledger.sealTakenSlot(pool, step, slot);
        deliver(takenLeaf(step, slot, who), NODE_KEY + who);
    }

    function notTaken(Submission memory leaf) internal view returns (bytes memory) {
        return abi.encodeWithSelector(
            ISubmissionLedger.NotTakenSlot.selector, pool, uint32(0), leaf.slot, leaf.provider
        );
    }

    function notOfSlot(Submission memory leaf) internal view returns (bytes memory) {
        return abi.encodeWithSelector(
            ISubmissionLedger.LeafNotOfSlot.selector, pool, uint32(0), leaf.slot, leaf.provider
        );
    }

    function test_delivery_of_a_taken_slot_is_recorded_and_gives_the_bond_back() external {
        seed(0, 6);
        take(workers[0], 0);
        mine(3);
        ledger.sealTakenSlot(pool, 0, 6);
        Submission memory leaf = takenLeaf(0, 6, 0);
        bytes memory signature = sign(NODE_KEY, ledger.submissionDigest(leaf));
        vm.expectEmit();
        emit ISubmissionLedger.TakenSlotDelivered(pool, 0, workers[0], leaf, signature, "there");
        vm.expectEmit();
        emit IPayoutVault.BondSpent(pool, workers[0], SLOT);
        vm.prank(STRANGER);
        ledger.deliverTaken(pool, 0, leaf, signature, "there");
        TakenSlot memory taken = ledger.takenSlotOf(pool, 0, 6);
        eq(taken.leafHash, ledger.leafHash(leaf));
        eq(taken.units, 150);
        eq(earned(workers[0]), SLOT);
        eq(vault.bondedOf(pool), 0);
        refuseDelivery(leaf, NODE_KEY, notTaken(leaf));
        leaf.units = 151;
        refuseDelivery(leaf, NODE_KEY, notTaken(leaf));
        eq(earned(workers[0]), SLOT);
    }

    function test_delivery_before_the_beacon_of_its_slot_is_refused() external {
        seed(0, 6);
        take(workers[0], 0);
        mine(3);
        Submission memory leaf = takenLeaf(0, 6, 0);
        refuseDelivery(leaf, NODE_KEY, notTaken(leaf));
    }

    function test_delivery_for_a_slot_of_somebody_else_or_of_nobody_is_refused() external {
        seed(0, 6);
        take(workers[0], 0);
        mine(3);
        ledger.sealTakenSlot(pool, 0, 6);
        Submission memory leaf = takenLeaf(0, 6, 1);
        refuseDelivery(leaf, NODE_KEY + 1, notTaken(leaf));
        leaf = takenLeaf(0, 7, 0);
        refuseDelivery(leaf, NODE_KEY, notTaken(leaf));
        leaf = takenLeaf(0, 5, 0);
        refuseDelivery(leaf, NODE_KEY, notTaken(leaf));
    }

    function test_delivery_within_the_lease_time_only() external {
        seed(0, 6);
        take(workers[0], 0);
        take(workers[1], 0);
        uint256 deadline = clock + 20;
        mine(3);
        ledger.sealTakenSlot(pool, 0, 6);
        ledger.sealTakenSlot(pool, 0, 7);
        skip(16);
        deliver(takenLeaf(0, 6, 0), NODE_KEY);
        skip(1);
        eq(clock, deadline);
        refuseDelivery(
            takenLeaf(0, 7, 1),
            NODE_KEY + 1,
            abi.encodeWithSelector(ISubmissionLedger.DeadlinePassed.selector, deadline, deadline)
        );
    }

    function test_delivery_of_a_leaf_of_another_place_is_refused() external {
        seed(0, 6);
        take(workers[0], 0);
        mine(3);
        ledger.sealTakenSlot(pool, 0, 6);
        Submission memory leaf = takenLeaf(0, 6, 0);
        leaf.pool = PoolId.wrap(2);
        refuseDelivery(leaf, NODE_KEY, notOfSlot(leaf));
        leaf = takenLeaf(0, 6, 0);
        leaf.step = 1;
        refuseDelivery(leaf, NODE_KEY, notOfSlot(leaf));
        leaf = takenLeaf(0, 6, 0);
        leaf.leaseHash = keccak256("lease");
        refuseDelivery(leaf, NODE_KEY, notOfSlot(leaf));
        leaf.leaseHash = Seeds.takenLease(address(ledger), pool, 0, 7, workers[0]);
        refuseDelivery(leaf, NODE_KEY, notOfSlot(leaf));
        leaf.leaseHash = Seeds.takenLease(address(ledger), pool, 0, 6, workers[1]);
        refuseDelivery(leaf, NODE_KEY, notOfSlot(leaf));
    }

    function test_delivery_is_signed_by_a_node_of_the_provider() external {
        seed(0, 6);
        take(workers[0], 0);
        mine(3);
        ledger.sealTakenSlot(pool, 0, 6);
        Submission memory leaf = takenLeaf(0, 6, 0);
        leaf.node = vm.addr(STRANGER_KEY);
        refuseDelivery(leaf, STRANGER_KEY, notOfSlot(leaf));
        leaf.node = vm.addr(NODE_KEY + 1);
        refuseDelivery(leaf, NODE_KEY + 1, notOfSlot(leaf));
        leaf = takenLeaf(0, 6, 0);
        bytes memory invalid = abi.encodeWithSelector(ISubmissionLedger.SignatureInvalid.selector, leaf.node);
        refuseDelivery(leaf, STRANGER_KEY, invalid);
        bytes memory signature = sign(NODE_KEY, ledger.leafHash(leaf)); // in no domain
        vm.expectRevert(invalid);
        ledger.deliverTaken(pool, 0, leaf, signature, "here");
        signature = sign(NODE_KEY, ledger.submissionDigest(leaf));
        leaf.contentHash = keccak256("other");
        vm.expectRevert(invalid);
        ledger.deliverTaken(pool, 0, leaf, signature, "here");
        deliver(leaf, NODE_KEY);
    }

    function test_L1_delivery_to_a_step_that_was_cancelled_is_refused() external {
        seed(0, 6);
        take(workers[0], 0);
        mine(3);
        ledger.sealTakenSlot(pool, 0, 6);
        skip(COMMIT_SECONDS);
        ledger.cancelStep(pool, 0);
        Submission memory leaf = takenLeaf(0, 6, 0);
        refuseDelivery(
            leaf,
            NODE_KEY,
            abi.encodeWithSelector(
                ISubmissionLedger.WrongPhase.selector, pool, uint32(0), Phase.Cancelled, Phase.Seeded
            )
        );
    }

    // -- when the panel may be drawn

    function test_audit_waits_for_nothing_where_no_slots_are_reserved() external {
        useNarrowPool();
        seed(0, 6);
        commit(0, 6, makeLeaves(0, 4));
        eq(ledger.auditFrom(pool, 0), clock);
        mine(3);
        panel.sealAuditBeacon(pool, 0);
    }

    function test_audit_waits_until_no_slot_can_be_taken() external {
        seed(0, 6);
        uint256 until = clock + 10;
        mine(1);
        commit(0, 6, makeLeaves(0, 4));
        eq(ledger.auditFrom(pool, 0), until);
        skip(until - clock - 1);
        vm.expectRevert(abi.encodeWithSelector(IVotingPanel.TooEarly.selector, until, until - 1));
        panel.sealAuditBeacon(pool, 0);
        skip(1);
        panel.sealAuditBeacon(pool, 0);
        mine(3);
        panel.sealAuditBeacon(pool, 0);
        eq(ledger.stepOf(pool, 0).phase, Phase.Audited);
    }

    function test_audit_of_a_root_committed_later_waits_for_nothing() external {
        seed(0, 6);
        skip(11);
        commit(0, 6, makeLeaves(0, 4));
        eq(ledger.auditFrom(pool, 0), clock);
    }

    function test_audit_waits_for_slots_that_can_still_be_delivered() external {
        seed(0, 6);
        uint256 seededAt = clock;
        take(workers[0], 0);
        skip(5);
        take(workers[1], 0);
        commit(0, 6, makeLeaves(0, 4));
        eq(ledger.auditFrom(pool, 0), seededAt + 25);
        deliverAfterSeal(0, 7, 1);
        eq(ledger.auditFrom(pool, 0), seededAt + 20);
        ledger.sealTakenSlot(pool, 0, 6);
        deliver(takenLeaf(0, 6, 0), NODE_KEY);
        eq(ledger.auditFrom(pool, 0), seededAt + 10);
    }

    // -- taken slots, settled

    // Four leaves in six slots, and slot 6 taken by worker 0 and delivered; in votes there are seven slots.
    function auditWithTaken() internal {
        seed(0, 6);
        take(workers[0], 0);
        deliverAfterSeal(0, 6, 0);
        finishAudit();
    }

    function finishAudit() internal {
        commit(0, 6, makeLeaves(0, 4));
        skip(20);
        draw(0);
    }

    function finishWith(Outcome outcome) internal {
        Outcome[] memory outcomes = new Outcome[](7);
        for (uint256 i = 0; i < 4; ++i) outcomes[i] = Outcome.Accept;
        outcomes[6] = outcome;
        voteAll(0, pack(outcomes));
        skip(30);
        finalize(0);
    }

    function test_taken_slot_accepted_is_paid_beside_the_bond() external {
        auditWithTaken();
        finishWith(Outcome.Accept);
        eq(earned(workers[0]), 2 * 400 + 400 + SLOT);
        eqEscrow(FUNDS - 5 * 400 - 3 * PANEL_FEE - 2 * SEAL_FEE, 0, 0);
        eqOwed(0, 5 * 400 + 3 * PANEL_FEE + 2 * SEAL_FEE + SLOT);
    }

    function test_taken_slot_rejected_locks_its_price() external {
        auditWithTaken();
        finishWith(Outcome.Reject);
        eq(earned(workers[0]), 2 * 400 + SLOT);
        eqEscrow(FUNDS - 4 * 400 - 3 * PANEL_FEE - 2 * SEAL_FEE - SLOT, 0, SLOT);
    }

    function test_taken_slot_undelivered_loses_its_bond_to_the_pool() external {
        seed(0, 6);
        take(workers[0], 0);
        finishAudit();
        finishWith(Outcome.Abstain);
        eq(earned(workers[0]), 2 * 400);
        eqEscrow(FUNDS - 4 * 400 - 3 * PANEL_FEE - 2 * SEAL_FEE, 0, SLOT);
        eq(vault.bondedOf(pool), 0);
    }

    function test_taken_slot_at_fault_is_slashed_by_its_opening() external {
        auditWithTaken();
        finishWith(Outcome.Fault);
        Outcome[] memory outcomes = new Outcome[](7);
        for (uint256 i = 0; i < 4; ++i) outcomes[i] = Outcome.Accept;
        outcomes[6] = Outcome.Fault;
        LeafOpening memory fault = LeafOpening({leaf: takenLeaf(0, 6, 0), proof: new bytes32[](0)});
        panel.slashLeaf(pool, 0, fault, pack(outcomes));
        eq(tokensOf(workers[0]), STAKE - 250);
    }

    // -- the root

    function rootAs(address caller, bytes32 root, PayTable memory table) internal {
        vm.prank(caller);
        ledger.commitRoot(pool, 0, root, keccak256("slots"), table);
    }

    function tableOfSize(uint256 providers, uint256 words) internal pure returns (PayTable memory table) {
        table.providers = new address[](providers);
        table.totals = new uint256[](providers);
        table.words = new uint256[](words);
    }

    function test_root_committed_by_coordinator_is_recorded() external {
        seed(0, 6);
        mine(2);
        bytes32 root = keccak256("root");
        PayTable memory table = tableFor(6, makeLeaves(0, 4));
        vm.expectEmit();
        emit ISubmissionLedger.RootCommitted(pool, 0, root, keccak256("slots"), table, 0);
        rootAs(coordinator, root, table);
        StepState memory state = ledger.stepOf(pool, 0);
        eq(state.phase, Phase.Committed);
        eq(state.submissionRoot, root);
        eq(state.settlementHash, keccak256(abi.encode(table)));
        eq(state.committedAt, clock);
        eq(state.auditBlock, 0);
        wrongPhase(0, Phase.Committed, Phase.Seeded);
        rootAs(coordinator, keccak256("other"), table);
    }

    function test_root_chooses_the_block_of_the_audit_where_no_slots_are_reserved() external {
        useNarrowPool();
        seed(0, 6);
        PayTable memory table = tableFor(6, makeLeaves(0, 4));
        vm.expectEmit();
        emit ISubmissionLedger.RootCommitted(
            pool, 0, keccak256("root"), keccak256("slots"), table, uint64(height + 2)
        );
        rootAs(coordinator, keccak256("root"), table);
        eq(ledger.stepOf(pool, 0).auditBlock, height + 2);
    }

    function test_root_of_a_stranger_is_refused() external {
        seed(0, 6);
        address[3] memory callers = [TRAINER, OWNER, STRANGER];
        for (uint256 i = 0; i < 3; ++i) {
            vm.expectRevert(
                abi.encodeWithSelector(ISubmissionLedger.NotCoordinator.selector, pool, callers[i], coordinator)
            );
            rootAs(callers[i], keccak256("root"), tableOfSize(1, 2));
        }
    }

    function test_root_zero_is_refused() external {
        seed(0, 6);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.RootZero.selector));
        rootAs(coordinator, bytes32(0), tableOfSize(1, 2));
    }

    function test_root_with_a_table_of_no_or_too_many_providers_is_refused() external {
        seed(0, 6);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.CountOutOfRange.selector, uint256(0), uint256(128)));
        rootAs(coordinator, keccak256("root"), tableOfSize(0, 2));
        vm.expectRevert(
            abi.encodeWithSelector(ISubmissionLedger.CountOutOfRange.selector, uint256(129), uint256(128))
        );
        rootAs(coordinator, keccak256("root"), tableOfSize(129, 2));
        rootAs(coordinator, keccak256("root"), tableOfSize(128, 2));
    }

    function test_root_with_a_table_of_more_or_fewer_totals_than_providers_is_refused() external {
        seed(0, 6);
        PayTable memory table = tableOfSize(3, 2);
        for (uint256 totals = 0; totals < 5; ++totals) {
            if (totals == 3) continue;
            table.totals = new uint256[](totals);
            vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.CountOutOfRange.selector, totals, uint256(3)));
            rootAs(coordinator, keccak256("root"), table);
        }
        table.totals = new uint256[](3);
        rootAs(coordinator, keccak256("root"), table);
    }

    function testFuzz_root_is_committed_with_a_word_for_every_five_slots(uint8 size, uint8 given) external {
        uint32 slots = uint32(size) + 1;
        seed(0, slots);
        uint256 words = 0;
        for (uint256 covered = 0; covered < slots; covered += 5) ++words;
        if (given % 60 != words) {
            vm.expectRevert(
                abi.encodeWithSelector(ISubmissionLedger.CountOutOfRange.selector, uint256(given % 60), words)
            );
            rootAs(coordinator, keccak256("root"), tableOfSize(1, given % 60));
        }
        rootAs(coordinator, keccak256("root"), tableOfSize(1, words));
    }

    function test_L1_root_before_the_seed_beacon_is_refused() external {
        open(0, 6);
        wrongPhase(0, Phase.Open, Phase.Seeded);
        rootAs(coordinator, keccak256("root"), tableOfSize(1, 2));
        wrongPhase(1, Phase.None, Phase.Seeded);
        vm.prank(coordinator);
        ledger.commitRoot(pool, 1, keccak256("root"), bytes32(0), tableOfSize(1, 2));
    }

    function test_root_in_the_last_second_of_its_time_is_taken() external {
        seed(0, 6);
        skip(COMMIT_SECONDS - 1);
        rootAs(coordinator, keccak256("root"), tableOfSize(1, 2));
        eq(ledger.stepOf(pool, 0).phase, Phase.Committed);
    }

    // -- cancelling

    function test_L10_root_or_cancellation_never_both_in_time() external {
        seed(0, 6);
        uint256 deadline = clock + COMMIT_SECONDS;
        skip(COMMIT_SECONDS - 1);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.TooEarly.selector, deadline, deadline - 1));
        ledger.cancelStep(pool, 0);
        skip(1);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.DeadlinePassed.selector, deadline, deadline));
        rootAs(coordinator, keccak256("root"), tableOfSize(1, 2));
        vm.expectEmit();
        emit ISubmissionLedger.StepCancelled(pool, 0);
        vm.prank(STRANGER);
        ledger.cancelStep(pool, 0);
        eqEscrow(FUNDS - SEAL_FEE, 0, 0);
        eq(vault.reservationOf(pool, 0), 0);
        eq(ledger.stepOf(pool, 0).phase, Phase.Cancelled);
        eq(ledger.stepOf(pool, 0).finalizedAt, clock);
        eq(ledger.finalizedAtOf(pool, 0), clock);
        eq(ledger.settledCountOf(pool), 1);
        wrongPhase(0, Phase.Cancelled, Phase.Seeded);
        ledger.cancelStep(pool, 0);
        wrongPhase(0, Phase.Cancelled, Phase.Seeded);
        rootAs(coordinator, keccak256("root"), tableOfSize(1, 2));
    }

    function test_L10_time_for_the_root_waits_while_the_pool_is_paused() external {
        seed(0, 6);
        uint256 deadline = clock + COMMIT_SECONDS;
        skip(COMMIT_SECONDS - 1);
        pausePool();
        skip(10_000);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.TooEarly.selector, deadline, deadline - 1));
        ledger.cancelStep(pool, 0);
        unpausePool();
        rootAs(coordinator, keccak256("root"), tableOfSize(1, 2));
        eq(ledger.stepOf(pool, 0).committedAt, deadline - 1);
    }

    function test_L1_cancellation_of_a_step_not_seeded_or_committed_is_refused() external {
        wrongPhase(0, Phase.None, Phase.Seeded);
        ledger.cancelStep(pool, 0);
        open(0, 3);
        skip(10_000);
        wrongPhase(0, Phase.Open, Phase.Seeded);
        ledger.cancelStep(pool, 0);
        mine(3);
        ledger.sealSeedBeacon(pool, 0);
        commit(0, 3, makeLeaves(0, 3));
        skip(10_000);
        wrongPhase(0, Phase.Committed, Phase.Seeded);
        ledger.cancelStep(pool, 0);
    }

    function test_L7_cancellation_waits_for_earlier_steps() external {
        open(0, 1);
        seed(1, 1);
        skip(COMMIT_SECONDS);
        vm.expectRevert(
            abi.encodeWithSelector(ISubmissionLedger.EarlierStepUnsettled.selector, pool, uint32(1), uint32(0))
        );
        ledger.cancelStep(pool, 1);
        ledger.sealSeedBeacon(pool, 0);
        skip(COMMIT_SECONDS);
        ledger.cancelStep(pool, 0);
        ledger.cancelStep(pool, 1);
        eq(ledger.settledCountOf(pool), 2);
        eqEscrow(FUNDS - 2 * SEAL_FEE, 0, 0);
    }

    function test_cancellation_gives_bonds_of_undelivered_slots_back() external {
        seed(0, 6);
        take(workers[0], 0);
        take(workers[1], 0);
        deliverAfterSeal(0, 7, 1);
        skip(COMMIT_SECONDS);
        ledger.cancelStep(pool, 0);
        // One bond came back with the delivery, the other with the cancellation, none twice.
        eq(earned(workers[0]), SLOT);
        eq(earned(workers[1]), SLOT);
        eqOwed(0, 2 * SLOT + SEAL_FEE);
        eqEscrow(FUNDS - SEAL_FEE, 0, 0);
        vault.claim(pool, workers[0]);
        eq(token.balanceOf(workers[0]), SLOT);
    }

    function test_step_opens_again_after_a_cancellation() external {
        seed(0, 6);
        skip(COMMIT_SECONDS);
        ledger.cancelStep(pool, 0);
        run(1, 3, makeLeaves(1, 3), all(Outcome.Accept, 3));
        eq(ledger.settledCountOf(pool), 2);
    }

    // -- leases given twice

    function leaseOf(uint32 slot, address provider, uint64 from, uint64 until) internal view returns (Lease memory) {
        return Lease({
            pool: pool,
            step: 0,
            policyStep: 0,
            slot: slot,
            provider: provider,
            node: vm.addr(NODE_KEY),
            validFrom: from,
            validUntil: until,
            maxUnits: 200,
            cardHash: keccak256("card"),
            protocolVersion: 1
        });
    }

    function signLease(uint256 key, Lease memory lease) internal view returns (bytes memory) {
        return sign(key, ledger.leaseDigest(lease));
    }

    function prove(Lease memory first, Lease memory second) internal {
        bytes memory firstSignature = signLease(COORDINATOR_KEY, first);
        bytes memory secondSignature = signLease(COORDINATOR_KEY, second);
        ledger.proveOverlap(first, firstSignature, second, secondSignature);
    }

    function refuseOverlap(Lease memory first, Lease memory second, bytes memory reason) internal {
        refuseOverlap(first, second, COORDINATOR_KEY, COORDINATOR_KEY, reason);
    }

    function refuseOverlap(
        Lease memory first,
        Lease memory second,
        uint256 firstKey,
        uint256 secondKey,
        bytes memory reason
    ) internal {
        bytes memory firstSignature = signLease(firstKey, first);
        bytes memory secondSignature = signLease(secondKey, second);
        vm.expectRevert(reason);
        ledger.proveOverlap(first, firstSignature, second, secondSignature);
    }

    function noOverlap() internal pure returns (bytes memory) {
        return abi.encodeWithSelector(ISubmissionLedger.LeasesDoNotOverlap.selector);
    }

    function overlapIn(uint32 slot) internal view returns (Lease memory first, Lease memory second) {
        return (leaseOf(slot, workers[0], 100, 200), leaseOf(slot, workers[1], 150, 250));
    }

    function test_overlapping_leases_pay_the_later_provider_from_the_lease_bond() external {
        seed(0, 6);
        (Lease memory first, Lease memory second) = overlapIn(3);
        vm.expectEmit();
        emit ISubmissionLedger.OverlapProved(pool, 0, 3, workers[1], SLOT);
        vm.expectEmit();
        emit IPayoutVault.Earned(pool, 0, workers[1], SLOT);
        vm.prank(STRANGER);
        prove(first, second);
        eq(earned(workers[1]), SLOT);
        eq(earned(workers[0]), 0);
        eq(vault.reservationOf(pool, 0), stepCost(6) - SEAL_FEE - SLOT);
    }

    function test_overlaps_of_a_step_are_paid_up_to_its_lease_bond() external {
        seed(0, 6);
        for (uint32 slot = 0; slot < 2; ++slot) {
            (Lease memory first, Lease memory second) = overlapIn(slot);
            prove(first, second);
        }
        eq(earned(workers[1]), LEASE_BOND); // 500, and the 200 that were left
        (Lease memory third, Lease memory fourth) = overlapIn(2);
        refuseOverlap(
            third, fourth, abi.encodeWithSelector(ISubmissionLedger.LeaseBondSpent.selector, pool, uint32(0))
        );
    }

    function test_lease_bond_is_counted_by_step() external {
        open(0, 6);
        seed(1, 6);
        ledger.sealSeedBeacon(pool, 0);
        for (uint32 slot = 0; slot < 2; ++slot) {
            (Lease memory first, Lease memory second) = overlapIn(slot);
            prove(first, second);
        }
        (Lease memory third, Lease memory fourth) = overlapIn(0);
        (third.step, fourth.step) = (1, 1);
        prove(third, fourth);
        eq(earned(workers[1]), LEASE_BOND + SLOT);
    }

    function test_overlap_of_a_slot_is_paid_once() external {
        seed(0, 6);
        (Lease memory first, Lease memory second) = overlapIn(0);
        prove(first, second);
        bytes memory known =
            abi.encodeWithSelector(ISubmissionLedger.OverlapKnown.selector, pool, uint32(0), uint32(0));
        refuseOverlap(first, second, known);
        refuseOverlap(second, leaseOf(0, workers[2], 200, 300), known);
    }

    function test_leases_overlap_up_to_the_last_second_of_the_first() external {
        seed(0, 6);
        Lease memory first = leaseOf(0, workers[0], 100, 200);
        refuseOverlap(first, leaseOf(0, workers[1], 200, 300), noOverlap());
        refuseOverlap(first, leaseOf(0, workers[1], 201, 300), noOverlap());
        refuseOverlap(first, leaseOf(0, workers[1], 99, 300), noOverlap()); // the earlier one comes first
        prove(first, leaseOf(0, workers[1], 199, 300));
    }

    function test_leases_that_start_together_overlap() external {
        seed(0, 6);
        prove(leaseOf(0, workers[0], 100, 200), leaseOf(0, workers[1], 100, 101));
        eq(earned(workers[1]), SLOT);
    }

    function test_leases_of_two_places_or_of_one_provider_do_not_overlap() external {
        seed(0, 6);
        (Lease memory first, Lease memory second) = overlapIn(0);
        second.slot = 1;
        refuseOverlap(first, second, noOverlap());
        (first, second) = overlapIn(0);
        second.step = 1;
        refuseOverlap(first, second, noOverlap());
        (first, second) = overlapIn(0);
        second.pool = PoolId.wrap(2);
        refuseOverlap(first, second, noOverlap());
        (first, second) = overlapIn(0);
        second.provider = workers[0]; // a lease that was renewed
        second.node = vm.addr(NODE_KEY + 1);
        refuseOverlap(first, second, noOverlap());
    }

    function test_leases_are_signed_by_the_coordinator_both() external {
        seed(0, 6);
        (Lease memory first, Lease memory second) = overlapIn(0);
        bytes memory invalid = abi.encodeWithSelector(ISubmissionLedger.SignatureInvalid.selector, coordinator);
        refuseOverlap(first, second, STRANGER_KEY, COORDINATOR_KEY, invalid);
        refuseOverlap(first, second, COORDINATOR_KEY, STRANGER_KEY, invalid);
        bytes memory signature = signLease(COORDINATOR_KEY, first);
        vm.expectRevert(invalid);
        ledger.proveOverlap(first, signature, second, signature);
    }

    function test_leases_are_of_the_coordinator_of_the_offer_of_their_step() external {
        seed(0, 6);
        announce(STRANGER_KEY, TRAINER);
        skip(100);
        eq(registry.offerNumberOf(pool), 1);
        (Lease memory first, Lease memory second) = overlapIn(0);
        refuseOverlap(
            first,
            second,
            STRANGER_KEY,
            STRANGER_KEY,
            abi.encodeWithSelector(ISubmissionLedger.SignatureInvalid.selector, coordinator)
        );
        prove(first, second);
    }

    function test_overlap_in_a_pool_without_a_lease_bond_pays_nothing() external {
        PoolTerms memory t = terms();
        t.fees.leaseBond = 0;
        usePool(t);
        seed(0, 6);
        (Lease memory first, Lease memory second) = overlapIn(0);
        refuseOverlap(
            first, second, abi.encodeWithSelector(ISubmissionLedger.LeaseBondSpent.selector, pool, uint32(0))
        );
    }

    function test_L1_overlap_is_proved_from_the_seed_beacon_until_the_step_is_settled() external {
        (Lease memory first, Lease memory second) = overlapIn(0);
        refuseOverlap(first, second, overlapPhase(Phase.None));
        open(0, 6);
        refuseOverlap(first, second, overlapPhase(Phase.Open));
        mine(3);
        ledger.sealSeedBeacon(pool, 0);
        prove(first, second);
        commit(0, 6, makeLeaves(0, 4));
        draw(0);
        (first, second) = overlapIn(1);
        prove(first, second);
        voteAll(0, all(Outcome.Accept, 6));
        skip(30);
        finalize(0);
        eqEscrow(FUNDS - 4 * 400 - 3 * PANEL_FEE - 2 * SEAL_FEE - LEASE_BOND, 0, 0);
        (first, second) = overlapIn(2);
        refuseOverlap(first, second, overlapPhase(Phase.Finalized));
    }

    function test_L1_overlap_in_a_committed_step_is_proved() external {
        seed(0, 6);
        commit(0, 6, makeLeaves(0, 4));
        (Lease memory first, Lease memory second) = overlapIn(0);
        prove(first, second);
        eq(earned(workers[1]), SLOT);
    }

    function test_L1_overlap_in_a_cancelled_step_is_refused() external {
        seed(0, 6);
        (Lease memory first, Lease memory second) = overlapIn(0);
        prove(first, second);
        skip(COMMIT_SECONDS);
        ledger.cancelStep(pool, 0);
        eqEscrow(FUNDS - SEAL_FEE - SLOT, 0, 0);
        (first, second) = overlapIn(1);
        refuseOverlap(first, second, overlapPhase(Phase.Cancelled));
    }

    function overlapPhase(Phase phase) internal view returns (bytes memory) {
        return abi.encodeWithSelector(
            ISubmissionLedger.WrongPhase.selector, pool, uint32(0), phase, Phase.Seeded
        );
    }

    // -- what only the panel marks

    function test_step_is_marked_by_the_panel_only() external {
        audit(0, 3, makeLeaves(0, 3));
        address[8] memory callers = [
            STRANGER, coordinator, TRAINER, OWNER, address(court), address(vault), address(plants), address(stakes)
        ];
        for (uint256 i = 0; i < callers.length; ++i) {
            bytes memory reason = abi.encodeWithSelector(ISubmissionLedger.NotPanel.selector, callers[i]);
            vm.startPrank(callers[i]);
            vm.expectRevert(reason);
            ledger.markAudited(pool, 0, keccak256("beacon"));
            vm.expectRevert(reason);
            ledger.drawAuditBlock(pool, 0);
            vm.expectRevert(reason);
            ledger.markFinalized(pool, 0, keccak256("outcomes"));
            vm.stopPrank();
        }
    }

    function test_marks_of_the_panel_are_recorded() external {
        seed(0, 3);
        commit(0, 3, makeLeaves(0, 3));
        uint256 earliest = ledger.auditFrom(pool, 0);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.TooEarly.selector, earliest, clock));
        vm.prank(address(panel));
        ledger.drawAuditBlock(pool, 0);
        skip(earliest - clock);
        vm.prank(address(panel));
        ledger.drawAuditBlock(pool, 0);
        eq(ledger.stepOf(pool, 0).phase, Phase.Committed);
        eq(ledger.stepOf(pool, 0).auditBlock, height + 2);
        vm.prank(address(panel));
        ledger.markAudited(pool, 0, keccak256("beacon"));
        eq(ledger.stepOf(pool, 0).phase, Phase.Audited);
        eq(ledger.stepOf(pool, 0).auditBeacon, keccak256("beacon"));
        skip(7);
        eq(ledger.finalizedAtOf(pool, 0), 0);
        vm.prank(address(panel));
        ledger.markFinalized(pool, 0, keccak256("outcomes"));
        StepState memory state = ledger.stepOf(pool, 0);
        eq(state.phase, Phase.Finalized);
        eq(state.settlementHash, keccak256("outcomes"));
        eq(state.finalizedAt, clock);
        eq(ledger.finalizedAtOf(pool, 0), clock);
        eq(ledger.settledCountOf(pool), 1);
    }

    function test_L1_marks_out_of_phase_are_refused() external {
        seed(0, 3);
        vm.startPrank(address(panel));
        wrongPhase(0, Phase.Seeded, Phase.Committed);
        ledger.markAudited(pool, 0, keccak256("beacon"));
        wrongPhase(0, Phase.Seeded, Phase.Committed);
        ledger.drawAuditBlock(pool, 0);
        wrongPhase(0, Phase.Seeded, Phase.Audited);
        ledger.markFinalized(pool, 0, keccak256("outcomes"));
        vm.stopPrank();
        commit(0, 3, makeLeaves(0, 3));
        vm.startPrank(address(panel));
        wrongPhase(0, Phase.Committed, Phase.Audited);
        ledger.markFinalized(pool, 0, keccak256("outcomes"));
        ledger.markAudited(pool, 0, keccak256("beacon"));
        wrongPhase(0, Phase.Audited, Phase.Committed);
        ledger.markAudited(pool, 0, keccak256("other"));
        wrongPhase(0, Phase.Audited, Phase.Committed);
        ledger.drawAuditBlock(pool, 0);
        ledger.markFinalized(pool, 0, keccak256("outcomes"));
        wrongPhase(0, Phase.Finalized, Phase.Audited);
        ledger.markFinalized(pool, 0, keccak256("other"));
    }

    function test_L7_steps_settle_in_order() external {
        open(0, 3);
        audit(1, 3, makeLeaves(1, 3));
        vm.expectRevert(
            abi.encodeWithSelector(ISubmissionLedger.EarlierStepUnsettled.selector, pool, uint32(1), uint32(0))
        );
        vm.prank(address(panel));
        ledger.markFinalized(pool, 1, keccak256("outcomes"));
        eq(ledger.settledCountOf(pool), 0);
    }

    // -- leaves

    function refuseLeaf(LeafOpening memory one) internal {
        vm.expectRevert(
            abi.encodeWithSelector(
                ISubmissionLedger.LeafNotCommitted.selector, keccak256(abi.encode(typehash(), one.leaf)), one.leaf.slot
            )
        );
        ledger.checkLeaf(pool, 0, one);
    }

    function typehash() internal pure returns (bytes32) {
        return keccak256(
            "Submission(uint64 pool,uint32 step,uint32 slot,address provider,address node,uint32 units,bytes32 contentHash,bytes32 leaseHash)"
        );
    }

    function test_L9_every_leaf_of_the_tree_stands_at_its_slot() external {
        Submission[] memory leaves = makeLeaves(0, 5);
        leaves[4].slot = 10; // the last of eleven
        seed(0, 11);
        commit(0, 11, leaves);
        for (uint256 i = 0; i < 5; ++i) {
            LeafOpening memory one = opening(11, leaves, i);
            eq(one.proof.length, 4);
            eq(ledger.checkLeaf(pool, 0, one), keccak256(abi.encode(typehash(), leaves[i])));
        }
    }

    function test_L9_leaf_at_another_slot_is_refused() external {
        Submission[] memory leaves = makeLeaves(0, 4);
        seed(0, 6);
        commit(0, 6, leaves);
        LeafOpening memory framed = opening(6, leaves, 0);
        framed.leaf.slot = 2;
        refuseLeaf(framed);
        framed = opening(6, leaves, 2);
        framed.leaf.provider = workers[2]; // somebody else's stake
        refuseLeaf(framed);
        framed = opening(6, leaves, 1);
        framed.proof[0] = keccak256("proof");
        refuseLeaf(framed);
        framed = opening(6, leaves, 1);
        framed.proof = new bytes32[](0);
        refuseLeaf(framed);
    }

    function test_L9_leaf_that_the_coordinator_put_at_two_slots_stands_at_its_own() external {
        Submission[] memory leaves = makeLeaves(0, 4);
        bytes32[] memory words = wordsOf(6, leaves);
        words[5] = words[1];
        seed(0, 6);
        commitAs(0, Trees.root(words), tableFor(6, leaves));
        LeafOpening memory one = LeafOpening({leaf: leaves[1], proof: Trees.proof(words, 5)});
        refuseLeaf(one);
        one.proof = Trees.proof(words, 1);
        ledger.checkLeaf(pool, 0, one);
    }

    function test_L9_leaf_of_another_step_or_pool_is_refused() external {
        Submission[] memory leaves = makeLeaves(0, 4);
        leaves[2].step = 1; // a coordinator commits a leaf of another step
        leaves[3].pool = PoolId.wrap(2);
        seed(0, 6);
        commit(0, 6, leaves);
        LeafOpening memory stray = opening(6, leaves, 2);
        vm.expectRevert(
            abi.encodeWithSelector(ISubmissionLedger.LeafOfOtherStep.selector, pool, uint32(0), pool, uint32(1))
        );
        ledger.checkLeaf(pool, 0, stray);
        stray = opening(6, leaves, 3);
        vm.expectRevert(
            abi.encodeWithSelector(
                ISubmissionLedger.LeafOfOtherStep.selector, pool, uint32(0), PoolId.wrap(2), uint32(0)
            )
        );
        ledger.checkLeaf(pool, 0, stray);
    }

    function test_L9_leaf_of_a_step_without_a_root_is_refused() external {
        Submission[] memory leaves = makeLeaves(0, 4);
        LeafOpening memory one = opening(6, leaves, 0);
        refuseLeaf(one); // never opened
        seed(0, 6);
        refuseLeaf(one);
    }

    function test_L9_leaf_of_a_taken_slot_is_what_was_delivered() external {
        seed(0, 6);
        take(workers[0], 0);
        mine(3);
        ledger.sealTakenSlot(pool, 0, 6);
        LeafOpening memory one = LeafOpening({leaf: takenLeaf(0, 6, 0), proof: new bytes32[](0)});
        refuseLeaf(one); // not yet
        deliver(one.leaf, NODE_KEY);
        eq(ledger.checkLeaf(pool, 0, one), ledger.leafHash(one.leaf));
        one.leaf.units = 151;
        refuseLeaf(one);
        one.leaf = takenLeaf(0, 7, 0);
        refuseLeaf(one);
    }

    // -- views and digests

    function test_what_never_was_reads_as_zero() external view {
        StepState memory state = ledger.stepOf(pool, 0);
        eq(keccak256(abi.encode(state)), keccak256(new bytes(16 * 32)));
        TakenSlot memory taken = ledger.takenSlotOf(pool, 0, 0);
        eq(keccak256(abi.encode(taken)), keccak256(new bytes(6 * 32)));
        eq(ledger.finalizedAtOf(pool, 0), 0);
        eq(ledger.stepCountOf(pool), 0);
        eq(ledger.settledCountOf(pool), 0);
        eq(ledger.policyCountOf(pool), 0);
    }

    function test_ledger_knows_the_other_parts() external view {
        eq(address(ledger.registry()), address(registry));
        eq(address(ledger.stakes()), address(stakes));
        eq(address(ledger.vault()), address(vault));
        eq(ledger.panel(), address(panel));
    }

    function test_constructor_with_a_missing_part_is_refused() external {
        bytes memory list = abi.encode(partsFrom(1));
        for (uint256 i = 0; i < 9; ++i) {
            bytes memory broken = abi.encode(abi.decode(list, (Parts)));
            for (uint256 j = 0; j < 32; ++j) broken[32 * i + j] = 0;
            Parts memory parts = abi.decode(broken, (Parts));
            vm.expectRevert(abi.encodeWithSelector(PartMissing.selector));
            new SubmissionLedger(parts);
        }
    }

    function test_digests_differ_between_deployments_and_chains() external {
        Submission memory leaf = makeLeaves(0, 3)[0];
        Lease memory lease = leaseOf(0, workers[0], 100, 200);
        SubmissionLedger other = new SubmissionLedger(partsFrom(1));
        require(other.submissionDigest(leaf) != ledger.submissionDigest(leaf));
        require(other.leaseDigest(lease) != ledger.leaseDigest(lease));
        bytes32 leafHere = ledger.submissionDigest(leaf);
        bytes32 leaseHere = ledger.leaseDigest(lease);
        vm.chainId(31_338);
        require(ledger.submissionDigest(leaf) != leafHere);
        require(ledger.leaseDigest(lease) != leaseHere);
    }

    // -- a hostile token

    function test_hostile_token_cannot_re_enter() external {
        ReentrantToken hostile = new ReentrantToken();
        PoolTerms memory t = terms();
        t.parties.payoutToken = address(hostile);
        pool = createPool(t);
        hostile.mint(OWNER, FUNDS);
        vm.startPrank(OWNER);
        hostile.approve(address(vault), FUNDS);
        vault.fund(pool, FUNDS);
        vm.stopPrank();
        for (uint256 i = 0; i < validators.length; ++i) enter(validators[i], Role.Validator, STAKE);
        for (uint256 i = 0; i < workers.length; ++i) enter(workers[i], Role.Worker, STAKE);
        mine(1);
        seed(0, 3);
        bytes[2] memory calls =
            [abi.encodeCall(ledger.takeSlot, (pool, 0)), abi.encodeCall(ledger.openStep, (pool, 1, 0, 3))];
        for (uint256 i = 0; i < 2; ++i) {
            takeWith(hostile, workers[i], calls[i]);
            eq(ledger.stepOf(pool, 0).taken, i + 1);
        }
        open(1, 3);
        mine(3);
        ledger.sealSeedBeacon(pool, 1);
        takeWith(hostile, workers[2], abi.encodeCall(ledger.cancelStep, (pool, 0)));
        eq(ledger.stepOf(pool, 0).phase, Phase.Seeded);
    }

    function takeWith(ReentrantToken hostile, address worker, bytes memory call) internal {
        uint32 step = ledger.stepCountOf(pool) - 1;
        hostile.mint(worker, SLOT);
        vm.startPrank(worker);
        hostile.approve(address(vault), SLOT);
        hostile.arm(address(ledger), call);
        ledger.takeSlot(pool, step);
        vm.stopPrank();
        require(hostile.failed());
        bytes memory reason =
            abi.encodeWithSelector(ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector);
        eq(keccak256(hostile.failure()), keccak256(reason));
    }
}
