"""How long a turn takes between an executor and its manager, everything included: two processes and a stream.

Every turn reports a step of n running sequences: a token each, and more room for those that are about to need it. Their
prompts are of random lengths, so block boundaries do not coincide. A second executor is registered and idle. The parts
are measured apart, in this process on the same messages, by the processor time that each takes; the rest of a turn is
the wire and being scheduled.

The two processes may each be kept to a core, as an operator may keep them (``CPUAffinity=`` of a unit, ``taskset``): then
neither comes back to a core whose caches are full of the other's.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bench.manager.idle import pool_spec
from bench.manager.load import whole_turns
from bench.manager.parts import Parts
from executor.manager import register

Cores = tuple[int, int]
"""Of the executors, which are this process and the idle one; and of the manager."""


@contextmanager
def manager_with_idle_executor(cores: Cores | None = None) -> Iterator[Path]:
    """A manager, and an executor beside the one that is measured, which does nothing. Yields their runtime folder."""
    with tempfile.TemporaryDirectory(prefix="ph-") as folder:
        runtime_dir = Path(folder) / "run"
        command = [sys.executable, "-m", "pagehold.client", "blockmgr", "--runtime-dir", str(runtime_dir)]
        address = ["--address", f"unix:{runtime_dir}/admin.sock", "--log-level", "error"]
        idle_command = [sys.executable, "-m", "bench.manager.idle", str(runtime_dir)]
        with (
            subprocess.Popen([*command, *address]) as manager,
            subprocess.Popen(idle_command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as idle,
        ):
            try:
                assert idle.stdout is not None
                idle.stdout.readline()
                if cores is not None:
                    _keep_to(cores[0], os.getpid(), idle.pid)
                    _keep_to(cores[1], manager.pid)
                yield runtime_dir
            finally:
                idle.kill()
                manager.kill()


def _keep_to(core: int, *pids: int) -> None:
    """Keep every thread of these processes, and those that they will start, to one core."""
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {core})


def percentiles(seconds: list[float]) -> dict[str, float]:
    """In microseconds. The first tenth warms up."""
    measured = np.array(seconds[len(seconds) // 10 :]) * 1e6
    return {f"p{which}_us": round(float(np.percentile(measured, which)), 1) for which in (50, 90, 99)}


def measure(sizes: Sequence[int], rounds: int, cores: Cores | None = None) -> dict[int, dict[str, Any]]:
    """Whole turns and their parts, by the number of sequences."""
    results: dict[int, dict[str, Any]] = {}
    with manager_with_idle_executor(cores) as runtime_dir:
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
