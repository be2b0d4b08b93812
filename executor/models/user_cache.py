"""Where pagehold keeps what it has worked out for a user once and for all."""

import os
from pathlib import Path


def cache_root() -> Path:
    """The folder of everything that pagehold keeps for a user: `$XDG_CACHE_HOME/pagehold` or `~/.cache/pagehold`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pagehold"
