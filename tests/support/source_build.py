"""What the machines of the compiled modules make of an input, in this build and in one that is Python alone.

The source is in every wheel beside the compiled modules. `SourceBuild` is a process that loads nothing else, so that in
a compiled environment the two builds are compared; elsewhere both are the same.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import toolcast
from support.albums import Album
from support.grammar_models import Expression, Zoo
from support.turns import PROTOCOLS
from toolcast import StreamingObjectProcessor, ToolcastError
from toolcast.events import ToolCallDelta, ToolCallStart
from toolcast.parsing.json_stream import JSONStream, JSONStreamError
from toolcast.parsing.partial_value import MISSING, PartialValue, plan_for
from toolcast.providers.base import RequestInput
from toolcast.providers.sse import JSONLines, ServerSentEvents
from toolcast.values.tool_spec import ToolSpec

REQUEST = RequestInput("m", (), (ToolSpec("Album", "An album.", {"type": "object", "properties": {}}),))


def _fed(make: Callable[[], Any], pieces: Sequence[Any]) -> Iterator[Any]:
    machine = make()
    for piece in pieces:
        yield machine.feed(piece)
    yield machine.close()


def _decoded(name: str, pieces: Sequence[Any]) -> Iterator[Any]:
    """Yield the events, as `HTTPExchange` reads them: the fast path before the decoder."""
    protocol = PROTOCOLS[name]
    decoder = protocol.wire().decoder(replace(REQUEST, stream=True))
    for piece in pieces:
        text = decoder.more_text(piece)
        yield decoder.feed(piece) if text is None else text
        yield decoder.open_call, decoder.model, decoder.failed
    yield decoder.close()


def _grown(of: Any, fail_fast: bool, pieces: Sequence[Any]) -> Iterator[Any]:
    growing = PartialValue(plan_for(of), fail_fast=fail_fast)
    for piece in pieces:
        yield growing.feed(piece), growing.is_complete, growing.text
        if growing.value is not MISSING:
            yield growing.value, growing.changed, growing.changes(), growing.closed_items(("songs",))
    yield growing.close(), growing.value


def _processed(pieces: Sequence[Any]) -> Iterator[Any]:
    processor = StreamingObjectProcessor(Album)
    yield processor.process(ToolCallStart("1", "Album"))
    for piece in pieces:
        yield processor.process(ToolCallDelta("1", piece))


OF_BYTES: dict[str, Callable[[Sequence[Any]], Iterator[Any]]] = {
    "server-sent events": partial(_fed, ServerSentEvents),
    "JSON lines": partial(_fed, JSONLines),
    **{name: partial(_decoded, name) for name in PROTOCOLS},
}
"""The machines that take bytes, by name."""

OF_TEXT: dict[str, Callable[[Sequence[Any]], Iterator[Any]]] = {
    "JSON": partial(_fed, JSONStream),
    "any JSON object": partial(_grown, dict[str, Any], True),
    "a list of numbers": partial(_grown, list[int | float], True),
    "a model": partial(_grown, Album, True),
    "a model, to its end": partial(_grown, Album, False),
    "a union": partial(_grown, Zoo, False),
    "a model in itself": partial(_grown, Expression, False),
    "a processor": _processed,
}
"""The machines that take text, by name."""

_MACHINES = {**OF_BYTES, **OF_TEXT}


def outcome(machine: str, pieces: Sequence[Any]) -> str:
    """Return what a machine returns for each piece, and the error that ends it."""
    results: list[str] = []
    try:
        for result in _MACHINES[machine](pieces):
            results.append(repr(result))
    except (ToolcastError, JSONStreamError, ValueError) as error:
        results.append(f"{type(error).__name__}: {error}, from {error.__cause__!r}, {error.__suppress_context__}")
    return "\n".join(results)


_PROGRAM = """
from support.source_only import load_source_only
load_source_only()
from support.source_build import answer_requests
answer_requests()
"""


class SourceBuild:
    """A process in which all of toolcast is Python. Close it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": str(Path(__file__).parents[1])},
        )

    def outcome(self, machine: str, pieces: Sequence[bytes] | Sequence[str]) -> str:
        """Return what `outcome` returns in that process."""
        texts = [piece.decode("latin-1") if isinstance(piece, bytes) else piece for piece in pieces]
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([machine, texts]) + "\n")
        self._process.stdin.flush()
        result: str = json.loads(self._process.stdout.readline())
        return result

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def answer_requests() -> None:
    """Write the outcome of each machine and input that is read."""
    assert not toolcast.__compiled__
    for line in sys.stdin:
        machine, texts = json.loads(line)
        pieces = [text.encode("latin-1") for text in texts] if machine in OF_BYTES else texts
        print(json.dumps(outcome(machine, pieces)), flush=True)
