"""The panel draw: by stake, without replacement, from the beacon alone."""

from __future__ import annotations

from collections import Counter

import pytest
from eth_utils.crypto import keccak
from hypothesis import given
from hypothesis import strategies as st

from stannary.errors import Malformed
from stannary.panel import draw_panel
from stannary.types import Address, Hash


def candidates(stakes: list[int]) -> list[tuple[Address, int]]:
    return [(Address(f"0x{i:040x}"), stake) for i, stake in enumerate(stakes)]


@given(st.lists(st.integers(1, 10**24), min_size=3, max_size=12), st.binary(min_size=32, max_size=32))
def test_panel_is_distinct_and_repeatable(stakes: list[int], beacon: bytes) -> None:
    panel = draw_panel(candidates(stakes), Hash(beacon), 3)
    assert len(set(panel)) == 3
    assert panel == draw_panel(candidates(stakes), Hash(beacon), 3)


def test_panel_without_enough_stake_is_refused() -> None:
    with pytest.raises(Malformed, match="candidates"):
        draw_panel(candidates([5, 0, 5]), Hash(b"\x01" * 32), 3)


def test_stakeless_validator_is_never_drawn_and_stake_weighs() -> None:
    first = Counter(
        draw_panel(candidates([1, 0, 3]), Hash(keccak(bytes([i, j]))), 1)[0] for i in range(40) for j in range(50)
    )
    assert first[Address(f"0x{1:040x}")] == 0
    assert 0.70 < first[Address(f"0x{2:040x}")] / 2000 < 0.80
