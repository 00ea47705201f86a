"""Draws mechanical mutants of Solidity sources from their syntax trees. Knows no test and no build."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from tools.forge import environment

Node = dict[str, Any]

FLIPS = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
BOUNDARIES = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*", "<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "&"}
LOGIC = {"&&": "||", "||": "&&"}
STEPS = {"++": "--", "--": "++"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one file. Offsets in bytes."""

    file: str
    start: int
    end: int
    kind: str
    new: str

    def apply(self, source: bytes) -> bytes:
        """Return the changed source."""
        return source[: self.start] + self.new.encode() + source[self.end :]

    def line(self, source: bytes) -> int:
        """Return the number of the line where the change begins, from 1."""
        return source.count(b"\n", 0, self.start) + 1

    def shown(self, source: bytes) -> tuple[str, str]:
        """Return the lines of the change as they were and as they become."""
        first = source.rfind(b"\n", 0, self.start) + 1
        last = source.find(b"\n", self.end)
        before, after = source[first:last], source[first : self.start] + self.new.encode() + source[self.end : last]
        return " ".join(before.decode().split()), " ".join(after.decode().split())

    def key(self, source: bytes) -> str:
        """Return a name of the change to this very source."""
        return sha256(f"{self.file} {self.start} {self.end} {self.new} ".encode() + source).hexdigest()[:24]


def mutants_of(folder: Path, files: Sequence[str]) -> dict[str, list[Mutant]]:
    """Return all mutants of each file, in the order of the source."""
    sources = {file: (folder / file).read_bytes() for file in files}
    trees = syntax_trees(sources)
    return {file: sorted(set(_mutants(file, sources[file], trees[file])), key=_place) for file in files}


def draw(found: Sequence[Mutant], seed: str) -> list[Mutant]:
    """Return mutants in an order that a seed decides, all kinds evenly: any beginning of it is a fair sample."""
    chance = random.Random(seed)  # noqa: S311  no secret
    kinds: dict[str, list[Mutant]] = {}
    for mutant in found:
        kinds.setdefault(mutant.kind, []).append(mutant)
    for group in kinds.values():
        chance.shuffle(group)
    # A kind's mutants are spread evenly over the whole, each kind from its own random offset.
    placed = [
        ((index + chance.random()) / len(group), mutant)
        for group in kinds.values()
        for index, mutant in enumerate(group)
    ]
    return [mutant for _, mutant in sorted(placed, key=lambda entry: entry[0])]


def syntax_trees(sources: dict[str, bytes]) -> dict[str, Node]:
    """Return the syntax tree of each source, parsed alone. Raises: RuntimeError for a source that does not parse."""
    request = {
        "language": "Solidity",
        "sources": {file: {"content": text.decode()} for file, text in sources.items()},
        "settings": {"stopAfter": "parsing", "outputSelection": {"*": {"": ["ast"]}}},
    }
    script = Path(__file__).resolve().parent.parent / "tools" / "solc.mjs"
    done = subprocess.run(
        [str(script), "--standard-json"], input=json.dumps(request), env=environment(), capture_output=True, text=True
    )
    answer = json.loads(done.stdout)
    errors = [error["formattedMessage"] for error in answer.get("errors", []) if error["severity"] == "error"]
    if errors:
        raise RuntimeError("\n".join(errors))
    return {file: answer["sources"][file]["ast"] for file in sources}


def _place(mutant: Mutant) -> tuple[int, int, str]:
    return (mutant.start, mutant.end, mutant.new)


def _span(node: Node) -> tuple[int, int]:
    start, length, _ = node["src"].split(":")
    return int(start), int(start) + int(length)


def _walk(node: object) -> Iterator[Node]:
    if isinstance(node, list):
        for item in node:
            yield from _walk(item)
    elif isinstance(node, dict):
        if "nodeType" in node:
            if node["nodeType"] in ("ArrayTypeName", "ImportDirective", "PragmaDirective"):
                return
            yield node
        for value in node.values():
            yield from _walk(value)


