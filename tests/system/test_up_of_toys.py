"""What `up` does with children of any kind: what it finds from an earlier one, and what it does about those that fail."""

import os
import re
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from blockmgr.configuration import WRONG_SETTINGS
from executor.launch import ending
from tests.launch.up_program import UpFolder, up_folder
from tests.scripted.processes import ROOT, wait_until

TOYS = (sys.executable, "-m", "tests.launch.toy_up")
ALL_WELL = "manager=serve,engine=serve"


@pytest.fixture
def folder() -> Iterator[UpFolder]:
    with up_folder() as folder:
        yield folder


def start(folder: UpFolder, tasks: str = ALL_WELL, *flags: str, terminal: int | None = None, **environment: str) -> int:
    """Start an `up` of toys."""
    return folder.start(*flags, program=(*TOYS, tasks), terminal=terminal, PYTHONPATH=str(ROOT), **environment)


def kill_with_keeper(folder: UpFolder, up: int) -> None:
    """Kill an `up` that cannot see to its end: its keeper is dead too."""
    keeper = folder.pids()["keeper"]
    os.kill(up, signal.SIGSTOP)
    os.kill(keeper, signal.SIGKILL)
    os.kill(up, signal.SIGKILL)
    folder.ups[-1].wait(60)
    wait_until(lambda: not folder.runs(keeper), "the keeper is dead")


def test_the_children_of_one_that_was_killed_with_its_keeper_are_found_again(folder: UpFolder) -> None:
    up = start(folder)
    folder.await_said("ready after")
    before = folder.pids()
    kill_with_keeper(folder, up)
    start(folder)
    folder.await_said("ready after", 2)
    after = folder.pids()
    assert {name for name in before if before[name] != after[name]} == {"keeper"}


def test_what_the_next_one_wants_otherwise_is_ended_first(folder: UpFolder) -> None:
    up = start(folder)
    folder.await_said("ready after")
    before = folder.pids()
    kill_with_keeper(folder, up)
    start(folder, "manager=serve")
    folder.await_said("ready after", 2)
    after = folder.pids()
    assert f"ending engine (process {before['engine']}), which was left running" in folder.said()
    assert not folder.runs(before["engine"])
    assert after["manager"] == before["manager"]
    assert "engine" not in after


def test_down_ends_what_was_left_behind(folder: UpFolder) -> None:
    up = start(folder)
    folder.await_said("ready after")
    left = folder.pids()
    kill_with_keeper(folder, up)
    down = folder.command("down", "--runtime-dir", str(folder.runtime_dir))
    assert (down.returncode, down.stdout) == (0, "stopped\n")
    assert not any(map(folder.runs, left.values()))
    order = [line.split()[1] for line in down.stderr.splitlines() if line.startswith("ending ")]
    assert order == ["door", "engine", "manager"]


def test_one_whose_folder_is_deleted_says_so_and_down_still_ends_all_of_it(folder: UpFolder) -> None:
    start(folder)
    folder.await_said("ready after")
    folder.delete()
    folder.await_said(f"{folder.runtime_dir} was deleted")
    down = folder.command("down", "--runtime-dir", str(folder.runtime_dir))
    assert (down.returncode, down.stdout) == (0, "stopped\n")
    assert folder.await_exit() == 0
    assert folder.left() == []


def test_the_next_one_waits_until_the_keeper_of_a_killed_one_has_ended_all(folder: UpFolder) -> None:
    up = start(folder, "manager=patient,engine=serve")
    folder.await_said("ready after")
    before = folder.pids()
    os.kill(up, signal.SIGKILL)
    start(folder)
    folder.await_said("ready after", 2)
    assert not set(before.values()) & set(folder.pids().values())


