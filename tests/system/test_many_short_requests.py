"""Two thousand short requests, two hundred of them cancelled at random moments: nothing of them is left anywhere."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator

import psutil
import pytest

from pagehold.client import AsyncClient, Cancelled, Delta
from tests.launch.pools import flushed_pool
from tests.launch.tiny_model import save_servable
from tests.launch.up_program import UpFolder, up_folder
from tests.scripted.processes import wait_until

REQUESTS, CANCELLED, AT_ONCE = 2000, 200, 32
PROCESSES = ("keeper", "manager", "engine", "door")


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpFolder]:
    model = save_servable(tmp_path_factory.mktemp("model") / "tiny")
    with up_folder() as folder:
        folder.start(str(model), "--blocks", "256", PAGEHOLD_ENGINE_MAX_RUNNING="16", PAGEHOLD_ENGINE_CHUNK="16")
        folder.await_said("ready after", seconds=200)
        yield folder


async def ask(client: AsyncClient, number: int, random_: random.Random) -> str:
    """One request; those that are to be cancelled are so after some tokens, or after some time in any state."""
    prompt = [random_.randrange(5, 60) for _ in range(random_.randrange(1, 60))]
    stream = client.stream(ids=prompt, max_tokens=random_.randrange(1, 12), temperature=0.0, ignore_eos=True)
    cancelled = number % (REQUESTS // CANCELLED) == 0
    if not cancelled:
        async with stream:
            return str((await stream.result()).reason)
    read_until, pause = random_.randrange(3), random_.random() * 0.05
    try:
        async with stream:
            if read_until == 0:
                reading = asyncio.ensure_future(stream.result())
                await asyncio.sleep(pause)
                await stream.cancel()
                await reading
            async for event in stream:
                if isinstance(event, Delta) or read_until == 1:
                    await stream.cancel()
    except Cancelled:
        return "cancelled"
    return "had ended"


async def ask_all(address: str, requests: int, seed: int) -> Counter[str]:
    """What became of them."""
    random_ = random.Random(seed)
    places = asyncio.Semaphore(AT_ONCE)

    async with AsyncClient(address, connect_seconds=60.0) as client:

        async def one(number: int) -> str:
            async with places:
                return await ask(client, number, random_)

        return Counter(await asyncio.gather(*map(one, range(requests))))


def footprint(folder: UpFolder) -> dict[str, tuple[int, int, float]]:
    """Threads, descriptors and own memory in MiB of each process."""
    found = {}
    for name, pid in folder.pids().items():
        process = psutil.Process(pid)
        found[name] = (process.num_threads(), process.num_fds(), process.memory_full_info().uss / 2**20)
    return found


def grown(before: dict[str, tuple[int, int, float]], after: dict[str, tuple[int, int, float]]) -> list[str]:
    """Which processes have more than they had, beyond what comes and goes with connections and threads of gRPC's own."""
    found = []
    for name in PROCESSES:
        (threads, descriptors, memory), (threads_now, descriptors_now, memory_now) = before[name], after[name]
        if threads_now > threads + 2 or descriptors_now > descriptors + 4 or memory_now >= memory + 8:
            found.append(f"{name}: {before[name]} before, {after[name]} after")
    return found


def test_nothing_is_left_of_two_thousand_requests(serving: UpFolder) -> None:
    # The first hundreds make threads, arenas and caches what they will be.
    asyncio.run(ask_all(serving.address, 400, seed=1))
    asyncio.run(flushed_pool(serving.admin_address))
    before, pids = footprint(serving), serving.pids()
    ends = asyncio.run(ask_all(serving.address, REQUESTS, seed=2))
    assert ends.total() == REQUESTS
    # Others had ended before their cancel came.
    assert ends["cancelled"]
    assert sum(ends[kind] for kind in ("cancelled", "had ended")) == CANCELLED
    pool = asyncio.run(flushed_pool(serving.admin_address))
    assert pool.free == pool.blocks - 1
    assert serving.pids() == pids
    # Connections take their time to close.
    wait_until(lambda: not grown(before, footprint(serving)), f"no process has more than {before}")
