"""An engine without a model, for front doors: it says of each prompt what the test wants, through a real manager's ledger.

It runs in the test's own process; its "device" is a sleeping process that can be killed.
"""

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc

from pagehold.engine.v1 import description_pb2, engine_service_pb2_grpc, submit_pb2
from tests.scripted.answers import Answer, Stream
from tests.scripted.engine_loop import EngineLoop
from tests.scripted.hand import HandDriven, spec

MESSAGE_BYTES = 16 << 20


class ScriptedEngine(EngineLoop):
    """Serves `EngineService` as ``name``. ``answer`` says what comes of a request; close or kill it."""

    def __init__(
        self,
        runtime_dir: Path,
        folder: Path,
        answer: Callable[[submit_pb2.Start], Answer],
        name: str = "engine",
        limit: int | None = None,
        **options: Any,
    ) -> None:
        """``limit``: tokens of output that are recorded of each sequence before it stands still."""
        hand = HandDriven(runtime_dir, name, spec(geometry=options.pop("geometry", {})))
        super().__init__(hand, answer, limit)
        self.name = name
        geometry = self.hand.registration.response.pool.geometry
        self.model = description_pb2.ModelDescription(
            name="scripted", revision="1", folder=str(folder), max_length=geometry.max_length, eos_token_ids=[2]
        )
        self.model.vocabulary = options.pop("vocabulary", 1 << 16)
        for field_name, value in options.items():
            setattr(self.model, field_name, value)
        self._adopt()
        self._server = self._serve(runtime_dir)
        self._thread = threading.Thread(target=self.run, name=f"engine-{name}", daemon=True)
        self._thread.start()

    # -- the service ---------------------------------------------------------------------------------------------------

    def _serve(self, runtime_dir: Path) -> grpc.Server:
        options = [("grpc.max_receive_message_length", MESSAGE_BYTES), ("grpc.max_send_message_length", MESSAGE_BYTES)]
        server = grpc.server(ThreadPoolExecutor(8), options=options)
        engine_service_pb2_grpc.add_EngineServiceServicer_to_server(self, server)
        socket = runtime_dir / "engines" / f"{self.name}.sock"
        socket.parent.mkdir(exist_ok=True)
        socket.unlink(missing_ok=True)
        server.add_insecure_port(f"unix:{socket}")
        server.start()
        return server

    def Describe(self, request: description_pb2.DescribeRequest, context: Any) -> description_pb2.DescribeResponse:  # noqa: N802
        pool = self.hand.registration.response.pool
        return description_pb2.DescribeResponse(
            name=self.name, instance=uuid.uuid4().bytes, pool=pool, model=self.model, max_waiting=64, max_running=64
        )

    def ListWork(self, request: description_pb2.ListWorkRequest, context: Any) -> description_pb2.ListWorkResponse:  # noqa: N802
        waiting = [
            description_pb2.Work(
                uuid=start.uuid,
                request_id=start.request.request_id,
                prompt_tokens=len(start.prompt),
                arrived=time.time(),
            )
            for start in list(self._waiting.values())
        ]
        running = [
            description_pb2.Work(
                uuid=work.uuid,
                request_id=work.request.request_id,
                handle=work.handle,
                prompt_tokens=work.prompt,
                output_tokens=work.recorded,
                arrived=work.arrived,
            )
            for work in list(self._work.values())
        ]
        return description_pb2.ListWorkResponse(work=[*running, *waiting], total=len(running) + len(waiting))

    def Submit(self, requests: Iterator[submit_pb2.SubmitRequest], context: Any) -> Iterator[submit_pb2.SubmitResponse]:  # noqa: N802
        stream = Stream()
        stream.responses.put(submit_pb2.SubmitResponse(load=self._load()))
        self._streams.append(stream)

        def read() -> None:
            with suppress(grpc.RpcError):
                for message in requests:
                    self._inbox.put((stream, message))
            stream.responses.put(None)

        threading.Thread(target=read, daemon=True).start()
        try:
            while (response := stream.responses.get()) is not None:
                yield response
        finally:
            self._inbox.put((stream, None))

    # -- its end -------------------------------------------------------------------------------------------------------

    def stop_streams(self) -> None:
        """End every stream as a dying engine does; the engine goes on."""
        for stream in list(self._streams):
            stream.responses.put(None)

    @property
    def is_closed(self) -> bool:
        """Whether it is dead."""
        return self._closed.is_set()

    def kill(self) -> None:
        """Die: nothing is said to anybody, and what was accepted waits for a successor of the same name."""
        self._closed.set()
        self._thread.join(60)
        self.hand.kill()
        self._server.stop(0).wait(60)
        for stream in list(self._streams):
            stream.responses.put(None)
        self.hand.close()

    def __enter__(self) -> "ScriptedEngine":
        return self

    def __exit__(self, *_: object) -> None:
        if not self.is_closed:
            self.kill()
