"""The command that runs an engine."""

import os
from pathlib import Path
from typing import Annotated

import typer

from blockmgr.commands.ending import wrong_settings_end


def executor(
    model: Annotated[
        str | None, typer.Argument(help="A folder in transformers' format, a GGUF file, or demo.", show_default=False)
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="The engine's name, the same over all its lives.")] = None,
    pool: Annotated[str | None, typer.Option("--pool", help="Name of the pool.")] = None,
    served_name: Annotated[str | None, typer.Option("--served-name", help="Name of the model for callers.")] = None,
    runtime_dir: Annotated[Path | None, typer.Option("--runtime-dir", help="Folder of sockets and locks.")] = None,
    blocks: Annotated[
        int | None, typer.Option("--blocks", help="Blocks of the pool with the null block, if it is made now.")
    ] = None,
    kv_memory: Annotated[
        float | None,
        typer.Option("--kv-memory", help="Bytes of the pool instead, or a share, up to 1, of what is left for it."),
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", help="cpu, a GPU's UUID, or auto: a GPU if there is one.")
    ] = None,
    arena: Annotated[
        str | None, typer.Option("--arena", help="Memory that the pool is made of: auto, host, cuda or cuda-ipc.")
    ] = None,
    host_blocks: Annotated[
        int | None, typer.Option("--host-blocks", help="Blocks of the host tier, to swap to, if the pool is made now.")
    ] = None,
    preempt: Annotated[
        str | None, typer.Option("--preempt", help="How sequences make room: swap, recompute, or auto, the cheaper.")
    ] = None,
    max_length: Annotated[
        int | None, typer.Option("--max-length", help="Tokens of prompt and output together at most.")
    ] = None,
    max_running: Annotated[int | None, typer.Option("--max-running", help="Sequences computed at once.")] = None,
    max_waiting: Annotated[int | None, typer.Option("--max-waiting", help="Requests that may wait.")] = None,
    step_tokens: Annotated[int | None, typer.Option("--step-tokens", help="Tokens in a step at most.")] = None,
    chunk: Annotated[int | None, typer.Option("--chunk", help="Tokens of one prompt in a step at most.")] = None,
    weights: Annotated[
        str | None, typer.Option("--load", "--weights", help="checkpoint, or random for measurements.")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option("--dtype", help="Of weights and cache: float32, bfloat16 or float16.")
    ] = None,
    same_bits: Annotated[
        bool | None,
        typer.Option(
            "--same-bits/--any-bits", help="On a GPU: whether a token's bits may depend on who shares its step."
        ),
    ] = None,
    threads: Annotated[int | None, typer.Option("--threads", help="Threads that compute.")] = None,
    metrics_port: Annotated[
        int | None, typer.Option("--metrics-port", help="Port of Prometheus metrics on the loopback address; 0: none.")
    ] = None,
    log_level: Annotated[str | None, typer.Option("--log-level", help="debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, typer.Option("--log-format", help="console or json.")] = None,
) -> None:
    """Run an engine in the foreground: it computes for front doors, over a pool that the block manager holds.

    Waits for a manager in the same runtime folder. Started again under the same name, it goes on with everything that was
    accepted before. Everything else is set by PAGEHOLD_ENGINE_… variables, or in the table engine of the TOML file that
    PAGEHOLD_CONFIG names. Exits with 78 where a setting is wrong, so that starting it again makes no sense.
    """
    # Before torch comes: threads that spin when they have nothing to do slow down everything beside them.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    given = {key: value for key, value in locals().items() if key in executor.__annotations__}
    with wrong_settings_end():
        from executor.engine.settings import EngineSettings

        settings = EngineSettings.load(**given)
        from executor.engine.process import serve

        serve(settings)
