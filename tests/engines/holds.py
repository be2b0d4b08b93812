"""Steps of an engine that stand still for as long as a test wants, however slow or fast anybody is meanwhile.

The test's side writes into a file which steps those are; the engine's side looks there ahead of each step.
"""

import json
import time
from pathlib import Path

import torch


class Hold:
    """The test's side: which steps stand still. Commands behind a step that does wait for it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._position = 0

    def move(self, *, token: int | None = None, position: int | None = None, steps: int | None = None) -> None:
        """Let those stand still from now on, and no others, that have a token of this id, or feed a position from this one
        on, or come behind so many of their engine.
        """
        self._position = position or 0
        draft = self._file.with_suffix(".draft")
        draft.write_text(json.dumps({"token": token, "position": position, "steps": steps}))
        draft.rename(self._file)

    def make_way(self) -> None:
        """Let the furthest go on by one position: where others have had to wait for blocks, it may stand in their way."""
        if self._position:
            self.move(position=self._position + 1)

    def let_go(self) -> None:
        """Let all go on."""
        self._file.unlink(missing_ok=True)


class Standstill:
    """The engine's side."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._steps = 0

    def pass_by(self, ids: torch.Tensor, positions: torch.Tensor) -> None:
        """Stand still ahead of a step for as long as the file says so."""
        self._steps += 1
        while self._is_held(ids, positions):
            time.sleep(0.005)

    def _is_held(self, ids: torch.Tensor, positions: torch.Tensor) -> bool:
        try:
            held = json.loads(self._file.read_text())
        except FileNotFoundError:
            return False
        if held["token"] is not None and bool((ids == held["token"]).any()):
            return True
        if held["position"] is not None and int(positions.max()) >= held["position"]:
            return True
        return held["steps"] is not None and self._steps > held["steps"]
