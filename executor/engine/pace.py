"""How fast steps and turns follow each other, and so how far ahead blocks have to be asked for."""

import math

SLOWEST_KEPT = 0.999
"""What of the slowest turn is remembered with each turn after it: about the slowest of the last thousand."""

LEAST, MOST = 4, 64


class Pace:
    """Measured times of turns and steps."""

    def __init__(self) -> None:
        self._slow_turn = 0.0
        self._step = 0.0

    def note_turn(self, seconds: float) -> None:
        """A turn was answered after so long."""
        self._slow_turn = max(seconds, self._slow_turn * SLOWEST_KEPT)

    def note_step(self, seconds: float) -> None:
        """The device worked so long on a step."""
        self._step = seconds if not self._step else 0.9 * self._step + 0.1 * seconds

    @property
    def look_ahead(self) -> int:
        """Positions for which blocks are wanted beyond the next steps: as many as pass while a slow turn is answered."""
        if not self._step:
            return LEAST
        return max(LEAST, min(3 + math.ceil(self._slow_turn / self._step), MOST))
