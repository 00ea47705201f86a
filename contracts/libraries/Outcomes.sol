// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Outcome} from "../types/Enums.sol";

/// @notice Two bits a leaf: how votes and results are packed, and how votes become a result.
/// @dev Leaf i is bits 2·(i % 4) of byte i / 4. A word holds the outcomes of 128 leaves, byte 0 first.
library Outcomes {
    /// @notice Highest panel size whose votes can be counted here (four bits a counter).
    uint256 internal constant MAX_VOTES = 15;

    uint256 private constant LOW_BITS = 0x5555555555555555555555555555555555555555555555555555555555555555;
    uint256 private constant PAIRS = 0x3333333333333333333333333333333333333333333333333333333333333333;
    uint256 private constant NIBBLES = 0x0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f;
    uint256 private constant BYTES = 0x0101010101010101010101010101010101010101010101010101010101010101;
    uint256 private constant LEAVES_PER_WORD = 128;

    /// @notice A packed vote has the wrong number of bytes.
    error OutcomesLength(uint256 got, uint256 expected);

    /// @notice Bits beyond the last leaf of a packed vote are not zero.
    error OutcomesSpareBits(uint8 lastByte);

    struct Result {
        uint256[] words;
        uint32 accepted;
        uint32 rejected;
        uint32 faulted;
    }

    /// @notice Bytes that carry `leafCount` outcomes.
    function lengthOf(uint256 leafCount) internal pure returns (uint256) {
        return (leafCount + 3) / 4;
    }

    /// @notice Refuses all but the one encoding of `leafCount` outcomes.
    function check(bytes calldata packed, uint256 leafCount) internal pure {
        if (packed.length != lengthOf(leafCount)) revert OutcomesLength(packed.length, lengthOf(leafCount));
        if (leafCount % 4 != 0) {
            uint8 last = uint8(packed[packed.length - 1]);
            if (last >> (2 * (leafCount % 4)) != 0) revert OutcomesSpareBits(last);
        }
    }

    /// @notice Cuts packed outcomes into words.
    function toWords(bytes calldata packed) internal pure returns (uint256[] memory words) {
        words = new uint256[]((packed.length + 31) / 32);
        for (uint256 i = 0; i < words.length; ++i) {
            uint256 end = 32 * i + 32;
            words[i] = uint256(bytes32(packed[32 * i:end < packed.length ? end : packed.length]));
        }
    }

    /// @notice The canonical bytes of `leafCount` outcomes held in words.
    function toBytes(uint256[] memory words, uint256 leafCount) internal pure returns (bytes memory) {
        uint256 length = lengthOf(leafCount);
        uint256[] memory whole = new uint256[](length / 32);
        for (uint256 i = 0; i < whole.length; ++i) whole[i] = words[i];
        bytes memory rest = new bytes(length % 32);
        for (uint256 i = 0; i < rest.length; ++i) rest[i] = bytes32(words[whole.length])[i];
        return abi.encodePacked(whole, rest);
    }

    /// @notice The outcome of one leaf.
    function outcomeAt(uint256[] memory words, uint256 index) internal pure returns (Outcome) {
        return inWord(words[index / LEAVES_PER_WORD], index);
    }

    /// @notice The outcome of one leaf in packed bytes.
    function inBytes(bytes calldata packed, uint256 index) internal pure returns (Outcome) {
        return Outcome((uint8(packed[index / 4]) >> (2 * (index % 4))) & 3);
    }

    /// @notice Whether one leaf was accepted: the innermost question of a settlement, so nothing in it is checked twice.
    function isAccepted(uint256[] memory words, uint256 index) internal pure returns (bool) {
        unchecked {
            uint256 shift = 248 - ((index & 124) << 1) + ((index & 3) << 1);
            return (words[index >> 7] >> shift) & 3 == uint256(Outcome.Accept);
        }
    }

    /// @notice Whether all 128 leaves of a word were accepted.
    function isAllAccepted(uint256 word) internal pure returns (bool) {
        return word == LOW_BITS;
    }

    /// @notice Makes the outcome of one leaf Abstain.
    function clear(uint256[] memory words, uint256 index) internal pure {
        unchecked {
            words[index >> 7] &= ~(uint256(3) << (248 - ((index & 124) << 1) + ((index & 3) << 1)));
        }
    }

    /// @notice Number of leaves that `result` decides and on which `vote` abstains.
    function missed(uint256[] memory result, uint256[] memory vote) internal pure returns (uint256 count) {
        for (uint256 w = 0; w < result.length; ++w) {
            uint256 isDecided = (result[w] | (result[w] >> 1)) & LOW_BITS;
            count += _ones(isDecided & ~(vote[w] | (vote[w] >> 1)));
        }
    }

    /// @notice The outcome of leaf `index` in the word that holds it.
    function inWord(uint256 word, uint256 index) internal pure returns (Outcome) {
        uint256 shift = 8 * (31 - (index / 4) % 32) + 2 * (index % 4);
        return Outcome((word >> shift) & 3);
    }

    /// @notice What the votes decide: accept by `quorum` accepts, fault by `quorum` faults, reject by `quorum` rejects
    /// and faults together, else abstain.
    /// @dev `quorum` must exceed half of the votes, or accept and reject could both hold. Counts all leaves of a word
    /// at once: a counter is four planes of bits, a leaf is one lane of two bits.
    function tally(uint256[][] memory votes, uint256 wordCount, uint256 quorum)
        internal
        pure
        returns (Result memory result)
    {
        result.words = new uint256[](wordCount);
        for (uint256 w = 0; w < wordCount; ++w) {
            uint256[4] memory accepts;
            uint256[4] memory againsts;
            uint256[4] memory faults;
            for (uint256 v = 0; v < votes.length; ++v) {
                if (votes[v].length == 0) continue; // nobody's
                uint256 vote = votes[v][w];
                uint256 low = vote & LOW_BITS;
                uint256 high = (vote >> 1) & LOW_BITS;
                _count(accepts, low & ~high);
                _count(againsts, high);
                _count(faults, high & low);
            }
            uint256 accepted = _atLeast(accepts, quorum);
            uint256 faulted = _atLeast(faults, quorum);
            uint256 rejected = _atLeast(againsts, quorum) & ~faulted;
            result.words[w] = accepted | (rejected << 1) | faulted | (faulted << 1);
            result.accepted += uint32(_ones(accepted));
            result.rejected += uint32(_ones(rejected));
            result.faulted += uint32(_ones(faulted));
        }
    }

    /// @notice What the votes decide about one leaf, given as two bits a vote.
    function decide(uint32 ballots, uint256 quorum) internal pure returns (Outcome) {
        uint256[4] memory counts;
        for (uint256 bits = ballots; bits != 0; bits >>= 2) ++counts[bits & 3];
        if (counts[uint256(Outcome.Accept)] >= quorum) return Outcome.Accept;
        if (counts[uint256(Outcome.Fault)] >= quorum) return Outcome.Fault;
        if (counts[uint256(Outcome.Reject)] + counts[uint256(Outcome.Fault)] >= quorum) return Outcome.Reject;
        return Outcome.Abstain;
    }

    /// @dev Adds one to the counter of every lane whose bit is set.
    function _count(uint256[4] memory planes, uint256 carry) private pure {
        unchecked {
            for (uint256 i = 0; carry != 0; ++i) {
                uint256 plane = planes[i];
                planes[i] = plane ^ carry;
                carry &= plane;
            }
        }
    }

    /// @dev The lanes whose counter is at least `threshold`.
    function _atLeast(uint256[4] memory planes, uint256 threshold) private pure returns (uint256) {
        uint256 greater = 0;
        uint256 equal = LOW_BITS;
        for (uint256 i = 4; i > 0; --i) {
            uint256 plane = planes[i - 1];
            if ((threshold >> (i - 1)) & 1 == 1) {
                equal &= plane;
            } else {
                greater |= equal & plane;
                equal &= ~plane;
            }
        }
        return greater | equal;
    }

    /// @dev Number of lanes whose low bit is set: sums of neighbours, then of all bytes at once.
    function _ones(uint256 lanes) private pure returns (uint256) {
        unchecked {
            lanes = (lanes & PAIRS) + ((lanes >> 2) & PAIRS);
            lanes = (lanes & NIBBLES) + ((lanes >> 4) & NIBBLES);
            // At most 128 lanes, so no byte overflows.
            return (lanes * BYTES) >> 248;
        }
    }
}
