"""Jobs with a checkpoint: what is asked when they go on, and how they end if the file fails."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from support import warm_python
from support.collected_outcomes import Collect, collect_in, collect_sync
from toolcast import CallError, Prices, RemoteMCP, ToolOrchestratingLLM, WebSearch
from toolcast.batch import CheckpointError, CheckpointMismatch, Outcome, RowError, UnstableInput, read_status
from toolcast.batch.checkpoint import Checkpoint
from toolcast.testing import ScriptedLLM, ScriptedRequest


class Number(BaseModel):
    value: int


class Model:
    """The answers of an LLM: the number in the text, but for those that `fails` has; `asked` are the texts so far."""

    def __init__(self, *fails: str) -> None:
        self.asked: list[str] = []
        self.fails = set(fails)

    def answer(self, request: ScriptedRequest) -> Any:
        text = request.messages[-1].text
        self.asked.append(text)
        return CallError("too bad") if text in self.fails else Number(value=int(text))


def numbers(model: Model, prompt: str = "{text}") -> ToolOrchestratingLLM[Number]:
    return ToolOrchestratingLLM(Number, prompt, ScriptedLLM(model.answer, prices=Prices(1, 1)))


WAYS = {"sync": collect_sync, "asyncio": collect_in("asyncio"), "trio": collect_in("trio")}


@pytest.fixture(params=WAYS)
def collect(request: pytest.FixtureRequest) -> Collect:
    return WAYS[request.param]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "numbers.ckpt"


def values(outcomes: Iterable[Outcome[Number]]) -> list[int | None]:
    return [None if outcome.output is None else outcome.output.value for outcome in outcomes]


def test_only_failed_and_new_items_are_asked(collect: Collect, path: Path) -> None:
    model = Model("2")
    first = collect(numbers(model), ["1", "2", "3"], checkpoint=path)
    assert values(first) == [1, None, 3]
    model = Model()
    second = collect(numbers(model), ["3", "4", "2", "1"], checkpoint=path)
    assert values(second) == [3, 4, 2, 1]
    assert sorted(model.asked) == ["2", "4"]
    assert [outcome.index for outcome in second] == [0, 1, 2, 3]
    assert [outcome.input for outcome in second] == ["3", "4", "2", "1"]
    by_text = {outcome.input: outcome.key for outcome in first}
    assert {outcome.input: outcome.key for outcome in second}.items() >= by_text.items()
    restored = {outcome.input: outcome for outcome in first}["3"]
    assert (second[0].attempts, second[0].usage, second[0].seconds) == (1, restored.usage, restored.seconds)


def test_equal_inputs_are_items_of_their_own(collect: Collect, path: Path) -> None:
    model = Model()
    assert values(collect(numbers(model), ["1", "1", "2"], checkpoint=path)) == [1, 1, 2]
    assert values(collect(numbers(model), ["1", "2", "1", "1"], checkpoint=path)) == [1, 2, 1, 1]
    assert sorted(model.asked) == ["1", "1", "1", "2"]


def test_items_of_a_job_that_was_left_are_stored(path: Path) -> None:
    model = Model()
    with numbers(model).map(map(str, range(50)), checkpoint=path, max_concurrency=4) as outcomes:
        seen = [next(outcomes) for _ in range(10)]
    asked = {*model.asked}
    again = Model()
    assert values(numbers(again).map(map(str, range(50)), checkpoint=path)) == [*range(50)]
    assert {outcome.input for outcome in seen}.isdisjoint(again.asked)
    assert len(asked & {*again.asked}) <= 4  # those that ran


@pytest.mark.fault(152)
def test_a_changed_prompt_is_an_error_before_anything_is_sent(collect: Collect, path: Path) -> None:
    model = Model()
    collect(numbers(model), ["1"], checkpoint=path)
    with pytest.raises(CheckpointMismatch, match=r"another prompt.*was '\{text\}', is now 'Number: \{text\}'"):
        collect(numbers(model, "Number: {text}"), ["1", "2"], checkpoint=path)
    assert model.asked == ["1"]


def test_other_tools_of_the_provider_are_another_job(collect: Collect, path: Path) -> None:
    model = Model()
    call = numbers(model).with_(tools=[RemoteMCP("docs", "https://a.com", token="one", require_approval="never")])
    collect(call, ["1"], checkpoint=path)
    renewed = call.with_(tools=[RemoteMCP("docs", "https://a.com", token="two", require_approval="never")])
    assert values(collect(renewed, ["1"], checkpoint=path)) == [1]
    assert model.asked == ["1"]
    with pytest.raises(CheckpointMismatch, match="tools"):
        collect(call.with_(tools=[WebSearch()]), ["1"], checkpoint=path)
    assert b"one" not in path.read_bytes()


def test_one_job_at_a_time(path: Path) -> None:
    model = Model()
    with numbers(model).map(["1", "2"], checkpoint=path) as outcomes:
        next(outcomes)
        with pytest.raises(CheckpointError, match="is being written by another job"):
            next(numbers(model).map(["3"], checkpoint=path))
    assert "3" not in model.asked
    assert values(numbers(model).map(["3"], checkpoint=path)) == [3]


class Handle:
    """An input without content that could be hashed."""

    def __init__(self, id: int) -> None:
        self.id = id

    def __str__(self) -> str:
        return str(self.id)


def test_inputs_without_a_stable_hash_need_a_key(collect: Collect, path: Path) -> None:
    model = Model()
    inputs = [{"text": Handle(1), "id": "a"}, {"text": Handle(2), "id": "b"}]
    with pytest.raises(UnstableInput, match=r"input 0: .*Handle has no stable hash\. Pass key= to the job"):
        collect(numbers(model), inputs, checkpoint=path)
    assert model.asked == []
    for _ in range(2):
        outcomes = collect(numbers(model), inputs, checkpoint=path, key="id")
        assert (values(outcomes), [outcome.key for outcome in outcomes]) == ([1, 2], ["a", "b"])
    assert sorted(model.asked) == ["1", "2"]
    assert values(collect(numbers(model), inputs)) == [1, 2]  # without a checkpoint they need none


def test_a_bad_row_of_a_file_needs_no_key(tmp_path: Path, path: Path) -> None:
    file = tmp_path / "numbers.csv"
    file.write_bytes(b"id,text\na,1\nbroken\nc,3\n")
    model = Model()
    for _ in range(2):
        outcomes = [*numbers(model).map(file, checkpoint=path, key="id")]
        assert values(outcomes) == [1, None, 3]
        assert isinstance(outcomes[1].error, RowError)
    assert sorted(model.asked) == ["1", "3"]
    assert (read_status(path).done, read_status(path).failed) == (2, 1)


def test_the_spending_of_all_runs_is_kept(collect: Collect, path: Path) -> None:
    spent = []
    for fails in (["2"], []):
        outcomes = collect(numbers(Model(*fails)), ["1", "2"], checkpoint=path)
        spent.append(sum([outcome.cost or 0 for outcome in outcomes]))
    status = read_status(path)
    assert (status.done, status.failed, status.starts) == (2, 0, 2)
    assert status.spent.cost == spent[1] > spent[0]


# A file that fails.


@pytest.mark.fault(151)
def test_what_ended_before_the_disk_was_full_is_returned(collect: Collect, path: Path, monkeypatch: Any) -> None:
    begin = Checkpoint._begin

    def begin_small(self: Checkpoint, identity: Any) -> None:
        begin(self, identity)
        with self.file.using() as connection:
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages + 8}")

    model = Model()
    texts = [str(number) for number in range(1_000)]
    outcomes: list[Outcome[Number]] = []
    with monkeypatch.context() as patch, pytest.raises(CheckpointError, match="database or disk is full"):
        patch.setattr(Checkpoint, "_begin", begin_small)
        if collect is collect_sync:
            for outcome in numbers(model).map(texts, checkpoint=path):
                outcomes.append(outcome)  # those before the error are counted
        else:
            collect(numbers(model), texts, checkpoint=path)
    asked = {*model.asked}
    assert 50 < len(asked) < 1_000
    written = read_status(path).done
    assert 50 < written < len(asked)
    if outcomes:  # an item that could not be stored was paid for: its outcome is returned too
        assert len(outcomes) == len(asked)
    model = Model()
    assert values(collect(numbers(model), texts, checkpoint=path)) == [*range(1_000)]
    assert len(model.asked) == 1_000 - written


SMALL_FILES = """
import json, resource, sys
from pydantic import BaseModel
from toolcast import ToolOrchestratingLLM
from toolcast.batch import Job
from toolcast.testing import ScriptedLLM

