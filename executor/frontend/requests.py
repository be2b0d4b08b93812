"""Requests in flight and just ended: cancelling them, and how they stand."""

import uuid
from collections.abc import Iterable

from executor.found_outputs import delivered_uuids
from executor.frontend.door import Door
from executor.frontend.endings import END_REASONS
from executor.frontend.errors import InvalidRequest
from executor.frontend.finding import MOST_WORK, Place, find, known_of, pools, unknown
from executor.frontend.sequence import Sequence
from pagehold.blockmgr.v1 import sequence_pb2
from pagehold.common.v1 import states_pb2
from pagehold.engine.v1 import description_pb2, request_pb2
from pagehold.inference.v1 import generation_pb2, requests_pb2

DEFAULT_LIMIT, HIGHEST_LIMIT = 1000, 10_000

MANY = 500
"""Requests whose summaries are made in a thread: some milliseconds' worth."""

Summary = requests_pb2.RequestSummary


async def cancel(door: Door, request: requests_pb2.CancelRequest) -> requests_pb2.CancelResponse:
    """End a request with all its outputs, wherever it is. Raises NotFound."""
    await door.models.known()
    place = await find(door, request)
    for pool in [place.pool] if place.pool is not None else pools(door):
        asked = [await door.manager.cancel(pool, uuid) for uuid in await _outputs(door, pool, place.uuid)]
        if asked != [None] * len(asked):
            return requests_pb2.CancelResponse(cancelled=any(asked))
    if await _cancel_waiting(door, place):
        return requests_pb2.CancelResponse(cancelled=True)
    if await _finished(door, place) is None:
        raise unknown(place)
    return requests_pb2.CancelResponse(cancelled=False)


async def _outputs(door: Door, pool: str, uuid: bytes) -> list[bytes]:
    """UUIDs of all outputs of a request, as far as is known that it has several."""
    own = door.registry.find(uuid)
    if own is not None:
        return delivered_uuids(uuid, own.request)
    known = await known_of(door, pool, uuid)
    return [uuid] if known is None else delivered_uuids(uuid, known[1])


async def _cancel_waiting(door: Door, place: Place) -> bool:
    """End a request that was not accepted yet, whichever door sent it."""
    own = door.registry.find(place.uuid)
    link = door.engines.link_of(own) if own is not None else None
    if link is not None:
        link.cancel(place.uuid)
        return True
    for link in door.engines:
        listed = await link.list_work(MOST_WORK)
        if listed is not None and any(work.uuid == place.uuid for work in listed.work):
            link.cancel(place.uuid)
            return True
    return False


async def get(door: Door, request: requests_pb2.GetRequestRequest) -> requests_pb2.GetRequestResponse:
    """How a request stands. Raises NotFound."""
    await door.models.known()
    place = await find(door, request)
    for pool in [place.pool] if place.pool is not None else pools(door):
        known = await known_of(door, pool, place.uuid)
        if known is not None:
            return requests_pb2.GetRequestResponse(request=await _of_all_outputs(door, pool, *known))
    own = door.registry.find(place.uuid)
    summary = _of_sequence(own) if own is not None else await _waiting(door, place)
    if summary is None:
        raise unknown(place)
    return requests_pb2.GetRequestResponse(request=summary)


async def _of_all_outputs(
    door: Door, pool: str, found: sequence_pb2.LookupSequenceResponse, request: request_pb2.Request
) -> Summary:
    """A request as its outputs stand: it goes on as long as one of them does."""
    first = _of_output(found, request)
    for key in delivered_uuids(_uuid_of(found), request)[1:]:
        other = await door.manager.look_up(pool, uuid=key)
        if other is not None:
            _add_output(first, _of_output(other, request))
    return first


def _add_output(summary: Summary, other: Summary) -> None:
    summary.output_tokens += other.output_tokens
    if other.state != requests_pb2.REQUEST_STATE_FINISHED:
        summary.state = other.state
        summary.reason = generation_pb2.END_REASON_UNSPECIFIED
        summary.ClearField("finished")
    elif summary.HasField("finished"):
        summary.finished = max(summary.finished, other.finished)


def _uuid_of(found: sequence_pb2.LookupSequenceResponse) -> bytes:
    return found.finished.uuid if found.WhichOneof("found") == "finished" else found.live.uuid


