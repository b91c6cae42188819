"""Many inputs in a program of one's own: from CSV to JSON Lines, interrupted, resumed, and what goes wrong on the way.

The programs are files as the page on many inputs has them, and run in processes of their own. The service is a real
server, whose model extracts the person from each text.
"""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from support.chunks import text_body
from support.loopback import CLOSE, Loopback, Piece, Request
from user.session import CTRL_C, KEY, Screen, address, answered, environment, finish, press_ctrl_c

ROWS = 30
TEXTS = [f"Person{number} is {number}" for number in range(ROWS)]

PROGRAM = f"""\
import sys
from pathlib import Path
from pydantic import BaseModel
from toolcast import OpenAI, ToolOrchestratingLLM
from toolcast.batch import Job

class Person(BaseModel):
    name: str
    age: int

llm = OpenAI("gpt-5.4", base_url=sys.argv[1], api_key="{KEY}", max_retries=1)
read_person = ToolOrchestratingLLM(Person, "Who is it? {{text}}", llm)
job = Job(read_person, Path("people.csv"), checkpoint="people.checkpoint")
saved = job.to_jsonl("people.jsonl")
print(saved.done, "done,", saved.failed, "failed:", saved.errors)
if saved.first_error:
    print(saved.first_error)
"""


class People(Loopback):
    """The service. `rule` gives the answer to a text; `texts` are those of all requests."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.rule: Callable[[str], tuple[Piece, ...]] = by_tool_call

    def go_down(self) -> None:
        """Accept no more connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _pieces(self, request: Request) -> tuple[Piece, ...]:
        found = re.search(r"Person\d+ is \d+", json.loads(request.body)["messages"][-1]["content"])
        assert found is not None
        self.texts.append(found[0])
        return self.rule(found[0])


def person(text: str) -> dict[str, Any]:
    name, _, age = text.split()
    return {"name": name, "age": int(age)}


def by_tool_call(text: str) -> tuple[Piece, ...]:
    function = {"name": "Person", "arguments": json.dumps(person(text))}
    message = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    usage = {"prompt_tokens": 40, "completion_tokens": 10, "total_tokens": 50}
    return (answered(json.dumps({"id": "c", "model": "gpt-5.4", "choices": [choice], "usage": usage}).encode()),)


@pytest.fixture
def server() -> Iterator[People]:
    with People() as server:
        yield server


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [f"{number},{text}\n" for number, text in enumerate(TEXTS)]
    Path("people.csv").write_text("id,text\n" + "".join(rows))
    return tmp_path


def begin(server: Loopback, program: str = PROGRAM) -> subprocess.Popen[str]:
    """Return the program, running: a file of its own, at which Ctrl-C means what it means at a terminal."""
    Path("program.py").write_text(f"{CTRL_C}\n{program}")
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-u", "program.py", address(server)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )


def run(server: Loopback, program: str = PROGRAM) -> Screen:
    return finish(begin(server, program))


def results() -> list[dict[str, Any]]:
    return [json.loads(line)["output"] for line in Path("people.jsonl").read_text().splitlines()]


EVERYBODY = [person(text) for text in TEXTS]
DONE = ["30 done, 0 failed: None"]


def test_interrupted_once_and_run_again(server: People) -> None:
    """What was asked is finished, and no text is asked twice."""
    go = Event()
    server.rule = lambda text: by_tool_call(text) if person(text)["age"] < 10 else (go, *by_tool_call(text))
    program = begin(server)
    server.wait_requests(14)
    program.send_signal(signal.SIGINT)
    assert program.stderr is not None
    line = program.stderr.readline()
    count = re.match(r"batch job: finishing (\d+) running items; press Ctrl-C again to stop now\. ", line)
    assert count is not None, line
    assert "A run with the checkpoint 'people.checkpoint' goes on from here." in line
    go.set()
    screen = finish(program)
    asked = len(server.texts)
    assert asked < ROWS
    assert screen.last == f"The outcomes until then, {asked} outputs and 0 errors, are in people.jsonl.part"
    assert "KeyboardInterrupt" in screen.err
    assert screen.code == -signal.SIGINT
    assert run(server).went_well() == DONE
    assert sorted(server.texts) == sorted(TEXTS)
    assert results() == EVERYBODY


EACH = f"""\
{PROGRAM.partition("job = ")[0]}
from time import sleep
from toolcast.batch import job_run

texts = [f"Person{{number}} is {{number}}" for number in range({ROWS})]

def is_delayed():
    run = job_run._jobs[0].__self__
    return not run.schedule.startable and run.schedule.running == run._pace.waiting
"""
LOOPS = {
    "map": """
for outcome in read_person.map(texts, rpm=1, ordered=False):
    print(outcome.output)
    while not is_delayed():
        sleep(0.01)
    print("All others wait")
""",
    "amap": """
import asyncio
async def main():
    async for outcome in read_person.amap(texts, rpm=1, ordered=False):
        print(outcome.output)
        while not is_delayed():
            await asyncio.sleep(0.01)
        print("All others wait")
asyncio.run(main())
""",
}


