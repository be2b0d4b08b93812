"""Tries each kind of memory on this machine, as the doctor does: made, mapped, made ready and read, then given back."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from blockmgr.arena.base import ArenaError
from blockmgr.arena.cuda import GRANULE, CudaArena
from blockmgr.arena.cuda_ipc import CudaIpcArena
from blockmgr.arena.cuda_ipc_mapping import CudaIpcMapping
from blockmgr.arena.cuda_mapping import CudaMapping
from blockmgr.arena.driver import ordinal_of, see_all_gpus, shares_by_descriptor
from blockmgr.arena.host import HostArena
from blockmgr.arena.nvml import gpus

NAME = "doctor"


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of trying a kind of memory; the text says what was done, or why it is not possible here."""

    kind: str
    possible: bool
    text: str


def try_every_kind() -> Iterator[Trial]:
    """Try each kind, on every GPU that there is. Takes seconds and a few MiB of each, and gives them back."""
    yield _try(HostArena.kind, "", _host)
    see_all_gpus()
    try:
        uuids = [gpu.uuid for gpu in gpus()]
        why = "" if uuids else "there is no GPU here"
    except ArenaError as error:
        uuids, why = [], str(error) if shutil.which("nvidia-smi") else "there is no GPU here"
    for kind, attempt in ((CudaArena.kind, _cuda), (CudaIpcArena.kind, _cuda_ipc)):
        if why:
            yield Trial(kind, False, why)
        for uuid in uuids:
            yield _try(kind, uuid, attempt)


def _try(kind: str, uuid: str, attempt: Callable[[str, bytes], str]) -> Trial:
    place = f"{uuid}: " if uuid else ""
    try:
        return Trial(kind, True, place + attempt(uuid, secrets.token_bytes(16)))
    except ArenaError as error:
        return Trial(kind, False, place + str(error))


def _host(uuid: str, label: bytes) -> str:
    HostArena.create(HostArena.granularity, NAME).close()
    return "shared memory, passed by descriptor; outlives the manager"


def _cuda(uuid: str, label: bytes) -> str:
    if not shares_by_descriptor(ordinal_of(uuid)):
        raise ArenaError("the driver cannot map memory at chosen addresses and pass it by descriptor")
    with CudaArena.create(GRANULE, NAME, gpu_uuid=uuid, label=label) as arena:
        mapping = CudaMapping.of(arena.extents, gpu_uuid=uuid)
        mapping.make_ready(label)
        mapping.check(label)
        mapping.close()
    return "made without a context, passed by descriptor, mapped and read; outlives the manager"


def _cuda_ipc(uuid: str, label: bytes) -> str:
    with CudaIpcArena.create(GRANULE, NAME, gpu_uuid=uuid, label=label) as arena:
        mapping = CudaIpcMapping(arena.extents[0], uuid)
        mapping.check(label)
        mapping.close()
    return "made by a child, passed by handle, opened and read; goes with the manager"
