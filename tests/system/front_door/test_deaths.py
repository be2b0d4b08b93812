"""Engines, managers and doors that die: a client's stream goes on, and each token comes once."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from blockmgr.core.states import FinishReason
from pagehold.inference.v1 import generation_pb2, requests_pb2
from tests.scripted.doors import Call, DoorProcess, reason
from tests.scripted.engine_service import ScriptedEngine
from tests.scripted.processes import wait_until
from tests.scripted.scene import PATIENT, Scene, echo, words
from tests.scripted.world import World, running

TOKENS = 120
BEFORE = 10


@pytest.fixture
def own(world: World, lasting: DoorProcess, folder: Path) -> Iterator[Scene]:
    """An engine of this test's own, which records ten tokens of each sequence and then stands still."""
    scene = Scene(world, restarted(world, folder, limit=BEFORE), lasting)
    lasting.await_serving()
    scene.await_heard()
    yield scene
    if scene.engine.is_closed:
        scene.engine = restarted(world, folder)
    scene.engine.limit, scene.engine.admits = None, True
    try:
        scene.await_idle()
    finally:
        # Or else no later test's engine could have its name.
        scene.engine.kill()


@pytest.fixture(scope="module")
def restless(folder: Path) -> Iterator[Scene]:
    """A world of this module's own, whose sequences are soon anybody's, and a door before engines of its tests."""
    quick = PATIENT | {"adoption_seconds": 0.5}
    with running(**quick) as world, DoorProcess(world.runtime_dir) as door:
        with ScriptedEngine(world.runtime_dir, folder, echo) as engine:
            door.await_serving()
        yield Scene(world, engine, door)


def restarted(world: World, folder: Path, limit: int | None = None) -> ScriptedEngine:
    return ScriptedEngine(world.runtime_dir, folder, echo, limit=limit)


def begin(door: DoorProcess, count: int = 3) -> list[Call]:
    calls = [door.generate(5 + number, stopping={"max_tokens": TOKENS}) for number in range(count)]
    return [call.await_tokens(BEFORE) for call in calls]


def check_whole(calls: list[Call]) -> None:
    for call in calls:
        assert call.whole(60).ids == words(TOKENS)
        assert call.finished.usage.output_tokens == TOKENS


def test_streams_outlive_an_engine_that_comes_back_and_each_token_comes_once(own: Scene, folder: Path) -> None:
    calls = begin(own.door)
    own.engine.admits = False
    waiting = own.door.generate(20, stopping={"max_tokens": TOKENS})
    wait_until(lambda: len(own.engine.starts) == 4, "one more waits")
    for _ in range(2):
        own.engine.kill()
        wait_until(lambda: own.door.health() == "NOT_SERVING", "the door has noticed")
        own.engine = restarted(own.world, folder, limit=BEFORE)
        own.door.await_serving()
    own.engine.limit = None
    check_whole([*calls, waiting])
    own.await_idle()
    assert own.world.violated_invariants() == []


def test_streams_outlive_a_stream_that_breaks_between_door_and_engine(own: Scene) -> None:
    calls = begin(own.door)
    heard = len(own.engine.starts)
    own.engine.stop_streams()
    wait_until(lambda: len(own.engine.starts) == heard + 3, "everything is started again")
    assert {start.uuid for start in own.engine.starts[heard:]} == {start.uuid for start in own.engine.starts[:heard]}
    own.engine.limit = None
    check_whole(calls)


def test_streams_outlive_the_manager(own: Scene) -> None:
    calls = begin(own.door)
    pid = own.world.kill_manager()
    stopped = own.door.generate(50, stopping={"max_tokens": TOKENS, "stop": ["w5 w6"]})
    own.engine.limit = None
    own.world.await_manager(other_than=pid)
    check_whole(calls)
    assert stopped.whole().text == "w0 w1 w2 w3 w4 "
    own.await_idle()


