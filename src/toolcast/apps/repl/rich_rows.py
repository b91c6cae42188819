"""What `RichScreen` shows, as rows of a terminal: Markdown blocks and plain lines, laid out and coloured by rich.

Rich's own Markdown is changed where it would lose what a model wrote, or show what is not so: HTML is text, a link
shows where it leads, the cells of a table are never cut off. Code has no frame, no background and no wrapped lines, so
that it can be copied from the terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from copy import copy
from functools import cache
from typing import ClassVar, Final, TextIO

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from rich.console import COLOR_SYSTEMS, Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, ListItem, Markdown, MarkdownElement, TableElement
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from .live_markdown import Block
from .live_rows import LiveRow

_THEME: Final = Theme({"markdown.code": "cyan", "markdown.code_block": "none", "markdown.block_quote": "dim"})
_CODE_THEME: Final = "ansi_dark"  # the sixteen colours of the terminal itself: they fit its background
_INDENT: Final = 4  # what rich takes for each level of lists and quotes; where nothing is left, it shows nothing
_MATH: Final = re.compile(
    r"\\\((?:.|\n){1,300}?\\\)|\\\[(?:.|\n){1,1000}?\\\]|\$\$(?:.|\n){1,1000}?\$\$|\$(?=\S)(?:\\.|[^$\\])*(?<=\S)\$(?!\d)"
)
"""A formula as models write it: in `\\(\\)`, `\\[\\]`, `$$`, or in `$` where that cannot be an amount of money."""


class _Code(CodeBlock):
    """Code in a list or a quote."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield highlighted(str(self.text).rstrip("\n"), self.lexer_name)


class _Heading(Heading):
    LEVEL_ALIGN: ClassVar = {}  # none of them in the middle


class _Item(ListItem):
    def render_number(self, console: Console, options: ConsoleOptions, number: int, last_number: int) -> RenderResult:
        """The item, with room for two digits: it may be the only one that is seen so far."""
        return super().render_number(console, options, number, max(last_number, 10))


class _Table(TableElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part in super().__rich_console__(console, options):
            for column in part.columns if isinstance(part, Table) else ():
                column.overflow = "fold"
            yield part


@cache
def parser() -> MarkdownIt:
    """The Markdown that is understood: blocks of it mean the same alone as in the whole (see live_markdown.py)."""
    rules = MarkdownIt("commonmark", {"maxNesting": 100}).enable(["strikethrough", "table"])
    rules.inline.ruler.before("escape", "math", _take_math)
    return rules.disable(["html_block", "html_inline", "reference", "image"])


def _take_math(state: StateInline, silent: bool) -> bool:
    """Take a formula in TeX as the text that it is: in Markdown its backslashes and underscores mean other things."""
    found = _MATH.match(state.src, state.pos)
    if not found:
        return False
    if not silent:
        state.pending += found[0]
    state.pos = found.end()
    return True


class _Markdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "fence": _Code,
        "code_block": _Code,
        "heading_open": _Heading,
        "list_item_open": _Item,
        "table_open": _Table,
    }

    @classmethod
    def of(cls, text: str, style: str) -> _Markdown:
        """A text, and the style of all that has none of its own."""
        made = copy(_empty())  # to make one costs more than to parse a paragraph
        made.parsed, made.style = parser().parse(text), style
        return made


@cache
def _empty() -> _Markdown:
    return _Markdown("", justify="default", hyperlinks=False)


def highlighted(code: str, language: str) -> Text:
    """Code in colours; without them where its language is not known."""
    text = Syntax("", language or "text", theme=_CODE_THEME).highlight(f"{code}\n")
    text.right_crop(1)  # the newline, which a highlighter would add
    return text


def _stripped(rows: list[LiveRow]) -> list[LiveRow]:
    """Without the blank rows around some of rich's elements."""
    filled = [number for number, row in enumerate(rows) if row.width]
    return rows[filled[0] : filled[-1] + 1] if filled else []


class RichRows:
    """Lays out and colours for the terminal that `file` is. `columns` and `height` are its size now."""

    def __init__(self, file: TextIO) -> None:
        self._console = Console(
            file=file,
            force_terminal=True,
            theme=_THEME,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )
        self._depth = COLOR_SYSTEMS.get(self._console.color_system or "")

    @property
    def columns(self) -> int:
        """How wide the terminal is."""
        return self._console.width

    @property
    def height(self) -> int:
        """How many rows it has."""
        return self._console.height

    def of(self, renderable: RenderableType, style: str = "none") -> list[LiveRow]:
        """The rows of anything that rich can show."""
        options = self._console.options.update(height=None)
        lines = self._console.render_lines(renderable, options, style=self._style(style), pad=False)
        return [self._row(line) for line in lines]

    def of_blocks(self, blocks: Iterable[Block], style: str = "none") -> list[LiveRow]:
        """The rows of Markdown blocks, with a blank one before each that is not joined to what stands before it."""
        rows: list[LiveRow] = []
        for block in blocks:
            rows += [] if block.joined else [LiveRow("", 0)]
            rows += self._of_block(block, style)
        return rows

    def _of_block(self, block: Block, style: str) -> list[LiveRow]:
        if block.kind == "fence":
            return self.of(Text(block.text), "dim")
        if block.kind == "code":
            # A row for each line, however long it is: the terminal wraps it, and copies it as one.
            lines = highlighted(block.text, block.language).split("\n", allow_blank=True)
            return [self._row(Segment.apply_style(line.render(self._console), self._style(style))) for line in lines]
        markdown = _Markdown.of(block.text, style)
        fits = _INDENT * (1 + max((token.level for token in markdown.parsed), default=0)) < self.columns
        return _stripped(self.of(markdown if fits else Text(block.text, style)))

    def _style(self, name: str) -> Style:
        return self._console.get_style(name)

    def _row(self, line: Iterable[Segment]) -> LiveRow:
        """A row without the blanks that fill it up to the right margin."""
        segments = list(line)
        while segments and not segments[-1].text.rstrip():
            segments.pop()
        if segments:
            segments.append(Segment(segments[-1].text.rstrip(), segments.pop().style))
        return LiveRow("".join(map(self._coloured, segments)), Segment.get_line_length(segments))

    def _coloured(self, segment: Segment) -> str:
        style = segment.style
        if style and self._console.no_color:
            style = style.without_color  # bold and italic stay: https://no-color.org
        return style.render(segment.text, color_system=self._depth) if style else segment.text
