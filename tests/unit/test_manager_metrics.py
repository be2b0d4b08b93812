"""What a manager's metrics say of its pools, and that the documentation says so."""

import errno
import re
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from blockmgr.configuration import WrongSetting
from blockmgr.core.errors import Precondition
from blockmgr.service import metrics
from blockmgr.service.admin.stats import pool_stats
from blockmgr.service.metrics import PoolCollector, serve_metrics
from pagehold.admin.v1 import stats_pb2
from tests.admin_server import AdminServer, geometry_of

DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[AdminServer]:
    with AdminServer(tmp_path, geometry_of(host_blocks=8)) as server:
        yield server


def stats(server: AdminServer) -> list[stats_pb2.PoolStats]:
    return [pool_stats(managed) for managed in server.manager.pools.values()]


def test_every_metric_is_documented_and_no_other(server: AdminServer) -> None:
    named = set(re.findall(r"`(pagehold_(?:pool|manager)_\w+)", DOCUMENT.read_text()))
    assert {family.name for family in PoolCollector(lambda: stats(server), server.loop).collect()} == named


def test_a_scrape_tells_what_the_pool_holds_now(server: AdminServer) -> None:
    worker, registry = server.worker(), CollectorRegistry()
    registry.register(PoolCollector(lambda: stats(server), server.loop))
    (pool,) = server.manager.pools
    device = {"pool": pool, "tier": "device"}

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    before = value("pagehold_pool_available_blocks", **device)
    worker.prefill(list(range(10)))
    assert value("pagehold_pool_sequences", pool=pool, state="live") == 1
    assert value("pagehold_pool_blocks", **device, state="sealed") == 2
    assert value("pagehold_pool_available_blocks", **device) == (before or 0) - 3
    assert value("pagehold_manager_admitted_total", pool=pool) == 1
    assert value("pagehold_manager_prompt_tokens_total", pool=pool) == 10


def serve_somewhere(server: AdminServer) -> tuple[int, Callable[[], None]]:
    """Serve on a port that nobody has, not even since it was found; it, and what ends that."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with suppress(Precondition):
            return port, serve_metrics(lambda: stats(server), server.loop, port)


def test_they_are_served_on_the_loopback_address_until_the_end(server: AdminServer) -> None:
    port, end = serve_somewhere(server)
    with pytest.raises(Precondition, match=f"metrics_port is {port}"):
        serve_metrics(lambda: stats(server), server.loop, port)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    assert any(family.name == "pagehold_pool_tokens" for family in text_string_to_metric_families(text))
    end()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60)


def test_a_port_that_can_never_be_had_is_a_wrong_setting(server: AdminServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(metrics, "start_http_server", forbidden)
    with pytest.raises(WrongSetting, match=r"metrics_port is 80, but it cannot be bound: .*Permission denied"):
        serve_metrics(lambda: stats(server), server.loop, 80)


def test_a_manager_that_does_not_answer_fails_the_scrape(server: AdminServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "SCRAPE_SECONDS", 0.05)
    over = threading.Event()

    def held_up() -> list[stats_pb2.PoolStats]:
        over.wait(60)
        return []

    with pytest.raises(TimeoutError):
        list(PoolCollector(held_up, server.loop).collect())
    over.set()
