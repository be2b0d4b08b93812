"""The doctor tries what it speaks of, and its exit code says whether anything is broken."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from blockmgr import diagnosis
from blockmgr.commands import doctor


def test_this_machine_can_run_a_manager(tmp_path: Path) -> None:
    found = {finding.subject: finding for finding in diagnosis.examine(tmp_path)}
    assert found["shared memory"].verdict is diagnosis.Verdict.GOOD
    assert found["pidfd"].verdict is diagnosis.Verdict.GOOD
    assert found["pagehold[manager]"].verdict is diagnosis.Verdict.GOOD


def test_a_folder_whose_sockets_would_have_too_long_a_path_is_broken(tmp_path: Path) -> None:
    found = {finding.subject: finding for finding in diagnosis.examine(tmp_path / ("x" * 100))}
    assert found["runtime folder"].verdict is diagnosis.Verdict.BROKEN
    assert "107 are possible" in found["runtime folder"].text


def test_missing_packages_are_named_with_what_installs_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(diagnosis.EXTRAS, "executor", ("numpy", "no-such-package"))
    found = {finding.subject: finding for finding in diagnosis.examine(tmp_path)}
    assert found["pagehold[executor]"].verdict is diagnosis.Verdict.LACKING
    assert "no-such-package" in found["pagehold[executor]"].text
    assert "pip install 'pagehold[executor]'" in found["pagehold[executor]"].text


def test_the_command_prints_json_and_fails_where_something_is_broken(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(doctor)
    good = CliRunner().invoke(app, ["--runtime-dir", str(tmp_path), "--json"])
    assert good.exit_code == 0
    assert {finding["subject"] for finding in json.loads(good.output)} >= {"shared memory", "pidfd", "keeper"}
    broken = CliRunner().invoke(app, ["--runtime-dir", str(tmp_path / ("x" * 100)), "--json"])
    assert broken.exit_code == 1
