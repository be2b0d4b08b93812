"""What `up` starts for its settings, and what it makes of what a keeper tells."""

import json
import os
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from blockmgr.configuration import WrongSetting
from blockmgr.keeper import read_plan, write_plan
from executor.launch.lock import AlreadyUp, FolderLock, find_up, lock_folder
from executor.launch.plan import DOORS, ENGINES, MANAGER, children_of
from executor.launch.readiness import History
from executor.launch.reasons import Log, describe_failure
from executor.launch.settings import LaunchSettings
from executor.launch.summary import status_line, summary_of


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PAGEHOLD_")]:
        monkeypatch.delenv(name)


def load(folder: Path, **flags: Any) -> LaunchSettings:
    return LaunchSettings.load(runtime_dir=folder, **flags)


def flags_of(command: tuple[str, ...]) -> dict[str, str]:
    """Flags of a command line with their values."""
    return {flag: value for flag, value in pairwise(command) if flag.startswith("--")}


# -- plan ---------------------------------------------------------------------------------------------------------------


def test_the_first_of_a_kind_keeps_its_name_whatever_their_number(tmp_path: Path) -> None:
    assert [child.name for child in children_of(load(tmp_path))] == ["manager", "engine", "door"]
    many = children_of(load(tmp_path, doors=3, engines=2))
    assert [child.name for child in many] == ["manager", "engine", "engine-2", "door", "door-2", "door-3"]
    assert [child.stage for child in many] == [MANAGER, ENGINES, ENGINES, DOORS, DOORS, DOORS]


def test_each_process_is_told_its_folder_its_name_and_its_address(tmp_path: Path) -> None:
    settings = load(tmp_path, doors=2, address="127.0.0.1:9", engine_flags={"blocks": 77, "kv_memory": None})
    manager, engine, door, second = (flags_of(child.command) for child in children_of(settings))
    assert manager["--address"] == "127.0.0.1:7070"
    assert (engine["--name"], engine["--blocks"]) == ("engine", "77")
    assert "--kv-memory" not in engine
    assert (door["--name"], second["--name"]) == ("door", "door-2")
    assert door["--address"] == second["--address"] == "127.0.0.1:9"
    for flags in (manager, engine, door, second):
        assert flags["--runtime-dir"] == str(tmp_path)


def test_several_of_a_kind_have_ports_of_metrics_in_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGEHOLD_DOOR_METRICS_PORT", "9100")
    doors = [flags_of(child.command) for child in children_of(load(tmp_path, doors=2)) if child.stage == DOORS]
    assert [flags["--metrics-port"] for flags in doors] == ["9100", "9101"]


def test_a_process_has_longer_to_stop_than_it_allows_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGEHOLD_DOOR_GRACE", "100")
    monkeypatch.setenv("PAGEHOLD_ENGINE_STOP_GRACE", "50")
    graces = {child.name: child.stop_grace for child in children_of(load(tmp_path))}
    assert graces["door"] > 100
    assert graces["engine"] > 50


def test_a_keeper_reads_the_plan_that_was_written(tmp_path: Path) -> None:
    children = children_of(load(tmp_path, doors=2))
    write_plan(tmp_path / "plan.json", children)
    assert read_plan(tmp_path / "plan.json") == children


@pytest.mark.parametrize("text", ["", "{", "[1]", "[{}]", '[{"command": 1, "restart_delay": {}}]'])
def test_a_plan_that_was_damaged_is_told_so(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(WrongSetting, match="does not describe children"):
        read_plan(tmp_path / "plan.json")


# -- settings -----------------------------------------------------------------------------------------------------------


def test_a_model_in_the_current_folder_is_found_by_every_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some.gguf").touch()
    monkeypatch.chdir(tmp_path)
    assert load(tmp_path, engine_flags={"model": "some.gguf"}).model == str(tmp_path / "some.gguf")
    (tmp_path / "demo").mkdir()
    assert load(tmp_path).model == "demo"


def test_another_up_started_with_the_flags_loads_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGEHOLD_UP_DOORS", "2")
    settings = load(tmp_path, address="127.0.0.1:9", engine_flags={"model": "x", "blocks": 9})
    model, *flags = settings.flags()
    assert model == "x"
    assert flags_of(tuple(flags)) == {
        "--doors": "2",
        "--engines": "1",
        "--address": "127.0.0.1:9",
        "--admin-address": "127.0.0.1:7070",
        "--runtime-dir": str(tmp_path),
        "--blocks": "9",
    }


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ({"doors": 2, "address": "unix:/x"}, "doors is 2, but address is unix:/x: a socket has one door only"),
        ({"address": "127.0.0.1:0"}, "address is 127.0.0.1:0: the port must be from 1 to 65535"),
        ({"engines": 65}, "engines is 65: Input should be less than or equal to 64"),
    ],
)
def test_what_cannot_be_had_is_named(tmp_path: Path, flags: dict[str, Any], complaint: str) -> None:
    with pytest.raises(WrongSetting, match=complaint):
        load(tmp_path, **flags)


# -- what a keeper tells ------------------------------------------------------------------------------------------------


def child(name: str, **told: Any) -> dict[str, Any]:
    """A child as a keeper tells of it."""
    state = {"pid": None, "phase": "running", "ready": False, "status": "", "starts": 1, "deaths": 0}
    return {"name": name, **state, "last_code": None, "last_words": "", "hopeless": False, **told}


def tell(folder: Path, keeper: int, *children: dict[str, Any]) -> None:
    """Be a keeper."""
    (folder / "children.json").write_text(json.dumps({"keeper": keeper, "children": children}))


def test_readiness_and_ends_are_told_once_each(tmp_path: Path) -> None:
    history = History(tmp_path, ["engine"])
    tell(tmp_path, 1, child("engine", pid=10))
    assert history.look(1) == []
    tell(tmp_path, 1, child("engine", pid=10, ready=True))
    assert history.look(1) == ["engine is ready (process 10)"]
    assert history.look(1) == []
    assert history.state.is_ready
    tell(tmp_path, 1, child("engine", pid=11, last_code=1, last_words="no room"))
    assert history.look(1) == ["engine ended with code 1: no room"]
    tell(tmp_path, 1, child("engine", pid=11, ready=True, last_code=1, last_words="no room"))
    assert history.look(1) == ["engine is ready (process 11)"]
    assert history.restarts["engine"] == 1


def test_what_another_keeper_told_is_not_believed_and_a_new_one_changes_nothing_by_itself(tmp_path: Path) -> None:
    history = History(tmp_path, ["engine"])
    tell(tmp_path, 7, child("engine", pid=9, ready=True))
    assert history.look(1) == []
    assert not history.state.is_ready
    tell(tmp_path, 1, child("engine", pid=10, ready=True))
    history.look(1)
    assert history.look(2) == []
    assert history.state.is_ready
    tell(tmp_path, 2, child("engine", pid=10, ready=True, starts=0))
    assert history.look(2) == []
    assert history.restarts["engine"] == 0


def test_a_process_fails_for_good_when_it_ends_so_often_in_a_row_unready(tmp_path: Path) -> None:
    history = History(tmp_path, ["engine", "door"])
    tell(tmp_path, 1, child("engine", pid=10, deaths=2), child("door", pid=11, ready=True, deaths=9))
    history.look(1)
    assert history.state.find_failed(3) is None
    tell(tmp_path, 1, child("engine", pid=12, deaths=3, last_code=-9), child("door", pid=11, ready=True, deaths=9))
    history.look(1)
    failed = history.state.find_failed(3)
    assert failed is not None
    assert failed.name == "engine"


