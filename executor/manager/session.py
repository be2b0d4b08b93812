"""The exchange with the manager: turns go out on a thread of its own, and no caller ever waits for one.

One turn is outstanding at a time. When the stream breaks, because the manager was restarted, the same turn goes out again
on a new one under the same number, and the manager answers it once, however often it hears it.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any

import grpc
import uvloop

from blockmgr.core.messages import Message, Reply
from blockmgr.service.codec import decode_reply, encode_turn
from executor.manager.channel import CHANNEL_OPTIONS, is_answer, reason_of
from pagehold.blockmgr.v1 import block_manager_service_pb2_grpc, reply_pb2, session_pb2

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5
"""Seconds between attempts to reconnect."""

STREAM_ENDS = (grpc.RpcError, asyncio.CancelledError, asyncio.InvalidStateError)
"""What reading from and writing to a stream raise once it is over."""


class Revoked(Exception):
    """The registration is over: another life of the executor goes on. This process must exit and touch nothing more."""


class ManagerSession:
    """Submit a turn, go on working, and take its reply when it is there.

    Owned by the engine's thread; one thread behind it runs the stream on a loop of its own. ``give_back`` is called there
    when a manager that lost its memory asks for the descriptors that this executor holds.
    """

    def __init__(
        self,
        socket: str,
        epoch: int,
        last_number: int = 0,
        give_back: Callable[[], None] | None = None,
        news: Callable[[], None] = lambda: None,
    ) -> None:
        """Exchange turns as ``epoch`` over the manager's unix socket, from message ``last_number`` + 1 on.

        ``news`` is called on the thread behind it whenever a reply has come or a turn is wanted.
        """
        self._address = f"unix:{socket}"
        self._epoch = epoch
        self._number = last_number
        self._give_back = give_back
        self._news = news
        self._outstanding: session_pb2.SessionRequest | None = None
        self._replies: queue.SimpleQueue[Reply | Exception] = queue.SimpleQueue()
        self._loop = uvloop.new_event_loop()
        # What follows belongs to the loop's thread: the open stream, what is to be written, the turn last put on the stream,
        # the turn last answered.
        self._call: Any = None
        self._due = asyncio.Event()
        self._sign_due = False
        self._sent: session_pb2.SessionRequest | None = None
        self._answered: session_pb2.SessionRequest | None = None
        self._closed = False
        self._end: Exception | None = None
        """Why there will be no more replies."""
        self.turn_wanted = threading.Event()
        """Set when something waits for this executor that comes with the reply to its next turn."""
        self.reconnections = 0
        """How often the stream was opened again."""
        self._thread = threading.Thread(target=self._run, name="manager-session", daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether a turn is unanswered."""
        return self._outstanding is not None

    def submit(self, message: Message) -> int:
        """Send a turn; its epoch and number are filled in. Returns the number. Only when not ``busy``.

        Raises ``Revoked`` when the registration is over.
        """
        if self._end is not None:
            raise self._end
        if self.busy:
            raise RuntimeError(f"turn {self._number} is unanswered: one turn is outstanding at a time")
        self._number += 1
        message.epoch, message.number = self._epoch, self._number
        self.turn_wanted.clear()
        request = session_pb2.SessionRequest()
        encode_turn(message, into=request.turn)
        self._outstanding = request
        self._post(self._due.set)
        return self._number

    def reply(self, timeout: float | None = 0.0) -> Reply | None:
        """The reply, if it has come within ``timeout`` seconds (None: wait for it).

        Raises ``Revoked`` when the registration is over, and ``grpc.RpcError`` for a turn that the manager refused: it
        changed nothing, and its number is free again.
        """
        try:
            got = self._replies.get(timeout=timeout) if timeout != 0.0 else self._replies.get_nowait()
        except queue.Empty:
            return None
        self._outstanding = None
        if isinstance(got, grpc.RpcError):
            self._number -= 1
        if isinstance(got, Exception):
            raise got
        return got

    def exchange(self, message: Message, timeout: float | None = None) -> Reply:
        """Send a turn and wait for its reply: for tools and tests, not for a loop that has work."""
        self.submit(message)
        reply = self.reply(timeout)
        if reply is None:
            raise TimeoutError(f"no reply to turn {self._number} within {timeout} s")
        return reply

    def close(self) -> None:
        """End the stream. The registration goes on."""
        self._closed = True
        self._post(self._hang_up)
        self._thread.join(timeout=5)

    def _post(self, call: Callable[[], None]) -> None:
        """Have the thread do something. One that has ended has said why; that waits to be taken as a reply."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)

    # -- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._keep_connected())
        except Exception as error:
            # The engine must hear of it, whatever it is: nobody else will.
            self._give_up(error)
        finally:
            self._loop.close()

    async def _keep_connected(self) -> None:
        async with grpc.aio.insecure_channel(self._address, options=CHANNEL_OPTIONS) as channel:
            stub = block_manager_service_pb2_grpc.BlockManagerServiceStub(channel)
            pause = FIRST_PAUSE
            while not self._closed:
                answered = self._answered
                reason = await self._one_stream(stub)
                if reason == "ERROR_REASON_STALE_EPOCH" or self._closed:
                    return
                if reason == "ERROR_REASON_DESCRIPTORS_WANTED" and self._give_back is not None:
                    await asyncio.to_thread(self._give_back)
                pause = FIRST_PAUSE if answered is not self._answered else min(2 * pause, LONGEST_PAUSE)
                await asyncio.sleep(pause)
                self.reconnections += 1

    async def _one_stream(self, stub: Any) -> str:
        """Exchange until the stream ends. Returns the reason that the manager gave, if it gave one."""
        call = self._call = stub.Session(wait_for_ready=True)
        # A sign of life opens the stream and makes it known to the manager; what is unanswered goes out again.
        self._sent, self._sign_due = None, True
        self._due.set()
        reading, writing = (self._loop.create_task(work) for work in (self._read(call), self._write(call)))
        await asyncio.wait((reading, writing), return_when=asyncio.FIRST_COMPLETED)
        self._call = None
        # Without its reader or its writer a stream is of no use. Hanging up does not change how it has ended, if it has.
        call.cancel()
        writing.cancel()
        ends = await asyncio.gather(reading, writing, return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException) and not isinstance(end, STREAM_ENDS):
                raise end
        return self._refused(ends[0]) if isinstance(ends[0], grpc.RpcError) else ""

    async def _read(self, call: Any) -> None:
        async for response in call:
            self._take(response)

    async def _write(self, call: Any) -> None:
        """Write what is due, one message after the other: gRPC refuses one while the last is not off its hands, and a
        reply can be here before that.
        """
        while True:
            await self._due.wait()
            self._due.clear()
            if self._sign_due:
                self._sign_due = False
                heartbeat = session_pb2.Heartbeat(epoch=self._epoch)
                await call.write(session_pb2.SessionRequest(heartbeat=heartbeat))
            turn = self._outstanding
            if turn is not None and turn is not self._sent and turn is not self._answered:
                self._sent = turn
                await call.write(turn)

    def _refused(self, error: Any) -> str:
        reason = reason_of(error)
        if reason == "ERROR_REASON_STALE_EPOCH":
            self._give_up(Revoked(error.details()))
        elif is_answer(error) and self._sent is not None and self._sent is not self._answered:
            self._answered = self._sent
            self._hand_over(error)
        return reason

    def _give_up(self, error: Exception) -> None:
        """There will be no more replies: whoever waits for one hears why, and so does whoever sends a turn."""
        self._end = error
        self._hand_over(error)

    def _hand_over(self, reply: Reply | Exception) -> None:
        self._replies.put(reply)
        self._news()

    def _take(self, response: session_pb2.SessionResponse) -> None:
        what = response.WhichOneof("content")
        if what == "reply":
            self._take_reply(response.reply)
        elif what == "probe":
            self._sign_due = True
            self._due.set()
        elif what == "nudge":
            self.turn_wanted.set()
            self._news()

    def _take_reply(self, reply: reply_pb2.Reply) -> None:
        """Hand a reply over once, though a turn that was sent twice may be answered twice."""
        turn = self._sent
        if turn is not None and turn is not self._answered and reply.number == turn.turn.number:
            self._answered = turn
            self._hand_over(decode_reply(reply))

    def _hang_up(self) -> None:
        if self._call is not None:
            self._call.cancel()
