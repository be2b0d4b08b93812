"""Requests by name: hanging up, cancelling, attaching, looking at them."""

import grpc
import pytest

from blockmgr.core.states import FinishReason
from pagehold.inference.v1 import generation_pb2, requests_pb2
from tests.scripted.answers import Answer
from tests.scripted.doors import Call, DoorProcess, reason
from tests.scripted.processes import wait_until
from tests.scripted.scene import Scene, words

CANCELLED = generation_pb2.END_REASON_CANCELLED


def endless(scene: Scene) -> None:
    """Sequences get some tokens, and never end by themselves."""
    scene.engine.answer = lambda _: Answer(words(200), None)
    scene.engine.limit = 3


def await_end(scene: Scene, uuid: bytes) -> FinishReason:
    return wait_until(lambda: scene.engine.ended.get(uuid), "the engine has ended it")


def start(scene: Scene, **fields: object) -> tuple[Call, bytes]:
    call = scene.door.generate(5, stopping={"max_tokens": 100}, **fields)
    call.await_tokens(3)
    return call, scene.engine.starts[-1].uuid


def test_hanging_up_ends_the_generation(scene: Scene) -> None:
    endless(scene)
    call, uuid = start(scene)
    call.hang_up()
    assert await_end(scene, uuid) == FinishReason.CANCELLED


def test_hanging_up_before_acceptance_ends_it_too(scene: Scene) -> None:
    scene.engine.admits = False
    call = scene.door.generate(5)
    wait_until(lambda: scene.engine.starts, "it waits")
    uuid = scene.engine.starts[-1].uuid
    call.hang_up()
    wait_until(lambda: uuid in scene.engine.cancels, "the engine was told")
    assert uuid not in scene.engine.ended


def test_a_detached_generation_goes_on_and_is_found_again(scene: Scene) -> None:
    endless(scene)
    call, uuid = start(scene, detached=True, request_id="detached")
    call.hang_up()
    wait_until(lambda: uuid in scene.engine.forgets, "the door has let go of it")
    assert uuid not in scene.engine.ended
    again = scene.door.attach(request_id="detached").await_tokens(3)
    scene.engine.limit = 50
    again.await_tokens(50)
    assert scene.door.stub.Cancel(requests_pb2.CancelRequest(request_id="detached")).cancelled
    assert again.whole().finished.reason == CANCELLED
    assert again.ids == words(50)


def test_a_detached_request_that_waits_goes_on_too(scene: Scene) -> None:
    scene.engine.admits = False
    call = scene.door.generate(5, detached=True, stopping={"max_tokens": 4})
    wait_until(lambda: scene.engine.starts, "it waits")
    uuid = scene.engine.starts[-1].uuid
    call.hang_up()
    wait_until(lambda: scene.in_flight() == 0, "its client is gone")
    scene.engine.admits = True
    assert await_end(scene, uuid) == FinishReason.LENGTH


def test_cancelling_ends_a_stream_well(scene: Scene) -> None:
    endless(scene)
    call, uuid = start(scene)
    key = requests_pb2.CancelRequest(id=call.events[0].started.id)
    assert scene.door.stub.Cancel(key).cancelled
    assert call.whole().finished.reason == CANCELLED
    assert call.ids == words(3)
    assert await_end(scene, uuid) == FinishReason.CANCELLED
    assert not scene.door.stub.Cancel(key).cancelled, "it had ended before"


def test_cancelling_before_acceptance_ends_the_call_as_cancelled(scene: Scene) -> None:
    scene.engine.admits = False
    call = scene.door.generate(5, request_id="waits")
    wait_until(lambda: scene.listed(), "it waits")
    assert scene.door.stub.Cancel(requests_pb2.CancelRequest(request_id="waits")).cancelled
    assert call.failure().code() == grpc.StatusCode.CANCELLED


def test_cancelling_what_has_ended_or_was_never_there_disturbs_nobody(scene: Scene) -> None:
    neighbours = [scene.door.generate(5, stopping={"max_tokens": 100}) for _ in range(4)]
    done = scene.door.generate(5, stopping={"max_tokens": 1}, request_id="done").whole()
    for key in ({"request_id": "done"}, {"id": done.events[0].started.id}):
        assert not scene.door.stub.Cancel(requests_pb2.CancelRequest(**key)).cancelled
    with pytest.raises(grpc.RpcError, match="NOT_FOUND"):
        scene.door.stub.Cancel(requests_pb2.CancelRequest(request_id="unheard of"))
    assert all(call.whole().ids == words(100) for call in neighbours)


