"""Tests of the language: how docstrings open, plain words, and one meaning for each class name."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from project.source import MODULES, ROOT, Module, project_files, where

OPENINGS = re.compile(r"(What|Whether|How|Whose|Who|Have|Has|The same)\b")
"""Words that no docstring begins with: a function's begins with a verb, a class's with a noun."""

WORDS = re.compile(r"\b(said|told|owed|heard|believed|nobody|somebody|whoever)\b", re.IGNORECASE)
"""Words that make a person of a thing, or that leave open who acts."""

PROMPTS = (
    "Nobody gives you tasks",
    "there was nobody to feel it",
    "Explain it to somebody who",
    "There is nobody you could ask",
)
"""Phrases of texts for models: another wording would be another prompt."""

METAPHORS = re.compile(r"\b(doors?|lanes?|houses?|faces?)\b", re.IGNORECASE)
"""Own words for a transport, a connection, a package, a sync or async API."""

OPENS_A_STATEMENT = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)

DIALOGUE = {
    "tests/support/labelled_tools.py": "requests of users, with the tools that fit them",
    "tests/support/reflections.py": "reflections of models, with their assessment",
    "tests/project/test_language.py": "this test",
}
"""Files whose texts are not checked, each with the reason."""

PROGRAMS = [
    path
    for path in project_files()
    if path.suffix == ".py"
    and path.relative_to(ROOT).parts[0] in ("tests", "benchmarks", "examples", "noxfile.py")
    and path.relative_to(ROOT).as_posix() not in DIALOGUE
]

PAGES = [path for path in project_files() if path.suffix == ".md" and path.name != "CHANGELOG.md"]


def test_docstrings_do_not_open_with_a_question_word() -> None:
    found = [
        f"{where(module, node.body[0].lineno)}: {docstring.splitlines()[0]}"
        for module in MODULES
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and (docstring := ast.get_docstring(node))
        and OPENINGS.match(docstring)
    ]
    assert found == []


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield the comments and the string literals of a Python file, docstrings too, each with its line."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            text = token.string
            for prompt in PROMPTS:
                text = text.replace(prompt, "")
            yield token.start[0], text


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name or "toolcast")
def test_comments_docstrings_and_messages_use_plain_words(module: Module) -> None:
    found = [
        f"{where(module, line)}: {match[0]}" for line, text in texts(module.text) for match in WORDS.finditer(text)
    ]
    assert found == []


def words(source: str) -> Iterator[tuple[int, str]]:
    """Yield the docstrings, the comments and the words of the identifiers of a Python file, each with its line."""
    before = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        # Other strings are data: what users and models write, or a service sends.
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and before in OPENS_A_STATEMENT):
            yield token.start[0], token.string
        elif token.type == tokenize.NAME:
            yield token.start[0], " ".join(re.findall(r"[A-Z]?[a-z]+|[A-Z]+", token.string))
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            before = token.type


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_tests_benchmarks_and_examples_use_plain_words(path: Path) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]}"
        for line, text in words(path.read_text(encoding="utf-8"))
        for match in (*WORDS.finditer(text), *METAPHORS.finditer(text))
    ]
    assert found == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_pages_use_plain_words(path: Path) -> None:
    prose = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert WORDS.findall(prose) == []


def test_a_class_name_has_one_meaning() -> None:
    places = defaultdict[str, list[str]](list)
    for module in MODULES:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(where(module, node.lineno))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
