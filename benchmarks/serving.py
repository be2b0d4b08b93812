"""A server to be measured: `pagehold up` in a folder of its own."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Served:
    """Where it is: its runtime folder, and its clients' address."""

    runtime_dir: Path
    address: str


@contextmanager
def serving(
    model: str, *flags: str, address: str = "", environment: Mapping[str, str] | None = None
) -> Iterator[Served]:
    """Serve a model until the context ends, however it ends. ``address``: a socket beside the others if not given.

    Raises ``RuntimeError`` if it does not become ready.
    """
    with tempfile.TemporaryDirectory(prefix="ph-") as name:
        folder = Path(name)
        served = Served(folder / "run", address or f"unix:{folder}/clients.sock")
        ours, theirs = os.pipe()
        command = [sys.executable, "-m", "pagehold.client", "up", model, "--runtime-dir", str(served.runtime_dir)]
        command += ["--address", served.address, "--admin-address", f"unix:{folder}/admin.sock"]
        command += ["--ready-descriptor", str(theirs), *flags]
        told = dict(os.environ) | dict(environment or {})
        with subprocess.Popen(command, pass_fds=[theirs], env=told, stdout=subprocess.DEVNULL) as up:
            os.close(theirs)
            try:
                with open(ours, "rb") as ready:
                    if not ready.read():
                        raise RuntimeError(f"`pagehold up` ended with code {up.wait()}")
                yield served
            finally:
                up.terminate()
