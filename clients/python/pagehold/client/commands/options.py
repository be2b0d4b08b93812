"""Options that all operators' commands have, and how a command calls the manager."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, NoReturn, TypeVar

import typer

if TYPE_CHECKING:
    from pagehold.client.admin import AdminClient

Result = TypeVar("Result")

ADDRESS = "127.0.0.1:7070"
TIMEOUT = 10.0

Address = Annotated[
    str,
    typer.Option(
        "--address", envvar="PAGEHOLD_ADMIN_ADDRESS", help="The manager's operators' port: HOST:PORT or unix:PATH."
    ),
]
Pool = Annotated[str | None, typer.Option("--pool", help="Name of the pool; not needed where there is one.")]
Timeout = Annotated[float, typer.Option("--timeout", min=0.001, help="Seconds to wait for an answer.")]
Json = Annotated[
    bool, typer.Option("--json", help="Print JSON: 64-bit numbers as numbers, bytes as hexadecimal digits.")
]

Salt = Annotated[str | None, typer.Option("--salt", help="The prompt's cache salt.")]
Adapter = Annotated[str | None, typer.Option("--adapter", help="The prompt's adapter.")]


def call(work: Callable[["AdminClient"], Awaitable[Result]], address: str, pool: str | None, timeout: float) -> Result:
    """Connect, do the work, and return what it returns. What goes wrong is said in a line, with exit code 1."""
    import asyncio

    from pagehold.client.admin import AdminClient, AdminError

    async def connected() -> Result:
        async with AdminClient(address, pool, timeout) as client:
            return await work(client)

    try:
        return asyncio.run(connected())
    except AdminError as error:
        fail(str(error))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def fail(text: str) -> NoReturn:
    """Say what is wrong on standard error, and exit with code 1."""
    typer.echo(text, err=True)
    raise typer.Exit(1)


def refuse_without(needed: str, **options: object) -> None:
    """Refuse options that mean nothing without another: to pass over them would do something else than what was asked.

    Raises:
        typer.BadParameter: one of them was given (None: not given).
    """
    for name, value in options.items():
        if value is not None:
            raise typer.BadParameter(f"--{name} means nothing without {needed}")
