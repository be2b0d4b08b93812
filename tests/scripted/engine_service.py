"""An engine without a model, for front doors: it says of each prompt what the test wants, through a real manager's ledger.

A thread admits what was submitted, records token after token, and ends what has ended, one turn with the manager at a
time. It runs in the test's own process; its "device" is a sleeping process that can be killed.
"""

import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from blockmgr.core.messages import Admission, Admitted, Appends, Finished, Reply
from blockmgr.core.states import FinishReason, SequenceFlags
from blockmgr.service.codec.enums import FINISH_REASONS, REFUSALS
from pagehold.engine.v1 import description_pb2, engine_service_pb2_grpc, request_pb2, submit_pb2
from tests.scripted.hand import HandDriven, ints, spec

LOAD_SECONDS = 0.1
IDLE_SECONDS = 0.005
MESSAGE_BYTES = 16 << 20


@dataclass
class Answer:
    """What is said of a prompt: output ids, and how it ends. ``reason`` None: it never does by itself."""

    ids: Sequence[int]
    reason: FinishReason | None = FinishReason.LENGTH
    computing: Sequence[int] = ()
    """How far the prompt is told to be computed before the first token."""


@dataclass
class Work:
    """A sequence in the engine."""

    uuid: bytes
    prompt: int
    request: request_pb2.Request
    answer: Answer
    handle: int = 0
    cached: int = 0
    recorded: int = 0
    told: int = 0
    """Tokens, prompt included, that streams know of."""
    arrived: float = field(default_factory=time.time)


class Stream:
    """What one door hears."""

    def __init__(self) -> None:
        self.responses: queue.SimpleQueue[submit_pb2.SubmitResponse | None] = queue.SimpleQueue()
        self.follows: set[bytes] = set()


