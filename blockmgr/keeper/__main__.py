"""`python -m blockmgr.keeper --runtime-dir DIR [--] COMMAND...`: keep COMMAND, the manager, running.

`python -m blockmgr.keeper --runtime-dir DIR --plan FILE`: keep several children running, as `write_plan` wrote them down.

COMMAND is started again whenever it ends, also with code 0: only a signal to the keeper (SIGTERM, SIGINT; a second one
kills at once) means an end; or code 78, by which COMMAND says that its settings are wrong, while nothing of it is stored.
With --once the keeper ends when COMMAND does, with its code. 1 means that it cannot run just now: another keeper runs there, or
the machine is short of something. With --owner-pidfd, an inherited descriptor of a process, all
ends when that process does.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from blockmgr.configuration import WRONG_SETTINGS, WrongSetting
from blockmgr.keeper import ChildSettings, KeeperError, read_plan, run_keeper
from blockmgr.processes import Process, ProcessError


def children_of(arguments: argparse.Namespace) -> list[ChildSettings]:
    """Return the children that the command line asks for."""
    if arguments.plan is not None:
        return read_plan(arguments.plan)
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    manager = ChildSettings(
        name="manager",
        command=tuple(command),
        watchdog=arguments.watchdog or None,
        start_limit=arguments.start_limit,
        stop_grace=arguments.stop_grace,
        store_limit=arguments.store_limit,
        once=arguments.once,
    )
    return [manager]


def owner_of(arguments: argparse.Namespace) -> Process | None:
    """Return the process with which all is to end, if there is one."""
    if arguments.owner_pidfd is None:
        return None
    try:
        # Not for the children: they would keep nothing alive by it, but they have no use for it.
        os.set_inheritable(arguments.owner_pidfd, False)
        return Process.adopt(arguments.owner_pidfd, "owner")
    except (OSError, ProcessError) as error:
        raise WrongSetting(f"owner-pidfd is {arguments.owner_pidfd}: {error}") from error


def main() -> int:
    """Run the keeper as the command line asks, and return its exit code."""
    defaults = ChildSettings("manager", ())
    parser = argparse.ArgumentParser(prog="python -m blockmgr.keeper", description=(__doc__ or "").split("\n\n")[2])
    parser.add_argument("--runtime-dir", type=Path, required=True, help="directory for the lock and the socket")
    parser.add_argument(
        "--watchdog",
        type=float,
        default=defaults.watchdog,
        help="seconds between signs of life, 0 for none (%(default)s)",
    )
    parser.add_argument(
        "--start-limit", type=float, default=defaults.start_limit, help="seconds until it must be ready (%(default)s)"
    )
    parser.add_argument(
        "--stop-grace", type=float, default=defaults.stop_grace, help="seconds from SIGTERM to SIGKILL (%(default)s)"
    )
    parser.add_argument(
        "--store-limit", type=int, default=defaults.store_limit, help="most descriptors stored (%(default)s)"
    )
    parser.add_argument("--once", action="store_true", help="do not start the command again when it ends")
    parser.add_argument("--plan", type=Path, help="file that describes the children, instead of COMMAND")
    parser.add_argument("--owner-pidfd", type=int, help="descriptor of the process with which all ends")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what to run")
    arguments = parser.parse_args()
    try:
        return run_keeper(arguments.runtime_dir, children_of(arguments), owner_of(arguments))
    except WrongSetting as error:
        print(f"keeper: {error}", file=sys.stderr)
        return WRONG_SETTINGS
    except KeeperError as error:
        print(f"keeper: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
