"""Where pagehold keeps what it has worked out for a user once and for all."""

import os
from pathlib import Path


def cache_root() -> Path:
    """The folder of everything that pagehold keeps for a user: `$XDG_CACHE_HOME/pagehold` or `~/.cache/pagehold`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pagehold"


def keep(path: Path, text: str) -> None:
    """Write a file of the cache: whole, or not at all. Where it cannot be written nothing is lost: it is worked out again."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_text(text)
        unfinished.rename(path)
    except OSError:
        return
