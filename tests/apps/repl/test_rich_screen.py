"""The screen of a terminal with colours, on an emulated one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from support.terminal_emulator import Emulated
from toolcast.agents.subagents.elf_run import ElfEvent
from toolcast.apps.approval_preview import CommandPreview, DiffPreview
from toolcast.apps.diff_rows import diff_texts
from toolcast.apps.repl import rich_screen
from toolcast.apps.repl.activity import TurnActivity
from toolcast.apps.repl.choices import Answer, Choice
from toolcast.apps.repl.printed_text import PrintedText
from toolcast.apps.repl.rich_screen import RichScreen
from toolcast.apps.repl.screen import ConversationStatus, Screen
from toolcast.events import ErrorEvent, Finish, TextDelta, ThinkingDelta, ToolProgress, ToolResult, ToolStarted

COLUMNS, HEIGHT = 60, 16
CHANGE = DiffPreview("a.txt", "edit", 1, 1, diff_texts("the cat sat\n", "the dog sat\n").rows)


class Output(Emulated):
    """The emulated terminal as a stream; `written` is all that it got."""

    def __init__(self) -> None:
        super().__init__(COLUMNS, HEIGHT)
        self.written = ""
        self.draws = 0

    def write(self, text: str) -> int:
        self.written += text
        return super().write(text)

    def flush(self) -> None:
        self.draws += 1


class Typed:
    """A prompt at which `inputs` are typed; each is the input, or is called with what Ctrl-O does."""

    main = "> "

    def __init__(self) -> None:
        self.inputs: list[Any] = []
        self.prompts: list[tuple[str, str]] = []
        self.statuses: list[str | None] = []
        self.questions: list[tuple[str, Sequence[Choice]]] = []
        self.early_lines = [""]
        self.has_escape = False
        self.polls = 0

    def poll(self) -> bool:
        self.polls += 1
        return self.has_escape

    def choose(self, question: str, choices: Sequence[Choice]) -> Answer | None:
        self.questions.append((question, choices))
        return Answer("y", "")

    def read(
        self, prompt: str, text: str = "", *, show_calls: Callable[[], object], status: Callable[[int], str] | None
    ) -> str | None:
        self.prompts.append((prompt, text))
        self.statuses.append(status and status(COLUMNS))
        typed = self.inputs.pop(0)
        return typed(show_calls) if callable(typed) else typed


class Keys:
    """A keyboard that records its calls."""

    is_silent = False

    def disable(self) -> None:
        self.is_silent = True

    def restore(self) -> None:
        self.is_silent = False


class Clock:
    """A clock that advances by `step` at each reading, by default not at all."""

    now = step = 0.0

    def __call__(self) -> float:
        self.now += self.step
        return self.now


class Bench:
    """The screen, and all it stands on."""

    def __init__(self) -> None:
        self.output, self.typed, self.keys, self.clock = Output(), Typed(), Keys(), Clock()
        prompt: Any = self.typed
        keys: Any = self.keys
        stdout: Any = self.output
        self.printed = PrintedText()
        self.screen = RichScreen(prompt, keys, stdout, self.printed, clock=self.clock)

    @property
    def lines(self) -> list[str]:
        return self.output.lines

    def read(self, typed: Any, prompt: str = "> ") -> str | None:
        self.typed.inputs.append(typed)
        return self.screen.read(prompt)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.setenv("LINES", str(HEIGHT))
    for name in ("NO_COLOR", "COLORTERM", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return Bench()


def in_pieces(write: Callable[[str], None], text: str, length: int = 3) -> None:
    for start in range(0, len(text), length):
        write(text[start : start + length])


def test_it_is_a_screen(bench: Bench) -> None:
    screen: Screen = bench.screen
    assert screen.is_interactive


def test_thinking_is_dim_and_the_answer_is_markdown(bench: Bench) -> None:
    in_pieces(bench.screen.thinking, "Let me *see*.\n\n1. look\n2. answer")
    in_pieces(bench.screen.content, "# Title\nSome **bold** and `code`.\n\n- one\n- two\n\nend")
    bench.screen.end_answer()
    assert bench.lines == [
        "", "Let me see.", "", " 1. look", " 2. answer", "",
        "Title", "", "Some bold and code.", "", " • one", " • two", "", "end",
    ]  # fmt: skip
    assert "\x1b[2;3mLet me " in bench.output.written
    assert bench.output.look("bold").bold
    assert not bench.output.look("Some").bold
    assert bench.output.look("code.").fg == "cyan"


def test_what_is_drawn_late_is_drawn_when_nothing_more_comes(bench: Bench) -> None:
    bench.clock.step = 1.0  # to draw takes a second: so the second piece waits
    bench.screen.content("One ")
    bench.screen.content("two")
    assert "two" not in bench.output.written
    bench.screen.flush_updates()
    assert bench.lines == ["", "One two"]


def test_code_is_coloured_and_stands_at_the_margin(bench: Bench) -> None:
    in_pieces(bench.screen.content, "So:\n```python\ndef f():\n\treturn 'x'  # " + "long " * 20 + "\n\n```\n> quoted\n")
    bench.screen.end_answer()
    long = "    return 'x'  # " + "long " * 20
    assert bench.lines == [
        "", "So:", "", "```python", "def f():", long[:COLUMNS].rstrip(), long[COLUMNS:].rstrip(), "", "```",
        "", "▌ quoted",
    ]  # fmt: skip
    assert bench.output.look("def").fg == "brightblue"


def test_code_in_a_list_and_a_quote(bench: Bench) -> None:
    bench.screen.content("1. first\n   ```sh\n   ls  -l\n   ```\n2. second\n\n> ~~~\n> x\n> ~~~\n\n    indented\n")
    bench.screen.end_answer()
    assert bench.lines == ["", " 1. first", "    ls  -l", " 2. second", "", "▌ x", "", "    indented"]


def test_nothing_is_lost_that_looks_like_html_or_a_link(bench: Bench) -> None:
    bench.screen.content("<answer>42</answer> [here](http://a.b/c) ![picture](p.png) [x]\n\n[x]: http://d.e\n\n")
    bench.screen.content("| a | b |\n|---|---|\n| 1 | " + "x" * 80 + " |\n")
    bench.screen.end_answer()
    shown = "".join(bench.lines).replace(" ", "")
    for message in ("<answer>42</answer>", "here(http://a.b/c)", "!picture(p.png)", "[x]:http://d.e"):
        assert message in shown
    assert sum(line.count("x") for line in bench.lines[5:]) == 80


@pytest.mark.parametrize("text", [">" * 40 + " end", "- " * 30 + "end", ">" * 400 + "end", "> - " * 9 + "end"])
def test_what_is_nested_too_deep_is_shown_as_it_is(bench: Bench, text: str) -> None:
    bench.screen.content(text)
    bench.screen.end_answer()
    assert "".join(bench.lines).replace(" ", "") == text.replace(" ", "")


@pytest.mark.parametrize("columns", [1, 2, 7, 20])
def test_a_terminal_that_is_hardly_one(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("LINES", "1")
    bench = Bench()
    bench.output.resize(columns, 5)
    in_pieces(bench.screen.content, "# Head\n- one\n  - two\n\n| a |\n|---|\n| b |\n\nthe **words**\n")
    bench.screen.error("wrong")
    shown = "".join(bench.lines).replace(" ", "")
    assert "words" in shown.replace("*", "")
    assert "Head" in shown
    assert "wrong" in shown


@pytest.mark.parametrize("before", ["    ", "- one\n\n  ```py\n  ", "> ```\n> ", "1. one\n\n       "])
def test_no_end_of_a_line_of_code_is_cut_off(monkeypatch: pytest.MonkeyPatch, before: str) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    bench = Bench()
    in_pieces(bench.screen.content, f"{before}run(all, the, words, of, a, long, line, to='the end')\n")
    bench.screen.end_answer()
    assert "to='theend')" in "".join(bench.lines).replace(" ", "").replace("▌", "")


@given(st.text(alphabet=st.sampled_from("> -1.`|*_[]()<&;\\\t\n#~a漢é\x1b"), max_size=60))
def test_whatever_a_model_writes_is_no_reason_to_fail(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TERM", "xterm-256color")
        patch.setenv("COLUMNS", "30")
        patch.setenv("LINES", "5")
        bench = Bench()
    in_pieces(bench.screen.content, text)
    bench.screen.end_answer()
    shown = "".join(bench.lines)
    # Entities, addresses and the info strings of fences are shown in another form.
    if not any(mark in text for mark in ("&", "](", "```", "~~~")):
        assert [shown.count(letter) for letter in "a漢é"] == [text.count(letter) for letter in "a漢é"]


PIECE = st.sampled_from(
    ["word ", "long words and more of them ", "\n", "\n\n", "- item", "1. ", "# ", "```py\n", "```\n", "x = 1\n",
     "**b** ", "漢字", "| a | b |\n|---|---|\n", "| c | d |\n", "> ", "x" * 99]
)  # fmt: skip
OUTPUT = st.tuples(st.sampled_from(["content", "thinking"]), PIECE)
EVENT = st.one_of(
    OUTPUT,
    OUTPUT,  # more often than the others
    st.tuples(st.just("note"), st.sampled_from(["one", "two\nlines"])),
    st.tuples(st.just("error"), st.just("wrong")),
    st.tuples(st.just("call_begins"), st.sampled_from("12"), st.just("tool")),
    st.tuples(st.just("call_arguments"), st.sampled_from("12"), st.just('{"a": ')),
    st.tuples(st.just("call_complete"), st.sampled_from("12"), st.just("tool"), st.just('{"a": 1}')),
    st.tuples(st.just("call_progress"), st.sampled_from("12"), st.just("tool"), st.just("step\n")),
    st.tuples(st.just("call_result"), st.sampled_from("12"), st.just("tool"), st.just("a\nb"), st.booleans()),
    st.tuples(st.just("end_answer")),
)


@given(st.lists(EVENT, max_size=40))
@example([("call_progress", "1", "tool", "step\n"), ("thinking", "# "), ("thinking", "\n"), ("note", "one")])
@example([("content", "```\na\n\n"), ("note", "one")])
@example([("thinking", "#\n#\n\n#\n"), ("content", "# \n"), ("note", "one")])
def test_how_often_it_is_drawn_leaves_no_trace(events: list[tuple[Any, ...]]) -> None:
    """What stands there in the end is the same, whether each piece was drawn or hardly any."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TERM", "xterm-256color")
        patch.setenv("COLUMNS", str(COLUMNS))
        patch.setenv("LINES", str(HEIGHT))
        always, hardly = Bench(), Bench()
    hardly.clock.step = 1.0
    for bench in (always, hardly):
        for name, *arguments in events:
            getattr(bench.screen, name)(*arguments)
        bench.screen.end_answer()
    assert always.lines == hardly.lines
    assert always.output.cursor == hardly.output.cursor


