"""Commands whose standard streams are closed, full, or have nobody behind them."""

import os
import subprocess
import sys

import pytest

from tests.unit.client.serving import Served

FULL = "pagehold: standard output cannot be written: No space left on device\n"
CLOSED = "pagehold: standard output cannot be written: Bad file descriptor\n"
COMMANDS = [
    ["generate", "What?"],
    ["generate", "What?", "--json"],
    ["chat"],
    ["models"],
    ["load", "--json"],
    ["--help"],
]


def command_of(served: Served, arguments: list[str]) -> list[str]:
    """What starts a command."""
    address = [] if arguments == ["--help"] else ["--address", served.address]
    return [sys.executable, "-m", "pagehold.client", *arguments, *address]


def run(served: Served, arguments: list[str], redirected: str) -> "subprocess.CompletedProcess[str]":
    """Run a command as a shell with these redirections would."""
    shell = ["bash", "-c", f'"$@" {redirected}', "bash", *command_of(served, arguments)]
    return subprocess.run(shell, input="Hi\n" * 3, capture_output=True, text=True, timeout=150)


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(("redirected", "said"), [(">/dev/full", FULL), (">&-", CLOSED)])
def test_output_that_cannot_be_written_is_said_in_a_line(
    served: Served, arguments: list[str], redirected: str, said: str
) -> None:
    ended = run(served, arguments, redirected)
    assert (ended.returncode, ended.stderr) == (1, said)


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_reader_that_has_gone_is_no_news_and_the_code_is_that_of_a_broken_pipe(
    served: Served, arguments: list[str]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = command_of(served, arguments)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=writing, stderr=pipe, text=True) as process:
        os.close(writing)
        _, said = process.communicate("Hi\n", timeout=150)
    assert (process.returncode, said) == (141, "")


@pytest.mark.parametrize("redirected", ["2>&-", "2>/dev/full"])
def test_what_cannot_be_said_on_standard_error_keeps_nothing_from_being_done(served: Served, redirected: str) -> None:
    ended = run(served, ["generate", "What?"], redirected)
    assert (ended.returncode, ended.stdout.strip()) == (0, "Paris.")


def test_a_failure_has_its_code_though_it_cannot_be_said(served: Served) -> None:
    assert run(served, ["generate"], "2>&-").returncode == 2


def test_no_stream_at_all_is_no_reason_to_take_a_socket_for_one(served: Served) -> None:
    ended = run(served, ["generate", "What?"], "<&- >&- 2>&-")
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", "")
