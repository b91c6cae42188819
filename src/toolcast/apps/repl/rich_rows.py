"""The layout of `RichScreen`: Markdown blocks and plain lines as coloured terminal rows, by rich.

Rich's Markdown is changed where it would lose text or mislead: HTML is shown as text, a link shows its target, the
cells of a table are never cut off. Code has no frame, no background and no wrapped lines, so that it can be copied
from the terminal.
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
_CODE_THEME: Final = "ansi_dark"  # the sixteen colours of the terminal, which suit its background
_INDENT: Final = 4  # columns that rich uses for each level of lists and quotes; without columns left it shows nothing
_MATH: Final = re.compile(
    r"\\\((?:.|\n){1,300}?\\\)|\\\[(?:.|\n){1,1000}?\\\]|\$\$(?:.|\n){1,1000}?\$\$|\$(?=\S)(?:\\.|[^$\\])*(?<=\S)\$(?!\d)"
)
r"""A formula as models write it: in `\(\)`, `\[\]`, `$$`, or in `$` where that cannot be an amount of money."""


class _Code(CodeBlock):
    """Code in a list or a quote."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield highlight_code(str(self.text).rstrip("\n"), self.lexer_name)


class _Heading(Heading):
    LEVEL_ALIGN: ClassVar = {}  # no centred headings


class _MarkdownListItem(ListItem):
    def render_number(self, console: Console, options: ConsoleOptions, number: int, last_number: int) -> RenderResult:
        """Yield the item, with space for two digits: later items may not have arrived yet."""
        return super().render_number(console, options, number, max(last_number, 10))


class _Table(TableElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part in super().__rich_console__(console, options):
            for column in part.columns if isinstance(part, Table) else ():
                column.overflow = "fold"
            yield part


@cache
def parser() -> MarkdownIt:
    """Return the Markdown parser. Each block means the same alone as in the whole text (see live_markdown.py)."""
    rules = MarkdownIt("commonmark", {"maxNesting": 100}).enable(["strikethrough", "table"])
    rules.inline.ruler.before("escape", "math", _take_math)
    return rules.disable(["html_block", "html_inline", "reference", "image"])


def _take_math(state: StateInline, silent: bool) -> bool:
    """Consume a formula in TeX as plain text: in Markdown its backslashes and underscores have other meanings."""
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
        "list_item_open": _MarkdownListItem,
        "table_open": _Table,
    }

    @classmethod
    def of(cls, text: str, style: str) -> _Markdown:
        """Return the Markdown of `text`, with `style` for all parts that have none of their own."""
        made = copy(_empty())  # creating one costs more than parsing a paragraph
        made.parsed, made.style = parser().parse(text), style
        return made


@cache
def _empty() -> _Markdown:
    return _Markdown("", justify="default", hyperlinks=False)


def highlight_code(code: str, language: str) -> Text:
    """Return code in colours, or without them if the language is unknown."""
    text = Syntax("", language or "text", theme=_CODE_THEME).highlight(f"{code}\n")
    text.right_crop(1)  # the newline, which a highlighter would add
    return text


def _strip_blank_rows(rows: list[LiveRow]) -> list[LiveRow]:
    """Return the rows without the blank ones that rich adds around some elements."""
    filled = [number for number, row in enumerate(rows) if row.width]
    return rows[filled[0] : filled[-1] + 1] if filled else []


class RichRows:
    """The layout and colours for the terminal `file`."""

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
        self._color_system = COLOR_SYSTEMS.get(self._console.color_system or "")

    @property
    def columns(self) -> int:
        """The current width of the terminal."""
        return self._console.width

    @property
    def height(self) -> int:
        """The current number of rows of the terminal."""
        return self._console.height

    def of(self, renderable: RenderableType, style: str = "none") -> list[LiveRow]:
        """Return the rows of any object that rich can render."""
        options = self._console.options.update(height=None)
        lines = self._console.render_lines(renderable, options, style=self._style(style), pad=False)
        return [self._row(line) for line in lines]

    def of_blocks(self, blocks: Iterable[Block], style: str = "none") -> list[LiveRow]:
        """Return the rows of Markdown blocks, with a blank row before each that is not joined to the previous one."""
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
            lines = highlight_code(block.text, block.language).split("\n", allow_blank=True)
            return [self._row(Segment.apply_style(line.render(self._console), self._style(style))) for line in lines]
        markdown = _Markdown.of(block.text, style)
        fits = _INDENT * (1 + max((token.level for token in markdown.parsed), default=0)) < self.columns
        return _strip_blank_rows(self.of(markdown if fits else Text(block.text, style)))

    def _style(self, name: str) -> Style:
        return self._console.get_style(name)

    def _row(self, line: Iterable[Segment]) -> LiveRow:
        """Return a row without the spaces that fill it up to the right margin."""
        segments = list(line)
        while segments and not segments[-1].text.rstrip():
            segments.pop()
        if segments:
            segments.append(Segment(segments[-1].text.rstrip(), segments.pop().style))
        return LiveRow("".join(map(self._render_segment, segments)), Segment.get_line_length(segments))

    def _render_segment(self, segment: Segment) -> str:
        style = segment.style
        if style and self._console.no_color:
            style = style.without_color  # bold and italic remain: https://no-color.org
        return style.render(segment.text, color_system=self._color_system) if style else segment.text
