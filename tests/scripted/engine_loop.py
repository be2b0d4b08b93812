"""The work of a scripted engine: admits what was submitted, records tokens, and ends what has ended, turn after turn."""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import grpc

from blockmgr.core.messages import Admitted, Appends, Finished, Reply
from blockmgr.core.states import FinishReason
from pagehold.engine.v1 import request_pb2, submit_pb2
from tests.scripted.answers import Answer, Stream, Work, admission, refused
from tests.scripted.hand import HandDriven, ints

LOAD_SECONDS = 0.1
IDLE_SECONDS = 0.005


class EngineLoop:
    """One turn with the manager at a time, in whichever thread calls ``run``; tests set its attributes from theirs.

    What it was asked stands in ``starts`` (every Start heard), ``cancels`` and ``forgets``.
    """

    def __init__(self, hand: HandDriven, answer: Callable[[submit_pb2.Start], Answer], limit: int | None) -> None:
        self.hand, self.answer, self.limit = hand, answer, limit
        self.burst = 1
        """Tokens of a sequence that are recorded at once."""
        self.admits = True
        """Whether anything is let in; until then it waits."""
        self.refuse: submit_pb2.Refused | None = None
        """What everything is refused with."""
        self.draining = False
        self.silent = False
        """Says no more how busy it is."""
        self.free_blocks = 500
        """What it says of the pool. Doors that know of another number have heard all that was said before."""
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

    def run(self) -> None:
        """Work until closed."""
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
            self._tell(start.uuid, accepted=[self._work[start.uuid].accepted()])
        else:
            self._waiting[start.uuid] = start

    def _follow(self, stream: Stream, follow: bytes) -> None:
        if follow in self._work:
            stream.follows.add(follow)
            self._tell(follow, accepted=[self._work[follow].accepted()])
        else:
            stream.responses.put(submit_pb2.SubmitResponse(unknown=[follow]))

    def _cancel(self, cancelled: bytes) -> None:
        self.cancels.append(cancelled)
        if self._waiting.pop(cancelled, None) is not None:
            self._tell(cancelled, refused=[submit_pb2.Refused(uuid=cancelled, by=submit_pb2.REFUSED_BY_CANCEL)])
        elif cancelled in self._work:
            self._end(self._work[cancelled], FinishReason.CANCELLED)

    def _admit(self) -> None:
        for start in list(self._waiting.values()) if self.admits else ():
            del self._waiting[start.uuid]
            if self.refuse is not None:
                why = submit_pb2.Refused()
                why.CopyFrom(self.refuse)
                why.uuid = start.uuid
                self._tell(start.uuid, refused=[why])
                continue
            self._take_answer(start, self._say(admissions=[admission(start)]).admitted[0])

    def _take_answer(self, start: submit_pb2.Start, admitted: Admitted) -> None:
        if not admitted.handle:
            self._tell(start.uuid, refused=[refused(admitted)])
            return
        work = Work(start.uuid, len(start.prompt), start.request, self.answer(start), admitted.handle, admitted.cached)
        work.told = work.prompt
        self._work[work.uuid] = work
        self._tell(work.uuid, accepted=[work.accepted()])
        for computed in work.answer.computing:
            self._tell(work.uuid, computing=[submit_pb2.Computing(handle=work.handle, computed_tokens=computed)])

    def _record(self) -> None:
        """The next tokens of each sequence that may have more."""
        growing = {work.uuid: ids for work in self._work.values() if (ids := self._next_ids(work))}
        works = [self._work[uuid] for uuid in growing]
        if works:
            self._say(
                appends=Appends(
                    ints(*(work.handle for work in works)),
                    ints(*(work.prompt + work.recorded for work in works)),
                    ints(*(len(ids) for ids in growing.values())),
                    ints(*(token for ids in growing.values() for token in ids)),
                )
            )
        for work in works:
            work.recorded += len(growing[work.uuid])
            self._tell_recorded(work)
        for work in list(self._work.values()):
            if work.recorded >= work.most and work.answer.reason is not None:
                self._end(work, work.answer.reason)

    def _next_ids(self, work: Work) -> Sequence[int]:
        most = work.most if self.limit is None else min(work.most, self.limit)
        return work.answer.ids[work.recorded : min(work.recorded + self.burst, most)]

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
        ended = work.ended(reason)
        self._say(finished=Finished(ints(work.handle), [reason]))
        self.ended[work.uuid] = reason
        self._tell(work.uuid, ended=[ended])

    # -- telling -------------------------------------------------------------------------------------------------------

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
            running=len(self._work),
            waiting=len(self._waiting),
            blocks=511,
            free_blocks=self.free_blocks,
            draining=self.draining,
        )
