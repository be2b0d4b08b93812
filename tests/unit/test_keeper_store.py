import os
import select
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from blockmgr.configuration import WrongSetting
from blockmgr.keeper.messages import Notification
from blockmgr.keeper.runtime import RuntimeDirectory
from blockmgr.keeper.settings import RestartDelay
from blockmgr.keeper.store import DescriptorStore, StoreFull, same_object


@pytest.fixture
def store() -> Iterator[DescriptorStore]:
    store = DescriptorStore(4)
    yield store
    store.close()


def names(store: DescriptorStore) -> list[str]:
    return [entry.name for entry in store.entries]


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_the_same_memory_under_the_same_name_is_stored_once(store: DescriptorStore) -> None:
    memory = os.memfd_create("x")
    again, elsewhere = os.dup(memory), os.dup(memory)
    assert store.add("ledger", memory, watch=False)
    assert not store.add("ledger", again, watch=False)
    assert not is_open(again)
    assert store.add("other", elsewhere, watch=False)
    assert names(store) == ["ledger", "other"]


def test_different_memory_may_share_a_name_and_is_removed_together(store: DescriptorStore) -> None:
    descriptors = [os.memfd_create("x") for _ in range(3)]
    for name, descriptor in zip(("a", "b", "a"), descriptors, strict=True):
        assert store.add(name, descriptor, watch=True)
    assert store.remove("a") == 2
    assert store.remove("a") == 0
    assert names(store) == ["b"]
    assert [is_open(descriptor) for descriptor in descriptors] == [False, True, False]


def test_a_full_store_closes_what_it_refuses_and_has_room_again_after_a_removal(store: DescriptorStore) -> None:
    for number in range(4):
        store.add(str(number), os.memfd_create("x"), watch=False)
    refused = os.memfd_create("x")
    with pytest.raises(StoreFull, match="'late' does not fit: 4 descriptors are stored"):
        store.add("late", refused, watch=False)
    assert not is_open(refused)
    store.remove("0")
    assert store.add("late", os.memfd_create("x"), watch=False)


def test_a_bad_name_is_refused_and_its_descriptor_closed(store: DescriptorStore) -> None:
    refused = os.memfd_create("x")
    with pytest.raises(ValueError, match="a:b"):
        store.add("a:b", refused, watch=False)
    assert not is_open(refused)
    assert len(store) == 0


def test_only_watched_descriptors_are_dropped_when_they_hang_up(store: DescriptorStore) -> None:
    ours, watched = socket.socketpair()
    theirs, unwatched = socket.socketpair()
    store.add("watched", watched.detach(), watch=True)
    store.add("unwatched", unwatched.detach(), watch=False)
    assert store.drop_hung_up() == []
    ours.send(b"data is no hang-up")
    assert store.drop_hung_up() == []
    ours.close()
    theirs.close()
    assert store.drop_hung_up() == ["watched"]
    assert names(store) == ["unwatched"]


def test_a_removed_descriptor_is_not_watched_any_more_although_others_hold_copies(store: DescriptorStore) -> None:
    ours, watched = socket.socketpair()
    with watched:
        store.add("door", os.dup(watched.fileno()), watch=True)
        store.remove("door")
        ours.close()
        assert not select.select([store], [], [], 0)[0]


def test_the_two_ends_of_a_pipe_are_different_and_copies_of_one_end_are_not() -> None:
    reading, writing = os.pipe()
    copy = os.dup(reading)
    assert same_object(reading, copy)
    assert not same_object(reading, writing)
    for descriptor in (reading, writing, copy):
        os.close(descriptor)


def test_pidfds_are_the_same_only_if_their_process_is() -> None:
    children = [subprocess.Popen(["sleep", "600"]) for _ in range(2)]
    first, again, other = (os.pidfd_open(child.pid) for child in (children[0], children[0], children[1]))
    assert same_object(first, again)
    assert not same_object(first, other)
    for child in children:
        child.kill()
        child.wait()
    assert not same_object(first, other)
    for descriptor in (first, again, other):
        os.close(descriptor)


