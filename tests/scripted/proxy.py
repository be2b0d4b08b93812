"""A proxy between executors and their manager that loses what it is told to lose, or holds it back."""

import asyncio
import random
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc

from pagehold.blockmgr.v1 import session_pb2

OPTIONS = [("grpc.max_receive_message_length", 64 << 20), ("grpc.max_send_message_length", 64 << 20)]
RECONNECT = [
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 200),
]
STREAM = "/pagehold.blockmgr.v1.BlockManagerService/Session"
Context = grpc.aio.ServicerContext[Any, Any]


class Proxy:
    """Serves a runtime folder of its own, in which everything but the manager's socket is the real one's.

    Runs on a thread of its own. Of every turn on a session, and of every unary call, the request is lost with the
    probability ``lose_request``, the reply with ``lose_reply``; the stream or call then ends UNAVAILABLE.
    """

    def __init__(
        self, real: Path, folder: Path, seed: int = 0, lose_request: float = 0.0, lose_reply: float = 0.0
    ) -> None:
        folder.mkdir(mode=0o700)
        (real / "executors").mkdir(mode=0o700, exist_ok=True)
        for name in ("descriptors.sock", "executors"):
            (folder / name).symlink_to(real / name)
        self.folder = folder
        self.lose_request = lose_request
        self.lose_reply = lose_reply
        self.lost = self.lost_turns = self.lost_replies = 0
        """What was lost in all, and of that the turns and the replies to them."""
        # One each, so that which of the turns and replies are lost does not depend on what calls there are between them.
        self._calls, self._turns, self._replies = (
            random.Random(f"{what} {seed}") for what in ("call", "turn", "reply")
        )
        self._target = f"unix:{real / 'blockmgr.sock'}"
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._one = False
        self._stop = asyncio.Event()
        self._serving = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)
        self._thread.start()
        if not self._serving.wait(60):
            raise TimeoutError("the proxy does not serve")

    def hold(self) -> None:
        """Hold back the replies of sessions from now on."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def release(self) -> None:
        """Let them go, and all that follow."""
        self._loop.call_soon_threadsafe(self._open.set)

    def release_one(self) -> None:
        """Let the next reply go, and hold back all behind it."""

        def release() -> None:
            self._one = True
            self._open.set()

        self._loop.call_soon_threadsafe(release)

    def close(self) -> None:
        """Stop, and take the folder away."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)
        self._loop.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the thread ----------------------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        self._open.set()
        async with grpc.aio.insecure_channel(self._target, options=OPTIONS + RECONNECT) as channel:
            server = grpc.aio.server(options=OPTIONS)
            server.add_generic_rpc_handlers((_Handlers(self, channel),))
            server.add_insecure_port(f"unix:{self.folder / 'blockmgr.sock'}")
            await server.start()
            self._serving.set()
            await self._stop.wait()
            await server.stop(0)

    def loses(self, chance: random.Random, probability: float) -> bool:
        """Whether something is lost this time."""
        lost = chance.random() < probability
        self.lost += lost
        self.lost_turns += lost and chance is self._turns
        self.lost_replies += lost and chance is self._replies
        return lost

    async def pass_call(self, channel: Any, method: str, request: bytes, context: Context) -> bytes:
        """One unary call."""
        if self.loses(self._calls, self.lose_request):
            await context.abort(grpc.StatusCode.UNAVAILABLE, "lost before it arrived")
        try:
            reply: bytes = await channel.unary_unary(method)(request)
        except grpc.aio.AioRpcError as error:
            await _fail(context, error)
        if self.loses(self._calls, self.lose_reply):
            await context.abort(grpc.StatusCode.UNAVAILABLE, "its answer was lost")
        return reply

    async def pass_stream(self, channel: Any, context: Context) -> None:
        """One session."""
        call = channel.stream_stream(STREAM)()
        forward = asyncio.ensure_future(self._forward(call, context))
        back = asyncio.ensure_future(self._back(call, context))
        try:
            done, _ = await asyncio.wait({forward, back}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                await task
            if back not in done:
                await back
        except grpc.aio.AioRpcError as error:
            await _fail(context, error)
        except _Lost as lost:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(lost))
        finally:
            forward.cancel()
            back.cancel()
            call.cancel()

    async def _forward(self, call: Any, context: Context) -> None:
        while (request := await context.read()) is not grpc.aio.EOF:  # type: ignore[attr-defined]
            is_turn = session_pb2.SessionRequest.FromString(request).HasField("turn")
            if is_turn and self.loses(self._turns, self.lose_request):
                raise _Lost("a turn was lost")
            await call.write(request)
        await call.done_writing()

    async def _back(self, call: Any, context: Context) -> None:
        while (response := await call.read()) is not grpc.aio.EOF:  # type: ignore[attr-defined]
            is_reply = session_pb2.SessionResponse.FromString(response).HasField("reply")
            await self._open.wait()
            if is_reply and self._one:
                self._one = False
                self._open.clear()
            if is_reply and self.loses(self._replies, self.lose_reply):
                raise _Lost("a reply was lost")
            await context.write(response)
        code = await call.code()
        if code != grpc.StatusCode.OK:
            await context.abort(code, await call.details(), await call.trailing_metadata())


class _Lost(Exception):
    """Something was lost on purpose."""


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    """Every method of every service, as bytes."""

    def __init__(self, proxy: Proxy, channel: Any) -> None:
        self._proxy = proxy
        self._channel = channel

    def service(self, handler_call_details: Any) -> Any:
        method = handler_call_details.method
        if method == STREAM:
            return grpc.stream_stream_rpc_method_handler(self._stream())
        return grpc.unary_unary_rpc_method_handler(self._call(method))

    def _stream(self) -> Callable[[Any, Context], Any]:
        async def handle(_: Any, context: Context) -> None:
            await self._proxy.pass_stream(self._channel, context)

        return handle

    def _call(self, method: str) -> Callable[[bytes, Context], Any]:
        async def handle(request: bytes, context: Context) -> bytes:
            return await self._proxy.pass_call(self._channel, method, request, context)

        return handle


async def _fail(context: Context, error: Any) -> None:
    await context.abort(error.code(), error.details() or "", tuple(error.trailing_metadata() or ()))
