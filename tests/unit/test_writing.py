"""Messages to callers that are gone: the handler ends as cancelled, and nobody takes that for a fault."""

import asyncio
from typing import Any

import grpc
import pytest

from blockmgr.service.statuses import StatusTable
from blockmgr.service.writing import write


class Gone:
    """A call that ended while a message was on its way."""

    def __init__(self) -> None:
        self.aborted = False

    async def write(self, message: Any) -> None:
        raise grpc.aio.InternalError("Failed execute_batch")

    async def abort(self, *_: Any) -> None:
        self.aborted = True


def test_a_call_that_ended_while_a_message_was_on_its_way_is_cancelled_and_gets_no_status() -> None:
    context: Any = Gone()
    table = StatusTable("the test", ())
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(table.guarded(context, lambda: write(context, b"message")))
    assert not context.aborted
