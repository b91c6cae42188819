"""The report of experiments in a real Chromium: from a file, without a network, on a phone, in the dark, on paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.run_logs import REFLECTIONS, whole_run
from toolcast.experiments.pei.results import PEIResult, ResultsFile
from toolcast.experiments.report.page import report_on

sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright, run `nox -s browser`: NOT TESTED HERE")
pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'toolcast[report]'")
expect = sync_api.expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    Opened = Callable[..., Page]

EVIL = "<script>document.title = 'taken'</script><img src='http://example.org/x.png' onerror='document.title = 1'>"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of two runs, one of which tries to be more than text."""
    folder = tmp_path_factory.mktemp("runs")
    one = whole_run(folder / "sea.jsonl", "sea", [REFLECTIONS[number % 3] + EVIL for number in range(12)])
    other = whole_run(folder / "land.jsonl", "land", tokens=400)
    file = ResultsFile(folder / "pei_results.jsonl")
    for run, evaluator, rating in (
        ("sea", "local:smollm2", 3),
        ("sea", "<b>bold</b>", 5),
        ("land", "local:smollm2", 4),
    ):
        file.add(PEIResult(run, evaluator, rating, "", ""))
    return report_on([one, other], embedder="words").write(folder / "report", png=False)[0]


@pytest.fixture
def opened(browser: Browser, report: Path) -> Iterator[Opened]:
    """Opens the page in a browser without a network. After it, nothing may have gone wrong or been asked for."""
    complaints, contexts = list[str](), ExitStack()

    def open_page(width: int = 1200, scheme: str = "light") -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,  # type: ignore[arg-type]  # "light" or "dark"
            offline=True,
        )
        contexts.callback(context.close)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: complaints.extend([request.url] if _is_elsewhere(request.url) else []))
        page.goto(report.as_uri())
        return page

    def _is_elsewhere(url: str) -> bool:
        return url != report.as_uri() and not url.startswith("data:")

    with contexts:
        yield open_page
    assert complaints == []


def test_the_page_opens_and_what_a_model_wrote_is_text(opened: Opened) -> None:
    page = opened()
    expect(page).to_have_title("2 experiments")
    assert page.locator("script, img, iframe, b").count() == 0
    assert page.get_by_role("img").count() == 2 + 6 + 6
    expect(page.get_by_role("rowheader", name="<b>bold</b>").first).to_be_visible()


def test_reflections_are_folded_and_open(opened: Opened) -> None:
    page = opened()
    run = page.get_by_role("region", name="sea", exact=True)
    words = run.locator("details .words", has_text="Primes thin out").first
    expect(words).to_be_hidden()
    run.get_by_text("Cycle 2: ").click()
    expect(words).to_be_visible()
    expect(words).to_contain_text(EVIL)
    run.get_by_text("Configuration").click()
    expect(run.get_by_text('"temperature": 0.7')).to_be_visible()


def test_links_lead_to_their_sections(opened: Opened) -> None:
    page = opened()
    page.get_by_role("navigation").get_by_role("link", name="land").click()
    expect(page.get_by_role("heading", name="land", exact=True)).to_be_in_viewport()


@pytest.mark.parametrize("width", [320, 375, 768, 1200])
def test_nothing_is_wider_than_the_screen(opened: Opened, width: int) -> None:
    page = opened(width)
    for fold in page.locator("details").all():
        fold.evaluate("fold => { fold.open = true }")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    table = page.get_by_role("region", name="What happened in each cycle").first
    assert table.evaluate("box => box.scrollWidth > box.clientWidth") == (width < 1000)


def test_the_comparison_hides_no_column_on_a_common_screen(browser: Browser, tmp_path: Path) -> None:
    names = ("contreact_smollm2_temperature_0.7_seed_5_full", "grid-run-anthropic-claude-sonnet-4-5-seed-1")
    logs = [whole_run(tmp_path / f"{name}.jsonl", name) for name in names]
    file = ResultsFile(tmp_path / "pei_results.jsonl")
    for name in names:
        file.add(PEIResult(name, "openrouter:anthropic/claude-sonnet-4-5", 4, "", ""))
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    try:
        page.goto(report_on(logs, embedder="words").write(tmp_path / "report", png=False)[0].as_uri())
        tables = page.get_by_role("region", name="Comparison").locator(".wide")
        assert tables.count() >= 4
        assert tables.evaluate_all("all => all.filter(box => box.scrollWidth > box.clientWidth).length") == 0
    finally:
        page.close()


def test_a_table_scrolls_by_keyboard(opened: Opened) -> None:
    page = opened(375)
    table = page.get_by_role("region", name="What happened in each cycle").first
    table.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("box => box.scrollLeft > 0", arg=table.element_handle())


@pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])
def test_pictures_take_the_colours_of_the_page(opened: Opened, scheme: str, dark: bool) -> None:
    page = opened(scheme=scheme)
    colour = "element => getComputedStyle(element).{}.match(/\\d+/g).slice(0, 3).reduce((sum, part) => sum + +part, 0)"
    picture = page.locator(".picture svg").first
    paper = picture.locator("path").first.evaluate(colour.format("fill"))
    ink = picture.locator("text").first.evaluate(colour.format("fill"))
    assert (paper < ink) == dark and abs(paper - ink) > 250


def test_on_paper_everything_is_unfolded(opened: Opened) -> None:
    page = opened()
    page.emulate_media(media="print")
    expect(page.get_by_role("navigation")).to_be_hidden()
    words = page.locator("details .words", has_text="Primes thin out").first
    assert words.evaluate("element => element.checkVisibility({contentVisibilityAuto: true})")
    assert page.pdf(format="A4").startswith(b"%PDF")
