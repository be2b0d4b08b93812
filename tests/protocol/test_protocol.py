"""With messages lost and anybody killed at any moment, every token comes once, and every byte is where it should be."""

from pathlib import Path

import pytest

from tests.protocol.world import World
from tests.scripted import workload
from tests.scripted.delivery import delivered, ended

ACTS = 60_000


def run(seed: int, folder: Path, *, loss: float = 0.0, manager_deaths: float = 0.0, deaths: float = 0.0) -> World:
    """Two executors on one pool, from the first request to the last token; returns what became of the world."""
    requests = workload.mixed(seed, 24, longest=30, outputs=(3, 18))
    loads = {"a": requests[::2], "b": requests[1::2]}
    world = World(seed, folder, loads)
    try:
        world.run(ACTS, loss, manager_deaths, deaths)
        assert list(world.contradictions()) == []
        for name, load in loads.items():
            expected = {uuid: output for request in load for uuid, output in request.expected().items()}
            assert ended(folder / name) == {}
            assert delivered(folder / name) == {uuid: list(enumerate(output)) for uuid, output in expected.items()}
        state = world.manager.pool.state
        assert list(state.sequences.live()) == []
        assert state.available() == world.manager.pool.geometry.device_blocks - 1, "every block is free or cached"
    finally:
        world.close()
    return world


@pytest.mark.parametrize("seed", range(3))
def test_without_faults(seed: int, tmp_path: Path) -> None:
    world = run(seed, tmp_path)
    assert (world.deaths, world.manager.deaths, world.lost) == (0, 0, 0)


@pytest.mark.parametrize("seed", range(10, 14))
def test_with_messages_lost(seed: int, tmp_path: Path) -> None:
    assert run(seed, tmp_path, loss=0.2).lost > 20


@pytest.mark.parametrize("seed", range(20, 24))
def test_with_managers_killed(seed: int, tmp_path: Path) -> None:
    assert run(seed, tmp_path, manager_deaths=0.015).manager.deaths > 5


@pytest.mark.parametrize("seed", range(30, 34))
def test_with_executors_killed(seed: int, tmp_path: Path) -> None:
    assert run(seed, tmp_path, deaths=0.008).deaths > 2


@pytest.mark.parametrize("seed", range(40, 48))
def test_with_all_of_it_at_once(seed: int, tmp_path: Path) -> None:
    world = run(seed, tmp_path, loss=0.1, manager_deaths=0.005, deaths=0.004)
    assert min(world.deaths, world.manager.deaths, world.lost) > 0
