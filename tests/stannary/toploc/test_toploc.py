"""stannary.toploc: golden integers, interpolation by the textbook, hostile proofs, honest and other states."""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stannary.errors import ProofError
from stannary.toploc import PRIME, PROOF_BYTES, TOP_K, ChunkDrift, Proof, build, chunk_count, field, parse, verify
from stannary.toploc.states import top_points, top_points_on_device

VECTORS: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "vectors" / "toploc.json").read_text())["cases"]
U32 = npt.NDArray[np.uint32]
SAME = ChunkDrift(exponent_mismatches=0, mantissa_mean=0.0, mantissa_median=0.0)


def states_of(tokens: int, hidden: int = 128, seed: int = 0) -> torch.Tensor:
    return torch.randn(tokens, hidden, generator=torch.Generator().manual_seed(seed)).bfloat16()


def interpolate(x: U32, y: U32) -> U32:
    coefficients = np.empty_like(x)
    field.interpolate(x, y, field.inverses(), coefficients)
    return coefficients


def evaluate(coefficients: U32, x: U32) -> U32:
    padded = np.zeros(-(-len(coefficients) // 16) * 16, np.uint32)
    padded[: len(coefficients)] = coefficients
    value = np.empty_like(x)
    field.evaluate(padded, x, value)
    return value


def largest(values: npt.NDArray[np.uint16]) -> npt.NDArray[np.int64]:
    index = np.empty(TOP_K, np.int64)
    field.largest(values, index)
    return index


def lagrange_value(points: list[tuple[int, int]], at: int) -> int:
    total = 0
    for i, (xi, yi) in enumerate(points):
        top, bottom = yi, 1
        for j, (xj, _) in enumerate(points):
            if j != i:
                top, bottom = top * (at - xj) % PRIME, bottom * (xi - xj) % PRIME
        total += top * pow(bottom, -1, PRIME)
    return total % PRIME


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["name"])
def test_build_of_golden_states_equals_the_golden_integers(case: dict[str, Any]) -> None:
    bits = np.zeros(case["rows"] * case["width"], np.uint16)
    for index, value in case["values"]:
        bits[index] = value
    bits = bits.reshape(case["rows"], case["width"])
    proofs = build(bits)
    for proof, golden in zip(proofs, case["proofs"], strict=True):
        numbers = [golden["modulus"], *golden["coefficients"]]
        assert proof == b"".join(number.to_bytes(2, "big") for number in numbers)
    assert build(torch.from_numpy(bits).view(torch.bfloat16)) == proofs
    assert verify(bits, proofs) == [SAME] * len(proofs)


@pytest.mark.parametrize("case", VECTORS[:1] + VECTORS[3:4], ids=lambda case: case["name"])
def test_golden_coefficients_pass_through_the_points_by_plain_arithmetic(case: dict[str, Any]) -> None:
    golden = case["proofs"][0]
    for index, value in case["values"]:
        x = index % golden["modulus"]
        assert sum(c * pow(x, degree, PRIME) for degree, c in enumerate(golden["coefficients"])) % PRIME == value


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(0, PRIME - 1), st.integers(0, PRIME - 1)), min_size=2, max_size=40))
def test_interpolate_equals_lagrange(points: list[tuple[int, int]]) -> None:
    points = list(dict(points).items())
    x, y = (np.array(column, np.uint32) for column in zip(*points, strict=True))
    coefficients = interpolate(x, y)
    assert np.array_equal(evaluate(coefficients, x), y)
    at = np.array([0, 1, 777, PRIME - 1], np.uint32)
    assert evaluate(coefficients, at).tolist() == [lagrange_value(points, a) for a in (0, 1, 777, PRIME - 1)]


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(0, PRIME - 1), min_size=TOP_K, max_size=TOP_K, unique=True),
    st.one_of(
        st.lists(st.integers(0, PRIME - 1), min_size=TOP_K, max_size=TOP_K),
        st.sampled_from([[0] * TOP_K, [PRIME - 1] * TOP_K, [0, PRIME - 1] * (TOP_K // 2)]),
    ),
)
def test_polynomial_of_a_chunk_passes_through_its_points_by_plain_arithmetic(xs: list[int], ys: list[int]) -> None:
    coefficients = interpolate(np.array(xs, np.uint32), np.array(ys, np.uint32)).tolist()
    assert all(0 <= coefficient < PRIME for coefficient in coefficients)
    for x, y in zip(xs, ys, strict=True):
        value = 0
        for coefficient in reversed(coefficients):
            value = (value * x + coefficient) % PRIME
        assert value == y


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, PRIME - 1), min_size=TOP_K, max_size=TOP_K), st.integers(32769, PRIME))
def test_bytes_of_a_proof_are_read_back(coefficients: list[int], modulus: int) -> None:
    proof = Proof(modulus, np.array(coefficients, np.uint32))
    data = proof.to_bytes()
    assert len(data) == PROOF_BYTES
    assert data == b"".join(number.to_bytes(2, "big") for number in [modulus, *coefficients])
    again = parse(data)
    assert (again.modulus, again.coefficients.tolist()) == (modulus, coefficients)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 70), st.sampled_from([128, 200, 576]), st.integers(0, 2**32 - 1), st.integers(0, 12))
