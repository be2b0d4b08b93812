"""What a caller of the Python client notices when processes are killed under it: a pause, and how long it is.

`pagehold up` serves a model with two front doors; so many streams generate at once while the engine, the manager and a
front door are killed with SIGKILL, each twice. The ids must be those of an undisturbed run (exit code 1 if one is not). A
pause is the longest time between two deltas of one stream around a kill; its parts are read from the keeper's table. Run with

    python -m benchmarks.restarts [--model demo] [--streams 16] [--tokens 160] [--json]
"""

import argparse
import asyncio
import json
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.serving import Served, serving
from blockmgr.keeper.table import read_children
from pagehold.client import AsyncClient, Delta

VICTIMS = ("engine", "manager", "door") * 2
ADDRESS = "127.0.0.1:7091"
"""Doors share a port, not a socket."""

LONGEST_START = 120.0
"""Seconds that a start may take."""


@dataclass
class Pause:
    """What one kill cost. Seconds from the kill on, but for the pauses, which are from delta to delta."""

    victim: str
    started: float
    """Another process was started."""
    ready: float
    """It said that it is ready."""
    median_pause: float
    longest_pause: float


class Stream:
    """A caller, and when it got what."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.times: list[float] = []

    async def read(self, client: AsyncClient, number: int, tokens: int) -> None:
        """Read a whole answer."""
        prompt = [100 + number, *range(200, 220 + number)]
        async with client.stream(ids=prompt, temperature=0.0, max_tokens=tokens, ignore_eos=True) as stream:
            async for event in stream:
                if isinstance(event, Delta):
                    self.ids += event.ids
                    self.times.append(time.monotonic())

    def pause(self, moment: float, until: float) -> float:
        """The longest time between two deltas around ``moment``, as far as nothing else happens."""
        later = [at for at in self.times if moment < at <= until]
        before = [at for at in self.times if at <= moment][-1:]
        times = before + later
        return max((b - a for a, b in pairwise(times)), default=0.0)


async def kill(runtime_dir: Path, victim: str) -> tuple[float, float, float]:
    """Kill a process. When it was killed, and seconds from then until another was started, and was ready."""
    before = child(runtime_dir, victim)
    os.kill(before["pid"], signal.SIGKILL)
    killed, started = time.monotonic(), 0.0
    while time.monotonic() - killed < LONGEST_START:
        now = child(runtime_dir, victim)
        if now["pid"] not in (None, before["pid"]):
            started = started or time.monotonic() - killed
            if now["ready"]:
                return killed, started, time.monotonic() - killed
        await asyncio.sleep(0.002)
    raise RuntimeError(f"no other {victim} was ready within {LONGEST_START} s")


def child(runtime_dir: Path, name: str) -> dict[str, Any]:
    """What the keeper tells of one of its children."""
    table = read_children(runtime_dir)
    children = table["children"] if table is not None else []
    found: dict[str, Any] = next(one for one in children if one["name"] == name)
    return found


async def reached(streams: list[Stream], tokens: int) -> None:
    """Wait until all streams together have so many tokens."""
    while True:
        if sum(len(one.ids) for one in streams) >= tokens:
            return
        await asyncio.sleep(0.005)


async def run(served: Served, streams: int, tokens: int, victims: Sequence[str]) -> tuple[list[Stream], list[Pause]]:
    """All streams, with the victims killed at even distances."""
    found = [Stream() for _ in range(streams)]
    kills = []
    async with AsyncClient(served.address, connect_seconds=30.0) as client:
        reading = asyncio.gather(*(one.read(client, number, tokens) for number, one in enumerate(found)))
        for turn, victim in enumerate(victims):
            due = (turn + 1) * streams * tokens // (len(victims) + 1)
            await reached(found, due)
            kills.append((victim, *await kill(served.runtime_dir, victim)))
        await reading
    pauses = []
    ends = [*(killed for _, killed, _, _ in kills), float("inf")][1:]
    for (victim, killed, started, ready), end in zip(kills, ends, strict=True):
        # Some streams go through the other front door, and notice nothing of the death of this one.
        each = sorted(one.pause(killed, end) for one in found)
        pauses.append(Pause(victim, started, ready, median(each), each[-1]))
    return found, pauses


@dataclass
class Disturbance:
    """What kills cost: the usual seconds between two deltas, each kill's, and how many ids are not as undisturbed."""

    usual: float
    pauses: list[Pause]
    ids: int
    differing: int


async def measure(served: Served, streams: int, tokens: int, victims: Sequence[str] = VICTIMS) -> Disturbance:
    """The same streams undisturbed, and with kills. Raises ``RuntimeError`` if an id is missing."""
    expected, _ = await run(served, streams, tokens, ())
    usual = median(b - a for one in expected for a, b in pairwise(one.times))
    found, pauses = await run(served, streams, tokens, victims)
    if any(len(one.ids) != tokens for one in (*expected, *found)):
        raise RuntimeError(f"a stream has not {tokens} ids")
    pairs = [pair for one, other in zip(expected, found, strict=True) for pair in zip(one.ids, other.ids, strict=True)]
    return Disturbance(usual, pauses, len(pairs), sum(a != b for a, b in pairs))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--model", default="demo")
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    with serving(arguments.model, "--doors", "2", address=ADDRESS) as served:
        found = asyncio.run(measure(served, arguments.streams, arguments.tokens))
    if arguments.json:
        print(json.dumps(asdict(found)))
    else:
        print_table(found, arguments.streams, arguments.tokens)
    raise SystemExit(found.differing > 0)


def print_table(found: Disturbance, streams: int, tokens: int) -> None:
    """A line for each kill."""
    print(f"{streams} streams of {tokens} tokens; usually {found.usual:.3f} s a delta")
    print(f"{found.differing} of {found.ids:,} ids are not as undisturbed")
    print(f"{'killed':10}{'started':>10}{'ready':>10}{'median pause':>15}{'longest pause':>15}")
    for one in found.pauses:
        figures = f"{one.started:10.3f}{one.ready:10.3f}{one.median_pause:15.3f}{one.longest_pause:15.3f}"
        print(f"{one.victim:10}{figures}")


if __name__ == "__main__":
    main()
