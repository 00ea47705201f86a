"""What a validator's whole check of one submission costs, beside one prefill of the same tokens on the same threads.

Part of `benchmarks.bench_proofs`: proofs_check POLICY WORK ROUNDS OUT, after proofs_generation has left a submission.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from statistics import median

import torch

from benchmarks.bench_proofs import in_turn, ratio
from benchmarks.figures import figure
from benchmarks.proofs_submission import CAP, COORDINATOR, GROUP_SIZE, NODE, address_of, prepare
from stannary.cards import Card
from stannary.rollout import content_hash, decode_group
from stannary.structs import Lease, Submission
from stannary.types import Hash
from validator.checks import Leaf, Rules, StepFacts
from validator.judgement import Computes, Judge, screen
from validator.prefill import Prefill

CARD = Path("validator/cards/smollm2.json")


def main() -> None:
    """Measure and write the figures."""
    policy, work, rounds, out = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    scene = prepare(policy, work)
    generated = json.loads((work / "proofs_generation.json").read_text())["figures"]
    rate = float(generated["generation_rate, both"]["value"])
    data = scene.file.read_bytes()
    rollouts = decode_group(data, GROUP_SIZE)
    units = sum(len(rollout.completion) for rollout in rollouts)
    card = Card.parse(CARD.read_bytes())
    rules = Rules(scene.seeds.ledger, 1, address_of(COORDINATOR), GROUP_SIZE, CAP, 120, 1000, 1, card.hash())
    facts = StepFacts(0, 0, 1, 1000, scene.seeds, audit_beacon=Hash(b"\x06" * 32))
    node = address_of(NODE)
    lease = Lease(1, 0, 0, 0, node, node, 1010, 1070, rules.max_units, card.hash(), 1)
    submission = Submission(1, 0, 0, node, node, units, content_hash(data), lease.struct_hash())
    leaf = Leaf(submission, submission.sign(NODE, rules.domain), lease, lease.sign(COORDINATOR, rules.domain))
    figures: dict[str, dict[str, object]] = {}
    models = {dtype: Prefill(scene.folder, dtype) for dtype in ("bf16", "fp32")}
    for dtype, model in models.items():
        other = "fp32" if dtype == "bf16" else "bf16"
        judge = Judge(rules, facts, card, scene.environment, Computes(model, partial(models.__getitem__, other)))

        def prefill(model: Prefill = model) -> None:
            states = torch.cat(model.states(rollouts[0].prompt, [rollout.completion for rollout in rollouts]))
            for start in range(0, len(states), model.head_rows):
                model.logits(states[start : start + model.head_rows])

        def check(judge: Judge = judge) -> None:
            (screened,) = screen([leaf], rules, facts, lambda _: node)
            finding = judge.judge(leaf, data).finding
            assert screened.is_fine
            assert finding.is_fine, finding

        taken = in_turn(rounds, {"prefill": prefill, "check": check})
        generation_s = units / rate
        figures[f"verify_over_prefill_{dtype}"] = figure(
            ratio(taken["check"], taken["prefill"]), "of the time of one prefill with fp32 head logits", "<= 1.15",
            check_s=[round(s, 3) for s in taken["check"]], prefill_s=[round(s, 3) for s in taken["prefill"]],
        )  # fmt: skip
        figures[f"verify_over_generate_{dtype}"] = figure(
            round(median(taken["check"]) / generation_s, 4),
            f"of the time in which vLLM generates its {units} tokens among {GROUP_SIZE * 4} sequences",
        )
    out.write_text(json.dumps({"figures": figures}))


if __name__ == "__main__":
    main()