def test_a_hang_up_while_the_manager_is_away_is_heard_by_the_next_one(own: Scene) -> None:
    (call,) = begin(own.door, 1)
    uuid = own.engine.starts[-1].uuid
    pid = own.world.kill_manager()
    call.hang_up()
    own.world.await_manager(other_than=pid)
    assert wait_until(lambda: own.engine.ended.get(uuid), "it has ended") == FinishReason.CANCELLED


def test_a_generation_moves_with_its_sequence_to_another_engine(restless: Scene, folder: Path) -> None:
    world, door = restless.world, restless.door
    with (
        ScriptedEngine(world.runtime_dir, folder, echo, name="second") as second,
        ScriptedEngine(world.runtime_dir, folder, echo, name="first", limit=BEFORE) as first,
    ):
        second.draining = True  # so that the first one gets it

        def is_given_to_the_first() -> bool:
            door.generate(9, stopping={"max_tokens": 1}).ended()
            return bool(first.starts)

        wait_until(is_given_to_the_first, "work goes to the first engine")
        heard = len(first.starts)
        calls = begin(door)
        assert len(first.starts) == heard + len(calls)
        first.kill()
        second.adopt_from("first")
        check_whole(calls)
        assert {*second.ended} >= {start.uuid for start in first.starts[heard:]}


def test_what_is_lost_with_all_memory_is_said_to_be_and_never_mixed_with_what_comes_after(
    restless: Scene, folder: Path
) -> None:
    world, door = restless.world, restless.door
    with restarted(world, folder, limit=BEFORE) as engine:
        door.await_serving()
        (call,) = begin(door, 1)
        world.keeper.kill()
        world.keeper.wait()
        engine.kill()
        pid = world.kill_manager()
    world.start_keeper()
    world.await_manager(other_than=pid)
    with restarted(world, folder):
        error = call.failure()
        assert (error.code(), reason(error)) == (grpc.StatusCode.UNAVAILABLE, "GENERATION_LOST")
        assert call.ids == words(BEFORE)
        door.await_serving()
        check_whole([door.generate(5, stopping={"max_tokens": TOKENS})])


def test_a_time_budget_ends_well_though_its_engine_is_away(own: Scene) -> None:
    call = own.door.generate(5, stopping={"max_tokens": TOKENS}, time_budget=3.0).await_tokens(BEFORE)
    own.engine.admits = False
    waiting = own.door.generate(6, time_budget=2.0)
    wait_until(lambda: len(own.engine.starts) == 2, "one more waits")
    own.engine.kill()
    for late, tokens in ((waiting, 0), (call, BEFORE)):
        assert late.whole().finished.reason == generation_pb2.END_REASON_DEADLINE
        assert late.finished.usage.output_tokens == len(late.ids) == tokens


def test_tokens_recorded_and_never_announced_are_delivered_when_the_engine_is_gone(own: Scene) -> None:
    (call,) = begin(own.door, 1)
    own.await_heard()
    own.engine.mute = True
    own.engine.limit = BEFORE + 5
    reader = own.engine.hand.registration.mapping.ledger
    (work,) = own.engine.listed()
    wait_until(lambda: len(reader.tokens(work.handle, 1)) == BEFORE + 5, "more is recorded")  # type: ignore[arg-type]
    assert len(call.ids) == BEFORE
    own.engine.kill()
    call.await_tokens(BEFORE + 5)


def test_the_death_of_a_door_ends_nothing_and_another_goes_on(own: Scene) -> None:
    with DoorProcess(own.world.runtime_dir, "other") as other:
        other.await_serving()
        calls = [
            other.generate(5 + number, stopping={"max_tokens": TOKENS}, request_id=f"r{number}") for number in range(3)
        ]
        for call in calls:
            call.await_tokens(BEFORE)
        other.kill()
        assert all(call.failure().code() == grpc.StatusCode.UNAVAILABLE for call in calls)
    attached = [own.door.attach(request_id=f"r{number}", from_token=BEFORE) for number in range(3)]
    own.engine.limit = None
    for call, rest in zip(calls, attached, strict=True):
        assert call.ids + rest.whole(60).ids == words(TOKENS)
        assert call.text + rest.text == "".join(f"w{number % 100} " for number in range(TOKENS))