def test_messages_are_read_as_systemd_reads_them() -> None:
    message = Notification.parse(b"FDSTORE=1\nFDNAME=a\nFDNAME=b\nFDPOLL=0\nX_UNKNOWN=1\nnoise\nSTATUS=a=b")
    assert message == Notification(store=True, name="b", watch=False, status="a=b")
    assert Notification.parse(b"READY=1\nWATCHDOG=1\nSTOPPING=0") == Notification(ready=True, alive=True)
    assert Notification.parse(b"WATCHDOG=trigger") == Notification(trigger=True)
    assert Notification.parse(b"BARRIER=1") == Notification(barrier=True)
    assert Notification.parse(b"FDSTOREREMOVE=1") == Notification(remove=True, name="stored")
    assert Notification.parse(b"") == Notification()
    for bad in (b"READY=1\0", b"\xff"):
        with pytest.raises(ValueError, match=r"NUL|codec"):
            Notification.parse(bad)


def test_the_first_restarts_are_immediate_and_later_ones_slow_down_to_a_limit() -> None:
    delay = RestartDelay(immediate=2, first=0.1, longest=1.0)
    assert [delay.after(deaths) for deaths in (1, 2, 3, 4, 5, 6, 7, 10**9)] == [0, 0, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_the_runtime_directory_is_private_and_its_socket_too(tmp_path: Path) -> None:
    runtime = RuntimeDirectory(tmp_path / "a" / "run")
    listening = runtime.listen()
    assert stat.S_IMODE((tmp_path / "a" / "run").stat().st_mode) == 0o700
    assert stat.S_IMODE(runtime.socket_path.stat().st_mode) == 0o600
    listening.close()
    runtime.close()
    RuntimeDirectory(tmp_path / "a" / "run").close()


def test_a_directory_that_others_can_write_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(WrongSetting, match=r"mode 777; it must be owned by .* and writable by nobody else"):
        RuntimeDirectory(tmp_path)


def test_a_directory_too_deep_for_a_socket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongSetting, match="longer than the 107 bytes"):
        RuntimeDirectory(tmp_path / ("x" * 100))


def test_a_recorded_process_is_found_while_it_lives_and_no_other_that_has_its_id(tmp_path: Path) -> None:
    runtime = RuntimeDirectory(tmp_path)
    assert runtime.recall("manager") is None
    child = subprocess.Popen(["sleep", "600"])
    runtime.record("manager", child.pid)
    found = runtime.recall("manager")
    assert found is not None
    assert found.pid == child.pid
    found.close()
    record = tmp_path / "manager.process"
    record.write_text(record.read_text().replace(f'"pid": {child.pid}', f'"pid": {os.getpid()}'))
    assert runtime.recall("manager") is None, "this process has another birth"
    for broken in ("", "[]", '{"pid": "x"}', '{"pid": 1}'):
        record.write_text(broken)
        assert runtime.recall("manager") is None
    runtime.record("manager", child.pid)
    child.kill()
    child.wait()
    assert runtime.recall("manager") is None
    runtime.close()


@pytest.mark.parametrize("numbers", [(3, 4), (4, 3), (10, 3), (10, 11), (4, 10)])
def test_descriptors_are_passed_on_in_order_wherever_they_were(numbers: tuple[int, int]) -> None:
    program = (
        "import os, sys\nfrom blockmgr.keeper.spawn import pass_on\n"
        "made = [os.memfd_create('first'), os.memfd_create('second')]\n"
        "high = [os.dup2(fd, 50 + n) for n, fd in enumerate(made)]\n"
        "os.closerange(3, 50)\n"
        "given = [os.dup2(fd, int(n), inheritable=False) for fd, n in zip(high, sys.argv[1:])]\n"
        "os.closerange(50, 52)\n"
        "pass_on(given)\n"
        "os.execvp('readlink', ['readlink', '/proc/self/fd/3', '/proc/self/fd/4', '/proc/self/fd/10'])\n"
    )
    answer = subprocess.run([sys.executable, "-c", program, *map(str, numbers)], capture_output=True, text=True)
    assert answer.stdout.splitlines() == ["/memfd:first (deleted)", "/memfd:second (deleted)"]
