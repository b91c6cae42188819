"""The layout of `RichScreen`: Markdown blocks and plain lines as coloured terminal rows, by rich.

Rich's Markdown is changed where it would lose text or mislead: HTML is shown as text, a link shows its target, the
cells of a table are never cut off. Code has no frame, no background and no wrapped lines, so that it can be copied
from the terminal.

Previews of tool calls in colours: the lines of preview_text.py as rich's `Text`.

Only the sixteen colours of the terminal are used, which suit its background, and reversed ones for changed words: these
are visible without colours as well. A long line is continued below its text, not below its number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from functools import cache
from typing import ClassVar, Final, TextIO

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from rich.box import HORIZONTALS
from rich.cells import cell_len
from rich.console import COLOR_SYSTEMS, Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import (
    CodeBlock,
    Heading,
    ListItem,
    Markdown,
    MarkdownContext,
    MarkdownElement,
    Paragraph,
    TableElement,
)
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.syntax import ANSI_DARK, ANSISyntaxTheme, Syntax
from rich.table import Table
from rich.text import Text, TextType
from rich.theme import Theme

from .live_markdown import Block
from .live_rows import LiveRow
from .preview_text import LineKind, PreviewLine

_STYLES: Final[dict[LineKind, str]] = {
    "title": "bold",
    "same": "none",
    "add": "green",
    "remove": "red",
    "gap": "dim",
    "command": "bold",
    "plain": "none",
    "note": "yellow",
    "result": "dim",
}
_PROSE: Final = ("title", "note", "result")
_TAB: Final = 4


def rich_preview(lines: Iterable[PreviewLine], columns: int) -> Iterator[Text]:
    """Yield a text for each row of the terminal that the lines take at a width of `columns`."""
    for line in lines:
        style = _STYLES[line.kind]
        text = Text(line.text, style, end="")
        for start, end in line.words:
            text.stylize("reverse", start, end)
        text.expand_tabs(_TAB)
        gutter_style = style if line.kind in ("add", "remove", "title") else "dim"
        indent = cell_len(line.gutter)
        for number, row in enumerate(_rows(text, max(columns - indent, 1), line.kind in _PROSE)):
            yield Text.assemble((line.gutter if not number else " " * indent, gutter_style), row)


def _rows(text: Text, width: int, is_prose: bool) -> Iterable[Text]:
    """Return the text cut into rows: prose between words if possible, code anywhere."""
    places: list[int] = []
    used, begin, word = 0, 0, 0
    for place, character in enumerate(text.plain):
        cells = cell_len(character)
        if used + cells > width:
            begin = word if is_prose and word > begin else place
            places.append(begin)
            used = cell_len(text.plain[begin:place])
        used += cells
        word = place + 1 if character == " " else word
    return text.divide(places) if places else [text]


_THEME: Final = Theme(
    {
        "markdown.h1": "bold underline magenta",
        "markdown.h2": "bold magenta",
        **dict.fromkeys(("markdown.h3", "markdown.h4", "markdown.h5", "markdown.h6"), "bold"),
        "markdown.code": "cyan",
        "markdown.code_block": "none",
        "markdown.block_quote": "dim",
    }
)
_PLAIN: Final = Style(underline=False)
_CODE_THEME: Final = ANSISyntaxTheme({token: style + _PLAIN for token, style in ANSI_DARK.items()})
"""The sixteen colours of the terminal, which suit its background, without lines under names, as links have them."""
_LEAST_COLUMNS: Final = 20
"""Columns of a terminal that has space for an indentation."""
_INDENT: Final = 4  # columns that rich uses for each level of lists and quotes; without columns left it shows nothing
_ADDRESS: Final = re.compile("(?:https?://|mailto:)[!-~]+")
_WIDEST: Final = 100_000  # columns of a table without wrapped cells
_LONGEST_WORD: Final = 24
"""Columns of a word that is not broken in a table."""
_WIDE_CHARACTER: Final = 2
"""Columns of a character of Chinese, for example."""
_RECORD_LINE: Final = 8
"""Columns of the line between two rows of a table that is shown as a list."""
_TASK: Final = re.compile(r"\[([ xX])\] ")
_MATH: Final = re.compile(
    r"\\\((?:.|\n){1,300}?\\\)|\\\[(?:.|\n){1,1000}?\\\]|\$\$(?:.|\n){1,1000}?\$\$|\$(?=\S)(?:\\.|[^$\\])*(?<=\S)\$(?!\d)"
)
r"""A formula as models write it: in `\(\)`, `\[\]`, `$$`, or in `$` where that cannot be an amount of money."""


class _Code(CodeBlock):
    """Code in a list or a quote."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _wrapped(highlight_code(str(self.text).rstrip("\n"), self.lexer_name))


