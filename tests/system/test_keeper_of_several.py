"""A keeper of several children: who is stopped when, whose end is everybody's, and what is told of them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from blockmgr.configuration import WRONG_SETTINGS
from blockmgr.keeper import ChildSettings, RestartDelay, write_plan
from blockmgr.keeper.table import read_children
from blockmgr.processes import Process
from tests.scripted.processes import kill_all_of
from tests.system.keeper_program import TOY, wait_until

NAMES = ("manager", "engine", "door", "door-2")
STAGES = {"manager": 0, "engine": 1, "door": 2, "door-2": 2}


KEEPER = """
import runpy, sys
from blockmgr.keeper import keeper
keeper._ORPHANS_GRACE = float(sys.argv.pop(1))
runpy.run_module("blockmgr.keeper", run_name="__main__", alter_sys=True)
"""


class Family:
    """A keeper with a manager, an engine and two doors, all of them toys with tasks of their own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "run"
        self.log = directory / "log"
        self._plan = directory / "plan.json"
        self.keepers: list[subprocess.Popen[bytes]] = []

    def plan(self, **tasks: str) -> None:
        """Write down what each child is to do; "serve" where nothing is said."""
        write_plan(
            self._plan,
            [
                ChildSettings(
                    name,
                    (sys.executable, str(TOY), str(self._plan.with_name(f"{name}.journal")), tasks.get(name, "serve")),
                    stage=STAGES[name],
                    stop_grace=600.0,
                    watchdog=10.0,
                    restart_delay=RestartDelay(immediate=1000, longest=0.1),
                )
                for name in NAMES
            ],
        )

    def start(self, owner: int | None = None, orphans_grace: float = 3.0) -> subprocess.Popen[bytes]:
        """Start a keeper, of which a pidfd may be the owner's. Children have so many seconds for their ends after its."""
        command = [*(sys.executable, "-c", KEEPER, str(orphans_grace)), "--runtime-dir", str(self.directory)]
        command += ["--plan", str(self._plan)]
        command += [] if owner is None else ["--owner-pidfd", str(owner)]
        with self.log.open("a") as log:
            self.keepers.append(
                subprocess.Popen(
                    command, stderr=log, pass_fds=[] if owner is None else [owner], cwd=Path(__file__).parents[2]
                )
            )
        return self.keepers[-1]

    def children(self) -> dict[str, dict[str, Any]]:
        """What the last keeper tells of its children."""
        table = read_children(self.directory)
        if table is None or table["keeper"] != self.keepers[-1].pid:
            return {}
        return {child["name"]: child for child in table["children"]}

    def pids(self) -> dict[str, int]:
        """The children's process ids, once all are ready."""
        wait_until(self._all_are_ready, f"all are ready: {self.log.read_text()}")
        return {name: child["pid"] for name, child in self.children().items()}

    def events(self, event: str) -> list[dict[str, Any]]:
        """Lines of the log about an event."""
        # What is behind the last end of a line is being written.
        whole = self.log.read_text().rpartition("\n")[0]
        lines = [json.loads(line) for line in whole.splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == event]

    def end(self) -> None:
        """Leave no process behind."""
        for keeper in self.keepers:
            keeper.kill()
            keeper.wait(60)
        kill_all_of(self._plan.parent, str(TOY))

    def _all_are_ready(self) -> bool:
        children = self.children()
        return len(children) == len(NAMES) and all(child["ready"] for child in children.values())


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Family]:
    family = Family(tmp_path)
    yield family
    family.end()


@pytest.fixture
def owner() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def hold(pids: dict[str, int]) -> list[Process]:
    """Hold processes, so that their ends can be awaited."""
    return [Process.open(pid, name) for name, pid in pids.items()]


def test_asked_to_stop_it_ends_the_doors_then_the_engine_then_the_manager(family: Family) -> None:
    family.plan()
    keeper = family.start()
    family.pids()
    keeper.terminate()
    assert keeper.wait(60) == 0
    ended = family.events("ended")
    assert {line["child"] for line in ended[:2]} == {"door", "door-2"}
    assert [line["child"] for line in ended[2:]] == ["engine", "manager"]
    assert [line["code"] for line in ended] == [0] * len(NAMES)


def test_what_is_still_needed_by_those_that_end_is_started_again(family: Family) -> None:
    family.plan(door="patient")
    keeper = family.start()
    pids = family.pids()
    keeper.terminate()
    wait_until(lambda: family.children()["door"]["phase"] == "stopping", "the door is asked to stop")
    os.kill(pids["engine"], signal.SIGKILL)
    wait_until(lambda: family.children()["engine"]["starts"] == 2, "the engine is started again")
    os.kill(pids["door"], signal.SIGKILL)
    assert keeper.wait(60) == 1
    assert [line["child"] for line in family.events("ended")][-2:] == ["engine", "manager"]


