"""A tiny model that a front door can serve: random weights, and a tokenizer with a token for each character."""

import string
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from tests.models.checkpoints import VOCABULARY, configuration, saved

SPECIAL = ["<unk>", "<s>", "</s>"]
CHARACTERS = [character for character in string.printable if character.isprintable()]


def save_servable(folder: Path) -> Path:
    """Make the model in a folder, which is returned."""
    saved(configuration("llama", max_position_embeddings=512), folder)
    tokens = [*SPECIAL, *CHARACTERS]
    tokens += [chr(0x3B1 + number) for number in range(VOCABULARY - len(tokens))]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>")
    wrapped.save_pretrained(folder)
    return folder
