"""What a client is told of tokens, text and ends."""

import pytest

from blockmgr.core.states import FinishReason
from pagehold.inference.v1 import generation_pb2, tokens_pb2
from tests.scripted.answers import Answer
from tests.scripted.doors import Call, request
from tests.scripted.processes import wait_until
from tests.scripted.scene import UNKNOWN, Scene, ids, says, words
from tests.scripted.tokenizers import EOS

STOP, LENGTH = generation_pb2.END_REASON_STOP, generation_pb2.END_REASON_LENGTH


def test_a_stream_is_started_deltas_finished_and_usage_counts_the_ids_sent(scene: Scene) -> None:
    call = scene.door.generate(*words(5), stopping={"max_tokens": 7}, request_id="mine").whole()
    assert [event.WhichOneof("content") for event in call.events] == [
        "started",
        *("delta" for _ in call.deltas),
        "finished",
    ]
    started = call.events[0].started
    assert (started.request_id, started.model, started.prompt_tokens) == ("mine", "scripted", 5)
    assert (started.stopping.max_tokens, started.sampling.HasField("seed")) == (7, True)
    assert call.ids == words(7)
    assert call.text == "w0 w1 w2 w3 w4 w5 w6 "
    finished = call.finished
    assert (finished.reason, finished.usage.prompt_tokens, finished.usage.output_tokens) == (LENGTH, 5, 7)
    assert 0 < finished.timings.queued <= finished.timings.first_token <= finished.timings.total
    assert (finished.HasField("output"), call.deltas[0].HasField("output")) == (True, True)


@pytest.mark.parametrize(
    ("pieces", "stop", "text", "tokens"),
    [
        (["DEF", "G", "HI", "J", "hello"], "DEFGHIJ", "", 4),
        (["The quick br", "own", " fox", "hello"], "own fox", "The quick br", 3),
    ],
)
def test_a_stop_string_across_tokens_ends_the_text_right_before_it(
    scene: Scene, pieces: list[str], stop: str, text: str, tokens: int
) -> None:
    # It never ends by itself.
    scene.engine.answer = lambda _: Answer(ids(*pieces) + words(200), None)
    call = scene.door.generate(5, stopping={"stop": ["never", stop]}).whole()
    assert call.text == text
    assert (call.finished.reason, call.finished.stop) == (STOP, stop)
    assert call.finished.usage.output_tokens == len(call.ids) == tokens
    uuid = scene.engine.starts[-1].uuid
    scene.await_idle()
    assert scene.engine.ended[uuid] == FinishReason.STOP, "the engine was told"


def test_the_last_characters_come_where_no_stop_follows(scene: Scene) -> None:
    scene.engine.answer = says("...Mars?", end=FinishReason.STOP)
    assert scene.door.generate(5, stopping={"stop": ["\n"]}).whole().text == "...Mars?"
    scene.engine.answer = says("ple", "as", end=FinishReason.STOP)
    call = scene.door.generate(5, stopping={"stop": ["assistant"]}).whole()
    assert (call.text, call.finished.reason) == ("pleas", STOP)
    assert call.finished.WhichOneof("stopped_at") is None


def test_text_held_back_comes_when_max_tokens_is_reached(scene: Scene) -> None:
    scene.engine.answer = says("hello", "ple", "as")
    call = scene.door.generate(5, stopping={"stop": ["assistant"], "max_tokens": 3}).whole()
    assert (call.text, call.finished.reason) == ("hellopleas", LENGTH)
    assert not call.deltas[-1].ids


def test_an_end_of_sequence_as_first_token_is_an_empty_answer_of_one_token(scene: Scene) -> None:
    scene.engine.answer = says(end=FinishReason.STOP)
    call = scene.door.generate(5).whole()
    assert (call.text, call.ids, call.finished.reason, call.finished.usage.output_tokens) == ("", [EOS], STOP, 1)


def test_one_token_is_one_token(scene: Scene) -> None:
    call = scene.door.generate(5, stopping={"max_tokens": 1}).whole()
    assert (call.ids, call.finished.reason, call.finished.usage.output_tokens) == (words(1), LENGTH, 1)


