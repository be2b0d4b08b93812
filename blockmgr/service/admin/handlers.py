"""What the operators' methods share: errors turned into status, streams limited and closed, the pool that is meant."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar

import grpc

from blockmgr.core.errors import InvalidMessage, NotFound
from blockmgr.service.contract import readable
from blockmgr.service.errors import NotServing, TooManyCalls, abort, guarded, guarded_stream
from blockmgr.service.manager import Manager
from blockmgr.service.pools import ManagedPool
from blockmgr.service.writing import write
from pagehold.common.v1.version_pb2 import StateVersion

Context = grpc.aio.ServicerContext[Any, Any]
Answer = TypeVar("Answer")

STREAM_LIMIT = 64
"""Watches, dumps and walks open at once."""
STOPPING = "the manager is stopping; its successor goes on with the same state"


class Handlers:
    """What all methods need: the manager, the pool that is meant, and how many streams are open."""

    def __init__(self, manager: Manager) -> None:
        self.manager = manager
        self.began = time.monotonic()
        """When this manager started, on the monotonic clock."""
        self.resizing = asyncio.Lock()
        """Held while memory is made ready for a larger pool."""
        self.streams: set[asyncio.Task[None]] = set()
        """Streams that are open."""
        self._stopping = False

    def check_serving(self) -> None:
        """Refuse calls while the manager has not taken up its pools, and once it is stopping."""
        if not self.manager.epoch:
            raise NotServing("the manager is starting")
        if self._stopping:
            raise NotServing(STOPPING)

    def end_streams(self) -> None:
        """The manager is stopping: end every stream, which would not end by itself, and say why. Nothing new is begun."""
        self._stopping = True
        for task in self.streams:
            task.cancel()

    async def limited(self, request: Any, answers: AsyncGenerator[Answer, None]) -> AsyncGenerator[Answer, None]:
        """Pass a new stream's answers on, if it may be begun and its request could be read."""
        async with aclosing(answers):
            self.check_serving()
            readable(request)
            if len(self.streams) > STREAM_LIMIT:
                raise TooManyCalls("streams of operators", STREAM_LIMIT)
            async for answer in answers:
                yield answer

    async def stream(self, context: Context, request: Any, answers: AsyncGenerator[Any, None]) -> None:
        """Write a request's answers to their end, or until the client is gone, the manager stops, or one raises."""
        task: Any = asyncio.current_task()
        self.streams.add(task)
        try:
            async with aclosing(guarded_stream(context, self.limited(request, answers))) as passed:
                async for answer in passed:
                    await write(context, answer)
        except asyncio.CancelledError:
            if not self._stopping:
                raise
            await abort(context, NotServing(STOPPING))
        finally:
            self.streams.discard(task)

    def pool(self, request: Any) -> ManagedPool:
        """The pool that a request names, or the only one."""
        name = request.pool if request.HasField("pool") else None
        if not self.manager.pools:
            raise NotFound("there is no pool yet: the first executor that registers makes one")
        if name is None and len(self.manager.pools) > 1:
            raise InvalidMessage("pool", "absent", f"it must be one of {sorted(self.manager.pools)}")
        return self.manager.pool(name)

    def version(self, managed: ManagedPool | None = None) -> StateVersion:
        """The state that an answer made now is taken from."""
        revision = managed.pool.revision if managed is not None else None
        return StateVersion(manager_epoch=self.manager.epoch, revision=revision)


def unary(method: Callable[[Any, Any], Awaitable[Answer]]) -> Callable[[Any, Any, Context], Awaitable[Answer]]:
    """Make a method of (request) into a handler: errors of the domain end the call with their status."""

    async def call(self: Handlers, request: Any, context: Context) -> Answer:
        async def answer() -> Answer:
            self.check_serving()
            return await method(self, readable(request))

        return await guarded(context, answer)

    call.__doc__ = method.__doc__
    return call


def streaming(
    method: Callable[[Any, Any], AsyncGenerator[Any, None]],
) -> Callable[[Any, Any, Context], Awaitable[None]]:
    """Make a generator of answers into a handler. It is closed as soon as the client is gone; so many at once and no more."""

    async def call(self: Handlers, request: Any, context: Context) -> None:
        await self.stream(context, request, method(self, request))

    call.__doc__ = method.__doc__
    return call
