"""The spans of an agent, printed as a tree: its requests, its tools, and a structured call inside a tool.

The model is scripted: no key, no server. With a collector, the exporter is another one (docs/how-to/opentelemetry.md).
Run it with `pip install 'toolcast[otel]' opentelemetry-sdk` and `python examples/tracing.py`.
"""

from __future__ import annotations

from collections import defaultdict

from opentelemetry.sdk.trace import Event, ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel

import toolcast
from toolcast import Agent, Session, ToolCallPart, ToolOrchestratingLLM
from toolcast.testing import ScriptedLLM


class Forecast(BaseModel):
    """A weather forecast."""

    city: str
    degrees: int


# Its first answer is invalid: it is asked again, and its span has both attempts.
reader = ScriptedLLM({"city": "Oslo", "degrees": "mild"}, {"city": "Oslo", "degrees": 12}, model="reader")
read_forecast = ToolOrchestratingLLM(Forecast, "Read the forecast: {text}", reader, max_attempts=2)


def forecast(city: str) -> str:
    """The weather forecast for a city."""
    return f"{read_forecast(text=f'Mild in {city}, 12 degrees.').degrees} °C"


model = ScriptedLLM(
    [ToolCallPart("1", "forecast", '{"city": "Oslo"}'), ToolCallPart("2", "forecast", "{}")],
    "Take a coat.",
    model="agent",
)


def print_tree(spans: list[ReadableSpan]) -> None:
    """Print each span below its parent, in the order in which they began."""
    below: defaultdict[int | None, list[ReadableSpan]] = defaultdict(list)
    for span in sorted(spans, key=lambda span: span.start_time or 0):
        below[span.parent.span_id if span.parent else None].append(span)

    def show(parent: int | None, depth: int) -> None:
        for span in below[parent]:
            print("  " * depth + describe(span))
            for event in span.events:
                print("  " * (depth + 1) + f"- {describe(event)}")
            show(span.context.span_id, depth + 1)

    show(None, 0)


def describe(span: ReadableSpan | Event) -> str:
    """Return a line about a span or an event: its tokens and its error, if it has them."""
    found = span.attributes or {}
    line = span.name
    if "gen_ai.usage.input_tokens" in found:
        line += f": {found['gen_ai.usage.input_tokens']} tokens in, {found['gen_ai.usage.output_tokens']} out"
    if "error.type" in found:
        line += f": {found['error.type']}"
    return line


if __name__ == "__main__":
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    toolcast.instrument(tracer_provider=provider)

    with (
        provider.get_tracer("trip").start_as_current_span("plan a trip"),
        Session(Agent(model, [forecast])) as session,
    ):
        print(session.run("What shall I wear in Oslo?").text)
    print_tree(list(exporter.get_finished_spans()))
