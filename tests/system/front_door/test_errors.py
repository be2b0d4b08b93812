"""Every failure that a door can tell of, with its code, its reason and its details; neighbours are none the worse."""

import uuid
from typing import Any

import grpc
import pytest

from blockmgr.core.states import FinishReason
from pagehold.common.v1 import states_pb2
from pagehold.engine.v1 import submit_pb2
from pagehold.inference.v1 import generation_pb2, requests_pb2, server_pb2, tokens_pb2
from tests.scripted.answers import Answer
from tests.scripted.doors import Call, details, reason, request
from tests.scripted.processes import wait_until
from tests.scripted.scene import Scene, words

Code = grpc.StatusCode


def outcome(error: Any) -> tuple[grpc.StatusCode, str]:
    return error.code(), reason(error)


@pytest.fixture(autouse=True)
def neighbour(scene: Scene) -> Any:
    """A stream beside each failure, which must not notice it: it stands still meanwhile, and then goes on to its end."""
    scene.engine.limit = 3
    call = scene.door.generate(7, stopping={"max_tokens": 200}).await_tokens(3)
    yield
    assert not call.is_over()
    scene.engine.limit, scene.engine.burst = None, 50
    assert call.whole().ids == words(200)


def test_fields_that_are_wrong_are_all_named(scene: Scene) -> None:
    error = scene.door.generate(
        5, sampling={"temperature": -1.0, "top_p": 0.0}, stopping={"max_tokens": 0}, priority=101
    ).failure()
    assert outcome(error) == (Code.INVALID_ARGUMENT, "INVALID_FIELD")
    violations = details(error)["BadRequest"].field_violations
    assert [one.field for one in violations] == [
        "sampling.temperature", "sampling.top_p", "stopping.max_tokens", "priority",
    ]  # fmt: skip
    assert "must lie in 0..100" in violations[0].description


@pytest.mark.parametrize(
    "prompt", [{}, {"text": ""}, {"ids": {"ids": []}}, {"chat": {"messages": []}}, {"text": "   "}], ids=str
)
def test_an_empty_prompt_is_invalid(scene: Scene, prompt: dict[str, Any]) -> None:
    error = scene.door.generate(prompt=prompt).failure()
    assert outcome(error) == (Code.INVALID_ARGUMENT, "INVALID_FIELD")
    assert "prompt" in details(error)["BadRequest"].field_violations[0].field


def test_an_id_beyond_the_tokenizers_vocabulary_is_invalid(scene: Scene) -> None:
    error = scene.door.generate(1, 2, 9999).failure()
    assert outcome(error) == (Code.INVALID_ARGUMENT, "INVALID_FIELD")
    assert "prompt.ids.ids[2] is 9999, but must lie in 0..114" in error.details()
    with pytest.raises(grpc.RpcError, match=r"ids\[0\] is 9999"):
        scene.door.stub.Detokenize(tokens_pb2.DetokenizeRequest(ids=[9999]))


def test_a_prompt_longer_than_the_context_is_invalid_with_its_numbers(scene: Scene) -> None:
    error = scene.door.generate(*words(256)).failure()
    assert outcome(error) == (Code.INVALID_ARGUMENT, "INVALID_FIELD")
    assert "256 tokens long" in error.details()
    assert "at most 255" in error.details()


def test_a_message_that_is_no_request_is_invalid(scene: Scene) -> None:
    call = scene.door.channel.unary_unary(
        "/pagehold.inference.v1.InferenceService/Tokenize", request_serializer=None, response_deserializer=None
    )
    with pytest.raises(grpc.RpcError) as raised:
        call(b"\xff\xff\xff")
    assert outcome(raised.value) == (Code.INVALID_ARGUMENT, "INVALID_FIELD")


def test_a_request_that_is_larger_than_any_is_refused_with_its_size(scene: Scene) -> None:
    with pytest.raises(grpc.RpcError, match="request is 20004 bytes long, but may have at most 16384") as raised:
        scene.door.stub.Cancel(requests_pb2.CancelRequest(request_id="x" * 20_000))
    assert outcome(raised.value) == (Code.INVALID_ARGUMENT, "INVALID_FIELD")


def test_what_is_longer_than_any_text_or_conversation_is_refused_with_field_and_limit(scene: Scene) -> None:
    limits = scene.door.stub.GetServerInfo(server_pb2.GetServerInfoRequest()).limits
    text, message = "x" * (limits.max_text_characters + 1), {"role": "user", "content": "x"}
    for prompt, wrong in (
        ({"text": text}, f"prompt.text is {len(text)} characters long"),
        ({"chat": {"messages": [message] * (limits.max_chat_messages + 1)}}, "prompt.chat.messages is 10001 messages"),
        ({"chat": {"messages": [{"role": "user", "content": text}]}}, f"is {len(text)} characters long"),
    ):
        with pytest.raises(grpc.RpcError) as raised:
            scene.door.stub.RenderPrompt(tokens_pb2.RenderPromptRequest(prompt=prompt))
        for error in (raised.value, scene.door.generate(prompt=prompt).failure()):
            assert outcome(error) == (Code.INVALID_ARGUMENT, "INVALID_FIELD")
            assert wrong in str(error.details())
    ids = [0] * (limits.max_token_ids + 1)
    with pytest.raises(grpc.RpcError, match=f"ids is {len(ids)} ids long, but may have at most {len(ids) - 1}"):
        scene.door.stub.Detokenize(tokens_pb2.DetokenizeRequest(ids=ids))
    with pytest.raises(grpc.RpcError, match=f"text is {len(text)} characters long, but may have at most"):
        scene.door.stub.Tokenize(tokens_pb2.TokenizeRequest(text=text))


