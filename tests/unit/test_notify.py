import asyncio
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from blockmgr.inherited import inherited_descriptors
from blockmgr.notify import Notifier, NotifyError, watchdog_interval
from blockmgr.packets import MOST_DESCRIPTORS, Packet, PacketError, receive
from tests.unit.open_descriptors import await_closed, open_descriptors


class ServiceManager:
    """The receiving end, for tests."""

    def __init__(self, address: str | bytes) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.socket.settimeout(60)
        self.socket.bind(address)

    def take(self) -> Packet:
        return receive(self.socket, 4096)

    def answer(self, count: int) -> None:
        """Take `count` messages and close what came with them, from another thread."""

        def work() -> None:
            for _ in range(count):
                self.take().close()

        threading.Thread(target=work, daemon=True).start()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[ServiceManager]:
    manager = ServiceManager(str(tmp_path / "notify"))
    yield manager
    manager.socket.close()


@pytest.fixture
def notifier(manager: ServiceManager, tmp_path: Path) -> Iterator[Notifier]:
    notifier = Notifier(str(tmp_path / "notify"))
    yield notifier
    notifier.close()


def fill(notifier: Notifier) -> None:
    """Send until the receiver's queue takes no more."""
    for _ in range(10_000):
        if not notifier.watchdog():
            return
    raise AssertionError("the queue never filled")


def test_states_are_sent_as_systemd_expects_them(manager: ServiceManager, notifier: Notifier) -> None:
    assert notifier.present
    assert notifier.ready()
    assert notifier.watchdog()
    assert notifier.status("two\nlines")
    assert notifier.stopping()
    sent = [manager.take() for _ in range(4)]
    assert [packet.data for packet in sent] == [b"READY=1", b"WATCHDOG=1", b"STATUS=two lines", b"STOPPING=1"]
    assert all(packet.sender is not None and packet.sender.pid == os.getpid() for packet in sent)


def test_a_stored_descriptor_arrives_as_a_copy_under_its_name(manager: ServiceManager, notifier: Notifier) -> None:
    memory = os.memfd_create("x")
    os.write(memory, b"content")
    notifier.store_descriptor("ledger", [memory])
    packet = manager.take()
    assert packet.data == b"FDSTORE=1\nFDNAME=ledger\nFDPOLL=0"
    os.close(memory)
    assert os.pread(packet.descriptors[0], 7, 0) == b"content"
    assert not os.get_inheritable(packet.descriptors[0])
    packet.close()


def test_polling_is_left_to_the_keeper_only_when_asked(manager: ServiceManager, notifier: Notifier) -> None:
    notifier.store_descriptor("door", [0], poll=True)
    packet = manager.take()
    assert packet.data == b"FDSTORE=1\nFDNAME=door"
    packet.close()
    notifier.remove_descriptor("door")
    assert manager.take().data == b"FDSTOREREMOVE=1\nFDNAME=door"


def test_more_descriptors_than_a_packet_carries_are_split(manager: ServiceManager, notifier: Notifier) -> None:
    notifier.store_descriptor("many", [0] * (MOST_DESCRIPTORS + 2))
    for expected in (MOST_DESCRIPTORS, 2):
        packet = manager.take()
        assert len(packet.descriptors) == expected
        packet.close()


def test_an_abstract_address_is_reached() -> None:
    name = f"pagehold-test-{os.getpid()}"
    manager = ServiceManager(b"\0" + name.encode())
    assert Notifier.from_environment({"NOTIFY_SOCKET": f"@{name}"}).ready()
    assert manager.take().data == b"READY=1"
    manager.socket.close()


def test_without_a_service_manager_everything_is_accepted_and_nothing_stored() -> None:
    notifier = Notifier.from_environment({})
    assert not notifier.present
    assert not notifier.replaced()
    notifier.store_descriptor("ledger", [0])
    notifier.barrier()
    assert notifier.ready()
    asyncio.run(notifier.deposit("ledger", [0]))


def test_a_relative_address_is_refused() -> None:
    with pytest.raises(NotifyError, match=r"'notify\.sock'; it must be an absolute path"):
        Notifier("notify.sock")


def test_signs_of_life_never_wait_for_a_busy_receiver(manager: ServiceManager, notifier: Notifier) -> None:
    fill(notifier)
    # Nobody ever makes room: waiting for it would have no end.
    assert not notifier.watchdog()


