"""A door under load: floods, messages of every size, quiet prefills, readiness."""

import concurrent.futures
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from pagehold.inference.v1 import generation_pb2, requests_pb2, tokens_pb2
from tests.scripted.answers import Answer
from tests.scripted.doors import Call, DoorProcess, details, reason, request
from tests.scripted.engine_service import ScriptedEngine
from tests.scripted.processes import wait_until
from tests.scripted.scene import PATIENT, Scene, echo, words
from tests.scripted.world import running

PLACES = 8
FLOOD = 400
LONGEST = 2_000_000
"""Tokens of the context of the model with a large one."""


@pytest.fixture(scope="module")
def small(folder: Path) -> Iterator[Scene]:
    """A door with few places."""
    with (
        running(**PATIENT) as world,
        ScriptedEngine(world.runtime_dir, folder, echo) as engine,
        DoorProcess(world.runtime_dir, max_requests=PLACES) as door,
    ):
        door.await_serving()
        yield Scene(world, engine, door)


def endless(scene: Scene) -> None:
    scene.engine.answer = lambda _: Answer(words(200), None)
    scene.engine.limit = 1


def hang_up(scene: Scene, calls: list[Call]) -> None:
    for call in calls:
        call.hang_up()
    scene.await_idle()
    scene.engine.answer, scene.engine.limit = echo, None


def test_health_and_cancel_answer_while_every_place_is_taken(small: Scene) -> None:
    endless(small)
    calls = [small.door.generate(5) for _ in range(PLACES)]
    for call in calls:
        call.await_tokens(1)
    error = small.door.generate(5).failure()
    assert (error.code(), reason(error)) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL")
    assert dict(details(error)["ErrorInfo"].metadata) == {"limit": str(PLACES)}
    assert details(error)["RetryInfo"].retry_delay.ToSeconds() <= 1
    trailers: Any = error.trailing_metadata()
    assert int(dict(trailers)["grpc-retry-pushback-ms"]) > 0
    assert small.door.health() == "SERVING"
    started = calls[0].events[0].started
    assert small.door.stub.Cancel(requests_pb2.CancelRequest(id=started.id), timeout=60).cancelled
    calls[0].whole()
    hang_up(small, calls[1:])


def answers_throughout_a_flood(door: DoorProcess) -> int:
    """Let a few hundred calls be refused; how often health was asked and has answered meanwhile."""
    answers = 0
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        flood = [pool.submit(door.generate, *words(200)) for _ in range(FLOOD)]
        while not all(call.done() and call.result().is_over() for call in flood):
            assert door.health() == "SERVING"
            answers += 1
        codes = {call.result().failure().code() for call in flood}
    assert codes == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    return answers


def test_health_answers_quickly_throughout_a_flood(small: Scene) -> None:
    endless(small)
    held = [small.door.generate(5).await_tokens(1) for _ in range(PLACES)]
    # One answer for twenty calls of a flood at least: counted, since everything here shares the machine with everything.
    # It may take several until the one who asks has had his share of it.
    assert any(answers_throughout_a_flood(small.door) >= FLOOD // 20 for _ in range(20))
    hang_up(small, held)


def test_a_batch_larger_than_the_door_waits_its_turn(small: Scene) -> None:
    items = [request(5 + number, stopping={"max_tokens": 3}) for number in range(5 * PLACES)]
    responses = list(small.door.stub.BatchGenerate(generation_pb2.BatchGenerateRequest(requests=items), timeout=60))
    ended = [one.item for one in responses if one.event.HasField("finished")]
    assert sorted(ended) == list(range(5 * PLACES))
    assert not any(one.HasField("failure") for one in responses)
    small.await_idle()


def test_hanging_up_on_a_batch_ends_all_of_it(small: Scene) -> None:
    endless(small)
    items = [request(5) for _ in range(3 * PLACES)]
    call = small.door.stub.BatchGenerate(generation_pb2.BatchGenerateRequest(requests=items))
    heard = [next(call) for _ in range(PLACES)]
    assert heard
    call.cancel()
    small.await_idle()
    small.engine.answer, small.engine.limit = echo, None


def test_an_engine_that_gives_no_sign_of_life_is_not_ready(small: Scene) -> None:
    with DoorProcess(small.world.runtime_dir, "strict", heartbeat_seconds=0.5) as door:
        door.await_serving()
        small.engine.silent = True
        wait_until(lambda: door.health() == "NOT_SERVING", "its last sign of life is too old")
        error = door.generate(5).failure()
        small.engine.silent = False
        assert (error.code(), reason(error)) == (grpc.StatusCode.UNAVAILABLE, "NOT_SERVING")
        door.await_serving()


def test_clients_may_ping_while_nothing_else_moves(small: Scene) -> None:
    small.engine.answer = lambda _: Answer([], None)
    options = [
        ("grpc.keepalive_time_ms", 100),
        ("grpc.keepalive_timeout_ms", 60_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    with grpc.insecure_channel(small.door.address, options=options) as channel:
        generate = channel.unary_stream(
            "/pagehold.inference.v1.InferenceService/Generate",
            request_serializer=generation_pb2.GenerateRequest.SerializeToString,
            response_deserializer=generation_pb2.GenerateResponse.FromString,
        )
        call = Call(generate(request(5)))
        call.await_started()
        # Thirty pings into the quiet, of which a strict server forgives two.
        assert not call.is_over(within=3)
        call.hang_up()
    small.await_idle()
    small.engine.answer = echo


def test_a_prompt_of_a_million_and_a_half_tokens_arrives_and_one_message_too_large_does_not(folder: Path) -> None:
    geometry = {"max_length": LONGEST, "tokens_per_block": 1024, "device_blocks": 2048, "max_sequences": 4}
    with (
        running(**PATIENT) as world,
        ScriptedEngine(world.runtime_dir, folder, echo, geometry=geometry) as engine,
        DoorProcess(world.runtime_dir) as door,
    ):
        door.await_serving()
        neighbour = door.generate(5, stopping={"max_tokens": 300})
        prompt = words(100) * 15_000
        call = door.generate(*prompt, stopping={"max_tokens": 2})
        assert call.whole(120).finished.usage.prompt_tokens == len(prompt)
        assert list(engine.starts[-1].prompt) == prompt
        error = door.generate(prompt={"text": "x" * (20 << 20)}).failure(60)
        assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert neighbour.whole(60).ids == words(300)
        engine.burst = 500
        long = door.generate(5, stopping={"max_tokens": 5000}, request_id="long")
        long.whole(120)
        replayed = door.attach(request_id="long").whole(60)
        assert replayed.ids == words(5000)
        assert max(delta.ByteSize() for delta in replayed.deltas) < 1 << 20
        text = door.stub.Detokenize(tokens_pb2.DetokenizeRequest(ids=words(100) * 2000), timeout=60).text
        assert len(door.stub.Tokenize(tokens_pb2.TokenizeRequest(text=text), timeout=60).ids) == 200_000
        Scene(world, engine, door).await_idle()
        assert world.violated_invariants() == []
