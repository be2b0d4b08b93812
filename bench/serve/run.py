"""A run: the server is asked what it is, client processes are started, begin together, and are watched to their end."""

import asyncio
import contextlib
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from bench.serve.arrivals import Arrivals
from bench.serve.client_process import Share, Told, work
from bench.serve.pool_watch import PoolWatch
from bench.serve.records import Record
from bench.serve.workloads import Request, WorkloadError
from pagehold.client import AsyncClient

LOOK_SECONDS = 0.05
HEAD_START = 0.1
"""Seconds from when all are ready to the beginning, in which every process hears of it."""

Show = Callable[[int, int], None]
"""Told how many requests have ended, and how many tokens have come, now and then."""


@dataclass(frozen=True)
class Plan:
    """How the requests are made. Times are in seconds; None: no limit. ``salt``: of the prefix cache; None: a new one."""

    address: str
    arrivals: Arrivals
    processes: int = 1
    connections: int = 1
    timeout: float | None = None
    time_limit: float | None = None
    connect_seconds: float = 5.0
    model: str | None = None
    salt: str | None = None


@dataclass(frozen=True)
class Run:
    """What came of it: records by number of request, seconds to the last end, and how busy each client process was."""

    records: list[Record]
    seconds: float
    busy: list[float]


async def run(plan: Plan, requests: Sequence[Request], watch: PoolWatch, show: Show) -> Run:
    """Make all requests. Raises WorkloadError where a client process cannot do its work."""
    with _clients(_shares(plan, requests)) as clients:
        await clients.all_say()
        begin = time.monotonic() + HEAD_START
        for pipe in clients.pipes:
            pipe.send(begin)
        async with AsyncClient(plan.address) as client:
            watching = asyncio.create_task(watch.look(client))
            try:
                told: list[Told] = await clients.all_say(show)
            finally:
                watching.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await watching
    records = sorted((record for one in told for record in one.records), key=lambda record: record.number)
    seconds = max((record.ended for record in records), default=0.0)
    return Run(records, seconds, [one.busy for one in told])


def _shares(plan: Plan, requests: Sequence[Request]) -> list[Share]:
    """The requests, dealt out in turn."""
    # Unless it is wanted, nothing of an earlier run is found in the cache.
    common = {"cache_salt": plan.salt or uuid4().hex, "model": plan.model}
    dealt: list[list[tuple[int, float, dict[str, Any]]]] = [[] for _ in range(plan.processes)]
    moments = plan.arrivals.moments(len(requests))
    for number, (request, due) in enumerate(zip(requests, moments, strict=True)):
        dealt[number % plan.processes].append((number, due, {**common, **request.parameters}))
    callers = plan.arrivals.callers(plan.processes)
    return [
        Share(plan.address, plan.connections, part, count, plan.timeout, plan.time_limit, plan.connect_seconds)
        for part, count in zip(dealt, callers, strict=True)
    ]


class _Clients:
    """Client processes, which this object owns."""

    def __init__(self, shares: Sequence[Share]) -> None:
        # Never forked: gRPC runs here.
        context = multiprocessing.get_context("spawn")
        self._counts = context.Array("q", 2 * len(shares), lock=False)
        self.pipes: list[Any] = []
        self._processes: list[Any] = []
        for place, share in enumerate(shares):
            ours, theirs = context.Pipe()
            process = context.Process(target=work, args=(share, theirs, self._counts, place), daemon=True)
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self._processes.append(process)

    async def all_say(self, show: Show = lambda ended, tokens: None) -> list[Any]:
        """What each of them says next, without blocking the loop. Raises WorkloadError for one that fails."""
        said: dict[int, Any] = {}
        while len(said) < len(self.pipes):
            for place, pipe in enumerate(self.pipes):
                if place not in said and pipe.poll():
                    said[place] = self._hear(place)
            show(sum(self._counts[1::2]), sum(self._counts[::2]))
            await asyncio.sleep(LOOK_SECONDS)
        return [said[place] for place in range(len(self.pipes))]

    def _hear(self, place: int) -> Any:
        try:
            said = self.pipes[place].recv()
        except EOFError:
            self._processes[place].join()
            raise WorkloadError(f"a client process ended with code {self._processes[place].exitcode}") from None
        if isinstance(said, str):
            raise WorkloadError(said)
        return said

    def close(self) -> None:
        """End what is left of them."""
        for pipe, process in zip(self.pipes, self._processes, strict=True):
            process.terminate()
            process.join()
            pipe.close()


@contextlib.contextmanager
def _clients(shares: Sequence[Share]) -> Iterator[_Clients]:
    clients = _Clients(shares)
    try:
        yield clients
    finally:
        clients.close()
