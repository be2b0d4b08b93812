"""When requests are made: all at once, at a rate, or so many at a time."""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Arrivals:
    """``concurrency``: each of so many callers makes its next request when the last has ended (closed loop).

    ``rate``: so many requests a second on average, at random moments, whatever became of those before (Poisson). Neither:
    all at once.
    """

    concurrency: int | None = None
    rate: float | None = None

    def moments(self, count: int, seed: int = 0) -> list[float]:
        """When each of the requests is due, in seconds; all 0 in a closed loop, where a free caller takes the next."""
        if self.rate is None:
            return [0.0] * count
        numbers, now = random.Random(seed), 0.0
        moments = []
        for _ in range(count):
            now += numbers.expovariate(self.rate)
            moments.append(now)
        return moments

    def callers(self, processes: int) -> list[int | None]:
        """How many callers each of so many processes has; None: one for each request."""
        if self.concurrency is None:
            return [None] * processes
        share, rest = divmod(self.concurrency, processes)
        return [share + (place < rest) for place in range(processes)]

    def __str__(self) -> str:
        if self.concurrency is not None:
            return f"{self.concurrency} at a time"
        return "all at once" if self.rate is None else f"{self.rate:g} a second, Poisson"
