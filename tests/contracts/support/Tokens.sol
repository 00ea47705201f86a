// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";

/// @dev A token that keeps one in a hundred of each transfer.
contract FeeToken is ERC20("Fee", "FEE") {
    function mint(address to, uint256 amount) external {
        _mint(to, amount);
    }

    function _update(address from, address to, uint256 amount) internal override {
        super._update(from, to, amount);
        if (from != address(0) && to != address(0)) super._update(to, address(0xFEE), amount / 100);
    }
}

/// @dev A token that calls back once, whenever it is transferred.
contract ReentrantToken is ERC20("Reentrant", "RE") {
    address public target;
    bytes public data;
    bytes public failure;
    bool public failed;

    function mint(address to, uint256 amount) external {
        _mint(to, amount);
    }

    function arm(address target_, bytes calldata data_) external {
        target = target_;
        data = data_;
    }

    function _update(address from, address to, uint256 amount) internal override {
        super._update(from, to, amount);
        if (target == address(0) || from == address(0)) return;
        address callee = target;
        target = address(0);
        (bool ok, bytes memory result) = callee.call(data);
        failed = !ok;
        failure = result;
    }
}
