"""Standard streams that are closed, full, or have nobody behind them: said in a line, and in the exit code."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

Stream = TypeVar("Stream", bound=io.TextIOWrapper)

FAILED = 1
NO_READER = 141
"""What a shell gives out for a program that SIGPIPE ended, as it does most of those whose reader has gone."""


class OutputLost(OSError):
    """Standard output cannot be written: ``cause`` is why.

    It has no ``errno`` of its own: whoever looks for a broken pipe would end the program in their own way.
    """

    def __init__(self, cause: OSError) -> None:
        super().__init__(f"standard output cannot be written: {cause.strerror}")
        self.cause = cause


@contextmanager
def standard_streams() -> Iterator[None]:
    """Run a command. What it cannot write to standard output ends it, with one line; standard error is never missed.

    Raises SystemExit: ``NO_READER``, without a word, where whoever read has gone, and ``FAILED`` for all else.
    """
    _open_what_is_closed()
    before = sys.stdout, sys.stderr
    if sys.stdout is sys.__stdout__:
        sys.stdout = _reopen(_Output, 1, before[0])
    if sys.stderr is sys.__stderr__:
        sys.stderr = _reopen(_Messages, 2, before[1], line_buffering=True)
    try:
        try:
            yield
        finally:
            # Otherwise Python would, when nobody can tell any more what came of it.
            sys.stdout.flush()
    except OutputLost as lost:
        if isinstance(lost.cause, BrokenPipeError):
            raise SystemExit(NO_READER) from None
        print(f"pagehold: {lost}", file=sys.stderr)
        raise SystemExit(FAILED) from None
    finally:
        sys.stdout, sys.stderr = before


class _Output(io.TextIOWrapper):
    """Standard output. Once it was lost, nothing more is tried.

    It stands above the buffer, not below: a Ctrl-C that came into a write of ours below it would have what was just written
    written again.
    """

    _is_lost = False

    def write(self, text: str) -> int:
        with self._losing():
            return super().write(text)
        return len(text)

    def flush(self) -> None:
        with self._losing():
            super().flush()

    @contextmanager
    def _losing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            is_first, self._is_lost = not self._is_lost, True
            if is_first:
                raise OutputLost(error) from None


class _Messages(io.TextIOWrapper):
    """Standard error. What cannot be said there is left unsaid: it must keep nothing from being done."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            return super().write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            super().flush()


def _reopen(kind: type[Stream], number: int, before: Any, line_buffering: bool = False) -> Stream:
    """A stream like one of Python's own, which is None where it was closed."""
    raw = io.BufferedWriter(io.FileIO(number, "wb", closefd=False))
    if before is None:
        return kind(raw, encoding="utf-8", errors="backslashreplace", line_buffering=line_buffering)
    return kind(
        raw,
        encoding=before.encoding,
        errors=before.errors,
        line_buffering=before.line_buffering,
        write_through=before.write_through,
    )


def _open_what_is_closed() -> None:
    """Have something at 0, 1 and 2, or the next file or socket that is opened would be there and take what is printed.

    What is read ends at once, and what is said vanishes. Standard output fails as it should: it is no file to write to.
    """
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, mode)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, closefd=False)
