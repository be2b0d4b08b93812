"""How commands print: tables that fit the terminal, sizes and times for people, and JSON for programs.

In JSON a message has the names of its fields in the .proto, and its enums the names of their values. Other than in
protobuf's own JSON, numbers of 64 bits are numbers and bytes are hexadecimal digits. An optional field that is absent
is left out.
"""

import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

PIPE_COLUMNS = 200
"""Width of what is not written to a terminal: nothing is cut off for want of room."""
UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def console() -> Console:
    """Standard output, as wide as the terminal is."""
    fixed = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal()
    return Console(width=None if fixed else PIPE_COLUMNS, highlight=False)


def show(*things: RenderableType) -> None:
    """Print what rich can draw."""
    out = console()
    for thing in things:
        out.print(thing)


# -- tables ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. It is left out where the terminal has fewer than ``from_width`` columns."""

    title: str
    right: bool = False
    from_width: int = 0


def table(columns: Sequence[Column], rows: Iterable[Sequence[object]], title: str = "") -> Table:
    """A table of those columns that there is room for. Cells that do not fit are folded, never cut."""
    width = console().width
    shown = [place for place, column in enumerate(columns) if width >= column.from_width]
    drawn = Table(title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for place in shown:
        column = columns[place]
        drawn.add_column(column.title, justify="right" if column.right else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(_cell(row[place]) for place in shown))
    return drawn


def facts(pairs: Iterable[tuple[str, object]]) -> Table:
    """Names and values, one pair a line; those whose value is None are left out."""
    drawn = Table(box=None, show_header=False, pad_edge=False)
    drawn.add_column(style="bold", no_wrap=True)
    drawn.add_column(overflow="fold")
    for name, value in pairs:
        if value is not None:
            drawn.add_row(name, _cell(value))
    return drawn


def _cell(value: object) -> Text:
    return value if isinstance(value, Text) else Text(str(value))


# -- values for people -------------------------------------------------------------------------------------------------


def size(count: float) -> str:
    """Bytes in the largest unit that leaves a number of 1 or more."""
    place = 0
    while count >= 1024 and place < len(UNITS) - 1:
        count, place = count / 1024, place + 1
    return f"{count:.0f} {UNITS[place]}" if place == 0 or count >= 100 else f"{count:.1f} {UNITS[place]}"


def span(seconds: float) -> str:
    """A time in its two largest units."""
    if abs(seconds) < 60:
        return f"{seconds:.1f} s"
    whole, parts = int(abs(seconds)), []
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        count, whole = divmod(whole, length)
        parts.append((count, unit))
    first = next(place for place, (count, _) in enumerate(parts) if count)
    text = " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count)
    return text if seconds > 0 else f"-{text}"


def ago(moment: float) -> str:
    """How long ago a moment was, given in seconds since 1970."""
    return f"{span(max(0.0, time.time() - moment))} ago"


def clock(moment: float) -> str:
    """Time of day, with milliseconds."""
    return time.strftime("%H:%M:%S", time.localtime(moment)) + f".{int(moment * 1000) % 1000:03d}"


def percent(part: float) -> str:
    """A part of one."""
    return f"{100 * part:.2f} %"


def ranges(numbers: Sequence[int], most: int = 8) -> str:
    """Numbers in order, with runs drawn together: "3-7, 9". After ``most`` of them, how many more there are."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in runs[:most]]
    left = sum(last - first + 1 for first, last in runs[most:])
    return ", ".join(shown) + (f" and {left} more" if left else "")


def name_of(message: Message, field: str) -> str:
    """The value of an enum field as a word: CACHED becomes "cached"."""
    enum = message.DESCRIPTOR.fields_by_name[field].enum_type
    return enum_word(enum, getattr(message, field))


def enum_word(enum: Any, number: int) -> str:
    """The name of an enum's value without what all of its names begin with; the number, if it has no name here."""
    value = enum.values_by_number.get(number)
    if value is None:
        return str(number)
    prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
    return value.name.removeprefix(prefix).lower().replace("_", "-")


# -- JSON --------------------------------------------------------------------------------------------------------------


def print_json(value: Any, compact: bool = False) -> None:
    """Print a message, or a dict or list of them, as JSON; compact: on one line, written at once."""
    text = json.dumps(plain(value), indent=None if compact else 2, separators=(",", ":") if compact else None)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def plain(value: Any) -> Any:
    """Messages as dicts, bytes as hexadecimal digits, all else as it is."""
    if isinstance(value, Message):
        return {field.name: _field(value, field) for field in value.DESCRIPTOR.fields if _is_there(value, field)}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def _is_there(message: Message, field: Any) -> bool:
    return not field.has_presence or bool(message.HasField(field.name))


def _field(message: Message, field: Any) -> Any:
    value = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return {str(key): plain(item) for key, item in value.items()}
    if field.is_repeated:
        return [_single(item, field) for item in value]
    return _single(value, field)


def _single(value: Any, field: Any) -> Any:
    if field.enum_type is None:
        return plain(value)
    known = field.enum_type.values_by_number.get(value)
    return known.name if known is not None else value
