"""Who makes room, in which way, and who comes back."""

from itertools import count
from typing import Any

import numpy as np
import pytest

from blockmgr.core.messages import LookedAgain, Message, Reply, Swapped, TableUpdate, Ticket, Want
from blockmgr.core.states import FinishReason, Refusal, Residency, TicketKind
from executor.engine import intake
from executor.engine.entrance import take_returning, take_waiting
from executor.engine.news import Accepted, Computing
from executor.engine.orders import Start
from executor.engine.pace import Pace
from executor.engine.preemption import Preemption, Way
from executor.engine.request import Request
from executor.engine.sequence import Sequence
from executor.engine.waiting import MOST_PASSES, Waiting
from executor.engine.work import Work
from tests.unit.engine.fakes import Bench
from tests.unit.engine.sequences import LIMITS, decoding, request, sequence

NOTHING = Reply(1)
"""No block is to be had, nor about to be."""

ARRIVALS = count(1)


def aged(one: Sequence) -> Sequence:
    """A sequence that arrived after those made before it."""
    one.request.kept.arrived = next(ARRIVALS)
    return one


def running(*slots: int, **more: Any) -> list[Sequence]:
    return [aged(decoding(slot, blocks=2, **more)) for slot in slots]


def stuck(one: Sequence) -> Want:
    one.stuck = True
    return Want(one.request.uuid, one.request.kept.priority, one.request.kept.arrived, 1, running=True)


def make_room(preemption: Preemption, sequences: list[Sequence], first: Want | None) -> Sequence | None:
    victims = preemption.make_room(sequences, first, NOTHING, Pace())
    assert len(victims) <= 1
    return victims[0] if victims else None


def test_the_last_of_those_behind_goes_first() -> None:
    sequences, preemption = running(0, 1, 2), Preemption()
    assert make_room(preemption, sequences, stuck(sequences[0])) is sequences[2]
    assert sequences[2].parked
    assert make_room(preemption, sequences, stuck(sequences[0])) is None, "one at a time"


def test_a_lower_priority_goes_before_a_younger_one() -> None:
    low, early, late = aged(decoding(0, priority=-1)), aged(decoding(1)), aged(decoding(2))
    assert make_room(Preemption(), [low, early, late], stuck(early)) is low


def test_nobody_goes_for_one_that_comes_after_them() -> None:
    sequences = running(0, 1, 2)
    assert make_room(Preemption(), sequences, stuck(sequences[2])) is None


def test_nobody_goes_while_what_was_given_up_is_about_to_be_free() -> None:
    sequences = running(0, 1)
    want = stuck(sequences[0])
    assert not Preemption().make_room(sequences, want, Reply(1, fenced_blocks=1), Pace())
    assert not Preemption().make_room(sequences, want, Reply(1, free_blocks=1), Pace())


def test_one_that_came_back_and_waits_for_what_the_first_computes_goes_again() -> None:
    sequences = running(0, 1)
    back = sequences[1]
    back.come_back()
    back.awaiting = 1
    assert make_room(Preemption(), sequences, stuck(sequences[0])) is back


def test_one_that_came_back_goes_again_only_once_it_has_got_on_or_cannot() -> None:
    sequences = running(0, 1)
    back = sequences[1]
    back.come_back()
    want = stuck(sequences[0])
    assert make_room(Preemption(), sequences, want) is None
    back.stuck = True
    assert make_room(Preemption(), sequences, want) is back
    back.parked = back.stuck = False
    back.tokens.append(1)
    assert make_room(Preemption(), sequences, want) is back


def test_one_that_waits_in_another_engine_and_comes_first_is_made_room_for() -> None:
    sequences = running(0, 1)
    foreign = Want(bytes(16), 0, 0.5, 2, running=True)
    assert make_room(Preemption(), sequences, foreign) is sequences[1]
    assert make_room(Preemption(), sequences, Want(bytes(16), -9, 0.5, 2, running=True)) is None


@pytest.mark.parametrize(
    ("way", "host_blocks", "chosen"),
    [(Way.SWAP, 9, Way.SWAP), (Way.SWAP, 0, Way.RECOMPUTE), (Way.RECOMPUTE, 9, Way.RECOMPUTE), (None, 9, Way.SWAP)],
)
def test_the_way_is_the_one_that_is_set_where_there_is_a_host_tier(
    way: Way | None, host_blocks: int, chosen: Way
) -> None:
    sequences, preemption = running(0, 1), Preemption(way, host_blocks)
    make_room(preemption, sequences, stuck(sequences[0]))
    assert [way for _, way in preemption.leaving.values()] == [chosen]


