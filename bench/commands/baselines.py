"""What transformers makes of the same workload."""

from enum import StrEnum
from typing import Annotated

import typer

from bench.commands.options import AsJson, MaxTokens, Requests, Workload


class Method(StrEnum):
    """Ways to generate."""

    GENERATE = "generate"
    GENERATE_BATCH = "generate_batch"


class Weights(StrEnum):
    """Where weights come from."""

    CHECKPOINT = "checkpoint"
    RANDOM = "random"


def baseline(
    model: Annotated[str, typer.Argument(help="A folder in transformers' format, a GGUF file, or demo.")],
    workload: Workload = "seed",
    method: Annotated[
        Method, typer.Option("--method", help="Fixed batches, or transformers' continuous batching.")
    ] = Method.GENERATE_BATCH,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Requests of a fixed batch.")] = 64,
    weights: Annotated[Weights, typer.Option("--weights", help="random: drawn on the device.")] = Weights.CHECKPOINT,
    device: Annotated[str | None, typer.Option("--device", help="cuda if there is one, else cpu.")] = None,
    dtype: Annotated[str | None, typer.Option("--dtype", help="bfloat16 on a GPU, else float32.")] = None,
    requests: Requests = None,
    max_tokens: MaxTokens = None,
    json: AsJson = False,
) -> None:
    """Give a workload to transformers' own generate or generate_batch, in this process, to compare with.

    The requests are those of `bench serve`, all there from the beginning; loading and warming up are not measured.
    """
    import os

    # Before torch comes, as an engine has it.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from bench.baselines.session import Comparison
    from bench.serve.workloads import WorkloadError
    from executor.models.errors import ModelError

    random = weights is Weights.RANDOM
    try:
        Comparison(model, workload, method.value, batch, random, device, dtype, requests, max_tokens).run(json)
    except (WorkloadError, ModelError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
