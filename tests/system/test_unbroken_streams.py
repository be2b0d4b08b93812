"""Sixteen callers of the Python client, and every kind of process killed under them: nobody notices but by a pause."""

import asyncio
import os
import random
import signal
import sys
from collections.abc import Iterator

import pytest

from pagehold.client import AsyncClient, Completion, Delta, Progress, Started
from tests.engines.holds import Hold
from tests.launch.pools import flushed_pool
from tests.launch.tiny_model import save_servable
from tests.launch.up_program import UpFolder, up_folder
from tests.scripted.processes import ROOT, wait_until_async

STREAMS, TOKENS = 16, 240
VICTIMS = ("engine", "manager", "door") * 2
PROMPTS = [[random.Random(number).randrange(10, 60) for _ in range(8 + 5 * number)] for number in range(STREAMS)]
FURTHER = 30
"""Tokens by which each answer gets longer from one kill to the next."""


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpFolder]:
    model = save_servable(tmp_path_factory.mktemp("model") / "tiny")
    with up_folder() as folder:
        program = (sys.executable, "-m", "tests.launch.faulty_up")
        hold = str(folder.directory / "hold")
        folder.start(str(model), "--doors", "2", "--blocks", "1024", program=program, PYTHONPATH=str(ROOT), HOLD=hold)
        folder.await_said("ready after")
        yield folder


class Reader:
    """One caller: it checks that every event comes where it has to, and keeps what it has."""

    def __init__(self, client: AsyncClient, number: int) -> None:
        self.client = client
        self.number = number
        self.ids: list[int] = []
        self.started = 0

    async def read(self) -> Completion:
        """Read the whole answer."""
        prompt, seed = PROMPTS[self.number], self.number
        async with self.client.stream(
            ids=prompt, temperature=0.8, seed=seed, max_tokens=TOKENS, ignore_eos=True
        ) as stream:
            async for event in stream:
                self.take(event)
            return await stream.result()

    def take(self, event: object) -> None:
        """Check one event."""
        if isinstance(event, Started):
            self.started += 1
        elif isinstance(event, Delta):
            assert event.first_token == len(self.ids)
            self.ids += event.ids
        else:
            assert isinstance(event, Progress) or len(self.ids) == TOKENS


async def undisturbed(address: str) -> list[Completion]:
    """What each caller gets when nothing happens."""
    async with AsyncClient(address, connect_seconds=60.0) as client:
        return await asyncio.gather(*(Reader(client, number).read() for number in range(STREAMS)))


async def disturbed(folder: UpFolder) -> list[Completion]:
    """The same, with a process killed each time that the longest prompt's answer has come a good way further, and stands
    still there with all others.

    Nobody waits for one to be back before the next is killed. It is back before its second turn.
    """
    hold = Hold(folder.directory / "hold")
    hold.move(position=min(map(len, PROMPTS)))
    async with AsyncClient(folder.address, connect_seconds=60.0) as client:
        readers = [Reader(client, number) for number in range(STREAMS)]
        answers = asyncio.gather(*(reader.read() for reader in readers))
        await wait_until_async(lambda: all(reader.started for reader in readers), "all are accepted", 120)
        killed: dict[str, int] = {}
        for turn, victim in enumerate(VICTIMS):
            due = (turn + 1) * FURTHER
            hold.move(position=len(PROMPTS[-1]) + due)

            def are_far_enough(due: int = due) -> bool:
                return len(readers[-1].ids) >= due

            await wait_until_async(are_far_enough, f"{due} tokens have come", 120)
            assert not answers.done(), answers.result()
            if victim in killed:
                await asyncio.to_thread(folder.await_other, victim, killed[victim])
            killed[victim] = folder.pids()[victim]
            os.kill(killed[victim], signal.SIGKILL)
        hold.let_go()
        found = await answers
        assert [reader.started for reader in readers] == [1] * STREAMS
        return found


def test_who_is_killed_under_sixteen_streams_breaks_none_of_them(serving: UpFolder) -> None:
    expected = asyncio.run(undisturbed(serving.address))
    found = asyncio.run(disturbed(serving))
    assert [answer.ids for answer in found] == [answer.ids for answer in expected]
    assert [answer.text for answer in found] == [answer.text for answer in expected]
    again = asyncio.run(undisturbed(serving.address))
    assert all(answer.usage.cached_tokens > 0 for answer in again if answer.usage.prompt_tokens > 16)
    assert [answer.ids for answer in again] == [answer.ids for answer in expected]
    pool = asyncio.run(flushed_pool(serving.admin_address))
    assert pool.free == pool.blocks - 1
