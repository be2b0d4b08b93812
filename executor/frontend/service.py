"""InferenceService: the methods, each a few lines; what they do stands in the modules that they call."""

import importlib.metadata
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, cast

import grpc
from google.protobuf.message import Message

from blockmgr.service.contract import add_service
from executor.frontend import attachment, requests, tokens, validation
from executor.frontend.batch import generate_batch
from executor.frontend.delivery import deliver
from executor.frontend.door import Door
from executor.frontend.engines import pool_of
from executor.frontend.errors import InvalidRequest, NotRead
from executor.frontend.models import Model
from executor.frontend.output_stream import Event
from executor.frontend.parameters import SamplingDefaults
from executor.frontend.statuses import guarded, reason_of
from executor.frontend.stopwatch import Arrival
from executor.frontend.submission import submit
from executor.frontend.wire import MESSAGE_BYTES, Received
from pagehold.inference.v1 import (
    generation_pb2,
    inference_service_pb2,
    requests_pb2,
    server_pb2,
)

LARGE = frozenset({"Generate", "BatchGenerate", "Tokenize", "Detokenize", "RenderPrompt"})
"""Methods whose requests may be large. Each takes a place before it reads one."""

STREAMED = ("Generate", "BatchGenerate", "Attach")
"""Methods that stream their answer. They read their request themselves."""

WRITTEN = ("Tokenize", "Detokenize", "RenderPrompt")
"""Methods whose answers may be large, and come as bytes."""

Context = grpc.aio.ServicerContext[Any, Any]


