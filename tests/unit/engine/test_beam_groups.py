"""Beam searches of an engine: what they decide, what they keep before they move, and what they take up again."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from blockmgr.core.geometry import handle_of
from blockmgr.core.messages import Forked, Message
from blockmgr.core.states import FinishReason, Refusal
from executor.engine.beam_groups import BeamGroup
from executor.engine.beam_turns import Deed, speak_of_beams, take_beams
from executor.engine.beams import Candidates, EarlyStopping
from executor.engine.entrance import take_waiting
from executor.engine.news import Ended, Recorded
from executor.engine.request import Request, RequestRefused
from executor.engine.sequence import Sequence
from executor.engine.waiting import Waiting
from executor.engine.work import Work
from executor.found_outputs import ended_uuid, found_uuids, kept_request
from executor.outputs import output_of, uuid_of
from pagehold.engine.v1 import request_pb2
from tests.unit.engine.sequences import LIMITS

FIRST = bytes([7] * 16)
PROMPT, END = 5, 9
WIDTH = 2


def kept(**rules: Any) -> request_pb2.Request:
    parameters = request_pb2.Parameters(max_tokens=6, top_p=1.0, end_ids=[END])
    return request_pb2.Request(parameters=parameters, outputs=WIDTH, beams=request_pb2.BeamSearch(**rules))


def beam(place: int, output: list[int]) -> Sequence:
    """A beam whose tokens are all computed."""
    asked = kept(length_penalty=1.0) if not place else output_of(kept(length_penalty=1.0), FIRST, place)
    prompt = np.arange(PROMPT, dtype=np.int32)
    length = PROMPT + len(output)
    return Sequence(
        Request(uuid_of(FIRST, place), prompt, asked),
        handle_of(1, place),
        [*prompt.tolist(), *output],
        launched=length,
        computed=length,
        recorded=length,
        reported=(length, length),
    )


def searching(*outputs: list[int]) -> tuple[Work, BeamGroup]:
    """A search whose beams have come so far."""
    work = Work(LIMITS, 8, 8)
    for place, output in enumerate(outputs or ([1], [2])):
        work.add(beam(place, output))
    (group,) = work.beams
    work.families.settle()
    group.scores = dict.fromkeys(range(WIDTH), -1.0)
    return work, group


def name(work: Work, group: BeamGroup, *candidates: Candidates) -> None:
    for one, named in zip(group.members, candidates, strict=True):
        work.beams.note(one, named)


def speak(work: Work, *tickets: int, retry: bool = False) -> tuple[Message, list[tuple[BeamGroup, Deed]]]:
    message = Message(1, 1)
    return message, speak_of_beams(message, work, list(tickets), retry=retry)


def answer(work: Work, deeds: list[tuple[BeamGroup, Deed]], *forked: Forked) -> None:
    take_beams(work, deeds, iter(forked))


GOING = Candidates([3, 4, END], [-0.1, -0.2, -3.0]), Candidates([5, 6, END], [-0.5, -0.6, -3.0])
ENDING = Candidates([END, 3, 4], [-0.1, -0.2, -3.0]), Candidates([5, 6, END], [-0.5, -0.6, -3.0])


def test_beams_move_once_it_is_known_what_may_follow_each_of_them() -> None:
    work, group = searching()
    work.beams.note(group.beams[0], GOING[0])
    assert speak(work)[1] == []
    work.beams.note(group.beams[1], GOING[1])
    message, deeds = speak(work)
    (move,) = message.reorders
    assert (move.parents.tolist(), move.ids.tolist()) == ([0, 0], [3, 4])
    assert all(one.frozen for one in group.members)
    answer(work, deeds)
    assert [one.tokens[PROMPT:] for one in group.members] == [[1, 3], [1, 4]]
    assert group.scores == {0: pytest.approx(-1.1), 1: pytest.approx(-1.2)}
    assert work.news == [Recorded(FIRST, group.beams[0].handle, PROMPT + 2)]
    assert not group.candidates


@pytest.mark.parametrize("why", ["parked", "in_flight", "awaiting", "launched"])
def test_beams_do_not_move_while_one_of_them_is_not_here_with_all_of_it(why: str) -> None:
    work, group = searching()
    name(work, group, *GOING)
    setattr(group.beams[1], why, PROMPT if why == "launched" else 1)
    assert speak(work)[1] == []


def test_an_output_that_ends_is_kept_before_the_beams_move() -> None:
    work, group = searching()
    name(work, group, *ENDING)
    message, deeds = speak(work)
    assert not message.reorders
    (child,) = message.forks[0].children
    assert child.uuid == ended_uuid(FIRST, [1, END])
    assert child.output is not None
    assert child.output.tolist() == [1, END]
    assert child.score == pytest.approx(-1.1 / 2)
    answer(work, deeds, Forked(message.forks[0].parent, refusal=Refusal.NO_SLOTS))
    assert speak(work)[1] == []
    assert work.beams.wait
    message, deeds = speak(work, retry=True)
    answer(work, deeds, Forked(message.forks[0].parent, [handle_of(1, 5)]))
    message, deeds = speak(work)
    assert [deed for _, deed in deeds] == [Deed.MOVE]
    assert not message.forks


def test_what_was_kept_of_a_decision_that_is_made_again_is_not_kept_twice() -> None:
    work, group = searching()
    request = Request(ended_uuid(FIRST, [1, END]), group.request.prompt, ended(group))
    score = group.rules.rank(float(np.float32(-1.0) + np.float32(-0.1)), 2)
    work.beams.restore(request, score, [1, END], handle_of(1, 5))
    name(work, group, *ENDING)
    message, deeds = speak(work)
    assert [deed for _, deed in deeds] == [Deed.MOVE]
    assert not message.forks
    assert list(group.kept.values()) == [handle_of(1, 5)]


def ended(group: BeamGroup) -> request_pb2.Request:
    return kept_request(group.request.kept, FIRST, request_pb2.BEAM_ROLE_ENDED)


def test_what_is_surpassed_ends_with_the_move_that_surpasses_it() -> None:
    work, group = searching()
    for place, rank in enumerate((-0.2, -5.0)):
        request = Request(bytes([place + 1] * 16), group.request.prompt, ended(group))
        work.beams.restore(request, rank, [8 - place], handle_of(1, 5 + place))
    group.rules = replace(group.rules, early_stopping=EarlyStopping.NEVER)
    name(work, group, *ENDING)
    message, deeds = speak(work)
    answer(work, deeds, Forked(message.forks[0].parent, [handle_of(1, 7)]))
    message, deeds = speak(work)
    assert message.finished.handles.tolist() == [handle_of(1, 6)]
    assert message.finished.reasons == [FinishReason.REPLACED]
    answer(work, deeds)
    assert sorted(group.kept.values()) == [handle_of(1, 5), handle_of(1, 7)]


def test_all_ends_in_one_turn_once_what_was_found_is_kept() -> None:
    work, group = searching([1] * 5, [2] * 5)
    name(work, group, *GOING)
    message, deeds = speak(work)
    assert [child.uuid for child in message.forks[0].children] == found_uuids(FIRST, group.request.kept)
    answer(work, deeds, Forked(message.forks[0].parent, [handle_of(1, 5), handle_of(1, 6)]))
    message, deeds = speak(work)
    assert set(message.finished.handles.tolist()) == {handle_of(1, slot) for slot in (0, 1, 5, 6)}
    # The first beam last: whoever finds it ended finds all that was found.
    assert message.finished.handles.tolist()[-1] == group.beams[0].handle
    assert message.finished.reasons[-1] == FinishReason.LENGTH
    # Or the same turn might ask for blocks of theirs, behind their end.
    assert [one.ending for one in group.members] == [FinishReason.LENGTH] * WIDTH
    answer(work, deeds)
    assert not work.sequences
    assert not list(work.beams)
    assert work.news == [Ended(FIRST, group.beams[0].handle, FinishReason.LENGTH, list(range(PROMPT)))]


@pytest.mark.parametrize("reason", [FinishReason.CANCELLED, FinishReason.INTERNAL])
def test_what_nobody_asks_for_is_not_kept_at_the_end(reason: FinishReason) -> None:
    work, group = searching()
    group.beams[1].end(reason)
    message, deeds = speak(work)
    assert [deed for _, deed in deeds] == [Deed.END]
    assert not message.forks
    assert message.finished.reasons == [FinishReason.REPLACED, reason]


def test_at_a_deadline_the_best_is_kept_beams_that_might_have_gone_on_included() -> None:
    work, group = searching([1, 1], [2, 2])
    group.scores = {0: -1.0, 1: -4.0}
    work.beams.restore(Request(bytes([1] * 16), group.request.prompt, ended(group)), -0.7, [8], handle_of(1, 5))
    group.beams[0].end(FinishReason.DEADLINE)
    message, deeds = speak(work)
    outputs = [child.output.tolist() for child in message.forks[0].children if child.output is not None]
    assert outputs == [[1, 1], [8]]
    answer(work, deeds, Forked(message.forks[0].parent, [handle_of(1, 6), handle_of(1, 7)]))
    message, _ = speak(work)
    reasons = dict(zip(message.finished.handles.tolist(), message.finished.reasons, strict=True))
    assert reasons[handle_of(1, 6)] == FinishReason.DEADLINE
    assert reasons[group.beams[0].handle] == FinishReason.DEADLINE


def test_a_search_whose_first_beam_is_gone_ends() -> None:
    work, group = searching()
    work.remove(group.beams.pop(0))
    message, deeds = speak(work)
    assert [deed for _, deed in deeds] == [Deed.END]
    assert message.finished.reasons == [FinishReason.REPLACED]
    answer(work, deeds)
    assert work.news == [Ended(FIRST, 0, FinishReason.INTERNAL, list(range(PROMPT)))]


def test_a_search_waits_until_there_are_slots_for_all_that_it_keeps() -> None:
    work, group = searching()
    assert group.request.slots == 3 * WIDTH
    work.limits = replace(LIMITS, slots=5 * WIDTH + 1)
    work.free_blocks = 100
    other = Request(bytes([8] * 16), np.arange(PROMPT, dtype=np.int32), kept())
    work.waiting.add(Waiting(other))
    assert take_waiting(work, 1000, 100) is None
    samples = kept()
    samples.ClearField("beams")
    work.waiting.add(Waiting(Request(bytes([9] * 16), other.prompt, samples)))
    assert take_waiting(work, 1000, 100) is not None, "two slots are enough for two samples"
    work.limits = replace(LIMITS, slots=3 * WIDTH + WIDTH + 3 * WIDTH)
    taken = take_waiting(work, 1000, 100)
    assert taken is not None
    assert taken.request is other


def test_a_search_that_takes_more_slots_than_there_are_is_refused() -> None:
    asked = Request(FIRST, np.arange(PROMPT, dtype=np.int32), kept())
    asked.check(replace(LIMITS, slots=3 * WIDTH))
    with pytest.raises(RequestRefused, match="outputs is 2, which takes 6 slots; the pool has 5"):
        asked.check(replace(LIMITS, slots=3 * WIDTH - 1))
