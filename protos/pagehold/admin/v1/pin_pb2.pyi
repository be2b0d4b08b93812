from pagehold.admin.v1 import block_pb2 as _block_pb2
from pagehold.admin.v1 import prefix_pb2 as _prefix_pb2
from pagehold.common.v1 import version_pb2 as _version_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PinRequest(_message.Message):
    __slots__ = ("pool", "block", "prompt", "ttl_seconds", "label")
    POOL_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    TTL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    pool: str
    block: BlockPin
    prompt: _prefix_pb2.Prompt
    ttl_seconds: float
    label: str
    def __init__(self, pool: _Optional[str] = ..., block: _Optional[_Union[BlockPin, _Mapping]] = ..., prompt: _Optional[_Union[_prefix_pb2.Prompt, _Mapping]] = ..., ttl_seconds: _Optional[float] = ..., label: _Optional[str] = ...) -> None: ...

class BlockPin(_message.Message):
    __slots__ = ("id", "expected_generation")
    ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_GENERATION_FIELD_NUMBER: _ClassVar[int]
    id: _block_pb2.BlockId
    expected_generation: int
    def __init__(self, id: _Optional[_Union[_block_pb2.BlockId, _Mapping]] = ..., expected_generation: _Optional[int] = ...) -> None: ...

class PinResponse(_message.Message):
    __slots__ = ("version", "pin", "pinned_tokens")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PIN_FIELD_NUMBER: _ClassVar[int]
    PINNED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    pin: _block_pb2.Pin
    pinned_tokens: int
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., pin: _Optional[_Union[_block_pb2.Pin, _Mapping]] = ..., pinned_tokens: _Optional[int] = ...) -> None: ...

class UnpinRequest(_message.Message):
    __slots__ = ("pool", "pin_id", "label")
    POOL_FIELD_NUMBER: _ClassVar[int]
    PIN_ID_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    pool: str
    pin_id: int
    label: str
    def __init__(self, pool: _Optional[str] = ..., pin_id: _Optional[int] = ..., label: _Optional[str] = ...) -> None: ...

class UnpinResponse(_message.Message):
    __slots__ = ("version", "pins")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PINS_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    pins: _containers.RepeatedCompositeFieldContainer[_block_pb2.Pin]
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., pins: _Optional[_Iterable[_Union[_block_pb2.Pin, _Mapping]]] = ...) -> None: ...

class ListPinsRequest(_message.Message):
    __slots__ = ("pool",)
    POOL_FIELD_NUMBER: _ClassVar[int]
    pool: str
    def __init__(self, pool: _Optional[str] = ...) -> None: ...

class ListPinsResponse(_message.Message):
    __slots__ = ("version", "pins")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PINS_FIELD_NUMBER: _ClassVar[int]
    version: _version_pb2.StateVersion
    pins: _containers.RepeatedCompositeFieldContainer[_block_pb2.Pin]
    def __init__(self, version: _Optional[_Union[_version_pb2.StateVersion, _Mapping]] = ..., pins: _Optional[_Iterable[_Union[_block_pb2.Pin, _Mapping]]] = ...) -> None: ...
