"""The calls that generate nothing, and what they send."""

from collections import deque
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from pagehold.client import (
    DeadlineExceeded,
    EndReason,
    InvalidRequest,
    NotFound,
    RequestState,
    SamplingParameters,
    Unavailable,
)
from pagehold.inference.v1 import prompt_pb2, server_pb2
from tests.unit.client.callers import Caller
from tests.unit.client.scripted_service import ScriptedService
from tests.unit.client.serving import Served
from tests.unit.client.steps import BREAK, Refusal


def sent(service: ScriptedService) -> Any:
    return service.calls[-1][1]


def test_text_becomes_tokens_and_tokens_text(caller: Caller, service: ScriptedService) -> None:
    assert caller.tokenize("ab", add_special_tokens=False) == [97, 98]
    assert sent(service).add_special_tokens is False
    assert caller.detokenize([97, 98], model="toy") == "ab"
    assert (sent(service).model, sent(service).HasField("skip_special_tokens")) == ("toy", False)


def test_a_prompt_is_rendered(caller: Caller, service: ScriptedService) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    rendered = caller.render_prompt(messages=messages, add_generation_prompt=False, model="toy")
    assert (rendered.text, rendered.ids) == ("<x>", (1,))
    chat = prompt_pb2.Chat(messages=[prompt_pb2.ChatMessage(role="user", content="Hi")], add_generation_prompt=False)
    assert sent(service).prompt.chat == chat


def test_models_are_described(caller: Caller, service: ScriptedService) -> None:
    (model,) = caller.models()
    assert (model.name, model.max_length, model.eos_token_ids, model.ready) == ("toy", 2048, (2,), True)
    assert model.defaults == SamplingParameters(temperature=0.5)
    assert caller.model("toy") == model
    assert sent(service).name == "toy"


def test_the_server_and_its_load_are_described(caller: Caller) -> None:
    info = caller.server_info()
    assert (info.version, info.door, info.limits.max_batch) == ("1", "door-0", 256)
    load = caller.load()
    assert (load.running, load.waiting, load.in_flight, load.free_blocks, load.age) == (1, 2, 3, 90, 0.5)


def test_an_engine_that_was_never_heard_has_no_age(caller: Caller, service: ScriptedService) -> None:
    service.unary["GetLoad"] = deque([server_pb2.GetLoadResponse()])
    assert caller.load().age is None


def test_requests_are_described(caller: Caller, service: ScriptedService) -> None:
    in_flight = caller.list_requests(5)
    assert sent(service).limit == 5
    waiting, ended = in_flight.requests
    assert in_flight.total == 7
    assert (waiting.state, waiting.request_id, waiting.reason) == (RequestState.WAITING, "mine", None)
    assert (ended.state, ended.request_id, ended.reason) == (RequestState.FINISHED, None, EndReason.STOP)
    one = caller.get_request("i")
    assert (one.state, one.output_tokens, one.created, one.finished) == (RequestState.RUNNING, 2, 1.5, None)


def test_a_call_whose_connection_breaks_is_made_again(caller: Caller, service: ScriptedService) -> None:
    service.unary["GetLoad"] = deque([BREAK, BREAK])
    assert caller.load().running == 1
    assert service.methods() == ["GetLoad"] * 3


def test_a_call_that_is_refused_is_not_made_again(caller: Caller, service: ScriptedService) -> None:
    service.unary["GetModel"] = deque([Refusal(grpc.StatusCode.NOT_FOUND, "ERROR_REASON_NOT_FOUND")])
    with pytest.raises(NotFound):
        caller.model("other")
    assert service.methods() == ["GetModel"]


def test_a_server_that_is_loading_is_waited_for(connect: Callable[..., Caller], service: ScriptedService) -> None:
    loading = Refusal(grpc.StatusCode.UNAVAILABLE, "ERROR_REASON_NOT_SERVING")
    service.unary["GetLoad"] = deque([loading] * 3)
    # It has answered, so the time for a first answer does not count any more.
    assert connect(connect_seconds=0.05).load().running == 1


def test_a_call_has_the_clients_timeout_or_its_own(connect: Callable[..., Caller], served: Served) -> None:
    served.stop()
    # Whichever of the two counts is short beside all others, which nobody would wait for.
    for timeout, named in ((0.2, {}), (3600.0, {"timeout": 0.4})):
        caller = connect(timeout=timeout, connect_seconds=3600.0)
        with pytest.raises((Unavailable, DeadlineExceeded)):
            caller.load(**named)


