"""Floods, endless streams and messages at their limits harm their sender at most."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from blockmgr.core.states import Refusal
from executor.manager.channel import reason_of
from pagehold.blockmgr.v1 import block_manager_service_pb2_grpc, executor_pb2, session_pb2
from tests.scripted import workload
from tests.scripted.hand import HandDriven, spec
from tests.scripted.processes import wait_until
from tests.scripted.world import World, running

SESSIONS = 1024
CALLS = 4000
"""More calls than gRPC would let wait for their turn, were it not told to: it would cancel the others unheard."""

TURNS = 4000

HEALTH_CHECKS = 5
"""Answers about the health that are awaited in the middle of a flood."""

LONG = {
    "tokens_per_block": 16,
    "block_bytes": 64,
    "device_blocks": 140_000,
    "max_length": 2_000_000,
    "max_sequences": 8,
}


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with running() as world:
        yield world


def check_health(addresses: list[str], times: int) -> None:
    """Ask each address for its health so often, on a connection of its own, and wait for every answer."""
    for address in addresses:
        with grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            for _ in range(times):
                answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=60, wait_for_ready=True)
                assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def open_sessions(world: World, epoch: int) -> list[Any]:
    """Open more sessions than are admitted, look at the health meanwhile, and return what the last ones got."""
    address = f"unix:{world.runtime_dir}/blockmgr.sock"
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = block_manager_service_pb2_grpc.BlockManagerServiceStub(channel)
        admitted = [stub.Session() for _ in range(SESSIONS)]
        life = session_pb2.SessionRequest(heartbeat=session_pb2.Heartbeat(epoch=epoch))
        await admitted[-1].write(life)
        await asyncio.gather(*(call.wait_for_connection() for call in admitted[:1]))
        refused: list[grpc.StatusCode] = []
        while not refused:
            # The last of those before may not have arrived yet.
            extra = [stub.Session() for _ in range(8)]
            done, _ = await asyncio.wait([asyncio.ensure_future(call.code()) for call in extra], timeout=5)
            refused = [await task for task in done]
        await asyncio.to_thread(check_health, [address, world.address], 1)
        for call in admitted:
            call.cancel()
        return refused


def test_with_as_many_sessions_open_as_are_admitted_health_answers_and_one_more_is_refused(world: World) -> None:
    with HandDriven(world.runtime_dir, "a") as executor:
        executor.session.close()
        refused = asyncio.run(open_sessions(world, executor.epoch))
        assert set(refused) == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        heartbeat = executor_pb2.HeartbeatRequest(epoch=executor.epoch)
        assert executor.registration.stub.Heartbeat(heartbeat, timeout=60).lease_seconds > 0


async def flood(world: World, epoch: int, count: int) -> Counter[grpc.StatusCode]:
    """So many calls at once, each followed by another, until the health has been told a few times meanwhile."""
    address = f"unix:{world.runtime_dir}/blockmgr.sock"
    codes: Counter[grpc.StatusCode] = Counter()
    under_way = asyncio.Event()

    async def watch() -> None:
        await under_way.wait()
        await asyncio.to_thread(check_health, [world.address, address], HEALTH_CHECKS)

    healthy = asyncio.create_task(watch())
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = block_manager_service_pb2_grpc.BlockManagerServiceStub(channel)

        async def call_again_and_again() -> None:
            while not healthy.done():
                codes[await stub.Heartbeat(executor_pb2.HeartbeatRequest(epoch=epoch)).code()] += 1
                under_way.set()

        await asyncio.gather(*(call_again_and_again() for _ in range(count)))
    await healthy
    return codes


def test_a_flood_of_calls_is_answered_to_the_last_and_health_does_not_wait_for_its_end(world: World) -> None:
    with HandDriven(world.runtime_dir, "a") as executor:
        codes = asyncio.run(flood(world, executor.epoch, CALLS))
        assert set(codes) == {grpc.StatusCode.OK}
        assert executor.say().number == 1


def test_no_turn_is_lost_while_an_executor_sends_as_fast_as_it_can(world: World) -> None:
    with HandDriven(world.runtime_dir, "a") as executor:
        assert sum(executor.say() is not None for _ in range(TURNS)) == TURNS
        assert world.violated_invariants("scripted") == []


def test_the_longest_prompt_is_admitted_and_adopted_with_its_whole_table(world: World) -> None:
    prompt = (np.arange(1_500_000) % 50_000).tolist()
    with HandDriven(world.runtime_dir, "a", spec(name="long", geometry=LONG)) as executor:
        admitted = executor.admit(prompt)
        assert admitted.refusal == Refusal.NONE
        executor.say(launched_step=1, completed_step=1)
        executor.compute(admitted.handle, 1_000_000)
        executor.kill()
        with HandDriven(world.runtime_dir, "a", spec(name="long", geometry=LONG)) as heir:
            (adopted,) = heir.registration.adopt()
            assert adopted.resume == 1_000_000
            row = heir.registration.mapping.ledger.row(adopted.handle)
            assert row is not None
            assert row.tokens.tolist() == prompt
            assert len(row.table) == 62_500
            (update,) = heir.reserve(adopted.handle, 1_500_000).tables
            assert len(update.blocks) == 93_750 - 62_500
            too_long = heir.admit((np.arange(2_000_001) % 50_000).tolist())
            assert too_long.refusal == Refusal.TOO_LONG
            assert (too_long.needed, too_long.available) == (2_000_001, 2_000_000)
            heir.finish(adopted.handle)
        assert world.violated_invariants("long") == []


def test_a_message_above_the_limit_is_refused_to_its_sender_alone(world: World) -> None:
    requests = workload.mixed(70, 20)
    with HandDriven(world.runtime_dir, "a", spec(name="scripted")) as executor:
        neighbour = world.start_executor("b", requests)
        neighbour.await_event("adopted")
        with pytest.raises(grpc.RpcError) as raised:
            executor.admit([49_999] * 6_000_000)
        error: Any = raised.value
        assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert executor.admit(10).handle, "the same number is free for another turn"
        neighbour.await_done()
        world.check_delivered("b", requests)
        world.check_memory("scripted")


def test_a_reply_that_is_too_long_refuses_its_turn_and_nothing_is_taken(world: World) -> None:
    small = spec(name="small", geometry=LONG | {"reply_bytes": 4096})
    with HandDriven(world.runtime_dir, "a", small) as executor:
        free = executor.say().free_blocks
        with pytest.raises(grpc.RpcError) as raised:
            executor.admit(100_000)
        assert reason_of(raised.value) == "ERROR_REASON_INVALID_FIELD"
        assert executor.say().free_blocks == free
        wait_until(lambda: executor.admit(100).handle, "a smaller one is admitted")
        assert world.violated_invariants("small") == []
