"""Cached prefixes and blocks, pinned by hand."""

import asyncio
from dataclasses import dataclass

import numpy as np

from blockmgr.core.errors import InvalidMessage, NotFound, Precondition
from blockmgr.core.geometry import PoolGeometry
from blockmgr.core.pins import Pin
from blockmgr.core.pool import Pool
from blockmgr.service.admin.identifiers import block_id, ledger_block
from blockmgr.service.admin.prompts import find_chain, read_prompt
from blockmgr.service.errors import ChangedMeanwhile
from pagehold.admin.v1 import block_pb2, pin_pb2

TTL_DEFAULT, TTL_LIMIT = 3600.0, 30 * 86400.0


def pin_message(geometry: PoolGeometry, pin: Pin) -> block_pb2.Pin:
    """A pin."""
    blocks = (block_id(geometry, block) for block in pin.blocks)
    return block_pb2.Pin(id=pin.id, blocks=blocks, expires=pin.expires, label=pin.label)


@dataclass(slots=True)
class Pinned:
    """A pin that was made, and the prompt's tokens in its blocks."""

    pin: Pin
    tokens: int


async def pin(pool: Pool, request: pin_pb2.PinRequest) -> Pinned:
    """Pin what a request names, all of it or nothing.

    Raises ``InvalidMessage``, ``NotFound``, ``Precondition``, and ``ChangedMeanwhile`` for another generation.
    """
    seconds = request.ttl_seconds if request.HasField("ttl_seconds") else TTL_DEFAULT
    if not 0 < seconds <= TTL_LIMIT:
        raise InvalidMessage("ttl_seconds", seconds, f"must be more than 0 and at most {TTL_LIMIT:.0f}")
    target, tokens = request.WhichOneof("target"), 0
    if target == "block":
        blocks = [_seen_block(pool, request.block)]
    elif target == "prompt":
        blocks = await _cached_blocks(pool, request)
        tokens = len(blocks) * pool.geometry.tokens_per_block
    else:
        raise InvalidMessage("target", "absent", "a block or a prompt must be named")
    id_ = pool.pin(blocks, seconds, request.label)
    return Pinned(_listed(pool, id_), tokens)


def _seen_block(pool: Pool, wanted: pin_pb2.BlockPin) -> int:
    """The block, if it is still the one that was seen."""
    block = ledger_block(pool.geometry, wanted.id)
    have = pool.state.blocks.generation.get(block)
    if wanted.HasField("expected_generation") and wanted.expected_generation != have:
        raise ChangedMeanwhile(f"generation of block {wanted.id.block}", wanted.expected_generation, have)
    return block


async def _cached_blocks(pool: Pool, request: pin_pb2.PinRequest) -> list[int]:
    """Every cached block of a prompt, from its first on."""
    prompt = read_prompt(pool, request.prompt)
    chain = await asyncio.to_thread(prompt.chain, pool.geometry.tokens_per_block)
    found = find_chain(pool.state, prompt, chain)
    complete = found.usable()
    count = len(complete) if complete.all() else int(np.argmin(complete))
    if not count:
        raise Precondition("nothing of the prompt is cached, so there is nothing to pin")
    return found.block[:count].tolist()


def _listed(pool: Pool, id_: int) -> Pin:
    return next(pin for pin in pool.pins.list() if pin.id == id_)


def unpin(pool: Pool, request: pin_pb2.UnpinRequest) -> list[Pin]:
    """End the pins that a request names. Raises ``NotFound`` if there are none."""
    target = request.WhichOneof("target")
    if target is None:
        raise InvalidMessage("target", "absent", "a pin's id or a label must be named")
    pins = pool.pins.list()
    if target == "pin_id":
        ended = [pin for pin in pins if pin.id == request.pin_id]
        what = f"the id {request.pin_id}"
    else:
        ended = [pin for pin in pins if pin.label == request.label]
        what = f"the label {request.label!r}"
    if not ended:
        raise NotFound(f"no pin has {what}; there are: {_names(pins)}")
    for one in ended:
        pool.unpin(one.id)
    return ended


def _names(pins: list[Pin]) -> str:
    if not pins:
        return "none"
    named = [f"{pin.id}{f' ({pin.label})' if pin.label else ''}" for pin in pins[:8]]
    return ", ".join(named) + (f" and {len(pins) - 8} more" if len(pins) > 8 else "")
