"""The prefix cache: what is in it, and what a prompt would find."""

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from pagehold.client.commands.inference import DOOR, ModelName, ask
from pagehold.client.commands.options import ADDRESS, TIMEOUT, Adapter, Address, Json, Pool, Salt, Timeout, call

if TYPE_CHECKING:
    from pagehold.admin.v1 import prefix_pb2
    from pagehold.client.admin import AdminClient

WHY = {
    "hit": "cached: would be used",
    "host-hit": "in the host tier: would be copied back",
    "being-filled": "a launched step is filling it: others wait, its own executor may use it",
    "expected": "a live sequence is going to fill it: the prompt would wait for that",
    "evicted": "was cached and has been evicted",
    "never-seen": "was never cached, as far as is known",
    "other-tokens": "its hash is taken by other tokens: not used",
    "unreachable": "cached, but a block before it is missing",
    "always-computed": "the last token is always computed, so its block is too",
}


def prefixes(
    below: Annotated[
        str | None, typer.Option("--below", metavar="HASH", help="Only what descends from this hash.")
    ] = None,
    depth: Annotated[int | None, typer.Option("--depth", min=1, help="At most so many blocks deep.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000_000, help="At most so many blocks.")] = 1000,
    address: Address = ADDRESS,
    pool: Pool = None,
    timeout: Timeout = TIMEOUT,
    json: Json = False,
) -> None:
    """Show the cached prefixes as a tree: each line is a run of blocks that nothing branches off from."""
    from pagehold.admin.v1.prefix_pb2 import WalkPrefixesResponse
    from pagehold.client.commands.prefix_tree import draw
    from pagehold.client.output import print_json, show

    async def work(client: "AdminClient") -> "prefix_pb2.WalkPrefixesResponse":
        walked = WalkPrefixesResponse()
        async for part in client.walk_prefixes(below=below, max_depth=depth, limit=limit):
            walked.MergeFrom(part)
        return walked

    answer = call(work, address, pool, timeout)
    if json:
        return print_json(answer)
    if not answer.nodes:
        return typer.echo("Nothing is cached.")
    show(draw(answer.nodes))
    return typer.echo(f"\nThe first {len(answer.nodes)} blocks; --limit shows more.") if answer.truncated else None


def explain(
    prompt: Annotated[
        str, typer.Argument(help="A text, or token ids: 1,2,3 or a JSON list; @FILE, or - for standard input.")
    ],
    salt: Salt = None,
    adapter: Adapter = None,
    door: Annotated[
        str, typer.Option("--door", envvar="PAGEHOLD_ADDRESS", help="The server that knows the tokens of a text.")
    ] = DOOR,
    model: ModelName = None,
    address: Address = ADDRESS,
    pool: Pool = None,
    timeout: Timeout = TIMEOUT,
    json: Json = False,
) -> None:
    """Say what a prompt would find in the cache, and why not more. Touches nothing."""
    from pagehold.client.commands.arguments import are_ids, prompt_of, text_of
    from pagehold.client.output import Column, print_json, show, table

    text = text_of(prompt)
    if not are_ids(text):
        text = ",".join(map(str, ask(lambda client: client.tokenize(text, model=model, timeout=timeout), door)))
    asked = prompt_of(text, salt, adapter)
    answer = call(lambda client: client.lookup_prefix(asked), address, pool, timeout)
    if json:
        return print_json(answer)
    typer.echo(f"{answer.cached_tokens} of {len(asked.ids)} tokens would be taken from the cache\n")
    show(table([Column("blocks"), Column("outcome"), Column("why")], _explained(answer)))
    if answer.cached_tokens < len(asked.ids) - 1:
        typer.echo("\nWhat is cached under another salt, adapter or model cannot be found with this prompt.")
    return None


def _explained(answer: "prefix_pb2.LookupPrefixResponse") -> Iterator[tuple[str, str, str]]:
    """Blocks of the prompt in a row of which the same is true, in one line."""
    from pagehold.client.output import ranges

    for (outcome, why), run in groupby(answer.blocks, key=_reason):
        lines = list(run)
        found = [line.id.block for line in lines if line.HasField("id")]
        where = f" (blocks {ranges(found)})" if found else ""
        yield ranges([line.index for line in lines]), outcome, why + where


def _reason(line: "prefix_pb2.PrefixBlock") -> tuple[str, str]:
    from pagehold.client.output import ago, name_of

    outcome = name_of(line, "outcome")
    why = WHY.get(outcome, outcome)
    if line.HasField("handle"):
        why += f"; sequence {line.handle} of executor {line.executor}"
    if line.HasField("evicted"):
        why += f", {ago(line.evicted)}"
    return outcome, why