def test_the_reason_is_the_last_words_or_else_the_last_lines_of_the_log(tmp_path: Path) -> None:
    path = tmp_path / "up.log"
    path.write_text("long ago\n")
    log = Log(path)
    with path.open("a") as file:
        file.write('{"time": 1, "source": "keeper", "event": "started"}\nTraceback\nValueError: no\n')
    history = History(tmp_path, ["a", "b"])
    tell(tmp_path, 1, child("a", last_code=1, last_words="no room"), child("b", last_code=-11))
    history.look(1)
    assert describe_failure(history.state.children["a"], log) == "a: no room"
    assert describe_failure(history.state.children["b"], log).splitlines() == [
        "b ended by signal 11 and gave no reason; last in the log:",
        "Traceback",
        "ValueError: no",
    ]


def test_a_log_that_was_rotated_away_meanwhile_is_read_from_its_new_beginning(tmp_path: Path) -> None:
    path = tmp_path / "up.log"
    path.write_text("long ago, and much\n")
    log = Log(path)
    path.write_text("new\n")
    assert log.last_lines() == ["new"]


def test_the_line_tells_what_is_missing_and_what_was_started_again(tmp_path: Path) -> None:
    history = History(tmp_path, ["manager", "engine"])
    tell(tmp_path, 1, child("manager", pid=1, ready=True), child("engine", pid=2))
    history.look(1)
    line = status_line(history.state, 3723.4, "2 sequences", {"engine": 2, "door": 0})
    assert line == "waiting for engine · 2 sequences · up 1:02:03 · started again: engine ×2 · Ctrl-C stops"


def test_examples_name_addresses_only_where_they_are_not_the_default(tmp_path: Path) -> None:
    assert "pagehold chat\n" in summary_of(load(tmp_path), chats=True)
    assert "pagehold chat --address 127.0.0.1:9\n" in summary_of(load(tmp_path, address="127.0.0.1:9"), chats=True)
    assert f"pagehold down --runtime-dir {tmp_path}" in summary_of(load(tmp_path), chats=True)


def test_a_model_without_a_chat_template_is_not_to_be_talked_with(tmp_path: Path) -> None:
    summary = summary_of(load(tmp_path), chats=False)
    assert "pagehold chat" not in summary
    assert 'pagehold generate "Once upon a time"\n' in summary


# -- lock ---------------------------------------------------------------------------------------------------------------


def test_an_up_is_found_by_its_lock_while_it_lives(tmp_path: Path) -> None:
    assert find_up(tmp_path) is None
    lock = lock_folder(tmp_path / "run")
    with pytest.raises(AlreadyUp, match=f"process {os.getpid()}") as refused:
        lock_folder(tmp_path / "run")
    assert refused.value.pid == os.getpid()
    found = find_up(tmp_path / "run")
    assert found is not None
    with found:
        assert found.pid == os.getpid()
    lock.close()
    assert find_up(tmp_path / "run") is None
    lock_folder(tmp_path / "run").close()


@pytest.mark.parametrize("deleted", ["run", "run/up.lock"])
def test_a_lock_that_was_deleted_is_made_anew_and_told_once(tmp_path: Path, deleted: str) -> None:
    folder, gone = tmp_path / "run", tmp_path / deleted
    lock = FolderLock(folder)
    assert lock.look() == ""
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    assert find_up(folder) is None
    assert f"{gone} was deleted" in lock.look()
    assert lock.look() == ""
    found = find_up(folder)
    assert found is not None
    found.close()
    lock.close()
    assert find_up(folder) is None


def test_a_lock_that_was_deleted_and_is_another_ups_by_now_is_left_to_it(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    (tmp_path / "up.lock").unlink()
    other = lock_folder(tmp_path)
    assert "cannot be made anew" in lock.look()
    assert lock.look() == ""
    lock.close()
    assert find_up(tmp_path) is not None
    other.close()


def test_a_folder_that_cannot_be_made_is_a_wrong_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WrongSetting, match=f"runtime_dir is {tmp_path}/file"):
        lock_folder(tmp_path / "file")
