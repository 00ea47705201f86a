// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice Draws a panel or a jury by stake, without replacement, from an ordered list of candidates.
library PanelDraw {
    bytes32 internal constant TAG = keccak256("stannary.panel.v1");

    /// @notice Up to `size` distinct candidates. Fewer only when fewer have weight.
    /// @dev Changes `weights`: whoever was drawn has none left.
    function draw(address[] memory candidates, uint256[] memory weights, bytes32 beacon, uint256 size)
        internal
        pure
        returns (address[] memory panel)
    {
        uint256 remaining;
        uint256 eligible;
        for (uint256 i = 0; i < weights.length; ++i) {
            remaining += weights[i];
            if (weights[i] != 0) ++eligible;
        }
        panel = new address[](size < eligible ? size : eligible);
        for (uint256 i = 0; i < panel.length; ++i) {
            uint256 ticket = uint256(keccak256(abi.encode(TAG, beacon, i))) % remaining;
            uint256 chosen = 0;
            while (ticket >= weights[chosen]) {
                ticket -= weights[chosen];
                ++chosen;
            }
            panel[i] = candidates[chosen];
            remaining -= weights[chosen];
            weights[chosen] = 0;
        }
    }
}
