"""A search for tools by a real model, SmolLM2 with 135 million parameters.

Which tools fit is beyond a model that small: it names those that stand first. What it can do is to write scores that
are valid, of tools that are there, and not too many: the grammar of its answer holds it to that.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from support.labelled_tools import TOOLS
from toolcast import LlamaCpp, Settings, user
from toolcast.agents.tool_search.tool_search import LLMSearch, SearchContext
from toolcast.async_support import sync_driver
from toolcast.llms.local.llama_server import ServerOptions
from toolcast.values.usage import Usage

pytestmark = pytest.mark.networked

SOME = [tool for tool in TOOLS if tool.name in ("get_current_weather", "send_email", "play_music", "delete_file")]
MESSAGES = [user("What's the weather in Paris?")]
EXACT = Settings(temperature=0, max_tokens=300, extra={"cache_prompt": False})


@pytest.fixture(scope="module")
def llm(smollm2: Path) -> Iterator[LlamaCpp]:
    # One thread: llama.cpp's wait for each other by spinning, and a core may be taken.
    with LlamaCpp(smollm2, server=ServerOptions(threads=1)) as made:
        yield made


def test_it_names_tools_that_are_there_on_both_apis(llm: LlamaCpp) -> None:
    search, costs = LLMSearch(limit=2, threshold=0, fallback=False, settings=EXACT), list[Usage]()
    found = sync_driver.run(search(MESSAGES, SOME, SearchContext(llm, paid=costs.append)))
    again = anyio.run(search, MESSAGES, SOME, SearchContext(llm, concurrent=True, paid=costs.append))
    assert found == again
    assert 1 <= len(found) <= 2 and set(found) <= set(SOME)
    assert costs[0] == costs[1] and costs[0].output_tokens > 20


def test_cut_off_it_leaves_the_choice_to_the_words(llm: LlamaCpp, caplog: pytest.LogCaptureFixture) -> None:
    search = LLMSearch(limit=2, settings=EXACT.with_(max_tokens=5))
    with caplog.at_level(logging.WARNING, "toolcast"):
        found = sync_driver.run(search(MESSAGES, SOME, SearchContext(llm)))
    assert [tool.name for tool in found] == ["get_current_weather"]
    assert "max_tokens" in caplog.text
