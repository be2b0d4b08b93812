"""The keeper's table of its children, in a file of the runtime directory for whoever wants to look."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from blockmgr.keeper.child import Child
from blockmgr.keeper.log import log
from blockmgr.keeper.records import write_record

_NAME = "children.json"


class ChildrenTable:
    """Writes the file anew whenever something in it has changed. Nothing depends on it: a full disk is no death."""

    def __init__(self, directory: Path) -> None:
        """Nothing is written yet."""
        self._path = directory / _NAME
        self._written = ""

    def write(self, children: Iterable[Child]) -> None:
        """Write what there is to say of the children, if it is news."""
        table = json.dumps({"keeper": os.getpid(), "children": [_entry(child) for child in children]}, indent=1)
        if table == self._written:
            return
        try:
            write_record(self._path, table)
            self._written = table
        except OSError as error:
            log("table not written", error=error)


def _entry(child: Child) -> dict[str, Any]:
    return {
        "name": child.settings.name,
        "pid": child.process.pid if child.process is not None else None,
        "phase": child.phase.value,
        "ready": child.is_ready,
        "status": child.status,
        "starts": child.starts,
        "deaths": child.deaths,
        "last_code": child.last_code,
        "last_words": child.last_words,
        "hopeless": child.is_hopeless,
    }


def read_children(directory: Path) -> dict[str, Any] | None:
    """Return what the keeper of a runtime directory last wrote: its process id as "keeper", a list as "children".

    Each child has its name, pid (None: no process), phase, whether it is ready, its status for people, how often it was
    started and how often in a row it has ended, the code that its last process ended with (negative for a signal) and the
    last status of that, and whether it is hopeless: ended for good, for its settings are wrong. None if no keeper wrote
    anything, or what it wrote cannot be read.
    """
    try:
        table: dict[str, Any] = json.loads((directory / _NAME).read_text())
    except (OSError, ValueError):
        return None
    return table
