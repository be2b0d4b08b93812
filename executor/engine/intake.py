"""What front doors want of an engine: requests are taken on, or refused, followed, cancelled; and what becomes too late ends.

A request may wait, be asked for, or run when somebody speaks of it; each function knows what that means in each state.
"""

from dataclasses import replace

from blockmgr.core.states import FinishReason
from executor.engine.family import is_output
from executor.engine.news import Refused, Stream, Unknown
from executor.engine.request import Request, RequestRefused
from executor.engine.waiting import Waiting
from executor.engine.work import Work, accepted
from executor.outputs import uuid_of
from pagehold.engine.v1 import submit_pb2


def start(work: Work, request: Request, stream: Stream) -> None:
    """Queue a request, or refuse it; one that is known is only told of again."""
    uuid = request.uuid
    if uuid in work.by_uuid:
        work.news.append(accepted(work.by_uuid[uuid], stream))
    elif uuid in work.asked or work.waiting.get(uuid) is not None:
        return
    elif work.draining or work.stopping:
        work.news.append(Refused(uuid, by=submit_pb2.REFUSED_BY_DRAINING))
    elif work.waiting.is_full:
        limit = work.waiting.limit
        work.news.append(
            Refused(uuid, by=submit_pb2.REFUSED_BY_QUEUE, needed=limit + 1, available=limit, detail="the queue is full")
        )
    else:
        _queue(work, request)


def _queue(work: Work, request: Request) -> None:
    try:
        request.check(work.limits, work.max_running)
    except RequestRefused as error:
        work.news.append(_refusal(request, error))
    else:
        # Kept with it: what its age is must not depend on who works on it.
        request.kept.arrived = request.kept.arrived or work.now()
        work.waiting.add(Waiting(request, work.now()))
        work.note_deadline(request)


def follow(work: Work, uuid: bytes, stream: Stream) -> None:
    """Tell a stream where a request, or one of its outputs, stands; of one that still waits, or is to be forked, it hears
    when it is accepted.
    """
    if uuid in work.by_uuid:
        work.news.append(accepted(work.by_uuid[uuid], stream))
    elif not (work.knows(uuid) or is_output(uuid, work.waiting_request) or work.families.expecting(uuid)):
        work.news.append(Unknown(uuid, stream))


def cancel(work: Work, uuid: bytes) -> None:
    """End a request with all its outputs, wherever it stands. Unknown ones have ended already."""
    waiting = work.waiting.get(uuid)
    if waiting is not None:
        _take_back(work, waiting, submit_pb2.REFUSED_BY_CANCEL)
    elif uuid in work.asked:
        work.asked[uuid].cancelled = True
    elif uuid in work.by_uuid:
        work.end_family(work.by_uuid[uuid], FinishReason.CANCELLED)


def refuse_waiting(work: Work) -> None:
    """Nothing new is admitted: those who wait may try elsewhere."""
    for waiting in list(work.waiting):
        _take_back(work, waiting, submit_pb2.REFUSED_BY_DRAINING)


def take_size(work: Work, usable_blocks: int) -> None:
    """The pool has so many blocks by now: refuse what waits and can never fit any more."""
    if usable_blocks in (0, work.limits.usable_blocks):
        return
    work.limits = replace(work.limits, usable_blocks=usable_blocks)
    for waiting in list(work.waiting):
        try:
            waiting.request.check(work.limits, work.max_running)
        except RequestRefused as error:
            work.waiting.remove(waiting)
            turn_away(work, waiting.request, _refusal(waiting.request, error))


def expire(work: Work) -> float:
    """End what is past its deadline. Returns seconds until the next deadline, infinity if there is none."""
    now = work.now()
    for uuid in work.deadlines.take_passed(now):
        _end_late(work, uuid)
    return work.deadlines.seconds_left(now)


def _end_late(work: Work, uuid: bytes) -> None:
    waiting = work.waiting.get(uuid)
    if waiting is not None:
        _take_back(work, waiting, submit_pb2.REFUSED_BY_DEADLINE)
    elif uuid in work.asked:
        work.asked[uuid].late = True
    elif uuid in work.by_uuid:
        work.by_uuid[uuid].end(FinishReason.DEADLINE)


def turn_away(work: Work, request: Request, refused: Refused) -> None:
    """A request that has waited is not accepted. Whoever follows another of its outputs was to hear when that comes; those
    may be here if it was asked for again when its first output had ended.
    """
    others = [uuid_of(request.uuid, output) for output in range(1, request.outputs)]
    work.news += [refused, *[Unknown(uuid) for uuid in others if uuid not in work.by_uuid]]


def _take_back(work: Work, waiting: Waiting, by: submit_pb2.RefusedBy) -> None:
    work.waiting.remove(waiting)
    turn_away(work, waiting.request, Refused(waiting.request.uuid, by=by))


def _refusal(request: Request, error: RequestRefused) -> Refused:
    return Refused(request.uuid, error.refusal, needed=error.needed, available=error.available, detail=str(error))
