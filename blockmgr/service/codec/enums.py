"""The core's states beside those of the contracts.

The numbers differ: on the wire 0 always means "not set", while in the ledger it is the state of fresh memory. Members are
matched by name when this module is loaded, so one that is missing on either side is noticed at once.
"""

from enum import Enum
from typing import Any, Generic, TypeVar

from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper

from blockmgr.core.errors import InvalidMessage
from blockmgr.core.events import EventKind
from blockmgr.core.states import (
    BlockState,
    ExecutorState,
    FinishReason,
    Refusal,
    Residency,
    SequenceState,
    TicketKind,
)
from pagehold.common.v1 import event_pb2, states_pb2

Member = TypeVar("Member", bound=Enum)


class EnumCodec(Generic[Member]):
    """One enum of the core and its counterpart. ``unset`` is the member that "not set" stands for, if there is one."""

    def __init__(self, members: type[Member], wire: EnumTypeWrapper, prefix: str, unset: Member | None = None) -> None:
        self.to_wire: dict[Member, Any] = {}
        """Number on the wire of each member."""
        if unset is not None:
            self.to_wire[unset] = 0
        for member in members:
            if member is not unset:
                self.to_wire[member] = wire.Value(f"{prefix}_{member.name}")
        if set(self.to_wire.values()) | {0} != set(wire.values()):
            raise TypeError(f"{members.__name__} and {wire.DESCRIPTOR.full_name} have different members")
        self.from_wire = {number: member for member, number in self.to_wire.items()}
        """Member of each number on the wire."""

    def decode(self, number: int, field: str) -> Member:
        """The member of a number. Raises ``InvalidMessage`` naming ``field`` if there is none."""
        try:
            return self.from_wire[number]
        except KeyError:
            low, high = min(self.from_wire), max(self.from_wire)
            raise InvalidMessage(field, number, f"must be one of its kind's values, {low}..{high}") from None


BLOCK_STATES = EnumCodec(BlockState, states_pb2.BlockState, "BLOCK_STATE")
SEQUENCE_STATES = EnumCodec(SequenceState, states_pb2.SequenceState, "SEQUENCE_STATE")
RESIDENCIES = EnumCodec(Residency, states_pb2.Residency, "RESIDENCY")
EXECUTOR_STATES = EnumCodec(ExecutorState, states_pb2.ExecutorState, "EXECUTOR_STATE")
TICKET_KINDS = EnumCodec(TicketKind, states_pb2.TicketKind, "TICKET_KIND", unset=TicketKind.NONE)
FINISH_REASONS = EnumCodec(FinishReason, states_pb2.FinishReason, "FINISH_REASON", unset=FinishReason.UNSPECIFIED)
REFUSALS = EnumCodec(Refusal, states_pb2.Refusal, "REFUSAL", unset=Refusal.NONE)
EVENT_KINDS = EnumCodec(EventKind, event_pb2.EventKind, "EVENT_KIND")
