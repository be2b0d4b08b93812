"""The command that looks at this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from blockmgr.diagnosis import Finding


def doctor(
    runtime_dir: Annotated[Path | None, typer.Option("--runtime-dir", help="Folder of sockets and locks.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Say what this machine can do, and what is missing.

    Exits with 1 if anything is broken that nothing works without.
    """
    import json
    from dataclasses import asdict

    from blockmgr.diagnosis import Verdict, examine

    findings = examine(runtime_dir)
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        _print_table(findings)
    raise typer.Exit(int(any(finding.verdict is Verdict.BROKEN for finding in findings)))


def _print_table(findings: "list[Finding]") -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    marks = {"good": "[green]✓[/]", "lacking": "[yellow]–[/]", "broken": "[red]✗[/]"}
    table = Table(box=None, show_header=False, padding=(0, 1))
    for finding in findings:
        table.add_row(marks[finding.verdict], escape(finding.subject), escape(finding.text))
    Console().print(table)