def test_a_store_that_is_not_taken_in_time_is_an_error(manager: ServiceManager, notifier: Notifier) -> None:
    fill(notifier)
    with pytest.raises(NotifyError, match=r"took no message for 0\.1 s"):
        notifier.store_descriptor("ledger", [0], timeout=0.1)
    assert notifier.stored == {}


def test_a_store_waits_for_a_busy_receiver_to_make_room(manager: ServiceManager, notifier: Notifier) -> None:
    fill(notifier)
    timer = threading.Timer(0.05, manager.take)
    timer.start()
    notifier.store_descriptor("ledger", [0], timeout=60)
    assert notifier.stored == {"ledger": 1}
    timer.join()


@pytest.mark.parametrize("deposits", [1, 2])
def test_what_could_not_be_removed_is_removed_ahead_of_the_next_store_and_only_once(
    manager: ServiceManager, notifier: Notifier, deposits: int
) -> None:
    notifier.store_descriptor("extent", [0])
    fill(notifier)
    with pytest.raises(NotifyError, match="took no message"):
        notifier.remove_descriptor("extent", timeout=0.0)

    async def store_at_once() -> None:
        await asyncio.gather(*[notifier.deposit("extent", [0], within=60) for _ in range(deposits)])

    taken: list[bytes] = []

    def take() -> None:
        while taken.count(b"BARRIER=1") < deposits:
            packet = manager.take()
            taken.append(packet.data)
            packet.close()

    receiver = threading.Thread(target=take)
    receiver.start()
    asyncio.run(store_at_once())
    receiver.join()
    told = [data.splitlines()[0] for data in taken if b"FDNAME=extent" in data]
    assert told == [b"FDSTORE=1", b"FDSTOREREMOVE=1", *[b"FDSTORE=1"] * deposits]
    assert notifier.stored == {"extent": deposits}


def test_a_dead_receiver_is_an_error_for_a_store_and_none_for_a_sign_of_life(tmp_path: Path) -> None:
    notifier = Notifier(str(tmp_path / "gone"))
    assert not notifier.watchdog()
    with pytest.raises(NotifyError, match="cannot be reached"):
        notifier.store_descriptor("ledger", [0])


def test_a_barrier_returns_once_the_receiver_has_closed_it(manager: ServiceManager, notifier: Notifier) -> None:
    manager.answer(1)
    notifier.barrier(timeout=60)
    with pytest.raises(NotifyError, match=r"did not answer a barrier within 0\.05 s"):
        notifier.barrier(timeout=0.05)


def test_a_deposit_is_confirmed_without_holding_up_the_loop(manager: ServiceManager, notifier: Notifier) -> None:
    async def run() -> None:
        task = asyncio.create_task(notifier.deposit("executor", [0], within=60))
        done, _ = await asyncio.wait({task}, timeout=0)
        assert not done, "it waits for its confirmation, and others run"
        manager.answer(2)
        await task

    asyncio.run(run())
    assert notifier.stored == {"executor": 1}


def test_a_deposit_that_is_not_confirmed_is_an_error(manager: ServiceManager, notifier: Notifier) -> None:
    with pytest.raises(NotifyError, match="did not answer a barrier"):
        asyncio.run(notifier.deposit("executor", [0], within=0.05))
    fill(notifier)
    with pytest.raises(NotifyError, match="took no message"):
        asyncio.run(notifier.deposit("executor", [0], within=0.05))


def test_more_than_the_store_holds_is_refused_before_it_is_sent(manager: ServiceManager, tmp_path: Path) -> None:
    notifier = Notifier.from_environment({"NOTIFY_SOCKET": str(tmp_path / "notify"), "FDSTORE": "3"})
    notifier.store_descriptor("a", [0, 0])
    with pytest.raises(NotifyError, match="2 descriptors for 'b' do not fit: the store holds 3, 2 are taken"):
        notifier.store_descriptor("b", [0, 0])
    notifier.remove_descriptor("a")
    notifier.store_descriptor("b", [0, 0])
    for _ in range(3):
        packet = manager.take()
        assert not packet.data.startswith(b"FDSTORE=1\nFDNAME=b") or len(packet.descriptors) == 2
        packet.close()


def test_a_receiver_that_was_started_anew_is_reached_and_noticed_once(
    manager: ServiceManager, notifier: Notifier, tmp_path: Path
) -> None:
    notifier.store_descriptor("ledger", [0])
    assert not notifier.replaced()
    manager.socket.close()
    (tmp_path / "notify").rename(tmp_path / "old")  # its inode stays taken
    assert not notifier.watchdog()
    assert not notifier.replaced(), "nobody is there yet"
    successor = ServiceManager(str(tmp_path / "notify"))
    assert notifier.replaced()
    assert not notifier.replaced()
    assert notifier.stored == {}, "the successor stores nothing yet"
    assert notifier.watchdog()
    assert successor.take().data == b"WATCHDOG=1"
    successor.socket.close()


