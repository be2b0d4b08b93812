"""Settings of the block manager's process: flags over environment (``PAGEHOLD_…``) over a TOML file over defaults."""

from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from blockmgr.configuration import WrongSetting, settings_file
from blockmgr.runtime import default_runtime_dir
from blockmgr.service.addresses import parse_address


class ManagerSettings(BaseSettings):
    """Everything that can be set. Times are in seconds."""

    model_config = SettingsConfigDict(env_prefix="PAGEHOLD_", extra="forbid")

    runtime_dir: Path = Field(default_factory=default_runtime_dir, description="folder of sockets and locks")
    admin_address: str = Field("127.0.0.1:7070", description="address of the operators' port; unix:PATH for a socket")
    lease_seconds: float = Field(
        10.0, ge=0.2, le=600, description="an executor unheard for so long is probed, then killed"
    )
    probe_seconds: float = Field(2.0, ge=0.05, le=60, description="how long a probe may stay unanswered")
    adoption_seconds: float = Field(30.0, ge=0, le=3600, description="how long sequences wait for their own successor")
    orphan_seconds: float = Field(60.0, ge=0, le=3600, description="how long they then wait for any other executor")
    finished_seconds: float = Field(60.0, ge=0, le=86400, description="how long finished requests are kept")
    return_seconds: float = Field(
        30.0, ge=0, le=3600, description="how long to wait for executors that hold lost memory"
    )
    max_pools: int = Field(16, ge=1, le=1024)
    stop_grace: float = Field(5.0, ge=0, le=600, description="how long a stop waits for calls under way")
    log_level: str = Field("info", pattern="^(debug|info|warning|error)$")
    log_format: str = Field("console", pattern="^(console|json)$")
    test_withhold_kill: bool = Field(False, description="for tests: do not kill executors that are to be killed")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags, then environment, then the file named by ``PAGEHOLD_CONFIG``."""
        # Not pydantic's own source for such files: that passes over one that is not there, and the manager would run with
        # other settings than meant.
        return (init_settings, env_settings, InitSettingsSource(settings_cls, settings_file()))

    @field_validator("admin_address")
    @classmethod
    def _check_address(cls, address: str) -> str:
        parse_address(address)
        return address

    @classmethod
    def load(cls, **flags: Any) -> "ManagerSettings":
        """Settings with the flags that were given (None: not given) over everything else.

        Raises:
            WrongSetting: a value may not be had, or the file cannot be read.
        """
        try:
            return cls(**{name: value for name, value in flags.items() if value is not None})
        except ValidationError as error:
            raise WrongSetting("\n".join(map(_in_words, error.errors()))) from None

    @property
    def executor_socket(self) -> Path:
        """Where executors call the manager."""
        return self.runtime_dir / "blockmgr.sock"

    @property
    def descriptor_socket(self) -> Path:
        """Where descriptors are passed."""
        return self.runtime_dir / "descriptors.sock"


def _in_words(problem: Any) -> str:
    """One wrong value, as it is told to whoever set it."""
    name = ".".join(str(part) for part in problem["loc"])
    return f"{name} is {problem['input']!r}: {problem['msg'].removeprefix('Value error, ')}"
