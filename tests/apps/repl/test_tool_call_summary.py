"""Tool calls in few lines."""

from __future__ import annotations

import pytest

from toolcast.apps.approval_preview import DiffPreview
from toolcast.apps.diff_rows import diff_texts
from toolcast.apps.repl.preview_text import plain_lines
from toolcast.apps.repl.tool_call_summary import LONGEST_OUTPUT, SHOWN_LINES, SHOWN_VALUE, ShownCall, all_calls_lines


def full(*calls: ShownCall) -> str:
    return plain_lines(all_calls_lines(calls))


def test_arguments_that_arrive_are_a_beginning_and_a_count() -> None:
    call = ShownCall("write")
    assert call.partial_summary == "write "
    for piece in ('{"text":\n', ' "ab', 'c"}'):
        call.add_arguments(piece)
    assert call.partial_summary == 'write {"text": "abc"}'
    for _ in range(10_000):
        call.add_arguments("1234567890")
    assert call.partial_summary.endswith("… (100,016 characters)")
    assert len(call.arguments) < 2 * SHOWN_VALUE


@pytest.mark.parametrize(
    ("arguments", "folded"),
    [
        ("{}", "f()"),
        ('{"a": 1, "b": "x\\ny", "c": ["漢"]}', 'f(a=1, b="x\\ny", c=["漢"])'),
        ('{"a": "' + "x" * 99 + '"}', 'f(a="' + "x" * 59 + "… (101 characters))"),
        ("[1]", "f [1]"),
        ("{broken", "f {broken"),
        ("[" * 100_000, "f " + "[" * 60 + "… (100,000 characters)"),
    ],
)
def test_arguments_that_are_whole(arguments: str, folded: str) -> None:
    assert ShownCall("f", arguments).summary == folded


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ('{"command": "make  all"}', "run_command  make  all"),
        ('{"command": "cat <<X\\n\\"line\\"\\nX"}', "run_command  cat <<X …"),
        ('{"command": "a\\u200bb"}', "run_command  a\\u200bb"),
        ('{"command": 3}', "run_command(command=3)"),
        ("[1]", "run_command [1]"),
    ],
)
def test_a_command_is_shell_text(arguments: str, shown: str) -> None:
    assert ShownCall("run_command", arguments).title == shown


@pytest.mark.parametrize(
    ("result", "lines"),
    [
        ("", ["(nothing)"]),
        ("one\n", ["one"]),
        ("1\n2\n3\n4\n5\n6\n", ["1", "2", "3", "4", "5", "6"]),  # "1 line" would be as long
        ("x" * 1_000_000, ["x" * 1000]),
        ("1\n2\n3\n4\n5\n6\n7", ["1", "2", "3", "… 2 lines … (Ctrl-O shows all)", "6", "7"]),
        ('(The user changed the arguments to {"a": 1}.)\none\n', ["one"]),  # who knows it
        ("(one)\ntwo", ["(one)", "two"]),
    ],
)
def test_results(result: str, lines: list[str]) -> None:
    assert ShownCall("f", "{}", result=result).result_summary == lines


@pytest.mark.parametrize(
    ("result", "lines", "failed"),
    [
        ("[exit code 0]", ["exit code 0"], False),
        ("one\n\n[exit code 3]\n", ["exit code 3", "one"], True),
        ("1\n2\n\n4\n5\n6\n7\n8\n[exit code 0]", ["exit code 0", "1", "2", "", "4", "5", "6", "7", "8"], False),
        (
            "".join(f"{n}\n" for n in range(1, 11)) + "[ended by the signal 9, Killed]",
            [
                "ended by the signal 9, Killed",
                *("… 2 lines … (Ctrl-O shows all)", "3", "4", "5", "6", "7", "8", "9", "10"),
            ],
            True,
        ),
        ("[stopped: it took longer than 1 seconds]", ["stopped: it took longer than 1 seconds"], True),
        ("exit code 3", ["exit code 3"], False),  # not of the form of the tool
    ],
)
def test_of_a_command_its_end_and_eight_lines(result: str, lines: list[str], failed: bool) -> None:
    call = ShownCall("run_command", "{}", result=result)
    assert call.result_summary == lines
    assert call.has_failed is failed


