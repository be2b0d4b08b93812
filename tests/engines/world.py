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
from tests.models.checkpoints import configuration, saved
from tests.scripted.processes import ROOT, wait_until
from tests.scripted.world import PAGEHOLD, World

LENGTH = 128
"""Tokens that a sequence of the tiny model may have."""


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

    def stop(self, seconds: float = 60.0) -> int:
        """SIGTERM, and wait for the end. Returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def events(self, event: str) -> list[dict[str, Any]]:
        """What it has logged of one kind."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == event]


class EngineWorld(World):
    """A world whose executors are engines."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.engines: list[EngineProcess] = []
        self.doors: list[Door] = []
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.metrics_port: int = probe.getsockname()[1]
            """A port that is free, for an engine that is told so."""

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
    def held_at(self, token: int) -> Iterator[None]:
        """Let steps of faulty engines that have a token of this id stand still meanwhile."""
        draft = self.directory / "hold.draft"
        draft.write_text(str(token))
        draft.rename(self.directory / "hold")
        try:
            yield
        finally:
            (self.directory / "hold").unlink()

    def door(self, engine: str = "engine") -> Door:
        """A door to an engine, which may still be starting."""
        self.doors.append(Door(self.runtime_dir, engine))
        return self.doors[-1]

    def await_idle(self, seconds: float = 60.0) -> None:
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
