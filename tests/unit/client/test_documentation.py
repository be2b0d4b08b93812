"""The Python of docs/clients.md runs as it stands there."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit.client.scripted_service import ScriptedService
from tests.unit.client.serving import Served
from tests.unit.client.steps import Held
from tests.unit.client.test_batches import Items

PAGE = Path(__file__).parents[3] / "docs" / "clients.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
IMPORTS = "from pagehold.client import Client, Overloaded, PageholdError\n"


@pytest.fixture
def service() -> ScriptedService:
    return Items()


@pytest.mark.parametrize("place", range(4))
def test_python_of_the_page_runs(
    place: int,
    served: Served,
    service: ScriptedService,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PAGEHOLD_ADDRESS", served.address)
    if "detached" in BLOCKS[place]:
        service.script += [Held(after=2), Held(after=2)]
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(IMPORTS + BLOCKS[place], str(PAGE), "exec"), names)
    assert service.calls
    if place < 2:
        assert "Paris." in capsys.readouterr().out


def test_every_block_of_the_page_is_run() -> None:
    assert len(BLOCKS) == 4