def test_an_unknown_model_is_not_found(scene: Scene) -> None:
    error = scene.door.generate(5, model="other").failure()
    assert outcome(error) == (Code.NOT_FOUND, "NOT_FOUND")
    assert "'other'; there is scripted" in error.details()
    with pytest.raises(grpc.RpcError, match="NOT_FOUND"):
        scene.door.stub.GetModel(server_pb2.GetModelRequest(name="other"))


@pytest.mark.parametrize("key", [{"id": str(uuid.UUID(int=7))}, {"request_id": "never"}], ids=str)
def test_an_unknown_request_is_not_found(scene: Scene, key: dict[str, str]) -> None:
    stub = scene.door.stub
    for call, message in (
        (stub.Cancel, requests_pb2.CancelRequest(**key)),
        (stub.GetRequest, requests_pb2.GetRequestRequest(**key)),
    ):
        with pytest.raises(grpc.RpcError) as raised:
            call(message)
        assert outcome(raised.value) == (Code.NOT_FOUND, "NOT_FOUND")
    assert outcome(scene.door.attach(**key).failure()) == (Code.NOT_FOUND, "NOT_FOUND")


@pytest.mark.parametrize("key", [{}, {"id": "no uuid"}, {"request_id": ""}], ids=str)
def test_a_request_that_is_not_named_is_invalid(scene: Scene, key: dict[str, str]) -> None:
    assert outcome(scene.door.attach(**key).failure()) == (Code.INVALID_ARGUMENT, "INVALID_FIELD")


def test_a_request_that_can_never_fit_the_pool_is_refused_with_both_numbers(scene: Scene) -> None:
    scene.engine.refuse = submit_pb2.Refused(refusal=states_pb2.REFUSAL_NEVER_FITS, needed=900, available=511)
    error = scene.door.generate(5).failure()
    assert outcome(error) == (Code.FAILED_PRECONDITION, "NEVER_FITS")
    found = details(error)
    assert dict(found["ErrorInfo"].metadata) == {"needed": "900", "available": "511"}
    assert found["PreconditionFailure"].violations[0].type == "ERROR_REASON_NEVER_FITS"


REFUSALS: list[tuple[dict[str, Any], grpc.StatusCode, str]] = [
    ({"by": submit_pb2.REFUSED_BY_QUEUE, "needed": 1, "available": 64}, Code.RESOURCE_EXHAUSTED, "QUEUE_FULL"),
    ({"by": submit_pb2.REFUSED_BY_DRAINING}, Code.UNAVAILABLE, "NOT_SERVING"),
    ({"by": submit_pb2.REFUSED_BY_CANCEL}, Code.CANCELLED, "UNSPECIFIED"),
    ({"refusal": states_pb2.REFUSAL_POOL_EXHAUSTED}, Code.RESOURCE_EXHAUSTED, "POOL_EXHAUSTED"),
    ({"refusal": states_pb2.REFUSAL_NO_SLOTS}, Code.RESOURCE_EXHAUSTED, "POOL_EXHAUSTED"),
    ({"refusal": states_pb2.REFUSAL_TOO_LONG, "needed": 9, "available": 8}, Code.INVALID_ARGUMENT, "INVALID_FIELD"),
    ({"refusal": states_pb2.REFUSAL_INVALID, "detail": "odd"}, Code.INVALID_ARGUMENT, "INVALID_FIELD"),
    ({"refusal": states_pb2.REFUSAL_DRAINING}, Code.UNAVAILABLE, "NOT_SERVING"),
]


@pytest.mark.parametrize(("refused", "code", "why"), REFUSALS, ids=str)
def test_each_refusal_of_an_engine_has_its_code(
    scene: Scene, refused: dict[str, Any], code: grpc.StatusCode, why: str
) -> None:
    scene.engine.refuse = submit_pb2.Refused(**refused)
    error = scene.door.generate(5).failure()
    assert outcome(error) == (code, why)
    assert ("RetryInfo" in details(error)) == (code in (Code.RESOURCE_EXHAUSTED, Code.UNAVAILABLE))
    trailers = dict(error.trailing_metadata())
    assert ("grpc-retry-pushback-ms" in trailers) == ("RetryInfo" in details(error))