class _IndentedCode(CodeBlock):
    """Code that has no fence, and is recognized by its indentation."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Padding(_wrapped(highlight_code(str(self.text).rstrip("\n"), "")), (0, 0, 0, _INDENT))


def _wrapped(code: Text) -> Text:
    """Return code whose lines are wrapped: within a list or a quote they would be cut off at the margin."""
    code.no_wrap, code.overflow = False, "fold"
    return code


class _Heading(Heading):
    LEVEL_ALIGN: ClassVar = {}  # no centred headings


class _Paragraph(Paragraph):
    def on_text(self, context: MarkdownContext, text: TextType) -> None:
        """Append text; an address becomes a link of the terminal, which works where it is wrapped, too."""
        if isinstance(text, str) and _ADDRESS.fullmatch(text):
            text = Text(text, context.current_style + Style(link=text))
        super().on_text(context, text)


class _MarkdownListItem(ListItem):
    def __init__(self, bullet: str) -> None:
        super().__init__()
        self._bullet = bullet

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> _MarkdownListItem:
        """Return an item with the box of a task in place of its bullet, if it is one."""
        return cls(token.meta.get("box", "•"))

    def render_bullet(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the item with its bullet or box."""
        return self._render(console, options, f" {self._bullet} ", "markdown.item.bullet")

    def render_number(self, console: Console, options: ConsoleOptions, number: int, last_number: int) -> RenderResult:
        """Yield the item with its number and a dot, with space for two digits: later items may not have arrived yet."""
        mark = f"{number}. ".rjust(len(str(max(last_number, 10))) + 2)
        return self._render(console, options, mark, "markdown.item.number")

    def _render(self, console: Console, options: ConsoleOptions, mark: str, style_name: str) -> RenderResult:
        style, width = console.get_style(style_name), cell_len(mark)
        options = options.update(width=options.max_width - width)
        for line in console.render_lines(self.elements, options, style=self.style):
            yield Segment(mark, style)
            yield from line
            yield Segment.line()
            mark = " " * width


