"""The report of experiments in a real Chromium: from a file, without a network, on a phone, in the dark, on paper."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from browser.axe import findings, looks
from support.run_logs import REFLECTIONS, whole_run
from toolcast.experiments.pei.agreement import PEIResult
from toolcast.experiments.pei.assessment_files import ResultsFile
from toolcast.experiments.report.page import report_on

sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright, run `nox -s browser`: NOT TESTED HERE")
pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'toolcast[report]'")
expect = sync_api.expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

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

    def open_page(width: int = 1200, scheme: str = "light", *, scripts: bool = True, at: str = "") -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,  # type: ignore[arg-type]  # "light" or "dark"
            offline=True,
            java_script_enabled=scripts,
        )
        contexts.callback(context.close)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: complaints.extend([request.url] if _is_elsewhere(request.url) else []))
        page.add_init_script("addEventListener('securitypolicyviolation', (it) => console.error(it.violatedDirective))")
        page.goto(report.as_uri() + at)
        return page

    def _is_elsewhere(url: str) -> bool:
        return url.partition("#")[0] != report.as_uri() and not url.startswith("data:")

    with contexts:
        yield open_page
    assert complaints == []


def test_the_page_opens_and_what_a_model_wrote_is_text(opened: Opened) -> None:
    page = opened()
    expect(page).to_have_title("2 experiments")
    assert page.locator("img, iframe, main b").count() == 0
    assert page.locator("script:not([type])").count() == 2
    assert page.locator("figure.chart").count() == page.locator("svg[role=img]").count() == 2 + 6 + 6
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


@pytest.mark.parametrize("width", [320, 375, 768, 1280])
def test_nothing_is_wider_than_the_screen(opened: Opened, width: int) -> None:
    page = opened(width)
    for fold in page.locator("details").all():
        fold.evaluate("fold => { fold.open = true }")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    table = page.get_by_role("group", name="What happened in each cycle").first
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
    table = page.get_by_role("group", name="What happened in each cycle").first
    table.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("box => box.scrollLeft > 0", arg=table.element_handle())


@pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])
@pytest.mark.parametrize("scripts", [True, False])
def test_charts_take_the_colours_of_the_page(opened: Opened, scheme: str, dark: bool, scripts: bool) -> None:
    page = opened(scheme=scheme, scripts=scripts)
    colour = "element => getComputedStyle(element).{}.match(/\\d+/g).slice(0, 3).reduce((sum, part) => sum + +part, 0)"
    chart = page.locator(".plot svg" if scripts else ".picture svg").first
    expect(chart).to_be_visible()
    paper = page.locator(".run").first.evaluate(colour.format("backgroundColor"))
    ink = chart.locator("text").first.evaluate(colour.format("fill"))
    assert (paper < ink) == dark and abs(paper - ink) > 250


def plot(page: Page, title: str) -> Locator:
    """Return the panel with this title, drawn."""
    found = page.locator(".plot").filter(has=page.locator("svg", has_text=title)).first
    page.locator("figure.chart").last.wait_for(state="attached")
    for figure in page.locator("figure.chart").all():
        if found.count():
            break
        figure.scroll_into_view_if_needed()
        figure.locator(".plot svg").first.wait_for()
    found.scroll_into_view_if_needed()
    return found


def test_without_scripts_the_charts_are_pictures(opened: Opened) -> None:
    page = opened(scripts=False)
    assert page.get_by_role("img").count() == 2 + 6 + 6
    assert page.locator(".plot, .picker").count() == 0
    page.close()


CHARTS = (
    ("seconds per cycle", ("cycle", "land", "sea")),
    ("keys in memory at the end of a cycle", ("cycle", "land", "sea")),
    ("input tokens per cycle", ("cycle", "input")),
    ("memory operations per cycle", ("cycle", "write")),
    ("calls of each tool", ("tool", "calls", "errors")),
    ("cosine similarity", ("cycle", "and cycle", "similarity")),
    ("PEI ratings", ("run", "evaluator", "level")),
)


@pytest.mark.parametrize(("title", "names"), CHARTS, ids=[title for title, _ in CHARTS])
def test_the_pointer_and_the_keyboard_show_the_values(opened: Opened, title: str, names: tuple[str, ...]) -> None:
    page = opened()
    panel = plot(page, title)
    tip = page.locator(".tip")
    expect(tip).to_be_hidden()
    panel.locator(".band_marks path").first.hover()
    expect(tip).to_be_visible()
    shown = {*tip.locator("div > span").all_inner_texts()}
    assert {*names} <= shown
    page.mouse.move(1, 1)
    expect(tip).to_be_hidden()
    panel.focus()
    page.keyboard.press("End")
    expect(tip).to_be_visible()
    last = tip.inner_text()
    page.keyboard.press("ArrowLeft")
    expect(tip).not_to_have_text(last)
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()


def test_values_are_those_of_the_log(opened: Opened) -> None:
    page = opened()
    panel = plot(page, "seconds per cycle")
    panel.focus()
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    assert page.locator(".tip").inner_text().split() == ["cycle", "2", "sea", "6", "land", "6"]
    page.keyboard.press("End")  # the longer of the two runs goes on alone
    assert page.locator(".tip").inner_text().split() == ["cycle", "12", "sea", "4"]


def test_the_runs_that_are_shown_are_chosen(opened: Opened) -> None:
    page = opened()
    page.get_by_role("checkbox", name="land").uncheck()
    expect(page.get_by_role("region", name="land", exact=True)).to_be_hidden()
    expect(page.get_by_role("region", name="sea", exact=True)).to_be_visible()
    assert page.evaluate("location.hash") == "#runs=sea"
    expect(page.get_by_role("navigation").get_by_role("link", name="land")).to_be_hidden()
    expect(page.get_by_role("rowheader", name="land")).to_have_count(0)
    panel = plot(page, "seconds per cycle")
    panel.focus()
    page.keyboard.press("Home")
    assert page.locator(".tip").inner_text().split() == ["cycle", "1", "sea", "5"]
    page.get_by_role("button", name="None").click()
    assert page.evaluate("location.hash") == "#runs="
    expect(page.get_by_role("region", name="sea", exact=True)).to_be_hidden()
    page.get_by_role("button", name="All").click()
    assert page.evaluate("location.hash") == ""
    expect(page.get_by_role("region", name="land", exact=True)).to_be_visible()


def test_the_choice_is_made_by_keyboard(opened: Opened) -> None:
    page = opened()
    page.get_by_role("checkbox", name="sea").focus()
    page.keyboard.press("Space")
    expect(page.get_by_role("region", name="sea", exact=True)).to_be_hidden()
    page.keyboard.press("Tab")
    expect(page.get_by_role("checkbox", name="land")).to_be_focused()


def test_the_choice_is_in_the_address(opened: Opened) -> None:
    page = opened(at="#run-sea&runs=sea")
    expect(page.get_by_role("checkbox", name="land")).not_to_be_checked()
    expect(page.get_by_role("heading", name="sea", exact=True)).to_be_in_viewport()
    page.get_by_role("navigation").get_by_role("link", name="Comparison").click()
    expect(page.get_by_role("heading", name="Comparison")).to_be_in_viewport()
    assert page.evaluate("location.hash") == "#comparison&runs=sea"
    page.go_back()
    expect(page.get_by_role("heading", name="sea", exact=True)).to_be_in_viewport()
    expect(page.get_by_role("checkbox", name="land")).not_to_be_checked()


def test_charts_follow_the_width_of_the_screen(opened: Opened) -> None:
    page = opened()
    panel = plot(page, "seconds per cycle")
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function(
        "box => box.firstElementChild.getBoundingClientRect().width <= box.clientWidth", arg=panel.element_handle()
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_labels_of_an_axis_do_not_overlap_on_a_phone(opened: Opened) -> None:
    page = opened(390)
    for title in ("seconds per cycle", "PEI ratings", "cosine similarity"):
        panel = plot(page, title)
        boxes = panel.locator(".role-axis-label text").evaluate_all(
            "all => all.filter(it => it.getAttribute('opacity') !== '0').map(it => it.getBoundingClientRect().toJSON())"
        )
        assert boxes
        for one, other in itertools.combinations(boxes, 2):
            apart = one["right"] <= other["left"] or other["right"] <= one["left"]
            assert apart or one["bottom"] <= other["top"] or other["bottom"] <= one["top"]


def test_on_paper_everything_is_unfolded(opened: Opened) -> None:
    page = opened()
    page.locator(".plot svg").first.wait_for()
    page.emulate_media(media="print")
    expect(page.locator(".picture svg").first).to_be_visible()
    expect(page.locator(".plot, .picker").first).to_be_hidden()
    expect(page.get_by_role("navigation")).to_be_hidden()
    words = page.locator("details .words", has_text="Primes thin out").first
    assert words.evaluate("element => element.checkVisibility({contentVisibilityAuto: true})")
    assert page.pdf(format="A4").startswith(b"%PDF")


@pytest.fixture(scope="module")
def three_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of three runs of different length, two of which are equal as far as both go."""
    folder = tmp_path_factory.mktemp("three")
    long = "contreact_smollm2_temperature_0.7_seed_5_full_history"
    cycles = {"calm": 12, long: 26, "short": 8}
    logs = [
        whole_run(folder / f"{name}.jsonl", name, [REFLECTIONS[at % 3] for at in range(count)], 60 + 9 * count)
        for name, count in cycles.items()
    ]
    file = ResultsFile(folder / "pei_results.jsonl")
    for run, evaluator, rating in (
        ("calm", "a", 3),
        ("calm", "b", 5),
        (long, "a", 4),
        (long, "b", 4),
        ("short", "a", 7),
    ):
        file.add(PEIResult(run, f"local:{evaluator}", rating, "", ""))
    return report_on(logs, embedder="words").write(folder / "report", png=False)[0]


@pytest.mark.nightly
@looks
def test_pictures_for_the_documentation(
    browser: Browser, three_runs: Path, tmp_path: Path, width: int, scheme: Literal["light", "dark"]
) -> None:
    """With TOOLCAST_SCREENSHOTS they are written there. No two labels overlap, and axe-core finds nothing."""
    folder = Path(os.environ.get("TOOLCAST_SCREENSHOTS") or tmp_path)
    name = f"experiment-comparison-{width}-{scheme}.png"
    context = browser.new_context(viewport={"width": width, "height": 820}, color_scheme=scheme, offline=True)
    try:
        page = context.new_page()
        page.goto(three_runs.as_uri())
        panel = plot(page, "seconds per cycle")
        panel.evaluate("box => box.scrollIntoView({block: 'end'})")
        panel.locator(".band_marks path").nth(5).hover()
        expect(page.locator(".tip")).to_be_visible()
        page.screenshot(path=folder / name, animations="disabled")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert findings(page) == []
    finally:
        context.close()
    assert 10_000 < (folder / name).stat().st_size < 200_000
