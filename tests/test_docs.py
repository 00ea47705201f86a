"""The documents say what is so: links lead somewhere, commands exist, the protocol's tables equal the code's."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from stannary.signing import MAX_CLOCK_SKEW_S
from stannary.structs import Lease, NodeConsent, Receipt, Request, SignedStruct, Submission, Verdict
from stannary.types import Outcome, Reason

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted(
    [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "contracts/README.md", *ROOT.glob("docs/**/*.md")]
)
PROTOCOL = (ROOT / "docs/protocol.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_link_leads_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if not target.startswith("https://"):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_make_target_of_a_document_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        blocks = "\n".join(re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
        named = {*re.findall(r"`make ([a-z-]+)", text), *re.findall(r"^make ([a-z-]+)", blocks, re.MULTILINE)}
        assert named <= targets, f"{document.name} names {named - targets}"


@pytest.mark.parametrize(
    "role", ["provider", "pool", "wallet", "devnet", "worker", "validator", "coordinator", "trainer"]
)
def test_stannary_command_of_the_readme_exists(role: str) -> None:
    command = [sys.executable, "-m", "stannary.cli", role, "--help"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert answer.returncode == 0, answer.stderr
    verbs = re.findall(rf"stannary {role} ([a-z]+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert all(verb in answer.stdout for verb in verbs), f"{verbs} of {answer.stdout}"


@pytest.mark.parametrize("kind", [NodeConsent, Lease, Submission, Receipt, Verdict, Request])
def test_protocol_states_every_signed_struct(kind: type[SignedStruct]) -> None:
    assert f"\n{kind.TYPE}\n" in PROTOCOL


def test_protocol_states_every_reason_and_outcome() -> None:
    table = PROTOCOL[PROTOCOL.index("| reason | number") : PROTOCOL.index("9.7.")]
    rows = [[cell.strip() for cell in line.split("|")[1:3]] for line in table.splitlines()[2:] if line.startswith("|")]
    stated = {
        name.strip().replace(" ", "_").upper(): int(number)
        for names, numbers in rows
        for name, number in zip(names.split(","), numbers.split(","), strict=True)
    }
    assert stated == {reason.name: int(reason) for reason in Reason if reason not in (Reason.NONE, Reason.UNAVAILABLE)}
    assert ", ".join(f"{int(outcome)} {outcome.name.lower()}" for outcome in Outcome) in PROTOCOL


def test_protocol_states_the_clock_skew() -> None:
    assert f"a\ntime more than {MAX_CLOCK_SKEW_S} s from its own" in PROTOCOL
