"""A whole small world for a test: a keeper with its manager, scripted executors, and an operator's view of all of it."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from pagehold.admin.v1 import admin_service_pb2_grpc, executor_pb2, stats_pb2, verify_pb2
from tests.scripted.delivery import delivered, ended
from tests.scripted.processes import ROOT, ScriptedExecutor, kill_all_of, wait_until
from tests.scripted.workload import Request

PAGEHOLD = [sys.executable, "-m", "pagehold.client"]

GEOMETRY = {
    "tokens_per_block": 4,
    "block_bytes": 64,
    "device_blocks": 512,
    "host_blocks": 128,
    "max_sequences": 128,
    "max_length": 256,
}
"""Small blocks, so that much happens at their boundaries."""

KEEPER = """
import sys
from pathlib import Path
from blockmgr.keeper import ChildSettings, RestartDelay, run_keeper
child = ChildSettings(
    "manager", tuple(sys.argv[3:]), watchdog=float(sys.argv[2]) or None, restart_delay=RestartDelay(immediate=1000)
)
sys.exit(run_keeper(Path(sys.argv[1]), [child]))
"""
"""A keeper that starts its child again at once, however often it dies."""

SETTINGS = {
    "lease_seconds": 60,
    "probe_seconds": 60,
    "adoption_seconds": 300,
    "return_seconds": 60,
    "stop_grace": 2,
}
"""Times of the manager that do not run out however busy the machine is. Tests of one of them set it themselves."""


def environment(settings: dict[str, Any]) -> dict[str, str]:
    """This process's environment with settings of the manager."""
    return dict(os.environ) | {f"PAGEHOLD_{name.upper()}": str(value) for name, value in settings.items()}