def test_a_deadline_that_passes_before_acceptance_is_a_good_end(scene: Scene) -> None:
    scene.engine.refuse = submit_pb2.Refused(by=submit_pb2.REFUSED_BY_DEADLINE)
    call = scene.door.generate(5, time_budget=0.1).whole()
    assert [event.WhichOneof("content") for event in call.events] == ["started", "finished"]
    assert call.finished.reason == generation_pb2.END_REASON_DEADLINE


def test_a_name_in_flight_is_taken(scene: Scene) -> None:
    first = scene.door.generate(5, request_id="twice")
    first.await_tokens(3)
    assert outcome(scene.door.generate(5, request_id="twice").failure()) == (Code.ALREADY_EXISTS, "ALREADY_EXISTS")
    error = scene.door.generate(6, request_id="twice").failure()
    assert outcome(error) == (Code.INVALID_ARGUMENT, "INVALID_FIELD")
    assert "another body" in error.details()
    scene.door.stub.Cancel(requests_pb2.CancelRequest(request_id="twice"), timeout=60)
    first.whole()


def test_a_name_is_taken_while_what_it_stood_for_is_kept(scene: Scene) -> None:
    scene.door.generate(5, request_id="over", stopping={"max_tokens": 1}).whole()
    again = scene.door.generate(5, request_id="over", stopping={"max_tokens": 1}).failure()
    assert outcome(again) == (Code.ALREADY_EXISTS, "ALREADY_EXISTS")
    other = scene.door.generate(6, request_id="over").failure()
    assert outcome(other) == (Code.INVALID_ARGUMENT, "INVALID_FIELD")
    assert "another body" in other.details()


def test_attaching_beyond_what_there_is_is_out_of_range(scene: Scene) -> None:
    call = scene.door.generate(5, request_id="short", stopping={"max_tokens": 20})
    call.await_tokens(3)
    error = scene.door.attach(request_id="short", from_token=4).failure()
    assert outcome(error) == (Code.OUT_OF_RANGE, "OUT_OF_RANGE")
    assert dict(details(error)["ErrorInfo"].metadata) == {"from_token": "4", "tokens": "3"}
    call.hang_up()


def test_a_fault_of_the_engine_is_internal_with_its_id(scene: Scene) -> None:
    scene.engine.answer = lambda _: Answer(words(2), FinishReason.INTERNAL)
    error = scene.door.generate(5).failure()
    assert outcome(error) == (Code.INTERNAL, "INTERNAL")
    assert dict(details(error)["ErrorInfo"].metadata) == {"error_id": "e-1"}


def test_a_generation_that_nobody_took_over_is_lost_with_the_number_recorded(scene: Scene) -> None:
    scene.engine.answer = lambda _: Answer(words(2), FinishReason.UNAVAILABLE)
    call = scene.door.generate(5)
    assert outcome(call.failure()) == (Code.UNAVAILABLE, "GENERATION_LOST")
    assert dict(details(call.failure())["ErrorInfo"].metadata) == {"tokens": "2"}
    assert call.ids == words(2), "what was recorded has been delivered"


def test_a_draining_engine_is_given_nothing(scene: Scene) -> None:
    def outcome_of_a_call() -> tuple[grpc.StatusCode, str] | None:
        call = scene.door.generate(5, stopping={"max_tokens": 1}).ended()
        return None if call.error is None else outcome(call.error)

    scene.engine.draining = True
    wait_until(lambda: outcome_of_a_call() == (Code.UNAVAILABLE, "NOT_SERVING"), "the door has heard of it")
    scene.engine.draining = False
    wait_until(lambda: outcome_of_a_call() is None, "the door has heard of that too")


def test_a_passed_deadline_of_the_call_ends_the_generation(scene: Scene) -> None:
    scene.engine.answer = lambda _: Answer([], None)
    for seconds in (0.5, 2.0, 8.0, 32.0):
        call = Call(scene.door.stub.Generate(request(5), timeout=seconds))
        assert call.failure().code() == Code.DEADLINE_EXCEEDED
        if call.events:
            break
    uuid_ = uuid.UUID(call.events[0].started.id).bytes
    wait_until(lambda: scene.engine.ended.get(uuid_) == FinishReason.CANCELLED, "the engine was told")


def test_a_batch_that_is_empty_or_too_large_is_invalid(scene: Scene) -> None:
    for count in (0, 257):
        batch = generation_pb2.BatchGenerateRequest(requests=[request(5)] * count)
        with pytest.raises(grpc.RpcError) as raised:
            list(scene.door.stub.BatchGenerate(batch))
        assert outcome(raised.value) == (Code.INVALID_ARGUMENT, "INVALID_FIELD")


@pytest.mark.parametrize("method", ["Generate", "BatchGenerate", "Attach"])
def test_a_call_without_a_message_is_invalid_at_once(scene: Scene, method: str) -> None:
    call = scene.door.channel.stream_stream(f"/pagehold.inference.v1.InferenceService/{method}", bytes, bytes)
    with pytest.raises(grpc.RpcError) as caught:
        list(call(iter(()), timeout=60))
    assert outcome(caught.value) == (Code.INVALID_ARGUMENT, "INVALID_FIELD")
    assert scene.in_flight() == 1  # the neighbour
