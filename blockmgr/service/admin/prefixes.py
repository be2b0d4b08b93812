"""The tree of cached prefixes, walked over a copy of the index."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from blockmgr.core.columns import Indexes
from blockmgr.core.errors import InvalidMessage, NotFound
from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.pool import Pool
from blockmgr.core.prefix import NO_HASH
from blockmgr.service.admin.identifiers import HASH_DIGITS, block_id, hash_digits, within
from blockmgr.service.admin.numbers import BLOCK_STATE
from pagehold.admin.v1.prefix_pb2 import PrefixNode, WalkPrefixesRequest

LIMIT_DEFAULT, LIMIT = 10_000, 1_000_000
CHUNK_BYTES = 512 * 1024
NODE_BYTES, ID_BYTES = 128, 5
"""What a node and a token id take on the wire at most."""


@dataclass(slots=True)
class Walk:
    """A copy of the index and what to walk of it. ``chunks`` runs off the loop."""

    geometry: PoolGeometry
    numbers: Indexes
    columns: dict[str, np.ndarray]
    tokens: np.ndarray | None
    pinned: set[int]
    stale: np.ndarray
    """Hashes of what blocks held that are not indexed any more."""
    below: bytes
    max_depth: int
    limit: int
    hashes: list[bytes] = field(default_factory=list)
    parents: list[bytes] = field(default_factory=list)
    children: dict[bytes, list[int]] = field(default_factory=dict)
    evicted: set[bytes] = field(default_factory=set)
    truncated: bool = False

    def chunks(self) -> Iterator[list[PrefixNode]]:
        """Nodes in the order of the walk, in lists that fit an answer; at least one list. Sets ``truncated``.

        Raises ``NotFound`` where nothing has, or descends from, the hash to begin with.
        """
        width = 0 if self.tokens is None else ID_BYTES * self.geometry.tokens_per_block
        most = max(1, CHUNK_BYTES // (NODE_BYTES + width))
        chunk: list[PrefixNode] = []
        for count, (place, depth) in enumerate(self._order()):
            if count == self.limit:
                self.truncated = True
                break
            if len(chunk) == most:
                yield chunk
                chunk = []
            chunk.append(self._node(place, depth))
        yield chunk

    def _order(self) -> Iterator[tuple[int, int]]:
        """Places and depths: each block before its descendants, and these before its next sibling."""
        self._link()
        stack = [(place, 0) for place in reversed(self._first())]
        expanded = set()
        while stack:
            place, depth = stack.pop()
            yield place, depth
            key = self.hashes[place]
            # A block of each tier may have the same content: what follows hangs below both and is named once.
            twin = bool(stack) and stack[-1][1] == depth and self.hashes[stack[-1][0]] == key
            if key not in expanded and not twin and depth + 1 < self.max_depth:
                expanded.add(key)
                stack.extend((child, depth + 1) for child in reversed(self.children.get(key, [])))

    def _link(self) -> None:
        self.hashes = _keys(self.columns["hash"])
        self.parents = _keys(self.columns["parent"])
        self.evicted = set(_keys(self.stale)) - {NO_HASH}
        children: dict[bytes, list[int]] = defaultdict(list)
        for place, parent in enumerate(self.parents):
            children[parent].append(place)
        for places in children.values():
            places.sort(key=self._sibling_order)
        self.children = dict(children)

    def _sibling_order(self, place: int) -> tuple[bytes, int]:
        return self.hashes[place], place

    def _first(self) -> list[int]:
        """Where the walk begins."""
        if self.below:
            found = self.children.get(self.below, [])
            if not found and self.below not in set(self.hashes):
                raise NotFound(f"no indexed block has, or descends from, the hash {self.below.hex()}")
            return found
        known = set(self.hashes)
        first = [place for place, parent in enumerate(self.parents) if parent not in known]
        return sorted(first, key=self._sibling_order)

    def _node(self, place: int, depth: int) -> PrefixNode:
        number, key, parent = int(self.numbers[place]), self.hashes[place], self.parents[place]
        return PrefixNode(
            id=block_id(self.geometry, number),
            hash=key.hex(),
            parent=parent.hex(),
            depth=depth,
            detached=not depth and not self.below and parent in self.evicted,
            state=BLOCK_STATE[int(self.columns["state"][place])],
            references=int(self.columns["refs"][place]),
            children=len(self.children.get(key, [])),
            last_use=int(self.columns["used"][place]),
            pinned=number in self.pinned,
            ids=None if self.tokens is None else self.tokens[place].tolist(),
        )


def _keys(column: np.ndarray) -> list[bytes]:
    data, width = column.tobytes(), column.itemsize
    return [data[start : start + width] for start in range(0, len(data), width)]


def walk(pool: Pool, request: WalkPrefixesRequest) -> Walk:
    """Copy the index as far as a request asks for it. Raises ``InvalidMessage``."""
    limit = request.limit if request.HasField("limit") else LIMIT_DEFAULT
    within("limit", limit, 1, LIMIT)
    depth = request.max_depth if request.HasField("max_depth") else pool.geometry.max_table
    within("max_depth", depth, 1, 1 << 32)
    below = hash_digits(request.below, "below") if request.HasField("below") else ""
    if request.HasField("below") and len(below) != HASH_DIGITS:
        raise InvalidMessage("below", repr(request.below), f"must have {HASH_DIGITS} hexadecimal digits")
    blocks = pool.state.blocks
    indexed = blocks.indexed.flat == 1
    numbers = np.flatnonzero(indexed)
    with_ids = request.with_ids if request.HasField("with_ids") else True
    tokens = blocks.tokens.flat.reshape(-1, pool.geometry.tokens_per_block)
    return Walk(
        geometry=pool.geometry,
        numbers=numbers,
        columns={name: pool.columns[f"block.{name}"].flat[numbers] for name in _COLUMNS},
        tokens=np.take(tokens, numbers, axis=0) if with_ids else None,
        pinned=set(pool.pins.blocks()),
        stale=blocks.hash.flat[~indexed],
        below=bytes.fromhex(below),
        max_depth=depth,
        limit=limit,
    )


_COLUMNS = ("hash", "parent", "state", "refs", "used")
