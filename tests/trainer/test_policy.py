"""The policy: log-probabilities, optimizer steps, export, checkpoints."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from stannary.errors import OperatorError, PolicyError
from stannary.shardcast import check_policy_folder, describe_folder
from trainer.batch import Sample, make_batch
from trainer.policy import Policy, Recipe, checkpoint_name, latest_checkpoint

RECIPE = Recipe(learning_rate=2e-3)


def samples(seed: int = 0, count: int = 8) -> list[Sample]:
    generator = torch.Generator().manual_seed(seed)
    found = []
    for index in range(count):
        length = 3 + int(torch.randint(20, (1,), generator=generator))
        completion = tuple(torch.randint(4, 48, (length,), generator=generator).tolist())
        found.append(Sample((0, 4 + index % 8, 12, 13, 3), completion, (-1.0) ** index))
    return found


def test_a8_logprobs_of_a_row_are_the_same_alone_and_padded(toy: Path) -> None:
    policy = Policy(toy, RECIPE)
    short, long = Sample((0, 4, 12, 13, 3), (14, 15, 16, 17, 1), 1.0), Sample((0, 4, 12, 13, 3), (20,) * 30, 1.0)
    with torch.no_grad():
        alone = policy.logprobs(make_batch([short]))
        padded = policy.logprobs(make_batch([short, long]))[:5]
    assert torch.allclose(alone, padded, atol=1e-4)


def test_logprobs_divide_logits_before_the_softmax(toy: Path) -> None:
    batch = make_batch([Sample((0, 4, 12, 13, 3), (14, 15), 1.0)])
    cold, warm = Policy(toy, Recipe(2e-3, temperature=0.6)), Policy(toy, RECIPE)
    with torch.no_grad():
        logits = warm.model(input_ids=batch.tokens_BT).logits[0, 4:6].float()
        expected = torch.log_softmax(logits / 0.6, -1)[[0, 1], batch.targets_N]
        assert torch.allclose(cold.logprobs(batch), expected, atol=1e-5)


def test_logprobs_give_suppressed_ids_no_share_and_no_gradient(toy: Path, tmp_path: Path) -> None:
    shutil.copytree(toy, tmp_path / "policy")
    rules = {"eos_token_id": 1, "suppress_tokens": [5, 9]}
    (tmp_path / "policy" / "generation_config.json").write_text(json.dumps(rules))
    batch = make_batch([Sample((0, 4, 12, 13, 3), (14, 15), 1.0)])
    policy, plain = Policy(tmp_path / "policy", RECIPE), Policy(toy, RECIPE)
    logits = plain.model(input_ids=batch.tokens_BT).logits[0, 4:6].float()
    kept = [token for token in range(logits.shape[1]) if token not in (5, 9)]
    expected = logits[[0, 1], batch.targets_N] - torch.logsumexp(logits[:, kept], dim=-1)
    found = policy.logprobs(batch)
    assert torch.allclose(found, expected, atol=1e-5)
    found.sum().backward()
    gradient = policy.model.get_output_embeddings().weight.grad
    assert (gradient[[5, 9]] == 0).all()
    assert torch.isfinite(gradient).all()
    assert (gradient[kept] != 0).any()


def test_a26_unchanged_weights_give_ratio_one(toy: Path) -> None:
    policy = Policy(toy, Recipe(learning_rate=0.0))
    report = policy.train(samples())
    assert report.mean_ratio == pytest.approx(1.0, abs=1e-5)
    assert report.clipped_high_share == report.clipped_low_share == report.clipped_delta_share == 0


def test_training_raises_good_tokens_and_lowers_bad_ones(toy: Path) -> None:
    policy = Policy(toy, RECIPE)
    good, bad = Sample((0, 4, 12, 13, 3), (14,) * 9, 1.0), Sample((0, 4, 12, 13, 3), (30,) * 9, -1.0)
    batch = make_batch([good, bad])
    with torch.no_grad():
        before = policy.logprobs(batch)
    report = policy.train([good, bad, good, bad])
    with torch.no_grad():
        after = policy.logprobs(batch)
    assert report.optimizer_steps == 2
    assert (after[:9] > before[:9]).all()
    assert (after[9:] < before[9:]).all()


def test_training_does_not_depend_on_micro_batch_size(toy: Path) -> None:
    whole, cut = Policy(toy, RECIPE), Policy(toy, Recipe(2e-3, micro_batch_tokens=40))
    first, second = whole.train(samples()), cut.train(samples())
    assert first.loss == pytest.approx(second.loss, abs=1e-5)
    assert first.grad_norm == pytest.approx(second.grad_norm, rel=1e-3)


def test_training_at_rate_zero_leaves_exported_bytes_unchanged(toy: Path, tmp_path: Path) -> None:
    policy = Policy(toy, Recipe(learning_rate=0.0, weight_decay=0.1))
    assert policy.train(samples()).optimizer_steps == 2
    policy.export(tmp_path / "out")
    assert (
        describe_folder(tmp_path / "out").policy_root == describe_folder(policy.export(tmp_path / "again")).policy_root
    )
    base, out = load_file(toy / "model.safetensors"), load_file(tmp_path / "out" / "model.safetensors")
    assert base.keys() == out.keys()
    assert all(torch.equal(base[name], out[name]) for name in base)


def test_a15_training_on_groups_without_signal_changes_nothing(toy: Path) -> None:
    policy = Policy(toy, RECIPE)
    before = policy.model.state_dict()["lm_head.weight"].clone()
    report = policy.train([Sample((0,), (5, 6), 0.0)] * 16)
    assert (report.optimizer_steps, report.skipped_steps, report.tokens) == (0, 0, 0)
    assert policy.train([]).optimizer_steps == 0
    assert torch.equal(before, policy.model.state_dict()["lm_head.weight"])


def test_a7_gradient_that_is_not_finite_is_skipped_and_next_step_is_normal(
    toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, control = Policy(toy, RECIPE), Policy(toy, RECIPE)
    weight = policy.model.lm_head.weight
    hook = weight.register_hook(lambda gradient: gradient * float("nan"))
    before = weight.detach().clone()
    report = policy.train(samples())
    assert (report.optimizer_steps, report.skipped_steps) == (0, 2)
    assert torch.equal(before, weight)
    hook.remove()
    assert policy.train(samples()).loss == pytest.approx(control.train(samples()).loss, abs=1e-6)
    assert torch.equal(policy.model.lm_head.weight, control.model.lm_head.weight)


def test_export_is_a_policy_folder_like_its_base(toy: Path, tmp_path: Path) -> None:
    policy = Policy(toy, RECIPE)
    policy.train(samples())
    out = policy.export(tmp_path / "out")
    check_policy_folder(out, like=toy)
    assert sorted(path.name for path in out.iterdir()) == sorted(path.name for path in toy.iterdir())
    assert describe_folder(out).policy_root != describe_folder(toy).policy_root


def test_export_of_tied_policy_keeps_its_tensor_names(toy: Path, tmp_path: Path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    tied = tmp_path / "tied"
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(tied)
    policy = Policy(tied, RECIPE)
    policy.train(samples())
    out = policy.export(tmp_path / "out")
    check_policy_folder(out, like=tied)
    assert "lm_head.weight" not in load_file(out / "model.safetensors")


def test_a21_resumed_training_equals_uninterrupted_training(toy: Path, tmp_path: Path) -> None:
    through, first = Policy(toy, RECIPE), Policy(toy, RECIPE)
    for seed in range(3):
        through.train(samples(seed))
    first.train(samples(0))
    first.save(tmp_path / checkpoint_name(1), {"policy_step": 1})
    resumed = Policy(toy, RECIPE)
    assert resumed.restore(tmp_path / checkpoint_name(1)) == {"policy_step": 1}
    resumed.train(samples(1))
    resumed.train(samples(2))
    for name, value in through.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name]), name


def test_a21_latest_checkpoint_is_the_highest_number(toy: Path, tmp_path: Path) -> None:
    policy = Policy(toy, RECIPE)
    assert latest_checkpoint(tmp_path / "nothing") is None
    assert latest_checkpoint(tmp_path) is None
    for step in (9, 10, 2):
        policy.save(tmp_path / checkpoint_name(step), {"policy_step": step})
    assert latest_checkpoint(tmp_path) == tmp_path / checkpoint_name(10)


def test_a20_half_written_checkpoint_is_ignored_and_removed(toy: Path, tmp_path: Path) -> None:
    policy = Policy(toy, RECIPE)
    policy.save(tmp_path / checkpoint_name(1), {"policy_step": 1})
    left = tmp_path / ".partial-abc"
    left.mkdir()
    (left / "masters.safetensors").write_bytes(b"half")
    assert latest_checkpoint(tmp_path) == tmp_path / checkpoint_name(1)
    assert not left.exists()


_SAVER = """
import sys
from pathlib import Path
from trainer.policy import Policy, Recipe, checkpoint_name
policy = Policy(Path(sys.argv[1]), Recipe(learning_rate=1e-3))
step = 0
while True:
    step += 1
    policy.save(Path(sys.argv[2]) / checkpoint_name(step), {"policy_step": step})
    print(step, flush=True)
