"""Rows with an aim, gathered part by part, of which each has its time and may fail alone."""

import json
import subprocess
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Row:
    """A figure, and what it is to be."""

    name: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether it is what it is to be; None: there is no aim."""
        if self.at_most is not None:
            return self.value <= self.at_most
        return None if self.at_least is None else self.value >= self.at_least

    def __str__(self) -> str:
        aim = f"≤ {self.at_most:,g}" if self.at_most is not None else ""
        aim = f"≥ {self.at_least:,g}" if self.at_least is not None else aim
        verdict = {None: "", True: "yes", False: "NO"}[self.met]
        value = f"{self.value:,.0f}" if self.value == int(self.value) or self.value >= 1000 else f"{self.value:,.2f}"
        return f"{self.name:40}{value:>12}  {self.unit:18}{aim:>10}  {verdict}".rstrip()


LEAST = 5.0
"""Seconds with which a part is begun at least."""


class Report:
    """What was found so far. It is written after each part, so that an end from outside loses one part only."""

    def __init__(self, folder: Path, scratch: str, seconds: float) -> None:
        self.folder = folder
        self.scratch = scratch
        self._end = time.monotonic() + seconds
        self._rows: list[Row] = []
        self._remarks: list[str] = []
        self._kept: dict[str, Any] = {"gpu": gpu_state()}
        self._failed = False

    def part(self, name: str, seconds: float, work: Callable[[float], None]) -> None:
        """Do a part, which is told how many seconds it may take. What it raises is noted, and goes no further."""
        began = time.monotonic()
        left = self._end - began
        if left < LEAST:
            self._failed = True
            return self.remark(f"{name}: left out, since the time is used up")
        try:
            work(min(seconds, left))
        except Exception as error:
            self._failed = True
            self.remark(f"{name} failed after {time.monotonic() - began:.1f} s: {type(error).__name__}: {error}")
            self._kept.setdefault("traces", []).append(traceback.format_exc())
        return self._write()

    def add(self, row: Row) -> None:
        """A row more, shown at once."""
        self._rows.append(row)
        print(row, flush=True)

    def keep(self, name: str, figures: Any) -> None:
        """Figures for the file alone."""
        self._kept[name] = figures

    def remark(self, text: str) -> None:
        """Something to know, shown at once and again at the end."""
        self._remarks.append(text)
        print(text, flush=True)

    def print(self) -> int:
        """The table; the exit code: 1 where a part failed or an aim was missed."""
        self._kept["gpu afterwards"] = gpu_state()
        self._write()
        print("\n" + "=" * 90)
        for line in (*self._rows, *self._remarks):
            print(line)
        print(f"GPU memory before and after: {self._kept['gpu']} | {self._kept['gpu afterwards']}")
        return int(self._failed or any(row.met is False for row in self._rows))

    def _write(self) -> None:
        rows = [asdict(row) | {"met": row.met} for row in self._rows]
        text = json.dumps({"rows": rows, "remarks": self._remarks, **self._kept}, indent=1)
        (self.folder / "report.json").write_text(text)


def gpu_state() -> str:
    """Name, driver and memory in use of each GPU, or why there is none."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version,memory.used", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"no nvidia-smi: {error}"
