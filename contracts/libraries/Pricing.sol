// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {PoolTerms} from "../types/PoolTerms.sol";

/// @notice What a group costs under a pool's terms. Never by reward.
library Pricing {
    /// @notice The most that one slot can be paid, in wei.
    function slotCap(PoolTerms memory terms) internal pure returns (uint256) {
        return payout(terms, type(uint32).max);
    }

    /// @notice What an accepted group of `units` generated tokens is paid, in wei.
    function payout(PoolTerms memory terms, uint32 units) internal pure returns (uint256) {
        uint256 unitCap = uint256(terms.groupSize) * terms.maxCompletionTokens;
        uint256 paidUnits = units < unitCap ? units : unitCap;
        return terms.pricePerGroup + terms.pricePerToken * paidUnits;
    }
}
