"""Everything that a GPU machine is needed for, in one go that ends in time: what fails costs the other parts nothing.

    benchmarks/gpu_wheels.sh --install /tmp/site     # where packages are missing
    PYTHONPATH=/tmp/site:.:protos:clients/python python3 -m benchmarks.gpu_check --out FOLDER

Two shapes with random weights are served one after the other. Of the large one: how long until it is ready and says its
first token, one stream, the workloads `seed`, `sampling` and `prefix`, and streams while manager and engine are killed. Of
the small one: the workload `small`. Then how fast blocks go to the host tier and back. `--legacy` adds one stream over the
other kind of memory, `--baseline N` the first requests of `seed` by transformers. A short table comes last; logs, metrics
and all figures are in FOLDER.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.engine_steps import free_port
from benchmarks.gpu_report import Report, Row
from benchmarks.restarts import measure
from benchmarks.scrape import PARTS, StepTimes, scrape
from benchmarks.serving import Served, serving
from benchmarks.shapes import SHAPES, write_shape

ROOT = Path(__file__).parents[1]
BENCH = [sys.executable, "-m", "pagehold.client", "bench", "serve"]
MODULES = (
    "blockmgr.service.process",
    "executor.frontend.process",
    "executor.launch.process",
    "executor.engine.process",
    "transformers",
    "triton",
)

SPARE = 15.0
"""Seconds that a command has beyond its own limit."""

IMPORTS, LARGE_START, SMALL_START, SINGLE, SEED, SAMPLING, PREFIX, KILLS, SMALL, SWAP, BASELINE = (
    90.0,
    100.0,
    60.0,
    20.0,
    60.0,
    30.0,
    20.0,
    60.0,
    45.0,
    30.0,
    90.0,
)
"""Seconds that each part may take; less where less is left of all."""


class Check:
    """The parts, one after the other. Each takes a row or more of the report, also where it fails."""

    def __init__(self, options: argparse.Namespace, report: Report) -> None:
        self._options = options
        self._report = report
        self._metrics_port = free_port()

    def imports(self, limit: float) -> None:
        """Import what the processes import: says what is missing, and reads it from the disk once, before the clock runs."""
        began = time.monotonic()
        subprocess.run([sys.executable, "-c", f"import {', '.join(MODULES)}"], cwd=ROOT, check=True, timeout=limit)
        self._report.add(Row("imports, the machine's first", time.monotonic() - began, "s"))

    def large(self, limit: float) -> None:
        """The large shape: start, one stream, the thousand requests, kills. It is started twice: only the machine's first
        start compiles kernels, and finds no file in the machine's memory.
        """
        part = self._report.part
        with self._serving(self._options.large, limit) as served:
            part("first token", SINGLE, lambda seconds: self._first_token(served, seconds, " at the machine's first"))
        with self._serving(self._options.large, limit) as served:
            part("first token", SINGLE, lambda seconds: self._first_token(served, seconds))
            part("one stream", SINGLE, lambda seconds: self._one_stream(served, seconds))
            part("seed", SEED, lambda seconds: self._throughput(served, "seed", seconds, 7000.0))
            part("sampling", SAMPLING, lambda seconds: self._sampling(served, seconds))
            part("prefix", PREFIX, lambda seconds: self._prefix(served, seconds))
            part("kills", KILLS, lambda seconds: self._kills(served, seconds))

    def small(self, limit: float) -> None:
        """The small shape: 256 sequences."""
        with self._serving(self._options.small, limit) as served:
            self._report.add(Row(f"{self._options.small}: start to ready", served.ready_seconds, "s"))
            self._report.part("small", SMALL, lambda seconds: self._throughput(served, "small", seconds, 15000.0))

    def swap(self, limit: float) -> None:
        """The host tier's copies beside a plain one."""
        command = [sys.executable, "-m", "benchmarks.swap_rate", "--json"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit)
        if done.returncode:
            raise RuntimeError(done.stderr[-500:])
        for way, found in json.loads(done.stdout).items():
            self._report.add(Row(f"{way}: of a plain copy", 100 * found["swap"] / found["plain"], "%", at_least=80))
            self._report.add(Row(way, found["swap"] / 1e9, "GB/s"))

    def legacy(self, limit: float) -> None:
        """The small shape over memory that is shared by handle."""
        with self._serving(self._options.small, limit, "arena=cuda-ipc") as served:
            self._report.add(Row("cuda-ipc: start to ready", served.ready_seconds, "s"))
            self._report.part("cuda-ipc: one stream", SINGLE, lambda seconds: self._over_ipc(served, seconds))

    def baseline(self, limit: float) -> None:
        """Transformers' own continuous batching on the first requests of `seed`, the large shape."""
        folder = write_shape(Path(self._report.scratch), self._options.large)
        command = [*BENCH[:-1], "baseline", str(folder), "seed", "--weights", "random", "--json"]
        command += ["--requests", str(self._options.baseline)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit)
        if done.returncode:
            raise RuntimeError(done.stderr[-500:])
        found = json.loads(done.stdout)
        self._report.keep("baseline", found)
        self._report.add(Row("transformers' generate_batch", found["output_rate"], "output tokens/s"))

    def _over_ipc(self, served: Served, seconds: float) -> None:
        found = self._bench(served, "single", seconds)
        self._report.add(Row("cuda-ipc: one stream", 1000 * found["times"]["tpot"]["p50"], "ms a token"))

    def _first_token(self, served: Served, seconds: float, which: str = "") -> None:
        found = self._bench(served, "single", seconds, "--max-tokens", "1")
        first = served.ready_seconds + found["times"]["ttft"]["p50"]
        self._report.add(Row(f"{self._options.large}: start to ready{which}", served.ready_seconds, "s"))
        self._report.add(Row(f"start to first token{which}", first, "s", at_most=None if which else 20.0))

    def _one_stream(self, served: Served, seconds: float) -> None:
        with self._step_times("one stream"):
            found = self._bench(served, "single", seconds)
        self._report.add(Row("one stream", 1000 * found["times"]["tpot"]["p50"], "ms a token", at_most=6.0))

    def _serving(self, name: str, limit: float, *more: str) -> Any:
        """`pagehold up` of a shape, logging into the report's folder."""
        folder = write_shape(Path(self._report.scratch), name)
        environment = {
            "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
            "PAGEHOLD_ENGINE_WEIGHTS": "random",
            "PAGEHOLD_ENGINE_METRICS_PORT": str(self._metrics_port),
            "PAGEHOLD_DOOR_MAX_REQUESTS": "1024",
        }
        settings = dict(one.split("=", 1) for one in (*self._options.engine, *more))
        environment |= {f"PAGEHOLD_ENGINE_{key.upper()}": value for key, value in settings.items()}
        flags = ["--doors", str(self._options.doors), "--log-file", str(self._report.folder / f"up-{name}.log")]
        flags += ["--max-length", str(min(8192, SHAPES[name]["max_position_embeddings"]))]
        address = f"127.0.0.1:{free_port()}"
        return serving(str(folder), *flags, address=address, environment=environment, ready_within=limit)

    def _bench(self, served: Served, workload: str, seconds: float, *flags: str) -> dict[str, Any]:
        """What `bench serve` says of a workload. Raises RuntimeError where it says nothing."""
        where = ["--address", served.address, "--admin-address", served.admin_address]
        command = [*BENCH, workload, "--json", "--time-limit", str(seconds), *where, *flags]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds + SPARE)
        if not done.stdout.startswith("{"):
            raise RuntimeError(f"bench serve {workload}: {done.stderr[-500:]}")
        found: dict[str, Any] = json.loads(done.stdout)
        self._report.keep(workload, found)
        if found["failed"]:
            self._report.remark(f"{workload}: failed {found['failed']}, {found['explanations']}")
        if not found["completed"]:
            raise RuntimeError(f"bench serve {workload}: nothing completed: {found['explanations']}")
        return found

    def _throughput(self, served: Served, workload: str, seconds: float, aim: float) -> None:
        """A workload's tokens a second."""
        flags = ["--processes", str(self._options.processes), "--connections", "4"]
        flags += ["--requests", str(self._options.requests)] if self._options.requests else []
        with self._step_times(workload):
            found = self._bench(served, workload, seconds, *flags)
        self._report.add(Row(workload, found["output_rate"], "output tokens/s", at_least=aim))
        self._report.add(Row(f"{workload}: completed", found["completed"], f"of {found['requests']}"))
        self._report.add(Row(f"{workload}: busiest client", 100 * max(found["client_busy"]), "% of a core", at_most=80))

    @contextmanager
    def _step_times(self, name: str) -> Iterator[None]:
        """Where the engine's time goes meanwhile, by its metrics."""
        before = StepTimes(scrape(self._metrics_port))
        try:
            yield
        finally:
            # A server that has ended is told by what ended the part.
            with suppress(OSError):
                self._note_step_times(name, before)

    def _note_step_times(self, name: str, before: StepTimes) -> None:
        text = scrape(self._metrics_port)
        (self._report.folder / f"metrics-{name.replace(' ', '-')}.txt").write_text(text)
        steps = StepTimes(text).since(before)
        parts = ", ".join(f"{part.replace('_', ' ')} {steps[part]:.2f}" for part in PARTS)
        self._report.remark(f"{name}: {steps['steps']:,.0f} steps; milliseconds each: {parts}")
        if steps["device"]:
            share = 100 * steps["manager_wait"] / steps["device"]
            self._report.add(Row(f"{name}: wait for the manager", share, "% of a step", at_most=2.0))

    def _sampling(self, served: Served, seconds: float) -> None:
        """64 prompts of 512 tokens, 8 outputs of 128 of each: as much as there is of them at once, shared in full, is what the
        pool need hold, but for blocks that are not full.
        """
        found = self._bench(
            served, "sampling", seconds, "--processes", "4", "--connections", "4", "--look-every", "0.1"
        )
        shared = 64 * (512 + 8 * 128)
        self._report.add(Row("sampling", found["output_rate"], "output tokens/s"))
        self._report.add(
            Row("sampling: pool at its peak", found["pool"]["peak"]["tokens"], "tokens", at_most=1.1 * shared)
        )
        self._report.add(Row("sampling: sequences then", found["pool"]["peak"]["live"], "of 512"))

    def _prefix(self, served: Served, seconds: float) -> None:
        """64 prompts with 4,096 tokens that all share."""
        found = self._bench(served, "prefix", seconds, "--processes", "4", "--connections", "4")
        self._report.add(Row("prefix: wall", found["seconds"], "s"))
        self._report.add(Row("prefix: time to first token, p50", found["times"]["ttft"]["p50"], "s"))
        self._report.add(Row("prefix: cached", found["cached_tokens"], f"of {found['prompt_tokens']:,} tokens"))

    def _kills(self, served: Served, seconds: float) -> None:
        """Streams while manager and engine are killed, beside the same streams undisturbed."""
        victims = ("manager", "engine")
        working = measure(served, self._options.streams, self._options.stream_tokens, victims)
        found = asyncio.run(asyncio.wait_for(working, seconds))
        self._report.add(Row("kills: ids not as undisturbed", found.differing, f"of {found.ids:,}", at_most=0))
        for one in found.pauses:
            self._report.add(Row(f"kills: {one.victim}, ready again after", one.ready, "s"))
            self._report.add(Row(f"kills: {one.victim}, longest pause", one.longest_pause, "s"))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "gpu-check", help="folder of results")
    parser.add_argument("--seconds", type=float, default=240.0, help="after which nothing more is begun (%(default)s)")
    parser.add_argument("--large", default="llama-3.1-8b", choices=SHAPES)
    parser.add_argument("--small", default="qwen3-0.6b", choices=SHAPES)
    parser.add_argument("--engine", action="append", default=[], metavar="NAME=VALUE", help="a setting of the engine")
    parser.add_argument("--legacy", action="store_true", help="also serve over memory that is shared by handle")
    parser.add_argument("--baseline", type=int, metavar="REQUESTS", help="so many also by transformers' generate_batch")
    parser.add_argument("--doors", type=int, default=4)
    parser.add_argument("--processes", type=int, default=4, help="client processes")
    parser.add_argument("--requests", type=int, help="only so many of each workload")
    parser.add_argument("--streams", type=int, default=16, help="streams while processes are killed")
    parser.add_argument("--stream-tokens", type=int, default=1000)
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ph-shapes-") as scratch:
        report = Report(options.out, scratch, options.seconds)
        check = Check(options, report)
        with suppress(KeyboardInterrupt):
            report.part("imports", IMPORTS, check.imports)
            report.part(options.large, LARGE_START, check.large)
            report.part(options.small, SMALL_START, check.small)
            report.part("swap", SWAP, check.swap)
            if options.legacy:
                report.part("cuda-ipc", SMALL_START, check.legacy)
            if options.baseline:
                report.part("baseline", BASELINE, check.baseline)
        raise SystemExit(report.print())


if __name__ == "__main__":
    main()
