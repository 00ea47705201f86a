// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {MerkleIndex} from "../../contracts/libraries/MerkleIndex.sol";
import {Outcomes} from "../../contracts/libraries/Outcomes.sol";
import {PanelDraw} from "../../contracts/libraries/PanelDraw.sol";
import {Pricing} from "../../contracts/libraries/Pricing.sol";
import {Outcome} from "../../contracts/types/Enums.sol";
import {PoolTerms} from "../../contracts/types/PoolTerms.sol";
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

    function toWords(bytes calldata packed, uint256 leafCount) external pure returns (uint256[] memory) {
        return Outcomes.toWords(packed, leafCount);
    }

    function toBytes(uint256[] memory words, uint256 leafCount) external pure returns (bytes memory) {
        return Outcomes.toBytes(words, leafCount);
    }
}

contract LibrariesTest {
    LibraryHarness internal harness = new LibraryHarness();

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

    function testFuzz_merkle_other_index_is_refused(uint8 size, uint8 place, uint8 claimed, uint256 salt) external view {
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

    function test_merkle_padding_is_no_leaf() external view {
        bytes32[] memory leaves = leavesOf(3, 0);
        bytes32[] memory padded = Trees.pad(leaves);
        require(!harness.verify(Trees.root(leaves), bytes32(0), 3, 3, Trees.proof(padded, 3)));
    }

    function testFuzz_outcomes_packed_round_trip(bytes calldata random) external view {
        vm.assume(random.length > 0 && random.length < 200);
        uint256 count = random.length * 4;
        uint256[] memory words = harness.toWords(random, count);
        require(keccak256(harness.toBytes(words, count)) == keccak256(random));
        for (uint256 i = 0; i < count; ++i) {
            uint8 expected = (uint8(random[i / 4]) >> (2 * (i % 4))) & 3;
            require(uint8(Outcomes.outcomeAt(words, i)) == expected);
        }
    }

    function testFuzz_outcomes_spare_bit_is_refused(uint8 size, uint8 bit) external {
        uint256 count = uint256(size) % 200 + 1;
        vm.assume(count % 4 != 0);
        bytes memory packed = new bytes(Outcomes.lengthOf(count));
        uint256 first = 2 * (count % 4);
        uint8 mask = uint8(1 << (first + bit % (8 - first)));
        packed[packed.length - 1] = bytes1(mask);
        vm.expectRevert(abi.encodeWithSelector(Outcomes.OutcomesSpareBits.selector, mask));
        harness.toWords(packed, count);
    }

    function testFuzz_outcomes_wrong_length_is_refused(uint8 size, uint8 length) external {
        uint256 count = uint256(size) + 1;
        vm.assume(length != Outcomes.lengthOf(count));
        vm.expectRevert(
            abi.encodeWithSelector(Outcomes.OutcomesLength.selector, uint256(length), Outcomes.lengthOf(count))
        );
        harness.toWords(new bytes(length), count);
    }

    function testFuzz_tally_equals_counting_leaf_by_leaf(uint256 salt, uint8 size, uint8 extra, uint8 leaves) external pure {
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
            Outcome expected = Outcome.Abstain;
            if (counts[1] >= quorum) expected = Outcome.Accept;
            else if (counts[3] >= quorum) expected = Outcome.Fault;
            else if (counts[2] + counts[3] >= quorum) expected = Outcome.Reject;
            require(Outcomes.outcomeAt(result.words, i) == expected);
            ++totals[uint8(expected)];
        }
        require(result.accepted == totals[1] && result.rejected == totals[2] && result.faulted == totals[3]);
    }

    function testFuzz_panel_members_are_distinct_and_eligible(uint256[9] calldata raw, bytes32 beacon, uint8 n) external pure {
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

    function testFuzz_pricing_payout_never_exceeds_slot_cap(PoolTerms memory t, uint32 units) external pure {
        require(Pricing.payout(t, units) <= Pricing.slotCap(t));
    }

    function test_pricing_units_above_cap_are_not_paid() external pure {
        PoolTerms memory t;
        t.pricePerGroup = 7;
        t.pricePerToken = 3;
        t.groupSize = 2;
        t.maxCompletionTokens = 10;
        require(Pricing.payout(t, 0) == 7);
        require(Pricing.payout(t, 20) == 67);
        require(Pricing.payout(t, 21) == 67);
        require(Pricing.payout(t, type(uint32).max) == 67);
    }
}
