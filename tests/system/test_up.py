"""`pagehold up` over a tiny model: it serves, starts again what dies, and ends with all that it started."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from blockmgr.configuration import WRONG_SETTINGS
from pagehold.client import AsyncClient, Client, Completion, EndReason
from tests.launch.tiny_model import save_servable
from tests.launch.up_program import PATIENCE, UpFolder, up_folder
from tests.scripted.processes import wait_until

PROMPT = "What is the capital of France?"
TOKENS = 12
STREAMS = 5
SMALL = ("--blocks", "64")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_servable(tmp_path_factory.mktemp("model") / "tiny"))


@pytest.fixture(scope="module")
def started() -> Iterator[list[UpFolder]]:
    """Those that were started to serve."""
    started: list[UpFolder] = []
    yield started
    for folder in started:
        folder.end()


@pytest.fixture
def serving(model: str, started: list[UpFolder]) -> UpFolder:
    """One `up` with two doors: the last one where it serves, or else another."""
    if not started or started[-1].ups[-1].poll() is not None:
        started.append(UpFolder())
        started[-1].start(model, "--doors", "2", *SMALL, PAGEHOLD_DOOR_GRACE="600", PAGEHOLD_ENGINE_STOP_GRACE="600")
    started[-1].await_said("ready after")
    return started[-1]


def answer(folder: UpFolder) -> tuple[int, ...]:
    """The ids of an answer, from a connection of its own."""
    with Client(folder.address, connect_seconds=60.0) as client:
        completion = client.generate(PROMPT, temperature=0.0, max_tokens=TOKENS, ignore_eos=True)
    assert completion.reason is EndReason.LENGTH
    return completion.ids


def test_it_prints_where_everything_is_and_answers(serving: UpFolder) -> None:
    said = serving.said()
    for place in (
        serving.address,
        serving.admin_address,
        "blockmgr.sock",
        "engines/engine.sock",
        "doors/door-2.sock",
        "up.log",
    ):
        assert place in said
    assert f'pagehold generate "Once upon a time" --address {serving.address}' in said
    assert len(answer(serving)) == TOKENS


def test_a_second_one_in_the_same_folder_is_refused_with_the_pid(serving: UpFolder, model: str) -> None:
    before = serving.pids()
    refused = serving.command("up", model, *serving.flags)
    assert refused.returncode == 1
    assert f"already runs in {serving.runtime_dir} (process {serving.ups[0].pid})" in refused.stderr
    assert serving.pids() == before


@pytest.mark.parametrize("name", ["engine", "manager", "door", "door-2"])
def test_what_is_killed_is_started_again_and_all_others_live_on(serving: UpFolder, name: str) -> None:
    expected, before = answer(serving), serving.pids()
    os.kill(before[name], signal.SIGKILL)
    serving.await_other(name, before[name])
    after = serving.pids()
    assert {other for other in before if after[other] != before[other]} == {name}
    assert answer(serving) == expected
    serving.await_said(f"{name} ended by signal 9")


def kept_by_another(folder: UpFolder, before: dict[str, int]) -> dict[str, int]:
    """What runs, once another keeper tells of as many as were there before."""
    after = folder.pids()
    return after if after["keeper"] != before["keeper"] and after.keys() == before.keys() else {}


def test_a_killed_keeper_stops_nothing_and_the_next_one_keeps_all(serving: UpFolder) -> None:
    expected, before = answer(serving), serving.pids()
    os.kill(before["keeper"], signal.SIGKILL)
    after = wait_until(lambda: kept_by_another(serving, before), "another keeper has found all", PATIENCE)
    assert {name for name in before if after[name] != before[name]} == {"keeper"}
    assert answer(serving) == expected
    os.kill(after["engine"], signal.SIGKILL)
    serving.await_other("engine", after["engine"])
    assert answer(serving) == expected


def test_sigterm_ends_it_with_code_0_and_streams_finish(serving: UpFolder) -> None:
    async def stream_while_it_stops(folder: UpFolder) -> list[Completion]:
        begun = asyncio.Semaphore(0)

        async def one(client: AsyncClient, number: int) -> Completion:
            prompt = f"{PROMPT} {number}"
            async with client.stream(prompt, temperature=0.0, max_tokens=100, ignore_eos=True) as stream:
                await anext(stream)
                begun.release()
                return await stream.result()

        async with AsyncClient(folder.address, connect_seconds=60.0) as client:
            streams = [asyncio.create_task(one(client, number)) for number in range(STREAMS)]
            for _ in streams:
                await begun.acquire()
            folder.ups[0].terminate()
            return await asyncio.gather(*streams)

    completions = asyncio.run(stream_while_it_stops(serving))
    assert [len(completion.ids) for completion in completions] == [100] * STREAMS
    assert serving.await_exit() == 0


def all_of(folder: UpFolder) -> dict[str, int]:
    """What runs, once nothing is missing."""
    pids = folder.pids()
    return pids if {"keeper", "manager", "engine", "door"} <= set(pids) else {}


@pytest.mark.parametrize("moment", ["loading", "decoding"])
def test_when_it_is_killed_all_is_gone_soon_however_long_they_might_take_otherwise(model: str, moment: str) -> None:
    with up_folder() as folder, Client(folder.address, connect_seconds=60.0) as client:
        up = folder.start(model, *SMALL, PAGEHOLD_DOOR_GRACE="600", PAGEHOLD_ENGINE_STOP_GRACE="600")
        folder.await_said("manager is ready" if moment == "loading" else "ready after")
        stream = client.stream(PROMPT, max_tokens=400, ignore_eos=True)
        if moment == "decoding":
            next(stream)
        pids = wait_until(lambda: all_of(folder), "all are started")
        os.kill(up, signal.SIGKILL)
        wait_until(lambda: not any(map(folder.runs, pids.values())), "all are gone")
        stream.close()


def test_a_model_that_cannot_be_loaded_ends_it_with_the_engines_reason(tmp_path: Path) -> None:
    with up_folder() as folder:
        folder.start(str(tmp_path), *SMALL)
        assert folder.await_exit() == WRONG_SETTINGS
        assert f"engine: model is '{tmp_path}': " in folder.said()
        assert "config.json" in folder.said()
        assert folder.children()["engine"]["starts"] == 1
        assert folder.left() == []


def test_a_model_without_weights_is_told_by_a_detached_one_too(model: str, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for path in Path(model).iterdir():
        if path.suffix != ".safetensors":
            (damaged / path.name).symlink_to(path)
    with up_folder() as folder:
        ended = folder.command("up", str(damaged), "--detach", *folder.flags)
        assert ended.returncode == WRONG_SETTINGS
        assert f"engine: model is '{damaged}': " in ended.stderr
        assert "neither model.safetensors nor" in ended.stderr


def test_detached_it_returns_once_all_is_ready_and_goes_on_until_down(model: str) -> None:
    with up_folder() as folder:
        started = folder.command("up", model, *SMALL, "--detach", *folder.flags)
        assert started.returncode == 0, started.stderr
        assert folder.address in started.stdout
        assert len(answer(folder)) == TOKENS
        down = folder.command("down", "--runtime-dir", str(folder.runtime_dir))
        assert (down.returncode, down.stdout) == (0, "stopped\n")
        assert folder.left() == []
        ended = [event["child"] for event in folder.keeper_events("ended")]
        assert ended == ["door", "engine", "manager"]
        again = folder.command("down", "--runtime-dir", str(folder.runtime_dir))
        assert again.returncode == 0
        assert "nothing that `pagehold up` started runs" in again.stdout
