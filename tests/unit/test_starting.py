"""What keeps a manager from starting is said in one line that names the setting; the exit code says if trying again helps."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from blockmgr.configuration import WRONG_SETTINGS, WrongSetting
from blockmgr.service.process import ManagerProcess
from blockmgr.service.settings import ManagerSettings
from tests.scripted.processes import ROOT
from tests.scripted.world import PAGEHOLD, environment


def start(folder: Path, *flags: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a manager that cannot start, to its end."""
    command = [*PAGEHOLD, "blockmgr", "--runtime-dir", str(folder), *(flags or ("--address", "127.0.0.1:0"))]
    env = environment({}) | variables
    ended = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    return ended


@pytest.mark.parametrize("name", ["a file", "x" * 120], ids=["file", "too-long-for-a-socket"])
def test_a_runtime_folder_that_cannot_be_used_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "a file").touch()
    ended = start(tmp_path / name)
    assert ended.returncode == WRONG_SETTINGS
    assert f"runtime_dir is {tmp_path / name}, but it cannot be used" in ended.stderr


def test_a_file_of_settings_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    ended = start(tmp_path / "run", PAGEHOLD_CONFIG=os.fspath(path))
    assert ended.returncode == WRONG_SETTINGS
    assert f"PAGEHOLD_CONFIG is '{path}', which cannot be read" in ended.stderr


def test_a_variable_with_a_wrong_value_is_named(tmp_path: Path) -> None:
    ended = start(tmp_path / "run", PAGEHOLD_LEASE_SECONDS="0.1")
    assert ended.returncode == WRONG_SETTINGS
    assert "lease_seconds is '0.1': Input should be greater than or equal to 0.2" in ended.stderr


@pytest.mark.parametrize("name", ["NOTIFY_SOCKET", "WATCHDOG_USEC", "FDSTORE"])
def test_a_variable_of_the_service_manager_that_cannot_be_right_is_a_wrong_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "nonsense")
    with pytest.raises(WrongSetting, match=f"{name} is 'nonsense'"):
        ManagerProcess(ManagerSettings.load(runtime_dir=tmp_path))


def test_a_busy_port_is_named_in_one_line_and_may_be_tried_again(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = start(tmp_path / "run", "--address", address)
    assert ended.returncode == 1
    assert f"admin_address is {address}, but it cannot be bound: Address already in use" in ended.stderr


def test_a_keeper_whose_manager_has_a_wrong_setting_ends_with_its_reason(tmp_path: Path) -> None:
    command = [*PAGEHOLD, "keeper", "--runtime-dir", str(tmp_path / "run"), "--address", "127.0.0.1:99999"]
    ended = subprocess.run(command, cwd=ROOT, env=environment({}), capture_output=True, text=True, timeout=120)
    assert ended.returncode == WRONG_SETTINGS
    reason = "admin_address is '127.0.0.1:99999': the port must be a number from 0 to 65535"
    (line,) = [line for line in ended.stderr.splitlines() if '"event": "settings are wrong"' in line]
    assert reason in line
    assert ended.stderr.count('"event": "started"') == 1


def test_a_keeper_that_cannot_be_run_as_asked_says_so_with_the_same_code(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    for flags in (["--runtime-dir", str(path)], ["--runtime-dir", str(tmp_path), "--store-limit", "0"]):
        command = [sys.executable, "-m", "blockmgr.keeper", *flags, "--", "true"]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
        assert ended.returncode == WRONG_SETTINGS
        assert ended.stderr.startswith("keeper: ")
        assert "Traceback" not in ended.stderr
