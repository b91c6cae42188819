"""The project's pages taken apart: fenced blocks with the comment that stands before them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^(?P=indent)```\s*$", re.M | re.S)
COMMENT = re.compile(r"<!-- snippet: (?P<word>\w+)(?P<rest>(?:(?!-->).)*)-->\s*\Z", re.S)


@dataclass(frozen=True)
class Block:
    """One fenced block: its text, and the order in the `<!-- snippet: WORD REST -->` before it, if any."""

    page: Path
    line: int
    language: str
    code: str
    order: str
    rest: str

    def __str__(self) -> str:
        return f"{name_of(self.page)}:{self.line}"


def name_of(page: Path) -> str:
    """A page as the repository names it."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for fence in FENCE.finditer(text):
        comment = COMMENT.search(text[: fence.start()])
        order, rest = (comment["word"], comment["rest"].strip()) if comment else ("", "")
        line = text.count("\n", 0, fence.start("code")) + 1
        code = re.sub(rf"^{fence['indent']}", "", fence["code"], flags=re.M)
        found.append(Block(page, line, fence["language"], code, order, rest))
    return found
