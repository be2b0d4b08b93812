"""What a reply of the manager means for an engine's work."""

from collections.abc import Iterator

import structlog

from blockmgr.core.messages import Admitted, Forked, Reply
from blockmgr.core.states import FinishReason, Refusal, Residency
from executor.engine.beam_turns import take_beams
from executor.engine.device import Device
from executor.engine.flight import Flight
from executor.engine.intake import refuse_waiting, turn_away
from executor.engine.moves import make_room, take_moves
from executor.engine.news import Ended, Recorded, Refused
from executor.engine.pace import Pace
from executor.engine.sequence import Sequence
from executor.engine.turns import Turn
from executor.engine.waiting import Waiting
from executor.engine.work import Work, accepted
from pagehold.engine.v1 import submit_pb2

log = structlog.get_logger()

NOT_NOW = frozenset({Refusal.POOL_EXHAUSTED, Refusal.NO_SLOTS})
"""Refusals after which the same request waits and asks again."""


def apply_reply(work: Work, flight: Flight, device: Device, turn: Turn, reply: Reply, pace: Pace) -> None:
    """Take what the manager gives, in the order that the parts depend on each other.

    Raises ``RuntimeError`` if the manager does not know a sequence as this engine's: whatever has gone wrong, its process
    has to end and take up what the ledger holds.
    """
    if reply.stale:
        raise RuntimeError(f"the manager does not know {reply.stale} as this engine's any more")
    work.free_blocks, work.losable_blocks = reply.free_blocks, reply.cached_blocks
    work.solo_known = turn.message.solo
    # Before the tables: those in the reply know of these copies already.
    for moved in work.copies.forget(turn.tickets):
        work.preemption.moved(moved)
    _take_records(work, turn)
    new = [_take_admission(work, waiting, one) for waiting, one in zip(turn.asked, reply.admitted, strict=True)]
    forked = iter(reply.forked)
    take_beams(work, turn.beams, forked)
    _take_births(work, turn, forked)
    take_moves(work, turn, reply)
    for update in reply.tables:
        sequence = work.sequences.get(update.handle)
        if sequence is not None:
            flight.changes.note(sequence.slot, sequence.update(update.first, update.blocks.tolist()))
    work.copies.perform(reply.tickets, work.sequences, device, flight.changes)
    _take_positions(work, flight, device, turn, reply)
    for sequence, admitted in zip(new, reply.admitted, strict=True):
        if sequence is not None:
            work.cached_tokens += sequence.start_at(admitted.cached, admitted.awaiting, device.serial)
            work.news.append(accepted(sequence))
    _take_blocks(work, turn, reply)
    _take_wishes(work, reply)
    for sequence in turn.ending:
        _take_end(work, sequence)
    make_room(work, reply, pace)


def _take_records(work: Work, turn: Turn) -> None:
    ending = {sequence.handle for sequence in turn.ending}
    for sequence, recorded in zip(turn.appended, turn.recorded, strict=True):
        sequence.recorded = recorded
        work.clear(sequence)
        if sequence.handle not in ending:
            work.news.append(Recorded(sequence.request.uuid, sequence.handle, recorded))


