"""The screen of a terminal with colours, on an emulated one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from support.terminal_emulator import Emulated
from toolcast.apps.repl import rich_screen
from toolcast.apps.repl.rich_screen import RichScreen
from toolcast.apps.repl.screen import Screen

COLUMNS, HEIGHT = 60, 16


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

    def read(self, prompt: str, text: str = "", *, show_calls: Callable[[], object]) -> str | None:
        self.prompts.append((prompt, text))
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
        self.screen = RichScreen(prompt, keys, stdout, clock=self.clock)

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
        "", "Let me see.", "", "  1 look", "  2 answer", "",
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
    assert bench.lines == ["", "  1 first", "    ls  -l", "  2 second", "", "▌ x", "", "indented"]


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
    in_pieces(bench.screen.content, "plain words that go on and on " * 25)
    rows = len(bench.lines)
    assert bench.output.written.count("\x1b[J") < rows < HEIGHT


def test_nor_is_one_that_does_not_fit_the_screen_with_every_piece(bench: Bench) -> None:
    in_pieces(bench.screen.content, "plain words that go on and on " * 90)
    assert 0 < bench.output.written.count("\x1b[J") < 2 * 2700 / COLUMNS


def test_a_call_is_folded(bench: Bench) -> None:
    screen = bench.screen
    screen.call_begins("1", "read_file")
    assert bench.lines == ["", "● read_file"]
    in_pieces(lambda piece: screen.call_arguments("1", piece), '{"path": "a.txt"}')
    assert bench.lines == ["", '● read_file {"path": "a.txt"}']
    screen.call_complete("1", "read_file", '{"path": "a.txt"}')
    assert bench.lines == ["", '● read_file(path="a.txt")']
    screen.call_result("1", "read_file", "\n".join(map(str, range(99))) + "x" * 99, False)
    assert bench.lines[2:] == ["  ⎿ 0", "    1", "    2", "    3", "    … 95 more lines"]
    assert bench.output.look("read_file").fg == "magenta"
    screen.content("So it is.")
    screen.end_answer()
    assert bench.lines[-3:] == ["    … 95 more lines", "", "So it is."]


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
    assert bench.lines == ["", "● tool_1()", "● tool_2()", "  ⎿ tool_1: yes", "  ⎿ tool_2: failed"]
    assert bench.output.look("tool_2: failed").fg == "red"


def test_a_call_that_never_became_whole_leaves_nothing(bench: Bench) -> None:
    bench.screen.call_begins("1", "tool")
    bench.screen.end_answer()
    bench.screen.note("(cancelled)")
    assert bench.lines == ["", "", "(cancelled)"]


def test_the_output_of_a_running_tool_is_shown_until_its_result_is_there(bench: Bench) -> None:
    screen = bench.screen
    screen.call_complete("1", "run_command", '{"command": "make"}')
    for number in range(9):
        screen.call_progress("1", "run_command", f"step {number}\n")
    assert bench.lines[2:] == ["    step 5", "    step 6", "    step 7", "    step 8"]
    screen.call_result("1", "run_command", "made", False)
    assert bench.lines == ["", '● run_command(command="make")', "  ⎿ made"]


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
    assert bench.lines[-11:] == ["read {", '  "path": "a"', "}", *(f"line {number}" for number in range(8))]
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
    own = re.compile(r"\x1b\[[\d;]*m|\x1b\[\d+A|\x1b\[J|\x1b\[\?(2026|7)[hl]|[\n\r]")
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
