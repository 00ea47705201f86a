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

/// @dev A token whose balances someone scales, as a token of a growing or shrinking claim does.
contract RebaseToken {
    uint256 public percent = 100;
    uint256 public totalSupply;
    mapping(address account => uint256) private _parts;
    mapping(address owner => mapping(address spender => uint256)) public allowance;

    function mint(address to, uint256 amount) external {
        _parts[to] += amount;
        totalSupply += amount;
    }

    function rebase(uint256 percent_) external {
        percent = percent_;
    }

    function approve(address spender, uint256 amount) external returns (bool) {
        allowance[msg.sender][spender] = amount;
        return true;
    }

    function transfer(address to, uint256 amount) external returns (bool) {
        _move(msg.sender, to, amount);
        return true;
    }

    function transferFrom(address from, address to, uint256 amount) external returns (bool) {
        allowance[from][msg.sender] -= amount;
        _move(from, to, amount);
        return true;
    }

    function balanceOf(address account) public view returns (uint256) {
        return _parts[account] * percent / 100;
    }

    function _move(address from, address to, uint256 amount) private {
        require(balanceOf(from) >= amount, "balance too low");
        uint256 parts = amount * 100 / percent;
        _parts[from] -= parts;
        _parts[to] += parts;
    }
}

/// @dev A token that says false instead of moving anything, once it is told to.
contract FalseToken is ERC20("False", "NO") {
    bool public refuses;

    function mint(address to, uint256 amount) external {
        _mint(to, amount);
    }

    function refuse(bool refuses_) external {
        refuses = refuses_;
    }

    function transfer(address to, uint256 amount) public override returns (bool) {
        return !refuses && super.transfer(to, amount);
    }

    function transferFrom(address from, address to, uint256 amount) public override returns (bool) {
        return !refuses && super.transferFrom(from, to, amount);
    }
}

/// @dev A token whose transfers return nothing, as some old ones do.
contract SilentToken {
    mapping(address account => uint256) public balanceOf;
    mapping(address owner => mapping(address spender => uint256)) public allowance;

    function mint(address to, uint256 amount) external {
        balanceOf[to] += amount;
    }

    function approve(address spender, uint256 amount) external {
        allowance[msg.sender][spender] = amount;
    }

    function transfer(address to, uint256 amount) external {
        balanceOf[msg.sender] -= amount;
        balanceOf[to] += amount;
    }

    function transferFrom(address from, address to, uint256 amount) external {
        allowance[from][msg.sender] -= amount;
        balanceOf[from] -= amount;
        balanceOf[to] += amount;
    }
}

/// @dev A token that no transfer to one account succeeds of.
contract PickyToken is ERC20("Picky", "PICK") {
    address public unwanted;

    error Unwanted(address account);

    function mint(address to, uint256 amount) external {
        _mint(to, amount);
    }

    function shun(address account) external {
        unwanted = account;
    }

    function _update(address from, address to, uint256 amount) internal override {
        if (to == unwanted && to != address(0)) revert Unwanted(to);
        super._update(from, to, amount);
    }
}

/// @dev A token that takes more of the sender than it gives to the receiver.
contract GreedyToken is ERC20("Greedy", "GR") {
    address public victim;

    function mint(address to, uint256 amount) external {
        _mint(to, amount);
    }

    function tax(address account) external {
        victim = account;
    }

    function _update(address from, address to, uint256 amount) internal override {
        super._update(from, to, amount);
        if (victim == address(0) || from == address(0) || to == address(0)) return;
        if (balanceOf(victim) >= amount) super._update(victim, address(0xFEE), amount);
    }
}
