"""A scripted service to put load on, and the command that does."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from bench.commands import bench
from tests.unit.client.scripted_service import ScriptedService
from tests.unit.client.serving import Served, serving

Run = Callable[..., Result]


@pytest.fixture
def service() -> ScriptedService:
    return ScriptedService()


@pytest.fixture
def served(service: ScriptedService) -> Iterator[Served]:
    with serving(service) as one:
        yield one


@pytest.fixture
def run(served: Served) -> Run:
    """Runs `bench serve` on the service. There is no manager."""

    def command(*arguments: str) -> Result:
        where = ("--address", served.address, "--admin-address", "unix:/nonexistent/admin.sock")
        result = CliRunner().invoke(bench, ["serve", *arguments, *where], env={"COLUMNS": "200"})
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return command


@pytest.fixture
def figures(run: Run) -> Callable[..., dict[str, Any]]:
    """What it says as JSON."""

    def measured(*arguments: str, code: int = 0) -> dict[str, Any]:
        result = run(*arguments, "--json")
        assert result.exit_code == code, result.output
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    return measured
