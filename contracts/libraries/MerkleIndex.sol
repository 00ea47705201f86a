// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Hashes} from "@openzeppelin/contracts/utils/cryptography/Hashes.sol";

/// @notice A positional binary Merkle tree: the index of a leaf fixes the direction at each level.
/// @dev Inner node = keccak256(left ‖ right). Leaves are padded with zero words to the next power of two, so a proof
/// has exactly ceil(log2(leafCount)) words. A leaf is the hash of more than 64 bytes: no leaf passes for an inner node.
library MerkleIndex {
    /// @notice Number of levels above `leafCount` leaves.
    function depth(uint256 leafCount) internal pure returns (uint256 levels) {
        while ((uint256(1) << levels) < leafCount) ++levels;
    }

    /// @notice Whether `leaf` stands at `index` of the tree with that root and number of leaves.
    function verify(bytes32 root, bytes32 leaf, uint256 index, uint256 leafCount, bytes32[] calldata proof)
        internal
        pure
        returns (bool)
    {
        if (index >= leafCount || proof.length != depth(leafCount)) return false;
        bytes32 node = leaf;
        for (uint256 level = 0; level < proof.length; ++level) {
            node = (index >> level) & 1 == 0
                ? Hashes.efficientKeccak256(node, proof[level])
                : Hashes.efficientKeccak256(proof[level], node);
        }
        return node == root;
    }
}