def test_the_cheaper_way_is_taken_by_what_was_measured() -> None:
    pace = Pace()
    assert pace.swap_is_cheaper(100, 1)
    pace.note_copies(10, 0.01)
    pace.note_prompts(100, 0.1)
    assert pace.swap_is_cheaper(blocks=4, tokens=8)
    assert not pace.swap_is_cheaper(blocks=4, tokens=7)


def test_where_the_host_tier_is_full_it_is_computed_again() -> None:
    sequences, preemption = running(0, 1), Preemption(Way.SWAP, 9)
    make_room(preemption, sequences, stuck(sequences[0]))
    preemption.refused(sequences[1], Refusal.BUSY)
    assert [way for _, way in preemption.leaving.values()] == [Way.SWAP]
    preemption.refused(sequences[1], Refusal.HOST_EXHAUSTED)
    assert [way for _, way in preemption.leaving.values()] == [Way.RECOMPUTE]


def work_with(free: int, *sequences: Sequence) -> Work:
    work = Work(LIMITS, 8, 100)
    work.free_blocks = free
    for one in sequences:
        work.add(one)
    return work


def away(one: Sequence) -> Sequence:
    one.parked = True
    one.leave(Residency.RELEASED)
    return one


def queue(work: Work, *requests: Request) -> None:
    for one in requests:
        one.kept.arrived = next(ARRIVALS)
        work.waiting.add(Waiting(one))


def test_one_that_is_away_comes_back_before_anybody_new_is_let_in_unless_more_urgent() -> None:
    gone = away(aged(decoding(0)))
    work = work_with(1, aged(decoding(1)), gone)
    work.preemption.away[gone.handle] = gone
    queue(work, request(1, 1))
    assert take_waiting(work, 1000, 10) is None
    queue(work, request(1, 1, priority=1))
    assert take_waiting(work, 1000, 10) is not None


def test_those_that_are_away_come_back_in_order_as_far_as_there_is_room() -> None:
    here, first, second = aged(decoding(0, blocks=2)), away(aged(decoding(1))), away(aged(decoding(2)))
    work = work_with(0, here, first, second)
    work.preemption.away = {second.handle: second, first.handle: first}
    assert take_returning(work) == []
    work.free_blocks = 2
    assert take_returning(work) == [first]
    work.free_blocks = 4
    assert take_returning(work) == [first, second]
    work.short.add(here.handle)
    assert take_returning(work) == []


def test_what_waits_elsewhere_and_comes_first_is_passed_a_bounded_number_of_times() -> None:
    work = work_with(1000)
    work.wanted = Want(bytes(16), 0, 0.0, 5)
    queue(work, *[request(1, 1) for _ in range(MOST_PASSES + 2)])
    taken = 0
    while take_waiting(work, 1000, 1000) is not None:
        taken += 1
    assert taken == MOST_PASSES
    work.wanted = None
    assert take_waiting(work, 1000, 1000) is not None


# -- the loop ----------------------------------------------------------------------------------------------------------


class Pressed(Bench):
    """Two requests that decode, the first of which is about to stand still."""

    def __init__(self, way: Way, host_blocks: int = 9) -> None:
        super().__init__()
        self.work.preemption = Preemption(way, host_blocks)
        for arrived in (1.0, 2.0):
            asked = request(15, 40)
            asked.kept.arrived = arrived
            self.inbox.put(Start(asked, 1))
        self.exchange()
        self.first, self.second = self.work.sequences.values()

    def press(self) -> Message:
        """Let the first stand still, until somebody is to go. Returns the turn that says so."""
        for _ in range(8):
            for _ in range(3):
                self.device.finish()
            turn = self.session.turns[-1]
            if len(turn.swap_out) or len(turn.release):
                return turn
            handles = turn.reservations.handles.tolist()
            short = [handle for handle in handles if handle == self.first.handle]
            self.session.answer(short=short, free_blocks=0)
            self.go()
        raise AssertionError("nobody is to go")

    def answer(self, **more: Any) -> None:
        self.session.answer(**more)
        self.go()


@pytest.fixture
def swapping() -> Pressed:
    return Pressed(Way.SWAP)


