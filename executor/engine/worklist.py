"""What an engine works on, as a list for people and tools."""

from executor.engine.sequence import Sequence
from executor.engine.waiting import Waiting
from executor.engine.work import Work
from pagehold.engine.v1 import description_pb2


def list_work(work: Work, limit: int | None) -> description_pb2.ListWorkResponse:
    """Requests that run and that wait, the oldest first, ``limit`` at most. On the engine's thread."""
    running = [_running(work, one) for one in work.sequences.values() if _stands_for_all(work, one)]
    found = [*running, *map(_waiting, [*work.asked.values(), *work.waiting])]
    found.sort(key=lambda one: one.arrived)
    return description_pb2.ListWorkResponse(work=found[:limit], total=len(found))


def _stands_for_all(work: Work, sequence: Sequence) -> bool:
    """Whether a sequence is the one under whose name its request is listed, which may have several."""
    family = work.families.of(sequence)
    return family is None or family.members[0] is sequence


def _running(work: Work, sequence: Sequence) -> description_pb2.Work:
    family = work.families.of(sequence)
    members, past = ([sequence], 0) if family is None else (family.members, family.past_tokens)
    return description_pb2.Work(
        uuid=sequence.request.root,
        request_id=sequence.request.kept.request_id,
        handle=sequence.handle,
        prompt_tokens=sequence.prompt,
        output_tokens=past + sum(max(one.recorded - one.prompt, 0) for one in members),
        arrived=sequence.request.kept.arrived,
    )


def _waiting(waiting: Waiting) -> description_pb2.Work:
    return description_pb2.Work(
        uuid=waiting.request.uuid,
        request_id=waiting.request.kept.request_id,
        prompt_tokens=len(waiting.request.prompt),
        arrived=waiting.request.kept.arrived or waiting.arrived,
    )
