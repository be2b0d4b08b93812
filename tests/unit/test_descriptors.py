import asyncio
import fcntl
import gc
import json
import mmap
import os
import re
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
import uvloop

from blockmgr.descriptors import DescriptorError, DescriptorServer, Offer, fetch, fetch_ledger, give_back, introduce
from blockmgr.packets import close_all, rights
from blockmgr.processes import Process
from tests.unit.open_descriptors import await_closed, open_descriptors

INSTANCE = "0123456789abcdef" * 2
T = TypeVar("T")

PATIENT = 60.0
"""Seconds for what does not take any, however busy the machine is."""


class Manager:
    """Callbacks that record what they were given."""

    def __init__(self) -> None:
        self.processes: list[Process] = []
        self.returned: list[tuple[str, int]] = []
        self.offers: list[Offer] = []
        self.asked: list[tuple[str, int, str]] = []
        self.refuse: Exception | None = None

    def on_introduce(self, instance: str, processes: list[Process]) -> None:
        if self.refuse:
            raise self.refuse
        assert instance == INSTANCE
        self.processes += processes

    async def on_fetch(self, instance: str, epoch: int, pool: str) -> Sequence[Offer]:
        if self.refuse:
            raise self.refuse
        self.asked.append((instance, epoch, pool))
        return self.offers

    def on_return(self, instance: str, descriptors: list[tuple[str, int]]) -> None:
        if self.refuse:
            raise self.refuse
        self.returned += descriptors

    def on_ledger(self, pool: str | None) -> Offer:
        if self.refuse:
            raise self.refuse
        self.asked.append(("", 0, str(pool)))
        return self.offers[0]

    def close(self) -> None:
        for process in self.processes:
            process.close()
        close_all(descriptor for _, descriptor in self.returned)
        close_all({offer.descriptor for offer in self.offers})


@asynccontextmanager
async def serving(path: Path, manager: Manager, **limits: Any) -> AsyncIterator[DescriptorServer]:
    server = DescriptorServer(
        path,
        on_introduce=manager.on_introduce,
        on_fetch=manager.on_fetch,
        on_return=manager.on_return,
        on_ledger=manager.on_ledger,
        **{"connection_seconds": PATIENT, **limits},
    )
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@pytest.fixture(autouse=True, scope="module")
def _only_new_objects_are_garbage() -> Iterator[None]:
    """What other modules have left is looked through once, not with each count of descriptors."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _who_asks_is_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    for call in (fetch, fetch_ledger, give_back, introduce):
        monkeypatch.setitem(cast(Any, call).__kwdefaults__, "timeout", PATIENT)


@pytest.fixture
def manager() -> Iterator[Manager]:
    manager = Manager()
    yield manager
    manager.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "descriptors"


@pytest.fixture
def serve(path: Path, manager: Manager) -> Callable[..., T]:
    """Run a plain function in a thread against a server on a loop."""

    def run(work: Callable[[], T], **limits: Any) -> T:
        async def main() -> T:
            async with serving(path, manager, **limits):
                return await asyncio.wait_for(asyncio.to_thread(work), 60)

        return asyncio.run(main())

    return run


@contextmanager
def sleeper() -> Iterator[tuple[subprocess.Popen[bytes], Process]]:
    child = subprocess.Popen(["sleep", "60"])
    try:
        with Process.open(child.pid, "engine") as process:
            yield child, process
    finally:
        child.kill()
        child.wait()


def memory(content: bytes) -> int:
    descriptor = os.memfd_create("x", os.MFD_CLOEXEC)
    os.write(descriptor, content)
    return descriptor


def ask(path: Path, message: object, descriptors: Sequence[int] = ()) -> dict[str, Any]:
    """Send one raw packet and return the answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(60)
        connection.connect(str(path))
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        connection.sendmsg([data], rights(descriptors))
        answer: dict[str, Any] = json.loads(connection.recv(1 << 16))
        return answer


def test_an_introduced_process_is_held_by_a_pidfd_of_the_managers_own(
    serve: Callable[..., None], path: Path, manager: Manager
) -> None:
    with sleeper() as (child, process):
        serve(lambda: introduce(path, INSTANCE, [process, Process(os.getpid(), os.pidfd_open(os.getpid()), "device")]))
        engine, device = manager.processes
        assert (engine.pid, engine.role) == (child.pid, "engine")
        assert (device.pid, device.role) == (os.getpid(), "device")
        assert engine.pidfd != process.pidfd
        engine.kill()
        assert engine.wait(60)
        assert process.is_dead


