"""Attaching to a request that exists: what is past comes from the ledger or the manager's archive, then it is followed."""

import asyncio
from collections.abc import Sequence as List

from executor.found_outputs import delivered_uuids
from executor.frontend.door import Door
from executor.frontend.errors import NotServing, OutOfRange
from executor.frontend.finding import ATTEMPTS, Place, find, look_up
from executor.frontend.generation import Generation
from executor.frontend.hanging_up import hang_up, release
from executor.frontend.models import Model
from executor.frontend.search import generation_of
from executor.frontend.sequence import End, Sequence
from executor.outputs import uuid_of
from pagehold.blockmgr.v1 import sequence_pb2
from pagehold.engine.v1 import request_pb2
from pagehold.inference.v1 import generation_pb2


async def attach(door: Door, request: generation_pb2.AttachRequest) -> Generation:
    """Deliver an existing request. Raises NotFound, OutOfRange, or what is wrong with the message."""
    # Where nothing is known of any engine yet, no pool can be asked.
    await door.models.known()
    place = await find(door, request)
    for _ in range(ATTEMPTS):
        held: list[Sequence] = []
        generation = None
        try:
            if await _hold_outputs(door, place, held):
                generation = await _follow(door, held, request)
        finally:
            for sequence in held:
                sequence.deliveries -= 1
                if generation is None:
                    release(door, sequence)
        if generation is not None:
            return generation
    raise NotServing("the request changed hands whenever it was looked at")


async def _hold_outputs(door: Door, place: Place, held: list[Sequence]) -> bool:
    """Put all outputs of a request into ``held``, as they are now. False: one has changed hands just then. Raises NotFound.

    Each counts as delivered as soon as it is found: an earlier delivery that ends while another is looked for must not let
    go of it, or this one would hear nothing more.
    """
    pool, found = await look_up(door, place)
    first = _hold(_sequence(door, pool, found), held)
    if first is None:
        return False
    for output in range(1, len(delivered_uuids(first.uuid, first.request))):
        if _hold(await _other(door, first, output), held) is None:
            return False
    return True


def _hold(sequence: Sequence | None, held: list[Sequence]) -> Sequence | None:
    if sequence is not None:
        sequence.deliveries += 1
        held.append(sequence)
    return sequence


async def _other(door: Door, first: Sequence, output: int) -> Sequence | None:
    """Another output of a request. One that nobody knows will be forked yet, or ended with the first before it was."""
    uuid = uuid_of(first.uuid, output)
    found = await door.manager.look_up(first.pool, uuid=uuid)
    if found is not None:
        return _sequence(door, first.pool, found, first)
    known = door.engines.find(uuid)
    if known is not None and not known.is_over:
        # Others may have let go of what was its first output for them.
        known.first = first
        return known
    sequence = Sequence.other_output(first, output)
    link = door.engines.link_of(first)
    if not sequence.go_with_first() and link is not None:
        link.add(sequence)
    return sequence


async def _check(door: Door, sequences: List[Sequence], request: generation_pb2.AttachRequest) -> Model:
    tokens = max(
        one.output_tokens if one.end is None else max(one.end.tokens - one.prompt_tokens, 0) for one in sequences
    )
    if request.from_token > tokens:
        raise OutOfRange(request.from_token, tokens)
    return await door.models.find(sequences[0].request.model)


async def _follow(door: Door, sequences: list[Sequence], request: generation_pb2.AttachRequest) -> Generation | None:
    """Deliver sequences; None: one of those that lived has ended meanwhile.

    The numbers are taken last, when nothing can be wrong any more: from then on nobody else's hang-up counts.
    """
    detached = request.detached if request.HasField("detached") else sequences[0].request.detached
    model = await _check(door, sequences, request)
    attachments = await _take_numbers(door, sequences, detached)
    if attachments is None:
        return None
    return generation_of(
        door, sequences, model, attachments=attachments, detached=detached, from_token=request.from_token
    )


async def _take_numbers(door: Door, sequences: List[Sequence], detached: bool) -> list[int] | None:
    """The numbers of this attachment, 0 for what has ended or is not there yet; None: one has ended meanwhile.

    One after the other, so that of two who attach at once the later one is so for all outputs.
    """
    numbers: list[int] = []
    for sequence in sequences:
        if sequence.is_over:
            numbers.append(0)
            continue
        taking = asyncio.ensure_future(door.manager.attach(sequence.pool, sequence.uuid))
        try:
            found = await asyncio.shield(taking)
        except asyncio.CancelledError:
            if not detached:
                door.in_background(_hang_up_once_taken(door, sequences, numbers, taking))
            raise
        number = 0 if found is None else found.attachment
        if not number and (sequence.accepted or sequence.first is None):
            return None
        numbers.append(number)
    return numbers


async def _hang_up_once_taken(
    door: Door,
    sequences: List[Sequence],
    numbers: List[int],
    taking: "asyncio.Future[sequence_pb2.AttachSequenceResponse | None]",
) -> None:
    """A client went while numbers were being taken: whatever they are, under them the client has hung up."""
    found = await taking
    taken = [*numbers, 0 if found is None else found.attachment]
    for sequence, number in zip(sequences, taken, strict=False):
        if number:
            await hang_up(door, sequence, number)


def _sequence(
    door: Door, pool: str, found: sequence_pb2.LookupSequenceResponse, first: Sequence | None = None
) -> Sequence | None:
    if found.WhichOneof("found") == "finished":
        return _finished(pool, found.finished, first)
    return _live(door, pool, found.live, first)


def _finished(pool: str, finished: sequence_pb2.FinishedSequence, first: Sequence | None) -> Sequence:
    request = request_pb2.Request.FromString(finished.request)
    sequence = Sequence(finished.uuid, pool, request, finished.prompt, first=first)
    sequence.finish(End.of(finished))
    return sequence


def _live(door: Door, pool: str, live: sequence_pb2.LiveSequence, first: Sequence | None) -> Sequence | None:
    """The sequence as it is known here, or from its row in the ledger; None: the row is another's by now."""
    owner = door.engines.link(live.executor)
    # On whichever link: it may not have been moved to its new owner's yet, and two of it would take each other's news.
    known = door.registry.find(live.uuid) or door.engines.find(live.uuid)
    if known is not None and not known.is_over:
        known.first = first
        # What clients have by now is what the ledger holds, which need not have been told yet.
        known.record(live.tokens)
        return known
    row = door.ledgers.row(pool, live.handle)
    if row is None or row.uuid != live.uuid:
        return None
    request = request_pb2.Request.FromString(row.request)
    sequence = Sequence(live.uuid, pool, request, row.prompt, handle=live.handle, accepted=True, first=first)
    sequence.tokens = row.count
    link = owner or next(iter(door.engines), None)
    if link is None:
        raise NotServing("no engine is there")
    link.add(sequence)
    return sequence