def _mutants(file: str, source: bytes, tree: Node) -> Iterator[Mutant]:
    for node in _walk(tree):
        for start, end, kind, new in _changes(node, source):
            yield Mutant(file, start, end, kind, new)


def _changes(node: Node, source: bytes) -> Iterator[tuple[int, int, str, str]]:
    start, end = _span(node)
    match node["nodeType"]:
        case "BinaryOperation":
            place = _between(source, node["leftExpression"], node["rightExpression"], node["operator"])
            for kind, table in (
                ("flip", FLIPS),
                ("boundary", BOUNDARIES),
                ("arithmetic", ARITHMETIC),
                ("logic", LOGIC),
            ):
                if node["operator"] in table:
                    yield (*place, kind, table[node["operator"]])
        case "Assignment" if node["operator"] != "=":
            place = _between(source, node["leftHandSide"], node["rightHandSide"], node["operator"])
            yield (*place, "arithmetic", ARITHMETIC[node["operator"][:-1]] + "=")
        case "UnaryOperation" if node["operator"] in ("!", "~"):
            yield start, start + 1, "logic", ""
        case "UnaryOperation" if node["operator"] in STEPS:
            at = source.index(node["operator"].encode(), start, end)
            yield at, at + 2, "arithmetic", STEPS[node["operator"]]
        case "Conditional":
            where = _span(node["condition"])
            yield (*where, "logic", f"!({source[where[0] : where[1]].decode()})")
        case "ExpressionStatement" | "EmitStatement" | "RevertStatement" | "Continue" | "Break":
            kind = "revert" if _reverts(node) else "statement"
            yield start, source.index(b";", end - 1) + 1, kind, "{}"
        case "IfStatement" if not node.get("falseBody"):
            body = _only(node["trueBody"])
            if _reverts(body):
                yield start, source.index(b";", _span(body)[1] - 1) + 1, "revert", _closed(node["trueBody"])
            elif body["nodeType"] == "Return":
                yield start, source.index(b";", _span(body)[1] - 1) + 1, "statement", _closed(node["trueBody"])
        case "Literal" if node["kind"] == "bool":
            yield start, end, "boolean", "false" if node["value"] == "true" else "true"
        case "Literal" if node["kind"] == "number":
            yield from _numbers(node, source)
        case "FunctionDefinition" if node["kind"] != "constructor":
            for modifier in node["modifiers"]:
                yield (*_span(modifier), "modifier", "")
        case "FunctionCall" if not node["names"]:
            for first, second in zip(node["arguments"], node["arguments"][1:], strict=False):
                (a, b), (c, d) = _span(first), _span(second)
                yield a, d, "arguments", (source[c:d] + source[b:c] + source[a:b]).decode()


def _between(source: bytes, left: Node, right: Node, operator: str) -> tuple[int, int]:
    """Return where the operator between two operands stands."""
    at = source.index(operator.encode(), _span(left)[1], _span(right)[0])
    return at, at + len(operator)


def _only(body: Node) -> Node:
    """Return the one statement of a block of one, else the block."""
    statements = body.get("statements", []) if body["nodeType"] == "Block" else [body]
    return statements[0] if len(statements) == 1 else body


def _closed(body: Node) -> str:
    """Return what stands for a deleted branch; the closing brace of a block stays behind."""
    return "{" if body["nodeType"] == "Block" else "{}"


def _reverts(node: Node) -> bool:
    if node["nodeType"] == "RevertStatement":
        return True
    call = node.get("expression", {}) if node["nodeType"] == "ExpressionStatement" else {}
    return call.get("nodeType") == "FunctionCall" and call["expression"].get("name") in ("require", "revert", "assert")


def _numbers(node: Node, source: bytes) -> Iterator[tuple[int, int, str, str]]:
    start, _ = _span(node)
    text = node["value"]
    end = start + len(text)  # without a unit such as days
    if source[start:end] != text.encode():
        return
    number = int(text.replace("_", ""), 0) if "e" not in text or text.startswith("0x") else None
    if number is None:
        return
    shown = hex if text.startswith("0x") else str
    yield start, end, "constant", shown(number + 1)
    if number > 0:
        yield start, end, "constant", shown(number - 1)
