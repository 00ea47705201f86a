// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Outcomes} from "../../contracts/libraries/Outcomes.sol";
import {IPoolRegistry} from "../../contracts/interfaces/IPoolRegistry.sol";
import {PoolId} from "../../contracts/types/Ids.sol";
import {PoolTerms} from "../../contracts/types/PoolTerms.sol";
import {ChainTest} from "./support/ChainTest.sol";
import {vm} from "./support/Vm.sol";

contract PoolRegistryTest is ChainTest {
    function refused(PoolTerms memory t, bytes32 term, uint256 value, uint256 lowest, uint256 highest) internal {
        vm.expectRevert(
            abi.encodeWithSelector(IPoolRegistry.TermOutOfRange.selector, term, value, lowest, highest)
        );
        registry.createPool(t);
    }

    function test_R1_terms_and_hash_stay_as_created() external {
        PoolTerms memory t = terms();
        eq(keccak256(abi.encode(registry.termsOf(pool))), keccak256(abi.encode(t)));
        eq(registry.termsHashOf(pool), keccak256(abi.encode(t)));
        vm.prank(OWNER);
        registry.closePool(pool);
        eq(registry.termsHashOf(pool), keccak256(abi.encode(registry.termsOf(pool))));
    }

    function test_pool_created_is_announced_with_terms() external {
        PoolTerms memory t = terms();
        t.groupSize = 9;
        vm.expectEmit();
        emit IPoolRegistry.PoolCreated(PoolId.wrap(2), STRANGER, keccak256(abi.encode(t)), t);
        vm.prank(STRANGER);
        PoolId second = registry.createPool(t);
        eq(registry.ownerOf(second), STRANGER);
        eq(registry.poolCount(), 2);
        require(registry.isOpen(second));
    }

    function test_pool_unknown_is_refused() external {
        PoolId none = PoolId.wrap(9);
        require(!registry.isOpen(none) && !registry.isOpen(PoolId.wrap(0)));
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.UnknownPool.selector, none));
        registry.termsOf(none);
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.UnknownPool.selector, none));
        registry.termsHashOf(none);
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.UnknownPool.selector, none));
        registry.ownerOf(none);
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.UnknownPool.selector, none));
        registry.closePool(none);
    }

    function test_R4_pool_is_closed_by_its_owner_once() external {
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.NotPoolOwner.selector, pool, STRANGER, OWNER));
        vm.prank(STRANGER);
        registry.closePool(pool);
        vm.startPrank(OWNER);
        vm.expectEmit();
        emit IPoolRegistry.PoolClosed(pool);
        registry.closePool(pool);
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.PoolAlreadyClosed.selector, pool));
        registry.closePool(pool);
        require(!registry.isOpen(pool));
    }

    function test_R2_unbonding_shorter_than_the_windows_is_refused() external {
        PoolTerms memory t = terms();
        uint32 sum = t.leaseSeconds + t.collectSeconds + t.voteSeconds + t.challengeSeconds;
        t.unbondingSeconds = sum - 1;
        vm.expectRevert(
            abi.encodeWithSelector(IPoolRegistry.UnbondingTooShort.selector, uint256(sum - 1), uint256(sum))
        );
        registry.createPool(t);
        t.unbondingSeconds = sum;
        registry.createPool(t);
    }

    function testFuzz_R3_quorum_is_a_majority_within_the_panel(uint32 size, uint32 quorum) external {
        PoolTerms memory t = terms();
        t.panelSize = size % 20;
        t.quorum = quorum % 20;
        if (t.panelSize == 0 || t.panelSize > Outcomes.MAX_VOTES) {
            refused(t, "panelSize", t.panelSize, 1, Outcomes.MAX_VOTES);
        } else if (2 * t.quorum <= t.panelSize || t.quorum > t.panelSize) {
            refused(t, "quorum", t.quorum, t.panelSize / 2 + 1, t.panelSize);
        } else {
            registry.createPool(t);
        }
    }

    function test_terms_zero_addresses_are_refused() external {
        PoolTerms memory t = terms();
        t.payoutToken = address(0);
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.TermAddressZero.selector, bytes32("payoutToken")));
        registry.createPool(t);
        t = terms();
        t.coordinator = address(0);
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.TermAddressZero.selector, bytes32("coordinator")));
        registry.createPool(t);
        t = terms();
        t.trainer = address(0);
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.TermAddressZero.selector, bytes32("trainer")));
        registry.createPool(t);
    }

    function test_terms_out_of_range_are_refused() external {
        uint256 most = type(uint32).max;
        PoolTerms memory t = terms();
        t.groupSize = 0;
        refused(t, "groupSize", 0, 1, most);
        t = terms();
        t.maxCompletionTokens = 0;
        refused(t, "maxCompletionTokens", 0, 1, most / t.groupSize);
        t.maxCompletionTokens = uint32(most / t.groupSize) + 1;
        refused(t, "maxCompletionTokens", t.maxCompletionTokens, 1, most / t.groupSize);
        t = terms();
        t.maxSlots = 0;
        refused(t, "maxSlots", 0, 1, 4_096);
        t.maxSlots = 4_097;
        refused(t, "maxSlots", 4_097, 1, 4_096);
        t = terms();
        t.temperatureMilli = 0;
        refused(t, "temperatureMilli", 0, 1, most);
        t = terms();
        t.protocolVersion = 0;
        refused(t, "protocolVersion", 0, 1, most);
        t = terms();
        t.faultSlashBps = 10_001;
        refused(t, "faultSlashBps", 10_001, 0, 10_000);
        t = terms();
        t.minWorkerStake = 0;
        refused(t, "minWorkerStake", 0, 1, type(uint128).max);
        t = terms();
        t.minValidatorStake = 0;
        refused(t, "minValidatorStake", 0, 1, type(uint128).max);
        t = terms();
        t.beaconDelayBlocks = 0;
        refused(t, "beaconDelayBlocks", 0, 1, 128);
        t.beaconDelayBlocks = 129;
        refused(t, "beaconDelayBlocks", 129, 1, 128);
    }

    function test_terms_windows_out_of_range_are_refused() external {
        PoolTerms memory t = terms();
        t.leaseSeconds = 0;
        refused(t, "leaseSeconds", 0, 1, 30 days);
        t = terms();
        t.collectSeconds = 30 days + 1;
        refused(t, "collectSeconds", 30 days + 1, 1, 30 days);
        t = terms();
        t.voteSeconds = 0;
        refused(t, "voteSeconds", 0, 1, 30 days);
        t = terms();
        t.challengeSeconds = 0;
        refused(t, "challengeSeconds", 0, 1, 30 days);
        t = terms();
        t.unbondingSeconds = 365 days + 1;
        refused(t, "unbondingSeconds", 365 days + 1, 1, 365 days);
    }
}
