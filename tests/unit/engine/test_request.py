"""What a request may be."""

import pytest

from blockmgr.core.states import Refusal, SequenceFlags
from executor.engine.request import Limits, Request, RequestRefused
from pagehold.engine.v1 import submit_pb2
from tests.unit.engine.sequences import LIMITS, request


def test_what_needs_more_blocks_than_the_pool_has_is_refused_with_both_numbers() -> None:
    request(300, 21).check(LIMITS)
    with pytest.raises(RequestRefused) as refused:
        request(300, 22).check(LIMITS)
    assert refused.value.refusal == Refusal.NEVER_FITS
    assert (refused.value.needed, refused.value.available) == (21, 20)


def test_the_last_token_needs_no_block() -> None:
    assert [request(16, 1).blocks(LIMITS), request(16, 2).blocks(LIMITS), request(1, 1).blocks(LIMITS)] == [1, 2, 1]


def test_what_is_longer_than_the_model_can_is_refused_with_both_numbers() -> None:
    limits = Limits(max_length=100, vocabulary=100, usable_blocks=100, tokens_per_block=16)
    request(60, 40).check(limits)
    with pytest.raises(RequestRefused) as refused:
        request(60, 41).check(limits)
    assert (refused.value.refusal, refused.value.needed, refused.value.available) == (Refusal.TOO_LONG, 101, 100)


@pytest.mark.parametrize(
    "start",
    [
        submit_pb2.Start(uuid=bytes(16)),
        submit_pb2.Start(uuid=b"short"),
        submit_pb2.Start(uuid=bytes(range(16)), caller=b"x"),
        submit_pb2.Start(uuid=bytes(range(16)), body=b"x"),
    ],
)
def test_ids_have_sixteen_bytes(start: submit_pb2.Start) -> None:
    start.prompt.append(1)
    start.request.parameters.max_tokens = 1
    with pytest.raises(RequestRefused, match="must have 16 bytes") as refused:
        Request.of(start).check(LIMITS)
    assert refused.value.refusal == Refusal.INVALID


def test_a_seed_of_64_bits_is_the_same_bits_with_a_sign() -> None:
    assert request(seed=5).seed == 5
    assert request(seed=(1 << 64) - 1).seed == -1
    assert request(seed=1 << 63).seed == -(1 << 63)


def test_an_admission_asks_for_its_first_chunks_and_says_how_it_shares() -> None:
    asked = request(100, 28, priority=4)
    asked.kept.no_store = True
    admission = asked.admission(32, b"salt")
    assert (admission.reserve, admission.max_length, admission.priority) == (32, 128, 4)
    assert (admission.salt, admission.flags) == (b"salt", SequenceFlags.NO_STORE)
    assert request(5).admission(32, b"").reserve == 5


def test_what_the_ledger_keeps_is_the_whole_request() -> None:
    asked = request(20, 7, seed=11, end_ids=[3, 4], deadline=12.5)
    again = Request.from_ledger(asked.uuid, asked.prompt, asked.admission(16, b"").request)
    assert again.kept == asked.kept
    assert (again.longest, again.end_ids, again.deadline) == (27, frozenset({3, 4}), 12.5)
    assert request().deadline is None
