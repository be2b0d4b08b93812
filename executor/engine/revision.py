"""A digest of a model's weights: the same for the same files, another as soon as a byte of them differs.

Blocks outlive engines, and are hit by whoever computes with the same weights; so all bytes count, and not only names and
sizes, which two trainings of one model share. What was digested once is remembered by the files' sizes and times.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from executor.models.user_cache import cache_root, keep

PIECE = 64 << 20
"""Bytes that are digested at once: pieces of a file are digested side by side."""

DIGEST_BYTES = 16


def revision_of(folder: Path) -> str:
    """The digest of a folder's weights and configuration, as hexadecimal digits."""
    files = sorted([*folder.glob("*.safetensors"), *folder.glob("*.safetensors.index.json"), folder / "config.json"])
    known = cache_root() / "revisions" / _digest(_state(files).encode()).hex()
    try:
        return known.read_text()
    except OSError:
        revision = _digest(b"".join(_file_digests(files))).hex()
    keep(known, revision)
    return revision


def configured_revision(folder: Path, seed: int) -> str:
    """What takes a revision's place for random weights: they follow from the configuration and the seed."""
    return _digest((folder / "config.json").read_bytes() + b"random %d" % seed).hex()


def _state(files: list[Path]) -> str:
    stats = [(str(path.resolve()), path.stat()) for path in files if path.is_file()]
    return json.dumps([(name, stat.st_size, stat.st_mtime_ns, stat.st_ino) for name, stat in stats])


def _file_digests(files: list[Path]) -> Iterator[bytes]:
    pieces = [
        (path, start) for path in files if path.is_file() for start in range(0, max(path.stat().st_size, 1), PIECE)
    ]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        yield from pool.map(_piece_digest, pieces)


def _piece_digest(piece: tuple[Path, int]) -> bytes:
    path, start = piece
    with path.open("rb") as file:
        file.seek(start)
        return path.name.encode() + _digest(file.read(PIECE))


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()
