"""Who may register, and what of a pool that is there already."""

import subprocess
import uuid
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from blockmgr.descriptors import introduce
from blockmgr.processes import Process
from executor.manager.channel import connect, reason_of
from pagehold.blockmgr.v1 import block_manager_service_pb2_grpc, executor_pb2, pool_pb2, sequence_pb2
from pagehold.common.v1 import states_pb2
from tests.scripted.hand import HandDriven, spec
from tests.scripted.processes import open_descriptors, wait_until
from tests.scripted.world import World, running


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """Shared by tests that leave its manager and its settings alone: each has a pool of its own."""
    with running() as world:
        yield world


def refusal(world: World, pool: pool_pb2.PoolSpec, name: str = "b") -> tuple[grpc.StatusCode, str, str]:
    """Code, reason and text with which a registration is refused."""
    with pytest.raises(grpc.RpcError) as raised, HandDriven(world.runtime_dir, name, pool):
        pytest.fail("it was registered")
    error: Any = raised.value
    return error.code(), reason_of(error), error.details()


def test_another_shape_is_refused_with_both_digests(world: World) -> None:
    with HandDriven(world.runtime_dir, "a", spec(name="shape")) as executor:
        have = executor.registration.response.pool.identity.shape_digest.hex()
        code, reason, text = refusal(world, spec(name="shape", identity={"layers": 2}))
        assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "ERROR_REASON_IDENTITY_MISMATCH")
        assert have in text
        with HandDriven(world.runtime_dir, "c", spec(name="other", identity={"layers": 2})) as other:
            assert other.registration.response.pool.identity.shape_digest.hex() in text


def test_another_gpu_is_refused_with_both_uuids(world: World) -> None:
    with HandDriven(world.runtime_dir, "a", spec(name="gpu", gpu_uuid="GPU-one")):
        code, reason, text = refusal(world, spec(name="gpu", gpu_uuid="GPU-two"))
        assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "ERROR_REASON_IDENTITY_MISMATCH")
        assert "GPU-one" in text
        assert "GPU-two" in text


def test_other_content_is_refused_while_a_sequence_lives_and_flushes_the_pool_after(world: World) -> None:
    prompt = list(range(40))
    other = spec(name="content", identity={"revision": "2"})
    with HandDriven(world.runtime_dir, "a", spec(name="content")) as executor:
        handle = executor.admit(prompt).handle
        executor.say(launched_step=1, completed_step=1)
        executor.compute(handle, len(prompt))
        have = executor.registration.response.pool.identity.content_digest.hex()
        code, reason, text = refusal(world, other)
        assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "ERROR_REASON_IDENTITY_MISMATCH")
        assert have in text
        executor.finish(handle)
        again = executor.admit(prompt)
        assert again.cached == len(prompt) - 4
        executor.finish(again.handle)
        with HandDriven(world.runtime_dir, "b", other) as heir:
            assert heir.registration.response.relabelled
            assert heir.admit(prompt).cached == 0
        world.check_memory("content")


def test_a_name_that_is_alive_is_refused_and_one_that_has_died_is_free(world: World) -> None:
    pool = spec(name="names")
    with HandDriven(world.runtime_dir, "a", pool) as executor:
        code, reason, _ = refusal(world, pool, name="a")
        assert (code, reason) == (grpc.StatusCode.ALREADY_EXISTS, "ERROR_REASON_ALREADY_EXISTS")
        executor.kill()
        with HandDriven(world.runtime_dir, "a", pool) as successor:
            assert successor.epoch > executor.epoch


def test_the_same_instance_again_gets_the_epoch_that_it_has(world: World) -> None:
    pool = spec(name="again")
    with HandDriven(world.runtime_dir, "a", pool) as executor:
        executor.admit(10)
        request = executor_pb2.RegisterExecutorRequest(name="a", instance=executor.registration.instance, pool=pool)
        again = executor.registration.stub.RegisterExecutor(request)
        assert again.epoch == executor.epoch
        assert again.last_number == 1
        assert [one.epoch for one in world.registrations("again")] == [executor.epoch]


def test_more_executors_than_there_are_places_are_refused(world: World) -> None:
    pool = spec(name="places", geometry={"max_executors": 2})
    with HandDriven(world.runtime_dir, "a", pool), HandDriven(world.runtime_dir, "b", pool) as second:
        code, reason, text = refusal(world, pool, name="c")
        assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "ERROR_REASON_PRECONDITION")
        assert "2 places" in text
        second.kill()
        wait_until(lambda: len(world.registrations("places")) == 1, "its place is free")
        with HandDriven(world.runtime_dir, "c", pool) as third:
            assert third.epoch


def test_an_executor_that_crashes_again_and_again_does_not_run_out_of_places_and_loses_nothing(world: World) -> None:
    pool = spec(name="crashes", geometry={"max_executors": 4})
    with HandDriven(world.runtime_dir, "steady", pool) as steady:
        handles = []
        for _ in range(12):
            with HandDriven(world.runtime_dir, "a", pool) as crashing:
                handles.append(crashing.admit(10).handle)
                crashing.kill()
        assert len(world.registrations("crashes")) <= 4
        with HandDriven(world.runtime_dir, "a", pool) as heir:
            assert heir.registration.response.waiting_sequences == 12
            assert {one.previous for one in heir.registration.adopt()} == set(handles)
            wait_until(lambda: len(world.registrations("crashes")) == 2, "nothing is left of the dead")
        assert steady.admit(10).handle
        world.check_memory("crashes")


