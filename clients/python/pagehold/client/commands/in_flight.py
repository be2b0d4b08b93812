"""Requests in flight, listed and ended."""

import re
from typing import TYPE_CHECKING, Annotated

import typer

from pagehold.client.commands.inference import DOOR, PATIENCE, AsJson, Door, Patience, ask, plain_of

if TYPE_CHECKING:
    from pagehold.client import RequestSummary


def requests(
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="List at most so many.")] = 100,
    address: Door = DOOR,
    timeout: Patience = PATIENCE,
    json: AsJson = False,
) -> None:
    """List the requests in flight, the oldest first."""
    from pagehold.client.output import Column, print_json, show, table

    found = ask(lambda client: client.list_requests(limit, timeout=timeout), address)
    if json:
        return print_json(plain_of(found))
    if not found.requests:
        return typer.echo("No request is in flight.")
    columns = [
        *(Column("request"), Column("state"), Column("prompt", right=True), Column("output", right=True)),
        *(Column("accepted", right=True, from_width=72), Column("called", from_width=100)),
    ]
    show(table(columns, [_row(one) for one in found.requests]))
    if found.total > len(found.requests):
        typer.echo(f"{found.total - len(found.requests)} more; --limit {found.total} lists all.")
    return None


def _row(one: "RequestSummary") -> tuple[object, ...]:
    from pagehold.client.output import ago

    accepted = "-" if one.created is None else ago(one.created)
    return one.id, one.state, one.prompt_tokens, one.output_tokens, accepted, one.request_id or "-"


def cancel(
    request: Annotated[str, typer.Argument(metavar="REQUEST", help="Its id, or the name that its caller gave it.")],
    address: Door = DOOR,
    timeout: Patience = PATIENCE,
    json: AsJson = False,
) -> None:
    """End a request."""
    from pagehold.client.output import print_json

    uuid = re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", request)
    key = {"id": request} if uuid else {"request_id": request}
    cancelled = ask(lambda client: client.cancel(**key, timeout=timeout), address)
    if json:
        return print_json({"cancelled": cancelled})
    return typer.echo("It ends." if cancelled else "It had ended before.")
