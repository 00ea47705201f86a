// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Outcome, Phase, Role} from "../../../contracts/types/Enums.sol";
import {ExitId} from "../../../contracts/types/Ids.sol";
import {StepState} from "../../../contracts/types/StepState.sol";
import {LeafOpening, Submission} from "../../../contracts/types/Submission.sol";
import {ChainTest} from "./ChainTest.sol";
import {vm} from "./Vm.sol";

/// @dev Plays random, mostly legal moves of all parties and keeps its own books about them.
contract Handler is ChainTest {
    mapping(uint32 step => Submission[]) private _leaves;
    mapping(uint32 step => mapping(uint32 slot => uint256)) public paid;
    mapping(uint32 step => mapping(uint32 index => uint256)) public punished;
    mapping(uint32 step => mapping(address worker => uint256)) public activeAtOpening;
    mapping(uint32 step => mapping(address worker => uint256)) public lostAtOpening;
    mapping(address worker => uint256) public lost;
    mapping(address worker => uint256) public exitsFinished;
    uint256 public funded = FUNDS;
    uint256 public drained;
    uint256 public claims;
    uint256 public slashes;
    uint256 public forfeits;
    uint256 public fees;
    uint256 public cancels;
    uint256 public exits;

    // Each call may run in a fresh environment: bring its clock along.
    modifier inTime() {
        vm.warp(clock);
        vm.roll(height);
        _;
    }

    function setUp() public override {
        require(address(token) == address(0), "once");
        super.setUp();
        publish(0);
    }

    // -- stake

    function stake(uint256 who, uint256 amount) external inTime {
        enter(pick(who), Role.Worker, 100 + amount % 5_000);
    }

    function depart(uint256 who, uint256 part) external inTime {
        address worker = pick(who);
        (, uint256 shares, uint256 exiting) = stakes.positionOf(pool, Role.Worker, worker);
        startExit(worker, Role.Worker, 1 + part % (shares - exiting));
    }

    function finish(uint256 id) external inTime {
        ExitId exitId = ExitId.wrap(uint64(1 + id % stakes.exitCount()));
        address worker = stakes.exitOf(exitId).provider;
        stakes.finishExit(exitId);
        ++exitsFinished[worker];
        ++exits;
    }

    function takeOut(uint256 who, uint256 part) external inTime {
        address worker = pick(who);
        uint256 amount = 1 + part % stakes.idleOf(worker);
        vm.prank(worker);
        stakes.withdraw(amount);
    }

    // -- steps

    function openNext(uint256 slots) external inTime {
        uint32 step = ledger.stepCountOf(pool);
        require(step < ledger.settledCountOf(pool) + 3, "settle some first");
        if (step >= 2) publish(ledger.policyCountOf(pool));
        uint32 policyStep = ledger.policyCountOf(pool) - 1;
        mine(1);
        vm.prank(TRAINER);
        ledger.openStep(pool, step, policyStep, uint32(1 + slots % 6));
        for (uint256 i = 0; i < workers.length; ++i) {
            activeAtOpening[step][workers[i]] = stakes.activeStakeOf(pool, Role.Worker, workers[i]);
            lostAtOpening[step][workers[i]] = lost[workers[i]];
        }
    }

    /// Moves one unsettled step on to its next phase.
    function push(uint256 which, uint256 entropy) external inTime {
        uint32 settled = ledger.settledCountOf(pool);
        uint32 step = settled + uint32(which % (ledger.stepCountOf(pool) - settled));
        StepState memory state = ledger.stepOf(pool, step);
        if (state.phase == Phase.Open) {
            mine(3);
            ledger.sealSeedBeacon(pool, step);
        } else if (state.phase == Phase.Seeded) {
            if (entropy % 8 == 0) {
                skip(81);
                ledger.cancelStep(pool, step);
                ++cancels;
            } else {
                commitRandom(step, state.slots, entropy);
            }
        } else if (state.phase == Phase.Committed) {
            mine(3);
            ledger.sealAuditBeacon(pool, step);
        } else if (state.votedAt == 0 && entropy % 4 != 0) {
            voteRandom(step, state.leafCount, entropy);
        } else {
            skip(30);
            ledger.finalize(pool, step);
        }
    }

    function wait(uint256 seconds_) external inTime {
        mine(1);
        skip(seconds_ % 120);
    }

    // -- money

    function claim(uint256 which, uint256 index, uint256 again) external inTime {
        (uint32 step, uint32 leaf) = chooseLeaf(which, index);
        LeafOpening[] memory list = new LeafOpening[](again % 4 == 0 ? 2 : 1);
        for (uint256 i = 0; i < list.length; ++i) list[i] = opening(_leaves[step], leaf);
        vault.claim(pool, step, list);
        paid[step][_leaves[step][leaf].slot] += list.length;
        ++claims;
    }

    function forfeit(uint256 which, uint256 index) external inTime {
        (uint32 step, uint32 leaf) = chooseLeaf(which, index);
        vault.forfeit(pool, step, opening(_leaves[step], leaf));
        ++forfeits;
    }

    function slashLeaf(uint256 which, uint256 index) external inTime {
        (uint32 step, uint32 leaf) = chooseLeaf(which, index);
        address worker = _leaves[step][leaf].provider;
        uint256 before = tokensOf(worker);
        ledger.slashLeaf(pool, step, opening(_leaves[step], leaf));
        lost[worker] += before - tokensOf(worker);
        ++punished[step][leaf];
        ++slashes;
    }

    function claimFee(uint256 which, uint256 member) external inTime {
        uint32 step = uint32(which % ledger.stepCountOf(pool));
        vault.claimFee(pool, step, validators[member % validators.length]);
        ++fees;
    }

    function addFunds(uint256 amount) external inTime {
        amount = 1 + amount % 10_000;
        fund(pool, amount);
        funded += amount;
    }

    function drain(uint256 amount) external inTime {
        (uint256 free,,) = vault.escrowOf(pool);
        amount = 1 + amount % (free / 4 + 1);
        vm.prank(OWNER);
        vault.drain(pool, amount, OWNER);
        drained += amount;
    }

    function donate(uint256 amount) external inTime {
        token.mint(amount % 2 == 0 ? address(vault) : address(stakes), amount % 1_000);
    }

    // -- what the invariants read

    function chain()
        external
        view
        returns (address token_, address stakes_, address ledger_, address vault_, address[] memory workers_, address[] memory validators_)
    {
        return (address(token), address(stakes), address(ledger), address(vault), workers, validators);
    }

    function leafCount(uint32 step) external view returns (uint256) {
        return _leaves[step].length;
    }

    function now_() external view returns (uint256) {
        return clock;
    }

    // -- inside

    function pick(uint256 who) private view returns (address) {
        return workers[who % workers.length];
    }

    function chooseLeaf(uint256 which, uint256 index) private view returns (uint32 step, uint32 leaf) {
        // One of the last six steps: older ones have little left to do.
        uint256 count = ledger.stepCountOf(pool);
        step = uint32(count - 1 - which % (count < 6 ? count : 6));
        leaf = uint32(index % _leaves[step].length);
    }

    function commitRandom(uint32 step, uint32 slots, uint256 entropy) private {
        uint32 count = uint32(1 + entropy % slots);
        for (uint32 i = 0; i < count; ++i) {
            uint256 random = uint256(keccak256(abi.encode(entropy, i)));
            _leaves[step].push(
                Submission({
                    pool: pool,
                    step: random % 31 == 0 ? step + 1 : step,
                    slot: random % 7 == 0 ? uint32((random >> 8) % slots) : i, // now and then a slot twice
                    provider: pick(random >> 16),
                    node: address(0x300),
                    units: uint32((random >> 24) % 400),
                    contentHash: bytes32(random),
                    leaseHash: bytes32(0)
                })
            );
        }
        commit(step, _leaves[step]);
    }

    function voteRandom(uint32 step, uint32 count, uint256 entropy) private {
        address[] memory panel = ledger.panelOf(pool, step);
        for (uint256 i = 0; i < panel.length; ++i) {
            if (ledger.hasVoted(pool, step, panel[i]) || uint256(keccak256(abi.encode(entropy, i))) % 5 == 0) continue;
            Outcome[] memory outcomes = new Outcome[](count);
            for (uint32 j = 0; j < count; ++j) {
                // Mostly the same for all members, or no quorum would form.
                uint256 random = uint256(keccak256(abi.encode(step, j, entropy % 16 == 0 ? i : 0)));
                outcomes[j] = Outcome(random % 8 < 4 ? 1 : random % 8 < 6 ? 3 : random % 4);
            }
            cast(step, panel[i], pack(outcomes));
        }
    }
}
