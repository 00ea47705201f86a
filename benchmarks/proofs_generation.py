"""What proofs and replayable sampling cost a worker on vLLM: 32 sequences, everything of ours on and off by turns.

Part of `benchmarks.bench_proofs`: proofs_generation POLICY WORK ROUNDS OUT. Leaves a submission for the other part.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.figures import figure
from benchmarks.proofs_submission import CAP, GROUP_SIZE, GROUPS, prepare, write_group
from worker.engine_vllm import VllmEngine, VllmOptions
from worker.imposing import RequestSeed

TARGETS = {"proofs": "<= 0.03", "noise": "<= 0.15"}


def main() -> None:
    """Measure and write the figures."""
    policy, work, rounds, out = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    scene = prepare(policy, work)
    engine = VllmEngine(VllmOptions(max_sequences=GROUPS * GROUP_SIZE, context=1024))
    engine.load(scene.folder)
    switches = Switches(engine)
    ways: dict[str, Callable[[], int]] = {
        "greedy": switches.greedy,
        "proofs": switches.proofs,
        "noise": switches.noise,
        "both": switches.both,
        "vllm's sampling": switches.sampling,
        "greedy, bf16 head": lambda: switches.greedy(is_wide=False),
    }
    switches.requests = scene.requests
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        # Another way begins each round, so that no way is always the one after the widest pause.
        turn = number % len(ways)
        for name in [*list(ways)[turn:], *list(ways)[:turn]]:
            begun = time.perf_counter()
            tokens = ways[name]()
            rate = tokens / (time.perf_counter() - begun)
            if number:
                rates[name].append(rate)
            print(f"round {number}, {name}: {rate:.0f} tokens/s", flush=True)
    switches.restore()
    outputs = engine.generate(scene.requests, scene.temperature)
    write_group(scene, outputs[:GROUP_SIZE])
    plain = rates["greedy"]
    figures: dict[str, dict[str, object]] = {}
    for name, key in (("proofs", "proofs"), ("noise", "noise"), ("both", "both"), ("vllm's sampling", "own_sampling")):
        figures[f"generation_overhead_{key}"] = figure(
            overhead(plain, rates[name]), "of the time of greedy decoding", TARGETS.get(key, "")
        )
    figures["generation_overhead_fp32_head"] = figure(
        overhead(rates["greedy, bf16 head"], plain), "of the time of greedy decoding with vLLM's bf16 head"
    )
    figures["generation_overhead_both_and_fp32_head"] = figure(
        overhead(rates["greedy, bf16 head"], rates["both"]), "of the time of greedy decoding with vLLM's bf16 head"
    )
    figures["generation_overhead_both_over_own_sampling"] = figure(
        overhead(rates["vllm's sampling"], rates["both"]), "of the time of vLLM's own sampling at T = 1, fp32 head"
    )
    for name, samples in rates.items():
        figures[f"generation_rate, {name}"] = figure(
            round(median(samples), 1), "tokens/s", samples=[round(rate, 1) for rate in samples]
        )
    out.write_text(json.dumps({"figures": figures}))
    engine.close()


def overhead(without: list[float], with_it: list[float]) -> float:
    """Return how much longer a token takes with it: the median over rounds of rates in tokens/s."""
    return round(median(a / b - 1 for a, b in zip(without, with_it, strict=True)), 4)


class Switches:
    """Turns what we add to vLLM off and on, inside one engine."""

    def __init__(self, engine: VllmEngine) -> None:
        self.engine = engine
        self.requests: list[Any] = []
        (self.worker,) = engine.llm.collective_rpc(lambda worker: worker)
        runner = self.worker.model_runner
        self.processors = runner.input_batch.logitsprocs.non_argmax_invariant
        self.ours = list(self.processors)
        self.imposer = self.worker.stannary_imposer
        self.capture = self.imposer.capture
        self.impose = self.imposer.impose
        self.layer = runner.get_model().logits_processor
        self.hooks = self.layer._forward_pre_hooks
        self.validate = type(self.ours[-1]).validate_params

    def _params(self, temperature: float) -> list[Any]:
        """No end ids, so that all ways emit the same number of tokens."""
        from vllm import SamplingParams

        return [
            SamplingParams(
                temperature=temperature,
                max_tokens=CAP,
                ignore_eos=True,
                detokenize=False,
                extra_args=RequestSeed(request.seed, 1.0, index).extra_args(),
            )
            for index, request in enumerate(self.requests)
        ]

    def greedy(self, *, is_wide: bool = True) -> int:
        """Generate by vLLM's greedy choice with nothing of ours but, if wide, the head; return the number of tokens."""
        return self._without_ours(0.0, is_wide=is_wide)

    def sampling(self) -> int:
        """Generate by vLLM's own sampling at T = 1."""
        return self._without_ours(1.0, is_wide=True)

    def proofs(self) -> int:
        """Generate by vLLM's greedy choice, and prove it."""

        def prove(logits: torch.Tensor, rows: list[Any]) -> torch.Tensor:
            keys = [(request.rollout, position) for request, position in rows]
            self.capture.add(keys, self.imposer.states, nothing[: len(keys)], zeros[: len(keys)])
            return logits

        nothing, zeros = torch.zeros(len(self.requests), dtype=torch.int64), torch.zeros(len(self.requests))
        self.restore()
        self.imposer.impose = prove
        return self._generate(self._params(0.0), claimed=0)

    def noise(self) -> int:
        """Generate by the sampling rule, and prove nothing."""
        self.restore()
        self.imposer.capture = None
        return self._generate(self._params(0.0))

    def both(self) -> int:
        """Generate as a worker does."""
        self.restore()
        return self._generate(self._params(0.0))

    def restore(self) -> None:
        """Turn everything on."""
        self.imposer.impose, self.imposer.capture = self.impose, self.capture
        self.processors[:] = self.ours
        self.ours[-1].rows.clear()  # it did not hear of the ends of what ran without it
        self.layer._forward_pre_hooks = self.hooks
        self._set_head(True)

    def _without_ours(self, temperature: float, *, is_wide: bool) -> int:
        kind = type(self.ours[-1])
        self.restore()
        self.processors.clear()
        self.layer._forward_pre_hooks = type(self.hooks)()
        self._set_head(is_wide)
        kind.validate_params = classmethod(lambda _cls, _params: None)
        try:
            return self._generate(self._params(temperature), takes=False)
        finally:
            kind.validate_params = self.validate
            self.restore()

    def _set_head(self, is_wide: bool) -> None:
        self.layer.head_dtype = torch.float32 if is_wide else torch.bfloat16
        own = type(self.layer)._apply_head.__get__(self.layer)
        self.layer._apply_head = self.worker.stannary_head if is_wide else own

    def _generate(self, params: list[Any], *, takes: bool = True, claimed: int | None = None) -> int:
        """`claimed` is the token that was noted in place of each, where none was sampled by the rule."""
        prompts = [{"prompt_token_ids": list(request.prompt)} for request in self.requests]
        results = self.engine.llm.generate(prompts, params, use_tqdm=False)
        finished: list[list[Any]] = [[index, list(result.outputs[0].token_ids)] for index, result in enumerate(results)]
        if claimed is not None:
            finished = [[index, [claimed] * len(tokens)] for index, tokens in finished]
        if takes and self.imposer.capture is not None:
            for _, proofs, _, _, reason in self.worker.stannary_take(finished):
                if reason or not proofs:
                    raise SystemExit(f"no proofs: {reason}")
        return sum(len(tokens) for _, tokens in finished)


if __name__ == "__main__":
    main()
