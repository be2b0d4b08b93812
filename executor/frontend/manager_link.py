"""A door's side of the block manager: where a sequence is, and what its caller wants of it. Calls outlive a restart."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import grpc

from executor.frontend.errors import NotServing
from executor.manager.channel import CHANNEL_OPTIONS, PAUSE, is_answer
from pagehold.blockmgr.v1 import block_manager_service_pb2_grpc, sequence_pb2

Answer = TypeVar("Answer")

PATIENCE = 60.0
"""Seconds for which a call is made again while there is no manager."""

ATTEMPT = 5.0
"""Seconds after which an attempt that stays unanswered is given up and made again."""


class ManagerLink:
    """Calls to the manager, each of which may be repeated. They raise ``NotServing`` where it is away too long, and
    ``grpc.RpcError`` where it refuses.
    """

    def __init__(self, socket: Path) -> None:
        """Call it at this socket. Only on a running event loop."""
        self._channel = grpc.aio.insecure_channel(f"unix:{socket}", options=CHANNEL_OPTIONS)
        self._stub: Any = block_manager_service_pb2_grpc.BlockManagerServiceStub(self._channel)

    async def close(self) -> None:
        """Hang up."""
        await self._channel.close(None)

    async def look_up(
        self, pool: str, *, uuid: bytes | None = None, caller: bytes | None = None, seconds: float = PATIENCE
    ) -> sequence_pb2.LookupSequenceResponse | None:
        """Where a sequence is, by its UUID or its caller's digest. None: not known, or no longer."""
        request = sequence_pb2.LookupSequenceRequest(pool=pool, uuid=uuid, caller=caller)
        return await self._unless_unknown(self._stub.LookupSequence, request, seconds)

    async def attach(self, pool: str, uuid: bytes) -> sequence_pb2.AttachSequenceResponse | None:
        """Take the next attachment number. None: the sequence is not known, or no longer."""
        request = sequence_pb2.AttachSequenceRequest(pool=pool, uuid=uuid)
        return await self._unless_unknown(self._stub.AttachSequence, request)

    async def cancel(self, pool: str, uuid: bytes, attachment: int | None = None) -> bool | None:
        """Ask a sequence to end, if no later attachment exists. Says whether it ends by this; None: it is not alive."""
        request = sequence_pb2.CancelSequenceRequest(pool=pool, uuid=uuid, attachment=attachment)
        response = await self._unless_unknown(self._stub.CancelSequence, request)
        return None if response is None else bool(response.asked)

    async def set_final_length(self, pool: str, handle: int, length: int) -> bool:
        """Say at how many tokens a sequence ends. False: the handle is stale."""
        request = sequence_pb2.SetFinalLengthRequest(pool=pool, handle=handle, length=length)
        return await self._unless_unknown(self._stub.SetFinalLength, request) is not None

    async def _unless_unknown(self, method: Any, request: Any, seconds: float = PATIENCE) -> Any:
        try:
            return await insist(lambda: method(request, timeout=min(ATTEMPT, seconds), wait_for_ready=True), seconds)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.NOT_FOUND:
                return None
            if not answers(error):
                raise NotServing("the block manager does not answer") from error
            raise


def answers(error: grpc.RpcError) -> bool:
    """Whether the manager itself said this, and would say it again."""
    return is_answer(error) and error.code() != grpc.StatusCode.DEADLINE_EXCEEDED


async def insist(call: Callable[[], Awaitable[Answer]], seconds: float) -> Answer:
    """Make a call that may be repeated until it is answered, for ``seconds`` at most. Raises ``grpc.RpcError``."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return await call()
        except grpc.RpcError as error:
            if answers(error) or time.monotonic() > deadline:
                raise
        await asyncio.sleep(PAUSE)
