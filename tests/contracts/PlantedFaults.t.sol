// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";

import {PlantedFaults} from "../../contracts/PlantedFaults.sol";
import {IDisputeCourt} from "../../contracts/interfaces/IDisputeCourt.sol";
import {IPayoutVault} from "../../contracts/interfaces/IPayoutVault.sol";
import {IPlantedFaults} from "../../contracts/interfaces/IPlantedFaults.sol";
import {IStakeManager} from "../../contracts/interfaces/IStakeManager.sol";
import {ISubmissionLedger} from "../../contracts/interfaces/ISubmissionLedger.sol";
import {IVotingPanel} from "../../contracts/interfaces/IVotingPanel.sol";
import {Seeds} from "../../contracts/libraries/Seeds.sol";
import {Outcome, Phase, Role, Ruling} from "../../contracts/types/Enums.sol";
import {CaseId, ExitId, PoolId} from "../../contracts/types/Ids.sol";
import {PartMissing, Parts} from "../../contracts/types/Parts.sol";
import {PoolTerms} from "../../contracts/types/PoolTerms.sol";
import {LeafOpening, Submission} from "../../contracts/types/Submission.sol";
import {DisputeTest, StrictToken} from "./DisputeCourt.t.sol";
import {ReentrantToken} from "./support/Tokens.sol";
import {vm} from "./support/Vm.sol";

