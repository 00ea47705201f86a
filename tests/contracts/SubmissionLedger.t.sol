// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {SubmissionLedger} from "../../contracts/SubmissionLedger.sol";
import {IPayoutVault} from "../../contracts/interfaces/IPayoutVault.sol";
import {IPoolRegistry} from "../../contracts/interfaces/IPoolRegistry.sol";
import {IStakeManager} from "../../contracts/interfaces/IStakeManager.sol";
import {ISubmissionLedger} from "../../contracts/interfaces/ISubmissionLedger.sol";
import {Outcomes} from "../../contracts/libraries/Outcomes.sol";
import {Seeds} from "../../contracts/libraries/Seeds.sol";
import {Outcome, Phase, Role} from "../../contracts/types/Enums.sol";
import {ExitId, PoolId} from "../../contracts/types/Ids.sol";
import {PoolTerms} from "../../contracts/types/PoolTerms.sol";
import {StepState} from "../../contracts/types/StepState.sol";
import {LeafOpening, Submission} from "../../contracts/types/Submission.sol";
import {ChainTest} from "./support/ChainTest.sol";
import {Trees} from "./support/Trees.sol";
import {vm} from "./support/Vm.sol";

contract SubmissionLedgerTest is ChainTest {
    function wrongPhase(uint32 step, Phase phase, Phase expected) internal {
        vm.expectRevert(
            abi.encodeWithSelector(ISubmissionLedger.WrongPhase.selector, pool, step, phase, expected)
        );
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

    function test_policy_of_a_stranger_is_refused() external {
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.NotTrainer.selector, pool, STRANGER, TRAINER));
        vm.prank(STRANGER);
        ledger.publishPolicy(pool, 0, keccak256("root"), bytes32(0));
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
    }

    // -- opening

    function test_step_opened_reserves_the_most_it_can_cost() external {
        publish(0);
        vm.expectEmit();
        emit ISubmissionLedger.StepOpened(pool, 0, 0, 6, uint64(height + 2));
        vm.prank(TRAINER);
        ledger.openStep(pool, 0, 0, 6);
        eqEscrow(FUNDS - 3_090, 3_090, 0); // 6 slots of 500 and 3 fees of 30
        StepState memory state = ledger.stepOf(pool, 0);
        eq(state.phase, Phase.Open);
        eq(state.openedBlock, height);
        eq(state.openedAt, clock);
        eq(ledger.stepCountOf(pool), 1);
    }

    function test_step_of_a_stranger_is_refused() external {
        publish(0);
        address[2] memory callers = [COORDINATOR, OWNER];
        for (uint256 i = 0; i < 2; ++i) {
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
        commit(0, leaves);
        mine(3);
        ledger.sealAuditBeacon(pool, 0);
        address[] memory panel = ledger.panelOf(pool, 0);
        for (uint256 i = 0; i < 3; ++i) cast(0, panel[i], all(Outcome.Accept, 3));
        skip(30);
        ledger.finalize(pool, 0);
        vault.claim(pool, 0, openings(leaves, 0, 3));
        eq(token.balanceOf(workers[0]), 400);
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
    }

    function test_step_without_enough_escrow_is_refused() external {
        publish(0);
        vm.prank(OWNER);
        vault.drain(pool, FUNDS - 3_089, OWNER);
        vm.expectRevert(
            abi.encodeWithSelector(IPayoutVault.EscrowTooLow.selector, pool, uint256(3_089), uint256(3_090))
        );
        vm.prank(TRAINER);
        ledger.openStep(pool, 0, 0, 6);
        eq(ledger.stepCountOf(pool), 0);
    }

    function test_step_without_enough_validators_is_refused() external {
        publish(0);
        startExit(validators[0], Role.Validator, STAKE);
        startExit(validators[1], Role.Validator, STAKE - 199); // 199 is below the minimum
        mine(1);
        vm.expectRevert(
            abi.encodeWithSelector(ISubmissionLedger.ValidatorsTooFew.selector, pool, uint256(2), uint256(3))
        );
        vm.prank(TRAINER);
        ledger.openStep(pool, 0, 0, 6);
    }

    function test_L5_stake_of_this_block_does_not_count_for_the_step() external {
        publish(0);
        startExit(validators[0], Role.Validator, STAKE);
        startExit(validators[1], Role.Validator, STAKE);
        mine(1);
        enter(validators[0], Role.Validator, STAKE);
        vm.expectPartialRevert(ISubmissionLedger.ValidatorsTooFew.selector);
        vm.prank(TRAINER);
        ledger.openStep(pool, 0, 0, 6);
        mine(1);
        vm.prank(TRAINER);
        ledger.openStep(pool, 0, 0, 6);
    }

    // -- beacons

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
        emit ISubmissionLedger.SeedBeaconSealed(pool, 0, beacon);
        vm.prank(STRANGER);
        ledger.sealSeedBeacon(pool, 0);
        eq(ledger.stepOf(pool, 0).seedBeacon, beacon);
        eq(ledger.stepOf(pool, 0).seededAt, clock);
        wrongPhase(0, Phase.Seeded, Phase.Open);
        ledger.sealSeedBeacon(pool, 0);
    }

    function test_L4_lapsed_beacon_is_redrawn_from_a_later_block() external {
        open(0, 6);
        mine(2);
        height += 258;
        vm.roll(height);
        vm.expectEmit();
        emit ISubmissionLedger.BeaconRedrawn(pool, 0, false, uint64(height + 2));
        ledger.sealSeedBeacon(pool, 0);
        eq(ledger.stepOf(pool, 0).phase, Phase.Open);
        vm.expectPartialRevert(ISubmissionLedger.BeaconNotReady.selector);
        ledger.sealSeedBeacon(pool, 0);
        mine(3);
        ledger.sealSeedBeacon(pool, 0);
        eq(ledger.stepOf(pool, 0).phase, Phase.Seeded);
    }

    function test_L4_lapsed_audit_beacon_is_redrawn_too() external {
        seed(0, 3);
        commit(0, makeLeaves(0, 3));
        vm.expectPartialRevert(ISubmissionLedger.BeaconNotReady.selector);
        ledger.sealAuditBeacon(pool, 0);
        height += 300;
        vm.roll(height);
        vm.expectEmit();
        emit ISubmissionLedger.BeaconRedrawn(pool, 0, true, uint64(height + 2));
        ledger.sealAuditBeacon(pool, 0);
        eq(ledger.panelOf(pool, 0).length, 0);
        mine(3);
        ledger.sealAuditBeacon(pool, 0);
        eq(ledger.panelOf(pool, 0).length, 3);
    }

    function test_L4_beacons_of_two_pools_differ() external {
        PoolId first = pool;
        PoolId second = createPool(terms());
        fund(second, FUNDS);
        pool = second;
        for (uint160 i = 0; i < 3; ++i) enter(validators[i], Role.Validator, STAKE);
        mine(1);
        open(0, 1);
        pool = first;
        open(0, 1);
        mine(3);
        ledger.sealSeedBeacon(first, 0);
        ledger.sealSeedBeacon(second, 0);
        eq(ledger.stepOf(first, 0).seedBlock, ledger.stepOf(second, 0).seedBlock);
        require(ledger.stepOf(first, 0).seedBeacon != ledger.stepOf(second, 0).seedBeacon);
    }

    // -- the root

    function test_root_committed_by_coordinator_is_recorded() external {
        seed(0, 6);
        bytes32 root = keccak256("root");
        vm.expectEmit();
        emit ISubmissionLedger.RootCommitted(pool, 0, root, 4, keccak256("slots"), uint64(height + 2));
        vm.prank(COORDINATOR);
        ledger.commitRoot(pool, 0, root, 4, keccak256("slots"));
        StepState memory state = ledger.stepOf(pool, 0);
        eq(state.submissionRoot, root);
        eq(state.slotTableRoot, keccak256("slots"));
        eq(state.leafCount, 4);
        wrongPhase(0, Phase.Committed, Phase.Seeded);
        vm.prank(COORDINATOR);
        ledger.commitRoot(pool, 0, keccak256("other"), 4, bytes32(0));
    }

    function test_root_of_a_stranger_is_refused() external {
        seed(0, 6);
        vm.expectRevert(
            abi.encodeWithSelector(ISubmissionLedger.NotCoordinator.selector, pool, TRAINER, COORDINATOR)
        );
        vm.prank(TRAINER);
        ledger.commitRoot(pool, 0, keccak256("root"), 4, bytes32(0));
    }

    function test_root_zero_or_of_no_or_too_many_leaves_is_refused() external {
        seed(0, 6);
        vm.startPrank(COORDINATOR);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.RootZero.selector));
        ledger.commitRoot(pool, 0, bytes32(0), 4, bytes32(0));
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.CountOutOfRange.selector, uint256(0), uint256(6)));
        ledger.commitRoot(pool, 0, keccak256("root"), 0, bytes32(0));
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.CountOutOfRange.selector, uint256(7), uint256(6)));
        ledger.commitRoot(pool, 0, keccak256("root"), 7, bytes32(0));
    }

    function test_L1_root_before_the_seed_beacon_is_refused() external {
        open(0, 6);
        wrongPhase(0, Phase.Open, Phase.Seeded);
        vm.prank(COORDINATOR);
        ledger.commitRoot(pool, 0, keccak256("root"), 4, bytes32(0));
        wrongPhase(1, Phase.None, Phase.Seeded);
        vm.prank(COORDINATOR);
        ledger.commitRoot(pool, 1, keccak256("root"), 4, bytes32(0));
    }

    function test_L10_root_or_cancellation_never_both_in_time() external {
        seed(0, 6);
        uint256 deadline = clock + 80;
        skip(80);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.TooEarly.selector, deadline + 1, deadline));
        ledger.cancelStep(pool, 0);
        skip(1);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.DeadlinePassed.selector, deadline, deadline + 1));
        vm.prank(COORDINATOR);
        ledger.commitRoot(pool, 0, keccak256("root"), 4, bytes32(0));
        vm.expectEmit();
        emit ISubmissionLedger.StepCancelled(pool, 0);
        vm.prank(STRANGER);
        ledger.cancelStep(pool, 0);
        eqEscrow(FUNDS, 0, 0);
        eq(ledger.stepOf(pool, 0).phase, Phase.Cancelled);
        wrongPhase(0, Phase.Cancelled, Phase.Seeded);
        ledger.cancelStep(pool, 0);
    }

    function test_L1_cancellation_of_a_committed_step_is_refused() external {
        seed(0, 3);
        commit(0, makeLeaves(0, 3));
        skip(10_000);
        wrongPhase(0, Phase.Committed, Phase.Seeded);
        ledger.cancelStep(pool, 0);
    }

    // -- the panel and its votes

    function test_L5_panel_is_of_the_stakes_before_the_step() external {
        seed(0, 3);
        commit(0, makeLeaves(0, 3));
        // A newcomer with overwhelming stake, after the snapshot.
        enter(STRANGER, Role.Validator, 1_000_000_000);
        mine(3);
        ledger.sealAuditBeacon(pool, 0);
        address[] memory panel = ledger.panelOf(pool, 0);
        eq(panel.length, 3);
        for (uint256 i = 0; i < 3; ++i) {
            require(panel[i] != STRANGER);
            for (uint256 j = 0; j < i; ++j) require(panel[i] != panel[j]);
        }
    }

    function test_L6_vote_is_recorded_and_cast_once() external {
        address[] memory panel = audit(0, 6, makeLeaves(0, 5));
        bytes memory outcomes = hex"e401";
        vm.expectEmit();
        emit ISubmissionLedger.Voted(
            pool, 0, panel[0], panel[0], outcomes, keccak256("verdicts"), keccak256("evidence")
        );
        cast(0, panel[0], outcomes);
        (bytes memory stored, bytes32 verdictRoot, bytes32 evidenceRoot) = ledger.voteOf(pool, 0, panel[0]);
        eq(keccak256(stored), keccak256(outcomes));
        eq(verdictRoot, keccak256("verdicts"));
        eq(evidenceRoot, keccak256("evidence"));
        require(ledger.hasVoted(pool, 0, panel[0]) && !ledger.hasVoted(pool, 0, panel[1]));
        (stored,,) = ledger.voteOf(pool, 0, panel[1]);
        eq(stored.length, 0);
        vm.expectRevert(
            abi.encodeWithSelector(ISubmissionLedger.AlreadyVoted.selector, pool, uint32(0), panel[0])
        );
        cast(0, panel[0], outcomes);
    }

    function test_L6_two_nodes_of_one_provider_vote_once() external {
        address[] memory panel = audit(0, 3, makeLeaves(0, 3));
        for (uint256 key = 21; key < 23; ++key) {
            bytes memory signature = consent(key, panel[1], clock);
            vm.prank(panel[1]);
            stakes.addNode(vm.addr(key), clock, signature);
        }
        cast(0, vm.addr(21), all(Outcome.Accept, 3));
        require(ledger.hasVoted(pool, 0, panel[1]));
        vm.expectPartialRevert(ISubmissionLedger.AlreadyVoted.selector);
        cast(0, vm.addr(22), all(Outcome.Reject, 3));
        vm.expectPartialRevert(ISubmissionLedger.AlreadyVoted.selector);
        cast(0, panel[1], all(Outcome.Reject, 3));
    }

    function test_L6_vote_of_who_was_not_drawn_is_refused() external {
        address[] memory panel = audit(0, 3, makeLeaves(0, 3));
        address left;
        for (uint256 i = 0; i < 4; ++i) {
            if (validators[i] != panel[0] && validators[i] != panel[1] && validators[i] != panel[2]) {
                left = validators[i];
            }
        }
        address[3] memory callers = [left, workers[0], STRANGER];
        for (uint256 i = 0; i < 3; ++i) {
            vm.expectRevert(
                abi.encodeWithSelector(
                    ISubmissionLedger.NotPanelMember.selector,
                    pool,
                    uint32(0),
                    callers[i],
                    callers[i] == STRANGER ? address(0) : callers[i]
                )
            );
            cast(0, callers[i], all(Outcome.Accept, 3));
        }
    }

    function test_vote_misshapen_is_refused() external {
        address[] memory panel = audit(0, 6, makeLeaves(0, 5));
        vm.expectRevert(abi.encodeWithSelector(Outcomes.OutcomesLength.selector, uint256(1), uint256(2)));
        cast(0, panel[0], hex"55");
        vm.expectRevert(abi.encodeWithSelector(Outcomes.OutcomesLength.selector, uint256(3), uint256(2)));
        cast(0, panel[0], hex"550100");
        vm.expectRevert(abi.encodeWithSelector(Outcomes.OutcomesSpareBits.selector, uint8(0x05)));
        cast(0, panel[0], hex"5505");
    }

    function test_vote_after_its_time_is_refused() external {
        address[] memory panel = audit(0, 3, makeLeaves(0, 3));
        uint256 deadline = clock + 40;
        skip(40);
        cast(0, panel[0], all(Outcome.Accept, 3));
        skip(1);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.DeadlinePassed.selector, deadline, deadline + 1));
        cast(0, panel[1], all(Outcome.Accept, 3));
    }

    function test_L1_vote_before_the_audit_beacon_is_refused() external {
        seed(0, 3);
        commit(0, makeLeaves(0, 3));
        wrongPhase(0, Phase.Committed, Phase.Audited);
        cast(0, validators[0], all(Outcome.Accept, 3));
    }

    // -- finalizing

    function test_L8_outcome_follows_the_quorum() external {
        Submission[] memory leaves = makeLeaves(0, 6);
        address[] memory panel = audit(0, 8, leaves);
        Outcome[6][3] memory votes = [
            [Outcome.Accept, Outcome.Accept, Outcome.Reject, Outcome.Fault, Outcome.Fault, Outcome.Abstain],
            [Outcome.Accept, Outcome.Reject, Outcome.Fault, Outcome.Fault, Outcome.Accept, Outcome.Abstain],
            [Outcome.Reject, Outcome.Abstain, Outcome.Accept, Outcome.Accept, Outcome.Reject, Outcome.Accept]
        ];
        for (uint256 i = 0; i < 3; ++i) {
            Outcome[] memory list = new Outcome[](6);
            for (uint256 j = 0; j < 6; ++j) list[j] = votes[i][j];
            cast(0, panel[i], pack(list));
        }
        skip(30);
        vm.expectEmit();
        emit ISubmissionLedger.StepFinalized(pool, 0, 1, 2, 1, 2);
        ledger.finalize(pool, 0);
        eq(ledger.outcomeOf(pool, 0, 0), Outcome.Accept);
        eq(ledger.outcomeOf(pool, 0, 1), Outcome.Abstain);
        eq(ledger.outcomeOf(pool, 0, 2), Outcome.Reject);
        eq(ledger.outcomeOf(pool, 0, 3), Outcome.Fault);
        eq(ledger.outcomeOf(pool, 0, 4), Outcome.Reject);
        eq(ledger.outcomeOf(pool, 0, 5), Outcome.Abstain);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.IndexOutOfRange.selector, uint32(6), uint32(6)));
        ledger.outcomeOf(pool, 0, 6);
    }

    function test_L1_outcome_before_finalizing_is_refused() external {
        address[] memory panel = audit(0, 3, makeLeaves(0, 3));
        for (uint256 i = 0; i < 3; ++i) cast(0, panel[i], all(Outcome.Accept, 3));
        wrongPhase(0, Phase.Audited, Phase.Finalized);
        ledger.outcomeOf(pool, 0, 0);
    }

    function test_finalize_before_the_challenge_window_ends_is_refused() external {
        address[] memory panel = audit(0, 3, makeLeaves(0, 3));
        uint256 auditedAt = clock;
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.TooEarly.selector, auditedAt + 70, clock));
        ledger.finalize(pool, 0);
        skip(5);
        for (uint256 i = 0; i < 3; ++i) cast(0, panel[i], all(Outcome.Accept, 3));
        eq(ledger.stepOf(pool, 0).votedAt, clock);
        skip(29);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.TooEarly.selector, clock + 1, clock));
        ledger.finalize(pool, 0);
        skip(1);
        ledger.finalize(pool, 0);
        wrongPhase(0, Phase.Finalized, Phase.Audited);
        ledger.finalize(pool, 0);
    }

    function test_finalize_without_all_votes_waits_for_the_vote_deadline() external {
        address[] memory panel = audit(0, 3, makeLeaves(0, 3));
        cast(0, panel[0], all(Outcome.Accept, 3));
        cast(0, panel[2], all(Outcome.Accept, 3));
        skip(69);
        vm.expectPartialRevert(ISubmissionLedger.TooEarly.selector);
        ledger.finalize(pool, 0);
        skip(1);
        ledger.finalize(pool, 0);
        eq(ledger.outcomeOf(pool, 0, 0), Outcome.Accept);
        eqEscrow(FUNDS - 3 * 500 - 2 * 30, 3 * 500 + 2 * 30, 0);
    }

    function test_finalize_without_quorum_leaves_all_undecided() external {
        address[] memory panel = audit(0, 3, makeLeaves(0, 3));
        cast(0, panel[0], all(Outcome.Fault, 3));
        skip(70);
        vm.expectEmit();
        emit ISubmissionLedger.StepFinalized(pool, 0, 0, 0, 0, 3);
        ledger.finalize(pool, 0);
        eqEscrow(FUNDS - 1_530, 30, 1_500);
    }

    function test_L7_steps_settle_in_order() external {
        address[] memory panel = audit(0, 3, makeLeaves(0, 3));
        address[] memory second = audit(1, 3, makeLeaves(1, 3));
        for (uint256 i = 0; i < 3; ++i) cast(1, second[i], all(Outcome.Accept, 3));
        skip(30);
        vm.expectRevert(
            abi.encodeWithSelector(ISubmissionLedger.EarlierStepUnsettled.selector, pool, uint32(1), uint32(0))
        );
        ledger.finalize(pool, 1);
        skip(70);
        ledger.finalize(pool, 0);
        ledger.finalize(pool, 1);
        eq(ledger.settledCountOf(pool), 2);
        require(!ledger.hasVoted(pool, 0, panel[0]));
    }

    function test_L7_cancellation_waits_for_earlier_steps() external {
        open(0, 1);
        seed(1, 1);
        skip(81);
        vm.expectRevert(
            abi.encodeWithSelector(ISubmissionLedger.EarlierStepUnsettled.selector, pool, uint32(1), uint32(0))
        );
        ledger.cancelStep(pool, 1);
        ledger.sealSeedBeacon(pool, 0);
        skip(81);
        ledger.cancelStep(pool, 0);
        ledger.cancelStep(pool, 1);
        eqEscrow(FUNDS, 0, 0);
    }

    // -- slashing a leaf

    function test_leaf_at_fault_is_slashed_once() external {
        Submission[] memory leaves = runMixed(0);
        LeafOpening memory fault = opening(leaves, 2);
        address provider = leaves[2].provider;
        uint256 before = tokensOf(provider);
        vm.expectEmit();
        emit ISubmissionLedger.LeafSlashed(pool, 0, 2, provider, ledger.leafHash(leaves[2]), 250);
        vm.prank(STRANGER);
        ledger.slashLeaf(pool, 0, fault);
        eq(tokensOf(provider), before - 250);
        eq(token.balanceOf(SINK), 250);
        require(ledger.isSlashed(ledger.leafHash(leaves[2])));
        require(!ledger.isSlashed(ledger.leafHash(leaves[0])));
        vm.expectPartialRevert(IStakeManager.OffenceSlashed.selector);
        ledger.slashLeaf(pool, 0, fault);
        eq(tokensOf(provider), before - 250);
    }

    function test_L9_leaf_accepted_rejected_or_undecided_is_not_slashed() external {
        Submission[] memory leaves = runMixed(0);
        uint32[3] memory indices = [uint32(0), 1, 3];
        Outcome[3] memory outcomes = [Outcome.Accept, Outcome.Reject, Outcome.Abstain];
        for (uint256 i = 0; i < 3; ++i) {
            LeafOpening memory innocent = opening(leaves, indices[i]);
            vm.expectRevert(
                abi.encodeWithSelector(ISubmissionLedger.LeafNotFaulted.selector, indices[i], outcomes[i])
            );
            ledger.slashLeaf(pool, 0, innocent);
        }
    }

    function test_L9_leaf_claimed_at_the_index_of_a_fault_is_not_slashed() external {
        Submission[] memory leaves = runMixed(0);
        LeafOpening memory framed = opening(leaves, 0);
        framed.index = 2;
        vm.expectPartialRevert(ISubmissionLedger.LeafNotCommitted.selector);
        ledger.slashLeaf(pool, 0, framed);
        framed = opening(leaves, 2);
        framed.leaf.provider = workers[2]; // somebody else's stake
        vm.expectPartialRevert(ISubmissionLedger.LeafNotCommitted.selector);
        ledger.slashLeaf(pool, 0, framed);
    }

    function test_L9_leaf_of_another_step_or_pool_is_not_slashed() external {
        Submission[] memory leaves = makeLeaves(0, 4);
        leaves[2].step = 1; // a coordinator commits a leaf of another step
        leaves[3].pool = PoolId.wrap(2);
        run(0, 6, leaves, all(Outcome.Fault, 4));
        LeafOpening memory stray = opening(leaves, 2);
        vm.expectRevert(
            abi.encodeWithSelector(ISubmissionLedger.LeafOfOtherStep.selector, pool, uint32(0), pool, uint32(1))
        );
        ledger.slashLeaf(pool, 0, stray);
        stray = opening(leaves, 3);
        vm.expectRevert(
            abi.encodeWithSelector(
                ISubmissionLedger.LeafOfOtherStep.selector, pool, uint32(0), PoolId.wrap(2), uint32(0)
            )
        );
        ledger.slashLeaf(pool, 0, stray);
    }

    function test_L1_leaf_before_finalizing_is_not_slashed() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        address[] memory panel = audit(0, 3, leaves);
        for (uint256 i = 0; i < 3; ++i) cast(0, panel[i], all(Outcome.Fault, 3));
        LeafOpening memory fault = opening(leaves, 0);
        wrongPhase(0, Phase.Audited, Phase.Finalized);
        ledger.slashLeaf(pool, 0, fault);
    }

    function test_constructor_zero_address_is_refused() external {
        bytes memory zero = abi.encodeWithSelector(SubmissionLedger.AddressZero.selector);
        vm.expectRevert(zero);
        new SubmissionLedger(IPoolRegistry(address(0)), stakes, vault);
        vm.expectRevert(zero);
        new SubmissionLedger(registry, IStakeManager(address(0)), vault);
        vm.expectRevert(zero);
        new SubmissionLedger(registry, stakes, IPayoutVault(address(0)));
    }

    function test_digest_of_a_submission_differs_between_deployments() external {
        Submission memory leaf = makeLeaves(0, 3)[0];
        SubmissionLedger other = new SubmissionLedger(registry, stakes, vault);
        require(other.submissionDigest(leaf) != ledger.submissionDigest(leaf));
        bytes32 here = ledger.submissionDigest(leaf);
        vm.chainId(31_338);
        require(ledger.submissionDigest(leaf) != here);
    }
}