def test_a_stop_token_is_sent_and_named_and_its_text_is_not(scene: Scene) -> None:
    scene.engine.answer = lambda _: Answer(ids("hello", "J"), FinishReason.STOP)
    call = scene.door.generate(5, stopping={"stop_token_ids": ids("J")}).whole()
    assert (call.text, call.ids) == ("hello", ids("hello", "J"))
    assert (call.finished.reason, call.finished.stop_token_id) == (STOP, ids("J")[0])


def test_ids_that_the_tokenizer_does_not_know_say_nothing(scene: Scene) -> None:
    scene.engine.answer = lambda _: Answer([*ids("hello"), UNKNOWN, *ids("own")])
    call = scene.door.generate(5).whole()
    assert (call.text, call.ids[1]) == ("helloown", UNKNOWN)


def test_a_time_budget_that_is_used_up_is_a_good_end(scene: Scene) -> None:
    scene.engine.answer = lambda _: Answer(words(2), FinishReason.DEADLINE)
    call = scene.door.generate(5, time_budget=0.5).whole()
    assert call.finished.reason == generation_pb2.END_REASON_DEADLINE
    parameters = scene.engine.starts[-1].request.parameters
    assert parameters.deadline - scene.engine.starts[-1].request.arrived == 0.5


def test_progress_is_told_of_a_prompt_that_takes_several_steps(scene: Scene) -> None:
    scene.engine.answer = lambda _: Answer([], None, computing=[16, 32])
    call = scene.door.generate(*words(40))
    call.await_started()
    wait_until(lambda: any(event.progress.computed_tokens == 32 for event in call.events), "progress")
    assert {event.progress.prompt_tokens for event in call.events if event.HasField("progress")} == {40}
    call.hang_up()
    call.failure()


def test_text_and_conversations_are_prompts_too(scene: Scene) -> None:
    scene.door.generate(prompt={"text": "hello G"}, stopping={"max_tokens": 1}).whole()
    assert list(scene.engine.starts[-1].prompt) == ids("hello", "G")
    chat = {"messages": [{"role": "user", "content": "hello"}]}
    scene.door.generate(prompt={"chat": chat}, stopping={"max_tokens": 1}).whole()
    assert list(scene.engine.starts[-1].prompt) == ids("user", "hello")
    rendered = scene.door.stub.RenderPrompt(tokens_pb2.RenderPromptRequest(prompt={"chat": chat}))
    assert (rendered.text, list(rendered.ids)) == ("user hello ", ids("user", "hello"))


def test_tokens_and_text_are_turned_into_each_other(scene: Scene) -> None:
    stub = scene.door.stub
    assert list(stub.Tokenize(tokens_pb2.TokenizeRequest(text="hello G")).ids) == ids("hello", "G")
    assert list(stub.Tokenize(tokens_pb2.TokenizeRequest(text="")).ids) == []
    tokens = [*ids("hello"), EOS]
    assert stub.Detokenize(tokens_pb2.DetokenizeRequest(ids=tokens)).text == "hello"
    spelt = tokens_pb2.DetokenizeRequest(ids=tokens, skip_special_tokens=False)
    assert stub.Detokenize(spelt).text == "hello</s>"


def test_items_of_a_batch_fail_and_end_on_their_own(scene: Scene) -> None:
    items = [
        request(5, stopping={"max_tokens": 3}),
        request(stopping={"max_tokens": 3}),
        request(5, sampling={"top_p": 7.0}),
        request(6, stopping={"max_tokens": 2}),
    ]
    responses = list(scene.door.stub.BatchGenerate(generation_pb2.BatchGenerateRequest(requests=items)))
    by_item = {item: [one for one in responses if one.item == item] for item in range(4)}
    for item, tokens in ((0, 3), (3, 2)):
        events = [one.event for one in by_item[item]]
        assert (events[0].HasField("started"), events[-1].finished.usage.output_tokens) == (True, tokens)
        assert [token for event in events for token in event.delta.ids] == words(tokens)
    for item, field in ((1, "prompt.ids.ids"), (2, "sampling.top_p")):
        (failed,) = by_item[item]
        assert (failed.failure.code, field in failed.failure.message) == (3, True)


def test_many_streams_at_once_get_each_their_own(scene: Scene) -> None:
    scene.engine.answer = lambda start: Answer([start.prompt[0]] * 30)
    calls: list[Call] = [scene.door.generate(token, stopping={"max_tokens": 30}) for token in words(40)]
    assert [call.whole(60).ids for call in calls] == [[token] * 30 for token in words(40)]
