"""GPUs that are not there: stand-ins for CUDA's driver, cupy and NVML, whose memory is the host's.

`site/` holds the packages; whoever has it in front of his path computes on GPUs of files. They keep to what the true ones
promise and no more: new memory holds anything, descriptors say nothing of sizes, what is not mapped faults, memory that
goes by handle dies with its maker, and a context that nobody made fails every copy.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

SITE = Path(__file__).parent / "site"
FIRST, SECOND = (f"GPU-0000000{number}-1111-2222-3333-444444444444" for number in (1, 2))
PACKAGES = ("cuda", "cupy", "pynvml")


def environment(folder: Path, gpus: Sequence[str] = (FIRST,), total: int = 1 << 30) -> dict[str, str]:
    """Variables of a process that is to see these GPUs, of ``total`` bytes each. Their files lie in ``folder``."""
    path = os.pathsep.join([str(SITE), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {
        "PYTHONPATH": path,
        "FAKE_GPUS": ",".join(gpus),
        "FAKE_GPU_DIR": str(folder),
        "FAKE_GPU_BYTES": str(total),
    }


@contextmanager
def fake_gpus(folder: Path, gpus: Sequence[str] = (FIRST,), total: int = 1 << 30) -> Iterator[pytest.MonkeyPatch]:
    """Let this process, and those that it starts, see these GPUs and no others."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(folder, gpus, total).items():
            patch.setenv(name, value)
        patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        patch.syspath_prepend(str(SITE))
        forget_driver(patch)
        yield patch
        forget_driver(patch)


def forget_driver(patch: pytest.MonkeyPatch) -> None:
    """Have the driver loaded anew, as in a process that has just begun."""
    from blockmgr.arena import driver

    driver.load.cache_clear()
    for name in [name for name in sys.modules if name.split(".")[0] in PACKAGES]:
        patch.delitem(sys.modules, name)


def contexts(folder: Path) -> set[int]:
    """Ids of the processes that have ever made a context on a GPU."""
    return {int(path.name.removeprefix("context-")) for path in folder.glob("context-*")}
