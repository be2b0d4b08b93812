"""What a manager knows of its pools, for Prometheus. ``docs/metrics.md`` lists the names.

Nothing is counted here: each scrape asks for the figures that ``GetPoolStats`` gives, on the manager's loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import TimeoutError as Late

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from blockmgr.configuration import WrongSetting, may_pass
from blockmgr.core.errors import Precondition
from pagehold.admin.v1 import stats_pb2
from pagehold.common.v1 import states_pb2

SCRAPE_SECONDS = 5.0
"""How long a scrape waits for the loop. A manager that is that late is better seen by a scrape that fails."""

Stats = list[stats_pb2.PoolStats]
Families = dict[str, GaugeMetricFamily | CounterMetricFamily]

GAUGES = {
    "blocks": ("Blocks, by tier and state.", ("tier", "state")),
    "available_blocks": ("Blocks that are free or can be evicted, by tier.", ("tier",)),
    "sequences": ("Sequences, by state: live, orphaned, swapped.", ("state",)),
    "free_slots": ("Sequences that may still be admitted, as far as slots go.", ()),
    "tokens": ("Tokens recorded of living sequences.", ()),
    "utilisation": ("Part of the usable pool that holds tokens, 0 to 1.", ()),
    "fragmentation": ("Part of the blocks in use that is empty, 0 to 1.", ()),
    "shared_blocks_saved": ("Blocks that sharing saves.", ()),
    "executors": ("Executors that are registered and not dead.", ()),
    "pending_tickets": ("Copies ordered and not reported done, by kind.", ("kind",)),
}
COUNTERS = (
    *("turns", "repeated_turns", "admitted", "refused", "finished"),
    *("prompt_tokens", "cached_prompt_tokens", "output_tokens"),
    *("sealed_blocks", "evicted_blocks", "copies", "short_reservations", "adopted"),
)
"""Fields of ``Counters``, each since this manager's start."""


class PoolCollector(Collector):
    """Turns pools' figures into metrics at each scrape, in whatever thread that is."""

    def __init__(self, stats: Callable[[], Stats], loop: asyncio.AbstractEventLoop) -> None:
        """``stats`` gives every pool's figures; it is called on ``loop``."""
        self._stats, self._loop = stats, loop

    def describe(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """The names, without asking for figures: a registry wants them when the loop cannot answer yet."""
        yield from _families().values()

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """Every metric as of now. Raises ``TimeoutError`` if the loop does not answer."""

        async def ask() -> Stats:
            return self._stats()

        asked = asyncio.run_coroutine_threadsafe(ask(), self._loop)
        try:
            found = asked.result(SCRAPE_SECONDS)
        except Late:
            asked.cancel()
            raise
        families = _families()
        for pool in found:
            _add(families, pool)
        yield from families.values()


def serve_metrics(stats: Callable[[], Stats], loop: asyncio.AbstractEventLoop, port: int) -> Callable[[], None]:
    """Serve metrics over HTTP on the loopback address; returns what ends it. Raises ``Precondition`` for a busy port,
    ``WrongSetting`` for one that can never be had.
    """
    registry = CollectorRegistry()
    registry.register(PoolCollector(stats, loop))
    try:
        server, _ = start_http_server(port, addr="127.0.0.1", registry=registry)
    except OSError as error:
        kind = Precondition if may_pass(error) else WrongSetting
        raise kind(f"metrics_port is {port}, but it cannot be bound: {error}") from error

    def end() -> None:
        server.shutdown()
        server.server_close()

    return end


def _families() -> Families:
    families: Families = {
        name: GaugeMetricFamily(f"pagehold_pool_{name}", text, labels=("pool", *labels))
        for name, (text, labels) in GAUGES.items()
    }
    for name in COUNTERS:
        text = f"{name.replace('_', ' ').capitalize()} since this manager started."
        families[name] = CounterMetricFamily(f"pagehold_manager_{name}", text, labels=("pool",))
    return families


def _add(families: Families, pool: stats_pb2.PoolStats) -> None:
    def put(name: str, value: float, *labels: str) -> None:
        families[name].add_metric((pool.name, *labels), value)

    for tier in pool.tiers:
        tier_name = _word(states_pb2.Tier.Name(tier.tier), "TIER_")
        put("available_blocks", tier.available, tier_name)
        for one in tier.states:
            put("blocks", one.blocks, tier_name, _word(states_pb2.BlockState.Name(one.state), "BLOCK_STATE_"))
    sequences = pool.sequences
    for state in ("live", "orphaned", "swapped"):
        put("sequences", getattr(sequences, state), state)
    put("free_slots", sequences.free_slots)
    put("tokens", sequences.tokens)
    put("utilisation", sequences.utilisation)
    put("fragmentation", sequences.internal_fragmentation)
    put("shared_blocks_saved", sequences.blocks_saved_by_sharing)
    put("executors", pool.executors)
    for ticket in pool.pending_tickets:
        put("pending_tickets", ticket.tickets, _word(states_pb2.TicketKind.Name(ticket.kind), "TICKET_KIND_"))
    for name in COUNTERS:
        put(name, getattr(pool.counters, name))


def _word(name: str, prefix: str) -> str:
    return name.removeprefix(prefix).lower()