def test_a_keeper_that_is_not_its_own_is_left_alone(folder: UpFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    up = start(folder, "manager=serve")
    folder.await_said("ready after")
    # As if it were another's: the lock that says whose it is lies elsewhere, and its `up` makes no other.
    os.kill(up, signal.SIGSTOP)
    (folder.runtime_dir / "up.lock").unlink()
    before = folder.pids()
    monkeypatch.setattr(ending, "KEEPER_SECONDS", 0.2)
    with pytest.raises(ending.StillThere, match=f"belongs to no .* \\(process {before['keeper']}\\)"):
        ending.take_down(folder.runtime_dir, 1.0, print)
    assert folder.pids() == before


def test_a_keeper_that_stands_still_keeps_nothing_running(folder: UpFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    start(folder)
    folder.await_said("ready after")
    left = folder.pids()
    os.kill(left["keeper"], signal.SIGSTOP)
    monkeypatch.setattr(ending, "KEEPER_SECONDS", 0.5)
    assert ending.take_down(folder.runtime_dir, 0.5, print)
    assert not any(map(folder.runs, left.values()))
    assert folder.ups[0].wait(60) == -signal.SIGKILL


def test_asked_twice_it_waits_for_no_keeper_that_stands_still(folder: UpFolder) -> None:
    start(folder)
    folder.await_said("ready after")
    os.kill(folder.pids()["keeper"], signal.SIGSTOP)
    folder.ups[0].terminate()
    folder.await_said("stopping")
    folder.ups[0].terminate()
    assert folder.await_exit() == 1
    assert folder.left() == []


def test_a_process_that_ends_again_and_again_before_it_was_ready_ends_all_with_what_it_said(folder: UpFolder) -> None:
    start(folder, "manager=serve,engine=fail", PAGEHOLD_UP_ATTEMPTS="3")
    assert folder.await_exit() == 1
    assert "engine ended with code 7 and gave no reason" in folder.said()
    given_up = re.search(r"engine ended (\d+) times in a row: given up", folder.said())
    assert given_up is not None
    # Its keeper may have started it once more before `up` looked.
    assert int(given_up[1]) >= 3
    assert folder.left() == []


def test_a_wrong_setting_of_a_child_ends_all_with_its_reason(folder: UpFolder) -> None:
    start(folder, "manager=serve,engine=wrong settings")
    assert folder.await_exit() == WRONG_SETTINGS
    assert "engine: port is x" in folder.said()
    assert folder.children()["engine"]["starts"] == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_asked_to_stop_while_it_starts_it_ends_well(folder: UpFolder, number: signal.Signals) -> None:
    start(folder, "manager=serve,engine=late")
    folder.await_said("manager is ready")
    folder.ups[0].send_signal(number)
    assert folder.await_exit() == 0
    assert folder.left() == []


def test_it_ends_well_though_its_terminal_is_gone(folder: UpFolder) -> None:
    ours, terminal = os.openpty()
    os.set_blocking(ours, False)
    start(folder, terminal=terminal)
    os.close(terminal)
    seen = b""

    def is_shown_as_ready() -> bool:
        nonlocal seen
        with suppress(BlockingIOError):
            seen += os.read(ours, 1 << 16)
        return b"ready after" in seen

    wait_until(is_shown_as_ready, "it is ready, and says so on the terminal")
    os.close(ours)
    folder.ups[0].send_signal(signal.SIGHUP)
    assert folder.await_exit() == 0
    assert folder.left() == []


@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-", ">/dev/full 2>/dev/full"])
def test_it_serves_and_ends_well_though_it_can_say_nothing(folder: UpFolder, closed: str) -> None:
    program = ("bash", "-c", f'exec "$@" {closed}', "bash", *TOYS, ALL_WELL)
    folder.start(program=program, PYTHONPATH=str(ROOT))
    wait_until(
        lambda: len(folder.children()) == 3 and all(one["ready"] for one in folder.children().values()), "all run"
    )
    if closed == "2>&-":
        folder.await_said(folder.address)
    folder.ups[0].terminate()
    assert folder.await_exit() == 0
    assert folder.left() == []


def test_asked_twice_it_waits_for_nobody(folder: UpFolder) -> None:
    start(folder, "manager=serve,engine=patient")
    folder.await_said("ready after")
    folder.ups[0].terminate()
    folder.await_said("stopping")
    folder.ups[0].terminate()
    assert folder.await_exit() == 1
    assert "not every process ended by itself" in folder.said()


@pytest.mark.parametrize(
    ("flags", "environment", "complaint"),
    [
        (("--doors", "0"), {}, "doors is 0: Input should be greater than or equal to 1"),
        ((), {"PAGEHOLD_LEASE_SECONDS": "0"}, "lease_seconds is '0'"),
        ((), {"PAGEHOLD_ENGINE_CHUNK": "none"}, "chunk is 'none'"),
        ((), {"PAGEHOLD_DOOR_GRACE": "-1"}, "grace is '-1'"),
        ((), {"PAGEHOLD_CONFIG": "/nowhere"}, "PAGEHOLD_CONFIG is '/nowhere', which cannot be read"),
    ],
)
def test_a_wrong_setting_of_any_process_is_told_before_anything_is_started(
    folder: UpFolder, flags: tuple[str, ...], environment: dict[str, str], complaint: str
) -> None:
    start(folder, ALL_WELL, *flags, terminal=None, **environment)
    assert folder.await_exit() == WRONG_SETTINGS
    assert complaint in folder.said()
    assert not folder.runtime_dir.exists()


def test_a_port_that_somebody_elses_doors_serve_is_not_shared_with_them(folder: UpFolder) -> None:
    host, _, port = folder.address.rpartition(":")
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        taken.bind((host, int(port)))
        taken.listen()
        start(folder)
        assert folder.await_exit() == 1
    assert f"address is {folder.address}, but it cannot be bound: Address already in use" in folder.said()
    assert folder.started() == set()


def test_all_is_logged_to_standard_error_where_that_is_wanted(folder: UpFolder) -> None:
    start(folder, ALL_WELL, "--log-file", "-")
    folder.await_said("ready after")
    assert '"source": "keeper", "event": "started", "child": "manager"' in folder.said()
    assert not folder.log.exists()
