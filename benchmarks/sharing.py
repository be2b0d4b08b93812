"""What samples and beams of one prompt save by sharing blocks, measured on a running server.

    python -m benchmarks.sharing [--requests 8] [--widths 2,4,6] [--model demo]

Requests of each kind start together and go on to their lengths, which are drawn as `pagehold simulate sharing` draws them;
prompts are pieces of this project's documentation. The manager is looked at ten times a second: *saved* are the entries of
block tables that name a block which another entry names too, of all entries, summed over all looks. Beside it stand what the
simulation says for the same requests and the PagedAttention paper's figures. Takes several minutes on a CPU.
"""

import argparse
import asyncio
import json
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.serving import Served, serving
from blockmgr.simulation.sharing import PAPER_PERCENT, measure_sharing
from blockmgr.simulation.workload import ALPACA, SHAREGPT, Request
from pagehold.client import AsyncClient
from pagehold.client.admin import AdminClient

MIXES = {mix.name: mix for mix in (ALPACA, SHAREGPT)}
LOOK_EVERY = 0.1
DOCUMENTS = Path(__file__).parents[1] / "docs"


@dataclass
class Tally:
    """Sums over all looks at the manager."""

    entries: int = 0
    """Entries of block tables."""
    saved: int = 0
    """Of these, entries beyond the different blocks they name."""
    looks: int = 0

    @property
    def percent(self) -> float:
        """Blocks saved, of those that would be in use without sharing."""
        return 100 * self.saved / max(self.entries, 1)


@dataclass(frozen=True)
class Row:
    """One way of decoding on one mix of lengths."""

    method: str
    mix: str
    width: int
    saved_percent: float
    simulated_percent: float
    looks: int


async def look(served: Served, tally: Tally) -> None:
    """Add up what the manager says, until cancelled."""
    async with AdminClient(served.admin_address) as admin:
        async for answer in admin.watch_stats(LOOK_EVERY):
            use = answer.stats.sequences
            tally.entries += use.blocks_in_use + use.blocks_saved_by_sharing
            tally.saved += use.blocks_saved_by_sharing
            tally.looks += 1


async def measure(served: Served, text: Sequence[int], method: str, requests: list[Request], width: int) -> Tally:
    """Generate all requests side by side, and look at the manager meanwhile."""
    numbers, tally = random.Random(0), Tally()
    how: dict[str, Any] = {"n": width, "temperature": 1.0} if method == "sampling" else {"beam_width": width}
    async with AsyncClient(served.address) as client:
        looking = asyncio.create_task(look(served, tally))

        async def one(request: Request) -> None:
            begin = numbers.randrange(len(text) - request.prompt)
            ids = text[begin : begin + request.prompt]
            await client.generate(ids=ids, max_tokens=request.output, ignore_eos=True, cache_bypass=True, **how)

        await asyncio.gather(*map(one, requests))
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
    return tally


async def documentation(served: Served) -> list[int]:
    """This project's documentation as tokens of the model."""
    text = "\n\n".join(path.read_text() for path in sorted(DOCUMENTS.glob("*.md")))
    async with AsyncClient(served.address) as client:
        return await client.tokenize(text[:100_000])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--requests", type=int, default=8, help="requests of each kind (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the lengths (%(default)s)")
    parser.add_argument("--widths", default="2,4,6", help="samples or beams of a prompt (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    widths = [int(width) for width in options.widths.split(",")]
    simulated = {
        (row.method, row.mix, row.width): row.saved_percent
        for row in measure_sharing(options.requests, options.seed).rows
    }
    rows = []
    with serving(options.model) as served:
        text = asyncio.run(documentation(served))
        for method, mix in PAPER_PERCENT:
            requests = MIXES[mix].draw(options.requests, np.random.default_rng(options.seed))
            for width in widths:
                tally = asyncio.run(measure(served, text, method, requests, width))
                known = simulated.get((method, mix, width), float("nan"))
                rows.append(Row(method, mix, width, tally.percent, known, tally.looks))
                if not options.json:
                    print_row(rows[-1])
    if options.json:
        print(json.dumps([asdict(row) for row in rows]))


def print_row(row: Row) -> None:
    """Print a row as soon as it is there."""
    low, high = PAPER_PERCENT[row.method, row.mix]
    print(
        f"{row.method:<9} {row.mix:<9} {row.width}   saved {row.saved_percent:5.1f} %"
        f"   simulated {row.simulated_percent:5.1f} %   paper, 2 to 6: {low}-{high} %   ({row.looks} looks)",
        flush=True,
    )


if __name__ == "__main__":
    main()
