"""Logs written by hand, line by line, in the published format: what an assessment reads."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Line = dict[str, Any]


def line(event_type: str, cycle: int, payload: Any) -> Line:
    return {
        "timestamp": "2026-11-22T10:00:00.000000Z",
        "run_id": "first",
        "cycle_number": cycle,
        "event_type": event_type,
        "payload": payload,
    }


def chat_message(role: str, content: str, **more: Any) -> Line:
    return {"role": role, "content": content, **more}


def call(name: str, id: str | None = None, **arguments: Any) -> Line:
    """A tool call; without an id as Ollama writes it."""
    function = {"function": {"name": name, "arguments": arguments}}
    return function if id is None else {"id": id, "type": "function", **function}


def asked(cycle: int, prompt: Iterable[Any], response: Any) -> Line:
    payload = {"prompt_messages": list(prompt), "response_message": response, "model_options": {}}
    return line("LLM_INVOCATION", cycle, payload)


def ran(cycle: int, name: str, output: Any, **parameters: Any) -> Line:
    return line("TOOL_CALL", cycle, {"tool_name": name, "parameters": parameters, "output": output})


def plain_cycle(cycle: int, reflection: str = "", **more: Any) -> list[Line]:
    """A cycle of one request."""
    prompt = [chat_message("system", f"System of cycle {cycle}"), chat_message("user", f"Begin cycle {cycle}.")]
    return [
        line("CYCLE_START", cycle, {}),
        asked(cycle, prompt, chat_message("assistant", reflection or f"Reflection {cycle}", **more)),
        line("CYCLE_END", cycle, {"final_reflection": reflection, "metrics": {}}),
    ]


def tool_cycle(cycle: int, *outputs: str) -> list[Line]:
    """A cycle that calls `write` once for each output, each in an answer of its own; calls have no ids."""
    prompt = [chat_message("system", f"System of cycle {cycle}"), chat_message("user", f"Begin cycle {cycle}.")]
    lines = [line("CYCLE_START", cycle, {})]
    for output in outputs:
        answer = chat_message("assistant", "", tool_calls=[call("write", key="k", value="v")])
        lines += [asked(cycle, prompt, answer), ran(cycle, "write", output, key="k", value="v")]
        prompt = [*prompt, answer, chat_message("tool", output)]
    return [*lines, asked(cycle, prompt, chat_message("assistant", f"Reflection {cycle}"))]


def written(folder: Path, *lines: Line | bytes, name: str = "first.jsonl") -> Path:
    """The log of these lines; bytes are a line already."""
    path = folder / name
    data = [each if isinstance(each, bytes) else json.dumps(each, ensure_ascii=False).encode() for each in lines]
    path.write_bytes(b"".join(each + b"\n" for each in data))
    return path
