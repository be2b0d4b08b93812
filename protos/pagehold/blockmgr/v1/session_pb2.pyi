from pagehold.blockmgr.v1 import reply_pb2 as _reply_pb2
from pagehold.blockmgr.v1 import turn_pb2 as _turn_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NudgeReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NUDGE_REASON_UNSPECIFIED: _ClassVar[NudgeReason]
    NUDGE_REASON_CANCEL: _ClassVar[NudgeReason]
    NUDGE_REASON_FINAL_LENGTH: _ClassVar[NudgeReason]
    NUDGE_REASON_DRAIN: _ClassVar[NudgeReason]
    NUDGE_REASON_TICKETS: _ClassVar[NudgeReason]
    NUDGE_REASON_ORPHANS: _ClassVar[NudgeReason]
    NUDGE_REASON_REPORT: _ClassVar[NudgeReason]
NUDGE_REASON_UNSPECIFIED: NudgeReason
NUDGE_REASON_CANCEL: NudgeReason
NUDGE_REASON_FINAL_LENGTH: NudgeReason
NUDGE_REASON_DRAIN: NudgeReason
NUDGE_REASON_TICKETS: NudgeReason
NUDGE_REASON_ORPHANS: NudgeReason
NUDGE_REASON_REPORT: NudgeReason

class SessionRequest(_message.Message):
    __slots__ = ("turn", "heartbeat")
    TURN_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    turn: _turn_pb2.Turn
    heartbeat: Heartbeat
    def __init__(self, turn: _Optional[_Union[_turn_pb2.Turn, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ...) -> None: ...

class SessionResponse(_message.Message):
    __slots__ = ("reply", "probe", "nudge", "revoked")
    REPLY_FIELD_NUMBER: _ClassVar[int]
    PROBE_FIELD_NUMBER: _ClassVar[int]
    NUDGE_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    reply: _reply_pb2.Reply
    probe: Probe
    nudge: Nudge
    revoked: Revoked
    def __init__(self, reply: _Optional[_Union[_reply_pb2.Reply, _Mapping]] = ..., probe: _Optional[_Union[Probe, _Mapping]] = ..., nudge: _Optional[_Union[Nudge, _Mapping]] = ..., revoked: _Optional[_Union[Revoked, _Mapping]] = ...) -> None: ...

class ExchangeRequest(_message.Message):
    __slots__ = ("turn",)
    TURN_FIELD_NUMBER: _ClassVar[int]
    turn: _turn_pb2.Turn
    def __init__(self, turn: _Optional[_Union[_turn_pb2.Turn, _Mapping]] = ...) -> None: ...

class ExchangeResponse(_message.Message):
    __slots__ = ("reply",)
    REPLY_FIELD_NUMBER: _ClassVar[int]
    reply: _reply_pb2.Reply
    def __init__(self, reply: _Optional[_Union[_reply_pb2.Reply, _Mapping]] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("epoch",)
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    def __init__(self, epoch: _Optional[int] = ...) -> None: ...

class Probe(_message.Message):
    __slots__ = ("seconds_left",)
    SECONDS_LEFT_FIELD_NUMBER: _ClassVar[int]
    seconds_left: float
    def __init__(self, seconds_left: _Optional[float] = ...) -> None: ...

class Nudge(_message.Message):
    __slots__ = ("reasons",)
    REASONS_FIELD_NUMBER: _ClassVar[int]
    reasons: _containers.RepeatedScalarFieldContainer[NudgeReason]
    def __init__(self, reasons: _Optional[_Iterable[_Union[NudgeReason, str]]] = ...) -> None: ...

class Revoked(_message.Message):
    __slots__ = ("epoch", "detail")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    detail: str
    def __init__(self, epoch: _Optional[int] = ..., detail: _Optional[str] = ...) -> None: ...
