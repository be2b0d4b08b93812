"""Pools over time: who holds which cells after each event. The picture's subject, whatever it was made from."""

from dataclasses import dataclass, field

from blockmgr.simulation.lifecycle import Lifecycle, LifecycleEvent


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring cells with the same owners. ``filled`` of them, from the first on, hold tokens."""

    start: int
    length: int
    owners: tuple[str, ...]
    filled: int
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Strip:
    """One pool at one moment."""

    runs: list[Run]
    figures: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """All pools after an event."""

    label: str
    strips: list[Strip]
    alarm: bool = False
    """Something was refused."""


@dataclass(frozen=True, slots=True)
class PoolTitle:
    """Name of a pool, how many cells it has, how many of them belong together, and what a cell is."""

    name: str
    cells: int
    group: int
    unit: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """Frames in order, and what is needed to read them."""

    title: str
    subtitle: str
    pools: list[PoolTitle]
    frames: list[Frame]
    owners: dict[str, str] = field(default_factory=dict)
    """Owner → what it is, in the order of the colours. ``CACHED`` and ``OTHERS`` have colours of their own."""


CACHED = "cached"
OTHERS = "others"


def of_lifecycle(story: Lifecycle) -> Timeline:
    """Both pools of a lifecycle."""
    names = list(dict.fromkeys(event.request for event in story.events))
    return Timeline(
        "Lifecycle of two pools",
        f"{story.slots} slots, one a token: reservations of {story.reservation} slots beside blocks of "
        f"{story.tokens_per_block}. Solid: slots that hold tokens. Pale: reserved and empty.",
        [
            PoolTitle("contiguous", story.slots, story.reservation, "slots"),
            PoolTitle("paged", story.slots, story.tokens_per_block, "slots"),
        ],
        [_frame(story, event) for event in story.events],
        {name: f"request {name}" for name in names},
    )


def _frame(story: Lifecycle, event: LifecycleEvent) -> Frame:
    contiguous, paged = event.contiguous, event.paged
    reservations = [
        Run(e.start, e.length, (name,), e.tokens, f"{name}: {e.tokens} of {e.length} slots")
        for name, e in contiguous.requests.items()
    ]
    size = story.tokens_per_block
    blocks = [
        # Block 0 is the null block, which is no part of the usable pool.
        Run((block - 1) * size, size, (name,), min(size, held.tokens - place * size), f"{name}: block {block}")
        for name, held in paged.requests.items()
        for place, block in enumerate(held.blocks)
    ]
    refused = [pool for pool, moment in (("contiguous", contiguous), ("paged", paged)) if moment.refused]
    label = event.label + (f": refused ({', '.join(refused)})" if refused else "")
    return Frame(
        label,
        [
            Strip(reservations, f"{contiguous.tokens} / {contiguous.reserved}"),
            Strip(blocks, f"{paged.tokens} / {paged.reserved}"),
        ],
        bool(refused),
    )
