"""Sessions of a user who looks for the slow and the expensive part of a program in its traces."""

from __future__ import annotations

import json
from textwrap import dedent, indent

import pytest

from support.chunks import USAGE, album_body, album_stream, call_deltas, delta, sse
from support.loopback import Loopback
from user.session import KEY, answered, play, spoken

TRACING = """
import toolcast
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

class Print(SpanExporter):
    def export(self, spans):
        for span in spans:
            found = span.attributes
            print(span.name, "|", found.get("error.type"), "|", found.get("gen_ai.usage.input_tokens"), "|",
                  *[event.name for event in span.events], "|", span.status.description)
        return SpanExportResult.SUCCESS

provider, reader = TracerProvider(), InMemoryMetricReader()
provider.add_span_processor(SimpleSpanProcessor(Print()))
trace.set_tracer_provider(provider)
metrics.set_meter_provider(MeterProvider([reader]))
toolcast.instrument()
"""

USES = {
    "sync": """
        def use():
            make = make_album.with_(max_attempts=2)
            print(make(topic="the sea").title)
            for album in make_album.stream(topic="the sea"):
                pass
            try:
                make_album(topic="the sea")
            except toolcast.LLMError as error:
                print(type(error).__name__)

        with provider.get_tracer("app").start_as_current_span("albums"):
            use()
        """,
    "asyncio": """
        import asyncio

        async def use():
            make = make_album.with_(max_attempts=2)
            print((await make.acall(topic="the sea")).title)
            async for album in make_album.astream(topic="the sea"):
                pass
            try:
                await make_album.acall(topic="the sea")
            except toolcast.LLMError as error:
                print(type(error).__name__)

        with provider.get_tracer("app").start_as_current_span("albums"):
            asyncio.run(use())
        """,
}

TOTALS = """
for metric in reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics:
    if metric.name.endswith("usage.input_tokens"):
        print(sum(point.value for point in metric.data.data_points), "tokens in")
"""


@pytest.mark.parametrize("api", USES)
def test_what_was_retried_what_failed_and_what_it_cost(api: str) -> None:
    with Loopback() as server:
        server.answer(answered(album_body('{"title": 1}')))
        server.answer(answered(album_body()))
        server.answer(*spoken(*album_stream()))
        server.answer(answered(b'{"error": {"message": "The key is wrong."}}', 401))
        lines = play(TRACING + dedent(USES[api]) + TOTALS, server).went_well()
    assert lines == [
        "chat m-1 | None | 14 | toolcast.attempt toolcast.retry toolcast.attempt | None",
        "Sea of Glass",
        "chat m-1 | None | 7 | toolcast.attempt | None",
        "chat m-1 | AuthFailed | None | toolcast.attempt | None",
        "AuthFailed",
        "albums | None | None | | None",
        "21 tokens in",
    ]
    assert KEY not in "\n".join(lines)


AGENTS = {
    "sync": 'agent.run("How is Oslo?")',
    "asyncio": 'asyncio.run(agent.arun("How is Oslo?"))',
    "thread": """
with ThreadPoolExecutor() as pool:
    pool.submit(copy_context().run, agent.run, "How is Oslo?").result()
""",
}


@pytest.mark.parametrize("api", AGENTS)
def test_a_tool_and_a_call_in_it_are_below_the_turn_and_the_span_of_the_program(api: str) -> None:
    script = """
import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from toolcast import Agent

def review(city: str) -> str:
    with provider.get_tracer("app").start_as_current_span("a span of the tool"):
        return make_album(topic=city).title

class Parents(SpanExporter):
    names = {}
    def export(self, spans):
        for span in spans:
            self.names[span.context.span_id] = (span.name, span.parent)
        return SpanExportResult.SUCCESS

parents = Parents()
provider.add_span_processor(SimpleSpanProcessor(parents))
agent = Agent(llm, [review])
with provider.get_tracer("app").start_as_current_span("program"):
"""
    with Loopback() as server:
        call = call_deltas(json.dumps({"city": "Oslo"}), "review", "call_1")
        server.answer(*spoken(*sse(*call, delta("tool_calls"), USAGE)))
        server.answer(answered(album_body()))
        server.answer(*spoken(*sse(delta(content="Fine."), delta("stop"), USAGE)))
        end = """
for name, parent in parents.names.values():
    print("::", name, "<", parents.names[parent.span_id][0] if parent else None)
"""
        lines = play(TRACING + script + indent(AGENTS[api].strip(), "    ") + end, server).went_well()
    assert [line for line in lines if line.startswith(":: ")] == [
        ":: chat m-1 < invoke_agent",
        ":: chat m-1 < a span of the tool",
        ":: a span of the tool < execute_tool review",
        ":: execute_tool review < invoke_agent",
        ":: chat m-1 < invoke_agent",
        ":: invoke_agent < program",
        ":: program < None",
    ]


def test_a_program_without_the_package_reads_what_to_install() -> None:
    script = """
        sys.modules["opentelemetry"] = None
        import toolcast
        try:
            toolcast.instrument()
        except ImportError as error:
            print(error)
        """
    assert play(dedent(script)).went_well() == ["instrument() needs opentelemetry-api: pip install 'toolcast[otel]'"]
