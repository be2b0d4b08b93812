"""What a request asks for, with everything filled in."""

from typing import Any

import pytest

from executor.frontend import parameters
from executor.frontend.errors import InvalidRequest
from executor.outputs import output_of, seed_of
from pagehold.engine.v1 import description_pb2, request_pb2
from pagehold.inference.v1 import generation_pb2

PROMPT = 10


def model(**fields: Any) -> description_pb2.ModelDescription:
    return description_pb2.ModelDescription(name="m", vocabulary=100, max_length=64, eos_token_ids=[2, 3], **fields)


def settle(description: description_pb2.ModelDescription | None = None, **fields: Any) -> request_pb2.Request:
    request = generation_pb2.GenerateRequest(**fields)
    return parameters.settle(request, description or model(), PROMPT, 32, arrived=1000.0)


def test_a_request_that_says_nothing_samples_plainly_up_to_the_servers_default() -> None:
    settled = settle().parameters
    assert (settled.temperature, settled.top_k, settled.top_p, settled.min_p) == (1.0, 0, 1.0, 0.0)
    assert (settled.max_tokens, settled.min_tokens, list(settled.end_ids)) == (32, 0, [2, 3])
    assert not settled.HasField("deadline")


def test_what_a_request_does_not_say_the_models_configuration_does() -> None:
    description = model(temperature=0.6, top_k=20, top_p=0.95, min_p=0.1, do_sample=True)
    settled = settle(description, sampling={"top_p": 0.5}).parameters
    assert (settled.temperature, settled.top_k, settled.top_p, settled.min_p) == (0.6, 20, 0.5, 0.1)


def test_a_model_that_is_meant_to_be_greedy_is_and_its_filters_do_not_count() -> None:
    description = model(temperature=0.6, top_k=20, do_sample=False)
    assert settle(description).parameters.temperature == 0.0
    settled = settle(description, sampling={"temperature": 0.8}).parameters
    assert (settled.temperature, settled.top_k) == (0.8, 0)


def test_zeros_that_are_said_are_no_absence() -> None:
    description = model(temperature=0.6, top_k=20, min_p=0.1)
    settled = settle(description, sampling={"temperature": 0.0, "top_k": 0, "min_p": 0.0}).parameters
    assert (settled.temperature, settled.top_k, settled.min_p) == (0.0, 0, 0.0)


@pytest.mark.parametrize(("said", "effective"), [(-1, 0), (0, 0), (1, 1), (99, 99), (100, 0), (101, 0), (1 << 31, 0)])
def test_top_k_of_the_whole_vocabulary_and_more_is_off(said: int, effective: int) -> None:
    assert settle(sampling={"top_k": said}).parameters.top_k == effective


def test_the_default_of_max_tokens_is_what_is_left_of_the_context_if_that_is_less() -> None:
    request = generation_pb2.GenerateRequest()
    assert parameters.settle(request, model(), 60, 32, 0.0).parameters.max_tokens == 4
    assert settle(stopping={"min_tokens": 40}).parameters.max_tokens == 40


def test_ends_are_end_of_sequence_and_stop_ids_unless_the_former_are_ignored() -> None:
    assert list(settle(stopping={"stop_token_ids": [7, 3]}).parameters.end_ids) == [2, 3, 7]
    assert list(settle(stopping={"stop_token_ids": [7], "ignore_eos": True}).parameters.end_ids) == [7]


def test_a_seed_is_drawn_unless_there_is_one() -> None:
    assert settle(sampling={"seed": 0}).parameters.seed == 0
    assert len({settle().parameters.seed for _ in range(8)}) > 1


def test_a_time_budget_counts_from_the_arrival() -> None:
    assert settle(time_budget=2.5).parameters.deadline == 1002.5


def test_the_echo_has_every_field() -> None:
    settled = settle(stopping={"stop": ["x"], "stop_token_ids": [7]}, cache={"salt": "s"})
    for echo in (parameters.sampling_of(settled), parameters.stopping_of(settled), parameters.cache_of(settled)):
        present = {field.name for field, _ in echo.ListFields()}
        assert present == set(echo.DESCRIPTOR.fields_by_name)


def test_a_request_larger_than_what_is_kept_is_refused_with_both_numbers() -> None:
    settled = settle(stopping={"stop": ["é" * 1000] * 16})
    with pytest.raises(InvalidRequest, match=r"32\d+ bytes, but 4096 are kept"):
        parameters.check_size(settled, 4096)
    assert parameters.check_size(settled, 1 << 16) == settled.SerializeToString(deterministic=True)


def test_several_outputs_are_echoed_with_the_seed_of_each() -> None:
    settled = settle(sampling={"seed": 5, "n": 3})
    assert settled.outputs == parameters.sampling_of(settled).n == 3
    assert parameters.seeds_of(settled) == [5, seed_of(5, 1), seed_of(5, 2)]
    assert (parameters.sampling_of(settle()).n, len(parameters.seeds_of(settle()))) == (1, 1)


def test_of_several_outputs_the_one_that_takes_most_must_fit_what_is_kept() -> None:
    settled = settle(sampling={"seed": 0, "n": 2})
    size = len(parameters.check_size(settled, 4096))
    assert size == output_of(settled, b"r" * 16, 1).ByteSize()
    with pytest.raises(InvalidRequest, match=f"take {size} bytes, but {size - 1} are kept"):
        parameters.check_size(settled, size - 1)


def test_digests_tell_bodies_and_callers_apart() -> None:
    first, second = generation_pb2.GenerateRequest(priority=1), generation_pb2.GenerateRequest(priority=2)
    assert parameters.body_digest(first) == parameters.body_digest(generation_pb2.GenerateRequest(priority=1))
    assert len({parameters.body_digest(first), parameters.body_digest(second), parameters.caller_digest("")}) == 3
    assert len(parameters.caller_digest("a")) == 16
