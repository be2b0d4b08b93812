"""``pagehold simulate``: what paging saves, shown on the real allocator."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

simulate = typer.Typer(
    help="Show on the real allocator what paging saves, beside contiguous allocation.", no_args_is_help=True
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Picture = Annotated[
    Path | None, typer.Option("--svg", metavar="PATH", help="Draw a picture into this file.", dir_okay=False)
]
SLOTS = 1_000_000
MAX_SEQ_LEN = 2048


@simulate.command()
def snapshot(as_json: AsJson = False, svg: Picture = None) -> None:
    """How many of 1,000 requests fit into a pool at once, and how much of what they reserve they use."""
    from blockmgr.simulation.charts import draw_snapshot
    from blockmgr.simulation.snapshot import take_snapshot
    from blockmgr.simulation.tables import snapshot_table
    from blockmgr.simulation.workload import uniform_requests

    taken = take_snapshot(uniform_requests(), SLOTS, MAX_SEQ_LEN, tokens_per_block=16)
    _show("snapshot", taken, as_json, svg, lambda: snapshot_table(taken), lambda: draw_snapshot(taken))


@simulate.command()
def sweep(as_json: AsJson = False, svg: Picture = None) -> None:
    """What the size of a block costs: slots in vain, bytes of bookkeeping, the allocator's time."""
    from blockmgr.simulation.charts import draw_sweep
    from blockmgr.simulation.sweep import sweep as run_sweep
    from blockmgr.simulation.tables import sweep_table
    from blockmgr.simulation.workload import uniform_requests

    swept = run_sweep(uniform_requests(), SLOTS, MAX_SEQ_LEN)
    _show("sweep", swept, as_json, svg, lambda: sweep_table(swept), lambda: draw_sweep(swept))


@simulate.command()
def lifecycle(as_json: AsJson = False, svg: Picture = None) -> None:
    """Seven requests come, grow and go in a pool of 64 slots, event by event."""
    from blockmgr.simulation.lifecycle import live_through
    from blockmgr.simulation.strips import draw_timeline
    from blockmgr.simulation.tables import timeline_table
    from blockmgr.simulation.timeline import of_lifecycle

    story = live_through()
    picture = of_lifecycle(story)
    _show("lifecycle", story, as_json, svg, lambda: timeline_table(picture), lambda: draw_timeline(picture))


@simulate.command()
def sharing(
    as_json: AsJson = False,
    svg: Picture = None,
    requests: Annotated[int, typer.Option(min=1, max=1000, help="Requests of each run.")] = 32,
    seed: Annotated[int, typer.Option(min=0, help="Seed of lengths and scores.")] = 0,
    entropy: Annotated[
        float, typer.Option(min=0.05, max=4, help="Beams: mean entropy of the next token, in nats.")
    ] = 1.0,
    noise: Annotated[
        float, typer.Option(min=0, max=10, help="Beams: how far those of a group differ, in log-weight.")
    ] = 0.1,
) -> None:
    """What samples and beams of one prompt save by sharing blocks, beside the PagedAttention paper's figures.

    Lengths are drawn from geometric distributions with the means of Alpaca's and ShareGPT's. Beams are scored by a model
    of a language model: candidates weighted by a Poisson–Dirichlet process, alike for the beams of a group but for noise.
    """
    from rich.console import Console

    from blockmgr.simulation.beams import Divergence
    from blockmgr.simulation.charts import draw_sharing
    from blockmgr.simulation.sharing import measure_sharing
    from blockmgr.simulation.tables import sharing_table

    with Console(stderr=True).status("decoding") as status:
        measured = measure_sharing(
            requests,
            seed,
            Divergence(entropy, noise),
            on_row=lambda row: status.update(f"decoded: {row.method}, lengths like {row.mix}, width {row.width}"),
        )
    _show("sharing", measured, as_json, svg, lambda: sharing_table(measured), lambda: draw_sharing(measured))


@simulate.command()
def replay(
    file: Annotated[typer.FileText, typer.Argument(help="What `pagehold watch --json` wrote; - for standard input.")],
    as_json: AsJson = False,
    svg: Picture = None,
    last: Annotated[int, typer.Option(min=1, max=5000, help="Moments to show, counted from the end.")] = 100,
) -> None:
    """Draw who held which block in a real run, event by event."""
    from blockmgr.simulation.recorded import RecordingError, read_events
    from blockmgr.simulation.replay import of_replay
    from blockmgr.simulation.replay import replay as follow
    from blockmgr.simulation.strips import draw_timeline
    from blockmgr.simulation.tables import timeline_table

    try:
        story = follow(read_events(file, file.name), last)
    except (RecordingError, UnicodeDecodeError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    picture = of_replay(story, file.name)
    _show("replay", story, as_json, svg, lambda: timeline_table(picture), lambda: draw_timeline(picture))


def _show(
    scenario: str,
    result: Any,
    as_json: bool,
    svg: Path | None,
    table: "Callable[[], RenderableType]",
    draw: Callable[[], str],
) -> None:
    """Print a scenario's result, a dataclass, as a table or as JSON, and draw it where a picture is asked for."""
    import json
    from dataclasses import asdict

    if svg is not None:
        try:
            svg.write_text(draw(), encoding="utf-8")
        except OSError as error:
            typer.echo(f"--svg is {svg}, which cannot be written: {error.strerror}", err=True)
            raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps({"scenario": scenario} | asdict(result), indent=2))
        return
    from blockmgr.simulation.tables import console

    console().print(table())
