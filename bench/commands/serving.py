"""Load on a running server."""

from typing import Annotated

import typer

from bench.commands.options import AsJson, MaxTokens, Requests, Workload


def serve(
    workload: Workload = "seed",
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", min=1, help="So many requests at a time; all at once without.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", min=1e-6, help="So many requests a second, at random moments (Poisson).")
    ] = None,
    requests: Requests = None,
    max_tokens: MaxTokens = None,
    processes: Annotated[int, typer.Option("--processes", min=1, max=64, help="Processes that make the requests.")] = 1,
    connections: Annotated[
        int, typer.Option("--connections", min=1, max=64, help="Connections of each; several doors want several.")
    ] = 1,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0.001, help="Seconds after which a request has failed.")
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option("--time-limit", min=0.001, help="Seconds after which the run ends with what it has.")
    ] = None,
    cache_salt: Annotated[
        str | None,
        typer.Option(
            "--cache-salt", help="The prefix cache's salt; without, each run has its own, and finds it empty."
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Name of the model; not needed where there is one.")
    ] = None,
    address: Annotated[
        str, typer.Option("--address", envvar="PAGEHOLD_ADDRESS", help="The server: HOST:PORT or unix:PATH.")
    ] = "127.0.0.1:7071",
    admin_address: Annotated[
        str, typer.Option("--admin-address", envvar="PAGEHOLD_ADMIN_ADDRESS", help="The manager's operators' port.")
    ] = "127.0.0.1:7070",
    pool: Annotated[str | None, typer.Option("--pool", help="Name of the pool; not needed where there is one.")] = None,
    look_every: Annotated[
        float, typer.Option("--look-every", min=0.1, help="Seconds between looks at the pool.")
    ] = 0.5,
    json: AsJson = False,
) -> None:
    """Put a running server under load over gRPC, and show times, rates, and how full the pool was.

    Requests are made by processes of their own, which do nothing else. Exits with 1 where a request failed.
    """
    if concurrency is not None and rate is not None:
        raise typer.BadParameter("give --concurrency or --rate, not both")
    if concurrency is not None and concurrency < processes:
        raise typer.BadParameter(f"--concurrency {concurrency} leaves some of {processes} processes nothing to do")
    import asyncio

    from bench.serve.arrivals import Arrivals
    from bench.serve.pool_watch import PoolWatch
    from bench.serve.run import Plan
    from bench.serve.session import measure
    from bench.serve.workloads import WorkloadError
    from pagehold.client import PageholdError

    limits = {"processes": processes, "connections": connections, "timeout": timeout, "time_limit": time_limit}
    plan = Plan(address, Arrivals(concurrency, rate), model=model, salt=cache_salt, **limits)  # type: ignore[arg-type]
    watch = PoolWatch(admin_address, pool, look_every)
    try:
        failed = asyncio.run(measure(plan, workload, requests, max_tokens, watch, json))
    except (WorkloadError, PageholdError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    raise typer.Exit(int(failed))
