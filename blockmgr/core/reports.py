"""What an executor reports of its work: steps launched and completed, tokens sampled, blocks thereby full."""

import numpy as np

from blockmgr.core.blocks import FullBlocks
from blockmgr.core.columns import Indexes
from blockmgr.core.errors import InvalidMessage
from blockmgr.core.geometry import SLOT_MASK
from blockmgr.core.messages import Appends, Message, Progress, Reply
from blockmgr.core.prefix import block_hash, chain_of
from blockmgr.core.state import PoolState
from blockmgr.core.states import BlockState, Residency, SequenceFlags

# Plain numbers: looking a member up in its enum costs more than most of what is done with it here.
FILLING, OWNED, NO_STORE = int(BlockState.FILLING), int(BlockState.OWNED), int(SequenceFlags.NO_STORE)


def take_steps(state: PoolState, row: int, message: Message) -> None:
    """Note the last step launched and completed; a report that takes back an earlier one is refused."""
    executors = state.executors
    for name, column in (("launched_step", executors.launched), ("completed_step", executors.completed)):
        value, before = getattr(message, name), column.get(row)
        if value is None or value == before:
            continue
        if value < before:
            raise InvalidMessage(name, value, f"{before} was reported before")
        column.put(row, value)
    launched, completed = executors.launched.get(row), executors.completed.get(row)
    if completed > launched:
        raise InvalidMessage("completed_step", completed, f"only {launched} is launched")
    if message.solo != executors.solo.get(row):
        executors.solo.put(row, message.solo)


def take_progress(state: PoolState, row: int, progress: Progress, reply: Reply) -> Indexes:
    """Note how far each sequence's KV has come. Returns the slots concerned."""
    if not len(progress.handles):
        return progress.handles
    seqs = state.sequences
    mine = seqs.owned(progress.handles, row)
    reply.stale.extend(progress.handles[~mine].tolist())
    slots = progress.handles[mine] & SLOT_MASK
    launched, computed = progress.launched[mine], progress.computed[mine]
    before = seqs.launched.flat[slots]
    _refuse("progress.launched", launched, launched < before, "was reported before", before)
    room = seqs.blocks.flat[slots] * state.geometry.tokens_per_block
    _refuse("progress.launched", launched, launched > room, "is what the table has room for", room)
    _refuse("progress.computed", computed, computed > launched, "is launched", launched)
    going = launched > before
    _refuse_where_away(state, slots[going], launched[going])
    _refuse_shared_writes(state, slots[going], before[going])
    seqs.launched.scatter(slots, launched)
    # Of hits that were sealed when it got them the pool knows more than the executor.
    seqs.computed.scatter(slots, np.maximum(computed, seqs.computed.flat[slots]))
    return slots


def _refuse(field: str, values: Indexes, wrong: np.ndarray, what: str, limits: Indexes) -> None:
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        raise InvalidMessage(f"{field}[{place}]", int(values[place]), f"{int(limits[place])} {what}")


def _refuse_where_away(state: PoolState, slots: Indexes, launched: Indexes) -> None:
    away = np.flatnonzero(state.sequences.residency.flat[slots] != Residency.DEVICE)
    if len(away):
        place, handle = int(away[0]), state.sequences.handle(int(slots[away[0]]))
        raise InvalidMessage("progress.launched", int(launched[place]), f"sequence {handle} is not back on the device")


def _refuse_shared_writes(state: PoolState, slots: Indexes, positions: Indexes) -> None:
    """A step must not have written into a block that others read, unless it wrote into the copy that was ordered."""
    seqs, blocks = state.sequences, state.blocks
    index = positions // state.geometry.tokens_per_block
    entry = seqs.table.flat[slots * seqs.table.stride + index]
    odd = np.flatnonzero((blocks.refs.flat[entry] != 1) | (blocks.state.flat[entry] != BlockState.OWNED))
    for place in odd.tolist():
        slot = int(slots[place])
        if int(index[place]) not in state.tickets.of_slot.get(slot, {}) and not state.tickets.may_write(
            int(entry[place])
        ):
            handle = seqs.handle(slot)
            raise InvalidMessage(
                "progress.launched", int(positions[place]), f"sequence {handle} shares that block: reserve first"
            )


