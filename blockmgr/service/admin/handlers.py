"""What the operators' methods share: errors turned into status, streams limited and closed, the pool that is meant."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar

import grpc

from blockmgr.core.errors import InvalidMessage
from blockmgr.service.errors import NotServing, TooManyCalls, guarded, guarded_stream
from blockmgr.service.manager import Manager
from blockmgr.service.pools import ManagedPool
from pagehold.common.v1.version_pb2 import StateVersion

Context = grpc.aio.ServicerContext[Any, Any]
Answer = TypeVar("Answer")

STREAM_LIMIT = 64
"""Watches, dumps and walks open at once."""


class Handlers:
    """What all methods need: the manager, the pool that is meant, and how many streams are open."""

    def __init__(self, manager: Manager) -> None:
        self.manager = manager
        self.began = time.monotonic()
        """When this manager started, on the monotonic clock."""
        self.resizing = asyncio.Lock()
        """Held while memory is made ready for a larger pool."""
        self._streams = 0

    def check_serving(self) -> None:
        """Refuse calls while the manager has not taken up its pools."""
        if not self.manager.epoch:
            raise NotServing("the manager is starting")

    async def limited(self, answers: AsyncGenerator[Answer, None]) -> AsyncGenerator[Answer, None]:
        """Pass answers on, within the limit of open streams."""
        async with aclosing(answers):
            self.check_serving()
            if self._streams >= STREAM_LIMIT:
                raise TooManyCalls("streams of operators", STREAM_LIMIT)
            self._streams += 1
            try:
                async for answer in answers:
                    yield answer
            finally:
                self._streams -= 1

    def pool(self, request: Any) -> ManagedPool:
        """The pool that a request names, or the only one."""
        name = request.pool if request.HasField("pool") else None
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
            return await method(self, request)

        return await guarded(context, answer)

    call.__doc__ = method.__doc__
    return call


def streaming(
    method: Callable[[Any, Any], AsyncGenerator[Any, None]],
) -> Callable[[Any, Any, Context], Awaitable[None]]:
    """Make a generator of answers into a handler. It is closed as soon as the client is gone; so many at once and no more."""

    async def call(self: Handlers, request: Any, context: Context) -> None:
        async with aclosing(guarded_stream(context, self.limited(method(self, request)))) as answers:
            async for answer in answers:
                await context.write(answer)

    call.__doc__ = method.__doc__
    return call
