"""Settings of an engine's process; `blockmgr.settings_sources` says where they come from."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator
from pydantic_settings import SettingsConfigDict

from blockmgr.settings_sources import ProcessSettings

LEAST_SEQUENCES = 1024
"""Slots of a pool's ledger, which cost next to nothing until they are used."""

ON_GPU = {"max_running": 512, "step_tokens": 2048, "chunk": 2048, "step_timeout": 60.0}
"""What is the default on a GPU, where it is another."""


def _number(value: object) -> object:
    """Variables come as text, of which pydantic makes no number where only some numbers may be."""
    return int(value) if isinstance(value, str) and value.strip().isdecimal() else value


class EngineSettings(ProcessSettings):
    """Everything that can be set. Times are in seconds."""

    model_config = SettingsConfigDict(env_prefix="PAGEHOLD_ENGINE_", extra="forbid", protected_namespaces=())

    table = "engine"

    model: str = Field("demo", min_length=1, description="a folder in transformers' format, a GGUF file, or demo")
    name: str = Field("engine", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", description="name over all its lives")
    served_name: str | None = Field(None, min_length=1, description="name of the model for callers; its own if not set")
    pool: str = Field("default", min_length=1, max_length=64, description="name of the pool")
    max_length: int | None = Field(
        None, ge=2, description="tokens of prompt and output at most; the model's if not set"
    )
    weights: Literal["checkpoint", "random"] = Field("checkpoint", description="random: for measurements only")
    dtype: Literal["float32", "bfloat16", "float16"] | None = Field(None, description="of weights and cache")
    implementation: Literal["auto", "decoder", "transformers"] = Field("auto", description="whose modelling code runs")
    blocks: int | None = Field(None, ge=2, description="blocks of the pool, the null block included, if it is made now")
    max_blocks: int | None = Field(
        None, ge=2, description="blocks that it may ever grow to; as many as at first if not set"
    )
    kv_memory: float | None = Field(
        None, gt=0, description="bytes of the pool instead, or a share, up to 1, of the memory that is left for it"
    )
    device: str = Field("auto", min_length=1, description="cpu, a GPU's UUID, or auto: a GPU if there is one")
    arena: Literal["auto", "host", "cuda", "cuda-ipc"] = Field(
        "auto", description="kind of memory that the pool is made of, if it is made now"
    )
    record_steps: bool = Field(
        True, description="on a GPU, replay steps as they were recorded at the start; else launch them kernel by kernel"
    )
    same_bits: bool = Field(
        True, description="on a GPU, only matrix products whose rows do not depend on who shares a step"
    )
    tokens_per_block: Annotated[Literal[8, 16, 32, 64, 128], BeforeValidator(_number)] = Field(
        16, description="tokens that a block holds, if it is made now"
    )
    host_blocks: int | None = Field(
        None, ge=0, description="blocks of the host tier, to swap to, if the pool is made now; none if not set"
    )
    host_bytes: int | None = Field(None, ge=0, description="bytes of the host tier instead, if the pool is made now")
    preempt: Literal["auto", "swap", "recompute"] = Field(
        "auto", description="how sequences make room: copied to the host tier and back, computed again, or the cheaper"
    )
    max_running: int = Field(64, ge=1, le=1 << 20, description="sequences computed at once")
    max_waiting: int = Field(1024, ge=1, le=1 << 20, description="requests that may wait")
    step_tokens: int = Field(512, ge=1, description="tokens in a step, of all its sequences together")
    chunk: int = Field(256, ge=1, description="tokens of one prompt in a step")
    threads: int | None = Field(None, ge=1, description="threads that compute; as many as there are cores if not set")
    lease_seconds: float | None = Field(None, ge=0.5, le=600, description="the manager's if not set")
    step_timeout: float = Field(600.0, gt=0, description="a step that takes longer is stuck")
    register_seconds: float = Field(60.0, gt=0, description="how long to wait for a manager")
    stop_grace: float = Field(
        5.0, ge=0, le=3600, description="how long a stop lets sequences end before it leaves them"
    )
    metrics_port: int = Field(0, ge=0, le=65535, description="port of metrics on the loopback address; 0: none")

    @model_validator(mode="after")
    def _check_sizes(self) -> "EngineSettings":
        if self.blocks is not None and self.kv_memory is not None:
            raise ValueError("blocks and kv_memory both give the size of the pool: set one of them")
        if self.host_blocks is not None and self.host_bytes is not None:
            raise ValueError("host_blocks and host_bytes both give the size of the host tier: set one of them")
        if self.step_tokens < self.max_running:
            raise ValueError(
                f"step_tokens is {self.step_tokens}, but must be at least max_running, {self.max_running}: "
                "each running sequence takes a token of a step"
            )
        return self

    @property
    def fixes_pool(self) -> bool:
        """Whether the pool's size is set, whatever memory there is."""
        return self.blocks is not None or (self.kv_memory or 0.0) > 1

    @property
    def max_sequences(self) -> int:
        """Slots of the ledger of a pool that is made now."""
        return max(LEAST_SEQUENCES, self.max_running)

    def on_gpu(self) -> "EngineSettings":
        """The same for a GPU: what is not set is what suits one, where it takes little longer to do much more at once."""
        return self.load(**{name: getattr(self, name) for name in self.model_fields_set} | self._unset(ON_GPU))

    def _unset(self, defaults: dict[str, float]) -> dict[str, float]:
        return {name: value for name, value in defaults.items() if name not in self.model_fields_set}

    @property
    def socket(self) -> Path:
        """Where front doors call the engine."""
        return self.runtime_dir / "engines" / f"{self.name}.sock"
