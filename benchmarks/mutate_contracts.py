"""Counts how many mechanical mutants of the contracts the Solidity tests notice.

    python -m benchmarks.mutate_contracts
    python -m benchmarks.mutate_contracts --count 40 --only contracts/PayoutVault.sol

Works in a copy of the tree. What was tested is written down as it goes: an interrupted run, begun again with unchanged
sources and tests, goes on where it stopped. After a change of tests alone, `--keep-killed` tries only what survived.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path

from benchmarks.figures import figure, missed, node_version, write_results
from benchmarks.mutants import Mutant, draw, mutants_of
from tools.forge import ROOT, copy_sources, forge

SEED = "stannary.mutants.v1"
COUNT = 200
LEAST_A_FILE = 4
TARGET = ">= 0.9"
TEST_LIMIT_S = 300.0
PROGRESS = ROOT / "cache" / "mutants" / "progress.jsonl"
COPIED = ("contracts", "tests/contracts", "tests/vectors", "tools", "foundry.toml", "package.json")
LIBRARY_TESTS = ("Libraries", "Vectors")
LAST = "Invariants"
"""The slowest tests, asked when all others have passed."""
LIMITS = {"FOUNDRY_INVARIANT_RUNS": "1", "FOUNDRY_INVARIANT_DEPTH": "64"}
"""Fewer random moves than the tests make by themselves: whatever survives the others is asked about them."""
NOT_COMPILED = "it does not compile"
TEST_GAS = 1 << 32
LAST_GAS = 1 << 36
"""A mutant may loop for ever; the gas of one test ends it."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of one mutant."""

    key: str
    file: str
    line: int
    kind: str
    before: str
    after: str
    fate: str
    """`killed`, `survived`, `not compiled` or `same code`."""
    by: str
    """What failed."""
    seconds: float

    @property
    def is_tested(self) -> bool:
        """Whether the tests were asked about it."""
        return self.fate in ("killed", "survived")


