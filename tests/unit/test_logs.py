"""Logs that cannot be written: nothing ends for it, nothing waits for it, and what is missing is counted."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from blockmgr.service.logs import LogLines

LOG_TWICE = """
import structlog
from blockmgr.service.logs import configure_logs
configure_logs("info", "json")
log = structlog.get_logger()
for name in ("first", "second"):
    log.info(name)
    try:
        raise ValueError(name)
    except ValueError:
        log.exception("with its traceback")
print("went on")
"""


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe that blocks who writes to it when it is full: its ends, to read from and to write to."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def fill(lines: LogLines) -> int:
    """Write lines until one is lost; how many were taken."""
    taken = 0
    while not lines.lost:
        lines.write(f"line {taken} {'x' * 100}\n")
        taken += not lines.lost
    return taken


def test_a_process_whose_log_is_on_a_full_disk_goes_on() -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run([sys.executable, "-c", LOG_TWICE], stdout=subprocess.PIPE, stderr=full, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, b"went on\n")


def test_events_come_whole_and_one_a_line() -> None:
    ended = subprocess.run([sys.executable, "-c", LOG_TWICE], capture_output=True, timeout=60)
    events = [json.loads(line) for line in ended.stderr.splitlines()]
    assert [event["event"] for event in events] == ["first", "with its traceback", "second", "with its traceback"]
    assert not any("lost_lines" in event for event in events)


def test_a_pipe_that_nobody_reads_holds_nothing_up_and_lost_lines_are_counted(pipe: tuple[int, int]) -> None:
    lines = LogLines(pipe[1])
    taken = fill(lines)
    lines.write("one more\n")
    assert lines.lost == 2
    assert lines.count_lost(None, "info", {"event": "next"}) == {"event": "next", "lost_lines": 2}
    read = os.read(pipe[0], 1 << 20)
    lines.write("next\n")
    assert lines.lost == 0
    assert lines.count_lost(None, "info", {"event": "next"}) == {"event": "next"}
    assert len(read.splitlines()) == taken
    assert os.read(pipe[0], 1 << 20) == b"next\n"


def test_a_line_that_was_cut_off_is_not_run_together_with_the_next_one(pipe: tuple[int, int]) -> None:
    lines = LogLines(pipe[1])
    lines.write("x" * (1 << 20) + "\n")
    assert lines.lost == 1
    cut = os.read(pipe[0], 1 << 20)
    assert set(cut) == {ord("x")}
    lines.write("next\n")
    assert os.read(pipe[0], 1 << 20) == b"\nnext\n"


def test_a_pipe_without_a_reader_ends_nothing() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    lines = LogLines(theirs)
    lines.write("nobody\n")
    os.close(theirs)
    assert lines.lost == 1


def test_lines_of_several_threads_are_whole_and_none_of_them_ends_for_another(pipe: tuple[int, int]) -> None:
    lines, wanted = LogLines(pipe[1]), 4000
    taken = [f"{place} {'x' * 50}\n" for place in range(4)]

    def write(line: str) -> bool:
        count = 0
        while count < wanted:
            lines.write(line)
            count += not lines.lost
        return True

    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.extend(iter(lambda: os.read(pipe[0], 1 << 16), b"end\n")))
    reader.start()
    with ThreadPoolExecutor(len(taken)) as threads:
        assert list(threads.map(write, taken)) == [True] * len(taken)
    while os.write(pipe[1], b"end\n") and reader.is_alive():
        reader.join(0.1)
    assert {*b"".join(read).decode().splitlines(keepends=True)} - {"end\n", "\n"} == {*taken}
