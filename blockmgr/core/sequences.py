"""The slots of the sequence table: who lives where, under which handle, with which tokens and blocks."""

import heapq
from collections.abc import Iterator

import numpy as np

from blockmgr.core.columns import Column, Columns, Indexes
from blockmgr.core.errors import NotFound
from blockmgr.core.geometry import SLOT_BITS, handle_of, slot_of
from blockmgr.core.handles import Handles, Named
from blockmgr.core.states import Residency, SequenceState

WIDE = ("tokens", "logprobs", "table", "request")
"""Columns whose rows are given back to the machine when a sequence leaves."""

PLAIN = [
    "uuid",
    "caller",
    "body",
    "root",
    "score",
    "created",
    "request_length",
    "owner",
    "epoch",
    "priority",
    "flags",
    "family",
    "attachment",
    "deaths",
    "death_count",
    "cancel",
    "final",
    "residency",
    "prompt",
    "blocks",
    "launched",
    "computed",
    "published",
    "state",
    "count",
]

NOBODY = -1
"""Owner of a free slot."""


class Sequences:
    """The slot columns, the free slots (lowest first) and the way from a UUID or a caller's id to a slot."""

    tenancy: Column
    tokens: Column
    logprobs: Column
    table: Column
    request: Column
    uuid: Column
    caller: Column
    body: Column
    root: Column
    score: Column
    created: Column
    request_length: Column
    owner: Column
    epoch: Column
    priority: Column
    flags: Column
    family: Column
    attachment: Column
    deaths: Column
    death_count: Column
    cancel: Column
    final: Column
    residency: Column
    prompt: Column
    blocks: Column
    launched: Column
    computed: Column
    published: Column
    state: Column
    count: Column

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        for name in ("tenancy", *WIDE, *PLAIN):
            setattr(self, name, columns[f"slot.{name}"])
        self.slots = columns.geometry.max_sequences
        self.runs = np.lib.stride_tricks.sliding_window_view(self.tokens.flat, columns.geometry.tokens_per_block)
        """From every place of the token column as many tokens as a block has: a view, of which a few are picked at a time."""
        self._handles = Handles(self.tenancy, self.owner, self.table, self.tokens)
        self.reset()

    def reset(self) -> None:
        """Forget everything derived; ``recovery`` fills it anew."""
        self._handles.forget()
        self.away: set[int] = set()
        """Slots whose blocks are not all on the device."""
        self.doubtful: set[int] = set()
        """Slots whose next position may lie in a block that others name too, or that nobody may write any more: after a fork, a
        move of beams or a cut, and after a start. All others write into blocks that were taken for them alone.
        """
        self.free = list(range(self.slots))
        self.by_uuid: dict[bytes, int] = {}
        self.by_caller: dict[bytes, int] = {}
        self.chains: dict[int, list[bytes]] = {}
        """Slot → hashes of its prompt's full blocks, while the prompt is being computed."""
        self.by_owner: dict[int, set[int]] = {}
        """Executor row → its slots."""
        self.emptied: list[int] = []
        """Slots released by the running transaction: their memory is given back once it is committed."""

    # -- names -------------------------------------------------------------------------------------------------------

    def handle(self, slot: int) -> int:
        """The present handle of a slot."""
        return handle_of(self.tenancy.get(slot), slot)

    def find(self, handle: int) -> int:
        """The slot of a live handle; ``NotFound`` if it is stale or never was."""
        slot = slot_of(handle)
        if slot >= self.slots or handle < 0 or not self._is_live(slot, handle):
            raise NotFound(f"no sequence has the handle {handle}")
        return slot

    def _is_live(self, slot: int, handle: int) -> bool:
        return self.state.get(slot) != SequenceState.FREE and self.tenancy.get(slot) == handle >> SLOT_BITS

    def named(self, handles: Indexes, row: int) -> Named:
        """What a list of handles names, as executor ``row`` may speak of it."""
        return self._handles.named(handles, row)

    def is_owned(self, handle: int, row: int) -> bool:
        """Whether a handle names a live sequence of executor ``row``."""
        return self._handles.is_named(handle, row)

    def live(self) -> Iterator[int]:
        """Slots in use, lowest first."""
        yield from np.flatnonzero(self.state.flat != SequenceState.FREE).tolist()

    # -- coming and going --------------------------------------------------------------------------------------------

    def occupy(self, uuid: bytes, caller: bytes) -> int:
        """Take the lowest free slot. The caller checked that there is one."""
        slot = heapq.heappop(self.free)
        self._handles.forget()
        self.uuid.put(slot, np.void(uuid))
        self.caller.put(slot, np.void(caller))
        self.by_uuid[uuid] = slot
        if any(caller):
            self.by_caller[caller] = slot
        return slot

    def own(self, slot: int, row: int, epoch: int) -> None:
        """Give the slot to an executor."""
        self._handles.forget()
        self.owner.put(slot, row)
        self.epoch.put(slot, epoch)
        self.by_owner.setdefault(row, set()).add(slot)

    def pass_on(self, slot: int, row: int, epoch: int) -> None:
        """Change the owner; the old handle is stale from now on."""
        self.by_owner.get(self.owner.get(slot), set()).discard(slot)
        self.tenancy.put(slot, self.tenancy.get(slot) + 1)
        self.own(slot, row, epoch)

    def leave(self, slot: int) -> None:
        """Free the slot. Its tenancy rises first of all, so that nobody takes the next tenant's tokens for this one's."""
        self.tenancy.put(slot, self.tenancy.get(slot) + 1)
        self._handles.forget()
        self.by_uuid.pop(self.uuid.key(slot), None)
        caller = self.caller.key(slot)
        if self.by_caller.get(caller) == slot:
            del self.by_caller[caller]
        self.by_owner.get(self.owner.get(slot), set()).discard(slot)
        self.chains.pop(slot, None)
        logprobs = self.logprobs.row(slot, self.count.get(slot))
        if logprobs.any():
            # Only those that are given are ever written: the next tenant's must read as absent.
            self.logprobs.write(slot, 0, np.zeros_like(logprobs))
        for name in ("count", "blocks", "launched", "computed", "published", "prompt", "request_length", "cancel"):
            self.columns[f"slot.{name}"].put(slot, 0)
        self.owner.put(slot, NOBODY)
        self.doubtful.discard(slot)
        self.reside(slot, Residency.DEVICE)
        self.state.put(slot, SequenceState.FREE)
        self.emptied.append(slot)

    def reside(self, slot: int, where: Residency) -> None:
        """Note in which tier a sequence's blocks are."""
        self.residency.put(slot, where)
        if where == Residency.DEVICE:
            self.away.discard(slot)
        else:
            self.away.add(slot)

    def emptied_rows(self) -> list[int]:
        """The transaction is committed: the slots it released may be used again, and their memory goes back."""
        slots, self.emptied = self.emptied, []
        for slot in slots:
            heapq.heappush(self.free, slot)
        return slots

    # -- tables ------------------------------------------------------------------------------------------------------

    def blocks_at(self, places: Indexes) -> Indexes:
        """The blocks at single places of the table column. As wide as numpy's own indexes, it looks things up by them several
        times as fast as by narrower ones.
        """
        return self.table.flat[places].astype(np.int64)

    def entries(self, slot: int) -> Indexes:
        """A copy of the block table, as ledger block numbers."""
        return self.table.row(slot, self.blocks.get(slot)).astype(np.int64)

    def extend(self, slot: int, blocks: Indexes) -> None:
        """Append entries to the table."""
        have = self.blocks.get(slot)
        self.table.write(slot, have, blocks.astype(np.int32))
        self.blocks.put(slot, have + len(blocks))

    def replace(self, slot: int, first: int, blocks: Indexes) -> None:
        """Make the table, from entry ``first`` on, exactly ``blocks``."""
        self.table.write(slot, first, blocks.astype(np.int32))
        self.blocks.put(slot, first + len(blocks))

    def resume(self, slot: int) -> int:
        """Position of the next token to feed: KV is valid below it, and the last recorded token is always fed again."""
        return max(0, min(self.computed.get(slot), self.count.get(slot) - 1))
