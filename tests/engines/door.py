"""A front door for tests: submits token ids, and waits for what becomes of them."""

import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc

from executor.outputs import uuids_of
from pagehold.blockmgr.v1 import block_manager_service_pb2_grpc, sequence_pb2
from pagehold.engine.v1 import description_pb2, engine_service_pb2_grpc, request_pb2, submit_pb2
from tests.engines.holds import Hold
from tests.scripted.processes import wait_until

CHANNEL = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 20),
    ("grpc.min_reconnect_backoff_ms", 20),
    ("grpc.max_reconnect_backoff_ms", 200),
]


def start_of(prompt: Sequence[int], *, key: bytes = b"", request: Any = None, **parameters: Any) -> submit_pb2.Start:
    """A request; greedy and of 16 tokens unless told otherwise."""
    values = {"temperature": 0.0, "top_p": 1.0, "max_tokens": 16} | parameters
    kept = request or request_pb2.Request()
    kept.parameters.CopyFrom(request_pb2.Parameters(**values))
    kept.arrived = kept.arrived or time.time()
    return submit_pb2.Start(uuid=key or uuid.uuid4().bytes, prompt=prompt, request=kept, body=bytes(16))


def others_of(start: submit_pb2.Start) -> list[bytes]:
    """UUIDs of a request's outputs, without the first."""
    return uuids_of(start.uuid, start.request)[1:]


