"""Who hangs up, cancels or closes, and what the server hears of it."""

import asyncio
import gc
import threading
from collections import deque
from collections.abc import Callable

import pytest

from pagehold.client import AsyncClient, Cancelled, Client, DeadlineExceeded, NotFound
from tests.scripted.processes import wait_until, wait_until_async
from tests.unit.client.answers import Attempt
from tests.unit.client.callers import Caller
from tests.unit.client.scripted_service import ScriptedService
from tests.unit.client.serving import Served
from tests.unit.client.steps import BREAK, Held
from tests.unit.client.test_streams import UNKNOWN


def test_a_cancelled_stream_hangs_up_and_raises(caller: Caller, service: ScriptedService) -> None:
    service.script += [Held(after=2)]
    stream = caller.stream("x")
    caller.first(stream, 2)
    caller.done(stream.cancel())
    wait_until(lambda: service.hung_up == 1, "the server has noticed")
    with pytest.raises(Cancelled):
        caller.first(stream, 1)
    assert stream.text == "Par"
    assert service.methods() == ["Generate"]


def test_a_detached_stream_is_cancelled_by_its_id(caller: Caller, service: ScriptedService) -> None:
    service.script += [Held(after=2)]
    stream = caller.stream("x", detached=True)
    caller.first(stream, 2)
    caller.done(stream.cancel())
    assert service.methods() == ["Generate", "Cancel"]
    assert service.calls[1][1].id == service.answer.id


def test_a_stream_that_broke_is_cancelled_by_its_id_too(caller: Caller, service: ScriptedService) -> None:
    service.script += [Attempt(breaks_after=2), Held(after=3)]
    stream = caller.stream("x")
    caller.first(stream, 3)
    caller.done(stream.cancel())
    assert service.methods() == ["Generate", "Attach", "Cancel"]


def test_an_attached_stream_is_cancelled_by_its_id(caller: Caller, service: ScriptedService) -> None:
    service.script += [Held(after=2)]
    stream = caller.attach(request_id="mine")
    caller.first(stream, 2)
    caller.done(stream.cancel())
    assert service.methods() == ["Attach", "Cancel"]
    assert service.calls[-1][1].id == service.answer.id


def test_leaving_a_stream_hangs_up(served: Served, service: ScriptedService) -> None:
    service.script += [Held(after=2)]
    with Client(served.address) as client, client.stream("x") as stream:
        next(stream)
    wait_until(lambda: service.hung_up == 1, "the server has noticed")
    assert list(stream) == []
    with pytest.raises(Cancelled, match="closed before its end"):
        stream.result()


def test_leaving_an_asyncio_stream_hangs_up(served: Served, service: ScriptedService) -> None:
    service.script += [Held(after=2)]

    async def leave() -> None:
        async with AsyncClient(served.address) as client, client.stream("x") as stream:
            await anext(stream)

    asyncio.run(leave())
    wait_until(lambda: service.hung_up == 1, "the server has noticed")


def test_a_stream_that_is_forgotten_hangs_up(
    connect: Callable[..., Caller], service: ScriptedService, served: Served
) -> None:
    caller = connect()
    service.script += [Held(after=2)]
    stream = caller.stream("x")
    caller.first(stream, 2)
    channels = caller.client._channels
    del stream
    gc.collect()
    wait_until(lambda: service.hung_up == 1, "the server has noticed")
    assert [lease.calls for lease in channels._open] == [0]


def test_cancelling_a_stream_that_has_ended_does_nothing(caller: Caller, service: ScriptedService) -> None:
    stream = caller.stream("x", detached=True)
    caller.events(stream)
    caller.done(stream.cancel())
    assert service.methods() == ["Generate"]
    assert caller.done(stream.result()).text == "Paris."


def test_cancelling_a_stream_that_never_began_sends_nothing(caller: Caller, service: ScriptedService) -> None:
    stream = caller.stream("x")
    caller.done(stream.cancel())
    with pytest.raises(Cancelled):
        caller.events(stream)
    assert service.calls == []


