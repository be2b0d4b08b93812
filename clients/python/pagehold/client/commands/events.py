"""What happens in a pool, as it happens."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagehold.client.commands.options import ADDRESS, TIMEOUT, Address, Json, Pool, Timeout, call

if TYPE_CHECKING:
    from pagehold.admin.v1 import watch_pb2
    from pagehold.client.admin import AdminClient
    from pagehold.common.v1.event_pb2 import Event


def watch(
    since: Annotated[
        int | None,
        typer.Option(
            "--since", min=0, max=(1 << 64) - 1, help="Begin behind this revision instead of with what comes next."
        ),
    ] = None,
    snapshot: Annotated[bool, typer.Option("--snapshot", help="Begin with the pool as it is.")] = False,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", help="Only events of these kinds, such as admitted or evicted.")
    ] = None,
    count: Annotated[int | None, typer.Option("--count", min=1, help="Stop after so many events.")] = None,
    address: Address = ADDRESS,
    pool: Pool = None,
    timeout: Timeout = TIMEOUT,
    json: Json = False,
) -> None:
    """Follow what happens in a pool.

    With --json each event is one line, as `pagehold simulate replay` reads them. Where this reader was too slow, or began too
    late, it is told which revisions it misses.
    """
    from pagehold.client.commands.arguments import enum_value
    from pagehold.common.v1.event_pb2 import EventKind

    if since is not None and snapshot:
        raise typer.BadParameter("either --since or --snapshot, not both")
    kinds = [enum_value(EventKind, word) for word in kind or ()]

    async def work(client: "AdminClient") -> None:
        left = count
        async for answer in client.watch_events(after=since, snapshot=snapshot, kinds=kinds):
            content = answer.WhichOneof("content")
            if content == "events":
                events = answer.events.events if left is None else answer.events.events[:left]
                for event in events:
                    _print_event(event, json)
                if left is not None and (left := left - len(events)) <= 0:
                    return
            elif content == "snapshot":
                _print_snapshot(answer, json)
            elif content == "missed":
                _print_missed(answer.missed, json)

    call(work, address, pool, timeout)


def _print_event(event: "Event", json: bool) -> None:
    if json:
        _print_object(event_object(event))
    else:
        typer.echo(event_line(event))


def _print_object(value: Any) -> None:
    from pagehold.client.output import print_json

    print_json(value, compact=True)


def event_object(event: "Event") -> dict[str, Any]:
    """An event under plain names: what does not apply is empty. ``blocks`` are the device's, ``host_blocks`` the host's."""
    from pagehold.client.output import name_of

    plain: dict[str, Any] = {
        "kind": name_of(event, "kind"),
        "handle": event.handle,
        "uuid": event.uuid.replace("-", ""),
        "executor": event.executor,
        "blocks": list(event.blocks),
        "tokens": event.tokens,
        "detail": event.detail,
        "revision": event.revision,
        "time": event.time,
    }
    return plain | ({"host_blocks": list(event.host_blocks)} if event.host_blocks else {})


def event_line(event: "Event") -> str:
    """An event in a line for people."""
    from pagehold.client.output import clock, name_of, ranges

    parts = [clock(event.time), f"{event.revision:>7}", f"{name_of(event, 'kind'):<14}"]
    if event.HasField("handle"):
        parts.append(f"seq {event.handle}")
    elif event.HasField("uuid"):
        parts.append(f"request {event.uuid}")
    if event.HasField("executor"):
        parts.append(f"on {event.executor}")
    if event.HasField("tokens"):
        parts.append(f"{event.tokens} tokens")
    if event.blocks:
        parts.append(f"blocks {ranges(event.blocks)}")
    if event.host_blocks:
        parts.append(f"host blocks {ranges(event.host_blocks)}")
    return "  ".join([*parts, *([event.detail] if event.detail else [])])


def _print_snapshot(answer: "watch_pb2.WatchEventsResponse", json: bool) -> None:
    if json:
        from pagehold.client.output import plain

        return _print_object({"kind": "snapshot", **plain(answer.snapshot), "revision": answer.version.revision})
    if not answer.snapshot.HasField("stats"):
        return None
    stats = answer.snapshot.stats
    available = stats.tiers[0].available
    return typer.echo(
        f"pool {stats.name} at revision {answer.version.revision}: {stats.sequences.live} sequences live, "
        f"{stats.sequences.orphaned} orphaned, {stats.sequences.blocks_in_use} blocks in use, {available} available"
    )


def _print_missed(missed: "watch_pb2.Missed", json: bool) -> None:
    first = getattr(missed, "from")
    if json:
        return _print_object({"kind": "missed", "from": first, "to": missed.to})
    return typer.echo(f"revisions {first} to {missed.to} are not kept any more and were missed", err=True)
