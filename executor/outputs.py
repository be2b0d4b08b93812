"""The outputs of one request: samples of one prompt, each a sequence of its own with a UUID and a seed that follow from the
first one's. So whoever knows the request knows all of them, and need not be told.
"""

import hashlib

from pagehold.engine.v1 import request_pb2

MOST_OUTPUTS = 64
"""Outputs of one request at most."""

UUID_BYTES, SEED_BYTES = 16, 8


def uuid_of(first: bytes, output: int) -> bytes:
    """UUID of an output: that of the first one plus its index, as a number. Of a negative index: the way back."""
    return ((int.from_bytes(first) + output) % (1 << 8 * UUID_BYTES)).to_bytes(UUID_BYTES)


def uuids_of(first: bytes, request: request_pb2.Request) -> list[bytes]:
    """UUIDs of all outputs of a request, in order."""
    return [uuid_of(first, output) for output in range(count_of(request))]


def count_of(request: request_pb2.Request) -> int:
    """How many outputs a request has."""
    return max(request.outputs, 1)


def root_of(request: request_pb2.Request, uuid: bytes) -> bytes:
    """UUID of the first output of the request that a sequence is an output of."""
    return request.root or uuid


def seed_of(seed: int, output: int) -> int:
    """Seed of an output: the request's own for the first, and for the others the first 8 bytes of BLAKE2b over the seed and
    the output's index. All are 64-bit numbers, the smallest byte first.
    """
    if not output:
        return seed
    said = seed.to_bytes(SEED_BYTES, "little") + output.to_bytes(SEED_BYTES, "little")
    return int.from_bytes(hashlib.blake2b(said).digest()[:SEED_BYTES], "little")


def output_of(request: request_pb2.Request, first: bytes, output: int) -> request_pb2.Request:
    """What is kept with an output that is not the first: the request, with what is the output's own."""
    kept = request_pb2.Request()
    kept.CopyFrom(request)
    kept.parameters.seed = seed_of(request.parameters.seed, output)
    kept.output, kept.root = output, first
    return kept
