"""The client's side of systemd's notification protocol: state, watchdog and the descriptor store.

The manager speaks it to whoever started it, systemd or the keeper (`blockmgr.keeper`), over the datagram socket named
by $NOTIFY_SOCKET. What it stored in an earlier life it finds among the `inherited` descriptors.

A datagram can be refused while the receiver is busy, and sent is not received. So a store on which memory depends is
sent again until it is taken, and confirmed by a barrier: the receiver closes the barrier's pipe once it has handled
everything sent before. Nothing here waits without a limit.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from blockmgr.packets import MOST_DESCRIPTORS, check_name, rights

_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.02


class NotifyError(Exception):
    """The service manager did not take a message, or what it passed on cannot be read."""


class Notifier:
    """Sends notifications to the service manager. It owns one socket; the descriptors it sends stay the caller's.

    Without $NOTIFY_SOCKET nobody listens (`present` is false): every call is accepted and nothing is stored, so that
    memory then lasts only as long as the processes that hold it.
    """

    def __init__(self, address: str | None, store_limit: int | None = None) -> None:
        """Speak to the socket `address` (a path, or '@name' for an abstract one); None means to nobody.

        `store_limit` is the most descriptors that the other side keeps, None if it did not say.

        Raises:
            NotifyError: the address is neither an absolute path nor abstract.
        """
        if address is not None and address[:1] not in ("/", "@"):
            raise NotifyError(f"NOTIFY_SOCKET is {address!r}; it must be an absolute path or start with '@'")
        self.store_limit = store_limit
        self.stored: dict[str, int] = {}
        self._unremoved: set[str] = set()
        """Names whose removal was not taken. It comes ahead of the next store, or a name could stand for two things."""
        self._address = address
        self._socket: socket.socket | None = None
        self._receiver = self._identity()
        if address is not None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Notifier:
        """Speak to $NOTIFY_SOCKET, if it is set; $FDSTORE gives the size of the store.

        Raises:
            NotifyError: a variable does not parse.
        """
        limit = environment.get("FDSTORE")
        if limit is not None and not limit.isdecimal():
            raise NotifyError(f"FDSTORE is {limit!r}; it must be a number of descriptors")
        return cls(environment.get("NOTIFY_SOCKET") or None, None if limit is None else int(limit))

    @property
    def present(self) -> bool:
        """Whether anybody is there to be notified and to store descriptors."""
        return self._socket is not None

    def replaced(self) -> bool:
        """Say, once, whether another receiver took the old one's place, as when a keeper died and was started anew.

        A new receiver stores nothing yet: everything has to be stored again, and `stored` has been cleared for it.
        """
        now = self._identity()
        if now is None or now == self._receiver:
            return False
        self._receiver = now
        self.stored = {}
        self._unremoved.clear()
        return True

    def ready(self) -> bool:
        """Report that start-up is over. Tries for half a second; says whether it was taken."""
        return self._offer(b"READY=1", 0.5)

    def stopping(self) -> bool:
        """Report that the process is on its way out. Tries for half a second; says whether it was taken."""
        return self._offer(b"STOPPING=1", 0.5)

    def status(self, text: str) -> bool:
        """Report one line for people. Tried once; says whether it was taken."""
        return self._offer(b"STATUS=" + " ".join(text.split()).encode()[:1024], 0.0)

    def watchdog(self) -> bool:
        """Give the sign of life due at least every `watchdog_interval`. Tried once; says whether it was taken."""
        return self._offer(b"WATCHDOG=1", 0.0)

    def store_descriptor(self, name: str, fds: Sequence[int], *, poll: bool = False, timeout: float = 1.0) -> None:
        """Hand copies of `fds` over for keeping, to be passed on to the next incarnation of this process under `name`.

        Several descriptors may share a name; store each once. With `poll` the keeper drops a descriptor by itself when
        it hangs up, which is wrong for a pidfd: that is needed most once its process has died.
        This may wait for `timeout` seconds; in an event loop use `deposit`. Follow with `barrier` before relying on it.

        Raises:
            ValueError: the name may not be used.
            NotifyError: not taken in time, or more than the store holds.
        """
        while self._unremoved:
            self.remove_descriptor(min(self._unremoved), timeout)
        for packet, batch in self._store_packets(name, fds, poll):
            self._deliver(packet, batch, timeout)
            self.stored[name] = self.stored.get(name, 0) + len(batch)

    async def deposit(self, name: str, fds: Sequence[int], *, poll: bool = False, within: float = 1.0) -> None:
        """Do as `store_descriptor` and `barrier` do, without holding up the event loop.

        When this returns the receiver has handled the message; the descriptors outlive this process.

        Raises:
            ValueError: the name may not be used.
            NotifyError: not taken and confirmed within `within` seconds each, or more than the store holds.
        """
        await self._remove_left(within)
        for packet, batch in self._store_packets(name, fds, poll):
            for pause in self._attempts(packet, batch, within):
                await asyncio.sleep(pause)
            self.stored[name] = self.stored.get(name, 0) + len(batch)
        if self.present:
            await self._confirm(within)

    def remove_descriptor(self, name: str, timeout: float = 1.0) -> None:
        """Have everything stored under `name` dropped. May wait for `timeout` seconds.

        Raises:
            ValueError: the name may not be used.
            NotifyError: not taken in time. It is asked for again ahead of whatever is stored next.
        """
        check_name(name)
        self.stored.pop(name, None)
        self._unremoved.add(name)
        self._deliver(b"FDSTOREREMOVE=1\nFDNAME=" + name.encode(), (), timeout)
        self._unremoved.discard(name)

    def barrier(self, timeout: float = 1.0) -> None:
        """Wait until everything sent so far has been handled.

        Raises:
            NotifyError: not confirmed within `timeout` seconds.
        """
        if not self.present:
            return
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        try:
            try:
                self._deliver(b"BARRIER=1", (theirs,), timeout)
            finally:
                os.close(theirs)
            hung_up = select.poll()
            hung_up.register(ours, 0)
            if not hung_up.poll(timeout * 1000):
                raise NotifyError(f"the service manager did not answer a barrier within {timeout} s")
        finally:
            os.close(ours)

    def close(self) -> None:
        """Close the socket. What is stored stays stored."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _identity(self) -> tuple[int, int] | None:
        """Return what tells the bound socket from a later one at the same path."""
        if self._address is None or self._address.startswith("@"):
            return None
        try:
            found = os.stat(self._address)
        except OSError:
            return None
        return found.st_ino, found.st_ctime_ns

    def _store_packets(self, name: str, fds: Sequence[int], poll: bool) -> Iterator[tuple[bytes, Sequence[int]]]:
        check_name(name)
        held = sum(self.stored.values())
        if self.store_limit is not None and held + len(fds) > self.store_limit:
            raise NotifyError(
                f"{len(fds)} descriptors for {name!r} do not fit: the store holds {self.store_limit}, {held} are taken"
            )
        packet = b"FDSTORE=1\nFDNAME=" + name.encode() + (b"" if poll else b"\nFDPOLL=0")
        for start in range(0, len(fds), MOST_DESCRIPTORS):
            yield packet, fds[start : start + MOST_DESCRIPTORS]

    async def _remove_left(self, within: float) -> None:
        """Remove what could not be removed before. Tried as a whole each time: another deposit may have done it meanwhile,
        and stored the name anew.
        """
        end = time.monotonic() + within
        while self._unremoved:
            try:
                self.remove_descriptor(min(self._unremoved), timeout=0.0)
            except NotifyError:
                if time.monotonic() > end:
                    raise
                await asyncio.sleep(_LONGEST_PAUSE)

    async def _confirm(self, within: float) -> None:
        ours, theirs = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        loop = asyncio.get_running_loop()
        closed = asyncio.Event()
        try:
            try:
                for pause in self._attempts(b"BARRIER=1", (theirs,), within):
                    await asyncio.sleep(pause)
            finally:
                os.close(theirs)
            # Nobody writes into the pipe, so readable means closed at the other end.
            loop.add_reader(ours, closed.set)
            await asyncio.wait_for(closed.wait(), within)
        except TimeoutError:
            raise NotifyError(f"the service manager did not answer a barrier within {within} s") from None
        finally:
            loop.remove_reader(ours)
            os.close(ours)

    def _offer(self, packet: bytes, timeout: float) -> bool:
        try:
            self._deliver(packet, (), timeout)
        except NotifyError:
            return False
        return True

    def _deliver(self, packet: bytes, fds: Sequence[int], timeout: float) -> None:
        for pause in self._attempts(packet, fds, timeout):
            time.sleep(pause)

    def _attempts(self, packet: bytes, fds: Sequence[int], timeout: float) -> Iterator[float]:
        """Send; as long as the receiver's queue is full, yield how long to pause before trying again."""
        if self._socket is None or self._address is None:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        end = time.monotonic() + timeout
        pause = _FIRST_PAUSE
        while True:
            try:
                # To an address, not a connection: a receiver that was started anew is found by the same path.
                self._socket.sendmsg([packet], rights(fds), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL, address)
                return
            except BlockingIOError:
                if time.monotonic() + pause > end:
                    raise NotifyError(f"the service manager took no message for {timeout} s") from None
            except OSError as error:
                raise NotifyError(f"the service manager cannot be reached at {self._address}: {error}") from error
            yield pause
            pause = min(2 * pause, _LONGEST_PAUSE)


def say_why_it_ends(text: str) -> None:
    """Leave a line for people with the service manager, if there is one, before this process ends."""
    with suppress(NotifyError):
        notifier = Notifier.from_environment()
        notifier.status(text)
        notifier.close()


def watchdog_interval(environment: Mapping[str, str] = os.environ) -> float | None:
    """Return the seconds within which a sign of life is due each time, None if nobody watches this process.

    Send at half of it, as systemd advises.

    Raises:
        NotifyError: WATCHDOG_USEC does not parse.
    """
    interval, pid = environment.get("WATCHDOG_USEC"), environment.get("WATCHDOG_PID")
    if not interval or (pid and pid != str(os.getpid())):
        return None
    if not interval.isdecimal() or int(interval) == 0:
        raise NotifyError(f"WATCHDOG_USEC is {interval!r}; it must be a number of microseconds above 0")
    return int(interval) / 1e6