@pytest.mark.parametrize("length", [17, 10_000])
def test_an_answer_that_is_longer_than_the_screen_stands_there_once(bench: Bench, length: int) -> None:
    text = "\n\n".join(f"Paragraph {number} of *this*, " + "with words " * 8 for number in range(60))
    table = "\n\n| n | m |\n|---|---|\n" + "\n".join(f"| r{number} | **x** |" for number in range(40))
    code = "\n\n```json\n" + "\n".join(f'  "{number}": 1,' for number in range(60)) + "\n```\n"
    in_pieces(bench.screen.content, text + table + code + "The *end*", length)
    bench.screen.end_answer()
    whole = Bench()
    whole.screen.content(text + table + code + "The *end*")
    whole.screen.end_answer()
    assert bench.lines == whole.lines
    assert [line for line in bench.lines if line.startswith("Paragraph")] == [
        line for line in bench.lines if re.match(r"Paragraph \d+ of this", line)
    ]
    for number in range(40):
        assert sum(f" r{number} " in line for line in bench.lines) == 1


def test_of_what_does_not_fit_yet_the_end_is_shown(bench: Bench) -> None:
    in_pieces(bench.screen.content, "| n | m |\n|---|---|\n" + "\n".join(f"| r{n} | x |" for n in range(40)), 50)
    shown = bench.output.text
    assert " r39" in shown
    assert " r20" not in shown
    assert len(bench.lines) <= HEIGHT


