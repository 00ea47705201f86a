"""Runs forge, which `npm ci` installs, over this repository or a copy of it, without a network.

python -m tools.forge test --match-path tests/contracts/PayoutVault.t.sol
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 1800.0


def program() -> Path:
    """Return forge itself: the wrapper in node_modules/.bin answers 0 whatever forge says.

    Raises: FileNotFoundError if it is not installed.
    """
    for found in sorted(ROOT.glob("node_modules/@foundry-rs/forge-*/bin/forge")):
        return found
    raise FileNotFoundError(f"no forge in {ROOT}: run npm ci")


def environment(**more: str) -> dict[str, str]:
    """Return the environment in which forge, node and our compiler script are found."""
    places = [str(program().parent), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    return {**os.environ, "PATH": os.pathsep.join(places), "NO_COLOR": "1", **more}


def forge(
    *arguments: str, folder: Path = ROOT, limit_s: float = LIMIT_S, settings: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run forge in a folder and return what it said. `settings` are more environment variables, such as FOUNDRY_OUT.

    Raises: TimeoutExpired, with forge ended.
    """
    return subprocess.run(
        [str(program()), *arguments],
        cwd=folder,
        env=environment(**(settings or {})),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=limit_s,
    )


def copy_sources(folder: Path, names: Sequence[str]) -> None:
    """Copy files and folders of this repository into a new folder, in which forge then works."""
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, folder / name)
    (folder / "node_modules").symlink_to(ROOT / "node_modules")


if __name__ == "__main__":
    sys.exit(subprocess.run([program(), *sys.argv[1:]], cwd=ROOT, env=environment()).returncode)