def test_the_address_comes_from_the_environment(
    connect: Callable[..., Caller], served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGEHOLD_ADDRESS", "127.0.0.1:1")
    assert connect().client.address == served.address
    from pagehold.client import Client

    with Client() as client:
        assert client.address == "127.0.0.1:1"
    monkeypatch.delenv("PAGEHOLD_ADDRESS")
    with Client() as client:
        assert client.address == "127.0.0.1:7071"


# -- parameters --------------------------------------------------------------------------------------------------------


def test_parameters_stand_where_the_contract_has_them(caller: Caller, service: ScriptedService) -> None:
    caller.generate(
        ids=[1, 2],
        model="toy",
        request_id="mine",
        temperature=0,
        top_k=-1,
        top_p=0.5,
        min_p=0.25,
        seed=2**64 - 1,
        max_tokens=7,
        min_tokens=0,
        stop="END",
        stop_token_ids=[3, 4],
        ignore_eos=False,
        cache_salt="s",
        cache_bypass=True,
        cache_no_store=False,
        priority=-3,
        detached=True,
        time_budget=1.5,
    )
    request = sent(service)
    assert list(request.prompt.ids.ids) == [1, 2]
    assert (request.model, request.request_id, request.priority, request.detached) == ("toy", "mine", -3, True)
    sampling, stopping, cache = request.sampling, request.stopping, request.cache
    assert sampling.HasField("temperature")
    assert (sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p) == (0, -1, 0.5, 0.25)
    assert (sampling.seed, request.time_budget) == (2**64 - 1, 1.5)
    assert (stopping.max_tokens, stopping.min_tokens, list(stopping.stop)) == (7, 0, ["END"])
    assert (list(stopping.stop_token_ids), stopping.HasField("ignore_eos")) == ([3, 4], True)
    assert (cache.salt, cache.bypass, cache.HasField("no_store")) == ("s", True, True)


def test_what_is_not_said_is_absent(caller: Caller, service: ScriptedService) -> None:
    caller.generate("x", temperature=None, stop=None)
    said = {field.name for field, _ in sent(service).ListFields()}
    assert said == {"request_id", "prompt"}


def test_empty_prompts_are_the_servers_to_refuse(caller: Caller, service: ScriptedService) -> None:
    for prompt, kind in (({"prompt": ""}, "text"), ({"ids": []}, "ids"), ({"messages": []}, "chat")):
        caller.generate(**prompt)
        assert sent(service).prompt.WhichOneof("content") == kind


def test_values_that_fit_no_field_are_all_named_and_nothing_is_sent(caller: Caller, service: ScriptedService) -> None:
    with pytest.raises(InvalidRequest) as raised:
        caller.generate(ids=[1, -1], max_tokens=-5, temperature="hot", stop=[1], seed=2**64, priority=2**40)
    fields = {"prompt.ids.ids", "sampling.seed", "sampling.temperature", "stopping.max_tokens", "stopping.stop"}
    assert raised.value.violations.keys() == {*(name.removeprefix("prompt.") for name in fields), "priority"}
    assert {field: said for field, (said,) in raised.value.violations.items() if "lie in" in said} == {
        "ids.ids": "is [1, -1], but each must lie in 0..4294967295",
        "sampling.seed": f"is {2**64}, but must lie in 0..{2**64 - 1}",
        "stopping.max_tokens": "is -5, but must lie in 0..4294967295",
        "priority": f"is {2**40}, but must lie in {-(2**31)}..{2**31 - 1}",
    }
    assert service.calls == []


def test_other_calls_name_what_does_not_fit_too(caller: Caller, service: ScriptedService) -> None:
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: caller.list_requests(-1), "limit"),
        (lambda: caller.detokenize([1, -1]), "ids"),
        (lambda: caller.tokenize(5), "text"),
        (lambda: caller.attach("i", from_token=-1), "from_token"),
        (lambda: caller.cancel(5), "id"),
    ]
    for call, field in wrong:
        with pytest.raises(InvalidRequest) as raised:
            call()
        assert list(raised.value.violations) == [field]
    assert service.calls == []


@pytest.mark.parametrize("given", [{}, {"prompt": "a", "ids": [1]}, {"ids": [1], "messages": []}])
def test_a_prompt_is_one_of_three(caller: Caller, given: Any) -> None:
    with pytest.raises(InvalidRequest, match="one of a text, ids and messages"):
        caller.generate(**given)


def test_a_message_has_a_role_and_content(caller: Caller) -> None:
    with pytest.raises(InvalidRequest) as raised:
        caller.generate(messages=[{"role": "user", "content": "x"}, {"role": "user"}, "hello"])
    assert raised.value.violations.keys() == {"messages[1]", "messages[2]"}


def test_a_parameter_that_does_not_exist_is_named(caller: Caller) -> None:
    with pytest.raises(TypeError, match="no parameter 'temprature'"):
        caller.generate("x", temprature=1)
