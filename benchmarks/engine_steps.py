"""Where a step's time goes in an engine: a manager, an engine over a model with random weights, one front door.

So many sequences decode side by side; what the engine counts is read at the beginning and at the end, and divided by the
steps between. `manager wait` is the time in which the device had nothing to do for want of the manager's answer. Run with

    python -m benchmarks.engine_steps [--json] [--sizes 1,64,256] [--tokens 200]
    python -m benchmarks.engine_steps --shape llama-3.1-8b --context 1000        on a GPU

The device's time is the GPU's own where there is one. `compiled` counts what was compiled meanwhile, which should be nothing.
"""

import argparse
import json
import queue
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc

from benchmarks.scrape import PARTS, StepTimes, scrape
from benchmarks.shapes import SHAPES, write_shape
from pagehold.engine.v1 import engine_service_pb2_grpc, request_pb2, submit_pb2

SIZES = (1, 64, 256)
PROMPTS = 40
TINY, LENGTH = "tiny", 8192
COMPILED = r'_compilations_total\{[^}]*when="serving"\} (\S+)'
COMMAND = [sys.executable, "-m", "pagehold.client"]


@contextmanager
def engine(folder: Path, shape: str, most: int, flags: list[str]) -> Iterator[tuple[Path, int]]:
    """A manager and an engine that serves. Yields the engine's socket and the port of its metrics."""
    runtime_dir, port = folder / "run", free_port()
    shared = ["--runtime-dir", str(runtime_dir), "--log-level", "error"]
    sizes = ["--max-running", str(most), "--max-length", str(LENGTH), *flags]
    if shape == TINY:
        sizes += ["--step-tokens", str(max(512, most)), "--kv-memory", str(256 << 20)]
    model = [str(write_shape(folder, shape)), "--load", "random", "--metrics-port", str(port)]
    with (
        subprocess.Popen([*COMMAND, "blockmgr", *shared, "--address", f"unix:{runtime_dir}/admin.sock"]) as manager,
        subprocess.Popen([*COMMAND, "executor", *model, *shared, *sizes]) as process,
    ):
        try:
            yield runtime_dir / "engines" / "engine.sock", port
        finally:
            process.kill()
            manager.kill()


def free_port() -> int:
    """A port that nobody has at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Door:
    """Submits sequences and waits for their ends."""

    def __init__(self, path: Path) -> None:
        while not path.exists():
            time.sleep(0.05)
        self._channel = grpc.insecure_channel(f"unix:{path}")
        stub = engine_service_pb2_grpc.EngineServiceStub(self._channel)
        while True:
            # Each call its own: one that was refused may still be waiting for what to send.
            self._requests: queue.SimpleQueue[submit_pb2.SubmitRequest] = queue.SimpleQueue()
            self._responses = stub.Submit(iter(self._requests.get, None), wait_for_ready=True)
            try:
                next(self._responses)
                return
            except grpc.RpcError:
                # It is loading still.
                time.sleep(0.1)

    def start(self, count: int, context: int, tokens: int) -> None:
        """Submit so many sequences, with prompts of half to one and a half times ``context``, and return when all of them
        are decoding.
        """
        chance, starts = random.Random(count), []
        for _ in range(count):
            prompt = [chance.randrange(3, 512) for _ in range(chance.randrange(context // 2, 3 * context // 2))]
            parameters = request_pb2.Parameters(max_tokens=tokens, min_tokens=tokens, top_p=1.0)
            request = request_pb2.Request(parameters=parameters)
            starts.append(submit_pb2.Start(uuid=uuid.uuid4().bytes, prompt=prompt, request=request, body=bytes(16)))
        self._requests.put(submit_pb2.SubmitRequest(starts=starts))
        decoding: set[int] = set()
        while len(decoding) < count:
            decoding.update(next(self._responses).recorded.handles)

    def finish(self, count: int) -> None:
        """Return when all have ended."""
        while count:
            count -= len(next(self._responses).ended)


def measure(options: argparse.Namespace) -> dict[int, dict[str, float]]:
    """The parts of a step, by the number of sequences."""
    sizes, results = [int(size) for size in options.sizes.split(",")], {}
    with (
        tempfile.TemporaryDirectory(prefix="ph-") as folder,
        engine(Path(folder), options.shape, max(sizes), options.flag) as (path, port),
    ):
        door = Door(path)
        for size in sizes:
            door.start(size, options.context, options.tokens)
            before, began = StepTimes(scrape(port)), time.perf_counter()
            door.finish(size)
            text = scrape(port)
            results[size] = StepTimes(text).since(before)
            results[size]["seconds"] = time.perf_counter() - began
            results[size]["compiled"] = sum(map(float, re.findall(COMPILED, text)))
    return results


def print_table(results: dict[int, dict[str, float]]) -> None:
    """One column for each number of sequences."""
    print(f"{'sequences':20}" + "".join(f"{size:>10,}" for size in results))
    for name in (*PARTS, "turn_to_reply"):
        print(f"{name.replace('_', ' '):20}" + "".join(f"{one[name]:>10.3f}" for one in results.values()))
    for name in ("steps", "turns", "tokens", "compiled"):
        print(f"{name:20}" + "".join(f"{one[name]:>10,.0f}" for one in results.values()))
    rates = (one["tokens"] / one["seconds"] for one in results.values())
    print(f"{'tokens a second':20}" + "".join(f"{rate:>10,.0f}" for rate in rates))
    print("milliseconds a step; turn to reply: milliseconds a turn")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of sequences (%(default)s)")
    parser.add_argument("--tokens", type=int, default=200, help="tokens of each (%(default)s)")
    parser.add_argument("--context", type=int, default=PROMPTS, help="tokens of prompts, about (%(default)s)")
    parser.add_argument("--shape", default=TINY, choices=SHAPES, help="whose configuration (%(default)s)")
    parser.add_argument(
        "--flag", action="append", default=[], help="a flag more for the engine, such as --flag=--any-bits"
    )
    arguments = parser.parse_args()
    results = measure(arguments)
    if arguments.json:
        print(json.dumps(results))
    else:
        print_table(results)


if __name__ == "__main__":
    main()
