"""Messages written to whoever called."""

import asyncio
from typing import Any

import grpc


async def write(context: grpc.aio.ServicerContext[Any, Any], message: Any) -> None:
    """Write a message on a call's stream.

    Raises ``CancelledError`` where whoever called is gone. Mostly gRPC cancels the handler then; where the call ends while
    a message is on its way it says so by an error of its own instead, which is no fault of anybody's, and behind which no
    status can be sent.
    """
    try:
        await context.write(message)
    except grpc.aio.InternalError as error:
        raise asyncio.CancelledError from error
