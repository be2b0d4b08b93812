"""transformers' own generation of a workload: every output as long as it was asked to be."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from bench.baselines.generation import check, load, run_generate, run_generate_batch, settings_of
from bench.commands import bench
from bench.serve.workloads import Request, WorkloadError
from tests.models.checkpoints import VOCABULARY, configuration, saved


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("baseline") / "tiny"
    saved(configuration("llama", max_position_embeddings=512), path)
    return path


def requests(*sizes: tuple[int, int], temperature: float = 0.0) -> list[Request]:
    return [
        Request({"ids": [5 + place] * prompt, "max_tokens": output, "temperature": temperature})
        for place, (prompt, output) in enumerate(sizes)
    ]


@pytest.mark.parametrize("temperature", [0.0, 0.6])
def test_fixed_batches_count_the_tokens_that_were_asked_for(folder: Path, temperature: float) -> None:
    model = load(folder, "cpu", torch.float32, random_weights=False)
    told: list[tuple[int, int]] = []
    found = run_generate(
        model, requests((3, 4), (9, 2), (5, 7), temperature=temperature), 2, lambda *figures: told.append(figures)
    )
    assert (found.requests, found.prompt_tokens, found.output_tokens) == (3, 17, 13)
    assert told == [(2, 6), (3, 13)]
    assert found.output_rate == pytest.approx(13 / found.seconds)


def test_continuous_batching_gives_each_request_its_own_length(folder: Path) -> None:
    model = load(folder, "cpu", torch.float32, random_weights=False)
    told: list[tuple[int, int]] = []
    found = run_generate_batch(model, requests((3, 4), (9, 2), (5, 7)), lambda *figures: told.append(figures))
    assert (found.requests, found.output_tokens) == (3, 13)
    assert told[-1] == (3, 13)


def test_random_weights_need_a_configuration_alone(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    model = load(tmp_path, "cpu", torch.float32, random_weights=True)
    assert model.config.vocab_size == VOCABULARY


@pytest.mark.parametrize(
    ("parameters", "outputs", "said"),
    [
        ({"prompt": "Hi", "max_tokens": 3}, 1, "takes ids"),
        ({"ids": [1]}, 1, "max_tokens"),
        ({"ids": [1], "max_tokens": 3, "n": 2}, 2, "one output of a prompt"),
    ],
)
def test_what_cannot_be_compared_is_refused(parameters: dict[str, Any], outputs: int, said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        check([Request(parameters, outputs)])


def test_requests_are_all_chosen_in_one_way() -> None:
    with pytest.raises(WorkloadError, match="one temperature"):
        check([*requests((1, 1)), *requests((1, 1), temperature=0.5)])
    assert settings_of(requests((1, 1))) == {"do_sample": False}
    assert settings_of(requests((1, 1), temperature=0.5))["temperature"] == 0.5


def test_the_command_says_rates(folder: Path) -> None:
    arguments = [
        "baseline",
        str(folder),
        "seed",
        "--method",
        "generate",
        "--requests",
        "2",
        "--max-tokens",
        "3",
        "--json",
    ]
    result = CliRunner().invoke(bench, arguments)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["requests"], found["output_tokens"], found["where"]) == (2, 6, "cpu, float32")


def test_the_command_names_a_model_that_is_not_there() -> None:
    result = CliRunner().invoke(bench, ["baseline", "/nonexistent"])
    assert result.exit_code == 1
    assert "/nonexistent: neither a folder nor" in result.output
