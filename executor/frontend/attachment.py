"""Attaching to a request that exists: what is past comes from the ledger or the manager's archive, then it is followed."""

import asyncio

from executor.frontend.door import Door
from executor.frontend.errors import NotServing, OutOfRange
from executor.frontend.finding import Place, find, pools, unknown
from executor.frontend.generation import Generation
from executor.frontend.hanging_up import hang_up, release
from executor.frontend.models import Model
from executor.frontend.sequence import End, Sequence
from pagehold.blockmgr.v1 import sequence_pb2
from pagehold.engine.v1 import request_pb2
from pagehold.inference.v1 import generation_pb2

ATTEMPTS = 5
"""How often a sequence is looked at that ends or changes hands just then."""


async def attach(door: Door, request: generation_pb2.AttachRequest) -> Generation:
    """Deliver an existing request. Raises NotFound, OutOfRange, or what is wrong with the message."""
    # Where nothing is known of any engine yet, no pool can be asked.
    await door.models.known()
    place = await find(door, request)
    for _ in range(ATTEMPTS):
        pool, found = await _look_up(door, place)
        if found.WhichOneof("found") == "finished":
            sequence = _finished(pool, found.finished)
            model = await _check(door, sequence, request)
            return Generation(door, sequence, model, from_token=request.from_token)
        live = _live(door, pool, found.live)
        generation = None if live is None else await _follow(door, live, request)
        if generation is not None:
            return generation
    raise NotServing("the request changed hands whenever it was looked at")


async def _look_up(door: Door, place: Place) -> tuple[str, sequence_pb2.LookupSequenceResponse]:
    for pool in [place.pool] if place.pool is not None else pools(door):
        found = await door.manager.look_up(pool, uuid=place.uuid)
        if found is not None:
            return pool, found
    raise unknown(place)


async def _check(door: Door, sequence: Sequence, request: generation_pb2.AttachRequest) -> Model:
    tokens = sequence.output_tokens if sequence.end is None else max(sequence.end.tokens - sequence.prompt_tokens, 0)
    if request.from_token > tokens:
        raise OutOfRange(request.from_token, tokens)
    return await door.models.find(sequence.request.model)


async def _follow(door: Door, sequence: Sequence, request: generation_pb2.AttachRequest) -> Generation | None:
    """Deliver a sequence that lives; None: it has ended meanwhile.

    The number is taken last, when nothing can be wrong any more: from then on nobody else's hang-up counts.
    """
    detached = request.detached if request.HasField("detached") else sequence.request.detached
    generation = None
    # Held meanwhile: an earlier delivery that ends just now must not let go of it, or this one would hear nothing more.
    sequence.deliveries += 1
    try:
        model = await _check(door, sequence, request)
        attachment = await _take_number(door, sequence, detached)
        if attachment:
            generation = Generation(
                door, sequence, model, attachment=attachment, detached=detached, from_token=request.from_token
            )
    finally:
        sequence.deliveries -= 1
        if generation is None:
            release(door, sequence)
    return generation


async def _take_number(door: Door, sequence: Sequence, detached: bool) -> int:
    """The number of this attachment; 0: the sequence has ended."""
    taking = asyncio.ensure_future(door.manager.attach(sequence.pool, sequence.uuid))
    try:
        found = await asyncio.shield(taking)
    except asyncio.CancelledError:
        if not detached:
            door.in_background(_hang_up_once_taken(door, sequence, taking))
        raise
    return 0 if found is None else found.attachment


async def _hang_up_once_taken(
    door: Door, sequence: Sequence, taking: "asyncio.Future[sequence_pb2.AttachSequenceResponse | None]"
) -> None:
    """A client went while its number was being taken: whatever number that is, under it the client has hung up."""
    found = await taking
    if found is not None and found.attachment:
        await hang_up(door, sequence, found.attachment)


def _finished(pool: str, finished: sequence_pb2.FinishedSequence) -> Sequence:
    request = request_pb2.Request.FromString(finished.request)
    sequence = Sequence(finished.uuid, pool, request, finished.prompt)
    sequence.finish(End.of(finished))
    return sequence


def _live(door: Door, pool: str, live: sequence_pb2.LiveSequence) -> Sequence | None:
    """The sequence as it is known here, or from its row in the ledger; None: the row is another's by now."""
    owner = door.engines.link(live.executor)
    # On whichever link: it may not have been moved to its new owner's yet, and two of it would take each other's news.
    known = door.registry.find(live.uuid) or door.engines.find(live.uuid)
    if known is not None and not known.is_over:
        # What clients have by now is what the ledger holds, which need not have been told yet.
        known.record(live.tokens)
        return known
    row = door.ledgers.row(pool, live.handle)
    if row is None or row.uuid != live.uuid:
        return None
    request = request_pb2.Request.FromString(row.request)
    sequence = Sequence(live.uuid, pool, request, row.prompt, handle=live.handle, accepted=True)
    sequence.tokens = row.count
    link = owner or next(iter(door.engines), None)
    if link is None:
        raise NotServing("no engine is there")
    link.add(sequence)
    return sequence
