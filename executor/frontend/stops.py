"""Stop strings: found wherever they fall across pieces of text, and never shown in part."""

from collections.abc import Sequence


class StopFinder:
    """Looks for any of several strings in a text that comes in pieces.

    The one that is complete first counts, and of several that end at the same character the longest, so that the place
    does not depend on how the text was cut into pieces. Text that may turn out to begin a stop string is held back. Each
    string is followed as Knuth, Morris and Pratt do it: a character costs a few comparisons, however long the strings.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._automata = [_Automaton(stop) for stop in stops]
        self._held = ""
        self.found: str | None = None
        """The stop string that was found."""

    def push(self, text: str) -> str:
        """Take a piece of text; returns what may be shown. When one is found: what stands before it."""
        for place, character in enumerate(text):
            for automaton in self._automata:
                automaton.step(character)
            complete = [automaton.stop for automaton in self._automata if automaton.is_complete]
            if complete:
                self.found = max(complete, key=len)
                return self._release(text[: place + 1], hide=len(self.found))
        return self._release(text, hold=max((automaton.matched for automaton in self._automata), default=0))

    def flush(self) -> str:
        """Nothing more comes: what was held back is no stop string."""
        return self._release("")

    def _release(self, text: str, hold: int = 0, hide: int = 0) -> str:
        whole = self._held + text
        shown = len(whole) - hold - hide
        self._held = whole[shown : shown + hold]
        return whole[:shown]


class _Automaton:
    """How much of the beginning of one string the text seen so far ends with."""

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self.matched = 0
        self._shorter = _borders(stop)

    @property
    def is_complete(self) -> bool:
        return self.matched == len(self.stop)

    def step(self, character: str) -> None:
        """One more character of the text."""
        while self.matched and self.stop[self.matched] != character:
            self.matched = self._shorter[self.matched - 1]
        if self.stop[self.matched] == character:
            self.matched += 1


def _borders(stop: str) -> list[int]:
    """For each beginning of the string, the length of its longest other beginning that it ends with."""
    borders = [0] * len(stop)
    length = 0
    for place in range(1, len(stop)):
        while length and stop[place] != stop[length]:
            length = borders[length - 1]
        if stop[place] == stop[length]:
            length += 1
        borders[place] = length
    return borders
