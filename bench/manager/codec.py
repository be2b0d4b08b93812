"""What it costs to carry one turn and its reply over the wire: decoding and encoding, without gRPC itself.

A turn of n sequences: each reports its progress, appends one token and asks for room; one in sixteen gets a new block.
"""

import time
from collections.abc import Callable

import numpy as np

from blockmgr.core.messages import NONE, Appends, Message, Progress, Reply, Reservations, TableUpdate
from blockmgr.service.codec import decode_reply, decode_turn, encode_reply, encode_turn
from pagehold.blockmgr.v1 import session_pb2


def typical(sequences: int) -> tuple[Message, Reply]:
    """A turn of so many sequences, and its reply."""
    slots = np.arange(sequences, dtype=np.int64)
    handles, lengths = (slots % 7 + 1) << 20 | slots, 500 + slots % 1500
    message = Message(
        epoch=1 << 32 | 3,
        number=70_000,
        launched_step=70_001,
        completed_step=70_000,
        progress=Progress(handles, lengths + 1, lengths),
        appends=Appends(handles, lengths + 1, NONE, slots * 97 % 128_000),
        reservations=Reservations(handles, lengths + 3, np.full(sequences, 9, dtype=np.int64)),
    )
    growing = [
        (int(handle), int(length) // 16) for handle, length in zip(handles, lengths, strict=True) if handle % 16 == 0
    ]
    tables = [TableUpdate(handle, first, np.array([first * 31 + 7])) for handle, first in growing]
    return message, Reply(70_000, revision=900_000, tables=tables, free_blocks=12_345)


def seconds(call: Callable[[], object]) -> list[float]:
    """Durations of 2,000 calls, sorted."""
    found = []
    for _ in range(2000):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return sorted(found)


def measure(sequences: int) -> dict[str, dict[str, float]]:
    """Microseconds of each part: median and 99th percentile."""
    message, reply = typical(sequences)
    turn = encode_turn(message)
    turn_bytes, reply_bytes = turn.SerializeToString(), encode_reply(reply, 1)
    steps: dict[str, Callable[[], object]] = {
        "executor: encode turn": lambda: encode_turn(message).SerializeToString(),
        "manager: parse turn": lambda: type(turn).FromString(turn_bytes),
        "manager: decode turn": lambda: decode_turn(turn),
        "manager: encode reply": lambda: encode_reply(reply, 1),
        "executor: parse reply": lambda: session_pb2.SessionResponse.FromString(reply_bytes),
        "executor: decode reply": lambda: decode_reply(session_pb2.SessionResponse.FromString(reply_bytes).reply),
    }
    found = {}
    for name, call in steps.items():
        times = seconds(call)
        found[name] = {"p50_us": times[1000] * 1e6, "p99_us": times[1980] * 1e6}
    return found
