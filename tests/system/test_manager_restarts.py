"""Managers and keepers come and go: in good order, with all that they held, or with nothing left but the executors."""

import fcntl
import os
import signal
import subprocess
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from executor.manager.channel import connect, reason_of
from pagehold.blockmgr.v1 import block_manager_service_pb2_grpc, sequence_pb2, session_pb2
from tests.scripted import workload
from tests.scripted.hand import HandDriven, spec
from tests.scripted.processes import ROOT, await_all_done, paced, wait_until
from tests.scripted.world import PAGEHOLD, World, environment, running

SERVING = health_pb2.HealthCheckResponse.SERVING


@pytest.fixture(scope="module")
def kept() -> Iterator[World]:
    """A world with a keeper that lives, for tests with a pool each; a manager serves when one begins and when it ends."""
    with running(stop_grace=60, finished_seconds=0) as world:
        yield world


class Pair:
    """Two executors at work on one pool, which stand still after every few turns until they are to go on."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._works = {name: workload.mixed(seed + place, 70) for place, name in enumerate("ab")}
        self._executors = [
            world.start_executor(name, requests, mean_seconds=0.004, holds=paced("after-submit", 3, 5))
            for name, requests in self._works.items()
        ]
        self._await_held()

    def go_on(self) -> None:
        """Let both go on with their work."""
        for executor in self._executors:
            executor.go_on()

    def await_turns(self) -> None:
        """Wait until both have exchanged turns with the manager that is there now."""
        self._await_held()
        self.go_on()
        self._await_held()

    def _await_held(self) -> None:
        for executor in self._executors:
            executor.await_held()

    def finish(self) -> None:
        """See all of it through to the end."""
        await_all_done(self._executors)
        for executor in self._executors:
            self._world.check_delivered(executor.name, self._works[executor.name])
        self._world.check_memory()


def logged(world: World, text: str) -> int:
    """How often keepers and managers have said something."""
    return sum(path.read_text().count(text) for path in world.directory.glob("*.log"))


def await_deposits(world: World) -> None:
    """Wait until a keeper that knew nothing has been given everything, for the first time."""
    wait_until(lambda: logged(world, "everything deposited again") == 1, "everything is deposited again")


def test_with_keeper_and_manager_gone_executors_give_back_what_they_hold() -> None:
    with running() as world:
        pair = Pair(world, 60)
        pair.go_on()
        world.keeper.kill()
        first = world.kill_manager()
        world.keeper.wait(60)
        world.start_keeper()
        second = world.await_manager(other_than=first)
        pair.await_turns()
        assert logged(world, "waiting for executors to give back") == 1
        await_deposits(world)
        pair.go_on()
        world.kill_manager()
        world.await_manager(other_than=second)
        assert logged(world, "waiting for executors to give back") == 1, "the new keeper had got everything"
        pair.finish()


def test_a_new_keeper_is_given_everything_by_the_manager_that_lives() -> None:
    with running() as world:
        pair = Pair(world, 62)
        pair.go_on()
        manager = world.manager_pid()
        world.keeper.kill()
        world.keeper.wait(60)
        world.start_keeper()
        await_deposits(world)
        assert world.manager_pid() == manager
        pair.await_turns()
        pair.go_on()
        world.kill_manager()
        world.await_manager(other_than=manager)
        assert logged(world, "waiting for executors to give back") == 0
        pair.finish()


def test_a_second_manager_is_refused_and_says_who_serves(kept: World) -> None:
    second = subprocess.run(
        kept.manager_command(), cwd=ROOT, env=environment(kept.settings), capture_output=True, text=True
    )
    assert second.returncode == 1
    assert f"a manager (process {kept.manager_pid()}) already serves in {kept.runtime_dir}" in second.stderr
    assert kept.is_serving()


def test_a_second_manager_on_another_socket_of_the_same_pool_is_refused(kept: World, tmp_path: Path) -> None:
    with HandDriven(kept.runtime_dir, "a", spec(name="twice")) as executor:
        descriptors = executor.registration.mapping.descriptors
        names = sorted(descriptors)
        program = (
            "import os, sys\n"
            "for place, descriptor in enumerate(map(int, sys.argv[1].split(',')), 3):\n"
            "    os.dup2(descriptor, place)\n"
            "os.environ['LISTEN_PID'] = str(os.getpid())\n"
            "os.execv(sys.argv[2], sys.argv[2:])\n"
        )
        # High numbers, so that none of them is in the way of the numbers from 3 on; free ones.
        copies = [fcntl.fcntl(descriptors[name], fcntl.F_DUPFD, 200) for name in names]
        other = [*PAGEHOLD, "blockmgr", "--runtime-dir", str(tmp_path / "r"), "--address", "127.0.0.1:0"]
        second = subprocess.run(
            [PAGEHOLD[0], "-c", program, ",".join(map(str, copies)), *other],
            cwd=ROOT,
            env=environment(kept.settings) | {"LISTEN_FDS": str(len(names)), "LISTEN_FDNAMES": ":".join(names)},
            pass_fds=copies,
            capture_output=True,
            text=True,
        )
        for copy in copies:
            os.close(copy)
        assert second.returncode == 1, second.stderr
        assert "another manager" in second.stderr or "in use" in second.stderr, second.stderr
        assert executor.admit(10).handle
        kept.check_memory("twice")


def test_asked_to_stop_it_says_not_serving_and_ends_streams_and_its_successor_goes_on() -> None:
    with running() as world:
        pair = Pair(world, 64)
        manager = world.manager_pid()
        with grpc.insecure_channel(world.address) as channel:
            watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
            assert next(watch).status == SERVING
            pair.go_on()
            os.kill(manager, signal.SIGTERM)
            assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        world.await_manager(other_than=manager)
        assert logged(world, f'"pid": {manager}, "code": 0') == 1
        pair.finish()


def test_a_session_that_is_open_when_the_manager_stops_ends_unavailable_and_at_once(kept: World) -> None:
    with HandDriven(kept.runtime_dir, "a", spec(name="session")) as executor:
        manager = kept.manager_pid()
        with connect(str(kept.runtime_dir / "blockmgr.sock")) as channel:
            stub = block_manager_service_pb2_grpc.BlockManagerServiceStub(channel)
            life = session_pb2.SessionRequest(heartbeat=session_pb2.Heartbeat(epoch=executor.epoch))
            held = Held(life)
            # Before the other stream is opened: which of two that open at once is the newer one, nobody knows.
            executor.session.close()
            session = stub.Session(held)
            held.await_taken()
            os.kill(manager, signal.SIGTERM)
            error = session.exception(timeout=50)
            assert error is not None, "it did not wait for the end of the grace"
            assert error.code() == grpc.StatusCode.UNAVAILABLE
        kept.await_manager(other_than=manager)
        assert executor.registration.adopt() == []


def test_a_second_request_to_stop_does_not_wait_for_anybody() -> None:
    with running(keeper=False, stop_grace=300) as world:
        manager = world.managers[-1]
        with grpc.insecure_channel(world.address) as channel:
            watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
            assert next(watch).status == SERVING
            manager.send_signal(signal.SIGTERM)
            assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
            assert manager.poll() is None, "it waits for whoever watches"
            manager.send_signal(signal.SIGINT)
            assert manager.wait(60) == 0


def test_prefixes_are_hit_over_lives_with_other_seeds_of_pythons_hash() -> None:
    prompt = list(range(100, 140))
    with running(hash_seed=1) as world:
        first = world.manager_pid()
        with HandDriven(world.runtime_dir, "a") as executor:
            handle = executor.admit(prompt).handle
            executor.say(launched_step=1, completed_step=1)
            executor.compute(handle, len(prompt))
            world.keeper.kill()
            world.keeper.wait(60)
            world.start_keeper(hash_seed=2)
            await_deposits(world)
            world.kill_manager()
            world.await_manager(other_than=first)
            assert executor.admit(prompt).cached == len(prompt) - 4
        world.check_memory()


ROLES = ("engine", "device", "helper: 2 % of ü.1")


def test_operators_see_the_role_of_each_process_over_lives_of_manager_and_keeper() -> None:
    with running() as world, HandDriven(world.runtime_dir, "a", roles=ROLES) as executor:
        wanted = {(sleeper.pid, role) for sleeper, role in zip(executor.sleepers, ROLES, strict=True)}

        def seen() -> set[tuple[int, str]]:
            return {(process.pid, process.role) for one in world.registrations() for process in one.processes}

        assert seen() == wanted
        first = world.kill_manager()
        second = world.await_manager(other_than=first)
        assert seen() == wanted
        world.keeper.kill()
        world.keeper.wait(60)
        world.kill_manager()
        world.start_keeper()
        third = world.await_manager(other_than=second)
        assert logged(world, "waiting for executors to give back") == 1
        assert seen() == wanted, "the executor introduced them again"
        await_deposits(world)
        world.kill_manager()
        world.await_manager(other_than=third)
        assert seen() == wanted, "they were deposited with the new keeper"


def test_the_lease_that_an_executor_asked_for_is_its_own_after_a_restart_too(kept: World) -> None:
    with HandDriven(kept.runtime_dir, "a", spec(name="lease"), lease_seconds=600):
        kept.await_manager(other_than=kept.kill_manager())
        (one,) = kept.registrations("lease")
        assert one.lease_seconds_left > kept.settings["lease_seconds"]


def test_how_long_finished_requests_are_kept_is_as_set_after_a_restart_too(kept: World) -> None:
    key = uuid.uuid4().bytes
    question = sequence_pb2.LookupSequenceRequest(pool="finished", uuid=key)
    with HandDriven(kept.runtime_dir, "a", spec(name="finished")) as executor:
        handle = executor.admit(10, uuid=key).handle
        kept.await_manager(other_than=kept.kill_manager())
        executor.finish(handle)

        def forgotten() -> bool:
            try:
                executor.registration.stub.LookupSequence(question)
            except grpc.RpcError as error:
                return reason_of(error) == "ERROR_REASON_NOT_FOUND"
            return False

        wait_until(forgotten, "the request is not kept any more")


class Held:
    """Requests of a stream: one, and then none for as long as the stream lives."""

    def __init__(self, request: session_pb2.SessionRequest) -> None:
        self._request: session_pb2.SessionRequest | None = request
        self._taken = threading.Event()
        self._never = threading.Event()

    def __iter__(self) -> "Held":
        return self

    def __next__(self) -> session_pb2.SessionRequest:
        if self._request is None:
            self._taken.set()
            self._never.wait(120)
            raise StopIteration
        request, self._request = self._request, None
        return request

    def await_taken(self) -> None:
        """Wait until the request has been sent."""
        assert self._taken.wait(60)
