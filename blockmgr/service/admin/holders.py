"""One block, and everything that keeps it from being free."""

from collections.abc import Callable, Iterator

import numpy as np

from blockmgr.core.geometry import slot_of
from blockmgr.core.pool import Pool
from blockmgr.core.state import PoolState
from blockmgr.core.states import BlockState
from blockmgr.service.admin.blocks import HASHED, copy_rows
from blockmgr.service.admin.events import event_message
from blockmgr.service.admin.identifiers import ledger_block, uuid_text, within
from blockmgr.service.admin.numbers import TICKET_KIND
from blockmgr.service.admin.pins import pin_message
from blockmgr.service.admin.tables import entries_of, live_slots
from pagehold.admin.v1 import block_pb2, sequence_pb2
from pagehold.common.v1.version_pb2 import StateVersion

EVENT_DEFAULT, EVENT_LIMIT = 16, 1000


def show_block(
    pool: Pool, request: block_pb2.GetBlockRequest, version: StateVersion
) -> Callable[[], block_pb2.GetBlockResponse]:
    """Read a block. What is returned finishes the answer, and may be called off the loop.

    Raises ``NotFound`` if there is no such block.
    """
    limit = request.event_limit if request.HasField("event_limit") else EVENT_DEFAULT
    within("event_limit", limit, 0, EVENT_LIMIT)
    state, block = pool.state, ledger_block(pool.geometry, request.id)
    (message,) = copy_rows(pool, np.array([block])).messages()
    answer = block_pb2.GetBlockResponse(version=version, block=message, holders=_holders(pool, block))
    if state.blocks.state.get(block) in HASHED:
        answer.ids.extend(state.blocks.tokens.row(block).tolist())
    events = state.events.kept()

    def finish() -> block_pb2.GetBlockResponse:
        naming = events.about(block, limit) if limit else []
        answer.events.extend(event_message(pool.geometry, event) for event in naming)
        return answer

    return finish


def _holders(pool: Pool, block: int) -> Iterator[block_pb2.BlockHolder]:
    state = pool.state
    for slot, index in _naming(state, block):
        holder = block_pb2.BlockHolder()
        holder.table.handle = state.sequences.handle(slot)
        holder.table.uuid = uuid_text(state.sequences.uuid.key(slot))
        holder.table.index = index
        yield holder
    for pin in pool.pins.list():
        if block in pin.blocks:
            yield block_pb2.BlockHolder(pin=pin_message(pool.geometry, pin))
    for destination in sorted(state.tickets.rows):
        if block in (destination, state.tickets.source.get(destination)):
            yield block_pb2.BlockHolder(ticket=ticket_message(state, destination))
    yield from _fence(state, block)


def _naming(state: PoolState, block: int) -> Iterator[tuple[int, int]]:
    """Slot and index of each table entry that names the block."""
    if state.blocks.refs.get(block):
        entries = entries_of(state, live_slots(state))
        naming = np.flatnonzero(entries.block == block)
        yield from zip(entries.slots[entries.place[naming]].tolist(), entries.index[naming].tolist(), strict=True)


def _fence(state: PoolState, block: int) -> Iterator[block_pb2.BlockHolder]:
    number = state.blocks.fence.get(block)
    holder = block_pb2.BlockHolder()
    if number:
        for group in state.blocks.fences.groups():
            if group.number == number:
                _add_waits(state, holder, group.waits)
    elif state.blocks.state.get(block) == BlockState.FILLING and not state.blocks.refs.get(block):
        _add_waits(state, holder, {state.blocks.filler.get(block): state.blocks.step.get(block)})
    if holder.WhichOneof("holder"):
        yield holder


def _add_waits(state: PoolState, holder: block_pb2.BlockHolder, waits: dict[int, int | None]) -> None:
    holder.fence.SetInParent()
    for row, step in waits.items():
        name, completed = state.executors.name_of(row), state.executors.completed.get(row)
        holder.fence.waits.add(executor=name, step=step, completed_step=completed)


def ticket_message(state: PoolState, destination: int) -> sequence_pb2.PendingTicket:
    """A pending copy."""
    ticket = state.tickets.describe(destination)
    alive = ticket.handle and state.sequences.handle(slot_of(ticket.handle)) == ticket.handle
    return sequence_pb2.PendingTicket(
        id=ticket.id,
        kind=TICKET_KIND[ticket.kind],
        handle=ticket.handle if alive else None,
        index=ticket.index if ticket.index >= 0 else None,
        source=ticket.source,
        destination=ticket.destination,
        executor=state.executors.name_of(state.tickets.executor.get(destination)),
    )
