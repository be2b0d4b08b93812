"""Starts keepers as real processes for tests, and reads what they log and what their toy children report."""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.scripted.processes import kill_all_of
from tests.scripted.processes import wait_until as wait_until

TOY = Path(__file__).with_name("toy_child.py")

_PROGRAM = """
import json, sys
from pathlib import Path
from blockmgr.keeper import ChildSettings, RestartDelay, run_keeper
directory, settings = Path(sys.argv[1]), json.loads(sys.argv[2])
delay = RestartDelay(**settings.pop("restart_delay"))
sys.exit(run_keeper(directory, [ChildSettings("manager", tuple(sys.argv[3:]), restart_delay=delay, **settings)]))
"""


class KeeperProgram:
    """One keeper process whose child is the toy, told to do `task`."""

    def __init__(self, directory: Path, task: str, **settings: Any) -> None:
        self.directory = directory / "run"
        self.journal = directory / "journal"
        self.log = directory / "log"
        self._own_files = ("/proc/", f"{self.directory}/")
        settings.setdefault("restart_delay", {"immediate": 1000})
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-c", _PROGRAM, str(self.directory), json.dumps(settings)),
                    *(sys.executable, str(TOY), str(self.journal), task),
                ],
                stderr=log,
            )

    @property
    def lives(self) -> list[dict[str, Any]]:
        """What each incarnation of the child reported."""
        if not self.journal.exists():
            return []
        return [json.loads(line) for line in self.journal.read_text().rpartition("\n")[0].splitlines()]

    def events(self, event: str) -> list[dict[str, Any]]:
        """Lines of the log about this event."""
        # What is behind the last end of a line is being written.
        whole = self.log.read_text().rpartition("\n")[0]
        lines = [json.loads(line) for line in whole.splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == event]

    def await_events(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait until the event was logged `count` times, and return the lines."""
        wait_until(lambda: len(self.events(event)) >= count, f"{count} times {event!r} in {self.log.read_text()}")
        return self.events(event)

    def descriptors(self) -> Counter[str]:
        """Return how many descriptors of each kind the keeper has open, without the files that it reads or writes just now."""
        found: Counter[str] = Counter()
        for path in Path(f"/proc/{self.process.pid}/fd").iterdir():
            # By now it may be closed.
            with suppress(FileNotFoundError):
                found[re.sub(r":\[\d+\]", "", os.readlink(path))] += 1
        return Counter({kind: count for kind, count in found.items() if not kind.startswith(self._own_files)})

    def end(self) -> None:
        """Stop keeper and child at once."""
        if self.process.poll() is None:
            # Two different signals: two equal ones may become one.
            self.process.send_signal(signal.SIGTERM)
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(60)
        finally:
            self.process.kill()
            kill_all_of(self.journal, str(TOY))
