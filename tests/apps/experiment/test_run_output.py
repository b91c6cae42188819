"""What is seen of a run: lines, and a bar on a terminal."""

from __future__ import annotations

import io
from typing import Any

import pytest

from support.process import Process
from support.terminal_emulator import Emulated
from toolcast.apps.experiment.live_screen import RichBar
from toolcast.apps.experiment.run_output import BarPausingOperator, RunView, make_bar
from toolcast.experiments.log_events import EventType, LogEvent
from toolcast.experiments.run_progress import RunProgress


class Screen(io.StringIO):
    """A stream of a terminal; several of one terminal share its screen."""

    def __init__(self, terminal: Emulated) -> None:
        super().__init__()
        self._terminal = terminal

    def write(self, text: str) -> int:
        return self._terminal.write(text)

    def isatty(self) -> bool:
        return True


def event(event_type: EventType, cycle: int = 1, measures: Any = None, **payload: Any) -> LogEvent:
    return LogEvent(event_type, cycle, payload, measures or {}, "first")


def answer(*tools: str, tokens: int = 0) -> LogEvent:
    calls = [{"function": {"name": name, "arguments": {}}} for name in tools]
    measures = {"input_tokens": tokens, "output_tokens": 1}
    return event("LLM_INVOCATION", measures=measures, response_message={"role": "assistant", "tool_calls": calls})


RUN = [
    event("RUN_START", 0, first_cycle=1, resumed=False),
    event("CYCLE_START"),
    answer("write", "list", tokens=999),
    event("TOOL_CALL", tool_name="write"),
    event("TOOL_CALL", tool_name="list"),
    answer(tokens=1),
    event("CYCLE_END"),
    event("CYCLE_START", 2),
    event("ERROR", 2, kind="limit", message="it ended at max_steps=3"),
    event("CYCLE_END", 2),
    event("RUN_END", 0, status="completed"),
]
LINES = "Cycle 1 starting...\nCycle 1 finished.\nCycle 2 starting...\nCycle 2 finished.\n"
FIGURES = """\
Cycle 1 starting...
Cycle 1 finished.
  2 tool calls, 1,002 tokens
Cycle 2 starting...
Cycle 2 finished.
  2 tool calls, 1,002 tokens
"""


def test_lines() -> None:
    out, err = io.StringIO(), io.StringIO()
    view = RunView(out, err)
    assert not view.has_begun
    with view.show_bar():
        for each in RUN:
            view.on_event(each)
    assert (out.getvalue(), err.getvalue()) == (FIGURES, "Cycle 2: it ended at max_steps=3\n")
    assert (view.has_begun, view.cycles_ended) == (True, 2)


def test_a_run_that_goes_on() -> None:
    out = io.StringIO()
    RunView(out, out).on_event(event("RUN_START", 0, resumed=True, first_cycle=4))
    assert out.getvalue() == "Resuming with cycle 4...\n"


@pytest.mark.parametrize("kind", ["llm", "failure"])
def test_what_ends_the_run_is_reported_by_the_command(kind: str) -> None:
    out = io.StringIO()
    view = RunView(out, out)
    view.on_event(event("ERROR", kind=kind, message="no"))
    assert out.getvalue() == ""
    view.on_grid_event("grid-1", event("ERROR", kind=kind, message="no"))
    assert out.getvalue() == "grid-1: Cycle 1: no\n"


def test_several_runs_are_reported_apart() -> None:
    out = io.StringIO()
    view = RunView(out, out)
    view.on_grid_event("grid-1", event("CYCLE_START", 3))
    view.on_grid_event("grid-2", event("CYCLE_END", 1))
    assert out.getvalue() == (
        "grid-1: Cycle 3 starting...\ngrid-2: Cycle 1 finished.\ngrid-2: 0 tool calls, 0 tokens\n"
    )


def test_quiet_is_quiet() -> None:
    out, err = io.StringIO(), io.StringIO()
    view = RunView(out, err, Counted(), quiet=True)
    for each in RUN[:8]:
        view.on_event(each)
    view.print("hello")
    assert (out.getvalue(), err.getvalue(), view.bar) == ("", "", None)


def test_what_others_wrote_cannot_control_the_terminal() -> None:
    out = io.StringIO()
    view = RunView(out, out)
    view.on_event(event("ERROR", kind="embedder", message="\x1b[2Jgone"))
    view.print("\x1b]0;title\x07")
    assert "\x1b" not in out.getvalue()
    assert "\\x1b[2Jgone" in out.getvalue()


class Gone(io.StringIO):
    """A pipe prefix reader has gone."""

    def __init__(self) -> None:
        super().__init__()
        self.tried = 0

    def write(self, text: str) -> int:
        self.tried += 1
        raise BrokenPipeError


def test_the_run_goes_on_when_no_one_reads() -> None:
    gone = Gone()
    view = RunView(gone, io.StringIO())
    for each in RUN:
        view.on_event(each)
    assert (gone.tried, view.cycles_ended) == (1, 2)


