"""Batches: every request ends as it would alone, whatever becomes of the one stream that carries them."""

from collections import deque
from collections.abc import AsyncIterator, Sequence
from itertools import zip_longest
from typing import Any

import grpc
import pytest

from pagehold.client import (
    AlreadyExists,
    Completion,
    DeadlineExceeded,
    InvalidRequest,
    NeverFits,
    Overloaded,
    PageholdError,
)
from pagehold.common.v1 import errors_pb2
from pagehold.inference.v1 import generation_pb2
from tests.unit.client.answers import Answer, Attempt
from tests.unit.client.callers import Caller
from tests.unit.client.scripted_service import ScriptedService
from tests.unit.client.steps import BREAK, Held, Refusal

ANSWERS = (Answer(["a", "b", "c"], name="one"), Answer(["é", ""], held=[1], name="two"), Answer(["x"], name="three"))
EVENTS = sum(len(list(answer.events())) for answer in ANSWERS)


class Items(ScriptedService):
    """Answers request n of a batch with ``ANSWERS[n]``, one event of each in turn; single calls by their names.

    ``failures`` has what fails, by place; with ``started`` set, behind its first token.
    """

    def __init__(self) -> None:
        super().__init__()
        self.failures: dict[int, generation_pb2.ItemFailure] = {}
        self.started = False
        self.batch = self._answer
        self.known: dict[str, Answer] = {}

    async def _answer(self, request: Any) -> AsyncIterator[Any]:
        for one, answer in zip(request.requests, ANSWERS, strict=False):
            self.known |= {one.request_id: answer, answer.id: answer}
        streams: list[list[Any]]
        streams = [list(answer.events()) for answer, _ in zip(ANSWERS, request.requests, strict=False)]
        for place, failure in self.failures.items():
            streams[place] = [*streams[place][: 2 if self.started else 0], failure]
        for row in zip_longest(*streams):
            for place, said in enumerate(row):
                if isinstance(said, generation_pb2.ItemFailure):
                    yield generation_pb2.BatchGenerateResponse(item=place, failure=said)
                elif said is not None:
                    yield generation_pb2.BatchGenerateResponse(item=place, event=said)

    def answer_to(self, request: Any) -> Answer:
        """The answer to a single call."""
        name = request.request_id or request.id
        return self.known.get(name, self.answer)


@pytest.fixture
def service() -> Items:
    return Items()


def texts(outcomes: Sequence[Completion | PageholdError]) -> list[Any]:
    return [one.text if isinstance(one, Completion) else type(one) for one in outcomes]


def failure_of(code: grpc.StatusCode, reason: errors_pb2.ErrorReason) -> generation_pb2.ItemFailure:
    return generation_pb2.ItemFailure(code=code.value[0], reason=reason, message="no")


def test_answers_come_in_the_order_of_the_requests(caller: Caller, service: Items) -> None:
    outcomes = caller.batch(["x", {"prompt": "y", "max_tokens": 3}, {"ids": [1]}], max_tokens=9, temperature=0)
    assert texts(outcomes) == ["abc", "é", "x"]
    assert service.methods() == ["BatchGenerate"]
    sent = service.calls[0][1].requests
    assert [one.stopping.max_tokens for one in sent] == [9, 3, 9]
    assert len({one.request_id for one in sent}) == 3


@pytest.mark.parametrize("breaks_after", range(EVENTS + 1))
def test_a_break_at_any_event_leaves_every_answer_whole(caller: Caller, service: Items, breaks_after: int) -> None:
    service.script += [Attempt(breaks_after=breaks_after)]
    outcomes = caller.batch(["x", "y", "z"])
    assert texts(outcomes) == ["abc", "é", "x"]
    assert [list(one.ids) for one in outcomes] == [answer.ids for answer in ANSWERS]


