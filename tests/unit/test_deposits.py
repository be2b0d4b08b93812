"""An executor's processes come back from the descriptor store with their roles, whatever those are called."""

import os

import pytest

from blockmgr.packets import check_name
from blockmgr.processes import Process
from blockmgr.service.deposits import LONGEST_ROLE, UNKNOWN_ROLE, by_name, stored_processes

INSTANCE, OTHER = bytes(range(16)), bytes(range(16, 32))


def stored(*roles: str) -> dict[str, list[int]]:
    """What the store gives back of an executor with one process, this one, in each role."""
    processes = [Process.open(os.getpid(), role) for role in roles]
    return by_name(INSTANCE, processes)


def come_back(descriptors: dict[str, list[int]]) -> list[str]:
    """Roles of the processes that are found."""
    found = stored_processes(INSTANCE, descriptors)
    for process in found:
        assert process.pid == os.getpid()
        process.close()
    return [process.role for process in found]


@pytest.mark.parametrize("role", ["engine", "rank.3", "a:b/c d%20", "Größe", "%", "executor"])
def test_a_role_outlives_the_manager(role: str) -> None:
    descriptors = stored(role)
    for name in descriptors:
        check_name(name)
    assert come_back(descriptors) == [role]
    assert descriptors == {}


def test_several_processes_of_a_role_share_a_name() -> None:
    descriptors = stored("engine", "device", "device")
    assert [len(pidfds) for pidfds in descriptors.values()] == [1, 2]
    assert come_back(descriptors) == ["engine", "device", "device"]


@pytest.mark.parametrize("role", ["x" * 255, "%" * 255, "ü" * 255])
def test_a_role_too_long_for_a_name_is_cut(role: str) -> None:
    descriptors = stored(role)
    (name,) = descriptors
    check_name(name)
    (back,) = come_back(descriptors)
    assert role.startswith(back.rstrip("\N{REPLACEMENT CHARACTER}"))
    assert len(back) > LONGEST_ROLE // 7


def test_a_name_without_a_role_is_read_too() -> None:
    pidfd = os.pidfd_open(os.getpid())
    assert come_back({f"executor.{INSTANCE.hex()}": [pidfd]}) == [UNKNOWN_ROLE]


def test_what_belongs_to_another_executor_is_left_alone() -> None:
    descriptors = stored("engine") | {f"executor.{OTHER.hex()}.engine": [7], "redo": [8]}
    assert come_back(descriptors) == ["engine"]
    assert descriptors == {f"executor.{OTHER.hex()}.engine": [7], "redo": [8]}
