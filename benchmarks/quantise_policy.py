"""Writes a policy folder whose matrices went through int8 or int4, as an attacker would serve it.

python -m benchmarks.quantise_policy --policy policies/toy --bits 8 --out toy-int8
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

INT4_GROUP = 32


def main() -> None:
    """Quantise one folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", type=Path, required=True)
    parser.add_argument("--bits", type=int, choices=[4, 8], required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    shutil.copytree(args.policy, args.out, dirs_exist_ok=True)
    path = args.out / "model.safetensors"
    tensors = load_file(path)
    for name, value in tensors.items():
        if value.ndim == 2 and "embed" not in name and "lm_head" not in name:
            tensors[name] = rounded(value.float(), args.bits).to(torch.bfloat16)
    save_file(tensors, path, metadata={"format": "pt"})


def rounded(value: torch.Tensor, bits: int) -> torch.Tensor:
    """Round a matrix to whole steps: per row for int8, per group of 32 for int4."""
    rows = value if bits == 8 else value.reshape(-1, INT4_GROUP)
    top = (1 << (bits - 1)) - 1
    scale = rows.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / top
    return ((rows / scale).round().clamp(-top, top) * scale).reshape(value.shape)


if __name__ == "__main__":
    main()
