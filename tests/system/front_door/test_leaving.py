"""Batches whose door stops, and generations that are given up: what runs goes on or ends, and nothing new begins."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from blockmgr.core.states import FinishReason
from pagehold.common.v1 import errors_pb2
from pagehold.inference.v1 import generation_pb2, requests_pb2
from tests.scripted.doors import Call, DoorProcess, details, reason, request
from tests.scripted.engine_service import ScriptedEngine
from tests.scripted.processes import wait_until
from tests.scripted.scene import Scene, echo, words
from tests.scripted.world import World

PLACES = 3
TOKENS = 60
BEFORE = 10
NOT_SERVING = (grpc.StatusCode.UNAVAILABLE.value[0], errors_pb2.ERROR_REASON_NOT_SERVING)


@pytest.fixture
def engine(world: World, folder: Path) -> Iterator[ScriptedEngine]:
    """One that records ten tokens of each sequence and then stands still."""
    with ScriptedEngine(world.runtime_dir, folder, echo, limit=BEFORE) as engine:
        yield engine


class BatchCall(Call):
    """A batch, read as it comes: the events and failures of each item."""

    def __init__(self, door: DoorProcess, count: int) -> None:
        items = [request(5, stopping={"max_tokens": TOKENS}) for _ in range(count)]
        self.failures: dict[int, Any] = {}
        self.items: dict[int, list[Any]] = {}
        super().__init__(self._sorted(door.stub.BatchGenerate(generation_pb2.BatchGenerateRequest(requests=items))))

    def _sorted(self, call: Any) -> Iterator[Any]:
        for response in call:
            if response.HasField("failure"):
                self.failures[response.item] = response.failure
            else:
                self.items.setdefault(response.item, []).append(response.event)
            yield response

    def tokens(self, item: int) -> list[int]:
        """Output ids of one item so far."""
        return [token for event in list(self.items.get(item, [])) for token in event.delta.ids]

    def running(self) -> list[int]:
        """Items that have got all that they get for now."""
        return [item for item in list(self.items) if len(self.tokens(item)) >= BEFORE]


def test_a_door_that_stops_starts_no_more_of_a_batch_and_what_runs_comes_to_its_end(
    world: World, engine: ScriptedEngine
) -> None:
    with DoorProcess(world.runtime_dir, "stopping", max_requests=PLACES, grace=600) as door:
        door.await_serving()
        batch = BatchCall(door, 2 * PLACES)
        wait_until(lambda: len(batch.running()) == PLACES, "as many run as there are places")
        door.terminate()
        wait_until(lambda: len(batch.failures) == PLACES, "those that wait are refused")
        assert {(one.code, one.reason) for one in batch.failures.values()} == {NOT_SERVING}
        assert not {*batch.failures} & {*batch.items}
        engine.limit = None
        batch.whole()
        assert all(batch.tokens(item) == words(TOKENS) for item in batch.items)
        assert len(engine.starts) == PLACES
        assert door.process.wait(60) == 0


def test_items_that_outlast_the_grace_end_as_their_own_calls_would_and_go_on(
    world: World, engine: ScriptedEngine, lasting: DoorProcess
) -> None:
    lasting.await_serving()
    with DoorProcess(world.runtime_dir, "stopping", grace=1) as door:
        door.await_serving()
        batch = BatchCall(door, PLACES)
        wait_until(lambda: len(batch.running()) == PLACES, "all run")
        door.terminate()
        batch.whole()
        assert {(one.code, one.reason) for one in batch.failures.values()} == {NOT_SERVING}
        assert all("attach" in one.message for one in batch.failures.values())
        assert (len(batch.failures), engine.ended) == (PLACES, {})
        engine.limit = None
        for events in batch.items.values():
            assert lasting.attach(id=events[0].started.id).whole().ids == words(TOKENS)
        assert door.process.wait(60) == 0


@pytest.fixture(scope="module")
def impatient(world: World, folder: Path) -> Iterator[DoorProcess]:
    """A door that waits for a lost engine for two seconds."""
    with DoorProcess(world.runtime_dir, "impatient", lost_seconds=2) as door:
        with ScriptedEngine(world.runtime_dir, folder, echo):
            door.await_serving()
        yield door


def test_an_engine_that_does_not_come_back_loses_the_generation_with_its_count(
    world: World, folder: Path, impatient: DoorProcess
) -> None:
    with ScriptedEngine(world.runtime_dir, folder, echo, limit=BEFORE) as engine:
        impatient.await_serving()
        call = impatient.generate(5, stopping={"max_tokens": TOKENS}).await_tokens(BEFORE)
        engine.admits = False
        waiting = impatient.generate(30)
        wait_until(lambda: len(engine.starts) == 2, "one more waits")
    error = call.failure()
    assert (error.code(), reason(error)) == (grpc.StatusCode.UNAVAILABLE, "GENERATION_LOST")
    assert dict(details(error)["ErrorInfo"].metadata) == {"tokens": str(BEFORE)}
    assert call.ids == words(BEFORE)
    assert (waiting.failure().code(), reason(waiting.failure())) == (grpc.StatusCode.UNAVAILABLE, "NOT_SERVING")
    with ScriptedEngine(world.runtime_dir, folder, echo) as again:
        impatient.await_serving()
        Scene(world, again, impatient).await_idle()


@pytest.mark.parametrize("manager_dies", [False, True])
def test_what_is_given_up_is_cancelled_and_what_is_detached_goes_on(
    world: World, folder: Path, impatient: DoorProcess, manager_dies: bool
) -> None:
    door = impatient
    with ScriptedEngine(world.runtime_dir, folder, echo, limit=BEFORE) as engine:
        door.await_serving()
        lost, kept = (
            door.generate(5 + place, stopping={"max_tokens": TOKENS}, detached=bool(place)).await_tokens(BEFORE)
            for place in range(2)
        )
        engine.admits = False
        waiting = door.generate(30)
        wait_until(lambda: len(engine.starts) == 3, "one more waits")
        uuids = [start.uuid for start in engine.starts]
    pid = world.kill_manager() if manager_dies else 0
    assert reason(lost.failure()) == reason(kept.failure()) == "GENERATION_LOST"
    assert reason(waiting.failure()) == "NOT_SERVING"
    world.await_manager(other_than=pid)
    key = requests_pb2.GetRequestRequest(id=lost.events[0].started.id)

    def end() -> generation_pb2.EndReason:
        return door.stub.GetRequest(key, timeout=60).request.reason

    with ScriptedEngine(world.runtime_dir, folder, echo) as again:
        door.await_serving()
        assert wait_until(end, "whoever comes back is told") == generation_pb2.END_REASON_CANCELLED
        assert door.attach(id=kept.events[0].started.id).whole().ids == words(TOKENS)
        assert again.ended.get(uuids[0], FinishReason.CANCELLED) == FinishReason.CANCELLED
        assert uuids[2] not in again.ended
        assert uuids[2] not in {start.uuid for start in again.starts}
        Scene(world, again, door).await_idle()
        assert world.violated_invariants() == []
