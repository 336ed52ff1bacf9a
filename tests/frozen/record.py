"""Stores the frozen debates, and tells in words how a debate differs from its recording."""

from __future__ import annotations

import difflib
import hashlib
import json
import lzma
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.frozen.running import canonical

FOLDER = Path(__file__).parent
RECORDED = FOLDER / "recorded"
BASE = FOLDER / "base.json"
DIFFERENCES = FOLDER / "differences.jsonl"
LONGEST = 12
"""Maximum number of lines of a unified diff in a message."""
Runs = dict[str, Any]
"""A system's frozen debates by the names of their runs."""
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 2**26}]


def write(system: str, runs: Runs) -> None:
    """Store a system's debates: a table of the lines of all longer texts, then a JSON line for each debate."""
    table: dict[str, int] = {}
    records = [canonical({"run": name, **_shortened(runs[name], table)}) for name in sorted(runs)]
    RECORDED.mkdir(exist_ok=True)
    text = "\n".join([canonical(list(table)), *records])
    (RECORDED / f"{system}.jsonl.xz").write_bytes(lzma.compress(text.encode(), filters=FILTERS))


def read(system: str) -> Runs:
    """A system's recorded debates; empty if there is no recording."""
    path = RECORDED / f"{system}.jsonl.xz"
    if not path.exists():
        return {}
    table, *records = map(json.loads, lzma.decompress(path.read_bytes()).decode().splitlines())
    return {record.pop("run"): _restored(record, table) for record in records}


def _shortened(value: Any, table: dict[str, int]) -> Any:
    """A JSON value with ``{"": [3, 7]}`` in place of a longer text: the places of its lines in the table."""
    if isinstance(value, dict):
        return {key: _shortened(part, table) for key, part in value.items()}
    if isinstance(value, list):
        return [_shortened(part, table) for part in value]
    if isinstance(value, str) and len(value) > 20:
        return {"": [table.setdefault(line, len(table)) for line in value.split("\n")]}
    return value


def _restored(value: Any, table: list[str]) -> Any:
    if isinstance(value, dict):
        if list(value) == [""]:
            return "\n".join(table[place] for place in value[""])
        return {key: _restored(part, table) for key, part in value.items()}
    return [_restored(part, table) for part in value] if isinstance(value, list) else value


def digest(runs: Runs) -> str:
    return hashlib.sha256(canonical(runs).encode()).hexdigest()[:16]


def changed_parts(old: Runs, new: Runs) -> dict[str, list[str]]:
    """The names of the runs in which each part differs. A run without a counterpart is in the part ``added`` or
    ``removed``."""
    parts: dict[str, list[str]] = {}
    for name in sorted(old.keys() | new.keys()):
        if name not in old or name not in new:
            parts.setdefault("removed" if name in old else "added", []).append(name)
            continue
        for part in _parts_of(old[name], new[name]):
            parts.setdefault(part, []).append(name)
    return parts


