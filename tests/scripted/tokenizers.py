"""Small tokenizers of known pieces, so that the text of scripted tokens is known too."""

import json
from collections.abc import Sequence
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

BOS, EOS = 1, 2
FIRST_PIECE = 3
"""Id of the first piece: before it stand an unknown token, begin and end of sequence."""

TEMPLATE = "{% for message in messages %}{{ message['role'] }} {{ message['content'] }} {% endfor %}"


def write_pieces(folder: Path, pieces: Sequence[str], *, bos: bool = False, chat: bool = False) -> Path:
    """A folder with a tokenizer whose tokens are whole pieces, which stand side by side in a text without a space."""
    vocabulary = {"<unk>": 0, "<s>": BOS, "</s>": EOS}
    vocabulary |= {piece: FIRST_PIECE + place for place, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.add_special_tokens([AddedToken("<s>", special=True), AddedToken("</s>", special=True)])
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.Fuse()
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", BOS), ("</s>", EOS)]
        )
    return _save(tokenizer, folder, chat)


def write_byte_fallback(folder: Path, pieces: Sequence[str]) -> Path:
    """A folder with a tokenizer in Llama's manner: pieces with a lower line for a space, and a token for each byte."""
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    tokenizer = Tokenizer(models.BPE({name: place for place, name in enumerate(names)}, [], byte_fallback=True))
    tokenizer.add_special_tokens([AddedToken("<s>", special=True), AddedToken("</s>", special=True)])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return _save(tokenizer, folder, chat=False)


def _save(tokenizer: Tokenizer, folder: Path, chat: bool) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    configuration = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(configuration))
    if chat:
        (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder
