// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Lease} from "../types/Submission.sol";

/// @notice The EIP-712 struct hash of a lease.
library LeaseHash {
    bytes32 internal constant TYPEHASH = keccak256(
        "Lease(uint64 pool,uint32 step,uint32 policyStep,uint32 slot,address provider,address node,uint64 validFrom,uint64 validUntil,uint32 maxUnits,bytes32 cardHash,uint32 protocolVersion)"
    );

    /// @notice keccak256(abi.encode(TYPEHASH, members in order)).
    function hash(Lease memory lease) internal pure returns (bytes32) {
        return keccak256(abi.encode(TYPEHASH, lease));
    }
}
