"""The picker of models and the switch of modes in the header."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from browser.many_chats import ManyChats, many_chats

sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright, run `nox -s browser`: NOT TESTED HERE")
expect = sync_api.expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    Tab = Callable[[str], Page]


def opened(tab: Tab, chats: ManyChats) -> Page:
    page = tab(f"{chats.url}#c1")
    expect(page.locator("#state")).to_have_attribute("data-state", "ready")
    return page


def options(page: Page) -> Locator:
    return page.get_by_role("listbox", name="Models").get_by_role("option")


def test_models_are_listed_by_provider_searched_and_loaded(tab: Tab) -> None:
    with many_chats() as chats:
        page = opened(tab, chats)
        page.get_by_role("button", name="Model test:held").click()
        search = page.get_by_role("combobox", name="Model")
        expect(search).to_be_focused()
        expect(options(page)).to_have_count(3)
        expect(page.locator(".provider")).to_have_text(["test", "ollama"])
        expect(options(page).nth(0)).to_contain_text("test:held · 200k tokens · $3 / $15 per million")
        expect(options(page).nth(0)).to_contain_text("in use")
        expect(options(page).nth(0)).to_have_attribute("aria-selected", "true")
        expect(page.locator("#picker-note")).to_contain_text("openai no key: set OPENAI_API_KEY")
        search.fill("qwen 8b")
        expect(options(page)).to_have_count(2)
        expect(options(page).nth(1)).to_contain_text("Use “qwen 8b”")
        search.fill("")
        page.keyboard.press("ArrowDown")
        expect(options(page).nth(1)).to_have_attribute("aria-selected", "true")
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog")).to_be_hidden()
        expect(page.get_by_role("button", name="Model test:other")).to_be_visible()
        assert chats.dispatched == [("c1", {"type": "LOAD_MODEL", "model_id": "test:other"})]


@pytest.mark.parametrize(
    ("typed", "note"),
    [
        ("openai:gpt-x", "a name in the form provider:model"),
        ("weights/tiny.gguf", "a model file"),
        ("nonsense", 'taken for the Ollama model "nonsense"; write provider:model, for example openai:gpt-4o'),
        (
            "openai/gpt-4o",
            'taken for the Ollama model "openai/gpt-4o"; write provider:model, for example openai:gpt-4o',
        ),
        ("hf.co/a/b:q4", 'taken for the Ollama model "hf.co/a/b:q4"; write provider:model, for example openai:gpt-4o'),
    ],
)
def test_a_typed_name_is_shown_with_what_it_is_taken_for(tab: Tab, typed: str, note: str) -> None:
    with many_chats() as chats:
        page = opened(tab, chats)
        page.keyboard.press("Control+Shift+M")
        page.get_by_role("combobox", name="Model").fill(typed)
        expect(options(page).last.locator(".option-note")).to_have_text(note)


def test_a_model_that_cannot_be_used_is_not_loaded(tab: Tab) -> None:
    with many_chats() as chats:
        page = opened(tab, chats)
        page.keyboard.press("Control+Shift+M")
        search = page.get_by_role("combobox", name="Model")
        search.fill("gibberish:")
        expect(options(page)).to_have_count(1)
        page.keyboard.press("Enter")
        expect(page.locator("#picker-error")).to_have_text("gibberish is no provider")
        taken = "'nonsense' names no provider, and was taken for a model of Ollama"
        refused = {
            "nonsense": (
                f"{taken}: no connection to 127.0.0.1:11434: Connection refused. Is base_url right?",
                f"{taken}, which does not answer. Start it (ollama serve), or write provider:model.",
            ),
            "openai:x": (
                "no API key for openai: set OPENAI_API_KEY, or pass api_key=. Nothing was sent.",
                "no API key for openai: set OPENAI_API_KEY, or run: toolcast config set-key openai. Nothing was sent.",
            ),
            "openai:y": (
                "openai gpt-x: the service refused the key (401). Set OPENAI_API_KEY to a valid key, or pass api_key=.",
                "openai gpt-x: the service refused the key (401). Set OPENAI_API_KEY to a valid key, or run: "
                "toolcast config set-key openai.",
            ),
        }
        for name, (error, shown) in refused.items():
            chats.refused_models[name] = error
            search.fill(name)
            page.keyboard.press("Enter")
            expect(page.locator("#picker-error")).to_have_text(shown)
        search.fill("test:any")
        expect(page.locator("#picker-error")).to_have_text("")
        page.keyboard.press("Escape")
        expect(page.get_by_role("button", name="Model test:held")).to_be_visible()
        assert chats.dispatched == []


def test_a_model_that_could_not_be_loaded_is_not_in_use(tab: Tab) -> None:
    with many_chats() as chats:
        page = opened(tab, chats)
        chats.do(lambda: chats.chats["c1"].set("load_failed", model="test:held"))
        expect(page.locator("#state")).to_have_attribute("data-state", "load_failed")
        page.get_by_role("button", name="Model test:held").click()
        expect(options(page).nth(0)).to_contain_text("could not be loaded")
        expect(options(page).nth(0)).not_to_contain_text("in use")


def test_the_mode_is_shown_and_switched(tab: Tab) -> None:
    with many_chats() as chats:
        page = opened(tab, chats)
        page.get_by_role("button", name="Mode build").click()
        expect(page.get_by_role("menuitemradio", name="build")).to_be_focused()
        expect(page.get_by_role("menuitemradio", name="build")).to_be_checked()
        expect(page.get_by_role("menu")).to_contain_text("Reads files, and changes nothing")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name="Mode plan")).to_be_focused()
        assert chats.dispatched == [("c1", {"type": "SET_MODE", "mode": "plan"})]
        page.get_by_role("button", name="Mode plan").click()
        page.mouse.click(700, 500)
        expect(page.get_by_role("menu")).to_have_count(0)


def test_the_tools_that_are_offered_are_shown_before_the_first_message_and_a_mode_without_tools_is_none(
    tab: Tab,
) -> None:
    with many_chats() as chats:
        page = opened(tab, chats)
        first = chats.chats["c1"]
        page.get_by_role("button", name="Details").click()
        chats.do(lambda: first.set("ready", offered_tools=["read_file"]))
        expect(page.locator("#fact-tools")).to_have_text("read_file")
        expect(page.locator("#fact-allowed")).to_be_hidden()
        chats.do(lambda: first.set("ready", offered_tools=[], mode=None))
        expect(page.locator("#fact-tools")).to_have_text("none")
        expect(page.get_by_role("button", name="Mode no tools")).to_be_visible()


def test_context_and_cost_are_shown(tab: Tab) -> None:
    with many_chats() as chats:
        page = opened(tab, chats)
        usage = {"input_tokens": 24_000, "output_tokens": 1200, "cost": "0.0941"}
        first = chats.chats["c1"]
        expect(page.locator("#meter")).to_be_hidden()
        chats.do(lambda: first.set("ready", usage=usage, context_tokens=24_000, context_window=200_000))
        expect(page.locator("#meter")).to_have_text("12 % context · $0.094")
        chats.do(lambda: first.set("ready", usage={**usage, "cost": None, "known_cost": "2.5"}))
        expect(page.locator("#meter")).to_have_text("12 % context · ≥ $2.50")
        page.get_by_role("button", name="Details").click()
        expect(page.locator("#fact-context")).to_have_text("24,000 of 200,000 tokens, 12 %")
        expect(page.locator("#fact-tokens")).to_have_text("24,000 in, 1,200 out, at least $2.5000")