def main() -> None:
    """Draw, test and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=COUNT, help="mutants that the tests are asked about")
    parser.add_argument("--seed", default=SEED)
    parser.add_argument("--only", nargs="+", help="files; the results are then only printed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep-killed", action="store_true", help="what was killed before the tests changed stays so")
    parser.add_argument("--anew", action="store_true", help="forget what was tested before")
    args = parser.parse_args()

    every = sorted(str(path.relative_to(ROOT)) for path in sources())
    files = args.only or every
    quotas = shares(files, args.count)
    found = mutants_of(ROOT, files)
    if args.anew:
        PROGRESS.unlink(missing_ok=True)
    log = Log(PROGRESS, digest("contracts"), digest("tests/contracts", "tests/vectors"), keep_killed=args.keep_killed)
    progress = Progress(sum(quotas.values()))
    with tempfile.TemporaryDirectory(prefix="stannary-mutants-") as place:
        copies = [Copy(Path(place) / str(number)) for number in range(args.jobs)]
        copies[0].prepare()
        for copy in copies[1:]:
            copy.prepare_like(copies[0])
        queue = sorted(files, key=lambda file: -quotas[file])
        lock = threading.Lock()

        def work(copy: Copy) -> list[Trial]:
            done: list[Trial] = []
            while True:
                with lock:
                    if not queue:
                        return done
                    file = queue.pop(0)
                done += try_file(copy, file, draw(found[file], f"{args.seed} {file}"), quotas[file], log, progress)

        with ThreadPoolExecutor(args.jobs) as pool:
            trials = [trial for some in pool.map(work, copies) for trial in some]
    report(trials, args.seed, is_written=not args.only)


def sources() -> Iterator[Path]:
    """Return all files that are mutated."""
    yield from (ROOT / "contracts").glob("*.sol")
    yield from (ROOT / "contracts" / "libraries").glob("*.sol")


def shares(files: Sequence[str], count: int) -> dict[str, int]:
    """Spread a number of mutants over files by size, some at least to each."""
    sizes = {file: (ROOT / file).stat().st_size for file in files}
    whole = sum(sizes.values())
    return {file: max(LEAST_A_FILE, round(count * size / whole)) for file, size in sizes.items()}


def digest(*folders: str) -> str:
    """Return a digest of all sources in folders."""
    total = sha256()
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".sol", ".json") and "abi" not in path.parts:
                total.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return total.hexdigest()


# -- what is written down


class Log:
    """The trials of earlier runs that still hold, and the file that all are added to."""

    def __init__(self, path: Path, contracts: str, tests: str, *, keep_killed: bool) -> None:
        self._path, self._contracts, self._tests = path, contracts, tests
        self._lock = threading.Lock()
        self._trials: dict[str, Trial] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        for line in path.read_text().splitlines() if path.exists() else ():
            entry = json.loads(line)
            trial = Trial(**entry["trial"])
            holds = entry["tests"] == tests or trial.fate != "survived" if keep_killed else entry["tests"] == tests
            if entry["contracts"] == contracts and holds:
                self._trials[trial.key] = trial
            else:
                self._trials.pop(trial.key, None)

    def find(self, key: str) -> Trial | None:
        """Return the trial of a mutant, None if it must be tried."""
        return self._trials.get(key)

    def add(self, trial: Trial) -> None:
        """Write a trial down."""
        entry = {"contracts": self._contracts, "tests": self._tests, "trial": asdict(trial)}
        with self._lock, self._path.open("a") as file:
            file.write(json.dumps(entry) + "\n")


@dataclass(slots=True)
class Progress:
    """Prints a line for each mutant."""

    wanted: int
    begun: float = field(default_factory=time.monotonic)
    counts: Counter[str] = field(default_factory=Counter)
    fresh: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def tell(self, trial: Trial, *, is_new: bool) -> None:
        """Count one trial and print how far all is."""
        with self.lock:
            self.counts[trial.fate] += 1
            self.fresh += is_new and trial.is_tested
            tested = self.counts["killed"] + self.counts["survived"]
            rest = (self.wanted - tested) * (time.monotonic() - self.begun) / self.fresh / 60 if self.fresh else 0.0
            print(
                f"[{tested:3}/{self.wanted}] {trial.file.removeprefix('contracts/')}:{trial.line} {trial.kind}: "
                f"{trial.fate}{' by ' + trial.by if trial.by else ''} ({trial.seconds:.0f} s); "
                f"{self.counts['survived']} survived, about {rest:.0f} min left",
                flush=True,
            )


# -- trying mutants


class Copy:
    """A copy of the tree in which forge builds and tests; only what a mutant changes is compiled anew."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.code: dict[str, str] = {}

    def prepare(self) -> None:
        """Copy the tree, build it, and see that its tests pass. Raises: RuntimeError if they do not."""
        copy_sources(self.folder, COPIED)
        print("building all contracts and tests (minutes)", flush=True)
        built = forge("build", folder=self.folder)
        if built.returncode:
            raise RuntimeError(f"the tree does not build:\n{built.stdout[-4000:]}")
        failed = self.failing([])
        if failed:
            raise RuntimeError(f"the tests do not pass as they are: {failed}")
        self.code = self.compiled()

    def prepare_like(self, other: Copy) -> None:
        """Copy another copy that is ready."""
        shutil.copytree(other.folder, self.folder, symlinks=True)
        self.code = other.code

    def compiled(self) -> dict[str, str]:
        """Return a digest of the code of everything that was built."""
        found = {}
        for path in (self.folder / "cache" / "forge" / "out").rglob("*.json"):
            if "build-info" not in path.parts:
                artifact = json.loads(path.read_text())
                code = artifact.get("bytecode", {}).get("object", "") + artifact.get("deployedBytecode", {}).get(
                    "object", ""
                )
                found[str(path.relative_to(self.folder))] = sha256(code.encode()).hexdigest()
        return found

    def failing(self, first: Sequence[str]) -> str:
        """Return the name of a test that fails, empty if all pass. `first`: test files that are asked first."""
        others = sorted(path.name.removesuffix(".t.sol") for path in (self.folder / "tests/contracts").glob("*.t.sol"))
        rest = [name for name in others if name not in first and name != LAST]
        for group in (first, rest, [LAST] if LAST in others else []):
            if group:
                failed = self._failing_of(group)
                if failed:
                    return failed
        return ""

    def _failing_of(self, names: Sequence[str]) -> str:
        for kind in ("fuzz", "invariant"):
            shutil.rmtree(self.folder / "cache" / kind, ignore_errors=True)  # no example of one mutant tries another
        stem = names[0] if len(names) == 1 else f"{{{','.join(names)}}}"
        arguments = ("test", "--fail-fast", "--match-path", f"tests/contracts/{stem}.t.sol")
        settings = {**LIMITS, "FOUNDRY_GAS_LIMIT": str(LAST_GAS if LAST in names else TEST_GAS)}
        try:
            done = forge(*arguments, folder=self.folder, limit_s=TEST_LIMIT_S, settings=settings)
        except subprocess.TimeoutExpired:
            return "time limit"
        if done.returncode == 0:
            return ""
        if "Compiler run failed" in done.stdout:
            return NOT_COMPILED
        lines = [line for line in done.stdout.splitlines() if line.startswith("[FAIL")]
        return lines[0].rpartition("] ")[2].split("(")[0].strip() if lines else "a test that could not run"


