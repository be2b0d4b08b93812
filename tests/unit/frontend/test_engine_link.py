"""What a door says to an engine, and what it makes of what it hears."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from executor.frontend.engine_link import EngineLink
from executor.frontend.outbox import MESSAGE_BYTES, Outbox
from executor.frontend.sequence import Sequence
from pagehold.common.v1 import states_pb2
from pagehold.engine.v1 import description_pb2, request_pb2, submit_pb2


def sequence(number: int, prompt: int | None = 1) -> Sequence:
    """To be started with a prompt of so many tokens, or to be followed."""
    uuid = bytes([number] * 16)
    start = None if prompt is None else submit_pb2.Start(uuid=uuid, prompt=[7] * prompt).SerializeToString()
    return Sequence(uuid, "default", request_pb2.Request(), prompt or 1, start=start)


@pytest.fixture
def link() -> EngineLink:
    async def described(_: description_pb2.DescribeResponse) -> None:
        pass

    return EngineLink(Path("/nowhere/engine.sock"), "door", described)


def take(outbox: Outbox) -> submit_pb2.SubmitRequest | None:
    """The next message, as an engine reads it."""
    data = outbox.take()
    return None if data is None else submit_pb2.SubmitRequest.FromString(data)


def hear(link: EngineLink, **parts: Any) -> None:
    link._take(submit_pb2.SubmitResponse(**parts))


def test_everything_that_is_due_goes_in_one_message_and_who_speaks_in_the_first() -> None:
    outbox = Outbox()
    outbox.begin("door", [sequence(1), sequence(2, None)], [b"c"])
    outbox.forget(b"f")
    message = take(outbox)
    assert message is not None
    assert (message.door, len(message.starts), list(message.follows)) == ("door", 1, [bytes([2] * 16)])
    assert (list(message.cancels), list(message.forgets)) == ([b"c"], [b"f"])
    assert outbox.take() is None
    outbox.put(sequence(3))
    second = take(outbox)
    assert second is not None
    assert (second.HasField("door"), len(second.starts)) == (False, 1)


def test_what_is_to_be_followed_again_is_not_forgotten_in_the_same_message() -> None:
    outbox, followed = Outbox(), sequence(1, None)
    outbox.forget(followed.uuid)
    outbox.put(followed)
    message = take(outbox)
    assert message is not None
    assert (list(message.follows), list(message.forgets)) == ([followed.uuid], [])
    outbox.put(followed)
    outbox.forget(followed.uuid)
    message = take(outbox)
    assert message is not None
    assert (list(message.follows), list(message.forgets)) == ([], [followed.uuid])


def test_a_large_prompt_goes_alone_and_cancels_behind_every_start() -> None:
    large = MESSAGE_BYTES + 1
    outbox = Outbox()
    outbox.begin("door", [sequence(1), sequence(2, large), sequence(3)], [b"c"])
    messages = []
    while (message := take(outbox)) is not None:
        messages.append(message)
    assert [[start.uuid[0] for start in message.starts] for message in messages] == [[1], [2], [3]]
    assert [list(message.cancels) for message in messages] == [[], [], [b"c"]]


def test_what_waits_in_an_engine_that_is_back_is_not_given_up(link: EngineLink) -> None:
    waiting, accepted = sequence(1), sequence(2)
    for one in (waiting, accepted):
        link.add(one)
    hear(link, accepted=[submit_pb2.Accepted(uuid=accepted.uuid, handle=5, tokens=1)])
    assert (waiting.unsure_since, accepted.unsure_since) == (None, None)
    link._lose()
    assert waiting.unsure_since is not None
    assert accepted.unsure_since is not None
    hear(link, load=submit_pb2.Load())
    assert waiting.unsure_since is None
    assert accepted.unsure_since is not None, "until it is accepted again, or found elsewhere"


def test_a_later_handle_takes_an_earlier_ones_place(link: EngineLink) -> None:
    one = sequence(1)
    link.add(one)
    hear(link, accepted=[submit_pb2.Accepted(uuid=one.uuid, handle=5, cached_tokens=3, tokens=1)])
    hear(link, accepted=[submit_pb2.Accepted(uuid=one.uuid, handle=9, cached_tokens=8, tokens=4)])
    hear(link, recorded=submit_pb2.Recorded(handles=[5, 9], tokens=[100, 6]))
    assert (one.handle, one.cached_tokens, one.tokens) == (9, 3, 6)


def test_an_end_is_the_last_that_is_heard(link: EngineLink) -> None:
    one = sequence(1)
    link.add(one)
    hear(link, accepted=[submit_pb2.Accepted(uuid=one.uuid, handle=5, tokens=1)])
    ended = submit_pb2.Ended(uuid=one.uuid, reason=states_pb2.FINISH_REASON_LENGTH, tokens=3, tail_start=1, tail=[8, 9])
    hear(link, ended=[ended, ended], recorded=submit_pb2.Recorded(handles=[5], tokens=[3]))
    assert one.end is not None
    assert (one.end.tokens, list(one.end.tail), link.sequences) == (3, [8, 9], {})


def test_a_duplicate_is_looked_for_elsewhere_and_any_other_refusal_is_the_end(link: EngineLink) -> None:
    duplicate, refused = sequence(1), sequence(2)
    link.add(duplicate)
    link.add(refused)
    hear(
        link,
        refused=[
            submit_pb2.Refused(uuid=duplicate.uuid, refusal=states_pb2.REFUSAL_DUPLICATE),
            submit_pb2.Refused(uuid=refused.uuid, refusal=states_pb2.REFUSAL_INVALID),
        ],
    )
    assert (duplicate.disowned, duplicate.is_over, refused.is_over) == (True, False, True)
    assert list(link.sequences) == [duplicate.uuid]


def test_whoever_delivers_is_woken_by_each_thing_that_is_new(link: EngineLink) -> None:
    one, event = sequence(1), asyncio.Event()
    link.add(one)
    one.listeners.add(event)
    hear(link, accepted=[submit_pb2.Accepted(uuid=one.uuid, handle=5, tokens=1)])
    for news in (
        {"recorded": submit_pb2.Recorded(handles=[5], tokens=[2])},
        {"computing": [submit_pb2.Computing(handle=5, computed_tokens=1)]},
        {"ended": [submit_pb2.Ended(uuid=one.uuid, reason=states_pb2.FINISH_REASON_STOP, tokens=2)]},
    ):
        event.clear()
        hear(link, **news)
        assert event.is_set()
