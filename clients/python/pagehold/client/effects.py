"""What the client does, apart from how: procedures ask for effects, and a runner, blocking or not, carries them out.

A procedure is a generator. It yields effects, is sent what came of each, or has a ``PageholdError`` thrown into it, and
returns its result. All decisions (what to retry, what to attach to, what was delivered before) are made in procedures,
once; ``Client`` and ``AsyncClient`` differ in their runners only.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pagehold.client.errors import PageholdError
from pagehold.client.events import Event

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Invoke:
    """Make a unary call; its answer comes back. ``timeout`` in seconds, None: no limit."""

    method: str
    request: Any
    timeout: float | None


@dataclass(frozen=True, slots=True)
class Open:
    """Begin a call that streams; one at a time. An earlier one has ended. Nothing comes back."""

    method: str
    request: Any
    timeout: float | None


@dataclass(frozen=True, slots=True)
class Read:
    """Wait for the next message of the stream; None comes back when it has ended with OK."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Deliver:
    """Hand an event to the caller."""

    event: Event


@dataclass(frozen=True, slots=True)
class Together:
    """Run procedures side by side; a list comes back, of the result of each or the error that ended it."""

    procedures: Sequence["Procedure[Any]"]


Effect = Invoke | Open | Read | Pause | Deliver | Together
Procedure = Generator[Effect, Any, Result]


class Stepper(Generic[Result]):
    """Takes a procedure from effect to effect. ``result`` is what it returned, once it has."""

    def __init__(self, procedure: Procedure[Result]) -> None:
        self._procedure = procedure
        self._answer: Any = None
        self._failure: PageholdError | None = None
        self._result: list[Result] = []

    @property
    def result(self) -> Result:
        """What the procedure returned."""
        return self._result[0]

    def step(self) -> Effect | None:
        """The next effect; None: the procedure is over. Raises what it raises."""
        answer, failure = self._answer, self._failure
        self._answer = self._failure = None
        try:
            return self._procedure.send(answer) if failure is None else self._procedure.throw(failure)
        except StopIteration as end:
            if not self._result:
                self._result.append(end.value)
            return None

    def answer(self, value: Any) -> None:
        """What came of the effect."""
        self._answer = value

    def fail(self, error: PageholdError) -> None:
        """What the effect failed with."""
        self._failure = error

    def close(self) -> None:
        """Give the procedure up."""
        self._procedure.close()
