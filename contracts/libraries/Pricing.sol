// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";

import {Fees, PanelRules, Rates} from "../types/PoolTerms.sol";

/// @notice What work, judgement and a whole step cost under a pool's terms. Never by reward.
library Pricing {
    uint256 private constant BPS = 10_000;

    /// @notice What a step pays, by its prices, the most units of a group and the pay cap.
    function rates(uint256 pricePerGroup, uint256 pricePerToken, uint256 unitCap, uint256 payCapBps)
        internal
        pure
        returns (Rates memory)
    {
        uint256 slotCap = pricePerGroup + pricePerToken * unitCap;
        return Rates(slotCap, unitCap, pricePerGroup, pricePerToken, payCapBps);
    }

    /// @notice What an accepted group of `units` generated tokens is paid, in wei.
    function payout(Rates memory r, uint256 units) internal pure returns (uint256) {
        return r.pricePerGroup + r.pricePerToken * Math.min(units, r.unitCap);
    }

    /// @notice The most that one step pays a worker with that stake.
    function payCap(Rates memory r, uint256 staked) internal pure returns (uint256) {
        return (staked * r.payCapBps) / BPS;
    }

    /// @notice All jurors of a case, those of a redrawn and larger jury included.
    function juryCost(Fees memory fees, PanelRules memory rules) internal pure returns (uint256) {
        return (2 * uint256(rules.jurySize) + 2) * fees.jurorFee;
    }

    /// @notice What a step may pay to whoever asks first, work or not: to those who seal its beacons, and for leases given
    /// twice.
    function giveaway(Fees memory fees) internal pure returns (uint256) {
        return 2 * uint256(fees.sealFee) + fees.leaseBond;
    }

    /// @notice The most that a step of `slots` slots, those that can be taken on chain included, can cost.
    function stepCost(Rates memory r, Fees memory fees, PanelRules memory rules, uint256 slots)
        internal
        pure
        returns (uint256)
    {
        uint256 panels = 2 * uint256(rules.panelSize) * fees.panelFee;
        return slots * (r.slotCap + juryCost(fees, rules)) + panels + giveaway(fees);
    }
}