def _parts_of(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    def without_parameters(run: Mapping[str, Any]) -> str:
        return canonical(sorted(canonical({**one, "parameters": {}}) for one in run["requests"]))

    if without_parameters(old) != without_parameters(new):
        yield "requests"
    elif canonical(old["requests"]) != canonical(new["requests"]):
        yield "parameters of requests"
    yield from (part for part in ("embedded", "asked", "events") if canonical(old[part]) != canonical(new[part]))
    before, now = old["document"], new["document"]
    yield from (f"document.{key}" for key in sorted(before.keys() | now.keys()) if before.get(key) != now.get(key))


# --- differences in words ---------------------------------------------------------------------------------------------


def describe(old: Runs, new: Runs, most: int = 3) -> str:
    """How these runs differ from their recordings; empty if they do not. ``most`` runs are described in detail."""
    names = [name for name in sorted(old.keys() | new.keys()) if canonical(old.get(name)) != canonical(new.get(name))]
    lines = [f"{len(names)} of {len(old.keys() | new.keys())} runs differ:"] if names else []
    for part, runs in changed_parts(old, new).items():
        lines.append(f"  {part}: {len(runs)} runs ({', '.join(runs[:6])}{', ...' if len(runs) > 6 else ''})")
    # The runs with the fewest differences are the easiest to read.
    both = sorted((n for n in names if n in old and n in new), key=lambda n: _size(old[n], new[n]))
    for name in both[:most]:
        lines += [f"\n--- {name} ---", *_run_differences(old[name], new[name])]
    return "\n".join(lines)


def _size(old: Mapping[str, Any], new: Mapping[str, Any]) -> int:
    before, now = (Counter(map(canonical, run["requests"])) for run in (old, new))
    return sum(((before - now) + (now - before)).values()) * 100 + len(list(_parts_of(old, new)))


def _run_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    yield from _request_differences(old["requests"], new["requests"])
    for part in ("embedded", "asked", "events"):
        yield from _text_difference(part, json_lines(old[part]), json_lines(new[part]))
    found = list(paths(old["document"], new["document"], "document"))
    yield from found[:8]
    if len(found) > 8:
        yield f"... and {len(found) - 8} more values of the document"


def _request_differences(old: list[Any], new: list[Any], most: int = 2) -> Iterator[str]:
    before, now = Counter(map(canonical, old)), Counter(map(canonical, new))
    gone = [json.loads(one) for one in (before - now).elements()]
    come = [json.loads(one) for one in (now - before).elements()]
    if gone or come:
        yield f"{len(gone)} recorded requests are missing, {len(come)} are new."
    for request in gone[:most]:
        alike = [one for one in come if _name(one) == _name(request)] or [
            o for o in come if o["model"] == request["model"]
        ]
        if not alike:
            sent = now[canonical(request)]
            yield f"missing: {_name(request)}" + (
                f" (sent {sent} times, not {before[canonical(request)]})" if sent else ""
            )
            continue
        nearest = max(alike, key=lambda one: _likeness(request, one))
        come.remove(nearest)
        yield from _text_difference(_name(request), json_lines(request), json_lines(nearest))
    for request in come[: most if not gone else 0]:
        again = before[canonical(request)]
        yield f"new: {_name(request)}" + (f" (sent {now[canonical(request)]} times, not {again})" if again else "")


def _likeness(one: Any, other: Any) -> float:
    return difflib.SequenceMatcher(None, json_lines(one), json_lines(other), autojunk=False).ratio()


def _name(request: Mapping[str, Any]) -> str:
    """A request in words: its model, the form of its reply, the speaker's name, and the number of messages."""
    form = ((request.get("response_format") or {}).get("json_schema") or {}).get("name", "text")
    ends = str(request["messages"][min(1, len(request["messages"]) - 1)].get("content")).strip().splitlines()
    asked = ends[-1][:90] if ends else ""
    return f"{form} of {request['model']}, {len(request['messages'])} messages, {asked!r}"


def json_lines(value: Any) -> list[str]:
    """A JSON value as lines: one for each value inside it, and one for each line of a text."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, indent=1)
    return [line for part in text.splitlines() for line in part.split("\\n")]


def _text_difference(what: str, old: list[str], new: list[str]) -> Iterator[str]:
    if old == new:
        return
    yield f"{what}:"
    found = list(difflib.unified_diff(old, new, "recorded", "now", lineterm="", n=1))[2:]
    yield from (f"    {line[:300]}" for line in found[:LONGEST])
    if len(found) > LONGEST:
        yield f"    ... and {len(found) - LONGEST} more lines"


def paths(old: Any, new: Any, path: str) -> Iterator[str]:
    """The places in which two JSON values differ, such as ``document.turns[4].answer: "yes" -> "no"``."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            if key not in old or key not in new:
                what, value = ("added", new[key]) if key in new else ("removed", old[key])
                yield f"{path}.{key} was {what}: {_short(value)}"
            else:
                yield from paths(old[key], new[key], f"{path}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, now) in enumerate(zip(old, new, strict=True)):
            yield from paths(before, now, f"{path}[{index}]")
    elif isinstance(old, list) and isinstance(new, list):
        before, now = Counter(map(canonical, old)), Counter(map(canonical, new))
        gone, come = [*(before - now).elements()], [*(now - before).elements()]
        yield f"{path} has {len(new)} entries, not {len(old)}; missing: {_short(gone)}; new: {_short(come)}"
    elif old != new:
        yield f"{path}: {_short(old)} -> {_short(new)}"


def _short(value: Any) -> str:
    text = canonical(value)
    return text if len(text) <= 160 else f"{text[:160]}..."


# --- the list of allowed differences ----------------------------------------------------------------------------------


def expected_digests() -> dict[str, str]:
    """The digest of each system's recording, by the first recording and the list of allowed differences."""
    known: dict[str, str] = json.loads(BASE.read_text()) if BASE.exists() else {}
    for line in allowed_differences():
        known |= line["digests"]
    return {system: digest for system, digest in known.items() if digest}


def allowed_differences() -> list[dict[str, Any]]:
    """The lines of ``differences.jsonl``."""
    return [json.loads(line) for line in DIFFERENCES.read_text().splitlines()] if DIFFERENCES.exists() else []


def allow(reason: str, old: Mapping[str, Runs], new: Mapping[str, Runs]) -> None:
    """Add a line to the list of allowed differences, for the systems whose recordings change."""
    changed = {system: runs for system, runs in new.items() if digest(runs) != digest(old.get(system, {}))}
    parts: dict[str, list[str]] = {}
    for system, runs in changed.items():
        for part, names in changed_parts(old.get(system, {}), runs).items():
            every = len(names) > 8
            told = [f"{system}/{name}" for name in names]
            parts.setdefault(part, []).extend([f"{system}: {len(names)} of {len(runs)} runs"] if every else told)
    digests = {system: digest(runs) for system, runs in changed.items()}
    line = {"reason": reason, "changed": parts, "digests": digests}
    with DIFFERENCES.open("a") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