class Counted(RichBar):
    """A bar that remembers what was done with it."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def draw(self) -> None:
        self.done.append("draw")

    def print(self, text: str) -> None:
        self.done.append(text)

    def stop(self) -> None:
        self.done.append("stop")

    def start(self) -> None:
        self.done.append("start")


class Operator:
    def __init__(self, bar: Counted) -> None:
        self._bar = bar

    def send_and_wait(self, message: str, run_id: str, cycle_number: int) -> str:
        self._bar.done.append(f"{run_id} {cycle_number}: {message}")
        if message == "?":
            raise ConnectionError("refused")
        return "yes"


def test_the_bar_makes_room_for_the_operator() -> None:
    bar = Counted()
    operator = BarPausingOperator(Operator(bar), bar)
    assert operator.send_and_wait("hello", "first", 3) == "yes"
    with pytest.raises(ConnectionError):
        operator.send_and_wait("?", "first", 4)
    assert bar.done == ["stop", "first 3: hello", "start", "stop", "first 4: ?", "start"]


def test_lines_go_above_the_bar_where_it_is_one_screen() -> None:
    bar, out = Counted(), io.StringIO()
    RunView(out, out, bar).print("to a file")
    RunView(Screen(Emulated()), out, bar).print("to the screen")
    RunView(out, out, bar).on_event(RUN[8])
    assert out.getvalue() == "to a file\n"
    assert bar.done == ["to the screen", "Cycle 2: it ended at max_steps=3", "draw"]


def test_the_bar_is_stopped_whatever_happens() -> None:
    bar = Counted()
    with pytest.raises(ZeroDivisionError), RunView(io.StringIO(), io.StringIO(), bar).show_bar():
        raise ZeroDivisionError
    assert bar.done == ["start", "stop"]


XTERM = {"TERM": "xterm-256color"}


RUNS = (RunProgress("first", 2),)


@pytest.mark.parametrize("environ", [{"TERM": "dumb"}, {}])
def test_no_bar_where_none_can_be_drawn(environ: dict[str, str]) -> None:
    assert make_bar(io.StringIO(), RUNS, environ=XTERM) is None
    assert make_bar(Screen(Emulated()), RUNS, environ=environ) is None


def test_no_bar_without_rich(process: Process) -> None:
    process.without("rich")
    assert make_bar(Screen(Emulated()), RUNS, environ=XTERM) is None


def show_bar(
    events: list[LogEvent], terminal: Emulated, monkeypatch: pytest.MonkeyPatch, *others: RunProgress
) -> list[str]:
    """The lines of the terminal in the end, with the bar of a run of two cycles, and of `others`."""
    for name, value in {"COLUMNS": str(terminal.screen.columns), "LINES": "24", **XTERM}.items():
        monkeypatch.setenv(name, value)
    runs = [RunProgress("first", 2), *others]
    screen = Screen(terminal)
    bar = make_bar(screen, runs)
    assert bar is not None
    view = RunView(screen, screen, bar, runs=runs)
    with view.show_bar():
        for each in events:
            view.on_event(each)
    return terminal.lines


def test_the_bar_is_below_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    *lines, bar, state = show_bar(RUN, Emulated(100), monkeypatch)
    assert lines == [*LINES.splitlines()[:3], "Cycle 2: it ended at max_steps=3", "Cycle 2 finished."]
    assert bar.startswith("Cycle 2/2 ━")
    assert state == "completed · 2 tool calls · 1,002 tokens"


@pytest.mark.parametrize("columns", [12, 20, 40, 59, 60, 80, 120])
def test_the_bar_fits_any_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = show_bar([*RUN[1:3], answer("\x1b[2J[red]evil\n" * 9)], Emulated(columns), monkeypatch)
    assert any(line.startswith("Cycle 1/2") for line in lines)
    assert all(len(line) <= columns for line in lines)
    assert lines[-1].startswith("dispatch")
    assert "\x1b" not in "".join(lines)


def test_the_bar_stops_and_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Emulated(100)
    monkeypatch.setenv("COLUMNS", "100")
    screen = Screen(terminal)
    bar = make_bar(screen, RUNS, environ=XTERM)
    assert bar is not None
    bar.start()
    bar.stop()
    bar.print("[AGENT]: [bold]hello")
    bar.start()
    bar.stop()
    assert [line.split(" ╌")[0] for line in terminal.lines] == [
        "Cycle 0/2",
        "waiting · 0 tool calls · 0 tokens",
        "[AGENT]: [bold]hello",
        "Cycle 0/2",
        "waiting · 0 tool calls · 0 tokens",
    ]


def test_the_bar_of_several_runs_has_a_row_for_each_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = show_bar([event("CYCLE_START")], Emulated(100), monkeypatch, RunProgress("second", 4, 3))
    assert lines[1] == "2 runs · 1 running · 1 waiting"
    assert lines[2].startswith("Cycles 3/6 ━")
    assert lines[4].split() == ["first", "1/2", "invoke_llm"]
    assert len(lines) == 5
