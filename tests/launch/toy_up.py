"""`up` with toys for children: the first argument says what each is to do, as name=task,name=task."""

import sys
from pathlib import Path

import typer

from blockmgr.keeper import ChildSettings
from executor.commands import up
from executor.launch import process
from executor.launch.settings import LaunchSettings
from pagehold.client.standard_streams import standard_streams
from tests.system.keeper_program import TOY

TASKS = dict(part.split("=") for part in sys.argv.pop(1).split(","))
STAGES = {"manager": 0, "engine": 1}


def toys(settings: LaunchSettings) -> list[ChildSettings]:
    """Toys in the place of the processes that are meant."""
    journals = settings.up.runtime_dir.parent
    door = ChildSettings(
        "door", (sys.executable, "-m", "tests.launch.toy_door", settings.door.address, str(journals)), stage=2
    )
    return [*(_toy(name, task, journals) for name, task in TASKS.items()), door]


def _toy(name: str, task: str, journals: Path) -> ChildSettings:
    command = (sys.executable, str(TOY), str(journals / f"{name}.journal"), task)
    return ChildSettings(name, command, stage=STAGES[name], stop_grace=600.0, watchdog=600.0)


if __name__ == "__main__":
    process.children_of = toys  # type: ignore[attr-defined]
    with standard_streams():
        typer.run(up)
