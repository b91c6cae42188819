"""Files that may not be read or written: one typed error that names the place, and no failure that looks like nothing.

What runs here is bound by permissions also where the tests run as root; see `unprivileged`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from support.run_logs import whole_run
from support.unprivileged import mode, unprivileged
from toolcast.stores.jsonl_store import JSONLStore
from toolcast.stores.sqlite_store import SQLiteStore

OPENING = """
import os, sys
from pathlib import Path
from toolcast import *
from toolcast.stores import *
from toolcast.toolbox import *
from toolcast.testing import ScriptedLLM

folder = Path(sys.argv[1])

def show(work):
    try:
        print("->", work())
    except Exception as error:
        print(type(error).__name__, type(error.__cause__).__name__, error)
"""


def shown(script: str, folder: Path) -> list[str]:
    """Return the lines that a script wrote, which may `show` what becomes of some work in `folder`."""
    out, err, code = unprivileged(OPENING + dedent(script), folder)
    assert (err, code) == ("", 0), err
    return out.splitlines()


@pytest.fixture
def sealed(tmp_path: Path) -> Iterator[Path]:
    """A folder that may be read, and not written to."""
    folder = tmp_path / "sealed"
    folder.mkdir()
    with mode(folder, 0o500):
        yield folder


def test_permissions_bind_here(sealed: Path) -> None:
    (line,) = shown('show(lambda: (folder / "x").write_text("x"))', sealed)
    assert line.startswith("PermissionError ")


@pytest.mark.fault(144)
@pytest.mark.parametrize("kind", ["SQLiteStore", "JSONLStore"])
def test_a_store_where_nothing_may_be_written(sealed: Path, kind: str) -> None:
    lines = shown(
        f"""
        for place in (folder / "store", folder / "below" / "store"):
            show(lambda: {kind}(place).append("a", [{{"x": 1}}]))
            show(lambda: Session(Engine(ScriptedLLM("ok")), store={kind}(place)))
        """,
        sealed,
    )
    assert len(lines) == 4
    for line in lines:
        assert line.startswith(f"ToolcastError PermissionError the store {sealed}/")
        assert line.endswith("Is it a store's file, free and writable?")


@pytest.mark.fault(144)
def test_a_store_whose_files_may_only_be_read(tmp_path: Path) -> None:
    database, folder = tmp_path / "s.db", tmp_path / "logs"
    SQLiteStore(database).append("a", [{"x": 1}])
    JSONLStore(folder).append("a", [{"x": 1}])
    with mode(database, 0o400), mode(folder / "a.jsonl", 0o400), mode(folder, 0o500):
        written, logs, added, claimed = shown(
            """
            show(lambda: SQLiteStore(folder / "s.db").append("a", [{"x": 2}]))
            logs = JSONLStore(folder / "logs")
            show(lambda: (logs.ids(), logs.read("a")))
            show(lambda: logs.append("a", [{"x": 2}]))
            show(lambda: logs.claim("a"))
            """,
            tmp_path,
        )
    assert "readonly database" in written and written.startswith("ToolcastError OperationalError the store ")
    assert logs == "-> (['a'], [{'x': 1}])"
    assert "a.jsonl" in added and added.startswith("ToolcastError PermissionError ")
    assert "a.lock" in claimed and claimed.startswith("ToolcastError PermissionError ")
    assert JSONLStore(folder).read("a") == [{"x": 1}]


@pytest.mark.fault(144)
def test_a_store_that_may_not_be_read_is_not_an_empty_one(tmp_path: Path) -> None:
    JSONLStore(tmp_path / "logs").append("a", [{"x": 1}])
    with mode(tmp_path / "logs", 0):
        lines = shown(
            """
            logs = JSONLStore(folder / "logs")
            show(logs.ids)
            show(lambda: logs.read("a"))
            """,
            tmp_path,
        )
    assert [line.split()[:2] for line in lines] == [["ToolcastError", "PermissionError"]] * 2


@pytest.mark.fault(144)
def test_weights_that_may_not_be_written_or_read(tmp_path: Path, sealed: Path) -> None:
    """Also a call of a model that runs here ends in an error of the library."""
    model = tmp_path / "m.gguf"
    model.write_bytes(b"GGUF")
    with mode(model, 0):
        folder, cache, call, given, unread = shown(
            """
            from toolcast.llms.local.weights import pull
            os.environ["TOOLCAST_CACHE"] = str(folder / "sealed" / "cache")
            show(lambda: pull("smollm2"))
            os.environ["TOOLCAST_CACHE"] = str(folder / "sealed")
            show(lambda: pull("smollm2"))
            show(lambda: LlamaCpp().chat("x"))
            os.environ["TOOLCAST_CACHE"] = str(folder / "cache")
            show(lambda: pull("smollm2", source=folder / "m.gguf"))
            show(lambda: LlamaCpp(str(folder / "m.gguf")).chat("x"))
            """,
            tmp_path,
        )
    for line, place in ((folder, sealed / "cache"), (cache, sealed), (call, sealed)):
        assert line.startswith("NotFound PermissionError ")
        assert f"the weights of smollm2 cannot be written to {place}: Permission denied. Set TOOLCAST_CACHE" in line
    for line in (given, unread):
        assert line.startswith("NotFound PermissionError ")
        assert f"{model} cannot be read: Permission denied" in line


@pytest.mark.fault(144)
def test_a_history_of_inputs_that_may_not_be_written_or_read(tmp_path: Path, sealed: Path) -> None:
    kept, unread = tmp_path / "kept", tmp_path / "unread"
    for path in (kept, unread):
        path.write_text("\n# 2026\n+one\n")
    with mode(kept, 0o400), mode(unread, 0):
        lines = shown(
            """
            from toolcast.apps.repl.prompt_input import History
            def two(path):
                history = History(path)
                before = list(history.load_history_strings())
                history.append_string("two")
                return before, list(history.get_strings())
            for name in ("kept", "unread", "sealed/new"):
                show(lambda: two(folder / name))
            """,
            tmp_path,
        )
    assert lines == ["-> (['one'], ['two'])", "-> ([], ['two'])", "-> ([], ['two'])"]
    assert kept.read_text() == unread.read_text() == "\n# 2026\n+one\n"


@pytest.mark.slow
@pytest.mark.fault(144)
def test_logs_of_experiments_that_may_not_be_written_or_read(tmp_path: Path, sealed: Path) -> None:
    log = whole_run(tmp_path / "grid" / "a.jsonl", "a")
    below = whole_run(tmp_path / "grid" / "below" / "b.jsonl", "b")
    script = """
        from toolcast.experiments.event_log import JsonlLogger
        from toolcast.experiments.agent_memory import AgentMemory
        from toolcast.experiments.report.page import logs_in
        show(lambda: JsonlLogger(folder / "sealed" / "run.jsonl", "run"))
        show(lambda: AgentMemory(folder / "sealed" / "memory.db"))
        show(lambda: len(logs_in(folder / "grid")))
        """
    assert shown(script, tmp_path)[-1] == "-> 2"
    with mode(log, 0):
        written, memory, read = shown(script, tmp_path)
    assert written.startswith("ToolcastError PermissionError ") and "run.jsonl cannot be written" in written
    assert memory.startswith("ToolcastError ") and "memory.db" in memory
    assert read.startswith("LogError PermissionError ") and "a.jsonl cannot be read" in read
    with mode(below.parent, 0):
        assert shown(script, tmp_path)[-1].startswith("PermissionError ")


@pytest.mark.fault(137, 144)
def test_a_file_that_a_tool_may_not_read_or_write(tmp_path: Path, sealed: Path) -> None:
    """The model reads why in one line; nothing of the file, and no path outside of its folder."""
    (tmp_path / "secret.txt").write_text("the secret")
    with mode(tmp_path / "secret.txt", 0):
        lines = shown(
            """
            tools = {tool.name: tool for tool in file_tools(folder)}
            for name, arguments in (
                ("read_file", {"path": "secret.txt"}),
                ("write_file", {"path": "sealed/new.txt", "content": "x"}),
            ):
                show(lambda: tools[name].call(arguments).content)
            """,
            tmp_path,
        )
    assert len(lines) == 2
    for line in lines:
        assert "Permission denied" in line
        assert "the secret" not in line and str(tmp_path) not in line
