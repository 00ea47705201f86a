// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {DisputeCourt} from "../../contracts/DisputeCourt.sol";
import {MockToken} from "../../contracts/MockToken.sol";
import {PayoutVault} from "../../contracts/PayoutVault.sol";
import {PoolRegistry} from "../../contracts/PoolRegistry.sol";
import {StakeManager} from "../../contracts/StakeManager.sol";
import {SubmissionLedger} from "../../contracts/SubmissionLedger.sol";
import {VotingPanel} from "../../contracts/VotingPanel.sol";
import {IDisputeCourt} from "../../contracts/interfaces/IDisputeCourt.sol";
import {IStakeManager} from "../../contracts/interfaces/IStakeManager.sol";
import {CaseKind, CasePhase, Outcome, Phase, Role, Ruling} from "../../contracts/types/Enums.sol";
import {CaseId, ExitId, PoolId} from "../../contracts/types/Ids.sol";
import {PoolTerms, Rates} from "../../contracts/types/PoolTerms.sol";
import {StepState} from "../../contracts/types/StepState.sol";
import {PayTable, Submission} from "../../contracts/types/Submission.sol";
import {ChainTest} from "./support/ChainTest.sol";
import {Handler} from "./support/Handler.sol";
import {Trees} from "./support/Trees.sol";
import {vm} from "./support/Vm.sol";

