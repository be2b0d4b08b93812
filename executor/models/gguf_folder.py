"""The folder that a GGUF file was converted to: made once, and kept in the user's cache.

What converts is imported only then: an engine that starts again should not wait for it.
"""

import fcntl
import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from executor.models.user_cache import cache_root

FORMAT = 1
"""Counts up when a conversion would come out differently, so that older results are left alone."""


def converted_folder(path: Path, progress: bool | None = None) -> Path:
    """The folder that a GGUF file was converted to, by the digest of its content; converts it if there is none yet.

    It holds `config.json`, safetensors with an index, and the tokenizer's files. It appears whole or not at all, and
    may be deleted at any time. Two processes that want the same file convert it once. Raises a ModelError for a
    file that cannot be converted, naming what is wrong.
    """
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    root = cache_root() / "gguf"
    folder = root / f"{digest}-{FORMAT}"
    if folder.is_dir():
        return folder
    from executor.models.gguf_conversion import convert

    root.mkdir(parents=True, exist_ok=True)
    with _locked(root / f".{digest}-{FORMAT}.lock"):
        if folder.is_dir():
            return folder
        unfinished = root / f".{digest}-{FORMAT}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        try:
            convert(path, unfinished, progress)
            unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