def test_a_long_line_of_dashes_is_looked_at_once() -> None:
    """A pattern with two ways to match each dash would take minutes."""
    assert rich_screen._TABLE_LINE.fullmatch("-" * 300_000 + "x") is None
    assert all(rich_screen._TABLE_LINE.fullmatch(line) for line in ("|---|:-:|", " - ", "--- | ---"))
    assert not any(rich_screen._TABLE_LINE.fullmatch(line) for line in ("", "| :", "|-a-|"))


def test_what_is_drawn_often_is_drawn_at_a_measured_pace(bench: Bench) -> None:
    bench.clock.step = 1.0  # to draw takes a second
    for number in range(30):
        bench.screen.content(f"{number} ")
    assert bench.output.draws < 30 / 3
    seen = re.findall(r"\d+", bench.output.text)
    assert 0 < len(seen) < 30
    bench.screen.end_answer()
    assert re.findall(r"\d+", bench.output.text) == [str(number) for number in range(30)]


def test_a_text_that_grows_is_not_drawn_again(bench: Bench) -> None:
    """But for the last word of a row, which goes to the next one when it gets too long."""
    text = "plain words that go on and on " * 25
    in_pieces(bench.screen.content, text)
    rows = len(bench.lines)
    assert bench.output.written.count("\r") < rows < HEIGHT
    assert len(bench.output.written) < len(text) + rows * 20


def test_nor_is_one_that_does_not_fit_the_screen_with_every_piece(bench: Bench) -> None:
    text = "plain words that go on and on " * 90
    in_pieces(bench.screen.content, text)
    assert "\x1b[J" not in bench.output.written
    assert bench.output.written.count("\x1b[?2026h") < 2 * len(text) / COLUMNS


def test_a_call_is_folded(bench: Bench) -> None:
    screen = bench.screen
    screen.call_begins("1", "read_file")
    assert bench.lines == ["", "● read_file"]
    in_pieces(lambda piece: screen.call_arguments("1", piece), '{"path": "a.txt"}')
    assert bench.lines == ["", '● read_file {"path": "a.txt"}']
    screen.call_complete("1", "read_file", '{"path": "a.txt"}')
    assert bench.lines == ["", '● read_file(path="a.txt")']
    screen.call_result("1", "read_file", "\n".join(map(str, range(99))) + "x" * 99, False)
    last = f"    98{'x' * (COLUMNS - 7)}…"
    assert bench.lines[2:] == ["  ⎿ 0", "    1", "    2", "    … 94 lines … (Ctrl-O shows all)", "    97", last]
    assert bench.output.look("read_file").fg == "magenta"
    screen.content("So it is.")
    screen.end_answer()
    assert bench.lines[-3:] == [last, "", "So it is."]


def test_a_result_stands_below_its_call_though_the_answer_was_over(bench: Bench) -> None:
    bench.screen.call_complete("1", "tool", "{}")
    bench.screen.end_answer()
    bench.screen.call_result("1", "tool", "done", False)
    bench.screen.note("one")
    bench.screen.end_answer()
    bench.screen.note("two")
    bench.screen.call_result("2", "tool", "done", False)
    assert bench.lines == ["", "● tool()", "  ⎿ done", "", "one", "two", "", "  ⎿ tool: done"]


def test_calls_side_by_side(bench: Bench) -> None:
    screen = bench.screen
    for id in "12":
        screen.call_begins(id, f"tool_{id}")
    screen.call_arguments("2", "{}")
    screen.call_arguments("missing", "{}")
    assert bench.lines == ["", "● tool_1", "● tool_2 {}"]
    screen.call_begins("2", "tool_2")  # once more: the arguments so far are void
    assert bench.lines == ["", "● tool_1", "● tool_2"]
    for id in "12":
        screen.call_complete(id, f"tool_{id}", "{}")
    screen.call_result("1", "tool_1", "yes", False)
    screen.call_result("2", "tool_2", "failed", True)
    assert bench.lines == ["", "● tool_1()", "  ⎿ yes", "● tool_2()", "  ⎿ ✗ failed"]
    assert bench.output.look("✗ failed").fg == "red"


