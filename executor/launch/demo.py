"""`make demo`: everything once. A model is served in a folder of its own, asked, looked at while it answers, and stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from executor.launch.plan import PAGEHOLD
from pagehold.admin.v1 import sequence_pb2
from pagehold.client import AsyncClient, Completion, Delta, Started
from pagehold.client.admin import AdminClient, AdminError
from pagehold.client.commands.inspection import drawn_table
from pagehold.client.output import show

QUESTION = "What is the capital of France?"
MOST_TOKENS = 64
STOP_SECONDS = 30.0


@dataclass
class Tables:
    """The block table of the sequence that answers, as operators see it."""

    first: sequence_pb2.GetSequenceResponse | None = None
    last: sequence_pb2.GetSequenceResponse | None = None


class DemoFailed(Exception):
    """The demonstration did not come to its end."""


def main() -> int:
    """Run the demonstration; return its exit code."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pagehold-demo-") as name:
        folder = Path(name)
        try:
            with _serving(folder) as up:
                asyncio.run(_ask(folder))
                _stop(up)
        except DemoFailed as error:
            print(error, file=sys.stderr)
            return 1
    print(f"\nStopped cleanly. All of it took {time.monotonic() - began:.1f} s.")
    return 0


@contextmanager
def _serving(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """An `up` of the demo model that is ready, on sockets in a folder of its own. It does not outlive the context."""
    ours, theirs = os.pipe()
    command = [
        *(*PAGEHOLD, "up", "demo", "--runtime-dir", str(folder / "run")),
        *("--address", f"unix:{folder}/clients.sock", "--admin-address", f"unix:{folder}/operators.sock"),
        *("--ready-descriptor", str(theirs)),
    ]
    # Nobody watches the door's health but `up`, so it need not linger.
    environment = dict(os.environ) | {"PAGEHOLD_DOOR_ANNOUNCE_SECONDS": "0"}
    up = subprocess.Popen(command, pass_fds=[theirs], env=environment)
    os.close(theirs)
    try:
        with open(ours, "rb") as ready:
            if not ready.read():
                raise DemoFailed(f"`pagehold up demo` ended with code {up.wait()}")
        yield up
    finally:
        if up.poll() is None:
            # What it started ends with it.
            up.kill()
            up.wait()


async def _ask(folder: Path) -> None:
    """Stream an answer, and look at the blocks that it takes meanwhile."""
    tables = Tables()
    async with (
        AsyncClient(f"unix:{folder}/clients.sock") as client,
        AdminClient(f"unix:{folder}/operators.sock") as operator,
    ):
        print(f"{QUESTION}\n")
        asked = time.monotonic()
        first = last = asked
        messages = [{"role": "user", "content": QUESTION}]
        async with client.stream(messages=messages, temperature=0.0, max_tokens=MOST_TOKENS) as stream:
            watching: asyncio.Task[None] | None = None
            async for event in stream:
                if isinstance(event, Started):
                    watching = asyncio.create_task(_watch(operator, event.id, tables))
                elif isinstance(event, Delta):
                    print(event.text, end="", flush=True)
                    last = time.monotonic()
                    first = last if first == asked else first
            completion = await stream.result()
        if watching is not None:
            await watching
    print("\n")
    _show(completion, tables, first - asked, last - first)


async def _watch(operator: AdminClient, uuid: str, tables: Tables) -> None:
    """Look at the block table again and again, from the first token until the sequence has ended."""
    while True:
        try:
            found = await operator.get_sequence(uuid=uuid)
        except AdminError as error:
            raise DemoFailed(f"the sequence cannot be looked at: {error}") from error
        if found.WhichOneof("found") != "live":
            return
        if found.live.tokens > found.live.prompt:
            tables.first = tables.first or found
            tables.last = found


def _show(completion: Completion, tables: Tables, to_first: float, between: float) -> None:
    for when, table in (("first", tables.first), ("last", tables.last)):
        if table is None:
            raise DemoFailed("the sequence ended before its block table could be looked at")
        output = table.live.tokens - table.live.prompt
        print(f"Block table at the {when} token ({table.live.prompt} of prompt, {output} of output):\n")
        show(drawn_table(table), "")
    usage = completion.usage
    rate = (usage.output_tokens - 1) / between if between > 0 else 0.0
    print(
        f"Time to first token {to_first:.2f} s, then {rate:.1f} tokens/s: "
        f"{usage.prompt_tokens} tokens of prompt, {usage.output_tokens} of output; ended by {completion.reason.value}."
    )
    if "Paris" not in completion.text:
        raise DemoFailed(f"the answer does not hold Paris: {completion.text!r}")


def _stop(up: subprocess.Popen[bytes]) -> None:
    up.send_signal(signal.SIGTERM)
    try:
        code = up.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        raise DemoFailed(f"`pagehold up` has not stopped within {STOP_SECONDS:g} s") from None
    if code:
        raise DemoFailed(f"`pagehold up` ended with code {code}")


if __name__ == "__main__":
    sys.exit(main())
