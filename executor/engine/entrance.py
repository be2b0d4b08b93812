"""Who may come in: requests that wait, and sequences that are away; and what comes first of all that waits for blocks."""

from blockmgr.core.messages import Want
from blockmgr.core.states import Residency
from executor.engine.request import Request
from executor.engine.room import blocks_back, blocks_of, missing_blocks, want_of
from executor.engine.sequence import Sequence
from executor.engine.waiting import MOST_PASSES, Waiting
from executor.engine.work import Work


def admits(work: Work) -> bool:
    """Whether any admission is worth a try: not while somebody who is here lacks a block."""
    return work.has_places and not work.short and not work.preemption.leaving


def spare_blocks(work: Work) -> int:
    """Blocks that may be promised: those that are to be had, without what those who are here need to get on."""
    asked = sum(blocks_of(one.request, work.limits) for one in work.asked.values())
    return work.free_blocks - missing_blocks(work.sequences.values(), work.limits) - asked


def take_waiting(work: Work, most_tokens: float, spare: int) -> Waiting | None:
    """Take the next request that may be let in and fits into ``spare`` blocks, to ask for it."""
    alone = not _anything_here(work)
    away = work.preemption.first_away()

    def fits(request: Request) -> bool:
        if len(request.prompt) > most_tokens or not (alone or blocks_of(request, work.limits) <= spare):
            return False
        # Who was here already comes first.
        return (away is None or request.rank < away.request.rank) and _may_pass(work, request)

    waiting = work.waiting.take(fits)
    if waiting is not None:
        _note_pass(work, waiting.request)
        work.asked[waiting.request.uuid] = waiting
    return waiting


def take_returning(work: Work) -> list[Sequence]:
    """Who may come back now: the first of those that are away, as far as they fit and nobody else comes first."""
    found: list[Sequence] = []
    if work.short:
        return found
    spare, here = spare_blocks(work), _anything_here(work)
    away = [one for one in work.preemption.away.values() if one.residency != Residency.RETURNING and not one.ending]
    for one in sorted(away, key=lambda one: one.request.rank):
        needed = blocks_back(one, work.limits)
        comes_first = work.wanted is None or one.request.rank < work.wanted.rank
        if not comes_first or (here and needed > spare):
            break
        found.append(one)
        spare, here = spare - needed, True
    return found


def first_running_want(work: Work) -> Want | None:
    """What comes first of all that stands still for want of a block, here and in other engines."""
    wants = _running_wants(work)
    if work.wanted is not None and work.wanted.running:
        wants.append(work.wanted)
    return min(wants, key=lambda want: want.rank, default=None)


def first_want(work: Work) -> Want | None:
    """What other engines are to know: what comes first here of all that waits for blocks."""
    wants = _running_wants(work)
    away = work.preemption.first_away()
    if not wants and away is not None:
        wants.append(want_of(away.request, blocks_back(away, work.limits)))
    elif not wants and work.has_places:
        # Who was refused for now still waits, though the question is out again.
        waiting = [*work.waiting.first(1), *(work.asked.values() if work.blocked else ())]
        wants += [want_of(one.request, blocks_of(one.request, work.limits)) for one in waiting]
    return min(wants, key=lambda want: want.rank, default=None)


def _running_wants(work: Work) -> list[Want]:
    stuck = (work.sequences[handle] for handle in work.short)
    return [want_of(one.request, 1, running=True) for one in stuck if one.stuck and one.ending is None]


def _may_pass(work: Work, request: Request) -> bool:
    """Whether a request may be let in though another engine has one that comes first."""
    if work.wanted is None or request.rank < work.wanted.rank:
        return True
    uuid, passes = work.passed
    return not work.wanted.running and (uuid != work.wanted.uuid or passes < MOST_PASSES)


def _note_pass(work: Work, request: Request) -> None:
    if work.wanted is not None and request.rank > work.wanted.rank:
        uuid, passes = work.passed
        work.passed = work.wanted.uuid, passes + 1 if uuid == work.wanted.uuid else 1


def _anything_here(work: Work) -> bool:
    """Whether anything is on the device, or about to be."""
    return bool(work.asked) or any(
        one.ending is None and (not one.parked or one.residency == Residency.RETURNING)
        for one in work.sequences.values()
    )
