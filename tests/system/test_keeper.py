import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from blockmgr.configuration import WRONG_SETTINGS
from blockmgr.processes import Process
from tests.scripted.processes import wait_until
from tests.system.keeper_program import KeeperProgram
from tests.system.toy_child import LIVES

KEPT = Counter({"/memfd:counter (deleted)": 1, "anon_inode:[pidfd]": 1})
"""What a keeper holds of a child that serves, beside what is its own."""

PASSING = Counter(dict.fromkeys((*KEPT, "pipe"), 100))
"""What comes and goes with each life: these, and the pipe of a barrier."""

PATIENT = 600.0
"""Seconds that nothing in a test takes."""

Start = Callable[..., KeeperProgram]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[KeeperProgram] = []

    def run(task: str, **settings: Any) -> KeeperProgram:
        started.append(KeeperProgram(tmp_path, task, **settings))
        return started[-1]

    yield run
    for keeper in started:
        keeper.end()


def test_memory_outlives_twenty_kills_and_the_keeper_does_not_grow(start: Start) -> None:
    keeper = start("die", restart_delay={"settled": 0.0})
    keeper.await_events("ready")
    keeper.await_events("stored")
    at_first = keeper.descriptors() - PASSING
    keeper.await_events("ready", LIVES + 1)
    assert [life["life"] for life in keeper.lives] == list(range(1, LIVES + 2))
    assert [life["names"] for life in keeper.lives] == [[]] + [["counter"]] * LIVES
    assert [event["code"] for event in keeper.events("ended")] == [-signal.SIGKILL] * LIVES
    wait_until(lambda: keeper.descriptors() == at_first + KEPT, "nothing has been left behind")
    status = Path(f"/proc/{keeper.process.pid}/status").read_text()
    resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
    assert resident < 40_000, "kilobytes"


def test_a_child_gets_its_descriptors_from_3_on_a_session_of_its_own_and_nothing_else(start: Start) -> None:
    keeper = start("serve", store_limit=77)
    keeper.await_events("ready")
    os.kill(keeper.lives[0]["pid"], signal.SIGKILL)
    keeper.await_events("ready", 2)
    before, after = keeper.lives
    assert before["open"] == [0, 1, 2]
    assert after["open"] == [0, 1, 2, 3]
    assert after["session"] == after["pid"]
    assert after["limit"] == 77


def test_a_child_without_signs_of_life_is_aborted_and_started_again(start: Start) -> None:
    keeper = start("hang", watchdog=0.1, abort_grace=PATIENT)
    assert keeper.await_events("watchdog")[0]["reason"] == "no sign of life in time"
    assert keeper.await_events("ended")[0]["code"] == -signal.SIGABRT
    keeper.await_events("ready", 2)


def test_a_child_that_survives_the_abort_is_killed_before_the_next_is_started(start: Start) -> None:
    keeper = start("deaf", watchdog=0.1, abort_grace=0.1)
    ended = keeper.await_events("ended")[0]
    assert ended["code"] == -signal.SIGKILL
    assert keeper.await_events("started", 2)[1]["time"] >= ended["time"]


def test_a_stopped_child_is_killed(start: Start) -> None:
    keeper = start("stop itself", watchdog=0.1, abort_grace=0.1)

    def killed() -> list[int]:
        """Who was killed. One that is aborted before it has stopped ends by that."""
        return [place for place, ended in enumerate(keeper.events("ended"), 1) if ended["code"] == -signal.SIGKILL]

    wait_until(killed, "one that stands still is killed")
    keeper.await_events("ready", killed()[0] + 1)


def test_a_child_that_asks_for_it_is_aborted_at_once(start: Start) -> None:
    keeper = start("trigger", watchdog=PATIENT, abort_grace=PATIENT)
    assert keeper.await_events("watchdog")[0]["reason"] == "it asked for it"
    assert keeper.await_events("ended")[0]["code"] == -signal.SIGABRT


def test_a_child_that_is_not_ready_in_time_is_aborted(start: Start) -> None:
    keeper = start("late", start_limit=0.5)
    assert keeper.await_events("watchdog")[0]["reason"] == "not ready in time"


