"""Draw the gallery: every screen of the terminal and of the page, in `docs/images/gallery/`, and its page.

    python docs/gallery.py [NAME ...] [--png FOLDER]

Each scene runs the real command in a pseudo-terminal of 40, 80 and 120 columns, or the page in a Chromium of 390 and
1280 pixels, light and dark, with a scripted model. `NAME` draws some scenes only; `--png` also writes each scene of
a terminal as two PNG, light and dark, with its widths side by side, to look at. Needs toolcast[cli,web], pexpect, pyte,
playwright and Chromium.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import gallery_page
import gallery_terminal
from terminal_picture import COLOURS, picture

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from pyte import Screen

DOCS: Final = Path(__file__).resolve().parent
IMAGES: Final = DOCS / "images" / "gallery"
PAGE: Final = DOCS / "reference" / "gallery.md"
SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")

_INTRODUCTION: Final = """\
# Gallery: the screens of the terminal and the page

Every screen of [the REPL](../how-to/repl.md), of [the command line](command-line.md) and of
[the web page](../how-to/web.md), drawn by `python docs/gallery.py` from the real programs with a scripted model.
"""


def draw_terminals(names: Sequence[str], png: Path | None) -> list[str]:
    """Draw scenes in terminals, and return those that failed."""
    failed = []
    with nullcontext() if png is None or not names else gallery_page.chromium() as browser:
        for name in names:
            scene = gallery_terminal.SCENES[name]
            screens: list[Screen] = []
            for columns in gallery_terminal.WIDTHS:
                with gallery_terminal.terminal(columns) as shown:
                    try:
                        scene.script(shown)
                    except AssertionError as error:
                        print(f"{name} at {columns} columns: {error}", file=sys.stderr)
                        failed.append(f"{name}-{columns}")
                    screens.append(shown.screen)
                    svg = picture(shown.screen, scene.title, cursor=True)
                    (IMAGES / f"{name}-{columns}.svg").write_text(svg, encoding="utf-8")
            if browser is not None and png is not None:
                _write_sheets(browser, screens, png / name)
    return failed


def _write_sheets(browser: Browser, screens: Sequence[Screen], path: Path) -> None:
    """Write the screens side by side, in each palette."""
    for palette in COLOURS:
        tab = browser.new_page(viewport={"width": 2300, "height": 200})
        drawn = "".join(picture(screen, palette=palette, cursor=True) for screen in screens)
        tab.set_content(f'<meta charset="utf-8"><div style="display: flex; align-items: start">{drawn}</div>')
        tab.screenshot(path=f"{path}-{palette}.png", full_page=True)
        tab.close()


def draw_pages(names: Sequence[str]) -> list[str]:
    """Draw scenes on the page, and return those that failed."""
    failed = []
    if not names:
        return failed
    with gallery_page.chromium() as browser:
        for name in names:
            for width in gallery_page.SIZES:
                with gallery_page.page(browser, width) as shown:
                    try:
                        gallery_page.SCENES[name].script(shown)
                    except Exception as error:  # a locator's time limit, or a changed page: the others are drawn
                        print(f"{name} at {width} pixels: {error}", file=sys.stderr)
                        failed.append(f"{name}-{width}")
                    for scheme in SCHEMES:
                        (IMAGES / f"{name}-{width}-{scheme}.png").write_bytes(shown.picture(scheme))
    return failed


def gallery() -> str:
    """Return the page with all pictures."""
    return "\n".join((_INTRODUCTION, "## Terminal\n", *_terminal_sections(), "## Page\n", *_page_sections()))


def _terminal_sections() -> Iterator[str]:
    for name, title, _ in gallery_terminal.SCENES.values():
        yield f"### {title}\n"
        for columns in gallery_terminal.WIDTHS:
            yield f"![{title}, {columns} columns](../images/gallery/{name}-{columns}.svg)\n"


def _page_sections() -> Iterator[str]:
    for name, title, _ in gallery_page.SCENES.values():
        yield f"### {title} (page)\n"
        for width in gallery_page.SIZES:
            shape = "{ width=300 }" if width < 700 else "{ width=900 }"
            for scheme in SCHEMES:
                image = f"../images/gallery/{name}-{width}-{scheme}.png"
                yield f"![{title}, {width} pixels, {scheme}]({image}){shape}\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the gallery, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenes; default: all of them")
    parser.add_argument("--png", type=Path, metavar="FOLDER", help="also write the terminals as PNG")
    options = parser.parse_args(arguments)
    IMAGES.mkdir(parents=True, exist_ok=True)
    if options.png is not None:
        options.png.mkdir(parents=True, exist_ok=True)
    names = options.names or [*gallery_terminal.SCENES, *gallery_page.SCENES]
    if unknown := [name for name in names if name not in {*gallery_terminal.SCENES, *gallery_page.SCENES}]:
        parser.error(f"no scene is named {', '.join(unknown)}")
    failed = draw_terminals([name for name in names if name in gallery_terminal.SCENES], options.png)
    failed += draw_pages([name for name in names if name in gallery_page.SCENES])
    PAGE.write_text(gallery(), encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
