"""Blocks become full: hashed and indexed as soon as a step that fills them is launched, sealed once it has completed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from blockmgr.core.blocks import Blocks
from blockmgr.core.columns import Array, Indexes
from blockmgr.core.events import Event, EventKind
from blockmgr.core.prefix import NO_HASH
from blockmgr.core.states import BlockState

# Plain numbers: looking a member up in its enum costs more than most of what is done here.
OWNED, FILLING, SEALED, CACHED, FENCED = map(
    int, (BlockState.OWNED, BlockState.FILLING, BlockState.SEALED, BlockState.CACHED, BlockState.FENCED)
)


@dataclass(slots=True)
class FullBlocks:
    """Blocks that are full, in parallel: what each is hashed to, the hash before it, its tokens, and whether to index it."""

    blocks: Indexes
    keys: list[bytes]
    parents: Array
    """Elements of a ``V16`` column."""
    tokens: Array
    """``[blocks, tokens_per_block]``."""
    stored: list[bool]

    def only(self, wanted: np.ndarray) -> "FullBlocks":
        """Those that ``wanted`` marks."""
        if np.count_nonzero(wanted) == len(wanted):
            return self
        keep = np.flatnonzero(wanted).tolist()
        return FullBlocks(
            blocks=self.blocks[keep],
            keys=[self.keys[k] for k in keep],
            parents=self.parents[keep],
            tokens=self.tokens[keep],
            stored=[self.stored[k] for k in keep],
        )


def as_elements(keys: Sequence[bytes]) -> Array:
    """Hashes as the elements of a ``V16`` column."""
    return np.frombuffer(b"".join(keys), dtype="V16")


def fill(blocks: Blocks, full: FullBlocks, row: int, step: int) -> None:
    """Full blocks with known tokens become FILLING by ``step`` of executor ``row``.

    What may be stored is indexed, unless another block of its tier is under that hash.
    """
    if not len(full.blocks):
        return
    blocks.hash.scatter(full.blocks, as_elements(full.keys))
    blocks.parent.scatter(full.blocks, full.parents)
    blocks.tokens.scatter_rows(full.blocks, full.tokens)
    blocks.filler.scatter(full.blocks, row)
    blocks.step.scatter(full.blocks, step)
    blocks.state.scatter(full.blocks, FILLING)
    numbers = full.blocks.tolist()
    blocks.filling.setdefault(row, {}).update(dict.fromkeys(numbers, step))
    stored = [(block, key) for block, key, store in zip(numbers, full.keys, full.stored, strict=True) if store]
    blocks.enter(stored)
    if blocks.index.expected:
        for _, key in stored:
            blocks.index.expected.pop(key, None)


def seal(blocks: Blocks, row: int, ready: list[int]) -> None:
    """FILLING blocks of executor ``row`` whose step has completed become SEALED, or CACHED (or freed) without a reference."""
    filling = blocks.filling[row]
    for block in ready:
        del filling[block]
    array: Indexes = np.array(ready, dtype=np.int64)
    blocks.state.scatter(array, SEALED)
    blocks.events.add(Event(EventKind.SEALED, blocks=ready))
    unreferenced = blocks.refs.flat[array] == 0
    if np.count_nonzero(unreferenced):
        gone = array[unreferenced]
        keep = blocks.indexed.flat[gone] == 1
        blocks.state.scatter(gone, np.where(keep, CACHED, FENCED))
        blocks.note_given_up(gone[keep], gone[~keep])
        blocks.settle(gone)


def seal_through(blocks: Blocks, row: int, step: int) -> None:
    """Seal what executor ``row`` filled in steps up to ``step``."""
    done = [block for block, by in blocks.filling.get(row, {}).items() if by <= step]
    if done:
        seal(blocks, row, done)


def unfill(blocks: Blocks, row: int) -> None:
    """The steps that were to fill executor ``row``'s blocks failed: they are not indexed, and OWNED again or freed."""
    filling = list(blocks.filling.pop(row, ()))
    if not filling:
        return
    blocks.forget(filling)
    for block in filling:
        blocks.hash.put(block, np.void(NO_HASH))
        blocks.state.put(block, OWNED if blocks.refs.get(block) else FENCED)
    blocks.settle(np.array(filling, dtype=np.int64))
