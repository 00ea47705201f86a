"""Runs vLLM engines by a plan: vLLM changes torch for its whole process, so tests start it in one of its own.

Plan: a list of engines, each {"options": {...}, "acts": [{"load": folder} | {"name", "temperature", "requests":
[[seed hex, prompt, max_tokens], ...]}]}. Result: torch file {name: {"outputs": [[tokens, states], ...], "cached": n,
"preempted": n}}.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from worker.engine import RolloutRequest
from worker.engine_vllm import VllmEngine, VllmOptions


def main(plan: Path, result: Path) -> None:
    """Run the plan."""
    made: dict[str, object] = {}
    for engine_plan in json.loads(plan.read_text()):
        engine = VllmEngine(VllmOptions(**{"kv_cache_bytes": 16 << 20, **engine_plan["options"]}))
        counts = {"cached": 0, "preempted": 0}
        for act in engine_plan["acts"]:
            if "load" in act:
                is_first = engine.llm is None
                engine.load(Path(act["load"]))
                if is_first:
                    count_events(engine, counts)
                continue
            before = dict(counts)
            requests = [RolloutRequest(bytes.fromhex(s), tuple(p), m) for s, p, m in act["requests"]]
            outputs = engine.generate(requests, act["temperature"])
            made[act["name"]] = {
                "outputs": [[list(output.tokens), output.states] for output in outputs],
                **{key: counts[key] - before[key] for key in counts},
            }
        engine.close()
    torch.save(made, result)


def count_events(engine: VllmEngine, counts: dict[str, int]) -> None:
    """Count cached prompt tokens and preemptions, so that a test knows that they happened."""
    scheduler = engine.llm.llm_engine.engine_core.engine_core.scheduler
    preempt, generate = scheduler._preempt_request, engine.llm.generate

    def counted_preempt(*args, **kwargs):
        counts["preempted"] += 1
        return preempt(*args, **kwargs)

    def counted_generate(*args, **kwargs):
        results = generate(*args, **kwargs)
        counts["cached"] += sum(result.num_cached_tokens or 0 for result in results)
        return results

    scheduler._preempt_request, engine.llm.generate = counted_preempt, counted_generate


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
