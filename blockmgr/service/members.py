"""The executors' processes as the manager holds them: by descriptor, with a lease each."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from blockmgr.core.errors import Precondition
from blockmgr.processes import Process
from pagehold.blockmgr.v1 import session_pb2

INTRODUCTION_SECONDS = 60.0
"""How long handed-over descriptors wait for the registration that they belong to."""


@dataclass(slots=True)
class Lease:
    """When an executor was last heard, and whether it has been asked for a sign of life since. Monotonic seconds."""

    seconds: float
    heard: float
    probed: float | None = None

    def renew(self, now: float) -> None:
        """The executor was heard."""
        self.heard = now
        self.probed = None

    def extend(self, gap: float) -> None:
        """The manager itself was away: nobody's lease ran meanwhile."""
        self.heard += gap
        if self.probed is not None:
            self.probed += gap

    def is_over(self, now: float) -> bool:
        """Whether it has run out; that alone kills nobody."""
        return now - self.heard > self.seconds


@dataclass(slots=True)
class Member:
    """One registration: its epoch, its processes, its lease, and the stream on which it can be told something."""

    epoch: int
    name: str
    pool: str
    instance: bytes
    processes: list[Process]
    lease: Lease
    gone: bool = False
    """Proven dead by other means than its processes' descriptors."""
    tell: Callable[[session_pb2.SessionResponse], None] | None = None
    """Puts a message on the executor's session stream, while one is open."""
    hang_up: Callable[[Exception], None] | None = None
    """Ends that stream with an error."""
    killed: bool = False
    nudged: bool = False
    """Whether it has been told since its last turn that a turn is wanted."""

    def say(self, message: session_pb2.SessionResponse) -> None:
        """Tell the executor something, if it is connected."""
        if self.tell is not None:
            self.tell(message)

    def is_dead(self) -> bool:
        """Whether every process has exited."""
        return self.gone or (bool(self.processes) and all(process.is_dead for process in self.processes))

    def has_died_in_part(self) -> bool:
        """Whether any process has exited: the registration is over then."""
        return any(process.is_dead for process in self.processes)

    def kill(self) -> None:
        """Send SIGKILL to every process."""
        for process in self.processes:
            process.kill()
        self.killed = True

    def close(self) -> None:
        """Let go of the processes' descriptors."""
        for process in self.processes:
            process.close()


@dataclass(slots=True)
class Introduction:
    """Processes handed over ahead of a registration."""

    processes: Sequence[Process]
    at: float = field(default_factory=lambda: asyncio.get_running_loop().time())


class Members:
    """All registrations whose death is not yet proven and written down, by epoch; and who was introduced."""

    def __init__(self) -> None:
        self.by_epoch: dict[int, Member] = {}
        self._introduced: dict[bytes, Introduction] = {}

    def introduce(self, instance: bytes, processes: list[Process]) -> None:
        """Keep an executor's processes until it registers. Owns them from now on."""
        self.forget_strangers()
        old = self._introduced.pop(instance, None)
        self._introduced[instance] = Introduction(processes)
        if old is not None:
            _close_all(old.processes)

    def forget_strangers(self) -> None:
        """Let go of introductions that no registration followed."""
        now = asyncio.get_running_loop().time()
        for instance, known in list(self._introduced.items()):
            if now - known.at > INTRODUCTION_SECONDS:
                del self._introduced[instance]
                _close_all(known.processes)

    def introduced(self, instance: bytes) -> list[Process]:
        """Processes of an instance that was introduced; raises ``Precondition`` if they cannot serve as proof of death."""
        known = self._introduced.get(instance)
        if known is None:
            raise Precondition(
                "no processes were handed over for this instance: introduce it on the descriptor socket first"
            )
        for process in known.processes:
            if process.is_dead:
                raise Precondition(f"process {process.pid} ({process.role}) is dead already")
            if not process.can_signal:
                raise Precondition(f"process {process.pid} ({process.role}) could not be killed by this manager")
        return list(known.processes)

    def introduced_roles(self, instance: bytes) -> dict[int, str]:
        """Role of each process, by its id, as an instance introduced them; empty if it did not."""
        known = self._introduced.get(instance)
        return {} if known is None else {process.pid: process.role for process in known.processes}

    def take(self, instance: bytes) -> None:
        """The registration owns the processes now."""
        self._introduced.pop(instance, None)

    def find_instance(self, instance: bytes) -> Member | None:
        """The registration of an instance."""
        return next((member for member in self.by_epoch.values() if member.instance == instance), None)

    def close(self) -> None:
        """Let go of every descriptor."""
        for member in self.by_epoch.values():
            member.close()
        for known in self._introduced.values():
            _close_all(known.processes)


def _close_all(processes: Sequence[Process]) -> None:
    for process in processes:
        process.close()
