// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Submission} from "../types/Submission.sol";

/// @notice The leaf hash of a submission: its EIP-712 struct hash.
library SubmissionHash {
    bytes32 internal constant TYPEHASH = keccak256(
        "Submission(uint64 pool,uint32 step,uint32 slot,address provider,address node,uint32 units,bytes32 contentHash,bytes32 leaseHash)"
    );

    /// @notice keccak256(abi.encode(TYPEHASH, members in order)).
    function hash(Submission memory leaf) internal pure returns (bytes32) {
        return keccak256(abi.encode(TYPEHASH, leaf));
    }
}
