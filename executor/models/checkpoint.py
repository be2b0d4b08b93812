"""Reading a folder of safetensors, whole or in shards, and telling exactly what is wrong with one that is damaged."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from executor.models.config import DecoderConfig
from executor.models.errors import DamagedCheckpoint, MissingTensor, UnusedTensor
from executor.models.families import TensorNames
from executor.models.tensors import Source, TensorSpec

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"

DERIVED = (".rotary_emb.inv_freq",)
"""Endings of tensors that older checkpoints carry though they follow from the configuration."""

BASE_PREFIX = "model."
"""What the names of a model saved without its head lack."""


class Checkpoint:
    """The tensors of a folder, by name, mapped from its files as they are asked for.

    With an index, the index alone says what there is: stray files, and tensors that a shard holds beyond it, are not
    looked at. Raises DamagedCheckpoint, naming the file, for a shard that is missing, cut short or lacks a tensor.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = _tensor_files(folder)
        self._open = {path: _open(path) for path in sorted(set(self._files.values()))}
        for name, path in self._files.items():
            if name not in self._open[path].keys():  # noqa: SIM118 - not a mapping
                raise DamagedCheckpoint(f"{path}: tensor {name}, which {INDEX_FILE} puts there, is not in the file")

    @property
    def names(self) -> frozenset[str]:
        """Every tensor that the checkpoint states."""
        return frozenset(self._files)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor, from its file's header."""
        return tuple(self._open[self._files[name]].get_slice(name).get_shape())

    def tensor(self, name: str) -> torch.Tensor:
        """A tensor, on the CPU, in the dtype it is stored in. It may be a view of the mapped file: not to be changed."""
        path = self._files[name]
        try:
            return self._open[path].get_tensor(name)
        except SafetensorError as error:
            raise DamagedCheckpoint(f"{path}: tensor {name}: {error}") from error


def load_tensors(
    checkpoint: Checkpoint,
    specs: Iterable[TensorSpec],
    device: torch.device,
    dtype: torch.dtype,
    advance: Callable[[int], None],
) -> dict[str, torch.Tensor]:
    """The decoder's tensors, by target, on `device` in `dtype`. `advance` is told the bytes of each one made.

    Raises MissingTensor, naming what the checkpoint lacks or has in another shape.
    """
    tensors: dict[str, torch.Tensor] = {}
    for spec in specs:
        tensors[spec.target] = _stacked(checkpoint, spec, device, dtype)
        advance(tensors[spec.target].nbytes)
    return tensors


def match_names(
    checkpoint: Checkpoint, config: DecoderConfig, names: TensorNames, specs: list[TensorSpec]
) -> list[TensorSpec]:
    """The specs with the names that this checkpoint really uses.

    A model saved without its head has names without the leading `model.`. A tied head is the embedding, as in
    transformers: where the checkpoint has only one of the two, that one serves both, and where it has both with
    different values, both are used. Raises UnusedTensor, naming tensors that nothing would use, and MissingTensor.
    """
    head, embedding = f"{names.head}.weight", f"{names.embedding}.weight"
    if not any(name.startswith(BASE_PREFIX) for name in checkpoint.names - {head}):
        specs = [_renamed(spec, lambda name: name.removeprefix(BASE_PREFIX)) for spec in specs]
        embedding = embedding.removeprefix(BASE_PREFIX)
    if config.tied and head in checkpoint.names:
        if embedding not in checkpoint.names:
            specs = [_renamed(spec, lambda name: head if name == embedding else name) for spec in specs]
        elif not torch.equal(checkpoint.tensor(head), checkpoint.tensor(embedding)):
            shape = (config.vocab_size, config.embedding_size)
            specs = [*specs, TensorSpec("head", (Source(head, shape),), "matrix")]
    used = {source.name for spec in specs for source in spec.sources}
    missing = sorted(used - checkpoint.names)
    if missing:
        raise MissingTensor(f"{checkpoint.folder}: tensor {_listed(missing)} of {config.family} is missing")
    spare = {head} if config.tied else set()
    unused = sorted(name for name in checkpoint.names - used - spare if not name.endswith(DERIVED))
    if unused:
        raise UnusedTensor(f"{checkpoint.folder}: {config.family} has no use for tensor {_listed(unused)}")
    return specs


def _stacked(checkpoint: Checkpoint, spec: TensorSpec, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    for source in spec.sources:
        shape = checkpoint.shape(source.name)
        if shape != source.shape:
            raise MissingTensor(
                f"{checkpoint.folder}: tensor {source.name} has shape {list(shape)}; "
                f"config.json asks for {list(source.shape)}"
            )
    parts = [checkpoint.tensor(source.name) for source in spec.sources]
    if len(parts) == 1:
        return parts[0].to(device=device, dtype=dtype)
    whole = torch.empty(spec.shape, device=device, dtype=dtype)
    for rows, part in zip(whole.split([len(part) for part in parts]), parts, strict=True):
        rows.copy_(part)
    return whole


def _tensor_files(folder: Path) -> dict[str, Path]:
    index = folder / INDEX_FILE
    if index.exists():
        try:
            shards = json.loads(index.read_text())["weight_map"]
            files = {name: folder / Path(shard).name for name, shard in shards.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DamagedCheckpoint(f"{index}: not an index of shards: {error!r}") from error
        return files
    single = folder / SINGLE_FILE
    if not single.exists():
        found = ", ".join(sorted(path.name for path in folder.iterdir())) or "nothing"
        raise DamagedCheckpoint(f"{folder}: neither {SINGLE_FILE} nor {INDEX_FILE} is there; found {found}")
    return dict.fromkeys(_open(single).keys(), single)


def _open(path: Path) -> safe_open:
    try:
        return safe_open(path, framework="pt")
    except FileNotFoundError as error:
        raise DamagedCheckpoint(f"{path}: the file is missing") from error
    except (SafetensorError, OSError) as error:
        raise DamagedCheckpoint(f"{path}: {error}") from error


def _renamed(spec: TensorSpec, rename: Callable[[str], str]) -> TensorSpec:
    sources = tuple(Source(rename(source.name), source.shape) for source in spec.sources)
    return TensorSpec(spec.target, sources, spec.kind)


def _listed(names: list[str]) -> str:
    more = f" (and {len(names) - 3} more)" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
