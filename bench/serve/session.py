"""All of `pagehold bench serve`: what is asked, whether it can be, the run, and what is printed."""

import sys

from bench.serve.figures import figures_of
from bench.serve.pool_watch import PoolWatch
from bench.serve.report import Outcome, bar
from bench.serve.requests import check, requests_of
from bench.serve.run import Plan, run
from pagehold.client import AsyncClient
from pagehold.client.output import print_json
from pagehold.client.output import show as show_all


async def measure(
    plan: Plan, workload: str, count: int | None, max_tokens: int | None, watch: PoolWatch, json: bool
) -> bool:
    """Run a workload and print what came of it; whether a request failed. Raises WorkloadError or PageholdError."""
    async with AsyncClient(plan.address, connect_seconds=plan.connect_seconds) as client:
        server, model = await client.server_info(), await client.model(plan.model)
    requests = requests_of(workload, model.vocabulary, count, max_tokens)
    check(requests, model.max_length)
    with bar(workload, len(requests)) as show:
        done = await run(plan, requests, watch, show)
    outcome = Outcome(
        {
            "workload": workload,
            "model": model.name,
            "server": f"{plan.address}, pagehold {server.version}",
            "arrivals": str(plan.arrivals),
            "clients": f"{plan.processes} x {plan.connections} connections",
        },
        figures_of(done.records, len(requests), done.seconds),
        watch.figures(),
        done.busy,
    )
    said = outcome.remarks(server.limits.max_requests)
    if json:
        print_json(outcome.plain() | {"remarks": said})
    else:
        show_all(*outcome.tables())
        for line in said:
            print(line, file=sys.stderr)
    return bool(outcome.figures.failed)