def test_a_call_that_never_became_whole_leaves_nothing(bench: Bench) -> None:
    bench.screen.call_begins("1", "tool")
    bench.screen.end_answer()
    bench.screen.note("(cancelled)")
    assert bench.lines == ["", "(cancelled)"]


def test_the_output_of_a_running_tool_is_shown_until_its_result_is_there(bench: Bench) -> None:
    screen = bench.screen
    screen.call_complete("1", "run_command", '{"command": "make"}')
    for number in range(9):
        screen.call_progress("1", "run_command", f"step {number}\n")
    assert bench.lines[2:] == ["    step 5", "    step 6", "    step 7", "    step 8"]
    screen.call_result("1", "run_command", "made", False)
    assert bench.lines == ["", "● run_command  make", "  ⎿ made"]


def test_the_activity_is_the_last_row_until_the_turn_has_ended(bench: Bench) -> None:
    screen, activity = bench.screen, TurnActivity("Waiting for m", clock=lambda: 0.0)
    screen.show_activity(activity)
    assert bench.keys.is_silent
    assert bench.lines == ["", "⠋ Waiting for m · 0 s · Ctrl-C to stop"]
    assert bench.output.look("⠋").fg == "cyan"
    in_pieces(screen.content, "Some *text*")
    screen.end_answer()
    assert bench.keys.is_silent  # the turn goes on
    screen.note("a note")
    bench.clock.now = 0.35
    activity.observe(ThinkingDelta("x" * 44))
    screen.refresh()
    assert bench.lines == ["", "Some text", "", "a note", "", "⠸ Thinking · 0 s · 11 tokens · Ctrl-C to stop"]
    screen.show_activity(None)
    assert bench.lines == ["", "Some text", "", "a note"]
    assert bench.output.cursor == (4, 0)
    assert not bench.keys.is_silent


def test_lines_that_are_typed_during_an_answer_are_shown_above_the_activity(bench: Bench) -> None:
    bench.screen.show_activity(TurnActivity("Waiting"))
    bench.typed.early_lines = ["one", "two", "\x1b[2Jthree", "fo"]
    bench.screen.refresh()
    assert [line for line in bench.lines if line][:-1] == ["  … 1 more above", "> two", "> \\x1b[2Jthree", "> fo▏"]
    bench.typed.early_lines = ["one\ntwo", ""]
    bench.screen.refresh()
    assert [line for line in bench.lines if line][:-1] == ["> one", "  two"]
    bench.typed.early_lines = ["one", ""]
    bench.screen.refresh()
    assert [line for line in bench.lines if line][:-1] == ["> one"]
    bench.screen.show_activity(None)
    assert not any(bench.lines)


def test_escape_stops_an_answer(bench: Bench) -> None:
    bench.typed.has_escape = True
    bench.screen.refresh()
    assert bench.typed.polls == 0
    bench.screen.show_activity(TurnActivity("Waiting"))
    with pytest.raises(KeyboardInterrupt):
        bench.screen.refresh()
    bench.screen.flush_updates()  # a moment later
    assert bench.typed.polls == 1
    bench.clock.now = 1.0
    with pytest.raises(KeyboardInterrupt):
        bench.screen.flush_updates()
    bench.screen.show_activity(None)
    assert bench.typed.polls == 3


def test_the_activity_is_hidden_while_a_question_is_asked(bench: Bench) -> None:
    def typed(show_calls: Callable[[], object]) -> str:
        assert not bench.keys.is_silent
        assert "Ctrl-C" not in bench.output.text
        return "yes"

    bench.screen.show_activity(TurnActivity())
    bench.screen.note("The model asks")
    assert "Ctrl-C to stop" in bench.output.text
    assert bench.read(typed, "answer: ") == "yes"
    assert bench.keys.is_silent
    bench.screen.refresh()
    assert "Ctrl-C to stop" in bench.lines[-1]


def test_sub_agents_at_work_are_shown_above_the_activity(bench: Bench) -> None:
    activity = TurnActivity(clock=lambda: 0.0)
    bench.screen.show_activity(activity)
    bench.screen.call_complete("1", "spawn_elves", "{}")
    activity.observe(ToolStarted("1", "spawn_elves"))
    for id, task, event in (
        ("elf-1", "Review a.py", ToolStarted("7", "read_file")),
        ("elf-2", "Review b.py", Finish("end_turn")),
        ("elf-3", "Review \x1b[2J", ErrorEvent(ValueError("x"))),
    ):
        activity.observe(ToolProgress("1", "spawn_elves", ElfEvent(id, event, task)))
    bench.screen.refresh()
    assert bench.lines == [
        "",
        "● spawn_elves()",
        "    ⠋ elf-1 Review a.py · Running read_file · 0 s",
        "    ✓ elf-2 Review b.py · completed · 0 s",
        "    ✗ elf-3 Review \\u001b[2J · failed · 0 s",
        "",
        "⠋ Running spawn_elves · 0 s · Ctrl-C to stop",
    ]
    assert [bench.output.look(id).fg for id in ("elf-2", "elf-3")] == ["green", "red"]
    activity.observe(ToolResult("1", "spawn_elves", "done"))
    bench.screen.call_result("1", "spawn_elves", "done", False)
    assert bench.lines[2:4] == ["  ⎿ done", ""]


