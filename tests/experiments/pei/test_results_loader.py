"""The results of PEI assessments, read from files of all forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolcast.experiments.pei.agreement import PEIResult
from toolcast.experiments.pei.assessment_files import ResultsError, ResultsFile, read_results, results_of

ONE = PEIResult("run", "local:smollm2", 3, "Level\u2028 3.", "2026-09-21T12:00:00Z")
TWO = PEIResult("run", "openai:gpt", None, "Hm.", "2026-09-21T12:00:01Z")
OTHER = PEIResult("other", "openai:gpt", 10, "10", "2026-09-21T12:00:02Z")


@pytest.mark.parametrize("ending", [".json", ".jsonl"])
@pytest.mark.parametrize("results", [(ONE,), (ONE, TWO, OTHER)])
def test_what_an_assessment_writes_is_read(tmp_path: Path, ending: str, results: tuple[PEIResult, ...]) -> None:
    file = ResultsFile(tmp_path / f"results{ending}")
    for result in results:
        file.add(result)
    assert [*read_results(file.path)] == [*results]


@pytest.mark.parametrize("form", [json.dumps, lambda data: "\ufeff" + json.dumps(data, indent=2)])
def test_a_list_is_read(tmp_path: Path, form: Any) -> None:
    path = tmp_path / "results.json"
    path.write_text(form([ONE.to_dict(), OTHER.to_dict()]), encoding="utf-8")
    assert [*read_results(path)] == [ONE, OTHER]


def test_results_of_other_runs_are_left_out_and_equal_ones_count_once(tmp_path: Path) -> None:
    lines, document = ResultsFile(tmp_path / "a.jsonl"), ResultsFile(tmp_path / "b.json")
    for result in (ONE, OTHER, TWO):
        lines.add(result)
    document.add(ONE)
    assert results_of({"run"}, [lines.path, document.path]) == (ONE, TWO)
    assert results_of({"run", "other"}, [lines.path]) == (ONE, OTHER, TWO)
    assert results_of({"run"}, []) == ()


def test_what_is_not_needed_may_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('\n{"run_id": "r", "evaluator_model": "m", "pei_rating": 1, "timestamp": 7}\n\n')
    assert [*read_results(path)] == [PEIResult("r", "m", 1, "", "")]


def test_a_last_line_that_was_cut_off_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    whole = json.dumps(ONE.to_dict()) + "\n"
    for cut in range(len(whole) - 2):
        path.write_text(whole + whole[:cut], encoding="utf-8")
        assert [*read_results(path)] == [ONE]


GOOD = {"run_id": "r", "evaluator_model": "m", "pei_rating": 1}


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("# A page", "line 1: not JSON"),
        ("[" * 100_000, "line 1: not JSON"),
        ('{"a": 1}\nnonsense\n{"a": 2}\n', "line 1: a result has run_id"),
        (json.dumps(GOOD) + "\nnonsense\n", "line 2: not JSON"),
        ('"text"', "holds no results"),
        ('{"results": {}}', "holds no results"),
        ('{"results": [7]}', "result 1: a result has run_id"),
        (json.dumps({"run_id": "r", "evaluator_model": "m"}), "this one has ['run_id', 'evaluator_model']"),
        (json.dumps(GOOD | {"run_id": 5}), "result 1: a result has"),
        (json.dumps(GOOD | {"evaluator_model": None}), "result 1: a result has"),
        (json.dumps(GOOD | {"pei_rating": 11}), "from 1 to 10, or null; this one is 11"),
        (json.dumps(GOOD | {"pei_rating": 0}), "this one is 0"),
        (json.dumps(GOOD | {"pei_rating": True}), "this one is True"),
        (json.dumps(GOOD | {"pei_rating": "7"}), "this one is '7'"),
    ],
)
def test_what_holds_no_results_is_reported(tmp_path: Path, text: str, reported: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ResultsError) as raised:
        [*read_results(path)]
    assert reported in str(raised.value) and str(path) in str(raised.value)


def test_an_empty_file_has_none(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.touch()
    assert [*read_results(path)] == []


def test_a_file_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        results_of({"run"}, [tmp_path / "none.jsonl"])
