"""A job in a terminal: its progress, Ctrl-C once and twice, and the run that goes on with it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from support.terminal_emulator import Emulated

pexpect = pytest.importorskip("pexpect", reason="a system without pseudo-terminals")

PROGRAM = """
    import signal, sys, threading
    from pydantic import BaseModel
    from toolcast import Prices, ToolOrchestratingLLM
    from toolcast.testing import ScriptedLLM

    signal.signal(signal.SIGINT, signal.default_int_handler)
    path, first_slow = sys.argv[1] or None, int(sys.argv[2])

    class Number(BaseModel):
        value: int

    released, slow = threading.Event(), []

    def answer(request):
        number = int(request.messages[0].text)
        if number >= first_slow:
            slow.append(number)
            if len(slow) == 4:
                print("4 requests wait", flush=True)
            released.wait(60)
        return {"value": number}

    def release():
        sys.stdin.readline()
        released.set()

    threading.Thread(target=release, daemon=True).start()
    llm = ScriptedLLM(answer)
    call = ToolOrchestratingLLM(Number, "{text}", llm)
    done = 0
    try:
        with call.map([str(i) for i in range(20)], checkpoint=path, max_concurrency=4, progress=True) as outcomes:
            for outcome in outcomes:
                done += 1
                print(f"item {outcome.index}", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    print(f"{done} outcomes, {len(llm.requests)} requests", flush=True)
"""


class Terminal:
    """A program in a terminal of `columns` columns."""

    def __init__(self, tmp_path: Path, *arguments: str, columns: int = 100, **environ: str) -> None:
        program = tmp_path / "program.py"
        program.write_text(dedent(PROGRAM))
        variables = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
        self.screen = Emulated(columns, 60)
        self._child: Any = pexpect.spawn(
            sys.executable,
            [str(program), *arguments],
            env={**variables, "TERM": "xterm-256color", **environ},
            dimensions=(60, columns),
            encoding="utf-8",
            timeout=30,
            echo=False,
        )
        self._child.logfile_read = self.screen

    def expect(self, *texts: str) -> None:
        """Wait until all `texts` were written, in any order."""
        missing = [*texts]
        while missing:
            del missing[self._child.expect_exact(missing)]

    def press_ctrl_c(self) -> None:
        """Press Ctrl-C."""
        self._child.sendintr()

    def press_enter(self) -> None:
        """Press Enter."""
        self._child.sendline()

    def end(self) -> str:
        """Wait for the end of the program, and return its screen."""
        self._child.expect(pexpect.EOF)
        self._child.close()
        assert self._child.exitstatus == 0, self.screen.text
        return self.screen.text


def test_progress_is_below_what_the_program_prints(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "", "19")
    terminal.expect("19/20")
    terminal.press_enter()
    lines = terminal.end().splitlines()
    assert [line for line in lines if line.startswith("item")] == [f"item {number}" for number in range(20)]
    end = next(number for number, line in enumerate(lines) if line.startswith("20/20 ━"))
    assert re.search(r"━ 100 % in 0:0\d$", lines[end])
    assert lines[-1] == "20 outcomes, 20 requests"
    assert not [line for line in lines[:end] if "/20" in line]  # one bar, drawn over itself


@pytest.mark.slow
def test_ctrl_c_once_finishes_what_runs_and_the_next_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "numbers.db"
    terminal = Terminal(tmp_path, str(path), "5")
    terminal.expect("4 requests wait", "item 4", "5/20")
    terminal.press_ctrl_c()
    terminal.expect("press Ctrl-C again to stop now")
    terminal.press_enter()
    text = terminal.end()
    goes_on = f"A run with the checkpoint '{path}' goes on from here."
    message = f"finishing 4 running items; press Ctrl-C again to stop now. {goes_on}"
    assert message.replace(" ", "") in re.sub(r"\s", "", text)  # the path wraps
    assert text.splitlines()[-2:] == ["interrupted", "9 outcomes, 9 requests"]
    again = Terminal(tmp_path, str(path), "99").end()
    assert again.splitlines()[-1] == "20 outcomes, 11 requests"
    assert "9 from checkpoint" in again


@pytest.mark.slow
def test_ctrl_c_twice_stops_now(tmp_path: Path) -> None:
    path = tmp_path / "numbers.db"
    terminal = Terminal(tmp_path, str(path), "5", columns=80, NO_COLOR="1")
    terminal.expect("4 requests wait", "item 4", "5/20")
    terminal.press_ctrl_c()
    terminal.expect("press Ctrl-C again to stop now")
    terminal.press_ctrl_c()
    terminal.expect("interrupted")
    assert terminal.end().splitlines()[-1] == "5 outcomes, 9 requests"
    assert Terminal(tmp_path, str(path), "99").end().splitlines()[-1] == "20 outcomes, 15 requests"


def test_a_terminal_that_cannot_encode_everything(tmp_path: Path) -> None:
    text = Terminal(tmp_path, "", "99", columns=60, PYTHONIOENCODING="ascii").end()
    assert re.search(r"^20/20 -+ 100 % in 0:0\d$", text, re.MULTILINE)
    assert text.isascii()


def test_without_a_terminal_progress_is_written_as_lines(tmp_path: Path) -> None:
    text = Terminal(tmp_path, "", "99", TERM="dumb").end()
    assert "20 of 20 items, in 0:0" in text
    assert "━" not in text
