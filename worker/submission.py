"""From proved completions to a submission: file and leaf. It must not know of engines, clocks or HTTP.

Token ids go into the file exactly as they were sampled: nothing here decodes or encodes text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stannary import toploc
from stannary.errors import ProofError
from stannary.rollout import MAX_SUBMISSION_BYTES, Rollout, content_hash, encode_group
from stannary.structs import Lease, Submission

if TYPE_CHECKING:
    from worker.engine import RolloutOutput
    from worker.leases import PoolRules


@dataclass(frozen=True, slots=True)
class Group:
    """A finished group: the bytes to upload and the leaf that names them."""

    leaf: Submission
    data: bytes


def make_group(lease: Lease, rules: PoolRules, prompt: Sequence[int], outputs: Sequence[RolloutOutput]) -> Group:
    """Write the submission of a group.

    Raises: ProofError if any rollout has no proofs; then nothing must be submitted.
    """
    if len(outputs) != rules.group_size:
        raise ProofError(f"group: expected {rules.group_size} rollouts, got {len(outputs)}")
    rollouts = []
    for index, output in enumerate(outputs):
        length = len(output.tokens)
        if not 1 <= length <= rules.max_completion_tokens:
            raise ProofError(f"rollout {index}: expected 1 … {rules.max_completion_tokens} tokens, got {length}")
        if output.reason:
            raise ProofError(f"rollout {index}: {output.reason}")
        if len(output.proofs) != toploc.chunk_count(length):
            raise ProofError(
                f"rollout {index}: expected {toploc.chunk_count(length)} proofs for {length} tokens, "
                f"got {len(output.proofs)}"
            )
        rollouts.append(Rollout(tuple(prompt), output.tokens, output.proofs))
    data = encode_group(rollouts)
    if len(data) > MAX_SUBMISSION_BYTES:
        raise ProofError(f"submission: {len(data)} bytes, at most {MAX_SUBMISSION_BYTES} are taken")
    leaf = Submission(
        lease.pool,
        lease.step,
        lease.slot,
        lease.provider,
        lease.node,
        sum(len(output.tokens) for output in outputs),
        content_hash(data),
        lease.struct_hash(),
    )
    return Group(leaf, data)
