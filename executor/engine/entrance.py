"""Who may come in: requests that wait, and sequences that are away; and what comes first of all that waits for blocks.

The outputs of one request come in together, and come back one after the other: what they share has to be there, or to be
computed, before the next one can find it. As long as some of them are here, what the others lack counts as theirs.
"""

from blockmgr.core.messages import Want
from blockmgr.core.states import Residency
from executor.engine.request import Request
from executor.engine.room import blocks_back, blocks_of, is_here, missing_blocks, want_of
from executor.engine.sequence import Sequence
from executor.engine.waiting import MOST_PASSES, Waiting
from executor.engine.work import Work


def admits(work: Work) -> bool:
    """Whether any admission is worth a try: not while somebody who is here lacks a block."""
    return work.places > 0 and not work.short and not work.preemption.leaving


def spare_blocks(work: Work) -> int:
    """Blocks that may be promised: those that are to be had, without what those who are here need to get on."""
    asked = sum(blocks_of(one.request, work.limits) for one in work.asked.values())
    unborn = sum(_blocks_of_unborn(work, family.members[0]) for family in work.families if family.unborn)
    rest = sum(_blocks_to_return(work, one) for one in work.preemption.away.values() if _kin_here(work, one))
    return work.free_blocks - missing_blocks(work.sequences.values(), work.limits) - asked - unborn - rest


def _spare_slots(work: Work) -> int:
    """Rows of the ledger that may be promised: searches that all waited for one would wait for ever."""
    asked = sum(one.request.slots for one in work.asked.values())
    searches = sum(group.request.slots - group.request.outputs for group in work.beams)
    return work.limits.slots - len(work.sequences) - work.families.unborn - searches - asked


def _blocks_of_unborn(work: Work, first: Sequence) -> int:
    """Blocks that those need which are still to be forked from one that is here."""
    alone = blocks_back([first], work.limits)
    return first.request.blocks_of_all(alone, work.limits) - alone if is_here(first) else 0


def take_waiting(work: Work, most_tokens: float, spare: int) -> Waiting | None:
    """Take the next request that may be let in and fits into ``spare`` blocks, to ask for it."""
    alone = not _anything_here(work)
    away = work.preemption.first_away()
    slots = _spare_slots(work)

    def fits(request: Request) -> bool:
        if len(request.prompt) > most_tokens or request.outputs > max(work.places, 1) or request.slots > slots:
            return False
        if not (alone or blocks_of(request, work.limits) <= spare):
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
    for one in _first_of_each(work):
        present, needed = _kin_here(work, one), _blocks_to_return(work, one)
        if not _comes_first(work, one.request, bool(present)):
            break
        if present:
            if not all(_has_caught_up(other) for other in present):
                continue
            # What it needs is set aside for it already.
            fits = needed <= work.free_blocks
        else:
            fits = needed <= spare or not here
            spare, here = spare - needed, True
        if not fits:
            break
        found.append(one)
    return found


def _first_of_each(work: Work) -> list[Sequence]:
    """Of each request's sequences that are away, the one that comes back next; in the order in which requests come first."""
    away = [one for one in work.preemption.away.values() if one.residency != Residency.RETURNING and not one.ending]
    first: dict[bytes, Sequence] = {}
    for one in sorted(away, key=lambda one: (one.request.rank, one.request.output)):
        first.setdefault(one.request.root, one)
    return list(first.values())


def _comes_first(work: Work, request: Request, partly_here: bool) -> bool:
    """Whether nobody in another engine has to be waited for. One that is partly here keeps blocks from whoever waits there:
    it is not made to wait for them.
    """
    wanted = work.wanted
    return wanted is None or request.rank < wanted.rank or (partly_here and not wanted.running)


def _kin_here(work: Work, sequence: Sequence) -> list[Sequence]:
    """The other outputs of a sequence's request that are here, or on their way back."""
    return [one for one in work.families.kin(sequence) if one is not sequence and is_here(one)]


def _has_caught_up(sequence: Sequence) -> bool:
    """Whether all that others could share with a sequence is there: they would only take blocks for it too, before."""
    return not (sequence.parked or sequence.is_prefill or sequence.awaiting)


def _blocks_to_return(work: Work, sequence: Sequence) -> int:
    """Blocks that a sequence needs to come back: alone where others of its request are here, else with all of them."""
    limits, request = work.limits, sequence.request
    if _kin_here(work, sequence):
        return blocks_back([sequence], limits) - request.shared_blocks(limits)
    return blocks_back(work.families.kin(sequence) or [sequence], limits) + _blocks_of_those_to_come(work, sequence)


def _blocks_of_those_to_come(work: Work, sequence: Sequence) -> int:
    family = work.families.of(sequence)
    if family is None or not family.unborn:
        return 0
    return blocks_of(sequence.request, work.limits) - blocks_back([sequence], work.limits)


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
        wants.append(want_of(away.request, _blocks_to_return(work, away)))
    elif not wants and work.places > 0:
        # Who was refused for now still waits, though the question is out again.
        waiting = [*work.waiting.first(1), *(work.asked.values() if work.blocked else ())]
        wants += [want_of(one.request, blocks_of(one.request, work.limits)) for one in waiting]
    return min(wants, key=lambda want: want.rank, default=None)


def _running_wants(work: Work) -> list[Want]:
    """What stands still: for want of a block, or of those of its request that are away and do not fit."""
    stuck = (work.sequences[handle] for handle in work.short)
    wants = [want_of(one.request, 1, running=True) for one in stuck if one.stuck and one.ending is None]
    for one in _first_of_each(work):
        present, needed = _kin_here(work, one), _blocks_to_return(work, one)
        if present and needed > work.free_blocks and all(map(_has_caught_up, present)):
            wants.append(want_of(one.request, needed, running=True))
    return wants


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
    return bool(work.asked) or any(one.ending is None and is_here(one) for one in work.sequences.values())
