"""The keeper's one loop: notifications, deaths, signals and deadlines."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from blockmgr.configuration import WRONG_SETTINGS, WrongSetting
from blockmgr.keeper.child import Child, Phase
from blockmgr.keeper.log import log
from blockmgr.keeper.messages import LONGEST_MESSAGE, Notification
from blockmgr.keeper.runtime import RuntimeDirectory
from blockmgr.keeper.settings import ChildSettings
from blockmgr.keeper.table import ChildrenTable
from blockmgr.packets import PacketError, receive
from blockmgr.processes import Process

#: Notifications handled in a row before deaths, signals and deadlines get their turn.
_MESSAGES_PER_TURN = 256

#: As many times that are read before a dead child is reaped. A queue is far shorter (net.unix.max_dgram_qlen), but
#: others may go on sending.
_SHARES_FOR_LAST_WORDS = 16

_HANDLED = (signal.SIGTERM, signal.SIGINT)

#: Seconds that children have for their ends once the keeper's owner is dead.
_ORPHANS_GRACE = 3.0


class Keeper:
    """Runs children, by name, until it is told to stop. One per runtime directory.

    The keeper owns copies of whatever its children store. They are closed, and memory that nobody else holds is gone,
    when it ends; children are not stopped by its death, and the next keeper in the same directory finds them again.
    With an owner, it and the children end when that process does.
    """

    def __init__(
        self, runtime_directory: Path, children: Iterable[ChildSettings], owner: Process | None = None
    ) -> None:
        """Lock the directory and bind the socket; `run` starts the children. The owner stays the caller's.

        Raises:
            KeeperError: another keeper runs here.
            WrongSetting: a command is not to be found, or the directory cannot be used.
        """
        settings = list(children)
        for child in settings:
            if not child.command or shutil.which(child.command[0]) is None:
                raise WrongSetting(f"{child.name}: command {' '.join(child.command)!r} is not to be found")
        self._runtime = RuntimeDirectory(runtime_directory)
        self._socket = self._runtime.listen()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ)
        self.children = {child.name: Child(child, self._runtime) for child in settings}
        self._table = ChildrenTable(self._runtime.path)
        self._owner = owner
        if owner is not None:
            self._selector.register(owner.pidfd, selectors.EVENT_READ)
        self._stopping = False
        self._stops = 0
        self._ignored = 0
        self._ignored_logged = 0.0

    def run(self) -> int:
        """Run until every child has ended for good, and return the exit code for this process.

        0 if all ended well after a request to stop; of a child with `once`, or whose settings are wrong, its own code
        (128 + n for signal n); 1 if one had to be killed, or failed, while stopping. A child whose settings are wrong
        has all others stopped.
        """
        with _wakeups() as wakeups:
            self._selector.register(wakeups, selectors.EVENT_READ)
            for child in self.children.values():
                child.begin(time.monotonic())
                self._selector.register(child.store, selectors.EVENT_READ)
                self._watch(child)
            while any(child.phase is not Phase.ENDED for child in self.children.values()):
                self._table.write(self.children.values())
                self._turn(wakeups)
            self._selector.unregister(wakeups)
        self._table.write(self.children.values())
        code = self._exit_code()
        log("stopped", code=code)
        return code

    def close(self) -> None:
        """Close everything that is stored, and give the directory up."""
        self._selector.close()
        for child in self.children.values():
            child.close()
        self._socket.close()
        self._runtime.close()

    def _turn(self, wakeups: socket.socket) -> None:
        deadlines = [child.deadline for child in self.children.values() if child.deadline is not None]
        self._selector.select(max(0.0, min(deadlines) - time.monotonic()) if deadlines else None)
        now = time.monotonic()
        # Who is dead is asked first: all that the dead sent is then in the socket, and is theirs. A sign of life counts
        # even if it is read at the last moment.
        dead = [child for child in self.children.values() if child.process is not None and child.process.is_dead]
        for _ in range(_SHARES_FOR_LAST_WORDS if dead else 1):
            if self._read_notifications(now) < _MESSAGES_PER_TURN:
                break
        for child in dead:
            self._bury(child, now)
        for child in self.children.values():
            for name in child.store.drop_hung_up():
                log("hung up", child=child.settings.name, name=name)
        self._read_signals(wakeups, now)
        self._look_at_owner(now)
        self._stopping |= any(child.is_hopeless for child in self.children.values())
        if self._stopping:
            self._stop_last_stage(now)
        for child in self.children.values():
            process = child.process
            child.due(now)
            if child.process is not process:
                self._watch(child)

    def _watch(self, child: Child) -> None:
        if child.process is not None:
            self._selector.register(child.process.pidfd, selectors.EVENT_READ)

    def _bury(self, child: Child, now: float) -> None:
        assert child.process is not None
        pidfd = child.process.pidfd
        self._selector.unregister(pidfd)
        if not child.died(now):
            self._selector.register(pidfd, selectors.EVENT_READ)

    def _read_notifications(self, now: float) -> int:
        """Handle what waits on the socket, at most one turn's share; return how many messages that were."""
        for count in range(_MESSAGES_PER_TURN):
            try:
                packet = receive(self._socket, LONGEST_MESSAGE)
            except BlockingIOError:
                return count
            except (PacketError, OSError) as error:
                self._ignore(str(error), now)
                continue
            try:
                sender = packet.sender
                child = None if sender is None or sender.uid != os.geteuid() else self._child_of(sender.pid)
                if child is None:
                    self._ignore(f"a notification from {sender}, which is no child", now)
                else:
                    child.handle(Notification.parse(packet.data), packet, now)
            except ValueError as error:
                self._ignore(f"a notification that does not parse: {error}", now)
            finally:
                packet.close()
        return _MESSAGES_PER_TURN

    def _child_of(self, pid: int) -> Child | None:
        for child in self.children.values():
            if child.process is not None and child.process.pid == pid:
                return child
        return None

    def _ignore(self, reason: str, now: float) -> None:
        """Log what was ignored, at most once a second, so that a flood does not become a flood of lines."""
        self._ignored += 1
        if now - self._ignored_logged >= 1.0:
            log("ignored", reason=reason, total=self._ignored)
            self._ignored_logged = now

    def _read_signals(self, wakeups: socket.socket, now: float) -> None:
        try:
            received = [number for number in wakeups.recv(64) if number in _HANDLED]
        except BlockingIOError:
            return
        for number in received:
            self._stops += 1
            log("asked to stop", signal=signal.Signals(number).name, times=self._stops)
            self._stopping = True
            if self._stops > 1:
                for child in self.children.values():
                    # Both: what is only killed would be started again.
                    child.stop(now)
                    child.kill()

    def _look_at_owner(self, now: float) -> None:
        """Once the owner is dead nobody is left for whom to end in good order: all end now, and soon."""
        if self._owner is None or not self._owner.is_dead:
            return
        log("owner is dead", pid=self._owner.pid)
        self._selector.unregister(self._owner.pidfd)
        self._owner, self._stopping = None, True
        for child in self.children.values():
            child.stop(now, _ORPHANS_GRACE)

    def _stop_last_stage(self, now: float) -> None:
        """Ask those to stop that none of the living depends on."""
        living = [child for child in self.children.values() if child.phase is not Phase.ENDED]
        last = max((child.settings.stage for child in living), default=0)
        for child in living:
            if child.settings.stage == last:
                child.stop(now)

    def _exit_code(self) -> int:
        codes = [child.exit_code for child in self.children.values()]
        if WRONG_SETTINGS in codes:
            return WRONG_SETTINGS
        if self._stopping:
            return max((0 if code in (None, 0, -signal.SIGTERM) else 1 for code in codes), default=0)
        return max((128 - code if code < 0 else code for code in codes if code is not None), default=0)


def run_keeper(runtime_directory: Path, children: Iterable[ChildSettings], owner: Process | None = None) -> int:
    """Run a keeper in this process, from its main thread, until it is told to stop; return the exit code.

    With an owner, which stays the caller's, all ends when that process does.

    Raises:
        KeeperError: another keeper runs in this directory.
        WrongSetting: a command is not to be found, or the directory cannot be used.
    """
    keeper = Keeper(runtime_directory, children, owner)
    try:
        return keeper.run()
    finally:
        keeper.close()


@contextmanager
def _wakeups() -> Iterator[socket.socket]:
    """Turn the signals that ask for an end into bytes on a socket, which the loop can wait for."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    previous = {number: signal.signal(number, lambda *_: None) for number in _HANDLED}
    wakeup = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    try:
        yield ours
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in previous.items():
            signal.signal(number, handler)
        ours.close()
        theirs.close()
