"""Cached blocks given up."""

from typing import TYPE_CHECKING, Annotated

import typer

from pagehold.client.commands.options import ADDRESS, TIMEOUT, Address, Json, Pool, Timeout, call, refuse_without

if TYPE_CHECKING:
    from pagehold.admin.v1 import evict_pb2
    from pagehold.client.admin import AdminClient


def evict(
    blocks: Annotated[list[str] | None, typer.Argument(metavar="BLOCK…", help="Blocks: 17, or host:17.")] = None,
    count: Annotated[
        int | None, typer.Option("--count", min=1, max=100_000, help="So many of those that would go next.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every cached block.")] = False,
    tier: Annotated[
        str | None, typer.Option("--tier", help="device or host; absent: device for --count, both for --all.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be evicted.")] = False,
    address: Address = ADDRESS,
    pool: Pool = None,
    timeout: Timeout = TIMEOUT,
    json: Json = False,
) -> None:
    """Give up cached blocks: those named, so many of the coldest, or all."""
    from pagehold.client.commands.arguments import block_of, tier_of
    from pagehold.client.output import print_json

    if sum((bool(blocks), count is not None, everything)) != 1:
        raise typer.BadParameter("name blocks, or give --count, or --all")
    if blocks:
        refuse_without("--count or --all", tier=tier)
    where, named = tier_of(tier), [block_of(text) for text in blocks or ()]
    if everything:
        flushed = call(lambda client: client.flush(tier=where, dry_run=dry_run), address, pool, timeout)
        return print_json(flushed) if json else _say_flushed(flushed, dry_run)

    async def work(client: "AdminClient") -> "evict_pb2.EvictResponse":
        return await client.evict(blocks=named or None, count=count, tier=where, dry_run=dry_run)

    answer = call(work, address, pool, timeout)
    return print_json(answer) if json else _say_evicted(answer, dry_run)


def _say_flushed(answer: "evict_pb2.FlushResponse", dry_run: bool) -> None:
    verb = "would evict" if dry_run else "evicted"
    kept = f"; {answer.kept} cached ones stay, pinned or still in use" if answer.kept else ""
    typer.echo(f"{verb} {answer.device_blocks} device blocks and {answer.host_blocks} host blocks{kept}")


def _say_evicted(answer: "evict_pb2.EvictResponse", dry_run: bool) -> None:
    from pagehold.client.commands.wording import block_name, block_names
    from pagehold.client.output import name_of

    verb, names = "would evict" if dry_run else "evicted", block_names(answer.evicted)
    typer.echo(f"{verb} {len(answer.evicted)} blocks{f': {names}' if names else ''}")
    for one in answer.kept:
        typer.echo(f"block {block_name(one.id)} stays {name_of(one, 'state')}: {one.detail}")
