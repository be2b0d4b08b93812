"""Numbers on the wire of the states in the ledger, to be looked up by the ledger's number."""

from typing import Any

from blockmgr.core.states import (
    BlockState,
    ExecutorState,
    FinishReason,
    Residency,
    SequenceState,
    TicketKind,
)
from blockmgr.service.codec.enums import (
    BLOCK_STATES,
    EXECUTOR_STATES,
    FINISH_REASONS,
    RESIDENCIES,
    SEQUENCE_STATES,
    TICKET_KINDS,
)

# Generated types tell each enum's numbers apart, which a table by number cannot.
BLOCK_STATE: list[Any] = [BLOCK_STATES.to_wire[state] for state in BlockState]
SEQUENCE_STATE: list[Any] = [SEQUENCE_STATES.to_wire[state] for state in SequenceState]
RESIDENCY: list[Any] = [RESIDENCIES.to_wire[residency] for residency in Residency]
EXECUTOR_STATE: list[Any] = [EXECUTOR_STATES.to_wire[state] for state in ExecutorState]
TICKET_KIND: list[Any] = [TICKET_KINDS.to_wire[kind] for kind in TicketKind]
FINISH_REASON: list[Any] = [FINISH_REASONS.to_wire[reason] for reason in FinishReason]