def test_a_standstill_of_everything_kills_nobody_healthy(start: Start) -> None:
    # Long, since what is healthy has half of it to show that once both go on.
    watchdog = 10.0
    keeper = start("serve", watchdog=watchdog)
    keeper.await_events("ready")
    child = keeper.lives[0]["pid"]
    for pid in (keeper.process.pid, child):
        os.kill(pid, signal.SIGSTOP)
    with Process.open(child, "child") as process:
        assert not process.wait(watchdog + 0.5), "longer than a sign of life is waited for"
        for pid in (keeper.process.pid, child):
            os.kill(pid, signal.SIGCONT)
        # Asked for a word, it says it behind a sign of life; both are heard.
        os.kill(child, signal.SIGUSR1)
        keeper.await_events("status")
        assert not process.is_dead
    assert keeper.events("watchdog") == []


def test_asked_to_stop_the_keeper_stops_its_child_and_ends_well(start: Start) -> None:
    keeper = start("serve", watchdog=10.0)
    keeper.await_events("ready")
    keeper.process.terminate()
    assert keeper.process.wait(60) == 0
    assert keeper.events("stopping")
    assert keeper.events("ended")[0]["code"] == 0
    assert not (keeper.directory / "notify.sock").exists()
    assert not (keeper.directory / "manager.process").exists()


def test_a_child_that_does_not_stop_is_killed_after_the_grace(start: Start) -> None:
    keeper = start("patient", stop_grace=0.2)
    keeper.await_events("ready")
    keeper.process.send_signal(signal.SIGINT)
    assert keeper.process.wait(60) == 1
    assert keeper.events("ended")[0]["code"] == -signal.SIGKILL


def test_a_second_request_to_stop_kills_at_once(start: Start) -> None:
    keeper = start("patient", stop_grace=PATIENT)
    keeper.await_events("ready")
    keeper.process.terminate()
    keeper.await_events("asked to stop")
    keeper.process.terminate()
    assert keeper.process.wait(60) == 1


def test_a_stop_while_a_restart_is_awaited_ends_well(start: Start) -> None:
    keeper = start("fail", restart_delay={"immediate": 0, "first": 600.0, "longest": 600.0})
    assert keeper.await_events("waiting")[0]["seconds"] == 600.0
    keeper.process.terminate()
    assert keeper.process.wait(60) == 0


def test_an_end_that_nobody_asked_for_is_followed_by_a_start_even_with_code_0(start: Start) -> None:
    keeper = start("end")
    keeper.await_events("ready", 3)
    assert keeper.events("ended")[0]["code"] == 0


def test_a_child_whose_settings_are_wrong_is_not_started_again_and_the_keeper_ends_with_its_code(start: Start) -> None:
    keeper = start("wrong settings")
    assert keeper.process.wait(60) == WRONG_SETTINGS
    assert len(keeper.events("started")) == 1
    assert keeper.events("settings are wrong")[0]["reason"] == "port is x"


def test_while_something_is_stored_wrong_settings_are_tried_again_so_that_nothing_is_lost(start: Start) -> None:
    keeper = start("settings wrong once", restart_delay={"immediate": 1000, "longest": 0.2})
    keeper.await_events("ready")
    os.kill(keeper.lives[0]["pid"], signal.SIGKILL)
    keeper.await_events("ready", 2)
    assert keeper.events("settings are wrong")[0]["stored"] == 1
    assert [event["seconds"] for event in keeper.events("waiting")] == [0.2]
    assert [life["names"] for life in keeper.lives] == [[], ["counter"], ["counter"]]


@pytest.mark.parametrize(("task", "code"), [("end", 0), ("fail", 7), ("trigger", 128 + signal.SIGABRT)])
def test_with_once_the_keeper_ends_with_its_childs_code(start: Start, task: str, code: int) -> None:
    keeper = start(task, once=True, abort_grace=PATIENT)
    assert keeper.process.wait(60) == code
    assert len(keeper.lives) == 1


def test_a_second_keeper_in_the_same_directory_is_refused(start: Start) -> None:
    keeper = start("serve")
    keeper.await_events("ready")
    second = subprocess.run(
        [sys.executable, "-m", "blockmgr.keeper", "--runtime-dir", keeper.directory, "--", "true"],
        capture_output=True,
        text=True,
    )
    assert second.returncode == 1
    assert f"another keeper runs here (process {keeper.process.pid})" in second.stderr
    os.kill(keeper.lives[0]["pid"], signal.SIGKILL)
    keeper.await_events("ready", 2)


