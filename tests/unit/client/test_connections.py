"""Connections that are cut anywhere, doors that refuse, and what becomes of the channels."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagehold import client as pagehold
from pagehold.client import Client
from pagehold.client.channels import OPTIONS
from tests.scripted.processes import wait_until
from tests.unit.client.answers import Answer, Attempt, answers
from tests.unit.client.callers import CALLERS
from tests.unit.client.conftest import PATIENT
from tests.unit.client.relay import Relay
from tests.unit.client.scripted_service import ScriptedService
from tests.unit.client.serving import Served, serving
from tests.unit.client.steps import Held, Refusal
from tests.unit.client.test_exactly_once import check_delivered

DRAINING = Refusal(grpc.StatusCode.UNAVAILABLE, "ERROR_REASON_NOT_SERVING")


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[Served, Relay]]:
    """A server behind a port, for many examples."""
    with serving(ScriptedService()) as served:
        relay = Relay(served)
        yield served, relay
        relay.close()


@pytest.fixture
def relay(served: Served) -> Iterator[Relay]:
    relay = Relay(served)
    yield relay
    relay.close()


@pytest.mark.parametrize("kind", list(CALLERS))
@settings(max_examples=40)
@given(answer=answers(), cuts=st.lists(st.integers(0, 700), max_size=4))
def test_a_connection_may_be_cut_at_any_byte(
    shared: tuple[Served, Relay], kind: str, answer: Answer, cuts: list[int]
) -> None:
    served, relay = shared
    served.service.answer = answer
    relay.cuts.clear()
    relay.cuts += cuts
    caller = CALLERS[kind](relay.address, **PATIENT)
    try:
        check_delivered(caller.events(caller.stream("x")), answer)
    finally:
        caller.close()


def test_a_door_that_refuses_is_left_for_a_fresh_connection(relay: Relay, service: ScriptedService) -> None:
    service.script += [DRAINING, DRAINING]
    with Client(relay.address) as client:
        assert client.generate("x").text == "Paris."
        assert client.generate("x").text == "Paris."
    assert relay.connections == 3


def test_what_runs_on_a_connection_goes_on_when_another_call_leaves_it(
    relay: Relay, served: Served, service: ScriptedService
) -> None:
    service.script += [Held(after=2), DRAINING]
    with Client(relay.address) as client, client.stream("x") as stream:
        events = [next(stream), next(stream)]
        assert client.generate("y").text == "Paris."
        served.release()
        check_delivered(events + list(stream), service.answer)
        assert stream.reconnections == 0


def test_channels_that_broke_are_closed(relay: Relay, service: ScriptedService) -> None:
    with Client(relay.address, **PATIENT) as client:
        for _ in range(6):
            service.script += [Attempt(breaks_after=2), DRAINING]
            client.generate("x")
        assert len(client._channels._open) == 1
    assert not client._channels._open


def test_threads_share_a_client(relay: Relay, service: ScriptedService) -> None:
    service.script += [Attempt(breaks_after=place % 5) for place in range(20)]
    with Client(relay.address, **PATIENT) as client, ThreadPoolExecutor(8) as pool:
        texts = set(pool.map(lambda _: client.generate("x").text, range(40)))
    assert texts == {"Paris."}


def test_a_closed_client_ends_its_streams(served: Served, service: ScriptedService) -> None:
    service.script += [Held(after=2)]
    client = Client(served.address)
    stream = client.stream("x")
    next(stream)
    client.close()
    wait_until(lambda: service.hung_up == 1, "the server has noticed")
    with pytest.raises(pagehold.Cancelled, match="the client is closed"):
        next(stream)
    with pytest.raises(pagehold.Cancelled, match="the client is closed"):
        client.load()


def test_every_option_of_the_channel_is_known_to_grpc() -> None:
    known = next(Path(grpc.__file__).parent.glob("_cython/cygrpc*.so")).read_bytes()
    assert [name for name, _ in OPTIONS if name.encode() not in known] == []


def test_the_package_is_imported_without_grpc() -> None:
    script = "import sys, pagehold.client; print('grpc' in sys.modules, 'google.protobuf' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_every_public_name_is_there() -> None:
    assert all(getattr(pagehold, name).__doc__ or name == "Event" for name in pagehold._MODULE_OF)
    assert set(pagehold._MODULE_OF) <= set(dir(pagehold))
    with pytest.raises(AttributeError, match="no attribute 'Absent'"):
        _ = pagehold.Absent
