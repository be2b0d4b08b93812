"""The queue of waiting requests."""

from executor.engine.request import Request
from executor.engine.waiting import MOST_PASSES, Waiting, WaitingRequests
from tests.unit.engine.sequences import LIMITS, request


def queue_of(*requests: Request) -> WaitingRequests:
    queue = WaitingRequests(100)
    for one in requests:
        queue.add(Waiting(one))
    return queue


def taken(queue: WaitingRequests, most_blocks: int = 1000) -> Request | None:
    waiting = queue.take(lambda one: one.blocks(LIMITS) <= most_blocks)
    return waiting.request if waiting else None


def test_a_greater_priority_goes_first_and_equals_by_arrival() -> None:
    low, first, second, high = request(priority=-1), request(), request(), request(priority=3)
    queue = queue_of(low, first, second, high)
    assert [taken(queue) for _ in range(5)] == [high, first, second, low, None]


def test_what_was_taken_in_vain_comes_back_to_where_it_stood() -> None:
    first, second, third, high = request(), request(), request(), request(priority=1)
    queue = queue_of(first, second, third)
    for waiting in [queue.take(lambda _: True), queue.take(lambda _: True)]:
        assert waiting is not None
        queue.put_back(waiting)
    queue.add(Waiting(high))
    assert [taken(queue) for _ in range(4)] == [high, first, second, third]


def test_small_ones_pass_one_that_does_not_fit_a_bounded_number_of_times() -> None:
    big, small = request(200), [request(8, 8) for _ in range(MOST_PASSES + 3)]
    queue = queue_of(big, *small)
    passed = 0
    while taken(queue, 5) is not None:
        passed += 1
    assert passed == MOST_PASSES
    assert taken(queue) is big


def test_removed_ones_are_gone_and_places_are_counted() -> None:
    first, second = request(), request()
    queue = WaitingRequests(2)
    for one in (first, second):
        assert not queue.is_full
        queue.add(Waiting(one))
    assert queue.is_full
    found = queue.get(first.uuid)
    assert found is not None
    queue.remove(found)
    assert queue.get(first.uuid) is None
    assert len(queue) == 1
    assert taken(queue) is second
