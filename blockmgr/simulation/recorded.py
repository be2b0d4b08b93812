"""Events of a real run, as ``pagehold watch --json`` writes them: one JSON object a line."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from blockmgr.core.events import EventKind


class RecordingError(ValueError):
    """A line of a recording cannot be an event; the text names the line and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """What a picture needs of an event. ``kind`` is None where this version knows no such kind."""

    kind: EventKind | None
    handle: str
    uuid: str
    blocks: list[int]
    detail: str
    revision: int
    time: str
    """As written: events of one transaction have the same."""


def read_events(lines: Iterable[str], name: str) -> Iterator[RecordedEvent]:
    """Read a recording line by line. ``name`` is what errors call it.

    Unknown keys are ignored, and so is what a recording begins with that is no event: the snapshot of a pool.
    Raises ``RecordingError``.
    """
    found = False
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            event = _event(_object(line), may_be_snapshot=not found)
        except ValueError as error:
            raise RecordingError(f"{name}, line {number}: {error}") from None
        if event is not None:
            found = True
            yield event
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


def _event(fields: dict[str, Any], may_be_snapshot: bool) -> RecordedEvent | None:
    kind = fields.get("kind")
    if kind == "snapshot" or (kind is None and may_be_snapshot):
        return None
    if not isinstance(kind, str):
        raise ValueError("'kind' is missing" if kind is None else f"'kind' is {kind!r}, but must be a string")
    return RecordedEvent(
        kind=_kind(kind),
        handle=str(fields.get("handle") or ""),
        uuid=str(fields.get("uuid") or ""),
        blocks=_blocks(fields.get("blocks")),
        detail=str(fields.get("detail") or ""),
        revision=_whole("revision", fields.get("revision") or 0),
        time=str(fields.get("time") or ""),
    )


def _kind(name: str) -> EventKind | None:
    """A kind by its name, or by the name of its number in the contracts."""
    plain = name.removeprefix("EVENT_KIND_").lower().replace("_", "-")
    return EventKind(plain) if plain in set(EventKind) else None


def _blocks(value: object) -> list[int]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"'blocks' is {value!r}, but must be a list of block numbers")
    return [_whole(f"blocks[{place}]", block) for place, block in enumerate(value)]


def _whole(field: str, value: object) -> int:
    """A whole number, which JSON written from protobuf may give as a string."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"'{field}' is {value!r}, but must be a whole number, 0 or more")
    try:
        number = int(value)
    except ValueError:
        number = -1
    if number < 0:
        raise ValueError(f"'{field}' is {value!r}, but must be a whole number, 0 or more")
    return number