def test_what_had_started_is_attached_to_and_the_rest_asked_for_by_the_same_name(
    caller: Caller, service: Items
) -> None:
    service.script += [Attempt(breaks_after=2)]
    caller.batch(["x", "y", "z"])
    names = [one.request_id for one in service.calls[0][1].requests]
    assert sorted(service.methods()) == ["Attach", "Attach", "BatchGenerate", "Generate"]
    assert {request.id for method, request in service.calls if method == "Attach"} == {ANSWERS[0].id, ANSWERS[1].id}
    assert [request.request_id for method, request in service.calls if method == "Generate"] == names[2:]


def test_what_is_wrong_with_one_fails_that_one_alone(caller: Caller, service: Items) -> None:
    service.failures[1] = failure_of(grpc.StatusCode.FAILED_PRECONDITION, errors_pb2.ERROR_REASON_NEVER_FITS)
    assert texts(caller.batch(["x", "y", "z"])) == ["abc", NeverFits, "x"]


def test_one_that_found_the_server_busy_is_asked_again_on_request(caller: Caller, service: Items) -> None:
    service.failures[0] = failure_of(grpc.StatusCode.RESOURCE_EXHAUSTED, errors_pb2.ERROR_REASON_QUEUE_FULL)
    assert texts(caller.batch(["x", "y"])) == [Overloaded, "é"]
    assert texts(caller.batch(["x", "y"], retry_overload=True)) == ["abc", "é"]


@pytest.mark.parametrize(("started", "method"), [(False, "Generate"), (True, "Attach")])
def test_one_whose_door_stopped_is_taken_up_elsewhere(
    caller: Caller, service: Items, started: bool, method: str
) -> None:
    service.failures[0] = failure_of(grpc.StatusCode.UNAVAILABLE, errors_pb2.ERROR_REASON_NOT_SERVING)
    service.started = started
    assert texts(caller.batch(["x", "y"])) == ["abc", "é"]
    assert service.methods() == ["BatchGenerate", method]


def test_one_whose_name_is_taken_fails_unless_it_was_this_batch_that_took_it(caller: Caller, service: Items) -> None:
    service.failures[0] = failure_of(grpc.StatusCode.ALREADY_EXISTS, errors_pb2.ERROR_REASON_ALREADY_EXISTS)
    assert texts(caller.batch(["x", "y"])) == [AlreadyExists, "é"]
    service.script += [BREAK]
    assert texts(caller.batch(["x", "y"])) == ["abc", "é"]
    assert service.methods()[-1] == "Attach"


def test_a_batch_that_is_refused_as_a_whole_raises(caller: Caller, service: Items) -> None:
    service.script += [Refusal(grpc.StatusCode.INVALID_ARGUMENT, "ERROR_REASON_INVALID_FIELD", text="too many")]
    with pytest.raises(InvalidRequest, match="too many"):
        caller.batch(["x"] * 3)


def test_what_the_deadline_leaves_unfinished_is_said_of_each(caller: Caller, service: Items) -> None:
    # What is not held has to come within the deadline.
    for seconds in (0.5, 2, 8, 32):
        service.script = deque([Held(after=EVENTS - 1)])
        first, *others = texts(caller.batch(["x", "y", "z"], timeout=seconds))
        if DeadlineExceeded not in others:
            break
    assert (first, others) == (DeadlineExceeded, ["é", "x"])


def test_a_stream_that_leaves_tokens_out_fails_its_item_alone(caller: Caller, service: Items) -> None:
    async def gapped(request: Any) -> AsyncIterator[Any]:
        for place, answer in enumerate(ANSWERS[:2]):
            for number, event in enumerate(answer.events()):
                if (place, number) != (0, 1):
                    yield generation_pb2.BatchGenerateResponse(item=place, event=event)

    service.batch = gapped
    outcomes = caller.batch(["x", "y"])
    assert "token 1 where 0 was next" in str(outcomes[0])
    assert texts(outcomes[1:]) == ["é"]
