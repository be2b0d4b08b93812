"""Long answers made piece by piece in a thread, so that nobody else waits for them."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import TypeVar

Piece = TypeVar("Piece")


async def off_loop(pieces: Iterator[Piece]) -> AsyncGenerator[Piece, None]:
    """Go through an iterator whose every step is work for a thread."""
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece
