"""Callers that change their minds, at any time, about sequences in any state."""

import random

import grpc

from blockmgr.core.states import FinishReason
from executor.manager.channel import connect
from pagehold.blockmgr.v1 import block_manager_service_pb2_grpc, sequence_pb2
from tests.scripted import workload
from tests.scripted.processes import paced, wait_until
from tests.scripted.world import running

HOLDS, CANCELLED = 10, 60
"""How often the executor stands still, and how many are cancelled: each time some, and others while it works."""

LATE = 30
"""Tokens of output of which none that has just been begun has come near to its end."""


def test_what_is_cancelled_ends_early_and_gives_every_block_back() -> None:
    requests = workload.mixed(90, 160, outputs=(15, 40))
    chance = random.Random(90)
    asked: set[str] = set()
    with running() as world:
        # It stands still until it is known whom to cancel.
        holds = paced("after-launch", 4, HOLDS)
        executor = world.start_executor("a", requests, stay=True, mean_seconds=0.002, holds=holds)
        executor.await_held()
        assert world.statistics().counters.admitted >= 4
        with connect(str(world.runtime_dir / "blockmgr.sock")) as channel:
            stub = block_manager_service_pb2_grpc.BlockManagerServiceStub(channel)
            victims = [request for request in requests if request.kind in ("plain", "stop")]
            begun = [one for one in victims if one.target - len(one.prompt) >= LATE and cancel(stub, one)]
            assert begun
            asked.update(one.uuid for one in begun)

            def cancels_some_more() -> bool:
                held = executor.is_held()
                for one in chance.sample(victims, 3 if held else 1):
                    if len(asked) < CANCELLED and cancel(stub, one):
                        asked.add(one.uuid)
                if held:
                    executor.go_on()
                assert executor.process.poll() is None, executor.trouble()
                return bool(executor.events("done"))

            wait_until(cancels_some_more, "all is done", 180.0)
        cancelled = [request for request in requests if request.uuid in asked]
        world.check_delivered("a", [request for request in requests if request not in cancelled], cancelled)
        ended = world.ended("a")
        assert set(ended) >= {one.uuid for one in begun}, "they were cancelled before their end"
        assert set(ended.values()) == {FinishReason.CANCELLED}
        assert set(ended) <= asked
        statistics = world.statistics()
        assert statistics.sequences.live == 0
        device, host = statistics.tiers
        assert device.available == device.blocks - 1, "all but the null block"
        assert host.available == host.blocks
        executor.go_on()
        assert executor.await_exit() == 0
        world.check_memory()


def cancel(stub: block_manager_service_pb2_grpc.BlockManagerServiceStub, request: workload.Request) -> bool:
    """Cancel twice, for good measure. Returns whether it was alive to be asked."""
    question = sequence_pb2.CancelSequenceRequest(uuid=request.key)
    asked = False
    for _ in range(2):
        try:
            asked |= stub.CancelSequence(question).asked
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.NOT_FOUND:
                raise
    return asked
