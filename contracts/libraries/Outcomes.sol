// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Outcome} from "../types/Enums.sol";

/// @notice Two bits a leaf: how votes and results are packed, and how votes become a result.
/// @dev Leaf i is bits 2·(i % 4) of byte i / 4. A word holds the outcomes of 128 leaves, byte 0 first.
library Outcomes {
    /// @notice Highest panel size whose votes can be counted here (four bits a counter).
    uint256 internal constant MAX_VOTES = 15;

    uint256 private constant LOW_BITS = 0x5555555555555555555555555555555555555555555555555555555555555555;
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

    /// @notice Refuses all but the one encoding of `leafCount` outcomes, and cuts it into words.
    function toWords(bytes calldata packed, uint256 leafCount) internal pure returns (uint256[] memory words) {
        if (packed.length != lengthOf(leafCount)) revert OutcomesLength(packed.length, lengthOf(leafCount));
        if (leafCount % 4 != 0) {
            uint8 last = uint8(packed[packed.length - 1]);
            if (last >> (2 * (leafCount % 4)) != 0) revert OutcomesSpareBits(last);
        }
        words = new uint256[]((packed.length + 31) / 32);
        for (uint256 i = 0; i < words.length; ++i) {
            uint256 end = 32 * i + 32;
            words[i] = uint256(bytes32(packed[32 * i:end < packed.length ? end : packed.length]));
        }
    }

    /// @notice The canonical bytes of `leafCount` outcomes held in words.
    function toBytes(uint256[] memory words, uint256 leafCount) internal pure returns (bytes memory packed) {
        packed = new bytes(lengthOf(leafCount));
        for (uint256 i = 0; i < packed.length; ++i) packed[i] = bytes32(words[i / 32])[i % 32];
    }

    /// @notice The outcome of one leaf.
    function outcomeAt(uint256[] memory words, uint256 index) internal pure returns (Outcome) {
        return inWord(words[index / LEAVES_PER_WORD], index);
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
                uint256 low = votes[v][w] & LOW_BITS;
                uint256 high = (votes[v][w] >> 1) & LOW_BITS;
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

    /// @dev Adds one to the counter of every lane whose bit is set.
    function _count(uint256[4] memory planes, uint256 carry) private pure {
        for (uint256 i = 0; carry != 0; ++i) {
            uint256 next = planes[i] & carry;
            planes[i] ^= carry;
            carry = next;
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

    /// @dev Number of set bits.
    function _ones(uint256 x) private pure returns (uint256 ones) {
        while (x != 0) {
            x &= x - 1;
            ++ones;
        }
    }
}
