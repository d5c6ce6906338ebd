"""Everything as one text in Prometheus' format, whichever process is asked."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from apps.http import measures
from apps.operations.metrics.truth import Truth

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def text() -> bytes:
    """Return the metrics: counts of all processes added up, and gauges computed now."""
    registry = CollectorRegistry()
    measures.FOLDER.mkdir(mode=0o700, parents=True, exist_ok=True)
    MultiProcessCollector(registry, path=str(measures.FOLDER))  # type: ignore[no-untyped-call]
    registry.register(Truth())
    return generate_latest(registry)
