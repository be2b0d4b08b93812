"""What operators change: size, draining, fencing; and what is said where a pool or a manager is not there."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from blockmgr.arena.base import ArenaError
from blockmgr.core.errors import StaleEpoch
from blockmgr.core.states import Refusal
from pagehold.admin.v1 import executor_pb2, pin_pb2, pool_pb2, stats_pb2
from pagehold.blockmgr.v1 import session_pb2
from pagehold.common.v1 import states_pb2 as states
from tests.admin_server import BLOCK_BYTES, AdminServer, Failing, Worker, geometry_of


@pytest.fixture
def server(tmp_path: Path) -> Iterator[AdminServer]:
    with AdminServer(tmp_path, geometry_of(max_device_blocks=64)) as server:
        yield server


@pytest.fixture
def worker(server: AdminServer) -> Worker:
    return server.worker()


def resize(server: AdminServer, blocks: int) -> pool_pb2.ResizeResponse:
    with server.stub() as stub:
        return stub.Resize(pool_pb2.ResizeRequest(device_blocks=blocks))


def told(server: AdminServer, worker: Worker) -> list[session_pb2.SessionResponse]:
    """Everything that the worker, which has said all it has to say, is told on its session from now on."""
    said: list[session_pb2.SessionResponse] = []

    def listen() -> None:
        member = server.manager.members.by_epoch[worker.epoch]
        member.tell, member.nudged = said.append, False

    server.on_loop(listen)
    return said


# -- size --------------------------------------------------------------------------------------------------------------


def test_a_pool_that_grows_has_its_memory_before_its_blocks(
    server: AdminServer, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    deposited: list[tuple[str, int, int]] = []

    async def deposit(name: str, descriptors: list[int]) -> None:
        deposited.append((name, os.fstat(descriptors[0]).st_size, server.pool.state.capacity))

    monkeypatch.setattr(server.manager.notifier, "deposit", deposit)
    answer = resize(server, 48)
    assert (answer.device_blocks_before, answer.device_blocks, answer.in_use_beyond) == (32, 48, 0)
    assert deposited == [("device.default.1", 16 * BLOCK_BYTES, 32)]
    assert server.on_loop(lambda: (server.pool.state.available(), server.managed().device.size)) == (
        47,
        48 * BLOCK_BYTES,
    )


def test_a_pool_whose_memory_cannot_be_kept_stays_as_it_was(
    server: AdminServer, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def deposit(name: str, descriptors: list[int]) -> None:
        raise ArenaError("no room")

    monkeypatch.setattr(server.manager.notifier, "deposit", deposit)
    with Failing() as refused:
        resize(server, 48)
    assert refused.code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert server.on_loop(lambda: (server.pool.state.capacity, server.managed().device.size)) == (32, 32 * BLOCK_BYTES)


def test_memory_that_is_made_ready_is_not_trimmed_meanwhile(
    server: AdminServer, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[tuple[int, list[int]]] = []

    async def deposit(name: str, descriptors: list[int]) -> None:
        trimmed: list[int] = []
        with monkeypatch.context() as during:
            during.setattr(server.managed().device, "zero", lambda offset, length: trimmed.append(offset))
            server.managed().trim_memory(mapped=True)
        sizes.append((server.managed().device.size, trimmed))

    monkeypatch.setattr(server.manager.notifier, "deposit", deposit)
    resize(server, 48)
    assert sizes == [(48 * BLOCK_BYTES, [])]


def test_a_pool_that_shrinks_gives_its_memory_back_and_grows_into_the_same_again(
    server: AdminServer, worker: Worker
) -> None:
    resize(server, 48)
    extent = server.on_loop(lambda: server.managed().device.extents[1].descriptor)
    assert extent is not None
    os.pwrite(extent, b"x" * BLOCK_BYTES, 0)
    resize(server, 32)
    assert os.fstat(extent).st_blocks == 0
    resize(server, 48)
    assert server.on_loop(lambda: [extent.descriptor for extent in server.managed().device.extents])[1:] == [extent]


def test_blocks_in_use_beyond_a_smaller_size_are_moved_by_their_executor_which_is_asked_to(
    server: AdminServer, worker: Worker
) -> None:
    resize(server, 64)
    handles = worker.prefill(*([number] * 40 for number in range(5)))
    worker.finish(*handles[1:])
    said = told(server, worker)
    answer = resize(server, 24)
    assert answer.in_use_beyond == 10
    assert [list(message.nudge.reasons) for message in said] == [[session_pb2.NUDGE_REASON_TICKETS]]
    tickets = worker.turn().tickets
    worker.turn(tickets_done=np.array([ticket.id for ticket in tickets]))
    with server.stub() as stub:
        device = stub.GetPoolStats(stats_pb2.GetPoolStatsRequest()).stats.tiers[0]
    assert (device.beyond_size, device.blocks) == (0, 24)


def test_an_executor_with_nothing_to_say_is_asked_for_a_turn_that_tells_it_the_new_size(
    server: AdminServer, worker: Worker
) -> None:
    for blocks in (48, 24):
        said = told(server, worker)
        resize(server, blocks)
        assert [list(message.nudge.reasons) for message in said] == [[session_pb2.NUDGE_REASON_TICKETS]]
        assert worker.turn().usable_blocks == blocks - 1
    said = told(server, worker)
    resize(server, 24)
    assert not said


def test_a_pin_beyond_a_smaller_size_stands_in_the_way_and_is_named(server: AdminServer, worker: Worker) -> None:
    (handle,) = worker.prefill([1] * 100)
    block = max(server.on_loop(lambda: server.pool.state.sequences.entries(handle & 0xFFFFF).tolist())[:-1])
    with server.stub() as stub:
        request = pin_pb2.PinRequest()
        request.block.id.block = block
        stub.Pin(request)
    with Failing() as refused:
        resize(server, 8)
    assert refused.code == grpc.StatusCode.FAILED_PRECONDITION
    assert refused.text == f"blocks [{block}] are pinned and lie beyond the new size 8: unpin them first"


@pytest.mark.parametrize("blocks", [0, 1, 65])
def test_a_size_outside_the_limits_is_refused_and_makes_no_memory(
    server: AdminServer, worker: Worker, blocks: int
) -> None:
    with Failing() as refused:
        resize(server, blocks)
    assert refused.code == grpc.StatusCode.INVALID_ARGUMENT
    assert refused.text == f"device_blocks is {blocks}, but must lie in 2..64, the null block included"
    assert refused.fields == ["device_blocks"]
    assert server.on_loop(lambda: server.managed().device.size) == 32 * BLOCK_BYTES


# -- draining ----------------------------------------------------------------------------------------------------------


def test_a_draining_pool_admits_nothing_until_it_is_undrained(server: AdminServer, worker: Worker) -> None:
    worker.prefill([1] * 4)
    said = told(server, worker)
    with server.stub() as stub:
        assert stub.Drain(pool_pb2.DrainRequest()).sequences == 1
        assert worker.admit([2] * 4)[0].refusal == Refusal.DRAINING
        stub.Undrain(pool_pb2.UndrainRequest())
    assert worker.admit([2] * 4)[0].refusal == Refusal.NONE
    assert list(said[0].nudge.reasons) == [session_pb2.NUDGE_REASON_DRAIN]


def test_one_draining_executor_leaves_the_others_alone(server: AdminServer, worker: Worker) -> None:
    other = server.worker("other")
    with server.stub() as stub:
        assert stub.Drain(pool_pb2.DrainRequest(executor_epoch=worker.epoch)).sequences == 0
        executors = stub.ListExecutors(executor_pb2.ListExecutorsRequest()).executors
    assert [one.draining for one in executors] == [True, False]
    assert worker.admit([2] * 4)[0].refusal == Refusal.DRAINING
    assert other.admit([2] * 4)[0].refusal == Refusal.NONE


def test_a_stale_epoch_drains_nobody(server: AdminServer, worker: Worker) -> None:
    with server.stub() as stub, Failing() as stale:
        stub.Drain(pool_pb2.DrainRequest(executor_epoch=worker.epoch + 1))
    assert stale.code == grpc.StatusCode.ABORTED


# -- fencing -----------------------------------------------------------------------------------------------------------


def test_a_fenced_executor_is_killed_and_its_messages_are_refused(server: AdminServer, worker: Worker) -> None:
    worker.prefill([1] * 4)
    with server.stub() as stub:
        request = executor_pb2.FenceRequest(executor_epoch=worker.epoch, why="it misbehaves")
        answer = stub.Fence(request)
        assert (answer.state, answer.processes_killed) == (states.EXECUTOR_STATE_FENCING, 1)
        assert worker.process.wait(60) == -9
        again = stub.Fence(request)
        assert (again.state, again.processes_killed) == (states.EXECUTOR_STATE_FENCING, 0)
        (executor,) = stub.ListExecutors(executor_pb2.ListExecutorsRequest()).executors
    assert [process.dead for process in executor.processes] == [True]
    with pytest.raises(StaleEpoch):
        worker.turn()
    assert "it misbehaves" in [event.detail for event in server.on_loop(lambda: server.pool.state.events.kept())]


@pytest.mark.parametrize(
    ("request_", "code", "text"),
    [
        ({"executor_epoch": 7}, grpc.StatusCode.NOT_FOUND, "no executor of this pool has the epoch 7"),
        ({}, grpc.StatusCode.INVALID_ARGUMENT, "executor_epoch is 0, but the epoch of an executor must be given"),
        ({"executor_epoch": 7, "why": "x" * 257}, grpc.StatusCode.INVALID_ARGUMENT, "why is 257 bytes long"),
    ],
)
def test_nobody_is_fenced_by_mistake(
    server: AdminServer, worker: Worker, request_: dict[str, Any], code: grpc.StatusCode, text: str
) -> None:
    with server.stub() as stub, Failing() as refused:
        stub.Fence(executor_pb2.FenceRequest(**request_))
    assert refused.code == code
    assert text in refused.text
    assert worker.process.poll() is None


# -- pools and managers that are not there -----------------------------------------------------------------------------


def failure(server: AdminServer, **request: Any) -> Failing:
    with server.stub() as stub, Failing() as failed:
        stub.GetPoolStats(stats_pb2.GetPoolStatsRequest(**request))
    return failed


def test_without_any_pool_that_is_said(server: AdminServer) -> None:
    assert failure(server).code == grpc.StatusCode.NOT_FOUND
    assert failure(server).text == "there is no pool yet: the first executor that registers makes one"
    with server.stub() as stub:
        assert not stub.ListPools(pool_pb2.ListPoolsRequest()).pools


def test_with_several_pools_one_has_to_be_named(server: AdminServer) -> None:
    server.worker(pool="alpha")
    server.worker(pool="beta")
    error = failure(server)
    assert error.code == grpc.StatusCode.INVALID_ARGUMENT
    assert error.text == "pool is absent, but it must be one of ['alpha', 'beta']"
    assert failure(server, pool="gamma").code == grpc.StatusCode.NOT_FOUND


def test_a_manager_that_is_starting_says_so_and_when_to_come_back(server: AdminServer) -> None:
    server.on_loop(lambda: setattr(server.manager, "epoch", 0))
    error = failure(server)
    assert error.code == grpc.StatusCode.UNAVAILABLE
    assert error.reason == "ERROR_REASON_NOT_SERVING"
    assert error.trailers["grpc-retry-pushback-ms"] == "500"
