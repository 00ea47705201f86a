// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Strings} from "@openzeppelin/contracts/utils/Strings.sol";

import {DisputeCourt} from "../../contracts/DisputeCourt.sol";
import {PlantedFaults} from "../../contracts/PlantedFaults.sol";
import {StakeManager} from "../../contracts/StakeManager.sol";
import {SubmissionLedger} from "../../contracts/SubmissionLedger.sol";
import {VotingPanel} from "../../contracts/VotingPanel.sol";
import {Outcomes} from "../../contracts/libraries/Outcomes.sol";
import {PanelDraw} from "../../contracts/libraries/PanelDraw.sol";
import {Seeds} from "../../contracts/libraries/Seeds.sol";
import {Ruling} from "../../contracts/types/Enums.sol";
import {CaseId, PoolId} from "../../contracts/types/Ids.sol";
import {Lease, PayTable, Submission} from "../../contracts/types/Submission.sol";
import {ChainTest} from "./support/ChainTest.sol";
import {Trees} from "./support/Trees.sol";
import {vm} from "./support/Vm.sol";
import {LibraryHarness} from "./Libraries.t.sol";

/// @dev Cheatcodes that only the vectors need.
interface Bench {
    function keyExistsJson(string calldata json, string calldata key) external view returns (bool);
    function store(address target, bytes32 slot, bytes32 value) external;
}

