"""A scripted service, and both clients of it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.unit.client.callers import CALLERS, Caller
from tests.unit.client.console import Console
from tests.unit.client.scripted_service import ScriptedService
from tests.unit.client.serving import Served, serving

PATIENT = {"connect_seconds": 120.0, "reconnect_seconds": 120.0}
"""A client that goes on trying, however long anybody is held up."""


@pytest.fixture(autouse=True)
def _cancels_patiently(monkeypatch: pytest.MonkeyPatch) -> None:
    """The word that a generation is no longer wanted arrives, however busy the machine is."""
    monkeypatch.setattr("pagehold.client.generation.CANCEL_SECONDS", 60.0)


@pytest.fixture
def service() -> ScriptedService:
    return ScriptedService()


@pytest.fixture
def served(service: ScriptedService) -> Iterator[Served]:
    with serving(service) as one:
        yield one


@pytest.fixture(params=list(CALLERS))
def connect(request: pytest.FixtureRequest, served: Served) -> Iterator[Callable[..., Caller]]:
    """Makes clients, closed at the end; of the served address unless another is named."""
    made: list[Caller] = []

    def connected(address: str | None = None, **settings: Any) -> Caller:
        one: Caller = CALLERS[request.param](address or served.address, **PATIENT | settings)
        made.append(one)
        return one

    yield connected
    for one in made:
        one.close()


@pytest.fixture
def caller(connect: Callable[..., Caller]) -> Caller:
    return connect()


@pytest.fixture
def console(served: Served) -> Console:
    return Console(served.address)
