"""Several outputs of one prompt through a door, an engine that computes, and whatever becomes of them."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from executor.outputs import seed_of, uuid_of
from pagehold.inference.v1 import generation_pb2, requests_pb2
from tests.engines.world import EngineWorld
from tests.scripted.doors import Call, DoorProcess, details
from tests.scripted.processes import wait_until
from tests.system.front_door.computing import (
    MAX_RUNNING,
    PROMPT,
    has_heard_of_cancel,
    start_engine,
)

SEED = 11
MANY = 3
LONG = 100


def samples(door: DoorProcess, n: int = MANY, seed: int = SEED, tokens: int = 40, **fields: Any) -> Call:
    stopping = {"max_tokens": tokens, "ignore_eos": True} | fields.pop("stopping", {})
    sampling = {"temperature": 1.0, "seed": seed, "n": n}
    return door.generate(*PROMPT, sampling=sampling, stopping=stopping, **fields)


def ids_of(call: Call, output: int) -> list[int]:
    """The ids of an output so far, each of which must have come once and in order."""
    ids: list[int] = []
    for delta in call.deltas:
        if delta.output == output and delta.ids:
            assert delta.first_token == len(ids), "a token is missing or came twice"
            ids += delta.ids
    return ids


def outputs_of(call: Call, n: int = MANY) -> list[list[int]]:
    return [ids_of(call, output) for output in range(n)]


def finished_of(call: Call) -> dict[int, generation_pb2.Finished]:
    found = [event.finished for event in call.events if event.HasField("finished")]
    assert len({one.output for one in found}) == len(found)
    return {one.output: one for one in found}


def await_each(call: Call, tokens: int) -> None:
    wait_until(lambda: min(map(len, outputs_of(call))) >= tokens or call.is_over(), "each output has begun")


@pytest.fixture(scope="module")
def whole(open_door: DoorProcess) -> list[list[int]]:
    """What undisturbed samples are."""
    return outputs_of(samples(open_door).whole())


@contextmanager
def begun(door: DoorProcess, engines: EngineWorld, behind: int = 3, **fields: Any) -> Iterator[Call]:
    """Samples of which each has so many tokens, and none all of them before the context ends."""
    with engines.held(position=len(PROMPT) + behind + 2):
        call = samples(door, **fields)
        call.await_started()
        await_each(call, behind)
        assert not call.is_over()
        yield call


def test_each_output_is_what_a_request_with_its_seed_gives(door: DoorProcess, whole: list[list[int]]) -> None:
    call = samples(door).whole()
    started = call.events[0].started
    assert list(started.seeds) == [seed_of(SEED, output) for output in range(MANY)]
    assert (started.sampling.n, started.sampling.seed) == (MANY, SEED)
    assert outputs_of(call) == whole
    for output, seed in enumerate(started.seeds):
        alone = samples(door, 1, seed).whole()
        assert alone.ids == whole[output]
        assert alone.text == "".join(delta.text for delta in call.deltas if delta.output == output)
    ends = finished_of(call)
    assert [ends[output].usage.output_tokens for output in range(MANY)] == [40] * MANY
    assert {(end.usage.prompt_tokens, end.usage.cached_tokens) for end in ends.values()} == {
        (21, started.cached_tokens)
    }


def test_each_output_ends_at_its_own_stop(door: DoorProcess, whole: list[list[int]]) -> None:
    stop = whole[1][4]
    call = samples(door, stopping={"stop_token_ids": [stop]}).whole()
    wanted = [ids[: ids.index(stop) + 1] if stop in ids else ids for ids in whole]
    assert outputs_of(call) == wanted
    assert len(wanted[1]) == 5
    assert [finished_of(call)[output].usage.output_tokens for output in range(MANY)] == list(map(len, wanted))


def test_who_attaches_gets_all_outputs_from_the_first_token(door: DoorProcess, whole: list[list[int]]) -> None:
    call = samples(door, request_id="several", detached=True)
    await_each(call, 3)
    request_id = call.events[0].started.id
    attached = door.attach(id=request_id)
    assert outputs_of(attached.whole()) == outputs_of(call.whole()) == whole
    assert outputs_of(door.attach(request_id="several").whole()) == whole
    of_an_output = str(uuid.UUID(bytes=uuid_of(uuid.UUID(request_id).bytes, 2)))
    assert outputs_of(door.attach(id=of_an_output).whole()) == whole, "the id of an output names its request"
    later = door.attach(id=request_id, from_token=30).whole()
    assert [ids[30:] for ids in whole] == [
        [id_ for delta in later.deltas if delta.output == output for id_ in delta.ids] for output in range(MANY)
    ]


def test_it_is_listed_and_told_of_as_one_request(door: DoorProcess, engines: EngineWorld) -> None:
    with begun(door, engines) as call:
        request_id = call.events[0].started.id
        listed = door.stub.ListRequests(requests_pb2.ListRequestsRequest(), timeout=60)
    assert [one.id for one in listed.requests] == [request_id]
    assert listed.total == 1
    assert listed.requests[0].output_tokens >= 3 * MANY
    call.whole()
    told = door.stub.GetRequest(requests_pb2.GetRequestRequest(id=request_id), timeout=60).request
    assert (told.state, told.output_tokens) == (requests_pb2.REQUEST_STATE_FINISHED, 40 * MANY)


@pytest.mark.parametrize("tokens", [0, 3])
def test_hanging_up_ends_all_outputs(door: DoorProcess, engines: EngineWorld, tokens: int) -> None:
    with begun(door, engines, tokens, tokens=LONG) as call:
        call.hang_up()
        wait_until(lambda: has_heard_of_cancel(engines), "the manager has heard of it")
    wait_until(lambda: not engines.statistics().sequences.live, "all have ended")
    key = requests_pb2.GetRequestRequest(id=call.events[0].started.id)
    told = door.stub.GetRequest(key, timeout=60).request
    assert told.reason == generation_pb2.END_REASON_CANCELLED


@pytest.mark.parametrize("tokens", [0, 3])
def test_cancelling_ends_all_outputs(door: DoorProcess, engines: EngineWorld, tokens: int) -> None:
    with begun(door, engines, tokens, tokens=LONG) as call:
        key = requests_pb2.CancelRequest(id=call.events[0].started.id)
        assert door.stub.Cancel(key, timeout=60).cancelled
    ends = finished_of(call.whole())
    assert {end.reason for end in ends.values()} == {generation_pb2.END_REASON_CANCELLED}
    assert len(ends) == MANY
    assert max(end.usage.output_tokens for end in ends.values()) < LONG


def test_all_outputs_go_on_where_they_were_when_the_engine_is_killed(
    model: Path, door: DoorProcess, engines: EngineWorld, whole: list[list[int]]
) -> None:
    for tokens in (0, 4):
        with begun(door, engines, tokens) as call:
            engines.engines[-1].kill()
        start_engine(engines, model)
        assert outputs_of(call.whole(120)) == whole


def test_all_outputs_go_on_when_the_manager_is_killed(
    door: DoorProcess, engines: EngineWorld, whole: list[list[int]]
) -> None:
    with begun(door, engines) as call:
        engines.kill_manager()
    assert outputs_of(call.whole(120)) == whole


def test_all_outputs_are_found_again_at_another_door(
    door: DoorProcess, engines: EngineWorld, whole: list[list[int]]
) -> None:
    with DoorProcess(engines.runtime_dir, "second") as second:
        second.await_serving()
        with begun(second, engines) as call:
            request_id = call.events[0].started.id
            second.kill()
            attached = door.attach(id=request_id)
            attached.await_started()
    assert outputs_of(attached.whole(120)) == whole


def test_a_number_of_outputs_that_cannot_be_is_refused_by_name(door: DoorProcess) -> None:
    for n, limit in ((0, 64), (65, 64), (17, MAX_RUNNING)):
        error = samples(door, n).failure()
        (violation,) = details(error)["BadRequest"].field_violations
        assert violation.field == "sampling.n"
        assert f"is {n}, but must lie in 1..{limit}" in violation.description


def test_outputs_that_can_never_fit_together_are_refused_with_the_numbers(door: DoorProcess) -> None:
    # One block is shared; each may need six of its own.
    error = samples(door, 12, tokens=90).failure()
    info = details(error)["ErrorInfo"]
    assert (info.reason, dict(info.metadata)) == ("ERROR_REASON_NEVER_FITS", {"needed": "73", "available": "59"})
