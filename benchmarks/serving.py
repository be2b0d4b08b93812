"""A server to be measured: `pagehold up` in a folder of its own."""

import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Served:
    """Where it is: its runtime folder, its clients' address, its operators', and how long it took to be ready."""

    runtime_dir: Path
    address: str
    admin_address: str
    ready_seconds: float


STOP_SECONDS = 30.0
"""How long it may take to end in good order."""


@contextmanager
def serving(
    model: str,
    *flags: str,
    address: str = "",
    environment: Mapping[str, str] | None = None,
    ready_within: float = 600.0,
) -> Iterator[Served]:
    """Serve a model until the context ends, however it ends. ``address``: a socket beside the others if not given.

    Raises ``RuntimeError`` if it does not become ready within so many seconds.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ph-") as name:
        folder = Path(name)
        runtime_dir, admin_address = folder / "run", f"unix:{folder}/admin.sock"
        address = address or f"unix:{folder}/clients.sock"
        ours, theirs = os.pipe()
        command = [sys.executable, "-m", "pagehold.client", "up", model, "--runtime-dir", str(runtime_dir)]
        command += ["--address", address, "--admin-address", admin_address]
        command += ["--ready-descriptor", str(theirs), *flags]
        told = dict(os.environ) | dict(environment or {})
        with subprocess.Popen(command, pass_fds=[theirs], env=told, stdout=subprocess.DEVNULL) as up:
            os.close(theirs)
            try:
                _await_ready(ours, up, ready_within)
                yield Served(runtime_dir, address, admin_address, time.monotonic() - began)
            finally:
                _end(up)


def _await_ready(descriptor: int, up: "subprocess.Popen[bytes]", seconds: float) -> None:
    with open(descriptor, "rb") as ready:
        if not select.select([ready], [], [], seconds)[0]:
            raise RuntimeError(f"`pagehold up` was not ready within {seconds:g} s")
        if not ready.read():
            raise RuntimeError(f"`pagehold up` ended with code {up.wait()}")


def _end(up: "subprocess.Popen[bytes]") -> None:
    up.terminate()
    try:
        up.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        # What it started ends with it.
        up.kill()
