"""What a worker needs of an inference engine. Engines know nothing of leases or the chain.

Every engine samples by the protocol's rule (`stannary.sampling`) and proves each completion by the bf16 states after
the final norm that predicted its tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from stannary.errors import PolicyError
from stannary.sampling import SEED_BYTES, TEMPERATURE_MAX, TEMPERATURE_MIN
from stannary.shardcast.folder import read_object
from stannary.token_rules import TokenRules, read_token_rules

if TYPE_CHECKING:
    import torch

_SAME_SHAPE = (
    "architectures", "model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
    "num_attention_heads", "num_key_value_heads", "head_dim", "max_position_embeddings", "tie_word_embeddings",
    "rope_parameters", "rope_theta", "rope_scaling", "rms_norm_eps", "hidden_act", "attention_bias", "mlp_bias",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RolloutRequest:
    """One completion to generate: its 32-byte seed, its prompt's token ids, its cap."""

    seed: bytes
    prompt: tuple[int, ...]
    max_tokens: int


@dataclass(frozen=True, slots=True)
class RolloutOutput:
    """One completion and its evidence, or the reason why it has none."""

    tokens: tuple[int, ...]
    proofs: tuple[bytes, ...] = ()
    """One for every 32 tokens."""
    logprobs: tuple[float, ...] = ()
    """Log-probability of each token under the logits that it was sampled from: log softmax(logits / T)."""
    states: torch.Tensor | None = None
    """Shapes: [len(tokens), H] bfloat16 on the CPU; row t predicted tokens[t] (positions P−1 … P+T−2). Only of an
    engine that was asked to keep them."""
    reason: str = ""
    """Why it cannot be proved; then there are no proofs, and nothing of it must be submitted."""


class Engine(Protocol):
    """Generates completions of one policy at a time."""

    name: str

    def load(self, folder: Path) -> None:
        """Load a policy folder (Hugging Face layout); afterwards the engine equals a fresh one.

        Raises: PolicyError when the folder cannot be used.
        """
        ...

    def generate(self, requests: Sequence[RolloutRequest], temperature: float) -> list[RolloutOutput]:
        """One completion a request, in order; each ends with an end id of the policy or at its cap.

        Raises: PolicyError on a request that the policy cannot serve.
        """
        ...

    def close(self) -> None:
        """Free the model."""
        ...


@dataclass(frozen=True, slots=True)
class PolicyShape:
    """What an engine reads of a policy folder besides weights."""

    tokens: TokenRules
    context: int
    vocabulary: int
    hidden: int
    config: Mapping[str, Any]

    def check_reload(self, newer: PolicyShape) -> None:
        """Refuse weights of another architecture in a running engine. Raises: PolicyError."""
        if self.config != newer.config:
            changed = sorted(k for k in self.config if self.config[k] != newer.config[k])
            raise PolicyError(f"policy: a running engine cannot take another architecture (changed: {changed})")

    def check_requests(self, requests: Sequence[RolloutRequest], temperature: float) -> None:
        """Refuse what would end a completion by anything but an end id or the cap. Raises: PolicyError."""
        if not TEMPERATURE_MIN <= temperature <= TEMPERATURE_MAX:
            raise PolicyError(f"temperature: expected {TEMPERATURE_MIN} … {TEMPERATURE_MAX}, got {temperature}")
        for index, request in enumerate(requests):
            if len(request.seed) != SEED_BYTES:
                raise PolicyError(f"request {index}: seed: expected {SEED_BYTES} bytes, got {len(request.seed)}")
            if not request.prompt or request.max_tokens < 1:
                raise PolicyError(f"request {index}: expected a prompt and a cap of at least one token")
            if not all(0 <= token < self.vocabulary for token in request.prompt):
                raise PolicyError(f"request {index}: prompt: expected ids 0 … {self.vocabulary - 1}")
            if len(request.prompt) + request.max_tokens > self.context:
                raise PolicyError(
                    f"request {index}: a prompt of {len(request.prompt)} and a cap of {request.max_tokens} tokens "
                    f"exceed the policy's context of {self.context}"
                )


def read_shape(folder: Path) -> PolicyShape:
    """Read config.json and the token rules of a policy folder.

    Raises: PolicyError when a file or field is missing or malformed.
    """
    tokens = read_token_rules(folder)
    config = read_object(folder / "config.json")
    sizes = {name: config.get(name) for name in ("max_position_embeddings", "vocab_size", "hidden_size")}
    for name, value in sizes.items():
        if type(value) is not int or value < 1:
            raise PolicyError(f"{folder / 'config.json'}: {name}: expected an integer above 0, got {value!r:.100}")
    return PolicyShape(
        tokens=tokens,
        context=int(config["max_position_embeddings"]),
        vocabulary=int(config["vocab_size"]),
        hidden=int(config["hidden_size"]),
        config={key: config.get(key) for key in _SAME_SHAPE},
    )
