"""A child for the keeper's tests: it counts its lives in stored memory, reports each in a journal, and then does as told.

Arguments: the journal's path, and what to do.
"""

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

from blockmgr.configuration import WRONG_SETTINGS
from blockmgr.inherited import inherited_descriptors
from blockmgr.notify import Notifier, watchdog_interval

LIVES = 20


def count_life(notifier: Notifier, inherited: dict[str, list[int]]) -> tuple[int, int]:
    """Return the number of this life, from 1 on, and the descriptor of the memory that holds it."""
    if "counter" in inherited:
        (counter,) = inherited["counter"]
    else:
        counter = os.memfd_create("counter")
        os.write(counter, bytes(8))
        notifier.store_descriptor("counter", [counter])
        notifier.barrier(60)
    life = int.from_bytes(os.pread(counter, 8, 0), "little") + 1
    os.pwrite(counter, life.to_bytes(8, "little"), 0)
    return life, counter


def serve(notifier: Notifier, descriptors: dict[str, list[int]], ended: list[int], asked: list[int]) -> None:
    """Give signs of life until told to stop, and a word when asked; store everything again with a new keeper."""
    # A sleep outlasts the signal that asks for the end: it is a short one, however rarely signs of life are wanted.
    interval = min((watchdog_interval() or 1.0) / 4, 0.2)
    while not ended:
        if notifier.replaced():
            for name, fds in descriptors.items():
                notifier.store_descriptor(name, fds)
        notifier.watchdog()
        while asked:
            asked.pop()
            report(notifier, "asked")
        time.sleep(interval)
    notifier.stopping()


def main() -> None:
    journal, task = sys.argv[1:3]
    found = sorted(int(name) for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}"))
    inherited = inherited_descriptors()
    notifier = Notifier.from_environment()
    if task == "wrong settings":
        notifier.status("port is x")
        sys.exit(WRONG_SETTINGS)
    life, counter = count_life(notifier, inherited)
    entry = {
        "pid": os.getpid(),
        "life": life,
        "names": sorted(inherited),
        "open": found,
        "session": os.getsid(0),
        "limit": notifier.store_limit,
    }
    with open(journal, "a") as lines:
        lines.write(json.dumps(entry) + "\n")
    if task == "late":
        signal.pause()
    if task == "fail":
        sys.exit(7)
    if task == "settings wrong once" and life == 2:
        sys.exit(WRONG_SETTINGS)
    if task == "deaf":
        signal.signal(signal.SIGABRT, signal.SIG_IGN)
    ended: list[int] = []
    asked: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, _: asked.append(number))
    signal.signal(signal.SIGTERM, lambda number, _: None if task == "patient" else ended.append(number))
    assert notifier.ready()
    descriptors = {"counter": [counter]}
    if task == "die":
        if life <= LIVES:
            os.kill(os.getpid(), signal.SIGKILL)
    elif task == "stop itself":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif task in ("hang", "deaf"):
        signal.pause()
    elif task == "end":
        sys.exit(0)
    elif task == "trigger":
        send(b"WATCHDOG=trigger")
        signal.pause()
    elif task == "last words" and life == 1:
        for number in range(8):
            notifier.store_descriptor(f"last {number}", [os.memfd_create("last")])
        os.kill(os.getpid(), signal.SIGKILL)
    elif task == "hoard":
        for number in range(4):
            notifier.store_descriptor(f"hoard {number}", [os.memfd_create("hoard")]) if number < 1 else send(
                f"FDSTORE=1\nFDNAME=hoard {number}".encode(), os.memfd_create("hoard")
            )
        report(notifier, "hoarded")
    elif task == "nonsense":
        for packet in (
            b"",
            b"\xff\xfe",
            b"=",
            b"FDSTORE=1",
            b"READY=1\0",
            b"x" * 9000,
            b"FDSTORE=1\nFDNAME=a:b",
            b"BARRIER=1",
        ):
            send(packet)
            send(packet, 1, 1)
        report(notifier, "talked nonsense")
    elif task == "flood":
        for number in range(1000):
            send(b"STATUS=%d" % number)
        notifier.barrier(60)
        Path(journal).with_suffix(".flooded").touch()
    elif task == "pipes":
        reading, writing = os.pipe()
        descriptors["pipe"] = [reading]
        notifier.store_descriptor("pipe", [reading], poll=True)
        gone = os.fork()
        if gone == 0:
            os._exit(0)
        pidfd = os.pidfd_open(gone)
        os.waitpid(gone, 0)
        notifier.store_descriptor("dead process", [pidfd])
        notifier.barrier(60)
        os.close(writing)
    serve(notifier, descriptors, ended, asked)


def report(notifier: Notifier, text: str) -> None:
    """Set the status once all that was sent before has been handled, when there is room for it."""
    notifier.barrier(60)
    assert notifier.status(text)


def send(packet: bytes, *descriptors: int) -> None:
    """Send a packet, waiting as long as it takes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as raw:
        raw.connect(os.environ["NOTIFY_SOCKET"])
        try:
            socket.send_fds(raw, [packet], list(descriptors))
        except OSError as error:
            print(error, file=sys.stderr)


if __name__ == "__main__":
    main()
