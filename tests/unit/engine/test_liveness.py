"""Signs of life, and how far ahead blocks are asked for."""

import socket
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from blockmgr.notify import Notifier
from executor.engine.liveness import Liveness
from executor.engine.pace import LEAST, MOST, Pace


def test_no_sign_is_given_behind_a_step_that_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "4000000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.setblocking(False)
        now = [0.0]
        alive = Liveness(Notifier(str(tmp_path / "notify")), step_timeout=5.0, clock=lambda: now[0])

        def signs(seconds: float, oldest: float) -> int:
            for _ in range(int(seconds * 10)):
                now[0] += 0.1
                alive(oldest, dict)
            count = 0
            while True:
                try:
                    assert receiver.recv(100) == b"WATCHDOG=1"
                except BlockingIOError:
                    return count
                count += 1

        assert 3 <= signs(4.0, 0.0) <= 6
        assert signs(4.0, 5.1) == 0
        assert signs(4.0, 1.0) > 0


def test_a_step_that_takes_long_is_told_once_before_it_counts_as_stuck() -> None:
    alive = Liveness(Notifier(None), step_timeout=60.0)
    with capture_logs() as said:
        for oldest in (0.0, 5.9, 6.1, 30.0, 61.0, 62.0, 0.1, 7.0):
            alive(oldest, lambda: {"rows": 3})
    assert all(one["rows"] == 3 for one in said)
    assert [(one["log_level"], one["seconds"]) for one in said] == [("warning", 6.1), ("error", 61.0), ("warning", 7.0)]


def test_blocks_are_asked_for_as_far_ahead_as_a_slow_turn_lasts() -> None:
    pace = Pace()
    assert pace.look_ahead == LEAST
    pace.note_step(0.010)
    for _ in range(50):
        pace.note_turn(0.001)
    assert pace.look_ahead == LEAST
    pace.note_turn(0.055)
    assert pace.look_ahead == 3 + 6
    pace.note_turn(100.0)
    assert pace.look_ahead == MOST
