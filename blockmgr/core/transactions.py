"""A pool's state changes whole or not at all: what every call of ``Pool`` rests on."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from blockmgr.core import recovery
from blockmgr.core.columns import Columns, Ledger
from blockmgr.core.errors import BlockManagerError
from blockmgr.core.events import Event
from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.pins import Pins
from blockmgr.core.sequences import WIDE
from blockmgr.core.state import PoolState


class Transactions:
    """The state of a pool and the ledger under it. Owns both the working copy of the columns and all that is derived."""

    def __init__(
        self,
        geometry: PoolGeometry,
        ledger: Ledger | None,
        fresh: bool,
        first_epoch: int,
        now: Callable[[], float] = time.time,
        on_events: Callable[[Sequence[Event]], None] | None = None,
    ) -> None:
        """Make a fresh pool, or take over what the ledger holds and derive the rest anew (see ``Pool``)."""
        self.geometry = geometry
        self.columns = Columns(geometry, ledger)
        self.state = PoolState(self.columns, now)
        self.pins = Pins(self.columns, self.state.blocks)
        self._on_events = on_events
        if fresh:
            recovery.prepare(self.columns, first_epoch)
        else:
            self.columns.load()
        recovery.rebuild(self.state, self.pins)
        self.columns.commit()
        self._committed()

    @contextmanager
    def transaction(self) -> Iterator[PoolState]:
        """Change the state whole or not at all: an exception undoes what was done, when there is a ledger to undo from."""
        unheard, tokens = set(self.state.blocks.fences.unheard), self.state.counts.tokens()
        try:
            yield self.state
            self.number_events()
        except BaseException:
            self._undo(unheard, tokens)
            raise
        try:
            self.columns.commit()
        except BlockManagerError:
            # Refused whole, for its size. Any other failure here leaves a manager that only a restart can trust.
            self._undo(unheard, tokens)
            raise
        self._committed()

    def _undo(self, unheard: set[int], tokens: tuple[int, int, int]) -> None:
        self.state.events.drop()
        self.state.counts.set_back(tokens)
        if self.columns.ledger is not None:
            self.columns.rollback()
            recovery.rebuild(self.state, self.pins, unheard)

    def number_events(self) -> int:
        """Give the running transaction's events their revisions. Returns the revision after it."""
        return self.state.events.number(self.state.clock.now())

    def _committed(self) -> None:
        events = self.state.events.publish()
        self.state.counts.happened(events)
        for slot in self.state.sequences.emptied_rows():
            for name in WIDE:
                self.columns.discard(self.columns[f"slot.{name}"], slot)
        if events and self._on_events is not None:
            self._on_events(events)
