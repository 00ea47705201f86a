// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Seeds} from "../../contracts/libraries/Seeds.sol";
import {Outcome, Role} from "../../contracts/types/Enums.sol";
import {PoolTerms} from "../../contracts/types/PoolTerms.sol";
import {LeafOpening, PayTable, Submission} from "../../contracts/types/Submission.sol";
import {ChainTest} from "./support/ChainTest.sol";
import {Trees} from "./support/Trees.sol";
import {vm} from "./support/Vm.sol";

/// @dev The largest steps that terms allow, arranged as dearly as an attacker can. If a call of theirs did not fit into one
/// transaction, the pool and every exit from it would be stuck: steps settle in order.
contract LimitsTest is ChainTest {
    uint256 internal constant TRANSACTION_GAS = 1 << 24; // EIP-7825
    uint256 internal constant TAKER_KEY = 0x7A_000;
    uint32 internal constant SLOTS = 4_096;

    uint256 internal takers;

    event Spent(uint256 gas);

    error TooDear(uint256 gas);

    function test_settlement_of_mostly_rejected_slots_fits_into_a_transaction() external {
        openLargest(16, 128);
        voteOneIn(16, 7);
        settle();
    }

    function test_settlement_of_accepted_slots_fits_into_a_transaction() external {
        openLargest(16, 128);
        voteOneIn(1, 0);
        settle();
    }

    /// Each slot of the tree was disputed, and each dispute has ended.
    function test_settlement_of_disputed_slots_fits_into_a_transaction() external {
        bytes32[][] memory tree = openLargest(16, 128);
        voteOneIn(1, 7);
        for (uint32 slot = 0; slot < SLOTS; ++slot) this.holdAndLetGo(slot, Trees.proofIn(tree, slot));
        eq(panel.heldCountOf(pool, 0), 0);
        require(panel.isHeld(pool, 0, SLOTS - 1), "not held");
        settle();
    }

    /// In a call of its own, so that its memory is freed.
    function holdAndLetGo(uint32 slot, bytes32[] calldata proof) external {
        LeafOpening memory opened = LeafOpening({leaf: leafOf(slot), proof: proof});
        bytes[] memory votes = votesOf(0);
        vm.startPrank(address(court));
        panel.holdSlot(pool, 0, opened, votes);
        panel.unholdSlot(pool, 0);
        vm.stopPrank();
    }

    function test_panel_and_jury_of_the_longest_list_are_drawn_within_a_transaction() external {
        for (uint160 i = 0; i < 56; ++i) enter(address(0x10_000 + i), Role.Validator, STAKE);
        eq(stakes.validatorsOf(pool).length, 64);
        seed(0, 6);
        // Each stake changes after the step has opened: all are looked up in their histories.
        for (uint160 i = 0; i < 56; ++i) enter(address(0x10_000 + i), Role.Validator, 1);
        commit(0, 6, makeLeaves(0, 6));
        skip(10);
        panel.sealAuditBeacon(pool, 0);
        mine(3);
        within(address(panel), abi.encodeCall(panel.sealAuditBeacon, (pool, 0)));
    }

    // -- the largest step

    function openLargest(uint256 takers_, uint256 providers) internal returns (bytes32[][] memory tree) {
        takers = takers_;
        PoolTerms memory t = terms();
        (t.work.maxSlots, t.work.reservedSlots) = (SLOTS, uint32(takers_));
        (t.panel.panelSize, t.panel.quorum) = (15, 8);
        pool = createPool(t);
        fund(pool, 100 * FUNDS);
        for (uint160 i = 0; i < 20; ++i) enter(address(0x10_000 + i), Role.Validator, STAKE);
        address[] memory table = new address[](providers);
        for (uint160 i = 0; i < providers; ++i) {
            table[i] = address(0x20_000 + i);
            enter(table[i], Role.Worker, STAKE);
        }
        for (uint256 i = 0; i < takers; ++i) enter(vm.addr(TAKER_KEY + i), Role.Worker, STAKE);
        mine(1);
        open(0, SLOTS);
        mine(1);
        // One wei more after the step has opened: what counted before is looked up in its history.
        for (uint256 i = 0; i < providers; ++i) enter(table[i], Role.Worker, 1);
        for (uint256 i = 0; i < takers; ++i) enter(vm.addr(TAKER_KEY + i), Role.Worker, 1);
        mine(2);
        ledger.sealSeedBeacon(pool, 0);
        for (uint256 i = 0; i < takers; ++i) take(vm.addr(TAKER_KEY + i));
        mine(3);
        for (uint32 i = 0; i < takers; ++i) deliver(SLOTS + i, TAKER_KEY + i);
        bytes32[] memory words = new bytes32[](SLOTS);
        for (uint32 slot = 0; slot < SLOTS; ++slot) words[slot] = ledger.leafHash(leafOf(slot));
        tree = Trees.levels(words);
        commitAs(0, tree[tree.length - 1][0], largestTable(table));
        draw(0);
    }

    function take(address worker) internal {
        allow(worker, SLOT);
        vm.prank(worker);
        ledger.takeSlot(pool, 0);
    }

    function deliver(uint32 slot, uint256 key) internal {
        address worker = vm.addr(key);
        ledger.sealTakenSlot(pool, 0, slot);
        Submission memory leaf = makeLeaves(0, 1)[0];
        (leaf.slot, leaf.provider, leaf.node) = (slot, worker, worker);
        leaf.leaseHash = Seeds.takenLease(address(ledger), pool, 0, slot, worker);
        ledger.deliverTaken(pool, 0, leaf, sign(key, ledger.submissionDigest(leaf)), "here");
    }

    function leafOf(uint32 slot) internal view returns (Submission memory leaf) {
        (leaf.pool, leaf.slot, leaf.units) = (pool, slot, 150);
        leaf.provider = address(0x20_000 + uint160(slot / 16) % 128);
        leaf.node = leaf.provider;
    }

    function largestTable(address[] memory table) internal pure returns (PayTable memory p) {
        p.providers = table;
        p.totals = new uint256[](table.length);
        p.words = new uint256[]((SLOTS + 4) / 5);
        for (uint256 slot = 0; slot < SLOTS; ++slot) {
            uint256 place = (slot / 16) % table.length;
            p.totals[place] += (1 << 128) + 150;
            p.words[slot / 5] |= ((place + 1) | (150 << 16)) << (48 * (slot % 5));
        }
    }

    /// One slot in `every` is accepted, and all that were taken on chain.
    function voteOneIn(uint256 every, uint256 silent) internal {
        Outcome[] memory outcomes = new Outcome[](SLOTS + takers);
        for (uint256 slot = 0; slot < outcomes.length; ++slot) {
            outcomes[slot] = slot >= SLOTS || slot % every == 0 ? Outcome.Accept : Outcome.Reject;
        }
        bytes[] memory ballots = new bytes[](15);
        for (uint256 seat = silent; seat < 15; ++seat) ballots[seat] = pack(outcomes);
        vote(0, ballots);
    }

    function settle() internal {
        skip(30);
        within(address(panel), abi.encodeCall(panel.finalize, (pool, 0, votesOf(0), tableOf(0))));
        eq(ledger.settledCountOf(pool), 1);
        require(earned(vm.addr(TAKER_KEY + takers - 1)) > SLOT, "a taker is not paid");
    }

    /// Calls with all storage cold, as a transaction does.
    function within(address target, bytes memory data) internal {
        uint256 gas = 21_000;
        for (uint256 i = 0; i < data.length; ++i) gas += data[i] == 0 ? 4 : 16;
        address[6] memory parts = [
            address(stakes), address(registry), address(ledger), address(vault), address(court), address(panel)
        ];
        for (uint256 i = 0; i < 6; ++i) vm.cool(parts[i]);
        uint256 left = gasleft();
        (bool ok,) = target.call(data);
        gas += left - gasleft();
        require(ok, "the call failed");
        emit Spent(gas);
        if (gas > TRANSACTION_GAS) revert TooDear(gas);
    }
}
