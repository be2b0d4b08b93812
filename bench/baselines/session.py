"""All of `pagehold bench baseline`: the model, the requests, the run, and what is printed."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from bench.baselines.generation import Baseline, check, load, run_generate, run_generate_batch
from bench.serve.report import bar
from bench.serve.requests import requests_of
from bench.serve.workloads import Request, WorkloadError
from executor.engine.model_source import DEMO, demo_file
from executor.models.loader import model_folder
from pagehold.client.output import facts, print_json, show

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class Comparison:
    """What is to be run: ``batch`` requests at a time where the method is generate, and on what; None: as fits."""

    model: str
    workload: str
    method: str
    batch: int
    random_weights: bool
    device: str | None = None
    dtype: str | None = None
    requests: int | None = None
    max_tokens: int | None = None

    def run(self, json: bool) -> None:
        """Run it and print what came of it. Raises WorkloadError or a ModelError."""
        device = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        dtype = self.dtype or ("float32" if device == "cpu" else "bfloat16")
        if dtype not in DTYPES:
            raise WorkloadError(f"dtype is {dtype!r}; there is {', '.join(DTYPES)}")
        folder = model_folder(demo_file() if self.model == DEMO else Path(self.model))
        model = load(folder, device, DTYPES[dtype], random_weights=self.random_weights)
        requests = requests_of(self.workload, model.config.vocab_size, self.requests, self.max_tokens)
        check(requests)
        with bar(f"{self.workload}, {self.method}", len(requests)) as progress:
            found = self._measure(model, requests, progress)
        self._print(found, f"{device}, {dtype}", json)

    def _measure(self, model: Any, requests: list[Request], progress: Callable[[int, int], None]) -> Baseline:
        if self.method == "generate":
            return run_generate(model, requests, self.batch, progress)
        return run_generate_batch(model, requests, progress)

    def _print(self, found: Baseline, where: str, json: bool) -> None:
        about = {"workload": self.workload, "model": self.model, "method": self.method, "where": where}
        rates = {"output_rate": found.output_rate, "total_rate": found.total_rate}
        if json:
            return print_json({**about, **asdict(found), **rates})
        return show(
            facts(
                [
                    *about.items(),
                    ("requests", f"{found.requests:,} completed in {found.seconds:.2f} s"),
                    ("output tokens", f"{found.output_tokens:,}"),
                    ("output tokens/s", f"{found.output_rate:,.1f}"),
                    ("total tokens/s", f"{found.total_rate:,.1f}"),
                ]
            )
        )
