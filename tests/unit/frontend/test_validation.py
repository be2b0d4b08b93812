"""Requests looked at before anything is begun."""

import math
from typing import Any

import pytest

from executor.frontend.errors import InvalidRequest
from executor.frontend.validation import (
    MOST_MESSAGES,
    Findings,
    PromptLimits,
    check_context,
    check_generate,
    check_length,
    check_text,
)
from pagehold.inference.v1 import generation_pb2

VOCABULARY, MAX_LENGTH, LONGEST_TEXT = 100, 64, 1000
LIMITS = PromptLimits(VOCABULARY, MAX_LENGTH, LONGEST_TEXT)


def request(**fields: Any) -> generation_pb2.GenerateRequest:
    """A right request, but for what is given."""
    made = generation_pb2.GenerateRequest()
    made.prompt.text = "hello"
    for path, value in fields.items():
        *groups, name = path.split("__")
        message = made
        for group in groups:
            message = getattr(message, group)
        if isinstance(value, list):
            getattr(message, name).extend(value)
        else:
            setattr(message, name, value)
    return made


def wrong(made: generation_pb2.GenerateRequest) -> dict[str, str]:
    """What is wrong with it: field to description."""
    try:
        check_generate(made, LIMITS)
    except InvalidRequest as error:
        return {one.field: one.description for one in error.violations}
    return {}


RIGHT = [
    {"sampling__temperature": 0.0},
    {"sampling__temperature": 100.0},
    {"sampling__top_k": -1},
    {"sampling__top_k": 0},
    {"sampling__top_k": 1},
    {"sampling__top_k": 1 << 31},
    {"sampling__top_k": VOCABULARY},
    {"sampling__top_k": VOCABULARY + 1},
    {"sampling__top_p": 1e-9},
    {"sampling__top_p": 1.0},
    {"sampling__min_p": 0.0},
    {"sampling__min_p": 1.0},
    {"sampling__seed": (1 << 64) - 1},
    {"sampling__n": 1},
    {"sampling__n": 64},
    {"stopping__max_tokens": 1},
    {"stopping__max_tokens": MAX_LENGTH - 1},
    {"stopping__max_tokens": 4, "stopping__min_tokens": 4},
    {"stopping__stop": ["x" * 1024] * 16},
    {"stopping__stop_token_ids": [VOCABULARY - 1] * 64},
    {"cache__salt": "s" * 256},
    {"priority": -100},
    {"priority": 100},
    {"time_budget": 86_400.0},
    {"request_id": "r" * 128},
]

WRONG: list[tuple[str, dict[str, Any]]] = [
    ("sampling.temperature", {"sampling__temperature": -0.1}),
    ("sampling.temperature", {"sampling__temperature": 100.5}),
    ("sampling.temperature", {"sampling__temperature": math.nan}),
    ("sampling.temperature", {"sampling__temperature": math.inf}),
    ("sampling.top_k", {"sampling__top_k": -2}),
    ("sampling.top_k", {"sampling__top_k": -(1 << 62)}),
    ("sampling.top_p", {"sampling__top_p": 0.0}),
    ("sampling.top_p", {"sampling__top_p": 1.0001}),
    ("sampling.top_p", {"sampling__top_p": math.nan}),
    ("sampling.min_p", {"sampling__min_p": -1e-9}),
    ("sampling.min_p", {"sampling__min_p": 1.5}),
    ("sampling.min_p", {"sampling__min_p": -math.inf}),
    ("sampling.n", {"sampling__n": 0}),
    ("sampling.n", {"sampling__n": 65}),
    ("stopping.max_tokens", {"stopping__max_tokens": 0}),
    ("stopping.max_tokens", {"stopping__max_tokens": MAX_LENGTH}),
    ("stopping.min_tokens", {"stopping__max_tokens": 3, "stopping__min_tokens": 4}),
    ("stopping.min_tokens", {"stopping__min_tokens": MAX_LENGTH}),
    ("stopping.stop", {"stopping__stop": ["x"] * 17}),
    ("stopping.stop[1]", {"stopping__stop": ["x", ""]}),
    ("stopping.stop[0]", {"stopping__stop": ["x" * 1025]}),
    ("stopping.stop_token_ids", {"stopping__stop_token_ids": [1] * 65}),
    ("stopping.stop_token_ids[1]", {"stopping__stop_token_ids": [1, VOCABULARY]}),
    ("cache.salt", {"cache__salt": "é" * 129}),
    ("priority", {"priority": 101}),
    ("priority", {"priority": -101}),
    ("time_budget", {"time_budget": 0.0}),
    ("time_budget", {"time_budget": 86_401.0}),
    ("time_budget", {"time_budget": math.nan}),
    ("request_id", {"request_id": ""}),
    ("request_id", {"request_id": "a\nb"}),
    ("request_id", {"request_id": "r" * 129}),
]


@pytest.mark.parametrize("fields", RIGHT, ids=str)
def test_values_at_their_limits_are_right(fields: dict[str, Any]) -> None:
    assert wrong(request(**fields)) == {}


@pytest.mark.parametrize(("field", "fields"), WRONG, ids=lambda value: str(value)[:40])
def test_values_beyond_their_limits_are_named_by_their_path(field: str, fields: dict[str, Any]) -> None:
    assert list(wrong(request(**fields))) == [field]


