// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";

import {DisputeCourt} from "../../contracts/DisputeCourt.sol";
import {IDisputeCourt} from "../../contracts/interfaces/IDisputeCourt.sol";
import {IPayoutVault} from "../../contracts/interfaces/IPayoutVault.sol";
import {IStakeManager} from "../../contracts/interfaces/IStakeManager.sol";
import {ISubmissionLedger} from "../../contracts/interfaces/ISubmissionLedger.sol";
import {IVotingPanel} from "../../contracts/interfaces/IVotingPanel.sol";
import {Ballots} from "../../contracts/libraries/Ballots.sol";
import {Seeds} from "../../contracts/libraries/Seeds.sol";
import {CaseKind, CasePhase, Outcome, Phase, Role, Ruling} from "../../contracts/types/Enums.sol";
import {CaseId, ExitId, PoolId} from "../../contracts/types/Ids.sol";
import {PartMissing, Parts} from "../../contracts/types/Parts.sol";
import {PoolTerms} from "../../contracts/types/PoolTerms.sol";
import {LeafOpening, Submission} from "../../contracts/types/Submission.sol";
import {ChainTest} from "./support/ChainTest.sol";
import {ReentrantToken} from "./support/Tokens.sol";
import {vm} from "./support/Vm.sol";

/// @dev A token that refuses to move nothing.
contract StrictToken is ERC20("Strict", "STR") {
    function mint(address to, uint256 amount) external {
        _mint(to, amount);
    }

    function _update(address from, address to, uint256 amount) internal override {
        require(amount != 0, "nothing to move");
        super._update(from, to, amount);
    }
}

/// @dev The moves of a dispute.
abstract contract DisputeTest is ChainTest {
    bytes32 internal constant EVIDENCE = keccak256("why");
    bytes32 internal constant LIST = keccak256("which");
    bytes32 internal constant SALT = keccak256("salt");
    uint256 internal constant FEES = 3 * JUROR_FEE; // of a first jury

    struct Books {
        uint256 free;
        uint256 reserved;
        uint256 locked;
        uint256 bonded;
        uint256 owed; // to all accounts
        uint256 burnable;
        uint256 idle; // of the disputant
        uint256 credit; // of the disputant
        uint256 wages; // of the worker
        uint256 tokens; // of the worker
    }

    // -- the pool

    /// Leaves the first pool for one with other terms, in which all take part again.
    function moveTo(PoolTerms memory t) internal {
        pool = createPool(t);
        if (t.parties.payoutToken == address(token)) fund(pool, FUNDS);
        for (uint256 i = 0; i < validators.length; ++i) enter(validators[i], Role.Validator, STAKE);
        for (uint256 i = 0; i < workers.length; ++i) enter(workers[i], Role.Worker, STAKE);
        mine(1);
    }

    // -- a step

    /// Four leaves and two empty slots; the leaf of slot 1 as `outcome` says, the others accepted.
    function ballot(Outcome outcome) internal pure returns (bytes memory) {
        Outcome[] memory outcomes = new Outcome[](6);
        outcomes[0] = Outcome.Accept;
        outcomes[1] = outcome;
        outcomes[2] = Outcome.Accept;
        outcomes[3] = Outcome.Accept;
        return pack(outcomes);
    }

    /// A step up to its challenge window; each seat votes as told on the leaf of slot 1.
    function voted(uint32 step, Outcome a, Outcome b, Outcome c) internal returns (Submission[] memory leaves) {
        leaves = makeLeaves(step, 4);
        audit(step, 6, leaves);
        vote(step, three(ballot(a), ballot(b), ballot(c)));
    }

    function acceptedStep(uint32 step) internal returns (Submission[] memory) {
        return voted(step, Outcome.Accept, Outcome.Accept, Outcome.Reject);
    }

    // -- a case

    function challengeBy(address disputant, uint32 step, Submission[] memory leaves, uint256 i)
        internal
        returns (CaseId)
    {
        LeafOpening memory opened = opening(6, leaves, i);
        bytes[] memory votes = votesOf(step);
        allow(disputant, BOND);
        vm.prank(disputant);
        return court.challenge(pool, step, opened, votes, EVIDENCE, "here");
    }

    function appealBy(address disputant, uint32 step, Submission[] memory leaves, uint256 i)
        internal
        returns (CaseId)
    {
        LeafOpening memory opened = opening(6, leaves, i);
        bytes[] memory votes = votesOf(step);
        allow(disputant, BOND);
        vm.prank(disputant);
        return court.appeal(pool, step, opened, votes, EVIDENCE, "here");
    }

    /// A step whose leaf of slot 1 was accepted and is challenged.
    function challenged(uint32 step) internal returns (CaseId) {
        Submission[] memory leaves = acceptedStep(step);
        return challengeBy(DISPUTANT, step, leaves, 1);
    }

    function accuse(uint32 firstStep, uint32 lastStep) internal returns (CaseId) {
        allow(DISPUTANT, 2 * BOND);
        vm.prank(DISPUTANT);
        return court.accuse(pool, workers[0], firstStep, lastStep, LIST, EVIDENCE, "there");
    }

    function settled(uint32 step) internal {
        run(step, 6, makeLeaves(step, 4), ballot(Outcome.Accept));
    }

    function appealRuling(address appellant, CaseId id) internal {
        allow(appellant, BOND);
        vm.prank(appellant);
        court.appealRuling(id);
    }

    /// Jurors commit and reveal in seat order; those without a word stay silent.
    function say(CaseId id, Ruling[] memory said) internal returns (address[] memory jury) {
        jury = drawJury(id);
        for (uint256 i = 0; i < said.length; ++i) commitRuling(id, jury[i], said[i]);
        if (said.length < jury.length) skip(40);
        for (uint256 i = 0; i < said.length; ++i) revealRuling(id, jury[i], said[i]);
        if (said.length == 0 && jury.length != 0) skip(20);
    }

    function sayAll(CaseId id, Ruling ruling) internal returns (address[] memory) {
        return say(id, words(ruling, ruling, ruling));
    }

    function words() internal pure returns (Ruling[] memory) {
        return new Ruling[](0);
    }

    function words(Ruling a, Ruling b) internal pure returns (Ruling[] memory list) {
        list = new Ruling[](2);
        (list[0], list[1]) = (a, b);
    }

    function words(Ruling a, Ruling b, Ruling c) internal pure returns (Ruling[] memory list) {
        list = new Ruling[](3);
        (list[0], list[1], list[2]) = (a, b, c);
    }

    function words(Ruling a, Ruling b, Ruling c, Ruling d, Ruling e) internal pure returns (Ruling[] memory list) {
        list = new Ruling[](5);
        (list[0], list[1], list[2], list[3], list[4]) = (a, b, c, d, e);
    }

    /// A whole jury that says nothing that decides.
    function split(CaseId id) internal returns (address[] memory) {
        return say(id, words(Ruling.Accept, Ruling.Reject, Ruling.None));
    }

    function wrongPhase(CaseId id, CasePhase phase, CasePhase expected) internal {
        vm.expectRevert(abi.encodeWithSelector(IDisputeCourt.WrongCasePhase.selector, id, phase, expected));
    }

    // -- what is read

    function booksOf(address worker) internal view returns (Books memory b) {
        (b.free, b.reserved, b.locked) = vault.escrowOf(pool);
        b.bonded = vault.bondedOf(pool);
        b.owed = unclaimed();
        b.burnable = stakes.burnable();
        b.idle = stakes.idleOf(DISPUTANT);
        b.credit = earned(DISPUTANT);
        b.wages = earned(worker);
        b.tokens = tokensOf(worker);
    }

    function earnedBy(address[] memory list) internal view returns (uint256 sum) {
        for (uint256 i = 0; i < list.length; ++i) sum += earned(list[i]);
    }

    function holdsOf(Role role, address provider) internal view returns (uint256 holds) {
        (,,, holds) = stakes.standingOf(pool, role, provider);
    }

    function eqHolds(address[] memory members, uint256 holds) internal view {
        for (uint256 i = 0; i < members.length; ++i) eq(holdsOf(Role.Validator, members[i]), holds);
    }

    function isOf(address account, address[] memory list) internal pure returns (bool) {
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i] == account) return true;
        }
        return false;
    }

    function disjoint(address[] memory one, address[] memory other) internal pure {
        for (uint256 i = 0; i < one.length; ++i) require(!isOf(one[i], other), "in both");
    }

    /// The validators that are on none of two lists, in order.
    function without(address[] memory one, address[] memory other) internal view returns (address[] memory rest) {
        rest = new address[](validators.length - one.length - other.length);
        uint256 filled = 0;
        for (uint256 i = 0; i < validators.length; ++i) {
            if (!isOf(validators[i], one) && !isOf(validators[i], other)) rest[filled++] = validators[i];
        }
    }

    function slashOf(uint256 tokens, uint256 bps) internal pure returns (uint256) {
        return Math.ceilDiv(tokens * bps, 10_000);
    }

    /// What accounts may claim, and the stake they hold, all together.
    function holdingsOf(address[] memory accounts) internal view returns (uint256 claims, uint256 staked) {
        claims = unclaimedOf(accounts);
        for (uint256 i = 0; i < accounts.length; ++i) {
            staked += stakes.idleOf(accounts[i]) + stakeOf(accounts[i]) + tokensOf(accounts[i]);
        }
    }

    /// All money of the pool's vault and all stake is in exactly one place.
    function conserved() internal view {
        (uint256 free, uint256 reserved, uint256 locked) = vault.escrowOf(pool);
        uint256 reservations = 0;
        for (uint32 step = 0; step < ledger.stepCountOf(pool); ++step) reservations += vault.reservationOf(pool, step);
        eq(reserved, reservations);
        eq(stakes.totalHeld(), token.balanceOf(address(stakes)));
        if (PoolId.unwrap(pool) != 1) return;
        address[] memory others = new address[](3);
        (others[0], others[1], others[2]) = (DISPUTANT, STRANGER, address(this));
        (uint256 claims, uint256 staked) = holdingsOf(others);
        (uint256 more, uint256 alsoStaked) = holdingsOf(validators);
        (claims, staked) = (claims + more, staked + alsoStaked);
        (more, alsoStaked) = holdingsOf(workers);
        claims += more;
        eq(free + reserved + locked + vault.bondedOf(pool) + claims, token.balanceOf(address(vault)));
        eq(stakes.totalHeld(), stakes.burnable() + staked + alsoStaked);
    }

    /// When nothing is open any more, nothing is kept back either.
    function nothingKept() internal view {
        (, uint256 reserved,) = vault.escrowOf(pool);
        eq(reserved, 0);
        eq(vault.bondedOf(pool), 0);
        for (uint256 i = 0; i < validators.length; ++i) eq(holdsOf(Role.Validator, validators[i]), 0);
        for (uint256 i = 0; i < workers.length; ++i) eq(holdsOf(Role.Worker, workers[i]), 0);
        conserved();
    }
}

