"""An executor's session: one stream, one turn outstanding, everything that happened since the last in each.

Replies travel as the bytes that the ledger keeps, so a turn that comes again gets the very same answer.
"""

import asyncio
from typing import Any

import grpc
import structlog

from blockmgr.core.errors import InvalidMessage, StaleEpoch
from blockmgr.core.messages import Message
from blockmgr.core.prefix import chain_of, root_of
from blockmgr.service.codec import decode_turn
from blockmgr.service.contract import readable
from blockmgr.service.errors import ChangedMeanwhile
from blockmgr.service.manager import Manager
from blockmgr.service.members import Member
from blockmgr.service.pools import ManagedPool
from blockmgr.service.writing import write
from pagehold.blockmgr.v1 import session_pb2, turn_pb2

log = structlog.get_logger()

LONG_PROMPT = 16384
"""Tokens from which on a prompt is hashed off the loop, so that others' turns do not wait for it."""

GOODBYE_SECONDS = 1.0
"""How long an executor whose registration is over may take to hear of it."""

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
        return await self.answer(self._manager.hear(message.epoch), message)

    async def answer(self, member: Member, message: Message) -> bytes:
        """Handle what one says who was just heard; returns the serialised response."""
        managed = self._manager.pool_of(member.epoch)
        if message.admissions:
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
        self._task: asyncio.Task[Any] | None = None
        self._why: Exception | None = None

    async def run(self) -> None:
        """Serve until the executor ends the stream, or ``end`` is called. Errors of the domain are raised: the caller
        turns them into status.
        """
        self._task = asyncio.current_task()
        try:
            while (request := await self._context.read()) is not END:
                await self._take(readable(request))
        except asyncio.CancelledError:
            if self._why is None or self._task is None:
                raise
            self._task.uncancel()
            await self._say_goodbye()
            raise self._why from None
        finally:
            self._leave()

    def end(self, why: Exception) -> None:
        """End the stream with an error. A turn whose reply is lost by it has been handled: it will be sent again."""
        if self._task is not None and self._why is None:
            self._why = why
            self._task.cancel()

    async def _say_goodbye(self) -> None:
        """A registration that is over is told so in words too, if its executor still listens."""
        if not isinstance(self._why, StaleEpoch) or self._member is None:
            return
        revoked = session_pb2.Revoked(epoch=self._member.epoch, detail=str(self._why))
        try:
            async with asyncio.timeout(GOODBYE_SECONDS):
                await write(self._context, session_pb2.SessionResponse(revoked=revoked).SerializeToString())
        except (TimeoutError, grpc.RpcError, asyncio.InvalidStateError) as error:
            log.info("session ended without a word", error=str(error))

    async def _take(self, request: session_pb2.SessionRequest) -> None:
        what = request.WhichOneof("content")
        if what is None:
            raise InvalidMessage("content", "empty", "a turn or a heartbeat must be sent")
        if what == "turn":
            turn = request.turn
            await self._write(await self._turns.answer(self._join(turn.epoch), decode_turn(turn)))
        else:
            self._join(request.heartbeat.epoch)

    def _join(self, epoch: int) -> Member:
        """Whose session this is: said by its first message, and to be the same from then on."""
        member = self._manager.hear(epoch)
        if self._member is not None and self._member is not member:
            raise InvalidMessage("epoch", epoch, f"this session belongs to epoch {self._member.epoch}")
        if self._member is None:
            self._member = member
            if member.hang_up is not None:
                member.hang_up(ChangedMeanwhile("the session of this epoch", "this one", "a newer one"))
            member.tell, member.hang_up = self._tell, self.end
            if member.nudged or self._manager.awaits_report(epoch):
                # What was told on a stream that broke is told again. And an idle executor has nothing to say by itself,
                # while after a restart all others wait for its word.
                member.nudged = False
                self._manager.nudge(member.pool, session_pb2.NUDGE_REASON_REPORT, epoch)
        return member

    def _leave(self) -> None:
        for task in self._telling:
            task.cancel()
        if self._member is not None and self._member.tell == self._tell:
            self._member.tell = self._member.hang_up = None

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
            await write(self._context, data)
