"""What keeps a manager from starting is said in one line that names the setting."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.scripted.processes import ROOT
from tests.scripted.world import PAGEHOLD, environment


def start(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a manager that cannot start, to its end."""
    command = [*PAGEHOLD, "blockmgr", "--runtime-dir", str(folder), "--address", "127.0.0.1:0"]
    env = environment({}) | variables
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)


def test_a_runtime_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    ended = start(path)
    assert ended.returncode == 1
    assert f"runtime_dir is {path}, but it cannot be used" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_runtime_folder_too_long_for_a_socket_is_named(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 120)
    ended = start(path)
    assert ended.returncode == 1
    assert f"runtime_dir is {path}, but it cannot be used" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("text", [None, "lease_seconds = = 1\n"], ids=["absent", "no-toml"])
def test_a_file_of_settings_that_cannot_be_read_is_named(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "settings.toml"
    if text is not None:
        path.write_text(text)
    ended = start(tmp_path / "run", PAGEHOLD_CONFIG=os.fspath(path))
    assert ended.returncode == 2
    assert f"PAGEHOLD_CONFIG is '{path}', which cannot be read" in ended.stderr
    assert "Traceback" not in ended.stderr