def test_a_terminal_of_few_rows_has_no_activity(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    monkeypatch.setenv("LINES", "5")
    small = Bench()
    small.screen.show_activity(TurnActivity())
    small.screen.content("text")
    assert small.lines == ["", "text"]


WIDE_TABLE = "| name | text |\n|---|---|\n| one | " + "long " * 20 + "|\n| two | short |\n"


@pytest.mark.slow
def test_a_stream_redraws_only_the_rows_that_change(bench: Bench) -> None:
    """2,000 tokens with an activity below them: most cost the moves to the row and back."""
    screen = bench.screen
    activity = TurnActivity(clock=lambda: 0.0)
    screen.show_activity(activity)
    sentence = "Some plain words of an answer, and **bold** ones with `code`. "
    text = (sentence * 4 + "\n\n- item one\n- item two\n\n```python\ndef f():\n    return 1\n```\n\n") * 30
    tokens = [text[start : start + 5] for start in range(0, len(text), 5)]
    for token in tokens:
        activity.observe(TextDelta(token))
        screen.content(token)
    assert len(tokens) > 1700
    assert len(bench.output.written) / len(tokens) < 130
    assert "\x1b[J" not in bench.output.written  # nothing is blank before it is written
    assert bench.output.written.count("\x1b[2J") == 0
    screen.show_activity(None)
    screen.end_answer()
    once = Bench()
    once.screen.content(text)
    once.screen.end_answer()
    assert bench.lines == once.lines


def test_a_table_whose_cells_are_wrapped_has_lines_between_its_rows(bench: Bench) -> None:
    in_pieces(bench.screen.content, WIDE_TABLE)
    bench.screen.end_answer()
    above_second = bench.lines[[line.strip()[:3] for line in bench.lines].index("two") - 1]
    assert set(above_second.strip()) <= set("─━ ") and above_second.strip()
    narrow = Bench()
    narrow.screen.content("| name | text |\n|---|---|\n| one | 1 |\n| two | 2 |\n")
    narrow.screen.end_answer()
    assert [line.split() for line in narrow.lines[-2:]] == [["one", "1"], ["two", "2"]]


LINK = re.compile(r"\x1b\]8;;([^\x1b]*)\x1b\\")


def test_an_address_is_a_link_of_the_terminal_in_each_of_its_rows(bench: Bench) -> None:
    address = "https://example.com/" + "a" * 70
    in_pieces(
        bench.screen.content, f"- see [*here*]({address}) or <https://b.example>\n- [x](javascript:alert(1))\n", 200
    )
    bench.screen.end_answer()
    assert LINK.findall(bench.output.written) == [address, "", address, "", "https://b.example", ""]
    assert "here" in bench.output.text
    assert bench.output.text.count("b.example") == 1


def test_links_do_not_change_between_two_updates(bench: Bench) -> None:
    bench.screen.content("see [here](https://example.com/) and")
    before = len(bench.output.written)
    bench.screen.content(" so")
    assert bench.output.written[before:] == " so"


def test_the_status_is_that_of_the_main_prompt(bench: Bench) -> None:
    bench.read("x")
    bench.screen.show_status(ConversationStatus("m", "auto", tokens=1200))
    bench.read("x")
    bench.read("x", "run it? ")
    assert bench.typed.statuses == ["", "m · mode auto · 1.2k tokens", None]


def test_a_failed_command_is_red_and_its_last_lines_are_shown(bench: Bench) -> None:
    bench.screen.call_complete("1", "run_command", '{"command": "make"}')
    output = "\n".join(f"step {number}" for number in range(30))
    bench.screen.call_result("1", "run_command", f"{output}\n[exit code 2]", False)
    assert bench.lines[2:] == [
        "  ⎿ ✗ exit code 2",
        "    … 22 lines … (Ctrl-O shows all)",
        *(f"    step {number}" for number in range(22, 30)),
    ]
    assert bench.output.look("exit code 2").fg == "red"
    assert bench.output.look("step 29").fg == "default"


def test_an_error_is_red_and_has_its_hint(bench: Bench) -> None:
    bench.screen.error("no server", "start one")
    bench.screen.error("no hint")
    assert bench.lines == ["", "✗ no server", "  → start one", "✗ no hint"]
    assert bench.output.look("no server").fg == "red"
    assert bench.output.look("start one").fg == "default"


def test_notes_in_a_row_stand_together(bench: Bench) -> None:
    bench.screen.note("one\n  two   three")
    bench.screen.note("[bold]four[/] :smile:")
    assert bench.lines == ["", "one", "  two   three", "[bold]four[/] :smile:"]


def test_a_long_error_is_wrapped_beside_its_sign(bench: Bench) -> None:
    bench.screen.error("the server has gone " * 5, "start the server again " * 4)
    signs = [line[:4] for line in bench.lines[1:]]
    assert signs == ["✗ th", "  go", "  → ", "    "]


def test_a_list_in_a_note_has_its_names_in_colour(bench: Bench) -> None:
    lines = ["Tools:", "    7  of them", "  look  at it", "  one long name", "      sees it", "* plan  first", "else"]
    bench.screen.note("\n".join(lines))
    assert bench.lines == ["", *lines]
    looks = {word: bench.output.look(word) for word in " ".join(lines).split()}
    assert [word for word, look in looks.items() if look.fg == "cyan"] == ["7", "look", "one", "long", "name", "plan"]
    assert [word for word, look in looks.items() if look.bold] == ["Tools:"]


def test_a_note_without_a_list_has_one_colour(bench: Bench) -> None:
    bench.screen.note("one\ntwo")
    assert bench.output.look("two").fg == "cyan"


def test_a_long_call_is_one_row(bench: Bench) -> None:
    bench.screen.call_complete(
        "1", "edit_file", '{"path": "a.py", "old": "one two three", "new": "one two three four"}'
    )
    assert bench.lines == ["", '● edit_file(path="a.py", old="one two three", new="one two …']


def test_a_name_that_code_imports_does_not_look_like_a_link(bench: Bench) -> None:
    bench.screen.content("```python\nimport hashlib\n```\n")
    bench.screen.end_answer()
    assert not bench.output.look("hashlib").underscore


def test_one_gap_is_between_an_answer_and_the_activity(bench: Bench) -> None:
    bench.screen.show_activity(TurnActivity("Waiting for m", clock=lambda: 0.0))
    bench.screen.content("Let me see.")
    bench.screen.call_begins("1", "f")
    bench.screen.call_complete("1", "f", "{}")
    bench.screen.note("a note")
    bench.screen.content("")
    bench.screen.call_begins("2", "f")
    bench.screen.call_begins("2", "f")
    bench.screen.error("no")
    assert [(a, b) for a, b in zip(bench.lines, bench.lines[1:], strict=False) if a == b == ""] == []


def test_reading(bench: Bench) -> None:
    assert bench.read("hello") == "hello"
    bench.screen.content("Hi.")
    assert bench.keys.is_silent
    assert bench.read(None) is None
    assert not bench.keys.is_silent
    assert bench.lines == ["", "", "Hi."]
    assert bench.output.cursor == (4, 0)
    bench.typed.inputs.append("{}")
    assert bench.screen.read("arguments:\x1b[2J ", '{"a": 1}') == "{}"
    assert bench.typed.prompts[-1] == ("arguments:\\x1b[2J ", '{"a": 1}')


def test_ctrl_o_unfolds_the_calls_of_the_last_answer(bench: Bench) -> None:
    def unfolded(show_calls: Callable[[], object]) -> str:
        show_calls()
        return "hidden text"

    assert bench.read(unfolded) == "hidden text"
    assert bench.lines[-1] == "The last answer called no tools."
    bench.screen.call_complete("1", "read", '{"path": "a"}')
    assert bench.read("yes", "may it? ") == "yes"  # a question in between changes nothing
    bench.screen.call_result("1", "read", "\n".join(f"line {number}" for number in range(8)), False)
    assert bench.read(unfolded) == "hidden text"
    result = [f"    line {number}" for number in range(1, 8)]
    assert bench.lines[-10:] == ["read", "  path: a", "  ⎿ line 0", *result]
    assert bench.read(unfolded) == "hidden text"
    assert bench.lines[-1] == "    line 7"
    bench.screen.show_activity(TurnActivity())  # of the next turn
    bench.screen.show_activity(None)
    assert bench.read(unfolded) == "hidden text"
    assert bench.lines[-1] == "The last answer called no tools."


EVIL = "\x1b[2J\x1b]0;title\x07\x9b31m\r\x08\x7f&#27;[1m\u202egnp.exe"


@pytest.mark.fault(143)
def test_output_of_models_and_tools_is_never_a_terminal_command(bench: Bench) -> None:
    screen = bench.screen
    screen.note("stands here")
    for write in (screen.thinking, screen.content, screen.note, screen.error):
        write(EVIL)
    screen.error("x", EVIL)
    screen.call_begins("1", EVIL)
    screen.call_arguments("1", EVIL)
    screen.call_complete("1", EVIL, EVIL)
    screen.call_progress("1", EVIL, EVIL)
    screen.call_result("1", EVIL, EVIL, False)
    screen.call_result("2", EVIL, EVIL, True)
    screen.content(f"```{EVIL}\n{EVIL}\n```\n- {EVIL}\n\n| {EVIL} |\n|---|\n")
    screen.end_answer()
    own = re.compile(r"\x1b\]8;;[!-~]*\x1b\\|\x1b\[[\d;]*m|\x1b\[\d+[AG]|\x1b\[[JK]|\x1b\[\?(2026|7)[hl]|[\n\r]")
    left = own.sub("", bench.output.written)
    assert re.search(r"[\x00-\x1f\x7f-\x9f\u202e]", left) is None
    assert bench.lines[1] == "stands here"
    assert "\\x1b]0;title\\x07" in bench.output.text


def test_wide_signs_and_emoji_stand_there_once(bench: Bench) -> None:
    text = "漢字かな交じり文の長い段落。" * 12 + " 🎉 done 👍🏽 " * 6 + "\n\nnext"
    in_pieces(bench.screen.content, text, 1)
    bench.screen.end_answer()
    shown = "".join(line.replace(" ", "") for line in bench.lines)
    for sign in ("漢", "🎉", "👍", "done", "next"):
        assert shown.count(sign) == text.count(sign)


@pytest.mark.parametrize(
    "formula",
    [
        r"\(a\,b_1 * c_2 * d\)",
        r"\[\int_0^1 f(x)\,dx\]",
        r"$$a_1\;b_1 \\ c$$",
        r"$x_1 * y_2 * z\,$",
        r"\[ a\!b \]",
        r"$\$5$",
    ],
)
def test_a_formula_keeps_its_backslashes(bench: Bench, formula: str) -> None:
    in_pieces(bench.screen.content, f"It is {formula}, *really*.\n")
    bench.screen.end_answer()
    assert f"It is {formula}, really." in " ".join(bench.output.text.split())


def test_money_is_no_formula(bench: Bench) -> None:
    in_pieces(bench.screen.content, r"From $5 to *now* $10-$20, \*so\* \$1, \(or *1*." + "\n")
    bench.screen.end_answer()
    assert "From $5 to now $10-$20, *so* $1, (or 1." in " ".join(bench.output.text.split())


def test_no_color_is_of_colours_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    bench = Bench()
    in_pieces(bench.screen.content, "# Title\n**bold** `code`\n- item\n```python\ndef f(): pass\n```\n")
    bench.screen.error("wrong")
    assert set(re.findall(r"\x1b\[[\d;]*m", bench.output.written)) <= {
        "\x1b[0m",
        "\x1b[1m",
        "\x1b[2m",
        "\x1b[3m",
        "\x1b[1;4m",
    }
    assert bench.output.look("bold").bold
    assert " • item" in bench.output.text


def test_without_a_depth_of_colour_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "unknown")
    bench = Bench()
    in_pieces(bench.screen.content, "# Title\n**bold** `code`\n```python\ndef f(): pass\n```\n")
    bench.screen.error("wrong")
    assert re.search(r"\x1b\[[\d;]*m", bench.output.written) is None