def test_an_error_is_shown_with_more_lines_and_wrapped() -> None:
    lines = [f"line {number}" for number in range(30)]
    assert ShownCall("f", result="\n".join(lines[:20]), is_error=True).result_summary == lines[:20]
    cut = ShownCall("f", result="\n".join(lines), is_error=True).result_summary
    assert cut == [*lines[:10], "… 10 lines … (Ctrl-O shows all)", *lines[20:]]
    results = ("x" * 500, True), ("x" * 500, False), ("x" * 200, False), ("x\ny", False)
    wraps = [ShownCall("f", result=text, is_error=failed).wraps for text, failed in results]
    assert wraps == [True, False, True, False]


def test_another_tool_has_no_exit_code() -> None:
    call = ShownCall("read_file", "{}", result="[exit code 3]")
    assert (call.result_summary, call.has_failed) == (["[exit code 3]"], False)
    assert ShownCall("f", result="x", is_error=True).has_failed


@pytest.mark.parametrize(
    ("arguments", "brief"),
    [
        ("{}", "f"),
        ('{"path": "a b.txt", "other": 1}', "f a b.txt"),
        ('{"command": "make\\n  all"}', "f make all"),
        ('{"ids": [1, 2]}', "f"),
        ('{"seconds": 2.5}', "f 2.5"),
        ("{broken", "f"),
    ],
)
def test_a_call_in_a_few_words(arguments: str, brief: str) -> None:
    assert ShownCall("f", arguments).brief == brief


def test_all_calls() -> None:
    calls = [ShownCall("f", "{}", result="1"), ShownCall("g", "{}")]
    assert full(*calls) == "f\n  (no arguments)\n  ⎿ 1\n\ng\n  (no arguments)\n  ⎿"
    assert full() == "The last answer called no tools."


def test_a_change_is_a_diff_with_the_other_arguments() -> None:
    rows, added, removed, _ = diff_texts("the cat sat\n", "the dog sat\n")
    change = DiffPreview("a.txt", "edit", added, removed, rows)
    arguments = '{"path": "a.txt", "old": "cat", "new": "dog", "all": true}'
    call = ShownCall("edit_file", arguments, result="edited", change=change)
    assert call.title == "edit_file a.txt +1 −1"
    assert full(call).split("\n") == [
        *(
            "edit_file a.txt +1 −1",
            "  path: a.txt",
            "  all: true",
            "  1 - the cat sat",
            "  1 + the dog sat",
            "  ⎿ edited",
        ),
    ]


def test_the_end_of_the_output_of_a_running_tool_is_kept() -> None:
    call = ShownCall("f")
    for number in range(50):
        call.add_output(f"line {number}\n")
    call.add_output("and")
    assert call.output.split("\n") == ["line 46", "line 47", "line 48", "line 49", "and"]
    assert len(call.output.split("\n")) == SHOWN_LINES + 1
    call.add_output("x" * 2 * LONGEST_OUTPUT)
    assert call.output == "x" * LONGEST_OUTPUT


def test_the_whole() -> None:
    call = ShownCall("f", '{"a": "é", "b": "1\\n2"}', result="1\n2\n")
    assert full(call) == "f\n  a: é\n  b:\n    1\n    2\n  ⎿ 1\n    2"
    assert full(ShownCall("f", "{broken")) == "f\n  {broken\n  ⎿"


def test_what_cannot_be_seen_is_spelt_out() -> None:
    call = ShownCall("f\u200b")
    call.add_arguments('{"a":\u00a0"\u3000b"}')
    assert call.partial_summary == 'f\\u200b {"a":\\u00a0"\\u3000b"}'
    call = ShownCall("f\u200b", '{"a": "x\u00ady"}', result="❤\ufe0f")
    assert call.summary == 'f\\u200b(a="x\\u00ady")'
    assert full(call) == "f\\u200b\n  a: x\\u00ady\n  ⎿ ❤\ufe0f"
    assert ShownCall("f", "no JSON\u200b").summary == "f no JSON\\u200b"
