"""What one front door is told."""

from blockmgr.core.states import FinishReason, Refusal
from executor.engine.news import Accepted, Computing, Ended, Load, Recorded, Refused, Unknown
from executor.engine.stream import TOLD_AT_ONCE, DoorStream
from pagehold.engine.v1 import submit_pb2

KEY = bytes(range(16))


def stream(*news: object) -> DoorStream:
    made = DoorStream(1)
    for one in news:
        made.take(one)  # type: ignore[arg-type]
    return made


def test_of_many_records_the_last_number_is_told() -> None:
    one = stream(Accepted(KEY, 5, 10, 0, 10), *[Recorded(KEY, 5, 10 + count) for count in range(100)])
    message = one.message(0.0)
    assert list(message.recorded.handles) == [5]
    assert list(message.recorded.tokens) == [109]
    assert not one.due.is_set()


def test_an_end_brings_what_was_not_told_and_nothing_of_a_row_that_is_gone() -> None:
    one = stream(Accepted(KEY, 5, 3, 0, 3), Recorded(KEY, 5, 4))
    one.message(0.0)
    for news in (Recorded(KEY, 5, 5), Computing(KEY, 5, 2), Ended(KEY, 5, FinishReason.STOP, [1, 2, 3, 4, 5, 6])):
        one.take(news)
    message = one.message(0.0)
    assert not message.recorded.handles
    assert not message.computing
    (ended,) = message.ended
    assert (ended.tokens, ended.tail_start, list(ended.tail)) == (6, 4, [5, 6])


def test_accepted_and_ended_in_one_message_leave_out_the_prompt() -> None:
    (ended,) = stream(Accepted(KEY, 5, 3, 0, 3), Ended(KEY, 5, FinishReason.LENGTH, [1, 2, 3, 4])).message(0.0).ended
    assert (ended.tail_start, list(ended.tail)) == (3, [4])


def test_a_final_length_below_what_was_told_has_no_tail() -> None:
    one = stream(Accepted(KEY, 5, 3, 0, 3), Recorded(KEY, 5, 9))
    one.message(0.0)
    one.take(Ended(KEY, 5, FinishReason.STOP, [1, 2, 3, 4]))
    (ended,) = one.message(0.0).ended
    assert (ended.tokens, ended.tail_start, list(ended.tail)) == (4, 4, [])


def test_refusals_carry_reason_and_numbers() -> None:
    one = stream(
        Refused(KEY, Refusal.NEVER_FITS, needed=9, available=3, detail="no"),
        Refused(bytes(16), by=submit_pb2.REFUSED_BY_QUEUE),
        Unknown(bytes(reversed(KEY)), 1),
    )
    message = one.message(0.0)
    first, second = message.refused
    assert (first.refusal, first.needed, first.available, first.detail) == (2, 9, 3, "no")
    assert second.by == submit_pb2.REFUSED_BY_QUEUE
    assert list(message.unknown) == [bytes(reversed(KEY))]


def test_what_does_not_go_into_one_message_comes_with_the_next() -> None:
    keys = [number.to_bytes(16, "big") for number in range(TOLD_AT_ONCE + 5)]
    one = stream(*[Accepted(key, place, 1, 0, 1) for place, key in enumerate(keys)])
    assert len(one.message(0.0).accepted) == TOLD_AT_ONCE
    assert one.due.is_set()
    assert len(one.message(0.0).accepted) == 5
    assert not one.due.is_set()


def test_the_load_says_how_old_it_is_once() -> None:
    one = stream()
    one.load = Load(running=3, waiting=2, blocks=10, free_blocks=4, round=100.0)
    load = one.message(100.25).load
    assert (load.running, load.waiting, load.blocks, load.free_blocks, load.age) == (3, 2, 10, 4, 0.25)
    assert not one.message(101.0).HasField("load")


def test_what_is_forgotten_is_not_told() -> None:
    one = stream(Accepted(KEY, 5, 3, 0, 3), Recorded(KEY, 5, 9))
    one.forget(KEY)
    message = one.message(0.0)
    assert not message.accepted
    assert not message.recorded.handles


def test_no_end_comes_before_its_beginning() -> None:
    others = [number.to_bytes(16, "big") for number in range(1, TOLD_AT_ONCE + 1)]
    one = stream(*[Accepted(key, place, 1, 0, 1) for place, key in enumerate(others)], Accepted(KEY, 9000, 3, 0, 3))
    one.take(Ended(KEY, 9000, FinishReason.STOP, [1, 2, 3, 4]))
    message = one.message(0.0)
    assert KEY in {accepted.uuid for accepted in message.accepted}
    (ended,) = message.ended
    assert (ended.tail_start, list(ended.tail)) == (3, [4])
    assert not one.due.is_set()


def test_of_a_forgotten_request_nothing_is_told() -> None:
    one = stream(
        Accepted(KEY, 5, 3, 0, 3), Refused(KEY, Refusal.NEVER_FITS), Ended(KEY, 5, FinishReason.STOP, [1, 2, 3, 4])
    )
    one.forget(KEY)
    assert not one.message(0.0).ByteSize()
