"""What the workloads ask for."""

import json

import pytest

from bench.serve.requests import check, read_requests, requests_of
from bench.serve.workloads import WORKLOADS, Request, WorkloadError, limited
from pagehold.client.parameters import generate_request

VOCABULARY = 500


def made(name: str, vocabulary: int = VOCABULARY) -> list[Request]:
    return list(WORKLOADS[name](vocabulary))


def test_seed_is_the_thousand_requests_of_the_simulation() -> None:
    from blockmgr.simulation.workload import uniform_requests

    requests = made("seed")
    assert [(one.prompt_tokens, one.max_tokens) for one in requests] == [
        (one.prompt, one.output) for one in uniform_requests()
    ]
    assert sum(one.max_tokens for one in requests) == 111_750
    assert all(one.parameters["temperature"] == 0.0 and one.parameters["ignore_eos"] for one in requests)


def test_small_draws_both_lengths_alike() -> None:
    requests = made("small")
    assert len(requests) == 256
    lengths = [length for one in requests for length in (one.prompt_tokens, one.max_tokens)]
    assert (min(lengths) >= 100, max(lengths) <= 1024) == (True, True)
    assert {one.parameters["temperature"] for one in requests} == {0.6}
    # The first draws of random.Random(0).
    assert lengths[:2] == [964, 494]


def test_prefix_shares_its_first_4096_tokens_and_no_more() -> None:
    requests = made("prefix")
    prompts = [tuple(one.parameters["ids"]) for one in requests]
    assert len({prompt[:4096] for prompt in prompts}) == 1
    assert len({prompt[4096:] for prompt in prompts}) == len(prompts) == 64


def test_a_workload_is_the_same_in_every_run_and_its_lengths_in_every_vocabulary() -> None:
    for name in WORKLOADS:
        assert made(name) == made(name)
        small, large = made(name, 100), made(name, 100_000)
        assert [one.prompt_tokens for one in small] == [one.prompt_tokens for one in large]
        assert max(token for one in small for token in one.parameters["ids"]) < 100


def test_limits_cut_requests_and_outputs() -> None:
    cut = limited(made("seed"), 3, 25)
    assert [one.max_tokens for one in cut] == [min(25, one.max_tokens) for one in made("seed")[:3]]
    assert [one.prompt_tokens for one in cut] == [one.prompt_tokens for one in made("seed")[:3]]


def test_several_outputs_of_a_prompt_are_asked_for_as_the_client_does() -> None:
    requests = made("sampling")
    check(requests, 4096)
    assert {one.outputs for one in requests} == {generate_request(one.parameters).sampling.n for one in requests} == {8}


def test_what_the_context_cannot_hold_is_refused_with_both_numbers() -> None:
    with pytest.raises(WorkloadError, match=r"4160 tokens of prompt and 64 of output.*context is 4096"):
        check(made("prefix"), 4096)


def test_a_file_has_a_request_a_line() -> None:
    lines = ['{"ids": [1, 2], "max_tokens": 3}', "", '{"prompt_tokens": 7, "temperature": 0.5}', '{"prompt": "Hi"}']
    first, second, third = read_requests(lines, "some.jsonl", VOCABULARY)
    assert first.parameters == {"ids": [1, 2], "max_tokens": 3}
    assert (second.prompt_tokens, second.parameters["temperature"]) == (7, 0.5)
    assert (third.prompt_tokens, third.max_tokens) == (0, 0)
    check([first, second, third], 100)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "some.jsonl:1: no JSON"),
        ("[1]", "some.jsonl:1: .* no object"),
        ('{"prompt_tokens": 0}', "prompt_tokens is 0"),
        ('{"prompt_tokens": true}', "prompt_tokens is True"),
        ('{"ids": [1], "n": "2"}', "n is '2'"),
    ],
)
def test_a_wrong_line_is_named(line: str, said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        list(read_requests([line], "some.jsonl", VOCABULARY))


def test_an_unknown_parameter_is_named_before_anything_is_sent() -> None:
    with pytest.raises(WorkloadError, match="no parameter 'temprature'"):
        check([Request({"ids": [1], "temprature": 0.0})], 100)


def test_a_name_that_is_no_workload_and_no_file_is_refused_with_those_that_are() -> None:
    with pytest.raises(WorkloadError, match=r"sead is none of single, seed, small, prefix, sampling"):
        requests_of("sead", VOCABULARY, None, None)


def test_a_file_is_read_and_limited(tmp_path: object) -> None:
    path = f"{tmp_path}/load.jsonl"
    with open(path, "w") as file:
        file.writelines(json.dumps({"prompt_tokens": size, "max_tokens": 9}) + "\n" for size in (5, 6, 7))
    assert [one.prompt_tokens for one in requests_of(path, VOCABULARY, 2, None)] == [5, 6]
