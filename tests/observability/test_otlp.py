"""Spans and metrics reach a collector: they are sent over loopback HTTP as protobuf, and decoded there."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import toolcast
from support.albums import SHORT, Album
from support.engines import call as tool_call
from toolcast import Engine, ToolOrchestratingLLM
from toolcast.testing import ScriptedLLM


class Collector(ThreadingHTTPServer):
    """A server that decodes what is posted to `/v1/traces` and `/v1/metrics`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.spans: list[Any] = []
        self.metrics: list[Any] = []

    def receive(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            traces = ExportTraceServiceRequest.FromString(body)
            self.spans += [s for r in traces.resource_spans for scope in r.scope_spans for s in scope.spans]
        elif path == "/v1/metrics":
            metrics = ExportMetricsServiceRequest.FromString(body)
            self.metrics += [m for r in metrics.resource_metrics for scope in r.scope_metrics for m in scope.metrics]


class Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        assert self.headers["content-type"] == "application/x-protobuf"
        self.server.receive(self.path, body)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def values(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, str(pair.value.WhichOneof("value"))) for pair in pairs}


def note(text: str) -> str:
    return f"noted: {text}"


def test_a_collector_receives_spans_and_metrics(collector: Collector) -> None:
    tracers = TracerProvider()
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{collector.url}/v1/traces")))
    exporter = OTLPMetricExporter(f"{collector.url}/v1/metrics")
    meters = MeterProvider([PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)])
    with toolcast.instrument(tracers, meters, capture_content=True):
        ToolOrchestratingLLM(Album, "Make one \ud800.", ScriptedLLM(SHORT))()
        Engine(ScriptedLLM(tool_call("1", "note", '{"text": "\ud800"}'), "Done."), [note]).submit("Note it.")
        next(ScriptedLLM("Hello, sea.").stream_chat("Hello."))
    tracers.shutdown()
    meters.shutdown()

    names = [span.name for span in collector.spans]
    assert sorted(names) == [*["chat scripted"] * 4, "execute_tool note", "invoke_agent"]
    by_name = {span.name: span for span in collector.spans}
    turn, tool = by_name["invoke_agent"], by_name["execute_tool note"]
    assert (tool.parent_span_id, tool.trace_id) == (turn.span_id, turn.trace_id)
    structured = values(collector.spans[0].attributes)
    assert structured["gen_ai.usage.input_tokens"] == 10
    assert structured["gen_ai.output.type"] == "json"
    assert [event.name for event in collector.spans[0].events] == ["toolcast.attempt"]
    counters = {metric.name: metric for metric in collector.metrics}
    tokens = counters["gen_ai.client.inference.usage.input_tokens"].sum
    assert tokens.is_monotonic
    assert sum(point.as_int for point in tokens.data_points) == 30
    assert counters["gen_ai.invoke_agent.duration"].unit == "s"
    (seconds,) = counters["gen_ai.execute_tool.duration"].histogram.data_points
    assert (seconds.count, len(seconds.explicit_bounds)) == (1, 14)
    assert values(seconds.attributes)["gen_ai.tool.name"] == "note"
