from pagehold.common.v1 import states_pb2 as _states_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Turn(_message.Message):
    __slots__ = ("epoch", "number", "launched_step", "completed_step", "failed", "solo", "progress", "appends", "tickets_done", "forks", "reorders", "finished", "swap_out", "release", "swap_in", "look_again", "reservations", "admissions", "demote", "want")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    LAUNCHED_STEP_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_STEP_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    SOLO_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    APPENDS_FIELD_NUMBER: _ClassVar[int]
    TICKETS_DONE_FIELD_NUMBER: _ClassVar[int]
    FORKS_FIELD_NUMBER: _ClassVar[int]
    REORDERS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    SWAP_OUT_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    SWAP_IN_FIELD_NUMBER: _ClassVar[int]
    LOOK_AGAIN_FIELD_NUMBER: _ClassVar[int]
    RESERVATIONS_FIELD_NUMBER: _ClassVar[int]
    ADMISSIONS_FIELD_NUMBER: _ClassVar[int]
    DEMOTE_FIELD_NUMBER: _ClassVar[int]
    WANT_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    number: int
    launched_step: int
    completed_step: int
    failed: bool
    solo: int
    progress: Progress
    appends: Appends
    tickets_done: _containers.RepeatedScalarFieldContainer[int]
    forks: _containers.RepeatedCompositeFieldContainer[Fork]
    reorders: _containers.RepeatedCompositeFieldContainer[Reorder]
    finished: Finished
    swap_out: _containers.RepeatedScalarFieldContainer[int]
    release: _containers.RepeatedScalarFieldContainer[int]
    swap_in: _containers.RepeatedScalarFieldContainer[int]
    look_again: _containers.RepeatedScalarFieldContainer[int]
    reservations: Reservations
    admissions: _containers.RepeatedCompositeFieldContainer[Admission]
    demote: int
    want: Want
    def __init__(self, epoch: _Optional[int] = ..., number: _Optional[int] = ..., launched_step: _Optional[int] = ..., completed_step: _Optional[int] = ..., failed: _Optional[bool] = ..., solo: _Optional[int] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., appends: _Optional[_Union[Appends, _Mapping]] = ..., tickets_done: _Optional[_Iterable[int]] = ..., forks: _Optional[_Iterable[_Union[Fork, _Mapping]]] = ..., reorders: _Optional[_Iterable[_Union[Reorder, _Mapping]]] = ..., finished: _Optional[_Union[Finished, _Mapping]] = ..., swap_out: _Optional[_Iterable[int]] = ..., release: _Optional[_Iterable[int]] = ..., swap_in: _Optional[_Iterable[int]] = ..., look_again: _Optional[_Iterable[int]] = ..., reservations: _Optional[_Union[Reservations, _Mapping]] = ..., admissions: _Optional[_Iterable[_Union[Admission, _Mapping]]] = ..., demote: _Optional[int] = ..., want: _Optional[_Union[Want, _Mapping]] = ...) -> None: ...

class Want(_message.Message):
    __slots__ = ("uuid", "priority", "arrived", "blocks", "running")
    UUID_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    uuid: bytes
    priority: int
    arrived: float
    blocks: int
    running: bool
    def __init__(self, uuid: _Optional[bytes] = ..., priority: _Optional[int] = ..., arrived: _Optional[float] = ..., blocks: _Optional[int] = ..., running: _Optional[bool] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("handles", "launched", "computed")
    HANDLES_FIELD_NUMBER: _ClassVar[int]
    LAUNCHED_FIELD_NUMBER: _ClassVar[int]
    COMPUTED_FIELD_NUMBER: _ClassVar[int]
    handles: _containers.RepeatedScalarFieldContainer[int]
    launched: _containers.RepeatedScalarFieldContainer[int]
    computed: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, handles: _Optional[_Iterable[int]] = ..., launched: _Optional[_Iterable[int]] = ..., computed: _Optional[_Iterable[int]] = ...) -> None: ...