/// @dev With sixteen validators: a panel of three, juries of three and five, and those of an appeal.
contract DisputeCourtTest is DisputeTest {
    /// What a case about the leaf of slot 1 comes to.
    struct Row {
        CaseKind kind;
        Outcome[3] votes;
        Ruling ruling;
        Outcome outcome;
        bool isBondLost;
        uint256 guilty; // a bit for each seat that is fined
        bool isWorkerSlashed;
    }

    function setUp() public override {
        super.setUp();
        for (uint160 i = 8; i < 16; ++i) {
            validators.push(address(0x100 + i));
            enter(address(0x100 + i), Role.Validator, STAKE);
        }
        mine(1);
    }

    // -- the deployment

    function test_constructor_with_a_missing_part_is_refused() external {
        Parts memory parts = partsFrom(1);
        parts.plants = address(0);
        vm.expectRevert(abi.encodeWithSelector(PartMissing.selector));
        new DisputeCourt(parts);
    }

    function test_court_keeps_the_contracts_of_its_deployment() external view {
        eq(address(court.registry()), address(registry));
        eq(address(court.stakes()), address(stakes));
        eq(address(court.ledger()), address(ledger));
        eq(address(court.panel()), address(panel));
        eq(address(court.vault()), address(vault));
        eq(address(court.plants()), address(plants));
    }

    // -- opening a case about a leaf

    function test_challenge_opens_a_case_for_a_bond() external {
        Submission[] memory leaves = acceptedStep(0);
        uint64 openedBlock = ledger.stepOf(pool, 0).openedBlock;
        IDisputeCourt.Case memory c;
        c.kind = CaseKind.Challenge;
        c.phase = CasePhase.Opened;
        c.pool = pool;
        c.step = 0;
        c.slot = 1;
        c.provider = workers[0];
        c.disputant = DISPUTANT;
        c.snapshotBlock = openedBlock - 1;
        c.juryBlock = uint64(height + 2);
        c.units = 150;
        c.ballots = 1 | (1 << 2) | (2 << 4);
        c.outcome = Outcome.Accept;
        c.bond = uint128(BOND);
        c.leafHash = ledger.leafHash(leaves[1]);
        c.evidenceHash = EVIDENCE;
        address[][] memory seats = new address[][](1);
        seats[0] = panel.panelOf(pool, 0);
        c.barred = stakes.barredOf(pool, openedBlock - 1, seats, new address[](0));
        LeafOpening memory opened = opening(6, leaves, 1);
        bytes[] memory votes = votesOf(0);
        allow(DISPUTANT, BOND + 7);

        vm.expectEmit();
        emit IDisputeCourt.CaseOpened(CaseId.wrap(1), pool, workers[0], c, "here");
        vm.expectEmit();
        emit IStakeManager.HoldChanged(pool, Role.Worker, workers[0], 1);
        vm.expectEmit();
        emit IPayoutVault.BondTaken(pool, DISPUTANT, BOND);
        vm.prank(DISPUTANT);
        CaseId id = court.challenge(pool, 0, opened, votes, EVIDENCE, "here");

        eq(CaseId.unwrap(id), 1);
        eq(court.caseCount(), 1);
        eq(CaseId.unwrap(court.caseOfSlot(pool, 0, 1)), 1);
        eq(CaseId.unwrap(court.caseOfSlot(pool, 0, 0)), 0);
        eq(keccak256(abi.encode(court.caseOf(id))), keccak256(abi.encode(c)));
        eq(token.balanceOf(DISPUTANT), 7);
        eq(vault.bondedOf(pool), BOND);
        eq(panel.heldCountOf(pool, 0), 1);
        require(panel.isHeld(pool, 0, 1) && !panel.isHeld(pool, 0, 0), "another slot is held");
        eq(court.juryOf(id).length, 0);
        conserved();
    }

    function test_appeal_opens_a_case_about_a_leaf_that_was_not_accepted() external {
        Submission[] memory leaves = voted(0, Outcome.Fault, Outcome.Abstain, Outcome.Fault);
        CaseId id = appealBy(STRANGER, 0, leaves, 1);
        IDisputeCourt.Case memory c = court.caseOf(id);
        eq(uint256(c.kind), uint256(CaseKind.Appeal));
        eq(c.outcome, Outcome.Fault);
        eq(c.ballots, 3 | (3 << 4));
        eq(c.disputant, STRANGER);
        eq(c.provider, workers[0]);
        eq(c.bond, BOND);
        eq(c.appellant, address(0));
        eq(token.balanceOf(STRANGER), 0);
    }

    function test_bond_is_twice_what_all_jurors_cost() external view {
        eq(court.bondOf(pool), BOND);
        eq(court.bondOf(pool), 80);
    }

    function wrongOutcome(CaseKind kind, Outcome outcome) internal {
        vm.expectRevert(abi.encodeWithSelector(IDisputeCourt.WrongOutcome.selector, kind, outcome));
    }

    function test_only_an_accepted_leaf_is_challenged_and_any_other_appealed() external {
        Submission[] memory leaves = makeLeaves(0, 4);
        audit(0, 6, leaves);
        voteAll(0, mixed());
        bytes[] memory votes = votesOf(0);
        Outcome[4] memory outcomes = [Outcome.Accept, Outcome.Reject, Outcome.Fault, Outcome.Abstain];
        allow(address(this), 4 * BOND);
        token.approve(address(vault), 4 * BOND);
        for (uint256 i = 0; i < 4; ++i) {
            LeafOpening memory opened = opening(6, leaves, i);
            if (i == 0) {
                wrongOutcome(CaseKind.Appeal, outcomes[i]);
                court.appeal(pool, 0, opened, votes, EVIDENCE, "");
                court.challenge(pool, 0, opened, votes, EVIDENCE, "");
            } else {
                wrongOutcome(CaseKind.Challenge, outcomes[i]);
                court.challenge(pool, 0, opened, votes, EVIDENCE, "");
                court.appeal(pool, 0, opened, votes, EVIDENCE, "");
            }
            eq(court.caseOf(CaseId.wrap(uint64(i + 1))).outcome, outcomes[i]);
        }
        eq(panel.heldCountOf(pool, 0), 4);
        eq(holdsOf(Role.Worker, workers[0]), 2);
        eqHolds(panel.panelOf(pool, 0), 4);
    }

    function test_D1_leaf_is_disputed_once() external {
        Submission[] memory leaves = acceptedStep(0);
        CaseId id = challengeBy(DISPUTANT, 0, leaves, 1);
        LeafOpening memory opened = opening(6, leaves, 1);
        bytes[] memory votes = votesOf(0);
        bytes memory held = abi.encodeWithSelector(IVotingPanel.SlotIsHeld.selector, pool, uint32(0), uint32(1));
        vm.expectRevert(held);
        court.challenge(pool, 0, opened, votes, EVIDENCE, "");
        vm.expectRevert(held);
        court.appeal(pool, 0, opened, votes, EVIDENCE, "");
        CaseId other = challengeBy(DISPUTANT, 0, leaves, 2);
        judge(id, Ruling.Reject);
        vm.expectRevert(held);
        court.appeal(pool, 0, opened, votes, EVIDENCE, "");
        judge(other, Ruling.Accept);
        skip(30);
        finalize(0);
        vm.expectRevert(
            abi.encodeWithSelector(IVotingPanel.WrongPhase.selector, pool, uint32(0), Phase.Finalized, Phase.Audited)
        );
        court.appeal(pool, 0, opened, votes, EVIDENCE, "");
        nothingKept();
    }

    function test_dispute_waits_for_the_votes_and_ends_with_the_window() external {
        Submission[] memory leaves = makeLeaves(0, 4);
        seed(0, 6);
        commit(0, 6, leaves);
        LeafOpening memory opened = opening(6, leaves, 0);
        bytes[] memory votes = new bytes[](0);
        vm.expectRevert(
            abi.encodeWithSelector(IVotingPanel.WrongPhase.selector, pool, uint32(0), Phase.Committed, Phase.Audited)
        );
        court.challenge(pool, 0, opened, votes, EVIDENCE, "");
        draw(0);
        address[] memory members = panel.panelOf(pool, 0);
        bytes memory packed = ballot(Outcome.Accept);
        for (uint256 i = 0; i < 3; ++i) commitVote(0, members[i], packed);
        revealVote(0, members[0], packed);
        revealVote(0, members[1], packed);
        votes = votesOf(0);
        vm.expectRevert(abi.encodeWithSelector(IVotingPanel.TooEarly.selector, clock + 20, clock));
        court.challenge(pool, 0, opened, votes, EVIDENCE, "");
        skip(20);
        uint256 decidedAt = clock;
        challengeBy(DISPUTANT, 0, leaves, 0);
        skip(29);
        challengeBy(DISPUTANT, 0, leaves, 1);
        vm.expectRevert(abi.encodeWithSelector(IVotingPanel.TooEarly.selector, decidedAt + 30, clock));
        panel.finalize(pool, 0, votes, tableOf(0));
        skip(1);
        opened = opening(6, leaves, 2);
        vm.expectRevert(abi.encodeWithSelector(IVotingPanel.DeadlinePassed.selector, decidedAt + 30, clock));
        court.challenge(pool, 0, opened, votes, EVIDENCE, "");
        finalize(0);
    }

    function test_dispute_with_other_votes_or_another_leaf_is_refused() external {
        Submission[] memory leaves = acceptedStep(0);
        LeafOpening memory opened = opening(6, leaves, 1);
        bytes[] memory votes = votesOf(0);
        (votes[0], votes[2]) = (votes[2], votes[0]);
        vm.expectRevert(
            abi.encodeWithSelector(IVotingPanel.VotesMismatch.selector, pool, uint32(0), uint256(0))
        );
        court.challenge(pool, 0, opened, votes, EVIDENCE, "");
        votes = votesOf(0);
        opened.leaf.units = 149;
        bytes32 leafHash = ledger.leafHash(opened.leaf);
        vm.expectRevert(
            abi.encodeWithSelector(ISubmissionLedger.LeafNotCommitted.selector, leafHash, uint32(1))
        );
        court.challenge(pool, 0, opened, votes, EVIDENCE, "");
        opened = opening(6, makeLeaves(1, 4), 1);
        vm.expectRevert(
            abi.encodeWithSelector(ISubmissionLedger.LeafOfOtherStep.selector, pool, uint32(0), pool, uint32(1))
        );
        court.challenge(pool, 0, opened, votes, EVIDENCE, "");
        eq(court.caseCount(), 0);
    }

    function test_dispute_without_money_for_the_bond_changes_nothing() external {
        Submission[] memory leaves = acceptedStep(0);
        LeafOpening memory opened = opening(6, leaves, 1);
        bytes[] memory votes = votesOf(0);
        allow(DISPUTANT, BOND - 1);
        vm.expectPartialRevert(bytes4(keccak256("ERC20InsufficientAllowance(address,uint256,uint256)")));
        vm.prank(DISPUTANT);
        court.challenge(pool, 0, opened, votes, EVIDENCE, "here");
        eq(court.caseCount(), 0);
        eq(panel.heldCountOf(pool, 0), 0);
        eqHolds(panel.panelOf(pool, 0), 0);
    }

    function test_cases_are_numbered_over_all_pools() external {
        challenged(0);
        moveTo(terms());
        CaseId id = challenged(0);
        eq(CaseId.unwrap(id), 2);
        eq(CaseId.unwrap(court.caseOfSlot(PoolId.wrap(1), 0, 1)), 1);
        eq(CaseId.unwrap(court.caseOfSlot(PoolId.wrap(2), 0, 1)), 2);
    }

    function test_D1_jury_is_drawn_by_its_block_and_the_stakes_before_the_step() external {
        Submission[] memory leaves = acceptedStep(0);
        address[] memory members = panel.panelOf(pool, 0);
        CaseId id = challengeBy(DISPUTANT, 0, leaves, 1);
        uint64 juryBlock = uint64(height + 2);
        address[][] memory barred = new address[][](1);
        barred[0] = members;
        address[] memory parties = new address[](2);
        (parties[0], parties[1]) = (workers[0], DISPUTANT);
        uint256 snapshot = ledger.stepOf(pool, 0).openedBlock - 1;
        uint64 mask = stakes.barredOf(pool, snapshot, barred, parties);
        eq(court.caseOf(id).barred, mask);
        // A whale that comes after the step.
        enter(address(0xBEEF), Role.Validator, 1e12);
        mine(2);
        vm.expectRevert(abi.encodeWithSelector(IDisputeCourt.BeaconNotReady.selector, juryBlock, height));
        court.drawJury(id);
        mine(1);
        bytes32 hash = keccak256(abi.encode("block", uint256(juryBlock)));
        bytes32 beacon = Seeds.juryBeacon(address(court), id, 0, hash);
        address[] memory expected = stakes.drawValidators(pool, snapshot, beacon, 3, mask);
        eq(expected.length, 3);

        vm.expectEmit();
        emit IDisputeCourt.JuryDrawn(id, 0, expected, beacon);
        court.drawJury(id);
        address[] memory jury = court.juryOf(id);
        eq(keccak256(abi.encode(jury)), keccak256(abi.encode(expected)));
        disjoint(jury, members);
        require(!isOf(address(0xBEEF), jury), "stake after the step counts");
        eqHolds(jury, 1);
        eq(uint256(court.caseOf(id).phase), uint256(CasePhase.Voting));
        wrongPhase(id, CasePhase.Voting, CasePhase.Opened);
        court.drawJury(id);
    }

    /// Once the block of the jury is chosen nobody can draw another jury, whomever it may bar by its payee.
    function test_jury_stays_what_it_was_whoever_becomes_a_party_later() external {
        CaseId id = challenged(0);
        mine(3);
        uint256 state = vm.snapshotState();
        court.drawJury(id);
        address[] memory jury = court.juryOf(id);
        address[] memory party = new address[](1);
        party[0] = DISPUTANT;
        for (uint256 i = 0; i < validators.length; ++i) {
            vm.revertToState(state);
            vm.prank(validators[i]);
            stakes.setPayee(pool, DISPUTANT);
            eq(stakes.barredOf(pool, height - 1, new address[][](0), party), 1 << i); // of a case that were opened now
            court.drawJury(id);
            eq(keccak256(abi.encode(court.juryOf(id))), keccak256(abi.encode(jury)));
        }
    }

    /// A list that is full passes places on: the draw must not follow, or a party could come back at a place that is not barred.
    function test_jury_is_of_the_list_before_the_step_whoever_has_taken_its_places() external {
        for (uint160 i = 0; i < 64 - validators.length; ++i) enter(address(0x10_000 + i), Role.Validator, STAKE);
        mine(1);
        address party = address(0x10_000);
        address other = address(0x10_001);
        Submission[] memory leaves = acceptedStep(0);
        startExit(party, Role.Validator, STAKE);
        startExit(other, Role.Validator, STAKE);
        CaseId id = challengeBy(party, 0, leaves, 1);
        uint256 state = vm.snapshotState();
        mine(3);
        court.drawJury(id);
        address[] memory jury = court.juryOf(id);
        require(!isOf(party, jury), "a party judges");

        vm.revertToState(state);
        skip(30);
        finalize(0);
        skip(300);
        for (uint64 exit = 1; exit < 3; ++exit) stakes.finishExit(ExitId.wrap(exit));
        enter(address(0x10_100), Role.Validator, STAKE); // at the first free place
        enter(party, Role.Validator, STAKE); // at the other's
        (uint256 first, uint256 second) = (placeOf(address(0x10_100)), placeOf(party));
        eq(stakes.validatorsOf(pool).length, 64);
        require(first < second && second < 64, "no place has passed on");
        mine(3);
        court.drawJury(id);
        // The block of the jury is the same, so is its beacon.
        eq(keccak256(abi.encode(court.juryOf(id))), keccak256(abi.encode(jury)));
    }

    function placeOf(address validator) internal view returns (uint256 place) {
        address[] memory list = stakes.validatorsOf(pool);
        while (list[place] != validator) ++place;
    }

    /// Whoever has nothing left to lose must not judge.
    function test_jury_leaves_out_who_has_left() external {
        settled(0);
        mine(1);
        CaseId id = accuse(0, 0);
        eq(court.caseOf(id).barred, 0);
        startExit(validators[5], Role.Validator, STAKE);
        skip(300);
        stakes.finishExit(ExitId.wrap(1));
        mine(259);
        court.drawJury(id); // the block has lapsed: another is chosen
        eq(court.caseOf(id).barred, 1 << 5);
        mine(3);
        court.drawJury(id);
        require(!isOf(validators[5], court.juryOf(id)), "judges for nothing");
    }

    function test_jury_of_another_block_leaves_out_who_has_become_a_party() external {
        CaseId id = challenged(0);
        mine(259);
        uint64 barred = court.caseOf(id).barred;
        uint256 outsider = 0;
        while ((barred >> outsider) & 1 == 1) ++outsider;
        vm.prank(validators[outsider]);
        stakes.setPayee(pool, DISPUTANT);
        court.drawJury(id);
        eq(court.caseOf(id).barred, barred | (1 << outsider));
        mine(3);
        court.drawJury(id);
        require(!isOf(validators[outsider], court.juryOf(id)), "a party judges");
    }

    function test_draw_after_the_block_hash_has_lapsed_takes_another_block() external {
        CaseId id = challenged(0);
        uint256 juryBlock = height + 2;
        mine(259); // the hash of juryBlock is 257 blocks old
        vm.expectEmit();
        emit IDisputeCourt.JuryRedrawn(id, uint64(height + 2));
        court.drawJury(id);
        IDisputeCourt.Case memory c = court.caseOf(id);
        eq(c.juryBlock, height + 2);
        eq(uint256(c.phase), uint256(CasePhase.Opened));
        eq(c.round, 0);
        eq(court.juryOf(id).length, 0);
        require(c.juryBlock != juryBlock, "the same block");
        vm.expectRevert(abi.encodeWithSelector(IDisputeCourt.BeaconNotReady.selector, c.juryBlock, height));
        court.drawJury(id);
        // The last block that still knows it.
        mine(258);
        court.drawJury(id);
        eq(court.juryOf(id).length, 3);
    }

    function testFuzz_D1_jury_is_disjoint_from_panel_and_earlier_juries(bytes32 first, bytes32 second) external {
        vm.assume(first != 0 && second != 0);
        CaseId id = challenged(0);
        address[] memory members = panel.panelOf(pool, 0);
        mine(3);
        vm.setBlockhash(height - 1, first);
        court.drawJury(id);
        address[] memory jury = court.juryOf(id);
        eq(jury.length, 3);
        disjoint(jury, members);
        skip(60);
        court.resolve(id);
        mine(3);
        vm.setBlockhash(height - 1, second);
        court.drawJury(id);
        address[] memory larger = court.juryOf(id);
        eq(larger.length, 5);
        disjoint(larger, members);
        disjoint(larger, jury);
    }

    function test_unknown_case_is_refused() external {
        CaseId id = CaseId.wrap(1);
        wrongPhase(id, CasePhase.None, CasePhase.Opened);
        court.drawJury(id);
        wrongPhase(id, CasePhase.None, CasePhase.Voting);
        court.commitRuling(id, keccak256("word"));
        wrongPhase(id, CasePhase.None, CasePhase.Voting);
        court.revealRuling(id, validators[0], Ruling.Accept, SALT);
        wrongPhase(id, CasePhase.None, CasePhase.Voting);
        court.resolve(id);
        wrongPhase(id, CasePhase.None, CasePhase.Ruled);
        court.appealRuling(id);
    }

    // -- the jury's votes

    function test_juror_commits_and_then_reveals() external {
        CaseId id = challenged(0);
        (uint64 commitUntil, uint64 revealFrom, uint64 revealUntil) = court.juryTimesOf(id);
        eq(commitUntil + revealFrom + revealUntil, 0);
        address[] memory jury = drawJury(id);
        uint256 drawnAt = clock;
        (commitUntil, revealFrom, revealUntil) = court.juryTimesOf(id);
        eq(commitUntil, drawnAt + 40);
        eq(revealFrom, drawnAt + 40);
        eq(revealUntil, drawnAt + 60);
        (bool isCommitted, bool isRevealed, Ruling ruling) = court.rulingOf(id, jury[1]);
        require(!isCommitted && !isRevealed && ruling == Ruling.None, "voted");

        bytes32 commitment = court.jurorCommitment(id, jury[1], Ruling.Grey, SALT);
        vm.expectEmit();
        emit IDisputeCourt.JurorCommitted(id, jury[1], commitment);
        vm.prank(jury[1]);
        court.commitRuling(id, commitment);
        (isCommitted, isRevealed, ruling) = court.rulingOf(id, jury[1]);
        require(isCommitted && !isRevealed && ruling == Ruling.None, "shown too early");

        skip(39);
        vm.expectRevert(
            abi.encodeWithSelector(Ballots.RevealClosed.selector, drawnAt + 40, drawnAt + 60, clock)
        );
        court.revealRuling(id, jury[1], Ruling.Grey, SALT);
        commitRuling(id, jury[0], Ruling.Accept);
        skip(1);
        commitment = court.jurorCommitment(id, jury[2], Ruling.Accept, SALT);
        vm.expectRevert(abi.encodeWithSelector(Ballots.CommitOver.selector, drawnAt + 40, clock));
        vm.prank(jury[2]);
        court.commitRuling(id, commitment);

        vm.expectEmit();
        emit IDisputeCourt.JurorRevealed(id, jury[1], Ruling.Grey);
        vm.prank(STRANGER);
        court.revealRuling(id, jury[1], Ruling.Grey, SALT);
        (isCommitted, isRevealed, ruling) = court.rulingOf(id, jury[1]);
        require(isCommitted && isRevealed && ruling == Ruling.Grey, "not shown");
        vm.expectRevert(abi.encodeWithSelector(Ballots.AlreadyRevealed.selector, jury[1]));
        court.revealRuling(id, jury[1], Ruling.Grey, SALT);
        skip(19);
        vm.expectRevert(abi.encodeWithSelector(IDisputeCourt.JuryNotDone.selector, id, drawnAt + 60, clock));
        court.resolve(id);
        skip(1);
        vm.expectRevert(
            abi.encodeWithSelector(Ballots.RevealClosed.selector, drawnAt + 40, drawnAt + 60, clock)
        );
        court.revealRuling(id, jury[0], Ruling.Accept, SALT);
        court.resolve(id);
        (isCommitted, isRevealed, ruling) = court.rulingOf(id, STRANGER);
        require(!isCommitted && !isRevealed && ruling == Ruling.None, "a stranger's");
    }

    function test_jury_that_is_complete_waits_for_no_deadline() external {
        CaseId id = challenged(0);
        address[] memory jury = drawJury(id);
        commitRuling(id, jury[0], Ruling.Accept);
        commitRuling(id, jury[1], Ruling.Accept);
        skip(5);
        commitRuling(id, jury[2], Ruling.Accept);
        (uint64 commitUntil, uint64 revealFrom, uint64 revealUntil) = court.juryTimesOf(id);
        eq(commitUntil, clock + 35);
        eq(revealFrom, clock);
        eq(revealUntil, clock + 20);
        for (uint256 i = 0; i < 3; ++i) {
            vm.expectRevert(abi.encodeWithSelector(IDisputeCourt.JuryNotDone.selector, id, clock + 20, clock));
            court.resolve(id);
            revealRuling(id, jury[i], Ruling.Accept);
        }
        (,, revealUntil) = court.juryTimesOf(id);
        eq(revealUntil, clock);
        court.resolve(id);
        eq(uint256(court.caseOf(id).phase), uint256(CasePhase.Resolved));
    }

    function test_D3_commitment_binds_chain_court_case_round_juror_and_ruling() external {
        CaseId id = challenged(0);
        address[] memory jury = drawJury(id);
        bytes32 commitment = court.jurorCommitment(id, jury[0], Ruling.Fault, SALT);
        eq(
            commitment,
            keccak256(
                abi.encode(
                    keccak256("stannary.ruling.v1"),
                    uint256(31337),
                    address(court),
                    uint64(1),
                    uint8(0),
                    jury[0],
                    uint8(3),
                    SALT
                )
            )
        );
        vm.chainId(31338);
        require(court.jurorCommitment(id, jury[0], Ruling.Fault, SALT) != commitment, "another chain");
        vm.chainId(31337);
        skip(60);
        court.resolve(id);
        require(court.jurorCommitment(id, jury[0], Ruling.Fault, SALT) != commitment, "another round");
    }

    function test_D3_copy_of_a_jurors_commitment_cannot_be_revealed() external {
        CaseId id = challenged(0);
        address[] memory jury = drawJury(id);
        commitRuling(id, jury[0], Ruling.Accept);
        commitRuling(id, jury[1], Ruling.Accept);
        bytes32 copied = court.jurorCommitment(id, jury[0], Ruling.Accept, SALT);
        vm.prank(jury[2]);
        court.commitRuling(id, copied);
        revealRuling(id, jury[0], Ruling.Accept);
        bytes32 own = court.jurorCommitment(id, jury[2], Ruling.Accept, SALT);
        vm.expectRevert(abi.encodeWithSelector(Ballots.CommitmentMismatch.selector, jury[2], copied, own));
        court.revealRuling(id, jury[2], Ruling.Accept, SALT);
        revealRuling(id, jury[1], Ruling.Accept);
        skip(20);
        court.resolve(id);
        eq(earned(jury[0]), JUROR_FEE);
        eq(earned(jury[2]), 0);
        eq(stakeOf(jury[2]), STAKE - 10);
        eq(stakeOf(jury[0]), STAKE);
    }

    function test_other_word_than_the_committed_is_refused() external {
        CaseId id = challenged(0);
        address[] memory jury = drawJury(id);
        for (uint256 i = 0; i < 3; ++i) commitRuling(id, jury[i], Ruling.Fault);
        bytes32 committed = court.jurorCommitment(id, jury[0], Ruling.Fault, SALT);
        bytes32 other = court.jurorCommitment(id, jury[0], Ruling.Reject, SALT);
        vm.expectRevert(abi.encodeWithSelector(Ballots.CommitmentMismatch.selector, jury[0], committed, other));
        court.revealRuling(id, jury[0], Ruling.Reject, SALT);
        other = court.jurorCommitment(id, jury[0], Ruling.Fault, keccak256("pepper"));
        vm.expectRevert(abi.encodeWithSelector(Ballots.CommitmentMismatch.selector, jury[0], committed, other));
        court.revealRuling(id, jury[0], Ruling.Fault, keccak256("pepper"));
    }

    function test_D3_commitment_of_another_case_or_round_cannot_be_revealed() external {
        Submission[] memory leaves = acceptedStep(0);
        CaseId id = challengeBy(DISPUTANT, 0, leaves, 1);
        CaseId other = challengeBy(DISPUTANT, 0, leaves, 2);
        address[] memory jury = drawJury(id);
        bytes32 foreign = court.jurorCommitment(other, jury[0], Ruling.Accept, SALT);
        vm.prank(jury[0]);
        court.commitRuling(id, foreign);
        skip(40);
        bytes32 own = court.jurorCommitment(id, jury[0], Ruling.Accept, SALT);
        vm.expectRevert(abi.encodeWithSelector(Ballots.CommitmentMismatch.selector, jury[0], foreign, own));
        court.revealRuling(id, jury[0], Ruling.Accept, SALT);
    }

    function test_who_is_no_juror_or_voted_before_is_refused() external {
        CaseId id = challenged(0);
        address[] memory jury = drawJury(id);
        address member = panel.panelOf(pool, 0)[0];
        vm.expectRevert(abi.encodeWithSelector(Ballots.NotMember.selector, member));
        vm.prank(member);
        court.commitRuling(id, keccak256("word"));
        vm.expectRevert(abi.encodeWithSelector(Ballots.NotMember.selector, address(0)));
        vm.prank(STRANGER);
        court.commitRuling(id, keccak256("word"));
        vm.expectRevert(abi.encodeWithSelector(Ballots.CommitmentZero.selector));
        vm.prank(jury[0]);
        court.commitRuling(id, bytes32(0));
        commitRuling(id, jury[0], Ruling.Accept);
        bytes32 again = court.jurorCommitment(id, jury[0], Ruling.Reject, SALT);
        vm.expectRevert(abi.encodeWithSelector(Ballots.AlreadyCommitted.selector, jury[0]));
        vm.prank(jury[0]);
        court.commitRuling(id, again);
        skip(40);
        vm.expectRevert(abi.encodeWithSelector(Ballots.NotMember.selector, member));
        court.revealRuling(id, member, Ruling.Accept, SALT);
    }

    function test_node_commits_for_its_juror() external {
        CaseId id = challenged(0);
        address[] memory jury = drawJury(id);
        bytes memory signature = consent(0x77, jury[0], clock);
        vm.prank(jury[0]);
        stakes.addNode(vm.addr(0x77), clock, signature);
        bytes32 commitment = court.jurorCommitment(id, jury[0], Ruling.Accept, SALT);
        vm.expectEmit();
        emit IDisputeCourt.JurorCommitted(id, jury[0], commitment);
        vm.prank(vm.addr(0x77));
        court.commitRuling(id, commitment);
        vm.expectRevert(abi.encodeWithSelector(Ballots.AlreadyCommitted.selector, jury[0]));
        vm.prank(jury[0]);
        court.commitRuling(id, commitment);
    }

    function test_jury_waits_while_the_pool_stands() external {
        CaseId id = challenged(0);
        address[] memory jury = drawJury(id);
        commitRuling(id, jury[0], Ruling.Accept);
        uint256 drawnAt = clock;
        vm.prank(PAUSER);
        registry.pause(pool);
        skip(1_000);
        commitRuling(id, jury[1], Ruling.Accept);
        vm.prank(UNPAUSER);
        registry.unpause(pool);
        skip(59);
        vm.expectRevert(abi.encodeWithSelector(IDisputeCourt.JuryNotDone.selector, id, drawnAt + 60, drawnAt + 59));
        court.resolve(id);
        revealRuling(id, jury[0], Ruling.Accept);
        revealRuling(id, jury[1], Ruling.Accept);
        court.resolve(id);
        eq(court.caseOf(id).outcome, Outcome.Accept);
    }

    // -- what a jury rules

    function rulingOfJury(Ruling[] memory list) internal returns (Ruling) {
        CaseId id = challenged(0);
        say(id, list);
        court.resolve(id);
        return court.caseOf(id).ruling;
    }

    function eqRuling(Ruling got, Ruling expected) internal pure {
        eq(uint256(got), uint256(expected));
    }

    function test_accepts_of_most_seats_accept() external {
        eqRuling(rulingOfJury(words(Ruling.Fault, Ruling.Accept, Ruling.Accept)), Ruling.Accept);
    }

    function test_accepts_of_most_seats_need_no_third() external {
        eqRuling(rulingOfJury(words(Ruling.Accept, Ruling.Accept)), Ruling.Accept);
    }

    function test_grey_fills_up_accepts() external {
        eqRuling(rulingOfJury(words(Ruling.Grey, Ruling.Reject, Ruling.Accept)), Ruling.Grey);
    }

    function test_faults_of_most_seats_are_a_fault() external {
        eqRuling(rulingOfJury(words(Ruling.Fault, Ruling.Reject, Ruling.Fault)), Ruling.Fault);
    }

    function test_a_fault_fills_up_rejects() external {
        eqRuling(rulingOfJury(words(Ruling.Fault, Ruling.Accept, Ruling.Reject)), Ruling.Reject);
    }

    function test_unavailable_needs_most_seats() external {
        eqRuling(rulingOfJury(words(Ruling.Unavailable, Ruling.Fault, Ruling.Unavailable)), Ruling.Unavailable);
    }

    /// What more than half of three seats say, counted the plain way.
    function expectedRuling(uint8[3] memory said) internal pure returns (Ruling) {
        uint256[7] memory counts;
        for (uint256 i = 0; i < 3; ++i) ++counts[said[i]];
        if (counts[1] >= 2) return Ruling.Accept;
        if (counts[1] + counts[4] >= 2) return Ruling.Grey;
        if (counts[3] >= 2) return Ruling.Fault;
        if (counts[2] + counts[3] >= 2) return Ruling.Reject;
        if (counts[5] >= 2) return Ruling.Unavailable;
        return Ruling.None;
    }

    function testFuzz_ruling_is_what_most_seats_say(uint8 a, uint8 b, uint8 c) external {
        uint8[3] memory said = [a % 7, b % 7, c % 7]; // 6 is silence
        CaseId id = challenged(0);
        address[] memory jury = drawJury(id);
        bool isSilent = false;
        for (uint256 i = 0; i < 3; ++i) {
            if (said[i] == 6) isSilent = true;
            else commitRuling(id, jury[i], Ruling(said[i]));
        }
        if (isSilent) skip(40);
        for (uint256 i = 0; i < 3; ++i) {
            if (said[i] != 6) revealRuling(id, jury[i], Ruling(said[i]));
        }
        skip(20);
        court.resolve(id);
        Ruling expected = expectedRuling(said);
        eqRuling(court.caseOf(id).ruling, expected);
        eq(court.caseOf(id).round, expected == Ruling.None ? 1 : 0);
        for (uint256 i = 0; i < 3; ++i) {
            eq(stakeOf(jury[i]), said[i] == 6 ? STAKE - 10 : STAKE);
            eq(earned(jury[i]), said[i] == 6 || expected == Ruling.None ? 0 : JUROR_FEE);
        }
        conserved();
    }

    function test_silent_jurors_are_fined_once_and_unpaid() external {
        CaseId id = challenged(0);
        address[] memory jury = say(id, words(Ruling.Accept, Ruling.Accept));
        bytes32 offence =
            keccak256(abi.encode(keccak256("stannary.offence.juror.v1"), address(court), id, jury[2]));
        vm.expectEmit();
        emit IStakeManager.Slashed(pool, Role.Validator, jury[2], offence, 100, 10, address(0), 0);
        court.resolve(id);
        require(stakes.isSlashed(offence), "not fined");
        eq(stakeOf(jury[2]), STAKE - 10);
        eq(stakeOf(jury[0]) + stakeOf(jury[1]), 2 * STAKE);
        eq(earned(jury[0]), JUROR_FEE);
        eq(earned(jury[1]), JUROR_FEE);
        eq(earned(jury[2]), 0);
        wrongPhase(id, CasePhase.Resolved, CasePhase.Voting);
        court.resolve(id);
        eq(stakes.idleOf(DISPUTANT), 0);
    }

    // -- every ruling about every outcome

    /// Once resolved before the step is finalized, once after.
    function play(Row memory r) internal {
        playStep(0, r, false);
        playStep(1, r, true);
        nothingKept();
    }

    function playStep(uint32 step, Row memory r, bool isFinalizedFirst) internal {
        Submission[] memory leaves = voted(step, r.votes[0], r.votes[1], r.votes[2]);
        CaseId id = r.kind == CaseKind.Challenge
            ? challengeBy(DISPUTANT, step, leaves, 1)
            : appealBy(DISPUTANT, step, leaves, 1);
        if (isFinalizedFirst) settleRest(step);
        eq(token.balanceOf(DISPUTANT), 0);
        address[] memory jury = sayAll(id, r.ruling);
        address[] memory members = panel.panelOf(pool, step);
        eq(holdsOf(Role.Worker, workers[0]), 1);
        eqHolds(jury, 1);
        eqHolds(members, 1);
        conserved();
        resolveAs(id, r, members, jury);
        conserved();
        eq(holdsOf(Role.Worker, workers[0]), 0);
        eqHolds(jury, 0);
        eqHolds(members, 0);
        eq(panel.heldCountOf(pool, step), 0);
        if (!isFinalizedFirst) settleRest(step);
        eq(vault.reservationOf(pool, step), 0);
    }

    /// Finalizes a step of three undisputed leaves and a disputed one, which the panel neither pays nor locks.
    function settleRest(uint32 step) internal {
        uint256 before = earned(workers[0]);
        (,, uint256 locked) = vault.escrowOf(pool);
        uint256 kept = panel.heldCountOf(pool, step) * (SLOT + JURY);
        skip(30);
        finalize(step);
        eq(earned(workers[0]) - before, 400);
        (,, uint256 lockedNow) = vault.escrowOf(pool);
        eq(lockedNow, locked);
        eq(vault.reservationOf(pool, step), kept);
        conserved();
    }

    /// What the seats had before, and what a case takes from whom.
    struct Fines {
        uint256[3] stakes;
        uint256[3] fees;
        uint256[3] fined;
        uint256 loss; // of the worker
        uint256 slashed;
        uint256 reward;
    }

    function finesOf(Row memory r, address[] memory members, address[] memory jury)
        internal
        view
        returns (Fines memory f)
    {
        for (uint256 i = 0; i < 3; ++i) {
            f.stakes[i] = stakeOf(members[i]);
            f.fees[i] = earned(jury[i]);
            if ((r.guilty >> i) & 1 == 0) continue;
            f.fined[i] = slashOf(f.stakes[i], 1_000);
            f.slashed += f.fined[i];
            if (!r.isBondLost) f.reward += (f.fined[i] * 2_000) / 10_000;
        }
        if (!r.isWorkerSlashed) return f;
        f.loss = slashOf(tokensOf(workers[0]), 2_500);
        f.slashed += f.loss;
        if (r.kind == CaseKind.Challenge) f.reward += (f.loss * 2_000) / 10_000;
    }

    function resolveAs(CaseId id, Row memory r, address[] memory members, address[] memory jury) internal {
        Books memory before = booksOf(workers[0]);
        Fines memory f = finesOf(r, members, jury);
        uint256 paid = r.outcome == Outcome.Accept ? 400 : 0;
        vm.expectEmit();
        emit IDisputeCourt.CaseResolved(id, r.ruling, r.outcome, r.isBondLost, paid, f.slashed);
        court.resolve(id);
        for (uint256 i = 0; i < 3; ++i) {
            eq(f.stakes[i] - stakeOf(members[i]), f.fined[i]);
            eq(earned(jury[i]) - f.fees[i], JUROR_FEE);
        }
        IDisputeCourt.Case memory c = court.caseOf(id);
        eq(uint256(c.phase), uint256(CasePhase.Resolved));
        eq(uint256(c.ruling), uint256(r.ruling));
        eq(c.outcome, r.outcome);
        eqMoney(r, before, paid);
        eqStake(before, f);
    }

    function eqMoney(Row memory r, Books memory before, uint256 paid) internal view {
        Books memory b = booksOf(workers[0]);
        uint256 rest = r.isBondLost ? BOND - FEES : 0;
        uint256 compensation = r.kind == CaseKind.Challenge ? rest : 0;
        eq(before.bonded - b.bonded, BOND);
        eq(before.reserved - b.reserved, SLOT + JURY);
        eq(b.credit - before.credit, r.isBondLost ? 0 : BOND);
        eq(b.wages - before.wages, paid + compensation);
        eq(b.locked - before.locked, (paid == 0 ? SLOT : 0) + rest - compensation);
        eq(b.free - before.free, (paid == 0 ? 0 : SLOT - paid) + JURY - (r.isBondLost ? 0 : FEES));
        eq(b.owed - before.owed, paid + FEES + (r.isBondLost ? compensation : BOND));
    }

    function eqStake(Books memory before, Fines memory f) internal view {
        Books memory b = booksOf(workers[0]);
        eq(before.tokens - b.tokens, f.loss);
        eq(b.idle - before.idle, f.reward);
        eq(b.burnable - before.burnable, f.slashed - f.reward);
    }

    function challengeRow(Ruling ruling, Outcome outcome, bool isBondLost, uint256 guilty)
        internal
        pure
        returns (Row memory)
    {
        Outcome[3] memory votes = [Outcome.Accept, Outcome.Fault, Outcome.Accept];
        return Row(CaseKind.Challenge, votes, ruling, outcome, isBondLost, guilty, outcome == Outcome.Fault);
    }

    function appealRow(Outcome[3] memory votes, Ruling ruling, Outcome outcome, bool isBondLost, uint256 guilty)
        internal
        pure
        returns (Row memory)
    {
        return Row(CaseKind.Appeal, votes, ruling, outcome, isBondLost, guilty, outcome == Outcome.Fault);
    }

    function rejectedVotes() internal pure returns (Outcome[3] memory) {
        return [Outcome.Reject, Outcome.Accept, Outcome.Fault];
    }

    function faultedVotes() internal pure returns (Outcome[3] memory) {
        return [Outcome.Fault, Outcome.Fault, Outcome.Accept];
    }

    function undecidedVotes() internal pure returns (Outcome[3] memory) {
        return [Outcome.Accept, Outcome.Reject, Outcome.Abstain];
    }

    function test_challenge_ruled_accept_pays_the_worker_the_bond_and_fines_who_voted_against() external {
        play(challengeRow(Ruling.Accept, Outcome.Accept, true, 2));
    }

    function test_challenge_ruled_reject_returns_the_bond_and_fines_who_accepted() external {
        play(challengeRow(Ruling.Reject, Outcome.Reject, false, 5));
    }

    function test_challenge_ruled_fault_slashes_the_worker_and_rewards_the_disputant() external {
        play(challengeRow(Ruling.Fault, Outcome.Fault, false, 5));
    }

    function test_D7_challenge_ruled_grey_settles_for_the_worker_and_punishes_nobody() external {
        play(challengeRow(Ruling.Grey, Outcome.Accept, false, 0));
    }

    function test_challenge_ruled_unavailable_settles_against_the_disputant() external {
        play(challengeRow(Ruling.Unavailable, Outcome.Accept, true, 0));
    }

    function test_appeal_of_a_rejection_ruled_accept_pays_the_worker_and_fines_who_voted_against() external {
        play(appealRow(rejectedVotes(), Ruling.Accept, Outcome.Accept, false, 5));
    }

    function test_appeal_of_a_rejection_ruled_reject_locks_the_bond_and_fines_who_accepted() external {
        play(appealRow(rejectedVotes(), Ruling.Reject, Outcome.Reject, true, 2));
    }

    function test_appeal_of_a_rejection_ruled_fault_makes_nothing_worse_for_the_worker() external {
        play(appealRow(rejectedVotes(), Ruling.Fault, Outcome.Reject, true, 2));
    }

    function test_D7_appeal_of_a_rejection_ruled_grey_settles_for_the_worker_and_punishes_nobody() external {
        play(appealRow(rejectedVotes(), Ruling.Grey, Outcome.Accept, false, 0));
    }

    function test_appeal_of_a_rejection_ruled_unavailable_settles_against_the_disputant() external {
        play(appealRow(rejectedVotes(), Ruling.Unavailable, Outcome.Reject, true, 0));
    }

    function test_appeal_of_a_fault_ruled_accept_pays_the_worker_and_fines_who_voted_against() external {
        play(appealRow(faultedVotes(), Ruling.Accept, Outcome.Accept, false, 3));
    }

    function test_appeal_of_a_fault_ruled_reject_is_a_partial_win() external {
        play(appealRow(faultedVotes(), Ruling.Reject, Outcome.Reject, false, 0));
    }

    function test_appeal_of_a_fault_ruled_fault_slashes_the_worker_for_no_reward() external {
        play(appealRow(faultedVotes(), Ruling.Fault, Outcome.Fault, true, 4));
    }

    function test_D7_appeal_of_a_fault_ruled_grey_settles_for_the_worker_and_punishes_nobody() external {
        play(appealRow(faultedVotes(), Ruling.Grey, Outcome.Accept, false, 0));
    }

    function test_appeal_of_a_fault_ruled_unavailable_slashes_the_worker_and_no_voter() external {
        play(appealRow(faultedVotes(), Ruling.Unavailable, Outcome.Fault, true, 0));
    }

    function test_appeal_of_an_undecided_leaf_ruled_accept_pays_the_worker() external {
        play(appealRow(undecidedVotes(), Ruling.Accept, Outcome.Accept, false, 2));
    }

    function test_appeal_of_an_undecided_leaf_ruled_reject_leaves_it_undecided() external {
        play(appealRow(undecidedVotes(), Ruling.Reject, Outcome.Abstain, true, 1));
    }

    function test_appeal_of_an_undecided_leaf_ruled_fault_leaves_it_undecided() external {
        play(appealRow(undecidedVotes(), Ruling.Fault, Outcome.Abstain, true, 1));
    }

    function test_D7_appeal_of_an_undecided_leaf_ruled_grey_settles_for_the_worker() external {
        play(appealRow(undecidedVotes(), Ruling.Grey, Outcome.Accept, false, 0));
    }

    function test_appeal_of_an_undecided_leaf_ruled_unavailable_leaves_it_undecided() external {
        play(appealRow(undecidedVotes(), Ruling.Unavailable, Outcome.Abstain, true, 0));
    }

    /// What the rules make of a leaf, from what its panel said and its jury rules.
    function rowOf(Outcome[3] memory votes, Ruling ruling) internal pure returns (Row memory r) {
        uint256 accepting = 0;
        uint256 against = 0;
        uint256[4] memory counts;
        for (uint256 i = 0; i < 3; ++i) {
            ++counts[uint256(votes[i])];
            if (votes[i] == Outcome.Accept) accepting |= 1 << i;
            else if (votes[i] != Outcome.Abstain) against |= 1 << i;
        }
        Outcome said = Outcome.Abstain;
        if (counts[1] >= 2) said = Outcome.Accept;
        else if (counts[3] >= 2) said = Outcome.Fault;
        else if (counts[2] + counts[3] >= 2) said = Outcome.Reject;
        (r.votes, r.ruling) = (votes, ruling);
        r.kind = said == Outcome.Accept ? CaseKind.Challenge : CaseKind.Appeal;
        if (ruling == Ruling.Accept) {
            (r.outcome, r.isBondLost, r.guilty) = (Outcome.Accept, said == Outcome.Accept, against);
        } else if (ruling == Ruling.Grey) {
            r.outcome = Outcome.Accept;
        } else if (ruling == Ruling.Unavailable) {
            (r.outcome, r.isBondLost) = (said, true);
        } else if (said == Outcome.Accept) {
            (r.outcome, r.guilty) = (ruling == Ruling.Fault ? Outcome.Fault : Outcome.Reject, accepting);
        } else if (said == Outcome.Fault && ruling == Ruling.Reject) {
            r.outcome = Outcome.Reject;
        } else {
            (r.outcome, r.isBondLost, r.guilty) = (said, true, accepting);
        }
        r.isWorkerSlashed = r.outcome == Outcome.Fault;
    }

    function testFuzz_case_settles_by_the_rules_and_conserves_all_money(
        uint8 a,
        uint8 b,
        uint8 c,
        uint8 ruling,
        bool isFinalizedFirst
    ) external {
        Outcome[3] memory votes = [Outcome(a % 4), Outcome(b % 4), Outcome(c % 4)];
        playStep(0, rowOf(votes, Ruling(1 + ruling % 5)), isFinalizedFirst);
        nothingKept();
    }

    // -- a jury without quorum

    function test_jury_without_quorum_is_redrawn_once_and_larger() external {
        CaseId id = challenged(0);
        address[] memory jury = say(id, words(Ruling.Accept, Ruling.Reject));
        vm.expectEmit();
        emit IDisputeCourt.JuryRedrawn(id, uint64(height + 2));
        court.resolve(id);
        IDisputeCourt.Case memory c = court.caseOf(id);
        eq(uint256(c.phase), uint256(CasePhase.Opened));
        eq(c.round, 1);
        eq(c.juryBlock, height + 2);
        eq(uint256(c.ruling), 0);
        // The silent one is fined; nobody is paid before the case is resolved; all stay held.
        eq(stakeOf(jury[2]), STAKE - 10);
        eq(earned(jury[0]), 0);
        eqHolds(jury, 1);
        (uint64 commitUntil,,) = court.juryTimesOf(id);
        eq(commitUntil, 0);
        vm.expectRevert(abi.encodeWithSelector(IDisputeCourt.BeaconNotReady.selector, height + 2, height));
        court.drawJury(id);

        address[] memory larger =
            say(id, words(Ruling.Accept, Ruling.Reject, Ruling.Reject, Ruling.Fault, Ruling.Accept));
        eq(larger.length, 5);
        disjoint(larger, jury);
        court.resolve(id);
        c = court.caseOf(id);
        eq(uint256(c.ruling), uint256(Ruling.Reject));
        eq(c.outcome, Outcome.Reject);
        // Jurors of both rounds are paid, whatever they said.
        eq(earned(jury[0]) + earned(jury[1]), 2 * JUROR_FEE);
        eq(earned(jury[2]), 0);
        for (uint256 i = 0; i < 5; ++i) eq(earned(larger[i]), JUROR_FEE);
        eqHolds(jury, 0);
        eqHolds(larger, 0);
        eqEscrowAfter(7 * JUROR_FEE, SLOT);
    }

    /// After a case resolved before its step is finalized: what it paid of the step's money, and what it locked.
    function eqEscrowAfter(uint256 paid, uint256 locked) internal view {
        // 5,206 reserved, of which two beacons were sealed for 6, and the slot with its juries is used up.
        eqEscrow(FUNDS - 5_206 + SLOT + JURY - locked - paid, 5_206 - 6 - SLOT - JURY, locked);
    }

    function test_larger_jury_needs_most_of_its_own_seats() external {
        CaseId id = challenged(0);
        split(id);
        court.resolve(id);
        say(id, words(Ruling.Fault, Ruling.Fault));
        court.resolve(id);
        eq(court.caseOf(id).outcome, Outcome.Accept);
        eq(uint256(court.caseOf(id).ruling), 0);
    }

    function test_larger_jury_rules_by_three_of_five() external {
        CaseId id = challenged(0);
        split(id);
        court.resolve(id);
        say(id, words(Ruling.Fault, Ruling.Fault, Ruling.Fault));
        court.resolve(id);
        eq(court.caseOf(id).outcome, Outcome.Fault);
        eq(tokensOf(workers[0]), 750);
    }

    function undecided(CaseId id) internal {
        split(id);
        court.resolve(id);
        address[] memory larger =
            say(id, words(Ruling.Fault, Ruling.Fault, Ruling.Accept, Ruling.Unavailable, Ruling.None));
        uint256 burnable = stakes.burnable();
        vm.expectEmit();
        emit IDisputeCourt.CaseResolved(id, Ruling.None, Outcome.Accept, false, 400, 0);
        court.resolve(id);
        eq(stakes.burnable(), burnable);
        eq(tokensOf(workers[0]), STAKE);
        for (uint256 i = 0; i < validators.length; ++i) eq(stakeOf(validators[i]), STAKE);
        eqHolds(larger, 0);
        eq(earned(DISPUTANT), BOND);
        eq(earned(workers[0]), 400);
        // Eight jurors, all from the step's own money: exactly what was set aside.
        eqEscrowAfter(400 + 8 * JUROR_FEE, 0);
        wrongPhase(id, CasePhase.Resolved, CasePhase.Opened);
        court.drawJury(id);
        skip(30);
        finalize(0);
        eq(earned(workers[0]), 800);
        nothingKept();
    }

    function test_D7_challenge_without_two_quorums_pays_the_worker_and_punishes_nobody() external {
        undecided(challenged(0));
    }

    function test_D7_appeal_of_a_fault_without_two_quorums_pays_the_worker_and_punishes_nobody() external {
        Submission[] memory leaves = voted(0, Outcome.Fault, Outcome.Fault, Outcome.Accept);
        undecided(appealBy(DISPUTANT, 0, leaves, 1));
    }

    function test_D7_appeal_of_a_rejection_without_two_quorums_pays_the_worker() external {
        Submission[] memory leaves = voted(0, Outcome.Reject, Outcome.Fault, Outcome.Accept);
        undecided(appealBy(DISPUTANT, 0, leaves, 1));
    }

    function test_D7_appeal_of_an_undecided_leaf_without_two_quorums_pays_the_worker() external {
        Submission[] memory leaves = voted(0, Outcome.Reject, Outcome.Abstain, Outcome.Accept);
        undecided(appealBy(DISPUTANT, 0, leaves, 1));
    }

    function test_both_juries_of_a_lost_challenge_are_paid_from_its_bond() external {
        CaseId id = challenged(0);
        split(id);
        court.resolve(id);
        Ruling ruling = Ruling.Accept;
        say(id, words(ruling, ruling, ruling, ruling, ruling));
        court.resolve(id);
        eq(earned(workers[0]), 400 + BOND - 8 * JUROR_FEE);
        eq(earned(DISPUTANT), 0);
        eqEscrowAfter(400, 0);
        eq(vault.bondedOf(pool), 0);
    }

    function test_both_juries_of_a_lost_appeal_are_paid_from_its_bond() external {
        Submission[] memory leaves = voted(0, Outcome.Reject, Outcome.Reject, Outcome.Reject);
        CaseId id = appealBy(DISPUTANT, 0, leaves, 1);
        split(id);
        court.resolve(id);
        Ruling ruling = Ruling.Reject;
        say(id, words(ruling, ruling, ruling, ruling, ruling));
        court.resolve(id);
        eq(earned(workers[0]), 0);
        (uint256 free,, uint256 locked) = vault.escrowOf(pool);
        eq(locked, SLOT + BOND - 8 * JUROR_FEE);
        eq(free, FUNDS - 5_206 + JURY);
    }

    // -- what is paid

    function test_D4_disputed_slot_is_the_courts_alone() external {
        Submission[] memory leaves = acceptedStep(0);
        CaseId id = challengeBy(DISPUTANT, 0, leaves, 1);
        skip(30);
        bytes[] memory votes = votesOf(0);
        vm.expectEmit();
        emit IVotingPanel.StepFinalized(pool, 0, ballot(Outcome.Accept), 4, 0, 0, 1);
        panel.finalize(pool, 0, votes, tableOf(0));
        eq(earned(workers[0]), 400);
        eq(vault.reservationOf(pool, 0), SLOT + JURY);
        judge(id, Ruling.Accept);
        eq(earned(workers[0]), 800 + BOND - FEES);
        wrongPhase(id, CasePhase.Resolved, CasePhase.Voting);
        court.resolve(id);
        vault.claim(pool, workers[0]);
        eq(token.balanceOf(workers[0]), 800 + BOND - FEES);
        vm.expectRevert(abi.encodeWithSelector(IPayoutVault.AmountZero.selector));
        vault.claim(pool, workers[0]);
        nothingKept();
    }

    function test_D4_slot_settled_by_the_court_is_not_counted_again() external {
        Submission[] memory leaves = acceptedStep(0);
        CaseId id = challengeBy(DISPUTANT, 0, leaves, 1);
        judge(id, Ruling.Accept);
        skip(30);
        bytes[] memory votes = votesOf(0);
        vm.expectEmit();
        emit IVotingPanel.StepFinalized(pool, 0, ballot(Outcome.Accept), 4, 0, 0, 0);
        panel.finalize(pool, 0, votes, tableOf(0));
        eq(earned(workers[0]), 800 + BOND - FEES);
        // Four wages, the panel's fees and two seals; the jury was the disputant's.
        eqEscrow(FUNDS - 4 * 400 - 90 - 6, 0, 0);
        nothingKept();
    }

    function test_cases_of_one_step_are_settled_one_by_one() external {
        Submission[] memory leaves = makeLeaves(0, 4);
        audit(0, 6, leaves);
        voteAll(0, ballot(Outcome.Fault));
        CaseId first = challengeBy(DISPUTANT, 0, leaves, 0);
        CaseId second = appealBy(DISPUTANT, 0, leaves, 1);
        CaseId third = challengeBy(DISPUTANT, 0, leaves, 3);
        eq(holdsOf(Role.Worker, workers[0]), 2);
        eq(holdsOf(Role.Worker, workers[2]), 1);
        judge(second, Ruling.Reject);
        eq(panel.heldCountOf(pool, 0), 2);
        eq(holdsOf(Role.Worker, workers[0]), 1);
        skip(30);
        finalize(0);
        eq(vault.reservationOf(pool, 0), 2 * (SLOT + JURY));
        judge(first, Ruling.Fault);
        eq(vault.reservationOf(pool, 0), SLOT + JURY);
        judge(third, Ruling.Grey);
        eq(earned(workers[0]), 0);
        eq(earned(workers[1]), 400);
        eq(earned(workers[2]), 400);
        eqEscrow(FUNDS - 2 * 400 - 90 - 6 - 3 * FEES - 2 * SLOT, 0, 2 * SLOT);
        nothingKept();
    }

    function test_court_pays_no_more_than_the_pay_cap() external {
        PoolTerms memory t = terms();
        t.work.payCapBps = 3_000;
        moveTo(t);
        CaseId id = challenged(0);
        judge(id, Ruling.Grey);
        // 300 of a stake of 1,000; what the cap cuts off stays in the pool, as does the rest of the slot.
        eq(earned(workers[0]), 300);
        (uint256 free,, uint256 locked) = vault.escrowOf(pool);
        eq(locked, 100);
        eq(free, FUNDS - 5_206 + 100 + JURY - FEES);
        skip(30);
        finalize(0);
        nothingKept();
    }

    function test_court_pays_a_worker_of_all_its_cases_no_more_than_the_pay_cap() external {
        PoolTerms memory t = terms();
        t.work.payCapBps = 6_000;
        moveTo(t);
        Submission[] memory leaves = acceptedStep(0);
        CaseId[3] memory ids;
        for (uint256 slot = 0; slot < 3; ++slot) ids[slot] = challengeBy(DISPUTANT, 0, leaves, slot);
        judge(ids[0], Ruling.Grey);
        eq(earned(workers[0]), 400);
        judge(ids[1], Ruling.Grey); // 600 of a stake of 1,000 together
        eq(earned(workers[0]), 600);
        judge(ids[2], Ruling.Grey); // another worker's
        eq(earned(workers[1]), 400);
        skip(30);
        finalize(0);
        eq(earned(workers[0]), 600);
        nothingKept();
    }

    function test_pay_cap_is_of_the_stake_before_the_step() external {
        PoolTerms memory t = terms();
        t.work.payCapBps = 3_000;
        moveTo(t);
        Submission[] memory leaves = makeLeaves(0, 4);
        seed(0, 6);
        startExit(workers[0], Role.Worker, 500);
        enter(workers[2], Role.Worker, 5_000);
        commit(0, 6, leaves);
        draw(0);
        voteAll(0, ballot(Outcome.Accept));
        CaseId first = challengeBy(DISPUTANT, 0, leaves, 1);
        CaseId last = challengeBy(DISPUTANT, 0, leaves, 3);
        judge(first, Ruling.Grey);
        judge(last, Ruling.Grey);
        eq(earned(workers[0]), 300);
        eq(earned(workers[2]), 300);
    }

    function test_units_beyond_the_cap_are_not_paid_by_the_court() external {
        Submission[] memory leaves = makeLeaves(0, 4);
        leaves[1].units = 201;
        audit(0, 6, leaves);
        voteAll(0, ballot(Outcome.Accept));
        CaseId id = challengeBy(DISPUTANT, 0, leaves, 1);
        judge(id, Ruling.Grey);
        eq(earned(workers[0]), SLOT);
        eqEscrowAfter(SLOT + FEES, 0);
    }

    function test_court_pays_by_the_offer_of_the_step() external {
        Submission[] memory leaves = acceptedStep(0);
        PoolTerms memory t = terms();
        t.offer.pricePerGroup = 7;
        vm.prank(OWNER);
        registry.announceOffer(pool, t.offer);
        CaseId id = challengeBy(DISPUTANT, 0, leaves, 1);
        skip(100);
        eq(registry.offerNumberOf(pool), 1);
        judge(id, Ruling.Grey);
        eq(earned(workers[0]), 400);
    }

    function test_slot_taken_on_chain_is_disputed_like_any_other() external {
        Submission[] memory leaves = makeLeaves(0, 4);
        address taker = workers[1];
        seed(0, 6);
        uint256 deadline = clock;
        bytes memory signature = consent(0x77, taker, deadline);
        vm.prank(taker);
        stakes.addNode(vm.addr(0x77), deadline, signature);
        allow(taker, SLOT);
        vm.prank(taker);
        uint32 slot = ledger.takeSlot(pool, 0);
        commit(0, 6, leaves);
        mine(3);
        ledger.sealTakenSlot(pool, 0, slot);
        Submission memory leaf = leaves[0];
        leaf.slot = slot;
        leaf.provider = taker;
        leaf.node = vm.addr(0x77);
        leaf.leaseHash = Seeds.takenLease(address(ledger), pool, 0, slot, taker);
        signature = sign(0x77, ledger.submissionDigest(leaf));
        ledger.deliverTaken(pool, 0, leaf, signature, "there");
        draw(0);
        Outcome[] memory outcomes = new Outcome[](7);
        for (uint256 i = 0; i < 7; ++i) outcomes[i] = i == 4 || i == 5 ? Outcome.Abstain : Outcome.Accept;
        voteAll(0, pack(outcomes));

        LeafOpening memory opened = LeafOpening({leaf: leaf, proof: new bytes32[](0)});
        bytes[] memory votes = votesOf(0);
        allow(DISPUTANT, BOND);
        vm.prank(DISPUTANT);
        CaseId id = court.challenge(pool, 0, opened, votes, EVIDENCE, "here");
        eq(court.caseOf(id).slot, 6);
        skip(30);
        finalize(0);
        eq(earned(taker), SLOT + 400); // its bond back, and the leaf of slot 2
        judge(id, Ruling.Accept);
        eq(earned(taker), SLOT + 800 + BOND - FEES);
        nothingKept();
    }

    // -- exits

    function wait(ExitId exitId, Role role, address provider, uint32 holds) internal {
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.PositionHeld.selector, pool, role, provider, holds));
        stakes.finishExit(exitId);
    }

    function test_D6_exits_of_worker_panel_and_jurors_wait_for_the_case() external {
        CaseId id = challenged(0);
        address[] memory jury = drawJury(id);
        address member = panel.panelOf(pool, 0)[0];
        address bystander = without(panel.panelOf(pool, 0), jury)[0];
        ExitId ofWorker = startExit(workers[0], Role.Worker, STAKE);
        ExitId ofMember = startExit(member, Role.Validator, STAKE);
        ExitId ofJuror = startExit(jury[0], Role.Validator, STAKE);
        ExitId ofBystander = startExit(bystander, Role.Validator, STAKE);
        skip(30);
        finalize(0);
        skip(300);
        wait(ofWorker, Role.Worker, workers[0], 1);
        wait(ofMember, Role.Validator, member, 1);
        wait(ofJuror, Role.Validator, jury[0], 1);
        stakes.finishExit(ofBystander);
        eq(stakes.idleOf(bystander), STAKE);
        court.resolve(id); // nobody came: another jury
        wait(ofWorker, Role.Worker, workers[0], 1);
        wait(ofJuror, Role.Validator, jury[0], 1);
        say(id, words(Ruling.Fault, Ruling.Fault, Ruling.Fault));
        court.resolve(id);
        stakes.finishExit(ofWorker);
        stakes.finishExit(ofMember);
        stakes.finishExit(ofJuror);
        eq(stakes.idleOf(workers[0]), 750);
        eq(stakes.idleOf(member), 900);
        eq(stakes.idleOf(jury[0]), 990);
        nothingKept();
    }

    function test_D6_exit_of_the_accused_waits_for_the_case() external {
        settled(0);
        ExitId ofWorker = startExit(workers[0], Role.Worker, STAKE);
        CaseId id = accuse(0, 0);
        address[] memory jury = drawJury(id);
        ExitId ofJuror = startExit(jury[1], Role.Validator, STAKE);
        skip(400);
        wait(ofWorker, Role.Worker, workers[0], 1);
        wait(ofJuror, Role.Validator, jury[1], 1);
        court.resolve(id);
        say(id, words(Ruling.Fault, Ruling.Fault, Ruling.Fault));
        court.resolve(id);
        wait(ofWorker, Role.Worker, workers[0], 1);
        skip(30);
        court.resolve(id);
        stakes.finishExit(ofWorker);
        stakes.finishExit(ofJuror);
        eq(stakes.idleOf(workers[0]), 500);
        nothingKept();
    }

    function test_validators_that_left_meanwhile_do_not_stop_a_case() external {
        CaseId id = challenged(0);
        skip(30);
        finalize(0);
        address[] memory others = without(panel.panelOf(pool, 0), new address[](0));
        for (uint256 i = 0; i < others.length; ++i) startExit(others[i], Role.Validator, STAKE);
        skip(300);
        for (uint256 i = 0; i < others.length; ++i) stakes.finishExit(ExitId.wrap(uint64(i + 1)));
        address[] memory jury = say(id, words());
        eqHolds(jury, 1);
        court.resolve(id);
        say(id, words());
        court.resolve(id);
        eq(court.caseOf(id).outcome, Outcome.Accept);
        eq(earned(DISPUTANT), BOND);
        nothingKept();
    }

    // -- a run of leaves

    function test_accusation_opens_a_case_for_twice_the_bond() external {
        settled(0);
        settled(1);
        IDisputeCourt.Case memory c;
        c.kind = CaseKind.Statistics;
        c.phase = CasePhase.Opened;
        c.pool = pool;
        c.step = 1;
        c.firstStep = 0;
        c.provider = workers[0];
        c.disputant = DISPUTANT;
        c.snapshotBlock = uint64(height - 1);
        c.juryBlock = uint64(height + 2);
        c.bond = uint128(2 * BOND);
        c.leafHash = LIST;
        c.evidenceHash = EVIDENCE;
        allow(DISPUTANT, 2 * BOND);
        vm.expectEmit();
        emit IDisputeCourt.CaseOpened(CaseId.wrap(1), pool, workers[0], c, "there");
        vm.expectEmit();
        emit IPayoutVault.BondTaken(pool, DISPUTANT, 2 * BOND);
        vm.prank(DISPUTANT);
        CaseId id = court.accuse(pool, workers[0], 0, 1, LIST, EVIDENCE, "there");
        eq(keccak256(abi.encode(court.caseOf(id))), keccak256(abi.encode(c)));
        eq(token.balanceOf(DISPUTANT), 0);
        eq(holdsOf(Role.Worker, workers[0]), 1);
        eqHolds(validators, 0);
        conserved();
    }

    function outOfRange(uint32 firstStep, uint32 lastStep, uint32 judged, uint32 settledCount) internal {
        vm.expectRevert(
            abi.encodeWithSelector(
                IDisputeCourt.RunOutOfRange.selector, firstStep, lastStep, judged, settledCount
            )
        );
        court.accuse(pool, workers[0], firstStep, lastStep, LIST, EVIDENCE, "");
    }

    function test_run_that_is_empty_or_unsettled_is_refused() external {
        outOfRange(0, 0, 0, 0);
        settled(0);
        settled(1);
        outOfRange(1, 0, 0, 2);
        outOfRange(0, 2, 0, 2);
        acceptedStep(2);
        outOfRange(2, 2, 0, 2);
        accuse(1, 1);
    }

    function test_run_is_accused_within_the_window_of_its_last_step() external {
        settled(0);
        uint256 until = clock + 30;
        skip(29);
        accuse(0, 0);
        skip(1);
        vm.expectRevert(abi.encodeWithSelector(IDisputeCourt.DeadlinePassed.selector, until, clock));
        court.accuse(pool, workers[0], 0, 0, LIST, EVIDENCE, "");
        settled(1);
        accuse(0, 1);
    }

    function test_run_of_who_has_no_stake_is_refused() external {
        settled(0);
        vm.expectRevert(abi.encodeWithSelector(IDisputeCourt.NotAccountable.selector, pool, STRANGER));
        court.accuse(pool, STRANGER, 0, 0, LIST, EVIDENCE, "");
        vm.expectRevert(abi.encodeWithSelector(IDisputeCourt.NotAccountable.selector, pool, validators[0]));
        court.accuse(pool, validators[0], 0, 0, LIST, EVIDENCE, "");
    }

    function test_jury_of_a_run_is_drawn_by_the_stakes_before_the_accusation() external {
        settled(0);
        enter(address(0xFAD), Role.Validator, 1e12);
        mine(1);
        CaseId id = accuse(0, 0);
        enter(address(0xBEEF), Role.Validator, 1e18);
        address[] memory jury = drawJury(id);
        require(isOf(address(0xFAD), jury), "stake before it does not count");
        require(!isOf(address(0xBEEF), jury), "stake after it counts");
    }

    function test_conviction_waits_for_an_appeal_and_is_then_carried_out() external {
        settled(0);
        settled(1);
        CaseId id = accuse(0, 1);
        address[] memory jury = sayAll(id, Ruling.Fault);
        vm.expectEmit();
        emit IDisputeCourt.CaseRuled(id, Ruling.Fault, uint64(clock + 30));
        court.resolve(id);
        IDisputeCourt.Case memory c = court.caseOf(id);
        eq(uint256(c.phase), uint256(CasePhase.Ruled));
        eq(uint256(c.ruling), uint256(Ruling.Fault));
        eq(c.appealUntil, clock + 30);
        eq(tokensOf(workers[0]), STAKE);
        eq(court.judgedUpTo(pool, workers[0]), 0);
        eqHolds(jury, 1);
        uint256 fees = earnedBy(jury);
        skip(29);
        vm.expectRevert(abi.encodeWithSelector(IDisputeCourt.TooEarly.selector, clock + 1, clock));
        court.resolve(id);
        skip(1);
        bytes32 offence = keccak256(abi.encode(keccak256("stannary.offence.statistics.v1"), address(court), id));
        vm.expectEmit();
        emit IStakeManager.Slashed(pool, Role.Worker, workers[0], offence, 5_000, 500, DISPUTANT, 100);
        vm.expectEmit();
        emit IDisputeCourt.CaseResolved(id, Ruling.Fault, Outcome.Fault, false, 0, 500);
        court.resolve(id);
        c = court.caseOf(id);
        eq(uint256(c.phase), uint256(CasePhase.Resolved));
        eq(c.outcome, Outcome.Fault);
        eq(court.judgedUpTo(pool, workers[0]), 2);
        eq(court.judgedUpTo(pool, workers[1]), 0);
        eq(tokensOf(workers[0]), 500);
        eq(stakes.idleOf(DISPUTANT), 100);
        eq(stakes.burnable(), 400);
        eq(earned(DISPUTANT), 2 * BOND - FEES);
        eq(earnedBy(jury) - fees, FEES);
        wrongPhase(id, CasePhase.Resolved, CasePhase.Voting);
        court.resolve(id);
        wrongPhase(id, CasePhase.Resolved, CasePhase.Ruled);
        court.appealRuling(id);
        nothingKept();
    }

    /// The accuser pays the jury; the rest is the accused's if the jury decided, else its own.
    function acquitted(Ruling ruling, bool isProven) internal {
        settled(0);
        uint256 wages = earned(workers[0]);
        CaseId id = accuse(0, 0);
        address[] memory jury = sayAll(id, ruling);
        uint256 fees = earnedBy(jury);
        vm.expectEmit();
        emit IDisputeCourt.CaseResolved(id, ruling, Outcome.Accept, isProven, 0, 0);
        court.resolve(id);
        eq(uint256(court.caseOf(id).phase), uint256(CasePhase.Resolved));
        eq(earned(DISPUTANT), isProven ? 0 : 2 * BOND - FEES);
        eq(earned(workers[0]) - wages, isProven ? 2 * BOND - FEES : 0);
        eq(earnedBy(jury) - fees, FEES);
        eq(tokensOf(workers[0]), STAKE);
        eq(court.judgedUpTo(pool, workers[0]), 0);
        nothingKept();
        // It does not immunise: the same run may be accused on better evidence.
        id = accuse(0, 0);
        judge(id, Ruling.Fault);
        skip(30);
        court.resolve(id);
        eq(tokensOf(workers[0]), 500);
        nothingKept();
    }

    function test_acquittal_pays_the_accused_the_bond_and_does_not_immunise() external {
        acquitted(Ruling.Accept, true);
    }

    function test_rejection_of_a_run_is_an_acquittal() external {
        acquitted(Ruling.Reject, true);
    }

    function test_run_whose_bytes_are_not_served_is_an_acquittal() external {
        acquitted(Ruling.Unavailable, true);
    }

    function test_D7_grey_ruling_on_a_run_gives_the_accuser_the_rest() external {
        acquitted(Ruling.Grey, false);
    }

    function test_D7_run_without_two_quorums_gives_the_accuser_the_rest() external {
        settled(0);
        CaseId id = accuse(0, 0);
        split(id);
        court.resolve(id);
        say(id, words(Ruling.Fault, Ruling.Fault));
        vm.expectEmit();
        emit IDisputeCourt.CaseResolved(id, Ruling.None, Outcome.Accept, false, 0, 0);
        court.resolve(id);
        eq(earned(DISPUTANT), 2 * BOND - 5 * JUROR_FEE);
        eq(tokensOf(workers[0]), STAKE);
        nothingKept();
    }

    function test_run_convicted_by_a_redrawn_jury_can_be_appealed_too() external {
        settled(0);
        CaseId id = accuse(0, 0);
        split(id);
        court.resolve(id);
        say(id, words(Ruling.Fault, Ruling.Fault, Ruling.Fault));
        court.resolve(id);
        eq(uint256(court.caseOf(id).phase), uint256(CasePhase.Ruled));
        skip(30);
        court.resolve(id);
        eq(tokensOf(workers[0]), 500);
        eq(earned(DISPUTANT), 2 * BOND - 6 * JUROR_FEE);
        nothingKept();
    }

    // -- appeal of a ruling

    function convicted() internal returns (CaseId id, address[] memory jury) {
        settled(0);
        id = accuse(0, 0);
        jury = judge(id, Ruling.Fault);
    }

    function test_ruling_on_a_run_is_appealed_in_its_time_for_a_bond() external {
        (CaseId id, address[] memory jury) = convicted();
        skip(29);
        allow(STRANGER, BOND);
        vm.expectEmit();
        emit IDisputeCourt.CaseAppealed(id, STRANGER, BOND, uint64(height + 2));
        vm.expectEmit();
        emit IPayoutVault.BondTaken(pool, STRANGER, BOND);
        vm.prank(STRANGER);
        court.appealRuling(id);
        IDisputeCourt.Case memory c = court.caseOf(id);
        eq(uint256(c.phase), uint256(CasePhase.Opened));
        eq(c.round, 2);
        eq(c.appellant, STRANGER);
        eq(c.disputant, DISPUTANT);
        eq(c.appealBond, BOND);
        eq(c.bond, 2 * BOND);
        eq(c.juryBlock, height + 2);
        eq(vault.bondedOf(pool), 3 * BOND);
        wrongPhase(id, CasePhase.Opened, CasePhase.Ruled);
        court.appealRuling(id);
        skip(1);
        wrongPhase(id, CasePhase.Opened, CasePhase.Voting);
        court.resolve(id);
        address[] memory second = drawJury(id);
        eq(second.length, 3);
        disjoint(second, jury);
        eqHolds(jury, 1);
        eqHolds(second, 1);
        conserved();
    }

    function test_appeal_of_a_ruling_after_its_time_is_refused() external {
        (CaseId id,) = convicted();
        uint256 until = clock + 30;
        skip(30);
        vm.expectRevert(abi.encodeWithSelector(IDisputeCourt.DeadlinePassed.selector, until, clock));
        court.appealRuling(id);
    }

    function test_only_a_conviction_of_a_run_is_appealed() external {
        CaseId id = challenged(0);
        wrongPhase(id, CasePhase.Opened, CasePhase.Ruled);
        court.appealRuling(id);
        judge(id, Ruling.Fault);
        wrongPhase(id, CasePhase.Resolved, CasePhase.Ruled);
        court.appealRuling(id);
    }

    function test_appeal_that_upholds_a_conviction_pays_its_own_jury_and_locks_the_rest() external {
        (CaseId id, address[] memory jury) = convicted();
        appealRuling(workers[0], id);
        uint256 wages = earned(workers[0]);
        address[] memory second = sayAll(id, Ruling.Fault);
        uint256 fees = earnedBy(jury) + earnedBy(second);
        (,, uint256 locked) = vault.escrowOf(pool);
        vm.expectEmit();
        emit IPayoutVault.BondLocked(pool, BOND - FEES);
        vm.expectEmit();
        emit IDisputeCourt.CaseResolved(id, Ruling.Fault, Outcome.Fault, false, 0, 500);
        court.resolve(id);
        (,, uint256 lockedNow) = vault.escrowOf(pool);
        eq(lockedNow - locked, BOND - FEES);
        eq(earned(DISPUTANT), 2 * BOND - FEES);
        eq(earned(workers[0]), wages);
        eq(tokensOf(workers[0]), 500);
        eq(earnedBy(jury) + earnedBy(second) - fees, 2 * FEES);
        wrongPhase(id, CasePhase.Resolved, CasePhase.Ruled);
        court.appealRuling(id);
        nothingKept();
    }

    function overturned(Ruling ruling, bool isProven) internal {
        (CaseId id,) = convicted();
        appealRuling(STRANGER, id);
        uint256 wages = earned(workers[0]);
        sayAll(id, ruling);
        vm.expectEmit();
        emit IDisputeCourt.CaseResolved(id, ruling, Outcome.Accept, isProven, 0, 0);
        court.resolve(id);
        eq(earned(STRANGER), BOND);
        eq(earned(DISPUTANT), isProven ? 0 : 2 * BOND - 2 * FEES);
        eq(earned(workers[0]) - wages, isProven ? 2 * BOND - 2 * FEES : 0);
        eq(tokensOf(workers[0]), STAKE);
        eq(court.judgedUpTo(pool, workers[0]), 0);
        nothingKept();
    }

    function test_appeal_that_overturns_a_conviction_returns_its_bond() external {
        overturned(Ruling.Accept, true);
    }

    function test_appeal_to_a_rejection_overturns_too() external {
        overturned(Ruling.Reject, true);
    }

    function test_D7_appeal_ruled_grey_overturns_and_punishes_nobody() external {
        overturned(Ruling.Grey, false);
    }

    function test_jury_of_an_appeal_without_quorum_is_redrawn_once() external {
        (CaseId id, address[] memory jury) = convicted();
        appealRuling(STRANGER, id);
        address[] memory second = split(id);
        court.resolve(id);
        eq(court.caseOf(id).round, 3);
        address[] memory third =
            say(id, words(Ruling.Fault, Ruling.Fault, Ruling.Fault, Ruling.Accept, Ruling.Accept));
        eq(third.length, 5);
        disjoint(third, jury);
        disjoint(third, second);
        (,, uint256 locked) = vault.escrowOf(pool);
        court.resolve(id);
        // The accuser pays the first jury, the appellant the two of its appeal.
        eq(earned(DISPUTANT), 2 * BOND - FEES);
        eq(earned(STRANGER), 0);
        (,, uint256 lockedNow) = vault.escrowOf(pool);
        eq(lockedNow - locked, BOND - 8 * JUROR_FEE);
        eq(tokensOf(workers[0]), 500);
        nothingKept();
    }

    function test_D7_appeal_without_two_quorums_overturns_and_punishes_nobody() external {
        (CaseId id,) = convicted();
        appealRuling(STRANGER, id);
        split(id);
        court.resolve(id);
        say(id, words(Ruling.Fault, Ruling.Fault));
        court.resolve(id);
        eq(uint256(court.caseOf(id).phase), uint256(CasePhase.Resolved));
        eq(earned(STRANGER), BOND);
        eq(earned(DISPUTANT), 2 * BOND - 8 * JUROR_FEE);
        eq(tokensOf(workers[0]), STAKE);
        nothingKept();
    }

    function test_accuser_of_an_appealed_run_may_have_four_juries_to_pay() external {
        settled(0);
        CaseId id = accuse(0, 0);
        split(id);
        court.resolve(id);
        say(id, words(Ruling.Fault, Ruling.Fault, Ruling.Fault, Ruling.None, Ruling.None));
        court.resolve(id);
        appealRuling(STRANGER, id);
        split(id);
        court.resolve(id);
        uint256 wages = earned(workers[0]);
        // Of sixteen validators five are left for the last jury.
        address[] memory last = drawJury(id);
        eq(last.length, 5);
        for (uint256 i = 0; i < 5; ++i) commitRuling(id, last[i], Ruling.Accept);
        for (uint256 i = 0; i < 5; ++i) revealRuling(id, last[i], Ruling.Accept);
        eqHolds(validators, 1);
        court.resolve(id);
        eq(earned(workers[0]) - wages, 2 * BOND - 16 * JUROR_FEE);
        for (uint256 i = 0; i < 16; ++i) require(earned(validators[i]) >= JUROR_FEE, "unpaid");
        nothingKept();
    }

    // -- hostile tokens

    /// What the token called is refused by the vault, whose own call is not over.
    function reentered(ReentrantToken hostile) internal view {
        require(hostile.failed(), "not reentered, or let in");
        eq(bytes32(hostile.failure()), bytes32(ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector));
    }

    function test_bond_of_a_hostile_token_does_not_reenter() external {
        ReentrantToken hostile = new ReentrantToken();
        PoolTerms memory t = terms();
        t.parties.payoutToken = address(hostile);
        moveTo(t);
        hostile.mint(address(this), FUNDS + 10 * BOND);
        hostile.approve(address(vault), type(uint256).max);
        vault.fund(pool, FUNDS);
        Submission[] memory leaves = makeLeaves(0, 4);
        audit(0, 6, leaves);
        voteAll(0, ballot(Outcome.Fault));
        bytes[] memory votes = votesOf(0);
        LeafOpening memory good = opening(6, leaves, 0);
        LeafOpening memory bad = opening(6, leaves, 1);
        hostile.arm(address(court), abi.encodeCall(court.appeal, (pool, 0, bad, votes, EVIDENCE, "")));
        court.challenge(pool, 0, good, votes, EVIDENCE, "");
        reentered(hostile);
        eq(court.caseCount(), 1);
        hostile.arm(address(court), abi.encodeCall(court.drawJury, (CaseId.wrap(2))));
        court.appeal(pool, 0, bad, votes, EVIDENCE, "");
        require(hostile.failed(), "a jury without its block");
        skip(30);
        finalize(0);
        bytes memory accusation = abi.encodeCall(court.accuse, (pool, workers[0], 0, 0, LIST, EVIDENCE, ""));
        hostile.arm(address(court), accusation);
        court.accuse(pool, workers[0], 0, 0, LIST, EVIDENCE, "");
        reentered(hostile);
        judge(CaseId.wrap(3), Ruling.Fault);
        hostile.arm(address(court), abi.encodeCall(court.appealRuling, (CaseId.wrap(3))));
        court.appealRuling(CaseId.wrap(3));
        require(hostile.failed(), "appealed twice");
        eq(court.caseOf(CaseId.wrap(3)).appealBond, BOND);
        eq(court.caseCount(), 3);
        eq(vault.bondedOf(pool), 5 * BOND);
        eq(hostile.balanceOf(address(vault)), vault.receivedOf(pool));
    }

    // -- no offence twice

    function test_A14_fault_ruled_by_a_jury_is_not_slashed_again() external {
        Submission[] memory leaves = acceptedStep(0);
        CaseId id = challengeBy(DISPUTANT, 0, leaves, 1);
        judge(id, Ruling.Fault);
        bytes32 offence =
            keccak256(abi.encode(keccak256("stannary.offence.fault.v1"), ledger.leafHash(leaves[1])));
        require(stakes.isSlashed(offence), "not slashed");
        eq(tokensOf(workers[0]), 750);
        skip(30);
        finalize(0);
        bytes memory outcomes = ballot(Outcome.Accept);
        LeafOpening memory opened = opening(6, leaves, 1);
        vm.expectRevert(
            abi.encodeWithSelector(IVotingPanel.LeafNotFaulted.selector, uint32(1), Outcome.Accept)
        );
        panel.slashLeaf(pool, 0, opened, outcomes);
        eq(tokensOf(workers[0]), 750);
        nothingKept();
    }

    function test_A14_fault_upheld_by_a_jury_is_slashed_once() external {
        Submission[] memory leaves = voted(0, Outcome.Fault, Outcome.Fault, Outcome.Fault);
        CaseId id = appealBy(DISPUTANT, 0, leaves, 1);
        skip(30);
        finalize(0);
        bytes memory outcomes = ballot(Outcome.Fault);
        LeafOpening memory opened = opening(6, leaves, 1);
        bytes memory held = abi.encodeWithSelector(IVotingPanel.SlotIsHeld.selector, pool, uint32(0), uint32(1));
        vm.expectRevert(held);
        panel.slashLeaf(pool, 0, opened, outcomes);
        judge(id, Ruling.Fault);
        eq(tokensOf(workers[0]), 750);
        vm.expectRevert(held);
        panel.slashLeaf(pool, 0, opened, outcomes);
        wrongPhase(id, CasePhase.Resolved, CasePhase.Voting);
        court.resolve(id);
        eq(tokensOf(workers[0]), 750);
        nothingKept();
    }

    function test_A14_fault_overturned_by_a_jury_is_never_slashed() external {
        Submission[] memory leaves = voted(0, Outcome.Fault, Outcome.Fault, Outcome.Fault);
        CaseId id = appealBy(DISPUTANT, 0, leaves, 1);
        judge(id, Ruling.Reject);
        skip(30);
        finalize(0);
        bytes memory outcomes = ballot(Outcome.Fault);
        LeafOpening memory opened = opening(6, leaves, 1);
        vm.expectRevert(abi.encodeWithSelector(IVotingPanel.SlotIsHeld.selector, pool, uint32(0), uint32(1)));
        panel.slashLeaf(pool, 0, opened, outcomes);
        eq(tokensOf(workers[0]), STAKE);
    }

    function test_A14_overlapping_runs_are_punished_once() external {
        settled(0);
        settled(1);
        CaseId first = accuse(0, 1);
        CaseId same = accuse(0, 1);
        settled(2);
        CaseId second = accuse(1, 2);
        CaseId next = accuse(2, 2);
        eq(holdsOf(Role.Worker, workers[0]), 4);
        for (uint64 i = 1; i <= 4; ++i) judge(CaseId.wrap(i), Ruling.Fault);
        outOfRange(0, 3, 0, 3);
        skip(30);
        court.resolve(first);
        eq(tokensOf(workers[0]), 500);
        eq(court.judgedUpTo(pool, workers[0]), 2);
        outOfRange(1, 2, 2, 3);
        uint256 idle = stakes.idleOf(DISPUTANT);
        vm.expectEmit();
        emit IDisputeCourt.CaseResolved(second, Ruling.Fault, Outcome.Fault, false, 0, 0);
        court.resolve(second);
        court.resolve(same);
        eq(tokensOf(workers[0]), 500);
        eq(stakes.idleOf(DISPUTANT), idle);
        eq(court.judgedUpTo(pool, workers[0]), 2);
        // Each accuser was right: it pays its jury and gets the rest back.
        eq(earned(DISPUTANT), 3 * (2 * BOND - FEES));
        // What follows is another run.
        court.resolve(next);
        eq(court.judgedUpTo(pool, workers[0]), 3);
        eq(tokensOf(workers[0]), 350); // 3,000 of the 5,000 bps: the window's cap is 8,000
        nothingKept();
    }

    function test_A14_two_cases_fine_a_voter_for_each_of_its_wrong_votes_once() external {
        Submission[] memory leaves = makeLeaves(0, 4);
        audit(0, 6, leaves);
        address member = panel.panelOf(pool, 0)[0];
        vote(0, three(ballot(Outcome.Accept), ballot(Outcome.Accept), ballot(Outcome.Accept)));
        CaseId first = challengeBy(DISPUTANT, 0, leaves, 0);
        CaseId second = challengeBy(DISPUTANT, 0, leaves, 1);
        judge(first, Ruling.Reject);
        bytes32 subject = keccak256(abi.encode(keccak256("stannary.offence.vote.v1"), address(court), first));
        require(stakes.isSlashed(keccak256(abi.encode(subject, member))), "not fined");
        eq(stakeOf(member), 900);
        judge(second, Ruling.Reject);
        eq(stakeOf(member), 810);
        skip(30);
        finalize(0);
        eq(stakeOf(member), 810);
        nothingKept();
    }
}

