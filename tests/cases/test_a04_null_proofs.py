"""A4: proofs that no honest builder writes are refused before any arithmetic, and the next batch is judged as usual."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from stannary import toploc
from stannary.errors import ProofError
from stannary.types import Outcome, Reason
from tests.validator.conftest import Bench, bench, bf16, card, environment, fp32, judge, toy

__all__ = ["bench", "bf16", "card", "environment", "fp32", "judge", "toy"]


@pytest.mark.parametrize(
    "proof",
    [
        bytes(258),
        bytes(2) + bytes(range(256)),
        (1).to_bytes(2, "big") + bytes(range(256)),
        b"\xff" * 258,
        bytes(2),
        bytes(258 * 4000),
    ],
    ids=["null", "modulus 0", "modulus 1", "beyond the field", "two bytes", "a megabyte"],
)
def test_a04_proof_that_is_none_is_a_fault(bench: Bench, proof: bytes) -> None:
    rollouts = bench.rollouts
    rollouts[1] = replace(rollouts[1], proofs=(proof, *rollouts[1].proofs[1:]))
    finding = bench.finding(rollouts)
    assert finding.outcome is Outcome.FAULT
    assert finding.reason in (Reason.PROOF_FORMAT, Reason.PROOF_COUNT)
    assert bench.finding(bench.rollouts).is_fine


def test_a04_float32_states_have_no_proof(bench: Bench) -> None:
    with pytest.raises(ProofError, match="bfloat16"):
        toploc.build(bench.states[0].to(torch.float32))
