"""An engine whose model fails where it is told to, as a process.

    python -m tests.engines.faulty MODEL [flags of `pagehold executor`]

NAN_AT, RAISE_AT and DIE_AT hold a token id: a token of that id makes its row's logits no numbers, its step fail, or kills
the process. RAISE_ONCE makes the first step fail that has it, and SLOW gives each step so many seconds more. HOLD names a
file: while it is there, steps stand still of which it says so (``tests.engines.holds``). With POISON
set, no block but those of a step's own sequences holds a number when it begins, the null block apart: whoever else there
is loses what it had, so one sequence at a time runs. LATE_COPIES makes copies on the host tier come so many seconds late,
beside steps. TABLES names a file in which the block tables of the last step stand. With NEAR set, blocks are asked for as
far ahead as beside a fast manager, however slow it is.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch

from executor.engine import devices, pace, process
from executor.engine.loading import load
from executor.models.batch import AttentionBatch
from executor.models.model import PagedModel
from tests.engines.holds import Standstill
from tests.engines.late_copies import LateCopies


def number(name: str) -> int:
    """A token id of the environment; one that no token has, where it is not set."""
    return int(os.environ.get(name, -2))


def tell_tables(file: Path, batch: AttentionBatch, tokens_per_block: int) -> None:
    """Write the blocks that hold each row's tokens to a file, in one go."""
    lengths = (-(-batch.lengths // tokens_per_block)).tolist()
    tables = [table[:length] for table, length in zip(batch.tables.tolist(), lengths, strict=True)]
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(tables))
    draft.rename(file)


class FaultyModel:
    """A model that fails."""

    def __init__(self, model: PagedModel) -> None:
        self._model = model
        self._raised = False
        self._slow = float(os.environ.get("SLOW", 0))
        self._standstill = Standstill(Path(os.environ["HOLD"])) if "HOLD" in os.environ else None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def forward(
        self, ids: torch.Tensor, positions: torch.Tensor, batch: AttentionBatch, pool: torch.Tensor
    ) -> torch.Tensor:
        """The model's own, with faults."""
        time.sleep(self._slow)
        if self._standstill is not None:
            self._standstill.pass_by(ids, positions)
        if "TABLES" in os.environ:
            tell_tables(Path(os.environ["TABLES"]), batch, pool.shape[4])
        if "POISON" in os.environ:
            others = torch.ones(len(pool), dtype=torch.bool)
            others[batch.tables.flatten().long()] = False
            others[0] = False
            pool[others] = float("nan")
        if bool((ids == number("DIE_AT")).any()):
            os.kill(os.getpid(), signal.SIGKILL)
        if bool((ids == number("RAISE_AT")).any()):
            raise ValueError("this id is poison")
        if not self._raised and bool((ids == number("RAISE_ONCE")).any()):
            self._raised = True
            raise ValueError("this id is poison once")
        hidden = self._model.forward(ids, positions, batch, pool)
        hidden[ids == number("NAN_AT")] = float("nan")
        return hidden


def main() -> None:
    """Run the engine."""
    setattr(process, "load", lambda prepared: FaultyModel(load(prepared)))  # noqa: B010 - it is not exported from there
    if "NEAR" in os.environ:
        setattr(pace, "MOST", pace.LEAST)  # noqa: B010 - it is a constant
    if "LATE_COPIES" in os.environ:
        LateCopies.late = float(os.environ["LATE_COPIES"])
        setattr(devices, "HostDevice", LateCopies)  # noqa: B010 - likewise
    from pagehold.client.cli import main as run

    sys.argv = ["pagehold", "executor", *sys.argv[1:]]
    run()


if __name__ == "__main__":
    main()
