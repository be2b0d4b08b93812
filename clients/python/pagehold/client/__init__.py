"""Client of pagehold's gRPC services, and its command line.

``Client`` and ``AsyncClient`` speak to the inference service. What is named here is imported when it is first used, so
that the command line, which lives below this package, starts without gRPC.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pagehold.client.async_client import AsyncClient as AsyncClient
    from pagehold.client.async_client import AsyncCompletionStream as AsyncCompletionStream
    from pagehold.client.client import Client as Client
    from pagehold.client.client import CompletionStream as CompletionStream
    from pagehold.client.descriptions import Limits as Limits
    from pagehold.client.descriptions import Load as Load
    from pagehold.client.descriptions import Model as Model
    from pagehold.client.descriptions import RenderedPrompt as RenderedPrompt
    from pagehold.client.descriptions import RequestsInFlight as RequestsInFlight
    from pagehold.client.descriptions import RequestState as RequestState
    from pagehold.client.descriptions import RequestSummary as RequestSummary
    from pagehold.client.descriptions import ServerInfo as ServerInfo
    from pagehold.client.errors import AlreadyExists as AlreadyExists
    from pagehold.client.errors import BadStream as BadStream
    from pagehold.client.errors import Cancelled as Cancelled
    from pagehold.client.errors import Conflict as Conflict
    from pagehold.client.errors import DataLoss as DataLoss
    from pagehold.client.errors import DeadlineExceeded as DeadlineExceeded
    from pagehold.client.errors import GenerationLost as GenerationLost
    from pagehold.client.errors import InvalidRequest as InvalidRequest
    from pagehold.client.errors import NeverFits as NeverFits
    from pagehold.client.errors import NotFound as NotFound
    from pagehold.client.errors import NotRead as NotRead
    from pagehold.client.errors import OutOfRange as OutOfRange
    from pagehold.client.errors import Overloaded as Overloaded
    from pagehold.client.errors import PageholdError as PageholdError
    from pagehold.client.errors import PreconditionFailed as PreconditionFailed
    from pagehold.client.errors import ServerFault as ServerFault
    from pagehold.client.errors import Unavailable as Unavailable
    from pagehold.client.errors import Unsupported as Unsupported
    from pagehold.client.events import BeamSearchParameters as BeamSearchParameters
    from pagehold.client.events import CacheParameters as CacheParameters
    from pagehold.client.events import Completion as Completion
    from pagehold.client.events import Delta as Delta
    from pagehold.client.events import EndReason as EndReason
    from pagehold.client.events import Event as Event
    from pagehold.client.events import Finished as Finished
    from pagehold.client.events import Output as Output
    from pagehold.client.events import Progress as Progress
    from pagehold.client.events import SamplingParameters as SamplingParameters
    from pagehold.client.events import Started as Started
    from pagehold.client.events import StoppingParameters as StoppingParameters
    from pagehold.client.events import Timings as Timings
    from pagehold.client.events import Usage as Usage
    from pagehold.client.parameters import Parameters as Parameters
    from pagehold.client.parameters import Request as Request

_NAMES = {
    "async_client": "AsyncClient AsyncCompletionStream",
    "client": "Client CompletionStream",
    "descriptions": "Limits Load Model RenderedPrompt RequestState RequestSummary RequestsInFlight ServerInfo",
    "errors": "AlreadyExists BadStream Cancelled Conflict DataLoss DeadlineExceeded GenerationLost InvalidRequest "
    "NeverFits NotFound NotRead OutOfRange Overloaded PageholdError PreconditionFailed ServerFault Unavailable "
    "Unsupported",
    "events": "BeamSearchParameters CacheParameters Completion Delta EndReason Event Finished Output Progress "
    "SamplingParameters Started StoppingParameters Timings Usage",
    "parameters": "Parameters Request",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