/// @dev The golden vectors that Python reproduces too.
contract VectorsTest is ChainTest {
    Bench internal constant BENCH = Bench(address(vm));

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

    // How many items a list of the file has.
    function countOf(string memory list) internal view returns (uint256 count) {
        while (BENCH.keyExistsJson(json, item(list, count, ""))) ++count;
        require(count != 0, "no such list");
    }

    function poolAt(string memory path) internal view returns (PoolId) {
        return PoolId.wrap(uint64(vm.parseJsonUint(json, path)));
    }

    function number(string memory path) internal view returns (uint32) {
        return uint32(vm.parseJsonUint(json, path));
    }

    function submissionAt(string memory path) internal view returns (Submission memory leaf) {
        leaf.pool = poolAt(string.concat(path, ".pool"));
        leaf.step = number(string.concat(path, ".step"));
        leaf.slot = number(string.concat(path, ".slot"));
        leaf.provider = vm.parseJsonAddress(json, string.concat(path, ".provider"));
        leaf.node = vm.parseJsonAddress(json, string.concat(path, ".node"));
        leaf.units = number(string.concat(path, ".units"));
        leaf.contentHash = vm.parseJsonBytes32(json, string.concat(path, ".contentHash"));
        leaf.leaseHash = vm.parseJsonBytes32(json, string.concat(path, ".leaseHash"));
    }

    // -- structs

    function test_submission_hash_and_digest_equal_vector() external view {
        Submission memory leaf = submissionAt(".submission.value");
        eq(ledger.leafHash(leaf), vm.parseJsonBytes32(json, ".submission.structHash"));
        eq(SubmissionLedger(ledgerAt).submissionDigest(leaf), vm.parseJsonBytes32(json, ".submission.digest"));
    }

    function test_lease_digest_equals_vector() external view {
        Lease memory lease;
        lease.pool = poolAt(".lease.value.pool");
        lease.step = number(".lease.value.step");
        lease.policyStep = number(".lease.value.policyStep");
        lease.slot = number(".lease.value.slot");
        lease.provider = vm.parseJsonAddress(json, ".lease.value.provider");
        lease.node = vm.parseJsonAddress(json, ".lease.value.node");
        lease.validFrom = uint64(vm.parseJsonUint(json, ".lease.value.validFrom"));
        lease.validUntil = uint64(vm.parseJsonUint(json, ".lease.value.validUntil"));
        lease.maxUnits = number(".lease.value.maxUnits");
        lease.cardHash = vm.parseJsonBytes32(json, ".lease.value.cardHash");
        lease.protocolVersion = number(".lease.value.protocolVersion");
        eq(SubmissionLedger(ledgerAt).leaseDigest(lease), vm.parseJsonBytes32(json, ".lease.digest"));
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

    // -- trees and tables

    function test_merkle_trees_equal_vectors() external view {
        for (uint256 i = 0; i < countOf(".merkle"); ++i) {
            bytes32[] memory leaves = vm.parseJsonBytes32Array(json, item(".merkle", i, ".leaves"));
            bytes32 root = vm.parseJsonBytes32(json, item(".merkle", i, ".root"));
            eq(Trees.root(leaves), root);
            string memory proofs = item(".merkle", i, ".proofs");
            for (uint256 j = 0; j < leaves.length; ++j) {
                bytes32[] memory proof = vm.parseJsonBytes32Array(json, item(proofs, j, ""));
                eq(keccak256(abi.encode(proof)), keccak256(abi.encode(Trees.proof(leaves, j))));
                require(harness.verify(root, leaves[j], j, leaves.length, proof));
            }
        }
    }

    function test_trees_by_slot_equal_vectors() external view {
        for (uint256 i = 0; i < countOf(".steps"); ++i) {
            uint32 slots = number(item(".steps", i, ".slots"));
            Submission[] memory leaves = leavesAt(i);
            bytes32[] memory words = wordsOf(slots, leaves);
            bytes32[] memory expected = vm.parseJsonBytes32Array(json, item(".steps", i, ".words"));
            eq(keccak256(abi.encode(words)), keccak256(abi.encode(expected)));
            bytes32 root = vm.parseJsonBytes32(json, item(".steps", i, ".root"));
            eq(Trees.root(words), root);
            for (uint256 j = 0; j < leaves.length; ++j) {
                uint32 slot = leaves[j].slot;
                require(harness.verify(root, words[slot], slot, slots, Trees.proof(words, slot)));
            }
        }
    }

    function test_pay_tables_equal_vectors() external view {
        for (uint256 i = 0; i < countOf(".steps"); ++i) {
            PayTable memory table = tableAt(i);
            eq(keccak256(abi.encode(table)), vm.parseJsonBytes32(json, item(".steps", i, ".payHash")));
            uint32 slots = number(item(".steps", i, ".slots"));
            Submission[] memory leaves = leavesAt(i);
            checkTable(table, slots, leaves);
            for (uint256 j = 1; j < table.providers.length; ++j) {
                require(table.providers[j - 1] < table.providers[j], "ascending");
            }
        }
    }

    function tableAt(uint256 i) internal view returns (PayTable memory) {
        return PayTable({
            providers: vm.parseJsonAddressArray(json, item(".steps", i, ".providers")),
            totals: vm.parseJsonUintArray(json, item(".steps", i, ".payTotals")),
            words: vm.parseJsonUintArray(json, item(".steps", i, ".payWords"))
        });
    }

    function leavesAt(uint256 i) internal view returns (Submission[] memory leaves) {
        string memory list = item(".steps", i, ".leaves");
        leaves = new Submission[](countOf(list));
        for (uint256 j = 0; j < leaves.length; ++j) leaves[j] = submissionAt(item(list, j, ""));
    }

    // Reads a table as a settlement does, and finds the leaves in it and nothing else.
    function checkTable(PayTable memory table, uint32 slots, Submission[] memory leaves) internal pure {
        eq(table.words.length, (slots + 4) / 5);
        eq(table.totals.length, table.providers.length);
        uint256 found = 0;
        for (uint256 slot = 0; slot < 5 * table.words.length; ++slot) {
            uint256 entry = (table.words[slot / 5] >> (48 * (slot % 5))) & type(uint48).max;
            if (entry == 0) continue;
            uint256 which = 0;
            while (leaves[which].slot != slot) ++which;
            eq(table.providers[(entry & 0xffff) - 1], leaves[which].provider);
            eq(entry >> 16, leaves[which].units);
            ++found;
        }
        eq(found, leaves.length);
        for (uint256 i = 0; i < table.providers.length; ++i) {
            uint256 total = 0;
            for (uint256 j = 0; j < leaves.length; ++j) {
                if (leaves[j].provider == table.providers[i]) total += 2 ** 128 + leaves[j].units;
            }
            eq(table.totals[i], total);
        }
        for (uint256 i = 0; i < table.words.length; ++i) eq(table.words[i] >> 240, 0);
    }

    function test_pay_table_and_root_of_a_vector_are_committed_as_they_are() external {
        uint256 last = countOf(".steps") - 1;
        PayTable memory table = tableAt(last);
        seed(0, number(item(".steps", last, ".slots")));
        commitAs(0, vm.parseJsonBytes32(json, item(".steps", last, ".root")), table);
        eq(ledger.stepOf(pool, 0).settlementHash, vm.parseJsonBytes32(json, item(".steps", last, ".payHash")));
    }

    // -- commitments

    function test_vote_commitment_equals_vector() external {
        address panelAt = vm.parseJsonAddress(json, ".panel");
        vm.etch(panelAt, address(panel).code);
        bytes32 commitment = VotingPanel(panelAt).voteCommitment(
            poolAt(".commitments.pool"),
            number(".commitments.step"),
            vm.parseJsonAddress(json, ".commitments.provider"),
            vm.parseJsonBytes(json, ".commitments.outcomes"),
            vm.parseJsonBytes32(json, ".commitments.verdictRoot"),
            vm.parseJsonBytes32(json, ".commitments.evidenceRoot"),
            vm.parseJsonBytes32(json, ".commitments.salt")
        );
        eq(commitment, vm.parseJsonBytes32(json, ".commitments.vote"));
    }

    function test_ruling_commitment_equals_vector() external {
        address courtAt = vm.parseJsonAddress(json, ".court");
        vm.etch(courtAt, address(court).code);
        DisputeCourt there = DisputeCourt(courtAt);
        CaseId caseId = CaseId.wrap(uint64(vm.parseJsonUint(json, ".commitments.caseId")));
        uint256 round = vm.parseJsonUint(json, ".commitments.round");
        putRound(courtAt, caseId, round);
        eq(there.caseOf(caseId).round, round);
        bytes32 commitment = there.jurorCommitment(
            caseId,
            vm.parseJsonAddress(json, ".commitments.juryMember"),
            Ruling(vm.parseJsonUint(json, ".commitments.ruling")),
            vm.parseJsonBytes32(json, ".commitments.salt")
        );
        eq(commitment, vm.parseJsonBytes32(json, ".commitments.juror"));
    }

    // Cases are the court's fourth variable; a search finds where in a case its round lies.
    function putRound(address courtAt, CaseId caseId, uint256 round) internal {
        uint256 first = uint256(keccak256(abi.encode(caseId, uint256(3))));
        for (uint256 word = 0; word < 10; ++word) {
            for (uint256 shift = 0; shift < 256; shift += 8) {
                BENCH.store(courtAt, bytes32(first + word), bytes32(round << shift));
                if (DisputeCourt(courtAt).caseOf(caseId).round == round) return;
            }
            BENCH.store(courtAt, bytes32(first + word), bytes32(0));
        }
    }

    function test_plant_commitment_equals_vector() external {
        address plantsAt = vm.parseJsonAddress(json, ".plants");
        vm.etch(plantsAt, address(plants).code);
        bytes32 commitment = PlantedFaults(plantsAt).plantCommitment(
            vm.parseJsonAddress(json, ".commitments.planter"),
            vm.parseJsonBytes32(json, ".commitments.leafHash"),
            vm.parseJsonBytes32(json, ".commitments.salt")
        );
        eq(commitment, vm.parseJsonBytes32(json, ".commitments.plant"));
    }

    // -- beacons and seeds

    function test_slot_taken_on_chain_equals_vector() external view {
        PoolId p = poolAt(".taken.pool");
        uint32 step = number(".taken.step");
        uint32 slot = number(".taken.slot");
        eq(
            Seeds.takenLease(ledgerAt, p, step, slot, vm.parseJsonAddress(json, ".taken.provider")),
            vm.parseJsonBytes32(json, ".taken.lease")
        );
        bytes32 beacon = Seeds.takenBeacon(ledgerAt, p, step, slot, vm.parseJsonBytes32(json, ".taken.blockHash"));
        eq(beacon, vm.parseJsonBytes32(json, ".taken.beacon"));
        eq(Seeds.slotSeed(ledgerAt, p, step, beacon, slot), vm.parseJsonBytes32(json, ".taken.slotSeed"));
    }

    function test_beacons_and_seeds_equal_vectors() external view {
        PoolId p = poolAt(".beacons.pool");
        uint32 step = number(".beacons.step");
        bytes32 blockHash = vm.parseJsonBytes32(json, ".beacons.blockHash");
        bytes32 seedBeacon = Seeds.beacon(Seeds.SEED_BEACON_TAG, ledgerAt, p, step, blockHash);
        eq(seedBeacon, vm.parseJsonBytes32(json, ".beacons.seedBeacon"));
        bytes32 auditBeacon = Seeds.beacon(Seeds.AUDIT_BEACON_TAG, ledgerAt, p, step, blockHash);
        eq(auditBeacon, vm.parseJsonBytes32(json, ".beacons.auditBeacon"));
        eq(
            keccak256(abi.encode(Seeds.REDRAW_BEACON_TAG, auditBeacon)),
            vm.parseJsonBytes32(json, ".beacons.redrawBeacon")
        );
        for (uint256 i = 0; i < countOf(".beacons.slots"); ++i) {
            uint32 slot = number(item(".beacons.slots", i, ".slot"));
            bytes32 slotSeed = Seeds.slotSeed(ledgerAt, p, step, seedBeacon, slot);
            eq(slotSeed, vm.parseJsonBytes32(json, item(".beacons.slots", i, ".slotSeed")));
            bytes32[] memory rollouts = vm.parseJsonBytes32Array(json, item(".beacons.slots", i, ".rolloutSeeds"));
            for (uint32 j = 0; j < rollouts.length; ++j) eq(Seeds.rolloutSeed(slotSeed, j), rollouts[j]);
        }
    }

    // -- panels and votes

    function test_panel_draws_equal_vectors() external view {
        for (uint256 i = 0; i < countOf(".panels"); ++i) {
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
        for (uint256 i = 0; i < countOf(".outcomes"); ++i) {
            uint256[] memory outcomes = vm.parseJsonUintArray(json, item(".outcomes", i, ".outcomes"));
            bytes memory packed = vm.parseJsonBytes(json, item(".outcomes", i, ".packed"));
            harness.check(packed, outcomes.length);
            uint256[] memory words = harness.toWords(packed);
            for (uint256 j = 0; j < outcomes.length; ++j) {
                eq(uint256(Outcomes.outcomeAt(words, j)), outcomes[j]);
                eq(uint256(harness.inBytes(packed, j)), outcomes[j]);
            }
            eq(keccak256(harness.toBytes(words, outcomes.length)), keccak256(packed));
        }
    }

    function test_tallies_equal_vectors() external view {
        for (uint256 i = 0; i < countOf(".tallies"); ++i) {
            uint256 slots = vm.parseJsonUint(json, item(".tallies", i, ".slots"));
            bytes[] memory packed = vm.parseJsonBytesArray(json, item(".tallies", i, ".votes"));
            uint256[][] memory votes = new uint256[][](packed.length);
            for (uint256 j = 0; j < packed.length; ++j) votes[j] = harness.toWords(packed[j]);
            uint256 quorum = vm.parseJsonUint(json, item(".tallies", i, ".quorum"));
            Outcomes.Result memory result = Outcomes.tally(votes, (slots + 127) / 128, quorum);
            bytes memory expected = vm.parseJsonBytes(json, item(".tallies", i, ".result"));
            eq(keccak256(harness.toBytes(result.words, slots)), keccak256(expected));
            eq(result.accepted, vm.parseJsonUint(json, item(".tallies", i, ".accepted")));
            eq(result.rejected, vm.parseJsonUint(json, item(".tallies", i, ".rejected")));
            eq(result.faulted, vm.parseJsonUint(json, item(".tallies", i, ".faulted")));
            if (packed.length <= 15) checkBallots(packed, quorum, expected, slots);
        }
    }

    // Each leaf on its own comes to the same.
    function checkBallots(bytes[] memory packed, uint256 quorum, bytes memory expected, uint256 slots) internal view {
        for (uint256 slot = 0; slot < slots; ++slot) {
            uint32 ballots = 0;
            for (uint256 seat = 0; seat < packed.length; ++seat) {
                ballots |= uint32(harness.inBytes(packed[seat], slot)) << uint32(2 * seat);
            }
            eq(Outcomes.decide(ballots, quorum), harness.inBytes(expected, slot));
        }
    }
}
