"""Finding a request while what is known of it changes."""

import asyncio
from types import SimpleNamespace
from typing import cast

from executor.frontend.door import Door
from executor.frontend.finding import Place, find
from executor.frontend.requests import cancel
from executor.outputs import uuid_of
from pagehold.blockmgr.v1 import sequence_pb2
from pagehold.engine.v1 import request_pb2
from pagehold.inference.v1 import requests_pb2

FIRST = bytes([1] * 16)
KEPT = request_pb2.Request(outputs=3, root=FIRST).SerializeToString()


class Manager:
    """Takes a sequence for live when it is asked first, though its row is gone by then; after that it has ended."""

    def __init__(self) -> None:
        self.asked: set[bytes] = set()
        self.cancelled: list[bytes] = []

    async def look_up(
        self, pool: str, *, uuid: bytes = FIRST, caller: bytes = b""
    ) -> sequence_pb2.LookupSequenceResponse:
        if uuid in self.asked:
            ended = sequence_pb2.FinishedSequence(uuid=uuid, request=KEPT)
            return sequence_pb2.LookupSequenceResponse(finished=ended)
        if not caller:
            self.asked.add(uuid)
        return sequence_pb2.LookupSequenceResponse(live=sequence_pb2.LiveSequence(uuid=uuid, handle=7))

    async def cancel(self, pool: str, uuid: bytes) -> bool:
        self.cancelled.append(uuid)
        return uuid != FIRST


def a_door(manager: Manager) -> Door:
    async def known() -> None:
        pass

    door = SimpleNamespace(
        manager=manager,
        models=SimpleNamespace(all=[SimpleNamespace(pool=SimpleNamespace(name="default"))], known=known),
        registry=SimpleNamespace(find=lambda _: None, find_name=lambda _: None),
        ledgers=SimpleNamespace(row=lambda *_: None),
    )
    return cast(Door, door)


def test_the_id_of_an_output_that_ends_just_then_names_its_request() -> None:
    place = asyncio.run(find(a_door(Manager()), requests_pb2.GetRequestRequest(id=uuid_of(FIRST, 2).hex())))
    assert place == Place(FIRST, "default")


def test_a_cancel_reaches_all_outputs_though_the_first_ends_just_then() -> None:
    manager = Manager()
    assert asyncio.run(cancel(a_door(manager), requests_pb2.CancelRequest(request_id="several"))).cancelled
    assert manager.cancelled == [uuid_of(FIRST, output) for output in range(3)]
