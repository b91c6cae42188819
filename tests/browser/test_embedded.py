"""`toolcast web` as it is typed: the command, the embedded model and the page, end to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright, run `nox -s browser`: NOT TESTED HERE")
expect = sync_api.expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

COMMAND = [sys.executable, "-c", "from toolcast.apps.cli import main; raise SystemExit(main())"]
SERVICES = ("OLLAMA_HOST", "OLLAMA_MODEL", "OLLAMA_API_KEY")


@pytest.fixture
def process(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The server."""
    environment = {name: value for name, value in os.environ.items() if name not in SERVICES}
    with subprocess.Popen(
        [*COMMAND, "web", "--port", "0", "--no-browser", "--system", "Answer in one short sentence."],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment,
    ) as process:
        yield process
        process.kill()


WRITES_OR_HAS_WRITTEN = """() =>
  document.querySelector(".live .prose")?.textContent
  || (document.getElementById("state").textContent === "ready" && document.querySelectorAll(".message").length === 4)
"""


def test_the_embedded_model_answers_is_interrupted_and_remembered(
    tab: Callable[[str], Page], process: subprocess.Popen[str]
) -> None:
    assert process.stdout is not None
    page = tab(process.stdout.readline().strip())
    expect(page.locator("#state")).to_have_attribute("data-state", "ready", timeout=30_000)
    expect(page.locator("#model-name")).to_have_text("local:smollm2")
    box = page.get_by_role("textbox", name="Your message")
    box.fill("What is the capital of France?")
    box.press("Enter")
    answers = page.locator(".message.assistant .prose")
    expect(page.locator("#fact-tokens")).not_to_have_text("0 in, 0 out", timeout=30_000)  # the answer is whole
    expect(page.locator("#state")).to_have_text("ready")
    expect(answers).to_have_count(1)
    expect(answers).not_to_be_empty()
    box.fill("Count from 1 to 1000, each number on a line of its own.")
    box.press("Enter")
    page.wait_for_function(WRITES_OR_HAS_WRITTEN)
    page.evaluate("document.getElementById('stop').click()")  # harmless where the model was faster
    expect(page.locator("#state")).to_have_text("ready")
    message = page.locator(".message").all_text_contents()
    assert len(message) == 4
    page.reload()
    expect(page.locator(".message")).to_have_text(message)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
