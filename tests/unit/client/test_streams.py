"""Streams over a real connection that breaks."""

from collections import deque
from collections.abc import Callable

import grpc
import pytest

from pagehold.client import (
    AlreadyExists,
    DeadlineExceeded,
    Delta,
    EndReason,
    GenerationLost,
    Overloaded,
    ServerFault,
    Started,
    Unavailable,
)
from tests.scripted.processes import wait_until
from tests.unit.client.answers import Answer, Attempt, Several
from tests.unit.client.callers import Caller
from tests.unit.client.scripted_service import ScriptedService
from tests.unit.client.serving import Served
from tests.unit.client.steps import BREAK, Broken, Held, Refusal
from tests.unit.client.test_exactly_once import check_delivered

ANSWER = Answer(["Der ", "Fluß", " heißt", " 日本", "!"], held=[4, 3, 0, 2], progress=(2, 5))
EVENTS = len(list(ANSWER.events()))
QUEUE_FULL = Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "ERROR_REASON_QUEUE_FULL", metadata={"limit": "8"})
LOST = Refusal(grpc.StatusCode.UNAVAILABLE, "ERROR_REASON_GENERATION_LOST", metadata={"tokens": "3"})
EXISTS = Refusal(grpc.StatusCode.ALREADY_EXISTS, "ERROR_REASON_ALREADY_EXISTS")
UNKNOWN = Refusal(grpc.StatusCode.NOT_FOUND, "ERROR_REASON_NOT_FOUND")


@pytest.mark.parametrize("breaks_after", range(EVENTS + 1))
def test_a_break_at_any_event_leaves_the_stream_whole(
    caller: Caller, service: ScriptedService, breaks_after: int
) -> None:
    service.answer = ANSWER
    service.script += [Attempt(breaks_after=breaks_after), Attempt(cuts=(2,), breaks_after=1), Attempt(cuts=(1, 4))]
    stream = caller.stream("Wie heißt er?")
    check_delivered(caller.events(stream), ANSWER)
    assert stream.text == ANSWER.text
    assert list(stream.ids) == ANSWER.ids


def test_a_server_that_is_started_again_is_gone_on_with(
    caller: Caller, served: Served, service: ScriptedService
) -> None:
    service.answer = ANSWER
    service.script += [Held(after=5)]
    stream = caller.stream("Wie heißt er?")
    events = caller.first(stream, 5)
    served.stop()
    served.start()
    check_delivered(events + caller.events(stream), ANSWER)
    assert stream.reconnections >= 1
    assert service.methods() == ["Generate", "Attach"]


def test_a_whole_answer_is_made_of_the_events(caller: Caller, service: ScriptedService) -> None:
    service.answer = Answer(["a", "b"], stop="END")
    completion = caller.generate("x", request_id="mine")
    assert (completion.text, list(completion.ids)) == ("ab", service.answer.ids)
    assert (completion.id, completion.started.request_id) == (service.answer.id, "mine")
    assert completion.reason == EndReason.STOP
    assert completion.outputs[0].finished.stop == "END"
    assert completion.usage.output_tokens == 2
    assert completion.timings.total == 101.5
    assert completion.started.sampling.seed == 2**64 - 1


@pytest.mark.parametrize("breaks_after", [1, 4, 10, 11, 12])
def test_several_outputs_come_whole_over_a_break(caller: Caller, service: ScriptedService, breaks_after: int) -> None:
    service.answer = Several(["Par", "is", "."])
    service.script.append(Attempt(breaks_after=breaks_after))
    whole = caller.generate("x", n=3)
    assert service.methods() == ["Generate", "Attach"]
    assert [(output.index, output.text, output.ids) for output in whole.outputs] == [
        (output, "Paris.", (100, 101, 102)) for output in range(3)
    ]
    assert whole.started.seeds == (70, 71, 72)
    assert whole.usage.output_tokens == 9


def test_times_are_the_clients_own_where_the_connection_broke(caller: Caller, service: ScriptedService) -> None:
    service.script += [Attempt(breaks_after=2)]
    timings = caller.generate("x").timings
    assert timings.first_token is not None
    assert 0 < timings.queued <= timings.first_token < timings.total < 100


def test_text_so_far_is_there_while_it_streams(caller: Caller, service: ScriptedService) -> None:
    stream = caller.stream("x")
    assert (stream.text, stream.ids, stream.started) == ("", (), None)
    started, delta = caller.first(stream, 2)
    assert isinstance(started, Started)
    assert isinstance(delta, Delta)
    assert (stream.text, list(stream.ids), stream.started) == ("Par", [100], started)
    assert caller.done(stream.result()).text == stream.text == "Paris."


# -- before it has started ---------------------------------------------------------------------------------------------


def test_a_retry_has_the_same_name_and_a_drawn_one_if_there_is_none(caller: Caller, service: ScriptedService) -> None:
    service.script += [BREAK, BREAK]
    caller.generate("x")
    service.script += [BREAK]
    caller.generate("x", request_id="mine")
    names = [request.request_id for _, request in service.calls]
    assert names[3:] == ["mine", "mine"]
    assert len(set(names[:3])) == 1
    assert len(names[0]) > 16


def test_a_request_that_arrived_before_its_call_broke_is_attached_to(caller: Caller, service: ScriptedService) -> None:
    service.script += [BREAK, EXISTS]
    check_delivered(caller.events(caller.stream("x", request_id="mine")), service.answer)
    assert service.methods() == ["Generate", "Generate", "Attach"]
    assert service.calls[-1][1].request_id == "mine"


