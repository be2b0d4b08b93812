import pytest

from executor.models import progress
from executor.models.progress import byte_bar, progress_told

Told = list[tuple[str, int]]


def note(told: Told) -> progress.Listener:
    return lambda title, percent: told.append((title, percent))


def test_every_whole_per_cent_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "TELL_SECONDS", 0.0)
    told: Told = []
    with progress_told(note(told)), byte_bar("Loading x", 1000, shown=False) as advance:
        for _ in range(8):
            advance(4)
        advance(968)
    assert told == [("Loading x", 0), ("Loading x", 1), ("Loading x", 2), ("Loading x", 3), ("Loading x", 100)]


def test_what_goes_fast_is_told_at_its_beginning_and_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "TELL_SECONDS", 3600.0)
    told: Told = []
    with progress_told(note(told)), byte_bar("Loading x", 10, shown=False) as advance:
        for _ in range(10):
            advance(1)
    assert told == [("Loading x", 10), ("Loading x", 100)]


def test_nothing_is_told_outside_and_of_what_is_empty_all_is_done() -> None:
    told: Told = []
    with progress_told(note(told)):
        pass
    with byte_bar("Loading x", 10, shown=False) as advance:
        advance(10)
    assert told == []
    with progress_told(note(told)), byte_bar("Loading x", 0, shown=False) as advance:
        advance(1)
    assert told == [("Loading x", 100)]
