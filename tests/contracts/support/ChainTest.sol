// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {DisputeCourt} from "../../../contracts/DisputeCourt.sol";
import {MockToken} from "../../../contracts/MockToken.sol";
import {PayoutVault} from "../../../contracts/PayoutVault.sol";
import {PlantedFaults} from "../../../contracts/PlantedFaults.sol";
import {PoolRegistry} from "../../../contracts/PoolRegistry.sol";
import {StakeManager} from "../../../contracts/StakeManager.sol";
import {SubmissionLedger} from "../../../contracts/SubmissionLedger.sol";
import {VotingPanel} from "../../../contracts/VotingPanel.sol";
import {Outcome, Phase, Role, Ruling} from "../../../contracts/types/Enums.sol";
import {CaseId, ExitId, PoolId} from "../../../contracts/types/Ids.sol";
import {Parts} from "../../../contracts/types/Parts.sol";
import {PoolTerms} from "../../../contracts/types/PoolTerms.sol";
import {LeafOpening, PayTable, Submission} from "../../../contracts/types/Submission.sol";
import {Trees} from "./Trees.sol";
import {vm} from "./Vm.sol";

/// @dev A deployment with one pool (1), eight validators and three workers, and the moves of a step.
abstract contract ChainTest {
    address internal constant SINK = 0x000000000000000000000000000000000000dEaD;
    address internal constant OWNER = address(0x0A);
    address internal constant TRAINER = address(0x0B);
    uint256 internal constant COORDINATOR_KEY = 0xC0;
    address internal constant STRANGER = address(0x0D);
    address internal constant PURSE = address(0x3A);
    address internal constant DISPUTANT = address(0xD15);
    address internal constant PAUSER = address(0x0E);
    address internal constant UNPAUSER = address(0x0F);
    uint256 internal constant STAKE = 1_000;
    uint256 internal constant FUNDS = 1_000_000;
    // A slot is paid at most 100 + 2 * (4 * 50) = 500.
    uint256 internal constant SLOT = 500;
    uint256 internal constant JUROR_FEE = 5;
    uint256 internal constant JURY = 8 * JUROR_FEE; // juries of three and of five
    uint256 internal constant BOND = 2 * JURY;
    uint256 internal constant PANEL_FEE = 30;
    uint256 internal constant SEAL_FEE = 3;
    uint256 internal constant LEASE_BOND = 700;

    MockToken internal token;
    StakeManager internal stakes;
    PoolRegistry internal registry;
    SubmissionLedger internal ledger;
    PayoutVault internal vault;
    DisputeCourt internal court;
    VotingPanel internal panel;
    PlantedFaults internal plants;
    PoolId internal pool;
    address internal coordinator;
    address[] internal validators;
    address[] internal workers;
    // Its own clock: tests move time, and the compiler may read block.timestamp once.
    uint256 internal clock = 1_800_000_000;
    uint256 internal height = 1_000;
    mapping(uint32 step => PayTable) private _tables;
    mapping(uint32 step => mapping(address provider => bytes)) private _votes;

    error NotEqual(bytes32 got, bytes32 expected);

    function setUp() public virtual {
        vm.warp(clock);
        vm.roll(height);
        coordinator = vm.addr(COORDINATOR_KEY);
        deploy();
        pool = createPool(terms());
        fund(pool, FUNDS);
        for (uint160 i = 0; i < 8; ++i) {
            validators.push(address(0x100 + i));
            enter(address(0x100 + i), Role.Validator, STAKE);
        }
        for (uint160 i = 0; i < 3; ++i) {
            workers.push(address(0x200 + i));
            enter(address(0x200 + i), Role.Worker, STAKE);
        }
        mine(1);
    }

    function deploy() private {
        Parts memory parts = partsFrom(vm.getNonce(address(this)));
        token = new MockToken("Stannary Test Token", "tSTN");
        stakes = new StakeManager(parts);
        registry = new PoolRegistry(parts);
        ledger = new SubmissionLedger(parts);
        vault = new PayoutVault(parts);
        court = new DisputeCourt(parts);
        panel = new VotingPanel(parts);
        plants = new PlantedFaults(parts);
        require(address(token) == parts.stakeToken && address(plants) == parts.plants, "wiring");
    }

    /// The addresses of eight contracts that this one creates from a nonce on.
    function partsFrom(uint256 nonce) internal view returns (Parts memory) {
        return Parts({
            stakeToken: vm.computeCreateAddress(address(this), nonce),
            stakes: vm.computeCreateAddress(address(this), nonce + 1),
            registry: vm.computeCreateAddress(address(this), nonce + 2),
            ledger: vm.computeCreateAddress(address(this), nonce + 3),
            vault: vm.computeCreateAddress(address(this), nonce + 4),
            court: vm.computeCreateAddress(address(this), nonce + 5),
            panel: vm.computeCreateAddress(address(this), nonce + 6),
            plants: vm.computeCreateAddress(address(this), nonce + 7),
            sink: SINK
        });
    }

    // -- the pool

    function terms() internal view returns (PoolTerms memory t) {
        t.parties.payoutToken = address(token);
        t.parties.pauser = PAUSER;
        t.parties.unpauser = UNPAUSER;
        t.offer.coordinator = coordinator;
        t.offer.trainer = TRAINER;
        t.offer.pricePerGroup = 100;
        t.offer.pricePerToken = 2;
        t.offer.cardHash = keccak256("card");
        t.fees.panelFee = uint128(PANEL_FEE);
        t.fees.jurorFee = uint128(JUROR_FEE);
        t.fees.sealFee = uint128(SEAL_FEE);
        t.fees.leaseBond = uint128(LEASE_BOND);
        t.work.minWorkerStake = 100;
        t.work.payCapBps = 100_000;
        t.work.maxOpenSteps = 3;
        t.work.groupSize = 4;
        t.work.maxCompletionTokens = 50;
        t.work.maxSlots = 256;
        t.work.reservedSlots = 2;
        t.work.maxLag = 2;
        t.work.temperatureMilli = 1_000;
        t.work.protocolVersion = 1;
        t.panel.minValidatorStake = 200;
        t.panel.panelSize = 3;
        t.panel.quorum = 2;
        t.panel.jurySize = 3;
        t.panel.maxAbsences = 2;
        t.windows.beaconDelayBlocks = 2;
        t.windows.leaseSeconds = 20;
        t.windows.collectSeconds = 60;
        t.windows.takeSeconds = 10;
        t.windows.voteSeconds = 40;
        t.windows.revealSeconds = 20;
        t.windows.challengeSeconds = 30;
        t.windows.unbondingSeconds = 300;
        t.parties.noticeSeconds = 100;
        t.faults.faultSlashBps = 2_500;
        t.faults.statisticsSlashBps = 5_000;
        t.faults.silenceSlashBps = 100;
        t.faults.wrongVoteSlashBps = 1_000;
        t.faults.plantSlashBps = 500;
        t.faults.maxSlashBps = 8_000;
        t.faults.slashWindowSeconds = 10_000;
        t.faults.rewardBps = 2_000;
        t.environmentHash = keccak256("environment");
    }

    function createPool(PoolTerms memory t) internal returns (PoolId) {
        vm.prank(OWNER);
        return registry.createPool(t);
    }

    function fund(PoolId p, uint256 amount) internal {
        token.mint(OWNER, amount);
        vm.startPrank(OWNER);
        token.approve(address(vault), amount);
        vault.fund(p, amount);
        vm.stopPrank();
    }

    /// What a step of that many slots reserves.
    function stepCost(uint256 slots) internal pure returns (uint256) {
        return (slots + 2) * (SLOT + JURY) + 6 * PANEL_FEE + 2 * SEAL_FEE + LEASE_BOND;
    }

    /// Gives an account payout tokens that the vault may take.
    function allow(address account, uint256 amount) internal {
        token.mint(account, amount);
        vm.prank(account);
        token.approve(address(vault), amount);
    }

    // -- stake

    function deposit(address provider, uint256 amount) internal {
        token.mint(provider, amount);
        vm.startPrank(provider);
        token.approve(address(stakes), amount);
        stakes.deposit(amount);
        vm.stopPrank();
    }

    function enter(address provider, Role role, uint256 amount) internal {
        deposit(provider, amount);
        bytes32 agreed = registry.termsHashOf(pool);
        vm.prank(provider);
        stakes.allocate(pool, role, amount, agreed);
    }

    function startExit(address provider, Role role, uint256 shares) internal returns (ExitId) {
        vm.prank(provider);
        return stakes.startExit(pool, role, shares);
    }

    function consent(uint256 nodeKey, address provider, uint256 deadline) internal view returns (bytes memory) {
        return sign(nodeKey, stakes.consentDigest(vm.addr(nodeKey), provider, deadline));
    }

    function sign(uint256 key, bytes32 digest) internal pure returns (bytes memory) {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, digest);
        return abi.encodePacked(r, s, v);
    }

    function tokensOf(address worker) internal view returns (uint256 tokens) {
        (tokens,,) = stakes.positionOf(pool, Role.Worker, worker);
    }

    function stakeOf(address validator) internal view returns (uint256 tokens) {
        (tokens,,) = stakes.positionOf(pool, Role.Validator, validator);
    }

    function earned(address provider) internal view returns (uint256 amount) {
        (amount,) = vault.earningsOf(pool, provider);
    }

    /// What accounts earned in the pool and did not claim.
    function unclaimedOf(address[] memory accounts) internal view returns (uint256 sum) {
        for (uint256 i = 0; i < accounts.length; ++i) {
            (uint256 had, uint256 took) = vault.earningsOf(pool, accounts[i]);
            sum += had - took;
        }
    }

    /// The same of all accounts that tests pay.
    function unclaimed() internal view returns (uint256) {
        address[] memory others = new address[](7);
        (others[0], others[1], others[2]) = (OWNER, TRAINER, coordinator);
        (others[3], others[4], others[5]) = (STRANGER, PURSE, DISPUTANT);
        others[6] = address(this);
        return unclaimedOf(workers) + unclaimedOf(validators) + unclaimedOf(others);
    }

    // -- time

    function skip(uint256 seconds_) internal {
        clock += seconds_;
        vm.warp(clock);
    }

    function mine(uint256 blocks) internal {
        for (uint256 i = 0; i < blocks; ++i) {
            vm.setBlockhash(height, keccak256(abi.encode("block", height)));
            ++height;
            vm.roll(height);
        }
        skip(blocks);
    }

    // -- a step

    function publish(uint32 policyStep) internal {
        vm.prank(TRAINER);
        ledger.publishPolicy(pool, policyStep, keccak256(abi.encode("policy", policyStep)), bytes32(0));
    }

    function open(uint32 step, uint32 slots) internal {
        if (ledger.policyCountOf(pool) == 0) publish(0);
        vm.prank(TRAINER);
        ledger.openStep(pool, step, 0, slots);
    }

    function seed(uint32 step, uint32 slots) internal {
        open(step, slots);
        mine(3);
        ledger.sealSeedBeacon(pool, step);
    }

    /// One leaf a slot, from the workers in turn, each of 150 units: a payout of 400.
    function makeLeaves(uint32 step, uint32 count) internal view returns (Submission[] memory leaves) {
        leaves = new Submission[](count);
        for (uint32 i = 0; i < count; ++i) {
            leaves[i] = Submission({
                pool: pool,
                step: step,
                slot: i,
                provider: workers[(uint256(i) * workers.length) / count],
                node: address(0x300),
                units: 150,
                contentHash: keccak256(abi.encode("content", step, i)),
                leaseHash: keccak256(abi.encode("lease", step, i))
            });
        }
    }

    /// The words of the tree: each leaf at its slot, zero where there is none.
    function wordsOf(uint32 slots, Submission[] memory leaves) internal view returns (bytes32[] memory words) {
        words = new bytes32[](slots);
        for (uint256 i = 0; i < leaves.length; ++i) words[leaves[i].slot] = ledger.leafHash(leaves[i]);
    }

    function opening(uint32 slots, Submission[] memory leaves, uint256 i) internal view returns (LeafOpening memory) {
        return LeafOpening({leaf: leaves[i], proof: Trees.proof(wordsOf(slots, leaves), leaves[i].slot)});
    }

    function tableFor(uint32 slots, Submission[] memory leaves) internal view returns (PayTable memory table) {
        table.providers = new address[](workers.length);
        for (uint256 i = 0; i < workers.length; ++i) table.providers[i] = workers[i];
        table.totals = new uint256[](workers.length);
        table.words = new uint256[]((slots + 4) / 5);
        for (uint256 i = 0; i < leaves.length; ++i) {
            uint256 place = 1;
            while (workers[place - 1] != leaves[i].provider) ++place;
            uint256 units = leaves[i].units < 200 ? leaves[i].units : 200; // a slot is paid at most 4 * 50
            uint256 entry = place | (units << 16);
            table.totals[place - 1] += (1 << 128) + units;
            table.words[leaves[i].slot / 5] |= entry << (48 * (leaves[i].slot % 5));
        }
    }

    function commit(uint32 step, uint32 slots, Submission[] memory leaves) internal {
        commitAs(step, Trees.root(wordsOf(slots, leaves)), tableFor(slots, leaves));
    }

    function commitAs(uint32 step, bytes32 root, PayTable memory table) internal {
        PayTable storage kept = _tables[step];
        kept.providers = table.providers;
        kept.totals = table.totals;
        kept.words = table.words;
        vm.prank(coordinator);
        ledger.commitRoot(pool, step, root, keccak256("slots"), table);
    }

    function tableOf(uint32 step) internal view returns (PayTable memory) {
        return _tables[step];
    }

    /// Opens, seeds, commits and draws the panel.
    function audit(uint32 step, uint32 slots, Submission[] memory leaves) internal returns (address[] memory) {
        seed(step, slots);
        commit(step, slots, leaves);
        draw(step);
        return panel.panelOf(pool, step);
    }

    /// Chooses the block of the audit beacon (slots can be taken on chain in this pool), then draws the panel.
    function draw(uint32 step) internal {
        skip(10); // the take window
        panel.sealAuditBeacon(pool, step);
        mine(3);
        panel.sealAuditBeacon(pool, step);
    }

    // -- votes

    function commitmentOf(uint32 step, address provider, bytes memory outcomes) internal view returns (bytes32) {
        return panel.voteCommitment(
            pool, step, provider, outcomes, keccak256("verdicts"), keccak256("evidence"), keccak256("salt")
        );
    }

    function commitVote(uint32 step, address provider, bytes memory outcomes) internal {
        bytes32 commitment = commitmentOf(step, provider, outcomes);
        vm.prank(provider);
        panel.commitVote(pool, step, commitment);
    }

    function revealVote(uint32 step, address provider, bytes memory outcomes) internal {
        panel.revealVote(
            pool, step, provider, outcomes, keccak256("verdicts"), keccak256("evidence"), keccak256("salt")
        );
        _votes[step][provider] = outcomes;
    }

    /// All members commit and reveal, member i as `ballots[i]` says; who has an empty one stays silent.
    function vote(uint32 step, bytes[] memory ballots) internal {
        address[] memory members = panel.panelOf(pool, step);
        bool isSilent = false;
        for (uint256 i = 0; i < members.length; ++i) {
            if (ballots[i].length == 0) isSilent = true;
            else commitVote(step, members[i], ballots[i]);
        }
        if (isSilent) skip(40);
        for (uint256 i = 0; i < members.length; ++i) {
            if (ballots[i].length != 0) revealVote(step, members[i], ballots[i]);
        }
        if (isSilent) skip(20);
    }

    function voteAll(uint32 step, bytes memory outcomes) internal {
        vote(step, three(outcomes, outcomes, outcomes));
    }

    function three(bytes memory a, bytes memory b, bytes memory c) internal pure returns (bytes[] memory list) {
        list = new bytes[](3);
        (list[0], list[1], list[2]) = (a, b, c);
    }

    /// What was revealed, seat by seat.
    function votesOf(uint32 step) internal view returns (bytes[] memory list) {
        address[] memory members = panel.panelOf(pool, step);
        list = new bytes[](members.length);
        for (uint256 i = 0; i < members.length; ++i) list[i] = _votes[step][members[i]];
    }

    function finalize(uint32 step) internal {
        panel.finalize(pool, step, votesOf(step), tableOf(step));
    }

    function pack(Outcome[] memory outcomes) internal pure returns (bytes memory packed) {
        packed = new bytes((outcomes.length + 3) / 4);
        for (uint256 i = 0; i < outcomes.length; ++i) {
            packed[i / 4] |= bytes1(uint8(outcomes[i]) << uint8(2 * (i % 4)));
        }
    }

    /// Every outcome the same.
    function all(Outcome outcome, uint256 count) internal pure returns (bytes memory) {
        Outcome[] memory outcomes = new Outcome[](count);
        for (uint256 i = 0; i < count; ++i) outcomes[i] = outcome;
        return pack(outcomes);
    }

    /// A whole step in which all panel members vote the same.
    function run(uint32 step, uint32 slots, Submission[] memory leaves, bytes memory outcomes) internal {
        audit(step, slots, leaves);
        voteAll(step, outcomes);
        skip(30);
        finalize(step);
    }

    /// Six slots: accepted, rejected, faulted, undecided, and two without a leaf.
    function mixed() internal pure returns (bytes memory) {
        Outcome[] memory outcomes = new Outcome[](6);
        outcomes[0] = Outcome.Accept;
        outcomes[1] = Outcome.Reject;
        outcomes[2] = Outcome.Fault;
        return pack(outcomes);
    }

    function runMixed(uint32 step) internal returns (Submission[] memory leaves) {
        leaves = makeLeaves(step, 4);
        run(step, 6, leaves, mixed());
    }

    // -- a case

    function drawJury(CaseId id) internal returns (address[] memory) {
        mine(3);
        court.drawJury(id);
        return court.juryOf(id);
    }

    function commitRuling(CaseId id, address juror, Ruling ruling) internal {
        bytes32 commitment = court.jurorCommitment(id, juror, ruling, keccak256("salt"));
        vm.prank(juror);
        court.commitRuling(id, commitment);
    }

    function revealRuling(CaseId id, address juror, Ruling ruling) internal {
        court.revealRuling(id, juror, ruling, keccak256("salt"));
    }

    /// Draws a jury that commits, reveals, and rules as one.
    function judge(CaseId id, Ruling ruling) internal returns (address[] memory jury) {
        jury = drawJury(id);
        for (uint256 i = 0; i < jury.length; ++i) commitRuling(id, jury[i], ruling);
        for (uint256 i = 0; i < jury.length; ++i) revealRuling(id, jury[i], ruling);
        court.resolve(id);
    }

    // -- assertions

    function eq(uint256 got, uint256 expected) internal pure {
        if (got != expected) revert NotEqual(bytes32(got), bytes32(expected));
    }

    function eq(address got, address expected) internal pure {
        if (got != expected) revert NotEqual(bytes32(uint256(uint160(got))), bytes32(uint256(uint160(expected))));
    }

    function eq(bytes32 got, bytes32 expected) internal pure {
        if (got != expected) revert NotEqual(got, expected);
    }

    function eq(Outcome got, Outcome expected) internal pure {
        eq(uint256(got), uint256(expected));
    }

    function eq(Phase got, Phase expected) internal pure {
        eq(uint256(got), uint256(expected));
    }

    function eqEscrow(uint256 free, uint256 reserved, uint256 locked) internal view {
        (uint256 f, uint256 r, uint256 l) = vault.escrowOf(pool);
        eq(f, free);
        eq(r, reserved);
        eq(l, locked);
    }

    function eqOwed(uint256 bonded, uint256 owed) internal view {
        eq(vault.bondedOf(pool), bonded);
        eq(unclaimed(), owed);
    }
}
