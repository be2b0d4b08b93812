"""The prefix index: full blocks found by what they hold and by everything before it.

The hash of a block is H(hash of its parent, its token ids), rooted in the pool's content identity, the adapter and the
caller's salt; so equal hashes mean equal prefixes under equal weights. Hash chains of this kind are how vLLM's automatic
prefix caching names blocks; here the ids and the parent are compared as well on every hit, so a collision costs a miss
and never an answer. Hashes are 128 bits of BLAKE2b, the same in every process.
"""

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

HASH_BYTES = 16
NO_HASH = bytes(HASH_BYTES)
EMPTY = blake2b(digest_size=HASH_BYTES)
"""Of nothing yet."""


def root_of(content: bytes, adapter: str, salt: bytes) -> bytes:
    """Parent of a chain's first block. Each part is length-prefixed, so that an adapter's name is never taken for a salt."""
    digest = blake2b(digest_size=HASH_BYTES, person=b"pagehold.root")
    for part in (content, adapter.encode(), salt):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.digest()


def _hash(data: bytes) -> bytes:
    # A copy of a state that is set up already costs less than setting one up.
    digest = EMPTY.copy()
    digest.update(data)
    return digest.digest()


def block_hash(parent: bytes, tokens: NDArray[np.int32]) -> bytes:
    """Hash of a full block that follows ``parent``."""
    return _hash(parent + tokens.tobytes())


def hash_each(parents: bytes, tokens: NDArray[np.int32]) -> list[bytes]:
    """Hashes of full blocks that follow one parent each: ``parents`` one behind the other, tokens ``[blocks, in a block]``."""
    data, step = np.ascontiguousarray(tokens, dtype="<i4").tobytes(), 4 * tokens.shape[1]
    keys = []
    for place in range(len(tokens)):
        digest = EMPTY.copy()
        digest.update(parents[place * HASH_BYTES : (place + 1) * HASH_BYTES])
        digest.update(data[place * step : (place + 1) * step])
        keys.append(digest.digest())
    return keys


def chain_of(root: bytes, tokens: NDArray[np.int32], tokens_per_block: int) -> list[bytes]:
    """Hashes of every full block of ``tokens``, in order."""
    data = np.ascontiguousarray(tokens, dtype="<i4").tobytes()
    step = 4 * tokens_per_block
    chain, parent = [], root
    for start in range(0, len(data) - step + 1, step):
        parent = _hash(parent + data[start : start + step])
        chain.append(parent)
    return chain


class PrefixIndex:
    """Block numbers by hash, one map for each tier, and what is expected to come. Derived: rebuilt from the columns."""

    def __init__(self) -> None:
        self.device: dict[bytes, int] = {}
        self.host: dict[bytes, int] = {}
        self.expected: dict[bytes, int] = {}
        """Hash → slot of the live sequence that will fill a block with it."""

    def tier(self, host: bool) -> dict[bytes, int]:
        """The map of one tier."""
        return self.host if host else self.device

    def expect(self, slot: int, hashes: list[bytes]) -> None:
        """Note that ``slot`` will fill the blocks of these hashes; the first to say so stays the one to wait for."""
        for key in hashes:
            self.expected.setdefault(key, slot)

    def unexpect(self, slot: int, hashes: list[bytes]) -> None:
        """Forget what ``slot`` was going to fill."""
        for key in hashes:
            if self.expected.get(key) == slot:
                del self.expected[key]
