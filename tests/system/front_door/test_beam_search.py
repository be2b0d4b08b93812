"""Beam search through a door, an engine that computes, and whatever becomes of them."""

import time
from pathlib import Path
from typing import Any

import pytest
import transformers

from pagehold.inference.v1 import generation_pb2, parameters_pb2, requests_pb2
from tests.engines.world import EngineWorld
from tests.models.beam_search import Found, reference_beams
from tests.scripted.doors import Call, DoorProcess, details
from tests.scripted.processes import wait_until
from tests.scripted.tokenizers import FIRST_PIECE
from tests.system.front_door.computing import (
    KNOWN,
    MAX_RUNNING,
    PIECES,
    PROMPT,
    has_heard_of_cancel,
    start_engine,
)

WIDTH, TOKENS, LONG = 4, 40, 90


@pytest.fixture(scope="module")
def reference(model: Path) -> Any:
    """transformers' own model."""
    loaded: Any = transformers.AutoModelForCausalLM.from_pretrained(model, attn_implementation="eager")
    return loaded.float().eval()


@pytest.fixture(scope="module")
def expected(reference: Any) -> Found:
    """What an undisturbed search finds."""
    return reference_beams(reference, PROMPT, WIDTH, TOKENS, known_ids=KNOWN)


def search(door: DoorProcess, tokens: int = TOKENS, width: int = WIDTH, **fields: Any) -> Call:
    stopping = {"max_tokens": tokens, "ignore_eos": True} | fields.pop("stopping", {})
    beams = {"beam_width": width} | fields.pop("beams", {})
    return door.generate(*PROMPT, beam_search=beams, stopping=stopping, **fields)


def found_by(call: Call) -> Found:
    """Outputs and scores, in the order in which they came."""
    outputs: list[list[int]] = []
    scores: list[float] = []
    for event in call.events:
        if event.HasField("delta") and event.delta.ids:
            assert event.delta.output == len(scores), "outputs come one after the other"
            if len(outputs) == len(scores):
                outputs.append([])
            assert event.delta.first_token == len(outputs[-1])
            outputs[-1] += event.delta.ids
        elif event.HasField("finished"):
            scores.append(event.finished.score)
    return list(zip(outputs, scores, strict=True))


def check(call: Call, expected: Found, seconds: float = 60.0) -> None:
    found = found_by(call.whole(seconds))
    assert [ids for ids, _ in found] == [ids for ids, _ in expected]
    assert [score for _, score in found] == pytest.approx([score for _, score in expected], abs=1e-4)


def steps_of(call: Call) -> list[int]:
    return [event.progress.beam_tokens for event in list(call.events) if event.HasField("progress")]


def await_step(call: Call, step: int) -> None:
    wait_until(lambda: max(steps_of(call), default=0) >= step or call.is_over(), f"beams have {step} tokens")


def at(tokens: int) -> int:
    """The position that beams of so many tokens feed next."""
    return len(PROMPT) + tokens


def test_the_best_come_first_with_their_scores_once_progress_was_told(
    door: DoorProcess, engines: EngineWorld, expected: Found
) -> None:
    before = time.monotonic()
    with engines.held(position=at(5)) as hold:
        call = search(door)
        call.await_started()
        queued = time.monotonic() - before
        await_step(call, 1)
        hold.move(position=at(20))
        await_step(call, max(steps_of(call)) + 1)
        wait_until(lambda: time.monotonic() > before + 3 * queued, "it has been computed for longer than it was queued")
    check(call, expected)
    started = call.events[0].started
    assert (started.beam_search.beam_width, started.beam_search.length_penalty) == (WIDTH, 1.0)
    assert started.beam_search.early_stopping == parameters_pb2.EARLY_STOPPING_OFF
    assert (started.sampling.n, started.sampling.temperature, list(started.seeds)) == (WIDTH, 0.0, [])
    steps = steps_of(call)
    assert steps == sorted(set(steps))
    assert len(steps) > 1
    kinds = [event.WhichOneof("content") for event in call.events]
    assert kinds.index("delta") > len(kinds) - 1 - kinds[::-1].index("progress")
    ends = [event.finished for event in call.events if event.HasField("finished")]
    assert {end.reason for end in ends} == {generation_pb2.END_REASON_LENGTH}
    assert [end.usage.output_tokens for end in ends] == [TOKENS] * WIDTH
    assert ends[0].timings.queued < ends[0].timings.first_token / 2, "nothing of it comes before it is found"
    assert len({(end.timings.queued, end.timings.first_token) for end in ends}) == 1
    texts = ["".join(delta.text for delta in call.deltas if delta.output == place) for place in range(WIDTH)]
    texts = [text.replace("<unk>", "") for text in texts]
    assert texts == ["".join(PIECES[id_ - FIRST_PIECE] for id_ in ids if id_ >= FIRST_PIECE) for ids, _ in expected]