class World:
    """Everything of one test, in one short folder. ``end`` leaves no process behind."""

    def __init__(self, **settings: Any) -> None:
        # The paths of sockets are limited to 107 bytes, and pytest's folders are longer.
        self.directory = Path(tempfile.mkdtemp(prefix="ph-"))
        self.runtime_dir = self.directory / "run"
        self.violations = self.directory / "violations"
        self.address = f"unix:{self.runtime_dir}/admin.sock"
        self.settings = SETTINGS | settings
        self.executors: list[ScriptedExecutor] = []
        self.keepers: list[subprocess.Popen[bytes]] = []
        self.managers: list[subprocess.Popen[bytes]] = []
        self._channel: grpc.Channel | None = None

    # -- keeper and manager --------------------------------------------------------------------------------------------

    def start_keeper(self, watchdog: float = 0.0, hash_seed: int | None = None) -> None:
        """Start a keeper, which starts a manager or finds the one that runs."""
        more = {} if hash_seed is None else {"PYTHONHASHSEED": str(hash_seed)}
        with (self.directory / "keeper.log").open("a") as log:
            self.keepers.append(
                subprocess.Popen(
                    [
                        *(sys.executable, "-c", KEEPER, str(self.runtime_dir), str(watchdog)),
                        *self.manager_command(),
                    ],
                    cwd=ROOT,
                    stderr=log,
                    stdout=log,
                    env=environment(self.settings) | more,
                )
            )

    def manager_command(self) -> list[str]:
        """What starts a manager here."""
        return [*PAGEHOLD, "blockmgr", "--runtime-dir", str(self.runtime_dir), "--address", self.address]

    def start_manager(self, **settings: Any) -> subprocess.Popen[bytes]:
        """Start a manager with nobody to keep its memory."""
        with (self.directory / "manager.log").open("a") as log:
            self.managers.append(
                subprocess.Popen(
                    self.manager_command(), cwd=ROOT, stderr=log, stdout=log, env=environment(self.settings | settings)
                )
            )
        return self.managers[-1]

    @property
    def keeper(self) -> subprocess.Popen[bytes]:
        """The last keeper started."""
        return self.keepers[-1]

    def manager_pid(self) -> int:
        """Id of the manager that serves here, 0 if none does."""
        try:
            return int((self.runtime_dir / "blockmgr.lock").read_text() or 0)
        except FileNotFoundError:
            return 0

    def kill_manager(self) -> int:
        """SIGKILL the manager, which serves, and return its id."""
        pid = self.manager_pid()
        assert pid, "there is a manager"
        os.kill(pid, signal.SIGKILL)
        return pid

    def await_manager(self, other_than: int = 0, seconds: float = 60.0) -> int:
        """Wait until a manager (not the one of the id given) serves, and return its id."""

        def serves() -> int:
            pid = self.manager_pid()
            return pid if pid not in (0, other_than) and self.is_serving() else 0

        return int(wait_until(serves, f"a manager serves; {self.log()}", seconds))

    def is_serving(self) -> bool:
        """Whether the manager serves; it answers operators before that."""
        try:
            found = health_pb2_grpc.HealthStub(self._operators()).Check(health_pb2.HealthCheckRequest(), timeout=5.0)
        except grpc.RpcError:
            return False
        return bool(found.status == health_pb2.HealthCheckResponse.SERVING)

    def log(self) -> str:
        """The last that keeper and manager have said."""
        texts = [path.read_text()[-3000:] for path in sorted(self.directory.glob("*.log"))]
        return "\n".join(texts)

    # -- executors -----------------------------------------------------------------------------------------------------

    def start_executor(self, name: str, requests: Sequence[Request] = (), **script: Any) -> ScriptedExecutor:
        """Start an executor. What is delivered for one name goes into one file, over all its lives."""
        script = {
            "runtime_dir": str(self.runtime_dir),
            "name": name,
            "pool": {"geometry": GEOMETRY | script.pop("geometry", {}), **script.pop("pool", {})},
            "requests": [asdict(request) for request in requests],
            "violations": str(self.violations),
            "delivery": str(self.directory / f"delivered-{name}"),
            "seed": len(self.executors),
        } | script
        self.executors.append(ScriptedExecutor(self.directory, len(self.executors), script))
        return self.executors[-1]

    def delivered(self, name: str) -> dict[str, list[tuple[int, int]]]:
        """What has been delivered under a name: number and token, in order, by UUID."""
        return delivered(self.directory / f"delivered-{name}")

    def ended(self, name: str) -> dict[str, int]:
        """Reasons of what ended early."""
        return ended(self.directory / f"delivered-{name}")

    # -- operators -----------------------------------------------------------------------------------------------------

    @property
    def admin(self) -> admin_service_pb2_grpc.AdminServiceStub:
        """The operators' port."""
        return admin_service_pb2_grpc.AdminServiceStub(self._operators())

    def _operators(self) -> grpc.Channel:
        if self._channel is None:
            options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 200)]
            options += [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.min_reconnect_backoff_ms", 50)]
            self._channel = grpc.insecure_channel(self.address, options=options)
        return self._channel

    def statistics(self, pool: str | None = None) -> stats_pb2.PoolStats:
        """Figures of a pool, or of the only one."""
        request = stats_pb2.GetPoolStatsRequest(pool=pool)
        return self.admin.GetPoolStats(request, timeout=60, wait_for_ready=True).stats

    def violated_invariants(self, pool: str | None = None) -> list[str]:
        """What the manager finds wrong with its state."""
        request = verify_pb2.VerifyInvariantsRequest(pool=pool)
        found = self.admin.VerifyInvariants(request, timeout=60, wait_for_ready=True)
        return [f"{violation.invariant}: {violation.detail}" for violation in found.violations]

    def registrations(self, pool: str | None = None) -> list[executor_pb2.Executor]:
        """The executors that a pool knows, or the only one, dead ones with sequences too."""
        request = executor_pb2.ListExecutorsRequest(pool=pool)
        return list(self.admin.ListExecutors(request, timeout=60, wait_for_ready=True).executors)

    # -- what has to hold ----------------------------------------------------------------------------------------------

    def check_memory(self, pool: str | None = None) -> None:
        """No device has found a byte that should not have been there, and the manager's state does not contradict itself."""
        found = self.violations.read_text() if self.violations.exists() else ""
        assert not found, found[:4000]
        assert self.violated_invariants(pool) == []

    def check_delivered(self, name: str, requests: Sequence[Request], cancelled: Sequence[Request] = ()) -> None:
        """Every token that was to come has come, once and in order, and none that was not; of what was cancelled, some."""
        found, ended_early = self.delivered(name), self.ended(name)
        wrong = []
        for request in requests:
            for uuid, output in request.expected().items():
                have = found.pop(uuid, [])
                if have != list(enumerate(output)):
                    early = f", ended {ended_early[uuid]}" if uuid in ended_early else ""
                    wrong.append(f"{request.kind} {uuid}: {have} instead of {output}{early}")
        assert not wrong, "\n".join(wrong)
        for request in cancelled:
            output = request.expected()[request.uuid]
            have = found.pop(request.uuid, [])
            assert have == list(enumerate(output))[: len(have)]
        assert not found, "delivered and never asked for"

    def end(self) -> None:
        """End every process."""
        for executor in self.executors:
            executor.end()
        for keeper in self.keepers:
            keeper.kill()
            keeper.wait(60)
        for manager in self.managers:
            manager.kill()
            manager.wait(60)
        # A keeper that was killed leaves its manager behind, perhaps one that it had only just begun to start.
        kill_all_of(self.directory, "blockmgr")
        if self._channel is not None:
            self._channel.close()
        shutil.rmtree(self.directory, ignore_errors=True)


@contextmanager
def running(keeper: bool = True, hash_seed: int | None = None, **settings: Any) -> Iterator[World]:
    """A world with a manager that serves, and its keeper unless there is to be none."""
    world = World(**settings)
    try:
        if keeper:
            world.start_keeper(hash_seed=hash_seed)
        else:
            world.start_manager()
        world.await_manager()
        yield world
    except BaseException:
        print(world.log())
        for executor in world.executors:
            print(executor, executor.trouble(), executor.state())
        raise
    finally:
        world.end()
