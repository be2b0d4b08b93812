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

from blockmgr.core.messages import Message, Reply
from blockmgr.service.codec import decode_reply, encode_turn
from executor.manager.channel import CHANNEL_OPTIONS, is_answer, reason_of
from pagehold.blockmgr.v1 import block_manager_service_pb2_grpc, reply_pb2, session_pb2

PATIENCE, LONGEST_PATIENCE = 2.0, 16.0
"""Seconds that a turn may stay unanswered before it is sent again on a new stream. A message between two living processes
can get lost; sending it again does not help in every case (docs/architecture.md, "Known fault").
"""

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5
"""Seconds between attempts to reconnect."""


class Revoked(Exception):
    """The registration is over: another life of the executor goes on. This process must exit and touch nothing more."""


class ManagerSession:
    """Submit a turn, go on working, and take its reply when it is there.

    Owned by the engine's thread; one thread behind it runs the stream on a loop of its own. ``give_back`` is called there
    when a manager that lost its memory asks for the descriptors that this executor holds.
    """

    def __init__(
        self, socket: str, epoch: int, last_number: int = 0, give_back: Callable[[], None] | None = None
    ) -> None:
        """Exchange turns as ``epoch`` over the manager's unix socket, from message ``last_number`` + 1 on."""
        self._address = f"unix:{socket}"
        self._epoch = epoch
        self._number = last_number
        self._give_back = give_back
        self._outstanding: session_pb2.SessionRequest | None = None
        self._replies: queue.SimpleQueue[Reply | Exception] = queue.SimpleQueue()
        # Not uvloop: see ``blockmgr.service.process``.
        self._loop = asyncio.new_event_loop()
        # What follows belongs to the loop's thread: the open stream, the turn last put on it, the turn last answered.
        self._call: Any = None
        self._sent: session_pb2.SessionRequest | None = None
        self._answered: session_pb2.SessionRequest | None = None
        self._sent_at = 0.0
        self._patience = PATIENCE
        self._given_up: Any = None
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
        self._post(self._send_turn)
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
            watch = self._loop.create_task(self._watch_for_answers())
            pause = FIRST_PAUSE
            while not self._closed:
                answered = self._answered
                reason = await self._one_stream(stub)
                if reason == "ERROR_REASON_STALE_EPOCH" or self._closed:
                    watch.cancel()
                    return
                if reason == "ERROR_REASON_DESCRIPTORS_WANTED" and self._give_back is not None:
                    await asyncio.to_thread(self._give_back)
                pause = FIRST_PAUSE if answered is not self._answered else min(2 * pause, LONGEST_PAUSE)
                await asyncio.sleep(pause)
                self.reconnections += 1

    async def _watch_for_answers(self) -> None:
        """Give up a stream on which a turn stays unanswered: it goes out again, and is handled once all the same."""
        while True:
            await asyncio.sleep(PATIENCE / 4)
            unanswered = self._sent is not None and self._sent is not self._answered
            if unanswered and self._call is not None and self._loop.time() - self._sent_at > self._patience:
                self._patience = min(2 * self._patience, LONGEST_PATIENCE)
                self._given_up = self._call
                self._call.cancel()

    async def _one_stream(self, stub: Any) -> str:
        """Exchange until the stream ends. Returns the reason that the manager gave, if it gave one."""
        call = stub.Session(wait_for_ready=True)
        self._sent = None
        try:
            # A sign of life opens the stream and makes it known to the manager; what is unanswered goes out again.
            await call.write(self._heartbeat())
            self._call = call
            self._send_turn()
            async for response in call:
                self._take(response)
            return ""
        except grpc.RpcError as error:
            return self._refused(error)
        except asyncio.CancelledError:
            if not self._closed and self._given_up is not call:
                raise
            return ""
        finally:
            self._call = None

    def _refused(self, error: Any) -> str:
        reason = reason_of(error)
        if reason == "ERROR_REASON_STALE_EPOCH":
            self._give_up(Revoked(error.details()))
        elif is_answer(error) and self._sent is not None and self._sent is not self._answered:
            self._answered = self._sent
            self._replies.put(error)
        return reason

    def _give_up(self, error: Exception) -> None:
        """There will be no more replies: whoever waits for one hears why, and so does whoever sends a turn."""
        self._end = error
        self._replies.put(error)

    def _take(self, response: session_pb2.SessionResponse) -> None:
        what = response.WhichOneof("content")
        if what == "reply":
            self._take_reply(response.reply)
        elif what == "probe":
            self._loop.create_task(self._write(self._heartbeat()))
        elif what == "nudge":
            self.turn_wanted.set()

    def _take_reply(self, reply: reply_pb2.Reply) -> None:
        """Hand a reply over once, though a turn that was sent twice may be answered twice."""
        turn = self._sent
        if turn is not None and turn is not self._answered and reply.number == turn.turn.number:
            self._answered = turn
            self._patience = PATIENCE
            self._replies.put(decode_reply(reply))

    def _heartbeat(self) -> session_pb2.SessionRequest:
        return session_pb2.SessionRequest(heartbeat=session_pb2.Heartbeat(epoch=self._epoch))

    def _send_turn(self) -> None:
        """Put the unanswered turn on the stream, once. Without a stream it waits for the next one."""
        turn = self._outstanding
        if self._call is None or turn is None or turn is self._sent or turn is self._answered:
            return
        self._sent, self._sent_at = turn, self._loop.time()
        self._loop.create_task(self._write(turn))

    async def _write(self, request: session_pb2.SessionRequest) -> None:
        try:
            if self._call is not None:
                await self._call.write(request)
        except (grpc.RpcError, asyncio.InvalidStateError):
            # The stream is gone: its reader is about to see to that.
            return

    def _hang_up(self) -> None:
        if self._call is not None:
            self._call.cancel()
