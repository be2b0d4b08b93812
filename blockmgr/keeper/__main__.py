"""`python -m blockmgr.keeper --runtime-dir DIR [--] COMMAND...`: keep COMMAND, the manager, running.

COMMAND is started again whenever it ends, also with code 0: only a signal to the keeper (SIGTERM, SIGINT; a second one
kills at once) means an end; or code 78, by which COMMAND says that its settings are wrong, while nothing of it is stored.
With --once the keeper ends when COMMAND does, with its code.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from blockmgr.configuration import WRONG_SETTINGS, WrongSetting
from blockmgr.keeper import ChildSettings, KeeperError, run_keeper


def settings_of(arguments: argparse.Namespace) -> ChildSettings:
    """Return the manager's settings as the command line gives them."""
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    return ChildSettings(
        name="manager",
        command=tuple(command),
        watchdog=arguments.watchdog or None,
        start_limit=arguments.start_limit,
        stop_grace=arguments.stop_grace,
        store_limit=arguments.store_limit,
        once=arguments.once,
    )


def main() -> int:
    """Run the keeper as the command line asks, and return its exit code."""
    defaults = ChildSettings("manager", ())
    parser = argparse.ArgumentParser(prog="python -m blockmgr.keeper", description=(__doc__ or "").split("\n\n")[1])
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
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what to run")
    arguments = parser.parse_args()
    try:
        return run_keeper(arguments.runtime_dir, [settings_of(arguments)])
    except WrongSetting as error:
        print(f"keeper: {error}", file=sys.stderr)
        return WRONG_SETTINGS
    except KeeperError as error:
        print(f"keeper: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
