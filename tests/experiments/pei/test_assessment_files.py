"""experiments/pei/assessment_files.py: results in files, whole at any time; and how far they agree."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from statistics import stdev
from typing import Any

import pytest
from hypothesis import given, strategies as st

from support.process import Process
from toolcast import ToolcastError
from toolcast.experiments.pei.agreement import (
    EvaluatorRatings,
    PairsOfRatings,
    PEIResult,
    agreement,
    krippendorff_alpha,
)
from toolcast.experiments.pei.assessment_files import ResultsFile

TIME = "2026-11-22T10:00:00.000000Z"


def result(rating: int | None = 6, evaluator: str = "m-1", run_id: str = "first", response: str = "So 6.") -> PEIResult:
    return PEIResult(run_id, evaluator, rating, response, TIME)


FIRST = {
    "run_id": "first",
    "evaluator_model": "m-1",
    "pei_rating": 6,
    "pei_response": "So 6.",
    "timestamp": TIME,
}


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_x12_the_fields_of_a_result() -> None:
    assert list(result().to_dict().items()) == list(FIRST.items())


def test_1e6_lines_are_added_and_folders_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "pei_results.jsonl"
    for rating in (6, None):
        ResultsFile(path).add(result(rating))
    assert lines(path) == [FIRST, {**FIRST, "pei_rating": None}]


def test_a_line_is_in_the_file_before_the_next_is_asked_for(tmp_path: Path) -> None:
    file = ResultsFile(tmp_path / "r.jsonl")
    file.add(result())
    assert lines(file.path) == [FIRST]
    file.add(result(7))
    assert len(lines(file.path)) == 2


def test_a_torn_line_of_another_program_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(b'{"run_id": "fi')
    ResultsFile(path).add(result())
    torn, whole = path.read_bytes().splitlines()
    assert torn == b'{"run_id": "fi' and json.loads(whole) == FIRST


def test_many_at_once_spoil_no_line(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    one_at_a_time = ResultsFile(path)
    one_at_a_time.add(result())

    def work() -> None:
        file = ResultsFile(path)
        for _ in range(50):
            file.add(result())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lines(path) == [FIRST] * 201


@pytest.mark.parametrize("response", ["a\nb", "\u2028\x85é", "\ud800", '"', "\x00"])
def test_any_response_is_one_line_of_json(tmp_path: Path, response: str) -> None:
    path = tmp_path / "r.jsonl"
    ResultsFile(path).add(result(response=response))
    [line] = path.read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["pei_response"] == response


def test_one_result_as_a_document(tmp_path: Path) -> None:
    path = tmp_path / "first_pei.JSON"
    path.write_text("what was there")
    ResultsFile(path).add(result())
    assert path.read_text(encoding="utf-8") == json.dumps(FIRST, indent=2) + "\n"


def test_several_results_as_a_document(tmp_path: Path) -> None:
    file = ResultsFile(tmp_path / "new" / "r.json")
    results = [result(6), result(7, "m-2")]
    for each in results:
        file.add(each)
    found = json.loads(file.path.read_bytes())
    assert found["results"] == [each.to_dict() for each in results]
    assert found["agreement"] == json.loads(json.dumps(agreement(results).to_dict()))
    assert [path.name for path in file.path.parent.iterdir()] == ["r.json"]


def test_a_place_that_cannot_be_written_is_reported_before_anyone_is_asked(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path, tmp_path / "file" / "r.jsonl"):
        with pytest.raises(ToolcastError, match=r"cannot be written: .*--output"):
            ResultsFile(path)


def test_a_file_or_folder_that_may_not_be_written(tmp_path: Path, process: Process) -> None:
    (tmp_path / "old.json").write_text("kept")
    looked_at: list[Path] = []
    process.call("access", lambda path, mode: looked_at.append(path))
    for name in ("old.json", "new.json"):
        with pytest.raises(ToolcastError, match=r"cannot be written: .*--output") as caught:
            ResultsFile(tmp_path / name)
        assert isinstance(caught.value.__cause__, PermissionError)
    assert looked_at == [tmp_path / "old.json", tmp_path]


def test_nothing_is_left_where_nothing_was_added(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text("kept")
    for name in ("new.jsonl", "new.json", "old.json"):
        ResultsFile(tmp_path / name)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("old.json", "kept")]


@pytest.mark.parametrize("name", ["r.json", "r.jsonl"])
def test_what_the_file_system_refuses_later_is_reported(tmp_path: Path, name: str) -> None:
    file = ResultsFile(tmp_path / name)
    file.path.mkdir()
    with pytest.raises(ToolcastError, match=name):
        file.add(result())
    assert [path.name for path in tmp_path.iterdir()] == [name]


# Agreement.


def test_agreement_of_evaluators_and_repeats() -> None:
    found = agreement(
        [
            *[result(level, "m-1", "a") for level in (6, 7, None)],
            result(6, "m-2", "a"),
            result(2, "m-1", "b"),
            result(4, "m-2", "b"),
            result(None, "m-3", "b"),
        ]
    )
    assert found.evaluators == (
        EvaluatorRatings("m-1", 3, 1, 5.0, 2, 7, stdev([6, 7, 2])),
        EvaluatorRatings("m-2", 2, 0, 5.0, 4, 6, stdev([6, 4])),
        EvaluatorRatings("m-3", 0, 1, None, None, None, None),
    )
    assert found.same_evaluator == PairsOfRatings(1, 0.0, 1.0)
    assert found.evaluators_apart == PairsOfRatings(3, 1 / 3, 1.0)
    assert found.alpha == krippendorff_alpha([[6, 7, None, 6], [2, 4, None]])


def test_one_rating_agrees_with_nothing() -> None:
    found = agreement([result()])
    assert found.evaluators == (EvaluatorRatings("m-1", 1, 0, 6.0, 6, 6, None),)
    assert (found.same_evaluator, found.evaluators_apart, found.alpha) == (None, None, None)


def test_nothing_at_all() -> None:
    assert agreement([]).to_dict() == {
        "evaluators": (),
        "same_evaluator": None,
        "evaluators_apart": None,
        "alpha": None,
    }


def test_alpha_of_krippendorffs_own_example() -> None:
    # Four observers, twelve units, values missing: ordinal alpha is 0.815 in his paper of 2011, section E.
    ratings = [
        "123321412...",
        "123322412 5.3".replace(" ", ""),
        ".333234225 1.".replace(" ", ""),
        "1233244125 1.".replace(" ", ""),
    ]
    observers = [[None if sign == "." else int(sign) for sign in row] for row in ratings]
    alpha = krippendorff_alpha(zip(*observers, strict=True))
    assert alpha is not None and round(alpha, 3) == 0.815


def test_alpha_is_one_where_all_agree_and_negative_where_they_do_worse_than_chance() -> None:
    assert krippendorff_alpha([[1, 1], [5, 5, 5], [9, 9]]) == 1
    alpha = krippendorff_alpha([[1, 10], [10, 1]])
    assert alpha is not None and alpha < 0


@pytest.mark.parametrize("units", [[], [[6, 7, 8]], [[6], [7]], [[6, None], [7, None]], [[6, 6], [6, 6]]])
def test_alpha_is_not_defined_for_too_little(units: list[list[int | None]]) -> None:
    assert krippendorff_alpha(units) is None


@given(st.lists(st.lists(st.none() | st.integers(1, 10), max_size=5), max_size=5))
def test_alpha_is_at_most_one_whatever_the_order(units: list[list[int | None]]) -> None:
    alpha = krippendorff_alpha(units)
    assert alpha is None or alpha <= 1
    assert krippendorff_alpha([unit[::-1] for unit in units[::-1]]) == pytest.approx(alpha)
