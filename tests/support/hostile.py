"""Files as damage or malice make them, out of valid ones: values replaced, bits turned, ends cut off.

Whatever kinds of folders `raw_folders` makes, each of their files can be changed so; a new kind needs nothing here.
"""

from __future__ import annotations

import json
import random
import re
from typing import NamedTuple

VALUES = (
    None, True, 0, -1, 7, 2**31, 2**63, 2**70, 10**400, 0.5, -0.5, 1e308, "", "a", "é", "\x00", "\x1b[31m", "../../x",
    "http://[", "1e999", "nan", "10" * 60, "x" * 140_000, [], [None], [[]], [0], [[1, 2]], [-1, -1, 2, 2], [1e308] * 4,
    {}, {"a": 1}, {"": None}, [{}], [[[1, 2], [3, 4], [5, 6]]],
)  # fmt: skip
"""What stands in place of a value of JSON."""
WORDS = (
    "", "-1", "0", "7", "300", "0.5", "-0.5", "1e308", "1e999", "nan", "inf", str(2**31), str(2**63), "1" * 400, "x",
    "é", "\x00", "\x1b[31m", "../../x", "/", ".", " ", ",", '"', "<", "&", "%", "x" * 140_000, "None", "[]", "{}",
)  # fmt: skip
"""What stands in place of a word of any other text."""
BYTES = (b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\xff" * 8, b"\0" * 16)
_WORD = re.compile(rb"[^\s,;:=<>\"'(){}\[\]]+")
_LARGEST = 20_000  # bytes of a file whose values are looked at one by one


class Change(NamedTuple):
    """A file in a folder, and what it becomes."""

    what: str
    data: bytes


def every(path):
    """Changes of a file's values, of all of them by all others, without end where they are many."""
    data = path.read_bytes()
    if path.suffix in {".json", ".jsonl"} and len(data) < _LARGEST:
        yield from _values(data, lines=path.suffix == ".jsonl")
    elif _is_text(data) and len(data) < _LARGEST:
        yield from _words(data)
    yield from _bytes(data)


def some(path, count, seed=0):
    """So many of a file's changes, by chance; as many of values as of bytes."""
    chance = random.Random(f"{seed} {path.name}")
    values = [change for change in every(path) if not change.what.startswith("byte")]
    chosen = chance.sample(values, min(len(values), count // 2))
    data = path.read_bytes()
    return [*chosen, *(_damaged(data, chance) for _ in range(count - len(chosen)))]


def changed(path, place, value):
    """Put a value at a place of a JSON file, as `0.regions`; `*` is the first key of an object."""
    first, *rest = path.read_text().split("\n") if path.suffix == ".jsonl" else [path.read_text()]
    tree = node = json.loads(first)
    keys = []
    for word in place.split("."):
        key = int(word) if isinstance(node, list) else next(iter(node)) if word == "*" else word
        keys.append(key)
        node = node[key]
    path.write_text("\n".join((json.dumps(_with(tree, keys, value)), *rest)))


def _is_text(data):
    return bool(data) and b"\0" not in data and _decodes(data)


def _decodes(data):
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _values(data, *, lines):
    first, *rest = data.split(b"\n") if lines else [data]
    tree = json.loads(first)
    for at in _places(tree):
        for value in (..., *VALUES):
            if at or value is not ...:
                changed = json.dumps(_with(tree, at, value)).encode()
                yield Change(f"{'.'.join(map(str, at)) or 'all'} = {str(value)[:30]!r}", b"\n".join((changed, *rest)))


def _places(tree, at=()):
    """Where values are, of lists only the first one."""
    yield at
    inside = tree.items() if isinstance(tree, dict) else enumerate(tree[:1]) if isinstance(tree, list) else ()
    for key, value in inside:
        yield from _places(value, (*at, key))


def _with(tree, at, value):
    if not at:
        return value
    key, *rest = at
    changed = dict(tree) if isinstance(tree, dict) else list(tree)
    if rest or value is not ...:
        changed[key] = _with(tree[key], rest, value)
    else:
        del changed[key]
    return changed


def _words(data):
    for word in _WORD.finditer(data):
        for value in WORDS:
            changed = data[: word.start()] + value.encode() + data[word.end() :]
            yield Change(f"{word[0][:20]!r} at {word.start()} = {value[:20]!r}", changed)


def _bytes(data):
    """Every byte of the first thousand with one bit turned, and the file cut at every one of them."""
    for at in range(min(len(data), 1000)):
        yield Change(f"byte {at} turned", data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :])
        yield Change(f"bytes up to {at}", data[:at])


def _damaged(data, chance):
    """A bit turned, some bytes replaced, put in between or left out, mostly in the header, or the end cut off."""
    at = chance.randrange(max(1, min(len(data), chance.choice((64, 600, len(data))))))
    how = chance.randrange(5)
    if how == 0:
        return Change(
            f"byte {at} turned",
            data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :] if data else b"",
        )
    if how == 1:
        return Change(f"bytes up to {at}", data[:at])
    put = chance.choice(BYTES)
    if how == 2:
        return Change(f"byte {at} with {put!r} before it", data[:at] + put + data[at:])
    if how == 3:
        return Change(f"byte {at} and others left out", data[:at] + data[at + len(put) :])
    return Change(f"byte {at} and others = {put!r}", data[:at] + put + data[at + len(put) :])
