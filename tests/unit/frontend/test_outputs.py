"""Outputs of a request that are not there yet: they are what becomes of the first."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from executor.frontend.door import Door
from executor.frontend.engine_link import EngineLink
from executor.frontend.engines import Engines
from executor.frontend.errors import GenerationLost, NotServing
from executor.frontend.hanging_up import go_on_alone, hang_up
from executor.frontend.recovery import Recovery
from executor.frontend.sequence import End, Sequence
from executor.outputs import uuid_of
from pagehold.common.v1 import states_pb2
from pagehold.engine.v1 import request_pb2, submit_pb2

PROMPT = 9
UUID = bytes(15) + b"a"


def outputs(**fields: Any) -> tuple[Sequence, Sequence]:
    """The first output of a request, and another one."""
    first = Sequence(UUID, "default", request_pb2.Request(outputs=2, request_id="mine"), PROMPT, start=b"", **fields)
    return first, Sequence.other_output(first, 1)


def test_another_output_is_one_of_the_same_request() -> None:
    first, other = outputs()
    assert (other.uuid, other.request.output, other.request.root) == (uuid_of(UUID, 1), 1, UUID)
    assert (other.id, other.pool, other.prompt_tokens) == (first.id, first.pool, PROMPT)
    assert other.start is None


def test_it_ends_as_the_first_did_that_ended_without_a_token() -> None:
    first, other = outputs()
    assert not other.go_with_first()
    first.finish(End(states_pb2.FINISH_REASON_CANCELLED, PROMPT, PROMPT, ()))
    assert other.go_with_first()
    assert other.end is not None
    assert (other.end.reason, other.end.tokens) == (states_pb2.FINISH_REASON_CANCELLED, PROMPT)


def test_it_is_lost_where_the_first_has_tokens_and_nobody_knows_it() -> None:
    first, other = outputs()
    first.finish(End(states_pb2.FINISH_REASON_LENGTH, PROMPT + 1, PROMPT, (1,)))
    assert other.go_with_first()
    assert isinstance(other.failure, GenerationLost)


def test_it_fails_and_is_refused_as_the_first_is() -> None:
    first, other = outputs()
    first.fail(failure := NotServing("away"))
    assert other.go_with_first()
    assert other.failure is failure
    first, other = outputs()
    first.refuse(submit_pb2.Refused(by=submit_pb2.REFUSED_BY_DEADLINE))
    assert other.go_with_first()
    assert other.refused is first.refused
    assert other.is_over


def test_one_that_is_there_goes_its_own_way() -> None:
    first, other = outputs()
    other.accept(submit_pb2.Accepted(handle=8))
    first.fail(NotServing("away"))
    assert not other.go_with_first()


class Link:
    """Notes what is said on it."""

    def __init__(self, *sequences: Sequence) -> None:
        self.name, self.connected = "engine", True
        self.sequences = {sequence.uuid: sequence for sequence in sequences}
        self.added: list[Sequence] = []
        self.cancelled: list[bytes] = []

    def add(self, sequence: Sequence) -> None:
        self.sequences[sequence.uuid] = sequence
        self.added.append(sequence)

    def drop(self, sequence: Sequence) -> bool:
        return self.sequences.pop(sequence.uuid, None) is not None

    forget = drop

    def cancel(self, uuid: bytes) -> None:
        self.cancelled.append(uuid)


def link_of(*links: Link) -> Any:
    return lambda sequence: next((link for link in links if sequence.uuid in link.sequences), None)


@pytest.mark.parametrize("same", [False, True])
def test_one_that_nobody_knows_is_followed_where_the_first_is(same: bool) -> None:
    first, other = outputs(accepted=True, handle=7)
    here = Link(first, other) if same else Link(other)
    there = here if same else Link(first)
    other.disowned = True
    other.doubt()

    async def look_up(*_: Any, **__: Any) -> None:
        return None

    engines, manager = SimpleNamespace(link_of=link_of(here, there)), SimpleNamespace(look_up=look_up)
    recovery = Recovery(cast(Engines, engines), cast(Any, manager), 60.0)
    asyncio.run(recovery._ask(cast(EngineLink, here), other))
    assert there.added == [other]
    assert (other.disowned, other.unsure_since, other.is_over) == (False, None, False)


def test_hanging_up_on_one_that_is_not_there_leaves_it_to_the_first() -> None:
    first, other = outputs(accepted=True, handle=7)
    link, asked = Link(first, other), []

    async def cancel(pool: str, uuid: bytes, attachment: int) -> bool:
        asked.append(uuid)
        return True

    door = SimpleNamespace(
        engines=SimpleNamespace(link_of=link_of(link)),
        manager=SimpleNamespace(cancel=cancel),
        registry=SimpleNamespace(remove=lambda _: None),
    )
    for sequence in (first, other):
        asyncio.run(hang_up(cast(Door, door), sequence, 0))
    assert link.cancelled == []
    assert asked == [first.uuid, other.uuid]
    assert not link.sequences


def test_one_that_goes_on_alone_is_let_go_of_where_the_first_was_refused() -> None:
    first, other = outputs()
    link = Link(first, other)
    door = SimpleNamespace(
        engines=SimpleNamespace(link_of=link_of(link)), registry=SimpleNamespace(remove=lambda _: None)
    )

    async def refused() -> None:
        alone = asyncio.ensure_future(go_on_alone(cast(Door, door), other))
        await asyncio.sleep(0)
        first.refuse(submit_pb2.Refused(by=submit_pb2.REFUSED_BY_DRAINING))
        await asyncio.wait_for(alone, 60)

    asyncio.run(refused())
    assert other.uuid not in link.sequences
