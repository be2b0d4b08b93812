"""Requests as they come, and large messages read and written piece by piece.

Reading or writing a message holds the interpreter's lock from its first byte to its last: 70 ms for a prompt of eight
million ids, half a second for as many empty messages. In pieces, what else a door does gets its turn in between.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from executor.frontend.errors import InvalidRequest
from pagehold.inference.v1 import prompt_pb2, tokens_pb2

MESSAGE_BYTES = 16 << 20
"""Largest message to a door, and from it."""

SMALL = 1 << 14
"""Bytes of a request that is read, and worked on, on the event loop: a few milliseconds' worth. A larger one is not."""

PIECE_BYTES = 1 << 17
"""Bytes read at once: some milliseconds' worth."""

PIECE_IDS = 1 << 15
"""Ids looked at, copied or written at once: some milliseconds' worth."""

MOST_FIELDS = 1 << 16
"""Fields of one message, repeated ones counted one by one, where it does not fit into a piece."""

LONG_TEXTS = frozenset(
    {
        prompt_pb2.Prompt.DESCRIPTOR.fields_by_name["text"],
        prompt_pb2.ChatMessage.DESCRIPTOR.fields_by_name["content"],
        tokens_pb2.TokenizeRequest.DESCRIPTOR.fields_by_name["text"],
    }
)
"""Texts that may be longer than a piece. They are taken whole, which is a mere copy."""

_LENGTH_DELIMITED = 2
_LONGEST_VARINT = 10


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it came. Nothing of it has been looked at."""

    kind: type[Message]
    data: bytes

    @property
    def is_large(self) -> bool:
        """Whether it is to be read in a thread, and what grows with it is to be done there too."""
        return len(self.data) > SMALL

    def read(self) -> Any:
        """The message. Raises InvalidRequest where it is none, or has what no request may have."""
        message = self.kind()
        try:
            _merge(message, memoryview(self.data), "")
        except (DecodeError, IndexError):
            name = self.kind.DESCRIPTOR.full_name
            text = f"is {len(self.data)} bytes, but they cannot be read as {name}"
            raise InvalidRequest.of("request", text) from None
        return message

    def read_small(self) -> Any:
        """The message, of a method whose requests are small. Raises InvalidRequest."""
        if self.is_large:
            raise InvalidRequest.of("request", f"is {len(self.data)} bytes long, but may have at most {SMALL}")
        return self.read()


@dataclass(frozen=True, slots=True)
class _Field:
    """Where a field lies: its tag, what it holds, its end."""

    number: int
    wire_type: int
    start: int
    value: int
    end: int


def _merge(message: Message, data: memoryview, path: str) -> None:
    """Merge fields into a message, as many at once as make a piece. ``path`` names the message in errors."""
    if len(data) <= PIECE_BYTES:
        message.MergeFromString(bytes(data))
        return
    merged = 0
    for count, field in enumerate(_fields(data), 1):
        if count > MOST_FIELDS:
            raise InvalidRequest.of(path or "request", f"is more than {MOST_FIELDS} fields long, which is the most")
        if field.end - merged > PIECE_BYTES:
            message.MergeFromString(bytes(data[merged : field.start]))
            merged = field.start
        if field.end - merged > PIECE_BYTES:
            _merge_large(message, field, data, path)
            merged = field.end
    message.MergeFromString(bytes(data[merged:]))


def _merge_large(message: Message, field: _Field, data: memoryview, path: str) -> None:
    """Merge a field that is larger than a piece: a message, a text, or a list of numbers, all of which are varints here."""
    descriptor = message.DESCRIPTOR.fields_by_number.get(field.number)
    if descriptor is None or field.wire_type != _LENGTH_DELIMITED:
        raise InvalidRequest.of(path or "request", f"has a field {field.number}, which cannot be read")
    path = f"{path}.{descriptor.name}" if path else descriptor.name
    value = data[field.value : field.end]
    if descriptor.message_type is not None:
        inner = getattr(message, descriptor.name)
        inner = inner.add() if descriptor.is_repeated else inner
        inner.SetInParent()
        _merge(inner, value, path)
    elif descriptor.type != FieldDescriptor.TYPE_STRING:
        for piece in _packed_pieces(value):
            message.MergeFromString(field_of(field.number, piece))
    elif descriptor in LONG_TEXTS:
        message.MergeFromString(bytes(data[field.start : field.end]))
    else:
        raise InvalidRequest.of(path, f"is {len(value)} bytes long, but may have at most {PIECE_BYTES}")


def _fields(data: memoryview) -> Iterator[_Field]:
    """The fields of a message, one after the other. Raises DecodeError or IndexError where there are none."""
    end = 0
    while end < len(data):
        start = end
        tag, value = _varint(data, start)
        wire_type = tag & 7
        if wire_type == _LENGTH_DELIMITED:
            size, value = _varint(data, value)
            end = value + size
        elif wire_type == 0:
            end = _varint(data, value)[1]
        elif wire_type in (1, 5):
            end = value + (8 if wire_type == 1 else 4)
        else:
            raise DecodeError("groups are not used")
        if end > len(data):
            raise DecodeError("a field ends behind the message")
        yield _Field(tag >> 3, wire_type, start, value, end)


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    """A number and where it ends."""
    number = 0
    for shift in range(0, 7 * _LONGEST_VARINT, 7):
        byte = data[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, place
    raise DecodeError("a number without an end")


def _packed_pieces(data: memoryview) -> Iterator[memoryview]:
    """Packed numbers, cut between numbers."""
    start = 0
    while start < len(data):
        end = min(start + PIECE_BYTES, len(data))
        while end - start > PIECE_BYTES - _LONGEST_VARINT and data[end - 1] >= 0x80:
            end -= 1
        yield data[start:end]
        start = end


def field_of(number: int, value: bytes | memoryview) -> bytes:
    """A length-delimited field as it stands in a message: a message, a text, bytes or packed numbers."""
    return b"".join((_as_varint(number << 3 | _LENGTH_DELIMITED), _as_varint(len(value)), value))


def _as_varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def pieces(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """Ids in pieces of a few milliseconds' worth."""
    return (ids[start : start + PIECE_IDS] for start in range(0, len(ids), PIECE_IDS))


def list_of(ids: Sequence[int]) -> list[int]:
    """Copy ids, piece by piece."""
    copied: list[int] = []
    for piece in pieces(ids):
        copied.extend(piece)
    return copied


def written(kind: type[Message], name: str, ids: Sequence[int]) -> bytes:
    """A message whose field ``name`` is these ids, as bytes. Behind other fields of it they may stand as they are."""
    return b"".join(kind(**{name: piece}).SerializeToString() for piece in pieces(ids))
