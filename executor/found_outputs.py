"""What a beam search finds: outputs that are sequences of their own, with UUIDs that follow from the first beam's. So whoever
knows the request knows where to look for them.
"""

import hashlib
from collections.abc import Sequence

import numpy as np

from executor.outputs import UUID_BYTES, count_of, uuid_of, uuids_of
from pagehold.engine.v1 import request_pb2

MOST_WIDTH = 16
"""Beams of a search at most."""

MOST_CANDIDATES = 128
"""Next tokens that a beam may have to name at most."""

MOST_PENALTY = 4
"""Of a length penalty, to either side."""


def is_search(request: request_pb2.Request) -> bool:
    """Whether a request is a beam search."""
    return request.HasField("beams")


def delivered_uuids(first: bytes, request: request_pb2.Request) -> list[bytes]:
    """UUIDs of the sequences that a request is followed by while it goes on: all its outputs, or of a search the first beam."""
    return uuids_of(first, request)[: 1 if is_search(request) else None]


def found_uuids(first: bytes, request: request_pb2.Request) -> list[bytes]:
    """UUIDs of what a search finds, the best first; ``first`` is that of its first beam."""
    width = count_of(request)
    return [uuid_of(first, width + place) for place in range(width)]


def ended_uuid(first: bytes, output: Sequence[int]) -> bytes:
    """UUID under which a search keeps an output that has ended while it goes on."""
    return hashlib.blake2b(first + np.array(output, dtype="<i4").tobytes()).digest()[:UUID_BYTES]


def kept_request(
    request: request_pb2.Request, first: bytes, role: request_pb2.BeamRole, place: int = 0
) -> request_pb2.Request:
    """What is kept with an output of a search: its request, and what the output is in it."""
    kept = request_pb2.Request()
    kept.CopyFrom(request)
    kept.root, kept.output, kept.beams.role = first, place, role
    return kept
