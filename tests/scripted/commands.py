"""What an engine launches on its fake device, and how it travels: pickled, each behind its length, through a pipe.

The pipe is the stream's ring: what is in it when the engine is killed is executed all the same.
"""

import fcntl
import os
import pickle
import select
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

PIPE_BYTES = 1 << 20
_LENGTH = struct.Struct("<I")


@dataclass(slots=True)
class Row:
    """One sequence's part of a step: feed the tokens of positions ``start`` on, with all before them in the cache.

    ``tokens`` None: feed the token that the device sampled last for this sequence. Positions below ``write_from`` are
    in the cache already and are only compared. ``seed`` None: sample nothing.
    """

    key: bytes
    table: list[int]
    start: int
    tokens: list[int] | None
    write_from: int
    seed: int | None
    salt: str = ""
    prefix: list[int] | None = None
    """The tokens of positions 0 to ``start``, where the device does not know the sequence or knows another past of it."""


@dataclass(slots=True)
class Step:
    """A launched step."""

    number: int
    rows: list[Row]


@dataclass(slots=True)
class Copy:
    """A copy of one block, as a ticket orders it."""

    ticket: int
    source: int
    destination: int
    source_on_host: bool = False
    destination_on_host: bool = False


@dataclass(slots=True)
class Poison:
    """Blocks that were handed out anew: nothing of what is in them may ever be read."""

    blocks: list[int]


@dataclass(slots=True)
class Forget:
    """Sequences that have ended."""

    keys: list[bytes]


@dataclass(slots=True)
class Setup:
    """The first message of all: what the device is to map, how fast it is, and where it reports what is wrong."""

    name: str
    registered: bytes
    instance: bytes
    violations: str
    seed: int = 0
    mean_seconds: float = 0.001
    linger_seconds: float = 0.05


@dataclass(slots=True)
class Launched:
    """A command with its place in the stream."""

    serial: int
    command: Step | Copy | Poison | Forget


@dataclass(slots=True)
class Done:
    """A command has completed. ``samples`` holds, of a step's sampling rows, the next token and the last vector."""

    serial: int
    step: int = 0
    ticket: int = 0
    samples: dict[bytes, tuple[int, bytes]] = field(default_factory=dict)


def make_pipe() -> tuple[int, int]:
    """A pipe with room for what a few steps need: its reading and its writing end."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return reading, writing


def send(descriptor: int, message: object) -> None:
    """Write one message, waiting for room."""
    data = pickle.dumps(message)
    view = memoryview(_LENGTH.pack(len(data)) + data)
    while view:
        view = view[os.write(descriptor, view) :]


class Receiver:
    """The reading end: messages, as they come."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = bytearray()
        self.ended = False

    def receive_one(self) -> object:
        """Wait for one message; None at the end."""
        while not self.ended:
            for message in self.receive(None):
                return message
        return None

    def receive(self, timeout: float | None) -> Iterator[object]:
        """What has come within ``timeout`` seconds (None: wait for something, or the end)."""
        if not self._has_message() and not self.ended and select.select([self._descriptor], [], [], timeout)[0]:
            data = os.read(self._descriptor, PIPE_BYTES)
            self.ended = not data
            self._buffer += data
        while self._has_message():
            end = _LENGTH.size + _LENGTH.unpack_from(self._buffer)[0]
            message = pickle.loads(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
            yield message

    def _has_message(self) -> bool:
        have = len(self._buffer)
        return have >= _LENGTH.size and have >= _LENGTH.size + _LENGTH.unpack_from(self._buffer)[0]
