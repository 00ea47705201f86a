"""The sampling rule: which token a policy's logits give under a seed. Same integers on every machine.

token = argmax over ids of fp32(logits / T) + gumbel(seed, position, id); ties go to the lowest id.
Needs numpy and numba; `stannary.sampling.torch` is the same rule for tensors. Knows nothing of engines or proofs.
"""

from __future__ import annotations

from stannary.sampling.choice import TEMPERATURE_MAX, TEMPERATURE_MIN, Replay, choose, replay, replay_completion
from stannary.sampling.noise import gumbel, gumbel_batch
from stannary.sampling.philox import SEED_BYTES, philox4x32
from stannary.sampling.statistics import SamplingStatistics, joined, summarise
from stannary.sampling.table import gumbel_table

__all__ = [
    "SEED_BYTES",
    "TEMPERATURE_MAX",
    "TEMPERATURE_MIN",
    "Replay",
    "SamplingStatistics",
    "choose",
    "gumbel",
    "gumbel_batch",
    "gumbel_table",
    "joined",
    "philox4x32",
    "replay",
    "replay_completion",
    "summarise",
]
