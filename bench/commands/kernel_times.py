"""How fast the kernels are."""

from typing import Annotated

import typer

from bench.commands.options import AsJson


def kernels(
    sweep: Annotated[bool, typer.Option("--sweep", help="Also time other tile shapes of attention.")] = False,
    json: AsJson = False,
) -> None:
    """Measure the kernels on a GPU, beside torch's attention, a plain copy, and the best published figures.

    Needs a GPU of 80 GB or more.
    """
    from dataclasses import asdict

    import torch

    from bench.kernels.row import rows_table
    from pagehold.client.output import print_json, show

    if not torch.cuda.is_available():
        typer.echo("there is no GPU here: the kernels are measured on one", err=True)
        raise typer.Exit(1)
    from bench.kernels import attention, rows

    found = [*rows.rows(), *attention.rows(sweep)]
    if json:
        return print_json({"gpu": torch.cuda.get_device_name(), "rows": [asdict(row) for row in found]})
    return show(rows_table(found))
