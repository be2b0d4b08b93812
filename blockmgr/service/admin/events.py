"""Events as operators get them."""

from typing import Any

from blockmgr.core.events import Event, EventKind
from blockmgr.core.geometry import PoolGeometry
from blockmgr.service.admin.identifiers import uuid_text
from blockmgr.service.codec.enums import EVENT_KINDS
from pagehold.common.v1.event_pb2 import Event as EventMessage

KINDS: dict[EventKind, Any] = dict(EVENT_KINDS.to_wire)
MOST_BLOCKS = 100_000
"""Blocks named by one event on the wire; a flush of a large pool has more, and an answer must stay below 1 MiB."""


def event_message(geometry: PoolGeometry, event: Event) -> EventMessage:
    """One event. Fields that do not apply are left out."""
    blocks, left_out = event.blocks, len(event.blocks) - MOST_BLOCKS
    detail = event.detail
    if left_out > 0:
        blocks = blocks[:MOST_BLOCKS]
        detail = f"{detail} and {left_out} more blocks".strip()
    base = geometry.host_base
    return EventMessage(
        revision=event.revision,
        time=event.time,
        kind=KINDS[event.kind],
        handle=event.handle or None,
        uuid=uuid_text(event.uuid) if event.uuid else None,
        executor=event.executor or None,
        blocks=[block for block in blocks if block < base],
        host_blocks=[block - base for block in blocks if block >= base],
        tokens=event.tokens or None,
        detail=detail or None,
    )
