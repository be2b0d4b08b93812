"""The exchange with the manager: turns go out on a thread of its own, and no caller ever waits for one.

One turn is outstanding at a time. When the stream breaks, because the manager was restarted, the same turn goes out again
on a new one under the same number, and the manager answers it once, however often it hears it.
"""

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from blockmgr.core.messages import Message, Reply
from blockmgr.service.codec import decode_reply, encode_turn
from executor.manager.channel import reason_of
from pagehold.blockmgr.v1 import block_manager_service_pb2_grpc, session_pb2

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5
"""Seconds between attempts to reconnect."""


class Revoked(Exception):
    """The registration is over: another life of the executor goes on. This process must exit and touch nothing more."""


class ManagerSession:
    """Submit a turn, go on working, and take its reply when it is there.

    Owned by the engine's thread; one thread behind it owns the stream. ``give_back`` is called when a manager that lost
    its memory asks for the descriptors that this executor holds.
    """

    def __init__(
        self, channel: grpc.Channel, epoch: int, last_number: int = 0, give_back: Callable[[], None] | None = None
    ) -> None:
        """Exchange turns as ``epoch``, from message ``last_number`` + 1 on."""
        self._stub = block_manager_service_pb2_grpc.BlockManagerServiceStub(channel)
        self._epoch = epoch
        self._number = last_number
        self._give_back = give_back
        self._outstanding: session_pb2.SessionRequest | None = None
        self._replies: queue.SimpleQueue[Reply | Exception] = queue.SimpleQueue()
        self._requests: queue.SimpleQueue[session_pb2.SessionRequest | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._call: Any = None
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
        """Send a turn; its epoch and number are filled in. Returns the number. Only when not ``busy``."""
        if self.busy:
            raise RuntimeError(f"turn {self._number} is unanswered: one turn is outstanding at a time")
        self._number += 1
        message.epoch, message.number = self._epoch, self._number
        self.turn_wanted.clear()
        self._outstanding = session_pb2.SessionRequest(turn=encode_turn(message))
        self._requests.put(self._outstanding)
        return self._number

    def reply(self, timeout: float | None = 0.0) -> Reply | None:
        """The reply, if it has come within ``timeout`` seconds (None: wait for it).

        Raises ``Revoked`` when the registration is over, and ``grpc.RpcError`` for a turn that the manager refused.
        """
        try:
            got = self._replies.get(timeout=timeout) if timeout != 0.0 else self._replies.get_nowait()
        except queue.Empty:
            return None
        self._outstanding = None
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
        self._closed.set()
        self._requests.put(None)
        if self._call is not None:
            self._call.cancel()
        self._thread.join(timeout=5)

    # -- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self._closed.is_set():
            try:
                self._call = self._stub.Session(self._outgoing(), wait_for_ready=True)
                for response in self._call:
                    pause = FIRST_PAUSE
                    self._take(response)
                reason = ""
            except grpc.RpcError as error:
                reason = reason_of(error)
                if self._ends(error, reason):
                    return
            if not self._closed.is_set():
                self._prepare_again(reason)
                self._closed.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _outgoing(self) -> Iterator[session_pb2.SessionRequest]:
        while (request := self._requests.get()) is not None:
            yield request

    def _take(self, response: session_pb2.SessionResponse) -> None:
        what = response.WhichOneof("content")
        if what == "reply":
            self._replies.put(decode_reply(response.reply))
        elif what == "probe":
            heartbeat = session_pb2.Heartbeat(epoch=self._epoch)
            self._requests.put(session_pb2.SessionRequest(heartbeat=heartbeat))
        elif what == "nudge":
            self.turn_wanted.set()

    def _ends(self, error: grpc.RpcError, reason: str) -> bool:
        """Whether the error ends the session rather than the stream."""
        if reason == "ERROR_REASON_STALE_EPOCH":
            self._replies.put(Revoked(error.details()))
            return True
        if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN):
            return False
        # The manager refused the turn, and changed nothing: the caller must know, and its number is free again.
        self._number -= 1
        self._replies.put(error)
        return False

    def _prepare_again(self, reason: str) -> None:
        """A new stream starts with the turn that is unanswered, once; with a sign of life, if there is none."""
        self.reconnections += 1
        if reason == "ERROR_REASON_DESCRIPTORS_WANTED" and self._give_back is not None:
            self._give_back()
        self._requests = queue.SimpleQueue()
        outstanding = self._outstanding
        if outstanding is not None and self._replies.empty():
            self._requests.put(outstanding)
        else:
            heartbeat = session_pb2.Heartbeat(epoch=self._epoch)
            self._requests.put(session_pb2.SessionRequest(heartbeat=heartbeat))
