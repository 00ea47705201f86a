// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {CaseKind, CasePhase, Outcome, Ruling} from "../types/Enums.sol";
import {CaseId, PoolId} from "../types/Ids.sol";
import {LeafOpening} from "../types/Submission.sol";

/// @title Disputes before a jury.
/// @dev Holds no money: bonds lie in the vault, stake in the stake manager.
interface IDisputeCourt {
    /// @notice One dispute. `…At` on the pool's clock, `…Block` a block number.
    struct Case {
        CaseKind kind;
        CasePhase phase;
        PoolId pool;
        uint32 step; // of the leaf; the last of a run
        uint32 slot; // of the leaf
        uint32 firstStep; // of a run
        address provider; // whose leaf or run it is
        address disputant; // who opened the case
        address appellant; // who appealed a ruling on a run, or zero
        uint64 snapshotBlock; // whose stakes the jury is drawn by
        uint64 juryBlock; // whose hash draws the jury
        uint64 barred; // who of the pool's validators cannot be drawn: fixed when the block is chosen
        uint64 appealUntil;
        uint32 units;
        uint32 ballots; // what the panel said of the leaf, two bits a seat
        uint8 round; // 0, 1 after a redraw; 2 and 3 alike when a ruling on a run was appealed
        Outcome outcome; // what the panel decided; once resolved, what holds
        Ruling ruling;
        uint128 bond;
        uint128 appealBond;
        bytes32 leafHash; // for Statistics: keccak256 of the list of leaves
        bytes32 evidenceHash;
    }

    event CaseOpened(
        CaseId indexed caseId, PoolId indexed pool, address indexed provider, Case details, string location
    );
    event CaseAppealed(CaseId indexed caseId, address indexed appellant, uint256 bond, uint64 juryBlock);
    event JuryDrawn(CaseId indexed caseId, uint8 round, address[] jury, bytes32 beacon);
    event JuryRedrawn(CaseId indexed caseId, uint64 juryBlock);
    event JurorCommitted(CaseId indexed caseId, address indexed provider, bytes32 commitment);
    event JurorRevealed(CaseId indexed caseId, address indexed provider, Ruling ruling);
    event CaseRuled(CaseId indexed caseId, Ruling ruling, uint64 appealUntil);
    event CaseResolved(
        CaseId indexed caseId, Ruling ruling, Outcome outcome, bool isBondLost, uint256 paid, uint256 slashed
    );

    /// @notice The case is in another phase; None if no case has this number.
    error WrongCasePhase(CaseId caseId, CasePhase phase, CasePhase expected);

    /// @notice The block that draws the jury is not past.
    error BeaconNotReady(uint64 beaconBlock, uint256 current);

    /// @notice The votes of the jury are not all in and their time is not over.
    error JuryNotDone(CaseId caseId, uint256 until, uint256 time);

    /// @notice The time for this is over.
    error DeadlinePassed(uint256 deadline, uint256 time);

    /// @notice The time for this has not come.
    error TooEarly(uint256 earliest, uint256 time);

    /// @notice An accepted leaf is challenged, any other is appealed.
    error WrongOutcome(CaseKind kind, Outcome outcome);

    /// @notice The run is empty, reaches beyond what is settled, or was judged before.
    error RunOutOfRange(uint32 firstStep, uint32 lastStep, uint32 judgedBefore, uint32 settled);

    /// @notice The provider has no stake at work to answer with.
    error NotAccountable(PoolId pool, address provider);

    /// @notice Says that an accepted leaf is bad, for `bondOf(pool)`. Anyone, once a leaf, within the challenge window.
    /// The disputant must serve the bytes of the leaf at `location` until the case is resolved.
    function challenge(
        PoolId pool,
        uint32 step,
        LeafOpening calldata opening,
        bytes[] calldata votes,
        bytes32 evidenceHash,
        string calldata location
    ) external returns (CaseId);

    /// @notice Says that a leaf that was not accepted is good, for `bondOf(pool)`. Anyone, once a leaf, within the
    /// challenge window. The disputant must serve the bytes of the leaf at `location` until the case is resolved.
    function appeal(
        PoolId pool,
        uint32 step,
        LeafOpening calldata opening,
        bytes[] calldata votes,
        bytes32 evidenceHash,
        string calldata location
    ) external returns (CaseId);

    /// @notice Says that a worker's leaves from one settled step to another are, as a whole, beyond honest numerics, for
    /// twice `bondOf(pool)`. Runs of one worker do not overlap. `listHash` names the leaves, `evidenceHash` the evidence,
    /// both served at `location`. Anyone, within the challenge window of the last step.
    function accuse(
        PoolId pool,
        address provider,
        uint32 firstStep,
        uint32 lastStep,
        bytes32 listHash,
        bytes32 evidenceHash,
        string calldata location
    ) external returns (CaseId);

    /// @notice Draws the jury of a case, disjoint from the panel and earlier juries and from the parties. Anyone.
    function drawJury(CaseId caseId) external;

    /// @notice Commits the vote of a juror, by its node (or itself). See `jurorCommitment`.
    function commitRuling(CaseId caseId, bytes32 commitment) external;

    /// @notice Reveals a juror's vote. Anyone may reveal for `provider`.
    function revealRuling(CaseId caseId, address provider, Ruling ruling, bytes32 salt) external;

    /// @notice Counts the jury and acts on its ruling; fines silence; without quorum draws a larger jury, once. Anyone.
    function resolve(CaseId caseId) external;

    /// @notice Takes a ruling against a run of leaves to a second jury, for `bondOf(pool)`. Anyone, in its time.
    function appealRuling(CaseId caseId) external;

    /// @notice A case; all zero if there is none.
    function caseOf(CaseId caseId) external view returns (Case memory);

    /// @notice Number of cases opened; the highest case number.
    function caseCount() external view returns (uint64);

    /// @notice The case about a slot of a step; 0 if there is none.
    function caseOfSlot(PoolId pool, uint32 step, uint32 slot) external view returns (CaseId);

    /// @notice The jury that sits, or sat last.
    function juryOf(CaseId caseId) external view returns (address[] memory);

    /// @notice When a jury may commit until, when it may reveal from and until; on the pool's clock.
    function juryTimesOf(CaseId caseId)
        external
        view
        returns (uint64 commitUntil, uint64 revealFrom, uint64 revealUntil);

    /// @notice Whether a juror has committed and has revealed, and its vote.
    function rulingOf(CaseId caseId, address provider)
        external
        view
        returns (bool isCommitted, bool isRevealed, Ruling ruling);

    /// @notice What a dispute costs at first, in wei of the payout token: all jurors of both rounds, twice.
    function bondOf(PoolId pool) external view returns (uint256);

    /// @notice What a juror commits: keccak256 over tag, chain, court, case, round, provider, ruling and a secret salt.
    function jurorCommitment(CaseId caseId, address provider, Ruling ruling, bytes32 salt)
        external
        view
        returns (bytes32);

    /// @notice The last step of a worker's leaves that a ruling on a run has covered, plus one.
    function judgedUpTo(PoolId pool, address provider) external view returns (uint32);
}
