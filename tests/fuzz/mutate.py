"""How one input is made from valid ones: by its bytes, by its JSON, by its Parquet footer, or by its header's JSON.

All choices come from the generator that is given, so a seed gives the same inputs again.
"""

from __future__ import annotations

import json
import random
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any

from tests.fuzz import thrift

MAX_BYTES = 1 << 20
"""Of one mutated input; larger ones are written by hand, see `targets`."""
_EDGES = tuple(
    {edge + step for bits in (0, 7, 8, 15, 16, 31, 32, 48, 63, 64) for edge in (1 << bits,) for step in (-1, 0, 1)}
)
_MAGIC = b"PAR1"
_MEMBER = re.compile(r'"(?:[^"\\]|\\.)*":')
_RAW_TOKENS = (
    "NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "-1e999",
    "1e-999",
    "-0",
    "-0.0",
    "01",
    "1.",
    ".5",
    "0x10",
    "9" * 4300,
    "-" + "9" * 4300,
    "9" * 4301,
    "9" * 100_000,
    "0." + "3" * 20_000,
    "1" + "0" * 400 + ".0",
    '"\\ud800"',
    '"\\udc00\\ud800"',
    '"\\ud83d\\ude00"',
    '"\\u0000"',
    '"\x00"',
    '"\x7f\u2028\ufeff"',
    '"\\x"',
    "'a'",
    "None",
    "true",
    "nul",
    "[,]",
    "{,}",
    "[1,]",
    '{"a":1,}',
    '{"a":1,"a":2}',
    "{1:2}",
    "//\n1",
    "\ufeff1",
    "",
)
_NESTING = (10, 190, 199, 200, 201, 260, 1000, 3000)
_SEARCHED = 1 << 14
"""Longest text that is searched for members: in deep nesting the search takes quadratic time."""
_DEEP_NESTING = 120_000
_TEXTS = (
    "",
    " ",
    "0",
    "-1",
    "0x",
    "0x" + "0" * 40,
    "0x" + "f" * 40,
    "0X" + "AB" * 20,
    "0x" + "0" * 64,
    "0x" + "F" * 64,
    "0x" + "ab" * 65,
    "0x" + "1" * 40 + "\n",
    "\n",
    "\u0660" * 40,
    "\U0010ffff",
    "\u202e",
    "../../etc/passwd",
    "a" * 64,
    "a" * 65,
    "%s%n",
    "__class__",
)


