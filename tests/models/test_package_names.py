"""A package on the index is called `kernels` like ours, and transformers uses it where it is installed."""

import subprocess
import sys
from pathlib import Path

import kernels

PROGRAM = """
import kernels
import torch, transformers
from transformers.utils.import_utils import is_kernels_available
from executor.models.loader import load_model

assert kernels.__file__ == {ours!r}, kernels.__file__
assert not is_kernels_available()
config = transformers.LlamaConfig(
    vocab_size=131, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64
)
transformers.LlamaForCausalLM(config).save_pretrained({folder!r})
model = transformers.AutoModelForCausalLM.from_pretrained({folder!r})
assert torch.isfinite(model(torch.arange(9)[None]).logits).all()
assert load_model({folder!r}).vocab_size == 131
print("fine")
"""


def test_transformers_takes_our_kernels_for_nobody_elses(tmp_path: Path) -> None:
    program = PROGRAM.format(ours=kernels.__file__, folder=str(tmp_path))
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=280, check=False)
    assert result.stdout == "fine\n", result.stderr
