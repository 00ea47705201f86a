"""Writes a policy folder whose matrices went through int8 or int4, as an attacker would serve it.

python -m benchmarks.quantise_policy --policy policies/toy --bits 8 --out toy-int8
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from demo.adversaries import rounded


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
            tensors[name] = rounded(value, args.bits).to(torch.bfloat16)
    save_file(tensors, path, metadata={"format": "pt"})


if __name__ == "__main__":
    main()
