"""Attaching while earlier deliveries of the same sequences end: none of them is let go of."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from executor.frontend import attachment
from executor.frontend.door import Door
from executor.frontend.engine_link import EngineLink
from executor.frontend.hanging_up import hang_up, release
from executor.frontend.sequence import Sequence
from executor.outputs import uuid_of
from pagehold.blockmgr.v1 import sequence_pb2
from pagehold.engine.v1 import request_pb2
from pagehold.inference.v1 import generation_pb2

UUID = bytes([1] * 16)


class Manager:
    """Knows two outputs to be live. Answers the call of a name, the ``place``-th of that name, once it may."""

    def __init__(self, held: str, place: int = 1, number: int = 2) -> None:
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()
        self._held, self._place, self._number = held, place, number

    async def attach(self, pool: str, uuid: bytes) -> Any:
        await self._wait("attach")
        return SimpleNamespace(attachment=self._number)

    async def cancel(self, pool: str, uuid: bytes, attachment: int) -> bool:
        await self._wait("cancel")
        return False

    async def look_up(self, pool: str, *, uuid: bytes) -> sequence_pb2.LookupSequenceResponse:
        await self._wait("look_up")
        live = sequence_pb2.LiveSequence(uuid=uuid, handle=uuid[-1], executor="engine", tokens=3)
        return sequence_pb2.LookupSequenceResponse(live=live)

    async def _wait(self, name: str) -> None:
        if name != self._held:
            return
        self._place -= 1
        if not self._place:
            self.asked.set()
            await self.may_answer.wait()


async def found(*_: Any) -> Any:
    return SimpleNamespace()


def a_door(manager: Manager) -> tuple[Door, EngineLink, list[Sequence]]:
    """A door that follows both outputs of a request, and its link to their engine."""
    link = EngineLink(Path("/nowhere/engine.sock"), "door", found)
    request = request_pb2.Request(outputs=2)
    first = Sequence(UUID, "default", request, 3, handle=UUID[-1], accepted=True)
    other = Sequence.other_output(first, 1)
    other.handle, other.accepted = other.uuid[-1], True
    rows = {
        one.handle: SimpleNamespace(uuid=one.uuid, request=one.request, prompt=3, count=3) for one in (first, other)
    }
    for row in rows.values():
        row.request = row.request.SerializeToString()
    for one in (first, other):
        link.add(one)
    door = SimpleNamespace(
        manager=manager,
        models=SimpleNamespace(find=found, known=found, all=[SimpleNamespace(pool=SimpleNamespace(name="default"))]),
        registry=SimpleNamespace(remove=lambda _: None, find=lambda _: None),
        ledgers=SimpleNamespace(row=lambda _, handle: rows[handle]),
        engines=SimpleNamespace(
            link_of=lambda one: link if link.has(one) else None, find=link.sequences.get, link=lambda _: link
        ),
    )
    return cast(Door, door), link, [first, other]


def attach(door: Door) -> "asyncio.Task[Any]":
    request = generation_pb2.AttachRequest(id="01" * 16)
    return asyncio.ensure_future(attachment.attach(door, request))


@pytest.fixture(autouse=True)
def _delivers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def generation_of(_: Door, sequences: list[Sequence], *__: Any, **___: Any) -> list[Sequence]:
        for sequence in sequences:
            sequence.deliveries += 1
        return sequences

    monkeypatch.setattr(attachment, "generation_of", generation_of)


@pytest.mark.parametrize("number", [2, 0])
@pytest.mark.parametrize("moment", [("look_up", 3), ("attach", 1), ("attach", 2)])
def test_who_attaches_goes_on_hearing_of_outputs_that_an_earlier_caller_lets_go_of(
    moment: tuple[str, int], number: int
) -> None:
    async def follow() -> tuple[Any, EngineLink]:
        manager = Manager(*moment, number)
        door, link, sequences = a_door(manager)
        attaching = attach(door)
        await manager.asked.wait()
        for sequence in sequences:
            release(door, sequence)
        manager.may_answer.set()
        ends = await asyncio.gather(attaching, return_exceptions=True)
        return ends[0], link

    delivered, link = asyncio.run(follow())
    if number:
        assert isinstance(delivered, list)
        assert [one.uuid for one in delivered] == [UUID, uuid_of(UUID, 1)]
        assert list(link.sequences.values()) == delivered
    else:
        assert isinstance(delivered, Exception)
        assert not link.sequences


def test_an_earlier_hang_up_that_takes_long_lets_go_of_nothing_that_was_attached_to_since() -> None:
    async def follow() -> tuple[list[Sequence], EngineLink]:
        manager = Manager("cancel")
        door, link, sequences = a_door(manager)
        hanging_up = asyncio.ensure_future(hang_up(door, sequences[0], 1))
        await manager.asked.wait()
        for sequence in sequences:
            release(door, sequence)
        outputs = await attach(door)
        manager.may_answer.set()
        await hanging_up
        return outputs, link

    outputs, link = asyncio.run(follow())
    assert list(link.sequences.values()) == outputs


def test_an_output_that_is_still_to_come_goes_with_the_first_one_that_is_followed_now() -> None:
    async def follow() -> tuple[list[Sequence], Sequence]:
        door, link, (first, other) = a_door(manager := Manager(""))
        other.handle, other.accepted = 0, False
        link.forget(first)

        async def look_up(pool: str, *, uuid: bytes) -> sequence_pb2.LookupSequenceResponse | None:
            return await Manager.look_up(manager, pool, uuid=uuid) if uuid == UUID else None

        manager.look_up = look_up  # type: ignore[assignment,method-assign]
        return await attach(door), other

    (first, second), other = asyncio.run(follow())
    assert second is other
    assert other.first is first
