// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Strings} from "@openzeppelin/contracts/utils/Strings.sol";

import {MerkleIndex} from "../../contracts/libraries/MerkleIndex.sol";
import {Outcomes} from "../../contracts/libraries/Outcomes.sol";
import {PanelDraw} from "../../contracts/libraries/PanelDraw.sol";
import {Seeds} from "../../contracts/libraries/Seeds.sol";
import {SubmissionLedger} from "../../contracts/SubmissionLedger.sol";
import {StakeManager} from "../../contracts/StakeManager.sol";
import {PoolId} from "../../contracts/types/Ids.sol";
import {Submission} from "../../contracts/types/Submission.sol";
import {ChainTest} from "./support/ChainTest.sol";
import {Trees} from "./support/Trees.sol";
import {vm} from "./support/Vm.sol";
import {LibraryHarness} from "./Libraries.t.sol";

/// @dev The golden vectors that Python reproduces too.
contract VectorsTest is ChainTest {
    string internal json;
    address internal ledgerAt;
    LibraryHarness internal harness = new LibraryHarness();

    function setUp() public override {
        super.setUp();
        json = vm.readFile("tests/vectors/chain.json");
        vm.chainId(vm.parseJsonUint(json, ".chainId"));
        ledgerAt = vm.parseJsonAddress(json, ".ledger");
        vm.etch(ledgerAt, address(ledger).code);
    }

    function item(string memory list, uint256 i, string memory key) internal pure returns (string memory) {
        return string.concat(list, "[", Strings.toString(i), "]", key);
    }

    function test_submission_hash_and_digest_equal_vector() external view {
        Submission memory leaf = Submission({
            pool: PoolId.wrap(uint64(vm.parseJsonUint(json, ".submission.value.pool"))),
            step: uint32(vm.parseJsonUint(json, ".submission.value.step")),
            slot: uint32(vm.parseJsonUint(json, ".submission.value.slot")),
            provider: vm.parseJsonAddress(json, ".submission.value.provider"),
            node: vm.parseJsonAddress(json, ".submission.value.node"),
            units: uint32(vm.parseJsonUint(json, ".submission.value.units")),
            contentHash: vm.parseJsonBytes32(json, ".submission.value.contentHash"),
            leaseHash: vm.parseJsonBytes32(json, ".submission.value.leaseHash")
        });
        eq(ledger.leafHash(leaf), vm.parseJsonBytes32(json, ".submission.structHash"));
        eq(SubmissionLedger(ledgerAt).submissionDigest(leaf), vm.parseJsonBytes32(json, ".submission.digest"));
    }

    function test_node_consent_digest_equals_vector() external {
        address managerAt = vm.parseJsonAddress(json, ".stakeManager");
        vm.etch(managerAt, address(stakes).code);
        bytes32 digest = StakeManager(managerAt).consentDigest(
            vm.parseJsonAddress(json, ".nodeConsent.value.node"),
            vm.parseJsonAddress(json, ".nodeConsent.value.provider"),
            vm.parseJsonUint(json, ".nodeConsent.value.deadline")
        );
        eq(digest, vm.parseJsonBytes32(json, ".nodeConsent.digest"));
    }

    function test_merkle_trees_equal_vectors() external view {
        for (uint256 i = 0; i < 5; ++i) {
            bytes32[] memory leaves = vm.parseJsonBytes32Array(json, item(".merkle", i, ".leaves"));
            bytes32 root = vm.parseJsonBytes32(json, item(".merkle", i, ".root"));
            eq(Trees.root(leaves), root);
            for (uint256 j = 0; j < leaves.length; ++j) {
                bytes32[] memory proof =
                    vm.parseJsonBytes32Array(json, item(string.concat(".merkle[", Strings.toString(i), "].proofs"), j, ""));
                require(harness.verify(root, leaves[j], j, leaves.length, proof));
            }
        }
    }

    function test_beacons_and_seeds_equal_vectors() external view {
        PoolId p = PoolId.wrap(uint64(vm.parseJsonUint(json, ".beacons.pool")));
        uint32 step = uint32(vm.parseJsonUint(json, ".beacons.step"));
        bytes32 blockHash = vm.parseJsonBytes32(json, ".beacons.blockHash");
        bytes32 seedBeacon = Seeds.beacon(Seeds.SEED_BEACON_TAG, ledgerAt, p, step, blockHash);
        eq(seedBeacon, vm.parseJsonBytes32(json, ".beacons.seedBeacon"));
        eq(
            Seeds.beacon(Seeds.AUDIT_BEACON_TAG, ledgerAt, p, step, blockHash),
            vm.parseJsonBytes32(json, ".beacons.auditBeacon")
        );
        for (uint256 i = 0; i < 3; ++i) {
            uint32 slot = uint32(vm.parseJsonUint(json, item(".beacons.slots", i, ".slot")));
            bytes32 slotSeed = Seeds.slotSeed(ledgerAt, p, step, seedBeacon, slot);
            eq(slotSeed, vm.parseJsonBytes32(json, item(".beacons.slots", i, ".slotSeed")));
            bytes32[] memory rollouts = vm.parseJsonBytes32Array(json, item(".beacons.slots", i, ".rolloutSeeds"));
            for (uint32 j = 0; j < rollouts.length; ++j) eq(Seeds.rolloutSeed(slotSeed, j), rollouts[j]);
        }
    }

    function test_panel_draws_equal_vectors() external view {
        for (uint256 i = 0; i < 3; ++i) {
            address[] memory drawn = PanelDraw.draw(
                vm.parseJsonAddressArray(json, item(".panels", i, ".candidates")),
                vm.parseJsonUintArray(json, item(".panels", i, ".weights")),
                vm.parseJsonBytes32(json, item(".panels", i, ".auditBeacon")),
                vm.parseJsonUint(json, item(".panels", i, ".size"))
            );
            address[] memory expected = vm.parseJsonAddressArray(json, item(".panels", i, ".panel"));
            eq(drawn.length, expected.length);
            for (uint256 j = 0; j < drawn.length; ++j) eq(drawn[j], expected[j]);
        }
    }

    function test_outcomes_packing_equals_vectors() external view {
        for (uint256 i = 0; i < 6; ++i) {
            uint256[] memory outcomes = vm.parseJsonUintArray(json, item(".outcomes", i, ".outcomes"));
            bytes memory packed = vm.parseJsonBytes(json, item(".outcomes", i, ".packed"));
            uint256[] memory words = harness.toWords(packed, outcomes.length);
            for (uint256 j = 0; j < outcomes.length; ++j) eq(uint256(Outcomes.outcomeAt(words, j)), outcomes[j]);
            eq(keccak256(harness.toBytes(words, outcomes.length)), keccak256(packed));
        }
    }

    function test_tallies_equal_vectors() external view {
        for (uint256 i = 0; i < 4; ++i) {
            uint256 leafCount = vm.parseJsonUint(json, item(".tallies", i, ".leafCount"));
            bytes[] memory packed = vm.parseJsonBytesArray(json, item(".tallies", i, ".votes"));
            uint256[][] memory votes = new uint256[][](packed.length);
            for (uint256 j = 0; j < packed.length; ++j) votes[j] = harness.toWords(packed[j], leafCount);
            Outcomes.Result memory result = Outcomes.tally(
                votes, (leafCount + 127) / 128, vm.parseJsonUint(json, item(".tallies", i, ".quorum"))
            );
            eq(
                keccak256(harness.toBytes(result.words, leafCount)),
                keccak256(vm.parseJsonBytes(json, item(".tallies", i, ".result")))
            );
            eq(result.accepted, vm.parseJsonUint(json, item(".tallies", i, ".accepted")));
            eq(result.rejected, vm.parseJsonUint(json, item(".tallies", i, ".rejected")));
            eq(result.faulted, vm.parseJsonUint(json, item(".tallies", i, ".faulted")));
        }
    }
}
