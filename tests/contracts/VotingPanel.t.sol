// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {VotingPanel} from "../../contracts/VotingPanel.sol";
import {IPayoutVault} from "../../contracts/interfaces/IPayoutVault.sol";
import {IStakeManager} from "../../contracts/interfaces/IStakeManager.sol";
import {ISubmissionLedger} from "../../contracts/interfaces/ISubmissionLedger.sol";
import {IVotingPanel} from "../../contracts/interfaces/IVotingPanel.sol";
import {Ballots} from "../../contracts/libraries/Ballots.sol";
import {Outcomes} from "../../contracts/libraries/Outcomes.sol";
import {PanelDraw} from "../../contracts/libraries/PanelDraw.sol";
import {Seeds} from "../../contracts/libraries/Seeds.sol";
import {Outcome, Phase, Role, Ruling} from "../../contracts/types/Enums.sol";
import {CaseId, ExitId, PoolId} from "../../contracts/types/Ids.sol";
import {PartMissing, Parts} from "../../contracts/types/Parts.sol";
import {PoolTerms} from "../../contracts/types/PoolTerms.sol";
import {StepState} from "../../contracts/types/StepState.sol";
import {LeafOpening, PayTable, Submission} from "../../contracts/types/Submission.sol";
import {ChainTest} from "./support/ChainTest.sol";
import {Trees} from "./support/Trees.sol";
import {vm} from "./support/Vm.sol";

