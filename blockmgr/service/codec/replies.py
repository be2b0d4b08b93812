"""Replies: what an executor hears back.

A reply travels as the bytes of a ``SessionResponse``, which the manager makes once, keeps in the ledger, and sends as they
are: on a session, and, because ``ExchangeResponse`` has the same field, as the answer to ``Exchange``.
"""

from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any

import numpy as np

from blockmgr.core.errors import InvalidMessage
from blockmgr.core.messages import Admitted, Forked, LookedAgain, Reply, Swapped, TableUpdate, Ticket
from blockmgr.service.codec.enums import REFUSALS, TICKET_KINDS
from blockmgr.service.codec.wants import decode_want, encode_want
from pagehold.blockmgr.v1 import reply_pb2, session_pb2

MASK = (1 << 64) - 1

# ---- the manager's side ----------------------------------------------------------------------------------------------


def encode_reply(reply: Reply, manager_epoch: int) -> bytes:
    """The bytes to send and to keep. Raises ``ValueError`` for a number that its field cannot hold."""
    response = session_pb2.SessionResponse()
    wire = response.reply
    wire.version.manager_epoch = manager_epoch
    wire.version.revision = reply.revision
    wire.number = reply.number
    wire.drain = reply.drain
    wire.free_blocks, wire.usable_blocks = reply.free_blocks, reply.usable_blocks
    wire.fenced_blocks, wire.cached_blocks = reply.fenced_blocks, reply.cached_blocks
    if reply.wanted is not None:
        encode_want(reply.wanted, wire.wanted)
    if reply.tables:
        _encode_tables(reply.tables, wire.tables.add(group=0))
    for name in ("short", "cancel"):
        handles = getattr(reply, name)
        if handles:
            getattr(wire, name).extend(handles)
    if reply.stale:
        # A number of all 64 bits, which no sequence has, was read as a negative one: it goes back as it came.
        wire.stale.extend([handle & MASK for handle in reply.stale])
    for ticket in reply.tickets:
        _encode_ticket(ticket, wire.tickets.add())
    for admitted in reply.admitted:
        _encode_admitted(admitted, wire.admitted.add())
    for forked in reply.forked:
        _encode_forked(forked, wire.forked.add())
    for swapped in reply.swaps_refused:
        _encode_swapped(swapped, wire.swaps_refused.add())
    for looked in reply.looked_again:
        wire.looked_again.add(handle=looked.handle, cached=looked.cached, awaiting=looked.awaiting or None)
    for handle, length in reply.final_lengths:
        wire.final_lengths.add(handle=handle, length=length)
    return response.SerializeToString()


def _encode_tables(tables: list[TableUpdate], wire: reply_pb2.TableUpdates) -> None:
    wire.handles.extend([update.handle for update in tables])
    wire.firsts.extend([update.first for update in tables])
    wire.counts.extend([len(update.blocks) for update in tables])
    wire.blocks.extend(np.concatenate([update.blocks for update in tables]).tolist())


def _encode_ticket(ticket: Ticket, wire: reply_pb2.Ticket) -> None:
    wire.id, wire.source, wire.destination, wire.group = ticket.id, ticket.source, ticket.destination, 0
    wire.kind = TICKET_KINDS.to_wire[ticket.kind]
    if ticket.handle:
        wire.handle = ticket.handle
    if ticket.index >= 0:
        wire.index = ticket.index


def _encode_admitted(admitted: Admitted, wire: reply_pb2.Admitted) -> None:
    wire.uuid, wire.cached, wire.detail = admitted.uuid, admitted.cached, admitted.detail
    wire.refusal = REFUSALS.to_wire[admitted.refusal]
    wire.needed, wire.available = admitted.needed, admitted.available
    if admitted.handle:
        wire.handle = admitted.handle
    if admitted.awaiting:
        wire.awaiting = admitted.awaiting


def _encode_forked(forked: Forked, wire: reply_pb2.Forked) -> None:
    wire.parent, wire.needed, wire.available = forked.parent, forked.needed, forked.available
    wire.refusal = REFUSALS.to_wire[forked.refusal]
    wire.handles.extend(forked.handles)


def _encode_swapped(swapped: Swapped, wire: reply_pb2.Swapped) -> None:
    wire.handle, wire.needed, wire.available = swapped.handle, swapped.needed, swapped.available
    wire.refusal = REFUSALS.to_wire[swapped.refusal]


