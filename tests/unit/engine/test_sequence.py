"""A sequence's counts, step by step."""

from blockmgr.core.states import FinishReason
from tests.unit.engine.sequences import BLOCK, decoding, sequence


def test_a_prompt_in_chunks_samples_with_its_last_one_only() -> None:
    one = sequence(40)
    assert [one.launch(16), one.launch(16), one.launch(8)] == [False, False, True]
    for end in (16, 32):
        one.complete(end, None)
    assert one.tokens == one.request.prompt.tolist()
    one.complete(40, 3)
    assert one.tokens[40:] == [3]
    assert one.computed == 40


def test_an_end_id_at_the_last_allowed_token_is_a_stop() -> None:
    one = sequence(5, 2, end_ids=[9])
    one.launch(5)
    one.complete(5, 8)
    assert one.ending is None
    one.launch(1)
    one.complete(6, 9)
    assert one.ending == FinishReason.STOP


def test_the_row_launched_behind_an_end_gives_no_token() -> None:
    one = sequence(5, 5, end_ids=[9])
    one.launch(5)
    one.launch(1)
    one.complete(5, 9)
    one.complete(6, 4)
    assert one.tokens[5:] == [9]
    assert not one.in_flight
    assert not one.sampling


def test_an_end_id_in_the_prompt_ends_nothing() -> None:
    one = sequence(5, 5, end_ids=[4])
    one.find_end()
    assert one.ending is None


def test_a_final_length_counts_whether_its_tokens_are_there_or_not() -> None:
    there, later = decoding(prompt=10), decoding(prompt=10)
    there.stop_at(11)
    assert there.ending == FinishReason.STOP
    later.stop_at(13)
    later.stop_at(12)
    later.stop_at(14)
    assert later.ending is None
    later.launch(1)
    later.complete(11, 5)
    assert later.ending == FinishReason.STOP
    assert later.final == 12


def test_hits_are_reported_once_the_device_has_them() -> None:
    one = sequence(40)
    one.start_at(32, 0, serial=7)
    assert one.launched == 32
    assert not one.take_report(completed=6)
    one.launch(8)
    assert not one.take_report(completed=6)
    assert one.take_report(completed=7)
    assert one.reported == (40, 32)
    one.complete(40, 1)
    assert one.take_report(completed=8)
    assert one.reported == (40, 40)
    assert not one.take_report(completed=9)


def test_a_step_that_failed_takes_a_sequence_back_to_what_is_computed() -> None:
    one = decoding(prompt=10)
    samples = one.launch(1)
    one.fail(samples)
    one.restart_at(10)
    assert (one.launched, one.computed, one.sampling, one.in_flight) == (10, 10, 0, 0)
    assert one.frozen
    assert one.room(BLOCK) == 10
    assert not one.runnable(1, BLOCK)
    one.frozen = False
    assert one.runnable(1, BLOCK) == 1


def test_the_table_has_the_copys_destination_until_the_manager_has_it_too() -> None:
    one = sequence(blocks=3)
    one.redirect(1, 40)
    assert one.update(0, [1, 2, 3, 4]) == [(0, 1), (1, 40), (2, 3), (3, 4)]
    one.copied.pop(1)
    assert one.update(1, [40, 6]) == [(1, 40), (2, 6)]
    assert one.table == [1, 40, 6]
    assert one.blocks == 3


def test_what_is_on_its_way_from_the_host_is_no_room() -> None:
    one = sequence(40, blocks=0)
    one.update(0, [0, 5, 6])
    assert one.room(BLOCK) == 0
    one.redirect(0, 4)
    assert one.room(BLOCK) == 48
