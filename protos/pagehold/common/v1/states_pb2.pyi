from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from typing import ClassVar as _ClassVar

DESCRIPTOR: _descriptor.FileDescriptor

class Tier(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TIER_UNSPECIFIED: _ClassVar[Tier]
    TIER_DEVICE: _ClassVar[Tier]
    TIER_HOST: _ClassVar[Tier]

class BlockState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BLOCK_STATE_UNSPECIFIED: _ClassVar[BlockState]
    BLOCK_STATE_FREE: _ClassVar[BlockState]
    BLOCK_STATE_NULL: _ClassVar[BlockState]
    BLOCK_STATE_OWNED: _ClassVar[BlockState]
    BLOCK_STATE_FILLING: _ClassVar[BlockState]
    BLOCK_STATE_SEALED: _ClassVar[BlockState]
    BLOCK_STATE_CACHED: _ClassVar[BlockState]
    BLOCK_STATE_FENCED: _ClassVar[BlockState]
    BLOCK_STATE_ABSENT: _ClassVar[BlockState]
    BLOCK_STATE_TARGET: _ClassVar[BlockState]

class SequenceState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SEQUENCE_STATE_UNSPECIFIED: _ClassVar[SequenceState]
    SEQUENCE_STATE_FREE: _ClassVar[SequenceState]
    SEQUENCE_STATE_LIVE: _ClassVar[SequenceState]
    SEQUENCE_STATE_ORPHANED: _ClassVar[SequenceState]

class Residency(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESIDENCY_UNSPECIFIED: _ClassVar[Residency]
    RESIDENCY_DEVICE: _ClassVar[Residency]
    RESIDENCY_LEAVING: _ClassVar[Residency]
    RESIDENCY_HOST: _ClassVar[Residency]
    RESIDENCY_RETURNING: _ClassVar[Residency]
    RESIDENCY_RELEASED: _ClassVar[Residency]

class ExecutorState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EXECUTOR_STATE_UNSPECIFIED: _ClassVar[ExecutorState]
    EXECUTOR_STATE_EMPTY: _ClassVar[ExecutorState]
    EXECUTOR_STATE_STARTING: _ClassVar[ExecutorState]
    EXECUTOR_STATE_LIVE: _ClassVar[ExecutorState]
    EXECUTOR_STATE_FENCING: _ClassVar[ExecutorState]
    EXECUTOR_STATE_DEAD: _ClassVar[ExecutorState]

class TicketKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TICKET_KIND_UNSPECIFIED: _ClassVar[TicketKind]
    TICKET_KIND_COPY_ON_WRITE: _ClassVar[TicketKind]
    TICKET_KIND_SWAP_OUT: _ClassVar[TicketKind]
    TICKET_KIND_SWAP_IN: _ClassVar[TicketKind]
    TICKET_KIND_MOVE: _ClassVar[TicketKind]
    TICKET_KIND_DEMOTE: _ClassVar[TicketKind]

class FinishReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINISH_REASON_UNSPECIFIED: _ClassVar[FinishReason]
    FINISH_REASON_STOP: _ClassVar[FinishReason]
    FINISH_REASON_LENGTH: _ClassVar[FinishReason]
    FINISH_REASON_CANCELLED: _ClassVar[FinishReason]
    FINISH_REASON_DEADLINE: _ClassVar[FinishReason]
    FINISH_REASON_UNAVAILABLE: _ClassVar[FinishReason]
    FINISH_REASON_INTERNAL: _ClassVar[FinishReason]
    FINISH_REASON_REPLACED: _ClassVar[FinishReason]

class Refusal(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REFUSAL_UNSPECIFIED: _ClassVar[Refusal]
    REFUSAL_POOL_EXHAUSTED: _ClassVar[Refusal]
    REFUSAL_NEVER_FITS: _ClassVar[Refusal]
    REFUSAL_NO_SLOTS: _ClassVar[Refusal]
    REFUSAL_TOO_LONG: _ClassVar[Refusal]
    REFUSAL_DUPLICATE: _ClassVar[Refusal]
    REFUSAL_BODY_MISMATCH: _ClassVar[Refusal]
    REFUSAL_DRAINING: _ClassVar[Refusal]
    REFUSAL_STALE_HANDLE: _ClassVar[Refusal]
    REFUSAL_BUSY: _ClassVar[Refusal]
    REFUSAL_HOST_EXHAUSTED: _ClassVar[Refusal]
    REFUSAL_INVALID: _ClassVar[Refusal]
TIER_UNSPECIFIED: Tier
TIER_DEVICE: Tier
TIER_HOST: Tier
BLOCK_STATE_UNSPECIFIED: BlockState
BLOCK_STATE_FREE: BlockState
BLOCK_STATE_NULL: BlockState
BLOCK_STATE_OWNED: BlockState
BLOCK_STATE_FILLING: BlockState
BLOCK_STATE_SEALED: BlockState
BLOCK_STATE_CACHED: BlockState
BLOCK_STATE_FENCED: BlockState
BLOCK_STATE_ABSENT: BlockState
BLOCK_STATE_TARGET: BlockState
SEQUENCE_STATE_UNSPECIFIED: SequenceState
SEQUENCE_STATE_FREE: SequenceState
SEQUENCE_STATE_LIVE: SequenceState
SEQUENCE_STATE_ORPHANED: SequenceState
RESIDENCY_UNSPECIFIED: Residency
RESIDENCY_DEVICE: Residency
RESIDENCY_LEAVING: Residency
RESIDENCY_HOST: Residency
RESIDENCY_RETURNING: Residency
RESIDENCY_RELEASED: Residency
EXECUTOR_STATE_UNSPECIFIED: ExecutorState
EXECUTOR_STATE_EMPTY: ExecutorState
EXECUTOR_STATE_STARTING: ExecutorState
EXECUTOR_STATE_LIVE: ExecutorState
EXECUTOR_STATE_FENCING: ExecutorState
EXECUTOR_STATE_DEAD: ExecutorState
TICKET_KIND_UNSPECIFIED: TicketKind
TICKET_KIND_COPY_ON_WRITE: TicketKind
TICKET_KIND_SWAP_OUT: TicketKind
TICKET_KIND_SWAP_IN: TicketKind
TICKET_KIND_MOVE: TicketKind
TICKET_KIND_DEMOTE: TicketKind
FINISH_REASON_UNSPECIFIED: FinishReason
FINISH_REASON_STOP: FinishReason
FINISH_REASON_LENGTH: FinishReason
FINISH_REASON_CANCELLED: FinishReason
FINISH_REASON_DEADLINE: FinishReason
FINISH_REASON_UNAVAILABLE: FinishReason
FINISH_REASON_INTERNAL: FinishReason
FINISH_REASON_REPLACED: FinishReason
REFUSAL_UNSPECIFIED: Refusal
REFUSAL_POOL_EXHAUSTED: Refusal
REFUSAL_NEVER_FITS: Refusal
REFUSAL_NO_SLOTS: Refusal
REFUSAL_TOO_LONG: Refusal
REFUSAL_DUPLICATE: Refusal
REFUSAL_BODY_MISMATCH: Refusal
REFUSAL_DRAINING: Refusal
REFUSAL_STALE_HANDLE: Refusal
REFUSAL_BUSY: Refusal
REFUSAL_HOST_EXHAUSTED: Refusal
REFUSAL_INVALID: Refusal
