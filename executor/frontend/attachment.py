"""Attaching to a request that exists: what is past comes from the ledger or the manager's archive, then it is followed."""

from executor.frontend.door import Door
from executor.frontend.errors import FrontDoorError, NotServing, OutOfRange
from executor.frontend.finding import Place, find, pools, unknown
from executor.frontend.generation import Generation
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
    sequence, attachment = await _take(door, place)
    try:
        _check_range(sequence, request.from_token)
        model = await door.models.find(sequence.request.model)
    except FrontDoorError:
        door.release(sequence)
        raise
    return Generation(
        door,
        sequence,
        model,
        attachment=attachment,
        detached=request.detached if request.HasField("detached") else sequence.request.detached,
        from_token=request.from_token,
    )


def _check_range(sequence: Sequence, from_token: int) -> None:
    tokens = sequence.output_tokens if sequence.end is None else max(sequence.end.tokens - sequence.prompt_tokens, 0)
    if from_token > tokens:
        raise OutOfRange(from_token, tokens)


async def _take(door: Door, place: Place) -> tuple[Sequence, int]:
    """The sequence, followed from now on, and the number of this attachment."""
    for _ in range(ATTEMPTS):
        pool, found = await _attach(door, place)
        if found.WhichOneof("found") == "finished":
            return _finished(pool, found.finished), found.attachment
        sequence = _live(door, pool, found.live)
        if sequence is not None:
            return sequence, found.attachment
    raise NotServing("the request changed hands whenever it was looked at")


async def _attach(door: Door, place: Place) -> tuple[str, sequence_pb2.AttachSequenceResponse]:
    for pool in [place.pool] if place.pool is not None else pools(door):
        found = await door.manager.attach(pool, place.uuid)
        if found is not None:
            return pool, found
    raise unknown(place)


def _finished(pool: str, finished: sequence_pb2.FinishedSequence) -> Sequence:
    request = request_pb2.Request.FromString(finished.request)
    sequence = Sequence(finished.uuid, pool, request.model, request, finished.prompt)
    sequence.finish(End.of(finished))
    return sequence


def _live(door: Door, pool: str, live: sequence_pb2.LiveSequence) -> Sequence | None:
    """The sequence as it is known here, or from its row in the ledger; None: the row is another's by now."""
    owner = door.engines.link(live.executor)
    known = door.registry.find(live.uuid) or (owner.sequences.get(live.uuid) if owner is not None else None)
    if known is not None:
        return known
    row = door.ledgers.row(pool, live.handle)
    if row is None or row.uuid != live.uuid:
        return None
    request = request_pb2.Request.FromString(row.request)
    sequence = Sequence(live.uuid, pool, request.model, request, row.prompt, handle=live.handle, accepted=True)
    sequence.tokens = row.count
    link = owner or next(iter(door.engines), None)
    if link is None:
        raise NotServing("no engine has been heard of yet")
    link.add(sequence)
    return sequence
