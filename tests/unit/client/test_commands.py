"""The callers' commands against a scripted service: what they print, and what they exit with."""

import json
import re
import signal
from collections import deque
from typing import Any

import grpc
import pytest

from pagehold.inference.v1 import requests_pb2, server_pb2
from tests.scripted.processes import wait_until
from tests.unit.client.answers import Answer, Attempt, Several
from tests.unit.client.console import Console, start
from tests.unit.client.scripted_service import ScriptedService, model
from tests.unit.client.serving import Served
from tests.unit.client.steps import Broken, Held, Refusal
from tests.unit.client.test_streams import LOST, QUEUE_FULL, UNKNOWN


def sent(service: ScriptedService) -> Any:
    return service.calls[-1][1]


# -- generate ----------------------------------------------------------------------------------------------------------


def test_generate_prints_the_text_and_how_fast_it_came(console: Console, service: ScriptedService) -> None:
    service.answer = Answer(["Par", "\x1b[1mis\x1b[0m", "."])
    result = console.run("generate", "What is the capital of France?")
    assert (result.exit_code, result.stdout) == (0, "Par\x1b[1mis\x1b[0m.\n")
    assert re.fullmatch(r"3 tokens, the first after \d+\.\d\d s, then \d+\.\d tokens/s, length\n", result.stderr)
    assert sent(service).prompt.text == "What is the capital of France?"


def test_generate_prints_each_of_several_samples_once_it_is_whole(console: Console, service: ScriptedService) -> None:
    service.answer = Several(["Par", "is", "."])
    result = console.run("generate", "x", "--samples", "3")
    assert sent(service).sampling.n == 3
    assert result.stdout.splitlines() == [
        line
        for output in (2, 1, 0)
        for line in (f"--- output {output}, seed {70 + output}: 3 tokens, length", "Paris.")
    ]
    assert result.stderr.startswith("9 tokens, ")


def test_generate_prints_events_as_json_lines(console: Console, service: ScriptedService) -> None:
    service.answer = Answer(["é", ""], stop="END")
    lines = [json.loads(line) for line in console("generate", "x", "--json").splitlines()]
    assert [line["event"] for line in lines] == ["started", "delta", "delta", "finished"]
    assert (lines[0]["id"], lines[0]["sampling"]["seed"]) == (service.answer.id, 2**64 - 1)
    assert lines[1] == {"event": "delta", "output": 0, "first_token": 0, "ids": [100], "text": "é"}
    assert (lines[3]["reason"], lines[3]["stop"], lines[3]["usage"]["output_tokens"]) == ("stop", "END", 2)
    assert "stop_token_id" not in lines[3]


def test_generate_reads_standard_input(console: Console, service: ScriptedService) -> None:
    console("generate", "-", stdin="line one\nline two\n")
    assert sent(service).prompt.text == "line one\nline two\n"


def test_generate_takes_ids_and_chats(console: Console, service: ScriptedService) -> None:
    console("generate", "--ids", "1, 2,3")
    assert list(sent(service).prompt.ids.ids) == [1, 2, 3]
    console("generate", "Hi", "--chat")
    assert [(one.role, one.content) for one in sent(service).prompt.chat.messages] == [("user", "Hi")]
    console("generate", "Hi", "--system", "Be brief.")
    assert [one.role for one in sent(service).prompt.chat.messages] == ["system", "user"]


def test_generate_sends_every_parameter(console: Console, service: ScriptedService) -> None:
    console(
        *("generate", "x", "-t", "0", "--top-k", "-1", "--top-p", "0.5", "--min-p", "0.25", "--seed", "7", "-n", "9"),
        *("--min-tokens", "1", "--stop", "A", "--stop", "B", "--stop-token-id", "5", "--ignore-eos"),
        *("--cache-salt", "s", "--cache-bypass", "--cache-no-store", "--priority", "-4", "--model", "toy"),
        *("--request-id", "mine", "--detached", "--time-budget", "1.5", "--timeout", "20"),
    )
    request = sent(service)
    sampling, stopping, cache = request.sampling, request.stopping, request.cache
    assert sampling.HasField("temperature")
    assert (sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p) == (0, -1, 0.5, 0.25)
    assert (sampling.seed, stopping.max_tokens, stopping.min_tokens, list(stopping.stop)) == (7, 9, 1, ["A", "B"])
    assert (list(stopping.stop_token_ids), stopping.ignore_eos) == ([5], True)
    assert (cache.salt, cache.bypass, cache.no_store, request.priority) == ("s", True, True, -4)
    assert (request.model, request.request_id, request.detached, request.time_budget) == ("toy", "mine", True, 1.5)


