"""Where the settings of each process come from: flags over variables over one file of settings over defaults.

One TOML file, named by ``PAGEHOLD_CONFIG``, serves every process. What all of them share stands at its top, the rest in a
table for each:

    runtime_dir = "/run/pagehold"      # PAGEHOLD_RUNTIME_DIR, --runtime-dir

    [manager]                          # PAGEHOLD_LEASE_SECONDS
    lease_seconds = 10

    [engine]                           # PAGEHOLD_ENGINE_POOL
    pool = "default"

    [door]                             # PAGEHOLD_DOOR_ADDRESS
    address = "127.0.0.1:7071"

What all share may also be set for one process, in its table or by its own variable, which count over the shared ones.
A key that nobody knows is an error, so that a slip of the pen is not a setting left at its default.
"""

from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from blockmgr.configuration import WrongSetting, shared_sources
from blockmgr.runtime import default_runtime_dir


class ProcessSettings(BaseSettings):
    """What every process can be told. A process's own settings are a subclass, which names its table and its variables.

    The variable of a setting is the prefix and the setting's name: ``env_prefix`` in the subclass's ``model_config``.
    """

    model_config = SettingsConfigDict(env_prefix="PAGEHOLD_", extra="forbid")

    table: ClassVar[str]
    """Name of the process's table in the file of settings."""

    runtime_dir: Path = Field(default_factory=default_runtime_dir, description="folder of sockets and locks")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="least level that is logged")
    log_format: Literal["console", "json"] = Field("console", description="for people, or for programs")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags, own variables, shared variables, own table, top of the file."""
        # pydantic's own source for such files passes over one that is not there, and the process would run with other
        # settings than meant; hence plain values.
        shared = [InitSettingsSource(settings_cls, values) for values in shared_sources(cls.table)]
        return (init_settings, env_settings, *shared)

    @classmethod
    def load(cls, **flags: Any) -> Self:
        """Settings with the flags that were given (None: not given) over everything else.

        Raises:
            WrongSetting: a value may not be had, a key is not known, or the file cannot be read.
        """
        try:
            return cls(**{name: value for name, value in flags.items() if value is not None})
        except ValidationError as error:
            raise WrongSetting("\n".join(cls._in_words(problem) for problem in error.errors())) from None

    @classmethod
    def _in_words(cls, problem: Any) -> str:
        """One wrong value, as it is told to whoever set it."""
        name = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            return (
                f"{name} is set in [{cls.table}], but there is no such setting; known are {', '.join(cls.model_fields)}"
            )
        return f"{name} is {problem['input']!r}: {problem['msg'].removeprefix('Value error, ')}"
