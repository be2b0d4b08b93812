"""How sequences end, and what their callers are told."""

from executor.frontend.errors import EngineFault, GenerationLost
from executor.frontend.sequence import End, Sequence
from pagehold.common.v1 import states_pb2
from pagehold.inference.v1 import generation_pb2

END_REASONS = {
    states_pb2.FINISH_REASON_STOP: generation_pb2.END_REASON_STOP,
    states_pb2.FINISH_REASON_LENGTH: generation_pb2.END_REASON_LENGTH,
    states_pb2.FINISH_REASON_CANCELLED: generation_pb2.END_REASON_CANCELLED,
    states_pb2.FINISH_REASON_DEADLINE: generation_pb2.END_REASON_DEADLINE,
}
"""Ends that are no failure."""


def raise_if_lost(sequence: Sequence, tokens: int) -> None:
    """Raises what a sequence ended with that is no end for its caller. ``tokens`` of output were recorded."""
    if sequence.failure is not None:
        raise sequence.failure
    if sequence.end is None or sequence.end.reason in END_REASONS:
        return
    if sequence.end.reason == states_pb2.FINISH_REASON_UNAVAILABLE:
        raise GenerationLost(tokens)
    raise EngineFault(sequence.end.error_id)


def end_reason_of(end: End | None) -> generation_pb2.EndReason:
    """What the caller is told. None: its time was up before it was accepted, and it ends like one that was."""
    return generation_pb2.END_REASON_DEADLINE if end is None else END_REASONS[end.reason]