class InferenceServicer:
    """The methods. Errors they raise are turned into status around them."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._started = time.time()

    # -- generating --------------------------------------------------------------------------------------------------

    async def Generate(self, received: Received, context: Context) -> None:
        """Generate an answer."""
        arrived = Arrival.now()
        with self._failures_counted(), self._door.places.take():
            generation = await submit(self._door, await self._read(received), arrived, received.is_large)
            await self._send(context, generation.events(), generation_pb2.GenerateResponse)

    async def BatchGenerate(self, received: Received, context: Context) -> None:
        """Generate several."""
        with self._failures_counted(), self._door.places.take() as place:
            request = await self._read(received)
            async with aclosing(generate_batch(self._door, request, place, received.is_large)) as responses:
                async for response in responses:
                    await deliver(context, response, self._door.settings.reader_seconds)

    async def Attach(self, request: generation_pb2.AttachRequest, context: Context) -> None:
        """Stream a request that exists."""
        with self._failures_counted(), self._door.places.take():
            generation = await attachment.attach(self._door, request)
            await self._send(context, generation.events(), generation_pb2.AttachResponse)

    async def _send(self, context: Context, events: AsyncGenerator[Event, None], response: Callable[..., Any]) -> None:
        """Write events until they end. However the call ends, they are closed at once, and with them the generation."""
        async with aclosing(events):
            async for event in events:
                try:
                    await deliver(context, response(event=event), self._door.settings.reader_seconds)
                except NotRead as error:
                    # Raises it again, once the generation has heard why it ends.
                    await events.athrow(error)

    @contextmanager
    def _failures_counted(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._door.metrics.requests.labels(reason_of(error)).inc()
            raise

    # -- requests ----------------------------------------------------------------------------------------------------

    async def Cancel(self, request: requests_pb2.CancelRequest, context: Context) -> requests_pb2.CancelResponse:
        """End a request."""
        return await requests.cancel(self._door, request)

    async def GetRequest(
        self, request: requests_pb2.GetRequestRequest, context: Context
    ) -> requests_pb2.GetRequestResponse:
        """How a request stands."""
        return await requests.get(self._door, request)

    async def ListRequests(
        self, request: requests_pb2.ListRequestsRequest, context: Context
    ) -> requests_pb2.ListRequestsResponse:
        """The requests in flight."""
        return await requests.list_all(self._door, request)

    # -- tokens ------------------------------------------------------------------------------------------------------

    async def Tokenize(self, received: Received, context: Context) -> bytes:
        """Text to tokens."""
        with self._door.places.take():
            return await tokens.tokenize(self._door, await self._read(received))

    async def Detokenize(self, received: Received, context: Context) -> bytes:
        """Tokens to text."""
        with self._door.places.take():
            return await tokens.detokenize(self._door, await self._read(received))

    async def RenderPrompt(self, received: Received, context: Context) -> bytes:
        """A prompt as a generation would see it."""
        with self._door.places.take():
            return await tokens.render_prompt(self._door, await self._read(received))

    async def _read(self, received: Received) -> Any:
        return await self._door.threads.run_if(received.is_large, received.read)

    # -- the server --------------------------------------------------------------------------------------------------

    async def ListModels(
        self, request: server_pb2.ListModelsRequest, context: Context
    ) -> server_pb2.ListModelsResponse:
        """The models."""
        return server_pb2.ListModelsResponse(models=map(self._describe, self._door.models.all))

    async def GetModel(self, request: server_pb2.GetModelRequest, context: Context) -> server_pb2.GetModelResponse:
        """One model."""
        model = await self._door.models.find(request.name if request.HasField("name") else None)
        return server_pb2.GetModelResponse(model=self._describe(model))

    def _describe(self, model: Model) -> server_pb2.Model:
        return server_pb2.Model(
            name=model.name,
            revision=model.description.revision,
            max_length=model.description.max_length,
            vocabulary=model.vocabulary,
            eos_token_ids=model.description.eos_token_ids,
            chat=model.tokenizer.has_chat_template,
            defaults=SamplingDefaults.of(model.description).message(),
            ready=bool(self._door.engines.ready(model.name)),
        )

    async def GetServerInfo(
        self, request: server_pb2.GetServerInfoRequest, context: Context
    ) -> server_pb2.GetServerInfoResponse:
        """What this door is."""
        settings = self._door.settings
        limits = server_pb2.Limits(
            max_requests=settings.max_requests,
            default_max_tokens=settings.default_max_tokens,
            max_message_bytes=MESSAGE_BYTES,
            max_batch=settings.max_batch,
            max_text_characters=validation.LONGEST_TEXT,
            max_chat_messages=validation.MOST_MESSAGES,
            max_token_ids=validation.MOST_IDS,
        )
        return server_pb2.GetServerInfoResponse(
            version=_version(), started=self._started, limits=limits, door=settings.name
        )

    async def GetLoad(self, request: server_pb2.GetLoadRequest, context: Context) -> server_pb2.GetLoadResponse:
        """How busy the engines are, and this door."""
        links = [link for link in self._door.engines if link.connected and link.age is not None]
        loads = [link.load for link in links]
        # Each engine tells of the whole pool, which others may share.
        pools = {pool_of(link): link.load for link in links}.values()
        return server_pb2.GetLoadResponse(
            running=sum(load.running for load in loads),
            waiting=sum(load.waiting for load in loads),
            in_flight=self._door.places.taken,
            blocks=sum(load.blocks for load in pools),
            free_blocks=sum(load.free_blocks for load in pools),
            age=min((link.age for link in links if link.age is not None), default=None),
        )


def add_to_server(servicer: InferenceServicer, server: grpc.aio.Server) -> None:
    """Register the service."""
    service = inference_service_pb2.DESCRIPTOR.services_by_name["InferenceService"]
    add_service(server, service, lambda name: _guard(name, getattr(servicer, name)), WRITTEN, _receive, STREAMED)


def _receive(kind: type[Message]) -> Callable[[bytes], Received]:
    return lambda data: Received(kind, data)


async def _request_of(context: Context) -> Received:
    """A call's one request. Raises InvalidRequest where the client has ended its side without any."""
    request = await context.read()
    if request is grpc.aio.EOF:  # type: ignore[attr-defined]
        raise InvalidRequest.of("request", "is missing: the call has no message, but must have one")
    return cast(Received, request)


def _guard(
    name: str, method: Callable[[Any, Context], Awaitable[Any]]
) -> Callable[[Received, Context], Awaitable[Any]]:
    async def call(received: Received, context: Context) -> Any:
        async def serve() -> Any:
            request = await _request_of(context) if name in STREAMED else received
            return await method(request if name in LARGE else request.read_small(), context)

        return await guarded(context, serve)

    return call


def _version() -> str:
    """The installed version; a checkout that is run as it lies has none."""
    try:
        return importlib.metadata.version("pagehold")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