def test_everything_wrong_is_found_at_once_with_value_and_limit() -> None:
    found = wrong(request(sampling__temperature=-1.0, sampling__top_p=2.0, stopping__max_tokens=0, priority=1000))
    assert found == {
        "sampling.temperature": "is -1.0, but must lie in 0..100",
        "sampling.top_p": "is 2.0, but must be above 0 and at most 1",
        "stopping.max_tokens": "is 0, but must lie in 1..63: prompt and output together have at most 64 tokens",
        "priority": "is 1000, but must lie in -100..100",
    }


@pytest.mark.parametrize(
    ("field", "prompt"),
    [
        ("prompt", {}),
        ("prompt.text", {"text": ""}),
        ("prompt.ids.ids", {"ids": {"ids": []}}),
        ("prompt.ids.ids[2]", {"ids": {"ids": [0, 99, 100]}}),
        ("prompt.chat.messages", {"chat": {"messages": []}}),
        ("prompt.chat.messages[0].role", {"chat": {"messages": [{"content": "hello"}]}}),
        ("prompt.text", {"text": "é" * (LONGEST_TEXT + 1)}),
        ("prompt.ids.ids", {"ids": {"ids": [0] * MAX_LENGTH}}),
        ("prompt.chat.messages", {"chat": {"messages": [{"role": "user"}] * (MOST_MESSAGES + 1)}}),
        ("prompt.chat.messages", {"chat": {"messages": [{"role": "user", "content": "x" * 501}] * 2}}),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_prompt_must_be_there_say_something_and_not_be_longer_than_any_can(
    field: str, prompt: dict[str, Any]
) -> None:
    assert list(wrong(generation_pb2.GenerateRequest(prompt=prompt))) == [field]
    assert list(wrong(generation_pb2.GenerateRequest())) == ["prompt"]


def test_of_many_wrong_ids_the_first_are_named_and_the_rest_counted() -> None:
    found = wrong(generation_pb2.GenerateRequest(prompt={"ids": {"ids": [VOCABULARY] * 60}}))
    assert list(found) == [*(f"prompt.ids.ids[{place}]" for place in range(3)), "prompt.ids.ids"]
    assert "57 more places" in found["prompt.ids.ids"]
    silent = wrong(generation_pb2.GenerateRequest(prompt={"chat": {"messages": [{"content": "x"}] * 60}}))
    assert list(silent)[2:] == ["prompt.chat.messages[2].role", "prompt.chat.messages"]


def test_of_more_than_may_be_none_is_looked_at() -> None:
    ids, stops = [VOCABULARY] * MAX_LENGTH, [""] * 17
    assert wrong(generation_pb2.GenerateRequest(prompt={"ids": {"ids": ids}})) == {
        "prompt.ids.ids": "is 64 tokens long, but may have at most 63: prompt and output together have at most 64"
    }
    assert wrong(request(stopping__stop=[*["x"] * 16, *stops]))["stopping.stop"] == "is 33 texts, but may be at most 16"


def test_ids_are_right_and_wrong_wherever_they_are_cut_into_pieces() -> None:
    found = Findings()
    found.ids("ids", [*[1] * 100_000, VOCABULARY], VOCABULARY, 1 << 20)
    assert [one.field for one in found.violations] == ["ids[100000]"]


def test_a_long_name_is_shown_in_part() -> None:
    shown = wrong(request(request_id="r" * 100_000))["request_id"]
    assert len(shown) < 150


def test_a_text_may_be_as_long_as_its_limit() -> None:
    check_text("text", 5, 5)
    with pytest.raises(InvalidRequest, match="text is 6 characters long, but may have at most 5"):
        check_text("text", 6, 5)


@pytest.mark.parametrize(
    ("tokens", "stopping", "numbers"),
    [
        (60, {"max_tokens": 5}, ("stopping.max_tokens", "5", "at most 4", "60 tokens of 64")),
        (60, {"min_tokens": 5}, ("stopping.min_tokens", "5", "at most 4")),
    ],
)
def test_prompt_and_output_must_fit_the_context(tokens: int, stopping: dict[str, int], numbers: tuple[str]) -> None:
    with pytest.raises(InvalidRequest) as raised:
        check_length(tokens, generation_pb2.GenerateRequest(stopping=stopping), MAX_LENGTH)
    assert all(number in str(raised.value) for number in numbers)


@pytest.mark.parametrize(("tokens", "numbers"), [(0, ("0 tokens", "at least one")), (64, ("64 tokens", "63", "64"))])
def test_a_prompt_has_a_token_and_leaves_room_for_one(tokens: int, numbers: tuple[str]) -> None:
    with pytest.raises(InvalidRequest) as raised:
        check_context(tokens, MAX_LENGTH)
    assert all(number in str(raised.value) for number in ("prompt", *numbers))


def test_a_prompt_that_leaves_room_for_one_token_fits() -> None:
    check_context(63, MAX_LENGTH)
    check_length(63, generation_pb2.GenerateRequest(), MAX_LENGTH)
    check_length(60, generation_pb2.GenerateRequest(stopping={"max_tokens": 4}), MAX_LENGTH)
