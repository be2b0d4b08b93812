"""What one front door is still to be told: all of it together, whenever the door is ready for more."""

import asyncio
from collections import deque
from collections.abc import Sequence as List
from dataclasses import dataclass
from typing import TypeVar

from blockmgr.core.states import FinishReason
from executor.engine.news import Accepted, Computing, Ended, Load, News, Recorded, Refused, Stream, Unknown
from pagehold.engine.v1 import submit_pb2

Told = TypeVar("Told", Accepted, Refused, Recorded, Computing, Unknown)

TOLD_AT_ONCE = 1024
"""Requests of a kind in one message at most."""

LONGEST_TAIL = 1 << 18
"""Tokens of tails in one message, beyond which the rest waits for the next."""


@dataclass(frozen=True, slots=True)
class _LastWords:
    """The end of a sequence, with its tokens from ``start`` on, of which the door has not been told."""

    uuid: bytes
    reason: FinishReason
    error_id: str
    start: int
    tail: List[int]


class DoorStream:
    """Gathers news for one front door. A door that reads slowly costs the engine nothing, and this a few bytes a sequence,
    since of tokens recorded only the last number counts, and the last tokens of those that have ended.
    """

    def __init__(self, number: Stream) -> None:
        self.number = number
        self.follows: set[bytes] = set()
        """UUIDs of requests that it hears of."""
        self.due = asyncio.Event()
        """Set while there is something to tell."""
        self.load: Load | None = None
        self._told: dict[bytes, int] = {}
        """Tokens that the door knows to be recorded."""
        self._accepted: dict[bytes, Accepted] = {}
        self._refused: dict[bytes, Refused] = {}
        self._recorded: dict[bytes, Recorded] = {}
        self._computing: dict[bytes, Computing] = {}
        self._ended: deque[_LastWords] = deque()
        self._unknown: dict[bytes, Unknown] = {}

    def take(self, news: News) -> None:
        """Take what concerns this door."""
        match news:
            case Accepted():
                self._accepted[news.uuid] = news
                # Told in this message: behind what stands there, nothing of a former handle counts.
                self._recorded.pop(news.uuid, None)
            case Refused():
                self._refused[news.uuid] = news
            case Recorded():
                self._recorded[news.uuid] = news
            case Computing():
                self._computing[news.uuid] = news
            case Ended():
                self._take_end(news)
            case Unknown():
                self._unknown[news.uuid] = news
        self.due.set()

    def _take_end(self, ended: Ended) -> None:
        """Its row is gone: what was not told yet comes with its end."""
        self._recorded.pop(ended.uuid, None)
        self._computing.pop(ended.uuid, None)
        accepted = self._accepted.get(ended.uuid)
        told = accepted.tokens if accepted is not None else self._told.get(ended.uuid, 0)
        start = min(told, len(ended.ids))
        self._ended.append(_LastWords(ended.uuid, ended.reason, ended.error_id, start, ended.ids[start:]))

    def forget(self, uuid: bytes) -> None:
        """Say nothing more of a request."""
        self.follows.discard(uuid)
        self._told.pop(uuid, None)
        for waiting in (self._accepted, self._refused, self._recorded, self._computing, self._unknown):
            waiting.pop(uuid, None)
        self._ended = deque(ended for ended in self._ended if ended.uuid != uuid)

    def message(self, now: float) -> submit_pb2.SubmitResponse:
        """What there is to tell, in one message; ``due`` stays set if that is not all."""
        response = submit_pb2.SubmitResponse()
        for accepted in _first(self._accepted):
            self._tell_accepted(response, accepted)
        for refused in _first(self._refused):
            _tell_refused(response, refused)
        for recorded in _first(self._recorded):
            self._told[recorded.uuid] = recorded.tokens
            response.recorded.handles.append(recorded.handle)
            response.recorded.tokens.append(recorded.tokens)
        for computing in _first(self._computing):
            response.computing.add(handle=computing.handle, computed_tokens=computing.computed)
        self._tell_ended(response)
        response.unknown.extend(unknown.uuid for unknown in _first(self._unknown))
        if self.load is not None:
            _tell_load(response, self.load, now)
            self.load = None
        if not any((self._accepted, self._refused, self._recorded, self._computing, self._ended, self._unknown)):
            self.due.clear()
        return response

    def _tell_accepted(self, response: submit_pb2.SubmitResponse, accepted: Accepted) -> None:
        self._told[accepted.uuid] = accepted.tokens
        response.accepted.add(
            uuid=accepted.uuid,
            handle=accepted.handle,
            prompt_tokens=accepted.prompt_tokens,
            cached_tokens=accepted.cached_tokens,
            tokens=accepted.tokens,
        )

    def _tell_ended(self, response: submit_pb2.SubmitResponse) -> None:
        tails = 0
        while self._ended and len(response.ended) < TOLD_AT_ONCE and tails < LONGEST_TAIL:
            ended = self._ended.popleft()
            accepted = self._accepted.pop(ended.uuid, None)
            if accepted is not None:
                # More were accepted than one message tells; no end comes before its beginning.
                self._tell_accepted(response, accepted)
            self._told.pop(ended.uuid, None)
            tails += len(ended.tail)
            response.ended.add(
                uuid=ended.uuid,
                reason=int(ended.reason),
                tokens=ended.start + len(ended.tail),
                tail_start=ended.start,
                tail=ended.tail,
                error_id=ended.error_id,
            )


def _first(waiting: dict[bytes, Told]) -> list[Told]:
    """Take the first of what waits, as much as goes into a message."""
    uuids = list(waiting)[:TOLD_AT_ONCE]
    return [waiting.pop(uuid) for uuid in uuids]


def _tell_refused(response: submit_pb2.SubmitResponse, refused: Refused) -> None:
    response.refused.add(
        uuid=refused.uuid,
        refusal=int(refused.refusal),
        by=refused.by,
        needed=refused.needed,
        available=refused.available,
        detail=refused.detail,
    )


def _tell_load(response: submit_pb2.SubmitResponse, load: Load, now: float) -> None:
    response.load.running = load.running
    response.load.waiting = load.waiting
    response.load.blocks = load.blocks
    response.load.free_blocks = load.free_blocks
    response.load.age = max(now - load.round, 0.0)
    response.load.draining = load.draining