def test_a_stop_finishes_streams_within_the_grace_and_refuses_what_is_new(own: Scene) -> None:
    with DoorProcess(own.world.runtime_dir, "stopping", grace=600, announce_seconds=600) as door:
        door.await_serving()
        calls = begin(door, 5)
        with pytest.raises(grpc.RpcError, match="NOT_FOUND"):  # a handler that has called abort
            door.stub.GetRequest(requests_pb2.GetRequestRequest(request_id="none"))
        door.terminate()
        wait_until(lambda: door.health() == "NOT_SERVING", "not serving, at once")
        error = door.generate(9).failure()
        assert (error.code(), reason(error)) == (grpc.StatusCode.UNAVAILABLE, "NOT_SERVING")
        own.engine.limit = None
        check_whole(calls)
        assert door.process.wait(60) == 0


def test_streams_that_outlast_the_grace_end_with_a_status_and_their_generations_go_on(own: Scene) -> None:
    with DoorProcess(own.world.runtime_dir, "other", grace=1.5) as other:
        other.await_serving()
        calls = begin(other, 5)
        other.terminate()
        for call in calls:
            error = call.failure()
            assert (error.code(), reason(error)) == (grpc.StatusCode.UNAVAILABLE, "NOT_SERVING")
            assert "attach" in error.details()
        assert other.process.wait(60) == 0
    assert own.engine.ended == {}
    ids = [call.events[0].started.id for call in calls]
    own.engine.limit = None
    assert all(own.door.attach(id=one).whole(60).ids == words(TOKENS) for one in ids)


def test_a_door_takes_neither_name_nor_socket_from_one_that_lives(own: Scene) -> None:
    same_name = DoorProcess(own.world.runtime_dir, "lasting", address=f"unix:{own.world.runtime_dir}/elsewhere.sock")
    same_socket = DoorProcess(own.world.runtime_dir, "other", address=own.door.address)
    for other, said in ((same_name, "name is lasting: its socket is unix:"), (same_socket, "address is unix:")):
        with other:
            assert other.process.wait(60) == 1
            assert said in other.log()
    assert own.door.health() == "SERVING"


def test_a_second_signal_stops_at_once(own: Scene) -> None:
    with DoorProcess(own.world.runtime_dir, "other", grace=600, announce_seconds=600) as other:
        other.await_serving()
        (call,) = begin(other, 1)
        other.terminate()
        wait_until(lambda: other.health() == "NOT_SERVING", "it stops")
        other.terminate()
        assert other.process.wait(60) == 0
        assert call.failure().code() == grpc.StatusCode.UNAVAILABLE


def test_fifty_cancelled_streams_leave_nothing_behind(own: Scene) -> None:
    door = own.door

    def threads() -> int:
        return len(list(Path(f"/proc/{door.process.pid}/task").iterdir()))

    begin(door, 1)[0].hang_up()
    own.await_idle()
    before, faults = threads(), door.faults()
    for call in begin(door, 50):
        call.hang_up()
    own.await_idle()
    assert door.generate(5, stopping={"max_tokens": 1}).whole().ids == words(1)
    # Threads of gRPC's own, of which there are more while much happens, end a while after.
    wait_until(lambda: threads() <= before + 1, "there are no more threads than before")
    assert door.faults() == faults
    assert set(own.engine.ended.values()) <= {FinishReason.CANCELLED, FinishReason.LENGTH}


def test_asked_to_stop_while_it_knows_no_engine_it_ends_at_once() -> None:
    with tempfile.TemporaryDirectory(prefix="ph-") as name, DoorProcess(Path(name), start_seconds=600) as door:
        wait_until((Path(name) / "doors" / "door.sock").exists, "it has begun")
        door.terminate()
        assert door.process.wait(60) == 0
