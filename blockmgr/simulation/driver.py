"""An executor without device and transport: it drives a pool of the real allocator, one message at a time."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from blockmgr.core.errors import PoolExhausted, Precondition
from blockmgr.core.events import Event
from blockmgr.core.geometry import PoolGeometry, slot_of
from blockmgr.core.messages import (
    Admission,
    Admitted,
    Appends,
    Child,
    Finished,
    Fork,
    Ints,
    Message,
    Progress,
    Reorder,
    Reply,
    Reservations,
)
from blockmgr.core.pool import Pool
from blockmgr.core.states import FinishReason, Refusal, SequenceFlags

UNCACHED = SequenceFlags.BYPASS | SequenceFlags.NO_STORE
"""No prefix hits and nothing left to hit: what a sequence releases is free at once, as in a pool without a cache."""


@dataclass(slots=True)
class Move:
    """One move of a beam group: beam i becomes old beam ``parents[i]`` plus a token."""

    handles: Ints
    parents: Ints
    scores: np.ndarray


def _ints(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)


class Driver:
    """Registers, admits, decodes and finishes. Every step completes at once, and every copy that is ordered is performed.

    The pool is the driver's own and has no ledger: its memory is freed with the driver.
    """

    def __init__(
        self,
        usable_blocks: int,
        tokens_per_block: int,
        *,
        max_sequences: int = 1024,
        max_length: int = 2048,
        on_events: Callable[[Sequence[Event]], None] | None = None,
    ) -> None:
        """``usable_blocks`` does not count the null block, which comes on top."""
        self.geometry = PoolGeometry(
            tokens_per_block, 1, usable_blocks + 1, max_sequences=max_sequences, max_length=max_length
        )
        # Replies stay in this process: as bytes they would only be measured as part of the allocator's time.
        self.pool = Pool(self.geometry, encode=self._keep_reply, on_events=on_events)
        self.lengths: dict[int, int] = {}
        """Handle → tokens, of every live sequence."""
        self.seconds = 0.0
        """Time spent inside the allocator so far."""
        self.copies = 0
        """Copies performed so far."""
        self._epoch = self.pool.register("simulated", b"simulated device", [])
        self._reply = Reply(0)
        self._number = self._step = self._uuids = 0
        self._copied: Ints = _ints([])

    def _keep_reply(self, reply: Reply) -> bytes:
        self._reply = reply
        return b""

    def _send(self, message: Message) -> Reply:
        """Number a message, report the copies of the last reply as done, and note what is to be copied next."""
        self._number += 1
        message.number, message.tickets_done = self._number, self._copied
        started = time.perf_counter()
        self.pool.exchange(message)
        self.seconds += time.perf_counter() - started
        self._copied = _ints([ticket.id for ticket in self._reply.tickets])
        self.copies += len(self._copied)
        if self._reply.short:
            raise PoolExhausted(len(self._reply.short), self._reply.free_blocks)
        return self._reply

    def _uuid(self) -> bytes:
        self._uuids += 1
        return self._uuids.to_bytes(16, "big")

    # -- what an executor does ---------------------------------------------------------------------------------------

    def admit(self, prompts: Sequence[int], reserve: Sequence[int] | None = None) -> list[Admitted]:
        """Ask for prompts of these many tokens, all in one message. No two prompts begin alike.

        ``reserve``: tokens to cover at once with blocks (default: the prompt's). A refused prompt is not asked for again.
        """
        covered = reserve if reserve is not None else [0] * len(prompts)
        requests = [
            Admission(self._uuid(), self._prompt(length), cover, flags=UNCACHED)
            for length, cover in zip(prompts, covered, strict=True)
        ]
        admitted = self._send(Message(self._epoch, 0, admissions=requests)).admitted
        for answer, length in zip(admitted, prompts, strict=True):
            if answer.refusal == Refusal.NONE:
                self.lengths[answer.handle] = length
        return admitted

    def _prompt(self, length: int) -> np.ndarray:
        """Token ids that no other prompt begins with: of two equal prompts the blocks would be computed once."""
        return np.arange(self._uuids * 7, self._uuids * 7 + length, dtype=np.int32)

    def decode(self, handles: Sequence[int]) -> None:
        """One step: what is recorded is computed, each sequence gets a token more, and room for it is made sure of.

        Raises ``PoolExhausted`` if the pool has no block for one of them.
        """
        who = _ints(handles)
        lengths = _ints([self.lengths[handle] for handle in handles])
        message = self._step_message(who, lengths)
        message.appends = Appends(who, lengths, np.ones_like(who), np.arange(len(who), dtype=np.int64))
        self._send(message)
        self._count(handles)

    def fork(self, parents: Sequence[int], children: int) -> list[list[int]]:
        """Compute the prompts of ``parents`` and fork each. Returns each family's handles, the parent first."""
        lengths = _ints([self.lengths[handle] for handle in parents])
        message = self._step_message(_ints(parents), lengths)
        message.reservations = Reservations()
        message.forks = [Fork(parent, [Child(self._uuid()) for _ in range(children)]) for parent in parents]
        families = [[forked.parent, *forked.handles] for forked in self._send(message).forked]
        for family in families:
            if len(family) != children + 1:
                raise Precondition(f"a sequence could not be forked into {children} more: max_sequences is too small")
            self.lengths.update(dict.fromkeys(family, self.lengths[family[0]]))
        return families

    def reorder(self, moves: Sequence[Move]) -> None:
        """One step of beam groups: what is recorded is computed, the beams move, and room for the token is made sure of."""
        handles = [handle for move in moves for handle in move.handles.tolist()]
        lengths = _ints([self.lengths[handle] for handle in handles])
        message = self._step_message(_ints(handles), lengths)
        message.reorders = [
            Reorder(move.handles, move.parents, np.arange(len(move.handles), dtype=np.int64), move.scores)
            for move in moves
        ]
        self._send(message)
        self._count(handles)

    def finish(self, handles: Sequence[int]) -> None:
        """End sequences; their blocks are given back."""
        reasons = [FinishReason.LENGTH] * len(handles)
        self._send(Message(self._epoch, 0, finished=Finished(_ints(handles), reasons)))
        for handle in handles:
            del self.lengths[handle]

    def _step_message(self, who: Ints, lengths: Ints) -> Message:
        self._step += 1
        return Message(
            self._epoch,
            0,
            launched_step=self._step,
            completed_step=self._step,
            progress=Progress(who, lengths, lengths),
            reservations=Reservations(who, lengths + 1, np.zeros_like(who)),
        )

    def _count(self, handles: Sequence[int]) -> None:
        for handle in handles:
            self.lengths[handle] += 1

    # -- what it sees ------------------------------------------------------------------------------------------------

    def table(self, handle: int) -> list[int]:
        """The block table of a live sequence."""
        return self.pool.state.sequences.entries(slot_of(handle)).tolist()

    @property
    def table_entries(self) -> int:
        """Entries of all block tables together: the blocks that would be in use if none were shared."""
        return int(self.pool.state.sequences.blocks.flat.sum())

    @property
    def blocks_in_use(self) -> int:
        """Blocks that are neither free nor the null block."""
        return self.pool.state.capacity - 1 - self.pool.state.available()

    @property
    def usable_slots(self) -> int:
        """Tokens that the pool has room for."""
        return (self.pool.state.capacity - 1) * self.geometry.tokens_per_block

    @property
    def reserved_slots(self) -> int:
        """Tokens that the blocks in use have room for."""
        return self.blocks_in_use * self.geometry.tokens_per_block

    @property
    def tokens(self) -> int:
        """Tokens of all live sequences."""
        return sum(self.lengths.values())
