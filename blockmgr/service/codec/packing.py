"""Whole arrays into and out of repeated fields of fixed width.

On the wire such a field is a tag, a length, and the elements' memory as it is (little-endian). Taking that over costs a
copy; going by elements costs an object for each, and by protobuf's own arrays several times as much as the copy.
"""

from functools import cache, lru_cache
from typing import Any

import numpy as np
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message as ProtoMessage

from blockmgr.core.columns import Array

WIDTHS: dict[int, np.dtype[Any]] = {
    # Of 64 bits the core uses 63: a greater number reads as a negative one, which no receiver lets pass.
    FieldDescriptor.TYPE_FIXED64: np.dtype("<i8"),
    FieldDescriptor.TYPE_FIXED32: np.dtype("<u4"),
    FieldDescriptor.TYPE_SFIXED32: np.dtype("<i4"),
    FieldDescriptor.TYPE_FLOAT: np.dtype("<f4"),
    FieldDescriptor.TYPE_DOUBLE: np.dtype("<f8"),
}
"""What an element of each type of field is in memory."""

LENGTH_DELIMITED = 2
"""Wire type of a packed field."""


def pack(message: ProtoMessage, **arrays: Array) -> None:
    """Fill repeated fields of a message, which are empty still, each from the array of its name.

    Raises ``ValueError`` for a number that its field cannot hold. A negative one of 64 bits is left to the receiver.
    """
    layout = _layout(message.DESCRIPTOR)
    pieces: list[bytes] = []
    for name, array in arrays.items():
        if len(array):
            tag, kind = layout[name]
            data = (array if array.dtype == kind else _converted(name, array, kind)).tobytes()
            pieces += (tag, _varint(len(data)), data)
    message.MergeFromString(b"".join(pieces))


def _converted(name: str, array: Array, kind: np.dtype[Any]) -> Array:
    """Numbers as elements of their field."""
    elements = array.astype(kind)
    if kind.kind != "f" and kind.itemsize < 8 and np.count_nonzero(elements != array):
        wrong = array[elements != array][0]
        raise ValueError(f"{name} holds {wrong}, which does not fit a field of {8 * kind.itemsize} bits")
    return elements


def unpack(message: ProtoMessage) -> dict[str, Array]:
    """The repeated fields of a message that has no others, by name; an empty one is left out. Integers become 64 bits."""
    fields = _fields(message.DESCRIPTOR)
    # Fields of a newer contract are not ours to read. What is left is serialised in one way only, however it came.
    message.DiscardUnknownFields()
    data, at, found = message.SerializeToString(), 0, {}
    while at < len(data):
        name, kind, is_narrow = fields[data[at]]
        length, at = _read_varint(data, at + 1)
        array: Array = np.frombuffer(data, kind, length // kind.itemsize, at)
        found[name] = array.astype(np.int64) if is_narrow else array
        at += length
    return found


@cache
def _layout(descriptor: Descriptor) -> dict[str, tuple[bytes, np.dtype[Any]]]:
    """Tag and type of elements of each field that can be packed."""
    return {
        field.name: (_varint(field.number << 3 | LENGTH_DELIMITED), WIDTHS[field.type])
        for field in descriptor.fields
        if field.is_repeated and field.type in WIDTHS
    }


@cache
def _fields(descriptor: Descriptor) -> dict[int, tuple[str, np.dtype[Any], bool]]:
    """Name and type of elements of each such field, and whether they are integers to be made wider, by its tag, which has
    one byte: their numbers are below 16.
    """
    return {
        int.from_bytes(tag): (name, kind, kind.kind != "f" and kind.itemsize < 8)
        for name, (tag, kind) in _layout(descriptor).items()
    }


@lru_cache(4096)
def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; all bytes but the last have the eighth set."""
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A number in that form, and where what follows it begins."""
    number = shift = 0
    while (byte := data[at]) > 0x7F:
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return number | byte << shift, at + 1
