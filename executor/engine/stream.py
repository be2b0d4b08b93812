"""What one front door is still to be told: all of it together, whenever the door is ready for more."""

import asyncio
from collections import deque
from typing import TypeVar

from executor.engine.news import Accepted, Computing, Ended, Load, News, Recorded, Refused, Stream, Unknown
from pagehold.engine.v1 import submit_pb2

Told = TypeVar("Told", Accepted, Refused, Recorded, Computing, Unknown)

TOLD_AT_ONCE = 1024
"""Requests of a kind in one message at most."""

LONGEST_TAIL = 1 << 18
"""Tokens of tails in one message, beyond which the rest waits for the next."""


class DoorStream:
    """Gathers news for one front door. A door that reads slowly costs the engine nothing, and this a few bytes a sequence:
    of tokens recorded only the last number counts.
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
        self._ended: deque[Ended] = deque()
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
                # Its row is gone: what was not told yet comes with its end.
                self._recorded.pop(news.uuid, None)
                self._computing.pop(news.uuid, None)
                self._ended.append(news)
            case Unknown():
                self._unknown[news.uuid] = news
        self.due.set()

    def forget(self, uuid: bytes) -> None:
        """Say nothing more of a request."""
        self.follows.discard(uuid)
        self._told.pop(uuid, None)
        self._accepted.pop(uuid, None)
        self._recorded.pop(uuid, None)
        self._computing.pop(uuid, None)

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
            start = min(self._told.pop(ended.uuid, 0), len(ended.ids))
            tails += len(ended.ids) - start
            response.ended.add(
                uuid=ended.uuid,
                reason=int(ended.reason),
                tokens=len(ended.ids),
                tail_start=start,
                tail=ended.ids[start:],
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
