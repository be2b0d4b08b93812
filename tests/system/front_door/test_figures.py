"""What a door's metrics say when everybody has hung up."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import grpc
import pytest

from blockmgr.core.states import FinishReason
from pagehold.admin.v1 import evict_pb2
from pagehold.common.v1 import states_pb2
from pagehold.inference.v1 import generation_pb2
from tests.scripted.answers import Answer
from tests.scripted.doors import DoorProcess
from tests.scripted.engine_service import ScriptedEngine
from tests.scripted.processes import wait_until
from tests.scripted.scene import Scene, words
from tests.scripted.world import World

STREAMS = 100
WAITING = 20
"""Streams of which nothing is accepted when they are given up."""


@pytest.fixture
def port() -> Iterator[int]:
    """One that is free, and is given to nobody else meanwhile."""
    with socket.socket() as kept:
        # Whoever says so may listen at a port that is bound and not listened at.
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        yield kept.getsockname()[1]


@pytest.fixture
def counted(world: World, folder: Path, port: int) -> Iterator[Scene]:
    """A door with metrics, before an engine whose sequences never end by themselves."""
    with (
        ScriptedEngine(world.runtime_dir, folder, lambda _: Answer(words(200), None), limit=3) as engine,
        DoorProcess(world.runtime_dir, "counted", metrics_port=port) as door,
    ):
        door.await_serving()
        yield Scene(world, engine, door)


def figures(port: int) -> dict[str, float]:
    with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = re.findall(r"^pagehold_door_(\S+) (\S+)$", answer.read().decode(), re.MULTILINE)
    return {name: float(value) for name, value in lines}


def test_a_hundred_streams_given_up_at_once_are_counted_and_nothing_is_in_use_any_more(
    counted: Scene, port: int
) -> None:
    running = [counted.door.generate(5 + place % 90, *words(20)) for place in range(STREAMS - WAITING)]
    for call in running:
        call.await_tokens(3)
    counted.engine.admits = False
    waiting = [counted.door.generate(5) for _ in range(WAITING)]
    wait_until(lambda: len(counted.listed()) == STREAMS, "all are in the engine")
    assert figures(port)["in_flight"] == STREAMS
    for call in (*running, *waiting):
        call.hang_up()
    counted.await_idle()
    now = figures(port)
    assert (now['requests_total{reason="hung_up"}'], now["in_flight"]) == (STREAMS, 0)
    ends = {name for name in now if name.startswith("requests_total")}
    assert ends == {'requests_total{reason="hung_up"}'}
    assert now['tokens_total{kind="prompt"}'] == 21 * (STREAMS - WAITING), "of those that were accepted"
    assert {*counted.engine.ended.values()} == {FinishReason.CANCELLED}
    check_pool_is_free(counted.world)


def test_a_batch_that_is_refused_is_counted(counted: Scene, port: int) -> None:
    before = figures(port)
    with pytest.raises(grpc.RpcError, match="requests is 0 items long"):
        list(counted.door.stub.BatchGenerate(generation_pb2.BatchGenerateRequest(), timeout=60))
    counts = {name: value - before.get(name, 0) for name, value in figures(port).items() if "requests_total" in name}
    assert [value for value in counts.values() if value] == [1.0]


def check_pool_is_free(world: World) -> None:
    """By the manager's own count nothing is in use, and with the cache flushed every block is free."""

    def states() -> dict[int, int]:
        world.admin.Flush(evict_pb2.FlushRequest(), timeout=60)
        return {count.state: count.blocks for count in world.statistics().tiers[0].states}

    blocks = world.statistics().tiers[0].blocks
    free = {states_pb2.BLOCK_STATE_NULL: 1, states_pb2.BLOCK_STATE_FREE: blocks - 1}
    wait_until(lambda: states() == free, "every fence has opened, and every block is free")
    assert world.violated_invariants() == []
