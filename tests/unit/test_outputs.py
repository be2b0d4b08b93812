"""What the outputs of a request are called, and what they sample with."""

import hashlib
import struct

from executor.outputs import count_of, output_of, root_of, seed_of, uuid_of, uuids_of
from pagehold.engine.v1 import request_pb2


def test_the_first_output_has_the_requests_seed_and_the_others_eight_bytes_of_a_digest() -> None:
    for seed in (0, 7, (1 << 64) - 1):
        assert seed_of(seed, 0) == seed
        for output in (1, 2, 63):
            digest = hashlib.blake2b(struct.pack("<QQ", seed, output)).digest()
            assert seed_of(seed, output) == struct.unpack("<Q", digest[:8])[0]
    assert seed_of(7, 1) == 0xA6F211FB0CB33254


def test_uuids_are_counted_from_the_first_one_on_and_back() -> None:
    first = bytes(15) + b"\xff"
    assert uuid_of(first, 1) == bytes(14) + b"\x01\x00"
    assert uuid_of(uuid_of(first, 63), -63) == first
    assert uuid_of(b"\xff" * 16, 1) == bytes(16)
    assert uuids_of(first, request_pb2.Request(outputs=2)) == [first, uuid_of(first, 1)]
    assert uuids_of(first, request_pb2.Request()) == [first]


def test_an_output_is_kept_with_the_request_and_what_is_its_own() -> None:
    request = request_pb2.Request(outputs=3, stop=["x"], parameters=request_pb2.Parameters(seed=7, max_tokens=5))
    first = bytes(range(16))
    kept = output_of(request, first, 2)
    assert (kept.output, kept.root, kept.parameters.seed) == (2, first, seed_of(7, 2))
    assert (root_of(kept, uuid_of(first, 2)), root_of(request, first)) == (first, first)
    assert count_of(kept) == 3
    kept.output, kept.root, kept.parameters.seed = 0, b"", 7
    assert kept == request
