"""Settings of the block manager's process; `blockmgr.settings_sources` says where they come from."""

from pathlib import Path

from pydantic import Field, field_validator

from blockmgr.addresses import parse_address
from blockmgr.settings_sources import ProcessSettings


class ManagerSettings(ProcessSettings):
    """Everything that can be set. Times are in seconds."""

    table = "manager"

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
    metrics_port: int = Field(0, ge=0, le=65535, description="port of metrics on the loopback address; 0: none")
    test_withhold_kill: bool = Field(False, description="for tests: do not kill executors that are to be killed")

    @field_validator("admin_address")
    @classmethod
    def _check_address(cls, address: str) -> str:
        parse_address(address)
        return address

    @property
    def executor_socket(self) -> Path:
        """Where executors call the manager."""
        return self.runtime_dir / "blockmgr.sock"

    @property
    def descriptor_socket(self) -> Path:
        """Where descriptors are passed."""
        return self.runtime_dir / "descriptors.sock"
