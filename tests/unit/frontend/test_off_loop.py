"""Whatever grows with a request is done in the pool's threads, and the loop does as much for a large one as for a small."""

import asyncio
import contextlib
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message

from executor.frontend import parameters, prompts, submission, tokens, wire
from executor.frontend.door import Door
from executor.frontend.errors import NotServing
from executor.frontend.models import Model
from executor.frontend.service import InferenceServicer
from executor.frontend.settings import DoorSettings
from executor.frontend.tokenizer import FastTokenizer
from executor.frontend.wire import SMALL, Received
from pagehold.blockmgr.v1 import pool_pb2
from pagehold.engine.v1 import description_pb2
from pagehold.inference.v1 import generation_pb2, tokens_pb2

LARGE = 8 * SMALL
WORDS = "the quick brown fox " * (LARGE // 20)
CHAT = {"messages": [{"role": "user", "content": "hello there, and more"}] * 4000}
IDS = [5] * LARGE

CASES: list[tuple[str, Message]] = [
    *(
        ("Generate", generation_pb2.GenerateRequest(prompt=prompt))
        for prompt in ({"text": WORDS}, {"chat": CHAT}, {"ids": {"ids": IDS}})
    ),
    *(
        ("RenderPrompt", tokens_pb2.RenderPromptRequest(prompt=prompt))
        for prompt in ({"text": WORDS}, {"chat": CHAT}, {"ids": {"ids": IDS}})
    ),
    ("Tokenize", tokens_pb2.TokenizeRequest(text=WORDS)),
    ("Detokenize", tokens_pb2.DetokenizeRequest(ids=IDS)),
]

NAMES = [f"{name}-{number}" for number, (name, _) in enumerate(CASES)]


def described(tokenizer: FastTokenizer) -> Model:
    description = description_pb2.ModelDescription(name="m", vocabulary=tokenizer.size, max_length=1 << 20)
    pool = pool_pb2.Pool(name="default")
    pool.geometry.request_bytes = 4096
    return Model(description, pool, tokenizer)


def serve(model: Model, folder: Path, received: list[tuple[str, Received]], around: Callable[[], Any]) -> list[Any]:
    """What a door without an engine makes of requests, one after the other, each within ``around``."""

    async def work() -> list[Any]:
        door = Door(DoorSettings.load(runtime_dir=folder))
        door.models._models["m"] = model
        door.models._known.set()
        servicer = InferenceServicer(door)
        entered = []
        try:
            for name, one in received:
                with around() as found, contextlib.suppress(NotServing):
                    entered.append(found)
                    # What comes of it has nowhere to go: there is no engine.
                    await getattr(servicer, name)(one, None)
        finally:
            await door.close()
        return entered

    return asyncio.run(work())


def received(request: Message) -> Received:
    return Received(type(request), request.SerializeToString())


STEPS: list[tuple[Any, str]] = [
    (Received, "read"),
    (submission, "prepare"),
    (prompts, "list_of"),
    (prompts, "text_of"),
    (tokens, "list_of"),
    (tokens, "written"),
    (tokens, "check_prompt"),
    (parameters, "body_digest"),
    (submission, "written"),
    (wire, "written"),
    (FastTokenizer, "encode"),
    (FastTokenizer, "decode"),
    (FastTokenizer, "render"),
]
"""Everything that takes as long as a request is."""


@pytest.mark.parametrize(("name", "request_"), CASES, ids=NAMES)
def test_every_step_that_grows_with_a_large_request_is_taken_in_a_thread(
    demo_tokenizer: FastTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, request_: Message
) -> None:
    where: dict[str, set[str]] = {}

    def watched(work: Callable[..., Any], called: str) -> Callable[..., Any]:
        def do(*args: Any, **kwargs: Any) -> Any:
            where.setdefault(called, set()).add(threading.current_thread().name.rpartition("_")[0])
            return work(*args, **kwargs)

        return do

    for owner, step in STEPS:
        monkeypatch.setattr(owner, step, watched(getattr(owner, step), step))
    serve(described(demo_tokenizer), tmp_path, [(name, received(request_))], contextlib.nullcontext)
    assert {"read"} < {*where}
    assert {place for places in where.values() for place in places} == {"tokenizer"}, where


class Calls:
    """Counts calls of functions in one thread, while it is entered."""

    def __init__(self) -> None:
        self.number = 0

    def __enter__(self) -> "Calls":
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _count(self, frame: object, event: str, argument: object) -> None:
        self.number += event in ("call", "c_call")


@pytest.mark.parametrize(("name", "request_"), CASES, ids=NAMES)
def test_the_loop_does_the_same_for_a_request_twice_as_large(
    demo_tokenizer: FastTokenizer, tmp_path: Path, name: str, request_: Message
) -> None:
    larger: Any = type(request_)()
    # Lists grow when they are merged; texts are set.
    larger.MergeFrom(request_)
    larger.MergeFrom(request_)
    texts: list[Any] = [larger, getattr(larger, "prompt", None)]
    for message in texts:
        if getattr(message, "text", ""):
            message.text = 2 * WORDS
    both = [(name, received(one)) for one in (request_, request_, larger)]
    assert len(both[2][1].data) > 1.9 * len(both[0][1].data)
    _, once, twice = serve(described(demo_tokenizer), tmp_path, both, Calls)
    assert twice.number < once.number + 100, (once.number, twice.number)


def test_a_small_request_with_ids_waits_for_no_thread(
    demo_tokenizer: FastTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where: list[str] = []
    prepare = submission.prepare

    def watched(*args: Any) -> Any:
        where.append(threading.current_thread().name)
        return prepare(*args)

    monkeypatch.setattr(submission, "prepare", watched)
    small = generation_pb2.GenerateRequest(prompt={"ids": {"ids": [5, 6]}})
    serve(described(demo_tokenizer), tmp_path, [("Generate", received(small))], contextlib.nullcontext)
    assert where == [threading.main_thread().name]
