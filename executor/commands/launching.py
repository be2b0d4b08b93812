"""Commands that start and end everything on a machine."""

from pathlib import Path
from typing import Annotated, Any

import typer

from blockmgr.commands.ending import wrong_settings_end

RuntimeDir = Annotated[Path | None, typer.Option("--runtime-dir", help="Folder of sockets and locks.")]


def up(
    model: Annotated[
        str | None,
        typer.Argument(
            help="A folder in transformers' format, a GGUF file, or demo (the default).", show_default=False
        ),
    ] = None,
    doors: Annotated[int | None, typer.Option("--doors", help="Front doors on the one port.")] = None,
    engines: Annotated[int | None, typer.Option("--engines", help="Engines, which share one pool.")] = None,
    address: Annotated[
        str | None, typer.Option("--address", help="Where clients call: HOST:PORT or unix:PATH.")
    ] = None,
    admin_address: Annotated[
        str | None, typer.Option("--admin-address", help="Operators' port: HOST:PORT or unix:PATH.")
    ] = None,
    runtime_dir: RuntimeDir = None,
    blocks: Annotated[int | None, typer.Option("--blocks", help="Blocks of the pool, if it is made now.")] = None,
    kv_memory: Annotated[
        float | None,
        typer.Option("--kv-memory", help="Bytes of the pool instead, or a share, up to 1, of what is left for it."),
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", help="cpu, a GPU's UUID, or auto: a GPU if there is one.")
    ] = None,
    weights: Annotated[
        str | None, typer.Option("--load", "--weights", help="checkpoint, or random for measurements.")
    ] = None,
    max_length: Annotated[
        int | None, typer.Option("--max-length", help="Tokens of prompt and output together at most.")
    ] = None,
    log_file: Annotated[
        str | None, typer.Option("--log-file", help="Where all processes log; - for standard error.")
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Return once all is ready, and leave it running.")] = False,
    ready_descriptor: Annotated[int | None, typer.Option("--ready-descriptor", hidden=True)] = None,
) -> None:
    """Serve a model on this machine: keeper, block manager, engines and front doors.

    Shows the way to readiness, prints every address, and stays in the foreground; whatever dies is started again. Ctrl-C, or
    `pagehold down`, stops it. Everything else is set by PAGEHOLD_… variables or a TOML file that PAGEHOLD_CONFIG names. Exits
    with 78 where a setting is wrong or the model cannot be loaded, and says why.
    """
    import os

    # What `up` itself starts a thread pool for is gRPC alone; its log lines on a terminal are nobody's.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    flags: dict[str, Any] = {
        "doors": doors,
        "engines": engines,
        "address": address,
        "admin_address": admin_address,
        "runtime_dir": runtime_dir,
        "log_file": log_file,
    }
    engine_flags = {
        "model": model,
        "blocks": blocks,
        "kv_memory": kv_memory,
        "device": device,
        "weights": weights,
        "max_length": max_length,
    }
    with wrong_settings_end():
        from executor.launch.process import run_detached, run_up
        from executor.launch.settings import LaunchSettings

        settings = LaunchSettings.load(engine_flags=engine_flags, **flags)
        raise typer.Exit(run_detached(settings) if detach else run_up(settings, ready_descriptor))


def down(
    runtime_dir: RuntimeDir = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0, help="Seconds for a stop in good order, before all is killed.")
    ] = 60.0,
) -> None:
    """Stop what `pagehold up` started: front doors, then engines, then the block manager, and wait for their ends."""
    from blockmgr.runtime import find_runtime_dir

    with wrong_settings_end():
        folder = find_runtime_dir(runtime_dir, process="up")
        from executor.launch.process import run_down

        raise typer.Exit(run_down(folder, timeout))
