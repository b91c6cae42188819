"""rules.py: which calls a rule matches, and when that cannot be decided."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolcast.agents.permissions.rules import AtLeast, AtMost, Condition, Exactly, OneOf, Others, Rule, Under

JUDGED: list[tuple[Condition, Any, bool | None]] = [
    ("*.py", "a.py", True),
    ("*.py", "a.pyc", False),
    ("a", "A", False),
    ("", "", True),
    ("1", 1, None),
    ("*", None, None),
    ("*", ["a"], None),
    (True, True, True),
    (True, False, False),
    (True, 1, None),
    (True, "true", None),
    (1, True, None),
    (1, 1.0, True),
    (1, 2, False),
    (1.5, 1.5, True),
    (None, None, True),
    (None, 0, None),
    (OneOf("a", 1), "a", True),
    (OneOf("a", 1), 1, True),
    (OneOf("a", 1), "b", None),  # as text it could still be read as a number
    (OneOf("a", "*"), "b", False),
    (OneOf(), "b", False),
    (AtLeast(3), 3, True),
    (AtLeast(3), 2.9, False),
    (AtLeast(1), True, None),
    (AtLeast(3), "5", None),
    (AtLeast(3), float("nan"), None),
    (AtMost(3), 3, True),
    (AtMost(3), 4, False),
    (AtMost(3), None, None),
    (Exactly.of({"a": [1]}), {"a": [1]}, True),
    (Exactly.of({"a": [1]}), {"a": [True]}, False),
    (Others.of("c", {"c": 1, "a": [1]}), {"c": 2, "a": [1]}, True),
    (Others.of("c", {"c": 1, "a": [1]}), {"a": [1], "b": 1}, False),
    (Others.of("c", {"c": 1}), "c", False),
]


@pytest.mark.parametrize(("condition", "value", "expected"), JUDGED)
def test_a_condition_holds_or_not_or_cannot_tell(condition: Condition, value: Any, expected: bool | None) -> None:
    assert Rule("t", "allow", {"x": condition}).evaluate({"x": value}) is expected


def test_a_path_is_under_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "link").symlink_to(outside)
    monkeypatch.chdir(inside)
    monkeypatch.setenv("HOME", str(outside))
    under = Under(str(inside))
    judged = {
        "a/b": True,
        ".": True,
        str(inside): True,
        "../inside/a": True,
        "../outside/a": False,
        "link/a": False,
        f"{inside}2/a": False,
        "~/a": None,  # a name for one tool, a folder for another
        "$X/a": None,
        "*.py": None,
        "a\\..\\b": None,
        "a\0b": None,
    }
    assert {text: under.evaluate(text) for text in judged} == judged
    assert under.evaluate(Path("a")) is True
    assert under.evaluate(["a", "b"]) is True
    assert under.evaluate(["a", "../b"]) is False
    assert under.evaluate(["a", 1]) is None
    assert under.evaluate([]) is None
    assert under.evaluate(3) is None
    assert under.evaluate(FolderInBytes()) is None
    assert Under("~").evaluate(str(outside / "a")) is True
    assert Under("/").evaluate("/etc") is True
    assert Under(inside) == under  # type: ignore[arg-type]  # a Path is as good as its text


class FolderInBytes:
    def __fspath__(self) -> bytes:
        return b"a"


def test_all_conditions_have_to_hold() -> None:
    rule = Rule("t", "allow", {"x": "a*", "y": AtMost(3)})
    assert rule.evaluate({"x": "ab", "y": 1}) is True
    assert rule.evaluate({"x": "ab", "y": 4}) is False
    assert rule.evaluate({"x": "ab"}) is None
    assert rule.evaluate({"x": "b"}) is False
    assert rule.evaluate({"y": 1}, without="x") is True
    assert Rule("t", "allow").evaluate({}) is True


def test_dots_reach_into_objects() -> None:
    rule = Rule("t", "allow", {"options.force": True})
    assert rule.evaluate({"options": {"force": True}}) is True
    assert rule.evaluate({"options": {"force": False}}) is False
    assert rule.evaluate({"options": {}}) is None
    assert rule.evaluate({"options": [{"force": True}]}) is None
    assert rule.evaluate({}) is None
    assert rule.evaluate({"options.force": True}) is True
    assert rule.evaluate({"options.force": True, "options": {"force": False}}) is None


def test_no_name_is_all_arguments() -> None:
    rule = Rule("t", "allow", {"": Exactly.of({"a": 1})})
    assert rule.evaluate({"a": 1}) is True
    assert rule.evaluate({"a": 1, "b": 2}) is False


def test_tools_are_named_by_globs_in_their_very_case() -> None:
    assert Rule("fs_*", "allow").concerns("fs_read")
    assert not Rule("fs_*", "allow").concerns("FS_read")
    assert not Rule("fs", "allow").concerns("fs_read")


def test_a_rule_in_words() -> None:
    assert str(Rule("t", "allow")) == "allow t"
    assert str(Rule("t*", "deny", {"x": "a", "n": AtMost(3)})) == "deny t* where x is 'a' and n is AtMost(limit=3)"


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: Rule("", "allow"), "names tools with a glob"),
        (lambda: Rule(3, "allow"), "names tools with a glob"),  # type: ignore[arg-type]  # it is what is tested
        (lambda: Rule("t", "ask"), "'allow' or 'deny'"),  # type: ignore[arg-type]  # likewise
        (lambda: Rule("t", "allow", ["x"]), "conditions are"),  # type: ignore[arg-type]  # likewise
        (lambda: Rule("t", "allow", {"x": ["a"]}), "conditions are"),  # type: ignore[dict-item]  # likewise
        (lambda: Rule("t", "allow", {1: "a"}), "conditions are"),  # type: ignore[dict-item]  # likewise
        (lambda: OneOf(["a"]), "OneOf takes"),  # type: ignore[arg-type]  # likewise
        (lambda: AtLeast("3"), "a limit is a number"),  # type: ignore[arg-type]  # likewise
        (lambda: AtMost(True), "a limit is a number"),
        (lambda: AtMost(float("nan")), "a limit is a number"),
        (
            lambda: Rule.from_dict({"tool": "t", "action": "deny", "where": {"x": {"odd": 1}}}),
            "unknown condition 'odd'",
        ),
    ],
)
def test_what_is_no_rule_is_refused(made: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made()


def test_a_rule_keeps_its_own_conditions() -> None:
    where: dict[str, Condition] = {"x": "a"}
    rule = Rule("t", "allow", where)
    where["x"] = "*"
    assert rule.where == {"x": "a"}
    assert {rule: 1}[Rule("t", "allow", {"x": "a"})] == 1


PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
LIMITS = st.integers() | st.floats(allow_nan=False)
CONDITIONS = (
    PLAIN
    | st.lists(PLAIN, max_size=3).map(lambda values: OneOf(*values))
    | LIMITS.map(AtLeast)
    | LIMITS.map(AtMost)
    | st.text().map(Under)
    | st.dictionaries(st.text(), PLAIN).map(Exactly.of)
    | st.builds(Others.of, st.text(), st.dictionaries(st.text(), PLAIN))
)


@given(st.text(min_size=1), st.sampled_from(["allow", "deny"]), st.dictionaries(st.text(), CONDITIONS))
def test_a_rule_can_be_stored(tool: str, action: Any, where: dict[str, Condition]) -> None:
    rule = Rule(tool, action, where)
    assert Rule.from_dict(json.loads(json.dumps(rule.to_dict()))) == rule
    assert pickle.loads(pickle.dumps(rule)) == rule
