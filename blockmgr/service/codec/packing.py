"""Whole arrays into repeated fields of fixed width.

On the wire such a field is a tag, a length, and the elements' memory as it is (little-endian). Handing that over costs a
copy; handing over its elements, as ``extend`` does, costs an object for each.
"""

from functools import cache
from typing import Any

import numpy as np
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message as ProtoMessage

from blockmgr.core.columns import Array

WIDTHS: dict[int, np.dtype[Any]] = {
    FieldDescriptor.TYPE_FIXED64: np.dtype("<u8"),
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
    pieces: list[bytes | memoryview] = []
    for name, array in arrays.items():
        if not len(array):
            continue
        tag, kind = layout[name]
        elements = array.astype(kind)
        if kind.kind != "f" and kind.itemsize < array.itemsize and np.count_nonzero(elements != array):
            wrong = array[elements != array][0]
            raise ValueError(f"{name} holds {wrong}, which does not fit a field of {8 * kind.itemsize} bits")
        pieces += (tag, _varint(elements.nbytes), elements.data)
    message.MergeFromString(b"".join(pieces))


@cache
def _layout(descriptor: Descriptor) -> dict[str, tuple[bytes, np.dtype[Any]]]:
    """Tag and type of elements of each field that can be packed."""
    return {
        field.name: (_varint(field.number << 3 | LENGTH_DELIMITED), WIDTHS[field.type])
        for field in descriptor.fields
        if field.is_repeated and field.type in WIDTHS
    }


def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; all bytes but the last have the eighth set."""
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)
