"""An executor that is nothing but a sleeping process: the test itself says what it says."""

import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from blockmgr.core.messages import Admission, Admitted, Appends, Finished, Ints, Message, Progress, Reply, Reservations
from blockmgr.core.states import FinishReason
from blockmgr.processes import Process
from executor.manager import ManagerSession, register
from pagehold.blockmgr.v1 import pool_pb2
from tests.scripted.executor import pool_spec
from tests.scripted.world import GEOMETRY


def ints(*values: int) -> Ints:
    """As messages hold them."""
    return np.array(values, dtype=np.int64)


def spec(**pool: Any) -> pool_pb2.PoolSpec:
    """A pool like that of scripted executors."""
    return pool_spec({"geometry": GEOMETRY | pool.pop("geometry", {}), **pool})


class HandDriven:
    """Registered, with a session open. Killing its process is all that it takes to be dead."""

    def __init__(
        self,
        runtime_dir: Path,
        name: str,
        pool: pool_pb2.PoolSpec | None = None,
        *,
        roles: Sequence[str] = ("engine",),
        lease_seconds: float | None = None,
        timeout: float = 60.0,
    ) -> None:
        self.sleepers = [subprocess.Popen(["sleep", "7200"]) for _ in roles]
        held = [Process.open(sleeper.pid, role) for sleeper, role in zip(self.sleepers, roles, strict=True)]
        try:
            self.registration = register(
                runtime_dir, name, pool or spec(), processes=held, lease_seconds=lease_seconds, timeout=timeout
            )
        except BaseException:
            self._end_processes()
            raise
        self.session: ManagerSession = self.registration.open_session()

    @property
    def epoch(self) -> int:
        """Its epoch."""
        return self.registration.epoch

    def say(self, timeout: float | None = 60.0, **parts: Any) -> Reply:
        """Exchange one turn."""
        return self.session.exchange(Message(0, 0, **parts), timeout)

    def admit(self, prompt: int | list[int], **more: Any) -> Admitted:
        """Ask for one prompt: its ids, or how many."""
        ids = list(range(1, prompt + 1)) if isinstance(prompt, int) else prompt
        request = Admission(uuid=more.pop("uuid", uuid.uuid4().bytes), prompt=np.array(ids, dtype=np.int32), **more)
        return self.say(admissions=[request]).admitted[0]

    def compute(self, handle: int, upto: int) -> Reply:
        """Report that positions below ``upto`` are launched and computed."""
        return self.say(progress=Progress(ints(handle), ints(upto), ints(upto)))

    def append(self, handle: int, start: int, *tokens: int) -> Reply:
        """Record tokens."""
        return self.say(appends=Appends(ints(handle), ints(start), ints(len(tokens)), ints(*tokens)))

    def reserve(self, handle: int, length: int) -> Reply:
        """Ask for room."""
        return self.say(reservations=Reservations(ints(handle), ints(length), ints(0)))

    def finish(self, *handles: int) -> Reply:
        """End sequences."""
        return self.say(finished=Finished(ints(*handles), [FinishReason.LENGTH] * len(handles)))

    def kill(self, *which: int) -> None:
        """Kill its processes, or some of them."""
        for place, sleeper in enumerate(self.sleepers):
            if not which or place in which:
                sleeper.kill()
                sleeper.wait(60)

    def close(self) -> None:
        """Let go of everything and end the processes."""
        self.session.close()
        self.registration.close()
        self._end_processes()

    def _end_processes(self) -> None:
        for sleeper in self.sleepers:
            sleeper.kill()
            sleeper.wait(60)

    def __enter__(self) -> "HandDriven":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
