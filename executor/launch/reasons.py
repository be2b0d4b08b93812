"""Why an `up` ended: the words of the process that will not come up, or the last ones it left in the log."""

from __future__ import annotations

from pathlib import Path

from executor.launch.readiness import ChildState, describe_code

LAST_LINES, LAST_BYTES = 12, 16384
"""What of the log is shown for a process that gave no reason."""

_KEEPERS_OWN = '"source": "keeper"'


class Log:
    """The file that all processes of an `up` write to, as far as they wrote into it since this was made."""

    def __init__(self, path: Path | None) -> None:
        """`path` None: they write to standard error, and nothing can be read again."""
        self.path = path
        self._from = path.stat().st_size if path is not None and path.exists() else 0

    def last_lines(self) -> list[str]:
        """The last lines that were written, but for those of the keeper."""
        if self.path is None or not self.path.exists():
            return []
        with self.path.open("rb") as file:
            end = file.seek(0, 2)
            # What was rotated away meanwhile has taken its place in the file with it.
            file.seek(max(self._from if self._from <= end else 0, end - LAST_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
        return [line for line in lines if _KEEPERS_OWN not in line][-LAST_LINES:]


def describe_failure(child: ChildState, log: Log) -> str:
    """Why a process does not come up, in its own words where it left any."""
    if child.last_words:
        return f"{child.name}: {child.last_words}"
    ended = f"{child.name} ended {describe_code(child.last_code)} and gave no reason"
    return "\n".join([f"{ended}; last in the log:", *log.last_lines()] if log.last_lines() else [ended])
