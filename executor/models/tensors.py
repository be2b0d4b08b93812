"""Which tensors a decoder is made of, how each is put together from a checkpoint's, and in what shapes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from executor.models.config import DecoderConfig
from executor.models.families import TensorNames

Kind = Literal["matrix", "norm", "bias"]


@dataclass(frozen=True)
class Source:
    """A tensor of a checkpoint, and the shape it must have there."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class TensorSpec:
    """One tensor of the decoder: its sources stand in it one below the other. `kind` says how to make a random one."""

    target: str
    sources: tuple[Source, ...]
    kind: Kind

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the whole."""
        return (sum(source.shape[0] for source in self.sources), *self.sources[0].shape[1:])


def tensor_specs(config: DecoderConfig, names: TensorNames) -> list[TensorSpec]:
    """Every tensor of a decoder, in the order in which it is used.

    Targets are `embedding`, `positions`, `project_in`, `layers.N.PART.weight`, `layers.N.PART.bias`,
    `final_norm.weight`, `final_norm.bias`, `project_out` and `head`. Query, key and value are one matrix, `qkv`, and
    so are gate and up, `up`. A tied head is not listed.
    """
    specs = [_matrix("embedding", names.embedding, config.vocab_size, config.embedding_size)]
    if config.position_offset is not None:
        rows = config.max_length + config.position_offset
        specs.append(_matrix("positions", names.positions, rows, config.hidden_size))
    if config.embedding_size != config.hidden_size:
        specs.append(_matrix("project_in", names.project_in, config.hidden_size, config.embedding_size))
    for layer in range(config.num_layers):
        prefix = names.layer.format(layer)
        specs += [_moved(spec, f"layers.{layer}.", prefix) for spec in _layer_specs(config, names)]
    if config.norm.final:
        specs += _norm("final_norm", names.final_norm, config.hidden_size, config)
    if config.embedding_size != config.hidden_size:
        specs.append(_matrix("project_out", names.project_out, config.embedding_size, config.hidden_size))
    if not config.tied:
        specs.append(_matrix("head", names.head, config.vocab_size, config.embedding_size))
    return specs


def _layer_specs(config: DecoderConfig, names: TensorNames) -> Iterator[TensorSpec]:
    attention, hidden = config.attention, config.hidden_size
    yield from _norm("attention_norm", names.attention_norm, hidden, config)
    query = attention.query_heads * attention.head_dim
    key = attention.key_value_heads * attention.head_dim
    parts = [(names.query, query), (names.key, key), (names.value, key)]
    yield from _stacked("qkv", parts, hidden, attention.input_bias)
    if attention.query_key_norm:
        yield TensorSpec("query_norm.weight", (Source(f"{names.query_norm}.weight", (attention.head_dim,)),), "norm")
        yield TensorSpec("key_norm.weight", (Source(f"{names.key_norm}.weight", (attention.head_dim,)),), "norm")
    yield from _stacked("output", [(names.output, hidden)], query, attention.output_bias)
    if config.norm.placement == "around":
        yield from _norm("after_attention_norm", names.after_attention_norm, hidden, config)
    yield from _norm("feed_forward_norm", names.feed_forward_norm, hidden, config)
    forward = config.feed_forward
    up = [(names.gate, forward.size), (names.up, forward.size)] if forward.gated else [(names.up, forward.size)]
    yield from _stacked("up", up, hidden, forward.bias)
    yield from _stacked("down", [(names.down, hidden)], forward.size, forward.bias)
    if config.norm.placement == "around":
        yield from _norm("after_feed_forward_norm", names.after_feed_forward_norm, hidden, config)


def _matrix(target: str, name: str, rows: int, columns: int) -> TensorSpec:
    return TensorSpec(target, (Source(f"{name}.weight", (rows, columns)),), "matrix")


def _norm(target: str, name: str, size: int, config: DecoderConfig) -> Iterator[TensorSpec]:
    if not config.norm.affine:
        return
    yield TensorSpec(f"{target}.weight", (Source(f"{name}.weight", (size,)),), "norm")
    if config.norm.kind == "layer":
        yield TensorSpec(f"{target}.bias", (Source(f"{name}.bias", (size,)),), "bias")


def _stacked(target: str, parts: list[tuple[str, int]], columns: int, bias: bool) -> Iterator[TensorSpec]:
    """A matrix, and its bias, of parts given by name and rows; parts of one name are one tensor in the checkpoint."""
    rows: dict[str, int] = {}
    for name, count in parts:
        rows[name] = rows.get(name, 0) + count
    weights = tuple(Source(f"{name}.weight", (count, columns)) for name, count in rows.items())
    yield TensorSpec(f"{target}.weight", weights, "matrix")
    if bias:
        yield TensorSpec(
            f"{target}.bias", tuple(Source(f"{name}.bias", (count,)) for name, count in rows.items()), "bias"
        )


def _moved(spec: TensorSpec, target: str, prefix: str) -> TensorSpec:
    sources = tuple(Source(prefix + source.name, source.shape) for source in spec.sources)
    return TensorSpec(target + spec.target, sources, spec.kind)
