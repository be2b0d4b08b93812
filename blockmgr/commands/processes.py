"""Commands that run a process of the manager's: itself, and its keeper."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from blockmgr.service.settings import ManagerSettings

RuntimeDir = Annotated[Path | None, typer.Option("--runtime-dir", help="Folder of sockets and locks.")]
Address = Annotated[str | None, typer.Option("--address", help="Operators' port, HOST:PORT or unix:PATH.")]
Lease = Annotated[float | None, typer.Option("--lease", help="Seconds after which a silent executor is probed.")]
LogLevel = Annotated[str | None, typer.Option("--log-level", help="debug, info, warning or error.")]
LogFormat = Annotated[str | None, typer.Option("--log-format", help="console or json.")]


def blockmgr(
    runtime_dir: RuntimeDir = None,
    address: Address = None,
    lease: Lease = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
) -> None:
    """Run a block manager in the foreground, for systemd, a container, or a keeper.

    Everything else is set by PAGEHOLD_… variables or a TOML file that PAGEHOLD_CONFIG names. Started alone, nobody keeps
    its memory when it dies: under systemd set FileDescriptorStoreMax=, or let `pagehold keeper` start it.
    """
    from blockmgr.service.process import serve
    from blockmgr.service.settings import ManagerSettings

    settings = _load(
        ManagerSettings.load,
        runtime_dir=runtime_dir,
        admin_address=address,
        lease_seconds=lease,
        log_level=log_level,
        log_format=log_format,
    )
    raise typer.Exit(serve(settings))


def _load(load: "Callable[..., ManagerSettings]", **flags: object) -> "ManagerSettings":
    """Settings from flags, environment and file; what is wrong is said in a line each."""
    from pydantic import ValidationError

    try:
        return load(**flags)
    except ValidationError as error:
        for problem in error.errors():
            name = ".".join(str(part) for part in problem["loc"])
            typer.echo(f"{name} is {problem['input']!r}: {problem['msg']}", err=True)
        raise typer.Exit(2) from None
    except (OSError, ValueError) as error:
        typer.echo(f"PAGEHOLD_CONFIG is {os.environ.get('PAGEHOLD_CONFIG')!r}, which cannot be read: {error}", err=True)
        raise typer.Exit(2) from None


def keeper(
    runtime_dir: RuntimeDir = None,
    address: Address = None,
    watchdog: Annotated[
        float, typer.Option(help="Seconds between the manager's signs of life; 0: not watched.")
    ] = 10.0,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
) -> None:
    """Run a block manager and keep it: start it again whenever it ends, with the memory it had.

    The keeper holds a copy of every descriptor, so that no death of the manager frees the cache.
    """
    from blockmgr.keeper import ChildSettings, KeeperError, run_keeper
    from blockmgr.runtime import default_runtime_dir

    folder = runtime_dir or Path(os.environ.get("PAGEHOLD_RUNTIME_DIR", default_runtime_dir()))
    flags = {"--address": address, "--log-level": log_level, "--log-format": log_format}
    command = [sys.executable, "-m", "pagehold.client", "blockmgr", "--runtime-dir", str(folder)]
    command += [part for flag, value in flags.items() if value is not None for part in (flag, value)]
    try:
        raise typer.Exit(run_keeper(folder, [ChildSettings("manager", tuple(command), watchdog=watchdog or None)]))
    except KeeperError as error:
        typer.echo(f"keeper: {error}", err=True)
        raise typer.Exit(2) from None
