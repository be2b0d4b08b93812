"""Blocks listed by what they are."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from blockmgr.core.columns import Indexes
from blockmgr.core.errors import InvalidMessage
from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.pool import Pool
from blockmgr.core.state import PoolState
from blockmgr.core.states import BlockState
from blockmgr.service.admin.identifiers import block_id, hash_digits, is_host_tier, page_start, within
from blockmgr.service.admin.numbers import BLOCK_STATE
from blockmgr.service.codec.enums import BLOCK_STATES
from pagehold.admin.v1 import block_pb2
from pagehold.common.v1.version_pb2 import StateVersion

HASHED = (BlockState.FILLING, BlockState.SEALED, BlockState.CACHED)
"""States in which a block's hash means its content; in others it is what was there before."""
PAGE_LIMIT, PAGE_DEFAULT = 5000, 1000


@dataclass(slots=True)
class BlockRows:
    """What the columns say of some blocks. A copy: may be read off the loop."""

    geometry: PoolGeometry
    numbers: Indexes
    columns: dict[str, np.ndarray]
    pinned: set[int]
    executors: dict[int, str]

    def messages(self) -> Iterator[block_pb2.Block]:
        """Each block as a message."""
        c = {name: column.tolist() for name, column in self.columns.items() if name not in ("hash", "parent")}
        hashes, parents = self.columns["hash"], self.columns["parent"]
        for place, number in enumerate(self.numbers.tolist()):
            state = c["state"][place]
            block = block_pb2.Block(
                id=block_id(self.geometry, number),
                state=BLOCK_STATE[state],
                references=c["refs"][place],
                generation=c["generation"][place],
                indexed=bool(c["indexed"][place]),
                pinned=number in self.pinned,
                fenced=bool(c["fence"][place]) and not c["refs"][place],
                last_use=c["used"][place],
            )
            if state in HASHED:
                block.hash = hashes[place].tobytes().hex()
                block.parent = parents[place].tobytes().hex()
            if state == BlockState.FILLING:
                block.filling_step = c["step"][place]
                block.filling_executor = self.executors.get(c["filler"][place], "")
            yield block


def copy_rows(pool: Pool, numbers: Indexes) -> BlockRows:
    """Copy what the columns say of some blocks."""
    names = ("state", "refs", "generation", "hash", "parent", "indexed", "fence", "used", "filler", "step")
    return BlockRows(
        geometry=pool.geometry,
        numbers=numbers,
        columns={name: pool.columns[f"block.{name}"].flat[numbers] for name in names},
        pinned=set(pool.pins.blocks()),
        executors={row: pool.state.executors.name_of(row) for row in pool.state.executors.rows()},
    )


@dataclass(slots=True)
class BlockPage:
    """Some of the blocks that match, and where the rest begins."""

    rows: BlockRows
    total: int
    next_token: str

    def answer(self, version: StateVersion) -> block_pb2.ListBlocksResponse:
        """The page as a message; to be made off the loop."""
        return block_pb2.ListBlocksResponse(
            version=version, blocks=self.rows.messages(), next_page_token=self.next_token, total=self.total
        )


def find_blocks(pool: Pool, request: block_pb2.ListBlocksRequest) -> BlockPage:
    """Copy the blocks that a request asks for. Raises ``InvalidMessage`` and, for a sequence, ``NotFound``."""
    size = request.page_size if request.HasField("page_size") else PAGE_DEFAULT
    within("page_size", size, 1, PAGE_LIMIT)
    start = page_start(request.page_token)
    matching = np.flatnonzero(_matches(pool, request.filter))
    first = int(np.searchsorted(matching, start))
    numbers = matching[first : first + size]
    more = first + size < len(matching)
    token = str(int(numbers[-1]) + 1) if more else ""
    return BlockPage(copy_rows(pool, numbers), len(matching), token)


def _matches(pool: Pool, wanted: block_pb2.BlockFilter) -> np.ndarray:
    """Which blocks meet every condition."""
    state, blocks, geometry = pool.state, pool.state.blocks, pool.geometry
    states = [BLOCK_STATES.decode(number, "filter.states") for number in wanted.states]
    have = blocks.state.flat
    match = np.isin(have, states) if states else have != BlockState.ABSENT
    if wanted.tier:
        first_host = geometry.host_base
        host = is_host_tier(wanted.tier, "filter.tier")
        match[: first_host if host else 0] = False
        match[geometry.total_blocks if host else first_host :] = False
    if wanted.HasField("handle"):
        named = np.zeros(len(match), dtype=bool)
        named[state.sequences.entries(state.sequences.find(wanted.handle))] = True
        match &= named
    if wanted.HasField("min_references"):
        match &= blocks.refs.flat >= wanted.min_references
    if wanted.HasField("max_references"):
        match &= blocks.refs.flat <= wanted.max_references
    if wanted.HasField("pinned"):
        pinned = np.zeros(len(match), dtype=bool)
        pinned[pool.pins.blocks()] = True
        match &= pinned == wanted.pinned
    if wanted.HasField("indexed"):
        match &= (blocks.indexed.flat == 1) == wanted.indexed
    if wanted.HasField("hash_prefix"):
        match &= _begins(state, wanted.hash_prefix)
    return match


def _begins(state: PoolState, prefix: str) -> np.ndarray:
    """Which blocks have a hash that begins with these digits."""
    digits = hash_digits(prefix, "filter.hash_prefix")
    if not digits:
        raise InvalidMessage("filter.hash_prefix", "empty", "must have at least one hexadecimal digit")
    blocks = state.blocks
    hashes = blocks.hash.flat.view(np.uint8).reshape(len(blocks.state.flat), -1)
    match = np.isin(blocks.state.flat, HASHED)
    for place in range(len(digits) // 2):
        match &= hashes[:, place] == int(digits[2 * place : 2 * place + 2], 16)
    if len(digits) % 2:
        match &= hashes[:, len(digits) // 2] >> 4 == int(digits[-1], 16)
    return match
