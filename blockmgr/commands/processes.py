"""Commands that run a process of the manager's: itself, and its keeper."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from blockmgr.commands.ending import wrong_settings_end

RuntimeDir = Annotated[Path | None, typer.Option("--runtime-dir", help="Folder of sockets and locks.")]
Address = Annotated[str | None, typer.Option("--address", help="Operators' port, HOST:PORT or unix:PATH.")]
Lease = Annotated[float | None, typer.Option("--lease", help="Seconds after which a silent executor is probed.")]
LogLevel = Annotated[str | None, typer.Option("--log-level", help="debug, info, warning or error.")]
LogFormat = Annotated[str | None, typer.Option("--log-format", help="console or json.")]


def blockmgr(
    runtime_dir: RuntimeDir = None,
    address: Address = None,
    lease: Lease = None,
    metrics_port: Annotated[
        int | None, typer.Option("--metrics-port", help="Port of Prometheus metrics on the loopback address; 0: none.")
    ] = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
) -> None:
    """Run a block manager in the foreground, for systemd, a container, or a keeper.

    Everything else is set by PAGEHOLD_… variables or a TOML file that PAGEHOLD_CONFIG names. Started alone, nobody keeps
    its memory when it dies: under systemd set FileDescriptorStoreMax=, or let `pagehold keeper` start it. Exits with 78 where
    a setting is wrong, so that starting it again makes no sense.
    """
    from blockmgr.service.process import serve
    from blockmgr.service.settings import ManagerSettings

    with wrong_settings_end():
        settings = ManagerSettings.load(
            runtime_dir=runtime_dir,
            admin_address=address,
            lease_seconds=lease,
            metrics_port=metrics_port,
            log_level=log_level,
            log_format=log_format,
        )
        raise typer.Exit(serve(settings))


def keeper(
    runtime_dir: RuntimeDir = None,
    address: Address = None,
    watchdog: Annotated[
        float, typer.Option(min=0, help="Seconds between the manager's signs of life; 0: not watched.")
    ] = 10.0,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
) -> None:
    """Run a block manager and keep it: start it again whenever it ends, with the memory it had.

    The keeper holds a copy of every descriptor, so that no death of the manager frees the cache. Where the manager says that a
    setting is wrong before it holds anything, the keeper ends too, with 78.
    """
    from blockmgr.configuration import WRONG_SETTINGS, WrongSetting
    from blockmgr.keeper import ChildSettings, KeeperError, run_keeper
    from blockmgr.runtime import find_runtime_dir

    flags = {"--address": address, "--log-level": log_level, "--log-format": log_format}
    try:
        folder = find_runtime_dir(runtime_dir)
        command = [sys.executable, "-m", "pagehold.client", "blockmgr", "--runtime-dir", str(folder)]
        command += [part for flag, value in flags.items() if value is not None for part in (flag, value)]
        code = run_keeper(folder, [ChildSettings("manager", tuple(command), watchdog=watchdog or None)])
    except WrongSetting as error:
        typer.echo(f"keeper: {error}", err=True)
        code = WRONG_SETTINGS
    except KeeperError as error:
        typer.echo(f"keeper: {error}", err=True)
        code = 1
    raise typer.Exit(code)