class Appends(_message.Message):
    __slots__ = ("handles", "starts", "counts", "ids", "logprobs")
    HANDLES_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    handles: _containers.RepeatedScalarFieldContainer[int]
    starts: _containers.RepeatedScalarFieldContainer[int]
    counts: _containers.RepeatedScalarFieldContainer[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    logprobs: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, handles: _Optional[_Iterable[int]] = ..., starts: _Optional[_Iterable[int]] = ..., counts: _Optional[_Iterable[int]] = ..., ids: _Optional[_Iterable[int]] = ..., logprobs: _Optional[_Iterable[float]] = ...) -> None: ...

class Reservations(_message.Message):
    __slots__ = ("handles", "lengths", "look_ahead")
    HANDLES_FIELD_NUMBER: _ClassVar[int]
    LENGTHS_FIELD_NUMBER: _ClassVar[int]
    LOOK_AHEAD_FIELD_NUMBER: _ClassVar[int]
    handles: _containers.RepeatedScalarFieldContainer[int]
    lengths: _containers.RepeatedScalarFieldContainer[int]
    look_ahead: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, handles: _Optional[_Iterable[int]] = ..., lengths: _Optional[_Iterable[int]] = ..., look_ahead: _Optional[_Iterable[int]] = ...) -> None: ...

class Finished(_message.Message):
    __slots__ = ("handles", "reasons")
    HANDLES_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    handles: _containers.RepeatedScalarFieldContainer[int]
    reasons: _containers.RepeatedScalarFieldContainer[_states_pb2.FinishReason]
    def __init__(self, handles: _Optional[_Iterable[int]] = ..., reasons: _Optional[_Iterable[_Union[_states_pb2.FinishReason, str]]] = ...) -> None: ...

class Fork(_message.Message):
    __slots__ = ("parent", "children")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    parent: int
    children: _containers.RepeatedCompositeFieldContainer[Child]
    def __init__(self, parent: _Optional[int] = ..., children: _Optional[_Iterable[_Union[Child, _Mapping]]] = ...) -> None: ...

class Child(_message.Message):
    __slots__ = ("uuid", "request", "score", "output")
    UUID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    uuid: bytes
    request: bytes
    score: float
    output: Output
    def __init__(self, uuid: _Optional[bytes] = ..., request: _Optional[bytes] = ..., score: _Optional[float] = ..., output: _Optional[_Union[Output, _Mapping]] = ...) -> None: ...

class Output(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ids: _Optional[_Iterable[int]] = ...) -> None: ...

class Reorder(_message.Message):
    __slots__ = ("handles", "parents", "ids", "scores")
    HANDLES_FIELD_NUMBER: _ClassVar[int]
    PARENTS_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    handles: _containers.RepeatedScalarFieldContainer[int]
    parents: _containers.RepeatedScalarFieldContainer[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    scores: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, handles: _Optional[_Iterable[int]] = ..., parents: _Optional[_Iterable[int]] = ..., ids: _Optional[_Iterable[int]] = ..., scores: _Optional[_Iterable[float]] = ...) -> None: ...

class Admission(_message.Message):
    __slots__ = ("uuid", "prompt", "reserve", "max_length", "cache_salt", "adapter", "bypass_cache", "no_store", "priority", "caller", "body", "request")
    UUID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    RESERVE_FIELD_NUMBER: _ClassVar[int]
    MAX_LENGTH_FIELD_NUMBER: _ClassVar[int]
    CACHE_SALT_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    BYPASS_CACHE_FIELD_NUMBER: _ClassVar[int]
    NO_STORE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    uuid: bytes
    prompt: _containers.RepeatedScalarFieldContainer[int]
    reserve: int
    max_length: int
    cache_salt: bytes
    adapter: str
    bypass_cache: bool
    no_store: bool
    priority: int
    caller: bytes
    body: bytes
    request: bytes
    def __init__(self, uuid: _Optional[bytes] = ..., prompt: _Optional[_Iterable[int]] = ..., reserve: _Optional[int] = ..., max_length: _Optional[int] = ..., cache_salt: _Optional[bytes] = ..., adapter: _Optional[str] = ..., bypass_cache: _Optional[bool] = ..., no_store: _Optional[bool] = ..., priority: _Optional[int] = ..., caller: _Optional[bytes] = ..., body: _Optional[bytes] = ..., request: _Optional[bytes] = ...) -> None: ...