@pytest.mark.parametrize(
    ("stopping", "early"),
    [
        (parameters_pb2.EARLY_STOPPING_OFF, False),
        (parameters_pb2.EARLY_STOPPING_ON, True),
        (parameters_pb2.EARLY_STOPPING_NEVER, "never"),
    ],
)
def test_stop_tokens_end_outputs_and_are_named(
    door: DoorProcess, reference: Any, expected: Found, stopping: Any, early: bool | str
) -> None:
    stops = sorted({ids[6] for ids, _ in expected} | {ids[9] for ids, _ in expected})[:3]
    beams = {"length_penalty": 0.5, "early_stopping": stopping}
    call = search(door, beams=beams, stopping={"stop_token_ids": stops})
    ended = reference_beams(
        reference, PROMPT, WIDTH, TOKENS, length_penalty=0.5, early_stopping=early, end_ids=stops, known_ids=KNOWN
    )
    check(call, ended)
    ends = [event.finished for event in call.events if event.HasField("finished")]
    assert [end.stop_token_id for end in ends if end.HasField("stop_token_id")] == [
        ids[-1] for ids, _ in ended if ids[-1] in stops
    ]


def test_who_attaches_gets_what_was_found(door: DoorProcess, expected: Found) -> None:
    call = search(door, request_id="beams", detached=True)
    await_step(call, 3)
    request_id = call.events[0].started.id
    attached = door.attach(id=request_id)
    check(attached, expected)
    check(call, expected)
    check(door.attach(request_id="beams"), expected)
    told = door.stub.GetRequest(requests_pb2.GetRequestRequest(id=request_id), timeout=60).request
    assert told.state == requests_pb2.REQUEST_STATE_FINISHED


def end_of(door: DoorProcess, call: Call) -> int:
    """How the manager says that it ended."""
    key = requests_pb2.GetRequestRequest(id=call.events[0].started.id)
    return int(door.stub.GetRequest(key, timeout=60).request.reason)


def test_hanging_up_and_cancelling_end_all_of_it(door: DoorProcess, engines: EngineWorld) -> None:
    with engines.held(position=at(5)):
        call = search(door, LONG)
        await_step(call, 2)
        call.hang_up()
        wait_until(lambda: has_heard_of_cancel(engines), "the manager has heard of it")
    wait_until(lambda: not engines.statistics().sequences.live, "all of it has ended")
    assert end_of(door, call) == generation_pb2.END_REASON_CANCELLED
    with engines.held(position=at(5)):
        call = search(door, LONG)
        await_step(call, 2)
        assert door.stub.Cancel(requests_pb2.CancelRequest(id=call.events[0].started.id), timeout=60).cancelled
    ends = [event.finished for event in call.whole().events if event.HasField("finished")]
    assert [end.output for end in ends] == list(range(WIDTH))
    assert {end.reason for end in ends} == {generation_pb2.END_REASON_CANCELLED}
    assert not call.ids


def test_a_time_budget_ends_it_with_the_best_that_there_is(door: DoorProcess, engines: EngineWorld) -> None:
    for budget in (0.5, 2.0, 8.0, 32.0):
        begun = time.monotonic()
        with engines.held(position=at(5)):
            call = search(door, LONG, time_budget=budget)
            await_step(call, 2)
            wait_until(lambda: time.monotonic() > begun + budget, "its time is over")  # noqa: B023
        call.whole()
        if steps_of(call):
            break
    assert len(found_by(call)) == WIDTH
    assert {event.finished.reason for event in call.events if event.HasField("finished")} == {
        generation_pb2.END_REASON_DEADLINE
    }


@pytest.mark.long
def test_it_goes_on_when_engine_manager_and_door_are_killed(
    model: Path, door: DoorProcess, engines: EngineWorld, expected: Found
) -> None:
    with DoorProcess(engines.runtime_dir, "second") as second:
        call = search(second.await_serving(), detached=True)
        await_step(call, 4)
        request_id = call.events[0].started.id
        engines.engines[-1].kill()
        start_engine(engines, model)
        await_step(call, 12)
        engines.kill_manager()
        await_step(call, 20)
        second.kill()
    check(door.attach(id=request_id), expected, 120)


@pytest.mark.parametrize(
    ("change", "field", "text"),
    [
        ({"beams": {"beam_width": 17}}, "beam_search.beam_width", "is 17, but must lie in 1..16"),
        (
            {"beams": {"beam_width": 15}},
            "beam_search.beam_width",
            f"is 15, but must lie in 1..{MAX_RUNNING}, as many as",
        ),
        ({"beams": {"beam_width": None}}, "beam_search.beam_width", "is absent, but must lie in 1..16"),
        ({"beams": {"length_penalty": 4.5}}, "beam_search.length_penalty", "is 4.5, but must lie in -4..4"),
        ({"beams": {"early_stopping": 0}}, "beam_search.early_stopping", "is 0, but must be EARLY_STOPPING_OFF"),
        ({"sampling": {"n": 2}}, "sampling.n", "is 2, but a beam search draws nothing: leave it out"),
        ({"sampling": {"temperature": 0.7}}, "sampling.temperature", "is 0.7, but a beam search draws nothing"),
        ({"stopping": {"stop": ["x"]}}, "stopping.stop", "is 1 texts, but a beam search ends at tokens alone"),
    ],
)
def test_what_cannot_be_is_refused_by_name(door: DoorProcess, change: dict[str, Any], field: str, text: str) -> None:
    (violation,) = details(search(door, **change).failure())["BadRequest"].field_violations
    assert violation.field == field
    assert text in violation.description
