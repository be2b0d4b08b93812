"""Options that the commands of the inference service have, and how they call it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from pagehold.client.commands.options import fail

if TYPE_CHECKING:
    from pagehold.client import Client

Result = TypeVar("Result")

DOOR = "127.0.0.1:7071"
PATIENCE = 30.0

Door = Annotated[str, typer.Option("--address", envvar="PAGEHOLD_ADDRESS", help="The server: HOST:PORT or unix:PATH.")]
Patience = Annotated[float, typer.Option("--timeout", min=0.001, help="Seconds to wait for an answer.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ModelName = Annotated[str | None, typer.Option("--model", help="Name of the model; not needed where there is one.")]

Temperature = Annotated[
    float | None, typer.Option("--temperature", "-t", help="0 takes the likeliest token; the model's default without.")
]
TopK = Annotated[int | None, typer.Option("--top-k", help="Choose among so many of the likeliest tokens; -1: all.")]
TopP = Annotated[
    float | None, typer.Option("--top-p", help="Choose among the likeliest that together have this probability.")
]
MinP = Annotated[
    float | None,
    typer.Option("--min-p", help="Choose among those of at least this part of the likeliest's probability."),
]
Seed = Annotated[int | None, typer.Option("--seed", help="Same seed, prompt and parameters, same tokens.")]
MaxTokens = Annotated[int | None, typer.Option("--max-tokens", "-n", help="Tokens at most.")]
Stop = Annotated[list[str] | None, typer.Option("--stop", help="End right before this text. May be repeated.")]
Salt = Annotated[str | None, typer.Option("--cache-salt", help="Share cached blocks under the same salt only.")]


@contextmanager
def connected(address: str) -> Iterator["Client"]:
    """A client. What goes wrong with it is said in a line, with exit code 1; Ctrl-C ends with 130."""
    from pagehold.client import Client, PageholdError, Unavailable

    try:
        with Client(address) as client:
            yield client
    except Unavailable as error:
        hint = "" if error.reason or error.metadata else "; start one with `pagehold up`, or give its --address"
        fail(f"{error}{hint}")
    except PageholdError as error:
        fail(str(error))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def ask(work: Callable[["Client"], Result], address: str) -> Result:
    """Connect, do the work, and return what it returns."""
    with connected(address) as client:
        return work(client)


def plain_of(value: Any) -> dict[str, Any]:
    """One of the client's data classes for JSON: what is absent is left out."""
    from dataclasses import asdict

    return asdict(value, dict_factory=lambda pairs: {name: item for name, item in pairs if item is not None})