def _take_admission(work: Work, waiting: Waiting, admitted: Admitted) -> Sequence | None:
    """What became of a request that was asked for: a sequence, or it waits again, or it is refused."""
    request = waiting.request
    del work.asked[request.uuid]
    if admitted.refusal == Refusal.NONE:
        sequence = Sequence(request, admitted.handle, request.prompt.tolist(), recorded=len(request.prompt))
        work.add(sequence)
        work.blocked = False
        log.debug("accepted", uuid=request.uuid.hex(), request_id=request.kept.request_id, handle=admitted.handle)
        if waiting.cancelled or waiting.late:
            sequence.end(FinishReason.CANCELLED if waiting.cancelled else FinishReason.DEADLINE)
        return sequence
    if waiting.cancelled:
        turn_away(work, request, Refused(request.uuid, by=submit_pb2.REFUSED_BY_CANCEL))
    elif waiting.late:
        turn_away(work, request, Refused(request.uuid, by=submit_pb2.REFUSED_BY_DEADLINE))
    elif admitted.refusal == Refusal.DRAINING or (admitted.refusal in NOT_NOW and work.stopping):
        turn_away(work, request, Refused(request.uuid, by=submit_pb2.REFUSED_BY_DRAINING))
    elif admitted.refusal in NOT_NOW:
        work.waiting.put_back(waiting)
        work.blocked = True
    else:
        needed, available = admitted.needed, admitted.available
        turn_away(
            work,
            request,
            Refused(request.uuid, admitted.refusal, needed=needed, available=available, detail=admitted.detail),
        )
    return None


def _take_births(work: Work, turn: Turn, forked: Iterator[Forked]) -> None:
    """What has come of forks: sequences of this engine, whose tables are in the same reply."""
    for family, answer in zip(turn.forked, forked, strict=True):
        for sequence in family.take(answer):
            work.bear(sequence)
        log.debug(
            "forked",
            uuid=family.request.root.hex(),
            outputs=len(answer.handles) + 1,
            refusal=answer.refusal.name.lower(),
        )


def _take_positions(work: Work, flight: Flight, device: Device, turn: Turn, reply: Reply) -> None:
    """Prompts go on behind what others have filled; after a failed step all go back to what is computed."""
    for seen in reply.looked_again:
        sequence = work.sequences.get(seen.handle)
        if sequence is None:
            continue
        if turn.message.failed:
            if sequence.residency == Residency.DEVICE:
                sequence.restart_at(seen.cached)
                sequence.look_before_computing(work.limits.tokens_per_block)
            continue
        new = sequence.start_at(seen.cached, seen.awaiting, device.serial)
        if new and sequence in turn.returning:
            # What it finds again of its own is no hit.
            sequence.cached_tokens -= new
        elif new:
            work.cached_tokens += new
            work.news.append(accepted(sequence))
    if turn.message.failed:
        flight.resume()


def _take_blocks(work: Work, turn: Turn, reply: Reply) -> None:
    short = set(reply.short)
    for sequence in turn.reserved:
        is_short = sequence.handle in short
        sequence.frozen = sequence.frozen and is_short
        sequence.stuck = is_short and sequence.handle in turn.least
        (work.short.add if is_short and not sequence.parked else work.short.discard)(sequence.handle)


def _take_wishes(work: Work, reply: Reply) -> None:
    for handle in reply.cancel:
        if handle in work.sequences:
            work.end_family(work.sequences[handle], FinishReason.CANCELLED)
    for handle, length in reply.final_lengths:
        if handle in work.sequences:
            work.sequences[handle].stop_at(length)
    if reply.drain and not work.draining:
        refuse_waiting(work)
    work.draining = reply.drain


def _take_end(work: Work, sequence: Sequence) -> None:
    """The sequence's row is gone: what front doors lack of it comes with the news."""
    unborn = work.remove(sequence)
    log.info(
        "ended",
        uuid=sequence.request.uuid.hex(),
        request_id=sequence.request.kept.request_id,
        reason=FinishReason(sequence.ending or 0).name.lower(),
        prompt_tokens=sequence.prompt,
        cached_tokens=sequence.cached_tokens,
        output_tokens=len(sequence.tokens) - sequence.prompt,
    )
    ids = sequence.tokens[: sequence.final] if sequence.final else sequence.tokens
    reason = sequence.ending or FinishReason.UNSPECIFIED
    work.news.append(Ended(sequence.request.uuid, sequence.handle, reason, ids, sequence.error_id))
    # What was still to be forked from it ends as it did, with no token of its own.
    work.news += [Ended(uuid, 0, reason, sequence.tokens[: sequence.prompt], sequence.error_id) for uuid in unborn]
