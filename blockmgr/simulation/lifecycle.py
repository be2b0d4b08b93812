"""A handful of requests come, grow and go in a small pool, event by event."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from blockmgr.core.events import Event
from blockmgr.core.states import Refusal
from blockmgr.simulation.contiguous import ContiguousPool
from blockmgr.simulation.driver import Driver

SLOTS = 64
RESERVATION = 16
TOKENS_PER_BLOCK = 4

SCRIPT = (
    ("arrive", "A", 5),
    ("arrive", "B", 9),
    ("arrive", "C", 3),
    ("arrive", "D", 6),
    ("arrive", "E", 12),
    ("grow", "A", 5),
    ("grow", "B", 3),
    ("grow", "C", 8),
    ("complete", "B", 0),
    ("arrive", "F", 12),
    ("grow", "F", 4),
    ("complete", "A", 0),
    ("arrive", "G", 15),
)
"""Event, request, tokens. A request that is refused is dropped."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Slots of a contiguous reservation, and how many of them, from the first on, hold tokens."""

    start: int
    length: int
    tokens: int


@dataclass(frozen=True, slots=True)
class ContiguousMoment:
    """The contiguous pool after an event; ``*_before`` before it. Slots, one a token."""

    refused: bool
    tokens_before: int
    reserved_before: int
    tokens: int
    reserved: int
    requests: dict[str, Extent]


@dataclass(frozen=True, slots=True)
class PagedRequest:
    """A request's block table and its tokens."""

    blocks: list[int]
    tokens: int


@dataclass(frozen=True, slots=True)
class PagedMoment:
    """The paged pool after an event; ``*_before`` before it. Slots, one a token; blocks by their numbers, from 1 on."""

    refused: bool
    tokens_before: int
    reserved_before: int
    tokens: int
    reserved: int
    requests: dict[str, PagedRequest]
    taken: list[int] = field(default_factory=list)
    released: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LifecycleEvent:
    """What happened, and both pools after it."""

    event: str
    request: str
    tokens: int
    contiguous: ContiguousMoment
    paged: PagedMoment

    @property
    def label(self) -> str:
        """The event in words."""
        return {
            "arrive": f"{self.request} arrives, {self.tokens}",
            "grow": f"{self.request} grows by {self.tokens}",
            "complete": f"{self.request} completes",
        }[self.event]


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """The whole story."""

    slots: int
    reservation: int
    tokens_per_block: int
    events: list[LifecycleEvent]


class _ContiguousSide:
    def __init__(self) -> None:
        self.pool = ContiguousPool(SLOTS)

    def play(self, event: str, name: str, tokens: int) -> ContiguousMoment:
        pool, refused = self.pool, False
        tokens_before, reserved_before = pool.tokens, pool.reserved
        if event == "arrive":
            refused = not pool.admit(name, tokens, RESERVATION)
        elif event == "grow":
            pool.grow(name, tokens)
        else:
            pool.release(name)
        extents = {who: Extent(r.start, r.length, r.tokens) for who, r in pool.reservations.items()}
        return ContiguousMoment(refused, tokens_before, reserved_before, pool.tokens, pool.reserved, extents)


class _PagedSide:
    def __init__(self, on_events: Callable[[Sequence[Event]], None] | None) -> None:
        self.driver = Driver(SLOTS // TOKENS_PER_BLOCK, TOKENS_PER_BLOCK, on_events=on_events)
        self.handles: dict[str, int] = {}

    def play(self, event: str, name: str, tokens: int) -> PagedMoment:
        driver, refused = self.driver, False
        tokens_before, reserved_before, held_before = driver.tokens, driver.reserved_slots, self._held()
        if event == "arrive":
            answer = driver.admit([tokens])[0]
            refused = answer.refusal != Refusal.NONE
            if not refused:
                self.handles[name] = answer.handle
        elif event == "grow":
            for _ in range(tokens):
                driver.decode([self.handles[name]])
        else:
            driver.finish([self.handles.pop(name)])
        held = self._held()
        return PagedMoment(
            refused,
            tokens_before,
            reserved_before,
            driver.tokens,
            driver.reserved_slots,
            {who: PagedRequest(driver.table(h), driver.lengths[h]) for who, h in self.handles.items()},
            taken=[block for block in held if block not in held_before],
            released=[block for block in held_before if block not in held],
        )

    def _held(self) -> list[int]:
        return [block for handle in self.handles.values() for block in self.driver.table(handle)]


def live_through(on_events: Callable[[Sequence[Event]], None] | None = None) -> Lifecycle:
    """Play the script on both pools. ``on_events`` hears what the paged pool's operators would hear."""
    contiguous, paged = _ContiguousSide(), _PagedSide(on_events)
    events = [
        LifecycleEvent(event, name, tokens, contiguous.play(event, name, tokens), paged.play(event, name, tokens))
        for event, name, tokens in SCRIPT
    ]
    return Lifecycle(SLOTS, RESERVATION, TOKENS_PER_BLOCK, events)
