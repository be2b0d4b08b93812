"""Requests in flight by the server's id and the caller's name, and the places they take."""

import pytest

from executor.frontend.admission import Places
from executor.frontend.errors import AlreadyExists, InvalidRequest, NotServing, QueueFull
from executor.frontend.registry import Registry
from executor.frontend.sequence import Sequence
from pagehold.engine.v1 import request_pb2


def sequence(number: int, name: str = "") -> Sequence:
    return Sequence(bytes([number] * 16), "default", request_pb2.Request(request_id=name), 1)


def test_a_name_is_taken_once() -> None:
    registry = Registry()
    first = sequence(1, "mine")
    registry.add(first, b"body")
    with pytest.raises(AlreadyExists, match="'mine' is taken by request 0101"):
        registry.add(sequence(2, "mine"), b"body")
    with pytest.raises(InvalidRequest, match="another body"):
        registry.add(sequence(2, "mine"), b"other")
    assert registry.find_name("mine") is first
    assert len(registry) == 1


def test_a_name_is_free_again_once_its_request_is_over() -> None:
    registry = Registry()
    first, second = sequence(1, "mine"), sequence(2, "mine")
    registry.add(first, b"body")
    registry.remove(first)
    registry.add(second, b"body")
    registry.remove(first)
    assert registry.find_name("mine") is second


def test_requests_without_a_name_do_not_meet() -> None:
    registry = Registry()
    registry.add(sequence(1), b"body")
    registry.add(sequence(2), b"body")
    assert {one.uuid[0] for one in registry} == {1, 2}
    assert registry.find_name("") is None


def test_places_are_limited_and_given_back_once() -> None:
    places = Places(2)
    first, second = places.take(), places.take()
    with pytest.raises(QueueFull, match="2 requests are in flight"):
        places.take()
    assert places.try_take() is None
    first.give_back()
    first.give_back()
    assert places.taken == 1
    with places.take():
        assert places.taken == 2
    second.give_back()
    assert places.idle.is_set()


def test_nothing_new_is_let_in_once_closed() -> None:
    places = Places(2)
    place = places.take()
    places.close("stopping")
    with pytest.raises(NotServing, match="stopping"):
        places.take()
    assert not places.idle.is_set()
    place.give_back()
    assert places.idle.is_set()