@pytest.mark.parametrize("first", [0, 1, 2, 3])
def test_attaching_sends_what_is_past_from_a_token_on_and_then_what_comes(scene: Scene, first: int) -> None:
    endless(scene)
    call, _ = start(scene, request_id=f"attached-{first}")
    attached = scene.door.attach(request_id=f"attached-{first}", from_token=first)
    started = attached.await_started()
    assert (started.id, started.prompt_tokens, started.stopping.max_tokens) == (call.events[0].started.id, 1, 100)
    scene.engine.limit = 10
    attached.await_tokens(10 - first)
    call.await_tokens(10)
    assert (attached.first, attached.ids, call.ids) == (first, words(10)[first:], words(10))
    assert attached.text == "".join(f"w{number} " for number in range(first, 10))
    attached.hang_up()
    assert call.whole().finished.reason == CANCELLED, "the newest one's hang-up is what counts"


def test_hanging_up_on_a_generation_that_another_attached_to_ends_nothing(scene: Scene) -> None:
    endless(scene)
    call, uuid = start(scene, request_id="handed over")
    attached = scene.door.attach(request_id="handed over").await_tokens(3)
    call.hang_up()
    wait_until(lambda: scene.in_flight() == 1, "the first client is gone")
    scene.engine.limit = 20
    attached.await_tokens(20)
    assert uuid not in scene.engine.ended
    attached.hang_up()
    assert await_end(scene, uuid) == FinishReason.CANCELLED


def test_who_attached_in_vain_has_not_taken_over_the_hang_up(scene: Scene) -> None:
    endless(scene)
    call, uuid = start(scene, request_id="still mine")
    refused = scene.door.attach(request_id="still mine", from_token=99).failure()
    assert refused.code() == grpc.StatusCode.OUT_OF_RANGE
    call.hang_up()
    assert await_end(scene, uuid) == FinishReason.CANCELLED


def test_attaching_to_what_has_ended_replays_it_to_the_same_end(scene: Scene) -> None:
    scene.engine.answer = lambda _: Answer(words(200))
    call = scene.door.generate(5, request_id="past", stopping={"max_tokens": 90, "stop": ["w20 w21"]}).whole()
    scene.await_idle()
    again = scene.door.attach(request_id="past").whole()
    assert (again.text, again.ids, again.finished.stop) == (call.text, call.ids, "w20 w21")
    rest = scene.door.attach(id=call.events[0].started.id, from_token=15).whole()
    assert (rest.ids, call.text.endswith(rest.text), rest.text[:4]) == (call.ids[15:], True, "w15 ")
    assert rest.finished.usage == call.finished.usage


def test_how_a_request_stands_is_told_in_each_state(scene: Scene) -> None:
    stub, name = scene.door.stub, {"request_id": "watched"}
    endless(scene)
    scene.engine.admits = False
    call = scene.door.generate(5, stopping={"max_tokens": 100}, **name)
    waiting = wait_until(lambda: scene.listed(), "it waits")[0]
    assert (waiting.state, waiting.request_id) == (requests_pb2.REQUEST_STATE_WAITING, "watched")
    assert stub.GetRequest(requests_pb2.GetRequestRequest(**name)).request.state == waiting.state
    scene.engine.admits = True
    call.await_tokens(3)
    running = stub.GetRequest(requests_pb2.GetRequestRequest(**name)).request
    assert (running.state, running.output_tokens) == (requests_pb2.REQUEST_STATE_RUNNING, 3)
    assert running.id == waiting.id == scene.listed()[0].id
    stub.Cancel(requests_pb2.CancelRequest(id=running.id))
    call.whole()
    finished = stub.GetRequest(requests_pb2.GetRequestRequest(**name)).request
    assert (finished.state, finished.reason) == (requests_pb2.REQUEST_STATE_FINISHED, CANCELLED)
    assert running.created == finished.created <= finished.finished


def test_names_are_known_through_every_door(scene: Scene) -> None:
    endless(scene)
    with DoorProcess(scene.world.runtime_dir, "other") as other:
        other.await_serving()
        call, uuid = start(scene, request_id="shared")
        taken = other.generate(5, request_id="shared", stopping={"max_tokens": 100}).failure()
        assert (taken.code(), reason(taken)) == (grpc.StatusCode.ALREADY_EXISTS, "ALREADY_EXISTS")
        differs = other.generate(6, request_id="shared").failure()
        assert (differs.code(), "another body" in differs.details()) == (grpc.StatusCode.INVALID_ARGUMENT, True)
        attached = other.attach(request_id="shared").await_tokens(3)
        scene.engine.admits = False
        waits = scene.door.generate(8, request_id="waits here")
        everything = requests_pb2.ListRequestsRequest()
        wait_until(lambda: len(other.stub.ListRequests(everything).requests) == 2, "the engine knows that it waits")
        assert other.stub.Cancel(requests_pb2.CancelRequest(request_id="waits here")).cancelled
        assert waits.failure().code() == grpc.StatusCode.CANCELLED
        assert other.stub.Cancel(requests_pb2.CancelRequest(request_id="shared")).cancelled
        assert attached.whole().finished.reason == call.whole().finished.reason == CANCELLED
        assert await_end(scene, uuid) == FinishReason.CANCELLED
