"""A manager with one pool behind a real operators' port, and an executor whose turns a test writes by hand.

The manager has its loop in a thread of its own, as it has in its process. What touches it goes through ``on_loop``.
"""

import asyncio
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar
from uuid import UUID

import grpc
import numpy as np
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.messages import Admission, Admitted, Finished, Message, Progress, Reply
from blockmgr.core.pool import Pool
from blockmgr.core.states import FinishReason
from blockmgr.identity import Content, Shape
from blockmgr.notify import Notifier
from blockmgr.processes import Process
from blockmgr.service.admin import AdminServicer, add_to_server
from blockmgr.service.manager import Manager
from blockmgr.service.pools import ManagedPool, PoolSpec
from blockmgr.service.registration import Registrar
from blockmgr.service.settings import ManagerSettings
from blockmgr.service.takeup import take_up
from pagehold.admin.v1 import admin_service_pb2_grpc

Result = TypeVar("Result")
BLOCK_BYTES = 4096
LEASE_SECONDS = 600.0


def geometry_of(**sizes: int) -> PoolGeometry:
    """Small sizes, but for those given."""
    small = {"tokens_per_block": 4, "block_bytes": BLOCK_BYTES, "device_blocks": 32, "max_sequences": 16}
    return PoolGeometry(**{**small, "max_length": 128, "archive_bytes": 1 << 20, "max_pins": 64, **sizes})


def spec_of(name: str, geometry: PoolGeometry) -> PoolSpec:
    """A pool of a model that does not exist."""
    shape = Shape(2, 1, 8, "float32", "layer-kv-head-token-element", 1, geometry.tokens_per_block, geometry.block_bytes)
    return PoolSpec(name, geometry, shape, Content("toy", "main", "float32", "float32"), "host")


class Worker:
    """An executor by hand: every method is one turn, made on the manager's loop. Its process sleeps until it is killed."""

    def __init__(self, server: "AdminServer", name: str, pool: str) -> None:
        self.name = name
        self.process = subprocess.Popen(["sleep", "600"])
        self._server = server
        self._number = 0
        self.step = 0
        self.epoch: int = server.wait(server.register(self, pool))
        self.pool_name = pool

    def turn(self, **fields: Any) -> Reply:
        """Send a message and return the reply."""
        return self._server.on_loop(self._turn, fields)

    def _turn(self, fields: dict[str, Any]) -> Reply:
        self._number += 1
        self._server.managed(self.pool_name).pool.exchange(Message(self.epoch, self._number, **fields))
        return self._server.replies[-1]

    def admit(self, *prompts: list[int], **fields: Any) -> list[Admitted]:
        """Admit prompts."""
        return self.turn(admissions=[self.admission(prompt, **fields) for prompt in prompts]).admitted

    def admission(self, prompt: list[int] | range, **fields: Any) -> Admission:
        """A prompt under a UUID of its own."""
        return Admission(self._server.next_uuid(), np.array(prompt, dtype=np.int32), **fields)

    def launch(self, lengths: dict[int, int], complete: bool = True) -> Reply:
        """One step that writes positions up to ``lengths`` (by handle), completed at once or left in flight."""
        self.step += 1
        handles, upto = np.array(list(lengths)), np.array(list(lengths.values()))
        reply = self.turn(launched_step=self.step, progress=Progress(handles, upto, np.zeros_like(upto)))
        return self.complete(lengths) if complete else reply

    def complete(self, lengths: dict[int, int]) -> Reply:
        """The last step has completed."""
        handles, upto = np.array(list(lengths)), np.array(list(lengths.values()))
        return self.turn(completed_step=self.step, progress=Progress(handles, upto, upto))

    def prefill(self, *prompts: list[int], **fields: Any) -> list[int]:
        """Admit prompts and compute them whole. Returns their handles."""
        admitted = self.admit(*prompts, **fields)
        lengths = {one.handle: len(prompt) for one, prompt in zip(admitted, prompts, strict=True)}
        self.launch(lengths)
        return list(lengths)

    def finish(self, *handles: int) -> Reply:
        """End sequences."""
        return self.turn(finished=Finished(np.array(handles), [FinishReason.STOP] * len(handles)))

    def cache(self, *prompts: list[int]) -> None:
        """Leave prompts behind in the cache."""
        self.finish(*self.prefill(*prompts))


