"""An executor's session: one stream, one turn outstanding, everything that happened since the last in each.

Replies travel as the bytes that the ledger keeps, so a turn that comes again gets the very same answer.
"""

import asyncio
from typing import Any

import grpc
import structlog

from blockmgr.core.errors import InvalidMessage
from blockmgr.core.messages import Message
from blockmgr.core.prefix import chain_of, root_of
from blockmgr.service.codec import decode_turn
from blockmgr.service.manager import Manager
from blockmgr.service.members import Member
from blockmgr.service.pools import ManagedPool
from pagehold.blockmgr.v1 import session_pb2, turn_pb2

log = structlog.get_logger()

LONG_PROMPT = 16384
"""Tokens from which on a prompt is hashed off the loop, so that others' turns do not wait for it."""

END: Any = grpc.aio.EOF  # type: ignore[attr-defined]
"""What reading gives once the executor has ended its side."""

Context = grpc.aio.ServicerContext[Any, Any]


class Turns:
    """Handles turns, on a session or outside of one."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager

    async def handle(self, turn: turn_pb2.Turn) -> bytes:
        """Handle one turn; returns the serialised response (the same for a session and an exchange)."""
        message = decode_turn(turn)
        member = self._manager.hear(message.epoch)
        managed = self._manager.pool_of(message.epoch)
        await self._hash_long_prompts(managed, message)
        member.nudged = False
        return managed.pool.exchange(message)

    async def _hash_long_prompts(self, managed: ManagedPool, message: Message) -> None:
        size, content = managed.geometry.tokens_per_block, managed.pool.state.content
        for admission in message.admissions:
            if LONG_PROMPT <= len(admission.prompt) <= managed.geometry.max_length:
                root = root_of(content, admission.adapter, admission.salt)
                admission.chain = await asyncio.to_thread(chain_of, root, admission.prompt, size)


class Session:
    """One open stream. The newest stream of an executor is the one that counts; an older one is ended."""

    def __init__(self, manager: Manager, turns: Turns, context: Context) -> None:
        self._manager = manager
        self._turns = turns
        self._context = context
        self._member: Member | None = None
        self._writing = asyncio.Lock()
        self._telling: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Serve until the executor ends the stream. Errors of the domain are raised: the caller turns them into status."""
        try:
            while (request := await self._context.read()) is not END:
                await self._take(request)
        finally:
            self._leave()

    async def _take(self, request: session_pb2.SessionRequest) -> None:
        what = request.WhichOneof("content")
        if what is None:
            raise InvalidMessage("content", "empty", "a turn or a heartbeat must be sent")
        epoch = request.turn.epoch if what == "turn" else request.heartbeat.epoch
        self._join(epoch)
        if what == "turn":
            await self._write(await self._turns.handle(request.turn))

    def _join(self, epoch: int) -> None:
        member = self._manager.hear(epoch)
        if self._member is not None and self._member is not member:
            raise InvalidMessage("epoch", epoch, f"this session belongs to epoch {self._member.epoch}")
        if self._member is None:
            self._member = member
            member.tell = self._tell

    def _leave(self) -> None:
        for task in self._telling:
            task.cancel()
        if self._member is not None and self._member.tell == self._tell:
            self._member.tell = None

    def _tell(self, message: session_pb2.SessionResponse) -> None:
        """Send something unasked. Never waits: a slow reader gets it when it can."""
        task = asyncio.get_running_loop().create_task(self._write(message.SerializeToString()))
        self._telling.add(task)
        task.add_done_callback(self._told)

    def _told(self, task: asyncio.Task[None]) -> None:
        self._telling.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.info("session ended while telling", error=str(task.exception()))

    async def _write(self, data: bytes) -> None:
        async with self._writing:
            await self._context.write(data)
