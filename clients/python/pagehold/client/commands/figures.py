"""The pool in figures."""

from typing import TYPE_CHECKING, Annotated

import typer

from pagehold.client.commands.options import ADDRESS, TIMEOUT, Address, Json, Pool, Timeout, call, fail, refuse_without

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pagehold.admin.v1 import pool_pb2, stats_pb2
    from pagehold.client.admin import AdminClient


def pool(
    name: Annotated[str | None, typer.Argument(help="Name of the pool; not needed where there is one.")] = None,
    every: Annotated[float | None, typer.Option("--every", min=0.1, help="Print again every so many seconds.")] = None,
    address: Address = ADDRESS,
    pool: Pool = None,
    timeout: Timeout = TIMEOUT,
    json: Json = False,
) -> None:
    """Show what a pool holds and how well it is used.

    Where there are several pools and none is named, they are listed. Exits with 1 where there is none.
    """
    if name is not None and pool not in (None, name):
        raise typer.BadParameter(f"either {name} or --pool {pool}, not both")

    async def work(client: "AdminClient") -> None:
        if client.pool is None:
            pools = await client.list_pools()
            if not pools.pools:
                fail("there is no pool yet: the first executor that registers makes one")
            if len(pools.pools) > 1:
                refuse_without("the name of one of the pools", every=every)
                return _show_pools(pools, json)
            client.pool = pools.pools[0].name
        if every is None:
            return _show(await client.pool_stats(), json)
        async for answer in client.watch_stats(every):
            _show(answer, json, again=True)
        return None

    call(work, address, name or pool, timeout)


def _show_pools(answer: "pool_pb2.ListPoolsResponse", json: bool) -> None:
    from pagehold.client.output import Column, print_json, show, table

    if json:
        return print_json(answer)
    names = ("pool", "device blocks", "available", "sequences", "executors", "revision")
    columns = [Column(name, right=place > 0) for place, name in enumerate(names)]
    rows = [
        (one.name, one.device_blocks, one.available_blocks, one.sequences, one.executors, one.revision)
        for one in answer.pools
    ]
    show(table(columns, rows))
    return typer.echo("\nName one to see more: pagehold pool NAME")


def _show(
    answer: "stats_pb2.GetPoolStatsResponse | stats_pb2.WatchPoolStatsResponse", json: bool, again: bool = False
) -> None:
    from pagehold.client.output import print_json, show

    if json:
        return print_json(answer, compact=again)
    stats = answer.stats
    show(_about(stats, answer.version.revision), "", _tiers(stats), "", _use(stats), "", _counted(stats))
    return typer.echo("") if again else None


def _about(stats: "stats_pb2.PoolStats", revision: int) -> "RenderableType":
    from pagehold.client.output import facts, name_of, size

    shape, content, geometry = stats.identity.shape, stats.identity.content, stats.geometry
    growth = (
        f", may grow to {geometry.max_device_blocks}" if geometry.max_device_blocks > geometry.device_blocks else ""
    )
    gpus = [shard.gpu_uuid for shard in stats.shards if shard.gpu_uuid]
    return facts(
        [
            ("pool", f"{stats.name}{'  (draining: admits nothing new)' if stats.draining else ''}"),
            ("model", f"{content.model} @ {content.revision}"),
            ("block", f"{geometry.tokens_per_block} tokens, {size(geometry.block_bytes)}"),
            ("shape", f"{shape.layers} layers x {shape.kv_heads} KV heads x {shape.head_size}, {shape.dtype}"),
            ("memory", f"{name_of(stats, 'arena')}, {size(geometry.device_bytes)}{growth}"),
            ("on", ", ".join(gpus) or None),
            ("ledger", size(stats.ledger_bytes)),
            ("executors", stats.executors),
            ("revision", revision),
        ]
    )


def _tiers(stats: "stats_pb2.PoolStats") -> "RenderableType":
    from pagehold.client.output import Column, name_of, table

    tiers = stats.tiers
    columns = [Column("blocks"), *(Column(name_of(tier, "tier"), right=True) for tier in tiers)]
    states = dict.fromkeys(name_of(count, "state") for tier in tiers for count in tier.states)
    counts = [{name_of(count, "state"): count.blocks for count in tier.states} for tier in tiers]
    rows: list[tuple[object, ...]] = [("all", *(tier.blocks for tier in tiers))]
    rows += [(f"  {state}", *(count.get(state, 0) for count in counts)) for state in states]
    rows.append(("free or evictable", *(tier.available for tier in tiers)))
    for title, field in (("shared", "shared"), ("in the prefix index", "indexed"), ("pinned", "pinned"),
                         ("behind a fence", "fenced"), ("beyond the new size", "beyond_size")):  # fmt: skip
        values = [getattr(tier, field) for tier in tiers]
        if any(values):
            rows.append((title, *values))
    return table(columns, rows)


def _use(stats: "stats_pb2.PoolStats") -> "RenderableType":
    from pagehold.client.output import facts, name_of, percent, size

    use = stats.sequences
    copies = ", ".join(f"{count.tickets} {name_of(count, 'kind')}" for count in stats.pending_tickets)
    swapped = f"{use.swapped} ({use.leaving} leaving, {use.returning} returning, {use.released} to be computed again)"
    return facts(
        [
            ("sequences", f"{use.live} live, {use.orphaned} orphaned; {use.free_slots} slots free"),
            ("swapped", swapped if use.swapped else None),
            ("tokens", f"{use.tokens} recorded, {use.computed_tokens} computed"),
            ("utilisation", f"{percent(use.utilisation)} of the usable pool holds tokens"),
            (
                "fragmentation",
                f"{percent(use.internal_fragmentation)} of the {use.blocks_in_use} blocks in use is empty",
            ),
            ("sharing", f"{use.blocks_saved_by_sharing} blocks saved, {use.table_entries} table entries in all"),
            ("tables", size(use.table_bytes)),
            ("copies pending", copies or None),
            ("pins", stats.pins or None),
            ("finished, kept", stats.finished_requests),
        ]
    )


def _counted(stats: "stats_pb2.PoolStats") -> "RenderableType":
    from pagehold.client.output import facts, percent, span

    counted = stats.counters
    hits = counted.cached_prompt_tokens / max(1, counted.prompt_tokens)
    return facts(
        [
            ("manager runs for", span(counted.seconds)),
            ("turns", f"{counted.turns} ({counted.repeated_turns} repeated)"),
            ("prompts", f"{counted.admitted} admitted, {counted.refused} refused, {counted.finished} finished"),
            ("prompt tokens", f"{counted.prompt_tokens}, {percent(hits)} found in the cache"),
            ("output tokens", counted.output_tokens),
            ("blocks", f"{counted.sealed_blocks} sealed, {counted.evicted_blocks} evicted"),
            ("copies", counted.copies),
            ("short of blocks", f"{counted.short_reservations} times"),
            ("adopted", counted.adopted or None),
            ("longest stall", span(counted.longest_stall_seconds)),
        ]
    )
