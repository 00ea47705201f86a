// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Ballots} from "../../contracts/libraries/Ballots.sol";
import {LeaseHash} from "../../contracts/libraries/LeaseHash.sol";
import {MerkleIndex} from "../../contracts/libraries/MerkleIndex.sol";
import {Outcomes} from "../../contracts/libraries/Outcomes.sol";
import {PanelDraw} from "../../contracts/libraries/PanelDraw.sol";
import {Pricing} from "../../contracts/libraries/Pricing.sol";
import {Seeds} from "../../contracts/libraries/Seeds.sol";
import {SubmissionHash} from "../../contracts/libraries/SubmissionHash.sol";
import {Outcome} from "../../contracts/types/Enums.sol";
import {CaseId, PoolId} from "../../contracts/types/Ids.sol";
import {Fees, Offer, PanelRules, Rates, WorkRules} from "../../contracts/types/PoolTerms.sol";
import {Lease, Submission} from "../../contracts/types/Submission.sol";
import {Trees} from "./support/Trees.sol";
import {vm} from "./support/Vm.sol";

/// @dev The libraries behind an external call, so that reverts and calldata are real.
contract LibraryHarness {
    function verify(bytes32 root, bytes32 leaf, uint256 index, uint256 leafCount, bytes32[] calldata proof)
        external
        pure
        returns (bool)
    {
        return MerkleIndex.verify(root, leaf, index, leafCount, proof);
    }

    function check(bytes calldata packed, uint256 leafCount) external pure {
        Outcomes.check(packed, leafCount);
    }

    function toWords(bytes calldata packed) external pure returns (uint256[] memory) {
        return Outcomes.toWords(packed);
    }

    function toBytes(uint256[] memory words, uint256 leafCount) external pure returns (bytes memory) {
        return Outcomes.toBytes(words, leafCount);
    }

    function inBytes(bytes calldata packed, uint256 index) external pure returns (Outcome) {
        return Outcomes.inBytes(packed, index);
    }

    function outcomeAt(uint256[] memory words, uint256 index) external pure returns (Outcome) {
        return Outcomes.outcomeAt(words, index);
    }

    function draw(address[] memory candidates, uint256[] memory weights, bytes32 beacon, uint256 size)
        external
        pure
        returns (address[] memory)
    {
        return PanelDraw.draw(candidates, weights, beacon, size);
    }
}

/// @dev One ballot box.
contract BallotHarness {
    using Ballots for Ballots.Box;

    Ballots.Box private _box;

    function open(address[] calldata newcomers, uint16 positions, uint48 time) external {
        _box.open(newcomers, positions, time);
    }

    function refill(address[] calldata newcomers, uint48 time) external {
        _box.refill(newcomers, time);
    }

    function commit(address member, bytes32 word, uint48 time, uint32 voteSeconds) external {
        _box.commit(member, word, time, voteSeconds);
    }

    function reveal(
        address member,
        bytes32 word,
        bytes32 content,
        uint48 time,
        uint32 voteSeconds,
        uint32 revealSeconds
    ) external {
        _box.reveal(member, word, content, time, voteSeconds, revealSeconds);
    }

    function times(uint32 voteSeconds, uint32 revealSeconds)
        external
        view
        returns (uint48 commitUntil, uint48 revealFrom, uint48 closesAt)
    {
        return (_box.commitUntil(voteSeconds), _box.revealFrom(voteSeconds), _box.closesAt(voteSeconds, revealSeconds));
    }

    function countRevealed() external view returns (uint256) {
        return _box.countRevealed();
    }

    function hasRevealed(uint256 seat) external view returns (bool) {
        return _box.hasRevealed(seat);
    }

    function silent() external view returns (address[] memory) {
        return _box.silent();
    }

    function seatOf(address member) external view returns (uint256) {
        return _box.seatOf(member);
    }

    function ballotOf(address member) external view returns (bool isCommitted, bool isRevealed, bytes32 word) {
        return _box.ballotOf(member);
    }

    function members() external view returns (address[] memory) {
        return _box.members();
    }

    function positionCount() external view returns (uint16) {
        return _box.positions;
    }

    function wasRefilled() external view returns (bool) {
        return _box.wasRefilled;
    }
}

