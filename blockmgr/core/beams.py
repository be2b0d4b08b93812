"""Beams that change places in one operation: sequence i becomes old sequence ``parents[i]`` plus a token, for all i.

Everything computed stays shared and nothing is copied here; the partial last block is copied when a beam writes into it
(``growth``). Blocks that no beam continues are given up at once. After the PagedAttention paper's beam search.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from blockmgr.core.columns import Array, Indexes
from blockmgr.core.errors import InvalidMessage
from blockmgr.core.events import EventKind
from blockmgr.core.messages import Reorder, Reply, TableUpdate
from blockmgr.core.state import PoolState
from blockmgr.core.states import Residency


@dataclass(slots=True)
class Beam:
    """What a beam passes on, read for all beams before any of them changes."""

    entries: Indexes
    output: Array
    logprobs: Array
    published: int


def reorder(state: PoolState, row: int, move: Reorder, reply: Reply) -> None:
    """Move a whole group. Each beam keeps its own unwritten blocks, so nothing is allocated."""
    slots = _check_group(state, row, move)
    seqs = state.sequences
    written = state.geometry.blocks_for(seqs.launched.get(slots[0]))
    old = [_read(state, slot) for slot in slots]
    new = [
        np.concatenate((old[p].entries[:written], own.entries[written:]))
        for p, own in zip(move.parents.tolist(), old, strict=True)
    ]
    seqs.doubtful.update(slots)
    _recount(state, [beam.entries for beam in old], new)
    for place, (slot, parent) in enumerate(zip(slots, move.parents.tolist(), strict=True)):
        if parent != place:
            _become(state, slot, old[parent])
            reply.tables.append(_new_table(state, slot, old[place].entries, new[place]))
            state.note(EventKind.REORDERED, slot, new[place].tolist(), f"parent={seqs.handle(slots[parent])}")
        count = seqs.count.get(slot)
        seqs.tokens.put(slot * seqs.tokens.stride + count, int(move.ids[place]))
        seqs.count.put(slot, count + 1)
        state.counts.output_tokens += 1
        seqs.score.put(slot, float(move.scores[place]))


def _check_group(state: PoolState, row: int, move: Reorder) -> list[int]:
    """A reorder is whole or an error: every beam alive, level with the others, and none in the middle of a copy."""
    seqs, width = state.sequences, len(move.handles)
    if width == 0:
        raise InvalidMessage("reorder.handles", "empty", "at least one beam must be named")
    if len(set(move.handles.tolist())) != width:
        raise InvalidMessage("reorder.handles", move.handles.tolist(), "no beam may be named twice")
    if int(move.parents.min()) < 0 or int(move.parents.max()) >= width:
        raise InvalidMessage("reorder.parents", move.parents.tolist(), f"indexes must lie in 0..{width - 1}")
    named = seqs.named(move.handles, row)
    if named.stale:
        raise InvalidMessage("reorder.handles", named.stale[0], "every beam must be alive and this executor's")
    slots = named.slots
    for name in ("prompt", "count", "launched", "computed", "family"):
        values = state.columns[f"slot.{name}"].flat[slots]
        if (values != values[0]).any():
            raise InvalidMessage(f"{name} of reorder.handles", values.tolist(), "beams of a group must be level")
    launched, count = seqs.launched.get(int(slots[0])), seqs.count.get(int(slots[0]))
    if launched > count:
        raise InvalidMessage("launched of reorder.handles", launched, f"only {count} tokens are recorded: append first")
    if count >= state.geometry.max_length:
        raise InvalidMessage("reorder.ids", "one token more", f"a sequence has at most {state.geometry.max_length}")
    for slot in slots.tolist():
        if slot in state.tickets.of_slot or seqs.residency.get(slot) != Residency.DEVICE:
            raise InvalidMessage("reorder.handles", seqs.handle(slot), "its copies must be done before beams move")
    return slots.tolist()


def _read(state: PoolState, slot: int) -> Beam:
    seqs = state.sequences
    prompt, count = seqs.prompt.get(slot), seqs.count.get(slot)
    return Beam(
        entries=seqs.entries(slot),
        output=seqs.tokens.row(slot, count)[prompt:].copy(),
        logprobs=seqs.logprobs.row(slot, count)[prompt:].copy(),
        published=seqs.published.get(slot),
    )


def _become(state: PoolState, slot: int, parent: Beam) -> None:
    """Take over the parent's output, from the first token that differs. The prompt is the same for all."""
    seqs = state.sequences
    prompt, count = seqs.prompt.get(slot), seqs.count.get(slot)
    same = seqs.tokens.row(slot, count)[prompt:] == parent.output
    first = int(np.argmin(same)) if not same.all() else len(same)
    seqs.tokens.write(slot, prompt + first, parent.output[first:])
    seqs.logprobs.write(slot, prompt + first, parent.logprobs[first:])
    seqs.published.put(slot, parent.published)


def _new_table(state: PoolState, slot: int, old: Indexes, new: Indexes) -> TableUpdate:
    """Write the new table from the first entry that differs."""
    shorter = min(len(old), len(new))
    same = old[:shorter] == new[:shorter]
    first = int(np.argmin(same)) if not same.all() else shorter
    state.sequences.replace(slot, first, new[first:])
    return TableUpdate(state.sequences.handle(slot), first, new[first:])


def _recount(state: PoolState, old: list[Indexes], new: list[Indexes]) -> None:
    """Apply the difference of references between two sets of tables; what falls to none goes behind its fence."""
    change = Counter(np.concatenate(new).tolist())
    change.subtract(np.concatenate(old).tolist())
    refs = state.blocks.refs
    gone = []
    for block, by in change.items():
        if by:
            refs.put(block, refs.get(block) + by)
            if refs.get(block) == 0:
                gone.append(block)
    if gone:
        state.blocks.give_up(np.array(gone[::-1], dtype=np.int64))
