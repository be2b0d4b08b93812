"""`up` with engines whose steps stand still where a test says so: see `tests.engines.faulty`, which $HOLD is for."""

import sys
from dataclasses import replace

import typer

from blockmgr.keeper import ChildSettings
from executor.commands import up
from executor.launch import process
from executor.launch.plan import ENGINES, PAGEHOLD, children_of
from executor.launch.settings import LaunchSettings
from pagehold.client.standard_streams import standard_streams


def children(settings: LaunchSettings) -> list[ChildSettings]:
    """The true ones, but for the engines."""
    return [_with_faults(child) if child.stage == ENGINES else child for child in children_of(settings)]


def _with_faults(engine: ChildSettings) -> ChildSettings:
    arguments = engine.command[len(PAGEHOLD) + 1 :]
    return replace(engine, command=(sys.executable, "-m", "tests.engines.faulty", *arguments))


if __name__ == "__main__":
    process.children_of = children  # type: ignore[attr-defined]
    with standard_streams():
        typer.run(up)
