"""One child of the keeper: its process, its stored descriptors, and what is due when."""

from __future__ import annotations

import enum
import os
import signal

from blockmgr.configuration import WRONG_SETTINGS
from blockmgr.keeper.log import log
from blockmgr.keeper.messages import Notification
from blockmgr.keeper.runtime import RuntimeDirectory
from blockmgr.keeper.settings import ChildSettings
from blockmgr.keeper.spawn import child_environment, spawn
from blockmgr.keeper.store import DescriptorStore, StoreFull
from blockmgr.packets import Packet, close_all
from blockmgr.processes import Process, ProcessError

#: Seconds that a missed sign of life is waited for at most.
_LONGEST_GRACE = 5.0


class Phase(enum.Enum):
    """Where a child stands."""

    WAITING = "waiting"  # no process; to be started when the deadline comes
    RUNNING = "running"
    ABORTING = "aborting"  # a sign of life was missed; SIGABRT was sent
    STOPPING = "stopping"  # asked to end
    ENDED = "ended"  # no process, and none to come


class Child:
    """The process table's entry for one name. It owns the pidfd and the store; the store outlives each process.

    `starts` counts the processes started and `deaths` those that ended in a row, see `RestartDelay`. `status` is the last
    word for people of the process that runs or ran last; `last_code` and `last_words` are of the last one that ended.
    """

    def __init__(self, settings: ChildSettings, runtime: RuntimeDirectory) -> None:
        """Nothing is started yet; see `begin`."""
        self.settings = settings
        self.store = DescriptorStore(settings.store_limit)
        self.process: Process | None = None
        self.phase = Phase.WAITING
        self.deadline: float | None = None
        self.exit_code: int | None = None
        self.starts = 0
        self.deaths = 0
        self.status = ""
        self.last_code: int | None = None
        self.last_words = ""
        self._runtime = runtime
        self._ready_at: float | None = None
        self._was_ready = False
        self._overdue = False

    @property
    def is_ready(self) -> bool:
        """Whether the process that runs has reported that it is ready."""
        return self.process is not None and self._ready_at is not None

    @property
    def is_hopeless(self) -> bool:
        """Whether it ended for good because its settings are wrong; `status` then says which."""
        return self.phase is Phase.ENDED and self.exit_code == WRONG_SETTINGS

    def begin(self, now: float) -> None:
        """Take over the process that an earlier keeper left running, or start one."""
        self.process = self._runtime.recall(self.settings.name)
        if self.process is None:
            self._start(now)
            return
        self.phase, self._ready_at, self._was_ready = Phase.RUNNING, now, True
        self._expect_life(now)
        log("found running", child=self.settings.name, pid=self.process.pid)

    def handle(self, message: Notification, packet: Packet, now: float) -> None:
        """Act on a notification of this child's process. What is not taken out of `packet` is closed by the caller."""
        if message.barrier:
            # Everything before it has been handled; the caller's closing of the descriptor is the answer.
            return
        if message.remove:
            log("removed", child=self.settings.name, name=message.name, count=self.store.remove(message.name))
        elif message.store:
            self._keep(message, packet)
        if message.ready and self._ready_at is None:
            self._ready_at, self._was_ready = now, True
            log("ready", child=self.settings.name)
        if message.status is not None:
            self.status = message.status[:512]
            log("status", child=self.settings.name, text=self.status)
        if message.stopping:
            log("stopping", child=self.settings.name)
        if self.phase is Phase.RUNNING:
            if message.trigger:
                self._abort(now, "it asked for it")
            elif message.alive or message.ready:
                self._expect_life(now)

    def due(self, now: float) -> None:
        """Do what the deadline asks for, if it has come.

        A missed sign of life counts only if it does not come in a while after it was missed. A machine that stood
        still, keeper and child alike, would otherwise be woken to find a healthy child late, and kill it.
        """
        if self.deadline is None or now < self.deadline:
            return
        if self.phase is Phase.WAITING:
            self._start(now)
        elif self.phase is not Phase.RUNNING:
            self.kill()
        elif not self._overdue:
            self._overdue = True
            self.deadline = now + min(_LONGEST_GRACE, self._limit() / 2)
        else:
            self._abort(now, "no sign of life in time" if self._ready_at is not None else "not ready in time")

    def died(self, now: float) -> bool:
        """Reap the process, whose pidfd is readable, and say whether it is gone. The next may be due at once."""
        assert self.process is not None
        reaped, code = _reap(self.process)
        if not reaped:
            return False
        log("ended", child=self.settings.name, pid=self.process.pid, code=code, phase=self.phase.value)
        self.process.close()
        self.process = None
        self._runtime.forget(self.settings.name)
        self.last_code, self.last_words = code, self.status
        hopeless = code == WRONG_SETTINGS
        if hopeless:
            log("settings are wrong", child=self.settings.name, reason=self.status, stored=len(self.store))
        # What was ready once, or has something in store, is tried again all the same: to end would cost others' work or
        # free that memory, while the settings may yet be mended.
        ends = hopeless and not self._was_ready and not len(self.store)
        if self.phase is Phase.STOPPING or self.settings.once or ends:
            self.exit_code = code
            self.phase, self.deadline = Phase.ENDED, None
        else:
            self._await_restart(now, hopeless)
        return True

    def stop(self, now: float, most: float | None = None) -> None:
        """Ask the process to end (SIGTERM); it is killed after the grace, or after `most` seconds from now.

        May be repeated, with less time left.
        """
        if self.process is None:
            self.phase, self.deadline = Phase.ENDED, None
            return
        if self.phase is not Phase.STOPPING:
            self._signal(signal.SIGTERM)
            self.phase, self.deadline = Phase.STOPPING, now + self.settings.stop_grace
        if most is not None and self.deadline is not None:
            self.deadline = min(self.deadline, now + most)

    def kill(self) -> None:
        """Send SIGKILL; the pidfd tells when it has worked."""
        if self.process is not None:
            log("killing", child=self.settings.name, pid=self.process.pid)
            self._signal(signal.SIGKILL)
        self.deadline = None

    def close(self) -> None:
        """Drop what is stored and let go of the process."""
        self.store.close()
        if self.process is not None:
            self.process.close()
            self.process = None

    def _start(self, now: float) -> None:
        entries = self.store.entries
        environment = child_environment(
            str(self._runtime.socket_path),
            [entry.name for entry in entries],
            self.settings.store_limit,
            self.settings.watchdog,
        )
        self._ready_at, self.status = None, ""
        self.starts += 1
        try:
            self.process = spawn(
                self.settings.name, self.settings.command, environment, [entry.descriptor for entry in entries]
            )
            self._runtime.record(self.settings.name, self.process.pid)
        except (OSError, ProcessError) as error:
            log("start failed", child=self.settings.name, error=error)
            if self.process is None:
                self._await_restart(now)
                return
        self.phase, self.deadline, self._overdue = Phase.RUNNING, now + self.settings.start_limit, False
        log("started", child=self.settings.name, pid=self.process.pid, descriptors=len(entries))

    def _expect_life(self, now: float) -> None:
        self.deadline = None if self.settings.watchdog is None else now + self.settings.watchdog
        self._overdue = False

    def _limit(self) -> float:
        if self._ready_at is None or self.settings.watchdog is None:
            return self.settings.start_limit
        return self.settings.watchdog

    def _await_restart(self, now: float, hopeless: bool = False) -> None:
        delay = self.settings.restart_delay
        if self._ready_at is not None and now - self._ready_at >= delay.settled:
            self.deaths = 0
        self.deaths += 1
        wait = delay.longest if hopeless else delay.after(self.deaths)
        self.phase, self.deadline = Phase.WAITING, now + wait
        if wait:
            log("waiting", child=self.settings.name, deaths=self.deaths, seconds=wait)

    def _keep(self, message: Notification, packet: Packet) -> None:
        descriptors, packet.descriptors = packet.descriptors, []
        for index, descriptor in enumerate(descriptors):
            try:
                if self.store.add(message.name, descriptor, watch=message.watch):
                    log("stored", child=self.settings.name, name=message.name, count=len(self.store))
            except (ValueError, StoreFull, OSError) as error:
                close_all(descriptors[index + 1 :])
                log("not stored", child=self.settings.name, error=error, dropped=len(descriptors) - index)
                return

    def _abort(self, now: float, reason: str) -> None:
        log("watchdog", child=self.settings.name, reason=reason)
        self._signal(signal.SIGABRT)
        self.phase, self.deadline = Phase.ABORTING, now + self.settings.abort_grace

    def _signal(self, number: int) -> None:
        try:
            if self.process is not None:
                self.process.signal(number)
        except ProcessError as error:
            log("signal refused", child=self.settings.name, error=error)


def _reap(process: Process) -> tuple[bool, int | None]:
    """Return whether the process is gone, and its exit status: negative for a signal, None if not ours to know."""
    try:
        result = os.waitid(os.P_PIDFD, process.pidfd, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        # Started by an earlier keeper: whoever is its parent now reaps it.
        return True, None
    if result is None:
        return False, None
    return True, result.si_status if result.si_code == os.CLD_EXITED else -result.si_status
