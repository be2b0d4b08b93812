"""Reading `config.json` through transformers, and remembering what it says.

Only transformers knows what a `config.json` leaves out, and every spelling of what it has. But to say it takes seconds, for it
looks through all of its models first: an engine that starts again should not wait for what was said before.
"""

import hashlib
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from executor.models.errors import DamagedCheckpoint, UnsupportedModel
from executor.models.user_cache import cache_root, keep

FORMAT = 1
"""Counts up when other values would be kept, so that older ones are left alone."""


class Configuration:
    """What transformers reads from a `config.json`, as plain values: attributes, lists, and dictionaries."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)

    def standardize_rope_params(self) -> None:
        """Transformers' functions ask a configuration for it. These values were read from one that has done so."""


def read_configuration(folder: Path) -> Any:
    """Transformers' configuration object of a model's folder, with the rope parameters in one spelling.

    Raises DamagedCheckpoint without a readable `config.json`, and UnsupportedModel, with transformers' own words, for
    a kind of model it does not know or values it refuses.
    """
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig

    path = _existing(folder)
    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True)
    except OSError as error:
        raise DamagedCheckpoint(f"{path}: {error}") from error
    except (ValueError, KeyError, TypeError, StrictDataclassError) as error:
        raise UnsupportedModel(f"{path}: {error}") from error


def known_configuration(folder: Path) -> Configuration:
    """The values of `read_configuration`, out of the user's cache if the same version of transformers has read the same
    `config.json` before. Raises as that does.
    """
    content = _existing(folder).read_bytes()
    read_by = f"\0transformers {version('transformers')}, {FORMAT}"
    known = cache_root() / "configurations" / f"{hashlib.sha256(content + read_by.encode()).hexdigest()}.json"
    try:
        return Configuration(json.loads(known.read_text()))
    except (OSError, ValueError):
        text = json.dumps(_values(read_configuration(folder)))
    keep(known, text)
    return Configuration(json.loads(text))


def _existing(folder: Path) -> Path:
    path = folder / "config.json"
    if not path.is_file():
        raise DamagedCheckpoint(f"{path}: the file is missing")
    return path


def _values(config: Any) -> dict[str, Any]:
    """Everything that a configuration says of itself and that is plain, under every name that it has there."""
    names = {*vars(config), *config.to_dict(), *config.attribute_map, "model_type"}
    values = {**{name: getattr(config, name, None) for name in names}, **config.to_dict()}
    return {name: value for name, value in values.items() if _is_plain(value)}


def _is_plain(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True