"""


def test_a20_killed_saver_leaves_only_whole_checkpoints(toy: Path, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _SAVER, str(toy), str(tmp_path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as process:
        assert process.stdout is not None
        for _ in range(3):
            process.stdout.readline()
        time.sleep(0.013)
        process.send_signal(signal.SIGKILL)
    newest = latest_checkpoint(tmp_path)
    assert newest is not None
    policy = Policy(toy, RECIPE)
    for checkpoint in tmp_path.glob("policy-*"):
        assert checkpoint_name(policy.restore(checkpoint)["policy_step"]) == checkpoint.name


def test_a20_disk_that_refuses_is_an_operators_matter_and_leaves_nothing(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = Policy(toy, RECIPE)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("trainer.policy.save_file", full)
    with pytest.raises(OperatorError, match="No space left"):
        policy.save(tmp_path / checkpoint_name(1), {})
    assert list(tmp_path.iterdir()) == []


def test_policy_of_folder_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"model\.safetensors"):
        Policy(tmp_path, RECIPE)


def test_checkpoint_of_another_model_is_refused(toy: Path, tmp_path: Path) -> None:
    policy = Policy(toy, RECIPE)
    folder = policy.save(tmp_path / checkpoint_name(1), {})
    save_file({"other": torch.ones(1)}, folder / "masters.safetensors")
    with pytest.raises(PolicyError, match="another model"):
        policy.restore(folder)
