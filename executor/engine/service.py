"""``EngineService``: front doors submit requests here and hear what becomes of them."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from itertools import count
from typing import Any, TypeVar

import grpc
import structlog

from blockmgr.core.errors import InvalidMessage
from blockmgr.service.errors import KINDS, NotServing
from blockmgr.service.statuses import StatusTable
from blockmgr.service.writing import write
from executor.engine import news as told
from executor.engine.engine import Engine
from executor.engine.orders import Cancel, Follow, Order, Question, Start
from executor.engine.request import ID_BYTES, Request
from executor.engine.stream import DoorStream
from executor.engine.worklist import list_work
from pagehold.engine.v1 import description_pb2, engine_service_pb2_grpc, submit_pb2

log = structlog.get_logger()

LOAD_SECONDS = 0.5
"""How often each door hears how busy the engine is."""

LIST_SECONDS = 5.0
"""How long a question to the engine's thread may take."""

STATUSES = StatusTable("the engine", KINDS)

Answer = TypeVar("Answer")
Context = grpc.aio.ServicerContext[Any, Any]


class EngineServicer(engine_service_pb2_grpc.EngineServiceServicer):
    """The service, on a loop of its own. What concerns the engine goes through its inbox, and comes back by ``deliver``."""

    def __init__(self) -> None:
        self.why_not: Exception | None = NotServing("the engine is loading")
        """Why no call is served; None: they are."""
        self._engine: Engine | None = None
        self._description = description_pb2.DescribeResponse()
        self._numbers = count(1)
        self._streams: dict[told.Stream, DoorStream] = {}
        self._followers: dict[bytes, set[told.Stream]] = {}

    def open(self, engine: Engine, description: description_pb2.DescribeResponse) -> None:
        """Serve from now on. On the loop's thread."""
        self._engine, self._description, self.why_not = engine, description, None

    def close(self) -> None:
        """Refuse calls from now on, and end the streams once what is to be said on them is said. On the loop's thread."""
        self.why_not = NotServing("the engine is stopping")
        for stream in self._streams.values():
            stream.due.set()

    # -- methods -----------------------------------------------------------------------------------------------------

    async def Describe(
        self, request: description_pb2.DescribeRequest, context: Context
    ) -> description_pb2.DescribeResponse:
        """See the contract."""

        async def describe() -> description_pb2.DescribeResponse:
            self._serving()
            return self._description

        return await STATUSES.guarded(context, describe)

    async def ListWork(
        self, request: description_pb2.ListWorkRequest, context: Context
    ) -> description_pb2.ListWorkResponse:
        """See the contract."""

        async def listed() -> description_pb2.ListWorkResponse:
            engine = self._serving()
            limit = request.limit if request.HasField("limit") else None
            found = ask(engine, lambda: list_work(engine.work, limit))
            return await asyncio.wait_for(asyncio.wrap_future(found), LIST_SECONDS)

        return await STATUSES.guarded(context, listed)

    async def Submit(self, requests: AsyncIterator[submit_pb2.SubmitRequest], context: Context) -> None:
        """See the contract."""
        stream = DoorStream(next(self._numbers))
        reading = asyncio.ensure_future(self._read(requests, stream))
        try:
            engine = self._serving()
            self._streams[stream.number] = stream
            await self._write(engine, stream, reading, context)
        except Exception as error:
            await STATUSES.abort(context, error)
        finally:
            reading.cancel()
            self._leave(stream)

    # -- a stream ----------------------------------------------------------------------------------------------------

    async def _write(
        self, engine: Engine, stream: DoorStream, reading: "asyncio.Future[None]", context: Context
    ) -> None:
        """Write what there is, one message after the other; meanwhile more gathers. Ends with the door's own side."""
        load_due = 0.0
        while not reading.done():
            now = time.monotonic()
            if now >= load_due:
                stream.load, load_due = engine.load, now + LOAD_SECONDS
            if stream.due.is_set() or stream.load is not None:
                await write(context, stream.message(now))
                continue
            self._serving()
            waiting = asyncio.ensure_future(stream.due.wait())
            await asyncio.wait((waiting, reading), timeout=load_due - now, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
        # Raises what was wrong with what the door sent.
        reading.result()

    async def _read(self, requests: AsyncIterator[submit_pb2.SubmitRequest], stream: DoorStream) -> None:
        async for request in requests:
            if request.door:
                log.info("a front door has come", door=request.door[:64], stream=stream.number)
            self._take(request, stream)

    def _take(self, request: submit_pb2.SubmitRequest, stream: DoorStream) -> None:
        """Pass on what a door says. Followed first: news of a request may be under way already."""
        for start in request.starts:
            self._follow(stream, start.uuid)
            self._order(Start(Request.of(start), stream.number))
        for place, uuid in enumerate(request.follows):
            self._follow(stream, _checked(f"follows[{place}]", uuid))
            self._order(Follow(uuid, stream.number))
        for place, uuid in enumerate(request.cancels):
            self._order(Cancel(_checked(f"cancels[{place}]", uuid)))
        for uuid in request.forgets:
            self._unfollow(stream, uuid)

    def _follow(self, stream: DoorStream, uuid: bytes) -> None:
        stream.follows.add(uuid)
        self._followers.setdefault(uuid, set()).add(stream.number)

    def _unfollow(self, stream: DoorStream, uuid: bytes) -> None:
        stream.forget(uuid)
        following = self._followers.get(uuid)
        if following is not None:
            following.discard(stream.number)
            if not following:
                del self._followers[uuid]

    def _leave(self, stream: DoorStream) -> None:
        self._streams.pop(stream.number, None)
        for uuid in list(stream.follows):
            self._unfollow(stream, uuid)

    def _order(self, order: Order) -> None:
        self._serving().inbox.put(order)

    def _serving(self) -> Engine:
        if self.why_not is not None or self._engine is None:
            raise self.why_not or NotServing("the engine is loading")
        return self._engine

    # -- news --------------------------------------------------------------------------------------------------------

    def deliver(self, news: list[told.News]) -> None:
        """Hand news to whom they concern. On the loop's thread."""
        for one in news:
            to = getattr(one, "to", None)
            concerned = self._followers.get(one.uuid, ()) if to is None else (to,)
            for number in list(concerned):
                stream = self._streams.get(number)
                if stream is not None and one.uuid in stream.follows:
                    stream.take(one)
                    if isinstance(one, told.Refused | told.Ended | told.Unknown):
                        self._unfollow_ended(stream, one.uuid)

    def _unfollow_ended(self, stream: DoorStream, uuid: bytes) -> None:
        """Nothing more will come of it; what was taken is still to be told."""
        stream.follows.discard(uuid)
        following = self._followers.get(uuid, set())
        following.discard(stream.number)
        if not following:
            self._followers.pop(uuid, None)


def ask(engine: Engine, question: Callable[[], Answer]) -> "Future[Answer]":
    """Have the engine's thread answer a question, between two rounds."""
    future: Future[Answer] = Future()

    def answer() -> None:
        if not future.set_running_or_notify_cancel():
            # Nobody waits any more.
            return
        try:
            future.set_result(question())
        except Exception as error:
            future.set_exception(error)

    engine.inbox.put(Question(answer))
    return future


def _checked(field: str, uuid: bytes) -> bytes:
    if len(uuid) != ID_BYTES:
        raise InvalidMessage(field, uuid.hex() or "empty", f"a UUID has {ID_BYTES} bytes")
    return uuid
