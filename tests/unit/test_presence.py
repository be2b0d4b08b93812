"""Signs that executors are alive: seen while they are held, and put up whoever clears signs away meanwhile."""

import fcntl
from pathlib import Path

import pytest

from blockmgr import presence
from blockmgr.presence import Presence, executors_present

INSTANCE = "0" * 32


def test_a_sign_is_seen_until_it_is_taken_down(tmp_path: Path) -> None:
    assert executors_present(tmp_path) == set()
    sign = Presence(tmp_path, INSTANCE)
    assert executors_present(tmp_path) == {INSTANCE}
    sign.close()
    sign.close()
    assert executors_present(tmp_path) == set()


def test_signs_of_the_dead_are_cleared_away(tmp_path: Path) -> None:
    presence.folder(tmp_path).mkdir()
    (presence.folder(tmp_path) / INSTANCE).touch()
    assert executors_present(tmp_path) == set()
    assert not list(presence.folder(tmp_path).iterdir())


def test_who_puts_up_a_sign_clears_those_of_the_dead_away_and_of_nobody_else(tmp_path: Path) -> None:
    other = Presence(tmp_path, "1" * 32)
    (presence.folder(tmp_path) / ("2" * 32)).touch()
    sign = Presence(tmp_path, INSTANCE)
    assert {path.name for path in presence.folder(tmp_path).iterdir()} == {INSTANCE, "1" * 32}
    other.close()
    sign.close()


def test_a_sign_that_is_cleared_away_before_it_is_held_is_put_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, looks = fcntl.flock, [lambda: executors_present(tmp_path)]

    def flock(descriptor: int, how: int) -> None:
        if looks:
            looks.pop()()
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    sign = Presence(tmp_path, INSTANCE)
    assert executors_present(tmp_path) == {INSTANCE}
    sign.close()
