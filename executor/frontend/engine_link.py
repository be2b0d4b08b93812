"""A door's link to one engine: one stream, opened again whenever it breaks, on which each request is said once a stream."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import structlog

from executor.frontend.outbox import Outbox
from executor.frontend.sequence import End, Sequence
from executor.manager.channel import CHANNEL_OPTIONS
from pagehold.engine.v1 import description_pb2 as engine_pb2
from pagehold.engine.v1 import engine_service_pb2, engine_service_pb2_grpc, submit_pb2

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.1
"""Seconds between attempts to connect."""

DESCRIBE_SECONDS = 5.0
CANCEL_SECONDS = 10.0
"""How long a cancel of what was not accepted is said again on new streams: it may have been accepted unheard."""

BROKEN = (grpc.RpcError, asyncio.CancelledError, asyncio.InvalidStateError)
"""What reading from and writing to a stream raise once it is over."""

SUBMIT = f"/{engine_service_pb2.DESCRIPTOR.services_by_name['EngineService'].full_name}/Submit"

log = structlog.get_logger()
Described = Callable[[engine_pb2.DescribeResponse], Awaitable[None]]


class EngineLink:
    """Submits sequences to an engine, and keeps them up to date with what it says of them."""

    def __init__(self, socket: Path, door: str, on_described: Described) -> None:
        """Speak as ``door`` to the engine behind ``socket``. ``on_described`` is awaited before anything is submitted."""
        self.name = socket.stem
        self._socket, self._door, self._on_described = socket, door, on_described
        self.description: engine_pb2.DescribeResponse | None = None
        self.load = submit_pb2.Load()
        self.heard: float | None = None
        """When it said last how busy it is, on the monotonic clock. None: never."""
        self.connected = False
        self.lost_since = time.monotonic()
        """When the stream ended last."""
        self.sequences: dict[bytes, Sequence] = {}
        """What this link started or follows and has not ended, by UUID."""
        self._by_handle: dict[int, Sequence] = {}
        self._outbox = Outbox()
        self._stub: Any = None
        self._cancelled: dict[bytes, float] = {}
        """Cancelled before they were accepted, and until when that is said again."""

    @property
    def age(self) -> float | None:
        """Seconds since the engine's loop was known to go round. None: it never was."""
        return None if self.heard is None else time.monotonic() - self.heard + self.load.age

    @property
    def pressure(self) -> float:
        """How busy it is: what it has to do per sequence that it can compute at once."""
        most = self.description.max_running if self.description is not None else 0
        return (len(self.sequences) + self.load.waiting) / max(most, 1)

    # -- what is to be said ------------------------------------------------------------------------------------------

    def add(self, sequence: Sequence) -> None:
        """Start a sequence, or follow it if others started it. Said again on each new stream until it is over."""
        self.sequences[sequence.uuid] = sequence
        if sequence.handle:
            self._by_handle[sequence.handle] = sequence
        self._outbox.put(sequence)
        if not self.connected:
            sequence.doubt()

    def forget(self, sequence: Sequence) -> None:
        """Hear no more of a sequence. It goes on."""
        if self.drop(sequence):
            self._outbox.forget(sequence.uuid)

    def drop(self, sequence: Sequence) -> bool:
        """Take a sequence off, and say nothing. Returns whether it was there."""
        if not self.has(sequence):
            return False
        self._by_handle.pop(sequence.handle, None)
        self._outbox.pending.pop(sequence.uuid, None)
        del self.sequences[sequence.uuid]
        return True

    def has(self, sequence: Sequence) -> bool:
        """Whether a sequence is here: itself, not one of the same UUID that somebody attached to since it was let go of."""
        return self.sequences.get(sequence.uuid) is sequence

    def cancel(self, uuid: bytes) -> None:
        """End a request that is not known to be accepted."""
        now = time.monotonic()
        self._cancelled = {one: until for one, until in self._cancelled.items() if until > now}
        self._cancelled[uuid] = now + CANCEL_SECONDS
        self._outbox.cancels.append(uuid)
        self._outbox.due.set()

    async def list_work(self, limit: int) -> engine_pb2.ListWorkResponse | None:
        """What the engine works on and what waits in it, for whichever door. None: it does not answer."""
        if self._stub is None or not self.connected:
            return None
        try:
            return await self._stub.ListWork(engine_pb2.ListWorkRequest(limit=limit), timeout=DESCRIBE_SECONDS)
        except grpc.RpcError as error:
            log.info("engine does not list its work", engine=self.name, code=str(error.code()))
        except asyncio.CancelledError:
            # The stream has ended, and its channel with it, unless it is the caller who was cancelled.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
        return None

    # -- the stream --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep the stream open until cancelled."""
        pause = FIRST_PAUSE
        while True:
            # A channel of its own for each attempt: one that failed before would wait before it tries again.
            async with grpc.aio.insecure_channel(f"unix:{self._socket}", options=CHANNEL_OPTIONS) as channel:
                self._stub = engine_service_pb2_grpc.EngineServiceStub(channel)
                try:
                    await self._one_stream(channel)
                    pause = FIRST_PAUSE
                except grpc.RpcError as error:
                    log.debug("engine away", engine=self.name, code=str(error.code()), detail=error.details())
                    pause = min(2 * pause, LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _one_stream(self, channel: grpc.aio.Channel) -> None:
        """Connect and exchange until the stream ends. Raises ``grpc.RpcError`` if there was none."""
        self.description = await self._stub.Describe(engine_pb2.DescribeRequest(), timeout=DESCRIBE_SECONDS)
        await self._on_described(self.description)
        # What is sent was written before, a large prompt in a thread.
        response = submit_pb2.SubmitResponse.FromString
        submit: Any = channel.stream_stream(SUBMIT, request_serializer=None, response_deserializer=response)
        call = submit()
        self._begin_again()
        reading, writing = (asyncio.create_task(work) for work in (self._read(call), self._write(call)))
        try:
            await asyncio.wait((reading, writing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Without its reader or its writer a stream is of no use.
            call.cancel()
            reading.cancel()
            writing.cancel()
            ends = await asyncio.gather(reading, writing, return_exceptions=True)
            self._lose()
        for end in ends:
            if isinstance(end, BaseException) and not isinstance(end, BROKEN):
                raise end

    def _begin_again(self) -> None:
        now = time.monotonic()
        self._cancelled = {uuid: until for uuid, until in self._cancelled.items() if until > now}
        self._by_handle.clear()
        self._outbox.begin(self._door, self.sequences.values(), self._cancelled)

    def _lose(self) -> None:
        if self.connected:
            log.warning("engine lost", engine=self.name, sequences=len(self.sequences))
        self.connected, self.lost_since = False, time.monotonic()
        for sequence in list(self.sequences.values()):
            sequence.doubt()

    async def _write(self, call: Any) -> None:
        """Write what is due, one message after the other: gRPC refuses one while the last is not off its hands."""
        while True:
            await self._outbox.due.wait()
            self._outbox.due.clear()
            while (message := self._outbox.take()) is not None:
                await call.write(message)

    # -- what is heard -----------------------------------------------------------------------------------------------

    async def _read(self, call: Any) -> None:
        async for response in call:
            self._take(response)

    def _take(self, response: submit_pb2.SubmitResponse) -> None:
        if not self.connected:
            self.connected = True
            log.info("engine connected", engine=self.name, sequences=len(self.sequences))
            for known in self.sequences.values():
                known.trust()
        if response.HasField("load"):
            self.load, self.heard = response.load, time.monotonic()
        for accepted in response.accepted:
            self._accept(accepted)
        for handle, tokens in zip(response.recorded.handles, response.recorded.tokens, strict=True):
            if (sequence := self._by_handle.get(handle)) is not None:
                sequence.record(tokens)
        for computing in response.computing:
            if (sequence := self._by_handle.get(computing.handle)) is not None:
                sequence.compute(computing.computed_tokens)
        self._take_ends(response)

    def _accept(self, accepted: submit_pb2.Accepted) -> None:
        sequence = self.sequences.get(accepted.uuid)
        if sequence is not None:
            self._by_handle.pop(sequence.handle, None)
            sequence.accept(accepted)
            self._by_handle[accepted.handle] = sequence

    def _take_ends(self, response: submit_pb2.SubmitResponse) -> None:
        for ended in response.ended:
            self._cancelled.pop(ended.uuid, None)
            if (sequence := self.sequences.get(ended.uuid)) is not None:
                self.drop(sequence)
                sequence.finish(End(ended.reason, ended.tokens, ended.tail_start, ended.tail, ended.error_id))
        for refused in response.refused:
            self._cancelled.pop(refused.uuid, None)
            if (sequence := self.sequences.get(refused.uuid)) is not None:
                sequence.refuse(refused)
                if sequence.is_over:
                    self.drop(sequence)
        for uuid in response.unknown:
            if (sequence := self.sequences.get(uuid)) is not None:
                sequence.disowned = True
                sequence.doubt()
