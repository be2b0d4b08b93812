"""Makes requests, and notes when what came of them. One event loop, some connections; nothing is tried twice.

It reads the contract's own messages: at tens of thousands of tokens a second, whatever else is done for each of them is
time in which the next ones wait, and would be measured as the server's.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

import grpc
import grpc.aio

from bench.serve.records import Output, Record
from pagehold.client.channels import OPTIONS
from pagehold.client.errors import from_call
from pagehold.inference.v1 import generation_pb2, inference_service_pb2_grpc, server_pb2

ENDS = frozenset((generation_pb2.END_REASON_LENGTH, generation_pb2.END_REASON_STOP))
"""How an output ends that got what it asked for."""

TIME_LIMIT = "time_limit"


class Caller:
    """Connections to the server at ``address``, which it owns, and the clock of the run."""

    def __init__(
        self, address: str, connections: int, timeout: float | None, count: Callable[[int, int], None]
    ) -> None:
        """``timeout``: seconds that a request may take. ``count`` is told how many tokens came and requests ended."""
        self._address = address
        self._channels = [grpc.aio.insecure_channel(address, options=OPTIONS) for _ in range(connections)]
        self._stubs: list[Any] = [inference_service_pb2_grpc.InferenceServiceStub(one) for one in self._channels]
        self._timeout = timeout
        self._count = count
        self._begin = 0.0

    async def connect(self, seconds: float) -> None:
        """Have every connection made. Raises PageholdError."""
        try:
            request = server_pb2.GetServerInfoRequest()
            await asyncio.gather(
                *(stub.GetServerInfo(request, timeout=seconds, wait_for_ready=True) for stub in self._stubs)
            )
        except grpc.aio.AioRpcError as error:
            raise from_call(error, self._address) from None

    async def close(self) -> None:
        """Close every connection."""
        for channel in self._channels:
            await channel.close(None)

    def begin(self, moment: float) -> None:
        """The run begins at a moment of the monotonic clock."""
        self._begin = moment

    def now(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._begin

    async def ask(self, number: int, request: generation_pb2.GenerateRequest, due: float) -> Record:
        """Make a request, and follow it to its end."""
        record = Record(number, due)
        call = self._stubs[number % len(self._stubs)].Generate(request, timeout=self._timeout)
        try:
            async for response in call:
                self._take(record, response.event)
            if not record.failure and record.finished < max(request.sampling.n, 1):
                record.fail("no_end", "the stream ended before its outputs did")
        except grpc.aio.AioRpcError as error:
            failure = from_call(error, self._address)
            record.fail(failure.reason.removeprefix("ERROR_REASON_").lower() or failure.code.name.lower(), str(failure))
        except asyncio.CancelledError:
            # What the server cancelled looks like what this task's owner does, but for this.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                call.cancel()
                record.fail(TIME_LIMIT, "the run's time limit was over")
            else:
                record.fail("cancelled", "cancelled by the server")
        record.ended = self.now()
        self._count(0, 1)
        return record

    def _take(self, record: Record, event: generation_pb2.GenerationEvent) -> None:
        kind = event.WhichOneof("content")
        if kind == "delta":
            delta = event.delta
            # What was held back of a text comes without ids, and is no token.
            if count := len(delta.ids):
                output = record.outputs.get(delta.output) or record.outputs.setdefault(delta.output, Output())
                output.moments.append(self.now())
                output.counts.append(count)
                self._count(count, 0)
        elif kind == "started":
            record.accepted = self.now()
            record.prompt_tokens, record.cached_tokens = event.started.prompt_tokens, event.started.cached_tokens
        elif kind == "finished":
            record.finished += 1
            reason = event.finished.reason
            if reason not in ENDS:
                word = generation_pb2.EndReason.Name(reason).removeprefix("END_REASON_").lower()
                record.fail(word, f"an output ended early: {word}")


Due = tuple[int, float, generation_pb2.GenerateRequest]
"""Number of a request in the workload, when it is due, and what is sent."""


async def ask_all(
    caller: Caller, requests: Sequence[Due], callers: int | None, time_limit: float | None
) -> list[Record]:
    """Make all requests, each when it is due, or by so many callers as they become free.

    What is not over after ``time_limit`` seconds of the run is given up, and what was not begun is left out.
    """
    records: list[Record] = []
    left = iter(requests)

    async def ask_when_due(number: int, due: float, request: generation_pb2.GenerateRequest) -> None:
        await asyncio.sleep(due - caller.now())
        records.append(await caller.ask(number, request, due))

    async def ask_next() -> None:
        for number, _, request in left:
            records.append(await caller.ask(number, request, caller.now()))
            if records[-1].failure == TIME_LIMIT:
                return

    works = [ask_when_due(*one) for one in left] if callers is None else [ask_next() for _ in range(callers)]
    await asyncio.sleep(-caller.now())
    tasks = [asyncio.create_task(work) for work in works]
    if not tasks:
        return records
    limit = None if time_limit is None else max(0.0, time_limit - caller.now())
    _, late = await asyncio.wait(tasks, timeout=limit)
    for task in late:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        # What a request may fail with is in its record: anything else is a fault here, and not to be passed over.
        if not task.cancelled():
            task.result()
    return records
