"""A small world for an engine: a keeper with its manager, engines as processes over a tiny model, and doors."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from executor.models.loader import LoadOptions, load_model
from executor.models.model import PagedModel
from pagehold.admin.v1 import evict_pb2
from pagehold.common.v1 import states_pb2
from tests.engines.door import Door
from tests.engines.holds import Hold
from tests.models.checkpoints import configuration, saved
from tests.scripted.processes import ROOT, wait_until
from tests.scripted.world import PAGEHOLD, World

LENGTH = 128
"""Tokens that a sequence of the tiny model may have."""

PATIENCE = {
    "lease_seconds": 60,
    "probe_seconds": 30,
    "adoption_seconds": 300,
    "return_seconds": 60,
    "finished_seconds": 600,
}
"""Times of the manager that no test waits for: none is over while a process waits for its turn on a busy machine."""


def save_tiny(folder: Path, name: str = "llama", **changes: Any) -> Path:
    """A tiny model with random weights, in a folder."""
    saved(configuration(name, **changes), folder)
    return folder


@cache
def tiny(folder: Path) -> PagedModel:
    """The tiny model in this process, to say what is to come."""
    return load_model(folder, LoadOptions(progress=False))


class EngineProcess:
    """An engine as a process."""

    def __init__(self, world: World, number: int, command: list[str], environment: dict[str, str]) -> None:
        self.log = world.directory / f"engine-{number}.log"
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [*command, "--runtime-dir", str(world.runtime_dir), "--threads", "1", "--log-format", "json"],
                cwd=ROOT,
                stdout=log,
                stderr=log,
                env=dict(os.environ) | environment,
            )

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self.process.pid

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self.process.kill()
        self.process.wait(60)

    def stop(self, seconds: float = 120.0) -> int:
        """SIGTERM, and wait for the end. Returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def events(self, event: str) -> list[dict[str, Any]]:
        """What it has logged of one kind."""
        # The last line may be under way.
        whole = self.log.read_text().split("\n")[:-1]
        lines = [json.loads(line) for line in whole if line.startswith("{")]
        return [line for line in lines if line["event"] == event]


class EngineWorld(World):
    """A world whose executors are engines."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**PATIENCE | settings)
        self.engines: list[EngineProcess] = []
        self.doors: list[Door] = []
        # Bound and not listening: nobody else comes to have the port, and an engine can bind it as well.
        self._port = socket.socket()
        self._port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._port.bind(("127.0.0.1", 0))
        self.metrics_port: int = self._port.getsockname()[1]
        """A port for an engine that is told so."""

    def start_engine(
        self, model: Path | str, *arguments: str, faulty: bool = False, **environment: str
    ) -> EngineProcess:
        """Start an engine, and do not wait for it. ``faulty``: one whose model fails where it is told to."""
        program = [sys.executable, "-m", "tests.engines.faulty"] if faulty else [*PAGEHOLD, "executor"]
        environment = {"HOLD": str(self.directory / "hold")} | environment
        engine = EngineProcess(self, len(self.engines), [*program, str(model), *arguments], environment)
        self.engines.append(engine)
        return engine

    @contextmanager
    def held(
        self, *, token: int | None = None, position: int | None = None, steps: int | None = None
    ) -> Iterator[Hold]:
        """Let steps of faulty engines stand still meanwhile: those with a token of this id, or with this position or one
        behind it, or all behind the first so many of an engine.
        """
        hold = Hold(self.directory / "hold")
        hold.move(token=token, position=position, steps=steps)
        try:
            yield hold
        finally:
            hold.let_go()

    def door(self, engine: str = "engine") -> Door:
        """A door to an engine, which may still be starting."""
        self.doors.append(Door(self.runtime_dir, engine))
        return self.doors[-1]

    def await_idle(self, seconds: float = 120.0) -> None:
        """Wait until no sequence lives and every fence has opened."""

        def idle() -> bool:
            found = self.statistics()
            return not found.sequences.live and not found.tiers[0].fenced and not found.pending_tickets

        wait_until(idle, "no sequence lives", seconds)

    def check_all_free(self) -> None:
        """No sequence lives, nothing contradicts itself, and with the cache flushed every block is free."""
        self.await_idle()
        assert self.violated_invariants() == []
        self.admin.Flush(evict_pb2.FlushRequest(), timeout=60)
        states = {count.state: count.blocks for count in self.statistics().tiers[0].states}
        blocks = self.statistics().tiers[0].blocks
        assert states == {states_pb2.BLOCK_STATE_NULL: 1, states_pb2.BLOCK_STATE_FREE: blocks - 1}

    def end(self) -> None:
        """End every process."""
        for door in self.doors:
            door.close()
        for engine in self.engines:
            engine.kill()
        self._port.close()
        super().end()


@contextmanager
def engine_world(**settings: Any) -> Iterator[EngineWorld]:
    """A world with a keeper and a manager that serves."""
    world = EngineWorld(**settings)
    try:
        world.start_keeper()
        world.await_manager()
        yield world
    except BaseException:
        print(world.log(), file=sys.stderr)
        raise
    finally:
        world.end()
