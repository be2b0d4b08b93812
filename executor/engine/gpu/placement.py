"""Where an engine computes: on the CPU, or on which GPU. Settled once, before anything of CUDA starts in the process."""

import os
import sys
from dataclasses import dataclass

import structlog
import torch

from blockmgr.arena import ArenaError
from blockmgr.arena.driver import VISIBLE, ordinal_of, visible_gpus
from blockmgr.arena.nvml import find_gpu
from executor.models.cublas import pin_cublas

log = structlog.get_logger()

CPU, AUTO = "cpu", "auto"

SWITCH_SECONDS = 0.0005
"""How long a thread of Python may go on while another waits. The engine's thread feeds the GPU: it is not to wait longer."""


@dataclass(frozen=True, slots=True)
class Place:
    """A device, and its GPU's UUID; empty: the CPU."""

    device: torch.device
    gpu_uuid: str = ""


def settle_place(wanted: str, *, same_bits: bool = True) -> Place:
    """Find the device that is wanted: ``cpu``, a GPU's UUID, or ``auto``, the first GPU that this process may use, or else
    the CPU. From then on the process uses that GPU alone.

    A UUID counts over ``CUDA_VISIBLE_DEVICES``. ``same_bits`` holds matrix products to results that do not depend on who
    shares a step. Raises ``ArenaError`` for a GPU that is not there.
    """
    uuid = wanted if wanted not in (CPU, AUTO) else _first_gpu() if wanted == AUTO else ""
    if not uuid:
        return Place(torch.device("cpu"))
    if not torch.backends.cuda.is_built():
        raise ArenaError(f"device is {wanted}, but this torch {torch.__version__} is built for CPUs alone")
    if wanted != AUTO:
        find_gpu(uuid)
        if not torch.cuda.is_initialized():
            os.environ[VISIBLE] = uuid
    if same_bits:
        pin_cublas()
    device = torch.device("cuda", ordinal_of(uuid))
    torch.cuda.set_device(device)
    sys.setswitchinterval(SWITCH_SECONDS)
    return Place(device, uuid)


def _first_gpu() -> str:
    """The first GPU that this process may use; empty: none."""
    if not torch.backends.cuda.is_built():
        return ""
    try:
        return next(iter(visible_gpus()), "")
    except ArenaError as error:
        log.info("no GPU can be used", reason=str(error))
        return ""
