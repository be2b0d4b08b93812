"""Clients that do not read what is sent to them keep neither a place nor a generation."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from blockmgr.core.states import FinishReason
from pagehold.inference.v1 import generation_pb2, inference_service_pb2_grpc, requests_pb2
from tests.scripted.doors import DoorProcess, details, reason, request
from tests.scripted.engine_service import ScriptedEngine
from tests.scripted.processes import wait_until
from tests.scripted.scene import PATIENT, Scene, echo, words
from tests.scripted.world import running

PLACES = 8
MORE_THAN_FITS = 3000
"""Tokens; what is sent of them fills the window below many times over."""

WINDOW = [("grpc.http2.lookahead_bytes", 1024), ("grpc.http2.bdp_probe", 0), ("grpc.use_local_subchannel_pool", 1)]
"""A client that takes a kilobyte of what it has not asked for, and no more."""

GEOMETRY = {"max_length": 8192, "tokens_per_block": 256, "device_blocks": 512, "max_sequences": 64}


@pytest.fixture(scope="module")
def strict(folder: Path) -> Iterator[Scene]:
    """A door with few places, which waits for a reader for a second."""
    with (
        running(**PATIENT) as world,
        ScriptedEngine(world.runtime_dir, folder, echo, geometry=GEOMETRY) as engine,
        DoorProcess(world.runtime_dir, max_requests=PLACES, reader_seconds=1) as door,
    ):
        engine.burst = 100
        door.await_serving()
        yield Scene(world, engine, door)


@pytest.fixture
def stub(strict: Scene) -> Iterator[inference_service_pb2_grpc.InferenceServiceStub]:
    """Calls on a connection with a small window."""
    with grpc.insecure_channel(strict.door.address, options=WINDOW) as channel:
        yield inference_service_pb2_grpc.InferenceServiceStub(channel)


def failure(stream: Any) -> tuple[int, Any]:
    """How many messages come, and the error behind them."""
    count = 0
    try:
        for _ in stream:
            count += 1
    except grpc.RpcError as error:
        return count, error
    raise AssertionError(f"it ended well after {count} messages")


def long_request(**fields: Any) -> generation_pb2.GenerateRequest:
    return request(5, stopping={"max_tokens": MORE_THAN_FITS}, **fields)


def test_streams_that_are_never_read_give_their_places_back_and_say_why_to_whoever_reads(
    strict: Scene, stub: inference_service_pb2_grpc.InferenceServiceStub
) -> None:
    strict.engine.limit = 1
    unread = [stub.Generate(long_request()) for _ in range(PLACES)]
    wait_until(lambda: strict.in_flight() == PLACES, "every place is taken")
    strict.engine.limit = None
    strict.await_idle()
    assert strict.door.generate(5, stopping={"max_tokens": 1}).whole().ids == words(1)
    for stream in unread:
        count, error = failure(stream)
        assert (error.code(), reason(error)) == (grpc.StatusCode.ABORTED, "NOT_READ")
        assert dict(details(error)["ErrorInfo"].metadata) == {"seconds": "1"}
        assert count > 0


def test_what_is_not_read_ends_and_what_is_detached_goes_on(
    strict: Scene, stub: inference_service_pb2_grpc.InferenceServiceStub
) -> None:
    strict.engine.limit = MORE_THAN_FITS - 1
    unread = [stub.Generate(long_request(detached=kept)) for kept in (False, True)]
    ended, kept = (next(stream).event.started.id for stream in unread)
    wait_until(lambda: strict.in_flight() == 0, "both places are free")

    def end() -> generation_pb2.EndReason:
        return strict.door.stub.GetRequest(requests_pb2.GetRequestRequest(id=ended), timeout=60).request.reason

    assert wait_until(end, "the first is over") == generation_pb2.END_REASON_CANCELLED
    strict.engine.limit = None
    assert strict.door.attach(id=kept).whole().ids == words(MORE_THAN_FITS)
    assert set(strict.engine.ended.values()) == {FinishReason.CANCELLED, FinishReason.LENGTH}
    strict.await_idle()


def test_a_batch_that_is_not_read_gives_all_its_places_back(
    strict: Scene, stub: inference_service_pb2_grpc.InferenceServiceStub
) -> None:
    strict.engine.limit = 1
    # Three events of each at least, far more than wait for a reader beside their generations.
    items = [request(5, stopping={"max_tokens": MORE_THAN_FITS // 10})] * (6 * PLACES)
    batch = stub.BatchGenerate(generation_pb2.BatchGenerateRequest(requests=items))
    wait_until(lambda: strict.in_flight() == PLACES, "it has every place")
    strict.engine.limit = None
    strict.await_idle()
    _, error = failure(batch)
    assert (error.code(), reason(error)) == (grpc.StatusCode.ABORTED, "NOT_READ")


def test_three_thousand_calls_at_once_are_all_answered_with_a_word_of_the_door(strict: Scene) -> None:
    waiting = [strict.door.stub.Cancel.future(requests_pb2.CancelRequest(request_id="none")) for _ in range(3000)]
    assert {(call.code(), reason(call)) for call in waiting} == {(grpc.StatusCode.NOT_FOUND, "NOT_FOUND")}