class Door:
    """One stream to an engine, which is opened again when it breaks, as front doors do. Close it."""

    def __init__(self, runtime_dir: Path, engine: str = "engine") -> None:
        self.accepted: dict[bytes, submit_pb2.Accepted] = {}
        self.refused: dict[bytes, submit_pb2.Refused] = {}
        self.ended: dict[bytes, submit_pb2.Ended] = {}
        self.recorded: dict[int, int] = {}
        self.computing: dict[int, list[int]] = {}
        self.unknown: list[bytes] = []
        self.loads: list[submit_pb2.Load] = []
        self.errors: list[grpc.StatusCode] = []
        self._starts: dict[bytes, submit_pb2.Start] = {}
        self._changed = threading.Condition()
        self._requests: deque[submit_pb2.SubmitRequest] = deque()
        self._stream = 0
        self._accepted_in: dict[bytes, int] = {}
        self._channel = grpc.insecure_channel(f"unix:{runtime_dir}/engines/{engine}.sock", options=CHANNEL)
        self._manager = grpc.insecure_channel(f"unix:{runtime_dir}/blockmgr.sock", options=CHANNEL)
        self._closed = False
        self._call: Any = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def engine(self) -> engine_service_pb2_grpc.EngineServiceStub:
        """The engine's methods."""
        return engine_service_pb2_grpc.EngineServiceStub(self._channel)

    @property
    def manager(self) -> block_manager_service_pb2_grpc.BlockManagerServiceStub:
        """The manager's methods."""
        return block_manager_service_pb2_grpc.BlockManagerServiceStub(self._manager)

    @property
    def submitted(self) -> list[bytes]:
        """UUIDs of everything that was started here."""
        with self._changed:
            return list(self._starts)

    def describe(self) -> description_pb2.DescribeResponse:
        """What the engine is, once it serves."""

        def described() -> Any:
            try:
                return self.engine.Describe(description_pb2.DescribeRequest(), timeout=60, wait_for_ready=True)
            except grpc.RpcError:
                return None

        return wait_until(described, "the engine serves", 120)

    def listed(self) -> list[bytes]:
        """What the engine works on, and what waits there; nothing while it cannot be asked."""
        request = description_pb2.ListWorkRequest()
        try:
            return [one.uuid for one in self.engine.ListWork(request, timeout=60, wait_for_ready=True).work]
        except grpc.RpcError:
            return []

    def await_listed(self, *keys: bytes) -> None:
        """Wait until the engine has heard of requests, and has them."""
        wait_until(lambda: set(keys) <= set(self.listed()), "the engine has heard of them")

    def await_over(self, *keys: bytes, seconds: float = 120.0) -> None:
        """Wait until requests have ended, are refused, or are nothing that the engine works on."""
        over = (self.ended, self.refused, self.unknown)
        wait_until(lambda: all(any(key in those for those in over) for key in keys), "they are over", seconds)

    def start(self, *starts: submit_pb2.Start) -> list[bytes]:
        """Submit requests; returns their UUIDs."""
        with self._changed:
            self._starts |= {start.uuid: start for start in starts}
        self.say(starts=starts, follows=[uuid for start in starts for uuid in others_of(start)])
        return [start.uuid for start in starts]

    def say(self, **fields: Any) -> None:
        """Send something on the stream."""
        with self._changed:
            self._requests.append(submit_pb2.SubmitRequest(**fields))
            self._changed.notify_all()

    def await_accepted(self, key: bytes, seconds: float = 120.0) -> submit_pb2.Accepted:
        """Wait until a request is accepted."""
        wait_until(lambda: key in self.accepted or key in self.refused, f"{key.hex()} is accepted", seconds)
        return self.accepted[key]

    def await_refused(self, key: bytes, seconds: float = 120.0) -> submit_pb2.Refused:
        """Wait until a request is refused."""
        wait_until(lambda: key in self.refused, f"{key.hex()} is refused", seconds)
        return self.refused[key]

    def await_output(self, key: bytes, tokens: int, seconds: float = 120.0, hold: Hold | None = None) -> None:
        """Wait until so many tokens of output are recorded, or the sequence has ended; ``hold``: where it may stand behind
        another that stands still.
        """

        def there() -> bool:
            accepted = self.accepted.get(key)
            if accepted is None:
                return False
            recorded = max(self.recorded.get(accepted.handle, 0), accepted.tokens)
            return key in self.ended or recorded >= accepted.prompt_tokens + tokens

        moved = time.monotonic()

        def comes() -> bool:
            nonlocal moved
            if self._accepted_in.get(key) != self._stream:
                # By no engine that lives.
                moved = time.monotonic()
            elif hold is not None and time.monotonic() > moved + 1.0 and not there():
                moved = time.monotonic()
                hold.make_way()
            return there()

        wait_until(comes, f"{tokens} tokens of {key.hex()}", seconds)

    def await_ended(self, key: bytes, seconds: float = 120.0) -> submit_pb2.Ended:
        """Wait until a sequence has ended."""
        wait_until(lambda: key in self.ended or key in self.refused, f"{key.hex()} ends", seconds)
        assert key in self.ended, self.refused.get(key)
        return self.ended[key]

    def output(self, key: bytes, seconds: float = 120.0) -> list[int]:
        """The output of a sequence that has ended, as the manager keeps it. If that was just before its engine died, the next
        engine says so.
        """
        self.await_over(key, seconds=seconds)
        found = self.lookup(key)
        assert found.WhichOneof("found") == "finished", self.refused.get(key)
        finished = found.finished
        return list(finished.ids[finished.prompt : finished.final_length])

    def lookup(self, key: bytes) -> sequence_pb2.LookupSequenceResponse:
        """What the manager knows of a sequence."""
        return self.manager.LookupSequence(
            sequence_pb2.LookupSequenceRequest(uuid=key), timeout=60, wait_for_ready=True
        )

    def close(self) -> None:
        """Hang up."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        while self._thread.is_alive():
            # It may just have opened another one.
            if self._call is not None:
                self._call.cancel()
            self._thread.join(0.05)
        self._channel.close()
        self._manager.close()

    def __enter__(self) -> "Door":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closed:
            self._call = self.engine.Submit(self._outgoing(self._stream), wait_for_ready=True)
            try:
                for response in self._call:
                    self._take(response)
            except grpc.RpcError as error:
                self.errors.append(error.code())
            with self._changed:
                # What is said from now on is for the next one, and its reader alone.
                self._stream += 1
                self._changed.notify_all()
            time.sleep(0.02)

    def _outgoing(self, stream: int) -> Iterator[submit_pb2.SubmitRequest]:
        """Everything that has not ended first, then what is said."""
        with self._changed:
            starts = [start for key, start in self._starts.items() if key not in self.refused]
        again = [start for start in starts if start.uuid not in self.ended]
        follows = [uuid for start in starts for uuid in others_of(start) if uuid not in self.ended]
        yield submit_pb2.SubmitRequest(door="test", starts=again, follows=follows)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._requests or self._closed or self._stream != stream)
                if self._closed or self._stream != stream:
                    return
                request = self._requests.popleft()
            yield request

    def _take(self, response: submit_pb2.SubmitResponse) -> None:
        for accepted in response.accepted:
            self.accepted[accepted.uuid] = accepted
            self._accepted_in[accepted.uuid] = self._stream
        for refused in response.refused:
            self.refused[refused.uuid] = refused
        for handle, tokens in zip(response.recorded.handles, response.recorded.tokens, strict=True):
            self.recorded[handle] = tokens
        for computing in response.computing:
            self.computing.setdefault(computing.handle, []).append(computing.computed_tokens)
        for ended in response.ended:
            self.ended[ended.uuid] = ended
        self.unknown += response.unknown
        if response.HasField("load"):
            self.loads.append(response.load)
