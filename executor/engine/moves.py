"""Sequences that make room and come back, as turns say it and as replies answer it."""

import structlog

from blockmgr.core.messages import Reply
from blockmgr.core.states import FinishReason, Residency
from executor.engine.copies import tickets_of
from executor.engine.entrance import first_running_want
from executor.engine.intake import take_size
from executor.engine.pace import Pace
from executor.engine.preemption import Way
from executor.engine.sequence import Sequence
from executor.engine.turns import Turn
from executor.engine.work import Work

log = structlog.get_logger()


def take_moves(work: Work, turn: Turn, reply: Reply) -> None:
    """Who was let go is gone, or on its way; who was let back is back, or on its way. Before the reply's tables are taken:
    those of the ones that are gone count no more.
    """
    refused = {one.handle: one.refusal for one in reply.swaps_refused}
    preemption = work.preemption
    for way, departing in ((Way.SWAP, turn.swapped), (Way.RECOMPUTE, turn.released)):
        for sequence in departing:
            if sequence.handle in refused:
                preemption.refused(sequence, refused[sequence.handle])
            else:
                preemption.gone(sequence, way, tickets_of(sequence, reply.tickets))
    for sequence in turn.returning:
        if sequence.handle not in refused:
            swapped = sequence.residency == Residency.HOST
            preemption.returning(sequence, tickets_of(sequence, reply.tickets) if swapped else set())


def make_room(work: Work, reply: Reply, pace: Pace) -> None:
    """Have somebody go where blocks have run out, and end what the pool is too small for by now."""
    work.wanted = reply.wanted
    take_size(work, reply.usable_blocks)
    for sequence in list(work.sequences.values()) if work.short or work.preemption.away else ():
        waits = sequence.stuck or sequence.handle in work.preemption.away
        tokens = sequence.launched + 1 if sequence.stuck else len(sequence.tokens)
        if waits and _blocks_with(work, sequence, tokens) > work.limits.usable_blocks:
            log.warning("the pool has become too small for a sequence", uuid=sequence.request.uuid.hex(), tokens=tokens)
            sequence.end(FinishReason.LENGTH)
    for victim in work.preemption.make_room(work.sequences.values(), first_running_want(work), reply, pace):
        # Whatever it lacked, it lacks no more.
        work.short.discard(victim.handle)
        log.info(
            "makes room",
            uuid=victim.request.uuid.hex(),
            way=str(work.preemption.leaving[victim.handle][1]),
            blocks=len(victim.table),
            tokens=len(victim.tokens),
        )


def _blocks_with(work: Work, sequence: Sequence, tokens: int) -> int:
    """Blocks that a sequence of so many tokens needs, together with the others that share its prompt."""
    limits = work.limits
    needed = limits.blocks_for(min(tokens, sequence.limit))
    for one in work.families.kin(sequence):
        if one is not sequence:
            own = limits.blocks_for(min(len(one.tokens), one.limit)) - one.request.shared_blocks(limits)
            needed += max(own, 0)
    return needed
