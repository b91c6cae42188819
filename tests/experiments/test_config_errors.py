"""The errors of configurations: their classes, and that they can travel between processes."""

from __future__ import annotations

import copy
import pickle

import pytest

from toolcast.errors import ToolcastError
from toolcast.experiments.config_errors import (
    NOWHERE,
    ConfigError,
    ConfigFileNotFound,
    ConfigProblem,
    ConfigSource,
    MissingField,
    UnknownKey,
    WrongType,
    WrongValue,
    error_of,
    problem_at,
    shortened,
)
from toolcast.experiments.yaml_files import BadYAML

CLASSES = [ConfigError, MissingField, WrongType, UnknownKey, WrongValue, ConfigFileNotFound, BadYAML]


@pytest.mark.parametrize("kind", CLASSES)
def test_every_class_is_a_toolcast_error_with_its_text_unchanged(kind: type[ConfigError]) -> None:
    error = kind("it's wrong", [ConfigProblem(kind, "it's wrong", "a.b", 3)])
    assert isinstance(error, ToolcastError)
    assert str(error) == "it's wrong"
    assert error.faults[0].line == 3
    assert (str(kind()), kind().faults) == ("", ())


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_can_be_copied_and_pickled(kind: type[ConfigError], copied: object) -> None:
    error = kind("wrong", [ConfigProblem(kind, "wrong", "a", 1)])
    again = copied(error)  # type: ignore[operator]  # any of the three ways
    assert (type(again), str(again), again.faults) == (kind, "wrong", error.faults)


def test_what_is_missing_comes_first_and_then_the_lines() -> None:
    faults = [
        ConfigProblem(WrongValue, "line 9", line=9),
        ConfigProblem(WrongType, "line 2", line=2),
        ConfigProblem(MissingField, "missing"),
        ConfigProblem(UnknownKey, "line 5", line=5),
    ]
    error = error_of(faults)
    assert isinstance(error, KeyError)
    assert str(error) == "missing\nline 2\nline 5\nline 9"
    assert isinstance(error_of(faults[:2]), WrongType)


def test_a_fault_is_reported_with_the_nearest_line_that_is_known() -> None:
    source = ConfigSource("c.yaml", {("a",): 3, ("a", "b"): 4})
    assert problem_at(WrongValue, ("a", "b", 0), "is odd", source).text == "c.yaml, line 4: a.b.0 is odd"
    assert problem_at(WrongValue, ("a", "x"), "is odd", source) == ConfigProblem(
        WrongValue, "c.yaml, line 3: a.x is odd", "a.x", 3
    )
    assert problem_at(WrongValue, ("z",), "is odd", source).text == "c.yaml: z is odd"
    assert problem_at(WrongValue, ("z",), "is odd", NOWHERE).text == "z is odd"


def test_a_fault_cannot_control_a_terminal() -> None:
    assert problem_at(WrongValue, ("\x1b[2J",), "is odd").text == "\\x1b[2J is odd"


def test_long_values_are_shortened() -> None:
    assert shortened("a" * 60) == "a" * 60
    assert shortened("a" * 61) == "a" * 59 + "…"
