"""A picture: the same bytes every time, no head, the page's colours, and text that is text."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest

from support.process import Process
from toolcast.experiments.report.chart_data import COLOURS
from toolcast.experiments.report.chart_rendering import GRID, INK, PAPER, Picture, contrasting, label, labels
from toolcast.experiments.report.chart_specs import Chart

pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'toolcast[report]'")


def draw(figure: Any) -> None:
    axes = figure.subplots()
    axes.plot([1, 2], [3, 4], "o-", color=COLOURS[0], label="one")
    axes.set_title("a $b$ <c> & ]]> #ffffff")
    axes.imshow([[0.1, 0.2], [0.3, 0.4]], interpolation="none")
    axes.legend()


PICTURE = Picture("mine", 'What "it" <shows>', 3.0, draw)


@pytest.mark.slow
def test_the_same_figures_make_the_same_bytes() -> None:
    assert PICTURE.svg() == PICTURE.svg()
    assert PICTURE.png() == PICTURE.png()


def test_the_png_is_1800_pixels_wide_and_has_no_metadata() -> None:
    png = PICTURE.png()
    assert png.startswith(b"\x89PNG") and int.from_bytes(png[16:20]) == 1800
    assert b"Software" not in png and b"matplotlib" not in png.lower()


def test_the_svg_is_a_part_of_a_page() -> None:
    svg = PICTURE.svg()
    root = ElementTree.fromstring(svg)
    lines = {"stroke-linejoin": "round", "stroke-linecap": "butt"}
    assert root.attrib == {"viewBox": "0 0 648 216", "role": "img", "aria-label": 'What "it" <shows>', **lines}
    assert not re.search(r"<\?|<!|xmlns|metadata|<style|font-family|http", svg)
    texts = [each.text for each in root.iter("text")]
    assert "a $b$ <c> & ]]> #ffffff" in texts and "one" in texts
    (image,) = root.iter("image")
    assert image.attrib["href"].startswith("data:image/png;base64,") and " " not in image.attrib["href"]


def test_its_ids_are_its_own_and_every_one_is_used() -> None:
    svg = PICTURE.svg()
    ids = set(re.findall(r' id="([^"]*)"', svg))
    used = {*re.findall(r'href="#([^"]*)"', svg), *re.findall(r"url\(#([^)]*)\)", svg)}
    assert ids and ids == used and all(each.startswith("mine-") for each in ids)
    assert "other-" in Picture("other", "", 3.0, draw).svg()


def test_its_colours_are_the_page_s() -> None:
    svg = PICTURE.svg()
    styles = " ".join(re.findall(r' (?:fill|stroke)="([^"]*)"', svg))
    assert "var(--words)" in styles and "var(--front)" in styles and "var(--line)" in styles
    assert COLOURS[0] in styles and not any(colour in styles for colour in (INK, PAPER, GRID))
    assert "style=" not in svg  # which the page's policy forbids


def test_its_title_stands_above_it() -> None:
    titled = replace(PICTURE, title="a <run> " + "x" * 100)
    svg = titled.svg()
    assert 'aria-label="a &lt;run&gt; xxx' in svg and 'viewBox="0 0 648 237.6"' in svg
    assert re.search(r">a &lt;run&gt; x+…x+</text>", svg)
    assert int.from_bytes(titled.png()[20:24]) == 660


def test_its_interactive_form() -> None:
    assert PICTURE.json() == ""
    drawn = replace(PICTURE, chart=lambda: Chart([], [("k", "#000")]), title="run")
    assert drawn.json() == '{"key":[["k","#000"]],"panels":[],"runs":[],"title":"run"}'


def test_drawing_leaves_matplotlib_as_it_was() -> None:
    import matplotlib

    before = matplotlib.rcParams.copy()
    PICTURE.svg()
    assert [key for key in before if key != "backend" and matplotlib.rcParams[key] != before[key]] == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("write", "write"),
        ("a\nb\x1b\u202e", "a b\\x1b\\u202e"),
        ("grid-model_options.temperature_0.7-seed_12", "grid-model_op…re_0.7-seed_12"),
        ("\u6d77 \U0001f984", "\u25a1 \u25a1"),
        ("\ud800", "\\ud800"),
        ("Größe Ω", "Größe Ω"),
        ("", "(no name)"),
        (" \n", "(no name)"),
    ],
)
def test_a_label_is_short_and_in_signs_that_the_font_has(text: str, shown: str) -> None:
    assert label(text) == shown

    def titled(figure: Any) -> None:
        figure.subplots().set_title(label(text))

    assert Picture("p", text, 2.0, titled).png()  # matplotlib warns of a sign that it cannot draw


def test_labels_of_names_that_differ_in_the_middle_are_different() -> None:
    assert labels(["sea", "land"]) == {"sea": "sea", "land": "land"}
    names = [f"grid-model_options.temperature_0.7-seed_{seed}-system_prompt_of_the_run" for seed in (1, 12, 3)]
    assert [*labels(names).values()] == ["…-seed_1-syste…", "…-seed_12-syste…", "…-seed_3-syste…"]
    short = ["x" * 40 + "tail" * 10, "x" * 40 + "y" + "tail" * 10]
    assert len({*labels(short).values()}) == 2
    assert labels(["same", "same"]) == {"same": "same"}


def test_what_is_written_on_a_colour_can_be_read() -> None:
    assert contrasting("#f7fbff") == "#000000"
    assert contrasting("#08306b") != contrasting("#f7fbff")


def test_without_matplotlib_the_error_reports_what_to_install(process: Process) -> None:
    process.without("matplotlib.figure")
    for make in (PICTURE.svg, PICTURE.png):
        with pytest.raises(ImportError, match=r"pip install 'toolcast\[report\]'"):
            make()
