"""Tests of the review page and of samples."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from toolcast import Prices, ToolOrchestratingLLM, Usage
from toolcast.batch import Job, Outcome, review_page, write_review
from toolcast.testing import AutoLLM
from toolcast.values.prices import ModelPricing

PAID = Usage(1_000_000, 0).with_pricing(ModelPricing("openai", ("x",), Prices(2, 4)))


class Texts(HTMLParser):
    """The tags and texts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_page() -> None:
    page = Texts(
        review_page(
            [
                Outcome(0, "a", {"topic": "<i>sea</i>"}, {"title": "é"}, attempts=1, usage=PAID, seconds=1.25),
                Outcome(7, "b", "a text\nin lines", error=ValueError("<script>alert(1)</script>"), attempts=2),
                Outcome(8, "c", "\x1b[31m" + "x" * 30_000, 3),
            ],
            "Review & more",
        )
    )
    assert not {"script", "i", "img", "link"} & set(page.tags)
    text = "".join(page.texts)
    for shown in ("Review & more", "3 items, 1 failed", "<i>sea</i>", '"title": "é"', "ValueError: <script>"):
        assert shown in text
    assert "a text\nin lines" in text
    assert "1 request" in page.texts
    assert "2 requests" in page.texts
    assert "1.2 s" in page.texts
    assert f"${Decimal(2):.6f}" in page.texts
    assert "… 10005 more characters" in text
    assert "\x1b" not in text


def test_the_file_is_the_owners(tmp_path: Path) -> None:
    path = tmp_path / "look.html"
    path.write_text("x" * 100_000)
    path.unlink()
    write_review([Outcome(0, "a", 1, 2)], path)
    assert "<title>look</title>" in path.read_text(encoding="utf-8")
    assert "1 items" in path.read_text(encoding="utf-8")
    if os.name == "posix":
        assert path.stat().st_mode & 0o777 == 0o600
    write_review([], path, "again")
    assert path.read_text(encoding="utf-8").endswith("</html>\n")


def test_a_sample_of_a_job(tmp_path: Path) -> None:
    call = ToolOrchestratingLLM(int, "How long is {text}?", AutoLLM())
    job = Job(call, [f"text {n}" for n in range(10)])
    outcomes = job.sample(5, tmp_path / "sample.html")
    assert [outcome.index for outcome in outcomes] == [1, 3, 5, 7, 9]
    assert all(outcome.ok for outcome in outcomes)
    assert "text 9" in (tmp_path / "sample.html").read_text(encoding="utf-8")
    assert len(job.sample()) == 10
    assert len(list(job.run())) == 10


def test_a_sample_of_an_iterator_is_its_beginning_and_a_run_reads_it_again() -> None:
    call = ToolOrchestratingLLM(int, "How long is {text}?", AutoLLM())
    job = Job(call, iter([f"text {n}" for n in range(4)]))
    assert [outcome.input for outcome in job.sample(2)] == ["text 0", "text 1"]
    assert [outcome.input for outcome in job.run()] == ["text 0", "text 1", "text 2", "text 3"]


def test_a_sample_needs_one_at_least_and_no_loop() -> None:
    async def numbers() -> AsyncIterator[Any]:
        yield 1

    call = ToolOrchestratingLLM(int, "How long is {text}?", AutoLLM())
    with pytest.raises(ValueError, match="a sample of 0 inputs: expected at least 1"):
        Job(call, [1]).sample(0)
    with pytest.raises(TypeError, match="the size of a sample: expected a whole number or None, got str"):
        Job(call, [1]).sample("3")  # type: ignore[arg-type]  # for the test
    with pytest.raises(TypeError, match="a sample reads no async iterable"):
        Job(call, numbers()).sample(1)
