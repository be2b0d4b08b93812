"""Messages written to a client that reads them, or does not."""

import asyncio
from typing import Any

import grpc

from blockmgr.service.writing import write
from executor.frontend.errors import NotRead


async def deliver(context: grpc.aio.ServicerContext[Any, Any], message: Any, seconds: float) -> None:
    """Write a message on a call's stream. No more than this one waits for its reader, beside what HTTP/2 has in flight.

    A write ends when the connection has taken the message, which it does not while its reader leaves earlier ones unread.

    Raises ``NotRead`` where that takes longer than ``seconds``, ``CancelledError`` where whoever called is gone.
    """
    try:
        async with asyncio.timeout(seconds):
            await write(context, message)
    except TimeoutError:
        raise NotRead(seconds) from None
