"""Attaching while an earlier delivery of the same sequence ends: the sequence is not let go of."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from executor.frontend import attachment
from executor.frontend.door import Door
from executor.frontend.hanging_up import release
from executor.frontend.sequence import Sequence
from pagehold.engine.v1 import request_pb2
from pagehold.inference.v1 import generation_pb2


class Manager:
    """Gives the number of an attachment once it may."""

    def __init__(self, number: int) -> None:
        self.asked, self.may_answer, self._number = asyncio.Event(), asyncio.Event(), number

    async def attach(self, pool: str, uuid: bytes) -> Any:
        self.asked.set()
        await self.may_answer.wait()
        return SimpleNamespace(attachment=self._number)


@pytest.mark.parametrize("number", [2, 0])
def test_who_attaches_goes_on_hearing_of_a_sequence_that_an_earlier_caller_lets_go_of(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed: set[Sequence] = set()
    link = SimpleNamespace(forget=followed.discard)
    monkeypatch.setattr(attachment, "generation_of", lambda *_, **__: SimpleNamespace())

    async def model(name: str) -> Any:
        return SimpleNamespace()

    async def follow() -> tuple[Any, set[Sequence]]:
        manager = Manager(number)
        door = SimpleNamespace(
            manager=manager,
            models=SimpleNamespace(find=model),
            registry=SimpleNamespace(remove=lambda _: None),
            engines=SimpleNamespace(link_of=lambda one: link if one in followed else None),
        )
        sequence = Sequence(bytes(16), "default", request_pb2.Request(), 3, handle=7, accepted=True)
        followed.add(sequence)
        request = generation_pb2.AttachRequest()
        attaching = asyncio.ensure_future(attachment._follow(cast(Door, door), [sequence], request))
        await manager.asked.wait()
        release(cast(Door, door), sequence)
        kept = set(followed)
        manager.may_answer.set()
        return await attaching, kept

    found, kept = asyncio.run(follow())
    assert len(kept) == 1
    assert (found is not None) == (number > 0)
    assert len(followed) == (1 if number else 0)
