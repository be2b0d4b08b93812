"""How many requests a door works on at once. A place is taken before a request costs anything."""

import asyncio

from executor.frontend.errors import NotServing, QueueFull


class Places:
    """Places for requests in flight. Whoever takes one gives it back."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0
        self.idle = asyncio.Event()
        """Set while no place is taken."""
        self.idle.set()
        self._closed: str | None = None

    def close(self, why: str) -> None:
        """Let nothing new in. Who has a place keeps it."""
        self._closed = why

    @property
    def is_closed(self) -> bool:
        """Whether nothing new is let in."""
        return self._closed is not None

    def check_open(self) -> None:
        """Raises NotServing where nothing new is let in, not even on a place that is taken."""
        if self._closed is not None:
            raise NotServing(self._closed)

    def take(self) -> "Place":
        """A place, or QueueFull; NotServing where nothing new is let in."""
        self.check_open()
        if self.taken >= self.limit:
            raise QueueFull(self.limit, "at this front door")
        self.taken += 1
        self.idle.clear()
        return Place(self)

    def leave(self) -> None:
        """One place is free again. A `Place` says this, once."""
        self.taken -= 1
        if not self.taken:
            self.idle.set()

    def try_take(self) -> "Place | None":
        """A place, if there is one."""
        try:
            return self.take()
        except (QueueFull, NotServing):
            return None


class Place:
    """One request's place, given back at the end of a ``with`` block."""

    def __init__(self, places: Places) -> None:
        self._places: Places | None = places

    def give_back(self) -> None:
        """Give it back. May be repeated."""
        if self._places is not None:
            self._places.leave()
            self._places = None

    def __enter__(self) -> "Place":
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()
