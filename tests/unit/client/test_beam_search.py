"""Beam search as a caller of the client asks for it, and what comes of it."""

import re
from typing import Any

import pytest

from pagehold.client import BeamSearchParameters, InvalidRequest, Progress
from pagehold.client.commands.pace import Pace
from pagehold.client.decoding import event_of
from pagehold.client.parameters import generate_request
from pagehold.client.transcript import Transcript
from pagehold.inference.v1 import generation_pb2, parameters_pb2
from tests.unit.client.console import Console
from tests.unit.client.scripted_service import ScriptedService


@pytest.mark.parametrize(
    ("said", "sent"),
    [
        (True, parameters_pb2.EARLY_STOPPING_ON),
        (False, parameters_pb2.EARLY_STOPPING_OFF),
        ("never", parameters_pb2.EARLY_STOPPING_NEVER),
    ],
)
def test_a_search_is_asked_for_in_the_words_of_transformers(said: Any, sent: int) -> None:
    request = generate_request({"prompt": "x", "beam_width": 4, "length_penalty": 2, "early_stopping": said})
    asked = request.beam_search
    assert (asked.beam_width, asked.length_penalty, asked.early_stopping) == (4, 2.0, sent)
    assert not generate_request({"prompt": "x"}).HasField("beam_search")


@pytest.mark.parametrize("said", [1, 0, "ever", 2.5])
def test_what_is_no_answer_to_when_a_search_ends_is_refused(said: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"beam_search\.early_stopping.*True or False or 'never'"):
        generate_request({"prompt": "x", "beam_width": 4, "early_stopping": said})


def test_a_search_tells_how_far_its_beams_have_come_and_what_each_output_scored() -> None:
    search = parameters_pb2.BeamSearchParameters(
        beam_width=2, length_penalty=0.5, early_stopping=parameters_pb2.EARLY_STOPPING_NEVER
    )
    started = generation_pb2.Started(id="a", prompt_tokens=3, beam_search=search)
    started.sampling.n = 2
    messages: list[dict[str, Any]] = [
        {"started": started},
        {"progress": generation_pb2.Progress(computed_tokens=3, prompt_tokens=3, beam_tokens=1)},
        {"progress": generation_pb2.Progress(computed_tokens=3, prompt_tokens=3, beam_tokens=2)},
    ]
    for output, score in enumerate((-0.5, -0.75)):
        usage = generation_pb2.Usage(prompt_tokens=3, output_tokens=2)
        messages.append({"delta": generation_pb2.Delta(output=output, ids=[7, 8 + output], text="ab")})
        messages.append({"finished": generation_pb2.Finished(output=output, usage=usage, score=score)})
    transcript, told = Transcript(), []
    for message in messages:
        event = event_of(generation_pb2.GenerationEvent(**message))
        assert event is not None
        told.append(transcript.add(event))
    assert [one for one in told if isinstance(one, Progress)] == [Progress(3, 3, 1), Progress(3, 3, 2)]
    assert transcript.complete
    whole = transcript.completion()
    assert whole.started.beam_search == BeamSearchParameters(2, 0.5, "never")
    assert [(one.ids, one.finished.score) for one in whole.outputs] == [((7, 8), -0.5), ((7, 9), -0.75)]


def test_progress_that_was_told_before_is_not_told_again() -> None:
    transcript = Transcript()
    assert transcript.add(Progress(3, 5)) is not None
    assert transcript.add(Progress(3, 5)) is None
    assert transcript.add(Progress(5, 5, 2)) is not None
    assert transcript.add(Progress(5, 5, 1)) is None


def test_the_command_asks_for_a_search_and_refuses_what_is_no_word_for_its_end(
    console: Console, service: ScriptedService
) -> None:
    console("generate", "x", "--beam-width", "3", "--length-penalty", "0.5", "--early-stopping", "never")
    _, request = service.calls[-1]
    asked = request.beam_search
    assert (asked.beam_width, asked.length_penalty) == (3, 0.5)
    assert asked.early_stopping == parameters_pb2.EARLY_STOPPING_NEVER
    result = console.run("generate", "x", "--beam-width", "3", "--early-stopping", "ever")
    assert result.exit_code
    assert "it is true, false or never" in result.stderr


def test_what_a_search_found_at_once_did_not_come_fast() -> None:
    paces = [Pace(), Pace()]
    for pace, search in zip(paces, (True, False), strict=True):
        started = generation_pb2.Started(id="a", prompt_tokens=3)
        if search:
            started.beam_search.beam_width = 2
        deltas = [generation_pb2.Delta(output=output, ids=[7, 8]) for output in range(2)]
        messages = [generation_pb2.GenerationEvent(started=started)]
        for message in [*messages, *(generation_pb2.GenerationEvent(delta=delta) for delta in deltas)]:
            event = event_of(message)
            assert event is not None
            pace.note(event)
    of_search, of_samples = map(str, paces)
    assert re.fullmatch(r"4 tokens in \d+\.\d\d s", of_search)
    assert "tokens/s" in of_samples
