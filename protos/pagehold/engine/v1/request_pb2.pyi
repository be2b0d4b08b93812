from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EarlyStopping(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EARLY_STOPPING_UNSPECIFIED: _ClassVar[EarlyStopping]
    EARLY_STOPPING_OFF: _ClassVar[EarlyStopping]
    EARLY_STOPPING_ON: _ClassVar[EarlyStopping]
    EARLY_STOPPING_NEVER: _ClassVar[EarlyStopping]

class BeamRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BEAM_ROLE_UNSPECIFIED: _ClassVar[BeamRole]
    BEAM_ROLE_ENDED: _ClassVar[BeamRole]
    BEAM_ROLE_FOUND: _ClassVar[BeamRole]
EARLY_STOPPING_UNSPECIFIED: EarlyStopping
EARLY_STOPPING_OFF: EarlyStopping
EARLY_STOPPING_ON: EarlyStopping
EARLY_STOPPING_NEVER: EarlyStopping
BEAM_ROLE_UNSPECIFIED: BeamRole
BEAM_ROLE_ENDED: BeamRole
BEAM_ROLE_FOUND: BeamRole

class Request(_message.Message):
    __slots__ = ("parameters", "request_id", "model", "stop", "cache_salt", "bypass_cache", "no_store", "priority", "detached", "arrived", "ignore_eos", "stop_token_ids", "outputs", "output", "root", "beams")
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    CACHE_SALT_FIELD_NUMBER: _ClassVar[int]
    BYPASS_CACHE_FIELD_NUMBER: _ClassVar[int]
    NO_STORE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    DETACHED_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_FIELD_NUMBER: _ClassVar[int]
    IGNORE_EOS_FIELD_NUMBER: _ClassVar[int]
    STOP_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    BEAMS_FIELD_NUMBER: _ClassVar[int]
    parameters: Parameters
    request_id: str
    model: str
    stop: _containers.RepeatedScalarFieldContainer[str]
    cache_salt: str
    bypass_cache: bool
    no_store: bool
    priority: int
    detached: bool
    arrived: float
    ignore_eos: bool
    stop_token_ids: _containers.RepeatedScalarFieldContainer[int]
    outputs: int
    output: int
    root: bytes
    beams: BeamSearch
    def __init__(self, parameters: _Optional[_Union[Parameters, _Mapping]] = ..., request_id: _Optional[str] = ..., model: _Optional[str] = ..., stop: _Optional[_Iterable[str]] = ..., cache_salt: _Optional[str] = ..., bypass_cache: _Optional[bool] = ..., no_store: _Optional[bool] = ..., priority: _Optional[int] = ..., detached: _Optional[bool] = ..., arrived: _Optional[float] = ..., ignore_eos: _Optional[bool] = ..., stop_token_ids: _Optional[_Iterable[int]] = ..., outputs: _Optional[int] = ..., output: _Optional[int] = ..., root: _Optional[bytes] = ..., beams: _Optional[_Union[BeamSearch, _Mapping]] = ...) -> None: ...

class BeamSearch(_message.Message):
    __slots__ = ("length_penalty", "early_stopping", "role")
    LENGTH_PENALTY_FIELD_NUMBER: _ClassVar[int]
    EARLY_STOPPING_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    length_penalty: float
    early_stopping: EarlyStopping
    role: BeamRole
    def __init__(self, length_penalty: _Optional[float] = ..., early_stopping: _Optional[_Union[EarlyStopping, str]] = ..., role: _Optional[_Union[BeamRole, str]] = ...) -> None: ...

class Parameters(_message.Message):
    __slots__ = ("temperature", "top_k", "top_p", "min_p", "seed", "max_tokens", "min_tokens", "end_ids", "deadline")
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    MIN_P_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MIN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    END_IDS_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    seed: int
    max_tokens: int
    min_tokens: int
    end_ids: _containers.RepeatedScalarFieldContainer[int]
    deadline: float
    def __init__(self, temperature: _Optional[float] = ..., top_k: _Optional[int] = ..., top_p: _Optional[float] = ..., min_p: _Optional[float] = ..., seed: _Optional[int] = ..., max_tokens: _Optional[int] = ..., min_tokens: _Optional[int] = ..., end_ids: _Optional[_Iterable[int]] = ..., deadline: _Optional[float] = ...) -> None: ...
