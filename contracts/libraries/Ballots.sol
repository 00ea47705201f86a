// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice A ballot box: members commit, then anyone reveals for them. All times on the clock that the caller passes.
/// @dev Commitments end at `openedAt + voteSeconds`, or when all have committed; reveals end `revealSeconds` later, or
/// when all who committed have revealed. An interval holds its start and not its end, so none overlaps the next. A
/// commitment must bind the member and the subject: the box only compares.
library Ballots {
    struct Box {
        uint48 openedAt;
        uint48 sealedAt; // when the last member committed
        uint48 closedAt; // when the last commitment was revealed
        uint16 committed; // a bit a seat
        uint16 revealed; // a bit a seat
        bool wasRefilled;
        uint8 seats;
        uint16 positions; // what each vote is about: for the caller to keep
        mapping(uint256 seat => address) memberAt;
        mapping(address member => bytes32) words; // the commitment; once revealed, what the caller keeps of the content
    }

    /// @notice The account is not a member.
    error NotMember(address account);

    /// @notice The member committed before.
    error AlreadyCommitted(address member);

    /// @notice The member revealed before.
    error AlreadyRevealed(address member);

    /// @notice The time for commitments is over.
    error CommitOver(uint256 until, uint256 time);

    /// @notice The time for reveals has not come or is over.
    error RevealClosed(uint256 from, uint256 until, uint256 time);

    /// @notice What is revealed is not what this member committed.
    error CommitmentMismatch(address member, bytes32 committed, bytes32 revealed);

    /// @notice A commitment is zero.
    error CommitmentZero();

    /// @notice Seats the first members. `positions` is what each vote is about, for the caller to keep.
    function open(Box storage box, address[] memory newcomers, uint16 positions, uint48 time) internal {
        box.positions = positions;
        _seat(box, newcomers, 0, time);
    }

    /// @notice Keeps who has revealed, gives the other seats to `newcomers`, and opens the box anew.
    function refill(Box storage box, address[] memory newcomers, uint48 time) internal {
        uint256 kept = 0;
        for (uint256 seat = 0; seat < box.seats; ++seat) {
            if (hasRevealed(box, seat)) box.memberAt[kept++] = box.memberAt[seat];
        }
        box.wasRefilled = true;
        _seat(box, newcomers, kept, time);
    }

    /// @notice Takes a member's commitment.
    function commit(Box storage box, address member, bytes32 word, uint48 time, uint32 voteSeconds) internal {
        if (word == bytes32(0)) revert CommitmentZero();
        uint256 seat = seatOf(box, member);
        uint16 bit = uint16(1 << seat);
        if (box.committed & bit != 0) revert AlreadyCommitted(member);
        uint48 until = commitUntil(box, voteSeconds);
        if (time >= until) revert CommitOver(until, time);
        box.words[member] = word;
        box.committed |= bit;
        if (box.committed == (1 << box.seats) - 1) box.sealedAt = time;
    }

    /// @notice Takes what a member committed. `word` is the commitment to what is revealed, `content` what is kept.
    function reveal(
        Box storage box,
        address member,
        bytes32 word,
        bytes32 content,
        uint48 time,
        uint32 voteSeconds,
        uint32 revealSeconds
    ) internal {
        uint16 bit = uint16(1 << seatOf(box, member));
        if (box.revealed & bit != 0) revert AlreadyRevealed(member);
        uint48 from = revealFrom(box, voteSeconds);
        if (time < from || time >= from + revealSeconds) revert RevealClosed(from, from + revealSeconds, time);
        if (box.words[member] != word) revert CommitmentMismatch(member, box.words[member], word);
        box.words[member] = content;
        box.revealed |= bit;
        if (box.revealed == box.committed) box.closedAt = time;
    }

    /// @notice Until when members may commit, if not all have.
    function commitUntil(Box storage box, uint32 voteSeconds) internal view returns (uint48) {
        return box.openedAt + voteSeconds;
    }

    /// @notice From when commitments may be revealed.
    function revealFrom(Box storage box, uint32 voteSeconds) internal view returns (uint48) {
        return box.sealedAt != 0 ? box.sealedAt : box.openedAt + voteSeconds;
    }

    /// @notice When the votes are all in, or can no longer come.
    function closesAt(Box storage box, uint32 voteSeconds, uint32 revealSeconds) internal view returns (uint48) {
        return box.closedAt != 0 ? box.closedAt : revealFrom(box, voteSeconds) + revealSeconds;
    }

    /// @notice Number of members that have revealed.
    function countRevealed(Box storage box) internal view returns (uint256 count) {
        for (uint256 bits = box.revealed; bits != 0; bits &= bits - 1) ++count;
    }

    /// @notice Whether the member in a seat has revealed.
    function hasRevealed(Box storage box, uint256 seat) internal view returns (bool) {
        return (box.revealed >> seat) & 1 == 1;
    }

    /// @notice All members, in seat order.
    function members(Box storage box) internal view returns (address[] memory list) {
        list = new address[](box.seats);
        for (uint256 seat = 0; seat < list.length; ++seat) list[seat] = box.memberAt[seat];
    }

    /// @notice Members that have not revealed, in seat order.
    function silent(Box storage box) internal view returns (address[] memory list) {
        list = new address[](box.seats - countRevealed(box));
        uint256 filled = 0;
        for (uint256 seat = 0; filled < list.length; ++seat) {
            if (!hasRevealed(box, seat)) list[filled++] = box.memberAt[seat];
        }
    }

    /// @notice The seat of a member.
    function seatOf(Box storage box, address member) internal view returns (uint256) {
        uint256 size = box.seats;
        for (uint256 seat = 0; seat < size; ++seat) {
            if (box.memberAt[seat] == member) return seat;
        }
        revert NotMember(member);
    }

    /// @notice Whether and how far a member has voted; all zero for who is none.
    function ballotOf(Box storage box, address member)
        internal
        view
        returns (bool isCommitted, bool isRevealed, bytes32 word)
    {
        for (uint256 seat = 0; seat < box.seats; ++seat) {
            if (box.memberAt[seat] != member) continue;
            return ((box.committed >> seat) & 1 == 1, hasRevealed(box, seat), box.words[member]);
        }
    }

    /// @dev Seats newcomers after those who are kept. Nobody can act in a box without open seats: it is closed at once.
    function _seat(Box storage box, address[] memory newcomers, uint256 kept, uint48 time) private {
        for (uint256 i = 0; i < newcomers.length; ++i) box.memberAt[kept + i] = newcomers[i];
        box.seats = uint8(kept + newcomers.length);
        box.committed = uint16((1 << kept) - 1);
        box.revealed = box.committed;
        box.openedAt = time;
        box.sealedAt = newcomers.length == 0 ? time : 0;
        box.closedAt = box.sealedAt;
    }
}
