"""Keeper and doctor find the runtime folder where the manager finds it, `down` where `up` does, whatever says where it is."""

import json
from itertools import product
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from blockmgr.commands import doctor, keeper
from blockmgr.configuration import WRONG_SETTINGS, WrongSetting
from blockmgr.runtime import default_runtime_dir, find_runtime_dir
from blockmgr.service.settings import ManagerSettings
from executor.launch.settings import UpSettings


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PAGEHOLD_CONFIG", "PAGEHOLD_RUNTIME_DIR", "PAGEHOLD_UP_RUNTIME_DIR", "PAGEHOLD_ADMIN_ADDRESS"):
        monkeypatch.delenv(name, raising=False)


def configure(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> Path:
    """Have a file of settings."""
    path = folder / "settings.toml"
    path.write_text(text)
    monkeypatch.setenv("PAGEHOLD_CONFIG", str(path))
    return path


def run(command: object, *arguments: str) -> Result:
    app = typer.Typer()
    app.command()(command)  # type: ignore[type-var]
    return CliRunner().invoke(app, list(arguments))


SOURCES = ("flag", "own variable", "variable", "table", "top")


@pytest.mark.parametrize("given", list(product([False, True], repeat=len(SOURCES))))
@pytest.mark.parametrize(
    ("settings", "own"), [(ManagerSettings, None), (UpSettings, "PAGEHOLD_UP_RUNTIME_DIR")], ids=["manager", "up"]
)
def test_the_folder_is_found_where_the_process_itself_finds_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: type[ManagerSettings | UpSettings],
    own: str | None,
    given: tuple[bool, ...],
) -> None:
    sources = [source for source, is_given in zip(SOURCES, given, strict=True) if is_given]
    if own is None:
        sources = [source for source in sources if source != "own variable"]
    top = 'runtime_dir = "/from/top"\n' if "top" in sources else ""
    table = f'[{settings.table}]\nruntime_dir = "/from/table"\n' if "table" in sources else ""
    configure(monkeypatch, tmp_path, top + table)
    for source, name in (("own variable", own), ("variable", "PAGEHOLD_RUNTIME_DIR")):
        if source in sources and name is not None:
            monkeypatch.setenv(name, f"/from/{source}")
    flag = Path("/from/flag") if "flag" in sources else None
    found = find_runtime_dir(flag, process=settings.table)
    assert found == settings.load(runtime_dir=flag).runtime_dir
    assert found == [*(Path("/from") / source for source in sources), default_runtime_dir()][0]


def test_a_variable_in_small_letters_counts_as_for_the_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("pagehold_runtime_dir", "/small")
    assert find_runtime_dir() == ManagerSettings.load().runtime_dir == Path("/small")


def test_a_file_that_the_manager_refuses_is_refused_even_where_a_flag_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = configure(monkeypatch, tmp_path, "runtime_dir = = 1")
    for load in (find_runtime_dir, lambda flag: ManagerSettings.load(runtime_dir=flag)):
        with pytest.raises(WrongSetting, match=f"PAGEHOLD_CONFIG is '{path}', which cannot be read"):
            load(tmp_path)


def test_a_runtime_folder_that_is_no_path_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(monkeypatch, tmp_path, "runtime_dir = 5")
    with pytest.raises(WrongSetting, match="runtime_dir is 5"):
        find_runtime_dir()
    with pytest.raises(WrongSetting, match="runtime_dir is 5"):
        ManagerSettings.load()


def test_every_wrong_setting_has_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGEHOLD_MAX_POOLS", "0")
    with pytest.raises(WrongSetting) as raised:
        ManagerSettings.load(lease_seconds=0.1)
    assert [line.partition(":")[0] for line in str(raised.value).splitlines()] == [
        "lease_seconds is 0.1",
        "max_pools is '0'",
    ]


def test_the_keeper_works_in_the_folder_that_the_file_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a file"
    folder.touch()
    configure(monkeypatch, tmp_path, f'runtime_dir = "{folder}"')
    refused = run(keeper)
    assert refused.exit_code == WRONG_SETTINGS
    assert refused.stderr.startswith(f"keeper: {folder}: ")


def test_the_doctor_looks_at_the_folder_that_the_file_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(monkeypatch, tmp_path, f'runtime_dir = "{tmp_path}/named"')
    found = {finding["subject"]: finding for finding in json.loads(run(doctor, "--json").stdout)}
    assert found["runtime folder"]["text"] == f"{tmp_path}/named will be made"


def test_the_doctor_finds_a_file_of_settings_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = configure(monkeypatch, tmp_path, "runtime_dir = = 1")
    diagnosed = run(doctor, "--json")
    found = {finding["subject"]: finding for finding in json.loads(diagnosed.stdout)}
    assert diagnosed.exit_code == 1
    assert found["settings"]["verdict"] == "broken"
    assert str(path) in found["settings"]["text"]