class _Table(TableElement):
    """A table whose columns are wide enough for their words; where the terminal is too narrow for that, a list."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        heads = [cell.content for cell in self.header.row.cells] if self.header and self.header.row else []
        rows = [[cell.content for cell in row.cells] for row in self.body.rows] if self.body else []
        for part in super().__rich_console__(console, options):
            if not isinstance(part, Table) or _whole_width(console, options, part) <= options.max_width:
                yield part
                continue
            # Where cells take several rows, only lines show which of them belong together.
            part.show_lines, part.box = True, HORIZONTALS
            columns = [(head, *cells) for head, *cells in zip(heads, *rows, strict=True)]
            longest = [max(cell_len(cell.plain) for cell in cells) for cells in columns]
            between = _whole_width(console, options, part) - sum(longest)
            least = [max(map(_word_width, cells)) for cells in columns]
            if (widths := _column_widths(least, longest, options.max_width - between)) is None:
                yield from _records(heads, rows)
                continue
            for column, width in zip(part.columns, widths, strict=True):
                column.width, column.overflow = width, "fold"
            yield part


def _whole_width(console: Console, options: ConsoleOptions, table: Table) -> int:
    """Return the width of a table without wrapped cells."""
    return console.measure(table, options=options.update(width=_WIDEST)).maximum


def _word_width(cell: Text) -> int:
    """Return the columns for the longest word. Addresses, and words in scripts without blanks, may be wrapped."""
    widths = [cell_len(word) for word in cell.plain.split() if cell_len(word) == len(word)]
    return max((min(width, _LONGEST_WORD) for width in widths), default=_WIDE_CHARACTER)


def _column_widths(least: Sequence[int], longest: Sequence[int], available: int) -> list[int] | None:
    """Return the width of each column between the least and the longest; None if there is not enough space."""
    if (space := available - sum(least)) < 0:
        return None
    widths = list(least)
    for _ in range(space):
        missing = [most - width for most, width in zip(longest, widths, strict=True)]
        widths[missing.index(max(missing))] += 1
    return widths


def _records(heads: Sequence[Text], rows: Sequence[Sequence[Text]]) -> Iterator[Text]:
    """Yield a line for each cell of a table, with its heading, and a line between two rows."""
    for number, row in enumerate(rows or [heads]):
        if number:
            yield Text("─" * _RECORD_LINE, "dim")
        for head, cell in zip(heads, row, strict=True):
            name = Text.assemble((f"{head.plain}: ", "bold")) if head.plain and rows else Text()
            yield Text.assemble(name, cell, overflow="fold")


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
        "code_block": _IndentedCode,
        "heading_open": _Heading,
        "paragraph_open": _Paragraph,
        "list_item_open": _MarkdownListItem,
        "table_open": _Table,
    }

    @classmethod
    def of(cls, text: str, style: str) -> _Markdown:
        """Return the Markdown of `text`, with `style` for all parts that have none of their own."""
        made = copy(_empty())  # creating one costs more than parsing a paragraph
        made.parsed, made.style = parser().parse(text), style
        for token in made.parsed:
            # An address in angle brackets is its own text: shown once, not as text and target.
            token.children = token.children and [child for child in token.children if child.info != "auto"]
        for item, _, inline in zip(made.parsed, made.parsed[1:], made.parsed[2:], strict=False):
            if item.type == "list_item_open" and inline.children:
                _mark_task(item, inline.children[0])
        return made


def _mark_task(item: Token, text: Token) -> None:
    """Replace the brackets at the beginning of a task by a box, which takes the place of a bullet."""
    if not (found := _TASK.match(text.content)):
        return
    box = "☐" if found[1] == " " else "☑"
    is_numbered = bool(item.info)
    item.meta["box"] = box
    text.content = f"{box} " * is_numbered + text.content[found.end() :]


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

    def hanging(self, lead: str, text: str | Text, style: str = "none") -> list[LiveRow]:
        """Return the rows of a text that is wrapped below its beginning, not below what leads it."""
        whole = Text(text, style) if isinstance(text, str) else text
        if self.columns < _LEAST_COLUMNS:
            return self.of(Text.assemble((lead, style), whole))
        rows: list[LiveRow] = []
        for line in whole.wrap(self._console, max(self.columns - cell_len(lead), 1)):
            rows += self.of(Text.assemble((" " * cell_len(lead) if rows else lead, style), line))
        return rows

    def of_blocks(self, blocks: Iterable[Block], style: str = "none") -> list[LiveRow]:
        """Return the rows of Markdown blocks, with a blank row before each that is not joined to the previous one.

        A block that shows nothing, such as an empty heading, has no rows.
        """
        rows: list[LiveRow] = []
        for block in blocks:
            shown = self._of_block(block, style)
            rows += [LiveRow("", 0), *shown] if shown and not block.joined else shown
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
        if style is None or self._color_system is None:
            return segment.text
        if style.link is None:
            return style.render(segment.text, color_system=self._color_system)
        # Not rendered by rich: it would number each link at random, and so change rows that are the same.
        shown = style.update_link(None).render(segment.text, color_system=self._color_system)
        return f"\x1b]8;;{style.link}\x1b\\{shown}\x1b]8;;\x1b\\"
