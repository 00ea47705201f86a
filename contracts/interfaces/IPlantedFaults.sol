// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Phase} from "../types/Enums.sol";
import {CaseId, PoolId} from "../types/Ids.sol";
import {LeafOpening} from "../types/Submission.sol";

/// @title Planted faults: leaves that are bad on purpose, to see who accepts without looking.
/// @dev A plant never pays its planter for itself: accepted, it earns at most the price of a slot and loses a bond of that
/// price; found, it earns nothing and gets the bond back.
interface IPlantedFaults {
    event Planted(bytes32 indexed commitment, PoolId indexed pool, uint32 indexed step, address planter, uint256 bond);
    event PlantRevealed(
        bytes32 indexed commitment, PoolId indexed pool, uint32 indexed step, uint32 slot, bytes32 leafHash
    );
    event PlantSettled(bytes32 indexed commitment, bool wasFault, uint256 fined);

    /// @notice The time for this has not come.
    error TooEarly(uint256 earliest, uint256 time);

    /// @notice The caller acts for no provider.
    error NotProvider(address caller);

    /// @notice The commitment was made before.
    error PlantKnown(bytes32 commitment);

    /// @notice No such plant waits, or it is another planter's, pool's or step's.
    error UnknownPlant(bytes32 commitment);

    /// @notice The plant was revealed already.
    error PlantRevealedBefore(bytes32 commitment);

    /// @notice The step has another phase than this needs.
    error WrongStepPhase(PoolId pool, uint32 step, Phase phase);

    /// @notice A case about the slot is not resolved.
    error CaseUnresolved(CaseId caseId);

    /// @notice Commits to a planted fault before the step's root is committed, for a bond of the slot's price. The leaf must
    /// be one of the caller's provider. See `plantCommitment`.
    function plant(PoolId pool, uint32 step, bytes32 commitment) external;

    /// @notice Shows that a leaf was planted, after the votes on it are revealed. It is then not slashed.
    function revealPlant(PoolId pool, uint32 step, LeafOpening calldata opening, bytes32 salt) external;

    /// @notice Settles a plant of a settled step: if its leaf ended as a fault, the bond comes back and whoever accepted it
    /// is fined; if the step was cancelled, the bond comes back; else it is locked. `votes` are the panel's, `outcomes` the
    /// step's. Anyone.
    function settlePlant(bytes32 commitment, bytes[] calldata votes, bytes calldata outcomes) external;

    /// @notice What a planter commits: keccak256 over tag, chain, this contract, planter, leaf hash and a secret salt.
    function plantCommitment(address planter, bytes32 leafHash, bytes32 salt) external view returns (bytes32);

    /// @notice Whether a leaf is a revealed plant: it is not slashed.
    function isPlant(bytes32 leafHash) external view returns (bool);
}
