"""`toolcast.instrument`: its arguments, its handle, and the package that it needs."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path
from typing import Any
from weakref import ref

import pytest
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.trace import NoOpTracerProvider

import toolcast
from support.telemetry import Telemetry, recorded
from toolcast.observability.conventions import (
    AGENT_SECONDS,
    ATTEMPT_EVENT,
    FIRST_CHUNK,
    INFERENCE_SECONDS,
    INPUT_MESSAGES,
    OUTPUT_MESSAGES,
    RETRY_EVENT,
    TOKEN_COUNTERS,
    TOOL_SECONDS,
    VERSION,
)
from toolcast.testing import ScriptedLLM

EVENTS = (ATTEMPT_EVENT, RETRY_EVENT)


def test_a_handle_ends_the_recording() -> None:
    telemetry = Telemetry()
    handle = toolcast.instrument(telemetry.tracers, telemetry.meters)
    ScriptedLLM("Hello.").chat("Hello.")
    handle.remove()
    handle.remove()
    ScriptedLLM("Hello.").chat("Hello.")
    assert telemetry.tree() == ["chat scripted"]


def test_the_same_arguments_record_nothing_twice() -> None:
    with recorded() as telemetry, toolcast.instrument(telemetry.tracers, telemetry.meters):
        ScriptedLLM("Hello.").chat("Hello.")
    assert len(telemetry.spans) == 1
    other = Telemetry()
    with recorded() as telemetry, toolcast.instrument(other.tracers, other.meters):
        ScriptedLLM("Hello.").chat("Hello.")
    assert len(telemetry.spans) == len(other.spans) == 1


def test_hooks_that_were_removed_are_not_kept() -> None:
    telemetry = Telemetry()
    with toolcast.instrument(telemetry.tracers, telemetry.meters):
        ScriptedLLM("Hello.").chat("Hello.")
        hooks = ref(telemetry.hooks)
        assert hooks() is telemetry.hooks
    gc.collect()
    assert hooks() is None


def test_an_operation_that_has_begun_is_recorded_to_its_end() -> None:
    telemetry = Telemetry()
    stream = ScriptedLLM("Hello, sea.").stream_chat("Hello.")
    with toolcast.instrument(telemetry.tracers, telemetry.meters):
        begun = ScriptedLLM("Hello, sea.").stream_chat("Hello.")
        next(begun)
    assert list(begun)
    assert list(stream)  # it was made before, and is not recorded
    assert telemetry.tree() == ["chat scripted"]


def test_without_an_sdk_nothing_is_recorded() -> None:
    with toolcast.instrument(NoOpTracerProvider(), NoOpMeterProvider()):
        assert ScriptedLLM("Hello.").chat("Hello.").text == "Hello."
    with toolcast.instrument():
        assert ScriptedLLM("Hello.").chat("Hello.").text == "Hello."


@pytest.mark.parametrize("name", ["tracer_provider", "meter_provider"])
def test_anything_but_a_provider_is_a_type_error(name: str) -> None:
    wrong: dict[str, Any] = {name: "provider"}
    with pytest.raises(TypeError, match=f"{name}: expected a .*Provider of OpenTelemetry or None, got str"):
        toolcast.instrument(**wrong)


def test_the_documentation_names_the_version_of_the_conventions() -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "opentelemetry.md"
    text = page.read_text(encoding="utf-8")
    assert f"[version {VERSION}](https://github.com/open-telemetry/semantic-conventions-genai/tree/v{VERSION})" in text
    metrics = [INFERENCE_SECONDS, FIRST_CHUNK, AGENT_SECONDS, TOOL_SECONDS, *EVENTS, INPUT_MESSAGES, OUTPUT_MESSAGES]
    assert [name for name in metrics if f"`{name}`" not in text] == []
    short = [name.rpartition(".usage")[2] for name in TOKEN_COUNTERS.values()]
    assert [name for name in short if f"{name}`" not in text] == []


WITHOUT_IT = """
import sys
sys.modules["opentelemetry"] = None
import toolcast
try:
    toolcast.instrument()
except ImportError as error:
    print(error.name, "|", error)
print("toolcast.observability.telemetry_hooks" in sys.modules)
"""


def test_without_the_package_the_error_names_the_installation() -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT_IT], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [
        "opentelemetry | instrument() needs opentelemetry-api: pip install 'toolcast[otel]'",
        "False",
    ]


def test_a_program_that_does_not_use_it_does_not_import_it() -> None:
    program = "import sys, toolcast; toolcast.OpenAI; print('opentelemetry' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