def test_drift_equals_the_published_rule_by_plain_arithmetic(tokens: int, hidden: int, seed: int, shift: int) -> None:
    states, random = states_of(tokens, hidden, seed), np.random.default_rng(seed)
    proofs = build(states)
    bits = states.view(torch.uint16).numpy().copy()
    bits += random.integers(0, 1 << shift, bits.shape).astype(np.uint16)
    bits[(bits & 0x7F80) == 0x7F80] = 0x3F80  # stays finite
    for chunk, (drift, proof) in enumerate(zip(verify(bits, proofs), proofs, strict=True)):
        flat = bits[chunk * 32 : (chunk + 1) * 32].reshape(-1)
        parsed, index = parse(proof), largest(flat)
        mismatches, errors = 0, []
        for i in index.tolist():
            claimed = 0
            for coefficient in reversed(parsed.coefficients.tolist()):
                claimed = (claimed * (i % parsed.modulus) + coefficient) % PRIME
            own = int(flat[i])
            if (own >> 7) & 0xFF == (claimed >> 7) & 0xFF:
                errors.append(abs((own & 0x7F) - (claimed & 0x7F)))
            else:
                mismatches += 1
        assert drift.exponent_mismatches == mismatches
        assert drift.mantissa_mean == (pytest.approx(mean(errors)) if errors else math.inf)
        assert drift.mantissa_median == (median(errors) if errors else math.inf)


def test_inverses_times_their_elements_are_one() -> None:
    elements = np.arange(1, PRIME, dtype=np.uint64)
    assert (elements * field.inverses()[1:] % PRIME == 1).all()


@pytest.mark.parametrize(("tokens", "count"), [(1, 1), (31, 1), (32, 1), (33, 2), (64, 2), (65, 3), (100, 4)])
def test_build_gives_a_proof_for_every_32_tokens(tokens: int, count: int) -> None:
    states = states_of(tokens)
    proofs = build(states)
    assert len(proofs) == count == chunk_count(tokens)
    assert all(len(proof) == PROOF_BYTES for proof in proofs)
    assert verify(states, proofs) == [SAME] * count
    assert [parse(proof).to_bytes() for proof in proofs] == proofs


def test_build_of_chunks_together_equals_one_by_one() -> None:
    states = states_of(100, 576)
    assert build(states) == [build(part)[0] for part in states.split(32)]


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from([128, 200, 8191, 8192, 9000, 40_000]), st.integers(1, 15))
def test_largest_values_equal_a_stable_sort(seed: int, size: int, width: int) -> None:
    values = np.random.default_rng(seed).integers(0, 1 << width, size, dtype=np.uint16)
    expected = np.sort(np.argsort(-values.astype(np.int64), kind="stable")[:TOP_K])
    signs = np.random.default_rng(seed + 1).integers(0, 2, size, dtype=np.uint16) << np.uint16(15)
    assert np.array_equal(largest(values | signs), expected)


@pytest.mark.parametrize("shape", [(1, 128), (32, 576), (33, 200), (70, 576), (64, 5120), (5, 64)])
def test_search_on_a_device_finds_the_same_points(shape: tuple[int, int]) -> None:
    states = states_of(*shape)
    states[0, :40] = states[0, 0]  # ties
    for ours, theirs in zip(top_points(states), top_points_on_device(states), strict=True):
        assert np.array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype


def test_states_that_are_a_view_are_read_as_they_stand() -> None:
    states = states_of(80, 400)
    assert build(states[:, 100:300]) == build(states[:, 100:300].clone())
    assert build(states[::2]) == build(states[::2].clone())


