"""What `/metrics` shows.

In: requests and batches as they end. Out: Prometheus's text format.
"""

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The numbers of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        self._requests = Counter(
            "exadec_requests", "Requests by route and status.", ["route", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "exadec_request_seconds", "Time to answer.", ["route"], buckets=_SECONDS, registry=self._registry
        )
        self._batches = Histogram(
            "exadec_batch_size", "Texts written together.", buckets=_SIZES, registry=self._registry
        )
        self._batch_seconds = Histogram(
            "exadec_batch_seconds", "Time to write a batch.", buckets=_SECONDS, registry=self._registry
        )

    def watch(self, name: str, what: str, value: Callable[[], float]) -> None:
        """Show a number that is asked for when somebody looks."""
        Gauge(f"exadec_{name}", what, registry=self._registry).set_function(value)

    def count_request(self, route: str, status: int, seconds: float) -> None:
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def count_batch(self, size: int, seconds: float) -> None:
        self._batches.observe(size)
        self._batch_seconds.observe(seconds)

    def show(self) -> bytes:
        return generate_latest(self._registry)