def test_the_socket_is_open_to_the_owner_only_and_gone_after_stop(
    serve: Callable[..., int], path: Path, manager: Manager
) -> None:
    path.write_text("left over")
    assert serve(lambda: stat.S_IMODE(path.stat().st_mode)) == 0o600
    assert not path.exists()


def test_fetched_descriptors_are_copies_with_their_meta(
    serve: Callable[..., dict[str, tuple[int, dict[str, Any]]]], path: Path, manager: Manager
) -> None:
    manager.offers = [Offer("ledger", memory(b"table"), {"bytes": 5}), Offer("pool.0", memory(b"cache"))]
    found = serve(lambda: fetch(path, INSTANCE, 3, "main"))
    assert manager.asked == [(INSTANCE, 3, "main")]
    assert {name: (os.pread(fd, 9, 0), meta) for name, (fd, meta) in found.items()} == {
        "ledger": (b"table", {"bytes": 5}),
        "pool.0": (b"cache", {}),
    }
    assert not any(os.get_inheritable(fd) for fd, _ in found.values())
    os.pread(manager.offers[0].descriptor, 1, 0)
    close_all(fd for fd, _ in found.values())


@pytest.mark.parametrize("count", [0, 1, 64, 65, 200])
def test_any_number_of_descriptors_arrives_in_order(
    serve: Callable[..., dict[str, tuple[int, dict[str, Any]]]], path: Path, manager: Manager, count: int
) -> None:
    manager.offers = [Offer(f"extent.{n}", memory(str(n).encode())) for n in range(count)]
    found = serve(lambda: fetch(path, INSTANCE, 0, "main"))
    assert [(name, os.pread(fd, 9, 0)) for name, (fd, _) in found.items()] == [
        (f"extent.{n}", str(n).encode()) for n in range(count)
    ]
    close_all(fd for fd, _ in found.values())


def test_a_ledger_comes_as_a_descriptor_for_reading_only(
    serve: Callable[..., tuple[int, dict[str, Any]]], path: Path, manager: Manager
) -> None:
    manager.offers = [Offer("ledger.main", memory(b"table"), {"pool": "main"})]
    descriptor, meta = serve(lambda: fetch_ledger(path, "main"))
    try:
        assert (os.pread(descriptor, 9, 0), meta) == (b"table", {"pool": "main"})
        assert fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.pwrite(descriptor, b"x", 0)
        with pytest.raises(PermissionError):
            mmap.mmap(descriptor, 5, access=mmap.ACCESS_WRITE)
        assert not os.get_inheritable(descriptor)
    finally:
        os.close(descriptor)
    assert os.pwrite(manager.offers[0].descriptor, b"T", 0) == 1


@pytest.mark.parametrize("pool", [None, "main"])
def test_a_ledger_is_asked_for_by_name_or_as_the_only_one(
    serve: Callable[..., None], path: Path, manager: Manager, pool: str | None
) -> None:
    manager.offers = [Offer("ledger.main", memory(b"table"))]
    before = open_descriptors()
    serve(lambda: os.close(fetch_ledger(path, pool)[0]))
    assert manager.asked == [("", 0, str(pool))]
    await_closed(before)


def test_descriptors_can_be_given_back(serve: Callable[..., None], path: Path, manager: Manager) -> None:
    held = {f"extent.{n}": memory(str(n).encode()) for n in range(70)}
    serve(lambda: give_back(path, INSTANCE, held))
    assert [(name, os.pread(fd, 9, 0)) for name, fd in manager.returned] == [
        (f"extent.{n}", str(n).encode()) for n in range(70)
    ]
    assert not set(held.values()) & {fd for _, fd in manager.returned}
    close_all(held.values())


def test_a_refusal_reaches_the_caller_with_its_reason(serve: Callable[..., None], path: Path, manager: Manager) -> None:
    manager.refuse = DescriptorError("stale-epoch", "epoch 3, now 4")
    held = {"ledger": memory(b"")}

    def work() -> None:
        with Process.open(os.getpid(), "engine") as process:
            for call in (
                lambda: introduce(path, INSTANCE, [process]),
                lambda: fetch(path, INSTANCE, 3, "main"),
                lambda: give_back(path, INSTANCE, held),
                lambda: fetch_ledger(path),
            ):
                with pytest.raises(DescriptorError, match="epoch 3, now 4") as caught:
                    call()
                assert caught.value.reason == "stale-epoch"

    before = open_descriptors()
    serve(work)
    await_closed(before)
    close_all(held.values())