def test_modulus_of_colliding_indices_is_the_largest_that_keeps_them_apart() -> None:
    indices = np.array([*range(126), PRIME + 3, 2 * (PRIME - 1) + 7], dtype=np.int64)
    expected = next(m for m in range(PRIME, 0, -1) if len({int(i) % m for i in indices}) == 128)
    assert field.injective_modulus(indices) == expected < PRIME


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64, torch.int16])
def test_a04_build_of_another_dtype_is_refused(dtype: torch.dtype) -> None:
    with pytest.raises(ProofError, match=f"expected bfloat16, got {dtype}"):
        build(states_of(40).to(dtype))


def test_build_of_another_array_or_rank_is_refused() -> None:
    for bad in (np.zeros((4, 128), np.float32), np.zeros(512, np.uint16), np.zeros((0, 128), np.uint16), [[1, 2]]):
        with pytest.raises(ProofError, match="expected"):
            build(bad)  # type: ignore[arg-type]


def test_build_of_fewer_than_128_values_is_refused() -> None:
    with pytest.raises(ProofError, match="chunk 1: expected at least 128 values, got 64"):
        build(states_of(33, 64))


@pytest.mark.parametrize("bad", [math.nan, -math.nan, math.inf, -math.inf])
def test_a04_build_of_states_that_are_not_finite_is_refused(bad: float) -> None:
    states = states_of(40)
    states[35, 7] = bad
    with pytest.raises(ProofError, match="chunk 1: states are not finite"):
        build(states)
    negative_nan = np.full((1, 128), 0xFFFF, np.uint16)  # a value that the field cannot hold
    with pytest.raises(ProofError, match="not finite"):
        build(negative_nan)


@pytest.mark.parametrize(
    ("proof", "said"),
    [
        (bytes(258), "modulus: expected 32769 … 65497, got 0"),
        (b"\0\0" + bytes(range(256)), "modulus: expected 32769 … 65497, got 0"),
        (b"\0\1" + bytes(256), "modulus: expected 32769 … 65497, got 1"),
        (b"\x80\0" + bytes(256), "modulus: expected 32769 … 65497, got 32768"),
        (b"\xff\xda" + bytes(256), "modulus: expected 32769 … 65497, got 65498"),
        (b"\xff\xd9" + bytes(254) + b"\xff\xd9", "coefficient: expected below 65497, got 65497"),
        (b"\xff\xd9", "expected 258 bytes, got 2"),
        (bytes(257), "expected 258 bytes, got 257"),
        (bytes(1 << 20), "expected 258 bytes, got 1048576"),
        (b"", "expected 258 bytes, got 0"),
    ],
)
def test_a04_hostile_proof_is_refused_before_any_arithmetic(proof: bytes, said: str) -> None:
    states = states_of(32)
    with pytest.raises(ProofError, match=said):
        parse(proof)
    with pytest.raises(ProofError, match=said):
        verify(states, [proof])
    assert verify(states, build(states)) == [SAME]


def test_a03_another_number_of_proofs_is_refused() -> None:
    states = states_of(100)
    proofs = build(states)
    for wrong in (proofs[:1], [], [*proofs, proofs[0]]):
        with pytest.raises(ProofError, match=f"expected 4 for 100 tokens, got {len(wrong)}"):
            verify(states, wrong)


def test_a03_swapped_or_foreign_proofs_drift_far() -> None:
    states, foreign = states_of(64), states_of(64, seed=1)
    proofs = build(states)
    for wrong in (proofs[::-1], build(foreign)):
        assert all(drift.exponent_mismatches > 38 for drift in verify(states, wrong))


def test_constant_proof_without_one_agreeing_exponent_is_infinitely_far() -> None:
    zero = PRIME.to_bytes(2, "big") + bytes(256)
    assert verify(states_of(32), [zero]) == [ChunkDrift(TOP_K, math.inf, math.inf)]


def test_drift_of_rounding_is_small_and_counted_by_hand() -> None:
    states = states_of(32)
    proofs = build(states)
    bits = states.view(torch.uint16).numpy().copy()
    index = largest(bits.reshape(-1) & np.uint16(0x7FFF))
    flat = bits.reshape(-1)
    raised = [i for i in index if flat[i] & 0x7F < 0x7C][:3]
    for i in raised:
        flat[i] += 3  # three units of the mantissa, the same set of largest values
    drift = verify(bits, proofs)[0]
    assert drift == ChunkDrift(exponent_mismatches=0, mantissa_mean=9 / 128, mantissa_median=0.0)


@settings(deadline=None, max_examples=30)
@given(st.binary(min_size=258, max_size=258))
def test_verify_of_any_bytes_gives_drift_or_a_proof_error(proof: bytes) -> None:
    try:
        (drift,) = verify(states_of(5), [proof])
    except ProofError:
        return
    assert 0 <= drift.exponent_mismatches <= TOP_K
