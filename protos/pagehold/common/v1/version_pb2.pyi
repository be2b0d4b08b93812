from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class StateVersion(_message.Message):
    __slots__ = ("manager_epoch", "revision")
    MANAGER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    manager_epoch: int
    revision: int
    def __init__(self, manager_epoch: _Optional[int] = ..., revision: _Optional[int] = ...) -> None: ...
