"""Runs vLLM engines by a plan: vLLM changes torch for its whole process, so tests start it in one of its own.

Plan: a list of engines, each {"options": {...}, "acts": [...]}; an act is {"load": folder}, {"break": true} or {"name",
"temperature", "requests": [[seed hex, prompt, max_tokens], ...]}. Result: torch file {name: {"outputs": [[tokens,
states, proofs, logprobs], ...], "reasons", "runner", and what happened}}: "cached" prompt tokens and, where the core
is in this process, "preempted" requests, "rows" that emitted a token, "partial" rows that emitted none, "sizes" of
batches; "ahead" says whether steps were scheduled before the last one's tokens were known.

Where there is no GPU, an engine of runner V2 runs on Triton's interpreter, and an asynchronous one schedules ahead all
the same, which vLLM's CPU platform switches off.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

PLAN = json.loads(Path(sys.argv[1]).read_text())
if any(engine["options"].get("runner") == "v2" for engine in PLAN) and not torch.cuda.is_available():
    from tests.worker import triton_on_cpu  # noqa: F401  before vLLM

from worker.engine import RolloutRequest  # noqa: E402
from worker.engine_vllm import VllmEngine, VllmOptions  # noqa: E402
from worker.imposing import Imposer  # noqa: E402


class Events:
    """Counts what a test wants to know to have happened."""

    def __init__(self) -> None:
        self.cached = self.preempted = self.rows = self.partial = 0
        self.sizes: set[int] = set()
        self.is_ahead = False

    def watch(self, engine: VllmEngine) -> None:
        """Listen at the scheduler, the results and the sampling rule."""
        generate, impose = engine.llm.generate, Imposer.impose

        def counted_generate(*args: Any, **kwargs: Any) -> Any:
            results = generate(*args, **kwargs)
            self.cached += sum(result.num_cached_tokens or 0 for result in results)
            return results

        def counted_impose(imposer: Imposer, logits: torch.Tensor, rows: list[Any]) -> torch.Tensor:
            emitting = sum(row is not None for row in rows)
            self.rows += emitting
            self.partial += len(rows) - emitting
            self.sizes.add(emitting)
            return impose(imposer, logits, rows)

        engine.llm.generate, Imposer.impose = counted_generate, counted_impose  # type: ignore[method-assign]
        self.is_ahead = engine.llm.llm_engine.vllm_config.scheduler_config.async_scheduling
        core = getattr(engine.llm.llm_engine.engine_core, "engine_core", None)
        if core is not None:
            preempt = core.scheduler._preempt_request

            def counted_preempt(*args: Any, **kwargs: Any) -> Any:
                self.preempted += 1
                return preempt(*args, **kwargs)

            core.scheduler._preempt_request = counted_preempt

    def taken(self) -> dict[str, Any]:
        """Return the counts and start anew."""
        found = {
            "cached": self.cached,
            "preempted": self.preempted,
            "rows": self.rows,
            "partial": self.partial,
            "sizes": sorted(self.sizes),
            "ahead": self.is_ahead,
        }
        self.cached = self.preempted = self.rows = self.partial = 0
        self.sizes = set()
        return found


def schedule_ahead() -> None:
    """Let vLLM's CPU platform leave asynchronous scheduling as it is asked for."""
    from vllm.platforms.cpu import CpuPlatform

    adjust = CpuPlatform.check_and_update_config.__func__

    def adjust_but_for_scheduling(cls: Any, config: Any) -> None:
        wanted = config.scheduler_config.async_scheduling
        adjust(cls, config)
        config.scheduler_config.async_scheduling = wanted

    CpuPlatform.check_and_update_config = classmethod(adjust_but_for_scheduling)


def break_off(engine: VllmEngine) -> None:
    """End a generation by an error in its midst, which must close the engine."""

    def fail(*_args: Any, **_kwargs: Any) -> Any:
        raise RuntimeError("as the plan says")

    engine.llm.generate = fail
    with pytest.raises(RuntimeError, match="as the plan says"):
        engine.generate([RolloutRequest(bytes(32), (2, 3), 5)], 1.0)
    assert engine.llm is None
    assert engine.shape is None


def main(result: Path) -> None:
    """Run the plan."""
    made: dict[str, object] = {}
    for engine_plan in PLAN:
        options = VllmOptions(**{"kv_cache_bytes": 16 << 20, "keeps_states": True, **engine_plan["options"]})
        engine, events, impose = VllmEngine(options), Events(), Imposer.impose
        if options.is_asynchronous and not torch.cuda.is_available():
            schedule_ahead()
        for act in engine_plan["acts"]:
            if "load" in act:
                is_first = engine.llm is None
                engine.load(Path(act["load"]))
                if is_first:
                    events.watch(engine)
                continue
            if "break" in act:
                break_off(engine)
                Imposer.impose = impose  # type: ignore[method-assign]
                continue
            events.taken()
            requests = [RolloutRequest(bytes.fromhex(s), tuple(p), m) for s, p, m in act["requests"]]
            outputs = engine.generate(requests, act["temperature"])
            made[act["name"]] = {
                "outputs": [
                    [list(made.tokens), made.states, [list(proof) for proof in made.proofs], list(made.logprobs)]
                    for made in outputs
                ],
                "reasons": [made.reason for made in outputs],
                "runner": engine.runner,
                **events.taken(),
            }
        engine.close()
        Imposer.impose = impose  # type: ignore[method-assign]
    torch.save(made, result)


if __name__ == "__main__":
    main(Path(sys.argv[2]))
