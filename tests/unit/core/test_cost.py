"""What a step costs is what it changes: counted in elements looked at and stored, never timed."""

from typing import Any

import numpy as np
import pytest

from blockmgr.core.messages import Appends, Finished, Message, Progress, Reservations
from blockmgr.core.states import FinishReason
from tests.unit.core.talk import Talk, Talker, ids

SEQUENCES = 64


class Counted(np.ndarray[Any, np.dtype[Any]]):
    """An array that counts how many of its elements are looked at by anything but a single access."""

    looked_at = 0

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*map(_counted, inputs), **kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return func(*map(_counted, args), **kwargs)

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        if isinstance(key, np.ndarray | list):
            Counted.looked_at += len(key)
        return found

    def tolist(self) -> Any:
        Counted.looked_at += self.size
        return super().tolist()


def _counted(value: Any) -> Any:
    if isinstance(value, Counted):
        Counted.looked_at += value.size
        return value.view(np.ndarray)
    return [_counted(one) for one in value] if isinstance(value, list | tuple) else value


class Decoding:
    """A pool of some size with sequences that grow together, a token a step."""

    def __init__(self, blocks: int) -> None:
        self.talk = Talk(blocks=blocks, size=4, max_sequences=SEQUENCES)
        self.executor: Talker = self.talk.executor()
        admitted = self.executor.admit_all([ids(6, n) for n in range(SEQUENCES)])
        self.handles = np.array([one.handle for one in admitted], dtype=np.int64)
        self.length = 6
        for column in self.talk.pool.columns.ordered:
            column.flat = column.flat.view(Counted)

    def cost(self, message: Message) -> tuple[int, int]:
        """Elements looked at and stored by one message."""
        Counted.looked_at = self.talk.ledger.touched = 0
        self.talk.pool.exchange(message)
        self.executor.number = message.number
        return Counted.looked_at, self.talk.ledger.touched

    def step(self) -> tuple[int, int]:
        self.length += 1
        self.executor.step += 1
        every = np.full(SEQUENCES, self.length - 1)
        step = self.executor.step
        return self.cost(
            self.executor.message(
                launched_step=step,
                completed_step=step - 1,
                progress=Progress(self.handles, every, every - (step > 1)),
                appends=Appends(self.handles, every, np.ones_like(every), np.full(SEQUENCES, 7)),
                reservations=Reservations(self.handles, every + 1, np.zeros_like(every)),
            )
        )

    def end(self) -> tuple[int, int]:
        return self.cost(self.executor.message(finished=Finished(self.handles, [FinishReason.LENGTH] * SEQUENCES)))


def costs(blocks: int) -> list[tuple[int, int]]:
    decoding = Decoding(blocks)
    return [*(decoding.step() for _ in range(9)), decoding.end()]


@pytest.fixture(scope="module")
def small_pool() -> list[tuple[int, int]]:
    return costs(1_000)


def test_a_step_costs_the_same_whatever_the_size_of_the_pool(small_pool: list[tuple[int, int]]) -> None:
    large_pool = costs(100_000)
    looked_at = [[cost[0] for cost in pool] for pool in (small_pool, large_pool)]
    assert looked_at[0] == looked_at[1]
    # A reply names block numbers, so its bytes, and nothing else that is stored, may differ by a few.
    for small, large in zip(small_pool, large_pool, strict=True):
        assert abs(small[1] - large[1]) <= 8 * SEQUENCES


def test_a_step_looks_at_a_few_elements_of_each_sequence(small_pool: list[tuple[int, int]]) -> None:
    assert max(looked_at for looked_at, _ in small_pool) < 200 * SEQUENCES


def test_what_is_counted_is_what_is_looked_at() -> None:
    array = np.zeros(100, dtype=np.int64).view(Counted)
    Counted.looked_at = 0
    assert not np.flatnonzero(array == 1).any()
    assert Counted.looked_at == 100
    assert array[np.array([1, 2])].size == 2
    assert Counted.looked_at == 102
