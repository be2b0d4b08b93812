"""What keeps a manager from starting is said in one line that names the setting; the exit code says if trying again helps."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from blockmgr.configuration import WRONG_SETTINGS
from tests.scripted.processes import ROOT
from tests.scripted.world import PAGEHOLD, environment


def start(folder: Path, *flags: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a manager that cannot start, to its end."""
    command = [*PAGEHOLD, "blockmgr", "--runtime-dir", str(folder), *(flags or ("--address", "127.0.0.1:0"))]
    env = environment({}) | variables
    ended = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    return ended


@contextmanager
def listening(kind: socket.AddressFamily, place: tuple[str, int] | str) -> Iterator[socket.socket]:
    """Somebody else who serves at a place."""
    with socket.socket(kind) as taken:
        taken.bind(place)
        taken.listen(1)
        yield taken


def test_a_runtime_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    ended = start(path)
    assert ended.returncode == WRONG_SETTINGS
    assert f"runtime_dir is {path}, but it cannot be used" in ended.stderr


def test_a_runtime_folder_too_long_for_a_socket_is_named(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 120)
    ended = start(path)
    assert ended.returncode == WRONG_SETTINGS
    assert f"runtime_dir is {path}, but it cannot be used" in ended.stderr


@pytest.mark.parametrize("text", [None, "lease_seconds = = 1\n"], ids=["absent", "no-toml"])
def test_a_file_of_settings_that_cannot_be_read_is_named(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "settings.toml"
    if text is not None:
        path.write_text(text)
    ended = start(tmp_path / "run", PAGEHOLD_CONFIG=os.fspath(path))
    assert ended.returncode == WRONG_SETTINGS
    assert f"PAGEHOLD_CONFIG is '{path}', which cannot be read" in ended.stderr


@pytest.mark.parametrize(
    ("variables", "complaint"),
    [
        ({"PAGEHOLD_LEASE_SECONDS": "0.1"}, "lease_seconds is '0.1': Input should be greater than or equal to 0.2"),
        ({"NOTIFY_SOCKET": "relative"}, "NOTIFY_SOCKET is 'relative'"),
        ({"WATCHDOG_USEC": "soon"}, "WATCHDOG_USEC is 'soon'"),
    ],
    ids=["lease", "notify-socket", "watchdog"],
)
def test_a_variable_with_a_wrong_value_is_named(tmp_path: Path, variables: dict[str, str], complaint: str) -> None:
    ended = start(tmp_path / "run", **variables)
    assert ended.returncode == WRONG_SETTINGS
    assert complaint in ended.stderr


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:99999", "::1:7070", "unix:", "no-such-host.invalid:7070"])
def test_an_address_at_which_nobody_could_ever_serve_is_named(tmp_path: Path, address: str) -> None:
    ended = start(tmp_path / "run", "--address", address)
    assert ended.returncode == WRONG_SETTINGS
    assert f"admin_address is {address}" in ended.stderr.replace("'", "")


def test_a_busy_port_is_named_in_one_line_and_may_be_tried_again(tmp_path: Path) -> None:
    with listening(socket.AF_INET, ("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = start(tmp_path / "run", "--address", address)
    assert ended.returncode == 1
    assert f"admin_address is {address}, but it cannot be bound: Address already in use" in ended.stderr


def test_a_socket_at_which_another_serves_is_not_taken_from_it(tmp_path: Path) -> None:
    path = tmp_path / "admin"
    with listening(socket.AF_UNIX, str(path)) as taken, socket.socket(socket.AF_UNIX) as visitor:
        ended = start(tmp_path / "run", "--address", f"unix:{path}")
        assert ended.returncode == 1
        assert f"admin_address is unix:{path}, but it cannot be bound: Address already in use" in ended.stderr
        visitor.connect(str(path))
        assert taken.accept()


def test_a_file_in_the_place_of_the_operators_socket_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "admin"
    path.write_text("precious")
    ended = start(tmp_path / "run", "--address", f"unix:{path}")
    assert ended.returncode == WRONG_SETTINGS
    assert "a file that is no socket is there" in ended.stderr
    assert path.read_text() == "precious"


def test_a_keeper_whose_manager_has_a_wrong_setting_ends_with_its_reason(tmp_path: Path) -> None:
    command = [*PAGEHOLD, "keeper", "--runtime-dir", str(tmp_path / "run"), "--address", "127.0.0.1:99999"]
    ended = subprocess.run(command, cwd=ROOT, env=environment({}), capture_output=True, text=True, timeout=60)
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
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert ended.returncode == WRONG_SETTINGS
        assert ended.stderr.startswith("keeper: ")
        assert "Traceback" not in ended.stderr