def test_a_failure_of_the_manager_is_an_answer_and_the_server_goes_on(
    serve: Callable[..., None], path: Path, manager: Manager
) -> None:
    def work() -> None:
        manager.refuse = ZeroDivisionError("secret")
        assert ask(path, {"op": "fetch", "instance": INSTANCE, "epoch": 1, "pool": "main"}) == {
            "error": "internal",
            "detail": "the manager failed; see its log",
        }
        manager.refuse = OSError("secret")
        assert ask(path, {"op": "fetch", "instance": INSTANCE, "epoch": 1, "pool": "main"})["error"] == "internal"
        manager.refuse = None
        assert fetch(path, INSTANCE, 1, "main") == {}

    serve(work)


GOOD = {"op": "introduce", "instance": INSTANCE, "processes": [{"pid": 1, "role": "engine"}]}


@pytest.mark.parametrize(
    ("message", "descriptors", "detail"),
    [
        (b"\xff", 0, "not JSON"),
        (b"[" * 60_000, 0, "not JSON"),
        ([], 0, "not a JSON object"),
        ({}, 0, "op: None is not"),
        ({**GOOD, "op": "dance"}, 1, "op: 'dance' is not introduce, fetch, return or ledger"),
        ({"op": "ledger", "pool": 7}, 0, "pool: 7 is not a text"),
        ({**GOOD, "instance": "ABC"}, 1, "instance: 'ABC' is not 32"),
        ({**GOOD, "processes": []}, 0, "processes: \\[\\] is not a list of 1 to 64"),
        ({**GOOD, "processes": [{}] * 65}, 1, "is not a list of 1 to 64"),
        (GOOD, 2, "1 entries, but 2 descriptors came"),
        (GOOD, 0, "1 entries, but 0 descriptors came"),
        (GOOD, 1, "engine 1: descriptor .* is not a pidfd"),
        ({**GOOD, "processes": ["x"]}, 1, "an entry is not an object"),
        ({**GOOD, "processes": [{"pid": True, "role": "x"}]}, 1, "pid: True is not a whole number from 1"),
        ({**GOOD, "processes": [{"pid": 1, "role": ""}]}, 1, "role: '' is not a text of 1 to 255"),
        ({"op": "fetch", "instance": INSTANCE, "epoch": -1, "pool": "x"}, 0, "epoch: -1 is not a whole number from 0"),
        ({"op": "fetch", "instance": INSTANCE, "epoch": 0, "pool": 7}, 0, "pool: 7 is not a text"),
        ({"op": "return", "instance": INSTANCE, "names": ["a:b"]}, 1, "holds ':'"),
        ({"op": "return", "instance": INSTANCE, "names": [3]}, 1, "names: 3 is not a text"),
        ({"op": "return", "instance": INSTANCE, "names": ["a", "a"]}, 2, "one occurs twice"),
    ],
)
def test_nonsense_is_refused_by_field_and_leaks_nothing(
    serve: Callable[..., dict[str, Any]], path: Path, manager: Manager, message: object, descriptors: int, detail: str
) -> None:
    before = open_descriptors()
    answer = serve(lambda: ask(path, message, [0] * descriptors))
    assert answer["error"] == "bad-request"
    assert re.search(detail, answer["detail"])
    assert not manager.processes
    assert not manager.returned
    await_closed(before)


def test_a_pidfd_of_another_process_or_of_a_dead_one_is_refused(
    serve: Callable[..., None], path: Path, manager: Manager
) -> None:
    def work() -> None:
        with sleeper() as (child, process):
            with pytest.raises(DescriptorError, match=f"engine {os.getpid()}: the pidfd is of process {child.pid}"):
                introduce(path, INSTANCE, [Process(os.getpid(), process.pidfd, "engine")])
            process.kill()
            assert process.wait(60)
            with pytest.raises(DescriptorError, match=f"dead: engine {child.pid} has exited"):
                introduce(path, INSTANCE, [process])
            child.wait()
            with pytest.raises(DescriptorError, match="has exited"):
                introduce(path, INSTANCE, [process])

    before = open_descriptors()
    serve(work)
    assert not manager.processes
    await_closed(before)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its user")