contract LibrariesTest {
    LibraryHarness internal harness = new LibraryHarness();

    // -- trees

    function leavesOf(uint256 count, uint256 salt) internal pure returns (bytes32[] memory leaves) {
        leaves = new bytes32[](count);
        for (uint256 i = 0; i < count; ++i) leaves[i] = keccak256(abi.encode("leaf", salt, i));
    }

    function testFuzz_merkle_any_leaf_verifies(uint8 size, uint8 place, uint256 salt) external view {
        uint256 count = uint256(size) % 40 + 1;
        bytes32[] memory leaves = leavesOf(count, salt);
        uint256 index = place % count;
        require(harness.verify(Trees.root(leaves), leaves[index], index, count, Trees.proof(leaves, index)));
    }

    function testFuzz_merkle_other_index_is_refused(uint8 size, uint8 place, uint8 claimed, uint256 salt)
        external
        view
    {
        uint256 count = uint256(size) % 40 + 2;
        bytes32[] memory leaves = leavesOf(count, salt);
        uint256 index = place % count;
        vm.assume(claimed != index);
        require(!harness.verify(Trees.root(leaves), leaves[index], claimed, count, Trees.proof(leaves, index)));
    }

    function testFuzz_merkle_other_leaf_is_refused(uint8 size, uint8 place, bytes32 forged) external view {
        uint256 count = uint256(size) % 40 + 1;
        bytes32[] memory leaves = leavesOf(count, 0);
        uint256 index = place % count;
        vm.assume(forged != leaves[index]);
        require(!harness.verify(Trees.root(leaves), forged, index, count, Trees.proof(leaves, index)));
    }

    function testFuzz_merkle_leaf_beside_empty_slots_verifies(uint8 size, uint256 filled) external view {
        uint256 count = uint256(size) % 40 + 1;
        bytes32[] memory leaves = leavesOf(count, 1);
        for (uint256 i = 0; i < count; ++i) {
            if ((filled >> i) & 1 == 0) leaves[i] = bytes32(0);
        }
        bytes32 root = Trees.root(leaves);
        for (uint256 i = 0; i < count; ++i) {
            if (leaves[i] == bytes32(0)) continue;
            require(harness.verify(root, leaves[i], i, count, Trees.proof(leaves, i)));
        }
    }

    function testFuzz_merkle_depth_is_that_of_the_padded_tree(uint16 size) external pure {
        uint256 count = uint256(size) + 1;
        uint256 levels = 0;
        for (uint256 width = 1; width < count; width *= 2) ++levels;
        require(MerkleIndex.depth(count) == levels);
    }

    function test_merkle_depth_at_powers_of_two() external pure {
        uint8[10] memory levels = [0, 1, 2, 2, 3, 3, 3, 3, 4, 4];
        for (uint256 count = 1; count <= 10; ++count) require(MerkleIndex.depth(count) == levels[count - 1]);
        require(MerkleIndex.depth(4096) == 12 && MerkleIndex.depth(4097) == 13);
    }

    function test_merkle_proof_of_wrong_length_is_refused() external view {
        bytes32[] memory leaves = leavesOf(5, 0);
        bytes32[] memory proof = Trees.proof(leaves, 2);
        bytes32 root = Trees.root(leaves);
        bytes32[] memory longer = new bytes32[](proof.length + 1);
        bytes32[] memory shorter = new bytes32[](proof.length - 1);
        for (uint256 i = 0; i < shorter.length; ++i) shorter[i] = proof[i];
        for (uint256 i = 0; i < proof.length; ++i) longer[i] = proof[i];
        require(harness.verify(root, leaves[2], 2, 5, proof));
        require(!harness.verify(root, leaves[2], 2, 5, longer));
        require(!harness.verify(root, leaves[2], 2, 5, shorter));
    }

    function test_merkle_inner_node_as_leaf_is_refused() external view {
        bytes32[] memory leaves = leavesOf(4, 0);
        bytes32 inner = keccak256(bytes.concat(leaves[0], leaves[1]));
        bytes32[] memory proof = new bytes32[](1);
        proof[0] = keccak256(bytes.concat(leaves[2], leaves[3]));
        require(!harness.verify(Trees.root(leaves), inner, 0, 4, proof));
        require(harness.verify(Trees.root(leaves), inner, 0, 2, proof), "the count is what refuses it");
    }

    function test_merkle_root_of_several_leaves_without_a_proof_is_no_leaf() external view {
        bytes32 root = Trees.root(leavesOf(4, 0));
        require(!harness.verify(root, root, 0, 4, new bytes32[](0)));
        require(harness.verify(root, root, 0, 1, new bytes32[](0)), "the count is what refuses it");
    }

    function test_merkle_padding_is_no_leaf() external view {
        bytes32[] memory leaves = leavesOf(3, 0);
        bytes32[] memory padded = Trees.pad(leaves);
        require(!harness.verify(Trees.root(leaves), bytes32(0), 3, 3, Trees.proof(padded, 3)));
        require(!harness.verify(Trees.root(leaves), bytes32(0), 0, 0, new bytes32[](0)), "a tree without leaves");
    }

    // -- outcomes

    function naive(bytes memory packed, uint256 index) internal pure returns (uint8) {
        uint8 carrier = uint8(packed[index / 4]);
        for (uint256 i = 0; i < index % 4; ++i) carrier /= 4;
        return carrier % 4;
    }

    function testFuzz_outcomes_packed_round_trip(bytes calldata random) external view {
        vm.assume(random.length < 200);
        uint256 count = random.length * 4;
        harness.check(random, count);
        uint256[] memory words = harness.toWords(random);
        require(words.length == (count + 127) / 128);
        require(keccak256(harness.toBytes(words, count)) == keccak256(random));
        for (uint256 i = 0; i < count; ++i) {
            uint8 expected = naive(random, i);
            require(uint8(Outcomes.outcomeAt(words, i)) == expected);
            require(uint8(Outcomes.inBytes(random, i)) == expected);
        }
    }

    function test_outcomes_of_no_leaf_are_no_bytes() external view {
        harness.check("", 0);
        require(harness.toWords("").length == 0);
        require(harness.toBytes(new uint256[](0), 0).length == 0);
    }

    function testFuzz_outcomes_of_any_count_round_trip(uint16 size, uint256 salt) external view {
        uint256 count = uint256(size) % 600 + 1;
        bytes memory packed = new bytes((count + 3) / 4);
        for (uint256 i = 0; i < count; ++i) {
            uint8 outcome = uint8(uint256(keccak256(abi.encode(salt, i)))) % 4;
            packed[i / 4] = bytes1(uint8(packed[i / 4]) + uint8(outcome * 4 ** (i % 4)));
        }
        harness.check(packed, count);
        require(Outcomes.lengthOf(count) == packed.length);
        require(keccak256(harness.toBytes(harness.toWords(packed), count)) == keccak256(packed));
    }

    function testFuzz_outcomes_spare_bit_is_refused(uint8 size, uint8 bit) external {
        uint256 count = uint256(size) % 200 + 1;
        vm.assume(count % 4 != 0);
        bytes memory packed = new bytes(Outcomes.lengthOf(count));
        uint256 first = 2 * (count % 4);
        uint8 mask = uint8(1 << (first + bit % (8 - first)));
        packed[packed.length - 1] = bytes1(mask);
        vm.expectRevert(abi.encodeWithSelector(Outcomes.OutcomesSpareBits.selector, mask));
        harness.check(packed, count);
    }

    function testFuzz_outcomes_wrong_length_is_refused(uint8 size, uint8 length) external {
        uint256 count = size;
        vm.assume(length != Outcomes.lengthOf(count));
        vm.expectRevert(
            abi.encodeWithSelector(Outcomes.OutcomesLength.selector, uint256(length), Outcomes.lengthOf(count))
        );
        harness.check(new bytes(length), count);
    }

    function test_outcome_beyond_the_packed_bytes_is_refused() external {
        vm.expectRevert(abi.encodeWithSignature("Panic(uint256)", 0x32));
        harness.inBytes(hex"e4", 4);
        vm.expectRevert(abi.encodeWithSignature("Panic(uint256)", 0x32));
        harness.outcomeAt(new uint256[](1), 128);
        require(harness.inBytes(hex"e4", 3) == Outcome.Fault);
    }

    function testFuzz_accepted_leaf_is_told_from_the_others(uint256 salt, uint16 place) external pure {
        uint256[] memory words = randomWords(salt, 3);
        uint256 index = place % 384;
        require(Outcomes.isAccepted(words, index) == (Outcomes.outcomeAt(words, index) == Outcome.Accept));
    }

    function testFuzz_word_is_all_accepted_only_if_every_leaf_is(uint8 place, uint8 outcome) external pure {
        uint256[] memory words = new uint256[](1);
        for (uint256 i = 0; i < 128; ++i) words[0] += 4 ** i;
        require(Outcomes.isAllAccepted(words[0]));
        for (uint256 i = 0; i < 128; ++i) require(Outcomes.isAccepted(words, i));
        uint256 index = place % 128;
        Outcomes.clear(words, index);
        require(!Outcomes.isAllAccepted(words[0]) && !Outcomes.isAccepted(words, index));
        words[0] += (uint256(outcome) % 4) * 4 ** ((31 - index / 4) * 4 + index % 4);
        require(Outcomes.isAllAccepted(words[0]) == (outcome % 4 == 1));
    }

    function testFuzz_clear_makes_one_leaf_abstain(uint256 salt, uint16 place) external pure {
        uint256[] memory words = randomWords(salt, 3);
        uint256[] memory before = randomWords(salt, 3);
        uint256 index = place % 384;
        Outcomes.clear(words, index);
        for (uint256 i = 0; i < 384; ++i) {
            Outcome expected = i == index ? Outcome.Abstain : Outcomes.outcomeAt(before, i);
            require(Outcomes.outcomeAt(words, i) == expected);
        }
    }

    function randomWords(uint256 salt, uint256 count) internal pure returns (uint256[] memory words) {
        words = new uint256[](count);
        for (uint256 i = 0; i < count; ++i) words[i] = uint256(keccak256(abi.encode(salt, i)));
    }

    function testFuzz_missed_equals_counting_leaf_by_leaf(uint256 salt, uint8 size) external pure {
        uint256 count = uint256(size) % 4;
        uint256[] memory result = randomWords(salt, count);
        uint256[] memory vote = randomWords(~salt, count);
        uint256 expected = 0;
        for (uint256 i = 0; i < 128 * count; ++i) {
            bool isDecided = Outcomes.outcomeAt(result, i) != Outcome.Abstain;
            if (isDecided && Outcomes.outcomeAt(vote, i) == Outcome.Abstain) ++expected;
        }
        require(Outcomes.missed(result, vote) == expected);
    }

    function test_missed_of_every_leaf_is_counted() external pure {
        uint256[] memory result = new uint256[](2);
        (result[0], result[1]) = (type(uint256).max, type(uint256).max);
        require(Outcomes.missed(result, new uint256[](2)) == 256);
        require(Outcomes.missed(new uint256[](2), result) == 0);
        require(Outcomes.missed(result, result) == 0);
    }

    function expectedOf(uint256[4] memory counts, uint256 quorum) internal pure returns (Outcome) {
        if (counts[1] >= quorum) return Outcome.Accept;
        if (counts[3] >= quorum) return Outcome.Fault;
        if (counts[2] + counts[3] >= quorum) return Outcome.Reject;
        return Outcome.Abstain;
    }

    function testFuzz_tally_equals_counting_leaf_by_leaf(uint256 salt, uint8 size, uint8 extra, uint8 leaves)
        external
        pure
    {
        uint256 panel = uint256(size) % Outcomes.MAX_VOTES + 1;
        uint256 quorum = panel / 2 + 1;
        quorum += extra % (panel - quorum + 1);
        uint256 wordCount = uint256(leaves) % 3 + 1;
        uint256[][] memory votes = new uint256[][](panel);
        for (uint256 v = 0; v < panel; ++v) {
            votes[v] = new uint256[](wordCount);
            for (uint256 w = 0; w < wordCount; ++w) {
                // Half of the voters agree, or quorums would be rare.
                votes[v][w] = uint256(keccak256(abi.encode(salt, w, v % 2 == 0 ? 0 : v)));
            }
        }
        Outcomes.Result memory result = Outcomes.tally(votes, wordCount, quorum);
        uint256[4] memory totals;
        for (uint256 i = 0; i < 128 * wordCount; ++i) {
            uint256[4] memory counts;
            for (uint256 v = 0; v < panel; ++v) ++counts[uint8(Outcomes.outcomeAt(votes[v], i))];
            Outcome expected = expectedOf(counts, quorum);
            require(Outcomes.outcomeAt(result.words, i) == expected);
            ++totals[uint8(expected)];
        }
        require(result.accepted == totals[1] && result.rejected == totals[2] && result.faulted == totals[3]);
    }

    function test_tally_of_no_votes_decides_nothing() external pure {
        Outcomes.Result memory result = Outcomes.tally(new uint256[][](0), 2, 1);
        require(result.words.length == 2 && result.words[0] == 0 && result.words[1] == 0);
        require(result.accepted == 0 && result.rejected == 0 && result.faulted == 0);
    }

    function testFuzz_tally_passes_over_empty_seats(uint256 salt, uint8 size, uint8 empty) external pure {
        uint256 panel = uint256(size) % 7 + 2;
        uint256[][] memory seated = new uint256[][](panel);
        uint256[][] memory present = new uint256[][](panel - 1);
        uint256 next = 0;
        for (uint256 v = 0; v < panel; ++v) {
            if (v == empty % panel) continue;
            seated[v] = randomWords(salt >> v, 2);
            present[next++] = seated[v];
        }
        Outcomes.Result memory one = Outcomes.tally(seated, 2, panel / 2 + 1);
        Outcomes.Result memory other = Outcomes.tally(present, 2, panel / 2 + 1);
        require(keccak256(abi.encode(one)) == keccak256(abi.encode(other)));
    }

    function test_tally_of_fewer_votes_than_the_quorum_decides_nothing() external pure {
        uint256[][] memory votes = new uint256[][](7);
        for (uint256 v = 0; v < 7; ++v) {
            votes[v] = new uint256[](1);
            votes[v][0] = type(uint256).max; // all faults
        }
        Outcomes.Result memory result = Outcomes.tally(votes, 1, 8);
        require(result.words[0] == 0 && result.faulted == 0);
        result = Outcomes.tally(votes, 1, 7);
        require(result.words[0] == type(uint256).max && result.faulted == 128);
    }

    function testFuzz_decide_equals_counting_votes(uint32 ballots, uint8 size) external pure {
        ballots &= uint32((1 << 30) - 1); // fifteen votes
        uint256 quorum = uint256(size) % 15 + 1;
        uint256[4] memory counts;
        for (uint256 seat = 0; seat < 15; ++seat) ++counts[(ballots / 4 ** seat) % 4];
        require(Outcomes.decide(ballots, quorum) == expectedOf(counts, quorum));
    }

    function test_decide_at_the_quorum() external pure {
        require(Outcomes.decide(0, 1) == Outcome.Abstain);
        require(Outcomes.decide(0x05, 2) == Outcome.Accept); // two accepts
        require(Outcomes.decide(0x05, 3) == Outcome.Abstain);
        require(Outcomes.decide(0x0f, 2) == Outcome.Fault); // two faults
        require(Outcomes.decide(0x0e, 2) == Outcome.Reject); // a rejection and a fault
        require(Outcomes.decide(0x0a, 2) == Outcome.Reject); // two rejections
        require(Outcomes.decide(0x0a, 3) == Outcome.Abstain);
        require(Outcomes.decide(0x10, 1) == Outcome.Accept); // behind two who abstained
    }

    // -- draws

    function testFuzz_panel_members_are_distinct_and_eligible(uint256[9] calldata raw, bytes32 beacon, uint8 n)
        external
        pure
    {
        address[] memory candidates = new address[](9);
        uint256[] memory weights = new uint256[](9);
        uint256 eligible = 0;
        for (uint160 i = 0; i < 9; ++i) {
            candidates[i] = address(i + 1);
            weights[i] = raw[i] % 3 == 0 ? 0 : raw[i] % 1e30;
            if (weights[i] != 0) ++eligible;
        }
        uint256[] memory before = new uint256[](9);
        for (uint256 i = 0; i < 9; ++i) before[i] = weights[i];
        uint256 size = uint256(n) % 10;
        address[] memory panel = PanelDraw.draw(candidates, weights, beacon, size);
        require(panel.length == (size < eligible ? size : eligible));
        for (uint256 i = 0; i < panel.length; ++i) {
            require(before[uint160(panel[i]) - 1] != 0);
            for (uint256 j = 0; j < i; ++j) require(panel[i] != panel[j]);
        }
    }

    // A ticket for every token, in a row.
    function testFuzz_panel_draw_equals_drawing_tickets_from_a_row(uint8[6] calldata raw, bytes32 beacon)
        external
        view
    {
        address[] memory candidates = new address[](6);
        uint256[] memory weights = new uint256[](6);
        uint256[] memory left = new uint256[](6);
        for (uint160 i = 0; i < 6; ++i) {
            candidates[i] = address(i + 1);
            weights[i] = raw[i] % 8;
            left[i] = weights[i];
        }
        address[] memory panel = harness.draw(candidates, weights, beacon, 4);
        for (uint256 seat = 0; seat < panel.length; ++seat) {
            address[] memory row = new address[](64);
            uint256 length = 0;
            for (uint256 i = 0; i < 6; ++i) {
                for (uint256 j = 0; j < left[i]; ++j) row[length++] = candidates[i];
            }
            bytes32 random = keccak256(abi.encode(keccak256("stannary.panel.v1"), beacon, seat));
            address drawn = row[uint256(random) % length];
            require(panel[seat] == drawn);
            left[uint160(drawn) - 1] = 0;
        }
    }

    function test_panel_of_nobody_is_empty() external view {
        require(harness.draw(new address[](0), new uint256[](0), bytes32(0), 3).length == 0);
        require(harness.draw(new address[](2), new uint256[](2), bytes32(0), 3).length == 0);
    }

    function test_panel_drawn_in_proportion_to_stake() external pure {
        address[] memory candidates = new address[](2);
        candidates[0] = address(1);
        candidates[1] = address(2);
        uint256 first = 0;
        for (uint256 i = 0; i < 2_000; ++i) {
            uint256[] memory weights = new uint256[](2);
            weights[0] = 300;
            weights[1] = 100;
            if (PanelDraw.draw(candidates, weights, keccak256(abi.encode(i)), 1)[0] == address(1)) ++first;
        }
        require(first > 1_400 && first < 1_600, "three in four");
    }

    // -- prices

    function testFuzz_pricing_rates_follow_prices_and_caps(
        uint128 pricePerGroup,
        uint128 pricePerToken,
        uint32 unitCap,
        uint32 payCapBps
    ) external pure {
        Rates memory r = Pricing.rates(pricePerGroup, pricePerToken, unitCap, payCapBps);
        require(r.unitCap == unitCap);
        require(r.slotCap == uint256(pricePerGroup) + uint256(pricePerToken) * unitCap);
        require(r.pricePerGroup == pricePerGroup);
        require(r.pricePerToken == pricePerToken);
        require(r.payCapBps == payCapBps);
    }

    function testFuzz_pricing_payout_never_exceeds_slot_cap(
        uint128 pricePerGroup,
        uint128 pricePerToken,
        uint32 unitCap,
        uint32 units
    ) external pure {
        Rates memory r = Pricing.rates(pricePerGroup, pricePerToken, unitCap, 0);
        uint256 payout = Pricing.payout(r, units);
        require(payout <= r.slotCap);
        uint256 paidUnits = units < unitCap ? units : unitCap;
        require(payout == uint256(pricePerGroup) + paidUnits * pricePerToken);
    }

    function test_pricing_units_above_cap_are_not_paid() external pure {
        Rates memory r;
        r.pricePerGroup = 7;
        r.pricePerToken = 3;
        r.unitCap = 20;
        require(Pricing.payout(r, 0) == 7);
        require(Pricing.payout(r, 19) == 64);
        require(Pricing.payout(r, 20) == 67);
        require(Pricing.payout(r, 21) == 67);
        require(Pricing.payout(r, type(uint32).max) == 67);
    }

    function test_pricing_jury_cost_covers_both_juries() external pure {
        Fees memory fees;
        PanelRules memory rules;
        fees.jurorFee = 5;
        rules.jurySize = 3; // and five after a redraw
        require(Pricing.juryCost(fees, rules) == 40);
        rules.jurySize = 13;
        require(Pricing.juryCost(fees, rules) == 140);
    }

    function testFuzz_pricing_pay_cap_is_rounded_down(uint128 staked, uint32 bps) external pure {
        Rates memory r;
        r.payCapBps = bps;
        uint256 cap = Pricing.payCap(r, staked);
        require(cap * 10_000 <= uint256(staked) * bps && (cap + 1) * 10_000 > uint256(staked) * bps);
    }

    function test_pricing_pay_cap_of_all_and_of_ten_times_the_stake() external pure {
        Rates memory r;
        r.payCapBps = 10_000;
        require(Pricing.payCap(r, 1_234) == 1_234);
        r.payCapBps = 100_000;
        require(Pricing.payCap(r, 1_234) == 12_340);
        r.payCapBps = 1;
        require(Pricing.payCap(r, 9_999) == 0);
        require(Pricing.payCap(r, 10_000) == 1);
    }

    function testFuzz_pricing_step_cost_is_the_sum_of_its_parts(
        Fees memory fees,
        uint128 slotCap,
        uint8 panelSize,
        uint8 jurySize,
        uint16 slots
    )
        external
        pure
    {
        Rates memory r;
        r.slotCap = slotCap;
        PanelRules memory rules;
        (rules.panelSize, rules.jurySize) = (panelSize, jurySize);
        uint256 expected = fees.leaseBond;
        for (uint256 i = 0; i < 2; ++i) expected += fees.sealFee; // seed and audit beacon
        expected += uint256(panelSize) * fees.panelFee; // a panel
        expected += uint256(panelSize) * fees.panelFee; // and a redrawn one
        expected += uint256(slots) * slotCap;
        expected += uint256(slots) * jurySize * fees.jurorFee; // a jury
        expected += uint256(slots) * (uint256(jurySize) + 2) * fees.jurorFee; // and a larger one
        require(Pricing.stepCost(r, fees, rules, slots) == expected);
    }

    // -- seeds

    address internal constant LEDGER = address(0x1ED);
    PoolId internal constant POOL = PoolId.wrap(7);

    function testFuzz_seeds_hash_what_they_are_bound_to(uint64 pool, uint32 step, bytes32 word, uint32 slot)
        external
        view
    {
        PoolId p = PoolId.wrap(pool);
        bytes memory place = abi.encode(block.chainid, LEDGER, pool, step);
        require(
            Seeds.beacon(Seeds.SEED_BEACON_TAG, LEDGER, p, step, word)
                == keccak256(bytes.concat(keccak256("stannary.beacon.seed.v1"), place, word))
        );
        require(
            Seeds.beacon(Seeds.AUDIT_BEACON_TAG, LEDGER, p, step, word)
                == keccak256(bytes.concat(keccak256("stannary.beacon.audit.v1"), place, word))
        );
        require(
            Seeds.takenBeacon(LEDGER, p, step, slot, word)
                == keccak256(
                    bytes.concat(keccak256("stannary.beacon.taken.v1"), place, bytes32(uint256(slot)), word)
                )
        );
        require(
            Seeds.slotSeed(LEDGER, p, step, word, slot)
                == keccak256(bytes.concat(keccak256("stannary.seed.slot.v1"), place, word, bytes32(uint256(slot))))
        );
        require(
            Seeds.rolloutSeed(word, slot)
                == keccak256(bytes.concat(keccak256("stannary.seed.rollout.v1"), word, bytes32(uint256(slot))))
        );
        require(Seeds.REDRAW_BEACON_TAG == keccak256("stannary.beacon.redraw.v1"));
    }

    function testFuzz_seeds_of_a_taken_lease_and_of_a_jury(
        uint32 step,
        address provider,
        uint64 caseId,
        uint8 round,
        bytes32 word
    )
        external
        view
    {
        bytes memory place = abi.encode(block.chainid, LEDGER, POOL, step, uint256(64), provider);
        require(
            Seeds.takenLease(LEDGER, POOL, step, 64, provider)
                == keccak256(bytes.concat(keccak256("stannary.taken.v1"), place))
        );
        place = abi.encode(block.chainid, LEDGER, caseId, round, word);
        require(
            Seeds.juryBeacon(LEDGER, CaseId.wrap(caseId), round, word)
                == keccak256(bytes.concat(keccak256("stannary.beacon.jury.v1"), place))
        );
    }

    function test_seeds_differ_between_chains() external {
        bytes32 word = keccak256("block");
        bytes32[5] memory here = seedsOf(word);
        vm.chainId(31_338);
        bytes32[5] memory there = seedsOf(word);
        for (uint256 i = 0; i < 5; ++i) require(here[i] != there[i]);
    }

    function seedsOf(bytes32 word) internal view returns (bytes32[5] memory) {
        return [
            Seeds.beacon(Seeds.SEED_BEACON_TAG, LEDGER, POOL, 1, word),
            Seeds.takenBeacon(LEDGER, POOL, 1, 2, word),
            Seeds.takenLease(LEDGER, POOL, 1, 2, LEDGER),
            Seeds.juryBeacon(LEDGER, CaseId.wrap(1), 0, word),
            Seeds.slotSeed(LEDGER, POOL, 1, word, 2)
        ];
    }

    // -- struct hashes

    function testFuzz_submission_hash_is_its_members_in_order(Submission memory leaf) external pure {
        bytes32 typehash = keccak256(
            "Submission(uint64 pool,uint32 step,uint32 slot,address provider,address node,uint32 units,bytes32 contentHash,bytes32 leaseHash)"
        );
        bytes memory members = bytes.concat(
            abi.encode(typehash, PoolId.unwrap(leaf.pool), leaf.step, leaf.slot, leaf.provider),
            abi.encode(leaf.node, leaf.units, leaf.contentHash, leaf.leaseHash)
        );
        require(SubmissionHash.hash(leaf) == keccak256(members));
    }

    function testFuzz_lease_hash_is_its_members_in_order(Lease memory lease) external pure {
        bytes32 typehash = keccak256(
            "Lease(uint64 pool,uint32 step,uint32 policyStep,uint32 slot,address provider,address node,uint64 validFrom,uint64 validUntil,uint32 maxUnits,bytes32 cardHash,uint32 protocolVersion)"
        );
        bytes memory members = bytes.concat(
            abi.encode(typehash, PoolId.unwrap(lease.pool), lease.step, lease.policyStep, lease.slot),
            abi.encode(lease.provider, lease.node, lease.validFrom, lease.validUntil, lease.maxUnits),
            abi.encode(lease.cardHash, lease.protocolVersion)
        );
        require(LeaseHash.hash(lease) == keccak256(members));
    }

    function test_pools_compare_by_number() external pure {
        require(PoolId.wrap(7) == PoolId.wrap(7) && !(PoolId.wrap(7) == PoolId.wrap(8)));
        require(PoolId.wrap(7) != PoolId.wrap(8) && !(PoolId.wrap(7) != PoolId.wrap(7)));
    }
}