# ---- the executor's side ---------------------------------------------------------------------------------------------


def decode_reply(reply: reply_pb2.Reply | bytes) -> Reply:
    """A reply, or the bytes in which it travelled, as plain data. Raises ``InvalidMessage`` where its form is wrong."""
    wire = session_pb2.SessionResponse.FromString(reply).reply if isinstance(reply, bytes) else reply
    # Only what is there is looked at: most replies say few of the many things that one can say.
    parts = {field.name: DECODERS[field.name](value) for field, value in wire.ListFields()}
    return Reply(parts.pop("number", 0), parts.pop("version", 0), **parts)


def _as_it_is(value: Any) -> Any:
    return value


def _each(decode: Callable[[Any], Any]) -> Callable[[Iterable[Any]], list[Any]]:
    """What decodes a list of messages."""
    return lambda values: [decode(value) for value in values]


def _decode_groups(groups: Iterable[reply_pb2.TableUpdates]) -> list[TableUpdate]:
    return [update for group in groups for update in _decode_tables(group)]


def _decode_tables(wire: reply_pb2.TableUpdates) -> list[TableUpdate]:
    if wire.group:
        raise InvalidMessage("reply.tables.group", wire.group, "only group 0 is known")
    # Slices: taken over whole, where protobuf would be asked for one number after the other.
    handles, firsts, counts, numbers = wire.handles[:], wire.firsts[:], wire.counts[:], wire.blocks[:]
    if not len(handles) == len(firsts) == len(counts):
        lengths = f"{len(handles)}, {len(firsts)} and {len(counts)} entries long"
        raise InvalidMessage("reply.tables", lengths, "handles, firsts and counts must be equally long")
    blocks = np.array(numbers, dtype=np.int64)
    ends = list(accumulate(counts))
    if (ends[-1] if ends else 0) != len(blocks):
        raise InvalidMessage("reply.tables.blocks", f"{len(blocks)} entries long", f"counts add up to {sum(counts)}")
    pieces = [blocks[end - count : end] for end, count in zip(ends, counts, strict=True)]
    return list(map(TableUpdate, handles, firsts, pieces))


def _decode_ticket(wire: reply_pb2.Ticket) -> Ticket:
    if wire.group:
        raise InvalidMessage("reply.tickets.group", wire.group, "only group 0 is known")
    kind = TICKET_KINDS.decode(wire.kind, "reply.tickets.kind")
    index = wire.index if wire.HasField("index") else -1
    return Ticket(wire.id, kind, wire.handle, index, wire.source, wire.destination)


def _decode_admitted(wire: reply_pb2.Admitted) -> Admitted:
    refusal = REFUSALS.decode(wire.refusal, "reply.admitted.refusal")
    return Admitted(
        wire.uuid, wire.handle, wire.cached, wire.awaiting, refusal, wire.needed, wire.available, wire.detail
    )


def _decode_forked(wire: reply_pb2.Forked) -> Forked:
    refusal = REFUSALS.decode(wire.refusal, "reply.forked.refusal")
    return Forked(wire.parent, list(wire.handles), refusal, wire.needed, wire.available)


def _decode_swapped(wire: reply_pb2.Swapped) -> Swapped:
    refusal = REFUSALS.decode(wire.refusal, "reply.swaps_refused.refusal")
    return Swapped(wire.handle, refusal, wire.needed, wire.available)


DECODERS: dict[str, Callable[[Any], Any]] = {
    "version": lambda version: version.revision,
    "number": _as_it_is,
    "tables": _decode_groups,
    "short": list,
    "tickets": _each(_decode_ticket),
    "admitted": _each(_decode_admitted),
    "forked": _each(_decode_forked),
    "swaps_refused": _each(_decode_swapped),
    "looked_again": _each(lambda looked: LookedAgain(looked.handle, looked.cached, looked.awaiting)),
    "stale": list,
    "cancel": list,
    "final_lengths": _each(lambda final: (final.handle, final.length)),
    "drain": _as_it_is,
    "free_blocks": _as_it_is,
    "wanted": lambda want: decode_want(want, "reply.wanted"),
    "usable_blocks": _as_it_is,
    "fenced_blocks": _as_it_is,
    "cached_blocks": _as_it_is,
}
"""For each field of a reply what makes the part of the plain one that has the same name (``version``: the revision)."""
