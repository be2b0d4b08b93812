"""The model, in two parts: what has to be known of it before there is a pool, and the rest."""

from dataclasses import dataclass

import torch

from executor.engine.model_source import ModelSource, find_model
from executor.engine.revision import configured_revision, revision_of
from executor.engine.settings import EngineSettings
from executor.engine.sizing import CacheFormat
from executor.models.config import DecoderConfig
from executor.models.configuration import known_configuration
from executor.models.errors import UnsupportedModel
from executor.models.loader import LoadOptions, decoder_config, load_model
from executor.models.model import PagedModel


@dataclass(frozen=True)
class Prepared:
    """What is known of a model before its weights are loaded."""

    source: ModelSource
    options: LoadOptions
    revision: str
    cache: CacheFormat
    model: PagedModel | None = None
    """The model, where only the whole of it could tell what it caches, or how much memory it leaves."""


def prepare(settings: EngineSettings, device: torch.device) -> Prepared:
    """Find a model and read what its blocks look like, if it is computed on a device. Raises a ModelError."""
    source = find_model(settings)
    options = LoadOptions(
        device=str(device),
        dtype=getattr(torch, settings.dtype) if settings.dtype else None,
        weights=settings.weights,
        implementation=settings.implementation,
        max_length=settings.max_length,
    )
    random = settings.weights == "random"
    revision = configured_revision(source.folder, options.seed) if random else revision_of(source.folder)
    config = _decoder_config(source, options)
    if config is None:
        # What transformers' own code caches shows only once it runs.
        model = load_model(source.folder, options)
        cache = CacheFormat(model.cache_shape, model.dtype, model.max_length)
        return Prepared(source, options, revision, cache, model)
    cache = CacheFormat(config.cache_shape, options.weight_dtype, options.limited(config.max_length))
    return Prepared(source, options, revision, cache)


def load(prepared: Prepared) -> PagedModel:
    """The model itself, with a progress bar where standard error is a terminal. Raises a ModelError."""
    return prepared.model or load_model(prepared.source.folder, prepared.options)


def _decoder_config(source: ModelSource, options: LoadOptions) -> DecoderConfig | None:
    """The description of a model as a decoder; None if transformers' own code is to run it."""
    if options.implementation == "transformers":
        return None
    try:
        return decoder_config(known_configuration(source.folder))
    except UnsupportedModel:
        if options.implementation == "decoder":
            raise
        return None