@pytest.mark.parametrize("loop", LOOPS)
def test_interrupted_while_a_rate_limit_delays(server: People, loop: str) -> None:
    """One request a minute: the program ends at once, and has sent one."""
    program = begin(server, EACH + LOOPS[loop])
    assert press_ctrl_c(program, "All others wait").count("\n") == 2
    screen = finish(program)
    assert screen.last.startswith("KeyboardInterrupt")
    assert "no request is under way. Without a checkpoint another run asks for all items again." in screen.err
    assert len(server.texts) == 1


def test_a_wrong_key_stops_at_once(server: People, folder: Path) -> None:
    refusal = {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}
    server.rule = lambda text: (answered(json.dumps(refusal).encode(), 401),)
    screen = run(server)
    assert screen.code == 1
    assert "JobStopped: the job was stopped, as every other item would fail likewise: openai gpt-5.4: " in screen.err
    assert "the service refused the key (401): Incorrect API key provided. Set OPENAI_API_KEY to a valid" in screen.err
    assert len(server.texts) < ROWS // 3  # those that were on their way
    server.rule = by_tool_call
    assert run(server).went_well() == DONE
    assert results() == EVERYBODY
    names = {path.name for path in folder.iterdir()}
    assert names == {"people.csv", "people.checkpoint", "people.jsonl", "program.py"}


def test_the_server_goes_down_in_the_middle(server: People) -> None:
    """The rows without an answer fail, and only they are asked again."""

    def twelve(text: str) -> tuple[Piece, ...]:
        if len(server.texts) < 12:
            return by_tool_call(text)
        if not went_down.is_set():
            went_down.set()
            server.go_down()
        return (CLOSE,)

    went_down = Event()
    server.rule = twelve
    first, error = run(server).went_well()
    done = int(first.split()[0])
    assert first == f"{done} done, {ROWS - done} failed: people.jsonl.errors.jsonl"
    assert done <= 12
    assert re.search(r"no connection to 127\.0\.0\.1|the connection", error)
    with People() as other:
        assert run(other).went_well() == DONE
        assert len(other.texts) == ROWS - done
    assert results() == EVERYBODY
    assert not Path("people.jsonl.errors.jsonl").exists()


def test_a_model_that_answers_with_text_only(server: People) -> None:
    """The reason is shown, and another output mode is no other job, as there is no output yet."""
    server.rule = lambda text: (answered(text_body("Sure! It is a person.")),)
    count, error = run(server).went_well()
    assert count == "0 done, 30 failed: people.jsonl.errors.jsonl"
    assert "The model wrote: 'Sure! It is a person.'" in error
    server.rule = lambda text: (answered(text_body(json.dumps(person(text)))),)
    assert run(server, PROGRAM.replace('{text}", llm', '{text}", llm, mode="prompted"')).went_well() == DONE
    assert results() == EVERYBODY


def test_a_column_that_the_file_does_not_have(server: People, folder: Path) -> None:
    screen = run(server, PROGRAM.replace("{text}", "{txt}"))
    assert screen.code == 1
    assert screen.last == (
        "toolcast.batch.job_errors.JobError: people.csv: no column 'txt', which the prompt needs; did you mean 'text'? "
        "The columns are: 'id', 'text'. Rename a column, or the variable of the prompt."
    )
    assert server.texts == []
    assert {path.name for path in folder.iterdir()} == {"people.csv", "program.py"}
    assert run(server).went_well() == DONE


def test_a_budget_that_ends_the_job(server: People) -> None:
    """Its advice is followed twice: a limit on each answer, and then a larger budget."""
    limited = PROGRAM.replace("import OpenAI", "import Budget, OpenAI, Settings").replace(
        '"people.checkpoint"', '"people.checkpoint", budget=Budget(tokens=800)'
    )
    screen = run(server, limited)
    assert "JobStopped: the budget of 800 tokens does not cover the first request, which may cost 128," in screen.err
    assert "Set a lower limit, settings=Settings(max_tokens=...), or allow more, Budget(tokens=...)" in screen.err
    assert server.texts == []
    limited = limited.replace('{text}", llm', '{text}", llm, settings=Settings(max_tokens=100)')
    screen = run(server, limited)
    asked = len(server.texts)
    assert 0 < 50 * asked <= 800
    assert (
        f"JobStopped: the budget is used up: {50 * asked} of 800 tokens spent, and the next request may" in screen.err
    )
    assert "A run with the checkpoint 'people.checkpoint' goes on from here." in screen.err
    assert screen.last == f"The outcomes until then, {asked} outputs and 0 errors, are in people.jsonl.part"
    assert run(server, limited.replace("800", "10_000")).went_well() == DONE
    assert sorted(server.texts) == sorted(TEXTS)
    assert results() == EVERYBODY