contract BallotsTest {
    uint32 internal constant VOTE = 40;
    uint32 internal constant REVEAL = 20;
    uint48 internal constant START = 1_000;
    uint16 internal constant POSITIONS = 4_160;
    address internal constant STRANGER = address(0x99);

    BallotHarness internal box = new BallotHarness();

    function seats(uint256 count) internal pure returns (address[] memory members) {
        members = new address[](count);
        for (uint160 i = 0; i < count; ++i) members[i] = address(i + 1);
    }

    function wordOf(address member) internal pure returns (bytes32) {
        return keccak256(abi.encode("word", member));
    }

    function contentOf(address member) internal pure returns (bytes32) {
        return keccak256(abi.encode("content", member));
    }

    function commit(uint160 member, uint48 time) internal {
        box.commit(address(member), wordOf(address(member)), time, VOTE);
    }

    function reveal(uint160 member, uint48 time) internal {
        box.reveal(address(member), wordOf(address(member)), contentOf(address(member)), time, VOTE, REVEAL);
    }

    function checkTimes(uint48 commitUntil, uint48 revealFrom, uint48 closesAt) internal view {
        (uint48 until, uint48 from, uint48 end) = box.times(VOTE, REVEAL);
        require(until == commitUntil, "commit until");
        require(from == revealFrom, "reveal from");
        require(end == closesAt, "closes at");
    }

    function checkBallot(uint160 member, bool committed, bool revealed, bytes32 word) internal view {
        (bool isCommitted, bool isRevealed, bytes32 kept) = box.ballotOf(address(member));
        require(isCommitted == committed && isRevealed == revealed && kept == word);
    }

    function same(address[] memory got, address[] memory expected) internal pure {
        require(keccak256(abi.encode(got)) == keccak256(abi.encode(expected)));
    }

    function closed(uint48 from, uint48 time) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(
            Ballots.RevealClosed.selector, uint256(from), uint256(from) + REVEAL, uint256(time)
        );
    }

    function test_box_opened_knows_its_members_and_times() external {
        box.open(seats(3), POSITIONS, START);
        same(box.members(), seats(3));
        checkTimes(START + 40, START + 40, START + 60);
        require(box.countRevealed() == 0 && !box.wasRefilled() && box.positionCount() == POSITIONS);
        for (uint160 i = 1; i <= 3; ++i) {
            require(box.seatOf(address(i)) == i - 1);
            checkBallot(i, false, false, bytes32(0));
        }
        checkBallot(0x99, false, false, bytes32(0));
        same(box.silent(), seats(3));
        vm.expectRevert(abi.encodeWithSelector(Ballots.NotMember.selector, STRANGER));
        box.seatOf(STRANGER);
    }

    function test_box_without_members_is_closed_at_once() external {
        box.open(seats(0), POSITIONS, START);
        checkTimes(START + 40, START, START);
        require(box.silent().length == 0);
    }

    function test_V1_commitment_is_taken_once_from_a_member_in_time() external {
        box.open(seats(3), POSITIONS, START);
        commit(1, START);
        checkBallot(1, true, false, wordOf(address(1)));
        vm.expectRevert(abi.encodeWithSelector(Ballots.AlreadyCommitted.selector, address(1)));
        box.commit(address(1), keccak256("other"), START, VOTE);
        vm.expectRevert(abi.encodeWithSelector(Ballots.NotMember.selector, STRANGER));
        box.commit(STRANGER, keccak256("word"), START, VOTE);
        vm.expectRevert(abi.encodeWithSelector(Ballots.CommitmentZero.selector));
        box.commit(address(2), bytes32(0), START, VOTE);
        commit(2, START + 39);
        vm.expectRevert(
            abi.encodeWithSelector(Ballots.CommitOver.selector, uint256(START) + 40, uint256(START) + 40)
        );
        commit(3, START + 40);
        checkBallot(1, true, false, wordOf(address(1)));
        checkBallot(3, false, false, bytes32(0));
        checkTimes(START + 40, START + 40, START + 60);
    }

    function test_V2_reveal_begins_when_the_time_for_commitments_ends() external {
        box.open(seats(3), POSITIONS, START);
        commit(1, START + 5);
        commit(3, START + 6);
        vm.expectRevert(closed(START + 40, START + 39));
        reveal(1, START + 39);
        reveal(1, START + 40);
        vm.expectRevert(closed(START + 40, START + 60));
        reveal(3, START + 60);
        reveal(3, START + 59);
        require(box.countRevealed() == 2);
        require(box.hasRevealed(0) && !box.hasRevealed(1) && box.hasRevealed(2));
        address[] memory silent = new address[](1);
        silent[0] = address(2);
        same(box.silent(), silent);
    }

    function test_V2_reveal_begins_when_all_have_committed() external {
        box.open(seats(3), POSITIONS, START);
        commit(3, START + 1);
        commit(1, START + 2);
        vm.expectRevert(closed(START + 40, START + 7));
        reveal(3, START + 7);
        commit(2, START + 7);
        checkTimes(START + 40, START + 7, START + 27);
        vm.expectRevert(closed(START + 7, START + 6));
        reveal(1, START + 6);
        reveal(1, START + 7);
        vm.expectRevert(closed(START + 7, START + 27));
        reveal(2, START + 27);
        reveal(2, START + 26);
    }

    function test_V3_box_closes_when_all_who_committed_have_revealed() external {
        box.open(seats(3), POSITIONS, START);
        for (uint160 i = 1; i <= 3; ++i) commit(i, START);
        reveal(2, START + 1);
        reveal(1, START + 2);
        checkTimes(START + 40, START, START + 20);
        reveal(3, START + 3);
        checkTimes(START + 40, START, START + 3);
        require(box.countRevealed() == 3 && box.silent().length == 0);
    }

    function test_V3_box_with_a_member_that_never_committed_closes_by_the_others() external {
        box.open(seats(3), POSITIONS, START);
        commit(1, START);
        commit(2, START);
        reveal(1, START + 41);
        checkTimes(START + 40, START + 40, START + 60);
        reveal(2, START + 42);
        checkTimes(START + 40, START + 40, START + 42);
    }

    function test_V4_reveal_is_of_what_the_member_committed() external {
        box.open(seats(2), POSITIONS, START);
        commit(1, START);
        commit(2, START);
        bytes32 word = wordOf(address(2));
        vm.expectRevert(
            abi.encodeWithSelector(Ballots.CommitmentMismatch.selector, address(1), wordOf(address(1)), word)
        );
        box.reveal(address(1), word, contentOf(address(1)), START, VOTE, REVEAL);
        reveal(1, START);
        checkBallot(1, true, true, contentOf(address(1)));
        checkBallot(2, true, false, word);
        vm.expectRevert(abi.encodeWithSelector(Ballots.AlreadyRevealed.selector, address(1)));
        reveal(1, START);
        vm.expectRevert(abi.encodeWithSelector(Ballots.NotMember.selector, STRANGER));
        box.reveal(STRANGER, word, word, START, VOTE, REVEAL);
    }

    function test_V4_reveal_of_who_did_not_commit_is_refused() external {
        box.open(seats(2), POSITIONS, START);
        commit(1, START);
        bytes32 word = wordOf(address(2));
        vm.expectRevert(
            abi.encodeWithSelector(Ballots.CommitmentMismatch.selector, address(2), bytes32(0), word)
        );
        reveal(2, START + 40);
        checkBallot(2, false, false, bytes32(0));
    }

    function test_box_holds_fifteen_members() external {
        box.open(seats(15), POSITIONS, START);
        for (uint160 i = 1; i <= 15; ++i) {
            checkTimes(START + 40, START + 40, START + 60);
            commit(i, START + 1);
        }
        checkTimes(START + 40, START + 1, START + 21);
        for (uint160 i = 15; i >= 1; --i) {
            reveal(i, START + 2);
            require(box.countRevealed() == 16 - i && box.silent().length == i - 1);
        }
        checkTimes(START + 40, START + 1, START + 2);
    }

    function newcomers(uint160 first, uint256 count) internal pure returns (address[] memory list) {
        list = new address[](count);
        for (uint160 i = 0; i < count; ++i) list[i] = address(first + i);
    }

    function test_V5_box_refilled_keeps_who_revealed_and_opens_anew() external {
        box.open(seats(4), POSITIONS, START);
        for (uint160 i = 2; i <= 4; ++i) commit(i, START);
        reveal(4, START + 40);
        reveal(2, START + 41);
        box.refill(newcomers(11, 2), START + 70);
        address[] memory members = new address[](4);
        (members[0], members[1], members[2], members[3]) = (address(2), address(4), address(11), address(12));
        same(box.members(), members);
        require(box.wasRefilled() && box.countRevealed() == 2 && box.positionCount() == POSITIONS);
        checkTimes(START + 110, START + 110, START + 130);
        checkBallot(2, true, true, contentOf(address(2)));
        checkBallot(4, true, true, contentOf(address(4)));
        checkBallot(11, false, false, bytes32(0));
        checkBallot(3, false, false, bytes32(0)); // committed, was silent, and is no member now
        checkBallot(1, false, false, bytes32(0));
        same(box.silent(), newcomers(11, 2));
        vm.expectRevert(abi.encodeWithSelector(Ballots.AlreadyCommitted.selector, address(2)));
        commit(2, START + 70);
        vm.expectRevert(abi.encodeWithSelector(Ballots.AlreadyRevealed.selector, address(4)));
        reveal(4, START + 110);
        vm.expectRevert(abi.encodeWithSelector(Ballots.NotMember.selector, address(3)));
        reveal(3, START + 110);
    }

    function test_V5_box_refilled_is_sealed_and_closed_by_the_newcomers() external {
        box.open(seats(3), POSITIONS, START);
        for (uint160 i = 1; i <= 3; ++i) commit(i, START);
        reveal(2, START + 1);
        box.refill(newcomers(11, 2), START + 70);
        commit(12, START + 71);
        checkTimes(START + 110, START + 110, START + 130);
        commit(11, START + 72);
        checkTimes(START + 110, START + 72, START + 92);
        reveal(12, START + 73);
        checkTimes(START + 110, START + 72, START + 92);
        reveal(11, START + 74);
        checkTimes(START + 110, START + 72, START + 74);
        require(box.countRevealed() == 3 && box.silent().length == 0);
    }

    function test_V5_box_refilled_after_nobody_revealed_has_only_newcomers() external {
        box.open(seats(2), POSITIONS, START);
        commit(1, START);
        box.refill(newcomers(11, 2), START + 70);
        same(box.members(), newcomers(11, 2));
        require(box.countRevealed() == 0);
        commit(11, START + 109);
        commit(12, START + 109);
        checkTimes(START + 110, START + 109, START + 129);
    }

    function test_V5_box_refilled_by_fewer_has_fewer_seats() external {
        box.open(seats(4), POSITIONS, START);
        for (uint160 i = 1; i <= 4; ++i) commit(i, START);
        reveal(1, START + 1);
        box.refill(newcomers(11, 1), START + 70);
        address[] memory members = new address[](2);
        (members[0], members[1]) = (address(1), address(11));
        same(box.members(), members);
        same(box.silent(), newcomers(11, 1));
        for (uint160 i = 2; i <= 4; ++i) {
            vm.expectRevert(abi.encodeWithSelector(Ballots.NotMember.selector, address(i)));
            box.seatOf(address(i));
            checkBallot(i, false, false, bytes32(0));
        }
        commit(11, START + 71);
        checkTimes(START + 110, START + 71, START + 91);
    }

    function test_V5_box_refilled_by_nobody_is_closed_at_once() external {
        box.open(seats(3), POSITIONS, START);
        for (uint160 i = 1; i <= 3; ++i) commit(i, START);
        reveal(1, START + 1);
        box.refill(newcomers(11, 0), START + 70);
        same(box.members(), seats(1));
        checkTimes(START + 110, START + 70, START + 70);
        require(box.countRevealed() == 1 && box.silent().length == 0);
    }

    // A box as one would write it down: who did what, and when.
    struct Model {
        uint48 openedAt;
        uint48 sealedAt;
        uint48 closedAt;
        bool[] committed;
        bool[] revealed;
    }

    function ones(bool[] memory flags) internal pure returns (uint256 total) {
        for (uint256 i = 0; i < flags.length; ++i) {
            if (flags[i]) ++total;
        }
    }

    function testFuzz_box_equals_a_written_record(uint256 salt) external {
        uint256 size = salt % 5 + 1;
        Model memory model = Model(START, 0, 0, new bool[](size), new bool[](size));
        box.open(seats(size), POSITIONS, START);
        uint48 time = START;
        for (uint256 move = 0; move < 24; ++move) {
            uint256 random = uint256(keccak256(abi.encode(salt, move)));
            time += uint48(random % 6);
            uint256 seat = (random >> 16) % size;
            if ((random >> 32) % 2 == 0) tryCommit(model, seat, time);
            else tryReveal(model, seat, time, (random >> 48) % 8 != 0);
            compare(model);
        }
    }

    function tryCommit(Model memory model, uint256 seat, uint48 time) internal {
        bool isDue = !model.committed[seat] && time < model.openedAt + VOTE;
        address member = address(uint160(seat + 1));
        try box.commit(member, wordOf(member), time, VOTE) {
            require(isDue, "taken");
            model.committed[seat] = true;
            if (ones(model.committed) == model.committed.length) model.sealedAt = time;
        } catch {
            require(!isDue, "refused");
        }
    }

    function tryReveal(Model memory model, uint256 seat, uint48 time, bool isTrue) internal {
        uint48 from = model.sealedAt != 0 ? model.sealedAt : model.openedAt + VOTE;
        bool isInTime = time >= from && time < from + REVEAL;
        bool isDue = isTrue && isInTime && model.committed[seat] && !model.revealed[seat];
        address member = address(uint160(seat + 1));
        bytes32 word = isTrue ? wordOf(member) : keccak256("lie");
        try box.reveal(member, word, contentOf(member), time, VOTE, REVEAL) {
            require(isDue, "taken");
            model.revealed[seat] = true;
            if (ones(model.revealed) == ones(model.committed)) model.closedAt = time;
        } catch {
            require(!isDue, "refused");
        }
    }

    function compare(Model memory model) internal view {
        uint48 from = model.sealedAt != 0 ? model.sealedAt : model.openedAt + VOTE;
        checkTimes(model.openedAt + VOTE, from, model.closedAt != 0 ? model.closedAt : from + REVEAL);
        uint256 revealed = ones(model.revealed);
        require(box.countRevealed() == revealed);
        require(box.silent().length == model.revealed.length - revealed);
        for (uint160 i = 0; i < model.committed.length; ++i) {
            address member = address(i + 1);
            bytes32 word = model.revealed[i] ? contentOf(member) : model.committed[i] ? wordOf(member) : bytes32(0);
            checkBallot(i + 1, model.committed[i], model.revealed[i], word);
        }
    }
}
