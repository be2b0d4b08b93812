"""How commands print values and JSON; and that they are light to load."""

import subprocess
import sys

import pytest

from pagehold.admin.v1 import pin_pb2, watch_pb2
from pagehold.client import output
from pagehold.client.commands import arguments
from pagehold.common.v1 import event_pb2, states_pb2


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (150 * 1024, "150 KiB"),
        (2 << 20, "2.0 MiB"),
        (3 << 40, "3.0 TiB"),
    ],
)
def test_sizes_are_in_the_largest_unit(count: int, text: str) -> None:
    assert output.size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (59.94, "59.9 s"),
        (60, "1 min"),
        (3599, "59 min 59 s"),
        (7260, "2 h 1 min"),
        (-90, "-1 min 30 s"),
        (90_000, "1 d 1 h"),
    ],
)
def test_times_are_in_their_two_largest_units(seconds: float, text: str) -> None:
    assert output.span(seconds) == text


def test_runs_of_numbers_are_drawn_together_and_the_rest_counted() -> None:
    assert output.ranges([3, 4, 5, 9]) == "3-5, 9"
    assert output.ranges([]) == ""
    assert output.ranges([1, 3, 5, 7, 8], most=2) == "1, 3 and 3 more"


def test_enum_values_read_as_words() -> None:
    event = event_pb2.Event(kind=event_pb2.EVENT_KIND_COPY_ORDERED)
    assert output.name_of(event, "kind") == "copy-ordered"
    event.kind = 999  # type: ignore[assignment]
    assert output.name_of(event, "kind") == "999"


def test_json_has_numbers_as_numbers_bytes_as_hex_and_no_field_that_is_absent() -> None:
    request = pin_pb2.PinRequest(ttl_seconds=1.5)
    request.prompt.ids.extend([1, 2])
    request.prompt.cache_salt = b"\x01\xff"
    assert output.plain(request) == {"prompt": {"ids": [1, 2], "cache_salt": "01ff"}, "ttl_seconds": 1.5}
    event = event_pb2.Event(revision=1 << 60, kind=event_pb2.EVENT_KIND_GREW, handle=0)
    assert output.plain(event) == {
        "revision": 1 << 60,
        "time": 0.0,
        "kind": "EVENT_KIND_GREW",
        "handle": 0,
        "blocks": [],
        "host_blocks": [],
    }


def test_json_of_repeated_enums_has_their_names() -> None:
    request = watch_pb2.WatchEventsRequest(kinds=[event_pb2.EVENT_KIND_GREW])
    assert output.plain(request) == {"kinds": ["EVENT_KIND_GREW"]}


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("12345", {"handle": 12345}),
        ("0" * 32, {"uuid": "0" * 32}),
        ("00000000-0000-0000-0000-00000000000A", {"uuid": "00000000-0000-0000-0000-00000000000A"}),
    ],
)
def test_a_sequence_is_a_handle_or_a_uuid(text: str, key: dict[str, object]) -> None:
    assert arguments.sequence_key(text) == key


def test_words_for_enums_are_those_that_tables_show() -> None:
    for name, number in states_pb2.TicketKind.items():
        if number:
            word = output.enum_word(states_pb2.TicketKind.DESCRIPTOR, number)
            assert arguments.enum_value(states_pb2.TicketKind, word) == number, name


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("1.5h", 5400), ("2d", 172800), ("30 min", 1800)]
)
def test_times_are_read_with_their_units(text: str, seconds: float) -> None:
    assert arguments.seconds_of(text) == seconds


def test_loading_the_commands_loads_nothing_heavy() -> None:
    program = (
        "import sys, pagehold.client.commands\n"
        "heavy = {'grpc', 'google', 'numpy', 'rich.table', 'asyncio'} & set(sys.modules)\n"
        "print(sorted(heavy))"
    )
    before = "import sys, typer\nprint(sorted({'grpc', 'google', 'numpy', 'rich.table', 'asyncio'} & set(sys.modules)))"
    loaded = [
        subprocess.run([sys.executable, "-c", text], capture_output=True, text=True) for text in (program, before)
    ]
    assert loaded[0].stdout == loaded[1].stdout != ""
