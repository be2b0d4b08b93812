"""Ending what runs in a runtime folder: an `up` on request, and what one that was killed with its keeper left behind."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from blockmgr.configuration import WrongSetting
from blockmgr.keeper import ChildSettings, read_plan
from blockmgr.keeper.runtime import keeper_of, recall
from blockmgr.processes import Process, ProcessError
from executor.launch.lock import find_up

PLAN = "plan.json"
"""File of a runtime folder that says which children its keeper was to run."""

KEEPER_SECONDS = 10.0
"""How long the keeper of an `up` that is gone may take to end: it gives its children less."""

KILL_SECONDS = 5.0
"""How long a killed process may take to be gone."""

PAUSE = 0.05

Tell = Callable[[str], None]


class StillThere(Exception):
    """Something in the folder did not end; the text says what."""


def take_down(folder: Path, seconds: float, tell: Tell) -> bool:
    """End the `up` of a folder and all that is left there; say whether there was anything.

    It is asked to stop; after `seconds` it is told to stop at once.

    Raises:
        StillThere: it lives on, or the keeper there belongs to no `up`.
    """
    up = find_up(folder)
    if up is not None:
        with up:
            _stop(up, seconds, tell)
    left = end_leftovers(folder, (), tell)
    return up is not None or bool(left)


def end_leftovers(folder: Path, wanted: Iterable[ChildSettings], tell: Tell) -> list[str]:
    """End the children of an earlier `up` but those that are wanted just as they are; return the names of the ended.

    The keeper of an `up` that was killed is ending them by now; it is waited for, and killed if it stands still.

    Raises:
        StillThere: another keeper, which belongs to no `up`, stays.
    """
    _await_keeper(folder, tell)
    commands = {child.name: child.command for child in wanted}
    plan = _earlier_plan(folder)
    return end_children(folder, [child for child in plan if commands.get(child.name) != child.command], tell)


def end_children(folder: Path, children: Sequence[ChildSettings], tell: Tell) -> list[str]:
    """End children that no keeper watches, stage by stage as a keeper would; return the names of those that lived.

    Raises:
        StillThere: one cannot be killed.
    """
    ended = []
    for stage in sorted({child.stage for child in children}, reverse=True):
        with ExitStack() as held:
            living = []
            for child in children:
                process = recall(folder, child.name) if child.stage == stage else None
                if process is not None:
                    living.append((child, held.enter_context(process)))
            for child, process in living:
                tell(f"ending {child.name} (process {process.pid}), which was left running")
                process.signal(signal.SIGTERM)
            for child, process in living:
                if not process.wait(child.stop_grace):
                    process.kill()
                    if not process.wait(KILL_SECONDS):
                        raise StillThere(f"{child.name} (process {process.pid}) cannot be killed")
                ended.append(child.name)
    return ended


def _stop(up: Process, seconds: float, tell: Tell) -> None:
    tell(f"stopping `pagehold up` (process {up.pid})")
    for patience in (seconds, KEEPER_SECONDS):
        up.signal(signal.SIGTERM)
        if up.wait(patience):
            return
        tell(f"it has not stopped within {patience:g} s: now all of it is killed")
    # Its keeper sees that and ends the children.
    up.kill()
    if not up.wait(KEEPER_SECONDS):
        raise StillThere(f"process {up.pid} cannot be killed")


def _await_keeper(folder: Path, tell: Tell) -> None:
    deadline, told = time.monotonic() + KEEPER_SECONDS, False
    while (keeper := keeper_of(folder)) is not None:
        if not told:
            tell(f"waiting for the keeper in {folder} (process {keeper}) to end")
            told = True
        if time.monotonic() > deadline:
            _kill_keeper(folder, keeper, tell)
        time.sleep(PAUSE)


def _kill_keeper(folder: Path, keeper: int, tell: Tell) -> None:
    """Kill the keeper of an `up` that is gone: it would have ended by itself if it did not stand still.

    Raises:
        StillThere: it belongs to no `up` or to one that lives, or it cannot be killed.
    """
    if not _is_abandoned(keeper):
        raise StillThere(f"a keeper that belongs to no `pagehold up` runs in {folder} (process {keeper})")
    with suppress(ProcessError), Process.open(keeper, "keeper") as process:
        # Still the one that holds the folder: its id has not passed to another meanwhile.
        if keeper_of(folder) == keeper:
            tell(f"it has not ended within {KEEPER_SECONDS:g} s: it is killed")
            process.kill()
            if not process.wait(KILL_SECONDS):
                raise StillThere(f"the keeper in {folder} (process {keeper}) cannot be killed")


def _is_abandoned(keeper: int) -> bool:
    """Whether a keeper was to end with a process that is dead by now."""
    own = Path("/proc", str(keeper))
    try:
        command = (own / "cmdline").read_text().split("\0")
        descriptor = command[command.index("--owner-pidfd") + 1]
        facts = dict(line.split(":", 1) for line in (own / "fdinfo" / descriptor).read_text().splitlines())
        owner = int(facts["Pid"])
    except (OSError, ValueError, KeyError):
        return False
    try:
        with Process.open(owner, "up") as process:
            return process.is_dead
    except ProcessError:
        return True


def _earlier_plan(folder: Path) -> list[ChildSettings]:
    try:
        return read_plan(folder / PLAN)
    except WrongSetting:
        return []
