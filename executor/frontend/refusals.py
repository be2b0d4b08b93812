"""What an engine's refusal means to the caller."""

from executor.frontend.errors import (
    Cancelled,
    FrontDoorError,
    InvalidRequest,
    NeverFits,
    NotServing,
    PoolExhausted,
    QueueFull,
    Unsuitable,
)
from executor.frontend.registry import taken_name
from executor.frontend.sequence import Sequence
from pagehold.common.v1 import states_pb2
from pagehold.engine.v1 import submit_pb2


def error_of(sequence: Sequence, refused: submit_pb2.Refused) -> FrontDoorError:
    """The error for a request that was refused."""
    needed, available = refused.needed, refused.available
    match refused.by:
        case submit_pb2.REFUSED_BY_QUEUE:
            return QueueFull(available, "at the engine")
        case submit_pb2.REFUSED_BY_DRAINING:
            return NotServing("the engine is draining")
        case submit_pb2.REFUSED_BY_CANCEL:
            return Cancelled("the request was cancelled before it was accepted")
    match refused.refusal:
        case states_pb2.REFUSAL_NEVER_FITS:
            return NeverFits(needed, available)
        case states_pb2.REFUSAL_POOL_EXHAUSTED | states_pb2.REFUSAL_NO_SLOTS:
            return PoolExhausted(needed, available)
        case states_pb2.REFUSAL_TOO_LONG:
            text = f"and output have {needed} tokens together, but the pool takes at most {available}"
            return InvalidRequest.of("prompt", text)
        case states_pb2.REFUSAL_BODY_MISMATCH:
            return taken_name(sequence.request.request_id, same_body=False)
        case states_pb2.REFUSAL_DRAINING:
            return NotServing("the pool admits nothing new")
        case states_pb2.REFUSAL_INVALID:
            return InvalidRequest.of("request", f"is refused: {refused.detail}")
    return Unsuitable(refused.detail or f"refused: {states_pb2.Refusal.Name(refused.refusal)}")
