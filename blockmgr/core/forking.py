"""Children that share all that a sequence has computed and copy nothing; and those that keep tokens alone.

The partial last block is copied when somebody writes into it (``growth``). After the PagedAttention paper's parallel
sampling: prompt computed once, blocks shared, a copy for each sample that writes.
"""

import numpy as np

from blockmgr.core.admission import ID_BYTES, visible
from blockmgr.core.columns import Array, Indexes
from blockmgr.core.errors import InvalidMessage
from blockmgr.core.events import EventKind
from blockmgr.core.geometry import SLOT_MASK
from blockmgr.core.messages import NONE, Child, Fork, Forked, TableUpdate
from blockmgr.core.state import PoolState
from blockmgr.core.states import Refusal, Residency, SequenceState


def fork(state: PoolState, row: int, request: Fork, tables: list[TableUpdate]) -> Forked:
    """Make children of a sequence: all of them, or none and the reason."""
    seqs = state.sequences
    if not seqs.is_owned(request.parent, row):
        return Forked(request.parent, refusal=Refusal.STALE_HANDLE)
    parent = request.parent & SLOT_MASK
    done = _forked_before(state, row, request, tables)
    if done is not None:
        return done
    needs_blocks = any(child.output is None for child in request.children)
    if needs_blocks and (seqs.residency.get(parent) != Residency.DEVICE or parent in state.tickets.of_slot):
        return Forked(request.parent, refusal=Refusal.BUSY)
    if len(seqs.free) < len(request.children):
        needed, available = len(request.children), len(seqs.free)
        return Forked(request.parent, refusal=Refusal.NO_SLOTS, needed=needed, available=available)
    handles = [_bear(state, row, parent, child, tables) for child in request.children]
    return Forked(request.parent, handles)


def _forked_before(state: PoolState, row: int, request: Fork, tables: list[TableUpdate]) -> Forked | None:
    """The same children again get the same answer; some of them, or somebody else's, are refused."""
    seqs, children = state.sequences, request.children
    uuids = [child.uuid for child in children]
    for child in children:
        if len(child.uuid) != ID_BYTES or not any(child.uuid):
            raise InvalidMessage(
                "fork.children.uuid", child.uuid.hex() or "empty", f"must have {ID_BYTES} bytes, not all zero"
            )
        if len(child.request) > state.geometry.request_bytes:
            limit = state.geometry.request_bytes
            raise InvalidMessage("fork.children.request", f"{len(child.request)} bytes", f"at most {limit} are kept")
        room = state.geometry.max_length - seqs.prompt.get(request.parent & SLOT_MASK)
        if child.output is not None and len(child.output) > room:
            raise InvalidMessage(
                "fork.children.output", f"{len(child.output)} tokens", f"at most {room} follow the prompt"
            )
    known = [uuid for uuid in uuids if uuid in seqs.by_uuid or state.archive.find(uuid) is not None]
    if not known and len(set(uuids)) == len(uuids):
        return None
    slots = [seqs.by_uuid[uuid] for uuid in uuids if uuid in seqs.by_uuid]
    if len(set(slots)) != len(uuids) or any(seqs.owner.get(slot) != row for slot in slots):
        return Forked(request.parent, refusal=Refusal.DUPLICATE)
    tables.extend(TableUpdate(seqs.handle(slot), 0, visible(state, seqs.entries(slot))) for slot in slots)
    return Forked(request.parent, [seqs.handle(slot) for slot in slots])


def _bear(state: PoolState, row: int, parent: int, child: Child, tables: list[TableUpdate]) -> int:
    """One child under a slot and a handle of its own."""
    seqs = state.sequences
    slot = seqs.occupy(child.uuid, bytes(ID_BYTES))
    state.columns.stage(seqs.request, slot, np.frombuffer(child.request, dtype=np.uint8))
    seqs.own(slot, row, seqs.epoch.get(parent))
    for name in ("body", "root"):
        state.columns[f"slot.{name}"].put(slot, np.void(state.columns[f"slot.{name}"].key(parent)))
    for name in ("priority", "flags", "family", "prompt"):
        state.columns[f"slot.{name}"].put(slot, state.columns[f"slot.{name}"].get(parent))
    seqs.final.put(slot, -1)
    for name in ("attachment", "deaths", "cancel"):
        state.columns[f"slot.{name}"].put(slot, 0)
    seqs.request_length.put(slot, len(child.request))
    seqs.score.put(slot, child.score)
    # As old as its parent: what is preempted first must not depend on when it was forked.
    seqs.created.put(slot, float(seqs.created.flat[parent]))
    seqs.state.put(slot, SequenceState.LIVE)
    shared = _share(state, parent, slot) if child.output is None else _keep(state, parent, slot, child.output)
    seqs.death_count.put(slot, seqs.count.get(slot))
    tables.append(TableUpdate(seqs.handle(slot), 0, shared))
    state.note(EventKind.FORKED, slot, shared.tolist(), f"parent={seqs.handle(parent)}")
    return seqs.handle(slot)


def _share(state: PoolState, parent: int, slot: int) -> Indexes:
    """Give a child its parent's tokens and computed blocks. Returns these."""
    seqs = state.sequences
    count = seqs.count.get(parent)
    state.columns.stage(seqs.tokens, slot, seqs.tokens.row(parent, count).copy())
    if seqs.logprobs.row(parent, count).any():
        # Logged, unlike the tokens: behind a fork that was undone the next tenant must find none.
        seqs.logprobs.write(slot, 0, seqs.logprobs.row(parent, count).copy())
    for name in ("published", "count"):
        state.columns[f"slot.{name}"].put(slot, state.columns[f"slot.{name}"].get(parent))
    for name in ("launched", "computed"):
        # Behind the last recorded token each child writes its own.
        state.columns[f"slot.{name}"].put(slot, min(state.columns[f"slot.{name}"].get(parent), count))
    shared: Indexes = seqs.entries(parent)[: state.geometry.blocks_for(seqs.launched.get(slot))]
    seqs.extend(slot, shared)
    seqs.doubtful.update((parent, slot))
    state.blocks.reference(shared)
    return shared


def _keep(state: PoolState, parent: int, slot: int, output: Array) -> Indexes:
    """Give a child its parent's prompt and tokens of its own, and no blocks."""
    seqs = state.sequences
    prompt = seqs.tokens.row(parent, seqs.prompt.get(parent))
    state.columns.stage(seqs.tokens, slot, np.concatenate((prompt, output.astype(np.int32))))
    for name in ("published", "launched", "computed"):
        state.columns[f"slot.{name}"].put(slot, 0)
    seqs.count.put(slot, len(prompt) + len(output))
    seqs.reside(slot, Residency.RELEASED)
    return NONE
