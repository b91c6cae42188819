"""Tools for testing programs that use toolcast: no network, no keys, deterministic.

`ScriptedLLM` returns prepared answers and records its requests. `AutoLLM` makes answers from the schemas of the tools.
`use_llm` replaces every other LLM. `record` and `replay` record the HTTP exchanges of a test and replay them.
`ReplayNetwork` returns bytes that the test writes itself, in chunks of any size. `capture_calls` captures requests and
responses. The pytest plugin (toolcast.pytest_plugin) has fixtures, and blocks real requests.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from ..llms.defaults import replace_llm
from ..llms.function_calling_llm import FunctionCallingLLM
from .auto import AutoLLM
from .blocked_requests import RequestBlocked
from .captured_calls import CapturedCall, capture_calls
from .recording import Recording, RecordingMismatch, record, replay
from .replay_network import Recorded, ReplayNetwork, VirtualClock
from .scripted import ScriptedLLM, ScriptedRequest
from .scrubbing import RecordingError

__all__ = [
    "AutoLLM",
    "CapturedCall",
    "Recorded",
    "Recording",
    "RecordingError",
    "RecordingMismatch",
    "ReplayNetwork",
    "RequestBlocked",
    "ScriptedLLM",
    "ScriptedRequest",
    "VirtualClock",
    "capture_calls",
    "record",
    "replay",
    "use_llm",
]


def use_llm(llm: FunctionCallingLLM, *, process_wide: bool = False) -> AbstractContextManager[None]:
    """Return a context manager inside which every call goes to `llm`, whatever LLM it was made with.

    It applies to the thread or task that entered the block, to the tasks it starts, and to threads and older tasks that
    are in no such block themselves. Where several blocks are open at once, a thread has to run in a copy of the context
    (`pool.submit(contextvars.copy_context().run, function)`).

    Args:
        llm: The replacement.
        process_wide: Replace it in the whole process, except inside blocks that are not process-wide. The blocks may
            begin and end in any thread or task, as the halves of a fixture may.
    """
    return replace_llm(llm, process_wide=process_wide)
