"""The blocking client of pagehold's inference service."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar, Unpack

import grpc

from pagehold.client import calls
from pagehold.client.blocking import Runner
from pagehold.client.channels import Channels
from pagehold.client.descriptions import Load, Model, RenderedPrompt, RequestsInFlight, RequestSummary, ServerInfo
from pagehold.client.errors import PageholdError
from pagehold.client.events import Completion, Event
from pagehold.client.generation import Generation, end
from pagehold.client.parameters import Parameters, Request
from pagehold.client.streams import ClientBase, StreamSoFar

Answer = TypeVar("Answer")


class CompletionStream(StreamSoFar):
    """The events of a generation. Iterate over it, in a ``with``, whose end hangs up.

    What breaks on the way is mended: every event comes once, in order. Iterating raises ``PageholdError``.
    """

    def __init__(self, channels: Channels, generation: Generation) -> None:
        super().__init__(generation)
        self._channels = channels
        self._runner = Runner(channels, generation.follow())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        event = self._runner.next_event()
        if event is None:
            raise StopIteration
        return event

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def result(self) -> Completion:
        """Read to the end; the whole generation. Raises ``PageholdError``."""
        for _ in self:
            pass
        return self._whole()

    def cancel(self) -> None:
        """End the generation, detached or not; iterating raises ``Cancelled`` from now on, in any thread.

        It does nothing to one that has ended. May be called from any thread.
        """
        if self._ended:
            return
        told = self._hanging_up_tells
        self._runner.stop()
        if not told:
            Runner(self._channels, end(self._generation.key)).run()

    def close(self) -> None:
        """Hang up, which ends the generation unless it is detached. Iterating stops."""
        self._runner.hang_up()


class Client(ClientBase):
    """A connection to an inference service; its calls block. Safe to use from several threads.

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
        self._channels = Channels(self.address, grpc.insecure_channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection, and with it what still streams."""
        for channel in self._channels.give_up():
            channel.close()

    def _call(self, call: calls.Call[Answer], timeout: float | None) -> Answer:
        return Runner(self._channels, self._make(call, timeout)).run()

    # -- generations -------------------------------------------------------------------------------------------------

    def generate(
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
        with self.stream(prompt, timeout=timeout, retry_overload=retry_overload, **parameters) as stream:
            return stream.result()

    def stream(
        self,
        prompt: str | None = None,
        *,
        timeout: float | None = None,
        retry_overload: bool = False,
        **parameters: Unpack[Parameters],
    ) -> CompletionStream:
        """The events of the answer, as they come; arguments as for ``generate``. Nothing is sent before the first."""
        given = {"prompt": prompt, **parameters}
        return CompletionStream(self._channels, self._generation(given, timeout, retry_overload))

    def batch(
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
        return Runner(self._channels, batch.run()).run()

    def attach(
        self,
        id: str | None = None,  # noqa: A002 - the contract's word
        *,
        request_id: str | None = None,
        from_token: int = 0,
        detached: bool | None = None,
        timeout: float | None = None,
    ) -> CompletionStream:
        """The events of a request that exists, named by its id or its ``request_id``, from an output token on.

        ``detached``: it goes on when this stream hangs up. A request that says so itself does in any case.
        """
        generation = self._attachment(id, request_id, from_token, detached, timeout)
        return CompletionStream(self._channels, generation)

    def cancel(
        self,
        id: str | None = None,  # noqa: A002 - the contract's word
        *,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> bool:
        """End a request; whether it was still in flight. Raises ``NotFound``."""
        return self._call(calls.cancel(calls.key_of(id, request_id)), timeout)

    def get_request(
        self,
        id: str | None = None,  # noqa: A002 - the contract's word
        *,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> RequestSummary:
        """How a request stands. Raises ``NotFound``."""
        return self._call(calls.get_request(calls.key_of(id, request_id)), timeout)

    def list_requests(self, limit: int | None = None, *, timeout: float | None = None) -> RequestsInFlight:
        """The requests in flight, the oldest first, 1,000 at most unless said otherwise."""
        return self._call(calls.list_requests(limit), timeout)

    # -- text and tokens ---------------------------------------------------------------------------------------------

    def tokenize(
        self,
        text: str,
        *,
        model: str | None = None,
        add_special_tokens: bool | None = None,
        timeout: float | None = None,
    ) -> list[int]:
        """The tokens of a text, with the model's special ones as for a prompt unless said otherwise."""
        return self._call(calls.tokenize(text, model, add_special_tokens), timeout)

    def detokenize(
        self,
        ids: Sequence[int],
        *,
        model: str | None = None,
        skip_special_tokens: bool | None = None,
        timeout: float | None = None,
    ) -> str:
        """The text of tokens, without special ones unless said otherwise."""
        return self._call(calls.detokenize(ids, model, skip_special_tokens), timeout)

    def render_prompt(
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
        return self._call(calls.render_prompt(model, given), timeout)

    # -- the server --------------------------------------------------------------------------------------------------

    def models(self, *, timeout: float | None = None) -> list[Model]:
        """The models that can be asked."""
        return self._call(calls.list_models(), timeout)

    def model(self, name: str | None = None, *, timeout: float | None = None) -> Model:
        """One model, by its name; None: the only one."""
        return self._call(calls.get_model(name), timeout)

    def server_info(self, *, timeout: float | None = None) -> ServerInfo:
        """What the server is, and its limits."""
        return self._call(calls.server_info(), timeout)

    def load(self, *, timeout: float | None = None) -> Load:
        """How busy the server is."""
        return self._call(calls.load(), timeout)
