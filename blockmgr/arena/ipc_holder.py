"""The process that holds a cuda-ipc arena's memory: a child of the manager.

    python -m blockmgr.arena.ipc_holder BYTES LABEL

takes memory of the one GPU that it sees, zeroes it, writes the label in front of it, prints a line of JSON (the handle
that others open, and where the memory begins in what that opens; or an error), and then waits until its standard input
is closed, as it is when the manager ends, however that ends.
"""

from __future__ import annotations

import json
import signal
import sys

import numpy as np

from blockmgr.arena.cuda import GRANULE
from blockmgr.arena.label import LABEL_BYTES, label_of


def take(size: int, label: bytes) -> dict[str, str | int]:
    """Take `size` bytes of the GPU's memory, all zeros, and return what others need to open them."""
    from cupy.cuda import runtime

    pattern = np.frombuffer(label_of(label), np.uint8)
    address = runtime.malloc(GRANULE + size)
    runtime.memset(address, 0, GRANULE + size)
    place = address + GRANULE - LABEL_BYTES
    runtime.memcpy(place, pattern.ctypes.data, LABEL_BYTES, runtime.memcpyHostToDevice)
    runtime.deviceSynchronize()
    return {"handle": bytes(runtime.ipcGetMemHandle(address)).hex(), "offset": GRANULE}


def main() -> int:
    """Hold memory until standard input is closed."""
    # Whoever stops the manager's whole group stops the manager first, and with it this.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    try:
        answer = take(int(sys.argv[1]), bytes.fromhex(sys.argv[2]))
    except ImportError as error:
        answer = {"error": f"cupy is not installed: pip install 'pagehold[cuda]' ({error})"}
    except RuntimeError as error:
        answer = {"error": str(error)}
    print(json.dumps(answer), flush=True)
    if "error" not in answer:
        sys.stdin.buffer.read()
    return int("error" in answer)


if __name__ == "__main__":
    sys.exit(main())
