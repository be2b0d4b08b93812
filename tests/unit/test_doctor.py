"""The doctor tries what it speaks of, and its exit code says whether anything is broken."""

import json
import os
import re
import tomllib
from contextlib import closing
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from blockmgr import diagnosis
from blockmgr.commands import doctor
from blockmgr.process_lock import ProcessLock
from tests.fake_gpu import FIRST, SECOND, fake_gpus
from tests.scripted.processes import ROOT


def test_this_machine_can_run_a_manager(tmp_path: Path) -> None:
    found = {finding.subject: finding for finding in diagnosis.examine(tmp_path)}
    assert found["shared memory"].verdict is diagnosis.Verdict.GOOD
    assert found["pidfd"].verdict is diagnosis.Verdict.GOOD
    assert found["pagehold[manager]"].verdict is diagnosis.Verdict.GOOD


def test_a_folder_whose_sockets_would_have_too_long_a_path_is_broken(tmp_path: Path) -> None:
    found = {finding.subject: finding for finding in diagnosis.examine(tmp_path / ("x" * 100))}
    assert found["runtime folder"].verdict is diagnosis.Verdict.BROKEN
    assert "107 are possible" in found["runtime folder"].text


def test_an_up_whose_folder_was_deleted_is_named_with_its_process_and_the_remedy(tmp_path: Path) -> None:
    with closing(ProcessLock(tmp_path / "up.lock")):
        found = {finding.subject: finding for finding in diagnosis.examine(tmp_path)}
    assert found["up"].verdict is diagnosis.Verdict.LACKING
    assert f"process {os.getpid()}" in found["up"].text
    assert "pagehold down" in found["up"].text
    assert "up" not in {finding.subject for finding in diagnosis.examine(tmp_path)}


def test_every_package_of_an_extra_is_looked_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extra, looked_for in diagnosis.EXTRAS.items():
        everywhere = [text for text in project["optional-dependencies"][extra] if ";" not in text]
        assert sorted(looked_for) == sorted(re.split("[<>=]", text)[0] for text in everywhere)


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


def arenas(folder: Path) -> list[tuple[str, str, str]]:
    return [
        (finding.subject, finding.verdict, finding.text)
        for finding in diagnosis.examine(folder)
        if finding.subject.startswith("arena ")
    ]


def test_every_kind_of_memory_is_tried_on_every_gpu(tmp_path: Path) -> None:
    with fake_gpus(tmp_path, (FIRST, SECOND)):
        found = arenas(tmp_path)
    kinds = ["arena host", *["arena cuda"] * 2, *["arena cuda-ipc"] * 2]
    assert [(subject, verdict) for subject, verdict, _ in found] == [(kind, "good") for kind in kinds]
    assert all(uuid in text for (_, _, text), uuid in zip(found[1:], (FIRST, SECOND) * 2, strict=True))


def test_a_machine_without_a_gpu_says_so_and_is_not_broken(tmp_path: Path) -> None:
    with fake_gpus(tmp_path, ()) as patch:
        patch.setattr("shutil.which", lambda name: None)
        found = arenas(tmp_path)
    assert found[0][:2] == ("arena host", "good")
    assert found[1:] == [(f"arena {kind}", "lacking", "there is no GPU here") for kind in ("cuda", "cuda-ipc")]


@pytest.mark.parametrize(
    ("lack", "kind", "why"),
    [
        (
            {"FAKE_GPU_LACKS": "103"},
            "cuda",
            "the driver cannot map memory at chosen addresses and pass it by descriptor",
        ),
        ({"FAKE_GPU_BYTES": "1000"}, "cuda", f"{FIRST} has no 4194304 bytes"),
        ({"FAKE_GPU_BYTES": "1000"}, "cuda-ipc", "cudaErrorMemoryAllocation"),
    ],
)
def test_why_a_kind_of_memory_is_not_possible_is_said(
    tmp_path: Path, lack: dict[str, str], kind: str, why: str
) -> None:
    with fake_gpus(tmp_path) as patch:
        for name, value in lack.items():
            patch.setenv(name, value)
        found = {subject: (verdict, text) for subject, verdict, text in arenas(tmp_path)}
    verdict, text = found[f"arena {kind}"]
    assert verdict == "lacking"
    assert f"{FIRST}: " in text
    assert why in text
