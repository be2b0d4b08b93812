"""The keeper's log: one JSON object a line on standard error, and never a wait for whoever reads it."""

from __future__ import annotations

import json
import os
import select
import time

_STDERR = 2
_LONGEST_LINE = 4096  # what a pipe takes at once, or not at all (PIPE_BUF)
_lost = 0


def log(event: str, **fields: object) -> None:
    """Write one line. If standard error takes nothing at present the line is lost; the next one says how many were."""
    global _lost
    record: dict[str, object] = {"time": round(time.time(), 3), "source": "keeper", "event": event, **fields}
    if _lost:
        record["lost_lines"] = _lost
    line = json.dumps(record, default=str).encode()[: _LONGEST_LINE - 1] + b"\n"
    poller = select.poll()
    poller.register(_STDERR, select.POLLOUT)
    try:
        if not any(event & select.POLLOUT for _, event in poller.poll(0)):
            raise BlockingIOError
        os.write(_STDERR, line)
        _lost = 0
    except OSError:
        _lost += 1
