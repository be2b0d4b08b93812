from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from typing import ClassVar as _ClassVar

DESCRIPTOR: _descriptor.FileDescriptor

class ErrorReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ERROR_REASON_UNSPECIFIED: _ClassVar[ErrorReason]
    ERROR_REASON_INVALID_FIELD: _ClassVar[ErrorReason]
    ERROR_REASON_STALE_EPOCH: _ClassVar[ErrorReason]
    ERROR_REASON_MESSAGE_OUT_OF_ORDER: _ClassVar[ErrorReason]
    ERROR_REASON_CHANGED_MEANWHILE: _ClassVar[ErrorReason]
    ERROR_REASON_POOL_EXHAUSTED: _ClassVar[ErrorReason]
    ERROR_REASON_TOO_MANY_CALLS: _ClassVar[ErrorReason]
    ERROR_REASON_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_ALREADY_EXISTS: _ClassVar[ErrorReason]
    ERROR_REASON_PRECONDITION: _ClassVar[ErrorReason]
    ERROR_REASON_IDENTITY_MISMATCH: _ClassVar[ErrorReason]
    ERROR_REASON_OUT_OF_RANGE: _ClassVar[ErrorReason]
    ERROR_REASON_NOT_SERVING: _ClassVar[ErrorReason]
    ERROR_REASON_LEDGER_CORRUPT: _ClassVar[ErrorReason]
    ERROR_REASON_INTERNAL: _ClassVar[ErrorReason]
    ERROR_REASON_OUT_OF_MEMORY: _ClassVar[ErrorReason]
    ERROR_REASON_DESCRIPTORS_WANTED: _ClassVar[ErrorReason]
    ERROR_REASON_QUEUE_FULL: _ClassVar[ErrorReason]
    ERROR_REASON_NEVER_FITS: _ClassVar[ErrorReason]
    ERROR_REASON_GENERATION_LOST: _ClassVar[ErrorReason]
    ERROR_REASON_NOT_READ: _ClassVar[ErrorReason]
ERROR_REASON_UNSPECIFIED: ErrorReason
ERROR_REASON_INVALID_FIELD: ErrorReason
ERROR_REASON_STALE_EPOCH: ErrorReason
ERROR_REASON_MESSAGE_OUT_OF_ORDER: ErrorReason
ERROR_REASON_CHANGED_MEANWHILE: ErrorReason
ERROR_REASON_POOL_EXHAUSTED: ErrorReason
ERROR_REASON_TOO_MANY_CALLS: ErrorReason
ERROR_REASON_NOT_FOUND: ErrorReason
ERROR_REASON_ALREADY_EXISTS: ErrorReason
ERROR_REASON_PRECONDITION: ErrorReason
ERROR_REASON_IDENTITY_MISMATCH: ErrorReason
ERROR_REASON_OUT_OF_RANGE: ErrorReason
ERROR_REASON_NOT_SERVING: ErrorReason
ERROR_REASON_LEDGER_CORRUPT: ErrorReason
ERROR_REASON_INTERNAL: ErrorReason
ERROR_REASON_OUT_OF_MEMORY: ErrorReason
ERROR_REASON_DESCRIPTORS_WANTED: ErrorReason
ERROR_REASON_QUEUE_FULL: ErrorReason
ERROR_REASON_NEVER_FITS: ErrorReason
ERROR_REASON_GENERATION_LOST: ErrorReason
ERROR_REASON_NOT_READ: ErrorReason
