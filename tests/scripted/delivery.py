"""Where a scripted executor delivers tokens: lines of a file, which is all that its client ever sees.

An executor that starts reads how far its predecessor got, as a client that attaches again would say.
"""

import os
from collections import Counter
from pathlib import Path

from tests.scripted.workload import Request


class Delivery:
    """The file, and how many tokens of each sequence are in it."""

    def __init__(self, path: Path) -> None:
        self._counts: Counter[str] = Counter()
        self._ended: set[str] = set()
        if path.exists():
            for line in path.read_text().splitlines():
                uuid, position, _ = line.split()
                if position == "end":
                    self._ended.add(uuid)
                else:
                    self._counts[uuid] += 1
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def count(self, request: Request) -> int:
        """Tokens of output delivered."""
        return self._counts[request.uuid]

    def is_complete(self, request: Request) -> bool:
        """Whether nothing more will come."""
        return request.uuid in self._ended or self.count(request) >= request.target - len(request.prompt)

    def append(self, request: Request, first: int, tokens: list[int]) -> None:
        """Deliver output from number ``first`` on, with one write, so that a kill leaves all of it or nothing."""
        if tokens:
            lines = "".join(f"{request.uuid} {place} {token}\n" for place, token in enumerate(tokens, first))
            os.write(self._file, lines.encode())
            self._counts[request.uuid] += len(tokens)

    def end(self, request: Request, reason: int) -> None:
        """Say that a sequence ended before its target, and why."""
        if not self.is_complete(request):
            os.write(self._file, f"{request.uuid} end {reason}\n".encode())
            self._ended.add(request.uuid)


def delivered(path: Path) -> dict[str, list[tuple[int, int]]]:
    """For tests: number and token of everything delivered, by UUID, in the order of delivery."""
    found: dict[str, list[tuple[int, int]]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        uuid, position, token = line.split()
        if position != "end":
            found.setdefault(uuid, []).append((int(position), int(token)))
    return found


def ended(path: Path) -> dict[str, int]:
    """For tests: the reason of each sequence that ended before its target."""
    lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return {uuid: int(reason) for uuid, position, reason in lines if position == "end"}
