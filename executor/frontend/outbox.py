"""What a door has to say to an engine."""

import asyncio
from collections.abc import Iterable

from executor.frontend.sequence import Sequence
from executor.frontend.wire import field_of
from pagehold.engine.v1 import submit_pb2

MESSAGE_BYTES = 4 << 20
"""Prompts put into one message, in bytes; one that is larger goes alone."""


class Outbox:
    """What is to be said on the stream, in the fewest messages that are not too large."""

    def __init__(self) -> None:
        self.due = asyncio.Event()
        """Set when there may be something to say."""
        self.pending: dict[bytes, Sequence] = {}
        """Sequences to be started or followed."""
        self.cancels: list[bytes] = []
        """Requests that are to end, by UUID."""
        self.forgets: set[bytes] = set()
        """Sequences to hear no more of, by UUID. The engine takes them last, so none of them is to be followed as well."""
        self._door: str | None = None

    def put(self, sequence: Sequence) -> None:
        """A sequence is to be started or followed."""
        self.pending[sequence.uuid] = sequence
        self.forgets.discard(sequence.uuid)
        self.due.set()

    def forget(self, uuid: bytes) -> None:
        """No more is to be heard of a sequence."""
        self.pending.pop(uuid, None)
        self.forgets.add(uuid)
        self.due.set()

    def begin(self, door: str, sequences: Iterable[Sequence], cancels: Iterable[bytes]) -> None:
        """A new stream: everything is said again, and who says it first."""
        self._door = door
        self.pending = {sequence.uuid: sequence for sequence in sequences}
        self.cancels, self.forgets = list(cancels), set()
        self.due.set()

    def take(self) -> bytes | None:
        """The next message, a serialised ``SubmitRequest``; None: there is nothing to say."""
        if self._door is None and not (self.pending or self.cancels or self.forgets):
            return None
        message = submit_pb2.SubmitRequest(door=self._door, forgets=self.forgets)
        self._door, self.forgets = None, set()
        starts: list[bytes] = []
        size = 0
        while self.pending:
            sequence = next(iter(self.pending.values()))
            size += len(sequence.start or b"")
            if size > MESSAGE_BYTES and (starts or message.follows):
                break
            del self.pending[sequence.uuid]
            if sequence.start is None:
                message.follows.append(sequence.uuid)
            else:
                starts.append(field_of(message.STARTS_FIELD_NUMBER, sequence.start))
        if not self.pending:
            # The engine takes cancels behind the starts of a message: what was never started cannot be cancelled.
            message.cancels.extend(self.cancels)
            self.cancels = []
        return b"".join((message.SerializeToString(), *starts))
