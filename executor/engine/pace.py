"""How fast steps, turns and copies are: how far ahead blocks have to be asked for, and what it costs to make room."""

import math

SLOWEST_KEPT = 0.999
"""What of the slowest turn is remembered with each turn after it: about the slowest of the last thousand."""

LEAST, MOST = 4, 64


class Pace:
    """Measured times of turns and steps."""

    def __init__(self) -> None:
        self._slow_turn = 0.0
        self._step = 0.0
        self._block = 0.0
        self._token = 0.0

    def note_turn(self, seconds: float) -> None:
        """A turn was answered after so long."""
        self._slow_turn = max(seconds, self._slow_turn * SLOWEST_KEPT)

    def note_step(self, seconds: float) -> None:
        """The device worked so long on a step."""
        self._step = _smoothed(self._step, seconds)

    def note_copies(self, blocks: int, seconds: float) -> None:
        """So many blocks were copied together in that time."""
        self._block = _smoothed(self._block, seconds / blocks)

    def note_prompts(self, tokens: int, seconds: float) -> None:
        """The device fed so many tokens, most of them of prompts, in that time."""
        self._token = _smoothed(self._token, seconds / tokens)

    def swap_is_cheaper(self, blocks: int, tokens: int) -> bool:
        """Whether to copy blocks to the host tier and back takes less time than to compute their tokens again.

        As long as nothing was copied nobody knows: then it is tried.
        """
        return 2 * blocks * self._block <= tokens * self._token

    @property
    def look_ahead(self) -> int:
        """Positions for which blocks are wanted beyond the next steps: as many as pass while a slow turn is answered."""
        if not self._step:
            return LEAST
        return max(LEAST, min(3 + math.ceil(self._slow_turn / self._step), MOST))


def _smoothed(before: float, now: float) -> float:
    return 0.9 * before + 0.1 * now if before else now