def take_appends(state: PoolState, row: int, appends: Appends, reply: Reply) -> Indexes:
    """Record tokens. Returns the slots concerned."""
    if not len(appends.handles):
        return appends.handles
    seqs = state.sequences
    mine = seqs.owned(appends.handles, row)
    reply.stale.extend(appends.handles[~mine].tolist())
    slots = appends.handles & SLOT_MASK
    if mine.all() and len(appends.ids) == len(slots) and _are_next(state, slots, appends):
        flat = slots * seqs.tokens.stride + appends.starts
        seqs.tokens.scatter(flat, appends.ids)
        seqs.count.scatter(slots, appends.starts + 1)
        state.counts.output_tokens += len(slots)
        if appends.logprobs is not None:
            seqs.logprobs.scatter(slots * seqs.logprobs.stride + appends.starts, appends.logprobs)
    else:
        _append_each(state, slots, mine, appends)
    return slots[mine]


def _are_next(state: PoolState, slots: Indexes, appends: Appends) -> bool:
    """Whether each sequence appears once with just its next token: the common case, done with whole arrays."""
    starts = appends.starts
    fresh = starts == state.sequences.count.flat[slots]
    return (
        bool(fresh.all()) and int(starts.max()) < state.geometry.max_length and len(set(slots.tolist())) == len(slots)
    )


def _append_each(state: PoolState, slots: Indexes, mine: np.ndarray, appends: Appends) -> None:
    """One run of tokens at a time, each checked against what is recorded already."""
    seqs, limit, at = state.sequences, state.geometry.max_length, 0
    counts = appends.counts.tolist() or [1] * len(slots)
    for place, (slot, start, count) in enumerate(zip(slots.tolist(), appends.starts.tolist(), counts, strict=True)):
        ids = appends.ids[at : at + count].astype(np.int32)
        logprobs = None if appends.logprobs is None else appends.logprobs[at : at + count]
        at += count
        if not mine[place]:
            continue
        have = seqs.count.get(slot)
        if not seqs.prompt.get(slot) <= start <= have:
            low = seqs.prompt.get(slot)
            raise InvalidMessage(f"appends.starts[{place}]", start, f"{low}..{have} can be appended to")
        if start + count > limit:
            raise InvalidMessage(f"appends.counts[{place}]", count, f"a sequence has at most {limit} tokens")
        known = seqs.tokens.row(slot)[start : min(start + count, have)]
        if not np.array_equal(known, ids[: len(known)]):
            raise InvalidMessage(
                f"appends.ids of run {place}", ids.tolist()[:8], f"{known.tolist()[:8]} is recorded there"
            )
        new = ids[len(known) :]
        if len(new):
            seqs.tokens.write(slot, have, new)
            seqs.count.put(slot, have + len(new))
            state.counts.output_tokens += len(new)
            if logprobs is not None:
                seqs.logprobs.write(slot, have, logprobs[len(known) :].astype(np.float32))