/// @dev The leaf of slot 1 is planted, by its worker, the first one.
contract PlantedFaultsTest is DisputeTest {
    address internal planter;

    function setUp() public override {
        super.setUp();
        for (uint160 i = 8; i < 16; ++i) {
            validators.push(address(0x100 + i));
            enter(address(0x100 + i), Role.Validator, STAKE);
        }
        mine(1);
        planter = workers[0];
    }

    // -- the moves

    function plantedLeaf(uint32 step) internal view returns (bytes32) {
        return ledger.leafHash(makeLeaves(step, 4)[1]);
    }

    function commitmentFor(uint32 step, bytes32 salt) internal view returns (bytes32) {
        return plants.plantCommitment(planter, plantedLeaf(step), salt);
    }

    function plantIn(uint32 step, bytes32 salt) internal returns (bytes32 commitment) {
        commitment = commitmentFor(step, salt);
        allow(planter, SLOT);
        vm.prank(planter);
        plants.plant(pool, step, commitment);
    }

    function plantIn(uint32 step) internal returns (bytes32) {
        return plantIn(step, SALT);
    }

    /// A planted step up to its votes.
    function plantedStep(uint32 step) internal returns (bytes32 commitment, Submission[] memory leaves) {
        leaves = makeLeaves(step, 4);
        seed(step, 6);
        commitment = plantIn(step);
        commit(step, 6, leaves);
        draw(step);
    }

    function votedPlant(uint32 step, Outcome a, Outcome b, Outcome c)
        internal
        returns (bytes32 commitment, Submission[] memory leaves)
    {
        (commitment, leaves) = plantedStep(step);
        vote(step, three(ballot(a), ballot(b), ballot(c)));
    }

    function reveal(uint32 step, Submission[] memory leaves, uint256 i, bytes32 salt) internal {
        LeafOpening memory opened = opening(6, leaves, i);
        plants.revealPlant(pool, step, opened, salt);
    }

    function reveal(uint32 step, Submission[] memory leaves) internal {
        reveal(step, leaves, 1, SALT);
    }

    function finish(uint32 step) internal {
        skip(30);
        finalize(step);
    }

    function unknown(bytes32 commitment) internal {
        vm.expectRevert(abi.encodeWithSelector(IPlantedFaults.UnknownPlant.selector, commitment));
    }

    function wrongStepPhase(uint32 step, Phase phase) internal {
        vm.expectRevert(abi.encodeWithSelector(IPlantedFaults.WrongStepPhase.selector, pool, step, phase));
    }

    /// Settles a plant and says how the planter's earnings, the locked money and the bonds changed.
    function settle(bytes32 commitment, uint32 step, Outcome outcome)
        internal
        returns (uint256 returned, uint256 locked)
    {
        bytes[] memory votes = votesOf(step);
        bytes memory outcomes = ballot(outcome);
        Books memory before = booksOf(planter);
        plants.settlePlant(commitment, votes, outcomes);
        Books memory b = booksOf(planter);
        eq(before.bonded - b.bonded, SLOT);
        eq(b.free, before.free);
        eq(b.reserved, before.reserved);
        conserved();
        return (b.wages - before.wages, b.locked - before.locked);
    }

    function eqReturned(bytes32 commitment, uint32 step, Outcome outcome) internal {
        (uint256 returned, uint256 locked) = settle(commitment, step, outcome);
        eq(returned, SLOT);
        eq(locked, 0);
    }

    function eqLocked(bytes32 commitment, uint32 step, Outcome outcome) internal {
        (uint256 returned, uint256 locked) = settle(commitment, step, outcome);
        eq(returned, 0);
        eq(locked, SLOT);
    }

    // -- the deployment

    function test_constructor_with_a_missing_part_is_refused() external {
        Parts memory parts = partsFrom(1);
        parts.court = address(0);
        vm.expectRevert(abi.encodeWithSelector(PartMissing.selector));
        new PlantedFaults(parts);
    }

    function test_plants_keep_the_contracts_of_their_deployment() external view {
        eq(address(plants.registry()), address(registry));
        eq(address(plants.stakes()), address(stakes));
        eq(address(plants.ledger()), address(ledger));
        eq(address(plants.panel()), address(panel));
        eq(address(plants.vault()), address(vault));
        eq(address(plants.court()), address(court));
    }

    // -- planting

    function test_plant_is_a_commitment_for_a_bond_of_the_slots_price() external {
        open(0, 6);
        bytes32 commitment = commitmentFor(0, SALT);
        allow(planter, SLOT + 7);
        vm.expectEmit();
        emit IPlantedFaults.Planted(commitment, pool, 0, planter, SLOT);
        vm.expectEmit();
        emit IPayoutVault.BondTaken(pool, planter, SLOT);
        vm.prank(planter);
        plants.plant(pool, 0, commitment);
        eq(token.balanceOf(planter), 7);
        eq(vault.bondedOf(pool), SLOT);
        require(!plants.isPlant(plantedLeaf(0)), "known too early");
        conserved();
    }

    function test_F4_commitment_binds_chain_contract_planter_leaf_and_salt() external {
        bytes32 commitment = commitmentFor(0, SALT);
        eq(
            commitment,
            keccak256(
                abi.encode(
                    keccak256("stannary.plant.v1"),
                    uint256(31337),
                    address(plants),
                    planter,
                    plantedLeaf(0),
                    SALT
                )
            )
        );
        vm.chainId(31338);
        require(commitmentFor(0, SALT) != commitment, "another chain");
    }

    function test_plant_is_made_before_the_root_is_committed() external {
        bytes32 commitment = commitmentFor(0, SALT);
        allow(planter, 3 * SLOT);
        vm.startPrank(planter);
        wrongStepPhase(0, Phase.None);
        plants.plant(pool, 0, commitment);
        vm.stopPrank();
        seed(0, 6);
        vm.prank(planter);
        plants.plant(pool, 0, commitment);
        commit(0, 6, makeLeaves(0, 4));
        wrongStepPhase(0, Phase.Committed);
        vm.prank(planter);
        plants.plant(pool, 0, keccak256("late"));
        draw(0);
        wrongStepPhase(0, Phase.Audited);
        vm.prank(planter);
        plants.plant(pool, 0, keccak256("late"));
        voteAll(0, ballot(Outcome.Fault));
        finish(0);
        wrongStepPhase(0, Phase.Finalized);
        vm.prank(planter);
        plants.plant(pool, 0, keccak256("late"));
    }

    function test_plant_of_who_is_no_provider_is_refused() external {
        open(0, 6);
        allow(STRANGER, SLOT);
        vm.expectRevert(abi.encodeWithSelector(IPlantedFaults.NotProvider.selector, STRANGER));
        vm.prank(STRANGER);
        plants.plant(pool, 0, keccak256("word"));
    }

    function test_plant_without_money_for_the_bond_is_refused() external {
        open(0, 6);
        bytes32 commitment = commitmentFor(0, SALT);
        allow(planter, SLOT - 1);
        vm.expectPartialRevert(bytes4(keccak256("ERC20InsufficientAllowance(address,uint256,uint256)")));
        vm.prank(planter);
        plants.plant(pool, 0, commitment);
    }

    function test_F4_commitment_is_made_once() external {
        open(0, 6);
        open(1, 6);
        bytes32 commitment = plantIn(0);
        allow(planter, SLOT);
        bytes memory known = abi.encodeWithSelector(IPlantedFaults.PlantKnown.selector, commitment);
        vm.expectRevert(known);
        vm.prank(planter);
        plants.plant(pool, 0, commitment);
        vm.expectRevert(known);
        vm.prank(planter);
        plants.plant(pool, 1, commitment);
    }

    function test_node_plants_for_its_provider_which_gets_the_bond_back() external {
        Submission[] memory leaves = makeLeaves(0, 4);
        address node = vm.addr(0x77);
        bytes memory signature = consent(0x77, planter, clock);
        vm.prank(planter);
        stakes.addNode(node, clock, signature);
        seed(0, 6);
        bytes32 commitment = commitmentFor(0, SALT);
        allow(node, SLOT);
        vm.expectEmit();
        emit IPlantedFaults.Planted(commitment, pool, 0, planter, SLOT);
        vm.prank(node);
        plants.plant(pool, 0, commitment);
        eq(token.balanceOf(node), 0);
        commit(0, 6, leaves);
        draw(0);
        voteAll(0, ballot(Outcome.Fault));
        reveal(0, leaves);
        finish(0);
        eqReturned(commitment, 0, Outcome.Fault);
        eq(earned(node), 0);
        nothingKept();
    }

    function test_plant_that_costs_nothing_moves_no_tokens() external {
        PoolTerms memory t = terms();
        StrictToken strict = new StrictToken();
        t.parties.payoutToken = address(strict);
        t.offer.pricePerGroup = 0;
        t.offer.pricePerToken = 0;
        moveTo(t);
        strict.mint(address(this), FUNDS);
        strict.approve(address(vault), FUNDS);
        vault.fund(pool, FUNDS);
        Submission[] memory leaves = makeLeaves(0, 4);
        seed(0, 6);
        bytes32 commitment = commitmentFor(0, SALT);
        vm.prank(planter);
        plants.plant(pool, 0, commitment);
        commit(0, 6, leaves);
        draw(0);
        voteAll(0, ballot(Outcome.Fault));
        finish(0);
        plants.settlePlant(commitment, votesOf(0), "");
        nothingKept();
    }

    function test_bond_is_of_the_steps_own_offer() external {
        PoolTerms memory t = terms();
        t.offer.pricePerGroup = 900;
        seed(0, 6);
        vm.prank(OWNER);
        registry.announceOffer(pool, t.offer);
        skip(100);
        eq(registry.offerNumberOf(pool), 1);
        bytes32 commitment = plantIn(0);
        eq(token.balanceOf(planter), 0);
        skip(1_000);
        ledger.cancelStep(pool, 0);
        eqReturned(commitment, 0, Outcome.Accept);
    }

    function test_bond_of_a_hostile_token_does_not_reenter() external {
        ReentrantToken hostile = new ReentrantToken();
        PoolTerms memory t = terms();
        t.parties.payoutToken = address(hostile);
        moveTo(t);
        hostile.mint(planter, FUNDS + SLOT);
        vm.startPrank(planter);
        hostile.approve(address(vault), FUNDS + SLOT);
        vault.fund(pool, FUNDS);
        vm.stopPrank();
        open(0, 6);
        bytes32 commitment = commitmentFor(0, SALT);
        hostile.arm(address(plants), abi.encodeCall(plants.plant, (pool, 0, keccak256("other"))));
        vm.prank(planter);
        plants.plant(pool, 0, commitment);
        require(hostile.failed(), "not reentered, or let in");
        eq(bytes32(hostile.failure()), bytes32(ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector));
    }

    // -- revealing

    function test_plant_is_revealed_when_the_votes_are_in() external {
        (bytes32 commitment, Submission[] memory leaves) = plantedStep(0);
        LeafOpening memory opened = opening(6, leaves, 1);
        address[] memory members = panel.panelOf(pool, 0);
        bytes memory packed = ballot(Outcome.Fault);
        for (uint256 i = 0; i < 2; ++i) commitVote(0, members[i], packed);
        uint256 votesUntil = clock + 60;
        skip(40);
        revealVote(0, members[0], packed);
        skip(19);
        vm.expectRevert(abi.encodeWithSelector(IPlantedFaults.TooEarly.selector, votesUntil, clock));
        plants.revealPlant(pool, 0, opened, SALT);
        skip(1);
        vm.expectEmit();
        emit IPlantedFaults.PlantRevealed(commitment, pool, 0, 1, plantedLeaf(0));
        vm.prank(STRANGER);
        plants.revealPlant(pool, 0, opened, SALT);
        require(plants.isPlant(plantedLeaf(0)), "not known");
        require(!plants.isPlant(ledger.leafHash(leaves[0])), "another leaf");
    }

    function test_plant_is_not_revealed_before_its_panel_is_drawn() external {
        Submission[] memory leaves = makeLeaves(0, 4);
        seed(0, 6);
        plantIn(0);
        commit(0, 6, leaves);
        LeafOpening memory opened = opening(6, leaves, 1);
        vm.expectRevert(abi.encodeWithSelector(IPlantedFaults.TooEarly.selector, uint256(0), clock));
        plants.revealPlant(pool, 0, opened, SALT);
    }

    function test_plant_is_revealed_once() external {
        (bytes32 commitment, Submission[] memory leaves) = votedPlant(0, Outcome.Fault, Outcome.Fault, Outcome.Accept);
        LeafOpening memory opened = opening(6, leaves, 1);
        plants.revealPlant(pool, 0, opened, SALT);
        bytes memory before = abi.encodeWithSelector(IPlantedFaults.PlantRevealedBefore.selector, commitment);
        vm.expectRevert(before);
        plants.revealPlant(pool, 0, opened, SALT);
        finish(0);
        vm.expectRevert(before);
        plants.revealPlant(pool, 0, opened, SALT);
        eqReturned(commitment, 0, Outcome.Fault);
        unknown(commitment);
        plants.revealPlant(pool, 0, opened, SALT);
    }

    function test_F4_other_salt_leaf_or_step_reveals_nothing() external {
        (, Submission[] memory leaves) = votedPlant(0, Outcome.Fault, Outcome.Fault, Outcome.Fault);
        LeafOpening memory opened = opening(6, leaves, 1);
        bytes32 salt = keccak256("pepper");
        unknown(plants.plantCommitment(planter, plantedLeaf(0), salt));
        plants.revealPlant(pool, 0, opened, salt);
        bytes32 commitment = plants.plantCommitment(planter, ledger.leafHash(leaves[0]), SALT);
        opened = opening(6, leaves, 0);
        unknown(commitment);
        plants.revealPlant(pool, 0, opened, SALT);
        opened.leaf.units = 1;
        bytes32 leafHash = ledger.leafHash(opened.leaf);
        vm.expectRevert(abi.encodeWithSelector(ISubmissionLedger.LeafNotCommitted.selector, leafHash, uint32(0)));
        plants.revealPlant(pool, 0, opened, SALT);
    }

    /// The commitment names a leaf of another step than the one it was made in.
    function test_F4_plant_of_another_step_is_not_revealed() external {
        Submission[] memory leaves = makeLeaves(1, 4);
        open(0, 6);
        seed(1, 6);
        bytes32 commitment = commitmentFor(1, SALT);
        allow(planter, SLOT);
        vm.prank(planter);
        plants.plant(pool, 0, commitment);
        commit(1, 6, leaves);
        draw(1);
        voteAll(1, ballot(Outcome.Fault));
        LeafOpening memory opened = opening(6, leaves, 1);
        unknown(commitment);
        plants.revealPlant(pool, 1, opened, SALT);
    }

    function test_F4_plant_of_another_pool_is_not_revealed() external {
        PoolId first = pool;
        open(0, 6);
        moveTo(terms());
        Submission[] memory leaves = makeLeaves(0, 4);
        bytes32 commitment = commitmentFor(0, SALT);
        allow(planter, SLOT);
        vm.prank(planter);
        plants.plant(first, 0, commitment);
        audit(0, 6, leaves);
        voteAll(0, ballot(Outcome.Fault));
        LeafOpening memory opened = opening(6, leaves, 1);
        unknown(commitment);
        plants.revealPlant(pool, 0, opened, SALT);
    }

    function test_F4_commitment_copied_by_another_provider_gains_it_nothing() external {
        Submission[] memory leaves = makeLeaves(0, 4);
        seed(0, 6);
        bytes32 commitment = commitmentFor(0, SALT);
        // Sent first by who saw it on its way.
        allow(workers[1], SLOT);
        vm.prank(workers[1]);
        plants.plant(pool, 0, commitment);
        allow(planter, SLOT);
        vm.expectRevert(abi.encodeWithSelector(IPlantedFaults.PlantKnown.selector, commitment));
        vm.prank(planter);
        plants.plant(pool, 0, commitment);
        bytes32 own = plantIn(0, keccak256("pepper"));
        commit(0, 6, leaves);
        draw(0);
        vote(0, three(ballot(Outcome.Fault), ballot(Outcome.Fault), ballot(Outcome.Accept)));
        LeafOpening memory opened = opening(6, leaves, 1);
        unknown(commitment);
        plants.revealPlant(pool, 0, opened, SALT);
        reveal(0, leaves, 1, keccak256("pepper"));
        finish(0);
        uint256 wages = earned(workers[1]);
        eqLocked(commitment, 0, Outcome.Fault);
        eq(earned(workers[1]), wages);
        eq(stakes.idleOf(workers[1]), 0);
        eqReturned(own, 0, Outcome.Fault);
        nothingKept();
    }

    /// Whose leaf it is not cannot shield it.
    function test_F4_plant_of_anothers_leaf_is_not_revealed() external {
        Submission[] memory leaves = makeLeaves(0, 4);
        seed(0, 6);
        bytes32 commitment = plants.plantCommitment(validators[0], plantedLeaf(0), SALT);
        allow(validators[0], SLOT);
        vm.prank(validators[0]);
        plants.plant(pool, 0, commitment);
        commit(0, 6, leaves);
        draw(0);
        voteAll(0, ballot(Outcome.Fault));
        LeafOpening memory opened = opening(6, leaves, 1);
        bytes32 named = commitmentFor(0, SALT);
        unknown(named);
        plants.revealPlant(pool, 0, opened, SALT);
        finish(0);
        eqLocked(commitment, 0, Outcome.Fault);
    }

    // -- settling

    function test_F3_plant_found_gets_its_bond_back_and_fines_who_accepted() external {
        (bytes32 commitment, Submission[] memory leaves) =
            votedPlant(0, Outcome.Fault, Outcome.Accept, Outcome.Fault);
        address[] memory members = panel.panelOf(pool, 0);
        reveal(0, leaves);
        finish(0);
        bytes[] memory votes = votesOf(0);
        bytes32 offence = keccak256(
            abi.encode(keccak256("stannary.offence.plant.v1"), address(plants), commitment, members[1])
        );
        vm.expectEmit();
        emit IStakeManager.Slashed(pool, Role.Validator, members[1], offence, 500, 50, planter, 10);
        vm.expectEmit();
        emit IPlantedFaults.PlantSettled(commitment, true, 50);
        vm.expectEmit();
        emit IPayoutVault.BondSpent(pool, planter, SLOT);
        vm.prank(STRANGER);
        plants.settlePlant(commitment, votes, ballot(Outcome.Fault));
        eq(earned(planter), 400 + SLOT); // the leaf of slot 0, and the bond
        eq(stakeOf(members[0]), STAKE);
        eq(stakeOf(members[1]), 950);
        eq(stakeOf(members[2]), STAKE);
        // A fifth of the fine is the planter's, the rest is burned.
        eq(stakes.idleOf(planter), 10);
        eq(stakes.burnable(), 40);
        (,, uint256 locked) = vault.escrowOf(pool);
        eq(locked, SLOT); // the faulty slot's own price
        nothingKept();
    }

    function test_F3_each_seat_that_accepted_is_fined_and_no_silent_one() external {
        (bytes32 commitment, Submission[] memory leaves) = plantedStep(0);
        vote(0, three(ballot(Outcome.Fault), "", ballot(Outcome.Fault)));
        address[] memory members = panel.panelOf(pool, 0);
        reveal(0, leaves);
        finish(0);
        bytes[] memory votes = votesOf(0);
        vm.expectEmit();
        emit IPlantedFaults.PlantSettled(commitment, true, 0);
        plants.settlePlant(commitment, votes, ballot(Outcome.Fault));
        eq(stakeOf(members[1]), STAKE - 10); // for silence alone
        nothingKept();
    }

    function test_F3_all_who_accepted_are_fined() external {
        PoolTerms memory t = terms();
        t.panel.panelSize = 5;
        t.panel.quorum = 3;
        moveTo(t);
        (bytes32 commitment, Submission[] memory leaves) = plantedStep(0);
        address[] memory members = panel.panelOf(pool, 0);
        bytes[] memory ballots = new bytes[](5);
        for (uint256 i = 0; i < 5; ++i) ballots[i] = ballot(i % 3 == 0 ? Outcome.Accept : Outcome.Fault);
        vote(0, ballots);
        reveal(0, leaves);
        finish(0);
        bytes[] memory votes = votesOf(0);
        vm.expectEmit();
        emit IPlantedFaults.PlantSettled(commitment, true, 100);
        plants.settlePlant(commitment, votes, ballot(Outcome.Fault));
        for (uint256 i = 0; i < 5; ++i) eq(stakeOf(members[i]), i % 3 == 0 ? 950 : STAKE);
        eq(stakes.idleOf(planter), 20);
        nothingKept();
    }

    function test_F3_rejection_is_not_acceptance() external {
        (bytes32 commitment, Submission[] memory leaves) =
            votedPlant(0, Outcome.Fault, Outcome.Fault, Outcome.Reject);
        address[] memory members = panel.panelOf(pool, 0);
        reveal(0, leaves);
        finish(0);
        eqReturned(commitment, 0, Outcome.Fault);
        for (uint256 i = 0; i < 3; ++i) eq(stakeOf(members[i]), STAKE);
    }

    function test_F1_plant_accepted_loses_its_bond() external {
        (bytes32 commitment, Submission[] memory leaves) =
            votedPlant(0, Outcome.Accept, Outcome.Accept, Outcome.Accept);
        address[] memory members = panel.panelOf(pool, 0);
        reveal(0, leaves);
        finish(0);
        vm.expectEmit();
        emit IPlantedFaults.PlantSettled(commitment, false, 0);
        vm.expectEmit();
        emit IPayoutVault.BondLocked(pool, SLOT);
        eqLockedAfter(commitment, Outcome.Accept);
        for (uint256 i = 0; i < 3; ++i) eq(stakeOf(members[i]), STAKE);
        eq(stakes.idleOf(planter), 0);
        nothingKept();
    }

    /// Settles without any other call between an expected event and the settlement.
    function eqLockedAfter(bytes32 commitment, Outcome outcome) internal {
        bytes[] memory votes = votesOf(0);
        (,, uint256 locked) = vault.escrowOf(pool);
        uint256 wages = earned(planter);
        plants.settlePlant(commitment, votes, ballot(outcome));
        (,, uint256 lockedNow) = vault.escrowOf(pool);
        eq(lockedNow - locked, SLOT);
        eq(earned(planter), wages);
    }

    /// A planted leaf of so many units, up to its votes.
    function votedWith(uint32 units, bytes memory votes)
        internal
        returns (bytes32 commitment, Submission[] memory leaves)
    {
        leaves = makeLeaves(0, 4);
        leaves[1].units = units;
        seed(0, 6);
        commitment = plants.plantCommitment(planter, ledger.leafHash(leaves[1]), SALT);
        allow(planter, SLOT);
        vm.prank(planter);
        plants.plant(pool, 0, commitment);
        commit(0, 6, leaves);
        draw(0);
        voteAll(0, votes);
    }

    function testFuzz_F1_accepted_plant_never_earns_more_than_its_bond(uint32 units) external {
        bytes memory outcomes = ballot(Outcome.Accept);
        (bytes32 commitment, Submission[] memory leaves) = votedWith(units % 201, outcomes);
        reveal(0, leaves);
        finish(0);
        bytes[] memory votes = votesOf(0);
        plants.settlePlant(commitment, votes, outcomes);
        // 400 for the other leaf; for this one at most what the bond of SLOT lost.
        eq(earned(planter), 400 + 100 + 2 * (units % 201));
        require(earned(planter) - 400 <= SLOT, "a plant pays");
        eq(token.balanceOf(planter), 0);
        nothingKept();
    }

    /// What one leaf claims too much may be paid out of what another leaves of its own cap.
    function test_F1_plant_of_more_units_than_a_leaf_is_paid_is_not_revealed() external {
        bytes memory outcomes = ballot(Outcome.Fault);
        (bytes32 commitment, Submission[] memory leaves) = votedWith(201, outcomes);
        LeafOpening memory opened = opening(6, leaves, 1);
        unknown(commitment);
        plants.revealPlant(pool, 0, opened, SALT);
        finish(0);
        eqLocked(commitment, 0, Outcome.Fault);
        panel.slashLeaf(pool, 0, opened, outcomes);
        eq(tokensOf(planter), 750);
        nothingKept();
    }

    function test_F1_plant_rejected_loses_its_bond() external {
        (bytes32 commitment, Submission[] memory leaves) =
            votedPlant(0, Outcome.Reject, Outcome.Reject, Outcome.Accept);
        address[] memory members = panel.panelOf(pool, 0);
        reveal(0, leaves);
        finish(0);
        eqLocked(commitment, 0, Outcome.Reject);
        for (uint256 i = 0; i < 3; ++i) eq(stakeOf(members[i]), STAKE);
        nothingKept();
    }

    function test_F1_plant_undecided_loses_its_bond() external {
        (bytes32 commitment, Submission[] memory leaves) =
            votedPlant(0, Outcome.Reject, Outcome.Abstain, Outcome.Accept);
        reveal(0, leaves);
        finish(0);
        eqLocked(commitment, 0, Outcome.Abstain);
        nothingKept();
    }

    function test_F1_plant_that_is_not_revealed_loses_its_bond() external {
        (bytes32 commitment, Submission[] memory leaves) =
            votedPlant(0, Outcome.Fault, Outcome.Fault, Outcome.Accept);
        address[] memory members = panel.panelOf(pool, 0);
        finish(0);
        vm.expectEmit();
        emit IPlantedFaults.PlantSettled(commitment, false, 0);
        plants.settlePlant(commitment, new bytes[](0), "");
        eq(earned(planter), 400);
        eq(stakeOf(members[2]), STAKE);
        LeafOpening memory opened = opening(6, leaves, 1);
        unknown(commitment);
        plants.revealPlant(pool, 0, opened, SALT);
        panel.slashLeaf(pool, 0, opened, ballot(Outcome.Fault));
        eq(tokensOf(planter), 750);
        nothingKept();
    }

    function test_plant_of_a_cancelled_step_gets_its_bond_back() external {
        open(0, 6);
        bytes32 commitment = plantIn(0);
        wrongStepPhase(0, Phase.Open);
        plants.settlePlant(commitment, new bytes[](0), "");
        mine(3);
        ledger.sealSeedBeacon(pool, 0);
        wrongStepPhase(0, Phase.Seeded);
        plants.settlePlant(commitment, new bytes[](0), "");
        skip(80);
        ledger.cancelStep(pool, 0);
        vm.expectEmit();
        emit IPlantedFaults.PlantSettled(commitment, false, 0);
        plants.settlePlant(commitment, new bytes[](0), "");
        eq(earned(planter), SLOT);
        unknown(commitment);
        plants.settlePlant(commitment, new bytes[](0), "");
        nothingKept();
    }

    function test_plant_is_settled_once_and_after_its_step() external {
        (bytes32 commitment, Submission[] memory leaves) =
            votedPlant(0, Outcome.Fault, Outcome.Fault, Outcome.Accept);
        address[] memory members = panel.panelOf(pool, 0);
        reveal(0, leaves);
        bytes[] memory votes = votesOf(0);
        wrongStepPhase(0, Phase.Audited);
        plants.settlePlant(commitment, votes, ballot(Outcome.Fault));
        finish(0);
        unknown(keccak256("none"));
        plants.settlePlant(keccak256("none"), votes, ballot(Outcome.Fault));
        eqReturned(commitment, 0, Outcome.Fault);
        unknown(commitment);
        plants.settlePlant(commitment, votes, ballot(Outcome.Fault));
        eq(stakeOf(members[2]), 950);
        nothingKept();
    }

    function test_plant_is_settled_by_the_steps_own_votes_and_outcomes() external {
        (bytes32 commitment, Submission[] memory leaves) =
            votedPlant(0, Outcome.Fault, Outcome.Fault, Outcome.Accept);
        reveal(0, leaves);
        finish(0);
        bytes[] memory votes = votesOf(0);
        bytes memory outcomes = ballot(Outcome.Accept);
        vm.expectRevert(
            abi.encodeWithSelector(
                IVotingPanel.OutcomesMismatch.selector, keccak256(outcomes), keccak256(ballot(Outcome.Fault))
            )
        );
        plants.settlePlant(commitment, votes, outcomes);
        votes[2] = votes[0];
        vm.expectRevert(
            abi.encodeWithSelector(IVotingPanel.VotesMismatch.selector, pool, uint32(0), uint256(2))
        );
        plants.settlePlant(commitment, votes, ballot(Outcome.Fault));
        eqReturned(commitment, 0, Outcome.Fault);
    }

    // -- what a plant is safe from

    function test_F2_revealed_plant_is_not_slashed_as_a_leaf() external {
        (, Submission[] memory leaves) = votedPlant(0, Outcome.Fault, Outcome.Fault, Outcome.Fault);
        reveal(0, leaves);
        finish(0);
        LeafOpening memory opened = opening(6, leaves, 1);
        bytes memory outcomes = ballot(Outcome.Fault);
        vm.expectRevert(abi.encodeWithSelector(IVotingPanel.LeafIsPlant.selector, plantedLeaf(0)));
        panel.slashLeaf(pool, 0, opened, outcomes);
        eq(tokensOf(planter), STAKE);
    }

    function test_F2_plant_does_not_shield_another_leaf() external {
        (, Submission[] memory leaves) = plantedStep(0);
        bytes memory outcomes = all(Outcome.Fault, 4);
        voteAll(0, bytes.concat(outcomes, bytes1(0)));
        reveal(0, leaves);
        finish(0);
        LeafOpening memory opened = opening(6, leaves, 0);
        panel.slashLeaf(pool, 0, opened, bytes.concat(outcomes, bytes1(0)));
        eq(tokensOf(planter), 750);
    }

    function test_F2_plant_is_not_safe_from_a_run() external {
        (bytes32 commitment, Submission[] memory leaves) =
            votedPlant(0, Outcome.Fault, Outcome.Fault, Outcome.Fault);
        reveal(0, leaves);
        finish(0);
        CaseId id = accuse(0, 0);
        judge(id, Ruling.Fault);
        skip(30);
        court.resolve(id);
        eq(tokensOf(planter), 500);
        eqReturned(commitment, 0, Outcome.Fault);
        nothingKept();
    }

    function test_A14_slashed_leaf_revealed_as_a_plant_afterwards_is_slashed_once() external {
        (bytes32 commitment, Submission[] memory leaves) =
            votedPlant(0, Outcome.Fault, Outcome.Fault, Outcome.Accept);
        finish(0);
        LeafOpening memory opened = opening(6, leaves, 1);
        bytes memory outcomes = ballot(Outcome.Fault);
        panel.slashLeaf(pool, 0, opened, outcomes);
        reveal(0, leaves);
        eqReturned(commitment, 0, Outcome.Fault);
        vm.expectRevert(abi.encodeWithSelector(IVotingPanel.LeafIsPlant.selector, plantedLeaf(0)));
        panel.slashLeaf(pool, 0, opened, outcomes);
        eq(tokensOf(planter), 750);
        nothingKept();
    }

    // -- a plant before a jury

    /// Accepted by the first two seats and challenged.
    function challengedPlant() internal returns (bytes32 commitment, Submission[] memory leaves, CaseId id) {
        (commitment, leaves) = votedPlant(0, Outcome.Accept, Outcome.Accept, Outcome.Fault);
        id = challengeBy(DISPUTANT, 0, leaves, 1);
    }

    function test_A14_plant_before_a_jury_fines_no_voter_again() external {
        (bytes32 commitment, Submission[] memory leaves, CaseId id) = challengedPlant();
        address[] memory members = panel.panelOf(pool, 0);
        reveal(0, leaves);
        finish(0);
        bytes[] memory votes = votesOf(0);
        bytes memory outcomes = ballot(Outcome.Accept);
        vm.expectRevert(abi.encodeWithSelector(IPlantedFaults.CaseUnresolved.selector, id));
        plants.settlePlant(commitment, votes, outcomes);
        sayAll(id, Ruling.Fault);
        // Its worker is not slashed; who accepted it is, as by any challenge.
        vm.expectEmit();
        emit IDisputeCourt.CaseResolved(id, Ruling.Fault, Outcome.Fault, false, 0, 200);
        court.resolve(id);
        eq(tokensOf(planter), STAKE);
        eq(stakeOf(members[0]), 900);
        eq(stakeOf(members[1]), 900);
        vm.expectEmit();
        emit IPlantedFaults.PlantSettled(commitment, true, 0);
        plants.settlePlant(commitment, votes, outcomes);
        eq(earned(planter), 400 + SLOT);
        eq(stakeOf(members[0]), 900);
        eq(stakeOf(members[1]), 900);
        eq(stakeOf(members[2]), STAKE);
        nothingKept();
    }

    function test_A14_plant_revealed_after_a_ruling_was_slashed_once() external {
        (bytes32 commitment, Submission[] memory leaves, CaseId id) = challengedPlant();
        judge(id, Ruling.Fault);
        eq(tokensOf(planter), 750);
        reveal(0, leaves);
        finish(0);
        eqReturned(commitment, 0, Outcome.Accept);
        eq(tokensOf(planter), 750);
        nothingKept();
    }

    function test_F1_plant_that_a_jury_accepts_or_rejects_loses_its_bond() external {
        Ruling[3] memory rulings = [Ruling.Accept, Ruling.Grey, Ruling.Reject];
        for (uint32 step = 0; step < 3; ++step) {
            (bytes32 commitment, Submission[] memory leaves) =
                votedPlant(step, Outcome.Accept, Outcome.Accept, Outcome.Accept);
            CaseId id = challengeBy(DISPUTANT, step, leaves, 1);
            reveal(step, leaves);
            judge(id, rulings[step]);
            finish(step);
            eqLocked(commitment, step, Outcome.Accept);
        }
        nothingKept();
    }

    function test_F1_plant_whose_bytes_a_challenger_did_not_serve_loses_its_bond() external {
        (bytes32 commitment, Submission[] memory leaves, CaseId id) = challengedPlant();
        address[] memory members = panel.panelOf(pool, 0);
        reveal(0, leaves);
        judge(id, Ruling.Unavailable);
        finish(0);
        eqLocked(commitment, 0, Outcome.Accept);
        for (uint256 i = 0; i < 3; ++i) eq(stakeOf(members[i]), STAKE);
        nothingKept();
    }

    function test_A14_plant_upheld_by_a_jury_fines_who_accepted_once() external {
        (bytes32 commitment, Submission[] memory leaves) =
            votedPlant(0, Outcome.Fault, Outcome.Fault, Outcome.Accept);
        address[] memory members = panel.panelOf(pool, 0);
        CaseId id = appealBy(DISPUTANT, 0, leaves, 1);
        reveal(0, leaves);
        judge(id, Ruling.Fault);
        eq(stakeOf(members[2]), 900);
        eq(tokensOf(planter), STAKE);
        finish(0);
        eqReturned(commitment, 0, Outcome.Fault);
        eq(stakeOf(members[2]), 900);
        nothingKept();
    }

    /// A careless voter must not get rid of its fine by an appeal that it does not serve.
    function test_F3_appeal_that_nobody_serves_does_not_spare_who_accepted() external {
        (bytes32 commitment, Submission[] memory leaves) =
            votedPlant(0, Outcome.Fault, Outcome.Fault, Outcome.Accept);
        address[] memory members = panel.panelOf(pool, 0);
        reveal(0, leaves);
        CaseId id = appealBy(members[2], 0, leaves, 1);
        judge(id, Ruling.Unavailable);
        eq(court.caseOf(id).outcome, Outcome.Fault);
        eq(stakeOf(members[2]), STAKE);
        finish(0);
        eqReturned(commitment, 0, Outcome.Fault);
        eq(stakeOf(members[2]), 950);
        nothingKept();
    }

    function test_plant_that_an_appeal_makes_a_rejection_loses_its_bond_and_fines_nobody() external {
        (bytes32 commitment, Submission[] memory leaves) =
            votedPlant(0, Outcome.Fault, Outcome.Fault, Outcome.Accept);
        address[] memory members = panel.panelOf(pool, 0);
        reveal(0, leaves);
        CaseId id = appealBy(DISPUTANT, 0, leaves, 1);
        judge(id, Ruling.Reject);
        finish(0);
        eqLocked(commitment, 0, Outcome.Fault);
        eq(stakeOf(members[2]), STAKE);
        nothingKept();
    }

    // -- one leaf, one plant

    function test_A14_leaf_planted_twice_fines_who_accepted_once() external {
        Submission[] memory leaves = makeLeaves(0, 4);
        seed(0, 6);
        bytes32 first = plantIn(0);
        bytes32 second = plantIn(0, keccak256("pepper"));
        commit(0, 6, leaves);
        draw(0);
        address[] memory members = panel.panelOf(pool, 0);
        vote(0, three(ballot(Outcome.Fault), ballot(Outcome.Fault), ballot(Outcome.Accept)));
        reveal(0, leaves);
        LeafOpening memory opened = opening(6, leaves, 1);
        vm.expectRevert(abi.encodeWithSelector(IPlantedFaults.PlantRevealedBefore.selector, second));
        plants.revealPlant(pool, 0, opened, keccak256("pepper"));
        finish(0);
        eqReturned(first, 0, Outcome.Fault);
        eqLocked(second, 0, Outcome.Fault);
        eq(stakeOf(members[2]), 950);
        nothingKept();
    }

    function test_two_plants_of_one_step_are_two_offences() external {
        Submission[] memory leaves = makeLeaves(0, 4);
        seed(0, 6);
        bytes32 first = plantIn(0);
        bytes32 second = plants.plantCommitment(planter, ledger.leafHash(leaves[0]), SALT);
        allow(planter, SLOT);
        vm.prank(planter);
        plants.plant(pool, 0, second);
        commit(0, 6, leaves);
        draw(0);
        address[] memory members = panel.panelOf(pool, 0);
        Outcome[] memory outcomes = new Outcome[](6);
        (outcomes[0], outcomes[1]) = (Outcome.Fault, Outcome.Fault);
        bytes memory found = pack(outcomes);
        vote(0, three(found, all(Outcome.Accept, 6), found));
        reveal(0, leaves, 0, SALT);
        reveal(0, leaves, 1, SALT);
        finish(0);
        bytes[] memory votes = votesOf(0);
        plants.settlePlant(first, votes, found);
        eq(stakeOf(members[1]), 950);
        plants.settlePlant(second, votes, found);
        eq(stakeOf(members[1]), 902); // 47.5, rounded up
        eq(stakes.idleOf(planter), 10 + 9);
        nothingKept();
    }

    function test_plant_in_a_slot_taken_on_chain_is_one_too() external {
        Submission[] memory leaves = makeLeaves(0, 4);
        address taker = workers[1];
        seed(0, 6);
        bytes memory signature = consent(0x77, taker, clock);
        vm.prank(taker);
        stakes.addNode(vm.addr(0x77), clock, signature);
        allow(taker, 2 * SLOT);
        vm.prank(taker);
        uint32 slot = ledger.takeSlot(pool, 0);
        Submission memory leaf = leaves[0];
        leaf.slot = slot;
        leaf.provider = taker;
        leaf.node = vm.addr(0x77);
        leaf.leaseHash = Seeds.takenLease(address(ledger), pool, 0, slot, taker);
        bytes32 commitment = plants.plantCommitment(taker, ledger.leafHash(leaf), SALT);
        vm.prank(taker);
        plants.plant(pool, 0, commitment);
        commit(0, 6, makeLeaves(0, 4));
        mine(3);
        ledger.sealTakenSlot(pool, 0, slot);
        signature = sign(0x77, ledger.submissionDigest(leaf));
        ledger.deliverTaken(pool, 0, leaf, signature, "there");
        draw(0);
        Outcome[] memory outcomes = new Outcome[](7);
        outcomes[6] = Outcome.Fault;
        bytes memory found = pack(outcomes);
        outcomes[6] = Outcome.Accept;
        address[] memory members = panel.panelOf(pool, 0);
        vote(0, three(pack(outcomes), found, found));
        plants.revealPlant(pool, 0, LeafOpening({leaf: leaf, proof: new bytes32[](0)}), SALT);
        finish(0);
        bytes[] memory votes = votesOf(0);
        plants.settlePlant(commitment, votes, found);
        eq(earned(taker), 2 * SLOT); // both bonds
        eq(stakeOf(members[0]), 950);
        nothingKept();
    }

    function test_exit_of_a_careless_voter_does_not_beat_its_fine() external {
        (bytes32 commitment, Submission[] memory leaves) =
            votedPlant(0, Outcome.Fault, Outcome.Fault, Outcome.Accept);
        address member = panel.panelOf(pool, 0)[2];
        ExitId exitId = startExit(member, Role.Validator, STAKE);
        reveal(0, leaves);
        skip(300);
        finalize(0);
        vm.expectPartialRevert(IStakeManager.SlashWindowOpen.selector);
        stakes.finishExit(exitId);
        eqReturned(commitment, 0, Outcome.Fault);
        skip(30);
        stakes.finishExit(exitId);
        eq(stakes.idleOf(member), 950);
    }
}
