"""The loop, with a device and a manager that do as told."""

import time

import pytest

from blockmgr.core.messages import LookedAgain, Ticket
from blockmgr.core.states import FinishReason, Refusal, TicketKind
from executor.engine import intake
from executor.engine.deadlines import FEW
from executor.engine.news import Accepted, Ended, Recorded, Refused
from executor.engine.orders import Cancel, Start
from executor.engine.request import Request
from executor.engine.service import ask
from executor.manager import Revoked
from pagehold.engine.v1 import submit_pb2
from tests.unit.engine.fakes import Bench
from tests.unit.engine.sequences import request, sequence


def start(bench: Bench, *requests: Request) -> None:
    for one in requests:
        bench.inbox.put(Start(one, 1))


def running(*requests: Request, **settings: int) -> Bench:
    """A bench whose requests are admitted, with their first step launched and the turn behind it sent."""
    bench = Bench(**settings)
    start(bench, *requests)
    bench.exchange()
    return bench


def test_a_request_is_accepted_by_the_reply_and_computed_behind_it() -> None:
    bench = Bench()
    asked = request(10)
    start(bench, asked)
    bench.go()
    assert [one.uuid for one in bench.session.turns[0].admissions] == [asked.uuid]
    assert not bench.device.steps
    bench.session.answer()
    bench.go()
    assert [one.uuid for one in bench.news if isinstance(one, Accepted)] == [asked.uuid]
    assert bench.device.steps[0].ids.tolist() == asked.prompt.tolist()


def test_two_steps_are_in_flight_and_the_second_takes_its_id_from_the_device() -> None:
    bench = running(request(10))
    assert len(bench.device.steps) == 2
    assert bench.device.steps[1].ids.tolist() == [-1]
    bench.go(3)
    assert len(bench.device.steps) == 2


def test_steps_follow_while_a_turn_is_unanswered_as_far_as_blocks_reach() -> None:
    bench = running(request(10, 60))
    unanswered = len(bench.session.turns)
    for _ in range(40):
        bench.device.finish()
        bench.go()
    # A block holds 16 positions: the prompt's 10, and one a step.
    assert len(bench.session.turns) == unanswered
    assert len(bench.device.steps) == 7
    bench.session.answer()
    bench.go()
    assert len(bench.session.turns) == unanswered + 1
    assert bench.session.turns[-1].appends.counts.tolist() == [7]


def test_nothing_is_told_before_the_manager_has_recorded_it() -> None:
    bench = running(request(10))
    bench.session.answer()
    bench.device.finish()
    bench.go()
    recorded = [one for one in bench.news if isinstance(one, Recorded)]
    assert not recorded
    assert bench.session.turns[-1].appends.ids.tolist() == [1]
    bench.session.answer()
    bench.go()
    recorded = [one for one in bench.news if isinstance(one, Recorded)]
    assert [one.tokens for one in recorded] == [11]


def test_an_end_is_told_with_all_tokens_once_the_manager_knows_it() -> None:
    asked = request(10, 2)
    bench = running(asked)
    bench.session.answer()
    for _ in range(2):
        bench.device.finish()
    bench.go()
    turn = bench.session.turns[-1]
    assert turn.finished.reasons == [FinishReason.LENGTH]
    assert turn.completed_step == turn.launched_step == 2
    assert not [one for one in bench.news if isinstance(one, Ended)]
    bench.session.answer()
    bench.go()
    (ended,) = [one for one in bench.news if isinstance(one, Ended)]
    assert ended.ids == [*asked.prompt.tolist(), 1, 2]
    assert not bench.work.sequences


def test_a_request_cancelled_while_it_is_asked_for_ends_as_soon_as_it_is_accepted() -> None:
    bench = Bench()
    asked = request(10)
    start(bench, asked)
    bench.go()
    bench.inbox.put(Cancel(asked.uuid))
    bench.session.answer()
    bench.go()
    assert not bench.device.steps
    assert bench.session.turns[-1].finished.reasons == [FinishReason.CANCELLED]


def test_copies_are_launched_before_steps_use_them_and_reported_with_what_follows_them() -> None:
    bench = running(request(10))
    (sequence,) = bench.work.sequences.values()
    ticket = Ticket(77, TicketKind.COPY_ON_WRITE, sequence.handle, 0, sequence.table[0], 50)
    bench.session.answer(tickets=[ticket])
    bench.go()
    assert bench.device.copies[0].destination == 50
    bench.device.finish()
    bench.go()
    assert bench.device.steps[-1].changes.blocks.tolist() == [50]
    for _ in range(3):
        bench.device.finish()
    bench.session.answer()
    bench.go()
    turn = bench.session.turns[-1]
    assert turn.tickets_done.tolist() == [77]


