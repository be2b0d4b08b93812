"""How many descriptors this process has open."""

import gc
import os


def open_descriptors() -> int:
    """Without those that only garbage holds, an earlier test's perhaps: it may be collected at any moment."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))
