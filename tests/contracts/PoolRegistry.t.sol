// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {PoolRegistry} from "../../contracts/PoolRegistry.sol";
import {IPoolRegistry} from "../../contracts/interfaces/IPoolRegistry.sol";
import {Outcomes} from "../../contracts/libraries/Outcomes.sol";
import {Role} from "../../contracts/types/Enums.sol";
import {PoolId} from "../../contracts/types/Ids.sol";
import {Parts, PartMissing} from "../../contracts/types/Parts.sol";
import {Offer, Opening, PoolTerms, Windows} from "../../contracts/types/PoolTerms.sol";
import {ChainTest} from "./support/ChainTest.sol";
import {vm} from "./support/Vm.sol";

contract PoolRegistryTest is ChainTest {
    address internal constant HEIR = address(0x1C);
    uint32 internal constant NOTICE = 500;
    bytes32 internal constant NEW_CARD = keccak256("new card");

    // The pool of these tests has no providers.
    function setUp() public override {
        super.setUp();
        pool = createPool(ownTerms());
    }

    function ownTerms() internal view returns (PoolTerms memory t) {
        t = terms();
        t.panel.minValidatorStake = 200;
        t.parties.noticeSeconds = NOTICE;
    }

    // -- terms

    function test_constructor_with_a_missing_part_is_refused() external {
        for (uint256 i = 0; i < 9; ++i) {
            address[9] memory a;
            for (uint160 j = 0; j < 9; ++j) a[j] = j == i ? address(0) : address(j + 1);
            vm.expectRevert(abi.encodeWithSelector(PartMissing.selector));
            new PoolRegistry(Parts(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8]));
        }
        eq(address(registry.stakes()), address(stakes));
    }

    function test_R1_terms_and_hash_stay_as_created() external {
        PoolTerms memory t = ownTerms();
        eq(keccak256(abi.encode(registry.termsOf(pool))), keccak256(abi.encode(t)));
        eq(registry.termsHashOf(pool), keccak256(abi.encode(t)));
        Offer memory next = nextOffer();
        announce(next);
        skip(NOTICE);
        registry.currentOffer(pool);
        vm.prank(OWNER);
        registry.closePool(pool);
        eq(keccak256(abi.encode(registry.termsOf(pool))), keccak256(abi.encode(t)));
        eq(registry.termsHashOf(pool), keccak256(abi.encode(t)));
    }

    function test_each_group_of_the_terms_is_told_apart() external view {
        PoolTerms memory t = ownTerms();
        eq(keccak256(abi.encode(registry.partiesOf(pool))), keccak256(abi.encode(t.parties)));
        eq(keccak256(abi.encode(registry.feesOf(pool))), keccak256(abi.encode(t.fees)));
        eq(keccak256(abi.encode(registry.workRulesOf(pool))), keccak256(abi.encode(t.work)));
        eq(keccak256(abi.encode(registry.panelRulesOf(pool))), keccak256(abi.encode(t.panel)));
        eq(keccak256(abi.encode(registry.windowsOf(pool))), keccak256(abi.encode(t.windows)));
        eq(keccak256(abi.encode(registry.faultTableOf(pool))), keccak256(abi.encode(t.faults)));
        eq(keccak256(abi.encode(registry.offerOf(pool, 0))), keccak256(abi.encode(t.offer)));
    }

    function test_pool_created_is_announced_with_terms() external {
        PoolTerms memory t = terms();
        t.work.groupSize = 9;
        uint64 count = registry.poolCount();
        vm.expectEmit();
        emit IPoolRegistry.PoolCreated(PoolId.wrap(count + 1), STRANGER, keccak256(abi.encode(t)), t);
        vm.prank(STRANGER);
        PoolId created = registry.createPool(t);
        eq(PoolId.unwrap(created), count + 1);
        eq(registry.poolCount(), count + 1);
        eq(registry.ownerOf(created), STRANGER);
        require(registry.isOpen(created) && !registry.isPaused(created));
        eq(registry.clockOf(created), clock);
        eq(registry.offerNumberOf(created), 0);
    }

    function test_pool_unknown_is_refused_everywhere() external {
        PoolId none = PoolId.wrap(registry.poolCount() + 1);
        require(!registry.isOpen(none) && !registry.isOpen(PoolId.wrap(0)));
        Offer memory next = nextOffer();
        bytes[18] memory calls = [
            abi.encodeCall(registry.closePool, (none)),
            abi.encodeCall(registry.offerOwnership, (none, HEIR)),
            abi.encodeCall(registry.acceptOwnership, (none)),
            abi.encodeCall(registry.announceOffer, (none, next)),
            abi.encodeCall(registry.withdrawOffer, (none)),
            abi.encodeCall(registry.currentOffer, (none)),
            abi.encodeCall(registry.opening, (none)),
            abi.encodeCall(registry.attestCard, (none, NEW_CARD)),
            abi.encodeCall(registry.pause, (none)),
            abi.encodeCall(registry.unpause, (none)),
            abi.encodeCall(registry.termsOf, (none)),
            abi.encodeCall(registry.termsHashOf, (none)),
            abi.encodeCall(registry.offerNumberOf, (none)),
            abi.encodeCall(registry.offerOf, (none, 0)),
            abi.encodeCall(registry.pendingOfferOf, (none)),
            abi.encodeCall(registry.partiesOf, (none)),
            abi.encodeCall(registry.ownerOf, (none)),
            abi.encodeCall(registry.isPaused, (none))
        ];
        for (uint256 i = 0; i < calls.length; ++i) refusedAsUnknown(none, calls[i]);
    }

    function test_pool_unknown_has_no_rules_and_the_time_of_the_chain() external view {
        PoolId none = PoolId.wrap(registry.poolCount() + 1);
        eq(registry.coordinatorOf(none, 0), address(0));
        eq(registry.trainerOf(none, 0), address(0));
        eq(registry.ratesOf(none, 0).slotCap, 0);
        eq(registry.feesOf(none).sealFee, 0);
        eq(registry.workRulesOf(none).maxSlots, 0);
        eq(registry.panelRulesOf(none).panelSize, 0);
        eq(registry.windowsOf(none).voteSeconds, 0);
        eq(registry.faultTableOf(none).maxSlashBps, 0);
        (uint48 time,) = registry.timesOf(none);
        eq(time, clock);
        eq(registry.clockOf(none), clock);
    }

    function test_step_is_opened_under_the_offer_in_force() external {
        PoolTerms memory t = ownTerms();
        Opening memory o = registry.opening(pool);
        eq(o.offer, 0);
        eq(o.trainer, TRAINER);
        require(o.isOpen && !o.isPaused);
        eq(o.beaconDelayBlocks, t.windows.beaconDelayBlocks);
        eq(keccak256(abi.encode(o.rates)), keccak256(abi.encode(registry.ratesOf(pool, 0))));
        eq(o.rates.slotCap, SLOT);
        eq(o.rates.payCapBps, t.work.payCapBps);
        eq(keccak256(abi.encode(o.fees, o.work, o.panel)), keccak256(abi.encode(t.fees, t.work, t.panel)));
        eq(registry.coordinatorOf(pool, 0), coordinator);

        Offer memory next = nextOffer();
        announce(next);
        skip(NOTICE - 1);
        eq(registry.opening(pool).offer, 0);
        skip(1);
        o = registry.opening(pool);
        eq(o.offer, 1);
        eq(o.trainer, next.trainer);
        eq(o.rates.pricePerGroup, next.pricePerGroup);
        eq(o.rates.pricePerToken, next.pricePerToken);
        eq(o.rates.unitCap, uint256(t.work.groupSize) * t.work.maxCompletionTokens);
        eq(registry.ratesOf(pool, 0).pricePerGroup, t.offer.pricePerGroup);
        eq(registry.coordinatorOf(pool, 1), next.coordinator);
        eq(registry.trainerOf(pool, 0), TRAINER);
        eq(registry.trainerOf(pool, 1), next.trainer);

        vm.prank(PAUSER);
        registry.pause(pool);
        require(registry.opening(pool).isPaused);
        vm.prank(OWNER);
        registry.closePool(pool);
        require(!registry.opening(pool).isOpen);
    }

    function test_times_are_the_clock_and_the_windows() external {
        skip(9);
        vm.prank(PAUSER);
        registry.pause(pool);
        skip(40);
        (uint48 time, Windows memory windows) = registry.timesOf(pool);
        eq(time, clock - 40);
        eq(registry.clockOf(pool), clock - 40);
        eq(keccak256(abi.encode(windows)), keccak256(abi.encode(ownTerms().windows)));
    }

    function refusedAsUnknown(PoolId none, bytes memory data) internal {
        (bool ok, bytes memory answer) = address(registry).call(data);
        require(!ok, "an unknown pool was taken");
        eq(keccak256(answer), keccak256(abi.encodeWithSelector(IPoolRegistry.UnknownPool.selector, none)));
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

    // -- ownership

    function test_ownership_passes_in_two_steps() external {
        vm.expectEmit();
        emit IPoolRegistry.OwnershipOffered(pool, HEIR);
        vm.prank(OWNER);
        registry.offerOwnership(pool, HEIR);
        eq(registry.ownerOf(pool), OWNER);
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.NotOfferedOwner.selector, pool, STRANGER, HEIR));
        vm.prank(STRANGER);
        registry.acceptOwnership(pool);
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.NotPoolOwner.selector, pool, HEIR, OWNER));
        vm.prank(HEIR);
        registry.closePool(pool);

        vm.expectEmit();
        emit IPoolRegistry.OwnershipAccepted(pool, HEIR);
        vm.prank(HEIR);
        registry.acceptOwnership(pool);
        eq(registry.ownerOf(pool), HEIR);
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.NotPoolOwner.selector, pool, OWNER, HEIR));
        vm.prank(OWNER);
        registry.closePool(pool);
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.NotOfferedOwner.selector, pool, HEIR, address(0)));
        vm.prank(HEIR);
        registry.acceptOwnership(pool);
        vm.prank(HEIR);
        registry.closePool(pool);
    }

    function test_ownership_offer_is_the_owners_and_can_be_taken_back() external {
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.NotPoolOwner.selector, pool, STRANGER, OWNER));
        vm.prank(STRANGER);
        registry.offerOwnership(pool, STRANGER);
        vm.startPrank(OWNER);
        registry.offerOwnership(pool, HEIR);
        registry.offerOwnership(pool, address(0));
        vm.stopPrank();
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.NotOfferedOwner.selector, pool, HEIR, address(0)));
        vm.prank(HEIR);
        registry.acceptOwnership(pool);
        eq(registry.ownerOf(pool), OWNER);
    }

    // -- offers

    function nextOffer() internal view returns (Offer memory offer) {
        offer = terms().offer;
        offer.coordinator = address(0x2C);
        offer.trainer = address(0x2B);
        offer.pricePerGroup += 7;
    }

    function cardOffer() internal view returns (Offer memory offer) {
        offer = nextOffer();
        offer.cardHash = NEW_CARD;
    }

    function announce(Offer memory offer) internal {
        vm.prank(OWNER);
        registry.announceOffer(pool, offer);
    }

    function attest(address account, bytes32 cardHash) internal {
        vm.prank(account);
        registry.attestCard(pool, cardHash);
    }

    function eqOffer(Offer memory got, Offer memory expected) internal pure {
        eq(keccak256(abi.encode(got)), keccak256(abi.encode(expected)));
    }

    function eqPending(Offer memory expected, uint256 effectiveAt, bool isAttested) internal view {
        (Offer memory got, uint64 from, bool attested) = registry.pendingOfferOf(pool);
        eqOffer(got, expected);
        eq(from, effectiveAt);
        require(attested == isAttested, "isAttested");
    }

    function eqNoPending() internal view {
        Offer memory none;
        eqPending(none, 0, false);
    }

    function test_offer_holds_after_its_notice_and_not_before() external {
        eq(registry.offerNumberOf(pool), 0);
        eqNoPending();
        Offer memory next = nextOffer();
        uint256 effectiveAt = clock + NOTICE;
        vm.expectEmit();
        emit IPoolRegistry.OfferAnnounced(pool, 1, next, uint64(effectiveAt));
        announce(next);
        eqPending(next, effectiveAt, true);

        skip(NOTICE - 1);
        eq(registry.offerNumberOf(pool), 0);
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.UnknownOffer.selector, pool, uint32(1)));
        registry.offerOf(pool, 1);
        eqPending(next, effectiveAt, true);
        eq(registry.currentOffer(pool), 0);
        eqPending(next, effectiveAt, true);

        skip(1);
        eq(registry.offerNumberOf(pool), 1);
        eqOffer(registry.offerOf(pool, 1), next);
        eqOffer(registry.offerOf(pool, 0), terms().offer);
        eqNoPending();
        vm.prank(STRANGER);
        eq(registry.currentOffer(pool), 1);
        eq(registry.currentOffer(pool), 1);
        eq(registry.offerNumberOf(pool), 1);
        eqOffer(registry.offerOf(pool, 1), next);
        eqNoPending();
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.UnknownOffer.selector, pool, uint32(2)));
        registry.offerOf(pool, 2);
    }

    function test_offer_announced_again_starts_its_notice_anew() external {
        announce(nextOffer());
        skip(NOTICE - 1);
        Offer memory other = nextOffer();
        other.pricePerToken += 1;
        vm.expectEmit();
        emit IPoolRegistry.OfferAnnounced(pool, 1, other, uint64(clock + NOTICE));
        announce(other);
        skip(NOTICE - 1);
        eq(registry.offerNumberOf(pool), 0);
        skip(1);
        eq(registry.offerNumberOf(pool), 1);
        eqOffer(registry.offerOf(pool, 1), other);
    }

    function test_offer_due_is_kept_when_the_next_is_announced() external {
        Offer memory first = nextOffer();
        announce(first);
        skip(NOTICE);
        Offer memory second = nextOffer();
        second.pricePerGroup += 1;
        vm.expectEmit();
        emit IPoolRegistry.OfferAnnounced(pool, 2, second, uint64(clock + NOTICE));
        announce(second);
        eq(registry.offerNumberOf(pool), 1);
        eqOffer(registry.offerOf(pool, 1), first);
        eqPending(second, clock + NOTICE, true);
        skip(NOTICE);
        eq(registry.offerNumberOf(pool), 2);
        eqOffer(registry.offerOf(pool, 1), first);
        eqOffer(registry.offerOf(pool, 2), second);
        eq(registry.currentOffer(pool), 2);
    }

    function test_offer_without_notice_holds_at_once() external {
        PoolTerms memory t = ownTerms();
        t.parties.noticeSeconds = 0;
        pool = createPool(t);
        announce(nextOffer());
        eq(registry.offerNumberOf(pool), 1);
    }

    function test_offer_is_the_owners_to_announce_and_withdraw() external {
        Offer memory next = nextOffer();
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.NotPoolOwner.selector, pool, STRANGER, OWNER));
        vm.prank(STRANGER);
        registry.announceOffer(pool, next);
        announce(next);
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.NotPoolOwner.selector, pool, STRANGER, OWNER));
        vm.prank(STRANGER);
        registry.withdrawOffer(pool);
    }

    function test_offer_without_coordinator_or_trainer_is_refused() external {
        Offer memory next = nextOffer();
        next.coordinator = address(0);
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.TermAddressZero.selector, bytes32("coordinator")));
        announce(next);
        next = nextOffer();
        next.trainer = address(0);
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.TermAddressZero.selector, bytes32("trainer")));
        announce(next);
    }

    function test_offer_withdrawn_never_holds() external {
        announce(nextOffer());
        skip(NOTICE - 1);
        vm.expectEmit();
        emit IPoolRegistry.OfferWithdrawn(pool, 1);
        vm.prank(OWNER);
        registry.withdrawOffer(pool);
        eqNoPending();
        skip(NOTICE);
        eq(registry.offerNumberOf(pool), 0);
        eq(registry.currentOffer(pool), 0);
        Offer memory other = nextOffer();
        other.pricePerToken += 1;
        vm.expectEmit();
        emit IPoolRegistry.OfferAnnounced(pool, 1, other, uint64(clock + NOTICE));
        announce(other);
        eqPending(other, clock + NOTICE, true);
    }

    function test_offer_in_force_or_never_announced_cannot_be_withdrawn() external {
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.UnknownOffer.selector, pool, uint32(1)));
        vm.prank(OWNER);
        registry.withdrawOffer(pool);
        announce(nextOffer());
        skip(NOTICE);
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.UnknownOffer.selector, pool, uint32(1)));
        vm.prank(OWNER);
        registry.withdrawOffer(pool);
        registry.currentOffer(pool);
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.UnknownOffer.selector, pool, uint32(2)));
        vm.prank(OWNER);
        registry.withdrawOffer(pool);
    }

    // -- attestation

    /// Four validators of 1000 each: 0x900 to 0x903.
    function enterFour() internal {
        for (uint160 i = 0; i < 4; ++i) enter(address(0x900 + i), Role.Validator, 1_000);
    }

    function test_offer_of_a_new_card_waits_for_more_than_half_of_the_stake() external {
        enterFour();
        Offer memory next = cardOffer();
        announce(next);
        uint256 effectiveAt = clock + NOTICE;
        vm.expectEmit();
        emit IPoolRegistry.CardAttested(pool, NEW_CARD, address(0x900));
        attest(address(0x900), NEW_CARD);
        attest(address(0x901), NEW_CARD);
        skip(NOTICE);
        eqPending(next, effectiveAt, false);
        eq(registry.offerNumberOf(pool), 0);
        eq(registry.currentOffer(pool), 0);
        // Half and one more than half.
        enter(address(0x901), Role.Validator, 1);
        eq(registry.offerNumberOf(pool), 1);
        eqNoPending();
        eqOffer(registry.offerOf(pool, 1), next);
    }

    function test_offer_of_a_new_card_waits_for_its_notice_too() external {
        enterFour();
        for (uint160 i = 0; i < 3; ++i) attest(address(0x900 + i), NEW_CARD);
        announce(cardOffer());
        eqPending(cardOffer(), clock + NOTICE, true);
        skip(NOTICE - 1);
        eq(registry.offerNumberOf(pool), 0);
        skip(1);
        eq(registry.offerNumberOf(pool), 1);
    }

    function test_offer_of_a_new_card_is_compared_with_the_card_in_force() external {
        enterFour();
        for (uint160 i = 0; i < 3; ++i) attest(address(0x900 + i), NEW_CARD);
        announce(cardOffer());
        skip(NOTICE);
        // The card of offer 1 needs nothing more; the card of the terms was never attested.
        for (uint160 i = 0; i < 4; ++i) startExit(address(0x900 + i), Role.Validator, 1_000);
        require(registry.offerNumberOf(pool) == 0, "nobody left to vouch for it");
        enter(address(0x900), Role.Validator, 1_000);
        eq(registry.currentOffer(pool), 1);
        announce(cardOffer());
        eqPending(cardOffer(), clock + NOTICE, true);
        announce(nextOffer());
        eqPending(nextOffer(), clock + NOTICE, false);
    }

    function test_offer_once_current_stays_when_stakes_move() external {
        enterFour();
        for (uint160 i = 0; i < 3; ++i) attest(address(0x900 + i), NEW_CARD);
        announce(cardOffer());
        skip(NOTICE);
        eq(registry.offerNumberOf(pool), 1);
        startExit(address(0x900), Role.Validator, 1_000);
        eq(registry.offerNumberOf(pool), 1);
        startExit(address(0x901), Role.Validator, 1_000);
        eq(registry.offerNumberOf(pool), 0);
        enter(address(0x901), Role.Validator, 1_000);
        eq(registry.currentOffer(pool), 1);
        startExit(address(0x901), Role.Validator, 1_000);
        startExit(address(0x902), Role.Validator, 1_000);
        eq(registry.offerNumberOf(pool), 1);
        eq(registry.currentOffer(pool), 1);
    }

    function test_offer_of_a_new_card_unattested_can_be_withdrawn_and_replaced() external {
        enterFour();
        announce(cardOffer());
        skip(NOTICE);
        vm.expectEmit();
        emit IPoolRegistry.OfferAnnounced(pool, 1, cardOffer(), uint64(clock + NOTICE));
        announce(cardOffer());
        skip(NOTICE);
        vm.prank(OWNER);
        registry.withdrawOffer(pool);
        eqNoPending();
    }

    function test_offer_of_a_new_card_never_holds_in_a_pool_without_validators() external {
        announce(cardOffer());
        skip(NOTICE);
        eq(registry.offerNumberOf(pool), 0);
        eqPending(cardOffer(), clock, false);
    }

    function test_card_is_attested_once_by_each_validator_or_its_node() external {
        enterFour();
        address node = vm.addr(11);
        bytes memory signature = consent(11, address(0x900), clock);
        vm.prank(address(0x900));
        stakes.addNode(node, clock, signature);
        vm.expectEmit();
        emit IPoolRegistry.CardAttested(pool, NEW_CARD, address(0x900));
        attest(node, NEW_CARD);
        vm.expectRevert(
            abi.encodeWithSelector(IPoolRegistry.AlreadyAttested.selector, pool, NEW_CARD, address(0x900))
        );
        attest(address(0x900), NEW_CARD);
        attest(address(0x900), keccak256("another card"));
    }

    function test_card_attested_by_no_validator_is_refused() external {
        enter(address(0x900), Role.Validator, 1_000);
        enter(address(0x910), Role.Worker, 1_000);
        address[3] memory others = [STRANGER, address(0x910), validators[0]];
        for (uint256 i = 0; i < 3; ++i) {
            vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.NotValidator.selector, pool, others[i]));
            attest(others[i], NEW_CARD);
        }
        startExit(address(0x900), Role.Validator, 1_000);
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.NotValidator.selector, pool, address(0x900)));
        attest(address(0x900), NEW_CARD);
    }

    function test_card_attested_in_one_pool_says_nothing_in_another() external {
        enterFour();
        for (uint160 i = 0; i < 3; ++i) attest(address(0x900 + i), NEW_CARD);
        pool = createPool(ownTerms());
        enterFour();
        announce(cardOffer());
        skip(NOTICE);
        eq(registry.offerNumberOf(pool), 0);
        for (uint160 i = 0; i < 3; ++i) attest(address(0x900 + i), NEW_CARD);
        eq(registry.offerNumberOf(pool), 1);
    }

    // -- the clock

    function pause() internal {
        vm.prank(PAUSER);
        registry.pause(pool);
    }

    function unpause() internal {
        vm.prank(UNPAUSER);
        registry.unpause(pool);
    }

    function test_pause_stops_the_clock_until_it_is_ended() external {
        eq(registry.clockOf(pool), clock);
        vm.expectEmit();
        emit IPoolRegistry.Paused(pool, uint64(clock), uint64(clock + 3 days));
        pause();
        uint256 stoodAt = clock;
        require(registry.isPaused(pool));
        eq(registry.clockOf(pool), stoodAt);
        skip(100);
        require(registry.isPaused(pool));
        eq(registry.clockOf(pool), stoodAt);
        vm.expectEmit();
        emit IPoolRegistry.Unpaused(pool, uint64(stoodAt));
        unpause();
        require(!registry.isPaused(pool));
        eq(registry.clockOf(pool), stoodAt);
        skip(7);
        eq(registry.clockOf(pool), stoodAt + 7);
        eq(registry.clockOf(PoolId.wrap(1)), clock);
    }

    function test_pause_is_the_pausers_and_unpause_the_unpausers() external {
        address[3] memory callers = [UNPAUSER, OWNER, STRANGER];
        for (uint256 i = 0; i < 3; ++i) {
            vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.NotPauser.selector, pool, callers[i], PAUSER));
            vm.prank(callers[i]);
            registry.pause(pool);
        }
        pause();
        callers[0] = PAUSER;
        for (uint256 i = 0; i < 3; ++i) {
            vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.NotPauser.selector, pool, callers[i], UNPAUSER));
            vm.prank(callers[i]);
            registry.unpause(pool);
        }
    }

    function test_pause_of_a_standing_and_unpause_of_a_running_clock_are_refused() external {
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.PoolNotPaused.selector, pool));
        unpause();
        pause();
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.PoolIsPaused.selector, pool));
        pause();
        skip(3 days - 1);
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.PoolIsPaused.selector, pool));
        pause();
        unpause();
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.PoolNotPaused.selector, pool));
        unpause();
    }

    function test_pause_without_a_pauser_is_refused() external {
        PoolTerms memory t = terms();
        t.parties.pauser = address(0);
        t.parties.unpauser = address(0);
        pool = createPool(t);
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.NotPauser.selector, pool, OWNER, address(0)));
        vm.prank(OWNER);
        registry.pause(pool);
    }

    function test_pause_ends_by_itself_when_its_budget_is_spent() external {
        uint256 since = clock;
        pause();
        skip(3 days - 1);
        require(registry.isPaused(pool));
        eq(registry.clockOf(pool), since);
        skip(1);
        require(!registry.isPaused(pool));
        eq(registry.clockOf(pool), since);
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.PoolNotPaused.selector, pool));
        unpause();
        skip(50);
        eq(registry.clockOf(pool), since + 50);
        vm.expectRevert(
            abi.encodeWithSelector(IPoolRegistry.PauseSpent.selector, pool, since + 3 days + 30 days)
        );
        pause();
        eq(registry.clockOf(pool), since + 50);
    }

    function test_pause_budget_is_shared_by_pauses_and_renewed_a_period_after_the_last() external {
        pause();
        skip(1 days);
        unpause();
        uint256 running = registry.clockOf(pool);
        skip(30 days - 1);
        vm.expectEmit();
        emit IPoolRegistry.Paused(pool, uint64(clock), uint64(clock + 2 days));
        pause();
        skip(2 days + 10);
        require(!registry.isPaused(pool));
        eq(registry.clockOf(pool), running + 30 days - 1 + 10);

        // The last pause ended 10 seconds ago, by itself.
        skip(30 days - 11);
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.PauseSpent.selector, pool, clock + 1));
        pause();
        skip(1);
        vm.expectEmit();
        emit IPoolRegistry.Paused(pool, uint64(clock), uint64(clock + 3 days));
        pause();
        skip(5);
        unpause();
        eq(registry.clockOf(pool), clock - 1 days - 2 days - 5);
    }

    function test_pause_budget_is_renewed_exactly_a_period_after_the_end() external {
        pause();
        skip(1 days);
        unpause();
        skip(30 days);
        vm.expectEmit();
        emit IPoolRegistry.Paused(pool, uint64(clock), uint64(clock + 3 days));
        pause();
    }

    function test_pause_of_a_closed_pool_stops_its_clock_too() external {
        vm.prank(OWNER);
        registry.closePool(pool);
        pause();
        skip(10);
        eq(registry.clockOf(pool), clock - 10);
        unpause();
    }

    function test_pause_lengthens_the_notice_of_an_offer() external {
        announce(nextOffer());
        pause();
        skip(NOTICE);
        eq(registry.offerNumberOf(pool), 0);
        unpause();
        skip(NOTICE - 1);
        eq(registry.offerNumberOf(pool), 0);
        skip(1);
        eq(registry.offerNumberOf(pool), 1);
    }

    function test_clock_runs_from_the_first_second_of_the_chain() external {
        vm.warp(1);
        require(!registry.isPaused(pool));
        eq(registry.clockOf(pool), 1);
    }

    /// Pauses and unpauses whenever it can: no interval of the period's length holds more than the budget of pauses.
    function testFuzz_pauses_within_any_period_fit_the_budget(uint256[12] calldata waits, uint8[12] calldata kinds)
        external
    {
        uint256[12] memory begins;
        uint256[12] memory ends;
        uint256 stood;
        for (uint256 i = 0; i < 12; ++i) {
            skip(waits[i] % (kinds[i] % 3 == 0 ? 32 days : kinds[i] % 3 == 1 ? 2 days : 8 days));
            eq(registry.clockOf(pool), clock - stood);
            begins[i] = clock;
            ends[i] = clock;
            if (!isTaken(PAUSER, abi.encodeCall(registry.pause, (pool)))) continue;
            skip((waits[i] >> 128) % 4 days);
            uint256 standing = clock - stood - registry.clockOf(pool);
            stood += standing;
            ends[i] += standing;
            bool stands = registry.isPaused(pool);
            bool ended = isTaken(UNPAUSER, abi.encodeCall(registry.unpause, (pool)));
            require(stands == ended, "ends if and only if it stands");
            require(!registry.isPaused(pool), "the clock stands");
            eq(registry.clockOf(pool), clock - stood);
        }
        // The fullest interval begins or ends with a pause.
        for (uint256 i = 0; i < 12; ++i) {
            require(standingWithin(begins, ends, begins[i], begins[i] + 30 days) <= 3 days, "above the budget");
            require(standingWithin(begins, ends, ends[i] - 30 days, ends[i]) <= 3 days, "above the budget");
        }
    }

    function isTaken(address caller, bytes memory data) internal returns (bool ok) {
        vm.prank(caller);
        (ok,) = address(registry).call(data);
    }

    function standingWithin(uint256[12] memory begins, uint256[12] memory ends, uint256 from, uint256 until)
        internal
        pure
        returns (uint256 sum)
    {
        for (uint256 i = 0; i < 12; ++i) {
            uint256 begin = begins[i] > from ? begins[i] : from;
            uint256 end = ends[i] < until ? ends[i] : until;
            if (begin < end) sum += end - begin;
        }
    }

    // -- ranges of terms

    function refused(PoolTerms memory t, bytes32 term, uint256 value, uint256 lowest, uint256 highest) internal {
        vm.expectRevert(
            abi.encodeWithSelector(IPoolRegistry.TermOutOfRange.selector, term, value, lowest, highest)
        );
        registry.createPool(t);
    }

    function refusedZero(PoolTerms memory t, bytes32 term) internal {
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.TermAddressZero.selector, term));
        registry.createPool(t);
    }

    function accepted(PoolTerms memory t) internal {
        eq(registry.termsHashOf(registry.createPool(t)), keccak256(abi.encode(t)));
    }

    function test_terms_zero_addresses_are_refused() external {
        PoolTerms memory t = terms();
        t.parties.payoutToken = address(0);
        refusedZero(t, "payoutToken");
        t = terms();
        t.offer.coordinator = address(0);
        refusedZero(t, "coordinator");
        t = terms();
        t.offer.trainer = address(0);
        refusedZero(t, "trainer");
    }

    function test_terms_pauser_and_unpauser_are_two_or_none() external {
        PoolTerms memory t = terms();
        t.parties.pauser = address(0);
        t.parties.unpauser = address(0);
        accepted(t);
        t.parties.unpauser = UNPAUSER;
        refusedZero(t, "pauser");
        t.parties.pauser = PAUSER;
        accepted(t);
        t.parties.unpauser = address(0);
        refusedZero(t, "unpauser");
        t.parties.unpauser = PAUSER;
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.PauserUnpauses.selector, PAUSER));
        registry.createPool(t);
    }

    function test_terms_work_out_of_range_is_refused() external {
        uint256 most = type(uint32).max;
        PoolTerms memory t = terms();
        t.work.minWorkerStake = 0;
        refused(t, "minWorkerStake", 0, 1, type(uint128).max);
        t.work.minWorkerStake = 1;
        t.work.payCapBps = 0;
        refused(t, "payCapBps", 0, 1, most);
        t.work.payCapBps = 1;
        t.work.maxOpenSteps = 0;
        refused(t, "maxOpenSteps", 0, 1, 64);
        t.work.maxOpenSteps = 65;
        refused(t, "maxOpenSteps", 65, 1, 64);
        t.work.maxOpenSteps = 64;
        accepted(t);
        t.work.maxOpenSteps = 1;
        t.fees.jurorFee = 0;
        refused(t, "jurorFee", 0, 1, type(uint128).max);
        t.fees.jurorFee = 1;
        t.work.maxSlots = 0;
        refused(t, "maxSlots", 0, 1, 4_096);
        t.work.maxSlots = 4_097;
        refused(t, "maxSlots", 4_097, 1, 4_096);
        t.work.maxSlots = 4_096;
        accepted(t);
        t.work.maxSlots = 1;
        t.work.reservedSlots = 17;
        refused(t, "reservedSlots", 17, 0, 16);
        t.work.reservedSlots = 16;
        accepted(t);
        t.work.reservedSlots = 0;
        t.work.temperatureMilli = 299;
        refused(t, "temperatureMilli", 299, 300, 1_500);
        t.work.temperatureMilli = 1_501;
        refused(t, "temperatureMilli", 1_501, 300, 1_500);
        t.work.temperatureMilli = 1_500;
        accepted(t);
        t.work.temperatureMilli = 300;
        t.work.protocolVersion = 0;
        refused(t, "protocolVersion", 0, 1, most);
        t.work.protocolVersion = 1;
        t.work.maxLag = 0;
        accepted(t);
    }

    function test_terms_units_of_a_group_fit_32_bits() external {
        uint256 most = type(uint32).max;
        PoolTerms memory t = terms();
        t.work.groupSize = 0;
        refused(t, "groupSize", 0, 1, most);
        t.work.groupSize = 1;
        t.work.maxCompletionTokens = 0;
        refused(t, "maxCompletionTokens", 0, 1, most);
        t.work.maxCompletionTokens = 1;
        accepted(t);
        t.work.maxCompletionTokens = uint32(most);
        accepted(t);
        t.work.groupSize = 7;
        t.work.maxCompletionTokens = uint32(most / 7) + 1;
        refused(t, "maxCompletionTokens", most / 7 + 1, 1, most / 7);
        t.work.maxCompletionTokens = uint32(most / 7);
        accepted(t);
    }

    function test_terms_panel_out_of_range_is_refused() external {
        PoolTerms memory t = terms();
        t.panel.minValidatorStake = 0;
        refused(t, "minValidatorStake", 0, 1, type(uint128).max);
        t.panel.minValidatorStake = 1;
        t.panel.maxAbsences = 0;
        refused(t, "maxAbsences", 0, 1, type(uint32).max);
        t.panel.maxAbsences = 1;
        accepted(t);
    }

    function testFuzz_R3_quorum_is_a_majority_within_the_panel(uint32 size, uint32 quorum) external {
        PoolTerms memory t = terms();
        t.panel.panelSize = size % 20;
        t.panel.quorum = quorum % 20;
        if (t.panel.panelSize == 0 || t.panel.panelSize > Outcomes.MAX_VOTES) {
            refused(t, "panelSize", t.panel.panelSize, 1, Outcomes.MAX_VOTES);
        } else if (2 * t.panel.quorum <= t.panel.panelSize || t.panel.quorum > t.panel.panelSize) {
            refused(t, "quorum", t.panel.quorum, t.panel.panelSize / 2 + 1, t.panel.panelSize);
        } else {
            accepted(t);
        }
    }

    function test_R3_quorum_at_its_limits() external {
        PoolTerms memory t = terms();
        t.panel.panelSize = 16;
        t.panel.quorum = 9;
        refused(t, "panelSize", 16, 1, 15);
        t.panel.panelSize = 15;
        t.panel.quorum = 7;
        refused(t, "quorum", 7, 8, 15);
        t.panel.quorum = 8;
        accepted(t);
        t.panel.quorum = 15;
        accepted(t);
        t.panel.quorum = 16;
        refused(t, "quorum", 16, 8, 15);
        t.panel.panelSize = 4;
        t.panel.quorum = 2;
        refused(t, "quorum", 2, 3, 4);
        t.panel.panelSize = 0;
        refused(t, "panelSize", 0, 1, 15);
        t.panel.panelSize = 1;
        t.panel.quorum = 1;
        accepted(t);
    }

    function test_terms_jury_is_odd_and_within_its_limit() external {
        PoolTerms memory t = terms();
        for (uint32 size = 0; size <= 16; ++size) {
            t.panel.jurySize = size;
            if (size % 2 == 1 && size <= 13) accepted(t);
            else refused(t, "jurySize", size, size | 1, 13);
        }
    }

    function test_terms_windows_out_of_range_are_refused() external {
        PoolTerms memory t = terms();
        t.windows.beaconDelayBlocks = 0;
        refused(t, "beaconDelayBlocks", 0, 1, 128);
        t.windows.beaconDelayBlocks = 129;
        refused(t, "beaconDelayBlocks", 129, 1, 128);
        t.windows.beaconDelayBlocks = 128;
        accepted(t);
        t = longTerms();
        t.windows.leaseSeconds = 0;
        refused(t, "leaseSeconds", 0, 1, 30 days);
        t.windows.leaseSeconds = 30 days + 1;
        refused(t, "leaseSeconds", 30 days + 1, 1, 30 days);
        t = longTerms();
        t.windows.collectSeconds = 0;
        refused(t, "collectSeconds", 0, 1, 30 days);
        t.windows.collectSeconds = 30 days + 1;
        refused(t, "collectSeconds", 30 days + 1, 1, 30 days);
        t = longTerms();
        t.windows.takeSeconds = 30 days + 1;
        refused(t, "takeSeconds", 30 days + 1, 0, 30 days);
        t.windows.takeSeconds = 0;
        accepted(t);
        t = longTerms();
        t.windows.voteSeconds = 0;
        refused(t, "voteSeconds", 0, 1, 30 days);
        t.windows.voteSeconds = 30 days + 1;
        refused(t, "voteSeconds", 30 days + 1, 1, 30 days);
        t = longTerms();
        t.windows.revealSeconds = 0;
        refused(t, "revealSeconds", 0, 1, 30 days);
        t.windows.revealSeconds = 30 days + 1;
        refused(t, "revealSeconds", 30 days + 1, 1, 30 days);
        t = longTerms();
        t.windows.challengeSeconds = 0;
        refused(t, "challengeSeconds", 0, 1, 30 days);
        t.windows.challengeSeconds = 30 days + 1;
        refused(t, "challengeSeconds", 30 days + 1, 1, 30 days);
        t = longTerms();
        t.parties.noticeSeconds = 30 days + 1;
        refused(t, "noticeSeconds", 30 days + 1, 0, 30 days);
        t = longTerms();
        t.windows.unbondingSeconds = 0;
        refused(t, "unbondingSeconds", 0, 1, 365 days);
        t.windows.unbondingSeconds = 365 days + 1;
        refused(t, "unbondingSeconds", 365 days + 1, 1, 365 days);
        accepted(longTerms());
        accepted(shortTerms());
    }

    /// Every window as long as it may be.
    function longTerms() internal view returns (PoolTerms memory t) {
        t = terms();
        t.windows.leaseSeconds = 30 days;
        t.windows.collectSeconds = 30 days;
        t.windows.takeSeconds = 30 days;
        t.windows.voteSeconds = 30 days;
        t.windows.revealSeconds = 30 days;
        t.windows.challengeSeconds = 30 days;
        t.parties.noticeSeconds = 30 days;
        t.windows.unbondingSeconds = 365 days;
    }

    /// Every window as short as it may be.
    function shortTerms() internal view returns (PoolTerms memory t) {
        t = terms();
        t.windows.beaconDelayBlocks = 1;
        t.windows.leaseSeconds = 1;
        t.windows.collectSeconds = 1;
        t.windows.takeSeconds = 1;
        t.windows.voteSeconds = 1;
        t.windows.revealSeconds = 1;
        t.windows.challengeSeconds = 1;
        t.parties.noticeSeconds = 0;
        t.windows.unbondingSeconds = 8;
    }

    function test_R2_unbonding_shorter_than_two_rounds_of_judgement_is_refused() external {
        PoolTerms memory t = terms();
        t.windows.leaseSeconds = 3;
        t.windows.collectSeconds = 10;
        t.windows.takeSeconds = 10;
        t.windows.voteSeconds = 100;
        t.windows.revealSeconds = 1_000;
        t.windows.challengeSeconds = 10_000;
        uint256 sum = 3 + 10 + 3 + 2 * (100 + 1_000) + 10_000;
        t.windows.unbondingSeconds = uint32(sum - 1);
        vm.expectRevert(abi.encodeWithSelector(IPoolRegistry.UnbondingTooShort.selector, sum - 1, sum));
        registry.createPool(t);
        t.windows.unbondingSeconds = uint32(sum);
        accepted(t);
    }

    function test_terms_faults_out_of_range_are_refused() external {
        PoolTerms memory t = worstTerms();
        accepted(t);
        t.faults.faultSlashBps = 10_001;
        refused(t, "faultSlashBps", 10_001, 0, 10_000);
        t = worstTerms();
        t.faults.statisticsSlashBps = 10_001;
        refused(t, "statisticsSlashBps", 10_001, 0, 10_000);
        t = worstTerms();
        t.faults.silenceSlashBps = 10_001;
        refused(t, "silenceSlashBps", 10_001, 0, 10_000);
        t = worstTerms();
        t.faults.wrongVoteSlashBps = 10_001;
        refused(t, "wrongVoteSlashBps", 10_001, 0, 10_000);
        t = worstTerms();
        t.faults.plantSlashBps = 10_001;
        refused(t, "plantSlashBps", 10_001, 0, 10_000);
        t = worstTerms();
        t.faults.maxSlashBps = 10_001;
        refused(t, "maxSlashBps", 10_001, 1, 10_000);
        t.faults.maxSlashBps = 0;
        refused(t, "maxSlashBps", 0, 1, 10_000);
        t = worstTerms();
        t.faults.slashWindowSeconds = 365 days + 1;
        refused(t, "slashWindowSeconds", 365 days + 1, 1, 365 days);
        t.faults.slashWindowSeconds = 0;
        refused(t, "slashWindowSeconds", 0, 1, 365 days);
        t = worstTerms();
        t.faults.rewardBps = 5_001;
        refused(t, "rewardBps", 5_001, 0, 5_000);

        PoolTerms memory mild = terms();
        delete mild.faults;
        mild.faults.maxSlashBps = 1;
        mild.faults.slashWindowSeconds = 1;
        accepted(mild);
    }

    /// Every punishment as hard as it may be.
    function worstTerms() internal view returns (PoolTerms memory t) {
        t = terms();
        t.faults.faultSlashBps = 10_000;
        t.faults.statisticsSlashBps = 10_000;
        t.faults.silenceSlashBps = 10_000;
        t.faults.wrongVoteSlashBps = 10_000;
        t.faults.plantSlashBps = 10_000;
        t.faults.maxSlashBps = 10_000;
        t.faults.slashWindowSeconds = 365 days;
        t.faults.rewardBps = 5_000;
    }
}
