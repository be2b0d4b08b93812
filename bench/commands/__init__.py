"""`pagehold bench`. Light to import: whatever is heavy is imported when a command runs."""

import typer

from bench.commands.baselines import baseline
from bench.commands.kernel_times import kernels
from bench.commands.manager_costs import manager
from bench.commands.serving import serve

bench = typer.Typer(
    help="Measure: a running server, the kernels, the block manager, others' programs.", no_args_is_help=True
)
for command in (serve, kernels, manager, baseline):
    bench.command()(command)
