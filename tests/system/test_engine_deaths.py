"""Deaths around an engine: its own, its manager's, and a change of shift. Nobody's ids differ, and no work is done twice."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from executor.models.generate import generate
from pagehold.common.v1 import states_pb2
from tests.engines.door import Door, start_of
from tests.engines.world import EngineProcess, EngineWorld, engine_world, save_tiny, tiny
from tests.models.checkpoints import random_ids
from tests.scripted.processes import wait_until

OUTPUT = 60
FLAGS = ("--chunk", "16", "--step-tokens", "64")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def mortal() -> Iterator[EngineWorld]:
    """A world in which engines die: whoever needs one takes the one that ``living`` finds or starts."""
    with engine_world(probe_seconds=5) as world:
        yield world


def start(world: EngineWorld, model: Path, **environment: str) -> EngineProcess:
    return world.start_engine(model, *FLAGS, faulty=True, **{"PAGEHOLD_ENGINE_STOP_GRACE": "600"} | environment)


def living(world: EngineWorld, model: Path) -> EngineProcess:
    """The last engine, or another one if that has ended."""
    lives = world.engines and world.engines[-1].process.poll() is None
    return world.engines[-1] if lives else start(world, model)


LONGEST = 57
"""Tokens of the longest prompt. What is computed last of all has come so far when it stands still."""


def prompts_of(seed: int) -> list[list[int]]:
    return [random_ids(length, seed + length) for length in range(8, LONGEST + 1, 7)]


def submit(door: Door, prompts: list[list[int]]) -> list[bytes]:
    return door.start(*[start_of(prompt, max_tokens=OUTPUT) for prompt in prompts])


def check(model: Path, world: EngineWorld, door: Door, keys: list[bytes], prompts: list[list[int]]) -> None:
    assert [door.output(key) for key in keys] == generate(tiny(model), prompts, OUTPUT)
    assert world.violated_invariants() == []


def test_a_killed_engine_goes_on_where_completed_steps_had_come(model: Path, mortal: EngineWorld) -> None:
    prompts, engine = prompts_of(1), living(mortal, model)
    with mortal.door() as door:
        with mortal.held(position=LONGEST) as hold:
            keys = submit(door, prompts)
            for tokens in (10, 25):
                hold.move(position=LONGEST + tokens)
                for key in keys:
                    door.await_output(key, tokens, hold=hold)
                engine.kill()
                engine = start(mortal, model)
        check(model, mortal, door, keys, prompts)
        assert len(engine.events("adopted")) == len(keys)
        mortal.check_all_free()


@pytest.mark.long
def test_killed_in_mid_prefill_no_completed_prompt_token_is_computed_again(model: Path) -> None:
    prompt = random_ids(100, 20)
    with engine_world() as world:
        engine = world.start_engine(model, *FLAGS, faulty=True)
        door = world.door()
        with world.held(position=64):
            key = door.start(start_of(prompt, max_tokens=OUTPUT // 4))[0]
            handle = door.await_accepted(key).handle
            wait_until(lambda: door.computing.get(handle, [0])[-1] >= 48, "three chunks are computed")
            engine.kill()
        told = door.computing[handle][-1]
        heir = world.start_engine(model, *FLAGS)
        assert door.output(key) == generate(tiny(model), [prompt], OUTPUT // 4)[0]
        # What was told had completed; the manager may have missed no more than the turn that was under way.
        assert heir.events("adopted")[0]["computed"] >= told - 16
        world.check_all_free()


def test_a_manager_killed_in_mid_generation_is_waited_for(model: Path, mortal: EngineWorld) -> None:
    prompts = prompts_of(30)
    living(mortal, model)
    with mortal.door() as door:
        with mortal.held(position=LONGEST) as hold:
            keys = submit(door, prompts)
            for furthest, each in ((5, 5), (40, 15)):
                hold.move(position=LONGEST + furthest)
                for key in keys:
                    door.await_output(key, each, hold=hold)
                pid = mortal.kill_manager()
                # They go on as far as the blocks reach that each has, and wait.
                hold.move(position=LONGEST + furthest + 15)
                mortal.await_manager(other_than=pid)
        check(model, mortal, door, keys, prompts)
        mortal.check_all_free()


@pytest.mark.long
def test_an_engine_told_to_stop_leaves_what_runs_to_the_next(model: Path) -> None:
    prompts = prompts_of(40)
    with engine_world() as world:
        engine = world.start_engine(model, *FLAGS, faulty=True, PAGEHOLD_ENGINE_STOP_GRACE="0")
        door = world.door()
        with world.held(position=LONGEST + 5) as hold:
            keys = submit(door, prompts)
            for key in keys:
                door.await_output(key, 5, hold=hold)
            os.kill(engine.pid, signal.SIGTERM)
            wait_until(lambda: door.loads and door.loads[-1].draining, "the engine has heard of it")
        assert engine.process.wait(120) == 0
        assert not (world.runtime_dir / "engines" / "engine.sock").exists()
        world.start_engine(model, *FLAGS)
        check(model, world, door, keys, prompts)


def test_an_engine_told_to_stop_ends_what_it_can_and_takes_on_nothing(model: Path, mortal: EngineWorld) -> None:
    prompts, engine = prompts_of(50), living(mortal, model)
    with mortal.door() as door:
        with mortal.held(position=LONGEST + 5) as hold:
            keys = submit(door, prompts)
            for key in keys:
                door.await_output(key, 5, hold=hold)
            os.kill(engine.pid, signal.SIGTERM)
            wait_until(lambda: door.loads and door.loads[-1].draining, "the engine drains")
            late = door.start(start_of([5]))[0]
            assert door.await_refused(late).refusal == states_pb2.REFUSAL_UNSPECIFIED
        check(model, mortal, door, keys, prompts)
        assert engine.process.wait(120) == 0


def test_a_frozen_engine_is_killed_when_its_lease_is_over_and_another_goes_on(model: Path, mortal: EngineWorld) -> None:
    prompts = prompts_of(60)
    if mortal.engines:
        mortal.engines[-1].kill()
    engine = start(mortal, model, PAGEHOLD_ENGINE_LEASE_SECONDS="6")
    with mortal.door() as door:
        with mortal.held(position=LONGEST + 5) as hold:
            keys = submit(door, prompts)
            for key in keys:
                door.await_output(key, 5, hold=hold)
            os.kill(engine.pid, signal.SIGSTOP)
            assert engine.process.wait(120) == -signal.SIGKILL
        start(mortal, model)
        check(model, mortal, door, keys, prompts)


@pytest.mark.long
def test_a_request_that_kills_engines_ends_and_nobody_elses(model: Path) -> None:
    # The killer's id is an end that is held back, so that nobody else comes to have it.
    prompts = [random_ids(8 + 7 * place, 90 + place) for place in range(3)]
    poison = [*random_ids(20, 99), 0]
    with engine_world() as world:
        engines = [world.start_engine(model, *FLAGS, faulty=True, DIE_AT="0")]
        door = world.door()
        with world.held(position=30) as hold:
            keys = door.start(
                *[start_of(prompt, max_tokens=OUTPUT, min_tokens=OUTPUT, end_ids=[0]) for prompt in prompts]
            )
            for key in keys:
                door.await_output(key, 3, hold=hold)
            killer = door.start(start_of(poison, max_tokens=5))[0]
            door.await_accepted(killer)

        def refused() -> bool:
            if engines[-1].process.poll() is not None:
                engines.append(world.start_engine(model, *FLAGS, faulty=True, DIE_AT="0"))
            return killer in door.refused

        wait_until(refused, "it has ended", 280)
        # Once on the way to it at most, twice beside the others, and once alone: then the manager knows which one it is.
        assert len(engines) - 1 in (3, 4)
        for key in keys:
            assert len(door.output(key)) == OUTPUT
        assert door.refused[killer].refusal == states_pb2.REFUSAL_DUPLICATE
        assert door.lookup(killer).finished.reason == states_pb2.FINISH_REASON_INTERNAL
        world.check_all_free()


def save_other(folder: Path) -> Path:
    """A model of the same shape with other weights."""
    import torch
    from safetensors.torch import load_file, save_file

    other = save_tiny(folder)
    weights = load_file(other / "model.safetensors")
    changed = {name: tensor.clone() for name, tensor in weights.items()}
    changed["model.norm.weight"][0] += torch.tensor(0.5)
    save_file(changed, other / "model.safetensors", metadata={"format": "pt"})
    return other


def test_a_second_engine_hits_what_the_first_has_sealed_and_another_model_nothing(model: Path, tmp_path: Path) -> None:
    prompt, other = random_ids(90, 70), save_other(tmp_path / "other")
    with engine_world() as world:
        engines = [world.start_engine(model, "--served-name", "tiny")]
        first = world.door()
        wanted = first.output(first.start(start_of(prompt))[0])
        engines.append(world.start_engine(model, "--served-name", "tiny", "--name", "other"))
        second = world.door("other")
        key = second.start(start_of(prompt))[0]
        assert second.output(key) == wanted
        assert second.accepted[key].cached_tokens == 80
        assert [engine.stop() for engine in engines] == [0, 0]
        world.start_engine(other, "--served-name", "tiny")
        key = first.start(start_of(prompt))[0]
        assert first.output(key) == generate(tiny(other), [prompt], 16)[0]
        assert first.accepted[key].cached_tokens == 0


def test_another_model_is_refused_while_a_sequence_of_the_first_lives(model: Path, tmp_path: Path) -> None:
    prompt, other = random_ids(40, 81), save_other(tmp_path / "other")
    with engine_world() as world:
        engine = world.start_engine(model, *FLAGS, "--served-name", "tiny", faulty=True)
        door = world.door()
        with world.held(position=50) as hold:
            key = door.start(start_of(prompt, max_tokens=OUTPUT))[0]
            door.await_output(key, 5, hold=hold)
            engine.kill()
        refused = world.start_engine(other, "--served-name", "tiny")
        assert refused.process.wait(120) != 0
        assert "content identity" in refused.log.read_text()
        world.start_engine(model, "--served-name", "tiny")
        assert door.output(key) == generate(tiny(model), [prompt], OUTPUT)[0]
        world.check_all_free()
