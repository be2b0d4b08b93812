"""Events of a real run, as ``pagehold watch --json`` writes them: one JSON object a line."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from blockmgr.core.events import EventKind


class RecordingError(ValueError):
    """A line of a recording cannot be an event; the text names the line and what is wrong with it."""


class Block(NamedTuple):
    """A block by its number within its tier."""

    number: int
    host: bool = False


SNAPSHOT = "snapshot"
"""The time of what a recording begins with: the tables that were there before its first event."""


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """What a picture needs of an event. ``kind`` is None where this version knows no such kind."""

    kind: EventKind | None
    handle: str = ""
    uuid: str = ""
    blocks: tuple[Block, ...] = ()
    """For a copy: its source, then its destination."""
    revision: int = 0
    time: str = ""
    """As written: events of one transaction have the same."""
    missed: int = 0
    """Events that the watch did not get and that stood here."""


def read_events(lines: Iterable[str], name: str) -> Iterator[RecordedEvent]:
    """Read a recording line by line. ``name`` is what errors call it.

    A recording may begin with a pool's snapshot; its tables are given as if they grew then. Unknown keys are ignored.
    Raises ``RecordingError``.
    """
    begun = found = False
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            fields = _object(line)
            if not begun and "kind" not in fields:
                found = True
                yield from _snapshot(fields)
                continue
            begun = found = True
            yield _event(fields)
        except ValueError as error:
            raise RecordingError(f"{name}, line {number}: {error}") from None
    if not found:
        raise RecordingError(f"{name} holds no events: it is to have one JSON object a line, each with a 'kind'")


def _object(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg} at column {error.colno})") from None
    if not isinstance(value, dict):
        raise ValueError(f"a JSON {type(value).__name__} where an event, an object with a 'kind', was expected")
    inner = value.get("event")
    return inner if isinstance(inner, dict) else value


def _snapshot(fields: dict[str, Any]) -> Iterator[RecordedEvent]:
    """The tables of a snapshot, or of a part of one; what else it holds is no matter here."""
    inner = fields.get("snapshot")
    tables = (inner if isinstance(inner, dict) else fields).get("tables")
    for table in tables if isinstance(tables, list) else ():
        if not isinstance(table, dict):
            raise ValueError(f"a table of the snapshot is {table!r}, but must be an object")
        numbers = _numbers(table, "blocks")
        tiers = table.get("tiers") or [""] * len(numbers)
        blocks = tuple(Block(n, "host" in str(tier).lower()) for n, tier in zip(numbers, tiers, strict=False))
        yield RecordedEvent(EventKind.GREW, _text(table, "handle"), _text(table, "uuid"), blocks, time=SNAPSHOT)


def _event(fields: dict[str, Any]) -> RecordedEvent:
    missed = fields.get("missed")
    if isinstance(missed, dict):
        return RecordedEvent(None, missed=_whole("to", missed.get("to")) - _whole("from", missed.get("from")) + 1)
    name = fields.get("kind")
    if not isinstance(name, str):
        raise ValueError("'kind' is missing" if name is None else f"'kind' is {name!r}, but must be a string")
    kind = _kind(name)
    blocks = [Block(number) for number in _numbers(fields, "blocks")]
    on_host = [Block(number, host=True) for number in _numbers(fields, "host_blocks")]
    comes_back = kind in (EventKind.COPY_ORDERED, EventKind.COPY_DONE) and _text(fields, "detail") == "swap_in"
    return RecordedEvent(
        kind,
        _text(fields, "handle"),
        _text(fields, "uuid"),
        tuple(on_host + blocks if comes_back else blocks + on_host),
        _whole("revision", fields.get("revision") or 0),
        _text(fields, "time"),
    )


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return "" if value is None else str(value)


def _kind(name: str) -> EventKind | None:
    """A kind by its name, or by the name of its number in the contracts."""
    plain = name.removeprefix("EVENT_KIND_").lower().replace("_", "-")
    return EventKind(plain) if plain in set(EventKind) else None


def _numbers(fields: dict[str, Any], name: str) -> list[int]:
    value = fields.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"'{name}' is {value!r}, but must be a list of block numbers")
    return [_whole(f"{name}[{place}]", number) for place, number in enumerate(value)]


def _whole(field: str, value: object) -> int:
    """A whole number, which JSON written from protobuf may give as a string."""
    number = -1
    if isinstance(value, int | str) and not isinstance(value, bool):
        try:
            number = int(value)
        except ValueError:
            number = -1
    if number < 0:
        raise ValueError(f"'{field}' is {value!r}, but must be a whole number, 0 or more")
    return number
