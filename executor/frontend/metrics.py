"""What a front door counts, for Prometheus. Durations in seconds."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

SHORT = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class DoorMetrics:
    """The counters of one door, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "pagehold_door_requests",
            "Generations and deliveries that ended, by reason: an EndReason, hung_up, or the ErrorReason of a failure",
            ["reason"],
            registry=self.registry,
        )
        self.in_flight = Gauge("pagehold_door_in_flight", "Requests in flight", registry=self.registry)
        self.tokens = Counter(
            "pagehold_door_tokens",
            "Tokens: of prompts accepted, of those that came from the prefix cache, and of output sent",
            ["kind"],
            registry=self.registry,
        )
        self.queued = Histogram(
            "pagehold_door_queue_seconds",
            "From a request's arrival until it was accepted",
            buckets=SHORT,
            registry=self.registry,
        )
        self.first_token = Histogram(
            "pagehold_door_first_token_seconds",
            "From a request's arrival until its first token was sent",
            buckets=SHORT,
            registry=self.registry,
        )
        self.inter_token = Histogram(
            "pagehold_door_inter_token_seconds",
            "Between tokens of one stream; tokens that are sent together share the time since those before",
            buckets=SHORT,
            registry=self.registry,
        )
        self.duration = Histogram(
            "pagehold_door_request_seconds",
            "From a request's arrival until its end",
            buckets=(*SHORT, 120.0, 300.0, 600.0),
            registry=self.registry,
        )
        self.loop_lag = Gauge(
            "pagehold_door_loop_lag_seconds",
            "How late the event loop was when it was looked at last",
            registry=self.registry,
        )

    def serve(self, port: int) -> None:
        """Answer scrapes on a loopback port, from a thread of its own. Raises OSError where it cannot be bound."""
        start_http_server(port, addr="127.0.0.1", registry=self.registry)

    def count_tokens(self, kind: str, number: int) -> None:
        """Count tokens of a kind: prompt, cached or output."""
        self.tokens.labels(kind).inc(number)
