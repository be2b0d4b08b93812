"""An `up` as a process, in a folder of its own, and what it started."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from blockmgr.keeper.table import read_children
from tests.scripted.processes import ROOT, wait_until
from tests.scripted.world import PAGEHOLD

SETTINGS = {
    "PAGEHOLD_DOOR_GRACE": "2",
    "PAGEHOLD_DOOR_ANNOUNCE_SECONDS": "0.1",
    "PAGEHOLD_DOOR_HEARTBEAT_SECONDS": "60",
    "PAGEHOLD_DOOR_START_SECONDS": "60",
    "PAGEHOLD_ENGINE_STOP_GRACE": "1",
    "PAGEHOLD_LEASE_SECONDS": "60",
    "PAGEHOLD_PROBE_SECONDS": "60",
}
"""Stops that are short, and nothing that takes a process for dead which is only slow."""

PATIENCE = 150.0
"""Seconds for which a test waits: to start takes many processes and, on a busy machine, a while."""


def kept_port() -> socket.socket:
    """A port of the loopback at which doors may listen, and which is given to nobody else until it is closed."""
    kept = socket.socket()
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        kept.setsockopt(socket.SOL_SOCKET, option, 1)
    kept.bind(("127.0.0.1", 0))
    return kept


class UpFolder:
    """A runtime folder with all that was ever started in it. ``end`` leaves no process behind."""

    def __init__(self) -> None:
        # The paths of sockets are limited to 107 bytes, and pytest's folders are longer.
        self.directory = Path(tempfile.mkdtemp(prefix="ph-up-"))
        self.runtime_dir = self.directory / "run"
        self.log = self.runtime_dir / "up.log"
        self._port = kept_port()
        self.address = f"127.0.0.1:{self._port.getsockname()[1]}"
        self.admin_address = f"unix:{self.runtime_dir}/admin.sock"
        self.ups: list[subprocess.Popen[bytes]] = []

    @property
    def flags(self) -> list[str]:
        """Where everything is, for a command line."""
        return [
            *("--runtime-dir", str(self.runtime_dir)),
            *("--address", self.address),
            *("--admin-address", self.admin_address),
        ]

    def start(
        self,
        *arguments: str,
        program: Sequence[str] = (*PAGEHOLD, "up"),
        terminal: int | None = None,
        **environment: str,
    ) -> int:
        """Start an `up` and do not wait for it; return its process id. What it tells goes to `terminal`, if there is one."""
        with (self.directory / "said").open("ab") as said:
            self.ups.append(
                subprocess.Popen(
                    [*program, *arguments, *self.flags],
                    cwd=ROOT,
                    stdout=said,
                    stderr=said if terminal is None else terminal,
                    env=dict(os.environ) | SETTINGS | environment,
                )
            )
        return self.ups[-1].pid

    def command(self, *arguments: str, seconds: float = PATIENCE) -> subprocess.CompletedProcess[str]:
        """Run a command of pagehold's to its end."""
        return subprocess.run(
            [*PAGEHOLD, *arguments],
            cwd=ROOT,
            env=dict(os.environ) | SETTINGS,
            capture_output=True,
            text=True,
            timeout=seconds,
        )

    def said(self) -> str:
        """What all `up`s here have said so far."""
        path = self.directory / "said"
        return path.read_text() if path.exists() else ""

    def await_said(self, text: str, count: int = 1, seconds: float = PATIENCE) -> None:
        """Wait until an `up` has said something so often."""

        def has_said() -> bool:
            ended = self.ups[-1].poll() is not None
            found = self.said().count(text) >= count
            assert found or not ended, f"it ended before it said {text!r}: {self.trouble()}"
            return found

        wait_until(has_said, f"{text!r} is said {count} times: {self.trouble()}", seconds)

    def await_exit(self, seconds: float = PATIENCE) -> int:
        """Wait for the end of the last `up`; its exit code."""
        return self.ups[-1].wait(seconds)

    def trouble(self) -> str:
        """What it said, and the end of the log."""
        return self.said()[-4000:] + (self.log.read_text()[-4000:] if self.log.exists() else "")

    def children(self) -> dict[str, dict[str, Any]]:
        """What the keeper tells of its children."""
        table = read_children(self.runtime_dir)
        return {child["name"]: child for child in table["children"]} if table is not None else {}

    def pids(self) -> dict[str, int]:
        """Process ids of keeper and children that live."""
        table = read_children(self.runtime_dir)
        assert table is not None
        living = {child["name"]: child["pid"] for child in table["children"] if child["pid"] is not None}
        return {"keeper": table["keeper"], **living}

    def await_other(self, name: str, pid: int, seconds: float = PATIENCE) -> int:
        """Wait until a process is ready that is another one than this; its process id."""

        def other() -> bool:
            child = self.children().get(name)
            return child is not None and child["ready"] and child["pid"] != pid

        wait_until(other, f"another {name} is ready: {self.trouble()}", seconds)
        return self.pids()[name]

    def keeper_events(self, event: str) -> list[dict[str, Any]]:
        """What keepers logged about an event."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        entries = [json.loads(line) for line in lines if line.startswith('{"time"') and line.endswith("}")]
        return [entry for entry in entries if entry.get("event") == event]

    def started(self) -> set[int]:
        """Ids of every process that was ever started here."""
        children = {entry["pid"] for event in ("started", "found running") for entry in self.keeper_events(event)}
        with suppress(AssertionError):
            children.update(self.pids().values())
        return children

    def runs(self, pid: int) -> bool:
        """Whether a process that was started here lives; another one may have its id by now."""
        try:
            # Empty for one that has ended and waits for its parent to look.
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False
        return os.fsencode(self.directory) in command

    def delete(self) -> None:
        """Delete the runtime folder at once: while it is emptied, nothing can be put in it under its own name."""
        shutil.rmtree(self.runtime_dir.rename(self.directory / "deleted"))

    def left(self) -> list[int]:
        """Ids of the processes started here that live."""
        return [pid for pid in self.started() if self.runs(pid)]

    def end(self) -> None:
        """Kill whatever is left."""
        for up in self.ups:
            up.kill()
            up.wait(60)
        wait_until(self._kill_left, "all are dead")
        self._port.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _kill_left(self) -> bool:
        """Kill what lives. Returns whether that was nothing: a keeper may have started more meanwhile."""
        left = self.left()
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left


@contextmanager
def up_folder() -> Iterator[UpFolder]:
    """A runtime folder for a test; what was said is shown where the test fails."""
    folder = UpFolder()
    try:
        yield folder
    except BaseException:
        print(folder.trouble(), file=sys.stderr)
        raise
    finally:
        folder.end()
