"""Both clients behind one blocking face, so that each test holds for both."""

import asyncio
import inspect
from typing import Any

from pagehold.client import AsyncClient, Client
from pagehold.client.events import Event


class BlockingCaller:
    """The blocking client."""

    def __init__(self, address: str, **settings: Any) -> None:
        self.client = Client(address, **settings)

    def __getattr__(self, method: str) -> Any:
        return getattr(self.client, method)

    def events(self, stream: Any) -> list[Event]:
        """Everything that a stream yields."""
        return list(stream)

    def first(self, stream: Any, count: int) -> list[Event]:
        """The first events of a stream."""
        return [next(stream) for _ in range(count)]

    def done(self, outcome: Any) -> Any:
        """What a stream's method returned."""
        return outcome


class AwaitingCaller:
    """The asyncio client, on a loop of its own."""

    def __init__(self, address: str, **settings: Any) -> None:
        self.loop = asyncio.new_event_loop()
        self.client = AsyncClient(address, **settings)

    def __getattr__(self, method: str) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            return self.done(getattr(self.client, method)(*arguments, **named))

        return call

    def close(self) -> None:
        """Close the client and its loop."""
        self.done(self.client.close())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def stream(self, *arguments: Any, **named: Any) -> Any:
        """A stream, made on the loop."""
        return self.done(self._made("stream", arguments, named))

    def attach(self, *arguments: Any, **named: Any) -> Any:
        """A stream, made on the loop."""
        return self.done(self._made("attach", arguments, named))

    async def _made(self, method: str, arguments: Any, named: Any) -> Any:
        return getattr(self.client, method)(*arguments, **named)

    def events(self, stream: Any) -> list[Event]:
        """Everything that a stream yields."""

        async def read() -> list[Event]:
            return [event async for event in stream]

        return self.loop.run_until_complete(read())

    def first(self, stream: Any, count: int) -> list[Event]:
        """The first events of a stream."""

        async def read() -> list[Event]:
            return [await anext(stream) for _ in range(count)]

        return self.loop.run_until_complete(read())

    def done(self, outcome: Any) -> Any:
        """What a coroutine returned."""
        return self.loop.run_until_complete(outcome) if inspect.isawaitable(outcome) else outcome


Caller = BlockingCaller | AwaitingCaller
CALLERS: dict[str, Any] = {"blocking": BlockingCaller, "awaiting": AwaitingCaller}
