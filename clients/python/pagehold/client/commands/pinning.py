"""Cached prefixes kept from being evicted."""

from typing import TYPE_CHECKING, Annotated

import typer

from pagehold.client.commands.options import (
    ADDRESS,
    TIMEOUT,
    Adapter,
    Address,
    Json,
    Pool,
    Salt,
    Timeout,
    call,
    refuse_without,
)

if TYPE_CHECKING:
    from pagehold.admin.v1 import block_pb2, pin_pb2
    from pagehold.client.admin import AdminClient


def pin(
    block: Annotated[str | None, typer.Argument(metavar="BLOCK", help="A block: 17, or host:17.")] = None,
    prompt: Annotated[
        str | None, typer.Option("--prompt", help="Token ids (1,2,3; @FILE; -): every cached block of this prompt.")
    ] = None,
    salt: Salt = None,
    adapter: Adapter = None,
    generation: Annotated[
        int | None, typer.Option("--generation", min=0, help="Only if the block still has this generation.")
    ] = None,
    ttl: Annotated[str | None, typer.Option("--ttl", help="How long: 90, 30m, 2h, 1d; an hour if not given.")] = None,
    label: Annotated[str | None, typer.Option("--label", help="What to call the pin.")] = None,
    address: Address = ADDRESS,
    pool: Pool = None,
    timeout: Timeout = TIMEOUT,
    json: Json = False,
) -> None:
    """Keep a block, or all that is cached of a prompt, from being evicted for a time; list the pins where neither is given."""
    from pagehold.admin.v1.pin_pb2 import BlockPin
    from pagehold.client.commands.arguments import block_of, prompt_of, seconds_of
    from pagehold.client.output import print_json

    if block is not None and prompt is not None:
        raise typer.BadParameter("either a block or --prompt, not both")
    if block is None:
        refuse_without("a block", generation=generation)
    if prompt is None:
        refuse_without("--prompt", salt=salt, adapter=adapter)
    if block is None and prompt is None:
        refuse_without("a block or --prompt", ttl=ttl, label=label)
        return _list_pins(address, pool, timeout, json)
    named = None if block is None else BlockPin(id=block_of(block), expected_generation=generation)
    asked = None if prompt is None else prompt_of(prompt, salt, adapter)
    seconds = seconds_of(ttl or "1h")

    async def work(client: "AdminClient") -> "pin_pb2.PinResponse":
        return await client.pin(block=named, prompt=asked, ttl_seconds=seconds, label=label)

    answer = call(work, address, pool, timeout)
    if json:
        return print_json(answer)
    tokens = f", {answer.pinned_tokens} tokens of the prompt" if prompt is not None else ""
    return typer.echo(f"pin {_pin_line(answer.pin)}{tokens}")


def _pin_line(one: "block_pb2.Pin") -> str:
    from pagehold.client.commands.wording import block_names, time_left

    label = f" {one.label!r}" if one.label else ""
    return f"{one.id}{label}: blocks {block_names(one.blocks)}, {time_left(one)} left"


def _list_pins(address: str, pool: str | None, timeout: float, json: bool) -> None:
    from pagehold.client.commands.wording import block_names, time_left
    from pagehold.client.output import Column, print_json, show, table

    answer = call(lambda client: client.list_pins(), address, pool, timeout)
    if json:
        return print_json(answer)
    if not answer.pins:
        return typer.echo("Nothing is pinned.")
    columns = [Column("pin", right=True), Column("label"), Column("time left", right=True), Column("blocks")]
    rows = [(one.id, one.label or "-", time_left(one), block_names(one.blocks)) for one in answer.pins]
    return show(table(columns, rows))


def unpin(
    id_: Annotated[int | None, typer.Argument(metavar="PIN", min=0, help="Number of the pin.")] = None,
    label: Annotated[str | None, typer.Option("--label", help="Every pin that was called this.")] = None,
    address: Address = ADDRESS,
    pool: Pool = None,
    timeout: Timeout = TIMEOUT,
    json: Json = False,
) -> None:
    """End pins before their time."""
    from pagehold.client.output import print_json

    if (id_ is None) == (label is None):
        raise typer.BadParameter("name a pin by its number, or pins by --label")
    answer = call(lambda client: client.unpin(pin_id=id_, label=label), address, pool, timeout)
    if json:
        return print_json(answer)
    for one in answer.pins:
        typer.echo(f"ended {_pin_line(one)}")
    return None
