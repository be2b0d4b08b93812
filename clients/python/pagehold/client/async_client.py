"""The asyncio client of pagehold's inference service."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar, Unpack

import grpc.aio

from pagehold.client import calls
from pagehold.client.awaiting import Runner
from pagehold.client.channels import Channels
from pagehold.client.descriptions import Load, Model, RenderedPrompt, RequestsInFlight, RequestSummary, ServerInfo
from pagehold.client.errors import PageholdError
from pagehold.client.events import Completion, Event
from pagehold.client.generation import Generation, end
from pagehold.client.parameters import Parameters, Request
from pagehold.client.streams import ClientBase, StreamSoFar

Answer = TypeVar("Answer")


class AsyncCompletionStream(StreamSoFar):
    """The events of a generation. Iterate over it, in an ``async with``, whose end hangs up.

    What breaks on the way is mended: every event comes once, in order. Iterating raises ``PageholdError``. A task
    that is cancelled while it waits for an event, as by a time limit around it, hangs up.
    """

    def __init__(self, channels: Channels, generation: Generation) -> None:
        super().__init__(generation)
        self._channels = channels
        self._runner = Runner(channels, generation.follow())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        event = await self._runner.next_event()
        if event is None:
            raise StopAsyncIteration
        return event

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def result(self) -> Completion:
        """Read to the end; the whole generation. Raises ``PageholdError``."""
        async for _ in self:
            pass
        return self._whole()

    async def cancel(self) -> None:
        """End the generation, detached or not; iterating raises ``Cancelled`` from now on, in any task.

        It does nothing to one that has ended. May be called from any task.
        """
        if self._ended:
            return
        told = self._hanging_up_tells
        self._runner.stop()
        if not told:
            await Runner(self._channels, end(self._generation.key)).run()

    async def close(self) -> None:
        """Hang up, which ends the generation unless it is detached. Iterating stops."""
        await self._runner.hang_up()


class AsyncClient(ClientBase):
    """A connection to an inference service; its calls are awaited. It belongs to one event loop.

    ``address``: HOST:PORT or unix:PATH; without it PAGEHOLD_ADDRESS in the environment counts, else 127.0.0.1:7071.
    ``timeout``: seconds that a call may take which generates nothing. ``connect_seconds``: how long a first answer of
    the server is waited for. ``reconnect_seconds``: how long a connection that broke is made again, each time.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        timeout: float = 30.0,
        connect_seconds: float = 5.0,
        reconnect_seconds: float = 60.0,
    ) -> None:
        super().__init__(address, timeout=timeout, connect_seconds=connect_seconds, reconnect_seconds=reconnect_seconds)
        self._channels = Channels(self.address, grpc.aio.insecure_channel)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection, and with it what still streams."""
        for channel in self._channels.give_up():
            await channel.close()

    async def _call(self, call: calls.Call[Answer], timeout: float | None) -> Answer:
        return await Runner(self._channels, self._make(call, timeout)).run()

    # -- generations -------------------------------------------------------------------------------------------------

    async def generate(
        self,
        prompt: str | None = None,
        *,
        timeout: float | None = None,
        retry_overload: bool = False,
        **parameters: Unpack[Parameters],
    ) -> Completion:
        """The whole answer to a prompt: a text, or in its place ``ids=`` or ``messages=``.

        ``timeout``: seconds it may take, None: any. ``retry_overload``: a server that is too busy is asked again, for
        as long as that. Raises ``PageholdError``.
        """
        async with self.stream(prompt, timeout=timeout, retry_overload=retry_overload, **parameters) as stream:
            return await stream.result()

    def stream(
        self,
        prompt: str | None = None,
        *,
        timeout: float | None = None,
        retry_overload: bool = False,
        **parameters: Unpack[Parameters],
    ) -> AsyncCompletionStream:
        """The events of the answer, as they come; arguments as for ``generate``. Nothing is sent before the first."""
        given = {"prompt": prompt, **parameters}
        return AsyncCompletionStream(self._channels, self._generation(given, timeout, retry_overload))

    async def batch(
        self,
        requests: Sequence[str | Request],
        *,
        timeout: float | None = None,
        retry_overload: bool = False,
        **parameters: Unpack[Parameters],
    ) -> list[Completion | PageholdError]:
        """The whole answers to several requests, each a prompt or a mapping of ``prompt`` and parameters.

        ``parameters`` hold for those that say nothing else. What one failed with stands in its place; what all failed
        with is raised.
        """
        batch = self._batch(requests, parameters, timeout, retry_overload)
        return await Runner(self._channels, batch.run()).run()

    def attach(
        self,
        id: str | None = None,  # noqa: A002 - the contract's word
        *,
        request_id: str | None = None,
        from_token: int = 0,
        detached: bool | None = None,
        timeout: float | None = None,
    ) -> AsyncCompletionStream:
        """The events of a request that exists, named by its id or its ``request_id``, from an output token on.

        ``detached``: it goes on when this stream hangs up. A request that says so itself does in any case.
        """
        generation = self._attachment(id, request_id, from_token, detached, timeout)
        return AsyncCompletionStream(self._channels, generation)

    async def cancel(
        self,
        id: str | None = None,  # noqa: A002 - the contract's word
        *,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> bool:
        """End a request; whether it was still in flight. Raises ``NotFound``."""
        return await self._call(calls.cancel(calls.key_of(id, request_id)), timeout)

    async def get_request(
        self,
        id: str | None = None,  # noqa: A002 - the contract's word
        *,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> RequestSummary:
        """How a request stands. Raises ``NotFound``."""
        return await self._call(calls.get_request(calls.key_of(id, request_id)), timeout)

    async def list_requests(self, limit: int | None = None, *, timeout: float | None = None) -> RequestsInFlight:
        """The requests in flight, the oldest first, 1,000 at most unless said otherwise."""
        return await self._call(calls.list_requests(limit), timeout)

    # -- text and tokens ---------------------------------------------------------------------------------------------

    async def tokenize(
        self,
        text: str,
        *,
        model: str | None = None,
        add_special_tokens: bool | None = None,
        timeout: float | None = None,
    ) -> list[int]:
        """The tokens of a text, with the model's special ones as for a prompt unless said otherwise."""
        return await self._call(calls.tokenize(text, model, add_special_tokens), timeout)

    async def detokenize(
        self,
        ids: Sequence[int],
        *,
        model: str | None = None,
        skip_special_tokens: bool | None = None,
        timeout: float | None = None,
    ) -> str:
        """The text of tokens, without special ones unless said otherwise."""
        return await self._call(calls.detokenize(ids, model, skip_special_tokens), timeout)

    async def render_prompt(
        self,
        prompt: str | None = None,
        *,
        ids: Sequence[int] | None = None,
        messages: Sequence[Mapping[str, str]] | None = None,
        add_generation_prompt: bool | None = None,
        model: str | None = None,
        timeout: float | None = None,
    ) -> RenderedPrompt:
        """A prompt as the model would see it."""
        given = {
            "prompt": prompt,
            "ids": ids,
            "messages": messages,
            "add_generation_prompt": add_generation_prompt,
        }
        return await self._call(calls.render_prompt(model, given), timeout)

    # -- the server --------------------------------------------------------------------------------------------------

    async def models(self, *, timeout: float | None = None) -> list[Model]:
        """The models that can be asked."""
        return await self._call(calls.list_models(), timeout)

    async def model(self, name: str | None = None, *, timeout: float | None = None) -> Model:
        """One model, by its name; None: the only one."""
        return await self._call(calls.get_model(name), timeout)

    async def server_info(self, *, timeout: float | None = None) -> ServerInfo:
        """What the server is, and its limits."""
        return await self._call(calls.server_info(), timeout)

    async def load(self, *, timeout: float | None = None) -> Load:
        """How busy the server is."""
        return await self._call(calls.load(), timeout)