class Number(BaseModel):
    value: int

asked = []

def answer(request):
    asked.append(request.messages[-1].text)
    return Number(value=int(asked[-1]))

limit = int(sys.argv[2])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
call = ToolOrchestratingLLM(Number, "{text}", ScriptedLLM(answer))
found, error = [], None
try:
    for outcome in call.map(map(str, range(300)), checkpoint=sys.argv[1], max_concurrency=1):
        found.append(outcome.output.value)
except Exception as raised:
    error = f"{type(raised).__name__}: {raised}"
# Coverage writes its data as the process ends.
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(json.dumps([found, asked, error]))
"""


@pytest.mark.skipif(os.name == "nt", reason="there are no limits on files")
@pytest.mark.fault(151)
def test_the_system_refuses_to_write(path: Path) -> None:
    """The limit of the system on the size of a file makes the writes of SQLite fail, as a quota does."""

    def run(limit: int) -> Any:
        command = [sys.executable, "-c", SMALL_FILES, str(path), str(limit)]
        done = warm_python.run(command, capture_output=True, text=True, timeout=50, check=True)
        return json.loads(done.stdout)

    found, asked, error = run(200_000)
    assert error.startswith("CheckpointError: checkpoint ")
    assert "What was written before is kept: make sure that the disk has space" in error
    assert 10 < len(found) < 300
    assert found == [*range(len(found))]
    assert len(asked) <= len(found) + 1
    stored = read_status(path).done
    assert stored >= len(found) - 1  # all but the one whose write failed, which is returned nevertheless
    found, asked, error = run(0)
    assert (found, error) == ([*range(300)], None)
    assert len(asked) == 300 - stored


@pytest.fixture
def no_writes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A file that cannot be written any more after it was opened."""
    begin = Checkpoint._begin

    def begin_read_only(self: Checkpoint, identity: Any) -> None:
        begin(self, identity)
        with self.file.using() as connection:
            connection.execute("PRAGMA query_only = ON")

    monkeypatch.setattr(Checkpoint, "_begin", begin_read_only)
    yield
    monkeypatch.undo()


@pytest.mark.usefixtures("no_writes")
@pytest.mark.fault(151)
def test_a_file_that_becomes_read_only_ends_the_job(collect: Collect, path: Path) -> None:
    model = Model()
    with pytest.raises(CheckpointError, match="attempt to write a readonly database"):
        collect(numbers(model), [str(number) for number in range(100)], checkpoint=path, max_concurrency=2)
    assert len(model.asked) < 20