async def list_all(door: Door, request: requests_pb2.ListRequestsRequest) -> requests_pb2.ListRequestsResponse:
    """All requests in flight, the oldest first, those of other doors too. Raises InvalidRequest."""
    limit = request.limit if request.HasField("limit") else DEFAULT_LIMIT
    if not 1 <= limit <= HIGHEST_LIMIT:
        raise InvalidRequest.of("limit", f"is {limit}, but must lie in 1..{HIGHEST_LIMIT}")
    found: dict[bytes, Summary] = {}
    total = 0
    for link in door.engines:
        listed = await link.list_work(limit)
        if listed is not None:
            total += listed.total
            found.update(await door.threads.run_if(len(listed.work) > MANY, _of_all, listed.work))
    # What waits here for an engine that is away, and what was sent to one that had not read it yet.
    unheard = [one for one in door.registry if one.uuid not in found and not one.is_over]
    if total <= len(found):
        found.update({one.uuid: _of_sequence(one) for one in unheard})
        total += len(unheard)
    oldest = sorted(found.values(), key=lambda one: one.created)[:limit]
    return requests_pb2.ListRequestsResponse(requests=oldest, total=total)


async def _finished(door: Door, place: Place) -> sequence_pb2.FinishedSequence | None:
    for pool in pools(door):
        found = await door.manager.look_up(pool, uuid=place.uuid)
        if found is not None and found.WhichOneof("found") == "finished":
            return found.finished
    return None


async def _waiting(door: Door, place: Place) -> Summary | None:
    for link in door.engines:
        listed = await link.list_work(MOST_WORK)
        for work in listed.work if listed is not None else ():
            if work.uuid == place.uuid:
                return _of_work(work)
    return None


def _of_output(found: sequence_pb2.LookupSequenceResponse, request: request_pb2.Request) -> Summary:
    is_live = found.WhichOneof("found") == "live"
    return _of_live(found.live, request) if is_live else _of_finished(found.finished, request)


def _of_live(live: sequence_pb2.LiveSequence, request: request_pb2.Request) -> Summary:
    orphaned = live.state == states_pb2.SEQUENCE_STATE_ORPHANED
    return Summary(
        id=str(uuid.UUID(bytes=live.uuid)),
        request_id=request.request_id or None,
        state=requests_pb2.REQUEST_STATE_ORPHANED if orphaned else requests_pb2.REQUEST_STATE_RUNNING,
        prompt_tokens=live.prompt,
        output_tokens=live.tokens - live.prompt,
        created=request.arrived or None,
    )


def _of_finished(finished: sequence_pb2.FinishedSequence, request: request_pb2.Request) -> Summary:
    return Summary(
        id=str(uuid.UUID(bytes=finished.uuid)),
        request_id=request.request_id or None,
        state=requests_pb2.REQUEST_STATE_FINISHED,
        prompt_tokens=finished.prompt,
        output_tokens=max(finished.final_length - finished.prompt, 0),
        reason=END_REASONS.get(finished.reason, generation_pb2.END_REASON_UNSPECIFIED),
        created=request.arrived or finished.created,
        finished=finished.finished,
    )


def _of_all(works: Iterable[description_pb2.Work]) -> dict[bytes, Summary]:
    return {work.uuid: _of_work(work) for work in works}


def _of_work(work: description_pb2.Work) -> Summary:
    running = work.HasField("handle")
    return Summary(
        id=str(uuid.UUID(bytes=work.uuid)),
        request_id=work.request_id or None,
        state=requests_pb2.REQUEST_STATE_RUNNING if running else requests_pb2.REQUEST_STATE_WAITING,
        prompt_tokens=work.prompt_tokens,
        output_tokens=work.output_tokens,
        created=work.arrived,
    )


def _of_sequence(sequence: Sequence) -> Summary:
    state = requests_pb2.REQUEST_STATE_ORPHANED if sequence.accepted else requests_pb2.REQUEST_STATE_WAITING
    return Summary(
        id=sequence.id,
        request_id=sequence.request.request_id or None,
        state=state,
        prompt_tokens=sequence.prompt_tokens,
        output_tokens=sequence.output_tokens,
        created=sequence.request.arrived,
    )