def test_a_new_keeper_finds_the_child_of_a_dead_one_and_is_given_its_memory_anew(start: Start) -> None:
    keeper = start("serve", watchdog=10.0)
    keeper.await_events("ready")
    keeper.process.kill()
    keeper.process.wait()
    successor = start("serve", watchdog=10.0)
    (found,) = successor.await_events("found running")
    assert [life["pid"] for life in successor.lives] == [found["pid"]], "no second child beside it"
    successor.await_events("stored", 2)
    os.kill(found["pid"], signal.SIGKILL)
    assert successor.await_events("ready", 2)
    assert [life["life"] for life in successor.lives] == [1, 2]
    successor.process.terminate()
    assert successor.process.wait(60) == 0


def test_what_was_sent_just_before_death_is_kept(start: Start) -> None:
    keeper = start("last words")
    keeper.await_events("ready", 2)
    assert keeper.lives[1]["names"] == ["counter", *(f"last {number}" for number in range(8))]


def test_more_descriptors_than_the_limit_are_dropped(start: Start) -> None:
    keeper = start("hoard", store_limit=2)
    keeper.await_events("status")
    assert [event["name"] for event in keeper.events("stored")] == ["counter", "hoard 0"]
    refused = keeper.events("not stored")
    assert [event["error"] for event in refused] == [
        f"'hoard {number}' does not fit: 2 descriptors are stored" for number in (1, 2, 3)
    ]
    before = keeper.descriptors()
    os.kill(keeper.lives[0]["pid"], signal.SIGKILL)
    keeper.await_events("status", 2)
    wait_until(lambda: keeper.descriptors() == before, "as many are held as before")


def test_nonsense_harms_nothing_and_leaks_nothing(start: Start) -> None:
    keeper = start("nonsense")
    keeper.await_events("status")
    before = keeper.descriptors()
    os.kill(keeper.lives[0]["pid"], signal.SIGKILL)
    keeper.await_events("status", 2)
    wait_until(lambda: keeper.descriptors() == before, "as many are held as before")
    assert keeper.lives[1]["names"] == ["counter", "stored"], "a descriptor without a name goes by this one"
    assert keeper.events("ignored")


def test_a_flood_delays_its_sender_and_nothing_else(start: Start) -> None:
    keeper = start("flood", watchdog=60.0)
    wait_until(keeper.journal.with_suffix(".flooded").exists, "the flood is over")
    assert keeper.process.poll() is None
    keeper.process.terminate()
    assert keeper.process.wait(60) == 0


def test_strangers_are_not_heard(start: Start) -> None:
    keeper = start("serve")
    keeper.await_events("ready")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
        stranger.connect(str(keeper.directory / "notify.sock"))
        stranger.send(b"WATCHDOG=trigger")
        socket.send_fds(stranger, [b"FDSTORE=1\nFDNAME=bomb"], [0])
    assert "is no child" in keeper.await_events("ignored")[0]["reason"]
    os.kill(keeper.lives[0]["pid"], signal.SIGKILL)
    keeper.await_events("ready", 2)
    assert keeper.lives[1]["names"] == ["counter"]
    assert keeper.events("watchdog") == []


def test_a_hung_up_pipe_is_dropped_and_a_dead_process_is_kept(start: Start) -> None:
    keeper = start("pipes")
    assert keeper.await_events("hung up")[0]["name"] == "pipe"
    os.kill(keeper.lives[0]["pid"], signal.SIGKILL)
    keeper.await_events("ready", 2)
    assert keeper.lives[1]["names"] == ["counter", "dead process"]


def test_a_command_that_does_not_exist_is_refused_before_anything_runs(tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "blockmgr.keeper", "--runtime-dir", tmp_path / "run", "--", "no-such-program", "-x"],
        capture_output=True,
        text=True,
    )
    assert answer.returncode == WRONG_SETTINGS
    assert "command 'no-such-program -x' is not to be found" in answer.stderr