def test_generate_says_nothing_of_what_it_was_not_told(console: Console, service: ScriptedService) -> None:
    console("generate", "x")
    assert {field.name for field, _ in sent(service).ListFields()} == {"request_id", "prompt"}


def test_generate_goes_on_over_a_break(console: Console, service: ScriptedService) -> None:
    service.script += [Attempt(breaks_after=2)]
    assert console("generate", "x") == "Paris.\n"


def test_generate_waits_for_a_busy_server_on_request(console: Console, service: ScriptedService) -> None:
    service.script += [QUEUE_FULL, QUEUE_FULL]
    assert console("generate", "x", "--retry-overload") == "Paris.\n"


def test_generate_keeps_what_came_before_an_error_and_says_it_in_a_line(
    console: Console, service: ScriptedService
) -> None:
    service.script += [Broken(2, LOST)]
    result = console.run("generate", "x")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "Par\n", "no\n")


@pytest.mark.parametrize(
    "arguments", [[], ["x", "--ids", "1"], ["--ids", "1", "--chat"], ["--ids", "one"], ["--ids", "1", "--system", "x"]]
)
def test_generate_refuses_what_is_no_prompt(console: Console, service: ScriptedService, arguments: list[str]) -> None:
    assert console.run("generate", *arguments).exit_code == 2
    assert service.calls == []


def test_wrong_values_are_named_in_a_line(console: Console) -> None:
    result = console.run("generate", "x", "-n", "-5")
    assert result.exit_code == 1
    assert result.stderr.startswith("the request is not valid: stopping.max_tokens: is -5")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [["generate", "x"], ["chat"], ["models"], ["requests"], ["cancel", "x"], ["load"]]
)
def test_no_server_is_said_in_a_line(console: Console, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    monkeypatch.setattr("pagehold.client.persistence.Persistence.limit", 0.0)
    result = console.run(*arguments, address="127.0.0.1:1")
    assert result.exit_code == 1
    assert result.stderr.startswith("no server answers at 127.0.0.1:1 (Connection refused")
    assert result.stderr.endswith("; start one with `pagehold up`, or give its --address\n")
    assert result.stderr.count("\n") == 1


def test_interrupting_generate_hangs_up_and_exits_with_130(served: Served, service: ScriptedService) -> None:
    service.script += [Held(after=2)]
    process = start(served, "generate", "x")
    assert process.stdout is not None
    assert process.stdout.read(3) == "Par"
    process.send_signal(signal.SIGINT)
    printed, errors = process.communicate(timeout=150)
    assert (process.returncode, printed, errors) == (130, "\n", "")
    wait_until(lambda: service.hung_up == 1, "the server has noticed")


# -- the others --------------------------------------------------------------------------------------------------------


def test_models_are_listed(console: Console) -> None:
    head, row = console("models").splitlines()
    assert head.split() == ["model", "ready", "chat", "context", "vocabulary", "revision"]
    assert row.split() == ["toy", "yes", "yes", "2048", "500", "main"]
    (described,) = json.loads(console("models", "--json"))
    assert (described["name"], described["defaults"]) == ("toy", {"temperature": 0.5})


def test_load_is_shown(console: Console, service: ScriptedService) -> None:
    assert "100, 90 of them free or evictable" in console("load")
    assert json.loads(console("load", "--json"))["age"] == 0.5
    service.unary["GetLoad"] = deque([server_pb2.GetLoadResponse()])
    assert "never" in console("load")


def test_requests_are_listed(console: Console, service: ScriptedService) -> None:
    printed = console("requests", "--limit", "2")
    assert sent(service).limit == 2
    assert "waiting" in printed
    assert printed.endswith("5 more; --limit 7 lists all.\n")
    assert json.loads(console("requests", "--json"))["total"] == 7
    service.unary["ListRequests"] = deque([requests_pb2.ListRequestsResponse()])
    assert console("requests") == "No request is in flight.\n"


def test_cancel_takes_an_id_or_a_name(console: Console, service: ScriptedService) -> None:
    assert console("cancel", "mine") == "It ends.\n"
    assert sent(service).request_id == "mine"
    service.unary["Cancel"] = deque([requests_pb2.CancelResponse(cancelled=False)])
    assert console("cancel", service.answer.id) == "It had ended before.\n"
    assert sent(service).id == service.answer.id
    assert json.loads(console("cancel", "mine", "--json")) == {"cancelled": True}
    service.unary["Cancel"] = deque([UNKNOWN])
    assert console.run("cancel", "other").exit_code == 1


def test_a_server_of_another_kind_is_named(console: Console, service: ScriptedService) -> None:
    assert model().name == "toy"
    service.unary["ListModels"] = deque([Refusal(grpc.StatusCode.UNIMPLEMENTED)])
    assert "is no inference server" in console.run("models").stderr
