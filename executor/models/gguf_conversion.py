"""From a GGUF file to a folder of safetensors with a tokenizer."""

import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import AutoTokenizer

from executor.models.checkpoint import INDEX_FILE
from executor.models.errors import DamagedCheckpoint, MissingTensor, UnsupportedModel, UnusedTensor
from executor.models.families import FAMILIES
from executor.models.gguf_file import GgufFile
from executor.models.progress import byte_bar
from executor.models.tensors import Source, tensor_specs

SHARD_BYTES = 4 << 30


def convert(path: Path, folder: Path, progress: bool | None = None) -> None:
    """Write the model of a GGUF file into an empty folder.

    Tensors stored in 16 or 32 bits keep their dtype; quantised ones become float32, or bfloat16 where the whole model
    would take more than 4 GiB. Raises MissingTensor and UnusedTensor by the file's own names.
    """
    file = GgufFile(path)
    source = file.configuration()
    family = FAMILIES.get(source.model_type)
    if family is None:
        raise UnsupportedModel(f"{path}: architecture {file.architecture!r} is not one of {', '.join(FAMILIES)}")
    config = family.read(source)
    wanted = {item.name: item for spec in tensor_specs(config, family.names) for item in spec.sources}
    places = file.places(wanted, config.num_layers)
    missing = sorted(place for place in places.values() if place not in file.names)
    if missing:
        raise MissingTensor(f"{path}: tensor {missing[0]} of {config.family} is missing")
    unused = sorted(file.names - set(places.values()) - file.read_into_configuration)
    if unused:
        raise UnusedTensor(f"{path}: {config.family} has no use for tensor {unused[0]}")
    with byte_bar(f"Converting {path.name}", file.total_bytes, shown=progress) as advance:
        writer = _ShardWriter(folder)
        for name, place in places.items():
            tensor = file.tensor(place)
            _check_shape(path, place, tensor, wanted[name])
            writer.add(name, tensor)
            advance(file.stored_bytes(place))
        writer.finish()
    source.save_pretrained(folder)
    if file.has_tokenizer:
        AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name).save_pretrained(folder)
    _flush(folder)


class _ShardWriter:
    """Writes tensors to safetensors files of at most `SHARD_BYTES`, and their index."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tensors: dict[str, torch.Tensor] = {}
        self._bytes = 0
        self._places: dict[str, str] = {}
        self._shards = 0

    def add(self, name: str, tensor: torch.Tensor) -> None:
        if self._tensors and self._bytes + tensor.nbytes > SHARD_BYTES:
            self._write()
        self._tensors[name] = tensor
        self._bytes += tensor.nbytes

    def finish(self) -> None:
        self._write()
        index: dict[str, Any] = {"metadata": {}, "weight_map": self._places}
        (self._folder / INDEX_FILE).write_text(json.dumps(index, indent=1))

    def _write(self) -> None:
        self._shards += 1
        shard = f"model-{self._shards:05}.safetensors"
        save_file(self._tensors, self._folder / shard, metadata={"format": "pt"})
        self._places |= dict.fromkeys(self._tensors, shard)
        self._tensors, self._bytes = {}, 0


def _check_shape(path: Path, place: str, tensor: torch.Tensor, wanted: Source) -> None:
    if tuple(tensor.shape) != wanted.shape:
        raise DamagedCheckpoint(
            f"{path}: tensor {place} has shape {list(tensor.shape)}; its metadata asks for {list(wanted.shape)}"
        )


def _flush(folder: Path) -> None:
    """Force the files to the disk: a folder that has its final name is never half written, even after a power cut."""
    for path in [*folder.iterdir(), folder]:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
