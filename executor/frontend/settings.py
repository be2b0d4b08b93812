"""Settings of a front door's process; `blockmgr.settings_sources` says where they come from."""

import re
from pathlib import Path

from pydantic import Field, field_validator
from pydantic_settings import SettingsConfigDict

from blockmgr.addresses import parse_address
from blockmgr.settings_sources import ProcessSettings

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,47}")


class DoorSettings(ProcessSettings):
    """Everything that can be set. Times are in seconds."""

    model_config = SettingsConfigDict(env_prefix="PAGEHOLD_DOOR_", extra="forbid")

    table = "door"

    name: str = Field("door", description="name of this door, where several share a port")
    address: str = Field("127.0.0.1:7071", description="where clients call; unix:PATH for a socket")
    max_requests: int = Field(256, ge=1, le=65536, description="requests in flight at once")
    max_batch: int = Field(256, ge=1, le=256, description="requests of one batch")
    default_max_tokens: int = Field(1024, ge=1, description="tokens of output where a request names no limit")
    threads: int = Field(2, ge=1, le=64, description="threads that tokenise")
    heartbeat_seconds: float = Field(
        10.0, ge=0.5, le=600, description="an engine whose last sign of life is older is not ready"
    )
    start_seconds: float = Field(
        2.0, ge=0, le=600, description="how long a call, and this door's start, waits for a first engine"
    )
    reader_seconds: float = Field(
        60.0, ge=0.1, le=86400, description="how long a client may leave a message of its stream unread"
    )
    lost_seconds: float = Field(60.0, ge=0.1, le=3600, description="how long a generation waits for a lost engine")
    grace: float = Field(30.0, ge=0, le=3600, description="how long a stop waits for streams under way")
    announce_seconds: float = Field(
        5.0, ge=0, le=600, description="how long a stopping door still answers that it does not serve"
    )
    metrics_port: int = Field(0, ge=0, le=65535, description="port of Prometheus metrics on loopback; 0: none")

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError("must be 1 to 48 letters, digits, dots, dashes or underscores")
        return name

    @field_validator("address")
    @classmethod
    def _check_address(cls, address: str) -> str:
        parse_address(address)
        return address

    @property
    def engines(self) -> Path:
        """Folder of the engines' sockets."""
        return self.runtime_dir / "engines"

    @property
    def own_socket(self) -> Path:
        """Where operators reach this very door, though others share its port."""
        return self.runtime_dir / "doors" / f"{self.name}.sock"

    @property
    def manager_socket(self) -> Path:
        """Where the manager is called."""
        return self.runtime_dir / "blockmgr.sock"

    @property
    def descriptor_socket(self) -> Path:
        """Where ledgers are to be had."""
        return self.runtime_dir / "descriptors.sock"
