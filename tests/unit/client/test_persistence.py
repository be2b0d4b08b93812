"""How long, and at which distances, a connection that broke is tried again."""

import pytest

from pagehold.client.effects import Pause
from pagehold.client.errors import GenerationLost, PageholdError, Unavailable
from pagehold.client.generation import Generation
from pagehold.client.persistence import FIRST_PAUSE, LONGEST_PAUSE, BackOff, Deadline, Persistence
from pagehold.inference.v1 import generation_pb2
from tests.unit.client.answers import Answer, Attempt
from tests.unit.client.wire import Wire

REFUSED = Attempt(breaks_after=0)


def generation_of(wire: Wire) -> Generation:
    return wire.generation(generation_pb2.GenerateRequest(request_id="mine"))


def run_to_error(wire: Wire, generation: Generation) -> PageholdError:
    with pytest.raises(PageholdError) as raised:
        wire.run(generation.follow())
    return raised.value


def test_a_server_that_never_answers_is_given_up_soon() -> None:
    wire = Wire(Answer(), [REFUSED] * 200)
    assert isinstance(run_to_error(wire, generation_of(wire)), Unavailable)
    assert 4 < wire.now <= 5


def test_one_that_has_answered_is_tried_for_the_longer_time_with_the_id_to_attach_to() -> None:
    answer = Answer()
    wire = Wire(answer, [Attempt(breaks_after=2), *[REFUSED] * 200])
    error = run_to_error(wire, generation_of(wire))
    assert isinstance(error, Unavailable)
    assert not isinstance(error, GenerationLost)
    assert str(error).startswith("the connection broke after 1 token, and none could be made for 60 s; attach to ")
    assert error.metadata == {"tokens": "1", "id": answer.id}
    assert 59 < wire.now <= 60


def test_news_give_it_the_whole_time_again() -> None:
    answer = Answer(["x"] * 12)
    attempts = [step for place in range(2, 12) for step in (Attempt(breaks_after=place), *[REFUSED] * 50)]
    wire = Wire(answer, [*attempts, Attempt()])
    wire.run(generation_of(wire).follow())
    assert wire.now > 300


def test_a_replay_without_news_gives_no_time() -> None:
    wire = Wire(Answer(), [Attempt(breaks_after=2)] * 200)
    assert isinstance(run_to_error(wire, generation_of(wire)), Unavailable)
    assert wire.now <= 60


@pytest.mark.parametrize(("chance", "share"), [(1.0, 1.0), (0.0, 0.5)])
def test_pauses_double_up_to_the_longest_and_chance_takes_half_at_most(chance: float, share: float) -> None:
    back_off = BackOff(Persistence(5, 60, clock=lambda: 0.0, draw=lambda: chance))
    pauses = [back_off.pause() for _ in range(8)]
    assert pauses == [share * min(LONGEST_PAUSE, FIRST_PAUSE * 2**row) for row in range(8)]
    back_off.succeeded()
    assert back_off.pause() == share * FIRST_PAUSE


def test_a_servers_own_pause_is_the_least() -> None:
    back_off = BackOff(Persistence(5, 60, clock=lambda: 0.0, draw=lambda: 1.0))
    assert back_off.pause(3.0) == 3.0
    assert back_off.pause(6.0) is None
    assert back_off.pause(6.0, endless=True) == 6.0


def test_a_pause_ends_with_the_deadline() -> None:
    wire = Wire(Answer(), [Attempt(breaks_after=2), *[REFUSED] * 200])
    generation = wire.generation(generation_pb2.GenerateRequest(request_id="mine"), seconds=3.0)
    error = run_to_error(wire, generation)
    assert str(error) == "not finished within 3 s, after 1 token"
    assert wire.now == pytest.approx(3.0)
    assert wire.cancelled == [{"id": Answer().id}]


def test_a_deadline_is_never_below_nothing() -> None:
    now = [0.0]
    persistence = Persistence(5, 60, clock=lambda: now[0])
    deadline, none = Deadline(2.0, persistence), Deadline(None, persistence)
    assert (deadline.left(), deadline.passed, none.left(), none.passed) == (2.0, False, None, False)
    assert (deadline.allows(1.9), deadline.allows(2.0), none.allows(1e9)) == (True, False, True)
    now[0] = 5.0
    assert (deadline.left(), deadline.passed) == (0.0, True)


@pytest.mark.parametrize("seconds", [float("inf"), 1e300])
def test_a_deadline_beyond_all_time_is_none(seconds: float) -> None:
    deadline = Deadline(seconds, Persistence(5, 60))
    assert (deadline.seconds, deadline.left(), deadline.passed) == (None, None, False)


def test_recovering_begins_with_a_pause() -> None:
    wire = Wire(Answer(), [])
    generation = generation_of(wire)
    generation.begin_attempt()
    assert next(generation.recover(wire.broken)) == Pause(FIRST_PAUSE)
