"""Two ways in which transformers generates: fixed batches (`generate`), and continuous batching (`generate_batch`).

What both get is the workload as the server gets it: the same ids, each output as long as it is asked to be.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

from bench.serve.workloads import Request, WorkloadError

PADDING = 0
"""Id that fills a batch's shorter prompts up on their left; it is masked out."""

CPU_BLOCK = 256
"""Tokens of a block, and of a step, of transformers' cache on a CPU."""

Progress = Callable[[int, int], None]
"""Told how many requests have ended, and how many tokens of output they have."""


@dataclass(frozen=True)
class Baseline:
    """What came of it. ``requests`` ended as they should; ``output_tokens`` are theirs, as asked for."""

    requests: int
    prompt_tokens: int
    output_tokens: int
    seconds: float

    @property
    def output_rate(self) -> float:
        """Tokens of output a second."""
        return self.output_tokens / self.seconds

    @property
    def total_rate(self) -> float:
        """Tokens of prompt and output a second."""
        return (self.prompt_tokens + self.output_tokens) / self.seconds


def load(folder: Path, device: str, dtype: torch.dtype, *, random_weights: bool) -> Any:
    """The model in a folder, with its own weights or random ones, which are made on the device."""
    auto: Any = AutoModelForCausalLM
    if not random_weights:
        return auto.from_pretrained(folder, dtype=dtype).to(device).eval()
    config = AutoConfig.from_pretrained(folder)
    with torch.device(device):
        return auto.from_config(config, dtype=dtype).eval()


def check(requests: Sequence[Request]) -> None:
    """Refuse what cannot be compared: texts, several outputs of a prompt, outputs of no set length, mixed ways to sample.

    Raises WorkloadError.
    """
    for place, request in enumerate(requests):
        if not (request.prompt_tokens and request.max_tokens) or request.outputs > 1:
            raise WorkloadError(f"request {place}: a baseline takes ids, max_tokens, and one output of a prompt")
    if len({one.parameters.get("temperature") for one in requests}) > 1:
        raise WorkloadError("a baseline takes one temperature for all requests")


def settings_of(requests: Sequence[Request]) -> dict[str, Any]:
    """How tokens are chosen, as transformers says it; an end of sequence ends nothing."""
    temperature = requests[0].parameters.get("temperature")
    if temperature == 0.0:
        return {"do_sample": False}
    # Without filters, which transformers would otherwise have defaults for.
    return {"do_sample": True, "temperature": temperature or 1.0, "top_k": 0, "top_p": 1.0}


@torch.inference_mode()
def run_generate(model: Any, requests: Sequence[Request], batch: int, progress: Progress) -> Baseline:
    """Fixed batches of so many requests, in their order; each lasts as long as its longest output."""
    chosen = settings_of(requests)
    _generate(model, requests[:1], chosen, 2)
    began, ended, tokens = time.perf_counter(), 0, 0
    for part in _batched(requests, batch):
        _generate(model, part, chosen, max(one.max_tokens for one in part))
        ended, tokens = ended + len(part), tokens + sum(one.max_tokens for one in part)
        progress(ended, tokens)
    return _baseline(requests, time.perf_counter() - began)


def run_generate_batch(model: Any, requests: Sequence[Request], progress: Progress) -> Baseline:
    """Continuous batching, all requests at once, each with its own length.

    Raises WorkloadError where one of them does not end as it should.
    """
    # What transformers calls no end of sequence.
    settings = GenerationConfig(**settings_of(requests), eos_token_id=-1, pad_token_id=PADDING)
    settings.max_new_tokens = max(one.max_tokens for one in requests)
    given = {"generation_config": settings, "block": True, "timeout": 5, **_cache_for(model, requests)}
    with model.continuous_batching_context_manager(**given) as manager:
        _follow(manager, [Request({**requests[0].parameters, "max_tokens": 2})], lambda ended, tokens: None)
        began = time.perf_counter()
        _follow(manager, requests, progress)
        return _baseline(requests, time.perf_counter() - began)


def _cache_for(model: Any, requests: Sequence[Request]) -> dict[str, Any]:
    """On a CPU, where it would take all memory that is free, a cache of what the requests need; else as it likes."""
    if model.device.type != "cpu":
        return {}
    from transformers import ContinuousBatchingConfig

    blocks = 1 + sum(-(-(one.prompt_tokens + one.max_tokens) // CPU_BLOCK) for one in requests)
    return {"continuous_batching_config": ContinuousBatchingConfig(CPU_BLOCK, blocks, max_batch_tokens=CPU_BLOCK)}


def _follow(manager: Any, requests: Sequence[Request], progress: Progress) -> None:
    """Add requests, and wait until all have ended."""
    lengths = {
        manager.add_request(list(one.parameters["ids"]), max_new_tokens=one.max_tokens, eos_token_id=-1): one.max_tokens
        for one in requests
    }
    ended = tokens = 0
    while ended < len(lengths):
        result = manager.get_result(timeout=1)
        if result is None:
            if not manager.is_running():
                raise WorkloadError("generate_batch ended before its requests did; its log says why")
            continue
        if result.error is not None or len(result.generated_tokens) != lengths[result.request_id]:
            said = result.error or f"{len(result.generated_tokens)} tokens of {lengths[result.request_id]}"
            raise WorkloadError(f"generate_batch failed a request: {said}")
        ended, tokens = ended + 1, tokens + len(result.generated_tokens)
        progress(ended, tokens)


def _generate(model: Any, requests: Sequence[Request], chosen: dict[str, Any], tokens: int) -> None:
    """One batch, until its ids are back on the host."""
    lengths = {"max_new_tokens": tokens, "min_new_tokens": tokens}
    settings = GenerationConfig(**chosen, **lengths, eos_token_id=None, pad_token_id=PADDING)
    width = max(one.prompt_tokens for one in requests)
    ids = torch.full((len(requests), width), PADDING)
    mask = torch.zeros_like(ids)
    for row, one in enumerate(requests):
        ids[row, width - one.prompt_tokens :] = torch.tensor(one.parameters["ids"])
        mask[row, width - one.prompt_tokens :] = 1
    given = {"input_ids": ids.to(model.device), "attention_mask": mask.to(model.device)}
    out = model.generate(**given, generation_config=settings).cpu()
    if out.shape[1] != width + tokens:
        raise WorkloadError(f"generate made {out.shape[1] - width} tokens of {tokens}")


def _batched(requests: Sequence[Request], size: int) -> list[Sequence[Request]]:
    return [requests[start : start + size] for start in range(0, len(requests), size)]


def _baseline(requests: Sequence[Request], seconds: float) -> Baseline:
    return Baseline(
        len(requests),
        sum(one.prompt_tokens for one in requests),
        sum(one.max_tokens for one in requests),
        seconds,
    )
