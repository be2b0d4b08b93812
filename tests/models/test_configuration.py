"""What is remembered of a `config.json`: the same as transformers says, and only as long as it would say it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from executor.models import configuration as module
from executor.models.configuration import known_configuration, read_configuration
from executor.models.errors import DamagedCheckpoint, UnsupportedModel
from executor.models.loader import decoder_config
from executor.models.rope import Rope
from tests.models.checkpoints import CONFIGURATIONS, configuration

LENGTHS = torch.tensor([1, 15, 70])
IMPORTS = """
import sys
from pathlib import Path
from executor.models.configuration import known_configuration
from executor.models.loader import decoder_config
from executor.models.rope import Rope
import torch
source = known_configuration(Path(sys.argv[1]))
Rope(source, decoder_config(source).max_length, torch.device("cpu"))
print("transformers" in sys.modules)
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "pagehold" / "configurations"


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    configuration("llama").save_pretrained(tmp_path / "llama")
    return tmp_path / "llama"


@pytest.mark.parametrize("name", sorted(CONFIGURATIONS))
def test_what_is_remembered_makes_the_decoder_that_transformers_own_makes(name: str, tmp_path: Path) -> None:
    configuration(name).save_pretrained(tmp_path)
    own = read_configuration(tmp_path)
    wanted = decoder_config(own)
    for _ in range(2):
        known = known_configuration(tmp_path)
        assert decoder_config(known) == wanted
        if wanted.position_offset is None:
            ropes = [Rope(source, wanted.max_length, torch.device("cpu")) for source in (own, known)]
            assert ropes[0].regimes == ropes[1].regimes
            assert torch.equal(*[rope._inverse for rope in ropes])
            assert ropes[0].attention_factor == ropes[1].attention_factor


def test_transformers_is_imported_the_first_time_alone(llama: Path) -> None:
    def imports() -> str:
        return subprocess.run([sys.executable, "-c", IMPORTS, llama], capture_output=True, text=True, check=True).stdout

    assert [imports(), imports()] == ["True\n", "False\n"]


def test_another_content_or_another_version_of_transformers_is_read_anew(
    llama: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert known_configuration(llama).__dict__["rms_norm_eps"] == 1e-6
    stated = json.loads((llama / "config.json").read_text())
    (llama / "config.json").write_text(json.dumps(stated | {"rms_norm_eps": 1e-3}))
    assert known_configuration(llama).__dict__["rms_norm_eps"] == 1e-3
    assert len(list(cache.iterdir())) == 2
    monkeypatch.setattr(module, "version", lambda _: "another")
    known_configuration(llama)
    assert len(list(cache.iterdir())) == 3


def test_a_damaged_memory_or_none_costs_only_time(llama: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = decoder_config(known_configuration(llama))
    (kept,) = cache.iterdir()
    kept.write_text("{")
    assert decoder_config(known_configuration(llama)) == wanted
    assert json.loads(kept.read_text())["model_type"] == "llama"
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    assert decoder_config(known_configuration(llama)) == wanted


def test_what_transformers_refuses_is_refused_each_time_and_not_kept(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(DamagedCheckpoint, match="is missing"):
        known_configuration(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "no such"}')
    for _ in range(2):
        with pytest.raises(UnsupportedModel, match="no such"):
            known_configuration(tmp_path)
    assert not cache.exists()
