"""A prompt's blocks looked up in the prefix index, all at once and without touching anything."""

from dataclasses import dataclass

import numpy as np

from blockmgr.core.columns import Indexes
from blockmgr.core.errors import InvalidMessage
from blockmgr.core.pool import Pool
from blockmgr.core.prefix import chain_of, root_of
from blockmgr.core.state import PoolState
from blockmgr.core.states import BlockState
from pagehold.admin.v1 import prefix_pb2


@dataclass(slots=True)
class AskedPrompt:
    """A prompt and the root of its hash chain."""

    ids: np.ndarray
    root: bytes

    def chain(self, tokens_per_block: int) -> list[bytes]:
        """Hashes of its full blocks. Slow for a long prompt: to be called off the loop."""
        return chain_of(self.root, self.ids, tokens_per_block)


def read_prompt(pool: Pool, wanted: prefix_pb2.Prompt) -> AskedPrompt:
    """The prompt that a request names. Raises ``InvalidMessage``."""
    if not wanted.ids:
        raise InvalidMessage("prompt.ids", "empty", "at least one token id must be given")
    if len(wanted.ids) > pool.geometry.max_length:
        limit = f"a sequence of this pool has at most {pool.geometry.max_length}"
        raise InvalidMessage("prompt.ids", f"{len(wanted.ids)} tokens long", limit)
    ids = np.array(wanted.ids, dtype=np.int32)
    if int(ids.min()) < 0:
        raise InvalidMessage("prompt.ids", int(ids.min()), "token ids must not be negative")
    return AskedPrompt(ids, root_of(pool.state.content, wanted.adapter, wanted.cache_salt))


@dataclass(slots=True)
class FoundChain:
    """For each full block of a prompt what the index says. A copy: may be read off the loop."""

    chain: list[bytes]
    block: Indexes
    """Ledger block that the index names, the device's before the host's; -1: none."""
    same: np.ndarray
    """Whether that block's tokens and parent are the prompt's."""
    state: np.ndarray
    """That block's state."""

    def usable(self) -> np.ndarray:
        """Which blocks are there, whole, for anybody."""
        return self.same & np.isin(self.state, (BlockState.SEALED, BlockState.CACHED))


def find_chain(state: PoolState, prompt: AskedPrompt, chain: list[bytes]) -> FoundChain:
    """Look up every full block of a prompt."""
    index, blocks = state.blocks.index, state.blocks
    device = np.fromiter((index.device.get(key, -1) for key in chain), dtype=np.int64, count=len(chain))
    host = np.fromiter((index.host.get(key, -1) for key in chain), dtype=np.int64, count=len(chain))
    found = np.where(device >= 0, device, host)
    known = np.flatnonzero(found >= 0)
    there = found[known]
    size = state.geometry.tokens_per_block
    asked = prompt.ids[: len(chain) * size].reshape(-1, size)[known]
    parents = np.frombuffer(b"".join([prompt.root, *chain])[: 16 * len(chain)], dtype="V16")[known]
    same = np.zeros(len(chain), dtype=bool)
    tokens = blocks.tokens.flat.reshape(-1, size)[there]
    same[known] = (tokens == asked).all(axis=1) & (blocks.parent.flat[there] == parents)
    states = np.zeros(len(chain), dtype=np.uint8)
    states[known] = blocks.state.flat[there]
    return FoundChain(chain, found, same, states)
