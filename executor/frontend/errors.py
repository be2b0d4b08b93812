"""What can be wrong with a request or its way, as types; `statuses` turns them into gRPC status."""

from collections.abc import Sequence
from typing import NamedTuple


class FrontDoorError(Exception):
    """Base of every error that a caller of a front door can cause or meet.

    Public attributes of an error are the numbers and names its text speaks of.
    """


class Violation(NamedTuple):
    """A field that cannot be right: its path, and what it is and must be."""

    field: str
    description: str


class InvalidRequest(FrontDoorError):
    """Fields of the request cannot be right; nothing was begun."""

    def __init__(self, violations: Sequence[Violation]) -> None:
        super().__init__("; ".join(f"{one.field} {one.description}" for one in violations))
        self._violations = tuple(violations)

    @classmethod
    def of(cls, field: str, description: str) -> "InvalidRequest":
        """With one violation."""
        return cls([Violation(field, description)])

    @property
    def violations(self) -> tuple[Violation, ...]:
        """All of them."""
        return self._violations


class NotFound(FrontDoorError):
    """The model or request is not known here, or no longer."""


class AlreadyExists(FrontDoorError):
    """The caller's name for the request is taken by another one."""


class Unsuitable(FrontDoorError):
    """Right in form, but the model cannot do it."""


class NeverFits(FrontDoorError):
    """The request needs more blocks than the whole pool has."""

    def __init__(self, needed: int, available: int) -> None:
        super().__init__(f"the request may need {needed} blocks, but the whole pool has {available}")
        self.needed = needed
        self.available = available


class PoolExhausted(FrontDoorError):
    """The pool has no room for the request now."""

    def __init__(self, needed: int, available: int) -> None:
        super().__init__(f"the request needs {needed} blocks or slots, and {available} are to be had now")
        self.needed = needed
        self.available = available


class QueueFull(FrontDoorError):
    """As many requests are in flight, or wait in the engine, as may."""

    def __init__(self, limit: int, where: str) -> None:
        super().__init__(f"{limit} requests are in flight {where}, and no more are admitted")
        self.limit = limit


class OutOfRange(FrontDoorError):
    """The token to attach from is not there."""

    def __init__(self, from_token: int, tokens: int) -> None:
        super().__init__(f"from_token is {from_token}, but the output has {tokens} tokens so far")
        self.from_token = from_token
        self.tokens = tokens


class NotServing(FrontDoorError):
    """The door is starting or stopping, or there is no engine; the same call may succeed later."""


class GenerationLost(FrontDoorError):
    """The request was accepted, its engine died, and none took it over in time."""

    def __init__(self, tokens: int) -> None:
        super().__init__(f"the engine of this generation is lost, and none took over; {tokens} tokens were recorded")
        self.tokens = tokens


class NotRead(FrontDoorError):
    """Whoever called leaves the stream unread for too long."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"nothing of this stream was read for {seconds:g} s, though more had come")
        self.seconds = f"{seconds:g}"


class Cancelled(FrontDoorError):
    """Somebody cancelled the request before it was accepted."""


class EngineFault(FrontDoorError):
    """The engine met a fault with this request; its log says more under the id."""

    def __init__(self, error_id: str) -> None:
        super().__init__(f"a fault of the engine; its log says more under {error_id or 'the id of the request'}")
        self.error_id = error_id
