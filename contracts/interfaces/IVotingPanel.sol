// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Outcome, Phase} from "../types/Enums.sol";
import {PoolId} from "../types/Ids.sol";
import {LeafOpening, PayTable} from "../types/Submission.sol";

/// @title The panel of each step: its draw, its votes, what they decide, and the settlement that follows.
interface IVotingPanel {
    event AuditBeaconSealed(
        PoolId indexed pool, uint32 indexed step, bytes32 beacon, address[] panel, address sealer
    );
    event VoteCommitted(
        PoolId indexed pool, uint32 indexed step, address indexed provider, address node, bytes32 commitment
    );
    event VoteRevealed(
        PoolId indexed pool,
        uint32 indexed step,
        address indexed provider,
        bytes outcomes,
        bytes32 verdictRoot,
        bytes32 evidenceRoot
    );
    event PanelRedrawn(PoolId indexed pool, uint32 indexed step, address[] silent, address[] panel);
    event SlotHeld(PoolId indexed pool, uint32 indexed step, uint32 slot, bytes32 leafHash, Outcome outcome);
    event StepFinalized(
        PoolId indexed pool,
        uint32 indexed step,
        bytes outcomes,
        uint32 accepted,
        uint32 rejected,
        uint32 faulted,
        uint32 held
    );
    event LeafSlashed(
        PoolId indexed pool,
        uint32 indexed step,
        uint32 slot,
        address indexed provider,
        bytes32 leafHash,
        uint256 amount
    );

    /// @notice The step is in another phase.
    error WrongPhase(PoolId pool, uint32 step, Phase phase, Phase expected);

    /// @notice The block that the beacon comes from is not past.
    error BeaconNotReady(uint64 beaconBlock, uint256 current);

    /// @notice The time for this is over.
    error DeadlinePassed(uint256 deadline, uint256 time);

    /// @notice The time for this has not come.
    error TooEarly(uint256 earliest, uint256 time);

    /// @notice Only the court may do this.
    error NotCourt(address caller);

    /// @notice The votes are not, seat by seat, what the panel revealed.
    error VotesMismatch(PoolId pool, uint32 step, uint256 seat);

    /// @notice The outcomes are not the ones that the step was finalized with.
    error OutcomesMismatch(bytes32 given, bytes32 finalized);

    /// @notice The pay table is not the one that was committed.
    error PayTableMismatch(bytes32 given, bytes32 committed);

    /// @notice The panel lacks a quorum and must be redrawn first.
    error PanelBelowQuorum(PoolId pool, uint32 step, uint256 revealed, uint256 quorum);

    /// @notice The panel has its quorum, or was redrawn before.
    error PanelNotRedrawable(PoolId pool, uint32 step);

    /// @notice The panel did not find this leaf at fault.
    error LeafNotFaulted(uint32 slot, Outcome outcome);

    /// @notice The leaf was planted to see whether it would be found: it is not slashed.
    error LeafIsPlant(bytes32 leafHash);

    /// @notice A dispute about this slot decides, or has decided.
    error SlotIsHeld(PoolId pool, uint32 step, uint32 slot);

    /// @notice A slot at or beyond the number of slots.
    error SlotOutOfRange(uint32 slot, uint32 slots);

    /// @notice Fixes the audit beacon and draws the panel, for the pool's fee; or, if its block is not chosen yet, chooses it;
    /// or, if the hash is gone, fines the pool and chooses a new block. Anyone.
    function sealAuditBeacon(PoolId pool, uint32 step) external;

    /// @notice Commits the vote of a panel member, by its node (or itself). See `voteCommitment`.
    function commitVote(PoolId pool, uint32 step, bytes32 commitment) external;

    /// @notice Reveals a committed vote: two bits a slot, those taken on chain after the others. Anyone may reveal for
    /// `provider`.
    function revealVote(
        PoolId pool,
        uint32 step,
        address provider,
        bytes calldata outcomes,
        bytes32 verdictRoot,
        bytes32 evidenceRoot,
        bytes32 salt
    ) external;

    /// @notice Fines the silent members of a panel that misses its quorum and fills their seats anew, once. Anyone.
    function redrawPanel(PoolId pool, uint32 step) external;

    /// @notice Counts the votes, settles the step's money, and fines silence. `votes` are the revealed ones, seat by seat,
    /// empty for a silent seat. Anyone, in order of steps, after the challenge window.
    function finalize(PoolId pool, uint32 step, bytes[] calldata votes, PayTable calldata payTable) external;

    /// @notice Slashes the worker of a leaf that the panel found at fault and nobody disputed. Anyone, once a leaf.
    function slashLeaf(PoolId pool, uint32 step, LeafOpening calldata opening, bytes calldata outcomes) external;

    /// @notice Keeps a slot out of the settlement and says what the panel decided about it. Only the court.
    /// @return outcome What the quorum says.
    /// @return ballots Two bits for each seat of the panel, seat 0 lowest.
    /// @return snapshotBlock The block by whose stakes the step is judged.
    function holdSlot(PoolId pool, uint32 step, LeafOpening calldata opening, bytes[] calldata votes)
        external
        returns (Outcome outcome, uint32 ballots, uint64 snapshotBlock);

    /// @notice Says that a held slot is settled. Only the court.
    function unholdSlot(PoolId pool, uint32 step) external;

    /// @notice The providers that sit on the panel of a step; empty before the audit beacon.
    function panelOf(PoolId pool, uint32 step) external view returns (address[] memory);

    /// @notice Members that were silent and lost their seat in a redraw.
    function dismissedOf(PoolId pool, uint32 step) external view returns (address[] memory);

    /// @notice When a panel may commit until, when it may reveal from and until, and when its votes were all in; on the
    /// pool's clock. `revealFrom` and `revealUntil` come earlier when all have acted.
    function panelTimesOf(PoolId pool, uint32 step)
        external
        view
        returns (uint64 commitUntil, uint64 revealFrom, uint64 revealUntil, bool wasRedrawn);

    /// @notice Whether a panel member has committed and has revealed, and keccak256 of what it revealed (its commitment
    /// before).
    function ballotOf(PoolId pool, uint32 step, address provider)
        external
        view
        returns (bool isCommitted, bool isRevealed, bytes32 word);

    /// @notice What a panel member commits: keccak256 over tag, chain, this contract, pool, step, provider, keccak256 of the
    /// outcomes, both roots and a secret salt.
    function voteCommitment(
        PoolId pool,
        uint32 step,
        address provider,
        bytes calldata outcomes,
        bytes32 verdictRoot,
        bytes32 evidenceRoot,
        bytes32 salt
    ) external view returns (bytes32);

    /// @notice Whether a dispute keeps, or kept, a slot out of the settlement.
    function isHeld(PoolId pool, uint32 step, uint32 slot) external view returns (bool);

    /// @notice What each seat of the panel said of one slot: two bits a seat, seat 0 lowest. `votes` are the revealed ones,
    /// seat by seat, empty for a silent seat.
    function ballotsAt(PoolId pool, uint32 step, uint32 slot, bytes[] calldata votes) external view returns (uint32);

    /// @notice What a finalized step says of one slot, `outcomes` being all of it.
    function outcomeAt(PoolId pool, uint32 step, uint32 slot, bytes calldata outcomes) external view returns (Outcome);

    /// @notice Number of slots of a step that a dispute keeps out of the settlement and that are not settled.
    function heldCountOf(PoolId pool, uint32 step) external view returns (uint32);
}
