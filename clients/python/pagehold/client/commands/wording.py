"""Blocks, holders, pins and copies in words."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pagehold.admin.v1 import block_pb2, sequence_pb2


def block_name(id_: "block_pb2.BlockId") -> str:
    """17 on the device, host:17 on the host tier: as it can be typed."""
    from pagehold.common.v1 import states_pb2

    return f"host:{id_.block}" if id_.tier == states_pb2.TIER_HOST else str(id_.block)


def block_names(ids: "Iterable[block_pb2.BlockId]", most: int = 8) -> str:
    """Several blocks, runs drawn together."""
    from pagehold.client.output import ranges
    from pagehold.common.v1 import states_pb2

    listed = list(ids)
    device = [id_.block for id_ in listed if id_.tier != states_pb2.TIER_HOST]
    host = [id_.block for id_ in listed if id_.tier == states_pb2.TIER_HOST]
    parts = [ranges(device, most)] if device else []
    return "; ".join(parts + ([f"host: {ranges(host, most)}"] if host else []))


def holder_words(holder: "block_pb2.BlockHolder") -> tuple[str, str]:
    """What kind of holder it is, and which one."""
    kind = holder.WhichOneof("holder")
    if kind == "table":
        return "table", f"entry {holder.table.index} of sequence {holder.table.handle} ({holder.table.uuid})"
    if kind == "pin":
        return "pin", pin_words(holder.pin)
    if kind == "ticket":
        return "copy", ticket_words(holder.ticket)
    return "fence", "; ".join(_wait_words(wait) for wait in holder.fence.waits) or "about to open"


def _wait_words(wait: "block_pb2.FenceWait") -> str:
    if not wait.HasField("step"):
        return f"waits for {wait.executor}, which has not been heard since the manager's restart"
    return f"waits for step {wait.step} of {wait.executor}, which has completed {wait.completed_step}"


def pin_words(pin: "block_pb2.Pin") -> str:
    """A pin in a line."""
    label = f" {pin.label!r}" if pin.label else ""
    return f"{pin.id}{label}, {time_left(pin)} left"


def time_left(pin: "block_pb2.Pin") -> str:
    """How long a pin lasts from now."""
    import time

    from pagehold.client.output import span

    return span(max(0.0, pin.expires - time.time()))


def ticket_words(ticket: "sequence_pb2.PendingTicket") -> str:
    """A pending copy in a line."""
    from pagehold.client.output import name_of

    kind = name_of(ticket, "kind")
    source = f"host:{ticket.source}" if kind == "swap-in" else f"{ticket.source}"
    destination = f"host:{ticket.destination}" if kind in ("swap-out", "demote") else f"{ticket.destination}"
    return f"{kind} of {source} to {destination}, ordered from {ticket.executor}"
