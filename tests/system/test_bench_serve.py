"""`pagehold bench serve` on a real server of a tiny model."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.launch.tiny_model import save_servable
from tests.launch.up_program import UpFolder, up_folder
from tests.scripted.processes import wait_until


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpFolder]:
    model = save_servable(tmp_path_factory.mktemp("model") / "tiny")
    with up_folder() as folder:
        folder.start(str(model), "--doors", "2", "--blocks", "400")
        folder.await_said("ready after")
        yield folder


def measured(folder: UpFolder, *arguments: str) -> dict[str, Any]:
    where = ("--address", folder.address, "--admin-address", folder.admin_address)
    done = folder.command("bench", "serve", *arguments, *where, "--json", seconds=120.0)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measured_until(seen: Callable[[dict[str, Any]], Any], folder: UpFolder, *arguments: str) -> dict[str, Any]:
    """The same, again and again until the looks at the pool, which are few, were at the right moments."""
    runs: list[dict[str, Any]] = []

    def has_seen() -> bool:
        runs.append(measured(folder, *arguments))
        return bool(seen(runs[-1]["pool"]))

    wait_until(has_seen, "the pool has been looked at while something was in it", 120.0)
    return runs[-1]


def test_every_request_of_a_workload_completes_and_the_pool_is_watched(serving: UpFolder) -> None:
    workload = ("seed", "--requests", "12", "--max-tokens", "12", "--processes", "2", "--concurrency", "4")
    found = measured_until(lambda pool: pool["samples"] and "most_running" in pool, serving, *workload)
    assert (found["completed"], found["output_tokens"]) == (12, 144)
    assert found["times"]["ttft"]["p50"] <= found["times"]["e2e"]["p50"]
    pool = found["pool"]
    assert "missing" not in pool
    assert pool["most_running"] <= 4


def test_waste_is_what_the_manager_says_of_the_blocks_held(serving: UpFolder, tmp_path: Path) -> None:
    file = tmp_path / "long.jsonl"
    file.write_text(json.dumps({"prompt_tokens": 17, "max_tokens": 400, "ignore_eos": True}) + "\n")
    found = measured_until(lambda pool: pool["peak"], serving, str(file), "--look-every", "0.1")
    peak = found["pool"]["peak"]
    assert found["completed"] == 1
    assert 0 < peak["occupied"] <= 27 / 399
    assert 0 < peak["used"] <= peak["occupied"]
    assert peak["live"] == 1


def test_a_second_run_finds_nothing_of_the_first_unless_it_is_to(serving: UpFolder) -> None:
    once = ("seed", "--requests", "2", "--max-tokens", "4")
    assert measured(serving, *once)["cached_tokens"] == measured(serving, *once)["cached_tokens"] == 0
    again = (*once, "--cache-salt", "shared")
    assert measured(serving, *again)["cached_tokens"] == 0
    assert measured(serving, *again)["cached_tokens"] > 0
