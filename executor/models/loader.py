"""From a folder or a file to a model that is ready to run.

What only some models need (GGUF, transformers' modelling code) is imported when one does: an engine that starts again
should not wait for it.
"""

from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, Literal

import torch

from executor.models.checkpoint import Checkpoint, load_tensors, match_names
from executor.models.config import DecoderConfig
from executor.models.configuration import known_configuration, read_configuration
from executor.models.decoder import Decoder
from executor.models.errors import UnsupportedModel
from executor.models.families import FAMILIES
from executor.models.model import PagedModel
from executor.models.progress import byte_bar
from executor.models.random_weights import random_tensors
from executor.models.rope import Rope
from executor.models.tensors import tensor_specs
from executor.models.weights import DecoderWeights

GGUF_SUFFIX = ".gguf"


@dataclass(frozen=True)
class LoadOptions:
    """How to load a model.

    `dtype` None takes float32 on a CPU and bfloat16 elsewhere. `weights` random makes them on the device, from a
    folder that need hold only `config.json`, with `seed`. `implementation` auto takes the decoder for what it covers
    and transformers' own modelling code for the rest. `max_length` limits a sequence to fewer tokens than the model
    allows. `progress` None shows a bar where standard error is a terminal.
    """

    device: str = "cpu"
    dtype: torch.dtype | None = None
    weights: Literal["checkpoint", "random"] = "checkpoint"
    implementation: Literal["auto", "decoder", "transformers"] = "auto"
    max_length: int | None = None
    progress: bool | None = None
    seed: int = 0

    @property
    def weight_dtype(self) -> torch.dtype:
        """The dtype of the weights."""
        if self.dtype is not None:
            return self.dtype
        return torch.float32 if torch.device(self.device).type == "cpu" else torch.bfloat16

    def limited(self, max_length: int) -> int:
        """The smaller of the model's own limit and the one asked for. Raises UnsupportedModel for one beyond it."""
        if self.max_length is None:
            return max_length
        if not 1 <= self.max_length <= max_length:
            raise UnsupportedModel(f"max_length is {self.max_length}; this model allows 1 to {max_length} tokens")
        return self.max_length


def model_folder(source: str | Path, progress: bool | None = None) -> Path:
    """The folder with a model's `config.json`, safetensors and tokenizer: `source` itself, or where a GGUF file was
    converted to. Raises UnsupportedModel if `source` is neither.
    """
    path = Path(source).expanduser()
    if path.is_dir():
        return path
    if path.suffix == GGUF_SUFFIX and path.is_file():
        from executor.models.gguf_folder import converted_folder

        return converted_folder(path, progress=progress)
    raise UnsupportedModel(f"{path}: neither a folder nor a {GGUF_SUFFIX} file")


def load_model(source: str | Path, options: LoadOptions | None = None) -> PagedModel:
    """Load the model in a folder or a GGUF file.

    Raises a ModelError that names the file, the tensor or the value which is wrong. The weights are the model's own,
    and are freed with it.
    """
    options = options or LoadOptions()
    folder = model_folder(source, options.progress)
    if options.implementation != "transformers":
        source_config = known_configuration(folder)
        try:
            config = decoder_config(source_config)
        except UnsupportedModel:
            if options.implementation == "decoder":
                raise
        else:
            return load_decoder(folder, source_config, config, options)
    from executor.models.transformers_model import TransformersModel

    return TransformersModel.load(
        folder,
        read_configuration(folder),
        device=torch.device(options.device),
        dtype=options.weight_dtype,
        random_seed=options.seed if options.weights == "random" else None,
        limit=options.limited,
    )


def decoder_config(source: Any) -> DecoderConfig:
    """The description of a transformers configuration as a decoder. Raises UnsupportedModel if it is not covered."""
    family = FAMILIES.get(source.model_type)
    if family is None:
        raise UnsupportedModel(f"model type {source.model_type!r} is not one of {', '.join(FAMILIES)}")
    if getattr(source, "quantization_config", None):
        raise UnsupportedModel("quantization_config is set: the decoder computes with unquantised weights")
    return family.read(source)


def load_decoder(folder: Path, source: Any, config: DecoderConfig, options: LoadOptions) -> Decoder:
    """A decoder with the weights of a folder, or random ones."""
    device, dtype = torch.device(options.device), options.weight_dtype
    names = FAMILIES[config.family].names
    specs = tensor_specs(config, names)
    checkpoint = None
    if options.weights == "checkpoint":
        checkpoint = Checkpoint(folder)
        specs = match_names(checkpoint, config, names, specs)
    total = sum(prod(spec.shape) for spec in specs) * dtype.itemsize
    with byte_bar(f"Loading {folder.name}", total, shown=options.progress) as advance:
        if checkpoint is None:
            tensors = random_tensors(config, specs, device, dtype, advance, options.seed)
        else:
            tensors = load_tensors(checkpoint, specs, device, dtype, advance)
    weights = DecoderWeights.assemble(config, tensors)
    config = replace(config, max_length=options.limited(config.max_length))
    rope = Rope(source, config.max_length, device) if config.position_offset is None else None
    return Decoder(config, weights, rope)