def test_a_failed_step_is_reported_when_nothing_is_in_flight_and_computed_again() -> None:
    bench = running(request(10), request(12))
    bench.session.answer()
    bench.device.finish()
    bench.exchange()
    bench.device.finish(error="broken")
    bench.go()
    assert not any(turn.failed for turn in bench.session.turns)
    bench.device.finish()
    bench.session.answer()
    bench.go()
    turn = bench.session.turns[-1]
    assert turn.failed
    assert turn.completed_step == turn.launched_step
    assert not len(turn.reservations.handles)
    steps = len(bench.device.steps)
    handles = list(bench.work.sequences)
    bench.session.answer(looked_again=[LookedAgain(handle, at) for handle, at in zip(handles, (10, 12), strict=True)])
    bench.go()
    bench.session.answer()
    bench.go()
    # One alone, until it has shown that it can.
    assert len(bench.device.steps) == steps + 1
    assert bench.device.steps[-1].counts.tolist() == [1]
    assert bench.device.steps[-1].starts.tolist() == [10]


def test_blocks_that_are_not_granted_ahead_are_not_asked_for_again_and_again() -> None:
    bench = running(request(10, 60))
    for _ in range(5):
        if bench.engine._turn is not None:
            bench.session.answer()
        bench.go()
    sent = len(bench.session.turns)
    bench.go(5)
    assert len(bench.session.turns) == sent
    bench.device.finish()
    bench.go()
    assert len(bench.session.turns) == sent + 1


def test_a_suspect_runs_alone_once_the_manager_knows_until_it_makes_progress() -> None:
    bench = Bench()
    suspect, other = sequence(slot=0), sequence(slot=1)
    suspect.suspect = True
    for one in (suspect, other):
        bench.work.take_up(one)
    bench.go()
    assert bench.session.turns[-1].solo == suspect.handle
    assert not bench.device.steps
    bench.session.answer()
    bench.go()
    assert [step.slots.tolist() for step in bench.device.steps] == [[0], [0]]
    bench.device.finish()
    bench.session.answer()
    bench.go()
    bench.session.answer()
    bench.go()
    assert bench.session.turns[-1].solo == 0
    bench.device.finish()
    bench.go()
    assert bench.device.steps[-1].slots.tolist() == [0, 1]


def test_a_wish_of_the_manager_is_answered_with_an_empty_turn_when_idle() -> None:
    bench = Bench()
    bench.go(3)
    assert not bench.session.turns
    bench.session.turn_wanted.set()
    bench.go()
    assert len(bench.session.turns) == 1


def test_draining_refuses_those_who_wait_and_keeps_those_who_run() -> None:
    bench = running(request(10), max_running=1)
    waiting = request(10)
    start(bench, waiting)
    bench.go()
    bench.session.answer(drain=True)
    bench.go()
    assert [one.uuid for one in bench.news if isinstance(one, Refused)] == [waiting.uuid]
    assert bench.engine.load.draining
    assert bench.engine.load.running == 1


def test_a_revoked_registration_ends_the_engine_at_once() -> None:
    bench = running(request(10))
    bench.engine._registration.heartbeat.revoked.set()
    with pytest.raises(Revoked):
        bench.go()


def test_an_engine_that_stops_leaves_only_when_everything_is_reported() -> None:
    bench = running(request(10, 50))
    bench.engine.stop(0.0)
    bench.go()
    assert not bench.engine._is_settled()
    for _ in range(2):
        bench.device.finish()
    bench.session.answer()
    bench.go()
    assert len(bench.device.steps) == 2
    bench.session.answer()
    bench.go()
    assert bench.engine._is_settled()


def test_a_question_that_nobody_waits_for_any_more_is_passed_over() -> None:
    bench = Bench()
    asked = ask(bench.engine, lambda: pytest.fail("it was asked all the same"))
    assert asked.cancel()
    answered = ask(bench.engine, lambda: 7)
    bench.go()
    assert answered.result(0) == 7


def test_what_cannot_be_admitted_for_now_is_refused_once_the_engine_stops() -> None:
    bench, asked = Bench(), request(10)
    start(bench, asked)
    bench.go()
    bench.engine.stop(60.0)
    bench.session.refuse(Refusal.POOL_EXHAUSTED)
    bench.go()
    assert [one.by for one in bench.news if isinstance(one, Refused)] == [submit_pb2.REFUSED_BY_DRAINING]
    assert not len(bench.work.waiting)


def test_deadlines_of_those_that_have_ended_are_not_kept_for_ever() -> None:
    bench = Bench()
    for _ in range(4 * FEW):
        one = request(10, deadline=time.time() + 3600)
        intake.start(bench.work, one, 1)
        intake.cancel(bench.work, one.uuid)
    assert len(bench.work.deadlines) <= FEW + 1
