"""Tests of `Outcome` and `OutcomeList`."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from support.notebooks import Notebook
from support.sync_and_async import API
from toolcast import Prices, ToolOrchestratingLLM, Usage
from toolcast.batch import Job, Outcome, OutcomeList
from toolcast.testing import ScriptedLLM, ScriptedRequest
from toolcast.values.prices import ModelPricing


def test_an_outcome_has_an_output_or_an_error() -> None:
    album, failed = Outcome(0, "a", {"topic": "sea"}, "an album"), Outcome(1, "b", None, error=ValueError("no"))
    assert (album.ok, album.error_text) == (True, None)
    assert (failed.ok, failed.error_text) == (False, "ValueError: no")


def test_the_cost_is_that_of_the_usage() -> None:
    usage = Usage(1_000_000, 0).with_pricing(ModelPricing("openai", ("x",), Prices(2, 4)))
    assert Outcome(0, "a", None, 1, usage=usage).cost == Decimal(2)
    assert Outcome(0, "a", None, 1, usage=Usage(5, 5)).cost is None


# In a notebook.


class Review(BaseModel):
    stars: int
    summary: str


def answer(request: ScriptedRequest) -> Any:
    text = request.messages[-1].text
    return {"stars": "many" if text == "odd" else 5, "summary": f"<b>{text}</b>"}


def call() -> ToolOrchestratingLLM[Review]:
    return ToolOrchestratingLLM(Review, "{text}", ScriptedLLM(answer))


def words(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


def test_the_outcomes_of_a_job_are_shown_while_they_arrive(api: API, notebook: Notebook) -> None:
    outcomes = api.show(call(), "map", [{"text": text} for text in ("good", "odd", "bad")], progress=False)
    assert isinstance(outcomes, OutcomeList)
    assert [outcome.ok for outcome in outcomes] == [True, False, True]
    last = notebook.frames[-1]
    shown = words(last.html)
    assert shown.startswith(
        " Outcomes input stars summary error 0 good 5 &lt;b&gt;good&lt;/b&gt; 1 odd ValidationError"
    )
    assert shown.endswith("3 outcomes, 1 failed, 30 tokens in, 15 out ")
    assert last.text.splitlines()[0] == '0 {"stars":5,"summary":"<b>good</b>"}'
    assert words(notebook.frames[0].html).endswith("0 outcomes, 0 failed, 0 tokens in, 0 out ")


def test_elsewhere_the_outcomes_are_printed_at_the_end(api: API, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(api.show(call(), "map", ["good"], progress=False)) == 1
    assert capsys.readouterr().out.splitlines()[1] == "1 outcomes, 0 failed, 10 tokens in, 5 out"


def test_outcomes_without_errors_have_no_column_for_them() -> None:
    html = words(OutcomeList([Outcome(0, "a", {"a": 1, "b": 2}, 7)])._repr_html_())
    assert html.startswith(" Outcomes input output 0 a 1 b 2 7 1 outcomes")


def test_outputs_with_many_fields_are_one_column() -> None:
    wide = dict.fromkeys(map(str, range(20)), 1)
    assert " input output " in words(OutcomeList([Outcome(0, "a", "x", wide)])._repr_html_())
    assert " input output " in words(
        OutcomeList([Outcome(0, "a", "x", {"a": 1}), Outcome(1, "b", "x", 5)])._repr_html_()
    )


def test_of_many_outcomes_the_first_are_shown() -> None:
    outcomes = OutcomeList([Outcome(at, str(at), "x", "long " * 100) for at in range(60)])
    assert "60 outcomes, 0 failed, 0 tokens in, 0 out (the first 50 are shown)" in words(outcomes._repr_html_())
    lines = outcomes.to_text().splitlines()
    assert len(lines) == 51
    assert max(map(len, lines)) == 200


def test_secrets_of_inputs_and_outputs_are_masked() -> None:
    class Login(BaseModel):
        key: SecretStr

    secret = Login(key=SecretStr("hunter2"))
    outcomes = OutcomeList([Outcome(0, "a", {"a": secret, "b": 1}, secret)])
    assert "hunter2" not in outcomes._repr_html_() + outcomes[0]._repr_html_() + outcomes.to_text()


def test_one_outcome() -> None:
    assert "output 5 requests 1" in words(Outcome(0, "a", "x", 5, attempts=1)._repr_html_())
    assert "error ValueError: &lt;no&gt;" in words(Outcome(0, "a", "x", error=ValueError("<no>"))._repr_html_())


def test_a_sample_an_estimate_and_saved_results_are_tables(tmp_path: Path) -> None:
    job = Job(call(), ["good", "odd", "bad"], progress=False)
    assert isinstance(job.sample(2), OutcomeList)
    html = words(job.estimate(2)._repr_html_())
    assert " Estimate items 2 of 3 items asked" in html
    assert " Outcomes input stars summary " in html
    saved = words(job.to_jsonl(tmp_path / "a.jsonl")._repr_html_())
    assert " done 2 " in saved and " failed 1 first error " in saved
    saved = words(Job(call(), ["good"], progress=False).to_jsonl(tmp_path / "b.jsonl")._repr_html_())
    assert " done 1 usage " in saved