/// @dev With eight validators: whoever may not judge is missed.
contract DisputeCourtOfFewTest is DisputeTest {
    function setPayee(address provider, address payee) internal {
        vm.prank(provider);
        stakes.setPayee(pool, payee);
    }

    function test_D1_disputant_and_who_shares_its_payee_do_not_judge() external {
        Submission[] memory leaves = acceptedStep(0);
        address[] memory others = without(panel.panelOf(pool, 0), new address[](0));
        eq(others.length, 5);
        setPayee(others[1], others[0]);
        setPayee(others[4], others[0]);
        CaseId id = challengeBy(others[0], 0, leaves, 1);
        address[] memory jury = drawJury(id);
        eq(jury.length, 2);
        require(isOf(others[2], jury) && isOf(others[3], jury), "a party judges");
    }

    function test_D1_provider_of_a_disputing_node_does_not_judge() external {
        Submission[] memory leaves = acceptedStep(0);
        address[] memory others = without(panel.panelOf(pool, 0), new address[](0));
        address node = vm.addr(0x77);
        bytes memory signature = consent(0x77, others[0], clock);
        vm.prank(others[0]);
        stakes.addNode(node, clock, signature);
        setPayee(others[1], others[0]);
        setPayee(others[2], others[0]);
        CaseId id = challengeBy(node, 0, leaves, 1);
        address[] memory jury = drawJury(id);
        eq(jury.length, 2);
        require(isOf(others[3], jury) && isOf(others[4], jury), "a party judges");
    }

    function test_D1_who_is_paid_for_a_stranger_that_disputes_does_not_judge() external {
        Submission[] memory leaves = acceptedStep(0);
        address[] memory others = without(panel.panelOf(pool, 0), new address[](0));
        for (uint256 i = 0; i < 3; ++i) setPayee(others[i], STRANGER);
        CaseId id = challengeBy(STRANGER, 0, leaves, 1);
        address[] memory jury = drawJury(id);
        eq(jury.length, 2);
        require(isOf(others[3], jury) && isOf(others[4], jury), "a party judges");
    }

    function test_D1_payee_of_the_worker_does_not_judge() external {
        // Named before it became a validator itself.
        address purse = address(0x108);
        setPayee(workers[0], purse);
        validators.push(purse);
        enter(purse, Role.Validator, STAKE);
        mine(1);
        Submission[] memory leaves = acceptedStep(0);
        address[] memory others = without(panel.panelOf(pool, 0), new address[](0));
        require(isOf(purse, others), "on the panel");
        eq(others.length, 6);
        uint256 shared = 0;
        for (uint256 i = 0; shared < 3; ++i) {
            if (others[i] == purse) continue;
            setPayee(others[i], STRANGER);
            ++shared;
        }
        CaseId id = challengeBy(STRANGER, 0, leaves, 1);
        address[] memory jury = drawJury(id);
        eq(jury.length, 2);
        require(!isOf(purse, jury), "the worker's purse judges");
    }

    function test_D1_appellant_and_accuser_do_not_judge_an_appeal() external {
        settled(0);
        CaseId id = accuse(0, 0);
        address[] memory jury = judge(id, Ruling.Fault);
        address[] memory others = without(jury, new address[](0));
        eq(others.length, 5);
        setPayee(others[0], DISPUTANT);
        setPayee(others[2], others[1]);
        appealRuling(others[1], id);
        address[] memory second = drawJury(id);
        eq(second.length, 2);
        require(isOf(others[3], second) && isOf(others[4], second), "a party judges");
    }

    function test_panel_of_the_step_may_judge_a_run() external {
        settled(0);
        CaseId id = accuse(0, 0);
        say(id, words());
        court.resolve(id);
        // Five are left, all of the panel that did not sit on the first jury among them.
        eq(drawJury(id).length, 5);
    }

    function test_redrawn_jury_of_few_still_needs_most_of_a_whole_jury() external {
        CaseId id = challenged(0);
        split(id);
        court.resolve(id);
        mine(3);
        court.drawJury(id);
        address[] memory rest = court.juryOf(id);
        eq(rest.length, 2);
        commitRuling(id, rest[0], Ruling.Fault);
        skip(40);
        revealRuling(id, rest[0], Ruling.Fault);
        court.resolve(id);
        eq(uint256(court.caseOf(id).ruling), uint256(Ruling.None));
        eq(court.caseOf(id).outcome, Outcome.Accept);
    }

    function test_redrawn_jury_of_few_rules_if_they_agree() external {
        CaseId id = challenged(0);
        split(id);
        court.resolve(id);
        say(id, words(Ruling.Fault, Ruling.Fault));
        court.resolve(id);
        eq(court.caseOf(id).outcome, Outcome.Fault);
    }

    function test_D1_dismissed_members_do_not_judge_and_a_case_without_jurors_ends() external {
        Submission[] memory leaves = makeLeaves(0, 4);
        address[] memory dismissed = audit(0, 6, leaves);
        skip(60);
        panel.redrawPanel(pool, 0);
        address[] memory members = panel.panelOf(pool, 0);
        skip(60);
        CaseId id = appealBy(DISPUTANT, 0, leaves, 1);
        eq(court.caseOf(id).outcome, Outcome.Abstain);
        eq(court.caseOf(id).ballots, 0);
        address[] memory jury = say(id, words());
        eq(jury.length, 2);
        disjoint(jury, members);
        disjoint(jury, dismissed);
        eqHolds(dismissed, 0);
        eqHolds(members, 1);
        court.resolve(id);
        mine(3);
        court.drawJury(id);
        eq(court.juryOf(id).length, 0);
        (uint64 commitUntil, uint64 revealFrom, uint64 revealUntil) = court.juryTimesOf(id);
        eq(commitUntil, clock + 40);
        eq(revealFrom, clock);
        eq(revealUntil, clock);
        court.resolve(id);
        eq(court.caseOf(id).outcome, Outcome.Accept);
        eq(earned(workers[0]), 400);
        eq(earned(DISPUTANT), BOND);
        eq(stakeOf(jury[0]) + stakeOf(jury[1]), 2 * (STAKE - 10));
        skip(30);
        finalize(0);
        nothingKept();
    }

    function test_votes_of_a_panel_below_quorum_open_no_case_before_its_redraw() external {
        Submission[] memory leaves = makeLeaves(0, 4);
        audit(0, 6, leaves);
        vote(0, three(ballot(Outcome.Accept), "", ""));
        LeafOpening memory opened = opening(6, leaves, 1);
        bytes[] memory votes = votesOf(0);
        vm.expectRevert(
            abi.encodeWithSelector(
                IVotingPanel.PanelBelowQuorum.selector, pool, uint32(0), uint256(1), uint256(2)
            )
        );
        court.appeal(pool, 0, opened, votes, EVIDENCE, "");
        panel.redrawPanel(pool, 0);
        vm.expectPartialRevert(IVotingPanel.TooEarly.selector);
        court.appeal(pool, 0, opened, votes, EVIDENCE, "");
        skip(60);
        appealBy(DISPUTANT, 0, leaves, 1);
    }
}
