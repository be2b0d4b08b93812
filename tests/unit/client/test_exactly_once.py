"""Whatever breaks, and however the replays are cut, every token and every character is delivered once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagehold.client.decoding import event_of
from pagehold.client.errors import BadStream
from pagehold.client.events import Delta, EndReason, Event, Finished, Progress, Started, Timings, Usage
from pagehold.client.transcript import Transcript
from pagehold.inference.v1 import generation_pb2
from tests.unit.client.answers import Answer, Attempt, answers, attempts
from tests.unit.client.wire import Wire


def check_delivered(events: list[Event], answer: Answer, from_token: int = 0) -> None:
    """The grammar of a stream, each token once and in its place, and all of the text."""
    assert [type(one) for one in events if not isinstance(one, Progress | Delta)] == [Started, Finished]
    assert isinstance(events[0], Started)
    assert isinstance(events[-1], Finished)
    kinds = [type(one) for one in events]
    assert kinds == sorted(kinds, key=[Started, Progress, Delta, Finished].index)
    computed = [one.computed_tokens for one in events if isinstance(one, Progress)]
    assert computed == sorted(set(computed))
    next_token = from_token
    for delta in (one for one in events if isinstance(one, Delta)):
        assert delta.first_token == next_token
        assert delta.ids or delta.text
        next_token += len(delta.ids)
    assert [id_ for one in events if isinstance(one, Delta) for id_ in one.ids] == answer.ids[from_token:]
    text = "".join(one.text for one in events if isinstance(one, Delta))
    assert text == "".join(answer.pieces[from_token:])


@given(answers(), attempts())
def test_a_generation_is_delivered_once_wherever_its_calls_break(answer: Answer, attempts: list[Attempt]) -> None:
    wire = Wire(answer, attempts)
    generation = wire.generation(generation_pb2.GenerateRequest(request_id="mine"))
    events = wire.run(generation.follow())
    check_delivered(events, answer)
    assert generation.transcript.text() == answer.text
    assert list(generation.transcript.ids()) == answer.ids
    assert generation.transcript.completion().text == answer.text


@given(answers(), attempts(), st.data())
def test_what_is_attached_to_from_a_token_on_is_delivered_once(
    answer: Answer, attempts: list[Attempt], data: st.DataObject
) -> None:
    from_token = data.draw(st.integers(0, len(answer.pieces)))
    wire = Wire(answer, attempts)
    request = generation_pb2.AttachRequest(request_id="mine", from_token=from_token)
    check_delivered(wire.run(wire.generation(request).follow()), answer, from_token)
    assert all(call.request == request for call in wire.calls)


@given(answers(), attempts())
def test_nothing_runs_twice(answer: Answer, attempts: list[Attempt]) -> None:
    wire = Wire(answer, attempts)
    wire.run(wire.generation(generation_pb2.GenerateRequest(request_id="mine")).follow())
    began = next(
        place for place, attempt in enumerate(attempts) if attempt.breaks_after is None or attempt.breaks_after > 0
    )
    assert [call.method for call in wire.calls[: began + 1]] == ["Generate"] * (began + 1)
    assert all(call.request.request_id == "mine" for call in wire.calls[: began + 1])
    assert all(call.method == "Attach" and call.request.id == answer.id for call in wire.calls[began + 1 :])


def test_a_break_behind_the_end_is_none() -> None:
    answer = Answer()
    wire = Wire(answer, [Attempt(breaks_after=5)])
    check_delivered(wire.run(wire.generation(generation_pb2.GenerateRequest()).follow()), answer)


def delta(first: int, ids: tuple[int, ...] = (), text: str = "") -> Delta:
    return Delta(0, first, ids, text)


@pytest.mark.parametrize(
    ("replayed", "complaint"),
    [
        (delta(3, (4,)), "token 3 where 2 was next"),
        (delta(0, (1, 9)), "other tokens from 0 on"),
        (delta(0, (1,), "ax"), "other text from character 0 on"),
    ],
)
def test_a_replay_that_differs_is_an_error(replayed: Delta, complaint: str) -> None:
    transcript = Transcript()
    transcript.add(delta(0, (1, 2), "abc"))
    transcript.begin_attempt()
    with pytest.raises(BadStream, match=complaint):
        transcript.add(replayed)


def test_an_end_that_counts_more_tokens_than_came_is_an_error() -> None:
    generation = Wire(Answer(), []).generation(generation_pb2.GenerateRequest())
    events = list(Answer(pieces=["a", "b"]).events())
    generation.take(events[0])
    generation.take(events[1])
    with pytest.raises(BadStream, match="1 of 2 tokens"):
        generation.take(events[-1])


def test_an_answer_of_another_request_is_an_error() -> None:
    generation = Wire(Answer(), []).generation(generation_pb2.GenerateRequest())
    generation.take(Answer(name="a").started())
    with pytest.raises(BadStream, match="instead of"):
        generation.take(Answer(name="b").started())


def test_a_generation_is_complete_once_as_many_outputs_have_ended_as_were_asked_for() -> None:
    transcript = Transcript()
    started = Answer().started()
    started.started.sampling.n = 3
    event = event_of(started)
    assert event is not None
    transcript.add(event)
    for output in (2, 0, 1):
        assert not transcript.complete
        transcript.add(Delta(output, 0, (output,), str(output)))
        transcript.add(Finished(output, EndReason.STOP, None, None, Usage(5, 2, 1), Timings(0, 0, 0)))
    assert transcript.complete
    whole = transcript.completion()
    assert [(output.index, output.ids, output.text) for output in whole.outputs] == [
        (output, (output,), str(output)) for output in range(3)
    ]
    assert whole.usage == Usage(prompt_tokens=5, cached_tokens=2, output_tokens=3)


def test_each_of_several_outputs_ends_once() -> None:
    transcript = Transcript()
    ends: list[Event] = [
        Finished(output, EndReason.STOP, None, None, Usage(1, 0, 1), Timings(0, 0, 0)) for output in range(2)
    ]
    first: list[Event] = [Delta(output, 0, (output,), "x") for output in range(2)]
    assert [transcript.add(event) for event in (*first, ends[0])] == [*first, ends[0]]
    assert not transcript.complete
    transcript.begin_attempt()
    assert [transcript.add(event) for event in (*first, *ends)] == [None, None, None, ends[1]]
    assert transcript.complete
