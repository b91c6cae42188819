"""Draw what a terminal shows as a picture: SVG, or PNG with a headless Chromium.

    python docs/terminal_picture.py OUTPUT.txt PICTURE.svg [--columns 80] [--rows 24] [--palette dark] [--title TEXT]

The input is everything that a program has written to its terminal, with all escape codes (`-` is stdin); `script -qc
COMMAND OUTPUT.txt` records it. A picture whose name ends in `.png` is drawn by Chromium. Without `--palette` an SVG has
the colours of the viewer's light or dark mode.

`picture` takes any pyte screen. pyte ignores dim text; `PictureScreen` and `emulate` record it. Needs pyte.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, TypeAlias

import pyte
from pyte.graphics import FG_BG_256

Palette: TypeAlias = Literal["light", "dark"]

CELL, LINE, BASELINE, MARGIN = 8.43, 16, 13, 12
"""The size of a cell in pixels, the offset of its baseline, and the margin around the screen."""

FONT = "14px 'DejaVu Sans Mono', Menlo, Consolas, 'Noto Sans Mono CJK SC', 'Noto Sans CJK SC', monospace"

COLOURS: dict[Palette, dict[str, str]] = {
    "light": {
        "background": "#ffffff", "frame": "#d0d7de", "default": "#1f2328",
        "black": "#24292f", "red": "#cf222e", "green": "#116329", "brown": "#7d4e00",
        "blue": "#0969da", "magenta": "#8250df", "cyan": "#1b7c83", "white": "#6e7781",
        "brightblack": "#57606a", "brightred": "#a40e26", "brightgreen": "#1a7f37", "brightbrown": "#633c01",
        "brightblue": "#218bff", "brightmagenta": "#a475f9", "brightcyan": "#3192aa", "brightwhite": "#8c959f",
    },
    "dark": {
        "background": "#0d1117", "frame": "#30363d", "default": "#e6edf3",
        "black": "#484f58", "red": "#ff7b72", "green": "#3fb950", "brown": "#d29922",
        "blue": "#58a6ff", "magenta": "#bc8cff", "cyan": "#39c5cf", "white": "#b1bac4",
        "brightblack": "#6e7681", "brightred": "#ffa198", "brightgreen": "#56d364", "brightbrown": "#e3b341",
        "brightblue": "#79c0ff", "brightmagenta": "#d2a8ff", "brightcyan": "#56d4dd", "brightwhite": "#ffffff",
    },
}  # fmt: skip
_NAMES = ("black", "red", "green", "brown", "blue", "magenta", "cyan", "white")
_SIXTEEN = dict(zip(FG_BG_256, (*_NAMES, *(f"bright{name}" for name in _NAMES)), strict=False))
_EXTENDED = {"5": 2, "2": 4}
"""The number of parameters after 38 or 48, by the first of them."""


class PictureScreen(pyte.Screen):
    """A screen that records dim text, as blinking text: pyte has no field for it, and programs do not blink."""

    def select_graphic_rendition(self, *attrs: int, **kwargs: Any) -> None:
        """Set the looks of the text that follows."""
        super().select_graphic_rendition(*_dim_as_blink(attrs), **kwargs)


class Look(NamedTuple):
    """The looks of a cell, with reversed colours exchanged."""

    colour: str
    background: str
    bold: bool
    italics: bool
    underscore: bool
    strikethrough: bool
    dim: bool
    is_wide: bool


def emulate(written: str, columns: int = 80, rows: int = 24) -> PictureScreen:
    """Return the screen of a terminal of that size after a program wrote `written` to it."""
    screen = PictureScreen(columns, rows)
    # A terminal's driver turns line feeds into line ends; recordings have both forms.
    pyte.Stream(screen).feed(re.sub("(?<!\r)\n", "\r\n", written))
    return screen


def picture(screen: pyte.Screen, title: str = "", *, palette: Palette | None = None, cursor: bool = False) -> str:
    """Return the screen as an SVG document, without the empty lines at its end.

    Args:
        screen: The screen.
        title: The description of the picture, for readers who do not see it.
        palette: Its colours. None: those of the viewer's light or dark mode.
        cursor: Draw the cursor, unless the program has hidden it.
    """
    shown = cursor and not screen.cursor.hidden
    last = max((y for y, line in enumerate(screen.display) if line.strip()), default=-1)
    count = max(last, screen.cursor.y if shown else -1) + 1
    width, height = screen.columns * CELL + 2 * MARGIN, count * LINE + 2 * MARGIN
    drawn = [part for y in range(count) for part in line_elements(screen, y)]
    if shown:
        drawn.append(_rect(screen.cursor.x, screen.cursor.y, 1, 'class="default" opacity="0.5"'))
    size = f'width="{width:.0f}" height="{height}" viewBox="0 0 {width:.0f} {height}"'
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{style(palette)}</style>",
            f'<rect class="frame" x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1}" rx="8"/>',
            *drawn,
            "</svg>\n",
        )
    )


def write_png(svg: str, path: Path, *, chromium: str | None = None) -> None:
    """Draw an SVG document of `picture` as a PNG of twice its size.

    Raises:
        FileNotFoundError: There is no Chromium.
        subprocess.CalledProcessError: Chromium failed.
    """
    program = chromium or os.environ.get("TOOLCAST_CHROMIUM") or which("chromium") or which("google-chrome")
    if program is None:
        raise FileNotFoundError("no Chromium found; set TOOLCAST_CHROMIUM to its path")
    found = re.search(r'width="(\d+)" height="(\d+)"', svg)
    assert found is not None
    with TemporaryDirectory() as name:
        page = Path(name, "page.html")
        page.write_text(f'<meta charset="utf-8"><style>*{{margin:0}}</style>{svg}', encoding="utf-8")
        options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=2")
        size = f"--window-size={found[1]},{found[2]}"
        command = [program, *options, f"--user-data-dir={name}/profile", size, f"--screenshot={path.resolve()}"]
        subprocess.run([*command, page.as_uri()], check=True, capture_output=True)


def _dim_as_blink(attrs: Sequence[int]) -> Iterator[int]:
    """Yield the parameters of an SGR sequence with dim (2) as blink (5), and the end of bold and dim as that of all."""
    rest = list(attrs)
    while rest:
        number = rest.pop(0)
        if number in (38, 48):
            count = _EXTENDED.get(str(rest[0]), 0) if rest else 0
            yield from (number, *rest[:count])
            del rest[:count]
        else:
            yield from {2: (5,), 22: (22, 25)}.get(number, (number,))


def line_elements(screen: pyte.Screen, y: int, at: int | None = None) -> Iterator[str]:
    """Yield the elements of a line: backgrounds first, or they would cover the ends of letters.

    `at`: the line of the picture, by default that of the screen.
    """
    row, at = screen.buffer[y], y if at is None else at
    cells = [(x, row[x], row[x + 1].data == "") for x in range(screen.columns) if row[x].data]
    runs = [(look, list(run)) for look, run in groupby(cells, lambda cell: _look(cell[1], is_wide=cell[2]))]
    for look, run in runs:
        if look.background != "default":
            yield _rect(run[0][0], at, len(run) * (1 + look.is_wide), _fill(look.background))
    for look, run in runs:
        # A wide character is placed on its own: its glyph may come from a font with another width.
        for part in [[cell] for cell in run] if look.is_wide else [run]:
            text = "".join(cell.data for _, cell, _ in part)
            indent = len(text) - len(text.lstrip())
            length = sum(1 + is_wide for _, _, is_wide in part[indent:]) - (len(text) - len(text.rstrip()))
            if text.strip() or look.underscore:
                yield _text(part[0][0] + indent, at, length, text.strip() or text, look)


def _look(cell: Any, *, is_wide: bool) -> Look:
    colours = (_name(cell.fg), _name(cell.bg))
    if cell.reverse:
        colours = ("background" if colours[1] == "default" else colours[1], colours[0])
        colours = (colours[0], "reversed" if colours[1] == "default" else colours[1])
    return Look(*colours, cell.bold, cell.italics, cell.underscore, cell.strikethrough, cell.blink, is_wide)


def _name(colour: str) -> str:
    """Return the name of a colour, or its six hexadecimal digits."""
    return _SIXTEEN.get(colour, colour.replace("bfight", "bright"))  # pyte 0.8 misspells one name


def _fill(colour: str) -> str:
    return f'fill="#{colour}"' if re.fullmatch("[0-9a-f]{6}", colour) else f'class="{colour}"'


def _rect(x: int, y: int, columns: int, fill: str) -> str:
    return (
        f'<rect x="{MARGIN + x * CELL:.1f}" y="{MARGIN + y * LINE}" width="{columns * CELL:.1f}" height="{LINE}" '
        f"{fill}/>"
    )


def _text(x: int, y: int, columns: int, text: str, look: Look) -> str:
    marks = ("bold", "italics", "underscore", "strikethrough", "dim")
    classes = [mark for mark in marks if getattr(look, mark)]
    fill = _fill(look.colour)
    named = fill[7:-1] if fill.startswith("class") else ""
    shown = f'class="{" ".join(filter(None, (named, *classes)))}"' + ("" if named else f" {fill}")
    spacing = "spacing" if look.is_wide else "spacingAndGlyphs"
    return (
        f'<text x="{MARGIN + x * CELL:.1f}" y="{MARGIN + y * LINE + BASELINE}" textLength="{columns * CELL:.1f}" '
        f'lengthAdjust="{spacing}" {shown}>{escape(text, quote=False)}</text>'
    )


def style(palette: Palette | None) -> str:
    """Return the style sheet of a picture."""
    base = (
        f"  text {{ font: {FONT}; white-space: pre }}\n"
        "  .bold { font-weight: 700 } .italics { font-style: italic } .dim { opacity: 0.65 }\n"
        "  .underscore { text-decoration: underline } .strikethrough { text-decoration: line-through }\n"
        "  .underscore.strikethrough { text-decoration: underline line-through }\n"
    )
    if palette:
        return base + _rules(palette)
    dark = "".join(f"  {line}\n" for line in _rules("dark").splitlines())
    return f"{base}{_rules('light')}  @media (prefers-color-scheme: dark) {{\n{dark}  }}\n"


def _rules(palette: Palette) -> str:
    colours = COLOURS[palette]
    frame = f"  .frame {{ fill: {colours['background']}; stroke: {colours['frame']} }}\n"
    rules = [f"  .{name} {{ fill: {value} }}\n" for name, value in colours.items() if name != "frame"]
    return "".join((frame, *rules, f"  .reversed {{ fill: {colours['default']} }}\n"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the picture that the command line describes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("output", help="what a program wrote to its terminal; - is stdin")
    parser.add_argument("picture", type=Path, help="the file to write: .svg or .png")
    parser.add_argument("--columns", type=int, default=80)
    parser.add_argument("--rows", type=int, default=24)
    parser.add_argument("--palette", choices=tuple(COLOURS))
    parser.add_argument("--title", default="")
    parser.add_argument("--cursor", action="store_true", help="draw the cursor")
    options = parser.parse_args(arguments)
    data = sys.stdin.buffer.read() if options.output == "-" else Path(options.output).read_bytes()
    screen = emulate(data.decode("utf-8", "replace"), options.columns, options.rows)
    svg = picture(screen, options.title, palette=options.palette, cursor=options.cursor)
    if options.picture.suffix == ".png":
        write_png(svg, options.picture)
    else:
        options.picture.write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
