"""Settings of `pagehold up`; `blockmgr.settings_sources` says where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from blockmgr.configuration import WrongSetting
from blockmgr.service.settings import ManagerSettings
from blockmgr.settings_sources import ProcessSettings
from executor.engine.settings import EngineSettings
from executor.frontend.settings import DoorSettings

TO_STANDARD_ERROR = "-"
"""Name of a log that is no file."""


class UpSettings(ProcessSettings):
    """How many of which processes are started, and how long they may take. Times are in seconds.

    What an engine, a door or the manager is told otherwise stands in their own tables and variables.
    """

    model_config = SettingsConfigDict(env_prefix="PAGEHOLD_UP_", extra="forbid")

    table = "up"

    engines: int = Field(1, ge=1, le=64, description="engines, which share one pool")
    doors: int = Field(1, ge=1, le=64, description="front doors, which share one port")
    log_file: str = Field(
        "", description="where all processes log; - for standard error; default: up.log, beside sockets"
    )
    engine_start_seconds: float = Field(1800.0, gt=0, le=86400, description="how long an engine may load its model")
    attempts: int = Field(
        5,
        ge=1,
        le=1000,
        description="deaths in a row of a process after which all is given up, while not all are ready",
    )

    @property
    def log_path(self) -> Path | None:
        """File that everything is logged to; None: standard error."""
        if self.log_file == TO_STANDARD_ERROR:
            return None
        return Path(self.log_file) if self.log_file else self.runtime_dir / "up.log"


@dataclass(frozen=True)
class LaunchSettings:
    """What `up` was told, and what the processes that it starts will make of their own settings."""

    up: UpSettings
    manager: ManagerSettings
    engine: EngineSettings
    door: DoorSettings
    engine_flags: Mapping[str, Any]
    """What engines are told on their command lines, besides the model, over all else."""

    @classmethod
    def load(
        cls,
        *,
        address: str | None = None,
        admin_address: str | None = None,
        engine_flags: Mapping[str, Any] | None = None,
        **flags: Any,
    ) -> LaunchSettings:
        """Read everything that the processes will read, so that what is wrong is said before any of them is started.

        A flag that is None was not given.

        Raises:
            WrongSetting: a value may not be had, or the file cannot be read.
        """
        up = UpSettings.load(**flags)
        given = {name: value for name, value in (engine_flags or {}).items() if value is not None}
        engine = EngineSettings.load(runtime_dir=up.runtime_dir, **given)
        # The model goes by `model` below, as every process finds it.
        given.pop("model", None)
        door = DoorSettings.load(address=address, runtime_dir=up.runtime_dir)
        if up.doors > 1 and door.address.startswith("unix:"):
            raise WrongSetting(f"doors is {up.doors}, but address is {door.address}: a socket has one door only")
        if door.address.endswith(":0"):
            raise WrongSetting(f"address is {door.address}: the port must be from 1 to 65535, for clients to know it")
        manager = ManagerSettings.load(admin_address=admin_address, runtime_dir=up.runtime_dir)
        return cls(up, manager, engine, door, given)

    @property
    def model(self) -> str:
        """The model as every process finds it, wherever it is started."""
        path = Path(self.engine.model).expanduser()
        return str(path.resolve()) if self.engine.model != "demo" and path.exists() else self.engine.model

    def flags(self) -> list[str]:
        """What makes another `up` load the same, on its command line."""
        values = {
            "doors": self.up.doors,
            "engines": self.up.engines,
            "address": self.door.address,
            "admin_address": self.manager.admin_address,
            "runtime_dir": self.up.runtime_dir,
            "log_file": self.up.log_file or None,
        }
        return [self.model, *to_flags(values | dict(self.engine_flags))]


def to_flags(values: Mapping[str, Any]) -> list[str]:
    """Settings as a command line gives them; None is left out."""
    given = {name: value for name, value in values.items() if value is not None}
    return [part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", str(value))]
