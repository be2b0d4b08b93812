"""Reading `config.json` through transformers."""

from pathlib import Path
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig

from executor.models.errors import DamagedCheckpoint, UnsupportedModel


def read_configuration(folder: Path) -> Any:
    """Transformers' configuration object of a model's folder, with the rope parameters in one spelling.

    Raises DamagedCheckpoint without a readable `config.json`, and UnsupportedModel, with transformers' own words, for
    a kind of model it does not know or values it refuses.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise DamagedCheckpoint(f"{path}: the file is missing")
    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True)
    except OSError as error:
        raise DamagedCheckpoint(f"{path}: {error}") from error
    except (ValueError, KeyError, TypeError, StrictDataclassError) as error:
        raise UnsupportedModel(f"{path}: {error}") from error
