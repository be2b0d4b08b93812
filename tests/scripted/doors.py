"""A front door's process in a scripted world, and what a client sees of it."""

import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import grpc
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status

from pagehold.inference.v1 import generation_pb2, inference_service_pb2_grpc
from tests.scripted.processes import ROOT, wait_until
from tests.scripted.world import PAGEHOLD

Event = generation_pb2.GenerationEvent

LIMITS = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.max_send_message_length", 64 << 20),
]

PATIENT = {"start_seconds": 60, "heartbeat_seconds": 60, "announce_seconds": 1, "grace": 5}
"""A door that takes no engine for lost that is there, however busy the machine is."""


class DoorProcess:
    """A front door on a socket of its own. ``settings`` are those of the door, by name."""

    def __init__(self, runtime_dir: Path, name: str = "door", address: str | None = None, **settings: Any) -> None:
        self.address = address or f"unix:{runtime_dir}/{name}-clients.sock"
        self._log = runtime_dir / f"{name}.log"
        values = PATIENT | settings
        environment = dict(os.environ) | {f"PAGEHOLD_DOOR_{key.upper()}": str(value) for key, value in values.items()}
        runtime_dir.mkdir(exist_ok=True)
        with self._log.open("a") as log:
            self.process = subprocess.Popen(
                [*PAGEHOLD, "door", "--runtime-dir", str(runtime_dir), "--address", self.address, "--name", name],
                cwd=ROOT,
                stdout=log,
                stderr=log,
                env=environment,
            )
        self.channel = grpc.insecure_channel(self.address, options=LIMITS)
        self.stub = inference_service_pb2_grpc.InferenceServiceStub(self.channel)

    def health(self, timeout: float = 60.0) -> str:
        """What its health service says: SERVING, NOT_SERVING, or the code of the failure."""
        stub = health_pb2_grpc.HealthStub(self.channel)
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=timeout)
        except grpc.RpcError as error:
            return str(error.code().name)
        return health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)

    def await_serving(self) -> "DoorProcess":
        """Wait until it serves."""

        def serves() -> bool:
            assert self.process.poll() is None, self.log()
            return self.health() == "SERVING"

        wait_until(serves, f"the door serves: {self.log()}", 60)
        return self

    def log(self) -> str:
        """The last that it said."""
        return self._log.read_text()[-4000:]

    def faults(self) -> list[str]:
        """What it logged that nobody foresaw."""
        return [line for line in self._log.read_text().splitlines() if "[error" in line]

    def generate(self, *ids: int, **fields: Any) -> "Call":
        """Ask for an answer to these prompt ids."""
        return Call(self.stub.Generate(request(*ids, **fields)))

    def attach(self, **fields: Any) -> "Call":
        """Attach to a request."""
        return Call(self.stub.Attach(generation_pb2.AttachRequest(**fields)))

    def terminate(self) -> None:
        """SIGTERM."""
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait(60)

    def __enter__(self) -> "DoorProcess":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            print(self.log())
        self.channel.close()
        if self.process.poll() is None:
            self.kill()


def request(*ids: int, **fields: Any) -> generation_pb2.GenerateRequest:
    """A request with a prompt of ids, unless another prompt is given."""
    prompt = fields.pop("prompt", {"ids": {"ids": ids}})
    return generation_pb2.GenerateRequest(prompt=prompt, **fields)


class Call:
    """A stream, read by a thread as it comes."""

    def __init__(self, call: Any) -> None:
        self.call = call
        self.events: list[Event] = []
        self.error: Any = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            for response in self.call:
                self.events.append(response.event)
        except grpc.RpcError as error:
            self.error = error
        self._done.set()

    def await_tokens(self, count: int, seconds: float = 60.0) -> "Call":
        """Wait until so many tokens have come."""
        wait_until(lambda: len(self.ids) >= count or self._done.is_set(), f"{count} tokens", seconds)
        assert len(self.ids) >= count, self.error
        return self

    def await_started(self, seconds: float = 60.0) -> generation_pb2.Started:
        """Wait until it is accepted."""
        wait_until(lambda: self.events or self._done.is_set(), "started", seconds)
        assert self.events, self.error
        return self.events[0].started

    def ended(self, seconds: float = 60.0) -> "Call":
        """Wait for the end, however it is."""
        assert self._done.wait(seconds), f"not within {seconds} s: {self.events}"
        return self

    def whole(self, seconds: float = 60.0) -> "Call":
        """Wait for the end, which must be a good one."""
        assert self.ended(seconds).error is None, self.error
        return self

    def failure(self, seconds: float = 60.0) -> Any:
        """Wait for the end, which must be an error."""
        error = self.ended(seconds).error
        assert error is not None, self.events
        return error

    def is_over(self, within: float = 0.0) -> bool:
        """Whether it ends within so many seconds."""
        return self._done.wait(within)

    def hang_up(self) -> None:
        """Cancel the call."""
        self.call.cancel()

    @property
    def deltas(self) -> list[generation_pb2.Delta]:
        """The deltas so far."""
        return [event.delta for event in list(self.events) if event.HasField("delta")]

    @property
    def ids(self) -> list[int]:
        """Output ids so far; each index must have come once, in order."""
        ids: list[int] = []
        for delta in self.deltas:
            assert not delta.ids or delta.first_token == len(ids) + self.first, "a token is missing or came twice"
            ids += delta.ids
        return ids

    @property
    def first(self) -> int:
        """Index of the first token that came."""
        return self.deltas[0].first_token

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(delta.text for delta in self.deltas)

    @property
    def finished(self) -> generation_pb2.Finished:
        """How it ended."""
        return self.events[-1].finished


def details(error: Any) -> dict[str, Any]:
    """The rich details of an error by name: ErrorInfo, BadRequest, PreconditionFailure, RetryInfo."""
    status = rpc_status.from_call(error)
    found: dict[str, Any] = {}
    for detail in status.details if status is not None else ():
        for kind in ("ErrorInfo", "BadRequest", "PreconditionFailure", "RetryInfo"):
            message = getattr(error_details_pb2, kind)()
            if detail.Unpack(message):
                found[kind] = message
    return found


def reason(error: Any) -> str:
    """The reason of an error, without its prefix."""
    info = details(error).get("ErrorInfo")
    return str(info.reason).removeprefix("ERROR_REASON_") if info is not None else ""
