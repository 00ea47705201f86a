// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IDisputeCourt} from "../../../contracts/interfaces/IDisputeCourt.sol";
import {IStakeManager} from "../../../contracts/interfaces/IStakeManager.sol";
import {CaseKind, CasePhase, Outcome, Phase, Role, Ruling} from "../../../contracts/types/Enums.sol";
import {CaseId, ExitId, PoolId} from "../../../contracts/types/Ids.sol";
import {Offer, PoolTerms, Rates} from "../../../contracts/types/PoolTerms.sol";
import {StepState} from "../../../contracts/types/StepState.sol";
import {Lease, LeafOpening, PayTable, Submission, TakenSlot} from "../../../contracts/types/Submission.sol";
import {ChainTest} from "./ChainTest.sol";
import {Trees} from "./Trees.sol";
import {vm} from "./Vm.sol";

/// @dev Plays random, mostly legal moves of all parties and keeps its own books about them, from the rules alone: slot by
/// slot, ballot by ballot. What the contracts do otherwise is counted as a flaw under the name of the rule it breaks.
contract Handler is ChainTest {
    /// A planted leaf.
    struct Plan {
        uint32 step;
        uint32 slot;
        address planter;
        bytes32 salt;
        bytes32 commitment;
        uint256 bond;
        bool isSettled;
    }

    /// What providers delivered in a step, by their places in its table.
    struct Sums {
        uint256[] groups;
        uint256[] units;
        uint256 accepted; // slots
    }

    /// A pending exit as it was started.
    struct Leave {
        ExitId id;
        address provider;
        uint64 releaseAt;
        uint256 shares;
    }

    /// What was slashed of a position since its window began, and what else counts in it.
    struct Window {
        uint256 endsAt;
        uint256 base; // tokens at its start, and those allocated since
        uint256 taken;
        uint256 slack; // wei of rounding: one a slash, and a basis point's worth an allocation
        uint256 bps;
        uint256 absences;
        uint256 suspendedUntil;
    }

    uint256 internal constant BPS = 10_000;
    uint256 internal constant GROUP = 1 << 128; // in a total
    uint256 internal constant SECOND_COORDINATOR_KEY = 0xC1;
    uint256 internal constant NODE_KEY = 0x50_000;
    uint160 internal constant SECOND_KEY = 0x10_000; // from a provider to the account that may control it
    address internal constant SECOND_TRAINER = address(0x1B);
    address internal constant SECOND_OWNER = address(0x1A);

    uint256 public immutable variant;
    PoolId internal other; // a second pool of the same token and providers, in which no step is opened
    bytes4[] private _deck;
    address[] private _accounts; // all that may earn
    mapping(address provider => uint256) private _nodeKeys;
    mapping(address provider => address) private _nodes;
    mapping(address provider => Role) private _roles;

    // What was built for a step.
    mapping(uint32 step => bytes32[]) private _words;
    mapping(uint32 step => mapping(uint32 slot => Submission)) private _leaves;
    mapping(uint32 step => mapping(uint32 slot => bool)) private _hasLeaf;
    mapping(uint32 step => mapping(uint32 slot => bool)) private _isPlanned;
    mapping(uint32 step => PayTable) private _tables;
    mapping(uint32 step => bool) private _isHostile;
    mapping(uint32 step => mapping(address member => bytes)) private _ballots;
    mapping(uint32 step => bytes) private _outcomes;
    mapping(uint32 step => uint256) private _overlapsPaid;
    mapping(CaseId id => mapping(uint256 round => address[])) private _juries;
    mapping(CaseId id => mapping(uint256 round => mapping(address juror => Ruling))) private _said;
    mapping(CaseId id => mapping(uint256 round => mapping(address juror => bool))) private _isHeard;
    CaseId[] private _open;
    Plan[] private _plans;
    Leave[] private _exits; // pending exits

    // What is due to happen within a move: filled by the move, checked and emptied after it.
    mapping(address provider => uint256) private _due; // tokens of its position that are slashed
    mapping(address account => uint256) private _gain; // wei that it earns
    uint256 private _dueSum;
    uint256 private _reward;
    uint256 private _mustLock;
    bool private _mayFree;
    bool private _mayUnlock;
    bool private _mayMove;

    // What was seen after the last move.
    mapping(address provider => uint256) private _tokens;
    mapping(address account => uint256) private _earned;
    uint256 private _free;
    uint256 private _locked;
    uint256 private _burnable;
    uint256 private _lastClock;
    uint256 private _lastTime;
    uint256[2][] private _pauses; // when each began, and for how long the clock had stood before

    // Ghosts.
    uint256 public plays;
    mapping(bytes32 name => uint256) public done;
    mapping(bytes32 rule => uint256) public flaws;
    mapping(address provider => uint256) public lost;
    mapping(address provider => uint256) public exitsFinished;
    mapping(address provider => Window) public windowOf;
    mapping(address provider => uint256) public holds;
    mapping(address provider => uint256) public epochs;
    mapping(uint32 step => mapping(address provider => uint256)) public activeAtOpening;
    mapping(uint32 step => mapping(address provider => uint256)) public lostAtOpening;
    mapping(uint32 step => uint256) public fromFree; // wei of its reservation that were free before
    mapping(uint32 step => uint256) public toFree; // and that became free again
    mapping(uint32 step => uint256) public givenAway; // to who sealed a beacon or held a lease given twice
    mapping(uint32 step => bool) public hasCase;
    mapping(uint32 step => mapping(uint32 slot => uint256)) public paid; // times
    mapping(uint32 step => mapping(uint32 slot => uint256)) public paidAmount;
    mapping(uint32 step => mapping(uint32 slot => uint256)) public cases;
    mapping(uint32 step => mapping(address worker => uint256)) public wages;
    mapping(uint32 step => mapping(address worker => uint256)) public caseWages; // what of them cases paid
    mapping(bytes32 leafHash => uint256) public punished;
    uint256 public funded;
    uint256 public drained;
    uint256 public burned;
    uint256 public claimed;
    uint256 public bondsTaken;
    uint256 public bondsForfeited;
    uint256 public spent; // of reservations
    uint256 public fundedElsewhere;
    uint256 public drainedElsewhere;
    uint256 public donatedToVault;
    uint256 public donatedToStakes;

    constructor(uint256 variant_) {
        variant = variant_;
    }

    modifier onlySelf() {
        require(msg.sender == address(this), "play chooses the moves");
        _;
    }

    function setUp() public override {
        require(address(token) == address(0), "once");
        super.setUp();
        other = pool;
        fundedElsewhere = FUNDS;
        pool = createPool(variantTerms());
        fund(pool, FUNDS);
        funded = FUNDS;
        for (uint160 i = 8; i < 12; ++i) validators.push(address(0x100 + i));
        workers.push(address(0x203));
        for (uint256 i = 0; i < validators.length; ++i) admit(validators[i], Role.Validator, i % 3 == 0, i % 4 == 0);
        for (uint256 i = 0; i < workers.length; ++i) admit(workers[i], Role.Worker, true, i == 0);
        _accounts.push(STRANGER);
        _accounts.push(address(this));
        mine(1);
        deal();
        _mayMove = true;
        _mayFree = true;
        look();
    }

    // -- the game

    /// Plays one move, which the rules may refuse.
    function play(uint256 entropy) external {
        inTime();
        uint256 random = uint256(keccak256(abi.encode(entropy, ++plays)));
        bytes4 move = _deck[random % _deck.length];
        if (random >> 250 < 16 && registry.isPaused(pool)) move = this.unpause.selector;
        (bool isLegal,) = address(this).call(abi.encodeWithSelector(move, (random >> 16) & type(uint64).max, random >> 80));
        if (!isLegal) did("refused");
        // What a refused move did to the time is not in the books.
        inTime();
        look();
    }

    function deal() private {
        put(this.pushStep.selector, 30);
        put(this.pushCase.selector, 24);
        put(this.openNext.selector, 6);
        put(this.dispute.selector, 8);
        put(this.accuse.selector, 4);
        put(this.slashLeaf.selector, 3);
        put(this.plant.selector, 5);
        put(this.revealPlant.selector, 4);
        put(this.settlePlant.selector, 3);
        put(this.takeSlot.selector, 2);
        put(this.overlap.selector, 1);
        put(this.lapse.selector, 2);
        put(this.stake.selector, 5);
        put(this.depart.selector, 2);
        put(this.finish.selector, 4);
        put(this.takeOut.selector, 2);
        put(this.reinstate.selector, 2);
        put(this.namePayee.selector, 1);
        put(this.handOver.selector, 1);
        put(this.rotateNode.selector, 1);
        put(this.pause.selector, 1);
        put(this.announce.selector, 1);
        put(this.attest.selector, 1);
        put(this.handOwnership.selector, 1);
        put(this.close.selector, 1);
        put(this.wait.selector, 3);
        put(this.addFunds.selector, 1);
        put(this.drain.selector, 1);
        put(this.donate.selector, 1);
        put(this.claim.selector, 4);
        put(this.burn.selector, 1);
        put(this.elsewhere.selector, 1);
    }

    function put(bytes4 move, uint256 weight) private {
        for (uint256 i = 0; i < weight; ++i) _deck.push(move);
    }

    // -- stake

    function stake(uint256 who, uint256 amount) external onlySelf {
        address provider = who % 4 == 0 ? pick(who >> 8) : absentee(who >> 8);
        Role role = _roles[provider];
        address key = stakes.controllerOf(provider);
        bytes32 agreed = registry.termsHashOf(pool);
        uint256 idle = stakes.idleOf(provider);
        if (amount % 4 != 0 || idle == 0) {
            amount = 200 + amount % 2_000;
            token.mint(key, amount);
            vm.prank(key);
            token.approve(address(stakes), amount);
            vm.prank(key);
            stakes.deposit(amount);
        } else {
            amount = idle;
        }
        (uint256 tokens,,) = stakes.positionOf(pool, role, provider);
        vm.prank(key);
        stakes.allocate(pool, role, amount, agreed);
        Window storage window = windowOf[provider];
        window.base += amount;
        window.bps = (window.bps * tokens) / (tokens + amount);
        window.slack += 1 + (tokens + amount) / BPS;
        _mayMove = true;
        did("stake");
    }

    /// A provider without stake at work that may put some there, if there is one.
    function absentee(uint256 from) private view returns (address provider) {
        for (uint256 i = 0; i < 16; ++i) {
            provider = pick(from + i);
            (uint64 until,,,) = stakes.standingOf(pool, _roles[provider], provider);
            if (until == 0 && stakes.activeStakeOf(pool, _roles[provider], provider) == 0) return provider;
        }
    }

    function depart(uint256 who, uint256 part) external onlySelf {
        address provider = pick(who);
        (, uint256 shares, uint256 exiting) = stakes.positionOf(pool, _roles[provider], provider);
        exitFrom(pool, provider, part % 8 == 0 ? shares - exiting : 1 + part % (shares - exiting));
        did("depart");
    }

    function finish(uint256 which, uint256 entropy) external onlySelf {
        uint256 i = which % _exits.length;
        uint256 time = registry.clockOf(pool);
        for (uint256 tries = 0; tries < _exits.length && entropy % 8 != 0; ++tries) {
            if (_exits[i].releaseAt > time) i = (i + 1) % _exits.length;
        }
        finishExit(i);
    }

    function takeOut(uint256 who, uint256 part) external onlySelf {
        address account = _accounts[who % _accounts.length];
        for (uint256 i = 0; i < _accounts.length && stakes.idleOf(account) == 0; ++i) account = _accounts[i];
        uint256 amount = 1 + part % stakes.idleOf(account);
        address key = stakes.controllerOf(account);
        uint256 before = token.balanceOf(key);
        vm.prank(key);
        stakes.withdraw(amount);
        note("S1", token.balanceOf(key) == before + amount);
        did("takeOut");
    }

    function reinstate(uint256 who, uint256) external onlySelf {
        address provider = pick(who);
        for (uint256 i = 0; i < 16 && windowOf[provider].suspendedUntil == 0; ++i) provider = pick(who + i);
        (uint64 until,,,) = stakes.standingOf(pool, _roles[provider], provider);
        stakes.reinstate(pool, _roles[provider], provider);
        note("S10", registry.clockOf(pool) >= until);
        windowOf[provider].suspendedUntil = 0;
        did("reinstate");
    }

    function namePayee(uint256 who, uint256 which) external onlySelf {
        address provider = pick(who);
        address key = stakes.controllerOf(provider);
        address payee = provider;
        if (which % 4 == 1) payee = address(uint160((_roles[provider] == Role.Worker ? 0x600 : 0x700) + which % 3));
        if (which % 4 == 2) payee = pick(which >> 8);
        if (which % 4 == 3) payee = address(0x600);
        vm.prank(key);
        stakes.setPayee(pool, payee);
        did("namePayee");
    }

    /// Offers control to a second key or back to the first, and mostly has it accepted.
    function handOver(uint256 who, uint256 entropy) external onlySelf {
        address provider = who % 2 == 0 ? workers[0] : validators[4 * (who % 3)];
        address key = stakes.controllerOf(provider);
        address to = key == provider ? secondKey(provider) : provider;
        vm.prank(key);
        stakes.offerController(to);
        if (entropy % 8 == 0) return;
        vm.prank(to);
        stakes.acceptController(provider);
        note("S6", stakes.controllerOf(provider) == to);
        did("handOver");
    }

    function rotateNode(uint256 who, uint256 entropy) external onlySelf {
        address provider = pick(who);
        address node = _nodes[provider];
        if (stakes.providerOf(node) == provider) {
            vm.prank(entropy % 2 == 0 ? node : stakes.controllerOf(provider));
            stakes.removeNode(node);
        } else {
            join(provider);
        }
        did("rotateNode");
    }

    /// Money and stake in the other pool.
    function elsewhere(uint256 kind, uint256 amount) external onlySelf {
        address provider = pick(amount >> 16);
        address key = stakes.controllerOf(provider);
        amount = 200 + amount % 1_000;
        if (kind % 3 == 0) {
            pay(registry.ownerOf(other), other, amount);
            fundedElsewhere += amount;
        } else if (kind % 3 == 1) {
            address owner = registry.ownerOf(other);
            vm.prank(owner);
            vault.drain(other, amount, owner);
            drainedElsewhere += amount;
        } else {
            bytes32 agreed = registry.termsHashOf(other);
            token.mint(key, amount);
            vm.prank(key);
            token.approve(address(stakes), amount);
            vm.prank(key);
            stakes.deposit(amount);
            vm.prank(key);
            stakes.allocate(other, _roles[provider], amount, agreed);
        }
        did("elsewhere");
    }

    // -- the pool

    /// Stops the clock, and mostly lets it run again soon.
    function pause(uint256 length, uint256 entropy) external onlySelf {
        uint256 stood = clock - registry.clockOf(pool);
        vm.prank(PAUSER);
        registry.pause(pool);
        _pauses.push([clock, stood]);
        note("R5", registry.clockOf(pool) == clock - stood);
        did("pause");
        if (entropy % 4 == 0) return;
        skip(entropy % 4 == 1 ? 1 days + length % 1 days : length % 600);
        vm.prank(UNPAUSER);
        registry.unpause(pool);
    }

    function unpause(uint256, uint256) external onlySelf {
        vm.prank(UNPAUSER);
        registry.unpause(pool);
        did("unpause");
    }

    function announce(uint256 price, uint256 entropy) external onlySelf {
        address owner = registry.ownerOf(pool);
        if (entropy % 4 == 0) {
            vm.prank(owner);
            registry.withdrawOffer(pool);
            return did("withdrawOffer");
        }
        Offer memory offer = variantTerms().offer;
        offer.pricePerGroup = uint128(price % 200);
        offer.pricePerToken = uint128((price >> 16) % 4);
        if (entropy % 3 == 0) offer.coordinator = vm.addr(SECOND_COORDINATOR_KEY);
        if (entropy % 5 == 0) offer.trainer = SECOND_TRAINER;
        if (entropy % 7 == 0) offer.cardHash = keccak256("card2");
        vm.prank(owner);
        registry.announceOffer(pool, offer);
        did("announce");
    }

    function attest(uint256 who, uint256) external onlySelf {
        address key = voice(validators[who % validators.length], who);
        vm.prank(key);
        registry.attestCard(pool, keccak256("card2"));
        did("attest");
    }

    function handOwnership(uint256, uint256 entropy) external onlySelf {
        PoolId p = entropy % 4 == 0 ? other : pool;
        address owner = registry.ownerOf(p);
        address to = owner == OWNER ? SECOND_OWNER : OWNER;
        vm.prank(owner);
        registry.offerOwnership(p, to);
        vm.prank(to);
        registry.acceptOwnership(p);
        did("handOwnership");
    }

    /// Late, or little would happen.
    function close(uint256, uint256 entropy) external onlySelf {
        require(plays > 200 && entropy % 4 == 0, "early");
        vm.prank(registry.ownerOf(pool));
        registry.closePool(pool);
        did("close");
    }

    function wait(uint256 length, uint256 entropy) external onlySelf {
        mine(1);
        if (entropy % 64 == 0) skip(31 days);
        else if (entropy % 32 == 1) skip(1 days);
        else if (entropy % 8 == 2) skip(1_000);
        else skip(length % 40);
        did("wait");
    }

    /// The chain forgets all block hashes that somebody waits for.
    function lapse(uint256, uint256 entropy) external onlySelf {
        require(entropy % 2 == 0, "seldom");
        height += 300;
        vm.roll(height);
        mine(1);
        did("lapse");
    }

    // -- steps

    function openNext(uint256 slots, uint256 entropy) external onlySelf {
        uint32 step = ledger.stepCountOf(pool);
        if (step - ledger.settledCountOf(pool) >= registry.workRulesOf(pool).maxOpenSteps) {
            return this.pushStep(slots, entropy);
        }
        address trainer = registry.offerOf(pool, registry.offerNumberOf(pool)).trainer;
        uint32 policies = ledger.policyCountOf(pool);
        if (policies == 0 || (policies <= step && (entropy % 2 == 0 || step - policies >= 2))) {
            vm.prank(trainer);
            ledger.publishPolicy(pool, policies, keccak256(abi.encode("policy", policies)), bytes32(0));
            ++policies;
        }
        mine(1);
        if (entropy % 8 == 1) slipAway(pick(entropy >> 8));
        uint256 free = freeMoney();
        vm.prank(trainer);
        ledger.openStep(pool, step, policies - 1, uint32(1 + slots % 7));
        fromFree[step] = free - freeMoney();
        _mayUnlock = true;
        for (uint256 i = 0; i < 16; ++i) {
            address provider = pick(i);
            activeAtOpening[step][provider] = stakes.activeStakeAt(pool, _roles[provider], provider, height - 1);
            lostAtOpening[step][provider] = lost[provider];
        }
        did("openNext");
    }

    /// Leaves in the block of a step, before it: the step still counts this stake.
    function slipAway(address provider) private {
        (, uint256 shares, uint256 exiting) = stakes.positionOf(pool, _roles[provider], provider);
        if (shares == exiting) return;
        exitFrom(pool, provider, shares - exiting);
        did("slipAway");
    }

    /// Moves one unsettled step on.
    function pushStep(uint256 which, uint256 entropy) external onlySelf {
        if (ledger.settledCountOf(pool) == ledger.stepCountOf(pool)) return this.openNext(which, entropy);
        uint32 step = chooseUnsettled(which);
        Phase phase = ledger.stepOf(pool, step).phase;
        if (phase == Phase.Open) sealSeed(step);
        else if (phase == Phase.Seeded) collect(step, entropy);
        else if (phase == Phase.Audited) judgeStep(step, entropy);
        else if (entropy % 4 == 0) take(step, entropy >> 8);
        else {
            if (entropy % 8 != 1) reach(ledger.auditFrom(pool, step));
            sealAudit(step);
            if (entropy % 2 == 0 && ledger.stepOf(pool, step).phase == Phase.Audited) commitVotes(step, entropy >> 8);
        }
    }

    function takeSlot(uint256 which, uint256 entropy) external onlySelf {
        take(chooseUnsettled(which), entropy);
    }

    /// Two leases of the coordinator for one slot.
    function overlap(uint256 which, uint256 entropy) external onlySelf {
        uint32 step = chooseUnsettled(which);
        StepState memory state = ledger.stepOf(pool, step);
        Lease memory first = makeLease(step, uint32(entropy % (state.slots + 1)), workers[entropy % 2]);
        Lease memory second = makeLease(step, first.slot, workers[2 + (entropy >> 8) % 2]);
        second.validFrom += uint64((entropy >> 16) % 20);
        uint256 key = coordinatorKey(state.offer);
        ledger.proveOverlap(
            first, sign(key, ledger.leaseDigest(first)), second, sign(key, ledger.leaseDigest(second))
        );
        uint256 amount = ledger.ratesOf(pool, step).slotCap;
        uint256 left = registry.feesOf(pool).leaseBond - _overlapsPaid[step];
        if (amount > left) amount = left;
        _overlapsPaid[step] += amount;
        earn(second.provider, amount);
        givenAway[step] += amount;
        did("overlap");
    }

    function slashLeaf(uint256 which, uint256 slot) external onlySelf {
        uint32 settled = ledger.settledCountOf(pool);
        uint32 step = settled - 1 - uint32(which % (settled < 6 ? settled : 6));
        uint32 chosen = chooseLeaf(step, slot);
        for (uint32 i = 0; i < 8 && slot % 8 != 0; ++i) {
            if (outcomeOf(step, chosen) != Outcome.Fault) chosen = chooseLeaf(step, slot + i);
        }
        Submission memory leaf = _leaves[step][chosen];
        bool isFault = outcomeOf(step, chosen) == Outcome.Fault;
        owe(leaf.provider, registry.faultTableOf(pool).faultSlashBps, 0);
        panel.slashLeaf(pool, step, openingOf(step, chosen), _outcomes[step]);
        note("S3", isFault);
        ++punished[ledger.leafHash(leaf)];
        did("slashLeaf");
    }

    // -- planted faults

    /// Mostly in the last step: before its root is committed.
    function plant(uint256 which, uint256 entropy) external onlySelf {
        uint32 step = which % 8 == 0 ? chooseUnsettled(which) : ledger.stepCountOf(pool) - 1;
        StepState memory state = ledger.stepOf(pool, step);
        require(state.phase == Phase.Open || state.phase == Phase.Seeded, "late");
        uint32 slot = uint32(entropy % state.slots);
        require(!_isPlanned[step][slot], "planned");
        address planter = workers[(entropy >> 8) % workers.length];
        _isPlanned[step][slot] = true;
        _leaves[step][slot] = makeLeaf(step, slot, planter, entropy >> 16);
        bytes32 salt = bytes32(entropy);
        bytes32 commitment = plants.plantCommitment(planter, ledger.leafHash(_leaves[step][slot]), salt);
        address key = voice(planter, entropy);
        uint256 bond = takeFrom(key, ledger.ratesOf(pool, step).slotCap);
        vm.prank(key);
        plants.plant(pool, step, commitment);
        _plans.push(Plan(step, slot, planter, salt, commitment, bond, false));
        did("plant");
    }

    function revealPlant(uint256 which, uint256) external onlySelf {
        Plan memory plan = _plans[which % _plans.length];
        for (uint256 i = 0; i < _plans.length && !isRevealable(plan); ++i) plan = _plans[i];
        plants.revealPlant(pool, plan.step, openingOf(plan.step, plan.slot), plan.salt);
        (,, uint64 until,) = panel.panelTimesOf(pool, plan.step);
        note("F1", until != 0 && registry.clockOf(pool) >= until);
        did("revealPlant");
    }

    function isRevealable(Plan memory plan) private view returns (bool) {
        Phase phase = ledger.stepOf(pool, plan.step).phase;
        if (plan.isSettled || (phase != Phase.Audited && phase != Phase.Finalized)) return false;
        return !plants.isPlant(ledger.leafHash(_leaves[plan.step][plan.slot]));
    }

    function settlePlant(uint256 which, uint256 entropy) external onlySelf {
        uint256 i = which % _plans.length;
        for (uint256 tries = 0; tries < _plans.length; ++tries) {
            bool isRevealed = plants.isPlant(ledger.leafHash(_leaves[_plans[i].step][_plans[i].slot]));
            if (!_plans[i].isSettled && (isRevealed || entropy % 4 == 0)) break;
            i = (i + 1) % _plans.length;
        }
        settlePlan(i);
    }

    // -- cases

    /// Challenges or appeals what the panel said of a slot, now and then the wrong way.
    function dispute(uint256 which, uint256 entropy) external onlySelf {
        uint32 step = chooseUnsettled(which);
        (,, uint64 until,) = panel.panelTimesOf(pool, step);
        // The panel may be said to have decided before it has.
        if (until != 0 && entropy % 8 != 1) reach(until);
        openCase(step, entropy);
    }

    function accuse(uint256 which, uint256 entropy) external onlySelf {
        uint32 settled = ledger.settledCountOf(pool);
        uint32 last = settled - 1 - uint32(which % 2);
        address worker = workers[entropy % workers.length];
        uint32 first = court.judgedUpTo(pool, worker);
        first += uint32((entropy >> 8) % (last + 1 - first));
        address disputant = somebody(entropy >> 16);
        takeFrom(disputant, 2 * court.bondOf(pool));
        vm.prank(disputant);
        CaseId id = court.accuse(pool, worker, first, last, bytes32(entropy), bytes32(entropy), "here");
        note("D4", settled > last && ledger.settledCountOf(pool) > last);
        _open.push(id);
        ++holds[worker];
        did("accuse");
    }

    /// Moves one case on.
    function pushCase(uint256 which, uint256 entropy) external onlySelf {
        if (_open.length == 0) return this.pushStep(which, entropy);
        CaseId id = _open[which % _open.length];
        IDisputeCourt.Case memory c = court.caseOf(id);
        if (c.phase == CasePhase.Opened) {
            seatJury(id);
            if (court.caseOf(id).phase != CasePhase.Voting || entropy % 8 == 0) return;
            sayRulings(id, c.round, entropy >> 8);
            if (entropy % 8 > 4) hearRulings(id, c.round, entropy >> 16);
            return;
        }
        if (c.phase == CasePhase.Ruled && entropy % 4 != 0) return appealRuling(id, entropy >> 8);
        if (c.phase == CasePhase.Ruled) return resolve(id);
        (, uint64 from, uint64 until) = court.juryTimesOf(id);
        uint64 time = registry.clockOf(pool);
        if (time < from && countCommitted(id, c.round) < _juries[id][c.round].length && entropy % 8 != 0) {
            sayRulings(id, c.round, entropy);
            if (entropy % 2 == 0) hearRulings(id, c.round, entropy >> 8);
            return;
        }
        if (time < until && countCommitted(id, c.round) != 0 && entropy % 8 != 1) return hearRulings(id, c.round, entropy);
        resolve(id);
    }

    // -- money

    function addFunds(uint256 amount, uint256) external onlySelf {
        amount = 1 + amount % 20_000;
        pay(STRANGER, pool, amount);
        funded += amount;
        _mayFree = true;
        did("addFunds");
    }

    function drain(uint256 amount, uint256) external onlySelf {
        drainFree(pool, 1 + amount % (freeMoney() / 8 + 1));
        did("drain");
    }

    function donate(uint256 amount, uint256) external onlySelf {
        amount %= 1_000;
        if (amount % 2 == 0) {
            token.mint(address(vault), amount);
            donatedToVault += amount;
        } else {
            token.mint(address(stakes), amount);
            donatedToStakes += amount;
        }
        did("donate");
    }

    function claim(uint256 who, uint256 entropy) external onlySelf {
        uint256 i = who % _accounts.length;
        for (uint256 tries = 0; tries < _accounts.length && !isOwed(_accounts[i]); ++tries) i = (i + 1) % _accounts.length;
        if (entropy % 4 != 0) return claimFor(_accounts[i]);
        uint256 before = claimed;
        for (i = 0; i < _accounts.length; ++i) {
            (uint256 had, uint256 took) = vault.earningsOf(pool, _accounts[i]);
            claimed += had - took;
        }
        note("V8", vault.claimMany(pool, _accounts) == claimed - before);
        did("claimMany");
    }

    function burn(uint256, uint256) external onlySelf {
        burnAll();
    }

    // -- the end

    /// Drives all to its end, with calls that anyone, the owner, or the provider of the money can make.
    function unwind() external {
        inTime();
        if (registry.isPaused(pool)) skip(3 days);
        while (ledger.settledCountOf(pool) < ledger.stepCountOf(pool)) settleFirst();
        while (_open.length != 0) resolveLast();
        for (uint256 i = 0; i < _plans.length; ++i) {
            if (_plans[i].isSettled) continue;
            settlePlan(i);
            look();
        }
        leaveAll();
        for (uint256 i = 0; i < _accounts.length; ++i) {
            takeAll(_accounts[i]);
            if (isOwed(_accounts[i])) claimFor(_accounts[i]);
        }
        look();
        sweep(pool);
        sweep(other);
        look();
        if (stakes.burnable() != 0) burnAll();
        look();
    }

    function settleFirst() private {
        uint32 step = ledger.settledCountOf(pool);
        StepState memory state = ledger.stepOf(pool, step);
        if (state.phase == Phase.Open) {
            sealSeed(step);
        } else if (state.phase == Phase.Seeded) {
            cancel(step);
        } else if (state.phase == Phase.Committed) {
            reach(ledger.auditFrom(pool, step));
            sealAudit(step);
        } else {
            (,, uint64 until, bool wasRedrawn) = panel.panelTimesOf(pool, step);
            reach(until);
            if (!wasRedrawn && countRevealed(step) < registry.panelRulesOf(pool).quorum) redraw(step);
            else settle(step);
        }
        look();
    }

    function resolveLast() private {
        CaseId id = _open[_open.length - 1];
        if (court.caseOf(id).phase == CasePhase.Opened) seatJury(id);
        else resolve(id);
        look();
    }

    function leaveAll() private {
        for (uint256 i = 0; i < 16; ++i) {
            leavePool(pool, pick(i));
            leavePool(other, pick(i));
        }
        skip(1_000);
        while (_exits.length != 0) {
            finishExit(_exits.length - 1);
            look();
        }
    }

    function leavePool(PoolId p, address provider) private {
        (, uint256 shares, uint256 exiting) = stakes.positionOf(p, _roles[provider], provider);
        if (shares != exiting) exitFrom(p, provider, shares - exiting);
    }

    function takeAll(address account) private {
        uint256 idle = stakes.idleOf(account);
        if (idle == 0) return;
        vm.prank(stakes.controllerOf(account));
        stakes.withdraw(idle);
    }

    function sweep(PoolId p) private {
        if (registry.isOpen(p)) {
            vm.prank(registry.ownerOf(p));
            registry.closePool(p);
        }
        (uint256 free,, uint256 locked) = vault.escrowOf(p);
        if (free + locked != 0) drainFree(p, free);
    }

    // -- what the invariants read

    function chain() external view returns (address[8] memory) {
        return [
            address(token),
            address(stakes),
            address(registry),
            address(ledger),
            address(vault),
            address(court),
            address(panel),
            address(plants)
        ];
    }

    function pools() external view returns (PoolId, PoolId) {
        return (pool, other);
    }

    function providers() external view returns (address[] memory list, Role[] memory roles) {
        list = new address[](16);
        roles = new Role[](16);
        for (uint256 i = 0; i < 16; ++i) (list[i], roles[i]) = (pick(i), _roles[pick(i)]);
    }

    function accounts() external view returns (address[] memory) {
        return _accounts;
    }

    function now_() external view returns (uint256) {
        return clock;
    }

    function openCases() external view returns (CaseId[] memory) {
        return _open;
    }

    function juryIn(CaseId id, uint256 round) external view returns (address[] memory) {
        return _juries[id][round];
    }

    function pendingExits() external view returns (Leave[] memory) {
        return _exits;
    }

    function plansOf() external view returns (Plan[] memory) {
        return _plans;
    }

    function tablesOf(uint32 step) external view returns (PayTable memory table, bool isHostile) {
        return (_tables[step], _isHostile[step]);
    }

    /// Brings the time along: each call may run in a fresh environment.
    function inTime() public {
        vm.warp(clock);
        vm.roll(height);
    }

    // -- inside: the founding

    function variantTerms() private view returns (PoolTerms memory t) {
        t = terms();
        t.windows.takeSeconds = 30;
        t.work.payCapBps = 10_000;
        t.faults.slashWindowSeconds = 300;
        t.panel.maxAbsences = 2;
        if (variant == 1) {
            // Panels work for nothing, and nothing is taken on chain.
            (t.fees.panelFee, t.fees.jurorFee, t.fees.sealFee, t.fees.leaseBond) = (0, 1, 0, 0);
            (t.work.reservedSlots, t.windows.takeSeconds) = (0, 0);
            (t.panel.panelSize, t.panel.quorum, t.panel.jurySize) = (5, 3, 1);
            t.faults.rewardBps = 0;
        } else if (variant == 2) {
            // One judge; most offences take everything.
            (t.panel.panelSize, t.panel.quorum) = (1, 1);
            (t.faults.faultSlashBps, t.faults.statisticsSlashBps, t.faults.maxSlashBps) = (10_000, 10_000, 10_000);
            (t.faults.silenceSlashBps, t.faults.wrongVoteSlashBps) = (5_000, 10_000);
            t.faults.rewardBps = 5_000;
            t.work.payCapBps = 3_000;
        } else if (variant == 3) {
            // One step at a time; nobody pauses; work is paid by the group.
            (t.parties.pauser, t.parties.unpauser) = (address(0), address(0));
            t.work.maxOpenSteps = 1;
            t.offer.pricePerToken = 0;
            (t.panel.panelSize, t.panel.quorum) = (4, 3);
            t.faults.silenceSlashBps = 0;
            t.panel.maxAbsences = 1;
        }
    }

    function admit(address provider, Role role, bool hasNode, bool hasSecondKey) private {
        _roles[provider] = role;
        enter(provider, role, STAKE);
        _accounts.push(provider);
        if (hasSecondKey) _accounts.push(secondKey(provider));
        if (!hasNode) return;
        _nodeKeys[provider] = NODE_KEY + uint160(provider);
        _nodes[provider] = vm.addr(_nodeKeys[provider]);
        _accounts.push(_nodes[provider]);
        join(provider);
    }

    function join(address provider) private {
        address key = stakes.controllerOf(provider);
        uint256 deadline = clock + 1 + plays % 1_000;
        bytes memory signature = consent(_nodeKeys[provider], provider, deadline);
        vm.prank(key);
        stakes.addNode(_nodes[provider], deadline, signature);
    }

    function secondKey(address provider) private pure returns (address) {
        return address(uint160(provider) + SECOND_KEY);
    }

    // -- inside: choices

    function pick(uint256 who) private view returns (address) {
        who %= 16;
        return who < 4 ? workers[who] : validators[who - 4];
    }

    /// An account that acts for a provider: its node, or its controller.
    function voice(address provider, uint256 random) private view returns (address) {
        address node = _nodes[provider];
        if (random % 2 == 0 && stakes.providerOf(node) == provider) return node;
        return stakes.controllerOf(provider);
    }

    function somebody(uint256 random) private view returns (address) {
        if (random % 3 == 0) return STRANGER;
        if (random % 3 == 1) return voice(pick(random >> 8), random >> 16);
        return pick(random >> 8);
    }

    function chooseUnsettled(uint256 which) private view returns (uint32) {
        uint32 settled = ledger.settledCountOf(pool);
        uint32 open = ledger.stepCountOf(pool) - settled;
        require(open != 0, "all settled");
        return which % 2 == 0 ? settled + uint32((which >> 8) % open) : settled;
    }

    /// A slot with a leaf.
    function chooseLeaf(uint32 step, uint256 which) private view returns (uint32) {
        StepState memory state = ledger.stepOf(pool, step);
        uint32 count = state.slots + state.taken;
        uint32 slot = uint32(which % count);
        for (uint32 i = 0; i < count; ++i) {
            if (_hasLeaf[step][slot]) return slot;
            slot = (slot + 1) % count;
        }
        revert("no leaf");
    }

    function coordinatorKey(uint32 offer) private view returns (uint256) {
        return registry.offerOf(pool, offer).coordinator == coordinator ? COORDINATOR_KEY : SECOND_COORDINATOR_KEY;
    }

    // -- inside: time

    function reach(uint256 time) private {
        uint256 time_ = registry.clockOf(pool);
        if (time > time_) skip(time - time_);
    }

    /// Makes a block past whose hash somebody waits for. The environment of an earlier call may be gone.
    function recall(uint256 blockNumber) private {
        if (height <= blockNumber) mine(blockNumber + 1 - height);
        if (height - blockNumber <= 256) vm.setBlockhash(blockNumber, keccak256(abi.encode("block", blockNumber)));
    }

    // -- inside: a step up to its root

    function sealSeed(uint32 step) private {
        StepState memory state = ledger.stepOf(pool, step);
        recall(state.seedBlock);
        uint256 free = freeMoney();
        ledger.sealSeedBeacon(pool, step);
        afterSeal(step, free, ledger.stepOf(pool, step).phase == Phase.Seeded, "sealSeed", "seed lapsed");
    }

    function afterSeal(uint32 step, uint256 free, bool isDone, bytes32 name, bytes32 failure) private {
        if (isDone) {
            earn(address(this), registry.feesOf(pool).sealFee);
            givenAway[step] += registry.feesOf(pool).sealFee;
            return did(name);
        }
        uint256 slotCap = ledger.ratesOf(pool, step).slotCap;
        _mustLock += slotCap < free ? slotCap : free;
        did(failure);
    }

    function collect(uint32 step, uint256 entropy) private {
        StepState memory state = ledger.stepOf(pool, step);
        uint256 kind = entropy % 12;
        entropy >>= 8;
        bool isLate = registry.clockOf(pool) >= state.seededAt + 80;
        if (isLate || kind == 0 || (kind < 4 && state.taken != 0)) cancel(step);
        else if (kind < 7) take(step, entropy);
        else commitRandom(step, entropy);
    }

    function cancel(uint32 step) private {
        StepState memory state = ledger.stepOf(pool, step);
        reach(state.seededAt + 80);
        uint256 free = freeMoney();
        uint256 bond = ledger.ratesOf(pool, step).slotCap;
        for (uint32 slot = state.slots; slot < state.slots + state.taken; ++slot) {
            TakenSlot memory taken = ledger.takenSlotOf(pool, step, slot);
            if (taken.leafHash == bytes32(0)) {
                refund(taken.provider, bond);
                did("taken slot refunded");
            }
        }
        ledger.cancelStep(pool, step);
        toFree[step] += freeMoney() - free;
        _mayFree = true;
        note("V11", vault.reservationOf(pool, step) == 0);
        did("cancel");
    }

    /// Takes a slot on chain; mostly its beacon is sealed and its work delivered.
    function take(uint32 step, uint256 random) private {
        if (random % 2 == 0 && ledger.stepOf(pool, step).taken != 0) return deliverAny(step, random >> 8);
        address worker = workers[random % workers.length];
        address key = voice(worker, random >> 8);
        takeFrom(key, ledger.ratesOf(pool, step).slotCap);
        vm.prank(key);
        uint32 slot = ledger.takeSlot(pool, step);
        did("takeSlot");
        if ((random >> 16) % 4 == 0) return;
        sealTaken(step, slot);
        if ((random >> 16) % 4 == 1) return;
        deliver(step, slot, worker, random >> 24);
    }

    function sealTaken(uint32 step, uint32 slot) private {
        recall(ledger.takenSlotOf(pool, step, slot).beaconBlock);
        ledger.sealTakenSlot(pool, step, slot);
        did("sealTaken");
    }

    /// Of a slot that was taken before.
    function deliverAny(uint32 step, uint256 random) private {
        StepState memory state = ledger.stepOf(pool, step);
        uint32 slot = state.slots + uint32(random % state.taken);
        TakenSlot memory taken = ledger.takenSlotOf(pool, step, slot);
        if (taken.beacon == bytes32(0)) sealTaken(step, slot);
        deliver(step, slot, taken.provider, random >> 8);
        did("late delivery");
    }

    function deliver(uint32 step, uint32 slot, address worker, uint256 random) private {
        Submission memory leaf = makeLeaf(step, slot, worker, random);
        leaf.leaseHash = keccak256(
            abi.encode(keccak256("stannary.taken.v1"), block.chainid, address(ledger), pool, step, slot, worker)
        );
        ledger.deliverTaken(pool, step, leaf, sign(_nodeKeys[worker], ledger.submissionDigest(leaf)), "here");
        _leaves[step][slot] = leaf;
        _hasLeaf[step][slot] = true;
        refund(worker, ledger.ratesOf(pool, step).slotCap);
        did("deliver");
    }

    function makeLeaf(uint32 step, uint32 slot, address provider, uint256 random) private view returns (Submission memory) {
        return Submission({
            pool: pool,
            step: step,
            slot: slot,
            provider: provider,
            node: _nodes[provider],
            units: uint32(random % 201),
            contentHash: bytes32(random),
            leaseHash: keccak256(abi.encode(step, slot, random))
        });
    }

    function makeLease(uint32 step, uint32 slot, address provider) private view returns (Lease memory) {
        return Lease({
            pool: pool,
            step: step,
            policyStep: 0,
            slot: slot,
            provider: provider,
            node: _nodes[provider],
            validFrom: uint64(clock),
            validUntil: uint64(clock) + 20,
            maxUnits: 200,
            cardHash: keccak256("card"),
            protocolVersion: 1
        });
    }

    function commitRandom(uint32 step, uint256 entropy) private {
        StepState memory state = ledger.stepOf(pool, step);
        for (uint32 slot = 0; slot < state.slots; ++slot) {
            uint256 random = uint256(keccak256(abi.encode(entropy, slot)));
            if (slot != 0 && random % 4 == 0 && !_isPlanned[step][slot]) {
                _words[step].push(bytes32(0));
                continue;
            }
            if (!_isPlanned[step][slot]) {
                _leaves[step][slot] = makeLeaf(step, slot, workers[(random >> 8) % 4], random >> 16);
            }
            _hasLeaf[step][slot] = true;
            _words[step].push(ledger.leafHash(_leaves[step][slot]));
        }
        PayTable memory table = canonical(step, state.slots);
        if (entropy % 6 == 0) {
            table = spoil(table, state.slots, entropy >> 8);
            _isHostile[step] = true;
            did("hostile table");
        }
        _tables[step] = table;
        bytes32 root = Trees.root(_words[step]);
        vm.prank(registry.offerOf(pool, state.offer).coordinator);
        ledger.commitRoot(pool, step, root, keccak256("slots"), table);
        did("commitRoot");
    }

    /// The one table that the leaves allow.
    function canonical(uint32 step, uint32 slots) private view returns (PayTable memory table) {
        table.words = new uint256[]((slots + 4) / 5);
        uint256[4] memory totals;
        for (uint32 slot = 0; slot < slots; ++slot) {
            if (_hasLeaf[step][slot]) totals[numberOf(_leaves[step][slot].provider)] += GROUP + _leaves[step][slot].units;
        }
        uint256[4] memory places;
        uint256 count = 0;
        for (uint256 i = 0; i < 4; ++i) {
            if (totals[i] != 0) places[i] = ++count;
        }
        table.providers = new address[](count);
        table.totals = new uint256[](count);
        for (uint256 i = 0; i < 4; ++i) {
            if (places[i] == 0) continue;
            table.providers[places[i] - 1] = workers[i];
            table.totals[places[i] - 1] = totals[i];
        }
        for (uint32 slot = 0; slot < slots; ++slot) {
            if (!_hasLeaf[step][slot]) continue;
            setEntry(table, slot, places[numberOf(_leaves[step][slot].provider)], _leaves[step][slot].units);
        }
    }

    function numberOf(address worker) private view returns (uint256) {
        return uint160(worker) - uint160(workers[0]);
    }

    function setEntry(PayTable memory table, uint256 slot, uint256 place, uint256 units) private pure {
        uint256 shift = 48 * (slot % 5);
        uint256 mask = ~(uint256(type(uint48).max) << shift);
        table.words[slot / 5] = (table.words[slot / 5] & mask) | ((place | (units << 16)) << shift);
    }

    function getEntry(PayTable memory table, uint256 slot) private pure returns (uint256 place, uint256 units) {
        uint256 entry = table.words[slot / 5] >> (48 * (slot % 5));
        return (entry & type(uint16).max, (entry >> 16) & type(uint32).max);
    }

    /// A table that is not that of the leaves.
    function spoil(PayTable memory table, uint32 slots, uint256 random) private view returns (PayTable memory) {
        uint256 kind = random % 14;
        uint256 slot = (random >> 8) % slots;
        if (kind == 0) {
            setEntry(table, slot, 0, 0);
        } else if (kind == 1) {
            for (uint256 i = 0; i < slots; ++i) setEntry(table, i, 1, type(uint32).max);
        } else if (kind == 2) {
            setEntry(table, slot, type(uint16).max, 7);
        } else if (kind == 3) {
            for (uint256 i = 0; i < table.words.length; ++i) table.words[i] = type(uint256).max;
        } else if (kind == 4) {
            return doubled(table, slot);
        } else if (kind == 5) {
            table.providers[0] = random % 2 == 0 ? STRANGER : validators[0];
        } else if (kind == 6) {
            table.providers[0] = address(0);
        } else if (kind == 7) {
            table.words[table.words.length - 1] |= uint256(1) << 252;
            if (slots % 5 != 0) setEntry(table, slots, 1, 100);
        } else if (kind == 8) {
            table.totals[0] += GROUP;
        } else if (kind == 9) {
            table.totals[0] |= GROUP - 1;
        } else if (kind == 10) {
            table.totals[0] = 0;
        } else if (kind == 11) {
            table.totals[0] = type(uint256).max;
        } else {
            (uint256 place, uint256 units) = getEntry(table, slot);
            if (kind == 12 && place != 0) table.totals[place - 1] += 5_000 - units;
            if (place != 0) setEntry(table, slot, place, 5_000);
        }
        return table;
    }

    /// Each provider twice; the leaf of one slot is counted at the second place.
    function doubled(PayTable memory table, uint256 slot) private pure returns (PayTable memory longer) {
        uint256 count = table.providers.length;
        longer.providers = new address[](2 * count);
        longer.totals = new uint256[](2 * count);
        longer.words = table.words;
        for (uint256 i = 0; i < count; ++i) {
            (longer.providers[i], longer.providers[count + i]) = (table.providers[i], table.providers[i]);
            longer.totals[i] = table.totals[i];
        }
        (uint256 place, uint256 units) = getEntry(table, slot);
        if (place == 0) return longer;
        longer.totals[place - 1] -= GROUP + units;
        longer.totals[count + place - 1] += GROUP + units;
        setEntry(longer, slot, count + place, units);
    }

    function openingOf(uint32 step, uint32 slot) private view returns (LeafOpening memory opening_) {
        opening_.leaf = _leaves[step][slot];
        if (slot < _words[step].length) opening_.proof = Trees.proof(_words[step], slot);
    }

    // -- inside: the panel

    function sealAudit(uint32 step) private {
        StepState memory state = ledger.stepOf(pool, step);
        uint256 free = freeMoney();
        if (state.auditBlock != 0) recall(state.auditBlock);
        bool isFirst = state.auditBlock == 0;
        panel.sealAuditBeacon(pool, step);
        note("L4", registry.clockOf(pool) >= ledger.auditFrom(pool, step));
        if (isFirst) return did("audit block");
        afterSeal(step, free, ledger.stepOf(pool, step).phase == Phase.Audited, "sealAudit", "audit lapsed");
    }

    function judgeStep(uint32 step, uint256 entropy) private {
        (uint64 commitUntil, uint64 revealFrom, uint64 revealUntil, bool wasRedrawn) = panel.panelTimesOf(pool, step);
        uint64 time = registry.clockOf(pool);
        if (time < commitUntil && time < revealFrom && entropy % 16 != 0) {
            commitVotes(step, entropy >> 8);
            if (entropy % 2 == 1) return;
            (, revealFrom,,) = panel.panelTimesOf(pool, step);
            return revealVotes(step, revealFrom, entropy >> 16);
        }
        if (time < revealUntil && entropy % 16 != 1) return revealVotes(step, revealFrom, entropy >> 8);
        reach(revealUntil);
        uint256 revealed = countRevealed(step);
        if (!wasRedrawn && revealed < registry.panelRulesOf(pool).quorum) return redraw(step);
        if (entropy % 2 == 0 && registry.clockOf(pool) < revealUntil + 30) return openCase(step, entropy >> 8);
        settle(step);
    }

    function commitVotes(uint32 step, uint256 entropy) private {
        address[] memory members = panel.panelOf(pool, step);
        for (uint256 i = 0; i < members.length; ++i) {
            (bool isCommitted,,) = panel.ballotOf(pool, step, members[i]);
            uint256 random = uint256(keccak256(abi.encode(entropy, i)));
            if (isCommitted || random % 8 == 0) continue;
            bytes memory outcomes = thinkOf(step, random >> 8);
            bytes32 commitment = commitmentOf(step, members[i], outcomes);
            address key = voice(members[i], random >> 64);
            if (stakes.providerOf(key) != members[i]) continue;
            vm.prank(key);
            panel.commitVote(pool, step, commitment);
            _ballots[step][members[i]] = outcomes;
            did("commitVote");
        }
    }

    function revealVotes(uint32 step, uint64 from, uint256 entropy) private {
        reach(from);
        address[] memory members = panel.panelOf(pool, step);
        for (uint256 i = 0; i < members.length; ++i) {
            (bool isCommitted, bool isRevealed,) = panel.ballotOf(pool, step, members[i]);
            if (!isCommitted || isRevealed || uint256(keccak256(abi.encode(entropy, i))) % 8 == 0) continue;
            panel.revealVote(
                pool,
                step,
                members[i],
                _ballots[step][members[i]],
                keccak256("verdicts"),
                keccak256("evidence"),
                keccak256("salt")
            );
            did("revealVote");
        }
    }

    /// What a member thinks of a step: mostly what all others do, or no quorum would form.
    function thinkOf(uint32 step, uint256 random) private view returns (bytes memory) {
        StepState memory state = ledger.stepOf(pool, step);
        Outcome[] memory outcomes = new Outcome[](state.slots + state.taken);
        if (random % 12 == 0) return pack(outcomes);
        for (uint32 slot = 0; slot < outcomes.length; ++slot) {
            bool isWild = random % 12 == 1;
            uint256 truth = uint256(keccak256(abi.encode(step, slot, isWild ? random : 0))) % 8;
            // Whoever looks finds a plant.
            if (_isPlanned[step][slot]) truth = random % 4 == 0 ? 0 : 4;
            if (!_hasLeaf[step][slot] && !isWild) continue;
            outcomes[slot] = truth < 4 ? Outcome.Accept : truth < 6 ? Outcome.Fault : Outcome(2 * (truth - 6));
        }
        return pack(outcomes);
    }

    function redraw(uint32 step) private {
        address[] memory members = panel.panelOf(pool, step);
        uint256 bps = registry.faultTableOf(pool).silenceSlashBps;
        for (uint256 i = 0; i < members.length; ++i) {
            (, bool isRevealed,) = panel.ballotOf(pool, step, members[i]);
            if (!isRevealed) owe(members[i], bps, 0);
        }
        panel.redrawPanel(pool, step);
        address[] memory seated = panel.panelOf(pool, step);
        address[] memory dismissed = panel.dismissedOf(pool, step);
        note("P5", disjoint(seated, dismissed));
        did("redraw");
    }

    function countRevealed(uint32 step) private view returns (uint256 count) {
        address[] memory members = panel.panelOf(pool, step);
        for (uint256 i = 0; i < members.length; ++i) {
            (, bool isRevealed,) = panel.ballotOf(pool, step, members[i]);
            if (isRevealed) ++count;
        }
    }

    /// What was revealed, seat by seat.
    function revealedVotes(uint32 step) private view returns (bytes[] memory votes) {
        address[] memory members = panel.panelOf(pool, step);
        votes = new bytes[](members.length);
        for (uint256 i = 0; i < members.length; ++i) {
            (, bool isRevealed,) = panel.ballotOf(pool, step, members[i]);
            if (isRevealed) votes[i] = _ballots[step][members[i]];
        }
    }

    function said(bytes memory vote, uint256 slot) private pure returns (Outcome) {
        return Outcome((uint8(vote[slot / 4]) >> (2 * (slot % 4))) & 3);
    }

    /// Counts the votes on one slot.
    function decide(bytes[] memory votes, uint256 slot) private view returns (Outcome) {
        uint256[4] memory counts;
        for (uint256 i = 0; i < votes.length; ++i) {
            if (votes[i].length != 0) ++counts[uint256(said(votes[i], slot))];
        }
        uint256 quorum = registry.panelRulesOf(pool).quorum;
        if (counts[1] >= quorum) return Outcome.Accept;
        if (counts[3] >= quorum) return Outcome.Fault;
        return counts[2] + counts[3] >= quorum ? Outcome.Reject : Outcome.Abstain;
    }

    function outcomeOf(uint32 step, uint32 slot) private view returns (Outcome) {
        return _outcomes[step].length == 0 ? Outcome.Abstain : said(_outcomes[step], slot);
    }

    // -- inside: the settlement of a step, slot by slot

    function settle(uint32 step) private {
        (,, uint64 until,) = panel.panelTimesOf(pool, step);
        reach(until + 30);
        StepState memory state = ledger.stepOf(pool, step);
        bytes[] memory votes = revealedVotes(step);
        expectSettlement(step, state, votes);
        expectFees(step, votes);
        expectAbsences(step, votes);
        uint256 free = freeMoney();
        panel.finalize(pool, step, votes, _tables[step]);
        toFree[step] += freeMoney() - free;
        _mayFree = true;
        note("P4", ledger.stepOf(pool, step).settlementHash == keccak256(_outcomes[step]));
        did("finalize");
    }

    function expectSettlement(uint32 step, StepState memory state, bytes[] memory votes) private {
        Outcome[] memory outcomes = new Outcome[](state.slots + state.taken);
        for (uint32 slot = 0; slot < outcomes.length; ++slot) outcomes[slot] = decide(votes, slot);
        _outcomes[step] = pack(outcomes);
        PayTable memory table = _tables[step];
        Sums memory sums = sumsOf(table);
        uint256 slotCap = ledger.ratesOf(pool, step).slotCap;
        sumTree(step, state.slots, slotCap, table, sums);
        for (uint32 slot = state.slots; slot < outcomes.length; ++slot) sumTaken(step, slot, slotCap, table, sums);
        uint256 groups = 0;
        for (uint256 i = 0; i < sums.groups.length; ++i) {
            groups += sums.groups[i];
            if (sums.groups[i] != 0) expectWage(step, state, table, sums, i);
        }
        note("V2", groups <= sums.accepted);
    }

    /// What the table says that each provider delivered, and places for four takers of slots.
    function sumsOf(PayTable memory table) private pure returns (Sums memory sums) {
        uint256 count = table.providers.length;
        sums.groups = new uint256[](count + 4);
        sums.units = new uint256[](count + 4);
        for (uint256 i = 0; i < count; ++i) {
            (sums.groups[i], sums.units[i]) = (table.totals[i] / GROUP, table.totals[i] % GROUP);
        }
    }

    /// Takes off what was not accepted. A table that cannot be true pays nobody and locks all that it is about.
    function sumTree(uint32 step, uint32 slots, uint256 slotCap, PayTable memory table, Sums memory sums) private {
        bool isTrue = true;
        uint256 unpaid = 0;
        uint256 free = 0; // slots that no case is about
        for (uint32 slot = 0; slot < slots; ++slot) {
            bool isHeld = panel.isHeld(pool, step, slot);
            if (!isHeld) ++free;
            if (!isHeld && outcomeOf(step, slot) == Outcome.Accept) {
                ++sums.accepted;
                continue;
            }
            (uint256 place, uint256 units) = getEntry(table, slot);
            if (place == 0) continue;
            if (!isHeld) ++unpaid;
            isTrue = isTrue && takeOff(table.providers.length, place, units, sums);
        }
        if (isTrue && canBe(sums)) {
            _mustLock += unpaid * slotCap;
            return recordPaid(step, slots, table);
        }
        for (uint256 i = 0; i < sums.groups.length; ++i) (sums.groups[i], sums.units[i]) = (0, 0);
        _mustLock += free * slotCap;
        did("false table");
    }

    /// Whether what is left are no more groups than the accepted slots can hold.
    function canBe(Sums memory sums) private pure returns (bool) {
        uint256 groups = 0;
        for (uint256 i = 0; i < sums.groups.length; ++i) groups += sums.groups[i];
        return groups <= sums.accepted;
    }

    function takeOff(uint256 count, uint256 place, uint256 units, Sums memory sums) private pure returns (bool) {
        if (place > count || sums.groups[place - 1] == 0 || sums.units[place - 1] < units) return false;
        --sums.groups[place - 1];
        sums.units[place - 1] -= units;
        return true;
    }

    function recordPaid(uint32 step, uint32 slots, PayTable memory table) private {
        Rates memory rates = ledger.ratesOf(pool, step);
        for (uint32 slot = 0; slot < slots; ++slot) {
            (uint256 place, uint256 units) = getEntry(table, slot);
            if (place == 0 || panel.isHeld(pool, step, slot) || outcomeOf(step, slot) != Outcome.Accept) continue;
            ++paid[step][slot];
            paidAmount[step][slot] += priceOf(rates, units);
        }
    }

    function sumTaken(uint32 step, uint32 slot, uint256 slotCap, PayTable memory table, Sums memory sums) private {
        TakenSlot memory taken = ledger.takenSlotOf(pool, step, slot);
        if (taken.leafHash == bytes32(0)) {
            forfeit(slotCap);
            return did("taken slot forfeited");
        }
        if (panel.isHeld(pool, step, slot)) return;
        if (outcomeOf(step, slot) != Outcome.Accept) {
            _mustLock += slotCap;
            return;
        }
        uint256 count = table.providers.length;
        uint256 i = 0;
        while (i < count && table.providers[i] != taken.provider) ++i;
        if (i == count) i += numberOf(taken.provider);
        ++sums.accepted;
        ++sums.groups[i];
        sums.units[i] += taken.units < 200 ? taken.units : 200;
        ++paid[step][slot];
        paidAmount[step][slot] += priceOf(ledger.ratesOf(pool, step), taken.units);
        did("taken slot accepted");
    }

    function priceOf(Rates memory rates, uint256 units) private pure returns (uint256) {
        return rates.pricePerGroup + rates.pricePerToken * (units < 200 ? units : 200);
    }

    function expectWage(uint32 step, StepState memory state, PayTable memory table, Sums memory sums, uint256 i) private {
        Rates memory rates = ledger.ratesOf(pool, step);
        uint256 count = table.providers.length;
        address worker = i < count ? table.providers[i] : workers[i - count];
        uint256 units = sums.units[i] < 200 * sums.groups[i] ? sums.units[i] : 200 * sums.groups[i];
        uint256 owed = sums.groups[i] * rates.pricePerGroup + units * rates.pricePerToken;
        uint256 cap = payCapOf(state.openedBlock - 1, rates, worker);
        uint256 wage = owed < cap ? owed : cap;
        earn(worker, wage);
        wages[step][worker] += wage;
        if (owed > cap) did("pay cap");
        _mustLock += owed - wage;
        did("wage");
    }

    function payCapOf(uint256 blockNumber, Rates memory rates, address worker) private view returns (uint256) {
        return (stakes.activeStakeAt(pool, Role.Worker, worker, blockNumber) * rates.payCapBps) / BPS;
    }

    function expectFees(uint32 step, bytes[] memory votes) private {
        address[] memory members = panel.panelOf(pool, step);
        uint256 fee = registry.feesOf(pool).panelFee;
        uint256 bps = registry.faultTableOf(pool).silenceSlashBps;
        for (uint256 i = 0; i < members.length; ++i) {
            if (votes[i].length == 0) {
                owe(members[i], bps, 0);
                did("silent member");
            } else {
                earn(members[i], fee);
            }
        }
    }

    /// Who abstains on more than half of what the others decide was absent.
    function expectAbsences(uint32 step, bytes[] memory votes) private {
        address[] memory members = panel.panelOf(pool, step);
        StepState memory state = ledger.stepOf(pool, step);
        for (uint256 i = 0; i < members.length; ++i) {
            if (votes[i].length == 0) continue;
            uint256 decided = 0;
            uint256 missed = 0;
            for (uint32 slot = 0; slot < state.slots + state.taken; ++slot) {
                if (outcomeOf(step, slot) == Outcome.Abstain) continue;
                ++decided;
                if (said(votes[i], slot) == Outcome.Abstain) ++missed;
            }
            if (2 * missed > decided) countAbsence(members[i]);
        }
    }

    function countAbsence(address member) private {
        (, uint256 shares,) = stakes.positionOf(pool, Role.Validator, member);
        if (shares == 0) return;
        Window storage window = openWindow(member);
        if (++window.absences >= registry.panelRulesOf(pool).maxAbsences) {
            suspend(window);
            did("absent too often");
        }
    }

    // -- inside: plants

    function settlePlan(uint256 i) private {
        Plan memory plan = _plans[i];
        (uint32 step, uint32 slot) = (plan.step, plan.slot);
        bytes[] memory votes = revealedVotes(step);
        bool isCancelled = ledger.stepOf(pool, step).phase == Phase.Cancelled;
        bool isFault = plants.isPlant(ledger.leafHash(_leaves[step][slot]));
        if (isFault) isFault = lastWord(step, slot) == Outcome.Fault;
        if (isFault && !isJudged(step, slot)) expectLazy(plan, votes);
        if (isFault || isCancelled) refund(plan.planter, plan.bond);
        else forfeit(plan.bond);
        plants.settlePlant(plan.commitment, votes, _outcomes[step]);
        _plans[i].isSettled = true;
        did(isCancelled ? bytes32("plant cancelled") : isFault ? bytes32("plant found") : bytes32("plant lost"));
    }

    /// What is true of a slot once all cases are over.
    function lastWord(uint32 step, uint32 slot) private view returns (Outcome) {
        if (!panel.isHeld(pool, step, slot)) return outcomeOf(step, slot);
        return court.caseOf(court.caseOfSlot(pool, step, slot)).outcome;
    }

    /// Whether a jury found out, and fined those who were wrong.
    function isJudged(uint32 step, uint32 slot) private view returns (bool) {
        if (!panel.isHeld(pool, step, slot)) return false;
        return court.caseOf(court.caseOfSlot(pool, step, slot)).ruling != Ruling.Unavailable;
    }

    function expectLazy(Plan memory plan, bytes[] memory votes) private {
        address[] memory members = panel.panelOf(pool, plan.step);
        uint256 bps = registry.faultTableOf(pool).plantSlashBps;
        for (uint256 i = 0; i < members.length; ++i) {
            if (votes[i].length == 0 || said(votes[i], plan.slot) != Outcome.Accept) continue;
            owe(members[i], bps, registry.faultTableOf(pool).rewardBps);
            did("lazy vote");
        }
    }

    // -- inside: cases

    function openCase(uint32 step, uint256 entropy) private {
        uint32 slot = chooseLeaf(step, entropy);
        bytes[] memory votes = revealedVotes(step);
        bool isChallenge = decide(votes, slot) == Outcome.Accept;
        if (entropy % 16 == 0) isChallenge = !isChallenge;
        address disputant = somebody(entropy >> 8);
        LeafOpening memory opening_ = openingOf(step, slot);
        takeFrom(disputant, court.bondOf(pool));
        CaseId id = isChallenge
            ? challenge(disputant, step, opening_, votes)
            : appealFor(disputant, step, opening_, votes);
        note("D2", entropy % 16 != 0);
        _open.push(id);
        ++cases[step][slot];
        ++holds[opening_.leaf.provider];
        address[] memory members = panel.panelOf(pool, step);
        for (uint256 i = 0; i < members.length; ++i) ++holds[members[i]];
        hasCase[step] = true;
        did(isChallenge ? bytes32("challenge") : bytes32("appeal"));
    }

    function challenge(address disputant, uint32 step, LeafOpening memory opening_, bytes[] memory votes)
        private
        returns (CaseId)
    {
        vm.prank(disputant);
        return court.challenge(pool, step, opening_, votes, bytes32(0), "here");
    }

    function appealFor(address disputant, uint32 step, LeafOpening memory opening_, bytes[] memory votes)
        private
        returns (CaseId)
    {
        vm.prank(disputant);
        return court.appeal(pool, step, opening_, votes, bytes32(0), "here");
    }

    function seatJury(CaseId id) private {
        IDisputeCourt.Case memory c = court.caseOf(id);
        recall(c.juryBlock);
        court.drawJury(id);
        if (court.caseOf(id).phase != CasePhase.Voting) return did("jury lapsed");
        address[] memory jury = court.juryOf(id);
        _juries[id][c.round] = jury;
        for (uint256 i = 0; i < jury.length; ++i) ++holds[jury[i]];
        note("D1", isApart(id, c, jury));
        did("seatJury");
    }

    /// Whether a jury is disjoint from all that judged before, and shares no purse with a party.
    function isApart(CaseId id, IDisputeCourt.Case memory c, address[] memory jury) private view returns (bool) {
        for (uint256 round = 0; round < c.round; ++round) {
            if (!disjoint(jury, _juries[id][round])) return false;
        }
        if (c.kind != CaseKind.Statistics) {
            if (!disjoint(jury, panel.panelOf(pool, c.step))) return false;
            if (!disjoint(jury, panel.dismissedOf(pool, c.step))) return false;
        }
        for (uint256 i = 0; i < jury.length; ++i) {
            if (isParty(jury[i], c.provider) || isParty(jury[i], c.disputant)) return false;
            if (c.appellant != address(0) && isParty(jury[i], c.appellant)) return false;
        }
        return true;
    }

    function isParty(address juror, address party) private view returns (bool) {
        address provider = stakes.providerOf(party);
        if (provider == address(0)) provider = party;
        return juror == provider || stakes.payeeOf(pool, juror) == stakes.payeeOf(pool, provider);
    }

    function disjoint(address[] memory a, address[] memory b) private pure returns (bool) {
        for (uint256 i = 0; i < a.length; ++i) {
            for (uint256 j = 0; j < b.length; ++j) {
                if (a[i] == b[j]) return false;
            }
        }
        return true;
    }

    function countCommitted(CaseId id, uint256 round) private view returns (uint256 count) {
        address[] memory jury = _juries[id][round];
        for (uint256 i = 0; i < jury.length; ++i) {
            (bool isCommitted,,) = court.rulingOf(id, jury[i]);
            if (isCommitted) ++count;
        }
    }

    function sayRulings(CaseId id, uint256 round, uint256 entropy) private {
        address[] memory jury = _juries[id][round];
        for (uint256 i = 0; i < jury.length; ++i) {
            (bool isCommitted,,) = court.rulingOf(id, jury[i]);
            uint256 random = uint256(keccak256(abi.encode(entropy, i)));
            if (isCommitted || random % 12 == 0) continue;
            Ruling ruling = (random >> 8) % 12 == 0 ? Ruling((random >> 16) % 6) : mind(id, round);
            bytes32 commitment = court.jurorCommitment(id, jury[i], ruling, keccak256("salt"));
            address key = voice(jury[i], random >> 64);
            if (stakes.providerOf(key) != jury[i]) continue;
            vm.prank(key);
            court.commitRuling(id, commitment);
            _said[id][round][jury[i]] = ruling;
            did("commitRuling");
        }
    }

    /// What most of a jury think. Half of the runs are bad, or few would be convicted.
    function mind(CaseId id, uint256 round) private view returns (Ruling) {
        uint256 number = CaseId.unwrap(id);
        bool isBad = number % 2 == 0 && (round < 2 || number % 3 != 0);
        if (isBad && court.caseOf(id).kind == CaseKind.Statistics) return Ruling.Fault;
        return Ruling(1 + uint256(keccak256(abi.encode(number, round))) % 5);
    }

    function hearRulings(CaseId id, uint256 round, uint256 entropy) private {
        (, uint64 from,) = court.juryTimesOf(id);
        reach(from);
        address[] memory jury = _juries[id][round];
        for (uint256 i = 0; i < jury.length; ++i) {
            (bool isCommitted, bool isRevealed,) = court.rulingOf(id, jury[i]);
            if (!isCommitted || isRevealed || uint256(keccak256(abi.encode(entropy, i))) % 12 == 0) continue;
            court.revealRuling(id, jury[i], _said[id][round][jury[i]], keccak256("salt"));
            _isHeard[id][round][jury[i]] = true;
            did("revealRuling");
        }
    }

    function appealRuling(CaseId id, uint256 random) private {
        address appellant = somebody(random);
        takeFrom(appellant, court.bondOf(pool));
        vm.prank(appellant);
        court.appealRuling(id);
        did("appealRuling");
    }

    // -- inside: what a jury's ruling means

    function resolve(CaseId id) private {
        IDisputeCourt.Case memory c = court.caseOf(id);
        uint256 reserved = vault.reservationOf(pool, c.step);
        uint256 free = freeMoney();
        bool isOver = true;
        if (c.phase == CasePhase.Ruled) {
            reach(c.appealUntil);
            expectConviction(id, c);
        } else {
            (,, uint64 until) = court.juryTimesOf(id);
            reach(until);
            isOver = expectRuling(id, c);
        }
        court.resolve(id);
        if (freeMoney() > free) {
            toFree[c.step] += freeMoney() - free;
            _mayFree = true;
        }
        CasePhase phase = court.caseOf(id).phase;
        note("D3", (phase == CasePhase.Resolved) == isOver);
        if (isOver) dismiss(id, c, reserved);
    }

    /// Says what a jury's ruling will do. Returns whether the case is then over.
    function expectRuling(CaseId id, IDisputeCourt.Case memory c) private returns (bool) {
        c.ruling = countRulings(id, c.round);
        expectSilentJurors(id, c.round);
        if (c.ruling == Ruling.None && c.round % 2 == 0) {
            did("jury redrawn");
            return false;
        }
        if (c.kind != CaseKind.Statistics) {
            expectLeafRuling(id, c);
        } else if (c.ruling != Ruling.Fault) {
            expectAcquittal(id, c);
        } else if (c.round >= 2) {
            expectConviction(id, c);
            did("convicted twice");
        } else {
            did("ruled");
            return false;
        }
        did(keccak256(abi.encode(c.kind, c.ruling)));
        return true;
    }

    function countRulings(CaseId id, uint256 round) private view returns (Ruling) {
        address[] memory jury = _juries[id][round];
        uint256 size = registry.panelRulesOf(pool).jurySize;
        uint256 majority = (jury.length > size ? jury.length : size) / 2 + 1;
        uint256[6] memory counts;
        for (uint256 i = 0; i < jury.length; ++i) {
            if (_isHeard[id][round][jury[i]]) ++counts[uint256(_said[id][round][jury[i]])];
        }
        if (counts[uint256(Ruling.Accept)] >= majority) return Ruling.Accept;
        if (counts[uint256(Ruling.Accept)] + counts[uint256(Ruling.Grey)] >= majority) return Ruling.Grey;
        if (counts[uint256(Ruling.Fault)] >= majority) return Ruling.Fault;
        if (counts[uint256(Ruling.Fault)] + counts[uint256(Ruling.Reject)] >= majority) return Ruling.Reject;
        return counts[uint256(Ruling.Unavailable)] >= majority ? Ruling.Unavailable : Ruling.None;
    }

    function expectSilentJurors(CaseId id, uint256 round) private {
        address[] memory jury = _juries[id][round];
        uint256 bps = registry.faultTableOf(pool).silenceSlashBps;
        for (uint256 i = 0; i < jury.length; ++i) {
            if (_isHeard[id][round][jury[i]]) continue;
            owe(jury[i], bps, 0);
            did("silent juror");
        }
    }

    /// Pays the jurors of some rounds that were heard.
    function expectJurors(CaseId id, uint256 from, uint256 to, bool isFromBond) private returns (uint256 total) {
        uint256 fee = registry.feesOf(pool).jurorFee;
        for (uint256 round = from; round <= to; ++round) {
            address[] memory jury = _juries[id][round];
            for (uint256 i = 0; i < jury.length; ++i) {
                if (!_isHeard[id][round][jury[i]]) continue;
                total += fee;
                if (isFromBond) refund(jury[i], fee);
                else earn(jury[i], fee);
            }
        }
    }

    /// @return outcome What holds of the leaf.
    /// @return isLost Whether the disputant was wrong.
    /// @return wrong What of a vote counts against its member: 0 nothing, 1 an accept, 2 anything else.
    function verdict(IDisputeCourt.Case memory c) private pure returns (Outcome outcome, bool isLost, uint256 wrong) {
        bool wasAccepted = c.kind == CaseKind.Challenge;
        if (c.ruling == Ruling.Unavailable) return (c.outcome, true, 0);
        if (c.ruling == Ruling.Grey || c.ruling == Ruling.None) return (Outcome.Accept, false, 0);
        if (c.ruling == Ruling.Accept) return (Outcome.Accept, wasAccepted, 2);
        Outcome found = c.ruling == Ruling.Fault ? Outcome.Fault : Outcome.Reject;
        if (wasAccepted) return (found, false, 1);
        if (c.outcome == Outcome.Fault && found == Outcome.Reject) return (found, false, 0);
        return (c.outcome, true, 1);
    }

    function expectLeafRuling(CaseId id, IDisputeCourt.Case memory c) private {
        (Outcome outcome, bool isLost, uint256 wrong) = verdict(c);
        uint256 fees = expectJurors(id, 0, c.round, isLost);
        if (!isLost) refund(c.disputant, c.bond);
        else if (c.kind == CaseKind.Challenge) refund(c.provider, c.bond - fees);
        else forfeit(c.bond - fees);
        expectSlot(c, outcome);
        uint256 rewardBps = isLost ? 0 : registry.faultTableOf(pool).rewardBps;
        if (outcome == Outcome.Fault && !plants.isPlant(c.leafHash)) {
            owe(
                c.provider,
                registry.faultTableOf(pool).faultSlashBps,
                c.kind == CaseKind.Challenge ? rewardBps : 0
            );
            ++punished[c.leafHash];
            did("case slash");
        }
        if (wrong != 0) expectWrongVotes(c, wrong, rewardBps);
    }

    function expectSlot(IDisputeCourt.Case memory c, Outcome outcome) private {
        Rates memory rates = ledger.ratesOf(pool, c.step);
        if (outcome != Outcome.Accept) {
            _mustLock += rates.slotCap;
            return;
        }
        uint256 price = priceOf(rates, c.units);
        uint256 cap = payCapOf(c.snapshotBlock, rates, c.provider);
        cap -= caseWages[c.step][c.provider];
        uint256 wage = price < cap ? price : cap;
        earn(c.provider, wage);
        wages[c.step][c.provider] += wage;
        caseWages[c.step][c.provider] += wage;
        _mustLock += price - wage;
        ++paid[c.step][c.slot];
        paidAmount[c.step][c.slot] += price;
        did("case wage");
    }

    function expectWrongVotes(IDisputeCourt.Case memory c, uint256 wrong, uint256 rewardBps) private {
        address[] memory members = panel.panelOf(pool, c.step);
        bytes[] memory votes = revealedVotes(c.step);
        for (uint256 i = 0; i < members.length; ++i) {
            if (votes[i].length == 0) continue;
            Outcome vote = said(votes[i], c.slot);
            if (vote == Outcome.Abstain || (vote == Outcome.Accept) != (wrong == 1)) continue;
            owe(members[i], registry.faultTableOf(pool).wrongVoteSlashBps, rewardBps);
            did("wrong vote");
        }
    }

    function expectAcquittal(CaseId id, IDisputeCourt.Case memory c) private {
        uint256 rest = c.bond - expectJurors(id, 0, c.round, true);
        refund(c.ruling == Ruling.None || c.ruling == Ruling.Grey ? c.disputant : c.provider, rest);
        if (c.appellant != address(0)) refund(c.appellant, c.appealBond);
        did("acquitted");
    }

    function expectConviction(CaseId id, IDisputeCourt.Case memory c) private {
        uint256 rest = c.bond - expectJurors(id, 0, 1, true);
        refund(c.disputant, rest);
        if (c.appellant != address(0)) forfeit(c.appealBond - expectJurors(id, 2, c.round, true));
        if (c.firstStep >= court.judgedUpTo(pool, c.provider)) {
            owe(c.provider, registry.faultTableOf(pool).statisticsSlashBps, registry.faultTableOf(pool).rewardBps);
        }
        did("convicted");
    }

    function dismiss(CaseId id, IDisputeCourt.Case memory c, uint256 reserved) private {
        uint256 used = 0;
        if (c.kind != CaseKind.Statistics) {
            Rates memory rates = ledger.ratesOf(pool, c.step);
            used = rates.slotCap + juryCost();
            address[] memory members = panel.panelOf(pool, c.step);
            for (uint256 i = 0; i < members.length; ++i) --holds[members[i]];
        }
        note("V11", vault.reservationOf(pool, c.step) == reserved - used);
        --holds[c.provider];
        for (uint256 round = 0; round <= c.round; ++round) {
            address[] memory jury = _juries[id][round];
            for (uint256 i = 0; i < jury.length; ++i) --holds[jury[i]];
        }
        for (uint256 i = 0; i < _open.length; ++i) {
            if (CaseId.unwrap(_open[i]) == CaseId.unwrap(id)) _open[i] = _open[_open.length - 1];
        }
        _open.pop();
        did("resolve");
    }

    // -- inside: money and stake

    function exitFrom(PoolId p, address provider, uint256 shares) private {
        uint64 releaseAt = registry.clockOf(p) + registry.windowsOf(p).unbondingSeconds;
        vm.prank(stakes.controllerOf(provider));
        ExitId id = stakes.startExit(p, _roles[provider], shares);
        _exits.push(Leave({id: id, provider: provider, releaseAt: releaseAt, shares: shares}));
    }

    function finishExit(uint256 i) private {
        Leave memory leaving = _exits[i];
        IStakeManager.Exit memory exit = stakes.exitOf(leaving.id);
        (uint256 tokens, uint256 shares,) = stakes.positionOf(exit.pool, exit.role, exit.provider);
        uint256 idle = stakes.idleOf(exit.provider);
        stakes.finishExit(leaving.id);
        uint256 amount = stakes.idleOf(exit.provider) - idle;
        (uint256 left,,) = stakes.positionOf(exit.pool, exit.role, exit.provider);
        note("S2", holds[exit.provider] == 0 || exit.pool != pool);
        note("S7", registry.clockOf(exit.pool) >= leaving.releaseAt);
        note("S1", left + amount == tokens);
        note("S4", amount * shares <= leaving.shares * tokens);
        _exits[i] = _exits[_exits.length - 1];
        _exits.pop();
        if (amount == 0) did("empty exit");
        ++exitsFinished[exit.provider];
        _mayMove = true;
        did("finish");
    }

    function isOwed(address account) private view returns (bool) {
        (uint256 had, uint256 took) = vault.earningsOf(pool, account);
        return had != took;
    }

    function claimFor(address account) private {
        address payee = stakes.payeeOf(pool, account);
        uint256 before = token.balanceOf(payee);
        (uint256 had, uint256 took) = vault.earningsOf(pool, account);
        vault.claim(pool, account);
        note("V8", token.balanceOf(payee) - before == had - took);
        claimed += had - took;
        did("claim");
    }

    function burnAll() private {
        uint256 before = token.balanceOf(SINK);
        uint256 amount = stakes.burnable();
        stakes.burnSlashed();
        note("S1", token.balanceOf(SINK) - before == amount);
        _burnable = 0;
        did("burn");
    }

    function drainFree(PoolId p, uint256 amount) private {
        address owner = registry.ownerOf(p);
        (,, uint256 locked) = vault.escrowOf(p);
        uint256 before = token.balanceOf(SINK);
        vm.prank(owner);
        vault.drain(p, amount, owner);
        uint256 sunk = token.balanceOf(SINK) - before;
        note("V4", sunk == (registry.isOpen(p) ? 0 : locked));
        if (p != pool) {
            drainedElsewhere += amount;
            return;
        }
        drained += amount;
        burned += sunk;
        _mayUnlock = true;
    }

    function pay(address payer, PoolId p, uint256 amount) private {
        allow(payer, amount);
        vm.prank(payer);
        vault.fund(p, amount);
    }

    /// Gives an account what a bond costs. All of it must be taken in this move.
    function takeFrom(address account, uint256 amount) private returns (uint256) {
        allow(account, amount);
        bondsTaken += amount;
        return amount;
    }

    function juryCost() private view returns (uint256) {
        return (2 * registry.panelRulesOf(pool).jurySize + 2) * registry.feesOf(pool).jurorFee;
    }

    function freeMoney() private view returns (uint256 free) {
        (free,,) = vault.escrowOf(pool);
    }

    // -- inside: expectations

    /// An account earns of a step's reservation.
    function earn(address account, uint256 amount) private {
        _gain[account] += amount;
        spent += amount;
    }

    /// An account earns of a bond.
    function refund(address account, uint256 amount) private {
        _gain[account] += amount;
    }

    /// A bond stays in the pool.
    function forfeit(uint256 amount) private {
        _mustLock += amount;
        bondsForfeited += amount;
    }

    /// A position is slashed, within the cap of its window.
    function owe(address provider, uint256 bps, uint256 rewardBps) private {
        (uint256 tokens, uint256 shares,) = stakes.positionOf(pool, _roles[provider], provider);
        if (shares == 0) return did("nothing to slash");
        Window storage window = openWindow(provider);
        uint256 highest = registry.faultTableOf(pool).maxSlashBps;
        if (window.bps + bps > highest) {
            did("slash cap");
            bps = highest - window.bps;
        }
        window.bps += bps;
        if (window.bps == highest) suspend(window);
        uint256 amount = (tokens * bps + BPS - 1) / BPS;
        if (amount == tokens) {
            ++epochs[provider];
            did("wiped");
        }
        window.taken += amount;
        ++window.slack;
        lost[provider] += amount;
        _due[provider] += amount;
        _dueSum += amount;
        _reward += (amount * rewardBps) / BPS;
    }

    /// The window that an offence of now counts in.
    function openWindow(address provider) private returns (Window storage window) {
        window = windowOf[provider];
        uint256 time = registry.clockOf(pool);
        if (time < window.endsAt) return window;
        (window.base,,) = stakes.positionOf(pool, _roles[provider], provider);
        window.endsAt = time + registry.faultTableOf(pool).slashWindowSeconds;
        (window.taken, window.slack, window.bps, window.absences) = (0, 0, 0, 0);
    }

    function suspend(Window storage window) private {
        if (window.endsAt > window.suspendedUntil) window.suspendedUntil = window.endsAt;
        did("suspended");
    }

    // -- inside: the checks after each move

    function look() private {
        lookAtClock();
        lookAtStake();
        lookAtMoney();
    }

    function lookAtClock() private {
        uint256 time_ = registry.clockOf(pool);
        if (_lastTime != 0) note("R5", time_ >= _lastClock && time_ - _lastClock <= clock - _lastTime);
        (_lastClock, _lastTime) = (time_, clock);
        for (uint256 i = _pauses.length; i > 0 && clock - _pauses[i - 1][0] <= 30 days; --i) {
            note("R6", clock - time_ - _pauses[i - 1][1] <= 3 days);
        }
    }

    function lookAtStake() private {
        for (uint256 i = 0; i < 16; ++i) {
            address provider = pick(i);
            (uint256 tokens,,) = stakes.positionOf(pool, _roles[provider], provider);
            note("S3", tokens + _due[provider] == _tokens[provider] || _mayMove);
            if (_due[provider] != 0) _due[provider] = 0;
            if (tokens != _tokens[provider]) _tokens[provider] = tokens;
        }
        uint256 waiting = stakes.burnable();
        note("S11", waiting == _burnable + _dueSum - _reward);
        (_burnable, _dueSum, _reward, _mayMove) = (waiting, 0, 0, false);
    }

    function lookAtMoney() private {
        for (uint256 i = 0; i < _accounts.length; ++i) {
            address account = _accounts[i];
            (uint256 had,) = vault.earningsOf(pool, account);
            uint256 before = _earned[account];
            if (had == before && _gain[account] == 0) continue;
            note("V3", had == before + _gain[account]);
            _earned[account] = had;
            _gain[account] = 0;
        }
        (uint256 free,, uint256 locked) = vault.escrowOf(pool);
        note("V4", free <= _free || _mayFree);
        note("V4", locked >= _locked + _mustLock || _mayUnlock);
        (_free, _locked, _mustLock, _mayFree, _mayUnlock) = (free, locked, 0, false, false);
    }

    function did(bytes32 name) private {
        ++done[name];
    }

    function note(bytes32 rule, bool isRight) private {
        if (!isRight) flaw(rule);
    }

    function flaw(bytes32 rule) private {
        ++flaws[rule];
    }
}