/// @dev What holds after any sequence of moves.
contract InvariantsTest {
    struct FuzzSelector {
        address addr;
        bytes4[] selectors;
    }

    uint256 internal constant CHALLENGE_SECONDS = 30;
    uint256 internal constant BPS = 10_000;

    Handler internal handler;
    MockToken internal token;
    StakeManager internal stakes;
    PoolRegistry internal registry;
    SubmissionLedger internal ledger;
    PayoutVault internal vault;
    DisputeCourt internal court;
    VotingPanel internal panel;
    PoolId internal pool;
    PoolId internal other;
    address[] internal providers;
    Role[] internal roles;
    address[] internal accounts;

    function setUp() external {
        start(0);
    }

    function start(uint256 variant) internal {
        handler = new Handler(variant);
        handler.setUp();
        address[8] memory chain = handler.chain();
        token = MockToken(chain[0]);
        stakes = StakeManager(chain[1]);
        registry = PoolRegistry(chain[2]);
        ledger = SubmissionLedger(chain[3]);
        vault = PayoutVault(chain[4]);
        court = DisputeCourt(chain[5]);
        panel = VotingPanel(chain[6]);
        (pool, other) = handler.pools();
        (providers, roles) = handler.providers();
        accounts = handler.accounts();
    }

    function targetContracts() external view returns (address[] memory targets) {
        targets = new address[](1);
        targets[0] = address(handler);
    }

    function targetSelectors() external view returns (FuzzSelector[] memory targets) {
        targets = new FuzzSelector[](1);
        targets[0].addr = address(handler);
        targets[0].selectors = new bytes4[](1);
        targets[0].selectors[0] = handler.play.selector;
    }

    modifier inTime() {
        handler.inTime();
        _;
    }

    // -- stake

    function invariant_S1_stake_balance_covers_all_idle_stake_and_positions() public inTime {
        uint256 sum = stakes.burnable();
        for (uint256 i = 0; i < accounts.length; ++i) sum += stakes.idleOf(accounts[i]);
        for (uint256 i = 0; i < providers.length; ++i) sum += tokensIn(pool, i) + tokensIn(other, i);
        require(stakes.totalHeld() == sum, "books");
        require(token.balanceOf(address(stakes)) == sum + handler.donatedToStakes(), "solvency");
        sound("S1");
    }

    /// Stake that was at work when a step opened stays until the step is settled, its challenge window over, and every
    /// case about it too.
    function invariant_S2_exit_never_beats_a_slash() public inTime {
        uint32 settled = ledger.settledCountOf(pool);
        uint32 opened = ledger.stepCountOf(pool);
        for (uint32 step = settled > 3 ? settled - 3 : 0; step < opened; ++step) {
            uint64 end = ledger.finalizedAtOf(pool, step);
            if (step < settled && registry.clockOf(pool) >= end + CHALLENGE_SECONDS) continue;
            for (uint256 i = 0; i < providers.length; ++i) stays(step, providers[i]);
        }
        CaseId[] memory open = handler.openCases();
        for (uint256 i = 0; i < open.length; ++i) {
            IDisputeCourt.Case memory c = court.caseOf(open[i]);
            stays(c.step, c.provider);
            if (c.kind == CaseKind.Statistics) continue;
            address[] memory members = panel.panelOf(pool, c.step);
            for (uint256 j = 0; j < members.length; ++j) stays(c.step, members[j]);
        }
        sound("S2");
    }

    function invariant_S3_no_offence_is_slashed_twice() public inTime {
        sound("S3");
        CaseId[] memory open = handler.openCases();
        for (uint256 i = 0; i < open.length; ++i) {
            IDisputeCourt.Case memory c = court.caseOf(open[i]);
            require(c.kind == CaseKind.Statistics || handler.punished(c.leafHash) == 0, "punished before it was judged");
        }
    }

    function invariant_S4_shares_cover_tokens() public inTime {
        for (uint256 i = 0; i < providers.length; ++i) {
            (uint256 tokens, uint256 shares, uint256 exiting) = stakes.positionOf(pool, roles[i], providers[i]);
            require(tokens <= shares && exiting <= shares, "covered");
            require((tokens == 0) == (shares == 0), "worthless shares");
            require(stakes.activeStakeOf(pool, roles[i], providers[i]) <= tokens, "active");
        }
        sound("S4");
    }

    function invariant_S5_a_provider_holds_one_role() public inTime {
        for (uint256 i = 0; i < providers.length; ++i) {
            Role otherRole = roles[i] == Role.Worker ? Role.Validator : Role.Worker;
            (uint256 tokens, uint256 shares,) = stakes.positionOf(pool, otherRole, providers[i]);
            require(tokens == 0 && shares == 0);
        }
    }

    function invariant_S7_release_of_an_exit_is_fixed_and_its_shares_are_leaving() public inTime {
        Handler.Leave[] memory pending = handler.pendingExits();
        uint256[] memory leaving = new uint256[](providers.length);
        for (uint256 i = 0; i < pending.length; ++i) {
            IStakeManager.Exit memory e = stakes.exitOf(pending[i].id);
            require(e.provider == pending[i].provider && e.releaseAt == pending[i].releaseAt, "changed");
            require(e.shares == pending[i].shares && e.barrier <= ledger.stepCountOf(pool), "changed");
            uint256 place = placeOf(e.provider);
            if (e.pool == pool && e.epoch == handler.epochs(e.provider)) leaving[place] += e.shares;
        }
        for (uint256 i = 0; i < providers.length; ++i) {
            (,, uint256 exiting) = stakes.positionOf(pool, roles[i], providers[i]);
            require(exiting == leaving[i], "leaving");
        }
        sound("S7");
    }

    /// Slashes within one window stay within the pool's cap, and suspensions follow from what was counted in it.
    function invariant_S10_slashes_of_a_window_stay_within_its_cap() public inTime {
        uint256 highest = registry.faultTableOf(pool).maxSlashBps;
        uint256 time = registry.clockOf(pool);
        for (uint256 i = 0; i < providers.length; ++i) {
            (uint64 until, uint32 bps, uint32 absences,) = stakes.standingOf(pool, roles[i], providers[i]);
            (uint256 endsAt, uint256 base, uint256 taken, uint256 slack, uint256 counted, uint256 missed, uint256 suspended)
            = handler.windowOf(providers[i]);
            require(bps <= highest, "cap");
            require(taken <= (base * highest) / BPS + slack, "taken");
            require(bps == (time < endsAt ? counted : 0) && absences == (time < endsAt ? missed : 0), "counted");
            require(until == suspended, "suspended");
            require(until == 0 || isIdle(i), "suspended and at work");
        }
        sound("S10");
    }

    function isIdle(uint256 i) internal view returns (bool) {
        return stakes.activeStakeOf(pool, roles[i], providers[i]) == 0;
    }

    function invariant_S11_what_is_slashed_is_burned_or_rewarded() public inTime {
        sound("S11");
    }

    function invariant_S12_a_position_is_held_by_its_open_cases() public inTime {
        for (uint256 i = 0; i < providers.length; ++i) {
            (,,, uint32 holds) = stakes.standingOf(pool, roles[i], providers[i]);
            require(holds == handler.holds(providers[i]));
        }
    }

    function invariant_S13_stakes_of_a_past_block_never_change() public inTime {
        uint32 opened = ledger.stepCountOf(pool);
        for (uint32 step = opened > 2 ? opened - 2 : 0; step < opened; ++step) {
            uint256 past = ledger.stepOf(pool, step).openedBlock - 1;
            for (uint256 i = 0; i < providers.length; ++i) {
                uint256 active = stakes.activeStakeAt(pool, roles[i], providers[i], past);
                require(active == handler.activeAtOpening(step, providers[i]), "past");
            }
        }
        uint256 eligible = 0;
        for (uint256 i = 0; i < providers.length; ++i) {
            if (roles[i] == Role.Validator && stakes.activeStakeOf(pool, roles[i], providers[i]) != 0) ++eligible;
        }
        require(stakes.eligibleValidatorsOf(pool) == eligible, "eligible");
    }

    // -- pool

    function invariant_R5_clock_never_runs_backwards_nor_faster_than_time() public inTime {
        require(registry.clockOf(pool) <= handler.now_());
        sound("R5");
    }

    function invariant_R6_pauses_stay_within_their_budget() public inTime {
        sound("R6");
    }

    // -- steps

    function invariant_L7_steps_below_the_mark_are_settled_and_none_above() public inTime {
        uint32 settled = ledger.settledCountOf(pool);
        uint32 opened = ledger.stepCountOf(pool);
        require(opened - settled <= registry.workRulesOf(pool).maxOpenSteps, "open");
        uint64 last = 0;
        for (uint32 step = 0; step < opened; ++step) {
            StepState memory state = ledger.stepOf(pool, step);
            bool isSettled = state.phase == Phase.Finalized || state.phase == Phase.Cancelled;
            require(isSettled == (step < settled) && isSettled == (state.finalizedAt != 0), "mark");
            if (isSettled) {
                require(state.finalizedAt >= last, "order");
                last = state.finalizedAt;
            }
        }
    }

    function invariant_L11_handler_finds_no_other_flaw() public inTime {
        sound("L4");
        sound("P4");
        sound("P5");
        sound("S6");
        sound("F1");
        sound("D3");
        sound("D4");
    }

    // -- settlement

    /// The settlement of a step stays within the pay cap; a case pays no more than the cap for its slot.
    function invariant_P1_pay_of_a_step_stays_within_the_pay_cap() public inTime {
        uint32 opened = ledger.stepCountOf(pool);
        for (uint32 step = opened > 5 ? opened - 5 : 0; step < opened; ++step) {
            (, bool isHostile) = handler.tablesOf(step);
            if (isHostile) continue;
            uint256 block_ = ledger.stepOf(pool, step).openedBlock - 1;
            uint256 bps = registry.workRulesOf(pool).payCapBps;
            for (uint256 i = 0; i < providers.length; ++i) {
                if (roles[i] != Role.Worker) continue;
                uint256 cap = (stakes.activeStakeAt(pool, Role.Worker, providers[i], block_) * bps) / BPS;
                uint256 wages = handler.wages(step, providers[i]);
                require(wages <= 2 * cap, "pay cap");
            }
        }
    }

    function invariant_P2_held_count_is_the_number_of_open_cases() public inTime {
        uint32 opened = ledger.stepCountOf(pool);
        uint256[] memory counts = new uint256[](opened);
        CaseId[] memory open = handler.openCases();
        for (uint256 i = 0; i < open.length; ++i) {
            IDisputeCourt.Case memory c = court.caseOf(open[i]);
            require(c.phase != CasePhase.None && c.phase != CasePhase.Resolved, "open");
            if (c.kind == CaseKind.Statistics) continue;
            require(panel.isHeld(pool, c.step, c.slot), "held");
            ++counts[c.step];
        }
        for (uint32 step = 0; step < opened; ++step) require(panel.heldCountOf(pool, step) == counts[step], "count");
    }

    // -- money

    function invariant_V1_vault_balance_covers_all_pool_money() public inTime {
        uint256 money = moneyOf(pool);
        require(
            money + handler.drained() + handler.claimed() + handler.burned() == handler.funded() + handler.bondsTaken(),
            "in and out"
        );
        require(
            token.balanceOf(address(vault)) == money + moneyOf(other) + handler.donatedToVault(), "solvency"
        );
    }

    function invariant_V2_no_slot_is_paid_twice() public inTime {
        uint32 opened = ledger.stepCountOf(pool);
        for (uint32 step = opened > 5 ? opened - 5 : 0; step < opened; ++step) {
            StepState memory state = ledger.stepOf(pool, step);
            uint256 slotCap = ledger.ratesOf(pool, step).slotCap;
            for (uint32 slot = 0; slot < state.slots + state.taken; ++slot) {
                require(handler.paid(step, slot) <= 1 && handler.paidAmount(step, slot) <= slotCap, "paid");
            }
        }
        sound("V2");
    }

    function invariant_V3_each_account_earns_what_the_rules_say_and_nothing_else() public inTime {
        sound("V3");
    }

    /// What was free before it was reserved is all that can be free again, and only settlements free it.
    function invariant_V4_locked_money_never_becomes_free() public inTime {
        (uint256 free,,) = vault.escrowOf(pool);
        require(free + handler.drained() <= handler.funded(), "funded");
        for (uint32 step = 0; step < ledger.stepCountOf(pool); ++step) {
            uint256 given = handler.hasCase(step) ? 0 : handler.givenAway(step);
            require(handler.toFree(step) + given <= handler.fromFree(step), "freed");
        }
        sound("V4");
    }

    function invariant_V5_reserved_money_is_the_sum_of_reservations() public inTime {
        (, uint256 reserved,) = vault.escrowOf(pool);
        uint256 sum = 0;
        for (uint32 step = 0; step < ledger.stepCountOf(pool); ++step) sum += vault.reservationOf(pool, step);
        require(reserved == sum);
    }

    function invariant_V7_bonds_are_those_of_open_cases_plants_and_taken_slots() public inTime {
        uint256 sum = 0;
        CaseId[] memory open = handler.openCases();
        for (uint256 i = 0; i < open.length; ++i) {
            IDisputeCourt.Case memory c = court.caseOf(open[i]);
            sum += uint256(c.bond) + c.appealBond;
        }
        Handler.Plan[] memory plans = handler.plansOf();
        for (uint256 i = 0; i < plans.length; ++i) sum += plans[i].isSettled ? 0 : plans[i].bond;
        for (uint32 step = ledger.settledCountOf(pool); step < ledger.stepCountOf(pool); ++step) {
            StepState memory state = ledger.stepOf(pool, step);
            uint256 slotCap = ledger.ratesOf(pool, step).slotCap;
            for (uint32 slot = state.slots; slot < state.slots + state.taken; ++slot) {
                if (ledger.takenSlotOf(pool, step, slot).leafHash == bytes32(0)) sum += slotCap;
            }
        }
        require(vault.bondedOf(pool) == sum);
    }

    function invariant_V8_accounts_earn_no_more_than_a_pool_received() public inTime {
        uint256 earned = 0;
        uint256 claimed = 0;
        for (uint256 i = 0; i < accounts.length; ++i) {
            (uint256 had, uint256 took) = vault.earningsOf(pool, accounts[i]);
            require(took <= had, "claimed too much");
            (earned, claimed) = (earned + had, claimed + took);
        }
        require(claimed == handler.claimed(), "claimed");
        uint256 out = handler.drained() + handler.burned();
        require(vault.receivedOf(pool) + out == handler.funded() + handler.bondsTaken(), "received");
        require(earned <= vault.receivedOf(pool), "earned");
        sound("V8");
    }

    /// The owner's free and drained money is what it funded, less what accepted work and fees cost, less what is reserved
    /// for later or locked: rejecting never pays it, and neither does a lost bond beyond work that the bond pays for.
    function invariant_V9_rejecting_never_enriches_the_owner() public inTime {
        (uint256 free, uint256 reserved, uint256 locked) = vault.escrowOf(pool);
        uint256 kept = free + handler.drained();
        uint256 idle = reserved + locked + handler.burned();
        require(kept + idle + handler.spent() == handler.funded() + handler.bondsForfeited(), "sum");
        require(kept <= handler.funded(), "enriched");
    }

    function invariant_V10_the_other_pool_is_its_own() public inTime {
        (uint256 free, uint256 reserved, uint256 locked) = vault.escrowOf(other);
        require(free + handler.drainedElsewhere() == handler.fundedElsewhere(), "free");
        require(reserved + locked + vault.bondedOf(other) == 0, "other places");
        require(vault.receivedOf(other) + handler.drainedElsewhere() == handler.fundedElsewhere(), "received");
        require(registry.clockOf(other) == handler.now_(), "clock");
        for (uint256 i = 0; i < providers.length; ++i) {
            (uint256 tokens, uint256 shares,) = stakes.positionOf(other, roles[i], providers[i]);
            require(tokens == shares, "slashed");
        }
    }

    function invariant_V11_a_settled_step_keeps_only_what_its_cases_need() public inTime {
        for (uint32 step = 0; step < ledger.settledCountOf(pool); ++step) {
            Rates memory rates = ledger.ratesOf(pool, step);
            uint256 kept = panel.heldCountOf(pool, step) * (rates.slotCap + court.bondOf(pool) / 2);
            require(vault.reservationOf(pool, step) == kept);
        }
        sound("V11");
    }

    // -- cases

    function invariant_D1_juries_are_disjoint_from_panels_parties_and_each_other() public inTime {
        CaseId[] memory open = handler.openCases();
        for (uint256 i = 0; i < open.length; ++i) {
            IDisputeCourt.Case memory c = court.caseOf(open[i]);
            for (uint256 round = 0; round <= c.round; ++round) {
                address[] memory jury = handler.juryIn(open[i], round);
                require(jury.length <= registry.panelRulesOf(pool).jurySize + 2 * (round % 2), "size");
                for (uint256 j = 0; j < jury.length; ++j) {
                    require(jury[j] != c.provider && jury[j] != c.disputant, "party");
                    // Whoever appeals a ruling may have sat on the jury that made it.
                    require(round < 2 || jury[j] != c.appellant, "party");
                }
                if (c.kind != CaseKind.Statistics) apart(jury, panel.panelOf(pool, c.step));
                if (round != 0) apart(jury, handler.juryIn(open[i], round - 1));
            }
        }
        sound("D1");
    }

    function invariant_D2_a_slot_has_one_case() public inTime {
        uint32 opened = ledger.stepCountOf(pool);
        for (uint32 step = opened > 5 ? opened - 5 : 0; step < opened; ++step) {
            StepState memory state = ledger.stepOf(pool, step);
            for (uint32 slot = 0; slot < state.slots + state.taken; ++slot) {
                uint256 count = handler.cases(step, slot);
                require(count <= 1 && (count == 1) == panel.isHeld(pool, step, slot), "cases");
                CaseId id = court.caseOfSlot(pool, step, slot);
                require((CaseId.unwrap(id) != 0) == (count == 1), "case of the slot");
            }
        }
        sound("D2");
    }

    // -- the same moves, played out

    /// The invariants mean little if the moves never get anywhere: plays on until each ending was reached.
    function test_handler_reaches_every_ending() external {
        bytes32[] memory names = endings();
        uint256[] memory counts = new uint256[](names.length);
        uint256 missing = 0;
        for (uint256 game = 0; game < 12 && missing < names.length; ++game) {
            start(game % 4);
            for (uint256 i = 0; i < 800; ++i) {
                handler.play(uint256(keccak256(abi.encode("game", game, i))));
                if (i % 50 == 49) holdsAll();
            }
            for (uint256 i = 0; i < names.length; ++i) counts[i] += handler.done(names[i]);
            missing = 0;
            while (missing < names.length && counts[missing] != 0) ++missing;
        }
        if (missing < names.length) revert(string(abi.encodePacked("never: ", names[missing])));
    }

    function test_no_money_is_stuck_in_any_pool() external {
        for (uint256 seed = 0; seed < 8; ++seed) {
            start(seed % 4);
            for (uint256 i = 0; i < 256; ++i) handler.play(uint256(keccak256(abi.encode(seed, i))));
            handler.unwind();
            holdsAll();
            nothingIsLeft();
        }
    }

    // -- inside

    function nothingIsLeft() internal view {
        require(ledger.settledCountOf(pool) == ledger.stepCountOf(pool), "steps");
        require(handler.openCases().length == 0 && handler.pendingExits().length == 0, "cases and exits");
        require(moneyOf(pool) == 0 && moneyOf(other) == 0, "escrow");
        require(token.balanceOf(address(vault)) == handler.donatedToVault(), "vault");
        require(stakes.totalHeld() == 0 && stakes.burnable() == 0, "held");
        require(token.balanceOf(address(stakes)) == handler.donatedToStakes(), "stakes");
        for (uint256 i = 0; i < providers.length; ++i) {
            (,,, uint32 holds) = stakes.standingOf(pool, roles[i], providers[i]);
            require(holds == 0, "holds");
        }
    }

    function holdsAll() internal {
        invariant_S1_stake_balance_covers_all_idle_stake_and_positions();
        invariant_S2_exit_never_beats_a_slash();
        invariant_S3_no_offence_is_slashed_twice();
        invariant_S4_shares_cover_tokens();
        invariant_S5_a_provider_holds_one_role();
        invariant_S7_release_of_an_exit_is_fixed_and_its_shares_are_leaving();
        invariant_S10_slashes_of_a_window_stay_within_its_cap();
        invariant_S11_what_is_slashed_is_burned_or_rewarded();
        invariant_S12_a_position_is_held_by_its_open_cases();
        invariant_S13_stakes_of_a_past_block_never_change();
        invariant_R5_clock_never_runs_backwards_nor_faster_than_time();
        invariant_R6_pauses_stay_within_their_budget();
        invariant_L7_steps_below_the_mark_are_settled_and_none_above();
        invariant_L11_handler_finds_no_other_flaw();
        invariant_P1_pay_of_a_step_stays_within_the_pay_cap();
        invariant_P2_held_count_is_the_number_of_open_cases();
        invariant_V1_vault_balance_covers_all_pool_money();
        invariant_V2_no_slot_is_paid_twice();
        invariant_V3_each_account_earns_what_the_rules_say_and_nothing_else();
        invariant_V4_locked_money_never_becomes_free();
        invariant_V5_reserved_money_is_the_sum_of_reservations();
        invariant_V7_bonds_are_those_of_open_cases_plants_and_taken_slots();
        invariant_V8_accounts_earn_no_more_than_a_pool_received();
        invariant_V9_rejecting_never_enriches_the_owner();
        invariant_V10_the_other_pool_is_its_own();
        invariant_V11_a_settled_step_keeps_only_what_its_cases_need();
        invariant_D1_juries_are_disjoint_from_panels_parties_and_each_other();
        invariant_D2_a_slot_has_one_case();
    }

    function sound(bytes32 rule) internal view {
        if (handler.flaws(rule) != 0) revert(string(abi.encodePacked("flaw: ", rule)));
    }

    function stays(uint32 step, address provider) internal view {
        (uint256 tokens,,) = stakes.positionOf(pool, roles[placeOf(provider)], provider);
        uint256 lostSince = handler.lost(provider) - handler.lostAtOpening(step, provider);
        // Each finished exit may take one wei of rounding along.
        require(
            tokens + lostSince + handler.exitsFinished(provider) >= handler.activeAtOpening(step, provider),
            "stake that was at work has left"
        );
    }

    function apart(address[] memory a, address[] memory b) internal pure {
        for (uint256 i = 0; i < a.length; ++i) {
            for (uint256 j = 0; j < b.length; ++j) require(a[i] != b[j], "seats");
        }
    }

    function moneyOf(PoolId p) internal view returns (uint256 money) {
        (uint256 free, uint256 reserved, uint256 locked) = vault.escrowOf(p);
        money = free + reserved + locked + vault.bondedOf(p);
        for (uint256 i = 0; i < accounts.length; ++i) {
            (uint256 had, uint256 took) = vault.earningsOf(p, accounts[i]);
            money += had - took;
        }
    }

    function tokensIn(PoolId p, uint256 i) internal view returns (uint256 tokens) {
        (tokens,,) = stakes.positionOf(p, roles[i], providers[i]);
    }

    function placeOf(address provider) internal view returns (uint256 place) {
        while (providers[place] != provider) ++place;
    }

    function endings() internal pure returns (bytes32[] memory names) {
        string memory list = string.concat(
            "stake,depart,finish,empty exit,takeOut,reinstate,namePayee,handOver,rotateNode,elsewhere,pause,unpause,",
            "announce,withdrawOffer,attest,handOwnership,close,wait,lapse,openNext,sealSeed,seed lapsed,takeSlot,",
            "sealTaken,deliver,late delivery,taken slot accepted,taken slot forfeited,taken slot refunded,commitRoot,",
            "hostile table,false table,cancel,",
            "audit block,sealAudit,audit lapsed,commitVote,revealVote,redraw,silent member,absent too often,suspended,",
            "finalize,wage,pay cap,slashLeaf,slash cap,wiped,nothing to slash,overlap,plant,revealPlant,plant found,",
            "plant lost,plant cancelled,lazy vote,challenge,appeal,accuse,seatJury,jury lapsed,commitRuling,",
            "revealRuling,silent juror,jury redrawn,resolve,case wage,case slash,wrong vote,ruled,appealRuling,",
            "acquitted,convicted,convicted twice,addFunds,drain,donate,claim,claimMany,burn,slipAway,refused"
        );
        bytes32[] memory words = split(bytes(list));
        names = new bytes32[](words.length + 18);
        for (uint256 i = 0; i < words.length; ++i) names[i] = words[i];
        uint256 filled = words.length;
        for (uint256 kind = 0; kind < 3; ++kind) {
            for (uint256 ruling = 0; ruling < 6; ++ruling) {
                // A run at fault ends as convicted.
                bool isConviction = kind == 2 && ruling == uint256(Ruling.Fault);
                names[filled++] = isConviction ? bytes32("convicted") : keccak256(abi.encode(kind, ruling));
            }
        }
    }

    /// The words between commas, each of 31 characters at most.
    function split(bytes memory list) internal pure returns (bytes32[] memory words) {
        uint256 count = 1;
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i] == ",") ++count;
        }
        words = new bytes32[](count);
        uint256 word = 0;
        uint256 place = 0;
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i] == ",") {
                ++word;
                place = 0;
            } else {
                words[word] |= bytes32(list[i]) >> (8 * place++);
            }
        }
    }
}

