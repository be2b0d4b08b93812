"""Calls to a manager: made again while there is none, given up in time, and answered by whoever comes."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from executor.frontend.errors import NotServing
from executor.frontend.manager_link import ManagerLink
from executor.frontend.statuses import TABLE
from pagehold.blockmgr.v1 import block_manager_service_pb2_grpc, sequence_pb2

UUID = bytes(range(16))


class Manager(block_manager_service_pb2_grpc.BlockManagerServiceServicer):
    """Says of every sequence the same: ``code`` where one is set."""

    def __init__(self) -> None:
        self.code: grpc.StatusCode | None = None

    async def LookupSequence(self, request: Any, context: Any) -> sequence_pb2.LookupSequenceResponse:  # noqa: N802
        if self.code is not None:
            await context.abort(self.code, "no")
        return sequence_pb2.LookupSequenceResponse(finished=sequence_pb2.FinishedSequence(uuid=request.uuid))


def ask(socket: Path, work: Callable[[ManagerLink, Manager, grpc.aio.Server], Awaitable[Any]]) -> Any:
    """Do something with a link to a manager that has not started yet."""

    async def run() -> Any:
        server, manager = grpc.aio.server(), Manager()
        block_manager_service_pb2_grpc.add_BlockManagerServiceServicer_to_server(manager, server)
        server.add_insecure_port(f"unix:{socket}")
        link = ManagerLink(socket)
        try:
            return await work(link, manager, server)
        finally:
            await link.close()
            await server.stop(0)

    return asyncio.run(run())


def test_a_manager_that_stays_away_is_unavailable_to_the_caller(tmp_path: Path) -> None:
    async def work(link: ManagerLink, manager: Manager, server: grpc.aio.Server) -> Any:
        return await link.look_up("default", uuid=UUID, seconds=0.2)

    with pytest.raises(NotServing, match="the block manager does not answer") as raised:
        ask(tmp_path / "m.sock", work)
    assert TABLE.kind_of(raised.value).code == grpc.StatusCode.UNAVAILABLE


def test_a_manager_that_comes_in_time_answers(tmp_path: Path) -> None:
    async def work(link: ManagerLink, manager: Manager, server: grpc.aio.Server) -> Any:
        asked = asyncio.create_task(link.look_up("default", uuid=UUID))
        await asyncio.sleep(0)
        await server.start()
        return await asked

    assert ask(tmp_path / "m.sock", work).finished.uuid == UUID


@pytest.mark.parametrize(
    ("code", "outcome"),
    [(grpc.StatusCode.NOT_FOUND, None), (grpc.StatusCode.INVALID_ARGUMENT, grpc.aio.AioRpcError)],
    ids=str,
)
def test_what_a_manager_refuses_it_is_not_asked_again(
    tmp_path: Path, code: grpc.StatusCode, outcome: type[Exception] | None
) -> None:
    async def work(link: ManagerLink, manager: Manager, server: grpc.aio.Server) -> Any:
        manager.code = code
        await server.start()
        try:
            return await link.look_up("default", uuid=UUID)
        except grpc.aio.AioRpcError as error:
            return type(error)

    assert ask(tmp_path / "m.sock", work) is outcome
