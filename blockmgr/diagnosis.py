"""What this machine can do for pagehold, and what is missing: each check tries the thing itself rather than a version."""

import fcntl
import os
import platform
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path

from blockmgr.configuration import WrongSetting
from blockmgr.process_lock import holder_of
from blockmgr.runtime import default_runtime_dir, find_runtime_dir

ENOUGH_DESCRIPTORS = 1024
LONGEST_SOCKET_NAME = len("descriptors.sock") + 1
LONGEST_SOCKET_PATH = 107
EXTRAS = {
    "manager": (
        *("grpcio-channelz", "grpcio-health-checking", "grpcio-reflection", "numpy", "prometheus-client"),
        *("pydantic-settings", "structlog", "uvloop"),
    ),
    "executor": (
        *("gguf", "grpcio-channelz", "grpcio-health-checking", "grpcio-reflection", "jinja2", "numpy"),
        *("prometheus-client", "pydantic-settings", "safetensors", "structlog", "tokenizers", "torch", "transformers"),
        "uvloop",
    ),
    "cuda": ("cupy-cuda13x", "cuda-bindings", "nvidia-ml-py"),
}


class Verdict(StrEnum):
    """How a check came out."""

    GOOD = "good"
    LACKING = "lacking"
    """Works without it, less well."""
    BROKEN = "broken"
    """Does not work without it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: what was looked at, how it came out, and what was found or is to be done."""

    subject: str
    verdict: Verdict
    text: str


def examine(runtime_dir: Path | None = None) -> list[Finding]:
    """Run every check; the runtime folder is the manager's, or the one given. Nothing is changed but what is removed again."""
    checks: list[Callable[[], Iterator[Finding]]] = [
        _system,
        _shared_memory,
        _process_descriptors,
        _limits,
        lambda: _runtime_dir(runtime_dir),
        _packages,
        _gpus,
        _arenas,
    ]
    return [finding for check in checks for finding in check()]


def _system() -> Iterator[Finding]:
    linux = sys.platform == "linux"
    yield Finding("system", Verdict.GOOD if linux else Verdict.BROKEN, f"{platform.system()} {platform.release()}")
    good = sys.version_info >= (3, 11)
    yield Finding(
        "Python", Verdict.GOOD if good else Verdict.BROKEN, f"{platform.python_version()}; 3.11 or later is needed"
    )


def _shared_memory() -> Iterator[Finding]:
    """Memory that outlives its maker: made, sealed, reopened and locked as a ledger is."""
    try:
        descriptor = os.memfd_create("pagehold-doctor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(descriptor, 4096)
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
            again = os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR)
            fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.close(again)
        finally:
            os.close(descriptor)
    except (OSError, AttributeError) as error:
        yield Finding("shared memory", Verdict.BROKEN, f"a sealed memfd cannot be made and locked: {error}")
        return
    yield Finding("shared memory", Verdict.GOOD, "memfd: made, sealed, reopened and locked")


def _process_descriptors() -> Iterator[Finding]:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        text = f"a process cannot be held by descriptor, so no death could be proven: {error}"
        yield Finding("pidfd", Verdict.BROKEN, text)
        return
    yield Finding("pidfd", Verdict.GOOD, "processes can be held by descriptor")


def _limits() -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = soft >= ENOUGH_DESCRIPTORS
    text = f"{soft} open files (at most {hard}); {ENOUGH_DESCRIPTORS} are advised"
    yield Finding("open files", Verdict.GOOD if enough else Verdict.LACKING, text)
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    yield Finding("memory", Verdict.GOOD, f"{total:.1f} GiB, {free:.1f} GiB of it unused")


def _runtime_dir(given: Path | None) -> Iterator[Finding]:
    try:
        path = find_runtime_dir(given)
    except WrongSetting as error:
        yield Finding("settings", Verdict.BROKEN, str(error))
        path = given or default_runtime_dir()
    longest = len(os.fsencode(path.absolute())) + LONGEST_SOCKET_NAME
    if longest > LONGEST_SOCKET_PATH:
        text = f"{path}: a socket's path in it would have {longest} bytes, {LONGEST_SOCKET_PATH} are possible"
        yield Finding("runtime folder", Verdict.BROKEN, text)
        return
    parent = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    writable = os.access(parent, os.W_OK)
    state = "is there" if path.exists() else "will be made"
    yield Finding("runtime folder", Verdict.GOOD if writable else Verdict.BROKEN, f"{path} {state}")
    yield from _up(path)
    for name, what in (("notify.sock", "keeper"), ("blockmgr.sock", "manager")):
        running = _answers(path / name)
        if running is not None:
            yield Finding(what, Verdict.GOOD, "running" if running else "not running")


def _up(path: Path) -> Iterator[Finding]:
    """An `up` whose folder was deleted while it ran goes on, and has a lock there and nothing else."""
    try:
        pid = holder_of(path / "up.lock")
    except OSError:
        return
    if pid is None:
        return
    if _answers(path / "notify.sock"):
        yield Finding("up", Verdict.GOOD, f"running (process {pid})")
    else:
        text = (
            f"running (process {pid}), but its keeper is not to be found: it starts, or its folder was deleted while it ran; "
            "then `pagehold down` ends it, and the next `pagehold up` is whole again"
        )
        yield Finding("up", Verdict.LACKING, text)


def _answers(path: Path) -> bool | None:
    """Whether somebody listens on a unix socket; None if there has never been one."""
    if not path.exists():
        return False
    kind = socket.SOCK_DGRAM if path.name == "notify.sock" else socket.SOCK_STREAM
    with socket.socket(socket.AF_UNIX, kind) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def _packages() -> Iterator[Finding]:
    for extra, names in EXTRAS.items():
        missing = [name for name in names if not _installed(name)]
        if not missing:
            yield Finding(f"pagehold[{extra}]", Verdict.GOOD, "installed")
        else:
            text = f"lacks {', '.join(missing)}: pip install 'pagehold[{extra}]'"
            yield Finding(f"pagehold[{extra}]", Verdict.BROKEN if extra == "manager" else Verdict.LACKING, text)


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _gpus() -> Iterator[Finding]:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        yield Finding("GPU", Verdict.LACKING, "none: executors run on the CPU, pools lie in shared memory")
        return
    query = [tool, "--query-gpu=name,uuid,memory.total", "--format=csv,noheader"]
    listed = subprocess.run(query, capture_output=True, text=True, timeout=30, check=False)
    if listed.returncode:
        yield Finding("GPU", Verdict.LACKING, f"nvidia-smi fails: {listed.stdout.strip() or listed.stderr.strip()}")
        return
    for line in listed.stdout.splitlines():
        yield Finding("GPU", Verdict.GOOD, line.strip())


def _arenas() -> Iterator[Finding]:
    """Every kind of memory that pools can be made of, tried."""
    try:
        from blockmgr.arena.driver import is_shared_by_mps
        from blockmgr.arena.trial import try_every_kind
    except ImportError as error:
        yield Finding("arenas", Verdict.BROKEN, f"cannot be tried: {error}")
        return
    if is_shared_by_mps():
        text = "MPS is in use: a dead process does not prove that its kernels have stopped, so executors are refused"
        yield Finding("MPS", Verdict.BROKEN, text)
    for trial in try_every_kind():
        verdict = Verdict.GOOD if trial.possible else Verdict.LACKING
        yield Finding(f"arena {trial.kind}", verdict, trial.text)
