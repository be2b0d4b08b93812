"""What the processes of an `up` are doing: as their keeper tells it, and whether clients are served."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from blockmgr.keeper.table import read_children

HEALTH_SECONDS = 1.0
"""How long one question after a door's health may take."""


@dataclass(frozen=True)
class ChildState:
    """One process: see `blockmgr.keeper.table.read_children`."""

    name: str
    pid: int | None = None
    phase: str = "waiting"
    ready: bool = False
    status: str = ""
    starts: int = 0
    deaths: int = 0
    last_code: int | None = None
    last_words: str = ""
    hopeless: bool = False


@dataclass(frozen=True)
class State:
    """All of them at one moment, by name and in the order in which they are started."""

    children: dict[str, ChildState] = field(default_factory=dict)

    @property
    def is_ready(self) -> bool:
        """Whether every process says that it is ready."""
        return bool(self.children) and all(child.ready for child in self.children.values())

    def find_failed(self, attempts: int) -> ChildState | None:
        """A process that has ended so often in a row, and is not ready now either."""
        for child in self.children.values():
            if child.deaths >= attempts and not child.ready:
                return child
        return None


class History:
    """What became of the processes, as one keeper after the other tells it."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        """Nothing is known yet."""
        self._folder = folder
        self.state = State({name: ChildState(name) for name in names})
        self.restarts: Counter[str] = Counter()
        self._pids: dict[str, int] = {}

    def look(self, keeper: int | None) -> list[str]:
        """Read what the keeper with this process id tells now; return what is new, a line each."""
        table: dict[str, Any] | None = read_children(self._folder)
        if table is None or keeper is None or table["keeper"] != keeper:
            # A new keeper has told nothing yet; what the last one told holds.
            return []
        before, self.state = self.state, State({entry["name"]: ChildState(**entry) for entry in table["children"]})
        return [line for name in self.state.children for line in self._news(before.children.get(name), name)]

    def _news(self, before: ChildState | None, name: str) -> list[str]:
        now, lines = self.state.children[name], []
        if before is not None and before.pid is not None and now.pid != before.pid and not now.hopeless:
            reason = f": {now.last_words}" if now.last_words and now.last_code else ""
            lines.append(f"{name} ended {describe_code(now.last_code)}{reason}")
        if now.pid is not None:
            self.restarts[name] += self._pids.get(name, now.pid) != now.pid
            self._pids[name] = now.pid
        if now.ready and (before is None or not before.ready or before.pid != now.pid):
            lines.append(f"{name} is ready (process {now.pid})")
        return lines


def describe_code(code: int | None) -> str:
    """How a process ended, in words."""
    if code is None:
        return "unseen"
    return f"by signal {-code}" if code < 0 else f"with code {code}"


async def is_serving(address: str) -> bool:
    """Whether a front door at an address says that it serves."""
    async with grpc.aio.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        try:
            answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=HEALTH_SECONDS)
        except grpc.aio.AioRpcError:
            return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
