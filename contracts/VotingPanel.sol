// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {BitMaps} from "@openzeppelin/contracts/utils/structs/BitMaps.sol";

import {IPayoutVault} from "./interfaces/IPayoutVault.sol";
import {IPlantedFaults} from "./interfaces/IPlantedFaults.sol";
import {IPoolRegistry} from "./interfaces/IPoolRegistry.sol";
import {IStakeManager} from "./interfaces/IStakeManager.sol";
import {ISubmissionLedger} from "./interfaces/ISubmissionLedger.sol";
import {IVotingPanel} from "./interfaces/IVotingPanel.sol";
import {Ballots} from "./libraries/Ballots.sol";
import {Outcomes} from "./libraries/Outcomes.sol";
import {Pricing} from "./libraries/Pricing.sol";
import {Seeds} from "./libraries/Seeds.sol";
import {Outcome, Phase, Role} from "./types/Enums.sol";
import {PoolId} from "./types/Ids.sol";
import {Parts} from "./types/Parts.sol";
import {FaultTable, Fees, PanelRules, Rates, Windows} from "./types/PoolTerms.sol";
import {StepBrief} from "./types/StepState.sol";
import {LeafOpening, PayTable, TakenSlot} from "./types/Submission.sol";

/// @title The panel of each step: its draw, its votes, what they decide, and the settlement that follows.
/// @dev Holds no money: it says to the vault who has earned what, and to the stake manager who is slashed for what. Calls
/// only the contracts of its own deployment, none of which calls a token on its behalf: nothing can re-enter.
contract VotingPanel is IVotingPanel {
    using Ballots for Ballots.Box;
    using BitMaps for BitMaps.BitMap;

    /// @dev What a settlement gathers before it moves money: one place a worker, those of the pay table first.
    struct Settlement {
        address[] workers;
        uint256[] counts; // accepted groups and their units, added up; then wei
        uint256 unpaid; // slots with work that are not paid, those that a dispute keeps out included
        uint256 held; // of those, slots that a dispute keeps out
        uint256 heldBare; // slots that a dispute keeps out and a false table lacks
        uint256 locked; // wei that stay in the pool for later accepted work
        uint256 kept; // wei that stay reserved for the court
    }

    /// @dev How many slots of a step disputes hold now, and have ever held.
    struct Holds {
        uint32 open;
        uint32 ever;
    }

    bytes32 private constant VOTE_TAG = keccak256("stannary.vote.v1");
    bytes32 private constant SILENCE_TAG = keccak256("stannary.offence.silence.v1");
    bytes32 private constant FAULT_TAG = keccak256("stannary.offence.fault.v1");
    uint256 private constant ENTRIES_PER_WORD = 5;
    uint256 private constant ENTRY_BITS = 48;
    uint256 private constant PLACE = type(uint16).max; // the low bits of an entry
    uint256 private constant PLACE_BITS = 16;
    uint256 private constant SLOTS_PER_WORD = 128; // of outcomes
    uint256 private constant ONE_GROUP = 1 << 128; // above the units of a step

    IPoolRegistry public immutable registry;
    IStakeManager private immutable stakes;
    ISubmissionLedger public immutable ledger;
    IPayoutVault private immutable vault;
    IPlantedFaults private immutable plants;
    address private immutable court;

    mapping(PoolId pool => mapping(uint32 step => Ballots.Box)) private _panels;
    mapping(PoolId pool => mapping(uint32 step => address[])) private _dismissed;
    mapping(PoolId pool => mapping(uint32 step => Holds)) private _holds;
    mapping(PoolId pool => mapping(uint32 step => BitMaps.BitMap)) private _isHeld;

    modifier onlyCourt() {
        if (msg.sender != court) revert NotCourt(msg.sender);
        _;
    }

    constructor(Parts memory parts) {
        parts.checkParts();
        registry = IPoolRegistry(parts.registry);
        stakes = IStakeManager(parts.stakes);
        ledger = ISubmissionLedger(parts.ledger);
        vault = IPayoutVault(parts.vault);
        plants = IPlantedFaults(parts.plants);
        court = parts.court;
    }

    // -- votes

    /// @inheritdoc IVotingPanel
    function sealAuditBeacon(PoolId pool, uint32 step) external override {
        StepBrief memory brief = _inPhase(pool, step, Phase.Committed);
        if (block.number <= brief.auditBlock) revert BeaconNotReady(brief.auditBlock, block.number);
        bytes32 blockHash = blockhash(brief.auditBlock);
        // No block was chosen yet, or the chain has forgotten its hash (256 blocks on).
        if (brief.auditBlock == 0 || blockHash == bytes32(0)) return ledger.drawAuditBlock(pool, step);
        bytes32 beacon = Seeds.beacon(Seeds.AUDIT_BEACON_TAG, address(ledger), pool, step, blockHash);
        uint256 size = _panelRules(pool).panelSize;
        address[] memory members = _draw(pool, brief.openedBlock, beacon, size, new address[](0));

        _panels[pool][step].open(members, uint16(brief.slots + brief.taken), uint48(registry.clockOf(pool)));
        emit AuditBeaconSealed(pool, step, beacon, members, msg.sender);
        ledger.markAudited(pool, step, beacon);
        vault.giveAway(pool, step, msg.sender, registry.feesOf(pool).sealFee);
    }

    /// @inheritdoc IVotingPanel
    function commitVote(PoolId pool, uint32 step, bytes32 commitment) external override {
        address provider = stakes.providerOf(msg.sender);
        (uint48 time, Windows memory windows) = registry.timesOf(pool);
        _panels[pool][step].commit(provider, commitment, time, windows.voteSeconds);
        emit VoteCommitted(pool, step, provider, msg.sender, commitment);
    }

    /// @inheritdoc IVotingPanel
    function revealVote(
        PoolId pool,
        uint32 step,
        address provider,
        bytes calldata outcomes,
        bytes32 verdictRoot,
        bytes32 evidenceRoot,
        bytes32 salt
    ) external override {
        Outcomes.check(outcomes, _panels[pool][step].positions);
        bytes32 commitment = voteCommitment(pool, step, provider, outcomes, verdictRoot, evidenceRoot, salt);
        _reveal(pool, step, provider, commitment, keccak256(outcomes));
        emit VoteRevealed(pool, step, provider, outcomes, verdictRoot, evidenceRoot);
    }

    /// @inheritdoc IVotingPanel
    function redrawPanel(PoolId pool, uint32 step) external override {
        StepBrief memory brief = _inPhase(pool, step, Phase.Audited);
        Ballots.Box storage box = _panels[pool][step];
        (uint48 time,,) = _closed(pool, box);
        PanelRules memory rules = _panelRules(pool);
        if (box.wasRefilled || box.countRevealed() >= rules.quorum) revert PanelNotRedrawable(pool, step);

        address[] memory silent = box.silent();
        bytes32 beacon = keccak256(abi.encode(Seeds.REDRAW_BEACON_TAG, brief.auditBeacon));
        uint256 size = rules.panelSize - box.countRevealed();
        box.refill(_draw(pool, brief.openedBlock, beacon, size, box.members()), time);
        _dismissed[pool][step] = silent;
        emit PanelRedrawn(pool, step, silent, box.members());
        _fineSilent(pool, step, silent);
    }

    // -- settlement

    /// @inheritdoc IVotingPanel
    function finalize(PoolId pool, uint32 step, bytes[] calldata votes, PayTable calldata payTable)
        external
        override
    {
        StepBrief memory brief = _inPhase(pool, step, Phase.Audited);
        Ballots.Box storage box = _panels[pool][step];
        PanelRules memory rules = _panelRules(pool);
        (uint48 time, uint48 until) = _decided(pool, step, box, rules.quorum);
        if (time < until) revert TooEarly(until, time);
        _checkPayTable(brief, payTable);
        Outcomes.Result memory result = _tally(pool, step, box, votes, rules.quorum);
        bytes memory outcomes = Outcomes.toBytes(result.words, box.positions);

        ledger.markFinalized(pool, step, keccak256(outcomes));
        _announce(pool, step, outcomes, result);
        _settle(pool, step, brief, box, payTable, result, rules);
        _fineSilent(pool, step, box.silent());
    }

    /// @inheritdoc IVotingPanel
    function slashLeaf(PoolId pool, uint32 step, LeafOpening calldata opening, bytes calldata outcomes)
        external
        override
    {
        uint32 slot = opening.leaf.slot;
        Outcome outcome = outcomeAt(pool, step, slot, outcomes);
        bytes32 hashOfLeaf = ledger.checkLeaf(pool, step, opening);
        if (outcome != Outcome.Fault) revert LeafNotFaulted(slot, outcome);
        if (isHeld(pool, step, slot)) revert SlotIsHeld(pool, step, slot);
        if (plants.isPlant(hashOfLeaf)) revert LeafIsPlant(hashOfLeaf);
        uint256 amount = _slashFault(pool, opening.leaf.provider, hashOfLeaf);
        emit LeafSlashed(pool, step, slot, opening.leaf.provider, hashOfLeaf, amount);
    }

    // -- for the court

    /// @inheritdoc IVotingPanel
    function holdSlot(PoolId pool, uint32 step, LeafOpening calldata opening, bytes[] calldata votes)
        external
        override
        onlyCourt
        returns (Outcome outcome, uint32 ballots, uint64 snapshotBlock)
    {
        snapshotBlock = _checkChallengeable(pool, step);
        bytes32 hashOfLeaf = ledger.checkLeaf(pool, step, opening);
        uint32 slot = opening.leaf.slot;
        if (isHeld(pool, step, slot)) revert SlotIsHeld(pool, step, slot);
        ballots = ballotsAt(pool, step, slot, votes);
        outcome = Outcomes.decide(ballots, _panelRules(pool).quorum);

        _isHeld[pool][step].set(slot);
        Holds storage holds = _holds[pool][step];
        ++holds.open;
        ++holds.ever;
        emit SlotHeld(pool, step, slot, hashOfLeaf, outcome);
    }

    /// @inheritdoc IVotingPanel
    function unholdSlot(PoolId pool, uint32 step) external override onlyCourt {
        --_holds[pool][step].open;
    }

    // -- views

    /// @inheritdoc IVotingPanel
    function panelOf(PoolId pool, uint32 step) external view override returns (address[] memory) {
        return _panels[pool][step].members();
    }

    /// @inheritdoc IVotingPanel
    function dismissedOf(PoolId pool, uint32 step) external view override returns (address[] memory) {
        return _dismissed[pool][step];
    }

    /// @inheritdoc IVotingPanel
    function panelTimesOf(PoolId pool, uint32 step)
        external
        view
        override
        returns (uint64 commitUntil, uint64 revealFrom, uint64 revealUntil, bool wasRedrawn)
    {
        Ballots.Box storage box = _panels[pool][step];
        if (box.openedAt == 0) return (0, 0, 0, false);
        (, Windows memory windows) = registry.timesOf(pool);
        return (
            box.commitUntil(windows.voteSeconds),
            box.revealFrom(windows.voteSeconds),
            box.closesAt(windows.voteSeconds, windows.revealSeconds),
            box.wasRefilled
        );
    }

    /// @inheritdoc IVotingPanel
    function ballotOf(PoolId pool, uint32 step, address provider)
        external
        view
        override
        returns (bool isCommitted, bool isRevealed, bytes32 word)
    {
        return _panels[pool][step].ballotOf(provider);
    }

    /// @inheritdoc IVotingPanel
    function voteCommitment(
        PoolId pool,
        uint32 step,
        address provider,
        bytes calldata outcomes,
        bytes32 verdictRoot,
        bytes32 evidenceRoot,
        bytes32 salt
    ) public view override returns (bytes32) {
        return keccak256(
            abi.encode(
                VOTE_TAG,
                block.chainid,
                address(this),
                pool,
                step,
                provider,
                keccak256(outcomes),
                verdictRoot,
                evidenceRoot,
                salt
            )
        );
    }

    /// @inheritdoc IVotingPanel
    function heldCountOf(PoolId pool, uint32 step) external view override returns (uint32) {
        return _holds[pool][step].open;
    }

    /// @inheritdoc IVotingPanel
    function isHeld(PoolId pool, uint32 step, uint32 slot) public view override returns (bool) {
        return _isHeld[pool][step].get(slot);
    }

    /// @inheritdoc IVotingPanel
    function ballotsAt(PoolId pool, uint32 step, uint32 slot, bytes[] calldata votes)
        public
        view
        override
        returns (uint32 ballots)
    {
        Ballots.Box storage box = _panels[pool][step];
        _checkVotes(pool, step, box, votes);
        for (uint256 seat = 0; seat < votes.length; ++seat) {
            if (votes[seat].length == 0) continue;
            ballots |= uint32(Outcomes.inBytes(votes[seat], slot)) << uint32(2 * seat);
        }
    }

    /// @inheritdoc IVotingPanel
    function outcomeAt(PoolId pool, uint32 step, uint32 slot, bytes calldata outcomes)
        public
        view
        override
        returns (Outcome)
    {
        StepBrief memory brief = _inPhase(pool, step, Phase.Finalized);
        bytes32 given = keccak256(outcomes);
        if (given != brief.settlementHash) revert OutcomesMismatch(given, brief.settlementHash);
        if (slot >= brief.slots + brief.taken) revert SlotOutOfRange(slot, brief.slots + brief.taken);
        return Outcomes.inBytes(outcomes, slot);
    }

    // -- inside: votes

    /// @dev By the stakes of the block before the step.
    function _draw(PoolId pool, uint256 openedBlock, bytes32 beacon, uint256 size, address[] memory barred)
        private
        view
        returns (address[] memory)
    {
        uint64 mask = 0;
        if (barred.length != 0) {
            address[][] memory lists = new address[][](1);
            lists[0] = barred;
            mask = stakes.barredOf(pool, openedBlock - 1, lists, new address[](0));
        }
        return stakes.drawValidators(pool, openedBlock - 1, beacon, size, mask);
    }

    /// @dev The votes of a panel must be all in, or beyond their time.
    function _closed(PoolId pool, Ballots.Box storage box)
        private
        view
        returns (uint48 time, uint48 closedAt, uint32 challengeSeconds)
    {
        Windows memory windows;
        (time, windows) = registry.timesOf(pool);
        challengeSeconds = windows.challengeSeconds;
        closedAt = box.closesAt(windows.voteSeconds, windows.revealSeconds);
        if (time < closedAt) revert TooEarly(closedAt, time);
    }

    /// @dev And there must be a quorum of them, or a panel that was redrawn in vain. Returns until when anyone may dispute.
    function _decided(PoolId pool, uint32 step, Ballots.Box storage box, uint256 quorum)
        private
        view
        returns (uint48 time, uint48 until)
    {
        uint32 challengeSeconds;
        (time, until, challengeSeconds) = _closed(pool, box);
        uint256 revealed = box.countRevealed();
        if (revealed < quorum && !box.wasRefilled) revert PanelBelowQuorum(pool, step, revealed, quorum);
        until += challengeSeconds;
    }

    function _reveal(PoolId pool, uint32 step, address provider, bytes32 commitment, bytes32 content) private {
        (uint48 time, Windows memory windows) = registry.timesOf(pool);
        _panels[pool][step].reveal(provider, commitment, content, time, windows.voteSeconds, windows.revealSeconds);
    }

    function _checkPayTable(StepBrief memory brief, PayTable calldata payTable) private pure {
        bytes32 given = keccak256(abi.encode(payTable));
        if (given != brief.settlementHash) revert PayTableMismatch(given, brief.settlementHash);
    }

    function _checkChallengeable(PoolId pool, uint32 step) private view returns (uint64 snapshotBlock) {
        snapshotBlock = _inPhase(pool, step, Phase.Audited).openedBlock - 1;
        (uint48 time, uint48 until) = _decided(pool, step, _panels[pool][step], _panelRules(pool).quorum);
        if (time >= until) revert DeadlinePassed(until, time);
    }

    function _checkVotes(PoolId pool, uint32 step, Ballots.Box storage box, bytes[] calldata votes) private view {
        uint256 seats = box.seats;
        if (votes.length != seats) revert VotesMismatch(pool, step, votes.length);
        for (uint256 seat = 0; seat < seats; ++seat) {
            bool isRight = box.hasRevealed(seat)
                ? keccak256(votes[seat]) == box.words[box.memberAt[seat]]
                : votes[seat].length == 0;
            if (!isRight) revert VotesMismatch(pool, step, seat);
        }
    }

    /// @dev Counts the votes, and notes who abstains on more than half of what the others decide.
    function _tally(PoolId pool, uint32 step, Ballots.Box storage box, bytes[] calldata votes, uint256 quorum)
        private
        returns (Outcomes.Result memory result)
    {
        _checkVotes(pool, step, box, votes);
        uint256[][] memory ballots = new uint256[][](votes.length);
        for (uint256 seat = 0; seat < votes.length; ++seat) ballots[seat] = Outcomes.toWords(votes[seat]);
        uint256 words = (uint256(box.positions) + 127) / 128;
        result = Outcomes.tally(ballots, words, quorum);

        uint256 decided = uint256(result.accepted) + result.rejected + result.faulted;
        for (uint256 seat = 0; seat < votes.length; ++seat) {
            if (ballots[seat].length == 0) continue;
            uint256 missed = Outcomes.missed(result.words, ballots[seat]);
            if (2 * missed > decided) stakes.recordAbsence(pool, box.memberAt[seat]);
        }
    }

    // -- inside: slashing

    function _slashFault(PoolId pool, address provider, bytes32 hashOfLeaf) private returns (uint256) {
        bytes32 offence = keccak256(abi.encode(FAULT_TAG, hashOfLeaf));
        uint256 bps = _faults(pool).faultSlashBps;
        return stakes.slash(pool, Role.Worker, provider, bps, offence, address(0), 0);
    }

    function _fineSilent(PoolId pool, uint32 step, address[] memory silent) private {
        if (silent.length == 0) return;
        uint256 bps = _faults(pool).silenceSlashBps;
        for (uint256 i = 0; i < silent.length; ++i) {
            bytes32 offence = keccak256(abi.encode(SILENCE_TAG, address(this), pool, step, silent[i]));
            stakes.slash(pool, Role.Validator, silent[i], bps, offence, address(0), 0);
        }
    }

    // -- inside: settlement

    function _announce(PoolId pool, uint32 step, bytes memory outcomes, Outcomes.Result memory result) private {
        uint32 held = _holds[pool][step].open;
        emit StepFinalized(pool, step, outcomes, result.accepted, result.rejected, result.faulted, held);
    }

    /// @dev Every slot is in one of these: empty (released), accepted (paid, the rest of its price released), with work
    /// and not accepted (locked), held (kept for the court).
    function _settle(
        PoolId pool,
        uint32 step,
        StepBrief memory brief,
        Ballots.Box storage box,
        PayTable calldata payTable,
        Outcomes.Result memory result,
        PanelRules memory rules
    ) private {
        Rates memory rates = ledger.ratesOf(pool, step);
        Fees memory fees = registry.feesOf(pool);
        Settlement memory books;
        books.workers = payTable.providers;
        books.counts = payTable.totals;
        Holds memory holds = _holds[pool][step];
        if (holds.ever != 0) _takeHeldOut(pool, step, brief, payTable.words, result.words, books);
        if (!_takeUnpaidOut(payTable.words, brief.slots, result.words, books)) {
            // The table contradicts itself or the votes: nobody is paid by it, and all that it could mean is locked.
            books.counts = new uint256[](books.workers.length);
            books.unpaid = brief.slots - books.heldBare;
        }
        if (brief.taken != 0) _countTaken(pool, step, brief, rates, result.words, books);
        _price(pool, brief.openedBlock, rates, books);
        books.locked += (books.unpaid - books.held) * rates.slotCap;
        books.kept = holds.open * (rates.slotCap + Pricing.juryCost(fees, rules));
        _move(pool, step, box, books, fees.panelFee);
    }

    /// @dev A disputed slot is the court's: it is not counted as accepted, whatever the panel said.
    function _takeHeldOut(
        PoolId pool,
        uint32 step,
        StepBrief memory brief,
        uint256[] calldata entries,
        uint256[] memory words,
        Settlement memory books
    ) private view {
        unchecked { // counts slots, of which there are few
            uint256 positions = brief.slots + brief.taken;
            for (uint256 first = 0; first < positions; first += 256) {
                uint256 bits = _isHeld[pool][step]._data[first >> 8];
                for (uint256 slot = first; bits != 0; (++slot, bits >>= 1)) {
                    if (bits & 1 == 0) continue;
                    Outcomes.clear(words, slot);
                    if (slot >= brief.slots || _entryOf(entries, slot) & PLACE != 0) ++books.held;
                    else ++books.heldBare;
                }
            }
        }
    }

    /// @dev Takes the leaves that were not accepted off the totals. Returns whether what is left can be: no total fell below
    /// nothing, and no more groups are left than slots were accepted. Only the words of outcomes that are not all accepted
    /// are looked into slot by slot.
    function _takeUnpaidOut(
        uint256[] calldata entries,
        uint256 slots,
        uint256[] memory words,
        Settlement memory books
    ) private pure returns (bool) {
        uint256 accepted = 0;
        unchecked { // counts slots, of which there are few
            for (uint256 first = 0; first < slots; first += SLOTS_PER_WORD) {
                uint256 end = Math.min(first + SLOTS_PER_WORD, slots);
                if (Outcomes.isAllAccepted(words[first / SLOTS_PER_WORD])) {
                    accepted += end - first;
                    continue;
                }
                for (uint256 slot = first; slot < end; ++slot) {
                    if (Outcomes.isAccepted(words, slot)) ++accepted;
                    else if (!_takeOff(_entryOf(entries, slot), books)) return false;
                }
            }
        }
        uint256 groups = 0;
        for (uint256 i = 0; i < books.counts.length; ++i) {
            // Absurd units must not run over into groups when a slot taken on chain is added.
            books.counts[i] &= ~(ONE_GROUP / 2);
            groups += books.counts[i] / ONE_GROUP;
        }
        return groups <= accepted;
    }

    /// @dev Takes one entry off its provider's total; an empty one changes nothing.
    function _takeOff(uint256 entry, Settlement memory books) private pure returns (bool) {
        uint256 place = entry & PLACE;
        if (place == 0) return true;
        if (place > books.counts.length) return false;
        unchecked { // the total is compared first
            uint256 units = (entry >> PLACE_BITS) & type(uint32).max;
            uint256 total = books.counts[place - 1];
            if (total < ONE_GROUP || total % ONE_GROUP < units) return false;
            books.counts[place - 1] = total - ONE_GROUP - units;
            ++books.unpaid;
        }
        return true;
    }

    function _entryOf(uint256[] calldata entries, uint256 slot) private pure returns (uint256) {
        unchecked {
            return entries[slot / ENTRIES_PER_WORD] >> (ENTRY_BITS * (slot % ENTRIES_PER_WORD));
        }
    }

    /// @dev Adds the slots taken on chain; a taker that is in no table gets a place of its own.
    function _countTaken(
        PoolId pool,
        uint32 step,
        StepBrief memory brief,
        Rates memory rates,
        uint256[] memory words,
        Settlement memory books
    ) private {
        uint256 places = books.workers.length;
        address[] memory workers = new address[](places + brief.taken);
        uint256[] memory counts = new uint256[](places + brief.taken);
        for (uint256 i = 0; i < places; ++i) (workers[i], counts[i]) = (books.workers[i], books.counts[i]);
        for (uint32 slot = brief.slots; slot < brief.slots + brief.taken; ++slot) {
            TakenSlot memory taken = ledger.takenSlotOf(pool, step, slot);
            if (taken.leafHash == bytes32(0)) {
                vault.lockBond(pool, rates.slotCap);
            } else if (Outcomes.isAccepted(words, slot)) {
                uint256 place = 0;
                while (place < places && workers[place] != taken.provider) ++place;
                if (place == places) workers[places++] = taken.provider;
                counts[place] += ONE_GROUP + Math.min(taken.units, rates.unitCap);
            } else {
                ++books.unpaid;
            }
        }
        assembly ("memory-safe") { // without the places that nobody took
            mstore(workers, places)
            mstore(counts, places)
        }
        (books.workers, books.counts) = (workers, counts);
    }

    /// @dev Turns groups and units into wei, none beyond the pay cap of its worker; what the caps cut off is locked.
    function _price(PoolId pool, uint256 openedBlock, Rates memory rates, Settlement memory books) private view {
        uint256[] memory staked = stakes.activeStakesAt(pool, Role.Worker, books.workers, openedBlock - 1);
        for (uint256 i = 0; i < staked.length; ++i) {
            uint256 groups = books.counts[i] / ONE_GROUP;
            uint256 units = Math.min(books.counts[i] % ONE_GROUP, groups * rates.unitCap);
            uint256 amount = groups * rates.pricePerGroup + units * rates.pricePerToken;
            uint256 paid = Math.min(amount, Pricing.payCap(rates, staked[i]));
            books.locked += amount - paid;
            books.counts[i] = paid;
        }
    }

    /// @dev The workers and their wages, and after them the panel and its fees.
    function _move(PoolId pool, uint32 step, Ballots.Box storage box, Settlement memory books, uint256 fee) private {
        uint256 size = books.workers.length;
        address[] memory members = box.members();
        address[] memory providers = new address[](size + members.length);
        uint256[] memory amounts = new uint256[](size + members.length);
        for (uint256 i = 0; i < size; ++i) (providers[i], amounts[i]) = (books.workers[i], books.counts[i]);
        for (uint256 seat = 0; seat < members.length; ++seat) {
            if (box.hasRevealed(seat)) (providers[size + seat], amounts[size + seat]) = (members[seat], fee);
        }
        vault.settle(pool, step, providers, amounts, books.locked, books.kept);
    }

    // -- inside: the other contracts, each call in one place

    function _inPhase(PoolId pool, uint32 step, Phase expected) private view returns (StepBrief memory brief) {
        brief = ledger.briefOf(pool, step);
        if (brief.phase != expected) revert WrongPhase(pool, step, brief.phase, expected);
    }

    function _panelRules(PoolId pool) private view returns (PanelRules memory) {
        return registry.panelRulesOf(pool);
    }

    function _faults(PoolId pool) private view returns (FaultTable memory) {
        return registry.faultTableOf(pool);
    }
}
