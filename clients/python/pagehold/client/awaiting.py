"""Carries out procedures on the event loop of the task that asks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Generic, TypeVar

import grpc
import grpc.aio

from pagehold.client.calls import is_break
from pagehold.client.channels import Channels, Lease
from pagehold.client.effects import Deliver, Effect, Invoke, Open, Pause, Procedure, Stepper, Together
from pagehold.client.errors import Cancelled, PageholdError, from_call
from pagehold.client.events import Event

Result = TypeVar("Result")


class Runner(Generic[Result]):
    """Carries out one procedure. It owns the procedure's call, and ends it with the procedure.

    ``stop`` may be called from any task of the loop, all else from one at a time. A task that is cancelled while it
    waits here hangs up.
    """

    def __init__(self, channels: Channels, procedure: Procedure[Result]) -> None:
        self._channels = channels
        self._stepper = Stepper(procedure)
        self._lease: Lease | None = None
        self._call: Any = None
        self._messages: AsyncIterator[Any] | None = None
        self._stopped = asyncio.Event()

    def __del__(self) -> None:
        # A stream that nobody closed, and nobody can read any more. Its channel closes itself in the same way.
        if self._call is not None:
            self._call.cancel()
        if self._lease is not None:
            self._channels.give_back(self._lease, broken=False)

    async def run(self) -> Result:
        """Run to the end; what the procedure returns. Raises ``PageholdError``."""
        while await self.next_event() is not None:
            pass
        return self._stepper.result

    async def next_event(self) -> Event | None:
        """Run until an event is delivered; None: the procedure is over. Raises ``PageholdError``."""
        try:
            while (effect := self._step()) is not None:
                if isinstance(effect, Deliver):
                    return effect.event
                try:
                    self._stepper.answer(await self._perform(effect))
                except grpc.aio.AioRpcError as error:
                    await self._fail(error)
        except asyncio.CancelledError:
            await self.hang_up()
            # A call's own cancellation looks like the task's; only the first is this object's doing.
            if self._stopped.is_set() and not _is_being_cancelled():
                raise self._cancelled() from None
            raise
        except BaseException:
            await self.hang_up()
            raise
        await self.hang_up()
        return None

    def stop(self) -> None:
        """Hang up; whoever waits for an event, or asks for one from now on, gets ``Cancelled``."""
        self._stopped.set()
        if self._call is not None:
            self._call.cancel()

    async def hang_up(self) -> None:
        """End the call, if there is one, and the procedure."""
        await self._end_call(broken=False)
        self._stepper.close()

    def _step(self) -> Effect | None:
        if self._stopped.is_set():
            raise self._cancelled()
        return self._stepper.step()

    @staticmethod
    def _cancelled() -> Cancelled:
        return Cancelled("cancelled by its caller", grpc.StatusCode.CANCELLED)

    async def _fail(self, error: grpc.aio.AioRpcError) -> None:
        failure = from_call(error, self._channels.address)
        await self._end_call(broken=is_break(failure))
        self._stepper.fail(failure)

    async def _perform(self, effect: Effect) -> Any:
        if isinstance(effect, Invoke):
            return await self._invoke(effect)
        if isinstance(effect, Open):
            return self._open(effect)
        if isinstance(effect, Pause):
            return await self._pause(effect.seconds)
        if isinstance(effect, Together):
            return await asyncio.gather(*(_outcome(Runner(self._channels, one)) for one in effect.procedures))
        assert self._messages is not None
        message = await anext(self._messages, None)
        if message is None:
            await self._end_call(broken=False)
        return message

    async def _invoke(self, effect: Invoke) -> Any:
        lease = self._channels.borrow()
        broken = False
        try:
            return await getattr(lease.stub, effect.method)(effect.request, timeout=effect.timeout)
        except grpc.aio.AioRpcError as error:
            broken = is_break(from_call(error, self._channels.address))
            raise
        finally:
            await self._close(self._channels.give_back(lease, broken=broken))

    def _open(self, effect: Open) -> None:
        self._lease = self._channels.borrow()
        self._call = getattr(self._lease.stub, effect.method)(effect.request, timeout=effect.timeout)
        self._messages = aiter(self._call)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), seconds)

    async def _end_call(self, *, broken: bool) -> None:
        lease, call = self._lease, self._call
        self._lease = self._call = self._messages = None
        if call is not None:
            call.cancel()  # does nothing to one that has ended
        if lease is not None:
            await self._close(self._channels.give_back(lease, broken=broken))

    @staticmethod
    async def _close(channels: list[Any]) -> None:
        for channel in channels:
            await channel.close()


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _outcome(runner: Runner[Any]) -> Any:
    """What a procedure returned, or the error that ended it."""
    try:
        return await runner.run()
    except PageholdError as error:
        return error
