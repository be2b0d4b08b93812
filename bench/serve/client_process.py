"""A process that makes a share of the requests. It does nothing else, so that what it measures is not itself.

Its life: it connects and says so; is told when the run begins; hands back its records and its share of a core's time.
"""

import asyncio
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from bench.serve.caller import Caller, Due, ask_all
from bench.serve.records import Record
from pagehold.client.errors import PageholdError
from pagehold.client.parameters import generate_request


@dataclass(frozen=True)
class Share:
    """What one process has to do. ``requests``: number, when due, and parameters of each.

    ``callers``: so many at a time; None: each when due. Times are in seconds.
    """

    address: str
    connections: int
    requests: Sequence[tuple[int, float, dict[str, Any]]]
    callers: int | None
    timeout: float | None
    time_limit: float | None
    connect_seconds: float


@dataclass(frozen=True)
class Told:
    """What a process hands back. ``busy``: CPU time of its event loop over the time of the run."""

    records: list[Record]
    busy: float


def work(share: Share, pipe: "Connection[Any, Any]", counts: Any, place: int) -> None:
    """The process. ``counts`` is shared with the parent: tokens come and requests ended, of the process at ``place``."""
    # Ctrl-C goes to every process of a terminal; the parent ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def count(tokens: int, ended: int) -> None:
        counts[2 * place] += tokens
        counts[2 * place + 1] += ended

    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            pipe.send(runner.run(_run(share, pipe, count)))
    except PageholdError as error:
        pipe.send(str(error))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop's, where it is installed: it takes less time for each message."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def _run(share: Share, pipe: "Connection[Any, Any]", count: Callable[[int, int], None]) -> Told:
    requests: list[Due] = [(number, due, generate_request(asked)) for number, due, asked in share.requests]
    caller = Caller(share.address, share.connections, share.timeout, count)
    try:
        await caller.connect(share.connect_seconds)
        pipe.send(None)
        begin = await asyncio.to_thread(pipe.recv)
        caller.begin(begin)
        before = time.thread_time()
        records = await ask_all(caller, requests, share.callers, share.time_limit)
        return Told(records, (time.thread_time() - before) / max(caller.now(), 1e-9))
    finally:
        await caller.close()
