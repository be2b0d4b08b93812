"""Orders to copy a block, and what happens in the tables when a copy is done.

One rule serves copy-on-write, both directions of swapping, and moves: the table keeps the source until the copy is
reported done, so whatever dies in between, the table is right.
"""

from blockmgr.core.events import EventKind
from blockmgr.core.geometry import slot_of
from blockmgr.core.state import PoolState, one
from blockmgr.core.states import BlockState, Residency, TicketKind


def order_copy(state: PoolState, row: int, slot: int, index: int, source: int, kind: TicketKind) -> None:
    """Order a copy of table entry ``index`` into a block taken for it. The caller made sure that one can be had."""
    host = kind == TicketKind.SWAP_OUT
    destination = int(state.blocks.take(1, host, BlockState.TARGET)[0])
    state.tickets.order(kind, slot, state.sequences.handle(slot), index, source, destination, row)
    state.note(EventKind.COPY_ORDERED, slot, [source, destination], kind.name.lower())


def copy_done(state: PoolState, id_: int) -> bool:
    """A copy has completed. Returns whether the ticket was still pending; if not, nothing changes."""
    destination = state.tickets.pending(id_)
    if destination is None:
        return False
    kind = TicketKind(state.tickets.kind.get(destination))
    handle, index = state.tickets.handle.get(destination), state.tickets.index.get(destination)
    if kind == TicketKind.DEMOTE:
        _demoted(state, destination)
    elif index < 0:
        state.tickets.abandon(destination, -1)
    else:
        _switch_entry(state, slot_of(handle), index, destination, kind)
    return True


def _switch_entry(state: PoolState, slot: int, index: int, destination: int, kind: TicketKind) -> None:
    """The table names the destination from now on."""
    seqs, blocks = state.sequences, state.blocks
    source = state.tickets.source.get(destination)
    # A sibling may have filled the source since: what this sequence has not published is not in its copy.
    if kind == TicketKind.COPY_ON_WRITE or index >= seqs.published.get(slot):
        blocks.state.put(destination, BlockState.OWNED)
    else:
        blocks.inherit(source, destination, move=kind == TicketKind.MOVE)
    blocks.refs.put(destination, 1)
    seqs.table.put(slot * seqs.table.stride + index, destination)
    if kind == TicketKind.MOVE and blocks.refs.get(source) > 1 and blocks.state.get(source) == BlockState.SEALED:
        state.moved[source] = (destination, blocks.generation.get(destination))
    blocks.unreference(one(source))
    state.tickets.close(destination, slot)
    if kind in (TicketKind.SWAP_OUT, TicketKind.SWAP_IN) and slot not in state.tickets.of_slot:
        seqs.reside(slot, Residency.HOST if kind == TicketKind.SWAP_OUT else Residency.DEVICE)
    state.note(EventKind.COPY_DONE, slot, [source, destination], kind.name.lower())


def _demoted(state: PoolState, destination: int) -> None:
    """A cached block has a copy in the host tier: keep it where the host has none of that content yet."""
    blocks, source = state.blocks, state.tickets.source.get(destination)
    blocks.inherit(source, destination)
    kept = bool(blocks.indexed.get(destination))
    blocks.state.put(destination, BlockState.CACHED if kept else BlockState.FENCED)
    used = blocks.used.get(source)
    state.tickets.close(destination, -1)
    # The copy was no use of it: it stays among the first to be evicted.
    if blocks.tier(host=False).cool(source):
        blocks.used.put(source, used)


def demote(state: PoolState, row: int, count: int) -> list[int]:
    """Order copies of up to ``count`` of the coldest cached blocks into host blocks that are free, or hold what nobody has
    used since it came there and each source has been.

    Returns the destinations. Ahead of need: the blocks stay cached on the device until they are evicted.
    """
    blocks, ordered = state.blocks, []
    for source in blocks.tier(host=False).coldest(count):
        if blocks.hash.key(source) in blocks.index.host:
            continue
        if not _has_room_for(state, source):
            break
        destination = int(blocks.take(1, host=True, state=BlockState.TARGET)[0])
        state.tickets.order(TicketKind.DEMOTE, -1, 0, -1, source, destination, row)
        ordered.append(destination)
    return ordered


def _has_room_for(state: PoolState, source: int) -> bool:
    tier, used = state.blocks.tier(host=True), state.blocks.used
    return tier.free > 0 or any(used.get(cold) < used.get(source) for cold in tier.coldest(1))
