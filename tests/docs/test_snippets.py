"""The snippets of README.md and docs/ work: a page runs from top to bottom, as one program.
program.

`LlamaCpp()` is the real thing. `Ollama(...)`, `OpenAI(...)` and whatever reads their variables reach aimock
on loopback. A comment on the line before a block changes what is done with it:

* `<!-- snippet: answers {"Album": {"title": "Sea"}} -->` the answers of aimock's model from here on: arguments
  by tool name; under a name with a blank in it, a text for prompts that contain it
* `<!-- snippet: fresh -->` forgets the names of the blocks before
* `<!-- snippet: raises NAME -->` the block must end in that exception
* `<!-- snippet: output -->` before a block of plain text: what the Python block before it printed
* `<!-- snippet: needs MODULE -->` runs where that module is installed, elsewhere it is compiled
* `<!-- snippet: skip WHY -->` compiled, not run; only for what no test can do
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
from importlib.util import find_spec
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from docs.pages import PAGES, Block, blocks, name_of
from servers.aimock_server import Aimock

WITH_PYTHON = [page for page in PAGES if any(block.language == "python" for block in blocks(page))]


def compiled(block: Block) -> CodeType:
    """The block's code, with the page's own line numbers; `await` may stand at its top level."""
    source = "\n" * (block.line - 1) + block.code
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    return compile(source, name_of(block.page), "exec", flags=flags, dont_inherit=True)


def execute(block: Block, names: dict[str, Any]) -> None:
    """Run one block in the names of its page."""
    result = eval(compiled(block), names)
    if inspect.iscoroutine(result):
        asyncio.run(result)


def run_block(block: Block, names: dict[str, Any], aimock: Aimock) -> None:
    """Do what the block and the comment before it ask."""
    if block.order == "answers":
        aimock.forget()
        for name, answer in json.loads(block.rest).items():
            aimock.reply(name, answer) if isinstance(answer, str) else aimock.call(name, answer)
    if block.order == "fresh":
        names.clear()
    names.setdefault("__name__", "__main__")
    if block.order == "raises":
        with pytest.raises(Exception) as raised:
            execute(block, names)
        assert block.rest in {kind.__name__ for kind in raised.type.__mro__}, f"{block}: {raised.value!r}"
    else:
        execute(block, names)


def is_missing(block: Block) -> bool:
    """Return whether the block needs a module that is not installed."""
    return block.order == "needs" and find_spec(block.rest) is None


@pytest.fixture
def reader(aimock: Aimock, smollm2: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """An empty page's names, in an empty folder, with the services' variables pointing at aimock."""
    for service in ("OPENAI", "ANTHROPIC", "MISTRAL", "GOOGLE", "GEMINI"):
        monkeypatch.setenv(f"{service}_API_KEY", "loopback-only")
    monkeypatch.setenv("OLLAMA_HOST", aimock.url)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{aimock.url}/v1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI", raising=False)  # nothing is recorded where it is set
    return {}


@pytest.mark.networked
@pytest.mark.timeout(120)
@pytest.mark.parametrize("page", WITH_PYTHON, ids=name_of)
def test_page_runs(page: Path, reader: dict[str, Any], aimock: Aimock, capsys: pytest.CaptureFixture[str]) -> None:
    printed = ""
    for block in blocks(page):
        if block.order == "output":
            assert printed.split() == block.code.split(), f"{block}: not what the code printed"
        elif block.language == "python" and (block.order == "skip" or is_missing(block)):
            compiled(block)
        elif block.language == "python":
            run_block(block, reader, aimock)
            printed = capsys.readouterr().out


def test_every_order_is_known() -> None:
    known = {"", "answers", "fresh", "raises", "output", "needs", "skip"}
    found = [f"{block}: {block.order}" for page in PAGES for block in blocks(page) if block.order not in known]
    assert found == []


def test_a_skip_says_why() -> None:
    found = [str(block) for page in PAGES for block in blocks(page) if block.order == "skip" and len(block.rest) < 10]
    assert found == []


def test_the_readme_has_python() -> None:
    assert PAGES[0] in WITH_PYTHON
