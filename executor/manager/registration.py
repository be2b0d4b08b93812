"""An executor's registration: its processes handed over, its epoch, and the signs of life that keep it."""

import os
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc

from blockmgr.descriptors import DescriptorError, give_back, introduce
from blockmgr.presence import Presence
from blockmgr.processes import Process
from executor.manager.channel import PAUSE, connect, insist, is_answer, reason_of
from executor.manager.mapping import PoolMapping
from executor.manager.session import ManagerSession
from pagehold.blockmgr.v1 import (
    block_manager_service_pb2_grpc,
    executor_pb2,
    pool_pb2,
    sequence_pb2,
)


@dataclass(slots=True)
class Registration:
    """What an executor holds between its registration and its end. Close it to let go; the pool lives on."""

    channel: grpc.Channel
    stub: block_manager_service_pb2_grpc.BlockManagerServiceStub
    response: executor_pb2.RegisterExecutorResponse
    instance: bytes
    runtime_dir: Path
    mapping: PoolMapping
    presence: Presence
    processes: Sequence[Process]
    heartbeat: "Heartbeat"

    @property
    def epoch(self) -> int:
        """The epoch that every message carries."""
        return self.response.epoch

    def open_session(self, news: Callable[[], None] = lambda: None) -> ManagerSession:
        """The exchange of turns, from where this registration stands. ``news`` as for ``ManagerSession``."""
        socket = str(self.runtime_dir / "blockmgr.sock")
        return ManagerSession(socket, self.epoch, self.response.last_number, self.give_back, news)

    def give_back(self) -> None:
        """Give a manager that lost its memory the descriptors fetched from its predecessor."""
        path = self.runtime_dir / "descriptors.sock"
        try:
            introduce(path, self.instance.hex(), self.processes)
            give_back(path, self.instance.hex(), self.mapping.descriptors)
        except DescriptorError as error:
            # It may have been given back, or the manager may be gone again: the next attempt to connect will tell.
            if error.reason not in ("not-wanted", "unreachable", "timeout"):
                raise

    def ready(self) -> None:
        """Say that loading is over and work begins."""
        request = executor_pb2.ReportReadyRequest(epoch=self.epoch)
        insist(lambda: self.stub.ReportReady(request, wait_for_ready=True))

    def adopt(self, predecessors: Sequence[str] = (), timeout: float = 60.0) -> list[sequence_pb2.Adopted]:
        """Take over what dead executors left, waiting until they are proven dead. Repeating it is harmless."""
        deadline = time.monotonic() + timeout
        request = sequence_pb2.AdoptSequencesRequest(epoch=self.epoch, predecessors=predecessors)
        while True:
            try:
                return list(insist(lambda: self.stub.AdoptSequences(request, wait_for_ready=True)).adopted)
            except grpc.RpcError as error:
                if reason_of(error) != "ERROR_REASON_PRECONDITION" or time.monotonic() > deadline:
                    raise
            time.sleep(PAUSE)

    def close(self) -> None:
        """Let go of mapping, sign of presence and channel. Nothing is said to the manager: a lease runs out by itself."""
        self.heartbeat.close()
        self.mapping.close()
        self.presence.close()
        self.channel.close()

    def unregister(self, leave_sequences: bool = False) -> None:
        """Leave in good order, with nothing in flight, and close."""
        request = executor_pb2.UnregisterRequest(epoch=self.epoch, leave_sequences=leave_sequences)
        try:
            insist(lambda: self.stub.Unregister(request, wait_for_ready=True))
        except grpc.RpcError as error:
            # Said before, and only the answer was lost.
            if reason_of(error) != "ERROR_REASON_STALE_EPOCH":
                raise
        self.close()


class Heartbeat:
    """A thread of its own that gives signs of life while the engine is busy, and notices a revoked registration."""

    def __init__(
        self, stub: block_manager_service_pb2_grpc.BlockManagerServiceStub, epoch: int, lease_seconds: float
    ) -> None:
        self._stub = stub
        self._epoch = epoch
        self._interval = lease_seconds / 3
        self._closed = threading.Event()
        self.revoked = threading.Event()
        """Set when the manager says that the registration is over."""
        self._thread = threading.Thread(target=self._run, name="manager-heartbeat", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._closed.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._closed.wait(self._interval):
            try:
                self._stub.Heartbeat(executor_pb2.HeartbeatRequest(epoch=self._epoch), timeout=self._interval)
            except grpc.RpcError as error:
                if reason_of(error) == "ERROR_REASON_STALE_EPOCH":
                    self.revoked.set()
                    return
            except ValueError:
                # The channel was closed between the wait and the call.
                return


def register(
    runtime_dir: Path,
    name: str,
    pool: pool_pb2.PoolSpec,
    *,
    processes: Sequence[Process] | None = None,
    lease_seconds: float | None = None,
    timeout: float = 60.0,
    must_exist: bool = False,
) -> Registration:
    """Hand over this executor's processes (default: this one), register, and map the pool.

    Waits up to ``timeout`` seconds for a manager. With ``must_exist`` no pool is made: the manager's NOT_FOUND says that there
    is none. Raises ``grpc.RpcError`` when refused, and ``ArenaError`` if the pool
    cannot be mapped: it lies on a GPU that this process does not see, or what is mapped is not the pool's memory.
    """
    instance = uuid.uuid4().bytes
    own = list(processes) if processes is not None else [Process.open(os.getpid(), "engine")]
    channel = connect(str(runtime_dir / "blockmgr.sock"))
    stub = block_manager_service_pb2_grpc.BlockManagerServiceStub(channel)
    request = executor_pb2.RegisterExecutorRequest(
        name=name, instance=instance, pool=pool, lease_seconds=lease_seconds, must_exist=must_exist
    )
    try:
        response = _register(runtime_dir, stub, request, own, time.monotonic() + timeout)
        mapping = _attach(stub, response, instance)
        # Only now: a manager that comes up with nothing waits for whoever has put up a sign to give back what it holds.
        presence = Presence(runtime_dir, instance.hex())
    except BaseException:
        channel.close()
        raise
    heartbeat = Heartbeat(stub, response.epoch, response.lease_seconds)
    return Registration(channel, stub, response, instance, runtime_dir, mapping, presence, own, heartbeat)


def _attach(
    stub: block_manager_service_pb2_grpc.BlockManagerServiceStub,
    response: executor_pb2.RegisterExecutorResponse,
    instance: bytes,
) -> PoolMapping:
    """Map the pool, and zero it if it is new."""
    mapping = PoolMapping.fetch(response, instance)
    if response.zero_memory:
        mapping.make_ready(response.pool.label)
        request = executor_pb2.ReportZeroedRequest(epoch=response.epoch)
        insist(lambda: stub.ReportZeroed(request, wait_for_ready=True))
    return mapping


def _register(
    runtime_dir: Path,
    stub: block_manager_service_pb2_grpc.BlockManagerServiceStub,
    request: executor_pb2.RegisterExecutorRequest,
    processes: Sequence[Process],
    deadline: float,
) -> executor_pb2.RegisterExecutorResponse:
    """Introduce and register, again and again while there is no manager or it is not ready."""
    while True:
        try:
            introduce(runtime_dir / "descriptors.sock", request.instance.hex(), processes)
            return stub.RegisterExecutor(request, timeout=max(deadline - time.monotonic(), 1.0), wait_for_ready=True)
        except DescriptorError as error:
            if error.reason not in ("unreachable", "timeout", "busy") or time.monotonic() > deadline:
                raise
        except grpc.RpcError as error:
            if is_answer(error) or time.monotonic() > deadline:
                raise
        time.sleep(PAUSE)
