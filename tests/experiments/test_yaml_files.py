"""YAML: lines of keys, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st

from toolcast.experiments.config_errors import ConfigError, WrongValue
from toolcast.experiments.yaml_files import BadYAML, read_yaml


def test_values_and_their_lines() -> None:
    value, source = read_yaml("a: 1\nb:\n  c: [x,\n    y]\n  d: {e: 2}\n", "c.yaml")
    assert value == {"a": 1, "b": {"c": ["x", "y"], "d": {"e": 2}}}
    assert source.file == "c.yaml"
    assert source.lines == {
        ("a",): 1,
        ("b",): 2,
        ("b", "c"): 3,
        ("b", "c", 0): 3,
        ("b", "c", 1): 4,
        ("b", "d"): 5,
        ("b", "d", "e"): 5,
    }


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"])
def test_nothing_is_none(text: str) -> None:
    assert read_yaml(text, "c.yaml")[0] is None


def test_anchors_and_merges() -> None:
    value, source = read_yaml("a: &x {b: 1}\nc: *x\nd:\n  <<: *x\n  e: 2\n", "c.yaml")
    assert value == {"a": {"b": 1}, "c": {"b": 1}, "d": {"b": 1, "e": 2}}
    assert (source.line(("a", "b")), source.line(("c", "b")), source.line(("d", "b"))) == (1, 2, 3)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: [2\n", 3, "c.yaml, line 3, column 1: this is no YAML: expected ',' or ']'"),
        ("a: 1\n\tb: 2\n", 2, "line 2, column 1: this is no YAML: found character '\\t' that cannot start any token"),
        ("a: b: c\n", 1, "mapping values are not allowed here, at: a: b: c. Look there for a missing colon or quote"),
        ("a: 'x\n", 2, "found unexpected end of stream, at the end"),
        ("a: *x\n", 1, "line 1, column 4: this is no YAML: found undefined alias 'x'"),
        ("a: 1\n---\nb: 2\n", 2, "but found another document"),
        ("a: !!python/object/apply:os.system [ls]\n", 1, "could not determine a constructor for the tag"),
        ("a: 1\nb: \x00\n", 2, "c.yaml, line 2: this is no YAML: special characters are not allowed"),
        ("a: 2026-13-01\n", 0, "c.yaml: this is no YAML: month must be in 1..12"),
        ("? [a, b]\n: 1\n", 1, "found unhashable key"),
    ],
)
def test_x1_bad_yaml_is_reported_with_line_and_column(text: str, line: int, words: str) -> None:
    with pytest.raises(yaml.YAMLError) as raised:
        read_yaml(text, "c.yaml")
    assert isinstance(raised.value, BadYAML)
    assert words in str(raised.value)
    assert raised.value.faults[0].line == line


def test_what_a_line_holds_cannot_control_a_terminal() -> None:
    with pytest.raises(BadYAML) as raised:
        read_yaml("a: b: \x85\u202e\n", "c.yaml")
    assert "\u202e" not in str(raised.value)


def test_a_key_that_is_there_twice_is_refused() -> None:
    with pytest.raises(WrongValue) as raised:
        read_yaml("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\na: 2\n", "c.yaml")
    assert str(raised.value).splitlines() == [
        "c.yaml, line 5: b.c is there twice. Take one of them out",
        "c.yaml, line 6: a is there twice. Take one of them out",
    ]


def test_an_alias_inside_of_what_it_stands_for_is_refused() -> None:
    with pytest.raises(WrongValue, match=r"c\.yaml, line 1: a\.0 holds itself"):
        read_yaml("a: &x [*x]\n", "c.yaml")


@pytest.mark.fault(138)
def test_aliases_of_aliases_take_no_time() -> None:
    """A few lines that stand for a billion values: they are read as what they are, and not written out."""
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)]
    value, source = read_yaml("\n".join(lines), "c.yaml")
    assert value["a59"][0] is value["a58"]
    assert len(source.lines) == 180


@given(st.text(st.sampled_from("ab:- \n\t[]{}&*!'\"|>#%@<=1.0\x00\ud800é"), max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        value, source = read_yaml(text, "c.yaml")
    except ConfigError as error:
        assert error.faults
    else:
        if isinstance(value, dict):
            assert all(isinstance(line, int) and line > 0 for line in source.lines.values())


@given(
    st.recursive(
        st.integers() | st.text("abc", max_size=3),
        lambda inner: st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=4),
        max_leaves=10,
    )
)
def test_every_key_has_its_line(value: Any) -> None:
    text = yaml.safe_dump(value)
    read, source = read_yaml(text, "c.yaml")
    assert read == value
    lines = text.splitlines()
    for place, line in source.lines.items():
        assert str(place[-1]) in lines[line - 1]
