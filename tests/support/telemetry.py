"""The spans and metrics that `toolcast.instrument` records, in memory.

with recorded() as telemetry:
    llm.chat("Hello.")
assert telemetry.tree() == ["chat m-1"]
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import toolcast
from toolcast.observability.telemetry_hooks import TelemetryHooks, telemetry_hooks


class Telemetry:
    """What was recorded by providers of its own."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider(metric_readers=[self.reader])

    @property
    def hooks(self) -> TelemetryHooks:
        """The hooks that record without content."""
        return telemetry_hooks(self.tracers, self.meters, False)

    @property
    def spans(self) -> list[ReadableSpan]:
        """The spans that have ended, in the order in which they began."""
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def of(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.of(name)
        return span

    def tree(self) -> list[str]:
        """The names of the spans, each indented below its parent."""
        below: dict[int | None, list[ReadableSpan]] = {}
        ids = {span.context.span_id for span in self.spans}
        for span in self.spans:
            parent = span.parent.span_id if span.parent is not None and span.parent.span_id in ids else None
            below.setdefault(parent, []).append(span)

        def lines(parent: int | None, depth: int) -> Iterator[str]:
            for span in below.get(parent, []):
                yield "  " * depth + span.name
                yield from lines(span.context.span_id, depth + 1)

        return list(lines(None, 0))

    def metrics(self) -> dict[str, list[Any]]:
        """The data points by the name of their metric."""
        data = self.reader.get_metrics_data()
        resources = [] if data is None else data.resource_metrics
        scopes = [scope for resource in resources for scope in resource.scope_metrics]
        return {metric.name: list(metric.data.data_points) for scope in scopes for metric in scope.metrics}

    def total(self, name: str) -> float:
        """The sum of a counter, or the sum of what a histogram has recorded."""
        points = self.metrics().get(name, [])
        return sum(point.value if hasattr(point, "value") else point.sum for point in points)

    def everything(self) -> str:
        """All spans and metrics as JSON text."""
        data = self.reader.get_metrics_data()
        return "\n".join([*(span.to_json() for span in self.spans), "" if data is None else data.to_json()])

    @property
    def open_count(self) -> int:
        """The number of operations that have begun and not ended."""
        both = [telemetry_hooks(self.tracers, self.meters, capture) for capture in (False, True)]
        return sum(len(each._operations) + len(each._errors) for each in both)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def content(span: ReadableSpan, name: str) -> Any:
    """The value of an attribute that has JSON."""
    return json.loads(attributes(span)[name])


@contextmanager
def recorded(*, capture_content: bool = False) -> Iterator[Telemetry]:
    """Record all calls of the block; afterwards nothing may be left open."""
    telemetry = Telemetry()
    with toolcast.instrument(telemetry.tracers, telemetry.meters, capture_content):
        yield telemetry
    telemetry.tracers.shutdown()
    assert telemetry.open_count == 0
