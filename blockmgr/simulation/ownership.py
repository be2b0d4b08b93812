"""Who holds which block, followed from event to event."""

from collections.abc import Iterable
from dataclasses import dataclass

from blockmgr.core.events import EventKind
from blockmgr.simulation.recorded import Block, RecordedEvent

K = EventKind
TAKING = (K.ADMITTED, K.GREW, K.FORKED, K.RETURNED)
GIVING_UP = (K.FREED, K.EVICTED, K.FLUSHED)
MOVING = (*TAKING, *GIVING_UP, K.COPY_ORDERED, K.COPY_DONE, K.FINISHED, K.RELEASED, K.CACHED)
"""Kinds of event that change who holds the blocks they name."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A sequence of the recording, under the letter that stands for it."""

    uuid: str
    handle: str


@dataclass(frozen=True, slots=True)
class Holdings:
    """What is held in one tier, by the blocks' numbers in it."""

    blocks: dict[str, list[int]]
    """Owner → blocks, in the order in which it got them."""
    cached: list[int]
    others: list[int]
    """Held, but by none of the owners: by forks and beams whose tables no event tells."""


class Ownership:
    """Who holds which block, event by event."""

    def __init__(self) -> None:
        self.held: dict[str, dict[Block, None]] = {}
        """Owner → its blocks; the dict is an ordered set."""
        self.cached: set[Block] = set()
        self.others: set[Block] = set()
        self.owners: dict[str, Owner] = {}
        self._letters: dict[str, str] = {}

    def letter(self, event: RecordedEvent) -> str:
        """The letter of an event's sequence: A is the first that is heard of. A UUID outlives its handle."""
        key = event.uuid or event.handle
        if not key:
            return ""
        if key not in self._letters:
            self._letters[key] = letters(len(self._letters))
            self.owners[self._letters[key]] = Owner(event.uuid, event.handle)
        return self._letters[key]

    def apply(self, event: RecordedEvent) -> None:
        """Follow one event. Events that move no block change nothing."""
        blocks = event.blocks
        if event.kind in TAKING:
            self._take(event, blocks)
        elif event.kind in (K.COPY_ORDERED, K.COPY_DONE) and len(blocks) == 2:
            self._copy(event, *blocks)
        elif event.kind in (K.FINISHED, K.RELEASED):
            mine = self.held.pop(self.letter(event), {}) | dict.fromkeys(blocks)
            # Whatever of it is freed or cached follows at once; the rest is held by someone else.
            self.others.update(block for block in mine if not self._holders(block))
        elif event.kind == K.CACHED or (event.kind == K.SEALED and self.others):
            gone = blocks if event.kind == K.CACHED else [block for block in blocks if block in self.others]
            self._let_go(gone)
            self.cached.update(gone)
        elif event.kind in GIVING_UP:
            self._let_go(blocks)

    def _take(self, event: RecordedEvent, blocks: Iterable[Block]) -> None:
        if event.blocks:
            self.held.setdefault(self.letter(event), {}).update(dict.fromkeys(blocks))
            self.cached.difference_update(blocks)
            self.others.difference_update(blocks)

    def _copy(self, event: RecordedEvent, source: Block, destination: Block) -> None:
        """An ordered copy's destination is taken for the sequence; once it is done the source is no longer the sequence's."""
        self._take(event, [destination])
        held = self.held[self.letter(event)]
        # Where the sequence was the last to name the source, that has been freed by now.
        if event.kind == K.COPY_DONE and source in held:
            del held[source]
            if not self._holders(source):
                self.others.add(source)

    def _let_go(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            for held in self._holders(block):
                del held[block]
        self.cached.difference_update(blocks)
        self.others.difference_update(blocks)

    def _holders(self, block: Block) -> list[dict[Block, None]]:
        return [held for held in self.held.values() if block in held]

    def holdings(self, host: bool) -> Holdings:
        """What is held in one tier."""

        def numbers(blocks: Iterable[Block]) -> list[int]:
            return [block.number for block in blocks if block.host == host]

        held = {owner: numbers(blocks) for owner, blocks in self.held.items()}
        return Holdings(
            {owner: blocks for owner, blocks in held.items() if blocks},
            sorted(numbers(self.cached)),
            sorted(numbers(self.others)),
        )


def letters(number: int) -> str:
    """A to Z, then AA, AB and so on."""
    name = ""
    number += 1
    while number:
        number, place = divmod(number - 1, 26)
        name = chr(ord("A") + place) + name
    return name