class Failing:
    """Use as ``with Failing() as failed``: what is in it has to fail with a gRPC status, which is read from it then."""

    code: grpc.StatusCode
    text: str
    reason: str
    """Name of the ``ErrorReason``."""
    fields: list[str]
    """Names of the fields that were wrong."""
    trailers: dict[str, str]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        assert kind is not None, "did not fail"
        if not isinstance(error, grpc.RpcError):
            return False
        call: Any = error
        self.code, self.text = call.code(), call.details()
        self.trailers = {key: value for key, value in call.trailing_metadata() if isinstance(value, str)}
        info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
        for detail in rpc_status.from_call(call).details:
            detail.Unpack(info)
            detail.Unpack(bad)
        self.reason, self.fields = info.reason, [violation.field for violation in bad.field_violations]
        return True


class AdminServer:
    """Use as ``with AdminServer(folder) as server``. ``address`` is where operators call."""

    def __init__(self, folder: Path, geometry: PoolGeometry | None = None, **settings: Any) -> None:
        self.address = f"unix:{folder / 'admin.sock'}"
        self.replies: list[Reply] = []
        self._geometry = geometry or geometry_of()
        self._settings = ManagerSettings(runtime_dir=folder, **settings)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._workers: list[Worker] = []
        self._uuids = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self.wait(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self.wait(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        for worker in self._workers:
            worker.process.kill()
            worker.process.wait()

    async def _start(self) -> None:
        self.manager = Manager(self._settings, Notifier(None), self._keep_reply)
        self._registrar = Registrar(self.manager)
        await take_up(self.manager, {})
        self.servicer = AdminServicer(self.manager)
        self._server = grpc.aio.server()
        add_to_server(self.servicer, self._server)
        self._server.add_insecure_port(self.address)
        await self._server.start()

    async def _stop(self) -> None:
        await self._server.stop(0)
        self.manager.close()

    def _keep_reply(self, reply: Reply, _: int) -> bytes:
        self.replies.append(reply)
        return b""

    # -- from the test's thread --------------------------------------------------------------------------------------

    def wait(self, work: Any) -> Any:
        """Run a coroutine on the manager's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The manager's loop."""
        return self._loop

    def on_loop(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Call a function on the manager's loop."""

        async def call() -> Result:
            return function(*arguments)

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(60)

    def worker(self, name: str = "engine-0", pool: str = "default") -> Worker:
        """Register an executor; the first makes the pool."""
        worker = Worker(self, name, pool)
        self._workers.append(worker)
        return worker

    async def register(self, worker: Worker, pool: str) -> int:
        """Register with a real process, whose descriptor the manager holds."""
        instance = self.next_uuid()
        self.manager.members.introduce(instance, [Process.open(worker.process.pid, "engine")])
        spec = spec_of(pool, self._geometry)
        _, member, _, _ = await self._registrar.register(spec, worker.name, instance, LEASE_SECONDS, False)
        return member.epoch

    def managed(self, name: str = "default") -> ManagedPool:
        """The pool, to be touched on the loop only."""
        return self.manager.pool(name)

    @property
    def pool(self) -> Pool:
        """The pool's allocator, to be touched on the loop only."""
        return self.managed().pool

    def next_uuid(self) -> bytes:
        """The next of a series."""
        self._uuids += 1
        return UUID(int=self._uuids).bytes

    @contextmanager
    def stub(self) -> Iterator[Any]:
        """The generated client, without any comfort."""
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", 64 << 20)]
        with grpc.insecure_channel(self.address, options=options) as channel:
            yield admin_service_pb2_grpc.AdminServiceStub(channel)
