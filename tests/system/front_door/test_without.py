"""A door that lacks something: an engine, or a tokenizer for its model."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from pagehold.inference.v1 import requests_pb2, server_pb2, tokens_pb2
from tests.scripted.doors import DoorProcess, details, reason
from tests.scripted.engine_service import ScriptedEngine
from tests.scripted.scene import Scene, echo, words
from tests.scripted.world import World

Code = grpc.StatusCode


def test_before_any_engine_was_heard_calls_are_to_be_made_again(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("run")
    with DoorProcess(folder, address=f"unix:{folder}/c.sock", start_seconds=0.2) as door:
        stub = door.stub
        calls: list[Callable[[], Any]] = [
            lambda: stub.Tokenize(tokens_pb2.TokenizeRequest(text="hello"), timeout=60, wait_for_ready=True),
            lambda: stub.GetModel(server_pb2.GetModelRequest(), timeout=60),
            lambda: stub.Cancel(requests_pb2.CancelRequest(request_id="x"), timeout=60),
        ]
        for call in calls:
            with pytest.raises(grpc.RpcError) as raised:
                call()
            assert (raised.value.code(), reason(raised.value)) == (Code.UNAVAILABLE, "NOT_SERVING")
        error = door.generate(5).failure()
        assert (error.code(), reason(error)) == (Code.UNAVAILABLE, "NOT_SERVING")
        assert details(error)["RetryInfo"].retry_delay.ToMilliseconds() == 500
        assert list(stub.ListModels(server_pb2.ListModelsRequest()).models) == []
        assert door.health() == "NOT_SERVING"


@pytest.fixture
def bare(world: World, tmp_path: Path) -> Iterator[Scene]:
    """A model whose folder has no tokenizer."""
    with ScriptedEngine(world.runtime_dir, tmp_path, echo) as engine, DoorProcess(world.runtime_dir) as door:
        door.await_serving()
        yield Scene(world, engine, door)


def test_without_a_tokenizer_ids_are_served_and_texts_are_no_fault(bare: Scene) -> None:
    stub, chat = bare.door.stub, {"messages": [{"role": "user", "content": "hello"}]}
    for prompt in ({"text": "hello"}, {"chat": chat}):
        error = bare.door.generate(prompt=prompt).failure()
        assert (error.code(), reason(error)) == (Code.FAILED_PRECONDITION, "PRECONDITION")
        (violation,) = details(error)["PreconditionFailure"].violations
        assert (violation.subject, "token ids" in violation.description) == ("request", True)
    with pytest.raises(grpc.RpcError) as raised:
        stub.Tokenize(tokens_pb2.TokenizeRequest(text="hello"))
    assert raised.value.code() == Code.FAILED_PRECONDITION
    assert stub.Detokenize(tokens_pb2.DetokenizeRequest(ids=[5, 6])).text == ""
    call = bare.door.generate(5, stopping={"max_tokens": 3}).whole()
    assert (call.ids, call.text) == (words(3), "")
    assert not stub.GetModel(server_pb2.GetModelRequest()).model.chat
    assert bare.door.faults() == []
