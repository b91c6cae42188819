"""parser.py and lexer.py: what a shell would run, and what is refused because it is not certain."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st

from toolcast.agents.permissions.shell.forms import program
from toolcast.agents.permissions.shell.lexer import MAX_DEPTH, UnparsedCommand, Word
from toolcast.agents.permissions.shell.parser import Redirection, SimpleCommand, commands


def shown(text: str) -> list[str]:
    """Each command as its words, `?` before one that is not known, then assignments and redirections."""
    found = []
    for words, assignments, redirections, *_ in commands(text):
        pieces = ["" if word.literal else "?" for word in words]
        line = [mark + word.text for mark, word in zip(pieces, words, strict=True)]
        line += [f"set:{word.text}" for word in assignments]
        line += [f"{operator}:{target.text}" for operator, target in redirections]
        found.append(" ".join(line))
    return found


def run(text: str) -> list[SimpleCommand]:
    """The commands that a shell itself runs, without those that may be among their words, and without their input."""
    return [command._replace(fed=False) for command in commands(text) if not command.given]


READ: list[tuple[str, list[str]]] = [
    ("", []),
    ("  \n\t\n", []),
    ("# only a comment", []),
    ("git status", ["git status"]),
    # lists
    ("git status && rm -rf /", ["git status", "rm -rf /"]),
    ("a || b; c & d\ne", ["a", "b", "c", "d", "e"]),
    ("a &&\n\n b", ["a", "b"]),
    ("a|b|&c", ["a", "b", "c"]),
    ("a;", ["a"]),
    ("a \\\n b", ["a b"]),
    ("! a", ["a"]),
    # within one another
    ("git $(rm -rf /)", ["rm -rf /", "git ?$()"]),
    ("git `rm x`", ["rm x", "git ?$()"]),
    ("git ``", ["git ?$()"]),
    ('echo "a $(b "c" `d`) e"', ["d", "b c ?$()", "echo ?a $() e"]),
    ("cat <(a) x>(b)", ["a", "b", "cat ?$() ?x$()"]),
    ("cat < <(a)", ["a", "cat <:$()"]),
    ("(a; b) > f", ["a", "b", " >:f".strip()]),
    ("{ a; b; } 2>&1", ["a", "b", ">&:1"]),
    ("X=$(a) b", ["a", "b set:X=$()"]),
    # compound commands
    ("if a; then b; elif c; then d; else e; fi", list("abcde")),
    ("while a; do b; done < f", ["a", "b", "<:f"]),
    ("until ! a\ndo b\ndone", ["a", "b"]),
    ("for f in .env *.py; do cat $f; done", ["set:f=.env set:f=*.py", "cat ?$f"]),
    ("for f; do a; done", ["", "a"]),
    ("if a; then for x in 1; do { b; }; done; fi", ["a", "set:x=1", "b"]),
    ("echo if then '}' {} [ a ]", ["echo if then } {} [ a ]"]),
    # words
    ("e\"c\"ho 'a b' c\\ d", ["echo a b c d"]),
    ('echo "a\\"b\\n\\$x" \'a\\\'', ['echo a"b\\n$x a\\']),
    ('echo $ "$" a#b a=b', ["echo $ $ a#b a=b"]),
    ("echo $X ${X} ${#X} ${X%.py} $1 $? $((1 + 2))", ["echo ?$X ?${X} ?${#X} ?${X%.py} ?$1 ?$? ?$()"]),
    ("echo $((i + 1))", ["(( ?((i + 1))", "echo ?$()"]),
    ("$X status", ["?$X status"]),
    ("[ a = b ] || [ a == b ] || [ a '=b' ]; c a= \"$\"=", ["[ a = b ]", "[ a == b ]", "[ a =b ]", "c a= $=", "$="]),
    ("echo === a ==b==", ["echo === a ==b=="]),
    ("echo ~ a~ *.py [ab] {a,b} '*' \"~\"", ["echo ?~ a~ ?*.py ?[ab] ?{a,b} * ~"]),
    ("echo }a a}b {a} a{b}c@{0} \\} x\\}", ["echo }a a}b ?{a} ?a{b}c@{0} } x}"]),
    (
        'echo "$x:$y:8080 $x: ${x}[0] ${x}:Fa $x:latest" $x:src/x',
        ["echo ?$x:$y:8080 $x: ${x}[0] ${x}:Fa $x:latest ?$x:src/x"],
    ),
    ("A=1 B+=2 c D=3", ["c D=3 set:A=1 set:B+=2"]),
    ("A=1", ["set:A=1"]),
    ('"A"=1 c', ["A=1 c"]),
    ("ls # a; b", ["ls"]),
    ("echo 'a\nb'", ["echo a\nb"]),
    ("echo héllo\u200b", ["echo héllo\u200b"]),
    # redirections
    ("a>b 2>/dev/null >>c <e <>f >|g &>d", ["a >:b >:/dev/null >>:c <:e <>:f >|:g &>:d"]),
    ("a 2>&1 <&- 2 >b", ["a 2 >&:1 <&:- >:b"]),
    ("cat <<< x", ["cat <<<:x"]),
    ("cat <<EOF | b\nhi $(rm) `c` \\$x\nEOF\nd", ["cat <<:EOF", "b", "rm", "c", "d"]),
    ("cat <<'EOF' <<-\"E\"\n$(rm\nEOF\n\ta `\n\tE\nd", ["cat <<:EOF <<-:E", "d"]),
    # texts that other shells and commands run
    ("sh -c 'rm x; ls'", ["sh -c rm x; ls", "rm x", "ls"]),
    ("sudo /bin/bash -lc 'a'", ["sudo /bin/bash -lc a", "a"]),
    ("$SHELL -c 'a b'", ["?$SHELL -c a b", "a b"]),
    ("bash x.sh", ["bash x.sh"]),
    ("bash -c", ["bash -c"]),
    ("eval 'a;' b", ["eval a; b", "a", "b", "a"]),
    ("env -S 'rm x'", ["env -S rm x", "env rm x", "rm x"]),
    ("env --split-string='rm x'", ["env --split-string=rm x", "env rm x", "--split-string=rm x", "rm x"]),
    ("env -u A -iSrm '\\_x' $Y", ["env -u A -iSrm \\_x ?$Y", "env rm x ?$Y"]),
    ("env rsync -avS a b", ["env rsync -avS a b"]),
    ("tar -vcI'rm x' a", ["tar -vcIrm x a", "-vcIrm x", "cIrm x", "Irm x", "rm x", "m x", "x"]),
    ("git commit -m 'rm x'", ["git commit -m rm x"]),
    ("rbash -c 'a'", ["rbash -c a", "a"]),
    ("pkexec sh -c 'a'", ["pkexec sh -c a", "a"]),
    ("sudo -S env X=1 a", ["sudo -S env X=1 a"]),
    ("npm run watch x", ["npm run watch x"]),
]


@pytest.mark.parametrize(("text", "expected"), READ)
def test_what_a_shell_would_run(text: str, expected: list[str]) -> None:
    assert shown(text) == expected


REFUSED = [
    "a;" * 10_000,
    *("a &&", "a |", "; a", "a;;b", "a; ;", "&& a", "(", "(a", "a)", "(a) b", "a (b)", "! ; a", "( ; )"),
    *("if a; fi", "if a; then b", "then a", "fi", "do a; done", "{ a }", "{ a; } b", "if a; then fi", "while a; done"),
    *("case x in a) b;; esac", "f() { a; }", "function f { a; }", "[[ a ]]", "coproc a", "select x in a; do b; done"),
    *("((a))", "$((a[0]))", "$[1]", "${X:-a}", "${X@P}", "${!X}", "${X", "echo $'a'", 'echo $"a"', "a$\\\n(b)"),
    *("'a", '"a', '"$(a', "`a", "`a\\`b`", "a\\", "a\\\nb", '"a\\\nb"', "$(a # )\n)", "$(a", "<(a"),
    *("a >", "a > ;", "a >\nb", "a >> (b)", "a <<", "a <<E", "a <<E\nb", "a <<$E\n$E", "(a <<E)\nE", "a <<E $(b)\nE"),
    *("a <<E 'b\nc'\nE", "a <<E\nEx\nE", "$(a <<E\nE)\nb\nE\n)", "a <<E\nb\\\nE\nE", "a <<E\n${x\nE"),
    *("a\0", "a\r\nb", "a\x1b[2K", "a\x7f", "'\ud800'", "a\xa0b", "a\u2028b", "a &>&1"),
    *("a &>b c", "a &>>b >c d", "for x in a do b; done"),
    *("for x in", "for 1 in a; do b; done", "for ((;;)); do a; done", "for x\nin a; do b; done"),
    *("echo $=x", 'echo "$~x"', "echo a$^x", "echo $==x", "echo $+x", "echo =ls", "=ls", "a >=ls", "a =$x", "a ='ls'"),
    "for x in =ls; do a; done",
    *('echo "$x[x[\\$(a)]]"', "echo $#x[1]", 'echo "$?[a]"', "a <<< $x[1]", "a <<E\n$x[b]\nE", "echo $é", 'a"$é"-b'),
    *('echo "$x:F:x[\\$(a)]:h"', "a $x:h:F,a,h", 'echo "$#x:s/a b/c/:gF:a:h"', 'a "$?:W,x,F,a,h"', "a <<E\n$x:Fa\nE"),
    *("{ echo } always { { a }\n}", "{ echo x} always { a; }", "a }", "a {}}", "a $x}", 'a "x"}', "a {b,c}}", "a > b}"),
    *('bash -c "ls $X"', "sh -c -- 'a'", "sh -c '('", "eval $X", "eval '('", "trap \"$X\" EXIT"),
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_certain_is_refused(text: str) -> None:
    with pytest.raises(UnparsedCommand):
        commands(text)


def test_commands_nest_only_so_deep() -> None:
    def nested(depth: int) -> str:
        return "$(" * depth + "a" + ")" * depth

    assert len(commands(nested(MAX_DEPTH))) == MAX_DEPTH + 1
    with pytest.raises(UnparsedCommand, match="nested too deeply"):
        commands(nested(MAX_DEPTH + 1))
    with pytest.raises(UnparsedCommand, match="nested too deeply"):
        commands("eval " * (MAX_DEPTH + 1) + "a")


def test_what_is_found_are_plain_values() -> None:
    (found,) = commands("A=1 /bin/cat .env > $X")
    redirections = (Redirection(">", Word("$X", False)),)
    assert found == SimpleCommand((Word("/bin/cat"), Word(".env")), (Word("A=1"),), redirections)
    assert program(found.words[0]) == "cat"


SYNTAX = st.text(st.sampled_from("ab $(){}`'\"\\;&|<>\n#=*[]!-~E\t") | st.characters(), max_size=40)


@given(SYNTAX)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = commands(text)
    except UnparsedCommand as error:
        assert str(error)
    else:
        assert all(isinstance(command, SimpleCommand) for command in found)


@given(st.text(st.characters(exclude_characters="'", exclude_categories=["Cc", "Cs"])))
def test_what_is_quoted_is_one_known_word(text: str) -> None:
    assert commands(f"echo '{text}'") == [SimpleCommand((Word("echo"), Word(text)))]
    escaped = "".join(f"\\{char}" if char in '"\\$`' else char for char in text)
    assert commands(f'echo "{escaped}"') == [SimpleCommand((Word("echo"), Word(text)))]


@given(
    st.lists(st.lists(st.sampled_from(["git", "ls", "-s", "'a;b|c'", "a\\&b", '"x)"']), min_size=1), min_size=1),
    st.lists(st.sampled_from([";", "&&", "||", "|", "&", "\n", " \\\n && ", "|&"]), min_size=20, max_size=20),
)
def test_what_is_joined_comes_apart_as_it_was(lines: list[list[str]], joints: list[str]) -> None:
    alone = [" ".join(line) for line in lines[:20]]
    text = alone[0] + "".join(joint + line for joint, line in zip(joints, alone[1:], strict=False))
    expected = [command for line in alone for command in run(line)]
    assert run(text) == expected
    for around in ("(%s)", "{ %s\n}", "if %s\nthen %s\nfi"):
        assert run(around.replace("%s", text)) == expected * around.count("%s")
    assert run(f"x $({text})")[:-1] == expected


PIECES = st.sampled_from(
    ["{}", "{", "}", ",", "..", "a", "b", "''", '""', "'{'", '"}"', "\\{", "-", "=", "/", "[", "]", "."]
)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@settings(max_examples=30)
@given(st.lists(st.lists(PIECES, min_size=1, max_size=7).map("".join), max_size=40))
@example(["''{},-a}", "a{},b}", "{},b}", "{a},b}", "x{}", "{}{a,b}"])
def test_a_literal_word_is_what_bash_makes_of_it(texts: list[str]) -> None:
    literal: list[tuple[str, Word]] = []
    for text in texts:
        with suppress(UnparsedCommand):  # quotes within braces
            literal += [(text, word) for word in commands(f"x {text}")[0].words[1:] if word.literal]
    script = "printf '%s\\0' x " + " ".join(text for text, _ in literal)
    printed = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True, cwd=Path(__file__).parent
    )
    assert printed.stdout.split("\0")[1:-1] == [word.text for _, word in literal]
