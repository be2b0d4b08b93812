"""Requests read piece by piece: the same as at once, whatever they hold and wherever they are cut."""

import contextlib
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from executor.frontend import wire
from executor.frontend.errors import InvalidRequest
from executor.frontend.wire import MOST_FIELDS, PIECE_BYTES, SMALL, Received, field_of, list_of, written
from pagehold.engine.v1 import submit_pb2
from pagehold.inference.v1 import generation_pb2, parameters_pb2, prompt_pb2, requests_pb2, tokens_pb2

Generate, Batch = generation_pb2.GenerateRequest, generation_pb2.BatchGenerateRequest

IDS = st.lists(st.integers(0, 2**32 - 1), max_size=40)
TEXTS = st.text(max_size=60)


@st.composite
def requests(draw: st.DrawFn) -> generation_pb2.GenerateRequest:
    prompt: dict[str, Any] = draw(
        st.one_of(
            st.fixed_dictionaries({"text": TEXTS}),
            st.fixed_dictionaries({"ids": st.fixed_dictionaries({"ids": IDS})}),
            st.lists(st.fixed_dictionaries({"role": st.sampled_from(["user", ""]), "content": TEXTS}), max_size=8).map(
                lambda messages: {"chat": {"messages": messages}}
            ),
        )
    )
    request = Generate(prompt=prompt, priority=draw(st.integers(-9, 9)), time_budget=draw(st.floats(0, 9)))
    request.stopping.stop.extend(draw(st.lists(st.text(max_size=5), max_size=4)))
    request.stopping.stop_token_ids.extend(draw(IDS))
    return request


@pytest.fixture
def tiny_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is larger than a piece; names have no limit."""
    monkeypatch.setattr(wire, "PIECE_BYTES", 12)
    role, model = prompt_pb2.ChatMessage.DESCRIPTOR.fields_by_name["role"], Generate.DESCRIPTOR.fields_by_name["model"]
    stop = parameters_pb2.StoppingParameters.DESCRIPTOR.fields_by_name["stop"]
    monkeypatch.setattr(wire, "LONG_TEXTS", wire.LONG_TEXTS | {role, model, stop})


@pytest.mark.usefixtures("tiny_pieces")
@given(items=st.lists(requests(), max_size=3))
def test_what_is_read_in_pieces_is_what_is_read_at_once(items: list[generation_pb2.GenerateRequest]) -> None:
    whole: Message
    for whole in (*items, Batch(requests=items)):
        assert Received(type(whole), whole.SerializeToString()).read() == whole


@pytest.mark.usefixtures("tiny_pieces")
@given(data=st.binary(max_size=80))
def test_bytes_that_are_no_request_are_invalid_and_never_a_fault(data: bytes) -> None:
    with contextlib.suppress(InvalidRequest):
        Received(Generate, data).read()


@given(ids=st.lists(st.integers(0, 2**31 - 1), max_size=50), piece=st.integers(1, 60))
def test_what_is_written_in_pieces_is_read_as_one(ids: list[int], piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire, "PIECE_IDS", piece)
        assert list_of(ids) == ids
        head = submit_pb2.Start(uuid=b"u").SerializeToString()
        start = submit_pb2.Start.FromString(head + written(submit_pb2.Start, "prompt", ids))
    assert (start.uuid, list(start.prompt)) == (b"u", ids)


def test_a_field_stands_in_a_message_as_it_would_have_been_written() -> None:
    request = generation_pb2.GenerateRequest(prompt={"text": "x" * 300})
    assert field_of(Generate.PROMPT_FIELD_NUMBER, request.prompt.SerializeToString()) == request.SerializeToString()


def test_a_prompt_of_megabytes_is_read_whole() -> None:
    for prompt in ({"ids": {"ids": range(1_000_000)}}, {"text": "é" * 1_000_000}):
        whole = Generate(prompt=prompt, request_id="r", stopping={"stop": ["x"]})
        assert Received(Generate, whole.SerializeToString()).read() == whole


def read(whole: Message) -> None:
    Received(type(whole), whole.SerializeToString()).read()


def test_a_name_larger_than_a_piece_is_refused_by_its_field() -> None:
    limit = f"bytes long, but may have at most {PIECE_BYTES}"
    with pytest.raises(InvalidRequest, match=f"request_id is {PIECE_BYTES + 1} {limit}"):
        read(Generate(request_id="r" * (PIECE_BYTES + 1)))
    messages = [{"role": "r" * (PIECE_BYTES + 1)}]
    with pytest.raises(InvalidRequest, match=f"requests.prompt.chat.messages.role is {PIECE_BYTES + 1} {limit}"):
        read(Batch(requests=[Generate(prompt={"chat": {"messages": messages}})]))


def test_more_fields_than_any_request_has_are_refused_and_not_all_looked_at() -> None:
    stops = [""] * (MOST_FIELDS + 1)
    with pytest.raises(InvalidRequest, match=f"stopping is more than {MOST_FIELDS} fields long"):
        read(Generate(stopping={"stop": stops}))
    with pytest.raises(InvalidRequest, match=f"request is more than {MOST_FIELDS} fields long"):
        read(Batch(requests=[Generate()] * (MOST_FIELDS + 1)))


def test_a_request_of_a_method_that_takes_small_ones_is_refused_unread() -> None:
    cancel = requests_pb2.CancelRequest(request_id="r" * SMALL)
    received = Received(requests_pb2.CancelRequest, cancel.SerializeToString())
    with pytest.raises(InvalidRequest, match=f"request is {len(received.data)} bytes long, but may have at most"):
        received.read_small()
    assert Received(tokens_pb2.TokenizeRequest, b"").read_small() == tokens_pb2.TokenizeRequest()
