"""The pytest plugin, which pytest finds by its entry point: fixtures, markers and options for tests of programs.

It imports nothing of toolcast before a test uses it or the configuration of the project asks for it, and changes
nothing about other tests. What it puts in place applies to the whole process: a test may run in another thread or task
than its fixtures, and may start threads of its own.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import ExitStack
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

if TYPE_CHECKING:
    from .testing import Recording, ScriptedLLM

_MODES: Final = ("none", "once", "new", "all")
_MARKERS: Final = (
    "toolcast_record(path=None, mode=None, filter=None, secrets=()): record the HTTP exchanges of the test at its "
    "first run, and replay them from then on; see toolcast.testing.record",
    "toolcast_block_requests(block=True): block requests to other machines during the test, or allow them",
)
_LONGEST: Final = 120


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command line option and the settings."""
    parser.getgroup("toolcast").addoption(
        "--toolcast-record",
        choices=_MODES,
        help="the mode of all recordings of this run, in place of their own: replay only (none), record those that are "
        "missing (once), add new requests (new), record everything again (all)",
    )
    parser.addini("toolcast_block_requests", "block requests to other machines in all tests", "bool", default=False)
    parser.addini("toolcast_tool_errors", 'what engines do with errors of tools: "return" (default) or "raise"')


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and apply the settings of the project until the end of the run."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    _keep_assertions(config)
    blocks = ExitStack()
    config.add_cleanup(blocks.close)
    if config.getini("toolcast_block_requests"):
        blocks.enter_context(_intercepted(block=True))
    if tool_errors := config.getini("toolcast_tool_errors"):
        if tool_errors not in ("return", "raise"):
            raise pytest.UsageError(f"toolcast_tool_errors = {tool_errors}: expected return or raise")
        from .llms.defaults import Configs

        blocks.callback(setattr, Configs, "tool_errors", Configs.tool_errors)
        Configs.tool_errors = tool_errors


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let a test with the marker `toolcast_record` use the fixture, before all others."""
    names: list[str] | None = getattr(item, "fixturenames", None)
    if names is not None and item.get_closest_marker("toolcast_record"):
        names[:] = ["toolcast_recording", *[name for name in names if name != "toolcast_recording"]]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Block or allow requests during a test with the marker `toolcast_block_requests`, and during its fixtures."""
    marker = item.get_closest_marker("toolcast_block_requests")
    if marker is None:
        return (yield)
    with _intercepted(block=bool(marker.kwargs.get("block", next(iter(marker.args), True)))):
        return (yield)


@pytest.fixture
def toolcast_llm() -> Generator[ScriptedLLM]:
    """Return a `ScriptedLLM` that answers every request of the test, in all threads; `add` gives it answers."""
    from .testing import ScriptedLLM, use_llm

    llm = ScriptedLLM()
    with use_llm(llm, process_wide=True):
        yield llm


@pytest.fixture
def toolcast_recording(request: pytest.FixtureRequest) -> Generator[Recording]:
    """Return the `Recording` of the test, with the options of its markers `toolcast_record`."""
    from .testing import record

    options: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("toolcast_record"))):  # the nearest one is the first
        options |= dict(zip(("path", "mode"), marker.args, strict=False)) | marker.kwargs
    path = request.path.parent / (options.pop("path", None) or _default_path(request.node))
    options["mode"] = request.config.getoption("--toolcast-record") or options.get("mode")
    with record(path, **options, process_wide=True) as recording:
        yield recording


def _keep_assertions(config: pytest.Config) -> None:
    """Let the library's own modules be imported as they are.

    pytest rewrites the assertions of a package that has a plugin in it, which would be all of the library. It has no
    public way to prevent that, except a text in each module; where this attribute is missing, they are rewritten.
    """
    marked = getattr(getattr(config.pluginmanager, "rewrite_hook", None), "_must_rewrite", None)
    if isinstance(marked, set):
        cast("set[str]", marked).discard("toolcast")
        getattr(config.pluginmanager.rewrite_hook, "_marked_for_rewrite_cache", {}).clear()


def _intercepted(*, block: bool) -> Any:
    """Return a context manager inside which requests to other machines are blocked, or allowed."""
    from .testing.blocked_requests import AllowRequests, BlockRequests
    from .transport.interception import intercept_by_default

    return intercept_by_default(BlockRequests() if block else AllowRequests())


def _default_path(item: pytest.Item) -> Path:
    """Return the path of the recording of a test: `recordings/test_module/test_name.jsonl`."""
    _, _, name = item.nodeid.partition("::")
    safe = re.sub(r"[^\w.\[\]-]+", "-", name.replace("::", "."))[:_LONGEST]
    if safe != name.replace("::", "."):  # two names must not become one
        safe += f"-{blake2b(name.encode(), digest_size=4).hexdigest()}"
    return Path("recordings", item.path.stem, f"{safe}.jsonl")
