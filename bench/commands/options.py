"""Options that several measurements have."""

from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Workload = Annotated[
    str, typer.Argument(help="single, seed, small, prefix, sampling, or a file of JSON lines, a request each.")
]
Requests = Annotated[int | None, typer.Option("--requests", min=1, help="Only the first so many requests.")]
MaxTokens = Annotated[int | None, typer.Option("--max-tokens", min=1, help="Cut each output to so many tokens.")]
Sizes = Annotated[str, typer.Option("--sizes", help="Numbers of sequences, with commas between.")]