def publish(state: PoolState, row: int, slots: Indexes) -> None:
    """Blocks whose last position is launched and whose tokens are all known become FILLING; those computed are sealed."""
    seqs, size = state.sequences, state.geometry.tokens_per_block
    full = np.minimum(seqs.launched.flat[slots], seqs.count.flat[slots]) // size
    fuller = full > seqs.published.flat[slots]
    if fuller.any():
        state.blocks.fill(_full_blocks(state, slots[fuller], full[fuller]), row, state.executors.launched.get(row))
    done = np.minimum(seqs.computed.flat[slots] // size, seqs.published.flat[slots])
    slots, done = slots[done > 0], done[done > 0]
    last = seqs.table.flat[slots * seqs.table.stride + done - 1]
    filling = state.blocks.state.flat[last] == FILLING
    if filling.any():
        _seal_computed(state, row, slots[filling], done[filling])


def _full_blocks(state: PoolState, slots: Indexes, full: Indexes) -> list[FullBlocks]:
    """Hash what is full now and was not before: one block each for decoding sequences, done together; runs for others."""
    seqs = state.sequences
    first = seqs.published.flat[slots]
    odd = [slot in seqs.chains or slot in state.tickets.of_slot for slot in slots.tolist()]
    single = (full - first == 1) & ~np.array(odd, dtype=bool)
    rest = zip(*(array[~single].tolist() for array in (slots, first, full)), strict=True)
    groups = [_full_run(state, slot, start, _before_copies(state, slot, end)) for slot, start, end in rest]
    if single.any():
        groups.append(_full_singles(state, slots[single], first[single]))
    return groups


def _full_singles(state: PoolState, slots: Indexes, first: Indexes) -> FullBlocks:
    """Hash one block of each sequence, the one at table entry ``first``."""
    seqs, size = state.sequences, state.geometry.tokens_per_block
    entry = slots * seqs.table.stride + first
    parents = state.blocks.hash.flat[seqs.table.flat[np.maximum(entry - 1, 0)]]
    at_root = first == 0
    parents[at_root] = seqs.root.flat[slots[at_root]]
    tokens = seqs.tokens.flat[(slots * seqs.tokens.stride + first * size)[:, None] + np.arange(size)]
    before = [parent.tobytes() for parent in parents]
    keys = [block_hash(parent, piece) for parent, piece in zip(before, tokens, strict=True)]
    stored = (seqs.flags.flat[slots] & NO_STORE == 0).tolist()
    seqs.published.scatter(slots, first + 1)
    blocks = seqs.table.flat[entry].astype(np.int64)
    # A fork or a beam may share its block with a sibling that has published it already.
    return FullBlocks(blocks, keys, before, tokens, stored).only(state.blocks.state.flat[blocks] == OWNED)


def _before_copies(state: PoolState, slot: int, end: int) -> int:
    """A block whose copy is still ordered waits: until then the table names what others wrote."""
    return min(end, *state.tickets.of_slot.get(slot, (end,)), end)


def _full_run(state: PoolState, slot: int, first: int, last: int) -> FullBlocks:
    """Hash blocks ``first`` to ``last`` of a table."""
    seqs, size = state.sequences, state.geometry.tokens_per_block
    last = max(first, last)
    start = slot * seqs.table.stride
    entries = seqs.table.flat[start + first : start + last].astype(np.int64)
    parent = state.blocks.hash.key(seqs.table.get(start + first - 1)) if first else seqs.root.key(slot)
    tokens = seqs.tokens.row(slot, last * size)[first * size :]
    known = seqs.chains.get(slot, ())[first:last]
    keys = list(known) if len(known) == last - first else chain_of(parent, tokens, size)
    seqs.published.put(slot, last)
    if (last + 1) * size > seqs.prompt.get(slot):
        seqs.chains.pop(slot, None)
    stored = [not seqs.flags.get(slot) & NO_STORE] * len(keys)
    run = FullBlocks(entries, keys, [parent, *keys[:-1]][: len(keys)], tokens.reshape(-1, size), stored)
    # A fork or a beam may share the run's head with a sibling that has published it already.
    return run.only(state.blocks.state.flat[entries] == OWNED)


def _seal_computed(state: PoolState, row: int, slots: Indexes, done: Indexes) -> None:
    """Seal what these sequences report computed, looking only at those whose last computed block is still filling."""
    filling = state.blocks.filling.get(row)
    if not filling:
        return
    table, ready = state.sequences.table, set()
    last = slots * table.stride + done - 1
    for place, upto in zip(last.tolist(), done.tolist(), strict=True):
        while upto and (block := table.get(place)) in filling:
            ready.add(block)
            upto, place = upto - 1, place - 1
    if ready:
        state.blocks.seal(np.array(sorted(ready), dtype=np.int64))