def test_one_that_is_known_and_never_gets_accepted_is_asked_for_again(caller: Caller, service: ScriptedService) -> None:
    service.script += [BREAK, EXISTS, UNKNOWN]
    check_delivered(caller.events(caller.stream("x", request_id="mine")), service.answer)
    assert service.methods() == ["Generate", "Generate", "Attach", "Generate"]


def test_a_name_that_is_taken_at_the_first_attempt_is_an_error(caller: Caller, service: ScriptedService) -> None:
    service.script += [EXISTS]
    with pytest.raises(AlreadyExists):
        caller.generate("x", request_id="mine")
    assert service.methods() == ["Generate"]


def test_a_busy_server_is_asked_again_only_on_request(caller: Caller, service: ScriptedService) -> None:
    service.script += [QUEUE_FULL]
    with pytest.raises(Overloaded) as refused:
        caller.generate("x")
    assert refused.value.metadata == {"limit": "8"}
    service.script += [QUEUE_FULL, QUEUE_FULL]
    assert caller.generate("x", retry_overload=True).text == "Paris."


def test_a_busy_servers_own_pause_is_kept(caller: Caller, service: ScriptedService) -> None:
    pushback = (("grpc-retry-pushback-ms", "300"),)
    service.script += [Refusal(QUEUE_FULL.code, QUEUE_FULL.reason, trailers=pushback)]
    assert caller.generate("x", retry_overload=True).timings.queued > 0.3


def test_a_pause_longer_than_the_deadline_is_not_waited_for(caller: Caller, service: ScriptedService) -> None:
    pushback = (("grpc-retry-pushback-ms", "60000"),)
    service.script += [Refusal(QUEUE_FULL.code, QUEUE_FULL.reason, trailers=pushback)]
    with pytest.raises(Overloaded) as refused:
        caller.generate("x", retry_overload=True, timeout=30)
    assert refused.value.retry_after == 60


def test_no_server_is_said_after_the_time_for_a_first_answer(connect: Callable[..., Caller]) -> None:
    caller = connect("127.0.0.1:1", connect_seconds=0.3)
    with pytest.raises(Unavailable, match=r"no server answers at 127\.0\.0\.1:1 \(.*refused"):
        caller.generate("x")


# -- once it has started -----------------------------------------------------------------------------------------------


def test_a_lost_generation_is_an_error_with_what_was_recorded(caller: Caller, service: ScriptedService) -> None:
    service.script += [Broken(2, LOST)]
    stream = caller.stream("x")
    with pytest.raises(GenerationLost) as lost:
        caller.events(stream)
    assert lost.value.tokens == 3
    assert stream.text == "Par"


def test_a_generation_that_is_forgotten_is_lost(caller: Caller, service: ScriptedService) -> None:
    service.script += [Attempt(breaks_after=3), UNKNOWN]
    with pytest.raises(GenerationLost, match="does not know the request") as lost:
        caller.generate("x")
    assert lost.value.tokens == 2


def test_a_fault_of_the_server_is_not_tried_again(caller: Caller, service: ScriptedService) -> None:
    fault = Refusal(grpc.StatusCode.INTERNAL, "ERROR_REASON_INTERNAL", metadata={"error_id": "7f"})
    service.script += [Broken(2, fault)]
    with pytest.raises(ServerFault) as raised:
        caller.generate("x")
    assert raised.value.error_id == "7f"
    assert service.methods() == ["Generate"]


@pytest.mark.parametrize("code", [grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL, grpc.StatusCode.CANCELLED])
def test_a_status_that_no_server_gave_a_reason_for_is_a_break(
    caller: Caller, service: ScriptedService, code: grpc.StatusCode
) -> None:
    service.script += [Broken(2, Refusal(code)), QUEUE_FULL]
    assert caller.generate("x").text == "Paris."
    assert service.methods() == ["Generate", "Attach", "Attach"]


def test_a_stream_that_ends_early_without_an_error_is_attached_to(caller: Caller, service: ScriptedService) -> None:
    service.ends_early = 2
    check_delivered(caller.events(caller.stream("x")), service.answer)
    assert service.methods() == ["Generate", "Attach", "Attach"]


def test_a_detached_request_is_attached_to_as_one(caller: Caller, service: ScriptedService) -> None:
    service.script += [Attempt(breaks_after=2)]
    caller.generate("x", detached=True)
    assert service.calls[1][1].detached is True
    service.script += [Attempt(breaks_after=2)]
    caller.generate("x")
    assert not service.calls[3][1].HasField("detached")


# -- deadlines ---------------------------------------------------------------------------------------------------------


def test_a_deadline_ends_the_call_and_hangs_up(caller: Caller, service: ScriptedService) -> None:
    # The first token has to come within the deadline.
    for seconds in (0.5, 2, 8, 32):
        service.script = deque([Held(after=2)])
        with pytest.raises(DeadlineExceeded, match=rf"within {seconds} s, after ") as late:
            caller.generate("x", timeout=seconds)
        if str(late.value).endswith("after 1 token"):
            break
    assert str(late.value).endswith("after 1 token")
    wait_until(lambda: service.hung_up == len(service.calls), "the server has noticed")
    assert {*service.methods()} == {"Generate"}


def test_a_deadline_between_two_connections_tells_the_server(caller: Caller, service: ScriptedService) -> None:
    # The first connection has to be there within the deadline.
    for seconds in (0.5, 2, 8, 32):
        service.script = deque([Attempt(breaks_after=2), *[BREAK] * 1000])
        stream = caller.stream("x", timeout=seconds)
        with pytest.raises(DeadlineExceeded):
            caller.events(stream)
        if stream.started is not None:
            break
    assert service.methods()[-1] == "Cancel"
    assert service.calls[-1][1].id == service.answer.id
