"""What an engine works on, as a list for people and tools."""

from executor.engine.sequence import Sequence
from executor.engine.waiting import Waiting
from executor.engine.work import Work
from pagehold.engine.v1 import description_pb2


def list_work(work: Work, limit: int | None) -> description_pb2.ListWorkResponse:
    """Running sequences and waiting requests, the oldest first, ``limit`` at most. On the engine's thread."""
    found = [*map(_running, work.sequences.values()), *map(_waiting, [*work.asked.values(), *work.waiting])]
    found.sort(key=lambda one: one.arrived)
    return description_pb2.ListWorkResponse(work=found[:limit], total=len(found))


def _running(sequence: Sequence) -> description_pb2.Work:
    return description_pb2.Work(
        uuid=sequence.request.uuid,
        request_id=sequence.request.kept.request_id,
        handle=sequence.handle,
        prompt_tokens=sequence.prompt,
        output_tokens=max(sequence.recorded - sequence.prompt, 0),
        arrived=sequence.request.kept.arrived,
    )


def _waiting(waiting: Waiting) -> description_pb2.Work:
    return description_pb2.Work(
        uuid=waiting.request.uuid,
        request_id=waiting.request.kept.request_id,
        prompt_tokens=len(waiting.request.prompt),
        arrived=waiting.request.kept.arrived or waiting.arrived,
    )
