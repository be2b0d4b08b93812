"""What an engine says in a turn about its beam searches, and what the reply means for them."""

from collections.abc import Iterator
from enum import Enum

import numpy as np
import structlog

from blockmgr.core.messages import Finished, Forked, Message
from blockmgr.core.states import FinishReason, Refusal
from executor.engine.beam_groups import BeamGroup
from executor.engine.news import Ended, Recorded
from executor.engine.sequence import Sequence
from executor.engine.work import Work

log = structlog.get_logger()


class Deed(Enum):
    """What a turn does with a search."""

    KEEP = "outputs that have ended are kept"
    KEEP_RESULTS = "what was found is kept"
    MOVE = "its beams change places"
    END = "all of it ends"


FORKS = (Deed.KEEP, Deed.KEEP_RESULTS)


def speak_of_beams(message: Message, work: Work, tickets: list[int], *, retry: bool) -> list[tuple[BeamGroup, Deed]]:
    """Put into a turn what each search does next, behind the reports of what was computed and ahead of what is asked for.

    ``tickets``: copies that the turn reports done. ``retry``: ask again for what was refused for now.
    """
    deeds = []
    for group in work.beams:
        if group.refused and not retry:
            continue
        deed = _next(group, work, tickets)
        if deed is not None:
            _say(message, group, deed)
            deeds.append((group, deed))
    return deeds


def _next(group: BeamGroup, work: Work, tickets: list[int]) -> Deed | None:
    if not group.is_whole and _is_broken(group, work):
        for one in group.members:
            one.end(FinishReason.INTERNAL)
        group.results = []
    group.close()
    group.decide()
    if group.results is not None:
        return Deed.KEEP_RESULTS if group.results and not group.results_kept else Deed.END
    if group.to_keep:
        return Deed.KEEP
    may_move = group.ahead is not None and all(_is_ready(one, work, tickets) for one in group.members)
    return Deed.MOVE if may_move else None


def _is_broken(group: BeamGroup, work: Work) -> bool:
    """Whether beams are missing for ever: those that killed an engine alone are ended by the manager."""
    if not group.beams:
        return True
    family = work.families.of(group.members[0])
    return family is None or family.born


def _is_ready(beam: Sequence, work: Work, tickets: list[int]) -> bool:
    """Whether a beam is here with all of it computed, and the manager knows it, or hears it before the beams move."""
    here = not beam.parked and beam.ending is None and not beam.awaiting
    return here and beam.launched == len(beam.tokens) and beam.is_level and work.copies.are_done(beam, tickets)


def _say(message: Message, group: BeamGroup, deed: Deed) -> None:
    group.refused = False
    if deed is Deed.KEEP:
        message.forks.append(group.keep())
    elif deed is Deed.KEEP_RESULTS:
        message.forks.append(group.keep_results())
    elif deed is Deed.MOVE:
        move, surpassed = group.move()
        message.reorders.append(move)
        _finish(message, surpassed, [FinishReason.REPLACED] * len(surpassed))
        for beam in group.members:
            # Its last block may be another's too from now on: nothing is written before a reservation is answered.
            beam.frozen = True
    else:
        _say_end(message, group)


def _say_end(message: Message, group: BeamGroup) -> None:
    """All at once: whoever finds the first beam ended finds all that was found."""
    reasons = dict(enumerate(reason for _, reason in group.results or []))
    found = sorted(group.found)
    reason = group.reason
    handles = [*group.kept.values(), *(group.found[place] for place in found)]
    why = [FinishReason.REPLACED] * len(group.kept) + [reasons.get(place, FinishReason.REPLACED) for place in found]
    for beam in reversed(group.members):
        handles.append(beam.handle)
        why.append(reason if beam.request.uuid == group.first else FinishReason.REPLACED)
        # Nothing more is asked for it in this turn, behind its end.
        beam.end(reason)
    _finish(message, handles, why)


def _finish(message: Message, handles: list[int], reasons: list[FinishReason]) -> None:
    before = message.finished
    message.finished = Finished(
        np.concatenate((before.handles, np.array(handles, dtype=np.int64))), [*before.reasons, *reasons]
    )


def take_beams(work: Work, deeds: list[tuple[BeamGroup, Deed]], forked: Iterator[Forked]) -> None:
    """What became of the searches that a turn spoke of. ``forked``: the answers to their forks, in order."""
    for group, deed in deeds:
        if deed in FORKS:
            _take_kept(group, deed, next(forked))
        elif deed is Deed.MOVE:
            group.moved()
            for beam in group.members:
                work.clear(beam)
                if beam.request.uuid == group.first:
                    work.news.append(Recorded(group.first, beam.handle, beam.recorded))
        else:
            _take_end(work, group)


def _take_kept(group: BeamGroup, deed: Deed, forked: Forked) -> None:
    """Raises ``RuntimeError`` for a refusal that will stand: what lies in the ledger is another's then."""
    if forked.refusal == Refusal.NO_SLOTS:
        group.refused = True
        return
    if forked.refusal != Refusal.NONE:
        raise RuntimeError(f"the manager keeps no output of {group.first.hex()}: {forked.refusal.name}")
    if deed is Deed.KEEP:
        group.kept.update(zip(group.to_keep, forked.handles, strict=True))
    else:
        group.found = dict(enumerate(forked.handles))
        group.results_kept = True


def _take_end(work: Work, group: BeamGroup) -> None:
    first = group.beams.get(0)
    error_id = next((one.error_id for one in group.members if one.error_id), "")
    work.beams.drop(group)
    for beam in group.members:
        work.remove(beam)
    log.info(
        "search ended",
        uuid=group.first.hex(),
        request_id=group.request.kept.request_id,
        reason=group.reason.name.lower(),
        beams=group.rules.width,
        output_tokens=len(first.tokens) - first.prompt if first is not None else 0,
    )
    # Nothing of a beam is delivered: what was found is looked up.
    ids = group.request.prompt.tolist()
    work.news.append(Ended(group.first, first.handle if first is not None else 0, group.reason, ids, error_id))
