"""Where the processes of one machine meet: the folder of sockets and locks."""

import os
from pathlib import Path


def default_runtime_dir() -> Path:
    """A folder of the user's own, which goes with the machine's next start."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    return Path(base) / "pagehold" if base else Path(f"/tmp/pagehold-{os.getuid()}")