def mutated(kind: str, rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return one input of a kind: `bytes`, `text`, `json`, `parquet` or `safetensors`."""
    return _MAKERS[kind](rng, seeds)[:MAX_BYTES]


def mutate_bytes(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Change a few places of one of the seeds."""
    data = bytearray(rng.choice(seeds))
    for _ in range(_few(rng)):
        rng.choice(_BYTE_CHANGES)(rng, data, seeds)
    return bytes(data)


def mutate_json(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Change the tree of one of the seeds, write it canonically as a rule, and then perhaps its text or bytes."""
    try:
        document = json.loads(rng.choice(seeds))
        others = [json.loads(rng.choice(seeds))]
    except ValueError:
        return mutate_bytes(rng, seeds)
    raw: list[str] = []
    for _ in range(_few(rng)):
        document = _change_tree(rng, document, others, raw)
    is_canonical = rng.random() < 0.8
    text = json.dumps(
        document,
        sort_keys=is_canonical,
        ensure_ascii=rng.random() < 0.1,
        separators=(",", ":") if is_canonical else (", ", ": "),
    )
    for index, token in enumerate(raw):
        text = text.replace(f'"\\u0001{index}"', token)
    if rng.random() < 0.15:
        text = _change_text(rng, text)
    data = text.encode(errors="surrogatepass")
    return mutate_bytes(rng, [data]) if rng.random() < 0.15 else data


def mutate_parquet(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Change a value of the footer or of a page's header as Thrift, or some bytes anywhere."""
    data = rng.choice(seeds)
    choice = rng.random()
    if choice < 0.45:
        return _change_footer(rng, data)
    if choice < 0.65:
        return _change_page(rng, data)
    if choice < 0.8:
        body, footer = _split_footer(data)
        return _with_footer(body, mutate_bytes(rng, [footer])) if footer else data
    return mutate_bytes(rng, [data, rng.choice(seeds)])


def mutate_safetensors(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Change the header's JSON and keep its length right, or some bytes anywhere."""
    data = rng.choice(seeds)
    if rng.random() < 0.25:
        return mutate_bytes(rng, seeds)
    end = 8 + int.from_bytes(data[:8], "little")
    header = mutate_json(rng, [data[8:end]])
    body = data[end:]
    if rng.random() < 0.2:
        body = mutate_bytes(rng, [body or b"\0"])
    return struct.pack("<Q", len(header)) + header + body


def _few(rng: random.Random) -> int:
    return rng.choice((1, 1, 1, 2, 2, 3, 5, 8))


def _place(rng: random.Random, data: bytearray) -> int:
    return rng.randrange(len(data)) if data else 0


def _flip_bit(rng: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    if data:
        data[_place(rng, data)] ^= 1 << rng.randrange(8)


def _set_byte(rng: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    if data:
        data[_place(rng, data)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, 0x22, 0x7B, rng.randrange(256)))


def _truncate(rng: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    del data[_place(rng, data) :]


def _cut(rng: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    start = _place(rng, data)
    del data[start : start + rng.choice((1, 2, 4, 16, 258))]


def _extend(rng: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    data += rng.choice((b"\0", b"\xff", b"\n", b" ", rng.randbytes(rng.randrange(1, 64)))) * rng.choice((1, 1, 2, 300))


def _insert(rng: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    start = _place(rng, data)
    data[start:start] = rng.randbytes(rng.randrange(1, 9))


def _splice(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    other = rng.choice(seeds)
    if other:
        start = rng.randrange(len(other))
        del data[_place(rng, data) :]
        data += other[start:]


def _repeat(rng: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    start = _place(rng, data)
    block = bytes(data[start : start + rng.choice((1, 2, 8, 64, 258))])
    data[start:start] = block * rng.choice((1, 2, 16, 256))


def _set_number(rng: random.Random, data: bytearray, _seeds: Sequence[bytes]) -> None:
    size = rng.choice((1, 2, 4, 8))
    number = rng.choice(_EDGES) * rng.choice((1, 1, -1)) % (1 << 8 * size)
    start = _place(rng, data)
    data[start : start + size] = number.to_bytes(size, rng.choice(("little", "big")))


_BYTE_CHANGES = (
    _flip_bit,
    _flip_bit,
    _set_byte,
    _set_byte,
    _truncate,
    _cut,
    _extend,
    _insert,
    _splice,
    _repeat,
    _set_number,
    _set_number,
)


def _change_tree(rng: random.Random, document: Any, others: Sequence[Any], raw: list[str]) -> Any:
    """Change one place of a tree, chosen by walking down from its root."""
    holder: Any = None
    key: Any = None
    value = document
    while isinstance(value, dict | list) and value and rng.random() < 0.85:
        holder, key = value, rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
        value = holder[key]
    choice = rng.random()
    if choice < 0.12 and holder is not None:
        del holder[key]
        return document
    if choice < 0.2 and isinstance(holder, list):
        holder[key:key] = [value] * rng.choice((1, 2, 32, 64, 600))
        return document
    if choice < 0.28 and isinstance(value, dict):
        value[rng.choice(_TEXTS)] = _value(rng, raw)
        return document
    if choice < 0.34 and isinstance(holder, dict):
        holder[rng.choice(_TEXTS)] = holder.pop(key)
        return document
    if choice < 0.42:
        replacement: Any = _part_of(rng, rng.choice([document, *others]))
    elif choice < 0.5 and isinstance(value, str) and value:
        place = rng.randrange(len(value))
        replacement = value[:place] + rng.choice(("", "g", "A", "\u00e9", "\n", value * 3)) + value[place + 1 :]
    elif choice < 0.6 and type(value) in (int, float):
        replacement = _other_number(rng, value)
    else:
        replacement = _value(rng, raw)
    if holder is None:
        return replacement
    holder[key] = replacement
    return document


def _other_number(rng: random.Random, value: float) -> Any:
    choice = rng.randrange(6)
    if choice == 0 and abs(value) < 1 << 100:  # neither an infinity nor more than a float holds
        return int(value) if isinstance(value, float) else float(value)
    return (str(value), value + 1, value - 1, -value, value * 2, value // 2)[choice]


def _part_of(rng: random.Random, value: Any) -> Any:
    while isinstance(value, dict | list) and value and rng.random() < 0.7:
        value = rng.choice(list(value.values()) if isinstance(value, dict) else value)
    return json.loads(json.dumps(value))


def _value(rng: random.Random, raw: list[str]) -> Any:
    """Return a value that a reader may not expect; what Python cannot hold stands in `raw` and gets a mark here."""
    choice = rng.random()
    if choice < 0.25:
        return rng.choice(_EDGES) * rng.choice((1, 1, -1))
    if choice < 0.35:
        return rng.choice((0.0, -0.0, 0.5, -1.0, 1e308, 5e-324, 1e16, 2.0**63, 1e-7))
    if choice < 0.6:
        return rng.choice(_TEXTS)
    if choice < 0.62:
        return rng.choice(("x", "\u00e9", "\U0001f600", '"\\')) * rng.choice((100, 501, 20_000))
    if choice < 0.8:
        return rng.choice((None, True, False, [], {}, [[]], {"": 0}, [None], [0, 0], {"a": [], "b": {}}))
    if choice < 0.95:
        raw.append(rng.choice(_RAW_TOKENS))
    else:
        raw.append(_nested(rng))
    return f"\x01{len(raw) - 1}"


def _nested(rng: random.Random) -> str:
    depth = _DEEP_NESTING if rng.random() < 0.03 else rng.choice(_NESTING)
    start, end = rng.choice((("[", "]"), ('{"a":', "}"), ('[{"":', "}]")))
    return start * depth + rng.choice(("0", "", '"a"')) + end * (depth if rng.random() < 0.7 else 0)


def _change_text(rng: random.Random, text: str) -> str:
    choice = rng.random()
    if choice < 0.35 and len(text) <= _SEARCHED and (members := list(_MEMBER.finditer(text))):
        member = rng.choice(members)
        return text[: member.start()] + f"{member[0]}{rng.choice(('0', 'null', '[]'))}," + text[member.start() :]
    if choice < 0.5:
        place = rng.randrange(len(text) + 1)
        return text[:place] + rng.choice((" ", "\t", "\n", ",", ":", "[", "]", "{", "}", '"', "\\")) + text[place:]
    if choice < 0.6:
        return rng.choice((" ", "\ufeff", "\n", "\0")) + text
    if choice < 0.7:
        return text + rng.choice((" ", "\n", "\0", "{}", text))
    if choice < 0.8:
        return text.replace("e", "\\u0065", rng.randrange(1, 9))
    if choice < 0.9:
        return text.replace("0", rng.choice(("0.0", "0e0", "-0", "1", "00")), rng.randrange(1, 4))
    return _nested(rng)


def _split_footer(data: bytes) -> tuple[bytes, bytes]:
    """Return what stands before a Parquet footer, and the footer; no footer where there is none."""
    length = int.from_bytes(data[-8:-4], "little")
    if data[-4:] != _MAGIC or not 0 < length <= len(data) - 12:
        return data, b""
    return data[: len(data) - 8 - length], data[len(data) - 8 - length : -8]


def _with_footer(body: bytes, footer: bytes) -> bytes:
    return body + footer + len(footer).to_bytes(4, "little") + _MAGIC


def _change_footer(rng: random.Random, data: bytes) -> bytes:
    body, footer = _split_footer(data)
    try:
        tree, _ = thrift.read(footer)
    except (ValueError, IndexError):
        return mutate_bytes(rng, [data])
    for _ in range(_few(rng)):
        _change_struct(rng, tree)
    return _with_footer(body, thrift.write(tree))


def _change_page(rng: random.Random, data: bytes) -> bytes:
    """Change the header of the page that a column of the footer points to, and shift nothing after it."""
    body, footer = _split_footer(data)
    try:
        tree, _ = thrift.read(footer)
        start = rng.choice(_numbers(tree, 9) or [4])
        header, length = thrift.read(body[start:])
    except (ValueError, IndexError):
        return mutate_bytes(rng, [data])
    for _ in range(_few(rng)):
        _change_struct(rng, header)
    changed = thrift.write(header)
    rest = body[start + length :]
    return _with_footer(body[:start] + changed + rest[max(0, len(changed) - length) :], footer)


def _numbers(value: Any, field: int) -> list[int]:
    """Return the numbers of all 64-bit fields of a number, such as 9 for the offsets of data pages."""
    if isinstance(value, thrift.List):
        return [found for item in value.values for found in _numbers(item, field)]
    if not isinstance(value, thrift.Struct):
        return []
    own = [item for number, kind, item in value.fields if number == field and kind == thrift.I64]
    return own + [found for _, _, item in value.fields for found in _numbers(item, field)]


def _change_struct(rng: random.Random, tree: thrift.Struct) -> None:
    struct_here = tree
    while inner := _structs(struct_here):
        if rng.random() < 0.3:
            break
        struct_here = rng.choice(inner)
    if not struct_here.fields:
        return
    place = rng.randrange(len(struct_here.fields))
    number, kind, value = struct_here.fields[place]
    choice = rng.random()
    if choice < 0.1:
        del struct_here.fields[place]
    elif choice < 0.15:
        struct_here.fields[place] = (number + rng.choice((-1, 1, 20)), kind, value)
    elif choice < 0.2:
        struct_here.fields.insert(place, (number, kind, value))
    elif choice < 0.24 and kind in (thrift.I16, thrift.I32, thrift.I64, thrift.LIST):
        other = thrift.SET if kind == thrift.LIST else rng.choice((thrift.I16, thrift.I32, thrift.I64))
        struct_here.fields[place] = (number, other, value)
    elif choice < 0.27:
        struct_here.fields.append((number + (rng.choice((1, 2)) << 16), kind, value))
    elif isinstance(value, thrift.List):
        _change_list(rng, value)
    elif kind in (thrift.I16, thrift.I32, thrift.I64):
        struct_here.fields[place] = (number, kind, _number(rng, value))
    elif kind == thrift.BINARY:
        struct_here.fields[place] = (number, kind, mutate_bytes(rng, [value]))
    elif kind in (thrift.TRUE, thrift.FALSE):
        struct_here.fields[place] = (number, kind, not value)


def _structs(value: thrift.Struct) -> list[thrift.Struct]:
    found = []
    for _, _, item in value.fields:
        if isinstance(item, thrift.Struct):
            found.append(item)
        elif isinstance(item, thrift.List):
            found += [one for one in item.values if isinstance(one, thrift.Struct)]
    return found


def _change_list(rng: random.Random, found: thrift.List) -> None:
    choice = rng.random()
    if choice < 0.05:
        found.shown = rng.randrange(1, 13)
    elif choice < 0.35 and found.values:
        del found.values[rng.randrange(len(found.values))]
    elif choice < 0.6 and found.values:
        found.values += [rng.choice(found.values)] * rng.choice((1, 2, 100, 1030))
    elif found.values and isinstance(found.values[0], int) and not isinstance(found.values[0], bool):
        found.values[rng.randrange(len(found.values))] = _number(rng, found.values[0])
    else:
        rng.shuffle(found.values)


def _number(rng: random.Random, value: int) -> int:
    if rng.random() < 0.5:
        return rng.randrange(-1, 12)
    return rng.choice((value + 1, value - 1, -value, value * 2, rng.choice(_EDGES), -rng.choice(_EDGES)))


_MAKERS: dict[str, Callable[[random.Random, Sequence[bytes]], bytes]] = {
    "bytes": mutate_bytes,
    "json": mutate_json,
    "parquet": mutate_parquet,
    "safetensors": mutate_safetensors,
}
