"""Messages that are read, and those that are not, in a time that passes only while somebody waits."""

import asyncio
from typing import Any

import pytest

from executor.frontend.delivery import deliver
from executor.frontend.errors import NotRead

SECONDS = 0.5


class Loop(asyncio.SelectorEventLoop):
    """An event loop on which no time passes but what is waited for, and that at once."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0

    def time(self) -> float:
        """Seconds waited so far."""
        return self._now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self._now = max(self._now, self._scheduled[0].when())  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


class Context:
    """A call whose reader takes each message after a while."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.written: list[str] = []

    async def write(self, message: str) -> None:
        """Ends when the message was taken."""
        await asyncio.sleep(self._seconds)
        self.written.append(message)


def delivered(seconds: float, *messages: str) -> list[str]:
    context: Any = Context(seconds)

    async def work() -> None:
        for message in messages:
            await deliver(context, message, SECONDS)

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(work())
    return list(context.written)


def test_a_reader_that_takes_its_time_for_each_message_gets_all_however_long_that_takes() -> None:
    assert delivered(SECONDS / 5, *"abcdefg") == list("abcdefg")


def test_a_message_that_nobody_takes_is_an_error_that_says_how_long_it_was_waited_for() -> None:
    with pytest.raises(NotRead, match=r"for 0\.5 s"):
        delivered(3600, "a")
