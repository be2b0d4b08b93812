"""Are the ids that a server gives those that the model gives each prompt alone? The demo model in float32, greedy.

    python -m benchmarks.served_ids [--prompts 32] [--tokens 64] [--streams 8]

Prompts of 1 to 400 tokens are asked over gRPC, so many streams at once, of servers set up in three ways: as they are; with
a pool so small that requests wait for blocks; with chunks of 16 tokens. Every id must be equal (exit code 1 if one is not).
"""

import argparse
import asyncio
import os
import time

from benchmarks.serving import serving
from pagehold.client import AsyncClient

WAYS = {"as it is": {}, "small pool": {"PAGEHOLD_ENGINE_BLOCKS": "64"}, "chunks of 16": {"PAGEHOLD_ENGINE_CHUNK": "16"}}


async def ask(address: str, prompts: list[list[int]], tokens: int, streams: int) -> list[list[int]]:
    """The ids of every answer, ``streams`` at a time."""
    places = asyncio.Semaphore(streams)
    async with AsyncClient(address, connect_seconds=30.0) as client:

        async def one(prompt: list[int]) -> list[int]:
            async with places:
                answer = await client.generate(ids=prompt, temperature=0.0, max_tokens=tokens, ignore_eos=True)
                return list(answer.ids)

        return await asyncio.gather(*map(one, prompts))


def alone(count: int, tokens: int) -> tuple[list[list[int]], list[list[int]]]:
    """The prompts, and what the model gives each of them without a server, one after the other."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import torch

    from benchmarks.demo_model import demo_file, demo_prompts, demo_tokenizer
    from executor.models.generate import generate
    from executor.models.loader import load_model

    model = load_model(demo_file())
    prompts = demo_prompts(demo_tokenizer(), count)
    with torch.inference_mode():
        return prompts, [generate(model, [prompt], tokens)[0] for prompt in prompts]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--streams", type=int, default=8)
    arguments = parser.parse_args()
    prompts, expected = alone(arguments.prompts, arguments.tokens)
    differing = 0
    for name, settings in WAYS.items():
        with serving("demo", environment=settings) as served:
            began = time.monotonic()
            found = asyncio.run(ask(served.address, prompts, arguments.tokens, arguments.streams))
            seconds = time.monotonic() - began
        pairs = [(a, b) for one, other in zip(expected, found, strict=True) for a, b in zip(one, other, strict=True)]
        wrong = sum(a != b for a, b in pairs)
        differing += wrong
        print(f"{name:14}{wrong:6} of {len(pairs):,} ids differ{seconds:10.1f} s", flush=True)
    raise SystemExit(differing > 0)


if __name__ == "__main__":
    main()
