// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice The contracts of one deployment. Each is created with the same list and keeps what it needs.
struct Parts {
    address stakeToken;
    address stakes;
    address registry;
    address ledger;
    address vault;
    address court;
    address panel;
    address plants;
    address sink; // where slashed and burned tokens go
}

using {checkParts} for Parts global;

/// @notice An address of the list is zero.
error PartMissing();

/// @dev Refuses an incomplete list: a contract wired to nothing cannot be mended.
function checkParts(Parts memory parts) pure {
    if (
        parts.stakeToken == address(0) || parts.stakes == address(0) || parts.registry == address(0)
            || parts.ledger == address(0) || parts.vault == address(0) || parts.court == address(0)
            || parts.panel == address(0) || parts.plants == address(0) || parts.sink == address(0)
    ) revert PartMissing();
}
