"""Processes of a test: what they have open, and scripted executors with what they tell."""

import asyncio
import inspect
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def pause(waited: float) -> float:
    """Seconds until the next look at something that has been waited for so long: looks cost what others compute with."""
    return min(max(waited / 20, 0.01), 0.1)


def wait_until(condition: Callable[[], Any], what: str, seconds: float = 60.0) -> Any:
    """Wait until the condition holds and return what it returned; fail, naming it, if it does not in time."""
    begin = time.monotonic()
    while not (found := condition()):
        waited = time.monotonic() - begin
        assert waited < seconds, f"not within {seconds} s: {what}"
        time.sleep(pause(waited))
    return found


async def wait_until_async(condition: Callable[[], Any], what: str, seconds: float = 60.0) -> Any:
    """The same on an event loop, which runs meanwhile. What the condition returns may have to be awaited."""
    begin = time.monotonic()
    while True:
        found = condition()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        waited = time.monotonic() - begin
        assert waited < seconds, f"not within {seconds} s: {what}"
        await asyncio.sleep(pause(waited))


def kill_all_of(folder: Path, word: str) -> None:
    """Kill every process whose command line names a folder and has a word in it, and those that such a one still starts."""
    mark, part = os.fsencode(folder), word.encode()

    def killed() -> bool:
        """Whether one was found. Of a process that is dead no command line is left."""
        found = False
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            # By now it may be gone.
            with suppress(OSError):
                command = path.read_bytes()
                if mark in command and part in command.split(b"\0"):
                    os.kill(int(path.parent.name), signal.SIGKILL)
                    found = True
        return found

    wait_until(lambda: not killed(), f"nothing of {folder} runs any more")


def open_descriptors(pid: int) -> int:
    """How many descriptors a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident_kilobytes(pid: int) -> int:
    """Memory of a process's own that is resident: shared memory, which belongs to the pool, is left out."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon:"))


def paced(point: str, every: int, times: int) -> list[str]:
    """Holds of an executor that is to stand still each time that it has come to a point so often, ``times`` times.

    However slow a test is compared with its executors, their work then lasts until it has done what it wants to do.
    """
    return [f"{point}:{every * time}" for time in range(1, times + 1)]


class ScriptedExecutor:
    """One executor process with its device."""

    def __init__(self, folder: Path, number: int, script: dict[str, Any]) -> None:
        self.name = script["name"]
        self._went_on = 0
        self._number = number
        self._output = folder / f"executor-{number}.out"
        self._errors = folder / f"executor-{number}.err"
        path = folder / f"executor-{number}.json"
        path.write_text(json.dumps(script))
        with self._output.open("w") as output, self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.scripted.executor", str(path)],
                cwd=ROOT,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=errors,
                start_new_session=True,
                env=dict(os.environ) | script.get("environment", {}),
            )

    @property
    def pid(self) -> int:
        """Id of the engine's process."""
        return self.process.pid

    @property
    def device(self) -> int:
        """Id of the device's process."""
        return int(self.await_event("started")["device"])

    def events(self, event: str) -> list[dict[str, Any]]:
        """What it has told of one kind."""
        # What is behind the last end of a line is being written.
        whole = self._output.read_text().rpartition("\n")[0]
        lines = [json.loads(line) for line in whole.splitlines()]
        return [line for line in lines if line["event"] == event]

    def await_event(self, event: str, count: int = 1, seconds: float = 60.0) -> dict[str, Any]:
        """Wait until it has told ``count`` times of something; returns the last of these."""

        def told() -> bool:
            # Looked at first: what it tells just before its end counts.
            ended = self.process.poll() is not None
            if len(self.events(event)) >= count:
                return True
            assert not ended, f"{self} ended before {event!r}: {self.trouble()}"
            return False

        wait_until(told, f"{self} tells {event!r}", seconds)
        return self.events(event)[count - 1]

    def await_point(self, point: str, seconds: float = 60.0) -> None:
        """Wait until it stands still at a point."""

        def there() -> bool:
            ended = self.process.poll() is not None
            if any(at["point"] == point for at in self.events("at")):
                return True
            assert not ended, f"{self} ended before {point!r}: {self.trouble()}"
            return False

        wait_until(there, f"{self} at {point}", seconds)

    def is_held(self) -> bool:
        """Whether it stands still at some point."""
        return len(self.events("at")) > self._went_on

    def await_held(self) -> None:
        """Wait until it stands still."""
        self.await_event("at", self._went_on + 1)

    def go_on(self) -> None:
        """Let it go on from where it stands, or end where it stays. Whether it was killed meanwhile, its exit code says."""
        self._went_on += 1
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(b"go\n")

    def kill(self) -> None:
        """SIGKILL to the engine alone; its device goes on for as long as it has work."""
        self.process.kill()
        self.process.wait(60)

    def signal(self, number: int) -> None:
        """A signal to the engine alone."""
        self.process.send_signal(number)

    def await_exit(self, seconds: float = 60.0) -> int:
        """Its exit code."""
        wait_until(lambda: self.process.poll() is not None, f"{self} ends; {self.trouble()}", seconds)
        return int(self.process.returncode)

    def goes_to_its_end(self) -> bool:
        """Let it go on if it stands still. Returns whether it has come to its end, a good one or not."""
        if self.is_held():
            self.go_on()
        return bool(self.events("done")) or self.process.poll() is not None

    def await_done(self, seconds: float = 180.0) -> dict[str, Any]:
        """Wait until all it was asked for has been delivered, and it has left, whatever holds there are on the way.

        Returns what it counted.
        """

        wait_until(self.goes_to_its_end, f"{self} tells 'done'", seconds)
        done = self.await_event("done")
        code = self.await_exit(seconds)
        assert code == 0, f"{self} exits with {code}: {self.trouble()}"
        return done

    def ask_state(self) -> dict[str, Any]:
        """Where it stands, as it tells when asked."""
        told = len(self.events("state"))
        self.process.send_signal(signal.SIGUSR1)
        return self.await_event("state", told + 1)

    def await_standstill(self, turns: int) -> int:
        """Wait until it has done all that it can before the last of so many turns is answered; its steps until then."""

        def stands_still() -> dict[str, Any] | None:
            state = self.ask_state()
            stands = state["turns"] == turns and state["unanswered"] and state["launched"] == state["completed"]
            return state if stands and state == self.ask_state() else None

        return int(wait_until(stands_still, f"{self} has used up what it has in turn {turns}")["launched"])

    def state(self) -> str:
        """Where it stands, if it lives and can tell."""
        if self.process.poll() is not None:
            return f"exit code {self.process.returncode}"
        try:
            return json.dumps(self.ask_state(), indent=1)
        except AssertionError as error:
            return str(error)

    def trouble(self) -> str:
        """What it wrote to standard error."""
        return self._errors.read_text()[-4000:]

    def end(self) -> None:
        """Kill engine and device, whatever they are doing."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(60)
        if self.process.stdin is not None:
            self.process.stdin.close()

    def __repr__(self) -> str:
        return f"executor {self.name} ({self._number})"


def await_all_done(executors: Sequence[ScriptedExecutor], seconds: float = 180.0) -> list[dict[str, Any]]:
    """Wait until all are done that share a pool: none stands still meanwhile with what the others wait for."""
    wait_until(lambda: not [one for one in executors if not one.goes_to_its_end()], f"{executors} are done", seconds)
    return [one.await_done() for one in executors]
