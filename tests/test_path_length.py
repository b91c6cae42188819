"""The length of the path of a call: the functions and files of toolcast that one warm action passes through.

The bounds are those of CPython 3.11 and the pure build, with a server on loopback. A change that needs more has to be
worth it, and raises its bound here; one that needs fewer lowers it. Fewer because of longer functions is no gain. How
many pieces a response arrives in is not the same each time: the bounds have room for a few. Each is counted in its own
process: a cache that has an equal key from an earlier test compares the two, which is a call more.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import toolcast
from support.albums import Album
from support.chunks import album_body, album_stream, text_body
from support.loopback import Loopback, whole
from toolcast import Engine, FunctionCallingLLM, OpenAICompatible, ToolOrchestratingLLM

ROOT = str(Path(toolcast.__file__).parent)
CALL = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
CALLED = json.dumps({"choices": [{"message": {"tool_calls": [CALL]}, "finish_reason": "tool_calls"}]}).encode()


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def call(llm: FunctionCallingLLM) -> Callable[[], Any]:
    make = ToolOrchestratingLLM(Album, "Invent an album about {topic}.", llm)
    return lambda: make(topic="the sea")


def stream(llm: FunctionCallingLLM) -> Callable[[], Any]:
    make = ToolOrchestratingLLM(Album, "Invent an album about {topic}.", llm)
    return lambda: list(make.stream(topic="the sea"))


def turn(llm: FunctionCallingLLM) -> Callable[[], Any]:
    return lambda: Engine(llm, [add]).submit("What is 1 + 2?")


ACTIONS = {
    "call": (call, [album_body()]),
    "stream": (stream, [b"".join(album_stream())]),
    "turn": (turn, [CALLED, text_body("It is 3.")]),
}


def measure(name: str) -> tuple[int, int]:
    """Return how many calls of functions, and how many files, the third run of an action passes through."""
    begin, answers = ACTIONS[name]
    files: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(ROOT):
            files.append(frame.f_code.co_filename)

    with Loopback() as server:
        for body in answers * 3:
            kind = "text/event-stream" if body.startswith(b"data:") else "application/json"
            server.answer(whole(body, 200, f"content-type: {kind}"))
        action = begin(OpenAICompatible("m", base_url=f"{server.url}/v1", api_key="k"))
        action()
        action()
        gc.collect()
        gc.disable()  # what is garbage may end with a call of its own
        sys.setprofile(note)
        try:
            action()
        finally:
            sys.setprofile(None)
            gc.enable()
    return len(files), len(set(files))


@pytest.mark.skipif(
    toolcast.__compiled__ or sys.version_info[:2] != (3, 11), reason="counts functions of CPython 3.11, pure build"
)
@pytest.mark.parametrize(
    ("action", "most_calls", "most_files"), [("call", 242, 47), ("stream", 955, 57), ("turn", 857, 75)]
)
def test_an_action_passes_through_so_many_functions_and_files(action: str, most_calls: int, most_files: int) -> None:
    source = f"from test_path_length import measure\nprint(*measure({action!r}))"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", source], env=env, check=True, capture_output=True)
    calls, files = map(int, done.stdout.split())
    assert calls <= most_calls
    assert files <= most_files