def try_file(copy: Copy, file: str, mutants: Sequence[Mutant], quota: int, log: Log, progress: Progress) -> list[Trial]:
    """Try mutants of one file until the tests were asked about `quota` of them."""
    source = (ROOT / file).read_bytes()
    done: list[Trial] = []
    for mutant in mutants:
        if sum(trial.is_tested for trial in done) == quota:
            break
        known = log.find(mutant.key(source))
        trial = known or try_one(copy, mutant, source)
        if known is None:
            log.add(trial)
        progress.tell(trial, is_new=known is None)
        done.append(trial)
    (copy.folder / file).write_bytes(source)
    return done


def try_one(copy: Copy, mutant: Mutant, source: bytes) -> Trial:
    """Let the tests judge a mutant. Only what they are about is built, and all of it for one that survives."""
    begun = time.monotonic()
    (copy.folder / mutant.file).write_bytes(mutant.apply(source))
    by = copy.failing(tests_of(copy.folder, mutant.file))
    fate = "killed" if by else "survived"
    if by == NOT_COMPILED:
        fate, by = "not compiled", ""
    elif not by and forge("build", folder=copy.folder).returncode == 0 and copy.compiled() == copy.code:
        fate = "same code"
    before, after = mutant.shown(source)
    seconds = round(time.monotonic() - begun, 1)
    return Trial(mutant.key(source), mutant.file, mutant.line(source), mutant.kind, before, after, fate, by, seconds)


def tests_of(folder: Path, file: str) -> list[str]:
    """Return the names of the test files that are about a source."""
    names = LIBRARY_TESTS if "libraries" in file else (Path(file).stem,)
    return [name for name in names if (folder / "tests" / "contracts" / f"{name}.t.sol").exists()]


# -- the report


def report(trials: Sequence[Trial], seed: str, *, is_written: bool) -> None:
    """Print the score, and write benchmarks/results/mutants.json."""
    tested = [trial for trial in trials if trial.is_tested]
    killed = sum(trial.fate == "killed" for trial in tested)
    figures = {
        "mutants_killed": figure(round(killed / max(1, len(tested)), 4), "of those tested", TARGET, killed=killed),
        "mutants_tested": figure(len(tested), "mutants", ">= 200"),
        "not_compiled": figure(sum(trial.fate == "not compiled" for trial in trials), "mutants"),
        "same_code": figure(sum(trial.fate == "same code" for trial in trials), "mutants"),
    }
    survivors = sorted((trial for trial in tested if trial.fate == "survived"), key=lambda one: (one.file, one.line))
    for trial in survivors:
        print(f"survived: {trial.file}:{trial.line} ({trial.kind})\n  - {trial.before}\n  + {trial.after}")
    print(f"{killed} of {len(tested)} mutants killed")
    if not is_written:
        return
    body = {
        "setting": {"seed": seed, "limits": LIMITS, "sources": "contracts/*.sol, contracts/libraries/*.sol"},
        "figures": figures,
        "by_file": _rates(tested, [trial.file for trial in tested]),
        "by_kind": _rates(tested, [trial.kind for trial in tested]),
        "survivors": [
            {"file": one.file, "line": one.line, "kind": one.kind, "before": one.before, "after": one.after}
            for one in survivors
        ],
    }
    versions = {"forge": node_version("@foundry-rs/forge"), "solc": node_version("solc")}
    path = write_results("mutants", "python -m benchmarks.mutate_contracts", body, versions)
    print(f"{path}: misses {missed(figures)}" if missed(figures) else str(path))


def _rates(tested: Sequence[Trial], groups: Sequence[str]) -> Mapping[str, dict[str, int]]:
    killed = Counter(group for trial, group in zip(tested, groups, strict=True) if trial.fate == "killed")
    return {group: {"tested": count, "killed": killed[group]} for group, count in sorted(Counter(groups).items())}


if __name__ == "__main__":
    main()
