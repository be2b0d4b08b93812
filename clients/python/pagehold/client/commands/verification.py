"""The pool against its invariants."""

from typing import Annotated

import typer

from pagehold.client.commands.options import ADDRESS, Address, Json, Pool, call


def verify(
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="List at most so many violations.")] = 100,
    address: Address = ADDRESS,
    pool: Pool = None,
    timeout: Annotated[float, typer.Option("--timeout", min=0.001, help="Seconds to wait for an answer.")] = 60.0,
    json: Json = False,
) -> None:
    """Check a pool against every invariant. Exits with 1 if one is violated."""
    from pagehold.client.output import print_json

    answer = call(lambda client: client.verify(limit), address, pool, timeout)
    if json:
        print_json(answer)
    else:
        checked = (
            f"{answer.blocks} blocks, {answer.sequences} sequences, {answer.table_entries} table entries, "
            f"{answer.index_entries} index entries, {answer.tickets} pending copies"
        )
        typer.echo(f"checked {checked} at revision {answer.version.revision} in {answer.seconds:.3f} s")
        for violation in answer.violations:
            typer.echo(f"invariant {violation.invariant}: {violation.detail}")
        hidden = answer.violation_count - len(answer.violations)
        if hidden:
            typer.echo(f"and {hidden} more; --limit shows them")
        typer.echo(f"{answer.violation_count} violations" if answer.violation_count else "all invariants hold")
    if answer.violation_count:
        raise typer.Exit(1)