# Approvals.


def test_a_preview_in_colours(bench: Bench) -> None:
    rows, added, removed, _ = diff_texts("the cat sat\n", "the dog sat\n")
    bench.screen.content("I change it.")
    bench.screen.preview("edit_file", DiffPreview("a.txt", "edit", added, removed, rows))
    bench.screen.preview("shell", CommandPreview("ls"), number=2)
    assert bench.lines == [
        *("", "I change it.", "", "edit_file a.txt +1 −1", "  1 - the cat sat", "  1 + the dog sat"),
        *("", "2. shell", "  $ ls"),
    ]
    assert bench.output.look("edit_file").bold
    assert (bench.output.look("cat").fg, bench.output.look("cat").reverse) == ("red", True)
    assert (bench.output.look("dog").fg, bench.output.look("dog").reverse) == ("green", True)
    assert not bench.output.look("sat").reverse


def test_without_colours_the_signs_and_reversed_words_remain(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Bench()
    rows, added, removed, _ = diff_texts("the cat sat\n", "the dog sat\n")
    plain.screen.preview("edit_file", DiffPreview("a.txt", "edit", added, removed, rows))
    assert plain.lines[-2:] == ["  1 - the cat sat", "  1 + the dog sat"]
    assert (plain.output.look("cat").fg, plain.output.look("cat").reverse) == ("default", True)


def test_a_decision_is_one_line_and_a_denied_result_none(bench: Bench) -> None:
    screen = bench.screen
    screen.call_decided("c1", "f", '{"a": 1}', "f a (edited)", True)
    screen.call_decided("c2", "g", "{}", "g: no\x1b", False)
    assert bench.lines == ["", "✗ g: no\\x1b"]
    for id, name in (("c1", "f"), ("c2", "g")):
        screen.call_complete(id, name, '{"a": 2}')  # as the model made it
    assert bench.lines == ["", "✗ g: no\\x1b", "● f a (edited)"]
    screen.call_result("c1", "f", "done", False, CHANGE)
    screen.call_result("c2", "g", "permission denied", True)
    assert bench.lines == ["", "✗ g: no\\x1b", "● f a (edited)", "  ⎿ done"]
    assert (bench.output.look("●").fg, bench.output.look("✗").fg) == ("magenta", "red")
    screen.show_details()
    assert "permission denied" in bench.output.text and "a: 1" in bench.output.text


def test_a_change_that_needed_no_question_is_shown_with_its_result(bench: Bench) -> None:
    screen = bench.screen
    screen.call_complete("1", "edit_file", '{"path": "a.txt", "old": "cat", "new": "dog"}')
    screen.call_result("1", "edit_file", "edited a.txt", False, CHANGE)
    diff = ["  1 - the cat sat", "  1 + the dog sat"]
    assert bench.lines == ["", "● edit_file a.txt +1 −1", *diff, "  ⎿ edited a.txt"]
    assert (bench.output.look("cat").reverse, bench.output.look("dog").fg) == (True, "green")
    screen.show_details()
    assert bench.lines[-5:] == ["edit_file a.txt +1 −1", "  path: a.txt", *diff, "  ⎿ edited a.txt"]


def test_details_break_results_between_words(bench: Bench) -> None:
    bench.screen.call_result("1", "tool", "an error " * 8, True)
    bench.screen.show_details()
    assert bench.lines[-3:] == ["tool", f"  ⎿ {'an error ' * 6}".rstrip(), "    an error an error"]


def test_an_error_is_wrapped_and_not_cut_off(bench: Bench) -> None:
    bench.screen.call_complete("1", "tool", "{}")
    bench.screen.call_result("1", "tool", "an error " * 8 + "\nends here", True)
    assert bench.lines == [
        "",
        "● tool()",
        f"  ⎿ ✗ {'an error ' * 6}".rstrip(),
        "      an error an error",
        "    ends here",
    ]


def test_what_a_tool_prints_is_above_the_activity_and_below_its_call(bench: Bench) -> None:
    screen, activity = bench.screen, TurnActivity("Waiting", clock=lambda: 0.0)
    screen.show_activity(activity)
    assert bench.printed.is_collecting
    screen.call_complete("1", "slow", "{}")
    bench.printed.add("out 0\nout ")
    screen.refresh()
    status = "⠋ Waiting · 0 s · Ctrl-C to stop"
    assert bench.lines == ["", "● slow()", "    out 0", "", status]
    bench.printed.add("1\x1b[2J\n")
    screen.flush_updates()
    assert bench.lines == ["", "● slow()", "    out 0", "    out 1\\x1b[2J", "", status]
    screen.call_result("1", "slow", "waited", False)
    shown = ["", "● slow()", "    out 0", "    out 1\\x1b[2J", "  ⎿ waited"]
    assert bench.lines == [*shown, "", status]
    bench.printed.add("at the end")
    screen.show_activity(None)
    assert bench.lines == [*shown, "    at the end"]
    assert not bench.printed.is_collecting


def test_a_line_of_a_note_is_continued_below_its_beginning(bench: Bench) -> None:
    bench.screen.note(f"docs: failed\n    {'a word ' * 12}".rstrip())
    assert bench.lines == ["", "docs: failed", f"    {'a word ' * 8}".rstrip(), f"    {'a word ' * 4}".rstrip()]


def test_what_is_printed_does_not_cut_an_answer(bench: Bench) -> None:
    bench.screen.show_activity(TurnActivity(clock=lambda: 0.0))
    bench.screen.content("Some ")
    bench.printed.add("printed\n")
    bench.screen.refresh()
    bench.screen.content("text")
    bench.screen.refresh()
    bench.screen.show_activity(None)
    assert bench.lines == ["", "Some text", "", "    printed"]


def test_running_calls_stay_if_the_answer_ends_without_their_results(bench: Bench) -> None:
    for id in "12":
        bench.screen.call_complete(id, f"tool_{id}", "{}")
        bench.screen.call_progress(id, f"tool_{id}", f"output {id}\n")
    rows = ["", "● tool_1()", "    output 1", "● tool_2()", "    output 2"]
    assert bench.lines == rows
    bench.screen.end_answer()
    bench.screen.note("(cancelled)")
    assert bench.lines == [*rows, "", "(cancelled)"]


def test_a_question_is_passed_to_the_prompt_without_the_activity(bench: Bench) -> None:
    choices = [Choice("y", "yes")]
    bench.keys.disable()
    assert bench.screen.choose("Run\x1b it?", choices) == Answer("y", "")
    assert bench.typed.questions == [("Run\\x1b it?", choices)]
    assert not bench.keys.is_silent


def test_a_text_is_edited_in_an_editor_or_at_a_prompt(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "true")
    assert bench.screen.edit("text", ".txt") == "text"
    monkeypatch.delenv("VISUAL")
    monkeypatch.delenv("EDITOR", raising=False)
    bench.typed.inputs = ["new"]
    assert bench.screen.edit("text", ".txt") == "new"
    assert bench.typed.prompts == [("edit: ", "text")]
    assert "Alt-Enter begins a new line" in " ".join(bench.output.text.split())


# Tables and lists.

TABLE = """\
| feature | description | comment |
|---|---|--:|
| streaming | shows each word of an answer when it arrives | fine |
| status | see https://example.org/a/long/address/of/a/page | |
"""


def answered(columns: int, monkeypatch: pytest.MonkeyPatch, markdown: str) -> list[str]:
    """The rows of a text on a terminal with so many columns."""
    monkeypatch.setenv("COLUMNS", str(columns))
    bench = Bench()
    bench.screen.content(markdown)
    bench.screen.end_answer()
    return bench.lines[1:]


def test_a_table_breaks_no_word_and_is_a_list_where_words_do_not_fit(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = {"streaming", "shows", "description", "comment", "feature", "arrives"}
    for columns in (50, 55):
        shown = answered(columns, monkeypatch, TABLE)
        assert words <= set(" ".join(shown).split())
        assert max(map(len, shown)) <= columns
    assert answered(40, monkeypatch, TABLE) == [
        *("feature: streaming", "description: shows each word of an", "answer when it arrives", "comment: fine"),
        "────────",
        *("feature: status", "description: see", "https://example.org/a/long/address/of/a/", "page", "comment:"),
    ]
    narrow = "| internationalization | b |\n|---|---|\n"
    assert answered(22, monkeypatch, narrow) == ["internationalization", "b"]


def test_a_task_has_a_box(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    markdown = "- [x] one\n- [ ] two\n  - [X] three\n- a [x] four\n- [x]\n\nText\n\n1. [ ] five\n"
    shown = answered(40, monkeypatch, markdown)
    assert shown[:5] == [" ☑ one", " ☐ two", "    ☑ three", " • a [x] four", " • [x]"]
    assert shown[-1] == " 1. ☐ five"


def test_code_without_a_fence_keeps_its_indentation(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    markdown = "Text\n\n    def f():\n        pass\n\n- item\n\n      code\n"
    shown = answered(40, monkeypatch, markdown)
    assert shown == ["Text", "", "    def f():", "        pass", "", " • item", "       code"]


def test_headings_are_bold_and_only_the_first_level_is_underlined(bench: Bench) -> None:
    bench.screen.content("# One\n\n## Two\n\n### Three\n\n#### Four\n")
    bench.screen.end_answer()
    looks = [bench.output.look(word) for word in ("One", "Two", "Three", "Four")]
    assert all(look.bold for look in looks)
    assert [look.underscore for look in looks] == [True, False, False, False]
