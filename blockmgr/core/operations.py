"""What operators ask of a pool, each one transaction."""

import numpy as np

from blockmgr.core import resizing
from blockmgr.core.errors import IdentityMismatch
from blockmgr.core.events import Event, EventKind
from blockmgr.core.pins import FOREVER
from blockmgr.core.transactions import Transactions


class Operations(Transactions):
    """Pins, evictions, the pool's size and what it holds."""

    def pin(self, blocks: list[int], seconds: float | None, label: str = "") -> int:
        """Keep sealed or cached blocks from being evicted, for a time or (None) until unpinned. Returns the pin's id."""
        with self.transaction() as state:
            expires = FOREVER if seconds is None else state.clock.now() + seconds
            id_ = self.pins.add(blocks, expires, label)
            state.events.add(Event(EventKind.PINNED, blocks=list(blocks), detail=f"pin={id_}"))
        return id_

    def unpin(self, id_: int) -> list[int]:
        """End a pin. Returns its blocks."""
        with self.transaction() as state:
            blocks = self.pins.remove(id_)
            state.events.add(Event(EventKind.UNPINNED, blocks=blocks, detail=f"pin={id_}"))
        return blocks

    def tick(self) -> None:
        """What time brings: pins end, finished requests are dropped. Called now and then."""
        now = self.state.clock.now()
        for id_ in self.pins.expired(now):
            self.unpin(id_)
        with self.transaction() as state:
            state.archive.expire(now)

    def evict(self, blocks: list[int], dry_run: bool = False) -> list[int]:
        """Free those of the blocks that are cached and not held or fenced. Returns them; a dry run frees nothing."""
        if dry_run:
            return [block for block in blocks if self.state.blocks.tier_of(block).may_evict(block)]
        with self.transaction() as state:
            return state.blocks.evict(blocks)

    def coldest(self, count: int | None = None, host: bool = False) -> list[int]:
        """The next blocks that would be evicted, coldest first; all of them by default."""
        tier = self.state.blocks.tier(host)
        return tier.coldest(tier.evictable if count is None else count)

    def resize(self, blocks: int) -> int:
        """Set the number of device blocks. Returns how many beyond it are in use and will be moved."""
        with self.transaction() as state:
            return resizing.resize(state, self.pins, blocks)

    @property
    def zeroed(self) -> bool:
        """Whether an executor has said that it has zeroed the memory. It matters only where memory is not born zero."""
        return bool(self.columns["pool.zeroed"].get(0))

    def set_zeroed(self) -> None:
        """An executor has zeroed the memory. May be repeated."""
        with self.transaction() as state:
            state.columns["pool.zeroed"].put(0, 1)

    def drain(self, on: bool, epoch: int | None = None) -> None:
        """Admit nothing new, to one executor or (default) to the pool at all; or admit again."""
        with self.transaction() as state:
            if epoch is None:
                state.columns["pool.drain"].put(0, int(on))
            else:
                state.executors.drain.put(state.executors.find(epoch), int(on))
            state.events.add(Event(EventKind.DRAINING, detail=f"on={on} epoch={epoch or 'all'}"))

    @property
    def description(self) -> bytes:
        """What was said of the content when its identity was last set."""
        return self.columns["pool.description"].row(0).tobytes().rstrip(b"\0")

    def relabel(self, content: bytes, description: bytes = b"") -> bool:
        """Take on another content identity: flush all that is cached. Refused while a sequence lives.

        ``description`` is kept beside it, for people. Returns whether anything changed.
        """
        have = self.state.content
        if have == content:
            return False
        if any(True for _ in self.state.sequences.live()):
            raise IdentityMismatch("content identity", have.hex(), content.hex())
        for pin in self.pins.list():
            self.unpin(pin.id)
        with self.transaction() as state:
            state.blocks.forget_all()
            self.columns["pool.content"].put(0, np.void(content))
            text = self.columns["pool.description"]
            text.write(
                0, 0, np.frombuffer(description[: text.spec.width].ljust(text.spec.width, b"\0"), dtype=np.uint8)
            )
            state.events.add(Event(EventKind.RELABELLED, detail=content.hex()))
        return True
