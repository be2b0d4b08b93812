"""One file of settings serves several processes; what nobody knows in it is an error that names it."""

from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import Field
from pydantic_settings import SettingsConfigDict

from blockmgr.configuration import WrongSetting
from blockmgr.service.settings import ManagerSettings
from blockmgr.settings_sources import ProcessSettings
from executor.engine.settings import EngineSettings

FILE = """
runtime_dir = "/shared"
log_level = "warning"

[manager]
lease_seconds = 3

[door]
port = 7
log_level = "debug"
"""


class DoorSettings(ProcessSettings):
    """A process with a table and variables of its own."""

    model_config = SettingsConfigDict(env_prefix="PAGEHOLD_DOOR_")
    table: ClassVar[str] = "door"

    port: int = Field(1, ge=0)


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "RUNTIME_DIR", "LOG_LEVEL", "LOG_FORMAT", "LEASE_SECONDS", "DOOR_PORT", "DOOR_LOG_LEVEL"):
        monkeypatch.delenv(f"PAGEHOLD_{name}", raising=False)


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text(FILE)
    monkeypatch.setenv("PAGEHOLD_CONFIG", str(path))
    return path


@pytest.mark.usefixtures("configured")
def test_each_process_reads_its_own_table_and_what_all_share() -> None:
    manager, door = ManagerSettings.load(), DoorSettings.load()
    assert (manager.runtime_dir, manager.log_level, manager.lease_seconds) == (Path("/shared"), "warning", 3)
    assert (door.runtime_dir, door.log_level, door.port) == (Path("/shared"), "debug", 7)


@pytest.mark.usefixtures("configured")
def test_a_flag_counts_over_a_variable_and_that_over_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGEHOLD_DOOR_PORT", "8")
    assert DoorSettings.load().port == 8
    assert DoorSettings.load(port=9).port == 9


@pytest.mark.usefixtures("configured")
def test_a_shared_variable_counts_over_the_file_and_a_processs_own_over_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGEHOLD_LOG_LEVEL", "error")
    assert DoorSettings.load().log_level == ManagerSettings.load().log_level == "error"
    monkeypatch.setenv("PAGEHOLD_DOOR_LOG_LEVEL", "info")
    assert DoorSettings.load().log_level == "info"
    assert ManagerSettings.load().log_level == "error"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("lease_seconds = 3", "lease_seconds is set at the top of .*only runtime_dir, log_level, log_format may be"),
        ("[maneger]", r"maneger is set at the top of .*\[manager\], \[engine\], \[door\], \[up\]"),
        ("manager = 3", r"manager is 3 in .*: it must be a table, \[manager\]"),
        (
            "[manager]\nlease = 3",
            r"lease is set in \[manager\], but there is no such setting; known are .*lease_seconds",
        ),
        ("[manager]\nlease_seconds = 'x'", "lease_seconds is 'x': Input should be a valid number"),
        ("log_level = 'loud'", "log_level is 'loud': Input should be 'debug', 'info', 'warning' or 'error'"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(configured: Path, text: str, complaint: str) -> None:
    configured.write_text(text)
    with pytest.raises(WrongSetting, match=complaint):
        ManagerSettings.load()


def test_another_processs_table_is_its_own_business(configured: Path) -> None:
    configured.write_text("[engine]\nunknown = 1")
    assert ManagerSettings.load().lease_seconds == 10


def test_a_setting_that_is_one_of_some_numbers_may_be_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGEHOLD_ENGINE_TOKENS_PER_BLOCK", "8")
    assert EngineSettings.load().tokens_per_block == 8
    for wrong in ("9", "few"):
        monkeypatch.setenv("PAGEHOLD_ENGINE_TOKENS_PER_BLOCK", wrong)
        with pytest.raises(WrongSetting, match=r"tokens_per_block.*8, 16, 32, 64 or 128"):
            EngineSettings.load()
