"""Carries out procedures by blocking the thread that asks."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

import grpc

from pagehold.client.calls import is_break
from pagehold.client.channels import Channels, Lease
from pagehold.client.effects import Deliver, Effect, Invoke, Open, Pause, Procedure, Stepper, Together
from pagehold.client.errors import Cancelled, PageholdError, from_call
from pagehold.client.events import Event

Result = TypeVar("Result")

SIDE_BY_SIDE = 32
"""Threads that take up what a broken batch left unfinished."""


class Runner(Generic[Result]):
    """Carries out one procedure. It owns the procedure's call, and ends it with the procedure.

    ``stop`` may be called from any thread, all else from one.
    """

    def __init__(self, channels: Channels, procedure: Procedure[Result]) -> None:
        self._channels = channels
        self._stepper = Stepper(procedure)
        self._lease: Lease | None = None
        self._call: Any = None
        self._stopped = threading.Event()

    def __del__(self) -> None:
        # A stream that nobody closed, and nobody can read any more.
        self.hang_up()

    def run(self) -> Result:
        """Run to the end; what the procedure returns. Raises ``PageholdError``."""
        while self.next_event() is not None:
            pass
        return self._stepper.result

    def next_event(self) -> Event | None:
        """Run until an event is delivered; None: the procedure is over. Raises ``PageholdError``."""
        try:
            while (effect := self._step()) is not None:
                if isinstance(effect, Deliver):
                    return effect.event
                try:
                    self._stepper.answer(self._perform(effect))
                except grpc.RpcError as error:
                    self._fail(error)
        except BaseException:
            self.hang_up()
            raise
        self.hang_up()
        return None

    def stop(self) -> None:
        """Hang up; whoever waits for an event, or asks for one from now on, gets ``Cancelled``."""
        self._stopped.set()
        if (call := self._call) is not None:
            call.cancel()

    def hang_up(self) -> None:
        """End the call, if there is one, and the procedure."""
        self._end_call(broken=False)
        self._stepper.close()

    def _step(self) -> Effect | None:
        if self._stopped.is_set():
            raise Cancelled("cancelled by its caller", grpc.StatusCode.CANCELLED)
        return self._stepper.step()

    def _fail(self, error: grpc.RpcError) -> None:
        failure = from_call(error, self._channels.address)
        self._end_call(broken=is_break(failure))
        self._stepper.fail(failure)

    def _perform(self, effect: Effect) -> Any:
        if isinstance(effect, Invoke):
            return self._invoke(effect)
        if isinstance(effect, Open):
            return self._open(effect)
        if isinstance(effect, Pause):
            return self._stopped.wait(effect.seconds)
        if isinstance(effect, Together):
            return self._together(effect)
        message = next(self._call, None)
        if message is None:
            self._end_call(broken=False)
        return message

    def _invoke(self, effect: Invoke) -> Any:
        lease = self._channels.borrow()
        broken = False
        try:
            return getattr(lease.stub, effect.method)(effect.request, timeout=effect.timeout)
        except grpc.RpcError as error:
            broken = is_break(from_call(error, self._channels.address))
            raise
        finally:
            self._close(self._channels.give_back(lease, broken=broken))

    def _open(self, effect: Open) -> None:
        self._lease = self._channels.borrow()
        self._call = getattr(self._lease.stub, effect.method)(effect.request, timeout=effect.timeout)
        if self._stopped.is_set():  # asked while there was no call to cancel
            self._call.cancel()

    def _together(self, effect: Together) -> list[Any]:
        runners = [Runner(self._channels, procedure) for procedure in effect.procedures]
        with ThreadPoolExecutor(min(SIDE_BY_SIDE, len(runners))) as pool:
            try:
                return list(pool.map(_outcome, runners))
            except BaseException:
                for runner in runners:
                    runner.stop()
                raise

    def _end_call(self, *, broken: bool) -> None:
        lease, call, self._lease, self._call = self._lease, self._call, None, None
        if call is not None:
            call.cancel()  # does nothing to one that has ended
        if lease is not None:
            self._close(self._channels.give_back(lease, broken=broken))

    @staticmethod
    def _close(channels: list[Any]) -> None:
        for channel in channels:
            channel.close()


def _outcome(runner: Runner[Any]) -> Any:
    """What a procedure returned, or the error that ended it."""
    try:
        return runner.run()
    except PageholdError as error:
        return error
