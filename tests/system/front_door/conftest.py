"""A manager, a scripted engine and a front door, which the tests of a module share."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scripted.doors import DoorProcess
from tests.scripted.engine_service import ScriptedEngine
from tests.scripted.scene import PIECES, Scene, echo
from tests.scripted.tokenizers import write_pieces
from tests.scripted.world import World, running


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """The scripted model's folder."""
    made = Path(tempfile.mkdtemp(prefix="ph-model-"))
    yield write_pieces(made, PIECES, chat=True)
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """A keeper and its manager."""
    with running() as made:
        yield made


@pytest.fixture(scope="module")
def shared(world: World, folder: Path) -> Iterator[Scene]:
    """Everything, for the tests of one module, which leave it as it was."""
    with ScriptedEngine(world.runtime_dir, folder, echo) as engine, DoorProcess(world.runtime_dir) as door:
        door.await_serving()
        yield Scene(world, engine, door)


@pytest.fixture
def scene(shared: Scene) -> Iterator[Scene]:
    """The same, as it was at first; afterwards nothing is in flight and every block is free."""
    engine = shared.engine
    engine.starts.clear()
    yield shared
    engine.answer, engine.limit, engine.admits, engine.refuse, engine.draining = echo, None, True, None, False
    shared.await_idle()
    assert shared.world.violated_invariants() == []
    assert shared.door.faults() == []
