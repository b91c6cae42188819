"""docs/reference/experiment-log.md: jq, pandas and DuckDB read the same from the page's own log as toolcast.

The Python of the page runs first and writes the log. The first line of each one-liner names the question it answers.
A plain block after a shell's is what it printed.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pytest

from docs.pages import ROOT, Block, blocks
from toolcast.experiments.event_log import read_log
from toolcast.experiments.log_events import EventType, LogEvent

pytestmark = [pytest.mark.networked, pytest.mark.timeout(120)]

PATH = ROOT / "docs" / "reference" / "experiment-log.md"
PAGE = blocks(PATH)
QUESTIONS = ("tokens", "tools", "reflections", "seconds", "similarity")
Rows = list[tuple[Any, ...]]


def question(block: Block) -> str:
    """Return the question in the first line of a block."""
    return block.code.partition("\n")[0].strip("#- ")


def one_liners(language: str) -> list[Block]:
    return [block for block in PAGE if block.language == language and not block.code.startswith("CREATE")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="module")
def names(folder: Path) -> dict[str, Any]:
    """What the Python of the page leaves, which ran in `folder`."""
    found: dict[str, Any] = {"__name__": "__main__"}
    with pytest.MonkeyPatch.context() as here:
        here.chdir(folder)
        for block in PAGE:
            if block.language == "python" and not block.order:
                exec(compile(block.code, str(block), "exec"), found)
    return found


@pytest.fixture(scope="module")
def expected(folder: Path, names: dict[str, Any]) -> dict[str, Rows]:
    """The answers, by toolcast itself."""
    events = list(read_log(folder / "logs" / "first-light.jsonl"))
    ends = [event for event in events if event.event_type == "CYCLE_END"]
    calls = [event.payload["tool_name"] for event in events if event.event_type == "TOOL_CALL"]
    return {
        "tokens": measured(ends, "input_tokens", "output_tokens"),
        "tools": by_count([(tool, calls.count(tool)) for tool in set(calls)]),
        "reflections": [(end.cycle_number, end.payload["final_reflection"]) for end in ends],
        "seconds": [(*row, of_the_model(events, row[0])) for row in measured(ends, "seconds")],
        "similarity": [row for row in measured(ends, "similarity", "similar_to", "advisory") if row[1] is not None],
        "errors": [("by-hand", 1, "failure", "too dark")],
    }


@pytest.fixture
def lines(folder: Path, names: dict[str, Any]) -> list[dict[str, Any]]:
    """The lines of the page's logs."""
    logs = [folder / "logs" / f"{name}.jsonl" for name in ("first-light", "by-hand")]
    texts = [line for log in logs for line in log.read_text(encoding="utf-8").splitlines()]
    return [line for line in map(json.loads, texts) if line["run_id"] == "first-light" or line["event_type"] == "ERROR"]


def measured(events: list[LogEvent], *keys: str) -> Rows:
    return [(event.cycle_number, *(nearly(event.measures.get(key)) for key in keys)) for event in events]


def nearly(value: Any) -> Any:
    """Floats are read to the last digit by some and not by others."""
    return pytest.approx(value) if isinstance(value, float) else value


def of_the_model(events: list[LogEvent], cycle: int) -> Any:
    asked = [event for event in events if event.event_type == "LLM_INVOCATION" and event.cycle_number == cycle]
    return nearly(math.fsum(event.measures["seconds"] for event in asked))


def test_the_log_has_something_to_tell(expected: dict[str, Rows]) -> None:
    assert expected["tools"] == [("write", 2), ("list", 1), ("read", 1)]
    assert [row[1:] for row in expected["similarity"]][-1] == (1.0, 1, "high")
    assert len(expected["seconds"]) == len(expected["tokens"]) == len(expected["reflections"]) == 3


def test_the_schema_is_that_of_the_log(lines: list[dict[str, Any]]) -> None:
    for event_type in get_args(EventType):
        found = [line for line in lines if line["event_type"] == event_type]
        payload, measures = schema(event_type)
        assert {frozenset(line["payload"]) for line in found} == {frozenset(payload)}
        assert {key for line in found for key in line.get("measures", ())} == measures


def schema(event_type: str) -> tuple[set[str], set[str]]:
    """The keys that the table has for an event: of its payload, and of its measures."""
    (row,) = re.findall(rf"^\| `{event_type}` \|(.*)\|(.*)\|$", PATH.read_text(encoding="utf-8"), re.M)
    payload, measures = (set(re.findall(r"`(\w+)`", cell)) for cell in row)
    return payload, measures


def test_the_lines_that_are_shown_are_those_of_the_log(lines: list[dict[str, Any]]) -> None:
    (block,) = [block for block in PAGE if block.language == "json"]
    shown, decoder, rest = [], json.JSONDecoder(), block.code
    while rest:
        line, end = decoder.raw_decode(rest)
        shown.append(line)
        rest = rest[end:].lstrip()
    for line in shown:
        real = next(other for other in lines if other["sequence"] == line["sequence"])
        for one in (line, real):
            one["timestamp"], one["measures"]["seconds"] = "", 0
        assert list(line.items()) == list(real.items())


def test_each_tool_answers_every_question() -> None:
    for language in ("sh", "sql"):
        assert [question(block) for block in one_liners(language)] == [*QUESTIONS, "errors"]


def run_by_shell(block: Block, folder: Path) -> str:
    assert shutil.which("jq"), "jq is not here: apt-get install jq"
    done = subprocess.run(["sh", "-ec", block.code], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


def rows_of(output: str, asked: str) -> Rows:
    """The lines that a shell printed, as rows."""
    lines = output.splitlines()
    if asked == "tools":
        return by_count([(tool, int(count)) for count, tool in map(str.split, lines)])
    if asked == "reflections":
        return [(int(line.partition(" ")[0]), line.partition(" ")[2]) for line in lines]
    return [tuple(json.loads(line)) for line in lines]


def by_count(rows: Rows) -> Rows:
    """Tools and how often they were used; of equal counts, the order is anybody's."""
    return sorted(rows, key=lambda row: (-row[1], row[0]))


@pytest.mark.parametrize("block", one_liners("sh"), ids=question)
def test_jq_reads_what_toolcast_reads(block: Block, folder: Path, expected: dict[str, Rows]) -> None:
    assert rows_of(run_by_shell(block, folder), question(block)) == expected[question(block)]


@pytest.mark.parametrize(
    ("block", "after"),
    [(block, after) for block, after in pairwise(PAGE) if block.language == "sh" and not after.language],
    ids=str,
)
def test_the_page_shows_what_jq_prints(block: Block, after: Block, folder: Path, names: dict[str, Any]) -> None:
    assert run_by_shell(block, folder) == after.code


def test_duckdb_reads_what_toolcast_reads(
    folder: Path, expected: dict[str, Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    with import_module("duckdb").connect() as connection:
        for block in PAGE:
            if block.language == "sql":
                connection.execute(block.code)
                if not block.code.startswith("CREATE"):
                    assert connection.fetchall() == expected[question(block)]


def test_pandas_reads_what_toolcast_reads(names: dict[str, Any], expected: dict[str, Rows]) -> None:
    def rows(name: str) -> Rows:
        frame = names[name].to_frame() if names[name].ndim == 1 else names[name]
        found = frame.astype(object).where(frame.notna(), None)
        return [tuple(row) for row in found.itertuples()]

    for name in ("tokens", "reflections", "similarity"):
        assert rows(name) == expected[name]
    assert by_count(rows("tools")) == expected["tools"]
    assert rows("seconds") == [row[:2] for row in expected["seconds"]]