class ScriptedEngine:
    """Serves `EngineService` as ``name``. ``answer`` says what comes of a request; close or kill it.

    What it was asked stands in ``starts`` (every Start heard), ``cancels`` and ``forgets``.
    """

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
        self.hand = HandDriven(runtime_dir, name, spec(geometry=options.pop("geometry", {})))
        geometry = self.hand.registration.response.pool.geometry
        self.model = description_pb2.ModelDescription(
            name="scripted", revision="1", folder=str(folder), max_length=geometry.max_length, eos_token_ids=[2]
        )
        self.model.vocabulary = options.pop("vocabulary", 1 << 16)
        for field_name, value in options.items():
            setattr(self.model, field_name, value)
        self.name, self.answer, self.limit = name, answer, limit
        self.admits = True
        """Whether anything is let in; until then it waits."""
        self.refuse: submit_pb2.Refused | None = None
        """What everything is refused with."""
        self.draining = False
        self.silent = False
        """Says no more how busy it is."""
        self.mute = False
        """Announces no more what it records."""
        self.starts: list[submit_pb2.Start] = []
        self.cancels: list[bytes] = []
        self.forgets: list[bytes] = []
        self.ended: dict[bytes, FinishReason] = {}
        self._waiting: dict[bytes, submit_pb2.Start] = {}
        self._work: dict[bytes, Work] = {}
        self._streams: list[Stream] = []
        self._inbox: queue.SimpleQueue[tuple[Stream, submit_pb2.SubmitRequest | None]] = queue.SimpleQueue()
        self._outside: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._adopt()
        self._server = self._serve(runtime_dir)
        self._thread = threading.Thread(target=self._run, name=f"engine-{name}", daemon=True)
        self._thread.start()

    # -- the engine's thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        told = 0.0
        with suppress(grpc.RpcError):
            while not self._closed.is_set():
                self._take_mail()
                if not self._outside.empty():
                    self._outside.get()()
                self._admit()
                self._record()
                self._turn_if_wanted()
                if time.monotonic() - told > LOAD_SECONDS and not self.silent:
                    told = time.monotonic()
                    self._tell_all(submit_pb2.SubmitResponse(load=self._load()))
                self._closed.wait(IDLE_SECONDS)

    def adopt_from(self, *names: str) -> None:
        """Take over what other engines left, as soon as the manager lets it."""
        self._outside.put(lambda: self._adopt(names))

    def listed(self) -> list[Work]:
        """What it works on."""
        return list(self._work.values())

    def _adopt(self, predecessors: Sequence[str] = ()) -> None:
        """Go on with what the dead left."""
        for adopted in self.hand.registration.adopt(predecessors):
            row = self.hand.registration.mapping.ledger.row(adopted.handle)
            assert row is not None
            request = request_pb2.Request.FromString(row.request)
            start = submit_pb2.Start(uuid=row.uuid, prompt=row.tokens[: row.prompt].tolist(), request=request)
            work = Work(row.uuid, row.prompt, request, self.answer(start), adopted.handle)
            work.recorded, work.told = row.count - row.prompt, row.count
            self._work[row.uuid] = work

    def _take_mail(self) -> None:
        with suppress(queue.Empty):
            while True:
                stream, message = self._inbox.get_nowait()
                if message is None:
                    self._streams.remove(stream)
                    continue
                for start in message.starts:
                    self.starts.append(start)
                    self._start(stream, start)
                for follow in message.follows:
                    self._follow(stream, follow)
                for cancelled in message.cancels:
                    self._cancel(cancelled)
                self.forgets += message.forgets
                stream.follows -= set(message.forgets)

    def _start(self, stream: Stream, start: submit_pb2.Start) -> None:
        stream.follows.add(start.uuid)
        if start.uuid in self._work:
            self._tell(start.uuid, accepted=[self._accepted(self._work[start.uuid])])
        else:
            self._waiting[start.uuid] = start

    def _follow(self, stream: Stream, follow: bytes) -> None:
        if follow in self._work:
            stream.follows.add(follow)
            self._tell(follow, accepted=[self._accepted(self._work[follow])])
        else:
            stream.responses.put(submit_pb2.SubmitResponse(unknown=[follow]))

    def _cancel(self, cancelled: bytes) -> None:
        self.cancels.append(cancelled)
        if self._waiting.pop(cancelled, None) is not None:
            refused = submit_pb2.Refused(uuid=cancelled, by=submit_pb2.REFUSED_BY_CANCEL)
            self._tell(cancelled, refused=[refused])
        elif cancelled in self._work:
            self._end(self._work[cancelled], FinishReason.CANCELLED)

    def _admit(self) -> None:
        for start in list(self._waiting.values()) if self.admits else ():
            del self._waiting[start.uuid]
            if self.refuse is not None:
                refused = submit_pb2.Refused()
                refused.CopyFrom(self.refuse)
                refused.uuid = start.uuid
                self._tell(start.uuid, refused=[refused])
                continue
            self._take_answer(start, self._say(admissions=[_admission(start)]).admitted[0])

    def _take_answer(self, start: submit_pb2.Start, admitted: Admitted) -> None:
        if not admitted.handle:
            refused = submit_pb2.Refused(
                uuid=start.uuid,
                refusal=REFUSALS.to_wire[admitted.refusal],
                needed=admitted.needed,
                available=admitted.available,
                detail=admitted.detail,
            )
            self._tell(start.uuid, refused=[refused])
            return
        work = Work(start.uuid, len(start.prompt), start.request, self.answer(start), admitted.handle, admitted.cached)
        work.told = work.prompt
        self._work[work.uuid] = work
        self._tell(work.uuid, accepted=[self._accepted(work)])
        for computed in work.answer.computing:
            self._tell(work.uuid, computing=[submit_pb2.Computing(handle=work.handle, computed_tokens=computed)])

    def _record(self) -> None:
        """One more token for each sequence that may have one."""
        growing = [work for work in self._work.values() if self._may_grow(work)]
        if growing:
            self._say(
                appends=Appends(
                    ints(*(work.handle for work in growing)),
                    ints(*(work.prompt + work.recorded for work in growing)),
                    ints(*(1 for _ in growing)),
                    ints(*(work.answer.ids[work.recorded] for work in growing)),
                )
            )
        for work in growing:
            work.recorded += 1
            self._tell_recorded(work)
        for work in list(self._work.values()):
            whole = work.recorded >= min(len(work.answer.ids), work.request.parameters.max_tokens)
            if whole and work.answer.reason is not None:
                self._end(work, work.answer.reason)

    def _may_grow(self, work: Work) -> bool:
        most = min(len(work.answer.ids), work.request.parameters.max_tokens)
        return work.recorded < (most if self.limit is None else min(most, self.limit))

    def _turn_if_wanted(self) -> None:
        if self.hand.session.turn_wanted.is_set():
            self._say()

    def _say(self, **parts: Any) -> Reply:
        reply = self.hand.say(**parts)
        by_handle = {work.handle: work for work in self._work.values()}
        for handle in reply.cancel:
            if handle in by_handle:
                self._end(by_handle[handle], FinishReason.CANCELLED)
        for handle, _ in reply.final_lengths:
            if handle in by_handle:
                self._end(by_handle[handle], FinishReason.STOP)
        return reply

    def _end(self, work: Work, reason: FinishReason) -> None:
        if self._work.pop(work.uuid, None) is None:
            return
        count = work.prompt + work.recorded
        ended = submit_pb2.Ended(
            uuid=work.uuid,
            reason=FINISH_REASONS.to_wire[reason],
            tokens=count,
            tail_start=work.told,
            tail=work.answer.ids[work.told - work.prompt : work.recorded],
            error_id="e-1" if reason == FinishReason.INTERNAL else "",
        )
        self._say(finished=Finished(ints(work.handle), [reason]))
        self.ended[work.uuid] = reason
        self._tell(work.uuid, ended=[ended])

    # -- telling -------------------------------------------------------------------------------------------------------

    @staticmethod
    def _accepted(work: Work) -> submit_pb2.Accepted:
        return submit_pb2.Accepted(
            uuid=work.uuid,
            handle=work.handle,
            prompt_tokens=work.prompt,
            cached_tokens=work.cached,
            tokens=work.prompt + work.recorded,
        )

    def _tell_recorded(self, work: Work) -> None:
        tokens = work.prompt + work.recorded
        # What comes with the last token is told with the end, as engines may.
        if work.recorded < len(work.answer.ids) and not self.mute:
            work.told = tokens
            self._tell(work.uuid, recorded=submit_pb2.Recorded(handles=[work.handle], tokens=[tokens]))

    def _tell(self, about: bytes, **parts: Any) -> None:
        for stream in self._streams:
            if about in stream.follows:
                stream.responses.put(submit_pb2.SubmitResponse(**parts))

    def _tell_all(self, response: submit_pb2.SubmitResponse) -> None:
        for stream in self._streams:
            stream.responses.put(response)

    def _load(self) -> submit_pb2.Load:
        return submit_pb2.Load(
            running=len(self._work), waiting=len(self._waiting), blocks=511, free_blocks=500, draining=self.draining
        )

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

    def kill(self) -> None:
        """Die: nothing is said to anybody, and what was accepted waits for a successor of the same name."""
        self._closed.set()
        self._thread.join(30)
        self.hand.kill()
        self._server.stop(0).wait(10)
        for stream in list(self._streams):
            stream.responses.put(None)
        self.hand.close()

    def __enter__(self) -> "ScriptedEngine":
        return self

    def __exit__(self, *_: object) -> None:
        if not self._closed.is_set():
            self.kill()


def _admission(start: submit_pb2.Start) -> Admission:
    request = start.request
    flags = SequenceFlags.BYPASS if request.bypass_cache else SequenceFlags.NONE
    most = len(start.prompt) + request.parameters.max_tokens
    return Admission(
        uuid=start.uuid,
        prompt=np.array(start.prompt, dtype=np.int32),
        max_length=most,
        salt=request.cache_salt.encode(),
        flags=flags,
        priority=request.priority,
        caller=start.caller or bytes(16),
        body=start.body or bytes(16),
        request=request.SerializeToString(),
    )
