"""Tokenizers that several tests share."""

from pathlib import Path

import pytest

from executor.frontend.tokenizer import FastTokenizer, load_tokenizer
from tests.scripted.tokenizers import write_byte_fallback


@pytest.fixture(scope="session")
def demo_tokenizer() -> FastTokenizer:
    """The demo model's: byte-level, so that a character may be cut anywhere."""
    from benchmarks.demo_model import demo_file
    from executor.models.loader import model_folder

    return FastTokenizer(model_folder(demo_file()))


@pytest.fixture(scope="session")
def llama_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> FastTokenizer:
    """One with byte fallback, which judges bytes that stand together together."""
    folder = tmp_path_factory.mktemp("llama")
    loaded = load_tokenizer(write_byte_fallback(Path(folder), ["▁the", "▁", "a", "▁a", "\ufffd", "é", ""]), 10_000)
    assert isinstance(loaded, FastTokenizer)
    return loaded
