"""What becomes of a sequence when its client has all that it wanted, or is gone: engine and manager are told."""

import asyncio

import structlog

from executor.frontend.door import Door
from executor.frontend.sequence import Sequence

log = structlog.get_logger()


def release(door: Door, sequence: Sequence) -> None:
    """Hear no more of a sequence that goes on or is about to end, unless somebody here still delivers it."""
    if sequence.deliveries:
        return
    door.registry.remove(sequence)
    link = door.engines.link_of(sequence)
    if link is not None:
        link.forget(sequence)


async def hang_up(door: Door, sequence: Sequence, attachment: int) -> None:
    """Nobody waits for it here any more: it ends, unless somebody attached after the attachment of that number."""
    link = door.engines.link_of(sequence)
    if not sequence.accepted and link is not None and sequence.first is None:
        # Of several outputs the first one takes those with it that are not forked yet.
        link.cancel(sequence.uuid)
        link.drop(sequence)
        door.registry.remove(sequence)
    try:
        # In any case: it may have been accepted unheard.
        asked = await door.manager.cancel(sequence.pool, sequence.uuid, attachment)
        log.info("hung up", id=sequence.id, ends=bool(asked) or not sequence.accepted)
    finally:
        release(door, sequence)


async def go_on_alone(door: Door, sequence: Sequence) -> None:
    """A client is gone that wants its generation to go on: see to it until it is accepted."""
    news, first = asyncio.Event(), sequence.first or sequence
    for one in (sequence, first):
        one.listeners.add(news)
    while not (sequence.accepted or sequence.is_over or first.is_over):
        news.clear()
        await news.wait()
    for one in (sequence, first):
        one.listeners.discard(news)
    release(door, sequence)


async def end_at(door: Door, sequence: Sequence, length: int) -> None:
    """A stop string was found: the sequence ends at so many tokens, under whichever handle it has by then."""
    handle = sequence.handle
    while not sequence.is_over and not await door.manager.set_final_length(sequence.pool, handle, length):
        found = await door.manager.look_up(sequence.pool, uuid=sequence.uuid)
        if found is None or found.WhichOneof("found") == "finished":
            break
        handle = found.live.handle