def test_a_second_request_to_stop_kills_all_at_once(family: Family) -> None:
    family.plan(door="patient", engine="patient", manager="patient")
    keeper = family.start()
    family.pids()
    keeper.terminate()
    wait_until(lambda: len(family.events("asked to stop")) == 1, "the first request is heard")
    keeper.terminate()
    assert keeper.wait(60) == 1
    assert len(family.events("started")) == len(NAMES)


@pytest.mark.parametrize("task", ["serve", "patient"], ids=["willing", "unwilling"])
def test_all_end_soon_after_their_owners_death_however_long_they_might_take_otherwise(
    family: Family, owner: subprocess.Popen[bytes], task: str
) -> None:
    family.plan(**dict.fromkeys(("manager", "engine", "door"), task))
    pidfd = os.pidfd_open(owner.pid)
    # Who is willing has all the time that it may need.
    keeper = family.start(pidfd, 600.0 if task == "serve" else 3.0)
    os.close(pidfd)
    held = hold(family.pids())
    owner.kill()
    assert keeper.wait(60) == (0 if task == "serve" else 1)
    assert all(process.is_dead for process in held)
    for process in held:
        process.close()


def test_a_keeper_whose_owner_is_dead_already_ends_at_once(family: Family, owner: subprocess.Popen[bytes]) -> None:
    family.plan()
    pidfd = os.pidfd_open(owner.pid)
    owner.kill()
    owner.wait()
    keeper = family.start(pidfd)
    os.close(pidfd)
    assert keeper.wait(60) in (0, 1), "children that had only just begun may have had to be killed"
    assert len(family.events("owner is dead")) == 1
    assert {line["child"] for line in family.events("ended")} == {line["child"] for line in family.events("started")}


def test_a_child_with_wrong_settings_ends_the_others_and_its_reason_is_told(family: Family) -> None:
    family.plan(engine="wrong settings")
    keeper = family.start()
    assert keeper.wait(60) == WRONG_SETTINGS
    children = family.children()
    assert [name for name in NAMES if children[name]["hopeless"]] == ["engine"]
    assert children["engine"]["status"] == "port is x"
    assert all(child["phase"] == "ended" for child in children.values())


def test_what_was_ready_once_is_tried_again_though_its_settings_are_wrong(family: Family) -> None:
    family.plan(engine="settings wrong once")
    keeper = family.start()
    os.kill(family.pids()["engine"], signal.SIGKILL)
    wait_until(lambda: family.children()["engine"]["starts"] == 3, "it is started after its wrong settings")
    family.pids()
    assert [line["code"] for line in family.events("ended")] == [-signal.SIGKILL, WRONG_SETTINGS]
    assert keeper.poll() is None


def test_the_next_keeper_finds_all_children_and_starts_those_that_died_meanwhile(family: Family) -> None:
    family.plan()
    first = family.start()
    pids = family.pids()
    with Process.open(pids["door"], "door") as door:
        first.kill()
        first.wait()
        door.kill()
        assert door.wait(60), "it is dead ahead of the next keeper"
    family.start()
    again = family.pids()
    assert {name for name in NAMES if again[name] != pids[name]} == {"door"}
    os.kill(pids["engine"], signal.SIGKILL)
    wait_until(lambda: family.children()["engine"]["starts"] == 1, "one that was found is started again")


def test_the_table_tells_what_became_of_each_child(family: Family) -> None:
    family.plan()
    family.start()
    os.kill(family.pids()["door"], signal.SIGKILL)
    wait_until(lambda: family.children()["door"]["starts"] == 2, "the door is started again")
    family.pids()
    door = family.children()["door"]
    assert (door["last_code"], door["phase"], door["hopeless"]) == (-signal.SIGKILL, "running", False)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda plan: plan[0].update(patience=3), "patience"),
        (lambda plan: plan[0].pop("command"), "command"),
        (lambda plan: plan[0].update(command=[]), "is not to be found"),
        (lambda plan: plan[0].update(stop_grace=-1), "stop_grace is -1"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_a_wrong_setting(
    family: Family, tmp_path: Path, change: Callable[[Any], None], complaint: str
) -> None:
    family.plan()
    plan = json.loads((tmp_path / "plan.json").read_text())
    change(plan)
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    assert family.start().wait(60) == WRONG_SETTINGS
    assert complaint in family.log.read_text()