/// @dev Two ways around the rules above that random moves seldom try.
contract BoundariesTest is ChainTest {
    uint256 internal constant GROUP = 1 << 128;

    function test_S2_exit_of_the_block_of_a_step_waits_for_it() external {
        publish(0);
        ExitId id = startExit(workers[0], Role.Worker, STAKE);
        open(0, 4);
        open(1, 4);
        mine(1);
        ExitId later = startExit(workers[1], Role.Worker, STAKE);
        mine(1);
        open(2, 4);
        eq(stakes.activeStakeAt(pool, Role.Worker, workers[0], ledger.stepOf(pool, 0).openedBlock - 1), STAKE);
        skip(300);
        cannotFinish(id, 0, 2);
        cannotFinish(later, 0, 2);
        cancel(0);
        cannotFinish(id, 1, 2);
        cannotFinish(later, 1, 2);
        cancel(1);
        skip(29);
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.SlashWindowOpen.selector, id, clock + 1, clock));
        stakes.finishExit(id);
        skip(1);
        stakes.finishExit(id);
        stakes.finishExit(later);
    }

    function test_S2_exit_of_the_block_before_a_step_does_not_wait_for_it() external {
        publish(0);
        ExitId id = startExit(workers[0], Role.Worker, STAKE);
        mine(1);
        open(0, 4);
        skip(299);
        stakes.finishExit(id);
        eq(stakes.idleOf(workers[0]), STAKE);
    }

    function cannotFinish(ExitId id, uint32 settled, uint32 barrier) internal {
        vm.expectRevert(abi.encodeWithSelector(IStakeManager.StepsUnsettled.selector, pool, settled, barrier));
        stakes.finishExit(id);
    }

    function cancel(uint32 step) internal {
        mine(3);
        ledger.sealSeedBeacon(pool, step);
        skip(80);
        ledger.cancelStep(pool, step);
    }

    /// A total beyond all leaves must not run over into the number of groups when taken slots are added to it.
    function test_V2_units_beyond_all_leaves_buy_no_group() external {
        leanPool();
        seed(0, 1);
        Submission[2] memory delivered;
        for (uint32 i = 0; i < 2; ++i) delivered[i] = deliver(i);
        Submission[] memory leaves = makeLeaves(0, 1);
        PayTable memory table = tableFor(1, leaves);
        table.totals[0] |= GROUP - 1;
        table.totals[1] = GROUP - 1;
        commitAs(0, Trees.root(wordsOf(1, leaves)), table);
        skip(30);
        draw(0);
        Outcome[] memory outcomes = new Outcome[](3);
        (outcomes[1], outcomes[2]) = (Outcome.Accept, Outcome.Accept);
        voteAll(0, pack(outcomes));
        skip(30);
        finalize(0);
        // The bond of the slot came back with the delivery; the slot pays its price once.
        eq(earned(workers[0]), 200);
        eq(earned(workers[1]), 200);
        eqEscrow(FUNDS - 300, 0, 100);
    }

    /// A pool without fees, in which a step reserves 100 a slot and nothing else.
    function leanPool() internal {
        PoolTerms memory t = terms();
        (t.fees.panelFee, t.fees.jurorFee, t.fees.sealFee, t.fees.leaseBond) = (0, 1, 0, 0);
        (t.offer.pricePerToken, t.windows.takeSeconds) = (0, 30);
        pool = createPool(t);
        fund(pool, FUNDS);
        for (uint256 i = 0; i < validators.length; ++i) enter(validators[i], Role.Validator, STAKE);
        for (uint256 i = 0; i < workers.length; ++i) enter(workers[i], Role.Worker, STAKE);
        mine(1);
    }

    function deliver(uint32 i) internal returns (Submission memory leaf) {
        uint256 key = 0x9000 + i;
        bytes memory agreed = consent(key, workers[i], clock);
        vm.prank(workers[i]);
        stakes.addNode(vm.addr(key), clock, agreed);
        allow(workers[i], 100);
        vm.prank(workers[i]);
        uint32 slot = ledger.takeSlot(pool, 0);
        mine(3);
        ledger.sealTakenSlot(pool, 0, slot);
        leaf = makeLeaves(0, 1)[0];
        (leaf.slot, leaf.provider, leaf.node) = (slot, workers[i], vm.addr(key));
        leaf.leaseHash = keccak256(
            abi.encode(keccak256("stannary.taken.v1"), block.chainid, address(ledger), pool, uint32(0), slot, workers[i])
        );
        ledger.deliverTaken(pool, 0, leaf, sign(key, ledger.submissionDigest(leaf)), "here");
    }
}