def test_a_sequence_is_swapped_out_and_in_and_goes_on_where_it_was(swapping: Pressed) -> None:
    bench, second = swapping, swapping.second
    turn = bench.press()
    assert turn.swap_out.tolist() == [second.handle]
    at = second.launched
    out = [
        Ticket(70, TicketKind.SWAP_OUT, second.handle, 0, 5, 1),
        Ticket(71, TicketKind.SWAP_OUT, second.handle, 1, 6, 2),
    ]
    bench.answer(tickets=out)
    assert (second.residency, second.table) == (Residency.LEAVING, [])
    bench.device.finish()
    while not len(bench.session.turns[-1].swap_in):
        bench.device.finish()
        bench.answer()
    assert bench.session.turns[-1].swap_in.tolist() == [second.handle]
    tickets = [
        Ticket(80, TicketKind.SWAP_IN, second.handle, 0, 1, 30),
        Ticket(81, TicketKind.SWAP_IN, second.handle, 1, 2, 31),
    ]
    bench.answer(tickets=tickets, tables=[TableUpdate(second.handle, 0, np.array([0, 0, 32]))])
    assert second.residency == Residency.RETURNING
    assert second.table == [30, 31, 32]
    assert second.launched == at
    while second.parked:
        bench.device.finish()
        bench.answer()
    assert not second.moving


def test_a_sequence_that_gave_up_its_blocks_is_computed_again_and_counts_no_hits() -> None:
    bench = Pressed(Way.RECOMPUTE)
    second, told = bench.second, len(bench.second.tokens)
    turn = bench.press()
    assert turn.release.tolist() == [second.handle]
    bench.answer()
    assert (second.residency, second.launched) == (Residency.RELEASED, 0)
    while not len(bench.session.turns[-1].swap_in):
        bench.device.finish()
        bench.answer()
    news = len(bench.news)
    bench.answer(
        tables=[TableUpdate(second.handle, 0, np.array([40, 41, 42]))], looked_again=[LookedAgain(second.handle, 16)]
    )
    assert not second.parked
    assert (second.launched, second.cached_tokens, bench.work.cached_tokens) == (16, 0, 0)
    while second.slot not in bench.device.steps[-1].slots:
        bench.device.finish()
        bench.go()
    row = bench.device.steps[-1].slots.tolist().index(second.slot)
    assert bench.device.steps[-1].starts.tolist()[row] == 16
    assert bench.device.steps[-1].counts.tolist()[row] == len(second.tokens) - 16
    assert len(second.tokens) >= told
    assert not [one for one in bench.news[news:] if isinstance(one, Accepted | Computing)]


def test_others_hear_when_nothing_is_wanted_any_more() -> None:
    bench = Bench()
    asked = request(10)
    bench.inbox.put(Start(asked, 1))
    bench.go()
    bench.session.refuse(Refusal.POOL_EXHAUSTED)
    bench.go()
    while bench.session.turns[-1].want is None:
        bench.session.refuse(Refusal.POOL_EXHAUSTED)
        bench.go()
    assert bench.session.turns[-1].want.uuid == asked.uuid
    intake.cancel(bench.work, asked.uuid)
    bench.session.refuse(Refusal.POOL_EXHAUSTED)
    bench.go()
    assert bench.session.turns[-1].want is None


def test_a_refused_swap_becomes_a_release(swapping: Pressed) -> None:
    bench = swapping
    bench.press()
    bench.answer(swaps_refused=[Swapped(bench.second.handle, Refusal.HOST_EXHAUSTED)])
    assert bench.session.turns[-1].release.tolist() == [bench.second.handle]


def test_one_that_is_away_can_be_ended(swapping: Pressed) -> None:
    bench = swapping
    bench.press()
    bench.answer()
    assert bench.second.residency == Residency.HOST
    intake.cancel(bench.work, bench.second.request.uuid)
    bench.answer()
    assert bench.session.turns[-1].finished.reasons == [FinishReason.CANCELLED]
    bench.answer()
    assert bench.second.handle not in bench.work.sequences
    assert not bench.work.preemption.away


def test_a_sequence_that_the_pool_has_become_too_small_for_ends_with_what_it_has() -> None:
    work = work_with(0, one := sequence(40, 100))
    intake.take_size(work, 3)
    assert work.limits.usable_blocks == 3
    assert one.ending is None
