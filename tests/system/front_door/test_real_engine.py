"""A door before an engine that computes: ids that a model has and its tokenizer has not are never seen."""

import pytest

from pagehold.inference.v1 import generation_pb2
from tests.models.checkpoints import VOCABULARY
from tests.scripted.doors import DoorProcess
from tests.scripted.tokenizers import FIRST_PIECE
from tests.system.front_door.computing import KNOWN, PIECES

TOKENS = 100


@pytest.mark.parametrize("temperature", [0.0, 5.0])
def test_streams_of_a_model_with_more_ids_than_its_tokenizer_go_on_to_their_end(
    door: DoorProcess, temperature: float
) -> None:
    assert KNOWN < VOCABULARY
    stopping = {"max_tokens": TOKENS, "ignore_eos": True}
    calls = [
        door.generate(5 + seed, sampling={"temperature": temperature, "seed": seed}, stopping=stopping)
        for seed in range(6)
    ]
    for call in calls:
        finished = call.whole(120).finished
        assert (finished.reason, len(call.ids)) == (generation_pb2.END_REASON_LENGTH, TOKENS)
        assert max(call.ids) < KNOWN
        said = [PIECES[token - FIRST_PIECE] for token in call.ids if token >= FIRST_PIECE]
        assert call.text.replace("<unk>", "") == "".join(said)
    if temperature:
        assert len({token for call in calls for token in call.ids}) > KNOWN // 2, "any that is known may come"


def test_an_id_that_only_the_model_knows_is_no_prompt(door: DoorProcess) -> None:
    assert f"must lie in 0..{KNOWN - 1}" in door.generate(KNOWN).failure().details()


def test_of_a_prompt_asked_again_start_and_usage_say_what_was_cached(door: DoorProcess) -> None:
    prompt = [FIRST_PIECE + number for number in range(35)]
    answers = []
    for bypassed, cached in ((False, 0), (False, 32), (True, 0), (False, 32)):
        asked = {"stopping": {"max_tokens": 5, "ignore_eos": True}, "cache": {"bypass": bypassed}}
        call = door.generate(*prompt, sampling={"temperature": 0.0}, **asked).whole()
        started, usage = call.events[0].started, call.finished.usage
        assert (started.prompt_tokens, started.cached_tokens) == (35, cached)
        assert (usage.prompt_tokens, usage.cached_tokens, usage.output_tokens) == (35, cached, 5)
        answers.append(call.ids)
    assert len(answers[0]) == 5
    assert answers == [answers[0]] * 4
