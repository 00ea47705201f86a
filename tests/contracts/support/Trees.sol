// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @dev Builds the trees whose proofs the contracts check.
library Trees {
    function root(bytes32[] memory leaves) internal pure returns (bytes32) {
        bytes32[] memory level = pad(leaves);
        while (level.length > 1) level = up(level);
        return level[0];
    }

    function proof(bytes32[] memory leaves, uint256 index) internal pure returns (bytes32[] memory path) {
        bytes32[] memory level = pad(leaves);
        uint256 depth = 0;
        while (level.length >> depth > 1) ++depth;
        path = new bytes32[](depth);
        for (uint256 i = 0; i < depth; ++i) {
            path[i] = level[index ^ 1];
            index >>= 1;
            level = up(level);
        }
    }

    /// All levels, the leaves first: for many proofs of one large tree.
    function levels(bytes32[] memory leaves) internal pure returns (bytes32[][] memory all) {
        bytes32[] memory level = pad(leaves);
        uint256 depth = 0;
        while (level.length >> depth > 1) ++depth;
        all = new bytes32[][](depth + 1);
        for (uint256 i = 0; i <= depth; ++i) {
            all[i] = level;
            if (i < depth) level = up(level);
        }
    }

    function proofIn(bytes32[][] memory all, uint256 index) internal pure returns (bytes32[] memory path) {
        path = new bytes32[](all.length - 1);
        for (uint256 i = 0; i < path.length; ++i) path[i] = all[i][(index >> i) ^ 1];
    }

    function pad(bytes32[] memory leaves) internal pure returns (bytes32[] memory level) {
        uint256 width = 1;
        while (width < leaves.length) width *= 2;
        level = new bytes32[](width);
        for (uint256 i = 0; i < leaves.length; ++i) level[i] = leaves[i];
    }

    function up(bytes32[] memory level) internal pure returns (bytes32[] memory next) {
        next = new bytes32[](level.length / 2);
        for (uint256 i = 0; i < next.length; ++i) {
            next[i] = keccak256(bytes.concat(level[2 * i], level[2 * i + 1]));
        }
    }
}
