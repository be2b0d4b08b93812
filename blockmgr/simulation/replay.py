"""From the events of a real run back to who held which block when."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from blockmgr.core.events import EventKind
from blockmgr.simulation.recorded import RecordedEvent
from blockmgr.simulation.timeline import CACHED, OTHERS, Frame, PoolTitle, Run, Strip, Timeline

K = EventKind
TAKING = (K.ADMITTED, K.GREW, K.FORKED)
GIVING_UP = (K.FREED, K.EVICTED, K.FLUSHED)
MOVING = (*TAKING, *GIVING_UP, K.COPY_ORDERED, K.COPY_DONE, K.FINISHED, K.CACHED)
VERBS = {
    K.ADMITTED: "admitted", K.GREW: "grows", K.FORKED: "forks", K.FINISHED: "finishes", K.COPY_ORDERED: "copies",
    K.COPY_DONE: "has copied", K.EVICTED: "evicted", K.FLUSHED: "flushed", K.CACHED: "cached", K.FREED: "freed",
    K.SWAPPING_OUT: "swaps out", K.SWAPPING_IN: "swaps in", K.ADOPTED: "adopted", K.ORPHANED: "orphaned",
    K.REFUSED: "refused", K.SHORT: "is short", K.REORDERED: "beams move",
}  # fmt: skip
"""How an event reads in a label; events of other kinds are not named there."""

FOLLOWING = (K.FREED, K.CACHED)
"""Consequences, which are named only where nothing else is."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A sequence of the recording, under the letter that stands for it."""

    uuid: str
    handle: str


@dataclass(frozen=True, slots=True)
class Moment:
    """The pool after one transaction that changed who holds what. Blocks by their numbers in the ledger."""

    revision: int
    time: str
    label: str
    blocks: dict[str, list[int]]
    """Owner → blocks, in the order in which it got them."""
    cached: list[int]
    others: list[int]
    """Held, but by none of the owners: by forks and beams whose tables no event tells."""
    refused: bool


@dataclass(frozen=True, slots=True)
class Replay:
    """The last moments of a recording, and what was left out of it."""

    events: int
    unknown_events: int
    moments_before: int
    """Earlier moments that were replayed but are not listed."""
    owners: dict[str, Owner]
    moments: list[Moment]


class Ownership:
    """Who holds which block, event by event."""

    def __init__(self) -> None:
        self.held: dict[str, dict[int, None]] = {}
        """Owner → its blocks; the dict is an ordered set."""
        self.cached: set[int] = set()
        self.others: set[int] = set()
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
        elif event.kind == K.FINISHED:
            mine = self.held.pop(self.letter(event), {}) | dict.fromkeys(blocks)
            # Whatever of it is freed or cached follows at once; the rest is held by someone else.
            self.others.update(block for block in mine if not self._holders(block))
        elif event.kind == K.CACHED or (event.kind == K.SEALED and self.others):
            gone = blocks if event.kind == K.CACHED else [block for block in blocks if block in self.others]
            self._let_go(gone)
            self.cached.update(gone)
        elif event.kind in GIVING_UP:
            self._let_go(blocks)

    def _take(self, event: RecordedEvent, blocks: list[int]) -> None:
        if blocks:
            self.held.setdefault(self.letter(event), {}).update(dict.fromkeys(blocks))
            self.cached.difference_update(blocks)
            self.others.difference_update(blocks)

    def _copy(self, event: RecordedEvent, source: int, destination: int) -> None:
        """An ordered copy's destination is taken for the sequence; once it is done the source is no longer the sequence's."""
        self._take(event, [destination])
        held = self.held[self.letter(event)]
        # Where the sequence was the last to name the source, that has been freed by now.
        if event.kind == K.COPY_DONE and source in held:
            del held[source]
            if not self._holders(source):
                self.others.add(source)

    def _let_go(self, blocks: list[int]) -> None:
        for block in blocks:
            for held in self._holders(block):
                del held[block]
        self.cached.difference_update(blocks)
        self.others.difference_update(blocks)

    def _holders(self, block: int) -> list[dict[int, None]]:
        return [held for held in self.held.values() if block in held]

    def state(self) -> tuple[dict[str, list[int]], list[int], list[int]]:
        """Owners with their blocks, cached blocks, and blocks of others."""
        blocks = {owner: list(held) for owner, held in self.held.items() if held}
        return blocks, sorted(self.cached), sorted(self.others)


