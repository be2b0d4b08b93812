"""Structured logs on standard error. Whoever reads them, or the disk that they go to, can hold up or end nothing by it."""

import logging
import os
import select
import sys
import threading
from collections.abc import MutableMapping
from typing import Any

import structlog

STANDARD_ERROR = 2

PIECE = 4096
"""Bytes that a pipe which takes any takes at once (PIPE_BUF)."""


class LogLines:
    """Lines to a descriptor, of which this is no owner. One that is not taken at once is lost: a full disk, or a pipe that
    nobody reads any more, must not end or freeze a process that serves. The next line that is taken says how many were.
    """

    def __init__(self, descriptor: int) -> None:
        """Write there, and buffer nothing."""
        self.lost = 0
        """Lines lost since the last one that was taken."""
        self._descriptor = descriptor
        self._is_cut = False
        # A signal's handler may log while its own thread does.
        self._lock = threading.RLock()

    def write(self, line: str) -> int:
        """Write a line, its end included, or lose it. Never raises, and never waits. For any thread."""
        with self._lock:
            self._write(line)
        return len(line)

    def _write(self, line: str) -> None:
        data = (b"\n" if self._is_cut else b"") + line.encode(errors="backslashreplace")
        written = 0
        # Not shared: it raises for whoever polls while another does.
        poller = select.poll()
        poller.register(self._descriptor, select.POLLOUT)
        try:
            while written < len(data):
                if not any(event & select.POLLOUT for _, event in poller.poll(0)):
                    raise BlockingIOError
                written += os.write(self._descriptor, data[written : written + PIECE])
            self.lost, self._is_cut = 0, False
        except OSError:
            self.lost += 1
            self._is_cut = self._is_cut if not written else data[written - 1 : written] != b"\n"

    def flush(self) -> None:
        """Nothing is kept back."""

    def count_lost(self, _: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Have an event say how many lines were lost before it, if any were."""
        if self.lost:
            event["lost_lines"] = self.lost
        return event


def configure_logs(level_name: str, log_format: str) -> None:
    """Log from the named level on, for people (``console``) or for programs (``json``)."""
    level = getattr(logging, level_name.upper())
    lines: Any = LogLines(STANDARD_ERROR)
    logging.basicConfig(level=level, stream=lines, format="%(message)s")
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            lines.count_lost,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(lines),
    )
