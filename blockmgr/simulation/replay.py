"""From the events of a real run back to who held which block when."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from blockmgr.core.events import EventKind
from blockmgr.simulation.ownership import MOVING, Holdings, Owner, Ownership
from blockmgr.simulation.recorded import SNAPSHOT, RecordedEvent
from blockmgr.simulation.timeline import CACHED, OTHERS, Frame, PoolTitle, Run, Strip, Timeline

K = EventKind
VERBS = {
    K.ADMITTED: "admitted", K.GREW: "grows", K.FORKED: "forks", K.FINISHED: "finishes", K.COPY_ORDERED: "copies",
    K.COPY_DONE: "has copied", K.EVICTED: "evicted", K.FLUSHED: "flushed", K.CACHED: "cached", K.FREED: "freed",
    K.SWAPPING_OUT: "swaps out", K.SWAPPING_IN: "swaps in", K.ADOPTED: "adopted", K.ORPHANED: "orphaned",
    K.RELEASED: "gives up", K.RETURNED: "comes back",
    K.REFUSED: "refused", K.SHORT: "is short", K.REORDERED: "beams move",
}  # fmt: skip
"""How an event reads in a label; events of other kinds are not named there."""

FOLLOWING = (K.FREED, K.CACHED)
"""Consequences, which are named only where nothing else is."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The pool after one transaction that changed who holds what."""

    revision: int
    time: str
    label: str
    device: Holdings
    host: Holdings
    refused: bool


@dataclass(frozen=True, slots=True)
class Replay:
    """The last moments of a recording, and what was left out of it."""

    events: int
    unknown_events: int
    missed_events: int
    """Events that the watch did not get: what is shown after a gap may be wrong."""
    moments_before: int
    """Earlier moments that were replayed but are not listed."""
    owners: dict[str, Owner]
    moments: list[Moment]


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
                moments.append(_moment(ownership, group, label))
    everything = [event for group in transactions for event in group if event.time != SNAPSHOT and not event.missed]
    unknown = sum(event.kind is None for event in everything)
    missed = sum(event.missed for group in transactions for event in group)
    return Replay(len(everything), unknown, missed, left_out, ownership.owners, moments)


def _moment(ownership: Ownership, group: list[RecordedEvent], label: str) -> Moment:
    last, refused = group[-1], any(event.kind == K.REFUSED for event in group)
    return Moment(last.revision, last.time, label, ownership.holdings(False), ownership.holdings(True), refused)


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
    if group[0].time == SNAPSHOT:
        return "snapshot"
    named = [e for e in group if e.kind in VERBS and e.kind not in FOLLOWING] or [e for e in group if e.kind in VERBS]
    if len(named) <= 2:
        return ", ".join(f"{ownership.letter(e)} {VERBS[e.kind]}".strip() for e in named if e.kind)
    return ", ".join(f"{many} × {VERBS[kind]}" for kind, many in Counter(e.kind for e in named).items() if kind)


def of_replay(story: Replay, name: str) -> Timeline:
    """The picture's subject: a pool for each tier that is used, of as many cells as the highest block named needs."""
    names = [tier for tier in ("device", "host") if tier == "device" or any(_numbers(m.host) for m in story.moments)]
    pools = [PoolTitle(tier, _cells(story, tier), 1, "blocks") for tier in names]
    notes = [
        f"{story.events} events. A cell is a block by its number in its tier; the device's block 0 is the null block."
    ]
    if story.moments_before:
        notes.append(f"The first {story.moments_before} moments are left out.")
    if story.missed_events:
        notes.append(f"{story.missed_events} events were missed: what follows a gap may be wrong.")
    return Timeline(
        f"Blocks of {Path(name).name}",
        " ".join(notes),
        pools,
        [Frame(m.label, [Strip(_runs(getattr(m, tier))) for tier in names], m.refused) for m in story.moments],
        {letter: f"{letter}: {owner.uuid[-8:] or owner.handle}" for letter, owner in story.owners.items()},
    )


def _cells(story: Replay, tier: str) -> int:
    return max((block for moment in story.moments for block in _numbers(getattr(moment, tier))), default=0) + 1


def _numbers(holdings: Holdings) -> list[int]:
    return [block for blocks in (*holdings.blocks.values(), holdings.cached, holdings.others) for block in blocks]


def _runs(holdings: Holdings) -> list[Run]:
    """Neighbouring blocks with the same owners as one run, so that a large pool makes a small picture."""
    owners: dict[int, tuple[str, ...]] = {}
    for owner, blocks in (*holdings.blocks.items(), (CACHED, holdings.cached), (OTHERS, holdings.others)):
        for block in blocks:
            owners[block] = (*owners.get(block, ()), owner)
    runs: list[Run] = []
    first = last = -1
    for block in [*sorted(owners), -1]:
        if 0 <= last == block - 1 and owners[block] == owners[last]:
            last = block
            continue
        if last >= 0:
            length = last - first + 1
            runs.append(Run(first, length, owners[last], length, _tip(first, last, owners[last])))
        first = last = block
    return runs


def _tip(first: int, last: int, owners: tuple[str, ...]) -> str:
    return f"{', '.join(owners)}: " + (f"block {first}" if first == last else f"blocks {first} to {last}")