def letters(number: int) -> str:
    """A to Z, then AA, AB and so on."""
    name = ""
    number += 1
    while number:
        number, place = divmod(number - 1, 26)
        name = chr(ord("A") + place) + name
    return name


def replay(events: Iterable[RecordedEvent], last: int) -> Replay:
    """Follow all events and list the last ``last`` moments at which blocks changed hands or a prompt was refused."""
    ownership, moments = Ownership(), []
    transactions = list(_transactions(events))
    left_out = max(0, sum(map(_is_moment, transactions)) - last)
    before = 0
    for group in transactions:
        label = _label(ownership, group)
        for event in group:
            ownership.apply(event)
        if _is_moment(group):
            before += 1
            if before > left_out:
                refused = any(event.kind == K.REFUSED for event in group)
                moments.append(Moment(group[-1].revision, group[-1].time, label, *ownership.state(), refused))
    unknown = sum(event.kind is None for group in transactions for event in group)
    return Replay(sum(map(len, transactions)), unknown, left_out, ownership.owners, moments)


def _is_moment(group: list[RecordedEvent]) -> bool:
    return any(event.kind == K.REFUSED or (event.kind in MOVING and event.blocks) for event in group)


def _transactions(events: Iterable[RecordedEvent]) -> Iterator[list[RecordedEvent]]:
    """Events of one transaction have one time; without a time each event stands alone."""
    for time, group in groupby(events, key=lambda event: event.time):
        if time:
            yield list(group)
        else:
            yield from ([event] for event in group)


def _label(ownership: Ownership, group: list[RecordedEvent]) -> str:
    """The events of a transaction in a few words."""
    named = [e for e in group if e.kind in VERBS and e.kind not in FOLLOWING] or [e for e in group if e.kind in VERBS]
    if len(named) <= 2:
        return ", ".join(f"{ownership.letter(e)} {VERBS[e.kind]}".strip() for e in named if e.kind)
    return ", ".join(f"{many} × {VERBS[kind]}" for kind, many in Counter(e.kind for e in named).items() if kind)


def of_replay(story: Replay, name: str) -> Timeline:
    """The picture's subject: one pool of as many cells as the highest block that is named needs."""
    named = [block for moment in story.moments for blocks in _all_blocks(moment) for block in blocks]
    cells = max(named, default=0) + 1
    left_out = f" The first {story.moments_before} moments are left out." if story.moments_before else ""
    return Timeline(
        f"Blocks of {Path(name).name}",
        f"{story.events} events. A cell is a block by its number in the ledger, block 0 the null block.{left_out}",
        [PoolTitle("pool", cells, 1, "blocks")],
        [Frame(moment.label, [Strip(_runs(moment))], moment.refused) for moment in story.moments],
        {letter: f"{letter}: {owner.uuid[-8:] or owner.handle}" for letter, owner in story.owners.items()},
    )


def _all_blocks(moment: Moment) -> list[list[int]]:
    return [*moment.blocks.values(), moment.cached, moment.others]


def _runs(moment: Moment) -> list[Run]:
    """Neighbouring blocks with the same owners as one run, so that a large pool makes a small picture."""
    owners: dict[int, tuple[str, ...]] = {}
    everyone = [*moment.blocks.items(), (CACHED, moment.cached), (OTHERS, moment.others)]
    for owner, blocks in everyone:
        for block in blocks:
            owners[block] = (*owners.get(block, ()), owner)
    runs: list[Run] = []
    for block in sorted(owners):
        previous = runs[-1] if runs else None
        if previous and previous.start + previous.length == block and previous.owners == owners[block]:
            length = previous.length + 1
            runs[-1] = Run(previous.start, length, previous.owners, length, _tip(previous.start, block, owners[block]))
        else:
            runs.append(Run(block, 1, owners[block], 1, _tip(block, block, owners[block])))
    return runs


def _tip(first: int, last: int, owners: tuple[str, ...]) -> str:
    return f"{', '.join(owners)}: " + (f"block {first}" if first == last else f"blocks {first} to {last}")
