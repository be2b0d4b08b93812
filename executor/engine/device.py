"""What executes steps: a stream of commands, executed in order, behind which the engine runs ahead."""

from collections.abc import Callable, Sequence
from typing import Protocol

from executor.engine.step import Copy, Done, Step


class DeviceLost(Exception):
    """The device can execute nothing any more. The engine's process has to end; what is recorded lives on."""


NewsCallback = Callable[[], None]
"""Called, from any thread, when a command has completed."""


class Device(Protocol):
    """Commands are executed one after the other, each as if the one before had completed: that order is what makes reads
    follow writes. Nothing here waits for the device except ``close``.

    Copies from and to the host tier may complete after commands behind them; what needs their destinations waits for them.

    A step takes the ids that the step before it sampled from the device itself. It writes blocks only at the positions
    that it feeds; block 0 is never written. The device owns its tables and its copies of arrays; the pool's memory is the
    manager's and mapped.
    """

    @property
    def serial(self) -> int:
        """Number of the last command launched, from 1 on."""

    @property
    def completed(self) -> int:
        """Number of the last command up to which ``completions`` has returned the completion of every one."""

    def launch(self, step: Step) -> None:
        """Append a step. Behind a step that failed nothing is tried until ``resume``: it comes back as failed, too."""

    def copy(self, copies: Sequence[Copy]) -> None:
        """Append copies of whole blocks, none of whose destinations is a source of another."""

    def resume(self) -> None:
        """Try steps again, after a failed one: those launched from now on."""

    def completions(self) -> list[Done]:
        """What has completed since the last call, in order. Never waits. Raises ``DeviceLost``."""

    def close(self) -> None:
        """Execute what was launched, then stop."""
