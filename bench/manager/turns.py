"""How long a turn takes between an executor and its manager, everything included: two processes and a stream.

Every turn reports a step of n running sequences: a token each, and more room for those that are about to need it. Their
prompts are of random lengths, so block boundaries do not coincide. A second executor is registered and idle. The parts
are measured apart, in this process on the same messages, by the processor time that each takes; the rest of a turn is
the wire and being scheduled. Run with

    python -m benchmarks.session_turn [--json] [--rounds N] [--sizes 1,64,256,1024]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from blockmgr.core.columns import Change
from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.messages import NONE, Admission, Appends, Finished, Message, Progress, Reply, Reservations
from blockmgr.core.pool import Pool
from blockmgr.core.states import FinishReason
from blockmgr.ledger.pool_ledger import PoolLedger
from blockmgr.ledger.redo import RedoLog
from blockmgr.service.codec import decode_reply, decode_turn, encode_reply, encode_turn
from executor.manager import register
from pagehold.blockmgr.v1 import pool_pb2, turn_pb2

SIZES = (1, 64, 256, 1024)
GEOMETRY = PoolGeometry(
    tokens_per_block=16, block_bytes=4096, device_blocks=120_000, max_sequences=2048, max_length=4096
)
LOOK_AHEAD = 9
PROMPTS = (50, 500)

Exchange = Callable[[Message], Reply]


class Load:
    """Running sequences, and what an executor says of them step by step."""

    def __init__(self, sequences: int, exchange: Exchange) -> None:
        self._random = np.random.default_rng(sequences)
        self._exchange = exchange
        lengths = self._random.integers(*PROMPTS, size=sequences)
        handles = []
        for start in range(0, sequences, 64):
            asked = [self._admission(length) for length in lengths[start : start + 64].tolist()]
            handles += [one.handle for one in exchange(Message(0, 0, admissions=asked)).admitted]
        self.handles = np.array(handles, dtype=np.int64)
        self.lengths = lengths.astype(np.int64)
        self.room = -(-self.lengths // GEOMETRY.tokens_per_block) * GEOMETRY.tokens_per_block

    def _admission(self, length: int) -> Admission:
        prompt = self._random.integers(0, 50_000, size=length).astype(np.int32)
        return Admission(uuid=uuid.uuid4().bytes, prompt=prompt)

    def turn(self, step: int) -> Message:
        """The next step: what was computed, a token each, and room for the positions to come."""
        near = self.room - self.lengths <= LOOK_AHEAD
        ids = self._random.integers(0, 50_000, len(self.handles))
        message = Message(
            0,
            0,
            launched_step=step,
            completed_step=step,
            progress=Progress(self.handles, self.lengths.copy(), self.lengths.copy()),
            appends=Appends(self.handles, self.lengths.copy(), NONE, ids),
            reservations=Reservations(
                self.handles[near], self.lengths[near] + 1, np.full(int(near.sum()), LOOK_AHEAD, dtype=np.int64)
            ),
        )
        self.lengths += 1
        return message

    def take(self, reply: Reply) -> None:
        """Use what was given."""
        if reply.short or reply.stale:
            raise RuntimeError(f"{len(reply.short)} sequences are short and {len(reply.stale)} stale")
        for update in reply.tables:
            place = np.flatnonzero(self.handles == update.handle)
            self.room[place] = (update.first + len(update.blocks)) * GEOMETRY.tokens_per_block

    def end(self) -> None:
        """Finish all of them."""
        self._exchange(Message(0, 0, finished=Finished(self.handles, [FinishReason.LENGTH] * len(self.handles))))


def whole_turns(exchange: Exchange, sequences: int, rounds: int, step: int) -> tuple[list[float], int]:
    """Seconds of each turn, and the last step."""
    load, found = Load(sequences, exchange), []
    for _ in range(rounds):
        step += 1
        message = load.turn(step)
        began = time.perf_counter()
        reply = exchange(message)
        found.append(time.perf_counter() - began)
        load.take(reply)
    load.end()
    return found, step


class TimedLedger(PoolLedger):
    """A ledger that says how long its commits take."""

    seconds = 0.0

    def commit(self, changes: list[Change]) -> None:
        """Commit, and add the time that it takes."""
        began = time.thread_time()
        super().commit(changes)
        self.seconds += time.thread_time() - began


class Parts:
    """The same turns within one process, each part by itself."""

    def __init__(self) -> None:
        self.redo = RedoLog.create()
        self.ledger = TimedLedger.create("benchmark", GEOMETRY, self.redo)
        self.pool = Pool(GEOMETRY, self.ledger, encode=self._encode)
        self.epoch = self.pool.register("a", uuid.uuid4().bytes, [os.getpid()])
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self._number = 0
        self._encoding = 0.0

    def _encode(self, reply: Reply) -> bytes:
        began = time.thread_time()
        data = encode_reply(reply, 1)
        self._encoding = time.thread_time() - began
        return data

    def exchange(self, message: Message) -> Reply:
        """One turn, taken apart."""
        self._number += 1
        message.epoch, message.number = self.epoch, self._number
        clock = [time.thread_time()]
        data = encode_turn(message).SerializeToString()
        clock.append(time.thread_time())
        turn = decode_turn(turn_pb2.Turn.FromString(data))
        clock.append(time.thread_time())
        self.ledger.seconds = 0.0
        answer = self.pool.exchange(turn)
        clock.append(time.thread_time())
        reply = decode_reply(answer)
        clock.append(time.thread_time())
        encode, decode, exchange, parse = np.diff(clock).tolist()
        core = exchange - self.ledger.seconds - self._encoding
        for name, seconds in (
            ("executor: encode turn", encode),
            ("manager: decode turn", decode),
            ("manager: core", core),
            ("manager: ledger commit", self.ledger.seconds),
            ("manager: encode reply", self._encoding),
            ("executor: decode reply", parse),
        ):
            self.seconds[name].append(seconds)
        return reply

    def close(self) -> None:
        """Let go of the memory."""
        self.ledger.close()
        self.redo.close()


def pool_spec() -> pool_pb2.PoolSpec:
    """The pool as an executor proposes it."""
    spec = pool_pb2.PoolSpec(name="benchmark")
    for name in ("tokens_per_block", "block_bytes", "device_blocks", "max_sequences", "max_length"):
        setattr(spec.geometry, name, getattr(GEOMETRY, name))
    spec.identity.shape.CopyFrom(
        pool_pb2.BlockShape(layers=1, kv_heads=1, head_size=32, dtype="float32", layout="benchmark", ranks=1)
    )
    spec.identity.content.CopyFrom(pool_pb2.Content(model="benchmark", revision="1"))
    return spec


@contextmanager
def manager_with_idle_executor() -> Iterator[Path]:
    """A manager, and an executor beside the one that is measured, which does nothing."""
    with tempfile.TemporaryDirectory(prefix="ph-") as folder:
        runtime_dir = Path(folder) / "run"
        command = [sys.executable, "-m", "pagehold.client", "blockmgr", "--runtime-dir", str(runtime_dir)]
        address = ["--address", f"unix:{runtime_dir}/admin.sock", "--log-level", "error"]
        idle_command = [sys.executable, "-m", "benchmarks.session_turn", "--idle", str(runtime_dir)]
        with (
            subprocess.Popen([*command, *address]) as manager,
            subprocess.Popen(idle_command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as idle,
        ):
            try:
                assert idle.stdout is not None
                idle.stdout.readline()
                yield runtime_dir
            finally:
                idle.kill()
                manager.kill()


def be_idle(runtime_dir: Path) -> None:
    """Register, and do nothing."""
    registration = register(runtime_dir, "idle", pool_spec())
    registration.ready()
    session = registration.open_session()
    print("idle", flush=True)
    sys.stdin.read()
    session.close()


def percentiles(seconds: list[float]) -> dict[str, float]:
    """In microseconds. The first tenth warms up."""
    measured = np.array(seconds[len(seconds) // 10 :]) * 1e6
    return {f"p{which}_us": round(float(np.percentile(measured, which)), 1) for which in (50, 90, 99)}


def measure(sizes: list[int], rounds: int) -> dict[int, dict[str, Any]]:
    """Whole turns and their parts, by the number of sequences."""
    results: dict[int, dict[str, Any]] = {}
    with manager_with_idle_executor() as runtime_dir:
        registration = register(runtime_dir, "busy", pool_spec())
        session = registration.open_session()
        step = 0
        for size in sizes:
            found, step = whole_turns(session.exchange, size, rounds, step)
            results[size] = {"turn": percentiles(found)}
        session.close()
        registration.close()
    for size in sizes:
        parts = Parts()
        whole_turns(parts.exchange, size, rounds, 0)
        results[size]["parts"] = {name: percentiles(taken) for name, taken in parts.seconds.items()}
        parts.close()
    return results


def print_table(results: dict[int, dict[str, Any]]) -> None:
    """One column for each number of sequences."""
    print(f"{'sequences':28}" + "".join(f"{size:>24,}" for size in results))
    rows: dict[str, list[dict[str, float]]] = {"whole turn": [one["turn"] for one in results.values()]}
    for name in next(iter(results.values()))["parts"]:
        rows[name] = [one["parts"][name] for one in results.values()]
    for name, cells in rows.items():
        texts = (f"{cell['p50_us']:.0f} / {cell['p90_us']:.0f} / {cell['p99_us']:.0f}" for cell in cells)
        print(f"{name:28}" + "".join(f"{text:>24}" for text in texts))
    print("p50 / p90 / p99 in microseconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--rounds", type=int, default=1000, help="turns of each size (%(default)s)")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of sequences (%(default)s)")
    parser.add_argument("--idle", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.idle is not None:
        be_idle(arguments.idle)
        return
    results = measure([int(size) for size in arguments.sizes.split(",")], arguments.rounds)
    if arguments.json:
        print(json.dumps(results))
    else:
        print_table(results)


if __name__ == "__main__":
    main()