def test_another_thread_may_cancel(served: Served, service: ScriptedService) -> None:
    service.script += [Held(after=2)]
    with Client(served.address) as client, client.stream("x") as stream:
        ends: list[BaseException] = []

        def read() -> None:
            try:
                list(stream)
            except Cancelled as error:
                ends.append(error)

        thread = threading.Thread(target=read)
        thread.start()
        wait_until(lambda: stream.text == "Par", "the first token has come")
        stream.cancel()
        thread.join(60)
    assert len(ends) == 1


def test_another_thread_may_cancel_between_two_connections(served: Served, service: ScriptedService) -> None:
    service.script += [Attempt(breaks_after=2), *[BREAK] * 1000]
    with Client(served.address) as client:
        stream = client.stream("x")

        def cancel() -> None:
            wait_until(lambda: stream.reconnections > 3, "it has tried to connect")
            stream.cancel()

        canceller = threading.Thread(target=cancel)
        canceller.start()
        with pytest.raises(Cancelled):
            list(stream)
        canceller.join(60)
    assert "Cancel" in service.methods()


def test_another_task_may_cancel(served: Served, service: ScriptedService) -> None:
    service.script += [Held(after=2)]

    async def cancel() -> None:
        async with AsyncClient(served.address) as client:
            stream = client.stream("x")
            task = asyncio.create_task(stream.result())
            await wait_until_async(lambda: stream.text == "Par", "the first token has come")
            await stream.cancel()
            with pytest.raises(Cancelled):
                await task

    asyncio.run(cancel())
    wait_until(lambda: service.hung_up == 1, "the server has noticed")


def test_a_time_limit_around_an_asyncio_stream_hangs_up(served: Served, service: ScriptedService) -> None:
    service.script += [Held(after=2)]

    async def generate_in_time(client: AsyncClient) -> None:
        async with asyncio.timeout(None) as limit:
            begun = asyncio.create_task(wait_until_async(service.methods, "it has begun"))
            begun.add_done_callback(lambda _: limit.reschedule(asyncio.get_running_loop().time()))
            await client.generate("x")

    async def limited() -> None:
        async with AsyncClient(served.address) as client:
            with pytest.raises(TimeoutError):
                await generate_in_time(client)

    asyncio.run(limited())
    wait_until(lambda: service.hung_up == 1, "the server has noticed")


def test_a_cancelled_task_raises_what_asyncio_expects(served: Served, service: ScriptedService) -> None:
    service.script += [Held(after=2)]

    async def cancelled() -> bool:
        async with AsyncClient(served.address) as client:
            stream = client.stream("x")
            task = asyncio.create_task(stream.result())
            await wait_until_async(lambda: stream.text == "Par", "the first token has come")
            task.cancel()
            await asyncio.wait([task])
            return task.cancelled()

    assert asyncio.run(cancelled())
    wait_until(lambda: service.hung_up == 1, "the server has noticed")


def test_cancel_says_whether_it_was_in_flight(caller: Caller, service: ScriptedService) -> None:
    assert caller.cancel(service.answer.id) is True
    assert service.calls[-1][1].id == service.answer.id
    caller.cancel(request_id="mine")
    assert service.calls[-1][1].request_id == "mine"
    service.unary["Cancel"] = deque([UNKNOWN])
    with pytest.raises(NotFound):
        caller.cancel("x")


@pytest.mark.parametrize("key", [{}, {"id": "a", "request_id": "b"}])
def test_a_request_is_named_by_one_of_two_names(caller: Caller, key: dict[str, str]) -> None:
    with pytest.raises(TypeError, match="by its id or by its request_id"):
        caller.cancel(**key)


def test_a_deadline_of_what_was_attached_to_only_hangs_up(
    connect: Callable[..., Caller], service: ScriptedService
) -> None:
    caller = connect()
    # The call has to arrive within the deadline.
    for seconds in (0.5, 2, 8, 32):
        service.script = deque([Held(after=1)])
        with pytest.raises(DeadlineExceeded):
            caller.events(caller.attach("i", timeout=seconds))
        if service.hung_up:
            break
    assert set(service.methods()) == {"Attach"}
