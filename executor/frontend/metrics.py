"""What a front door counts, for Prometheus. Durations in seconds."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

SHORT = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
LONG = (*SHORT, 120.0, 300.0, 600.0)


class DoorMetrics:
    """The counters of one door, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "pagehold_door_requests",
            "Outputs that ended, by EndReason; generations that were hung_up, or failed, by ErrorReason",
            ["reason"],
            registry=self.registry,
        )
        self.tokens = Counter(
            "pagehold_door_tokens",
            "Tokens: of prompts accepted, of those that came from the prefix cache, and of output sent",
            ["kind"],
            registry=self.registry,
        )
        self.in_flight = self._gauge("in_flight", "Requests in flight")
        self.loop_lag = self._gauge("loop_lag_seconds", "How late the event loop was when it was looked at last")
        self.queued = self._histogram("queue_seconds", "From a request's arrival until it was accepted")
        self.first_token = self._histogram(
            "first_token_seconds", "From a request's arrival until its first token was sent"
        )
        self.inter_token = self._histogram(
            "inter_token_seconds",
            "Between tokens of one stream; tokens that are sent together share the time since those before",
        )
        self.duration = self._histogram("request_seconds", "From a request's arrival until its end", LONG)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"pagehold_door_{name}", text, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: Sequence[float] = SHORT) -> Histogram:
        return Histogram(f"pagehold_door_{name}", text, buckets=buckets, registry=self.registry)

    def serve(self, port: int) -> None:
        """Answer scrapes on a loopback port, from a thread of its own. Raises OSError where it cannot be bound."""
        start_http_server(port, addr="127.0.0.1", registry=self.registry)

    def count_tokens(self, kind: str, number: int) -> None:
        """Count tokens of a kind: prompt, cached or output."""
        self.tokens.labels(kind).inc(number)
