"""Blocks of both tiers: their references, what they hold, and their way from free to cached and back.

One numbering covers both tiers (device first, host behind it). Every change of a block's state happens here, or, where
it becomes full, in ``filling``.
"""

from collections import Counter

import numpy as np

from blockmgr.core.clock import Clock
from blockmgr.core.columns import Columns, Indexes
from blockmgr.core.errors import PoolExhausted
from blockmgr.core.events import Event, EventKind, EventLog
from blockmgr.core.fences import Fences
from blockmgr.core.prefix import PrefixIndex
from blockmgr.core.reuse import Reuse
from blockmgr.core.states import BlockState

# Plain numbers: looking a member up in its enum costs more than most of what is done here.
FREE, NULL, OWNED, FILLING, SEALED, CACHED, FENCED, ABSENT, TARGET = map(int, BlockState)


class Blocks:
    """The block columns and everything derived from them: free lists, order of eviction, index, holds, fences."""

    def __init__(self, columns: Columns, clock: Clock, events: EventLog) -> None:
        self.geometry = columns.geometry
        self.columns = columns
        self._clock = clock
        self.events = events
        self.state, self.refs, self.generation = (columns[f"block.{n}"] for n in ("state", "refs", "generation"))
        self.hash, self.parent, self.tokens = (columns[f"block.{n}"] for n in ("hash", "parent", "tokens"))
        self.filler, self.step, self.used = (columns[f"block.{n}"] for n in ("filler", "step", "used"))
        self.fence, self.indexed = columns["block.fence"], columns["block.indexed"]
        self.reset()

    def reset(self) -> None:
        """Forget everything derived; ``recovery`` fills it anew."""
        self.reuse = (Reuse(), Reuse())
        self.fences = Fences(self.columns)
        self.index = PrefixIndex()
        self.holds: Counter[int] = Counter()
        self.filling: dict[int, dict[int, int]] = {}
        """Executor row → {block: step} of its FILLING blocks."""

    def tier(self, host: bool) -> Reuse:
        """The policy of one tier."""
        return self.reuse[host]

    def tier_of(self, block: int) -> Reuse:
        """The policy of the tier that a block is in."""
        return self.reuse[self.geometry.is_host(block)]

    # -- handing out -------------------------------------------------------------------------------------------------

    def take(self, count: int, host: bool = False, state: int = OWNED) -> Indexes:
        """Hand out ``count`` blocks, OWNED with one reference or TARGET with none. All or nothing: ``PoolExhausted``."""
        tier = self.reuse[host]
        if tier.available < count:
            raise PoolExhausted(count, tier.available, "host" if host else "device")
        free, evicted = tier.take(count)
        if evicted:
            self.forget(evicted)
            self.events.add(Event(EventKind.EVICTED, blocks=evicted))
        blocks = np.array(free + evicted, dtype=np.int64)
        self.state.scatter(blocks, state)
        self.refs.scatter(blocks, int(state == OWNED))
        self.generation.scatter(blocks, self.generation.flat[blocks] + 1)
        return blocks

    def forget(self, blocks: list[int]) -> None:
        """Take blocks out of the index, before anyone can be given them."""
        for block in blocks:
            if self.indexed.get(block):
                del self.index.tier(self.geometry.is_host(block))[self.hash.key(block)]
                self.indexed.put(block, 0)

    # -- references --------------------------------------------------------------------------------------------------

    def reference(self, blocks: Indexes) -> None:
        """One more table entry names each of ``blocks`` (no block twice)."""
        refs = self.refs.flat[blocks]
        self.refs.scatter(blocks, refs + 1)
        for block in blocks[refs == 0].tolist():
            self.tier_of(block).withdraw(block)
            if self.state.get(block) == CACHED:
                self.state.put(block, SEALED)
            self.fence.put(block, 0)

    def unreference(self, blocks: Indexes) -> None:
        """One table entry less names each of ``blocks`` (no block twice), given in the order of the table."""
        if not len(blocks):
            return
        refs = self.refs.flat[blocks] - 1
        self.refs.scatter(blocks, refs)
        dead = blocks[refs == 0]
        if len(dead):
            self.give_up(dead[::-1])

    def give_up(self, blocks: Indexes) -> None:
        """Blocks without a reference go behind a fence, tail of the chain first: cached if indexed, else to be freed."""
        state = self.state.flat[blocks]
        keep = (state == SEALED) & (self.indexed.flat[blocks] == 1)
        filling = state == FILLING
        cached, freed = blocks[keep], blocks[~keep & ~filling]
        if len(cached):
            self.state.scatter(cached, CACHED)
        if len(freed):
            self.state.scatter(freed, FENCED)
        self.note_given_up(cached, freed)
        number = self.fences.close(blocks)
        if number:
            self.fence.scatter(blocks, number)
        else:
            self.settle(blocks)

    def note_given_up(self, cached: Indexes, freed: Indexes) -> None:
        """Say which blocks lost their last reference, and whether their content is kept."""
        for kind, blocks in ((EventKind.CACHED, cached), (EventKind.FREED, freed)):
            if len(blocks):
                self.events.add(Event(kind, blocks=blocks.tolist()))

    def settle(self, blocks: Indexes) -> None:
        """Blocks whose fence is open become free or may be evicted, unless something holds or refers to them."""
        state = self.state.flat[blocks]
        quiet = (self.refs.flat[blocks] == 0) & (self.fence.flat[blocks] == 0)
        cached = self._unheld(blocks[quiet & (state == CACHED)])
        beyond = self._beyond(cached)
        if beyond.any():
            self.retire([], cached[beyond].tolist())
            cached = cached[~beyond]
        if len(cached):
            self.used.scatter(cached, self._clock.stamps(len(cached)))
        freed = self._unheld(blocks[quiet & (state == FENCED)])
        if len(freed):
            absent = self._beyond(freed)
            self.state.scatter(freed, np.where(absent, ABSENT, FREE))
            self.used.scatter(freed, self._clock.stamps(len(freed)))
            freed = freed[~absent]
        for give, what in ((Reuse.give_cached, cached), (Reuse.give_free, freed)):
            host = what >= self.geometry.host_base
            give(self.reuse[0], what[~host].tolist())
            give(self.reuse[1], what[host].tolist())

    def _unheld(self, blocks: Indexes) -> Indexes:
        if not self.holds or not len(blocks):
            return blocks
        return np.array([block for block in blocks.tolist() if block not in self.holds], dtype=np.int64)

    def is_beyond(self, block: int) -> bool:
        """Whether a block lies beyond the pool's present size: in use still, and to be moved."""
        return self.columns["pool.capacity"].get(0) <= block < self.geometry.host_base

    def _beyond(self, blocks: Indexes) -> np.ndarray:
        capacity = self.columns["pool.capacity"].get(0)
        return (blocks >= capacity) & (blocks < self.geometry.host_base)

    def open_fences(self) -> None:
        """Settle every group whose fence has opened."""
        for group in self.fences.opened():
            mine = group.blocks[self.fence.flat[group.blocks] == group.number]
            if len(mine):
                self.fence.scatter(mine, 0)
                self.settle(mine)

    def fenced(self) -> int:
        """Device blocks behind fences that are not open yet, and that nothing refers to."""
        found = 0
        for group in self.fences.groups():
            mine = (self.fence.flat[group.blocks] == group.number) & (group.blocks < self.geometry.host_base)
            found += int(np.count_nonzero(mine))
        return found

    # -- holds -------------------------------------------------------------------------------------------------------

    def hold(self, block: int) -> None:
        """Keep a block from being freed or evicted without referring to it (a ticket, a pin)."""
        self.holds[block] += 1
        self.tier_of(block).withdraw(block)

    def unhold(self, block: int) -> None:
        """Drop one hold."""
        self.holds[block] -= 1
        if not self.holds[block]:
            del self.holds[block]
            self.settle(np.array([block], dtype=np.int64))

    # -- what they hold ----------------------------------------------------------------------------------------------

    def enter(self, blocks: list[tuple[int, bytes]]) -> None:
        """Make each block the one that its hash finds in its tier, if there is none yet."""
        entered, host_base = [], self.geometry.host_base
        device, host = self.index.device, self.index.host
        for block, key in blocks:
            tier = device if block < host_base else host
            if key not in tier:
                tier[key] = block
                entered.append(block)
        if entered:
            self.indexed.scatter(np.array(entered, dtype=np.int64), 1)

    def inherit(self, source: int, destination: int, move: bool = False) -> None:
        """A copy is done: the destination holds what the source holds.

        Where the source is indexed and the destination's tier has no such entry, the destination becomes one; a move
        hands the entry over.
        """
        sealed = self.state.get(source) in (SEALED, CACHED)
        self.state.put(destination, SEALED if sealed else OWNED)
        if not sealed:
            return
        key, indexed = self.hash.key(source), self.indexed.get(source)
        if move:
            self.forget([source])
        self.hash.put(destination, np.void(key))
        self.parent.put(destination, np.void(self.parent.key(source)))
        self.tokens.write(destination, 0, self.tokens.row(source).copy())
        if indexed:
            self.enter([(destination, key)])

    def evict(self, blocks: list[int]) -> list[int]:
        """Free those of ``blocks`` that are cached and not held or fenced. Returns them."""
        gone = [block for block in blocks if self.tier_of(block).withdraw(block)]
        if gone:
            self.forget(gone)
            array = np.array(gone, dtype=np.int64)
            self.state.scatter(array, FENCED)
            self.events.add(Event(EventKind.EVICTED, blocks=gone))
            self.settle(array)
        return gone

    def forget_all(self) -> None:
        """What is cached, or will be, is worth nothing any more: it is free as soon as fences and holds allow.

        No sequence may live.
        """
        cached = np.flatnonzero(self.state.flat == CACHED).tolist()
        self.forget([*cached, *np.flatnonzero(self.state.flat == FILLING).tolist()])
        for block in cached:
            self.tier_of(block).withdraw(block)
        if cached:
            array = np.array(cached, dtype=np.int64)
            self.state.scatter(array, FENCED)
            self.settle(array)
            self.events.add(Event(EventKind.FLUSHED, blocks=cached))

    def retire(self, free: list[int], cached: list[int]) -> None:
        """Blocks that the policy has let go of for good become ABSENT."""
        self.forget(cached)
        if cached:
            self.events.add(Event(EventKind.EVICTED, blocks=cached))
        self.state.scatter(np.array(free + cached, dtype=np.int64), ABSENT)

    # -- lookup ------------------------------------------------------------------------------------------------------

    def hit(self, key: bytes, parent: bytes, tokens: np.ndarray, row: int, host: bool = False) -> int | None:
        """The block of one tier that holds ``tokens`` behind ``parent`` and may be read by executor ``row`` now."""
        block = self.index.tier(host).get(key)
        if block is None:
            return None
        state = self.state.get(block)
        if state == FILLING and self.filler.get(block) != row:
            return None
        same = self.parent.key(block) == parent and np.array_equal(self.tokens.row(block), tokens)
        return block if same else None
