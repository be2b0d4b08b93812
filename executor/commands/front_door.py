"""The command that runs a front door."""

from pathlib import Path
from typing import Annotated

import typer

from blockmgr.commands.ending import wrong_settings_end


def door(
    address: Annotated[
        str | None, typer.Option("--address", help="Where clients call, HOST:PORT or unix:PATH; doors may share it.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="This door's name, where several share a port.")] = None,
    runtime_dir: Annotated[Path | None, typer.Option("--runtime-dir", help="Folder of sockets and locks.")] = None,
    max_requests: Annotated[int | None, typer.Option("--max-requests", help="Requests in flight at once.")] = None,
    default_max_tokens: Annotated[
        int | None, typer.Option("--default-max-tokens", help="Tokens of output where a request names no limit.")
    ] = None,
    grace: Annotated[float | None, typer.Option("--grace", help="Seconds that a stop waits for streams.")] = None,
    metrics_port: Annotated[
        int | None, typer.Option("--metrics-port", help="Port of Prometheus metrics on the loopback address; 0: none.")
    ] = None,
    log_level: Annotated[str | None, typer.Option("--log-level", help="debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, typer.Option("--log-format", help="console or json.")] = None,
) -> None:
    """Run a front door in the foreground: clients ask it for answers, and it asks the engines of the same runtime folder.

    Several may run beside each other, each with a name of its own, and share one port. Everything else is set by
    PAGEHOLD_DOOR_… variables, or in the table door of the TOML file that PAGEHOLD_CONFIG names. Exits with 78 where a
    setting is wrong, so that starting it again makes no sense.
    """
    given = {key: value for key, value in locals().items() if key in door.__annotations__}
    with wrong_settings_end():
        from executor.frontend.settings import DoorSettings

        settings = DoorSettings.load(**given)
        from executor.frontend.process import serve

        raise typer.Exit(serve(settings))