def test_a_process_of_another_user_is_refused(serve: Callable[..., str], path: Path, manager: Manager) -> None:
    program = (
        "import os, sys\nfrom blockmgr.descriptors import fetch, DescriptorError\n"
        "os.setuid(65534)\n"
        "os.chdir(3)\n"
        "try: fetch('descriptors', '0' * 32, 1, 'main')\n"
        "except DescriptorError as error: print(error)\n"
    )

    def work() -> str:
        # The socket's mode keeps others out; opened here for once, to see the second check.
        path.chmod(0o666)
        path.parent.chmod(0o755)
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            return subprocess.run(
                [sys.executable, "-c", program.replace("chdir(3)", f"chdir({directory})")],
                capture_output=True,
                text=True,
                check=True,
                pass_fds=[directory],
            ).stdout
        finally:
            os.close(directory)

    assert "not-allowed" in (answer := serve(work)), answer
    assert "runs as uid 65534; only uid 0 and root may connect" in answer
    assert manager.asked == []


def test_connections_beyond_the_limit_are_told_so(serve: Callable[..., None], path: Path, manager: Manager) -> None:
    def work() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as idle:
            idle.connect(str(path))
            with pytest.raises(DescriptorError, match="busy: 1 connections are open, which is the limit"):
                fetch(path, INSTANCE, 1, "main")

    serve(work, most_connections=1)


def test_a_connection_that_says_nothing_is_ended(serve: Callable[..., bytes], path: Path, manager: Manager) -> None:
    def work() -> bytes:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as idle:
            idle.settimeout(60)
            idle.connect(str(path))
            answer = idle.recv(4096)
            assert idle.recv(4096) == b""
            return answer

    assert json.loads(serve(work, connection_seconds=0.05))["error"] == "timeout"


def test_a_reader_that_does_not_read_holds_up_nobody_else(
    serve: Callable[..., None], path: Path, manager: Manager
) -> None:
    manager.offers = [Offer(f"{n}", memory(b""), {"text": "x" * 500}) for n in range(100)]
    request = json.dumps({"op": "fetch", "instance": INSTANCE, "epoch": 1, "pool": "main"}).encode()

    def work() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as deaf:
            deaf.connect(str(path))
            deaf.setblocking(False)
            for _ in range(1000):
                try:
                    deaf.send(request)
                except BlockingIOError:
                    break
            found = fetch(path, INSTANCE, 1, "main")
            assert len(found) == 100
            close_all(fd for fd, _ in found.values())

    before = open_descriptors()
    serve(work)
    await_closed(before)


def test_stopping_cuts_off_what_is_under_way(path: Path, manager: Manager) -> None:
    async def main() -> None:
        asked = asyncio.Event()

        async def never(instance: str, epoch: int, pool: str) -> Sequence[Offer]:
            asked.set()
            return await asyncio.Future()

        server = DescriptorServer(
            path,
            on_introduce=manager.on_introduce,
            on_fetch=never,
            on_return=manager.on_return,
            on_ledger=manager.on_ledger,
        )
        await server.start()
        request = asyncio.create_task(asyncio.to_thread(fetch, path, INSTANCE, 1, "main"))
        await asked.wait()
        await asyncio.wait_for(server.stop(), 60)
        with pytest.raises(DescriptorError, match="unreachable"):
            await request

    asyncio.run(main())


def test_a_manager_that_is_not_there_or_does_not_answer_is_an_error_in_time(path: Path) -> None:
    with pytest.raises(DescriptorError, match="unreachable"):
        fetch(path, INSTANCE, 1, "main")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        silent.bind(str(path))
        silent.listen()
        with pytest.raises(DescriptorError, match="timeout"):
            fetch(path, INSTANCE, 1, "main", timeout=0.05)


def test_a_reply_that_goes_wrong_midway_leaves_no_descriptor_behind(path: Path) -> None:
    replies = [
        ({"items": [{"name": "a", "meta": {}}], "more": True}, [0]),
        ({"items": [{"name": "a", "meta": {}}, {"name": "b", "meta": {}}], "more": False}, [0, 1]),
    ]

    def answer(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(4096)
            for message, descriptors in replies:
                connection.sendmsg([json.dumps(message).encode()], rights(descriptors))

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(path))
        listening.listen()
        before = open_descriptors()
        thread = threading.Thread(target=answer, args=(listening,))
        thread.start()
        with pytest.raises(DescriptorError, match="'a' came twice"):
            fetch(path, INSTANCE, 1, "main")
        thread.join()
        await_closed(before)


def test_it_runs_on_uvloop_too(path: Path, manager: Manager) -> None:
    manager.offers = [Offer(f"{n}", memory(b"")) for n in range(100)]

    async def main() -> int:
        async with serving(path, manager):
            found = await asyncio.to_thread(fetch, path, INSTANCE, 1, "main")
            close_all(fd for fd, _ in found.values())
            return len(found)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(main()) == 100
