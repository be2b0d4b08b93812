"""Worlds that the tests of this folder share: one with a scripted engine and a door, one without, one that computes."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.world import EngineWorld, engine_world, save_tiny
from tests.scripted.doors import DoorProcess
from tests.scripted.engine_service import ScriptedEngine
from tests.scripted.scene import PATIENT, PIECES, Scene, echo
from tests.scripted.tokenizers import write_pieces
from tests.scripted.world import World, running
from tests.system.front_door import computing


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """The scripted model's folder."""
    made = Path(tempfile.mkdtemp(prefix="ph-model-"))
    yield write_pieces(made, PIECES, chat=True)
    shutil.rmtree(made)


# -- a scripted engine and a door --------------------------------------------------------------------------------------


@pytest.fixture(scope="package")
def shared(folder: Path) -> Iterator[Scene]:
    """Everything, for tests that leave it as it was."""
    with (
        running(**PATIENT) as world,
        ScriptedEngine(world.runtime_dir, folder, echo) as engine,
        DoorProcess(world.runtime_dir) as door,
    ):
        door.await_serving()
        yield Scene(world, engine, door)


@pytest.fixture
def scene(shared: Scene) -> Iterator[Scene]:
    """The same, as it was at first; afterwards nothing is in flight and every block is free."""
    engine = shared.engine
    engine.starts.clear()
    yield shared
    engine.answer, engine.limit, engine.burst, engine.admits = echo, None, 1, True
    engine.refuse, engine.draining = None, False
    shared.await_idle()
    assert shared.world.violated_invariants() == []
    assert shared.door.faults() == []


# -- neither -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="package")
def world() -> Iterator[World]:
    """A keeper and its manager, for tests with engines of their own, which they close."""
    with running(**PATIENT) as made:
        yield made


@pytest.fixture(scope="package")
def lasting(world: World) -> Iterator[DoorProcess]:
    """A door there that outlives what becomes of engines, managers and other doors. It ends well when it is asked to."""
    with DoorProcess(world.runtime_dir, "lasting") as door:
        yield door
        door.terminate()
        assert door.process.wait(60) == 0


# -- an engine that computes -------------------------------------------------------------------------------------------


@pytest.fixture(scope="package")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with more ids than its tokenizer."""
    folder = save_tiny(tmp_path_factory.mktemp("computing"))
    write_pieces(folder, computing.PIECES)
    return folder


@pytest.fixture(scope="package")
def engines(model: Path) -> Iterator[EngineWorld]:
    """A world with an engine."""
    with engine_world(**PATIENT) as world:
        computing.start_engine(world, model, "--blocks", "60")
        yield world


@pytest.fixture(scope="package")
def open_door(engines: EngineWorld) -> Iterator[DoorProcess]:
    """A door before that engine."""
    with DoorProcess(engines.runtime_dir) as door:
        yield door.await_serving()


@pytest.fixture
def door(open_door: DoorProcess, engines: EngineWorld) -> Iterator[DoorProcess]:
    """The same, for one test: afterwards nothing is in flight, nothing is cached, and every block is free."""
    yield open_door
    engines.check_all_free()
    assert open_door.faults() == []
