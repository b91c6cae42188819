"""Tests of the options of a job: each wrong value is refused before anything is read or sent."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from toolcast import ToolOrchestratingLLM
from toolcast.batch import Job
from toolcast.batch.job_options import JobOptions
from toolcast.testing import ScriptedLLM


class City(BaseModel):
    name: str


WRONG: list[tuple[str, Any, str]] = [
    ("key", 3, "key: expected a function of an input, the name of a field, or None, got int"),
    ("max_concurrency", 0, "max_concurrency=0: expected a number above 0"),
    ("max_concurrency", 2.5, "max_concurrency: expected a whole number or None, got float"),
    ("rpm", -1, "rpm=-1: expected a number above 0"),
    ("rpm", float("nan"), "rpm=nan: expected a number above 0"),
    ("rpm", True, "rpm: expected a number or None, got bool"),
    ("tpm", "60", "tpm: expected a number or None, got str"),
    ("ordered", "no", "ordered: expected True or False, got str"),
    ("ask_once", 1, "ask_once: expected True or False, got int"),
    ("by_prefix", None, "by_prefix: expected True or False, got NoneType"),
    ("checkpoint", 3, "checkpoint: expected the path of a file or None, got int"),
    ("budget", 5, "budget: expected a Budget or None, got int"),
    ("on_error", "stop", "on_error='stop': expected 'outcome' or 'raise'"),
    ("via", "mail", "via='mail': expected 'live' or 'batch'"),
    ("poll", 0, "poll=0: expected a number above 0"),
    ("reask", None, "reask=None: expected 'live' or 'batch'"),
    ("progress", "no", "progress: expected True, False, a function of a ProgressSnapshot, or None, got str"),
]


@pytest.mark.parametrize(("name", "value", "problem"), WRONG)
def test_a_wrong_value(name: str, value: Any, problem: str) -> None:
    llm = ScriptedLLM("x")
    options: Any = {name: value}
    with pytest.raises((TypeError, ValueError)) as caught:
        Job(ToolOrchestratingLLM(City, "{name}", llm), ["Lima"], **options)
    assert str(caught.value).startswith(problem)
    assert llm.requests == []


def test_each_option_has_a_wrong_value() -> None:
    assert {name for name, _, _ in WRONG} == set(JobOptions.__annotations__)
