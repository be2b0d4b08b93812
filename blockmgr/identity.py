"""What a pool's blocks are: their shape, which can never change, and their content, which belongs to one model.

A digest of each is compared when an executor registers. Another shape is refused. The same shape with other content is
taken on, and all that is cached is dropped, if no sequence lives.
"""

import json
from dataclasses import asdict, dataclass
from hashlib import blake2b

DIGEST_BYTES = 16
HASH_SCHEME = 1
"""Version of the way in which block hashes are made (``core.prefix``)."""


def _digest(kind: bytes, content: dict[str, object]) -> bytes:
    text = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    return blake2b(text, digest_size=DIGEST_BYTES, person=kind).digest()


@dataclass(frozen=True, slots=True)
class Shape:
    """What fixes the bytes of a block: two pools of the same shape could exchange blocks."""

    layers: int
    kv_heads: int
    head_size: int
    dtype: str
    layout: str
    ranks: int
    tokens_per_block: int
    block_bytes: int

    def digest(self) -> bytes:
        """Digest of every field."""
        return _digest(b"pagehold.shape", asdict(self))


@dataclass(frozen=True, slots=True)
class Content:
    """Whose keys and values the blocks hold."""

    model: str
    revision: str
    weights_dtype: str
    compute_dtype: str
    hash_scheme: int = HASH_SCHEME

    def digest(self) -> bytes:
        """Digest of every field; root of all of the pool's block hashes."""
        return _digest(b"pagehold.content", asdict(self))

    def describe(self) -> bytes:
        """The fields as text, to be kept beside the digest for people."""
        return json.dumps(asdict(self), sort_keys=True).encode()


@dataclass(frozen=True, slots=True)
class Shard:
    """One rank's part of a pool and the GPU that it lies on, by UUID (empty: not on a GPU)."""

    rank: int = 0
    gpu_uuid: str = ""
