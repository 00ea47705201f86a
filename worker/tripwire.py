"""Ten seconds that tell whether an engine still does what the protocol assumes, before it earns or loses anything.

Made for engines that are hooked from outside: a new release may rename, reorder or cache what the hooks rely on.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from stannary import toploc
from stannary.errors import OperatorError
from stannary.sampling import replay_completion
from worker.engine import Engine, RolloutOutput, RolloutRequest

TEMPERATURE = 0.7
ROUNDING = 1e-3
"""Two fp32 sums over 128 products in another order differ by far less, another token's score by far more."""
EXPONENT_MISMATCHES = 24
"""Of 128 in a chunk. Rounding changes a few; states of another position or policy most."""
MANTISSA_MEAN = 8.0


def write_tiny_policy(folder: Path, seed: int, *, is_tied: bool, parallel: int = 1) -> Path:
    """Write a random Llama of 0.4 M parameters (vocabulary 64, end id 1) whose logits are far from flat.

    With `parallel` it has as many times the heads, so that they can be spread over so many devices.
    """
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=64,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=2,
        num_attention_heads=4 * parallel,
        num_key_value_heads=2 * parallel,
        head_dim=32,
        max_position_embeddings=128,
        tie_word_embeddings=is_tied,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
        for parameter in model.parameters():
            if parameter.dim() == 2:
                torch.nn.init.normal_(parameter, std=0.15)
    model.generation_config = GenerationConfig(bos_token_id=0, eos_token_id=1, pad_token_id=1)
    model.to(torch.bfloat16).save_pretrained(folder)
    return folder


def check(engine: Engine, workspace: Path, parallel: int = 1) -> None:
    """Generate with one tiny tied policy, then with another in the same engine, and replay both.

    The engine must keep states.

    Raises: OperatorError naming the first thing that is not as the protocol assumes.
    """
    requests = [
        RolloutRequest(seed=hashlib.sha256(bytes([i])).digest(), prompt=(0, 5 + i % 2, 9, 17), max_tokens=5 + 7 * i)
        for i in range(5)
    ]
    for number, seed in enumerate((1, 2)):
        folder = write_tiny_policy(workspace / f"tiny-{seed}", seed, is_tied=True, parallel=parallel)
        engine.load(folder)
        what = f"{engine.name} engine, {'first load' if number == 0 else 'after new weights'}"
        model = _load(folder)
        for request, output in zip(requests, engine.generate(requests, TEMPERATURE), strict=True):
            _check_one(what, model, request, output)


def _load(folder: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, local_files_only=True).eval()


@torch.no_grad()
def _check_one(what: str, model: Any, request: RolloutRequest, output: RolloutOutput) -> None:
    tokens, states = output.tokens, output.states
    if output.reason:
        raise OperatorError(f"{what}: a completion has no proofs: {output.reason}")
    if states is None or not tokens or states.shape != (len(tokens), 128) or states.dtype != torch.bfloat16:
        found = "none" if states is None else f"{list(states.shape)} {states.dtype}"
        raise OperatorError(f"{what}: {len(tokens)} tokens came with states: {found}")
    if (tokens[-1] != 1 and len(tokens) != request.max_tokens) or 1 in tokens[:-1]:
        raise OperatorError(f"{what}: a completion ended neither with the end id nor at its cap")
    head = model.get_output_embeddings().weight.float()
    own = replay_completion((states.float() @ head.T).numpy(), tokens, TEMPERATURE, request.seed)
    if own.gap.max() > ROUNDING:
        raise OperatorError(f"{what}: tokens are not the choice of their own states (gap {own.gap.max():.3g})")
    if np.abs(own.logprob - np.array(output.logprobs)).max() > ROUNDING:
        raise OperatorError(f"{what}: log-probabilities are not those of the logits that were sampled from")
    ids = torch.tensor([[*request.prompt, *tokens[:-1]]])
    replayed = model.base_model(input_ids=ids, use_cache=False).last_hidden_state[0, len(request.prompt) - 1 :]
    for drift in toploc.verify(replayed, output.proofs):
        if drift.exponent_mismatches > EXPONENT_MISMATCHES or drift.mantissa_mean > MANTISSA_MEAN:
            raise OperatorError(f"{what}: proved states are not those of the policy ({drift})")
