// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";

import {MockToken} from "../../../contracts/MockToken.sol";
import {PayoutVault} from "../../../contracts/PayoutVault.sol";
import {PoolRegistry} from "../../../contracts/PoolRegistry.sol";
import {StakeManager} from "../../../contracts/StakeManager.sol";
import {SubmissionLedger} from "../../../contracts/SubmissionLedger.sol";
import {IPayoutVault} from "../../../contracts/interfaces/IPayoutVault.sol";
import {IPoolRegistry} from "../../../contracts/interfaces/IPoolRegistry.sol";
import {IStakeManager} from "../../../contracts/interfaces/IStakeManager.sol";
import {ISubmissionLedger} from "../../../contracts/interfaces/ISubmissionLedger.sol";
import {Outcome, Phase, Role} from "../../../contracts/types/Enums.sol";
import {ExitId, PoolId} from "../../../contracts/types/Ids.sol";
import {PoolTerms} from "../../../contracts/types/PoolTerms.sol";
import {StepState} from "../../../contracts/types/StepState.sol";
import {LeafOpening, Submission} from "../../../contracts/types/Submission.sol";
import {Trees} from "./Trees.sol";
import {vm} from "./Vm.sol";

/// @dev A deployment with one pool (1), four validators and three workers, and the moves of a step.
abstract contract ChainTest {
    address internal constant SINK = 0x000000000000000000000000000000000000dEaD;
    address internal constant OWNER = address(0x0A);
    address internal constant TRAINER = address(0x0B);
    address internal constant COORDINATOR = address(0x0C);
    address internal constant STRANGER = address(0x0D);
    uint256 internal constant STAKE = 1_000;
    uint256 internal constant FUNDS = 1_000_000;

    MockToken internal token;
    StakeManager internal stakes;
    PoolRegistry internal registry;
    SubmissionLedger internal ledger;
    PayoutVault internal vault;
    PoolId internal pool;
    address[] internal validators;
    address[] internal workers;
    // Its own clock: tests move time, and the compiler may read block.timestamp once.
    uint256 internal clock = 1_800_000_000;
    uint256 internal height = 1_000;

    function setUp() public virtual {
        vm.warp(clock);
        vm.roll(height);
        uint256 nonce = vm.getNonce(address(this));
        address ledgerAt = vm.computeCreateAddress(address(this), nonce + 3);
        address registryAt = vm.computeCreateAddress(address(this), nonce + 2);
        address vaultAt = vm.computeCreateAddress(address(this), nonce + 4);
        token = new MockToken("Stannary Test Token", "tSTN");
        stakes = new StakeManager(token, ISubmissionLedger(ledgerAt), IPoolRegistry(registryAt), SINK);
        registry = new PoolRegistry();
        ledger = new SubmissionLedger(registry, stakes, IPayoutVault(vaultAt));
        vault = new PayoutVault(registry, ledger, SINK);
        require(address(ledger) == ledgerAt && address(vault) == vaultAt, "wiring");

        pool = createPool(terms());
        fund(pool, FUNDS);
        for (uint160 i = 0; i < 4; ++i) {
            validators.push(address(0x100 + i));
            enter(address(0x100 + i), Role.Validator, STAKE);
        }
        for (uint160 i = 0; i < 3; ++i) {
            workers.push(address(0x200 + i));
            enter(address(0x200 + i), Role.Worker, STAKE);
        }
        mine(1);
    }

    // -- the pool

    function terms() internal view returns (PoolTerms memory t) {
        t.payoutToken = address(token);
        t.coordinator = COORDINATOR;
        t.trainer = TRAINER;
        t.pricePerGroup = 100;
        t.pricePerToken = 2;
        t.panelFee = 30;
        t.minWorkerStake = 100;
        t.minValidatorStake = 200;
        t.groupSize = 4;
        t.maxCompletionTokens = 50; // so a slot costs at most 100 + 2 * 200 = 500
        t.maxSlots = 256;
        t.maxLag = 2;
        t.panelSize = 3;
        t.quorum = 2;
        t.beaconDelayBlocks = 2;
        t.leaseSeconds = 20;
        t.collectSeconds = 60;
        t.voteSeconds = 40;
        t.challengeSeconds = 30;
        t.unbondingSeconds = 200;
        t.faultSlashBps = 2_500;
        t.temperatureMilli = 1_000;
        t.protocolVersion = 1;
        t.cardHash = keccak256("card");
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
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(nodeKey, stakes.consentDigest(vm.addr(nodeKey), provider, deadline));
        return abi.encodePacked(r, s, v);
    }

    function tokensOf(address worker) internal view returns (uint256 tokens) {
        (tokens,,) = stakes.positionOf(pool, Role.Worker, worker);
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

    /// One leaf a slot, from the workers in turn, each of 150 units.
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

    function hashes(Submission[] memory leaves) internal view returns (bytes32[] memory list) {
        list = new bytes32[](leaves.length);
        for (uint256 i = 0; i < leaves.length; ++i) list[i] = ledger.leafHash(leaves[i]);
    }

    function opening(Submission[] memory leaves, uint32 index) internal view returns (LeafOpening memory) {
        return LeafOpening({leaf: leaves[index], index: index, proof: Trees.proof(hashes(leaves), index)});
    }

    function openings(Submission[] memory leaves, uint32 from, uint32 to)
        internal
        view
        returns (LeafOpening[] memory list)
    {
        list = new LeafOpening[](to - from);
        for (uint32 i = from; i < to; ++i) list[i - from] = opening(leaves, i);
    }

    function commit(uint32 step, Submission[] memory leaves) internal {
        bytes32 root = Trees.root(hashes(leaves));
        vm.prank(COORDINATOR);
        ledger.commitRoot(pool, step, root, uint32(leaves.length), keccak256("slots"));
    }

    /// Opens, seeds, commits and audits.
    function audit(uint32 step, uint32 slots, Submission[] memory leaves) internal returns (address[] memory panel) {
        seed(step, slots);
        commit(step, leaves);
        mine(3);
        ledger.sealAuditBeacon(pool, step);
        return ledger.panelOf(pool, step);
    }

    function cast(uint32 step, address provider, bytes memory outcomes) internal {
        vm.prank(provider);
        ledger.vote(pool, step, outcomes, keccak256("verdicts"), keccak256("evidence"));
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
        address[] memory panel = audit(step, slots, leaves);
        for (uint256 i = 0; i < panel.length; ++i) cast(step, panel[i], outcomes);
        skip(30);
        ledger.finalize(pool, step);
    }

    /// Four leaves: accepted, rejected, faulted, undecided; of six slots.
    function runMixed(uint32 step) internal returns (Submission[] memory leaves) {
        leaves = makeLeaves(step, 4);
        Outcome[] memory outcomes = new Outcome[](4);
        outcomes[0] = Outcome.Accept;
        outcomes[1] = Outcome.Reject;
        outcomes[2] = Outcome.Fault;
        run(step, 6, leaves, pack(outcomes));
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

    error NotEqual(bytes32 got, bytes32 expected);
}