contract VotingPanelTest is ChainTest {
    bytes32 internal constant VERDICTS = keccak256("verdicts");
    bytes32 internal constant EVIDENCE = keccak256("evidence");
    bytes32 internal constant SALT = keccak256("salt");
    bytes32 internal constant SILENCE_TAG = keccak256("stannary.offence.silence.v1");
    bytes32 internal constant FAULT_TAG = keccak256("stannary.offence.fault.v1");
    uint256 internal constant NODE_KEY = 0x51; // of the first worker; the others follow

    // -- helpers

    /// One letter a slot: Accept, Reject, Fault, or a dash to abstain.
    function ballot(string memory letters) internal pure returns (bytes memory) {
        bytes memory text = bytes(letters);
        Outcome[] memory outcomes = new Outcome[](text.length);
        for (uint256 i = 0; i < text.length; ++i) {
            if (text[i] == "A") outcomes[i] = Outcome.Accept;
            if (text[i] == "R") outcomes[i] = Outcome.Reject;
            if (text[i] == "F") outcomes[i] = Outcome.Fault;
        }
        return pack(outcomes);
    }

    /// Another pool, with the same people in it.
    function usePool(PoolTerms memory t) internal {
        pool = createPool(t);
        fund(pool, FUNDS);
        for (uint256 i = 0; i < validators.length; ++i) enter(validators[i], Role.Validator, STAKE);
        for (uint256 i = 0; i < workers.length; ++i) enter(workers[i], Role.Worker, STAKE);
        mine(1);
    }

    /// Blocks without time.
    function dig(uint256 blocks) internal {
        for (uint256 i = 0; i < blocks; ++i) {
            vm.setBlockhash(height, keccak256(abi.encode("block", height)));
            ++height;
            vm.roll(height);
        }
    }

    function auditTable(uint32 step, uint32 slots, Submission[] memory leaves, PayTable memory table)
        internal
        returns (address[] memory)
    {
        seed(step, slots);
        commitAs(step, Trees.root(wordsOf(slots, leaves)), table);
        draw(step);
        return panel.panelOf(pool, step);
    }

    function runTable(uint32 slots, Submission[] memory leaves, PayTable memory table, string memory letters)
        internal
    {
        auditTable(0, slots, leaves, table);
        voteAll(0, ballot(letters));
        skip(30);
        finalize(0);
    }

    function enlist(uint256 i) internal {
        bytes memory signature = consent(NODE_KEY + i, workers[i], clock);
        vm.prank(workers[i]);
        stakes.addNode(vm.addr(NODE_KEY + i), clock, signature);
    }

    function take(uint32 step, uint256 i) internal returns (uint32 slot) {
        allow(workers[i], SLOT);
        vm.prank(workers[i]);
        slot = ledger.takeSlot(pool, step);
    }

    function deliver(uint32 step, uint32 slot, uint256 i, uint32 units) internal returns (LeafOpening memory taken) {
        ledger.sealTakenSlot(pool, step, slot);
        taken.leaf = Submission({
            pool: pool,
            step: step,
            slot: slot,
            provider: workers[i],
            node: vm.addr(NODE_KEY + i),
            units: units,
            contentHash: keccak256("taken"),
            leaseHash: Seeds.takenLease(address(ledger), pool, step, slot, workers[i])
        });
        bytes memory signature = sign(NODE_KEY + i, ledger.submissionDigest(taken.leaf));
        ledger.deliverTaken(pool, step, taken.leaf, signature, "here");
    }

    /// A step in which worker 0 delivers the taken slot `slots`.
    function auditTaken(uint32 slots, Submission[] memory leaves, uint32 units)
        internal
        returns (LeafOpening memory taken)
    {
        enlist(0);
        seed(0, slots);
        take(0, 0);
        mine(3);
        taken = deliver(0, slots, 0, units);
        commit(0, slots, leaves);
        draw(0);
    }

    function hold(uint32 step, LeafOpening memory leaf)
        internal
        returns (Outcome outcome, uint32 ballots, uint64 snapshotBlock)
    {
        bytes[] memory votes = votesOf(step);
        vm.prank(address(court));
        return panel.holdSlot(pool, step, leaf, votes);
    }

    function refuseHold(LeafOpening memory leaf, bytes memory reason) internal {
        bytes[] memory votes = votesOf(0);
        vm.expectRevert(reason);
        vm.prank(address(court));
        panel.holdSlot(pool, 0, leaf, votes);
    }

    function challenge(LeafOpening memory leaf) internal returns (CaseId) {
        bytes[] memory votes = votesOf(leaf.leaf.step);
        allow(STRANGER, BOND);
        vm.prank(STRANGER);
        return court.challenge(pool, leaf.leaf.step, leaf, votes, bytes32(0), "here");
    }

    function refuseCommit(address account, bytes32 commitment, bytes memory reason) internal {
        vm.expectRevert(reason);
        vm.prank(account);
        panel.commitVote(pool, 0, commitment);
    }

    function refuseReveal(address provider, bytes memory outcomes, bytes memory reason) internal {
        vm.expectRevert(reason);
        panel.revealVote(pool, 0, provider, outcomes, VERDICTS, EVIDENCE, SALT);
    }

    function refuseFinalize(uint32 step, bytes memory reason) internal {
        bytes[] memory votes = votesOf(step);
        PayTable memory table = tableOf(step);
        vm.expectRevert(reason);
        panel.finalize(pool, step, votes, table);
    }

    function refuseSlash(LeafOpening memory leaf, bytes memory outcomes, bytes memory reason) internal {
        vm.expectRevert(reason);
        panel.slashLeaf(pool, 0, leaf, outcomes);
    }

    function wrongPhase(Phase phase, Phase expected) internal view returns (bytes memory) {
        return abi.encodeWithSelector(IVotingPanel.WrongPhase.selector, pool, uint32(0), phase, expected);
    }

    function tooEarly(uint256 earliest, uint256 time) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(IVotingPanel.TooEarly.selector, earliest, time);
    }

    function closedReveal(uint256 from, uint256 until, uint256 time) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(Ballots.RevealClosed.selector, from, until, time);
    }

    function mismatch(uint256 seat) internal view returns (bytes memory) {
        return abi.encodeWithSelector(IVotingPanel.VotesMismatch.selector, pool, uint32(0), seat);
    }

    function eqTimes(uint32 step, uint256 commitUntil, uint256 revealFrom, uint256 revealUntil, bool wasRedrawn)
        internal
        view
    {
        (uint64 a, uint64 b, uint64 c, bool d) = panel.panelTimesOf(pool, step);
        eq(a, commitUntil);
        eq(b, revealFrom);
        eq(c, revealUntil);
        require(d == wasRedrawn, "wasRedrawn");
    }

    function eqBallot(address provider, bool isCommitted, bool isRevealed, bytes32 word) internal view {
        (bool c, bool r, bytes32 w) = panel.ballotOf(pool, 0, provider);
        require(c == isCommitted && r == isRevealed, "ballot");
        eq(w, word);
    }

    function eqList(address[] memory got, address[] memory expected) internal pure {
        eq(got.length, expected.length);
        for (uint256 i = 0; i < got.length; ++i) eq(got[i], expected[i]);
    }

    function absencesOf(address validator) internal view returns (uint256) {
        (,, uint32 absences,) = stakes.standingOf(pool, Role.Validator, validator);
        return absences;
    }

    /// Who a beacon draws by the stakes of a block, none of `barred`.
    function drawn(uint256 blockNumber, bytes32 beacon, uint256 size, address[] memory barred)
        internal
        view
        returns (address[] memory)
    {
        (address[] memory candidates, uint256[] memory weights) = stakes.validatorStakesAt(pool, blockNumber);
        for (uint256 i = 0; i < candidates.length; ++i) {
            for (uint256 j = 0; j < barred.length; ++j) {
                if (candidates[i] == barred[j]) weights[i] = 0;
            }
        }
        return PanelDraw.draw(candidates, weights, beacon, size);
    }

    function some(address a) internal pure returns (address[] memory list) {
        list = new address[](1);
        list[0] = a;
    }

    function some(address a, address b) internal pure returns (address[] memory list) {
        list = new address[](2);
        (list[0], list[1]) = (a, b);
    }

    function some(address a, address b, address c) internal pure returns (address[] memory list) {
        list = new address[](3);
        (list[0], list[1], list[2]) = (a, b, c);
    }

    function first(uint256[] memory list, uint256 count) internal pure returns (uint256[] memory part) {
        part = new uint256[](count);
        for (uint256 i = 0; i < count; ++i) part[i] = list[i];
    }

    // -- deployment

    function test_constructor_with_a_missing_part_is_refused() external {
        for (uint256 i = 0; i < 9; ++i) {
            Parts memory parts = partsFrom(1);
            if (i == 0) parts.stakeToken = address(0);
            if (i == 1) parts.stakes = address(0);
            if (i == 2) parts.registry = address(0);
            if (i == 3) parts.ledger = address(0);
            if (i == 4) parts.vault = address(0);
            if (i == 5) parts.court = address(0);
            if (i == 6) parts.panel = address(0);
            if (i == 7) parts.plants = address(0);
            if (i == 8) parts.sink = address(0);
            vm.expectRevert(abi.encodeWithSelector(PartMissing.selector));
            new VotingPanel(parts);
        }
    }

    function test_panel_keeps_the_contracts_of_its_deployment() external view {
        eq(address(panel.registry()), address(registry));
        eq(address(panel.ledger()), address(ledger));
    }

    // -- the audit beacon

    function test_L4_audit_beacon_draws_the_panel_for_a_fee() external {
        seed(0, 3);
        commit(0, 3, makeLeaves(0, 3));
        eq(ledger.stepOf(pool, 0).auditBlock, 0);
        skip(10);
        vm.expectEmit();
        emit ISubmissionLedger.AuditBlockDrawn(pool, 0, uint64(height + 2));
        panel.sealAuditBeacon(pool, 0);
        eq(panel.panelOf(pool, 0).length, 0);
        eqEscrow(FUNDS - stepCost(3), stepCost(3) - SEAL_FEE, 0); // nobody is paid or fined for this
        StepState memory state = ledger.stepOf(pool, 0);
        eq(state.auditBlock, height + 2);
        eq(state.phase, Phase.Committed);
        mine(3);
        bytes32 blockHash = keccak256(abi.encode("block", state.auditBlock));
        bytes32 beacon = Seeds.beacon(Seeds.AUDIT_BEACON_TAG, address(ledger), pool, 0, blockHash);
        address[] memory expected = drawn(state.openedBlock - 1, beacon, 3, new address[](0));
        vm.expectEmit();
        emit IVotingPanel.AuditBeaconSealed(pool, 0, beacon, expected, STRANGER);
        vm.expectEmit();
        emit IPayoutVault.Earned(pool, 0, STRANGER, SEAL_FEE);
        vm.prank(STRANGER);
        panel.sealAuditBeacon(pool, 0);
        eqList(panel.panelOf(pool, 0), expected);
        eq(ledger.stepOf(pool, 0).phase, Phase.Audited);
        eq(ledger.stepOf(pool, 0).auditBeacon, beacon);
        eq(earned(STRANGER), SEAL_FEE);
        eq(vault.reservationOf(pool, 0), stepCost(3) - 2 * SEAL_FEE);
        eqTimes(0, clock + 40, clock + 40, clock + 60, false);
    }

    function test_L1_audit_beacon_before_the_root_or_twice_is_refused() external {
        seed(0, 3);
        vm.expectRevert(wrongPhase(Phase.Seeded, Phase.Committed));
        panel.sealAuditBeacon(pool, 0);
        eq(panel.panelOf(pool, 0).length, 0);
        eqTimes(0, 0, 0, 0, false);
        commit(0, 3, makeLeaves(0, 3));
        draw(0);
        vm.expectRevert(wrongPhase(Phase.Audited, Phase.Committed));
        panel.sealAuditBeacon(pool, 0);
    }

    function test_L4_audit_beacon_before_its_block_is_past_is_refused() external {
        seed(0, 3);
        commit(0, 3, makeLeaves(0, 3));
        skip(10);
        panel.sealAuditBeacon(pool, 0);
        uint64 auditBlock = uint64(height + 2);
        for (uint256 i = 0; i < 3; ++i) {
            vm.expectRevert(abi.encodeWithSelector(IVotingPanel.BeaconNotReady.selector, auditBlock, height));
            panel.sealAuditBeacon(pool, 0);
            dig(1);
        }
        panel.sealAuditBeacon(pool, 0);
        eq(panel.panelOf(pool, 0).length, 3);
    }

    function test_L4_audit_block_waits_for_the_time_of_taking_slots() external {
        seed(0, 3);
        uint256 seededAt = clock;
        commit(0, 3, makeLeaves(0, 3));
        mine(9);
        vm.expectRevert(tooEarly(seededAt + 10, seededAt + 9));
        panel.sealAuditBeacon(pool, 0);
        skip(1);
        panel.sealAuditBeacon(pool, 0);
        dig(3);
        panel.sealAuditBeacon(pool, 0);
        eqTimes(0, seededAt + 50, seededAt + 50, seededAt + 70, false);
    }

    function test_L4_audit_block_waits_for_a_taken_slot() external {
        seed(0, 3);
        skip(9);
        uint256 takenAt = clock;
        take(0, 0);
        commit(0, 3, makeLeaves(0, 3));
        skip(19);
        vm.expectRevert(tooEarly(takenAt + 20, takenAt + 19));
        panel.sealAuditBeacon(pool, 0);
        skip(1);
        panel.sealAuditBeacon(pool, 0);
    }

    function test_L4_audit_block_of_a_late_root_is_drawn_at_once() external {
        seed(0, 3);
        skip(30);
        commit(0, 3, makeLeaves(0, 3));
        panel.sealAuditBeacon(pool, 0);
        eq(ledger.stepOf(pool, 0).auditBlock, height + 2);
    }

    function test_L4_audit_block_follows_the_root_where_no_slot_is_taken_on_chain() external {
        PoolTerms memory t = terms();
        t.work.reservedSlots = 0;
        usePool(t);
        seed(0, 3);
        commit(0, 3, makeLeaves(0, 3));
        uint64 auditBlock = uint64(height + 2);
        for (uint256 i = 0; i < 3; ++i) {
            vm.expectRevert(abi.encodeWithSelector(IVotingPanel.BeaconNotReady.selector, auditBlock, height));
            panel.sealAuditBeacon(pool, 0);
            dig(1);
        }
        panel.sealAuditBeacon(pool, 0);
        eq(panel.panelOf(pool, 0).length, 3);
        voteAll(0, ballot("AAA"));
        skip(30);
        finalize(0);
        eqEscrow(FUNDS - 1_200 - 96, 0, 0);
    }

    function test_L4_lapsed_audit_beacon_costs_the_pool_and_is_drawn_from_a_later_block() external {
        seed(0, 3);
        commit(0, 3, makeLeaves(0, 3));
        skip(10);
        panel.sealAuditBeacon(pool, 0);
        height += 300;
        vm.roll(height);
        uint256 free = FUNDS - stepCost(3);
        vm.expectEmit();
        emit ISubmissionLedger.BeaconRedrawn(pool, 0, true, uint64(height + 2));
        panel.sealAuditBeacon(pool, 0);
        eqEscrow(free - SLOT, stepCost(3) - SEAL_FEE, SLOT);
        eq(panel.panelOf(pool, 0).length, 0);
        eq(ledger.stepOf(pool, 0).phase, Phase.Committed);
        eq(earned(address(this)), SEAL_FEE); // of the seed beacon alone
        vm.expectRevert(abi.encodeWithSelector(IVotingPanel.BeaconNotReady.selector, uint64(height + 2), height));
        panel.sealAuditBeacon(pool, 0);
        mine(3);
        panel.sealAuditBeacon(pool, 0);
        eq(panel.panelOf(pool, 0).length, 3);
        eq(earned(address(this)), 2 * SEAL_FEE);
    }

    function test_L5_panel_is_of_the_stakes_before_the_step() external {
        // With overwhelming stake: in time, and in the block of the step.
        enter(STRANGER, Role.Validator, 1e15);
        mine(1);
        publish(0);
        vm.prank(TRAINER);
        ledger.openStep(pool, 0, 0, 3);
        enter(TRAINER, Role.Validator, 1e24);
        mine(3);
        ledger.sealSeedBeacon(pool, 0);
        commit(0, 3, makeLeaves(0, 3));
        startExit(validators[0], Role.Validator, STAKE);
        draw(0);
        address[] memory members = panel.panelOf(pool, 0);
        eq(members.length, 3);
        eq(members[0], STRANGER);
        for (uint256 i = 0; i < 3; ++i) {
            require(members[i] != TRAINER, "newcomer drawn");
            for (uint256 j = 0; j < i; ++j) require(members[i] != members[j], "drawn twice");
        }
    }

    // -- commitments

    function test_L6_commitment_is_recorded_once() external {
        address[] memory members = audit(0, 6, makeLeaves(0, 5));
        bytes memory outcomes = ballot("AARF--");
        bytes32 commitment = commitmentOf(0, members[1], outcomes);
        eqBallot(members[1], false, false, 0);
        vm.expectEmit();
        emit IVotingPanel.VoteCommitted(pool, 0, members[1], members[1], commitment);
        commitVote(0, members[1], outcomes);
        eqBallot(members[1], true, false, commitment);
        eqBallot(members[0], false, false, 0);
        eqBallot(members[2], false, false, 0);
        bytes memory again = abi.encodeWithSelector(Ballots.AlreadyCommitted.selector, members[1]);
        refuseCommit(members[1], commitment, again);
        refuseCommit(members[1], keccak256("other"), again);
    }

    function test_L6_two_nodes_of_one_provider_vote_once() external {
        address[] memory members = audit(0, 3, makeLeaves(0, 3));
        for (uint256 key = 21; key < 23; ++key) {
            bytes memory signature = consent(key, members[1], clock);
            vm.prank(members[1]);
            stakes.addNode(vm.addr(key), clock, signature);
        }
        bytes32 commitment = commitmentOf(0, members[1], all(Outcome.Accept, 3));
        vm.expectEmit();
        emit IVotingPanel.VoteCommitted(pool, 0, members[1], vm.addr(21), commitment);
        vm.prank(vm.addr(21));
        panel.commitVote(pool, 0, commitment);
        bytes memory again = abi.encodeWithSelector(Ballots.AlreadyCommitted.selector, members[1]);
        refuseCommit(vm.addr(22), keccak256("other"), again);
        refuseCommit(members[1], keccak256("other"), again);
        revealAfter(40, members[1], all(Outcome.Accept, 3));
        eqBallot(members[1], true, true, keccak256(all(Outcome.Accept, 3)));
    }

    function revealAfter(uint256 seconds_, address provider, bytes memory outcomes) internal {
        skip(seconds_);
        revealVote(0, provider, outcomes);
    }

    function test_L6_vote_of_who_was_not_drawn_is_refused() external {
        address[] memory members = audit(0, 3, makeLeaves(0, 3));
        address left = drawn(height - 1, "left", 1, members)[0];
        address[3] memory callers = [left, workers[0], STRANGER];
        for (uint256 i = 0; i < 3; ++i) {
            address provider = i == 2 ? address(0) : callers[i];
            refuseCommit(callers[i], "x", abi.encodeWithSelector(Ballots.NotMember.selector, provider));
        }
        skip(40);
        refuseReveal(left, all(Outcome.Accept, 3), abi.encodeWithSelector(Ballots.NotMember.selector, left));
        eqBallot(left, false, false, 0);
    }

    function test_commitment_zero_is_refused() external {
        address[] memory members = audit(0, 3, makeLeaves(0, 3));
        refuseCommit(members[0], 0, abi.encodeWithSelector(Ballots.CommitmentZero.selector));
    }

    function test_L1_vote_before_the_audit_beacon_is_refused() external {
        seed(0, 3);
        commit(0, 3, makeLeaves(0, 3));
        bytes memory nobody = abi.encodeWithSelector(Ballots.NotMember.selector, validators[0]);
        refuseCommit(validators[0], "x", nobody);
        refuseReveal(
            validators[0], all(Outcome.Accept, 3), abi.encodeWithSelector(Outcomes.OutcomesLength.selector, 1, 0)
        );
        refuseReveal(validators[0], "", nobody);
        vm.expectRevert(wrongPhase(Phase.Committed, Phase.Audited));
        panel.redrawPanel(pool, 0);
        refuseFinalize(0, wrongPhase(Phase.Committed, Phase.Audited));
    }

    function test_A13_commitment_after_its_time_is_refused() external {
        address[] memory members = audit(0, 3, makeLeaves(0, 3));
        uint256 until = clock + 40;
        skip(39);
        commitVote(0, members[0], all(Outcome.Accept, 3));
        skip(1);
        refuseCommit(members[1], "x", abi.encodeWithSelector(Ballots.CommitOver.selector, until, until));
        skip(1);
        refuseCommit(members[1], "x", abi.encodeWithSelector(Ballots.CommitOver.selector, until, until + 1));
    }

    function test_A13_commitment_after_a_reveal_is_refused() external {
        address[] memory members = audit(0, 3, makeLeaves(0, 3));
        uint256 until = clock + 40;
        commitVote(0, members[0], all(Outcome.Accept, 3));
        commitVote(0, members[1], all(Outcome.Accept, 3));
        skip(40);
        revealVote(0, members[0], all(Outcome.Accept, 3));
        bytes32 commitment = commitmentOf(0, members[2], all(Outcome.Accept, 3));
        refuseCommit(members[2], commitment, abi.encodeWithSelector(Ballots.CommitOver.selector, until, until));
        refuseReveal(
            members[2],
            all(Outcome.Accept, 3),
            abi.encodeWithSelector(Ballots.CommitmentMismatch.selector, members[2], bytes32(0), commitment)
        );
    }

    function test_commitments_stand_still_while_the_pool_does() external {
        address[] memory members = audit(0, 3, makeLeaves(0, 3));
        uint256 opened = clock;
        vm.prank(PAUSER);
        registry.pause(pool);
        skip(1_000);
        commitVote(0, members[0], all(Outcome.Accept, 3));
        refuseReveal(members[0], all(Outcome.Accept, 3), closedReveal(opened + 40, opened + 60, opened));
        vm.prank(UNPAUSER);
        registry.unpause(pool);
        skip(39);
        commitVote(0, members[1], all(Outcome.Accept, 3));
        skip(1);
        revealVote(0, members[1], all(Outcome.Accept, 3));
    }

    // -- reveals

    function test_commitment_binds_all_that_it_is_about() external {
        bytes memory outcomes = ballot("AR-");
        bytes32 expected = keccak256(
            abi.encode(
                keccak256("stannary.vote.v1"),
                block.chainid,
                address(panel),
                pool,
                uint32(4),
                STRANGER,
                keccak256(outcomes),
                VERDICTS,
                EVIDENCE,
                SALT
            )
        );
        eq(panel.voteCommitment(pool, 4, STRANGER, outcomes, VERDICTS, EVIDENCE, SALT), expected);
        VotingPanel other = new VotingPanel(partsFrom(1));
        require(other.voteCommitment(pool, 4, STRANGER, outcomes, VERDICTS, EVIDENCE, SALT) != expected, "contract");
        vm.chainId(31_338);
        require(panel.voteCommitment(pool, 4, STRANGER, outcomes, VERDICTS, EVIDENCE, SALT) != expected, "chain");
    }

    function test_reveal_by_anyone_is_recorded_once() external {
        address[] memory members = audit(0, 6, makeLeaves(0, 5));
        bytes memory outcomes = hex"e401";
        commitVote(0, members[2], outcomes);
        skip(40);
        vm.expectEmit();
        emit IVotingPanel.VoteRevealed(pool, 0, members[2], outcomes, VERDICTS, EVIDENCE);
        vm.prank(STRANGER);
        panel.revealVote(pool, 0, members[2], outcomes, VERDICTS, EVIDENCE, SALT);
        eqBallot(members[2], true, true, keccak256(outcomes));
        refuseReveal(members[2], outcomes, abi.encodeWithSelector(Ballots.AlreadyRevealed.selector, members[2]));
    }

    function test_A13_reveal_before_the_end_of_commitments_is_refused() external {
        address[] memory members = audit(0, 3, makeLeaves(0, 3));
        uint256 opened = clock;
        bytes memory outcomes = all(Outcome.Accept, 3);
        commitVote(0, members[0], outcomes);
        commitVote(0, members[1], outcomes);
        refuseReveal(members[0], outcomes, closedReveal(opened + 40, opened + 60, opened));
        skip(39);
        refuseReveal(members[0], outcomes, closedReveal(opened + 40, opened + 60, opened + 39));
        skip(1);
        revealVote(0, members[0], outcomes);
        skip(19);
        revealVote(0, members[1], outcomes);
    }

    function test_A13_reveal_after_its_time_is_refused() external {
        address[] memory members = audit(0, 3, makeLeaves(0, 3));
        uint256 opened = clock;
        bytes memory outcomes = all(Outcome.Accept, 3);
        commitVote(0, members[0], outcomes);
        skip(60);
        refuseReveal(members[0], outcomes, closedReveal(opened + 40, opened + 60, opened + 60));
        eqBallot(members[0], true, false, commitmentOf(0, members[0], outcomes));
    }

    function test_reveals_open_when_the_last_member_commits() external {
        address[] memory members = audit(0, 3, makeLeaves(0, 3));
        uint256 opened = clock;
        bytes memory outcomes = all(Outcome.Accept, 3);
        commitVote(0, members[2], outcomes);
        skip(5);
        commitVote(0, members[0], outcomes);
        eqTimes(0, opened + 40, opened + 40, opened + 60, false);
        skip(2);
        commitVote(0, members[1], outcomes);
        eqTimes(0, opened + 40, opened + 7, opened + 27, false);
        revealVote(0, members[1], outcomes);
        skip(19);
        revealVote(0, members[2], outcomes);
        eqTimes(0, opened + 40, opened + 7, opened + 27, false);
        skip(1);
        refuseReveal(members[0], outcomes, closedReveal(opened + 7, opened + 27, opened + 27));
    }

    function test_votes_close_when_all_who_committed_have_revealed() external {
        address[] memory members = audit(0, 3, makeLeaves(0, 3));
        uint256 opened = clock;
        bytes memory outcomes = all(Outcome.Accept, 3);
        commitVote(0, members[0], outcomes);
        commitVote(0, members[2], outcomes);
        skip(43);
        revealVote(0, members[2], outcomes);
        eqTimes(0, opened + 40, opened + 40, opened + 60, false);
        skip(4);
        revealVote(0, members[0], outcomes);
        eqTimes(0, opened + 40, opened + 40, opened + 47, false);
        skip(29);
        refuseFinalize(0, tooEarly(opened + 77, opened + 76));
        skip(1);
        finalize(0);
    }

    function test_A13_copied_commitment_cannot_be_revealed() external {
        address[] memory members = audit(0, 3, makeLeaves(0, 3));
        bytes memory outcomes = all(Outcome.Accept, 3);
        bytes32 commitment = commitmentOf(0, members[0], outcomes);
        commitVote(0, members[0], outcomes);
        for (uint256 i = 1; i < 3; ++i) {
            vm.prank(members[i]);
            panel.commitVote(pool, 0, commitment);
        }
        revealVote(0, members[0], outcomes);
        refuseReveal(
            members[1],
            outcomes,
            abi.encodeWithSelector(
                Ballots.CommitmentMismatch.selector,
                members[1],
                commitment,
                commitmentOf(0, members[1], outcomes)
            )
        );
    }

    function test_A13_reveal_of_anything_but_what_was_committed_is_refused() external {
        address[] memory members = audit(0, 3, makeLeaves(0, 3));
        bytes memory outcomes = all(Outcome.Accept, 3);
        commitVote(0, members[0], outcomes);
        skip(40);
        vm.expectPartialRevert(Ballots.CommitmentMismatch.selector);
        panel.revealVote(pool, 0, members[0], all(Outcome.Reject, 3), VERDICTS, EVIDENCE, SALT);
        vm.expectPartialRevert(Ballots.CommitmentMismatch.selector);
        panel.revealVote(pool, 0, members[0], outcomes, EVIDENCE, EVIDENCE, SALT);
        vm.expectPartialRevert(Ballots.CommitmentMismatch.selector);
        panel.revealVote(pool, 0, members[0], outcomes, VERDICTS, VERDICTS, SALT);
        vm.expectPartialRevert(Ballots.CommitmentMismatch.selector);
        panel.revealVote(pool, 0, members[0], outcomes, VERDICTS, EVIDENCE, "other");
        revealVote(0, members[0], outcomes);
    }

    function test_A13_commitment_of_another_step_cannot_be_revealed() external {
        address[] memory members = audit(0, 3, makeLeaves(0, 3));
        bytes memory outcomes = all(Outcome.Accept, 3);
        bytes32 commitment = commitmentOf(1, members[0], outcomes);
        vm.prank(members[0]);
        panel.commitVote(pool, 0, commitment);
        skip(40);
        refuseReveal(
            members[0],
            outcomes,
            abi.encodeWithSelector(
                Ballots.CommitmentMismatch.selector,
                members[0],
                commitment,
                commitmentOf(0, members[0], outcomes)
            )
        );
    }

    function test_A13_commitment_of_another_pool_cannot_be_revealed() external {
        PoolId first = pool;
        usePool(terms());
        address[] memory members = audit(0, 3, makeLeaves(0, 3));
        bytes memory outcomes = all(Outcome.Accept, 3);
        bytes32 commitment = panel.voteCommitment(first, 0, members[0], outcomes, VERDICTS, EVIDENCE, SALT);
        vm.prank(members[0]);
        panel.commitVote(pool, 0, commitment);
        skip(40);
        refuseReveal(
            members[0],
            outcomes,
            abi.encodeWithSelector(
                Ballots.CommitmentMismatch.selector,
                members[0],
                commitment,
                commitmentOf(0, members[0], outcomes)
            )
        );
    }

    function test_vote_misshapen_is_refused() external {
        address[] memory members = audit(0, 6, makeLeaves(0, 5));
        bytes[4] memory bad = [bytes(hex"55"), hex"550100", hex"5515", hex""];
        bytes32[4] memory commitments;
        for (uint256 i = 0; i < 4; ++i) commitments[i] = commitmentOf(0, members[0], bad[i]);
        vm.prank(members[0]);
        panel.commitVote(pool, 0, commitments[2]);
        skip(40);
        refuseReveal(members[0], bad[0], abi.encodeWithSelector(Outcomes.OutcomesLength.selector, 1, 2));
        refuseReveal(members[0], bad[1], abi.encodeWithSelector(Outcomes.OutcomesLength.selector, 3, 2));
        refuseReveal(members[0], bad[2], abi.encodeWithSelector(Outcomes.OutcomesSpareBits.selector, uint8(0x15)));
        refuseReveal(members[0], bad[3], abi.encodeWithSelector(Outcomes.OutcomesLength.selector, 0, 2));
    }

    function test_vote_covers_the_slots_taken_on_chain() external {
        auditTaken(4, makeLeaves(0, 4), 150);
        address[] memory members = panel.panelOf(pool, 0);
        for (uint256 i = 0; i < 3; ++i) commitVote(0, members[i], ballot("AAAAA"));
        refuseReveal(
            members[0], ballot("AAAA"), abi.encodeWithSelector(Outcomes.OutcomesLength.selector, 1, 2)
        );
        refuseReveal(
            members[0], ballot("AAAAAA"), abi.encodeWithSelector(Outcomes.OutcomesSpareBits.selector, uint8(5))
        );
        revealVote(0, members[0], ballot("AAAAA"));
    }

    /// Whoever commits and reveals, in whatever order and when: times follow from that alone.
    function testFuzz_votes_in_any_order_close_with_the_last(uint256 random, uint8 committing, uint8 revealing)
        external
    {
        address[] memory members = audit(0, 3, makeLeaves(0, 3));
        uint256 opened = clock;
        bytes memory outcomes = all(Outcome.Accept, 3);
        bool[3] memory isIn;
        uint256 committed = 0;
        for (uint256 i = 0; i < 3; ++i) {
            uint256 seat = (random % 3 + (random % 2 == 0 ? i : 3 - i)) % 3;
            skip((random >> (8 + 8 * i)) % 13);
            if ((committing >> seat) & 1 == 0) continue;
            commitVote(0, members[seat], outcomes);
            isIn[seat] = true;
            ++committed;
        }
        uint256 from = committed == 3 ? clock : opened + 40;
        eqTimes(0, opened + 40, from, from + 20, false);
        if (clock < from) {
            if (committed != 0) {
                uint256 one = isIn[0] ? 0 : isIn[1] ? 1 : 2;
                refuseReveal(members[one], outcomes, closedReveal(from, from + 20, clock));
            }
            skip(from - clock);
        }
        uint256 revealed = 0;
        uint256 last = 0;
        for (uint256 i = 0; i < 3; ++i) {
            uint256 seat = ((random >> 40) + (random % 3 == 0 ? i : 3 - i)) % 3;
            skip((random >> (48 + 8 * i)) % 7);
            if (!isIn[seat] || (revealing >> seat) & 1 == 0) continue;
            revealVote(0, members[seat], outcomes);
            last = clock;
            ++revealed;
        }
        uint256 until = revealed == committed && committed != 0 ? last : from + 20;
        eqTimes(0, opened + 40, from, until, false);
        if (clock < until) skip(until - clock);
        if (revealed < 2) {
            bytes memory few = abi.encodeWithSelector(
                IVotingPanel.PanelBelowQuorum.selector, pool, uint32(0), revealed, uint256(2)
            );
            refuseFinalize(0, few);
            panel.redrawPanel(pool, 0);
        } else {
            vm.expectRevert(abi.encodeWithSelector(IVotingPanel.PanelNotRedrawable.selector, pool, uint32(0)));
            panel.redrawPanel(pool, 0);
            if (clock < until + 30) skip(until + 30 - clock);
            finalize(0);
            eq(vault.reservationOf(pool, 0), 0);
        }
    }

    // -- redraw

    /// Member 1 reveals, member 0 commits only, member 2 does nothing.
    function auditSilent() internal returns (address[] memory members) {
        members = audit(0, 3, makeLeaves(0, 3));
        commitVote(0, members[0], all(Outcome.Accept, 3));
        commitVote(0, members[1], all(Outcome.Accept, 3));
        skip(40);
        revealVote(0, members[1], all(Outcome.Accept, 3));
    }

    function expectedRedraw(address[] memory old, uint256 size) internal view returns (address[] memory) {
        StepState memory state = ledger.stepOf(pool, 0);
        bytes32 beacon = keccak256(abi.encode(keccak256("stannary.beacon.redraw.v1"), state.auditBeacon));
        return drawn(state.openedBlock - 1, beacon, size, old);
    }

    function test_redraw_fines_the_silent_and_fills_their_seats() external {
        address[] memory old = auditSilent();
        skip(20);
        address[] memory newcomers = expectedRedraw(old, 2);
        address[] memory seats = some(old[1], newcomers[0], newcomers[1]);
        bytes32 offence = keccak256(abi.encode(SILENCE_TAG, address(panel), pool, uint32(0), old[0]));
        vm.expectEmit();
        emit IVotingPanel.PanelRedrawn(pool, 0, some(old[0], old[2]), seats);
        vm.expectEmit();
        emit IStakeManager.Slashed(pool, Role.Validator, old[0], offence, 100, 10, address(0), 0);
        vm.prank(STRANGER);
        panel.redrawPanel(pool, 0);
        eqList(panel.panelOf(pool, 0), seats);
        eqList(panel.dismissedOf(pool, 0), some(old[0], old[2]));
        eqTimes(0, clock + 40, clock + 40, clock + 60, true);
        eq(stakeOf(old[0]), STAKE - 10);
        eq(stakeOf(old[1]), STAKE);
        eq(stakeOf(old[2]), STAKE - 10);
        require(stakes.isSlashed(offence), "offence");
        eqBallot(old[0], false, false, 0);
        eqBallot(old[1], true, true, keccak256(all(Outcome.Accept, 3)));
        eqBallot(newcomers[0], false, false, 0);
    }

    function test_redraw_ends_in_a_quorum_of_kept_and_new_votes() external {
        address[] memory old = auditSilent();
        skip(20);
        panel.redrawPanel(pool, 0);
        uint256 opened = clock;
        address[] memory members = panel.panelOf(pool, 0);
        refuseCommit(old[0], "x", abi.encodeWithSelector(Ballots.NotMember.selector, old[0]));
        refuseCommit(old[1], "x", abi.encodeWithSelector(Ballots.AlreadyCommitted.selector, old[1]));
        refuseReveal(
            old[0], all(Outcome.Accept, 3), abi.encodeWithSelector(Ballots.NotMember.selector, old[0])
        );
        skip(3);
        commitVote(0, members[2], ballot("AAR"));
        refuseReveal(members[2], ballot("AAR"), closedReveal(opened + 40, opened + 60, opened + 3));
        skip(1);
        commitVote(0, members[1], ballot("ARR"));
        eqTimes(0, opened + 40, opened + 4, opened + 24, true);
        refuseReveal(
            old[1], all(Outcome.Accept, 3), abi.encodeWithSelector(Ballots.AlreadyRevealed.selector, old[1])
        );
        revealVote(0, members[1], ballot("ARR"));
        skip(2);
        revealVote(0, members[2], ballot("AAR"));
        eqTimes(0, opened + 40, opened + 4, opened + 6, true);
        vm.expectRevert(abi.encodeWithSelector(IVotingPanel.PanelNotRedrawable.selector, pool, uint32(0)));
        panel.redrawPanel(pool, 0);
        skip(30);
        vm.expectEmit();
        emit IVotingPanel.StepFinalized(pool, 0, ballot("AAR"), 2, 1, 0, 0);
        finalize(0);
        for (uint256 i = 0; i < 3; ++i) eq(earned(members[i]), PANEL_FEE);
        eq(earned(old[0]) + earned(old[2]), 0);
        eq(stakeOf(old[0]), STAKE - 10); // fined once
        eq(stakeOf(members[1]), STAKE);
        eq(vault.reservationOf(pool, 0), 0);
    }

    function test_redraw_before_the_votes_are_over_is_refused() external {
        auditSilent();
        skip(19);
        vm.expectRevert(tooEarly(clock + 1, clock));
        panel.redrawPanel(pool, 0);
        skip(1);
        panel.redrawPanel(pool, 0);
    }

    function test_redraw_of_a_silent_panel_replaces_all() external {
        address[] memory old = audit(0, 3, makeLeaves(0, 3));
        skip(60);
        address[] memory expected = expectedRedraw(old, 3);
        panel.redrawPanel(pool, 0);
        eqList(panel.panelOf(pool, 0), expected);
        for (uint256 i = 0; i < 3; ++i) {
            eq(stakeOf(old[i]), STAKE - 10);
            for (uint256 j = 0; j < 3; ++j) require(expected[i] != old[j], "drawn again");
        }
        commitVote(0, expected[0], ballot("AAA"));
        eqBallot(expected[0], true, false, commitmentOf(0, expected[0], ballot("AAA")));
        eqBallot(expected[1], false, false, 0);
    }

    function test_redraw_with_a_quorum_is_refused() external {
        address[] memory members = audit(0, 3, makeLeaves(0, 3));
        vote(0, three(all(Outcome.Accept, 3), all(Outcome.Accept, 3), ""));
        vm.expectRevert(abi.encodeWithSelector(IVotingPanel.PanelNotRedrawable.selector, pool, uint32(0)));
        panel.redrawPanel(pool, 0);
        eq(stakeOf(members[2]), STAKE);
        eq(panel.dismissedOf(pool, 0).length, 0);
    }

    function test_redraw_twice_is_refused_and_the_step_finalized_without_quorum() external {
        address[] memory old = auditSilent();
        skip(20);
        panel.redrawPanel(pool, 0);
        address[] memory members = panel.panelOf(pool, 0);
        skip(60);
        vm.expectRevert(abi.encodeWithSelector(IVotingPanel.PanelNotRedrawable.selector, pool, uint32(0)));
        panel.redrawPanel(pool, 0);
        skip(29);
        refuseFinalize(0, tooEarly(clock + 1, clock));
        skip(1);
        vm.expectEmit();
        emit IVotingPanel.StepFinalized(pool, 0, ballot("---"), 0, 0, 0, 0);
        finalize(0);
        eq(stakeOf(old[0]), STAKE - 10);
        eq(stakeOf(old[1]), STAKE);
        eq(stakeOf(members[1]), STAKE - 10);
        eq(stakeOf(members[2]), STAKE - 10);
        eq(earned(old[1]), PANEL_FEE);
        eq(earned(members[1]) + earned(members[2]), 0);
        eqEscrow(FUNDS - 3 * SLOT - PANEL_FEE - 2 * SEAL_FEE, 0, 3 * SLOT);
    }

    function test_redraw_without_quorum_before_it_is_refused_to_finalize() external {
        auditSilent();
        skip(20 + 30);
        refuseFinalize(
            0,
            abi.encodeWithSelector(
                IVotingPanel.PanelBelowQuorum.selector, pool, uint32(0), uint256(1), uint256(2)
            )
        );
    }

    function test_redraw_with_few_candidates_seats_those_there_are() external {
        address[] memory old = useScarcePool();
        skip(60);
        panel.redrawPanel(pool, 0);
        uint256 opened = clock;
        address[] memory members = panel.panelOf(pool, 0);
        eq(members.length, 1);
        for (uint256 i = 0; i < 3; ++i) require(members[0] != old[i], "drawn again");
        commitVote(0, members[0], ballot("AAA"));
        eqTimes(0, opened + 40, opened, opened + 20, true);
        revealVote(0, members[0], ballot("AAA"));
        eqTimes(0, opened + 40, opened, opened, true);
        skip(30);
        finalize(0);
        eqEscrow(FUNDS - 3 * SLOT - PANEL_FEE - 2 * SEAL_FEE, 0, 3 * SLOT); // one vote is no quorum
    }

    /// A pool whose four validators fill a panel of three and a jury of one; a step before its panel.
    function useScarcePool() internal returns (address[] memory) {
        PoolTerms memory t = terms();
        t.panel.jurySize = 1;
        t.faults.maxSlashBps = 10_000;
        pool = createPool(t);
        fund(pool, FUNDS);
        for (uint256 i = 0; i < 4; ++i) enter(validators[i], Role.Validator, STAKE);
        for (uint256 i = 0; i < 3; ++i) enter(workers[i], Role.Worker, STAKE);
        mine(1);
        seed(0, 3);
        commit(0, 3, makeLeaves(0, 3));
        draw(0);
        return panel.panelOf(pool, 0);
    }

    /// The one who was not drawn leaves the list to newcomers.
    function unlistTheLast(address[] memory members) internal {
        address last;
        for (uint256 i = 0; i < 4; ++i) {
            if (validators[i] != members[0] && validators[i] != members[1] && validators[i] != members[2]) {
                last = validators[i];
            }
        }
        vm.prank(address(court));
        stakes.slash(pool, Role.Validator, last, 10_000, "ruin", address(0), 0);
        for (uint160 i = 0; i < 61; ++i) enter(address(0x1000 + i), Role.Validator, STAKE);
        mine(1);
        address[] memory listed = stakes.validatorsOf(pool);
        for (uint256 i = 0; i < listed.length; ++i) require(listed[i] != last, "still listed");
    }

    function test_redraw_without_candidates_closes_an_empty_panel() external {
        address[] memory old = useScarcePool();
        unlistTheLast(old);
        skip(60);
        vm.expectEmit();
        emit IVotingPanel.PanelRedrawn(pool, 0, old, new address[](0));
        panel.redrawPanel(pool, 0);
        eq(panel.panelOf(pool, 0).length, 0);
        (, uint64 from, uint64 until, bool wasRedrawn) = panel.panelTimesOf(pool, 0);
        eq(from, clock);
        eq(until, clock);
        require(wasRedrawn, "wasRedrawn");
        skip(29);
        refuseFinalize(0, tooEarly(clock + 1, clock));
        skip(1);
        finalize(0);
        eqEscrow(FUNDS - 3 * SLOT - 2 * SEAL_FEE, 0, 3 * SLOT);
        for (uint256 i = 0; i < 3; ++i) eq(stakeOf(old[i]), STAKE - 10);
    }

    function test_redraw_without_candidates_keeps_who_revealed() external {
        address[] memory old = useScarcePool();
        unlistTheLast(old);
        commitVote(0, old[2], ballot("AAA"));
        skip(40);
        revealVote(0, old[2], ballot("AAA"));
        panel.redrawPanel(pool, 0);
        eqList(panel.panelOf(pool, 0), some(old[2]));
        eqList(panel.dismissedOf(pool, 0), some(old[0], old[1]));
        skip(30);
        finalize(0);
        eq(earned(old[2]), PANEL_FEE);
        eqEscrow(FUNDS - 3 * SLOT - PANEL_FEE - 2 * SEAL_FEE, 0, 3 * SLOT);
    }

    /// Eligible when the step was opened, but not a block before.
    function test_panel_without_candidates_is_redrawn_in_vain_and_settled() external {
        pool = createPool(terms());
        fund(pool, FUNDS);
        for (uint256 i = 0; i < validators.length; ++i) enter(validators[i], Role.Validator, STAKE);
        seed(0, 3);
        commit(0, 3, makeLeaves(0, 3));
        draw(0);
        eq(panel.panelOf(pool, 0).length, 0);
        (, uint64 from, uint64 until, bool wasRedrawn) = panel.panelTimesOf(pool, 0);
        eq(from, clock);
        eq(until, clock);
        require(!wasRedrawn, "wasRedrawn");
        refuseCommit(validators[0], "x", abi.encodeWithSelector(Ballots.NotMember.selector, validators[0]));
        refuseFinalize(
            0,
            abi.encodeWithSelector(
                IVotingPanel.PanelBelowQuorum.selector, pool, uint32(0), uint256(0), uint256(2)
            )
        );
        panel.redrawPanel(pool, 0);
        skip(30);
        finalize(0);
        eqEscrow(FUNDS - 6 - 3 * SLOT, 0, 3 * SLOT);
    }

    // -- finalizing: who may, when, with what

    function test_L1_finalize_twice_is_refused() external {
        address[] memory members = audit(0, 3, makeLeaves(0, 3));
        uint256 opened = clock;
        for (uint256 i = 0; i < 3; ++i) commitVote(0, members[i], ballot("AAA"));
        for (uint256 i = 0; i < 2; ++i) revealVote(0, members[i], ballot("AAA"));
        skip(20 + 30);
        finalize(0);
        refuseFinalize(0, wrongPhase(Phase.Finalized, Phase.Audited));
        vm.expectRevert(wrongPhase(Phase.Finalized, Phase.Audited));
        panel.redrawPanel(pool, 0);
        // Nor does a vote change any more.
        refuseCommit(members[2], "x", abi.encodeWithSelector(Ballots.AlreadyCommitted.selector, members[2]));
        refuseReveal(members[2], ballot("AAA"), closedReveal(opened, opened + 20, clock));
    }

    function test_finalize_before_the_challenge_window_ends_is_refused() external {
        audit(0, 3, makeLeaves(0, 3));
        refuseFinalize(0, tooEarly(clock + 60, clock));
        voteAll(0, all(Outcome.Accept, 3));
        uint256 closed = clock;
        refuseFinalize(0, tooEarly(closed + 30, closed));
        skip(29);
        refuseFinalize(0, tooEarly(closed + 30, closed + 29));
        skip(1);
        finalize(0);
        StepState memory state = ledger.stepOf(pool, 0);
        eq(state.phase, Phase.Finalized);
        eq(state.finalizedAt, closed + 30);
        eq(state.settlementHash, keccak256(all(Outcome.Accept, 3)));
    }

    function test_finalize_with_a_silent_member_waits_for_the_reveals() external {
        audit(0, 3, makeLeaves(0, 3));
        uint256 opened = clock;
        address[] memory members = panel.panelOf(pool, 0);
        for (uint256 i = 0; i < 3; ++i) commitVote(0, members[i], all(Outcome.Accept, 3));
        revealVote(0, members[0], all(Outcome.Accept, 3));
        revealVote(0, members[2], all(Outcome.Accept, 3));
        skip(49);
        refuseFinalize(0, tooEarly(opened + 50, opened + 49));
        skip(1);
        bytes32 offence = keccak256(abi.encode(SILENCE_TAG, address(panel), pool, uint32(0), members[1]));
        vm.expectEmit();
        emit IStakeManager.Slashed(pool, Role.Validator, members[1], offence, 100, 10, address(0), 0);
        finalize(0);
        eq(stakeOf(members[0]), STAKE);
        eq(stakeOf(members[1]), STAKE - 10);
        eq(stakeOf(members[2]), STAKE);
        eq(stakes.burnable(), 10);
        eq(earned(members[0]), PANEL_FEE);
        eq(earned(members[1]), 0);
        eq(earned(members[2]), PANEL_FEE);
        eq(absencesOf(members[1]), 0);
        eqEscrow(FUNDS - 1_200 - 2 * PANEL_FEE - 2 * SEAL_FEE, 0, 0);
    }

    function test_L7_steps_settle_in_order() external {
        audit(0, 3, makeLeaves(0, 3));
        voteAll(0, all(Outcome.Accept, 3));
        audit(1, 3, makeLeaves(1, 3));
        voteAll(1, all(Outcome.Accept, 3));
        skip(30);
        refuseFinalize(
            1, abi.encodeWithSelector(ISubmissionLedger.EarlierStepUnsettled.selector, pool, uint32(1), uint32(0))
        );
        finalize(0);
        finalize(1);
        eq(ledger.settledCountOf(pool), 2);
    }

    function test_finalize_with_other_votes_is_refused() external {
        audit(0, 3, makeLeaves(0, 3));
        vote(0, three(ballot("AAA"), ballot("AAR"), ""));
        skip(30);
        PayTable memory table = tableOf(0);
        bytes[] memory votes = new bytes[](2);
        (votes[0], votes[1]) = (ballot("AAA"), ballot("AAR"));
        refuseVotes(votes, table, 2);
        bytes[] memory four = new bytes[](4);
        (four[0], four[1]) = (ballot("AAA"), ballot("AAR"));
        refuseVotes(four, table, 4);
        refuseVotes(three(ballot("AAR"), ballot("AAA"), ""), table, 0);
        refuseVotes(three("", ballot("AAR"), ""), table, 0);
        refuseVotes(three(ballot("AAA"), ballot("AAA"), ""), table, 1);
        refuseVotes(three(ballot("AAA"), ballot("AAR"), ballot("AAA")), table, 2);
        refuseVotes(three(ballot("AAA"), ballot("AAR"), hex"00"), table, 2);
        finalize(0);
    }

    function refuseVotes(bytes[] memory votes, PayTable memory table, uint256 seat) internal {
        vm.expectRevert(mismatch(seat));
        panel.finalize(pool, 0, votes, table);
    }

    function test_finalize_with_another_pay_table_is_refused() external {
        audit(0, 3, makeLeaves(0, 3));
        voteAll(0, all(Outcome.Accept, 3));
        skip(30);
        bytes[] memory votes = votesOf(0);
        bytes32 committed = keccak256(abi.encode(tableOf(0)));
        eq(ledger.stepOf(pool, 0).settlementHash, committed);
        for (uint256 i = 0; i < 5; ++i) {
            PayTable memory table = tableOf(0);
            if (i == 4) table.totals[0] += 1;
            if (i == 0) table.words[0] += 1 << 16;
            if (i == 1) table.providers[0] = STRANGER;
            if (i == 2) (table.providers[0], table.providers[1]) = (workers[1], workers[0]);
            if (i == 3) table.words = new uint256[](2);
            vm.expectRevert(
                abi.encodeWithSelector(
                    IVotingPanel.PayTableMismatch.selector, keccak256(abi.encode(table)), committed
                )
            );
            panel.finalize(pool, 0, votes, table);
        }
        panel.finalize(pool, 0, votes, tableOf(0));
    }

    function test_finalize_of_a_paused_pool_waits() external {
        audit(0, 3, makeLeaves(0, 3));
        voteAll(0, all(Outcome.Accept, 3));
        uint256 closed = clock;
        vm.prank(PAUSER);
        registry.pause(pool);
        skip(500);
        refuseFinalize(0, tooEarly(closed + 30, closed));
        vm.prank(UNPAUSER);
        registry.unpause(pool);
        skip(30);
        finalize(0);
    }

    function test_step_in_flight_of_a_closed_pool_is_finalized() external {
        audit(0, 3, makeLeaves(0, 3));
        vm.prank(OWNER);
        registry.closePool(pool);
        voteAll(0, all(Outcome.Accept, 3));
        skip(30);
        finalize(0);
        eq(earned(workers[0]), 400);
    }

    // -- finalizing: what the votes decide

    function test_L8_outcome_follows_the_quorum() external {
        Submission[] memory leaves = makeLeaves(0, 6);
        address[] memory members = audit(0, 8, leaves);
        vote(0, three(ballot("AARFF-A-"), ballot("ARFFA-A-"), ballot("R-AARAA-")));
        skip(30);
        bytes memory outcomes = ballot("A-RFR-A-");
        vm.expectEmit();
        emit IVotingPanel.StepFinalized(pool, 0, outcomes, 2, 2, 1, 0);
        finalize(0);
        Outcome[8] memory expected = [
            Outcome.Accept,
            Outcome.Abstain,
            Outcome.Reject,
            Outcome.Fault,
            Outcome.Reject,
            Outcome.Abstain,
            Outcome.Accept,
            Outcome.Abstain
        ];
        for (uint32 slot = 0; slot < 8; ++slot) eq(panel.outcomeAt(pool, 0, slot, outcomes), expected[slot]);
        for (uint256 i = 0; i < 3; ++i) eq(absencesOf(members[i]), 0);
    }

    function test_L8_outcome_of_a_full_quorum_needs_all() external {
        PoolTerms memory t = terms();
        t.panel.quorum = 3;
        usePool(t);
        audit(0, 3, makeLeaves(0, 3));
        vote(0, three(ballot("AAR"), ballot("AAF"), ballot("AFR")));
        skip(30);
        vm.expectEmit();
        emit IVotingPanel.StepFinalized(pool, 0, ballot("A-R"), 1, 1, 0, 0);
        finalize(0);
        eqEscrow(FUNDS - 400 - 90 - 6 - 2 * SLOT, 0, 2 * SLOT);
    }

    function test_L8_quorum_of_three_with_one_silent_needs_a_redraw() external {
        PoolTerms memory t = terms();
        t.panel.quorum = 3;
        usePool(t);
        address[] memory members = audit(0, 3, makeLeaves(0, 3));
        vote(0, three(ballot("AAA"), "", ballot("AAR")));
        refuseFinalize(
            0,
            abi.encodeWithSelector(
                IVotingPanel.PanelBelowQuorum.selector, pool, uint32(0), uint256(2), uint256(3)
            )
        );
        panel.redrawPanel(pool, 0);
        address[] memory seats = panel.panelOf(pool, 0);
        eqList(seats, some(members[0], members[2], seats[2]));
        require(seats[2] != members[1], "drawn again");
        commitVote(0, seats[2], ballot("AAA"));
        revealVote(0, seats[2], ballot("AAA"));
        skip(30);
        vm.expectEmit();
        emit IVotingPanel.StepFinalized(pool, 0, ballot("AA-"), 2, 0, 0, 0);
        finalize(0);
    }

    function test_outcome_before_finalizing_or_beyond_the_slots_is_refused() external {
        audit(0, 6, makeLeaves(0, 4));
        voteAll(0, mixed());
        vm.expectRevert(wrongPhase(Phase.Audited, Phase.Finalized));
        panel.outcomeAt(pool, 0, 0, mixed());
        skip(30);
        finalize(0);
        eq(panel.outcomeAt(pool, 0, 5, mixed()), Outcome.Abstain);
        vm.expectRevert(abi.encodeWithSelector(IVotingPanel.SlotOutOfRange.selector, uint32(6), uint32(6)));
        panel.outcomeAt(pool, 0, 6, mixed());
        vm.expectRevert(abi.encodeWithSelector(IVotingPanel.SlotOutOfRange.selector, uint32(7), uint32(6)));
        panel.outcomeAt(pool, 0, 7, mixed());
        bytes memory other = ballot("AAAA--");
        vm.expectRevert(
            abi.encodeWithSelector(
                IVotingPanel.OutcomesMismatch.selector, keccak256(other), keccak256(mixed())
            )
        );
        panel.outcomeAt(pool, 0, 0, other);
    }

    function test_ballots_of_a_slot_are_two_bits_a_seat() external {
        audit(0, 6, makeLeaves(0, 4));
        vote(0, three(ballot("ARFA--"), "", ballot("FA-R--")));
        bytes[] memory votes = votesOf(0);
        eq(panel.ballotsAt(pool, 0, 0, votes), 1 | (3 << 4));
        eq(panel.ballotsAt(pool, 0, 1, votes), 2 | (1 << 4));
        eq(panel.ballotsAt(pool, 0, 2, votes), 3);
        eq(panel.ballotsAt(pool, 0, 3, votes), 1 | (2 << 4));
        eq(panel.ballotsAt(pool, 0, 5, votes), 0);
        votes[1] = ballot("AAAAAA");
        vm.expectRevert(mismatch(1));
        panel.ballotsAt(pool, 0, 0, votes);
    }

    // -- finalizing: absences

    function runAbsent(string memory others, string memory third) internal returns (address member) {
        uint32 step = ledger.stepCountOf(pool);
        uint32 slots = uint32(bytes(others).length);
        member = audit(step, slots, makeLeaves(step, slots))[2];
        vote(step, three(ballot(others), ballot(others), ballot(third)));
        skip(30);
        finalize(step);
    }

    function test_absence_is_abstaining_on_more_than_half_of_what_is_decided() external {
        eq(absencesOf(runAbsent("ARFF", "AR--")), 0);
        usePool(terms());
        eq(absencesOf(runAbsent("ARFF", "A---")), 1);
        usePool(terms());
        eq(absencesOf(runAbsent("AAA", "A--")), 1);
        usePool(terms());
        eq(absencesOf(runAbsent("AAA", "RA-")), 0);
        usePool(terms());
        eq(absencesOf(runAbsent("A-----", "-AAAAA")), 1); // what is not decided does not count
        usePool(terms());
        eq(absencesOf(runAbsent("------", "------")), 0);
    }

    function test_absence_is_that_of_the_seat_that_abstained() external {
        PoolTerms memory t = terms();
        t.panel.panelSize = 5;
        t.panel.quorum = 3;
        usePool(t);
        address[] memory members = audit(0, 3, makeLeaves(0, 3));
        bytes[] memory votes = new bytes[](5);
        (votes[1], votes[2], votes[4]) = (ballot("AAA"), ballot("AAA"), ballot("AAA"));
        votes[3] = ballot("--A");
        vote(0, votes);
        skip(30);
        vm.expectEmit();
        emit IStakeManager.AbsenceRecorded(pool, members[3], 1);
        finalize(0);
        for (uint256 i = 0; i < 5; ++i) eq(absencesOf(members[i]), i == 3 ? 1 : 0);
        eq(earned(members[3]), PANEL_FEE);
        eq(earned(members[0]), 0);
        eq(stakeOf(members[0]), STAKE - 10);
    }

    function test_absence_at_the_limit_suspends() external {
        PoolTerms memory t = terms();
        t.panel.maxAbsences = 1;
        usePool(t);
        address member = runAbsent("AAA", "---");
        eq(stakes.activeStakeOf(pool, Role.Validator, member), 0);
        eq(stakeOf(member), STAKE);
    }

    // -- finalizing: money

    function test_V3_mixed_step_pays_locks_and_releases() external {
        Submission[] memory leaves = makeLeaves(0, 4);
        audit(0, 6, leaves);
        eqEscrow(FUNDS - stepCost(6), stepCost(6) - 2 * SEAL_FEE, 0);
        voteAll(0, mixed());
        skip(30);
        address[] memory members = panel.panelOf(pool, 0);
        address[] memory paid = new address[](6);
        uint256[] memory amounts = new uint256[](6);
        for (uint256 i = 0; i < 3; ++i) {
            (paid[i], paid[3 + i]) = (workers[i], members[i]);
            amounts[3 + i] = PANEL_FEE;
        }
        amounts[0] = 400;
        vm.expectEmit();
        emit IVotingPanel.StepFinalized(pool, 0, mixed(), 1, 1, 1, 0);
        vm.expectEmit();
        emit IPayoutVault.Settled(pool, 0, paid, amounts);
        vm.expectEmit();
        emit IPayoutVault.Released(pool, 0, stepCost(6) - 6 - 400 - 90 - 3 * SLOT, 3 * SLOT);
        finalize(0);
        eqEscrow(FUNDS - 3 * SLOT - 400 - 90 - 6, 0, 3 * SLOT);
        eqOwed(0, 496);
        eq(earned(workers[0]), 400);
        eq(earned(workers[1]) + earned(workers[2]), 0);
        for (uint256 i = 0; i < 3; ++i) eq(earned(members[i]), PANEL_FEE);
    }

    function test_V6_fee_is_paid_to_who_revealed_whatever_it_voted() external {
        address[] memory members = audit(0, 3, makeLeaves(0, 3));
        vote(0, three(ballot("AAA"), ballot("AAA"), ballot("RRR")));
        skip(30);
        finalize(0);
        for (uint256 i = 0; i < 3; ++i) eq(earned(members[i]), PANEL_FEE);
    }

    function test_V3_units_are_paid_up_to_the_cap() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        leaves[0].units = type(uint32).max;
        leaves[1].units = 201;
        leaves[2].units = 200;
        run(0, 3, leaves, all(Outcome.Accept, 3));
        for (uint256 i = 0; i < 3; ++i) eq(earned(workers[i]), 500);
        eqEscrow(FUNDS - 1_500 - 96, 0, 0);
    }

    function test_V3_units_below_the_cap_are_paid_one_by_one() external {
        Submission[] memory leaves = makeLeaves(0, 6);
        (leaves[0].units, leaves[1].units) = (0, 0);
        (leaves[2].units, leaves[3].units) = (199, 1);
        (leaves[4].units, leaves[5].units) = (400, 1); // no group lends its cap to another
        run(0, 6, leaves, all(Outcome.Accept, 6));
        eq(earned(workers[0]), 200);
        eq(earned(workers[1]), 600);
        eq(earned(workers[2]), 602);
        eqEscrow(FUNDS - 1_402 - 96, 0, 0);
    }

    function test_V3_table_of_units_beyond_all_caps_pays_the_caps() external {
        Submission[] memory leaves = makeLeaves(0, 6);
        PayTable memory table = tableFor(6, leaves);
        table.totals[0] = (2 << 128) + 401;
        table.totals[1] = (2 << 128) + type(uint128).max;
        table.totals[2] = (2 << 128) + 400;
        runTable(6, leaves, table, "AAAAAA");
        for (uint256 i = 0; i < 3; ++i) eq(earned(workers[i]), 1_000);
        eqEscrow(FUNDS - 3_000 - 96, 0, 0);
    }

    function test_V3_units_of_leaves_not_accepted_do_not_count() external {
        Submission[] memory leaves = makeLeaves(0, 6);
        (leaves[0].units, leaves[1].units) = (7, 150);
        (leaves[2].units, leaves[3].units) = (type(uint32).max, 11);
        run(0, 6, leaves, ballot("ARFA-R"));
        eq(earned(workers[0]), 114);
        eq(earned(workers[1]), 122);
        eq(earned(workers[2]), 0);
        eqEscrow(FUNDS - 236 - 96 - 4 * SLOT, 0, 4 * SLOT);
    }

    function test_V3_empty_slot_is_released_whatever_the_panel_says() external {
        Submission[] memory leaves = makeLeaves(0, 1);
        run(0, 4, leaves, ballot("AAFR"));
        eq(earned(workers[0]), 400);
        eqEscrow(FUNDS - 400 - 96, 0, 0);
    }

    /// Two accepted entries of providers that the table does not name.
    function placesOutOfRange(Submission[] memory leaves) internal view returns (PayTable memory table) {
        table = tableFor(3, leaves);
        table.words[0] = 4 | (150 << 16) | (0xffff << 48) | (uint256(3 | (150 << 16)) << 96);
        (table.totals[0], table.totals[1]) = (0, 0);
    }

    function test_V3_table_entry_of_a_place_out_of_range_pays_nobody() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        runTable(3, leaves, placesOutOfRange(leaves), "AAA");
        eq(earned(workers[0]) + earned(workers[1]), 0);
        eq(earned(workers[2]), 400);
        eqEscrow(FUNDS - 400 - 96, 0, 0);
    }

    function test_V3_table_entry_of_a_place_out_of_range_that_is_not_accepted_locks_all() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        runTable(3, leaves, placesOutOfRange(leaves), "RAA");
        eqOwed(0, 96);
        eqEscrow(FUNDS - 96 - 3 * SLOT, 0, 3 * SLOT);
    }

    function test_V3_table_entry_of_the_last_place_is_taken_off() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        runTable(3, leaves, placesOutOfRange(leaves), "AAR");
        eqOwed(0, 96);
        eqEscrow(FUNDS - 96 - SLOT, 0, SLOT);
    }

    function test_V3_table_of_more_groups_than_were_accepted_locks_all() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        PayTable memory table = tableFor(4, leaves);
        table.totals[1] += 1 << 128;
        runTable(4, leaves, table, "AAA-");
        eqOwed(0, 96);
        eqEscrow(FUNDS - 96 - 4 * SLOT, 0, 4 * SLOT);
    }

    function test_V3_table_of_as_many_groups_as_were_accepted_pays_its_totals() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        PayTable memory table = tableFor(4, leaves);
        table.totals[1] += (1 << 128) + 10;
        runTable(4, leaves, table, "AAAA");
        eq(earned(workers[0]), 400);
        eq(earned(workers[1]), 520);
        eq(earned(workers[2]), 400);
        eqEscrow(FUNDS - 96 - 1_320, 0, 0);
    }

    function test_V3_table_of_fewer_groups_than_were_refused_locks_all() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        PayTable memory table = tableFor(3, leaves);
        table.totals[1] = (1 << 128) - 1; // units alone
        runTable(3, leaves, table, "ARA");
        eqOwed(0, 96);
        eqEscrow(FUNDS - 96 - 3 * SLOT, 0, 3 * SLOT);
    }

    function test_V3_table_of_fewer_units_than_were_refused_locks_all() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        PayTable memory table = tableFor(3, leaves);
        table.totals[1] -= 1;
        runTable(3, leaves, table, "ARA");
        eqOwed(0, 96);
        eqEscrow(FUNDS - 96 - 3 * SLOT, 0, 3 * SLOT);
    }

    function test_V3_table_of_units_without_a_group_pays_nothing() external {
        Submission[] memory leaves = makeLeaves(0, 2); // of workers 0 and 1
        PayTable memory table = tableFor(3, leaves);
        table.totals[2] = type(uint128).max;
        runTable(3, leaves, table, "AAA");
        eq(earned(workers[0]), 400);
        eq(earned(workers[2]), 0);
        eqEscrow(FUNDS - 96 - 800, 0, 0);
    }

    function test_V3_table_of_absurd_totals_does_not_stop_the_step() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        PayTable memory table = tableFor(3, leaves);
        for (uint256 i = 0; i < 3; ++i) table.totals[i] = type(uint256).max;
        runTable(3, leaves, table, "A-A");
        eqOwed(0, 96);
        eqEscrow(FUNDS - 96 - 3 * SLOT, 0, 3 * SLOT);
    }

    function test_V3_table_that_is_false_does_not_harm_a_taken_slot() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        PayTable memory table = tableFor(3, leaves);
        table.totals[2] = 0;
        enlist(0);
        enlist(1);
        seed(0, 3);
        take(0, 0);
        take(0, 1);
        mine(3);
        deliver(0, 3, 0, 50);
        deliver(0, 4, 1, 50);
        commitAs(0, Trees.root(wordsOf(3, leaves)), table);
        draw(0);
        voteAll(0, ballot("AARAR"));
        hold(0, opening(3, leaves, 1));
        skip(30);
        finalize(0);
        eq(earned(workers[0]), SLOT + 200);
        eq(earned(workers[1]), SLOT);
        eq(vault.reservationOf(pool, 0), SLOT + JURY);
        // Two slots of the table that nobody disputes, and the taken one that was rejected.
        eqEscrow(FUNDS - 96 - 200 - SLOT - JURY - 3 * SLOT, SLOT + JURY, 3 * SLOT);
    }

    function test_V3_whole_word_of_accepted_slots_counts_only_slots_of_the_table() external {
        enlist(1);
        enlist(2);
        Submission[] memory leaves = makeLeaves(0, 1);
        PayTable memory table = tableFor(126, leaves);
        table.totals[0] = 127 << 128; // one more than there are slots
        seed(0, 126);
        take(0, 1);
        take(0, 2);
        mine(3);
        deliver(0, 126, 1, 0);
        deliver(0, 127, 2, 0);
        commitAs(0, Trees.root(wordsOf(126, leaves)), table);
        draw(0);
        voteAll(0, all(Outcome.Accept, 128));
        skip(30);
        finalize(0);
        eq(earned(workers[0]), 0);
        eq(earned(workers[1]), SLOT + 100);
        eqEscrow(FUNDS - 96 - 200 - 126 * SLOT, 0, 126 * SLOT);
    }

    function test_V3_whole_word_of_accepted_slots_is_paid_by_its_totals() external {
        PoolTerms memory t = terms();
        t.work.payCapBps = type(uint32).max;
        usePool(t);
        Submission[] memory leaves = makeLeaves(0, 150);
        PayTable memory table = tableFor(150, leaves);
        Outcome[] memory outcomes = new Outcome[](150);
        for (uint256 i = 0; i < 150; ++i) outcomes[i] = i < 128 || i == 149 ? Outcome.Accept : Outcome.Reject;
        auditTable(0, 150, leaves, table);
        voteAll(0, pack(outcomes));
        skip(30);
        finalize(0);
        eq(earned(workers[0]), 50 * 400);
        eq(earned(workers[1]), 50 * 400);
        eq(earned(workers[2]), 29 * 400);
        eqEscrow(FUNDS - 96 - 129 * 400 - 21 * SLOT, 0, 21 * SLOT);
    }

    function test_V3_table_entries_beyond_the_slots_pay_nothing() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        PayTable memory table = tableFor(3, leaves);
        table.words[0] |= (uint256(1 | (200 << 16)) << 144) | (uint256(2 | (200 << 16)) << 192);
        table.words[0] |= uint256(0xffff) << 240; // above the last entry
        runTable(3, leaves, table, "AAR");
        for (uint256 i = 0; i < 2; ++i) eq(earned(workers[i]), 400);
        eqEscrow(FUNDS - 800 - 96 - SLOT, 0, SLOT);
    }

    function test_V3_table_that_names_a_provider_twice_pays_each_entry_once() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        PayTable memory table = tableFor(3, leaves);
        table.providers[1] = workers[0];
        runTable(3, leaves, table, "AAA");
        eq(earned(workers[0]), 800);
        eq(earned(workers[1]), 0);
        eq(earned(workers[2]), 400);
        eqEscrow(FUNDS - 1_200 - 96, 0, 0);
    }

    function test_V3_table_that_names_who_has_no_stake_pays_it_nothing() external {
        Submission[] memory leaves = makeLeaves(0, 4);
        PayTable memory table = tableFor(4, leaves);
        table.providers[0] = address(0);
        table.providers[1] = STRANGER;
        table.providers[2] = validators[0]; // its stake is no worker's
        runTable(4, leaves, table, "AAAA");
        eq(earned(address(0)) + earned(STRANGER), 0);
        eqEscrow(FUNDS - 96 - 1_600, 0, 1_600); // the released part is what the slots did not cost
        eqOwed(0, 96);
    }

    function test_pay_of_a_step_is_capped_by_the_stake_before_it() external {
        PoolTerms memory t = terms();
        t.work.payCapBps = 4_000;
        usePool(t);
        enter(workers[1], Role.Worker, 1); // one wei short of a cap of 400.8
        enter(workers[2], Role.Worker, 1_000);
        mine(1);
        open(0, 6);
        enter(workers[0], Role.Worker, 1_000_000); // too late
        mine(3);
        ledger.sealSeedBeacon(pool, 0);
        commit(0, 6, makeLeaves(0, 6));
        draw(0);
        voteAll(0, all(Outcome.Accept, 6));
        skip(30);
        finalize(0);
        eq(earned(workers[0]), 400); // of 800, by a stake of 1000
        eq(earned(workers[1]), 400); // 1001 · 0.4, rounded down
        eq(earned(workers[2]), 800); // exactly its cap
        eqEscrow(FUNDS - 1_600 - 96 - 800, 0, 800);
    }

    function test_pay_of_who_left_before_the_step_is_nothing() external {
        startExit(workers[0], Role.Worker, STAKE);
        startExit(workers[1], Role.Worker, STAKE - 100); // the rest is the minimum
        mine(1);
        run(0, 3, makeLeaves(0, 3), all(Outcome.Accept, 3));
        eq(earned(workers[0]), 0);
        eq(earned(workers[1]), 400);
        eqEscrow(FUNDS - 800 - 96 - 400, 0, 400);
    }

    function test_leaves_of_several_words_are_settled_alike() external {
        uint32 slots = 131;
        Submission[] memory leaves = makeLeaves(0, slots);
        Outcome[] memory outcomes = new Outcome[](slots);
        for (uint256 i = 0; i < slots; ++i) outcomes[i] = i % 2 == 0 ? Outcome.Accept : Outcome.Reject;
        (outcomes[127], outcomes[128], outcomes[130]) = (Outcome.Fault, Outcome.Accept, Outcome.Abstain);
        PoolTerms memory t = terms();
        t.work.payCapBps = type(uint32).max;
        usePool(t);
        for (uint256 i = 0; i < slots; ++i) leaves[i].pool = pool;
        audit(0, slots, leaves);
        voteAll(0, pack(outcomes));
        skip(30);
        vm.expectEmit();
        emit IVotingPanel.StepFinalized(pool, 0, pack(outcomes), 65, 64, 1, 0);
        finalize(0);
        eq(earned(workers[0]), 22 * 400); // 0 … 43
        eq(earned(workers[1]), 22 * 400); // 44 … 87
        eq(earned(workers[2]), 21 * 400); // 88 … 130, but the last
        eqEscrow(FUNDS - 65 * 400 - 96 - 66 * SLOT, 0, 66 * SLOT);
    }

    function test_taken_slot_of_the_second_word_is_settled() external {
        enlist(0);
        Submission[] memory leaves = makeLeaves(0, 3);
        seed(0, 128);
        take(0, 0);
        mine(3);
        deliver(0, 128, 0, 50);
        commit(0, 128, leaves);
        draw(0);
        voteAll(0, all(Outcome.Accept, 129));
        skip(30);
        finalize(0);
        eq(earned(workers[0]), 400 + 200 + SLOT); // its bond too
        eq(earned(workers[1]), 400);
    }

    function test_step_of_a_whole_word_is_settled() external {
        run(0, 128, makeLeaves(0, 2), all(Outcome.Accept, 128));
        eqEscrow(FUNDS - 800 - 96, 0, 0);
    }

    // -- finalizing: slots taken on chain

    function test_taken_slot_accepted_is_paid_to_its_taker() external {
        auditTaken(3, makeLeaves(0, 3), 50);
        voteAll(0, ballot("AAAA"));
        skip(30);
        finalize(0);
        eq(earned(workers[0]), SLOT + 400 + 200);
        eqEscrow(FUNDS - 1_200 - 200 - 96, 0, 0);
        eqOwed(0, SLOT + 1_400 + 96);
    }

    function test_taken_slot_of_who_is_not_in_the_table_is_paid() external {
        Submission[] memory leaves = makeLeaves(0, 2); // of workers 0 and 1
        PayTable memory table = tableFor(3, leaves);
        (table.providers, table.totals) = (some(workers[0], workers[1]), first(table.totals, 2));
        enlist(2);
        seed(0, 3);
        take(0, 2);
        mine(3);
        deliver(0, 3, 2, 1_000);
        commitAs(0, Trees.root(wordsOf(3, leaves)), table);
        draw(0);
        voteAll(0, ballot("AARA"));
        skip(30);
        finalize(0);
        eq(earned(workers[0]), 400);
        eq(earned(workers[1]), 400);
        eq(earned(workers[2]), SLOT + 500); // units beyond the cap
        eqEscrow(FUNDS - 1_300 - 96, 0, 0);
    }

    function test_taken_slots_of_two_workers_are_told_apart() external {
        Submission[] memory leaves = makeLeaves(0, 1);
        PayTable memory table = tableFor(3, leaves);
        (table.providers, table.totals) = (some(workers[0]), first(table.totals, 1));
        enlist(1);
        enlist(2);
        seed(0, 3);
        take(0, 1);
        take(0, 2);
        mine(3);
        deliver(0, 3, 1, 50);
        deliver(0, 4, 2, 100);
        commitAs(0, Trees.root(wordsOf(3, leaves)), table);
        draw(0);
        voteAll(0, ballot("A--AA"));
        skip(30);
        vm.expectEmit();
        emit IVotingPanel.StepFinalized(pool, 0, ballot("A--AA"), 3, 0, 0, 0);
        finalize(0);
        eq(earned(workers[0]), 400);
        eq(earned(workers[1]), SLOT + 200);
        eq(earned(workers[2]), SLOT + 300);
    }

    function test_taken_slot_not_accepted_is_locked() external {
        auditTaken(3, makeLeaves(0, 3), 50);
        voteAll(0, ballot("AAAR"));
        skip(30);
        finalize(0);
        eq(earned(workers[0]), SLOT + 400);
        eqEscrow(FUNDS - 1_200 - 96 - SLOT, 0, SLOT);
    }

    function test_taken_slot_undecided_is_locked() external {
        auditTaken(3, makeLeaves(0, 3), 50);
        voteAll(0, ballot("AAA-"));
        skip(30);
        finalize(0);
        eqEscrow(FUNDS - 1_200 - 96 - SLOT, 0, SLOT);
    }

    function test_taken_slot_not_delivered_costs_its_bond() external {
        seed(0, 3);
        take(0, 0);
        eqOwed(SLOT, SEAL_FEE);
        commit(0, 3, makeLeaves(0, 3));
        skip(20);
        draw(0);
        voteAll(0, ballot("AAAA")); // whatever the panel says of it
        skip(30);
        vm.expectEmit();
        emit IPayoutVault.BondLocked(pool, SLOT);
        finalize(0);
        eq(earned(workers[0]), 400);
        eqEscrow(FUNDS - 1_200 - 96, 0, SLOT);
        eqOwed(0, 1_296);
    }

    function test_pay_cap_counts_taken_slots_and_others_together() external {
        PoolTerms memory t = terms();
        t.work.payCapBps = 5_000;
        usePool(t);
        auditTaken(3, makeLeaves(0, 3), 150);
        voteAll(0, ballot("AAAA"));
        skip(30);
        finalize(0);
        eq(earned(workers[0]), SLOT + 500); // of 800
        eq(earned(workers[1]), 400);
        eqEscrow(FUNDS - 1_300 - 96 - 300, 0, 300);
    }

    // -- slots held by a dispute

    function test_hold_is_the_courts_alone() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        audit(0, 3, leaves);
        voteAll(0, all(Outcome.Accept, 3));
        LeafOpening memory leaf = opening(3, leaves, 0);
        bytes[] memory votes = votesOf(0);
        address[4] memory callers = [OWNER, address(ledger), address(plants), address(vault)];
        for (uint256 i = 0; i < 4; ++i) {
            bytes memory reason = abi.encodeWithSelector(IVotingPanel.NotCourt.selector, callers[i]);
            vm.expectRevert(reason);
            vm.prank(callers[i]);
            panel.holdSlot(pool, 0, leaf, votes);
            vm.expectRevert(reason);
            vm.prank(callers[i]);
            panel.unholdSlot(pool, 0);
        }
    }

    function test_hold_tells_what_the_panel_said() external {
        Submission[] memory leaves = makeLeaves(0, 4);
        audit(0, 4, leaves);
        vote(0, three(ballot("AARF"), ballot("AFFR"), ballot("RFA-")));
        uint64 openedBlock = ledger.stepOf(pool, 0).openedBlock;
        Outcome[4] memory expected = [Outcome.Accept, Outcome.Fault, Outcome.Reject, Outcome.Reject];
        uint32[4] memory bits = [uint32(1 | (1 << 2) | (2 << 4)), 1 | (3 << 2) | (3 << 4), 2 | (3 << 2) | (1 << 4), 3 | (2 << 2)];
        for (uint32 i = 0; i < 4; ++i) {
            LeafOpening memory leaf = opening(4, leaves, i);
            require(!panel.isHeld(pool, 0, i), "held");
            bytes32 hashOfLeaf = ledger.leafHash(leaves[i]);
            bytes[] memory votes = votesOf(0);
            vm.expectEmit();
            emit IVotingPanel.SlotHeld(pool, 0, i, hashOfLeaf, expected[i]);
            vm.prank(address(court));
            (Outcome outcome, uint32 ballots, uint64 snapshotBlock) = panel.holdSlot(pool, 0, leaf, votes);
            eq(outcome, expected[i]);
            eq(ballots, bits[i]);
            eq(snapshotBlock, openedBlock - 1);
            require(panel.isHeld(pool, 0, i), "not held");
            eq(panel.heldCountOf(pool, 0), i + 1);
        }
    }

    function test_hold_only_in_the_challenge_window() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        LeafOpening[3] memory list;
        for (uint256 i = 0; i < 3; ++i) list[i] = opening(3, leaves, i);
        seed(0, 3);
        refuseHold(list[0], wrongPhase(Phase.Seeded, Phase.Audited));
        commit(0, 3, leaves);
        draw(0);
        refuseHold(list[0], tooEarly(clock + 60, clock));
        voteAll(0, all(Outcome.Accept, 3));
        uint256 closed = clock;
        hold(0, list[0]);
        skip(29);
        hold(0, list[1]);
        skip(1);
        refuseHold(
            list[2], abi.encodeWithSelector(IVotingPanel.DeadlinePassed.selector, closed + 30, closed + 30)
        );
        finalize(0);
        refuseHold(list[2], wrongPhase(Phase.Finalized, Phase.Audited));
    }

    function test_hold_without_a_quorum_is_refused_until_the_redraw_failed() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        LeafOpening memory leaf = opening(3, leaves, 0);
        auditSilent();
        refuseHold(leaf, tooEarly(clock + 20, clock));
        skip(20);
        refuseHold(
            leaf,
            abi.encodeWithSelector(
                IVotingPanel.PanelBelowQuorum.selector, pool, uint32(0), uint256(1), uint256(2)
            )
        );
        panel.redrawPanel(pool, 0);
        refuseHold(leaf, tooEarly(clock + 60, clock));
        skip(60);
        (Outcome outcome, uint32 ballots,) = hold(0, leaf);
        eq(outcome, Outcome.Abstain);
        eq(ballots, 1);
    }

    function test_hold_of_a_leaf_not_committed_or_held_before_is_refused() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        audit(0, 3, leaves);
        voteAll(0, all(Outcome.Accept, 3));
        LeafOpening memory leaf = opening(3, leaves, 1);
        leaf.leaf.units = 151;
        refuseHold(
            leaf,
            abi.encodeWithSelector(
                ISubmissionLedger.LeafNotCommitted.selector, ledger.leafHash(leaf.leaf), uint32(1)
            )
        );
        leaf = opening(3, makeLeaves(0, 3), 1);
        bytes[] memory votes = votesOf(0);
        votes[2] = all(Outcome.Reject, 3);
        vm.expectRevert(mismatch(2));
        vm.prank(address(court));
        panel.holdSlot(pool, 0, leaf, votes);
        hold(0, leaf);
        refuseHold(leaf, abi.encodeWithSelector(IVotingPanel.SlotIsHeld.selector, pool, uint32(0), uint32(1)));
        eq(panel.heldCountOf(pool, 0), 1);
        vm.prank(address(court));
        panel.unholdSlot(pool, 0);
        eq(panel.heldCountOf(pool, 0), 0);
        require(panel.isHeld(pool, 0, 1), "a slot is disputed once");
        refuseHold(leaf, abi.encodeWithSelector(IVotingPanel.SlotIsHeld.selector, pool, uint32(0), uint32(1)));
        vm.expectRevert(abi.encodeWithSignature("Panic(uint256)", 0x11));
        vm.prank(address(court));
        panel.unholdSlot(pool, 0);
    }

    function test_held_slot_is_kept_for_the_court() external {
        Submission[] memory leaves = makeLeaves(0, 4);
        audit(0, 6, leaves);
        voteAll(0, ballot("AAFA--"));
        hold(0, opening(6, leaves, 1)); // accepted
        hold(0, opening(6, leaves, 2)); // at fault
        skip(30);
        vm.expectEmit();
        emit IVotingPanel.StepFinalized(pool, 0, ballot("AAFA--"), 3, 0, 1, 2);
        finalize(0);
        eq(earned(workers[0]), 400); // not for the held slot
        eq(earned(workers[1]), 0);
        eq(earned(workers[2]), 400);
        eq(vault.reservationOf(pool, 0), 2 * (SLOT + JURY));
        eqEscrow(FUNDS - 800 - 96 - 2 * (SLOT + JURY), 2 * (SLOT + JURY), 0);
    }

    function test_held_slot_that_the_court_settled_first_is_not_kept() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        audit(0, 3, leaves);
        voteAll(0, ballot("AAA"));
        CaseId id = challenge(opening(3, leaves, 1));
        judge(id, Ruling.Reject);
        eq(panel.heldCountOf(pool, 0), 0);
        skip(30);
        vm.expectEmit();
        emit IVotingPanel.StepFinalized(pool, 0, ballot("AAA"), 3, 0, 0, 0);
        finalize(0);
        eq(vault.reservationOf(pool, 0), 0);
        eq(earned(workers[0]), 400);
        eq(earned(workers[1]), 0);
        eq(earned(workers[2]), 400);
        // Three jurors of the step's money; the slot's price is locked.
        eqEscrow(FUNDS - 800 - 96 - 15 - SLOT, 0, SLOT);
    }

    function test_held_slot_without_its_table_entry_harms_nobody() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        PayTable memory table = tableFor(3, leaves);
        table.words[0] &= ~(uint256(type(uint48).max) << 48);
        table.totals[1] = 0;
        auditTable(0, 3, leaves, table);
        voteAll(0, ballot("AAA"));
        hold(0, opening(3, leaves, 1));
        skip(30);
        finalize(0);
        eq(earned(workers[0]), 400);
        eq(earned(workers[2]), 400);
        eq(vault.reservationOf(pool, 0), SLOT + JURY);
        eqEscrow(FUNDS - 800 - 96 - SLOT - JURY, SLOT + JURY, 0);
    }

    function test_held_slots_of_a_false_table_are_locked_by_none() external {
        Submission[] memory leaves = makeLeaves(0, 4);
        PayTable memory table = tableFor(4, leaves);
        table.words[0] &= ~(uint256(type(uint48).max) << 48); // slot 1 has no entry, its total stays
        auditTable(0, 4, leaves, table);
        voteAll(0, ballot("AAAA"));
        hold(0, opening(4, leaves, 1));
        hold(0, opening(4, leaves, 2));
        skip(30);
        finalize(0);
        eqOwed(0, 96);
        uint256 kept = 2 * (SLOT + JURY);
        eqEscrow(FUNDS - 96 - kept - 2 * SLOT, kept, 2 * SLOT);
    }

    function test_held_slot_of_a_later_entry_word_is_found() external {
        Submission[] memory leaves = makeLeaves(0, 9);
        PayTable memory table = tableFor(9, leaves);
        table.words[1] = uint256(uint48(table.words[1] >> 96)) << 96; // slot 7 alone
        (table.totals[1], table.totals[2]) = ((2 << 128) + 300, (1 << 128) + 150);
        auditTable(0, 9, leaves, table);
        voteAll(0, all(Outcome.Accept, 9));
        hold(0, opening(9, leaves, 7));
        hold(0, opening(9, leaves, 8)); // no entry
        skip(30);
        finalize(0);
        eq(earned(workers[0]), 1_200);
        eq(earned(workers[1]), 800);
        eq(earned(workers[2]), 0);
        eqEscrow(FUNDS - 2_000 - 96 - 2 * (SLOT + JURY), 2 * (SLOT + JURY), 0);
    }

    function test_held_taken_slot_is_kept_for_the_court() external {
        LeafOpening memory taken = auditTaken(3, makeLeaves(0, 3), 50);
        voteAll(0, ballot("AAAA"));
        (Outcome outcome,,) = hold(0, taken);
        eq(outcome, Outcome.Accept);
        skip(30);
        finalize(0);
        eq(earned(workers[0]), SLOT + 400);
        eqEscrow(FUNDS - 1_200 - 96 - SLOT - JURY, SLOT + JURY, 0);
    }

    /// Slots 0 … 9 and two taken: accepted, rejected, at fault, undecided, disputed, disputed and judged, of many units, of
    /// none, two empty, delivered, not delivered.
    function test_V4_step_with_every_kind_of_slot_moves_exact_money() external {
        Submission[] memory leaves = new Submission[](8);
        for (uint32 i = 0; i < 8; ++i) {
            leaves[i] = makeLeaves(0, 8)[i];
            leaves[i].provider = workers[[0, 0, 1, 1, 1, 2, 2, 2][i]];
        }
        (leaves[6].units, leaves[7].units) = (399, 0);
        enlist(0);
        seed(0, 10);
        take(0, 0);
        take(0, 1);
        mine(3);
        deliver(0, 10, 0, 50);
        commit(0, 10, leaves);
        skip(20);
        draw(0);
        voteAll(0, ballot("ARF-AAAA-AAA"));
        CaseId open_ = challenge(opening(10, leaves, 4));
        CaseId judged = challenge(opening(10, leaves, 5));
        judge(judged, Ruling.Accept);
        skip(30);
        vm.expectEmit();
        emit IVotingPanel.StepFinalized(pool, 0, ballot("ARF-AAAA-AAA"), 8, 1, 1, 1);
        finalize(0);

        eq(earned(workers[0]), 400 + 200 + SLOT);
        eq(earned(workers[1]), 0);
        eq(earned(workers[2]), 500 + 100 + 400 + (BOND - 15)); // the last two by the court
        eq(vault.reservationOf(pool, 0), SLOT + JURY);
        uint256 paid = 600 + 600 + 400 + 90 + 6;
        eqEscrow(FUNDS - paid - 3 * SLOT - SLOT - JURY, SLOT + JURY, 3 * SLOT + SLOT);
        eqOwed(BOND, paid + SLOT + BOND);
        eq(token.balanceOf(address(vault)), FUNDS + 2 * SLOT + 2 * BOND);

        judge(open_, Ruling.Fault);
        eq(vault.reservationOf(pool, 0), 0);
        eqEscrow(FUNDS - paid - 4 * SLOT - 15, 0, 5 * SLOT);
        eqOwed(0, paid + SLOT + 2 * BOND + 15);
        eq(token.balanceOf(address(vault)), FUNDS + 2 * SLOT + 2 * BOND);
    }

    // -- finalizing: any table, any votes, any disputes

    struct Books {
        uint32 slots;
        uint256 held;
        uint256 locked;
        uint256 paid;
        uint256 accepted;
        uint256 groups;
        bool isFalse;
    }

    function randomTable(uint256 random, uint32 slots) internal view returns (PayTable memory table) {
        uint256 size = 1 + (random >> 8) % 5;
        address[6] memory crowd = [workers[0], workers[1], workers[2], workers[0], STRANGER, address(0)];
        table.providers = new address[](size);
        table.totals = new uint256[](size);
        for (uint256 i = 0; i < size; ++i) table.providers[i] = crowd[(random >> (16 + 8 * i)) % 6];
        table.words = new uint256[]((slots + 4) / 5);
        for (uint256 i = 0; i < 5 * table.words.length; ++i) {
            uint256 mix = uint256(keccak256(abi.encode(random, "entry", i)));
            uint256 place = mix % 61 == 0 ? (mix >> 8) % 65_536 : (mix >> 8) % (size + 1);
            uint256 units = mix % 3 == 0 ? uint32(mix >> 32) : uint32((mix >> 32) % 210);
            table.words[i / 5] |= (place | (units << 16)) << (48 * (i % 5));
            if (place != 0 && place <= size && i < slots) table.totals[place - 1] += (1 << 128) + units;
        }
        table.words[0] |= (random >> 200) << 240;
        // One table in three tells another sum.
        if (random % 3 == 0) table.totals[0] = random % 2 == 0 ? random : table.totals[0] ^ (1 << (random % 140));
    }

    function randomVote(uint256 random, uint32 slots) internal pure returns (Outcome[] memory outcomes) {
        outcomes = new Outcome[](slots);
        for (uint256 i = 0; i < slots; ++i) {
            uint256 mix = uint256(keccak256(abi.encode(random, "vote", i))) % 7;
            outcomes[i] = mix < 4 ? Outcome.Accept : Outcome(mix - 4 == 0 ? 0 : mix - 3);
        }
    }

    /// What the step must pay and lock, slot by slot.
    function reckon(Books memory books, PayTable memory table, Outcome[] memory outcomes) internal view {
        uint256 missing = 0;
        for (uint32 slot = 0; slot < books.slots; ++slot) {
            uint256 entry = table.words[slot / 5] >> (48 * (slot % 5));
            uint256 place = uint16(entry);
            uint256 units = uint32(entry >> 16);
            bool isHeld = panel.isHeld(pool, 0, slot);
            if (!isHeld && outcomes[slot] == Outcome.Accept) {
                ++books.accepted;
            } else if (place > table.providers.length) {
                books.isFalse = true;
            } else if (place != 0) {
                uint256 total = table.totals[place - 1];
                if (total >> 128 == 0 || uint128(total) < units) books.isFalse = true;
                else table.totals[place - 1] = total - (1 << 128) - units;
                if (!isHeld) books.locked += SLOT;
            }
            if (!isHeld) ++missing;
        }
        for (uint256 i = 0; i < table.totals.length; ++i) books.groups += table.totals[i] >> 128;
        if (books.groups > books.accepted) books.isFalse = true;
        if (books.isFalse) books.locked = missing * SLOT;
        for (uint256 i = 0; i < table.providers.length && !books.isFalse; ++i) {
            uint256 groups = table.totals[i] >> 128;
            uint256 units = uint128(table.totals[i]);
            uint256 amount = groups * 100 + 2 * (units > groups * 200 ? groups * 200 : units);
            uint256 cap = stakes.activeStakeAt(pool, Role.Worker, table.providers[i], height - 1) * 6 / 10;
            uint256 paid = amount < cap ? amount : cap;
            books.locked += amount - paid;
            books.paid += paid;
        }
    }

    function testFuzz_V4_any_table_and_any_votes_settle_to_the_wei(uint256 random, uint8 count) external {
        PoolTerms memory t = terms();
        t.work.payCapBps = 6_000;
        usePool(t);
        Books memory books;
        books.slots = uint32(1 + count % 24);
        Submission[] memory leaves = makeLeaves(0, books.slots);
        PayTable memory table = randomTable(random, books.slots);
        auditTable(0, books.slots, leaves, table);
        Outcome[] memory outcomes = randomVote(random, books.slots);
        bytes memory third = pack(randomVote(~random, books.slots));
        vote(0, three(pack(outcomes), pack(outcomes), third));
        for (uint32 slot = 0; slot < books.slots; ++slot) {
            if (uint256(keccak256(abi.encode(random, "hold", slot))) % 5 != 0) continue;
            hold(0, opening(books.slots, leaves, slot));
            ++books.held;
        }
        skip(30);
        finalize(0);
        reckon(books, tableOf(0), outcomes);
        uint256 kept = books.held * (SLOT + JURY);
        eq(vault.reservationOf(pool, 0), kept);
        eqOwed(0, books.paid + 96);
        eqEscrow(FUNDS - books.paid - 96 - books.locked - kept, kept, books.locked);
    }

    // -- slashing a leaf

    function test_L9_leaf_at_fault_is_slashed_once() external {
        Submission[] memory leaves = runMixed(0);
        LeafOpening memory fault = opening(6, leaves, 2);
        bytes32 hashOfLeaf = ledger.leafHash(leaves[2]);
        bytes32 offence = keccak256(abi.encode(FAULT_TAG, hashOfLeaf));
        vm.expectEmit();
        emit IStakeManager.Slashed(pool, Role.Worker, workers[1], offence, 2_500, 250, address(0), 0);
        vm.expectEmit();
        emit IVotingPanel.LeafSlashed(pool, 0, 2, workers[1], hashOfLeaf, 250);
        vm.prank(STRANGER);
        panel.slashLeaf(pool, 0, fault, mixed());
        eq(tokensOf(workers[1]), STAKE - 250);
        eq(stakes.burnable(), 250);
        refuseSlash(fault, mixed(), abi.encodeWithSelector(IStakeManager.OffenceSlashed.selector, offence));
        eq(tokensOf(workers[1]), STAKE - 250);
        eq(tokensOf(workers[0]), STAKE);
    }

    function test_L9_leaf_accepted_rejected_or_undecided_is_not_slashed() external {
        Submission[] memory leaves = runMixed(0);
        uint32[3] memory slots = [uint32(0), 1, 3];
        Outcome[3] memory outcomes = [Outcome.Accept, Outcome.Reject, Outcome.Abstain];
        for (uint256 i = 0; i < 3; ++i) {
            refuseSlash(
                opening(6, leaves, slots[i]),
                mixed(),
                abi.encodeWithSelector(IVotingPanel.LeafNotFaulted.selector, slots[i], outcomes[i])
            );
        }
    }

    function test_L9_leaf_claimed_at_the_slot_of_a_fault_is_not_slashed() external {
        runMixed(0);
        LeafOpening memory framed = opening(6, makeLeaves(0, 4), 0);
        framed.leaf.slot = 2;
        refuseSlash(framed, mixed(), notCommitted(framed.leaf));
        framed = opening(6, makeLeaves(0, 4), 2);
        framed.leaf.provider = workers[2]; // somebody else's stake
        refuseSlash(framed, mixed(), notCommitted(framed.leaf));
        framed = opening(6, makeLeaves(0, 4), 2);
        framed.proof[1] = 0;
        refuseSlash(framed, mixed(), notCommitted(framed.leaf));
        framed.leaf.slot = 6;
        refuseSlash(
            framed, mixed(), abi.encodeWithSelector(IVotingPanel.SlotOutOfRange.selector, uint32(6), uint32(6))
        );
    }

    function notCommitted(Submission memory leaf) internal view returns (bytes memory) {
        return abi.encodeWithSelector(
            ISubmissionLedger.LeafNotCommitted.selector, ledger.leafHash(leaf), leaf.slot
        );
    }

    function test_L9_leaf_of_another_step_or_pool_is_not_slashed() external {
        Submission[] memory leaves = makeLeaves(0, 4);
        leaves[2].step = 1; // a coordinator commits a leaf of another step
        leaves[3].pool = PoolId.wrap(2);
        run(0, 4, leaves, all(Outcome.Fault, 4));
        refuseSlash(
            opening(4, leaves, 2),
            all(Outcome.Fault, 4),
            abi.encodeWithSelector(
                ISubmissionLedger.LeafOfOtherStep.selector, pool, uint32(0), pool, uint32(1)
            )
        );
        refuseSlash(
            opening(4, leaves, 3),
            all(Outcome.Fault, 4),
            abi.encodeWithSelector(
                ISubmissionLedger.LeafOfOtherStep.selector, pool, uint32(0), PoolId.wrap(2), uint32(0)
            )
        );
    }

    function test_L9_leaf_with_other_outcomes_is_not_slashed() external {
        Submission[] memory leaves = runMixed(0);
        bytes memory forged = ballot("FFFF--");
        refuseSlash(
            opening(6, leaves, 0),
            forged,
            abi.encodeWithSelector(
                IVotingPanel.OutcomesMismatch.selector, keccak256(forged), keccak256(mixed())
            )
        );
    }

    function test_L1_leaf_before_finalizing_is_not_slashed() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        audit(0, 3, leaves);
        voteAll(0, all(Outcome.Fault, 3));
        refuseSlash(
            opening(3, leaves, 0), all(Outcome.Fault, 3), wrongPhase(Phase.Audited, Phase.Finalized)
        );
    }

    function test_L9_taken_leaf_at_fault_is_slashed() external {
        LeafOpening memory taken = auditTaken(3, makeLeaves(0, 3), 50);
        voteAll(0, ballot("AAAF"));
        skip(30);
        finalize(0);
        panel.slashLeaf(pool, 0, taken, ballot("AAAF"));
        eq(tokensOf(workers[0]), STAKE - 250);
    }

    function test_L9_disputed_leaf_is_the_courts_to_slash() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        audit(0, 3, leaves);
        voteAll(0, all(Outcome.Fault, 3));
        bytes[] memory votes = votesOf(0);
        LeafOpening memory leaf = opening(3, leaves, 1);
        allow(workers[1], BOND);
        vm.prank(workers[1]);
        CaseId id = court.appeal(pool, 0, leaf, votes, bytes32(0), "here");
        skip(30);
        finalize(0);
        bytes memory reason = abi.encodeWithSelector(IVotingPanel.SlotIsHeld.selector, pool, uint32(0), uint32(1));
        refuseSlash(leaf, all(Outcome.Fault, 3), reason);
        judge(id, Ruling.Accept);
        refuseSlash(leaf, all(Outcome.Fault, 3), reason);
        eq(tokensOf(workers[1]), STAKE);
        panel.slashLeaf(pool, 0, opening(3, leaves, 0), all(Outcome.Fault, 3));
        eq(tokensOf(workers[0]), STAKE - 250);
    }

    function test_L9_planted_leaf_is_not_slashed() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        bytes32 hashOfLeaf = ledger.leafHash(leaves[1]);
        bytes32 commitment = plants.plantCommitment(workers[1], hashOfLeaf, SALT);
        seed(0, 3);
        allow(workers[1], SLOT);
        vm.prank(workers[1]);
        plants.plant(pool, 0, commitment);
        commit(0, 3, leaves);
        draw(0);
        voteAll(0, all(Outcome.Fault, 3));
        LeafOpening memory leaf = opening(3, leaves, 1);
        plants.revealPlant(pool, 0, leaf, SALT);
        skip(30);
        finalize(0);
        refuseSlash(
            leaf, all(Outcome.Fault, 3), abi.encodeWithSelector(IVotingPanel.LeafIsPlant.selector, hashOfLeaf)
        );
        eq(tokensOf(workers[1]), STAKE);
    }

    function test_L9_exit_does_not_beat_the_slash_of_a_leaf() external {
        Submission[] memory leaves = makeLeaves(0, 3);
        audit(0, 3, leaves);
        ExitId id = startExit(workers[0], Role.Worker, STAKE);
        voteAll(0, all(Outcome.Fault, 3));
        skip(300);
        vm.expectPartialRevert(IStakeManager.StepsUnsettled.selector);
        stakes.finishExit(id);
        finalize(0);
        skip(29);
        vm.expectPartialRevert(IStakeManager.SlashWindowOpen.selector);
        stakes.finishExit(id);
        panel.slashLeaf(pool, 0, opening(3, leaves, 0), all(Outcome.Fault, 3));
        skip(1);
        stakes.finishExit(id);
        eq(stakes.idleOf(workers[0]), STAKE - 250);
    }

    function test_silence_of_a_ruined_member_does_not_stop_the_step() external {
        PoolTerms memory t = terms();
        t.faults.maxSlashBps = 10_000;
        usePool(t);
        address[] memory members = audit(0, 3, makeLeaves(0, 3));
        vm.prank(address(court));
        stakes.slash(pool, Role.Validator, members[0], 10_000, "ruin", address(0), 0);
        vote(0, three("", ballot("AAA"), ballot("AAA")));
        skip(30);
        finalize(0);
        eq(stakeOf(members[0]), 0);
        eq(earned(workers[0]), 400);
    }

    function test_views_of_a_step_that_never_was_are_empty() external view {
        eq(panel.panelOf(pool, 9).length, 0);
        eq(panel.dismissedOf(pool, 9).length, 0);
        eq(panel.heldCountOf(pool, 9), 0);
        require(!panel.isHeld(pool, 9, 0), "held");
        eqTimes(9, 0, 0, 0, false);
    }
}