@pytest.mark.parametrize("name", ["", "a:b", "a\nb", "\x7f", "é", "x" * 256])
def test_a_name_that_systemd_would_not_take_is_refused(notifier: Notifier, name: str) -> None:
    with pytest.raises(ValueError, match="descriptor name"):
        notifier.store_descriptor(name, [0])
    with pytest.raises(ValueError, match="descriptor name"):
        notifier.remove_descriptor(name)


@pytest.mark.parametrize("name", ["x" * 255, "pool a/0.extent~1 [2]"])
def test_the_longest_and_the_oddest_names_are_taken(manager: ServiceManager, notifier: Notifier, name: str) -> None:
    notifier.store_descriptor(name, [0])
    packet = manager.take()
    assert f"FDNAME={name}\n" in packet.data.decode()
    packet.close()


def test_descriptors_are_inherited_by_name_once_and_not_passed_on() -> None:
    program = (
        "import os\nfrom blockmgr.inherited import inherited_descriptors\n"
        "for number in (3, 4, 5): os.dup2(0, number, inheritable=True)\n"
        "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='3', LISTEN_FDNAMES='a:b:a')\n"
        "print(inherited_descriptors(), inherited_descriptors(), [k for k in os.environ if k.startswith('LISTEN')])\n"
        "print([os.get_inheritable(n) for n in (3, 4, 5)])\n"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == ["{'a': [3, 5], 'b': [4]} {} []", "[False, False, False]"]


def test_descriptors_meant_for_another_process_are_left_alone() -> None:
    environment = {"LISTEN_PID": "1", "LISTEN_FDS": "1", "OTHER": "x"}
    assert inherited_descriptors(environment) == {}
    assert environment == {"OTHER": "x"}


@pytest.mark.parametrize(
    ("count", "names", "reason"),
    [("many", "a", "must be a number"), ("1", "a:b", "names 2 descriptors, LISTEN_FDS counts 1"), ("1", "a", "3")],
)
def test_variables_that_contradict_each_other_are_refused(count: str, names: str, reason: str) -> None:
    program = (
        "import os, sys\nfrom blockmgr.inherited import inherited_descriptors\nfrom blockmgr.notify import NotifyError\n"
        "os.closerange(3, 10)\n"
        "passed = dict(LISTEN_PID=str(os.getpid()), LISTEN_FDS=sys.argv[1], LISTEN_FDNAMES=sys.argv[2])\n"
        "try: inherited_descriptors(passed)\n"
        "except NotifyError as error: print(error)\n"
    )
    answer = subprocess.run([sys.executable, "-c", program, count, names], capture_output=True, text=True, check=True)
    assert reason in answer.stdout


def test_the_watchdog_interval_is_in_seconds_and_for_this_process_only() -> None:
    here = str(os.getpid())
    assert watchdog_interval({}) is None
    assert watchdog_interval({"WATCHDOG_USEC": "2500000", "WATCHDOG_PID": here}) == 2.5
    assert watchdog_interval({"WATCHDOG_USEC": "2500000"}) == 2.5
    assert watchdog_interval({"WATCHDOG_USEC": "2500000", "WATCHDOG_PID": "1"}) is None
    for bad in ("0", "-1", "soon"):
        with pytest.raises(NotifyError, match=bad):
            watchdog_interval({"WATCHDOG_USEC": bad})


def test_barriers_and_stores_leave_no_descriptor_behind(manager: ServiceManager, notifier: Notifier) -> None:
    notifier.watchdog()
    manager.take()
    before = open_descriptors()
    for _ in range(5):
        manager.answer(1)
        notifier.barrier(timeout=60)
        with pytest.raises(NotifyError):
            notifier.barrier(timeout=0.001)
        manager.take().close()
    await_closed(before)


def test_a_packet_that_is_cut_short_leaves_no_descriptor_behind(manager: ServiceManager, notifier: Notifier) -> None:
    before = open_descriptors()
    notifier.store_descriptor("ledger", [0, 1, 2])
    with pytest.raises(PacketError, match="its data"):
        receive(manager.socket, 4)
    await_closed(before)
    assert not select.select([manager.socket], [], [], 0)[0]