def test_an_instance_whose_processes_were_not_handed_over_is_refused(world: World) -> None:
    with connect(str(world.runtime_dir / "blockmgr.sock")) as channel:
        stub = block_manager_service_pb2_grpc.BlockManagerServiceStub(channel)
        request = executor_pb2.RegisterExecutorRequest(name="a", instance=uuid.uuid4().bytes, pool=spec())
        with pytest.raises(grpc.RpcError, match="no processes were handed over"):
            stub.RegisterExecutor(request)


def test_a_process_that_is_dead_already_proves_nothing(world: World) -> None:
    sleeper = subprocess.Popen(["sleep", "600"])
    instance = uuid.uuid4()
    with (
        connect(str(world.runtime_dir / "blockmgr.sock")) as channel,
        Process.open(sleeper.pid, "engine") as process,
    ):
        introduce(world.runtime_dir / "descriptors.sock", instance.hex, [process], timeout=60)
        sleeper.kill()
        sleeper.wait(60)
        stub = block_manager_service_pb2_grpc.BlockManagerServiceStub(channel)
        request = executor_pb2.RegisterExecutorRequest(name="a", instance=instance.bytes, pool=spec())
        with pytest.raises(grpc.RpcError, match="is dead already"):
            stub.RegisterExecutor(request)


def test_a_registration_that_fails_leaves_nothing_of_itself(world: World) -> None:
    with HandDriven(world.runtime_dir, "a", spec(name="failing")):
        before = open_descriptors(world.manager_pid())
        for _ in range(20):
            refusal(world, spec(name="failing", identity={"layers": 2}))
        assert [one.name for one in world.registrations("failing")] == ["a"]
        # Introduced processes are kept for a while, in case that the registration follows: one each.
        wait_until(lambda: open_descriptors(world.manager_pid()) <= before + 20 + 5, "its connections are gone")


def test_orphans_go_to_another_executor_once_their_own_successor_has_had_its_time() -> None:
    with (
        running(adoption_seconds=8, orphan_seconds=600) as world,
        HandDriven(world.runtime_dir, "a") as dead,
        HandDriven(world.runtime_dir, "b") as heir,
    ):
        handle = dead.admit(10).handle
        dead.compute(handle, 10)
        dead.append(handle, 10, 7)
        dead.kill()
        with pytest.raises(grpc.RpcError, match=r"still wait for a successor|not proven dead"):
            heir.registration.adopt(["a"], timeout=0.0)
        heir.session.turn_wanted.wait(60)
        assert heir.session.turn_wanted.is_set(), "the manager lets the others know"
        (adopted,) = heir.registration.adopt(["a"])
        row = heir.registration.mapping.ledger.row(adopted.handle)
        assert row is not None
        assert row.tokens.tolist() == [*range(1, 11), 7]
        assert not heir.append(adopted.handle, 11, 8).stale
        world.check_memory()


def end_of(executor: HandDriven, key: bytes) -> sequence_pb2.FinishedSequence | None:
    """How a sequence has ended, as an executor of its pool is told; None while it lives."""
    found = executor.registration.stub.LookupSequence(sequence_pb2.LookupSequenceRequest(uuid=key))
    return found.finished if found.WhichOneof("found") == "finished" else None


def test_what_nobody_adopts_ends_unavailable_with_what_was_recorded() -> None:
    with (
        running(adoption_seconds=0, orphan_seconds=1) as world,
        HandDriven(world.runtime_dir, "a") as dead,
        HandDriven(world.runtime_dir, "b") as other,
    ):
        key = uuid.uuid4().bytes
        handle = dead.admit(10, uuid=key).handle
        dead.say(launched_step=1, completed_step=1)
        dead.compute(handle, 10)
        dead.append(handle, 10, 7)
        dead.kill()
        end = wait_until(lambda: end_of(other, key), "it ends")
        assert list(end.ids) == [*range(1, 11), 7]
        assert end.reason == states_pb2.FINISH_REASON_UNAVAILABLE
        assert other.admit(10).cached == 8, "what it had sealed stays cached"
        world.check_memory()


def test_sequences_whose_successor_loads_wait_for_it_without_a_time_limit() -> None:
    with (
        running(adoption_seconds=8, orphan_seconds=1) as world,
        HandDriven(world.runtime_dir, "a") as dead,
        HandDriven(world.runtime_dir, "b") as forgotten,
    ):
        key = uuid.uuid4().bytes
        handle = dead.admit(10).handle
        dead.compute(handle, 10)
        forgotten.compute(forgotten.admit(10, uuid=key).handle, 10)
        dead.kill()
        with HandDriven(world.runtime_dir, "a") as loading:
            forgotten.kill()
            wait_until(lambda: end_of(loading, key), "the one that nobody comes for has ended")
            assert [one.previous for one in loading.registration.adopt()] == [handle]
        world.check_memory()
